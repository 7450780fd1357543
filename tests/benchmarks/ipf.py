"""IPF of NLTCS (2^16 cells) to all 120 two-way marginals, a sweep beside one of `ipfn` and of plain NumPy.

    python tests/benchmarks/ipf.py

About a minute on one core. All start from the same table and take the marginals in the same order, so that
they must agree after the same number of sweeps. sdc's and ipfn's time includes looking for the largest deviation:
once at the end, and after every sweep.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import combinations
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from side_by_side import check, data_file, machine, medians, one_core, require, say, show

from sdc.ingest.reading import read_table
from sdc.model import subtable as st
from sdc.model.fact import NO_FACTS
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.structural_zeros import NO_ZEROS
from sdc.model.table import Table
from sdc.utility import ipf, measures

ROUNDS, SWEEPS, TARGET = 7, 5, 5.0

Values = npt.NDArray[np.float64]


def main() -> None:
    require("ipfn")
    table = read_table(data_file("nltcs_cells.parquet"))
    release = Release.of(st.of(pair) for pair in combinations(range(len(table.schema)), 2))
    with one_core() as pinned:
        say(f"{machine()}, {pinned}; {table.schema.cells} cells, {len(release.frontier)} two-way marginals")
        compare(table, Knowledge.of(table, release, NO_ZEROS, NO_FACTS))
        whole(table, Knowledge.of(table, release, NO_ZEROS, NO_FACTS))


def compare(table: Table, known: Knowledge) -> None:
    """Seconds a sweep of each, and that all give the same table."""
    dense = np.zeros(table.schema.sizes)
    dense[tuple(table.codes.T)] = table.counts
    axes = [list(st.members(element)) for element in known.release.frontier]
    works = {
        "sdc": ours(table, known),
        "ipfn": by_ipfn(dense, axes),
        "NumPy": by_numpy(dense, axes),
    }
    results = {name: work().ravel() for name, work in works.items()}
    for name, result in results.items():
        check(bool(np.allclose(result, results["sdc"], rtol=1e-9)), f"{name} and sdc after {SWEEPS} sweeps")
    times = [seconds / SWEEPS for seconds in medians(ROUNDS, *works.values())]
    rows = [[name, seconds, seconds / times[0]] for name, seconds in zip(works, times, strict=True)]
    show(f"one sweep, median of {ROUNDS} rounds of {SWEEPS}", ["", "seconds", "times sdc"], rows)
    say(f"ipfn / sdc = {times[1] / times[0]:.1f} (asked: at least {TARGET:g})")


def ours(table: Table, known: Knowledge) -> Callable[[], Values]:
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
    groups = [np.ravel_multi_index(codes[kept], shape) for kept, shape in zip(axes, shapes, strict=True)]
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


def whole(table: Table, known: Knowledge) -> None:
    """The whole fit: cells, groups, sweeps until no marginal deviates by more than 0.001 records, and the error."""
    begun = time.perf_counter()
    fit = ipf.fit(table, known)
    elapsed = time.perf_counter() - begun
    check(len(fit.cells) == prod(table.schema.sizes), "every cell is possible")
    say(
        f"\nwhole fit: {elapsed:.2f} s, {fit.sweeps} sweeps, converged: {fit.converged}, largest deviation at the end "
        f"{fit.deviation:.2g} records, mean squared error per cell {measures.mean_squared_error(table, fit):.3f}"
    )


if __name__ == "__main__":
    main()
