"""The intruder's posterior: exact laws beside plain NumPy, draws of whole tables, and chains beside the enumeration.

    python tests/benchmarks/posterior.py [laws forty chains random records]

On one core. `laws`: all at-risk cells of cps13 under the best decomposable release at min width 3, and a sample of them
by plain NumPy; draws, and how far their shares are from the laws. `forty`: 300,000 records of 40 variables in as many
cells of 2^80, under a chain of sub-tables of five. `chains`: accepted moves and draws a second on the Czech table
beside draws from the list of its 810 tables, and by how many standard errors each probability is missed, of 20 seeds.
`random`: the same of 300 small tables of every kind. `records`: chains of records on the at-risk cells of cps13 under
a decomposable release, 4 of 75 draws. Some thirty minutes.
"""

from __future__ import annotations

import sys
from contextlib import suppress

import numpy as np
import numpy.typing as npt
from arviz_stats.base import array_stats
from border import forty
from hypothesis import Phase, given, seed, settings
from scipy.special import gammaln
from side_by_side import ROOT, check, data_file, machine, one_core, peak_mib, say, seconds, show

from sdc.api import decomposable_release
from sdc.executor import IN_PROCESS
from sdc.ingest.reading import read_table
from sdc.intruder.cell_laws import CellLaws
from sdc.intruder.chains import ChainUnit, Drawn, Sampling, run_chain, sampled
from sdc.intruder.draws import Draws
from sdc.intruder.enumerated import Enumerated, TooManyTablesError, enumerated
from sdc.intruder.hypergeometric import cell_laws, log_probability
from sdc.intruder.laws import Law, law_of
from sdc.model.knowledge import Knowledge
from sdc.model.marginal import CellMarginals
from sdc.model.release import NOTHING, Release
from sdc.model.table import Codes, Table
from sdc.stages.known import release_of

sys.path.append(str(ROOT))
from tests.intruder.errors import errors_of
from tests.strategies import every_cell, knows, tables_and_knowledge

SAMPLE, DRAWS, SEEDS = 200, 40, 20
TABLES, MOST_TABLES, RANDOM_DRAWS, RECORD_DRAWS = 300, 20_000, 200, 75
LAWS = ("uniform", "released", "saturated")
CZECH = ["A*B*C*D*E", "A*B*D*E*F", "A*C*D*E*F", "A*B*C*F", "B*C*D*F", "B*C*E*F"]


def main() -> None:
    chosen = sys.argv[1:] or ["laws", "forty", "chains", "random", "records"]
    with one_core() as pinned:
        say(f"{machine()}; {pinned}")
        if "laws" in chosen:
            table = read_table(data_file("cps13.parquet"))
            found = decomposable_release(table, NOTHING, min_width=3, steps=20_000).release
            of_decomposable("cps13", table, found, table.codes[table.at_risk(2)])
        if "forty" in chosen:
            table = forty()
            fives = Release.of(31 << v for v in range(len(table.schema) - 4))
            of_decomposable("40 variables", table, fives, table.codes)
        if "chains" in chosen:
            of_chains()
        if "random" in chosen:
            of_random_tables()
        if "records" in chosen:
            of_records()


def of_decomposable(name: str, table: Table, release: Release, cells: Codes) -> None:
    known = knows(table, release)
    cell_laws(table, known, cells[:1])
    laws: list[CellLaws] = []
    exact = seconds(lambda: laws.append(cell_laws(table, known, cells)))
    rows = np.random.default_rng(0).choice(len(cells), SAMPLE, replace=False)
    plain: list[npt.NDArray[np.float64]] = []
    each = seconds(lambda: plain.extend(by_numpy(table, known, cells[rows]))) / SAMPLE
    for row, law in zip(rows, plain, strict=True):
        own = laws[0].of(int(row))
        check(np.allclose(law[laws[0].first[row] :][: len(own)], own, atol=1e-9), f"cell {row}: another law")
    show(
        f"{name}: {release.sub_tables(table.schema)} sub-tables, {len(cells):,} cells",
        ["exact laws", "seconds", "ms a cell"],
        [
            ["compiled", exact, 1000 * exact / len(cells)],
            [f"plain NumPy, from {SAMPLE} cells", each * len(cells), 1000 * each],
            ["ratio", each * len(cells) / exact, None],
        ],
    )
    truth = laws[0].at_truth
    identified = ", ".join(f"{(truth > t).mean():.4f} above {t}" for t in (0.3, 0.5, 0.9))
    say(f"true count: mean probability {truth.mean():.4f}, largest {truth.max():.4f}; {identified}")
    say(f"log probability of the true table {log_probability(table, known):,.1f}; {peak_mib():.0f} MiB")
    of_draws(table, known, laws[0], rows)


