"""Limits on what is likely, and decisions that tell nothing: their time, and what they cost in sub-tables.

    python tests/benchmarks/limits.py [moments annealing simulatable]

On one core. `moments`: how probable the true counts of cps13 are under the best decomposable release at min width 3, by
factorial moments beside whole laws, and which are above a threshold, in integers as they are verified. `annealing`: the
best decomposable release of cps13 under limits on the share of cells above a threshold, beside that under the width
alone. `simulatable`: the Czech table and cps8, beside what searches find that look at the table. Some fifteen minutes.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from side_by_side import ROOT, check, data_file, machine, one_core, say, seconds, show

from sdc.api import decomposable_release, find_release
from sdc.config.release import AnnealingConfig, SimulatableConfig
from sdc.ingest.reading import read_table
from sdc.intruder.hypergeometric import cell_laws, junction_tree
from sdc.intruder.moments import SumRows, TrueCounts, at_truth
from sdc.model.errors import ReleaseError
from sdc.model.marginal import CellMarginals
from sdc.model.release import NOTHING
from sdc.model.table import Counts, Table
from sdc.risk.criteria import Criteria
from sdc.risk.inquiry import Inquiry
from sdc.search.curve import LikelyCurve
from sdc.search.decomposable import DecomposableSearch
from sdc.search.simulatable import SimulatableSearch
from sdc.verify import likely

sys.path.append(str(ROOT))
from tests.strategies import czech, knows

THRESHOLD, LIMITS = 0.3, (0.05, 0.06, 0.07, 0.09)
STEPS, CHAINS = 50_000, 2


def main() -> None:
    chosen = sys.argv[1:] or ["moments", "annealing", "simulatable"]
    with one_core() as pinned:
        say(f"{machine()}; {pinned}")
        if "moments" in chosen:
            moments(read_table(data_file("cps13.parquet")))
        if "annealing" in chosen:
            annealing(read_table(data_file("cps13.parquet")))
        if "simulatable" in chosen:
            simulatable("Czech", czech(), 6)
            simulatable("cps8", read_table(data_file("cps8.parquet")), 3)


def moments(table: Table) -> None:
    found = decomposable_release(table, NOTHING, min_width=3, steps=20_000).release
    known, rows = knows(table, found), table.at_risk(2)
    marginals, tree = CellMarginals(table, table.codes[rows]), junction_tree(known)
    at_truth(table, known, rows[:1])  # compiled
    whole = cell_laws(table, known, marginals.cells[:1])
    slow = seconds(lambda: cell_laws(table, known, marginals.cells))
    whole = cell_laws(table, known, marginals.cells)
    fast = seconds(lambda: at_truth(table, known, rows))
    off = np.abs(at_truth(table, known, rows) - whole.at_truth).max()
    truth, sums = TrueCounts(table.counts[rows], table.total, THRESHOLD, THRESHOLD), SumRows.of(marginals, known)

    def exactly(cells: Counts) -> Counts:
        return whole.at_truth[cells]

    a_graph = min(seconds(lambda: truth.likely(sums, exactly)) for _ in range(5))
    above = set(np.flatnonzero(whole.at_truth > THRESHOLD + 1e-9).tolist())
    counts = [[marginals.at(s) for s in sets] for sets in (tree.cliques, tree.separators)]
    again: list[list[int]] = []
    exact = seconds(lambda: again.append(likely._above(table.counts[rows], likely._Tree(*counts, 1), THRESHOLD)))
    check(set(again[0]) == above, "in integers other cells are above the threshold")
    show(
        f"true counts of {len(rows)} at-risk cells of cps13 under {len(found.frontier)} cliques",
        ["way", "seconds", "of whole laws"],
        [
            ["whole laws", f"{slow:.2f}", "1"],
            ["factorial moments", f"{fast:.3f}", f"1/{slow / fast:.0f}, off by {off:.1e} at most"],
            [f"those that reach {THRESHOLD:g}, a graph of a search", f"{a_graph:.4f}", f"1/{slow / a_graph:.0f}"],
            [
                f"which are above {THRESHOLD:g}, in integers",
                f"{exact:.2f}",
                f"1/{slow / exact:.0f}, {len(above)} cells",
            ],
        ],
    )


def annealing(table: Table) -> None:
    chains = DecomposableSearch(
        Inquiry(table, knows(table, NOTHING), Criteria.of(2, 3)), AnnealingConfig(steps=STEPS, chains=CHAINS)
    )
    curve, points = LikelyCurve(chains, THRESHOLD, LIMITS), []
    took = seconds(lambda: points.extend(curve.run()))
    rows = [
        [
            "none" if point.max_above is None else f"{point.max_above:g}",
            str(point.sub_tables),
            "" if point.above is None else f"{point.above:.4f}",
            "" if point.highest is None else f"{point.highest:.4f}",
        ]
        for point in points
    ]
    title = f"cps13, min width 3, threshold {THRESHOLD:g}, {CHAINS} chains of {STEPS} steps: {took:.0f} s in all"
    show(title, ["at most above", "sub-tables", "above", "highest"], rows)
    limits = [point for point in points if point.max_above is not None and point.above is not None]
    check(all((p.above or 0) <= (p.max_above or 0) for p in limits), "a limit is not kept")


def simulatable(name: str, table: Table, min_width: int) -> None:
    rows = [
        [method, str(find_release(table, NOTHING, method, min_width=min_width, steps=STEPS).sub_tables), "", ""]
        for method in ("ordered", "decomposable")
    ]
    for share in (0.0, 0.05, 0.2):
        sizes, failed, took = [], 0, 0.0
        for seed in range(5):
            begun = time.perf_counter()
            try:
                sizes.append(_grown(table, min_width, SimulatableConfig(share=share, seed=seed)))
            except ReleaseError:
                failed += 1
            took += time.perf_counter() - begun
        found = " ".join(map(str, sizes)) or "none"
        rows.append([f"simulatable, share {share:g}", found, str(failed), f"{took / 5:.1f}"])
    title = f"{name}, min width {min_width}; simulatable with five seeds of 100 draws"
    show(title, ["method", "sub-tables", "refused in the end", "seconds"], rows)


def _grown(table: Table, min_width: int, simulation: SimulatableConfig) -> int:
    asked = Inquiry(table, knows(table, NOTHING), Criteria.of(2, min_width))
    return SimulatableSearch(asked, simulation).run().sub_tables


if __name__ == "__main__":
    main()
