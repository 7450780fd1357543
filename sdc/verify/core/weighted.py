"""What is proven of totals of weights beside the released counts, in integers.

A feasible pair is a feasible table of counts with totals that so many records can have in each cell. It shows how far a
count can move given the counts, the rounded totals, and the range of weights of each category.
"""

from collections import namedtuple
from typing import Any

import numpy as np
import pyarrow as pa

from sdc import run_format as names
from sdc.verify.core.levels import Array, Cells, SubTable, check, size_of
from sdc.verify.core.proof import MAX_TOTAL, ComponentProof, EvidenceFolder, folded, is_within, numbers_of

# published and suppressed totals by sub-table; the rounding base; by row of the table its weights; feasible pairs
Totals = namedtuple("Totals", "of suppressed base weights least largest pairs")
Pairs = namedtuple("Pairs", "of cells changes shifts")
NO_TOTALS = Totals([], [], 1, None, None, None, None)


def read_totals(evidence: EvidenceFolder) -> Totals:
    """The claims on totals; None if the run has no weights."""
    if not (evidence.folder / names.WEIGHTED).exists():
        return NO_TOTALS
    columns = evidence.read_columns(names.TABLE, names.WEIGHTS)
    total, least, largest = (numbers_of(columns[c], pa.int64()) for c in (names.SUM, names.LEAST, names.LARGEST))
    check(len(total) == len(evidence.counts), "it has not a row for each cell of the table")
    counts = evidence.counts.astype(object)  # Python integers, whose products do not overflow
    inside = (least > 0).all() and (least * counts <= total).all() and (total <= largest * counts).all()
    check(inside and sum(map(int, total)) <= MAX_TOTAL, "a cell has a total that its records cannot have")
    content = evidence.read_json(names.WEIGHTED, names.WEIGHTED_FILE, version=names.WEIGHTED_FORMAT)
    check(content["table"] == evidence.digest, "it is of another table")
    base, pairs = content["round"], _pairs(evidence, content["pairs"])
    of, suppressed = (evidence.levels.subtables(content[key]) for key in ("totals", "withheld"))
    check(type(base) is int and base > 0 and base % names.UNIT == 0, f"totals are rounded to {base}")
    return Totals(of, suppressed, base, total, least, largest, pairs)


def _pairs(evidence: EvidenceFolder, claimed: int) -> Pairs:
    cells, (of, changes, shifts) = evidence.read_cells(evidence.axes, names.OF_PAIRS, names.WEIGHTED, names.PAIRS)
    check(np.array_equal(of, np.cumsum(np.diff(of, prepend=of[:1]) != 0)), "they are not numbered 0, 1, ...")
    check(size_of(of) == claimed, f"its number of pairs is {size_of(of)}, and {claimed} are claimed")
    return Pairs(of, evidence.levels.with_levels(cells), changes, shifts)


def check_totals(evidence: EvidenceFolder, totals: Totals, release: list[SubTable], min_width: int) -> None:
    """Each published total is of a released sub-table, and every at-risk cell keeps its width; else it is a failure."""
    left = {*release} - {*totals.of} if totals.weights is not None else set[SubTable]()
    what = f"{names.WEIGHTED}/ suppresses other totals than those that are not published"
    evidence.holds((what, {*totals.suppressed} != left))
    if not totals.of:
        return
    whole, pairs = frozenset(evidence.categories), totals.pairs
    beyond = [evidence.levels.label(s) for s in totals.of if not is_within(s, [frozenset(), *release])]
    evidence.holds((f"totals of {', '.join(beyond)} go out, whose counts are not released", beyond))
    part = ComponentProof(whole, None, pairs.of, pairs.cells, pairs.changes)
    feasible = evidence.feasible(part, {frozenset(), *release})
    bad = np.unique(pairs.of[~feasible | ~_weighs(evidence, totals) | ~_shows_the_same(evidence, totals)])
    good = np.isin(pairs.of, bad, invert=True)
    evidence.holds((f"{len(bad)} feasible pairs of counts and totals are none", len(bad)))
    # group at-risk and changed cells together, as for counts alone
    columns = [np.append(evidence.cells[v], pairs.cells[v][good]) for v in evidence.axes]
    after = (evidence.at(whole, pairs.cells) + pairs.changes)[good]
    values, cells = np.append(evidence.small, after), len(evidence.small)
    low, high = (folded(f, columns, 0 * values, values)[:cells] for f in (np.minimum, np.maximum))
    narrow = int((high - low < min_width).sum())
    evidence.holds((f"beside the totals of weights {narrow} of {cells} at-risk cells are not proven", narrow))


def _weighs(evidence: EvidenceFolder, totals: Totals) -> Array:
    """(entries,) whether so many records can have this total, each within the ranges of its categories."""
    pairs, axes = totals.pairs, evidence.axes
    counts = (evidence.at(frozenset(axes), pairs.cells) + pairs.changes).astype(object)
    after = _at(evidence, totals.weights, [*axes], pairs.cells) + pairs.shifts.astype(object)
    low, high = np.zeros(len(counts), np.int64), np.full(len(counts), MAX_TOTAL)
    for v, categories in axes.items():
        least, largest = np.full(len(categories), MAX_TOTAL), np.zeros(len(categories), np.int64)
        np.minimum.at(least, evidence.table[v], totals.least)
        np.maximum.at(largest, evidence.table[v], totals.largest)
        low, high = np.maximum(low, least[pairs.cells[v]]), np.minimum(high, largest[pairs.cells[v]])
    inside: Array = (after >= counts * low) & (after <= counts * high) & (after <= MAX_TOTAL)
    return inside.astype(np.bool_)


def _shows_the_same(evidence: EvidenceFolder, totals: Totals) -> Array:
    """(entries,) whether every published total of the entry stays within its rounding interval."""
    of, cells, _, shifts = totals.pairs
    most = max((abs(int(shifts.min(initial=0))), int(shifts.max(initial=0))))
    if most * max(1, len(shifts)) >= 1 << 62:
        shifts = shifts.astype(object)  # for sums that might overflow
    same = np.ones(len(of), np.bool_)
    for subtable in totals.of:
        finest = evidence.levels.finest(subtable)
        own = _at(evidence, totals.weights, finest, cells)
        moved = own + folded(np.add, [cells[v] for v in finest], of, shifts)
        same &= (rounded(own, totals.base) == rounded(moved, totals.base)).astype(np.bool_)
    return same


def _at(evidence: EvidenceFolder, totals: Array, finest: list[str], cells: Cells) -> Array:
    """(n,) the marginal's totals at the cells."""
    some = np.append(totals, np.zeros(len(next(iter(cells.values()))), np.int64))
    columns = [np.append(evidence.table[v], cells[v]) for v in finest]
    found: Array = folded(np.add, columns, 0 * some, some)[len(totals) :]
    return found


def rounded(totals: Any, base: int) -> Any:
    """The nearest multiples of the base, halves rounded up."""
    return (2 * totals + base) // (2 * base) * base