def by_numpy(table: Table, known: Knowledge, cells: Codes) -> list[npt.NDArray[np.float64]]:
    """The same chain, a matrix of probabilities a clique; the law of each cell from 0 on."""
    tree = known.structure.decomposition
    check(tree is not None, "the release is not decomposable")
    assert tree is not None
    marginals = CellMarginals(table, cells)
    cliques = [marginals.at(c) for c in tree.cliques]
    separators = [np.full(len(cells), table.total) if s == 0 else marginals.at(s) for s in tree.separators]
    check(not known.structure.varying & ~tree.variables, "a variable is in no clique")
    found = []
    for i in range(len(cells)):
        law = np.zeros(cliques[0][i] + 1)
        law[-1] = 1.0
        for clique, separator in zip(cliques[1:], separators, strict=True):
            n, draws = int(separator[i]), int(clique[i])
            m = np.flatnonzero(law > 1e-30)
            k = np.arange(min(int(m[-1]), draws) + 1)
            law = law[m] @ np.exp(_log_pmf(n, m[:, None], draws, k[None]))
        found.append(law)
    return found


def _log_pmf(n: int, m: npt.NDArray[np.int64], draws: int, k: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    def choose(a: npt.NDArray[np.int64], b: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        inside = (b >= 0) & (b <= a)
        b = np.where(inside, b, 0)
        return np.where(inside, gammaln(a + 1.0) - gammaln(b + 1.0) - gammaln(a - b + 1.0), -np.inf)

    whole = gammaln(n + 1.0) - gammaln(draws + 1.0) - gammaln(n - draws + 1.0)
    return choose(m, k) + choose(n - m, draws - k) - whole


def of_draws(table: Table, known: Knowledge, laws: CellLaws, rows: npt.NDArray[np.int64]) -> None:
    draws = Draws(table, known)
    draws.codes(0)
    each = seconds(lambda: [draws.codes(seed) for seed in range(DRAWS)]) / DRAWS
    cells = laws.cells[rows]
    counts = np.array([draws.table(seed).count_at(cells) for seed in range(DRAWS)])
    variance = np.array([second_moment(laws, int(row)) for row in rows]) - laws.means[rows] ** 2
    missed = np.abs(counts.mean(axis=0) - laws.means[rows]) / np.sqrt(np.maximum(variance, 1e-12) / DRAWS)
    say(
        f"draws: {1000 * each:.1f} ms each; mean counts of {SAMPLE} cells in {DRAWS} draws: {(missed > 2).mean():.3f} "
        f"of them beyond 2 standard errors, {(missed > 3).mean():.3f} beyond 3"
    )


def second_moment(laws: CellLaws, row: int) -> float:
    law = laws.of(row)
    return float(law @ (laws.first[row] + np.arange(len(law))) ** 2)


def of_chains() -> None:
    table = read_table(ROOT / "configs" / "czech_auto_workers.csv")
    known, cells = knows(table, release_of(table, CZECH)), every_cell(table.schema)
    rows = []
    for name in LAWS:
        law = law_of(name, table.schema, 0.5)
        exact = enumerated(table, known, law)
        unit = ChainUnit(law, known, cells, 1000, (0, 0))
        run_chain(table, ChainUnit(law, known, cells, 20, (0, 0)))
        drawn = []
        wall = seconds(lambda unit=unit, drawn=drawn: drawn.append(run_chain(table, unit)))
        proposals = 1000 * (2_000 + 10 * drawn[0].moves)
        listed = seconds(lambda exact=exact: from_list(exact, 100_000))
        law_of_cells = exact.laws(cells)
        found = [sampled(table, known, law, cells, Sampling(seed=seed), IN_PROCESS) for seed in range(SEEDS)]
        missed = np.concatenate([errors_of(one, law_of_cells) for one in found])
        size = np.median([one.diagnostics.effective_sample_size for one in found])
        facts = [drawn[0].accepted * proposals / wall, 1000 / wall, 100_000 / listed, size]
        rows.append([name, *facts, float((missed > 3).mean()), float(missed.max())])
    columns = ["accepted/s", "draws/s", "listed draws/s", "least size", "share > 3 errors", "most errors"]
    show(f"Czech table, 810 tables, 64 cells, 4 chains of 1,000, {SEEDS} seeds", ["law", *columns], rows)


def of_records() -> None:
    """The laws that have no engine but chains, and `released`, whose exact laws judge them."""
    table = read_table(data_file("cps13.parquet"))
    found = decomposable_release(table, NOTHING, min_width=3, steps=20_000).release
    known, cells = knows(table, found), table.codes[table.at_risk(2)]
    columns = ["s a draw", "accepted", "R-hat", "cells > 1.05", "cells > 1.1", "least size", "median size", "P(0)"]
    for name in ("uniform", "saturated", "released"):
        law = law_of(name, table.schema, 0.5)
        run_chain(table, ChainUnit(law, known, cells[:1], 1, (0, 0)))
        drawn: list[Drawn] = []
        wall = seconds(lambda law=law, drawn=drawn: drawn.extend(four_chains(table, known, law, cells)))
        counts = np.stack([one.counts for one in drawn])
        # half as many draws again are thrown away
        facts = [wall / (6 * RECORD_DRAWS), drawn[0].accepted, *agreeing(counts)]
        show(f"cps13, {len(cells):,} at-risk cells, 4 chains of {RECORD_DRAWS}", ["law", *columns], [[name, *facts]])
    exact = cell_laws(table, known, cells).means
    say(f"mean count of a cell {counts.mean():.4f}, exactly {exact.mean():.4f}")


def four_chains(table: Table, known: Knowledge, law: Law, cells: Codes) -> list[Drawn]:
    return [run_chain(table, ChainUnit(law, known, cells, RECORD_DRAWS, (0, k))) for k in range(4)]


def agreeing(counts: npt.NDArray[np.int64]) -> list[float]:
    """Of (chains, draws, cells) the largest R-hat, shares of cells beyond two, sizes, and the mean share of zeros."""
    changing = counts[:, :, (counts != counts[:1, :1]).any(axis=(0, 1))].astype(np.float64)
    axes = {"chain_axis": 0, "draw_axis": 1}
    with np.errstate(invalid="ignore", divide="ignore"):
        r_hat, size = array_stats.rhat(changing, **axes), array_stats.ess(changing, **axes)
    beyond = [float((r_hat > most).mean()) for most in (1.05, 1.1)]
    return [float(r_hat.max()), *beyond, float(size.min()), float(np.median(size)), float((counts == 0).mean())]


def from_list(exact: Enumerated, draws: int) -> npt.NDArray[np.int64]:
    """Draws of the same law from all tables of each part."""
    rng = np.random.default_rng(0)
    parts = [part.tables[rng.choice(len(part.tables), draws, p=part.probabilities)] for part in exact.parts]
    return np.concatenate(parts, axis=1)


def of_random_tables() -> None:
    """Where probabilities are of nearly independent draws 2.7 of a thousand are beyond 3 errors, and 0.06 beyond 4."""
    cases = random_tables(TABLES)
    rows: list[list[object]] = []
    for name in LAWS:
        missed, uncertain = [], 0
        for number, (table, known) in enumerate(cases):
            law, cells = law_of(name, table.schema, 0.5), every_cell(table.schema)
            exact = enumerated(table, known, law).laws(cells)
            found = sampled(table, known, law, cells, Sampling(RANDOM_DRAWS, seed=number), IN_PROCESS)
            missed.append(errors_of(found, exact))
            uncertain += np.count_nonzero((exact.probabilities > 0) & (exact.probabilities < 1 - 1e-9))
        every = np.concatenate(missed)
        rows.append([name, uncertain, *(int((every > most).sum()) for most in (3, 4)), float(every.max())])
    columns = ["probabilities", "> 3 errors", "> 4 errors", "most errors"]
    show(f"{TABLES} random tables, 4 chains of {RANDOM_DRAWS}", ["law", *columns], rows)


def random_tables(number: int) -> list[tuple[Table, Knowledge]]:
    """So many small tables and releases of every kind, always the same, of which several feasible tables are listed."""
    found: list[tuple[Table, Knowledge]] = []

    # of nine that are drawn eight are known from their release, or leave too many tables
    @seed(1)
    @settings(max_examples=12 * number, database=None, phases=[Phase.generate], deadline=None)
    @given(tables_and_knowledge(max_records=8))
    def keep(case: tuple[Table, Knowledge]) -> None:
        table, known = case
        if len(found) == number or not len(table):
            return
        with suppress(TooManyTablesError):
            uniform = law_of("uniform", table.schema)
            if enumerated(table, known, uniform, MOST_TABLES).feasible_tables > 1:
                found.append(case)

    keep()
    check(len(found) == number, f"only {len(found)} of {number} tables were drawn")
    return found


if __name__ == "__main__":
    main()
