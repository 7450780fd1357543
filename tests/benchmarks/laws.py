"""The exact law of each at-risk cell under a decomposable release, beside the same chain of matrices in NumPy."""

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from sdc.api import find_release
from sdc.data.reading import read_table
from sdc.intruder.cell_laws import CellLaws
from sdc.intruder.hypergeometric import cell_laws
from sdc.model.knowledge import Knowledge
from sdc.model.marginal import CellMarginals
from sdc.model.table import Codes, Table
from tests.benchmarks.measure import DATA, Limits, NotMeasured, Row, check, lacks, one_core, seconds
from tests.strategies import czech, knows

RIVAL, FILE, SMALL_COUNT, ROUNDS, SAMPLE, STEPS = "NumPy", "cps13.parquet", 2, 3, 200, 20_000

Law = npt.NDArray[np.float64]


def rows(short: bool, limits: Limits) -> list[Row | NotMeasured]:
    """CPS-13 under the release that annealing finds for width 3; the short form is the Czech table at width 6."""
    job = f"exact law of an at-risk cell, decomposable release ({'Czech table' if short else 'CPS-13'})"
    if absent := lacks(job, RIVAL, files=() if short else [FILE]):
        return list(absent)
    table = czech() if short else read_table(DATA / FILE)
    release = find_release(
        table, "decomposable", min_width=6 if short else 3, steps=STEPS // (20 if short else 1)
    ).release
    known, cells = knows(table, release), table.codes[table.at_risk(SMALL_COUNT)]
    sample = np.random.default_rng(0).permutation(len(cells))[:SAMPLE]
    cell_laws(table, known, cells[:1])  # kernels are loaded
    ours, theirs = list[float](), list[float]()
    with one_core():
        for _ in range(1 if short else ROUNDS):
            found, plain = list[CellLaws](), list[Law]()
            ours.append(seconds(lambda: found.append(cell_laws(table, known, cells))) / len(cells))  # noqa: B023
            theirs.append(seconds(lambda: plain.extend(by_numpy(table, known, cells[sample]))) / len(sample))  # noqa: B023
            for row, law in zip(sample.tolist(), plain, strict=True):
                own = found[0].of(row)
                there = law[found[0].first[row] :][: len(own)]
                check(bool(np.allclose(there, own, atol=1e-9)), f"{job}: cell {row} has another law by {RIVAL}")
    note = f"one core; all {len(cells):,} cells, {len(sample)} of them in NumPy, without reading; the same laws"
    return [Row(job, RIVAL, ours, theirs, unit="a cell", note=note)]


def by_numpy(table: Table, known: Knowledge, cells: Codes) -> list[Law]:
    """Clique by clique, a matrix of hypergeometric probabilities times the law so far; from a count of 0 on."""
    tree = known.structure.decomposition
    if tree is None or known.structure.varying & ~tree.variables:
        raise RuntimeError("the release is not decomposable, or a variable is in no clique")
    marginals = CellMarginals(table, cells)
    cliques = [marginals.at(c) for c in tree.cliques]
    separators = [np.full(len(cells), table.total) if s == 0 else marginals.at(s) for s in tree.separators]
    found = []
    for i in range(len(cells)):
        law = np.zeros(cliques[0][i] + 1)
        law[-1] = 1.0
        for clique, separator in zip(cliques[1:], separators, strict=True):
            n, draws = int(separator[i]), int(clique[i])
            m = np.flatnonzero(law > 1e-30)
            k = np.arange(min(int(m[-1]), draws) + 1)
            law = law[m] @ np.exp(log_probabilities(n, m[:, None], draws, k[None]))
        found.append(law)
    return found


def log_probabilities(n: int, m: npt.NDArray[np.int64], draws: int, k: npt.NDArray[np.int64]) -> Law:
    """Hypergeometric: k of m among so many draws from n."""

    def choose(a: npt.NDArray[np.int64], b: npt.NDArray[np.int64]) -> Law:
        inside = (b >= 0) & (b <= a)
        b = np.where(inside, b, 0)
        return np.where(inside, gammaln(a + 1.0) - gammaln(b + 1.0) - gammaln(a - b + 1.0), -np.inf)

    whole = gammaln(n + 1.0) - gammaln(draws + 1.0) - gammaln(n - draws + 1.0)
    return choose(m, k) + choose(n - m, draws - k) - whole
