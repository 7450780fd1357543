"""Iterative proportional fitting: a sweep over all two-way marginals beside `ipfn` and plain NumPy."""

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from sdc.data.reading import read_table
from sdc.model import subtable as st
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.table import Table
from sdc.utility import ipf
from tests.benchmarks.measure import DATA, Limits, NotMeasured, Row, check, in_turn, lacks, one_core
from tests.strategies import czech, knows

ROUNDS, SWEEPS, FILE = 5, 5, "nltcs_cells.parquet"
NOTE = f"one core, without reading and preparing; the same table after {SWEEPS} sweeps"

Values = npt.NDArray[np.float64]


def rows(short: bool, limits: Limits) -> list[Row | NotMeasured]:
    """NLTCS, 2^16 cells and 120 marginals; the short form is the Czech table. A sweep fits each marginal once."""
    files = () if short else (FILE,)
    job = f"IPF, a sweep over all two-way marginals of {'the Czech table' if short else 'NLTCS'}"
    if absent := lacks(job, "ipfn, NumPy", files=files):
        return list(absent)
    table = czech() if short else read_table(DATA / FILE)
    known = knows(table, Release.of(st.of(pair) for pair in combinations(range(len(table.schema)), 2)))
    dense = np.zeros(table.schema.sizes)
    dense[tuple(table.codes.T)] = table.counts
    axes = [list(st.members(element)) for element in known.release.frontier]
    rivals: dict[str, Callable[[], Values]] = {"NumPy": by_numpy(dense, axes)}
    found: list[Row | NotMeasured] = list(lacks(job, "ipfn", packages=["ipfn"]))
    if not found:
        rivals = {"ipfn": by_ipfn(dense, axes), **rivals}
    with one_core():
        ours = by_sdc(table, known)
        for name, theirs in rivals.items():
            same = np.allclose(theirs().ravel(), ours().ravel(), rtol=1e-9)
            check(bool(same), f"{job}: {name} has another table after {SWEEPS} sweeps")
            own, other = ([t / SWEEPS for t in times] for times in in_turn(1 if short else ROUNDS, ours, theirs))
            additions = 2 * dense.size * len(axes)  # of each marginal a sum and a product a cell
            limit = limits.share_of_additions(additions, own)
            found.append(Row(job, name, own, other, unit="a sweep", limit=limit, note=NOTE))
    return found


def by_sdc(table: Table, known: Knowledge) -> Callable[[], Values]:
    marginals = ipf.marginals_of(table, known)
    every = st.full(len(table.schema))
    cells = ipf.possible_cells(table.schema, marginals, every, known.zeros, ipf.MAX_BYTES)
    groups = [ipf.groups_of(marginal, cells, every) for marginal in marginals.values()]
    targets = [marginal.counts.astype(np.float64) for marginal in marginals.values()]
    stop = ipf.Stop(tolerance=1e-300, max_sweeps=SWEEPS)
    return lambda: ipf.iterate(np.ones(len(cells)), groups, targets, stop)[0]


def by_ipfn(dense: Values, axes: list[list[int]]) -> Callable[[], Values]:
    from ipfn.ipfn import ipfn

    targets = [summed(dense, kept) for kept in axes]
    rival: Any = ipfn(np.ones(dense.shape), targets, axes)

    def work() -> Values:
        fitted = np.ones(dense.shape)
        for _ in range(SWEEPS):
            fitted, _ = rival.ipfn_np(fitted, targets, axes)
        return fitted

    return work


def by_numpy(dense: Values, axes: list[list[int]]) -> Callable[[], Values]:
    codes = np.indices(dense.shape).reshape(dense.ndim, -1)
    shapes = [tuple(dense.shape[v] for v in kept) for kept in axes]
    groups = [np.ravel_multi_index(list(codes[kept]), shape) for kept, shape in zip(axes, shapes, strict=True)]
    targets = [summed(dense, kept).ravel() for kept in axes]

    def work() -> Values:
        fitted = np.ones(dense.size)
        for _ in range(SWEEPS):
            for group, target in zip(groups, targets, strict=True):
                fitted *= (target / np.bincount(group, fitted, minlength=len(target)))[group]
        return fitted

    return work


def summed(dense: Values, kept: list[int]) -> Values:
    result: Values = dense.sum(axis=tuple(v for v in range(dense.ndim) if v not in kept))
    return result
