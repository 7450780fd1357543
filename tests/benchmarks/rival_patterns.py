"""Which cells of a two-way table others withhold, and an exact check of what is left, by maximal flows.

Rows may be in groups of which the sums are public too: then the groups are tables of their own. Run by itself with a
table of counts and the rows of each group on stdin it is G-Confid, of an interpreter that has it (`pip install
gconfid`); see `by_gconfid`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

Dense = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
GCONFID = os.environ.get("GCONFID_PYTHON", "")
FAR = 1 << 20


def small_cells(counts: Dense, small: int) -> Flags:
    return (counts > 0) & (counts <= small)


# The hypercube method


def by_cubes(counts: Dense, small: int, width: int) -> tuple[Flags, int]:
    """Each small cell's cheapest 2 x 2 cube of cells that are not 0, and how many had none that is so wide.

    A cube is as wide as its cells can go up and down in turn (Repsilber 1994; Giessing and Repsilber 2002). Where none
    is wide enough the widest is taken.
    """
    hidden, lacking = small_cells(counts, small), 0
    for row, column in np.argwhere(hidden).tolist():
        wide = np.minimum(counts[row, column], counts) + np.minimum(counts[row][None], counts[:, column][:, None])
        wide[(counts == 0) | (counts[row] == 0)[None] | (counts[:, column] == 0)[:, None]] = 0
        wide[row], wide[:, column] = 0, 0
        costs = np.where(hidden, 0, counts + 1)
        costs = costs + costs[row][None] + costs[:, column][:, None]
        allowed = wide >= min(width, int(wide.max()))
        lacking += int(wide.max() < width)
        if wide.max() > 0:
            other, across = np.unravel_index(np.argmin(np.where(allowed, costs, costs.max() + 1)), counts.shape)
            hidden[[other, other, row], [across, column, across]] = True
    return hidden, lacking


# G-Confid


def by_gconfid(counts: Dense, groups: Sequence[slice], small: int, width: int, limit: float) -> Flags | None:
    """What it suppresses by size in two phases; None where it takes longer than so many seconds, or is not there.

    It asks that a cell varies by its sensitivity, which may not exceed its total: small cells are given the width as
    both.
    """
    if not GCONFID:
        return None
    given = {"counts": counts.tolist(), "groups": [[g.start, g.stop] for g in groups], "small": small, "width": width}
    command = [GCONFID, __file__]
    try:
        told = subprocess.run(
            command, input=json.dumps(given), capture_output=True, text=True, timeout=limit, check=True
        ).stdout
    except subprocess.TimeoutExpired:
        return None
    hidden = np.zeros(counts.shape, np.bool_)
    hidden[tuple(np.array(json.loads(told.splitlines()[-1])).reshape(-1, 2).T)] = True
    return hidden


def _gconfid() -> None:
    import pandas as pd
    import pulp
    from gconfid import Suppression

    given = json.loads(sys.stdin.read())
    counts, cells, sums = np.array(given["counts"]), list[tuple[object, ...]](), list[tuple[int, int, float]]()
    small, width = small_cells(counts, given["small"]), given["width"]
    ids, at = np.zeros(counts.shape, np.int64), np.argwhere(counts > 0)
    ids[tuple(at.T)] = np.arange(1, len(at) + 1)
    for row, column in at.tolist():
        total, is_small = float(counts[row, column]), small[row, column]
        most = max(total, width) if is_small else total
        cells.append((ids[row, column], most, width * float(is_small), "S" if is_small else "V", "C"))
    lines = [slice(row, row + 1) for row in range(len(counts))], [slice(*group) for group in given["groups"]]
    blocks = [ids[line] for line in lines[0]] + [ids[rows, c] for rows in lines[1] for c in range(counts.shape[1])]
    for number, block in enumerate(blocks, start=1):
        inside = block[block > 0].tolist()
        if inside:
            total = len(at) + number
            cells.append((total, float(counts[np.isin(ids, inside)].sum()), 0.0, "P", "C"))
            sums += [(number, cell, 1.0) for cell in inside] + [(number, total, -1.0)]
    found = Suppression(
        pd.DataFrame(cells, columns=["CellId", "TotalNoise", "Sensitivity", "Status", "Type"]),
        pd.DataFrame(sums, columns=["ConstraintId", "CellId", "Coefficient"]),
        cost_function1="Size",
        cost_function2="Size",
        outsuppress="pandas",
        custom_solver=pulp.HiGHS(msg=False),
    ).outsuppress
    hidden = set(found.CellId[found.OutStatus == "X"].astype(int))
    print(json.dumps([[row, column] for row, column in at.tolist() if ids[row, column] in hidden]))


# What is left


def narrow(counts: Dense, hidden: Flags, groups: Sequence[slice], small: int, width: int) -> int:
    """How many small cells have a narrower range for whoever has all cells that are not hidden, and the sums."""
    return sum(1 for found in _widths(counts, hidden, groups, small) if found < width)


def _widths(counts: Dense, hidden: Flags, groups: Sequence[slice], small: int) -> Iterator[int]:
    for group in groups:
        for row, column in np.argwhere(small_cells(counts[group], small)).tolist():
            up, down = (_farthest(counts[group], hidden[group], row, column, way) for way in (1, -1))
            yield up + down


def _farthest(counts: Dense, hidden: Flags, row: int, column: int, way: int) -> int:
    """How far a cell can go: what can flow back from its column to its row, or on from its row to its column."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_flow

    rows, columns = np.nonzero(hidden)
    kept = (rows != row) | (columns != column)
    rows, columns = rows[kept], columns[kept]
    tails, heads = np.concatenate([rows, len(counts) + columns]), np.concatenate([len(counts) + columns, rows])
    room = np.concatenate([np.full(len(rows), FAR), counts[rows, columns]]).astype(np.int32)
    nodes = sum(counts.shape)
    ends = (len(counts) + column, row) if way > 0 else (row, len(counts) + column)
    most = int(maximum_flow(csr_array((room, (tails, heads)), (nodes, nodes)), *ends).flow_value)
    return min(most, FAR if way > 0 else int(counts[row, column]))


if __name__ == "__main__":
    _gconfid()
