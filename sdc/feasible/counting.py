"""The number of feasible tables by dynamic programming over the lines of a table, without listing them.

The cells of a block are taken line by line, where the cells of a line share a released sum, such as the rows of a
two-way table. A state is what the cells so far add to each sum that has cells so far and others later. Each line is a
multiplication by a complete homogeneous polynomial, one record after another: F(s, j) = F(s, j - 1) + z_j F(s - 1, j),
for s records on the first j cells of the line. The cost is the number of states times the records, so it is small where
one axis is short or its counts are. Sums that follow from others are left out of the states. Counts are exact: they are
computed modulo coprime numbers whose product exceeds a proven bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import gcd, log10, prod

import numpy as np
import numpy.typing as npt

from sdc.feasible import depth_first_kernel
from sdc.feasible.depth_first import MAX_CELLS, Block, FeasibleTables
from sdc.model.knowledge import Knowledge
from sdc.model.table import Table

MAX_WORK = 1 << 34  # additions, some 20 s
LITTLE_WORK = 1 << 30  # some 1 s
MAX_STATES = 1 << 25  # times the cells of a line; 300 MB
MAX_SUMS = 512  # known sums of a block
MAX_COEFFICIENT = 1 << 31
MODULUS = 1 << 62
DIVES = 200
UNLIMITED = 1 << 62

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class _Sum:
    """A known sum of cells of a block, less what each cell has at least: between low and high."""

    low: int
    high: int
    cells: tuple[int, ...]


@dataclass(frozen=True)
class _Line:
    """The cells that are taken next: the sum that they share and nothing so far is in (None for single cells), and the
    sums that are open meanwhile, those that are open after it, and the additions that it costs."""

    shared: _Sum | None
    cells: tuple[int, ...]
    during: tuple[_Sum, ...]
    after: tuple[_Sum, ...]
    work: int


@lru_cache(maxsize=1)
def count_tables(table: Table, knowledge: Knowledge, max_work: int = LITTLE_WORK) -> int | None:
    """The number of tables that agree with what is known, None where dynamic programming does not reach it.

    Beyond 2,048 dense cells that is so always. Kept for the laws that follow.
    """
    if table.schema.cells > MAX_CELLS:
        return None
    found, number = FeasibleTables(table, knowledge), 1
    for block in found.blocks:
        if (own := count_block(found, block, max_work)) is None:
            return None
        number *= own
    return number


def count_block(found: FeasibleTables, block: Block, max_work: int = MAX_WORK) -> int | None:
    """The number of tables of one block, None where its states are too many."""
    sums = _sums(found, block)
    if sums is None or (kept := _independent(sums, found.upper[block.cells] - found.lower[block.cells])) is None:
        return None
    independent, at_most = kept
    lines = _lines(independent, len(block.cells))
    moduli = _moduli(at_most)
    if lines is None or sum(line.work for line in lines) * len(moduli) > max_work:
        return None
    return _combined([_count(lines, modulus) for modulus in moduli], moduli)


def estimated_log10(found: FeasibleTables, seed: int = 0, dives: int = DIVES) -> float:
    """The decimal logarithm of an estimate of the number of tables, from random descents in the search tree.

    Each descent fixes cells at random within their propagated intervals; the product of the interval lengths, 0 at a
    dead end, has the number of tables as its mean (Knuth 1975, Estimating the efficiency of backtrack programs).
    """
    generator, logs = np.random.default_rng(seed), 0.0
    for block in found.blocks:
        weights = [_dive(block, generator) for _ in range(dives)]
        logs += log10(max(1, sum(weights))) - (log10(dives) if any(weights) else 0.0)
    return max(0.0, logs)


def _dive(block: Block, generator: np.random.Generator) -> int:
    system, weight = block.system, 1
    lower, upper = system.lower.copy(), system.upper.copy()
    while (cell := depth_first_kernel.narrowest(lower, upper, system.cells)) >= 0:
        weight *= int(upper[cell] - lower[cell]) + 1
        lower[cell] = upper[cell] = generator.integers(lower[cell], upper[cell], endpoint=True)
        _, end = depth_first_kernel.settle(lower, upper, system.cells, system.most_steps, *system.arrays)
        if end == depth_first_kernel.EMPTY:
            return 0
    return weight


def _sums(found: FeasibleTables, block: Block) -> list[_Sum] | None:
    """What is known of sums of the block's cells, each cell counted from its least; None where a cell is in none."""
    known, least = found.equations.sums, found.lower
    place = np.full(len(least), -1)
    place[block.cells] = np.arange(len(block.cells))
    below = known.sums(least)  # other cells are forced, and so they have their least count
    total = int(found.equations.upper.sum())
    distinct = dict[tuple[int, ...], tuple[int, int]]()
    for e in np.flatnonzero(np.maximum.reduceat(place[known.members], known.start[:-1]) >= 0).tolist():
        members = place[known.members[known.start[e] : known.start[e + 1]]]
        cells = tuple(sorted(members[members >= 0].tolist()))
        low, high = max(0, int(known.low[e] - below[e])), min(total, int(known.high[e] - below[e]))
        before = distinct.get(cells, (low, high))
        distinct[cells] = max(low, before[0]), min(high, before[1])
    sums = [_Sum(low, high, cells) for cells, (low, high) in distinct.items()]
    covered = {cell for own in sums for cell in own.cells}
    return sums if len(covered) == len(block.cells) and len(sums) <= MAX_SUMS else None


def _independent(sums: Sequence[_Sum], ranges: Ints) -> tuple[list[_Sum], int] | None:
    """The sums without those that follow from others, the largest first left out, and a bound of the number of tables.

    By elimination in integers. In each sum that is kept the widest cell that is left follows from the others: the bound
    is the product of the ranges of all others. None where a coefficient becomes large.
    """
    exact = sorted((own for own in sums if own.low == own.high), key=lambda own: (own.high, own.cells))
    kept, rows, pivots = [own for own in sums if own.low < own.high], list[Ints](), list[int]()
    for own in exact:
        row = np.zeros(len(ranges), np.int64)
        row[list(own.cells)] = 1
        for pivot, other in zip(pivots, rows, strict=True):
            if row[pivot]:
                row = row * other[pivot] - other * row[pivot]
                row //= max(1, int(np.gcd.reduce(row)))
                if np.abs(row).max() > MAX_COEFFICIENT:
                    return None
        if row.any():
            free = np.flatnonzero(row)
            pivots.append(int(free[np.argmax(ranges[free])]))
            rows.append(row)
            kept.append(own)
    others = np.ones(len(ranges), np.bool_)
    others[pivots] = False
    return kept, prod((ranges[others] + 1).tolist())


def _lines(sums: Sequence[_Sum], cells: int) -> list[_Line] | None:
    """An order of all cells, greedily with few states; None where a line has too many."""
    left, waiting, of_cell = set(range(cells)), list(sums), list[list[_Sum]]([] for _ in range(cells))
    for own in sums:
        for cell in own.cells:
            of_cell[cell].append(own)
    opened, lines = dict[_Sum, None](), list[_Line]()
    while waiting:
        best: _Line | None = None
        for own in waiting:
            taken = tuple(cell for cell in own.cells if cell in left)
            fresh = len(taken) == len(own.cells) and own.low == own.high
            during = dict.fromkeys([*opened, *(other for cell in taken for other in of_cell[cell])])
            if fresh:
                during.pop(own)
            states = prod(other.high + 1 for other in during)
            ends = left.difference(taken)
            after = tuple(other for other in during if not ends.isdisjoint(other.cells))
            work = states * (max(1, own.high) if fresh else 1) * max(1, len(taken))
            line = _Line(own if fresh else None, taken, tuple(during), after, work)
            if states * max(1, len(taken)) <= MAX_STATES and (best is None or _order(line) < _order(best)):
                best = line
        if best is None:
            return None
        lines.append(best)
        left.difference_update(best.cells)
        opened = dict.fromkeys(best.after)
        waiting = [own for own in waiting if own in opened or not left.isdisjoint(own.cells)]
    return lines


def _order(line: _Line) -> tuple[int, int]:
    return prod(own.high + 1 for own in line.after), line.work


def _count(lines: Sequence[_Line], modulus: int) -> int:
    """The number of tables modulo a number."""
    states, opened, reached = np.ones((), np.int64), tuple[_Sum, ...](), 0
    for line in lines:
        if line is lines[-1] and (last := _last_line(states, opened, line, modulus)) is not None:
            return last
        # no sum exceeds the records that are placed, where each is in one line
        reached = reached + line.shared.high if line.shared is not None else UNLIMITED
        shape = tuple(min(own.high, reached) + 1 for own in line.during)
        start = np.zeros(shape, np.int64)
        # a sum that begins here is 0 so far
        sizes = iter(states.shape)
        start[tuple(slice(next(sizes)) if own in opened else 0 for own in line.during)] = states
        inside = np.array([[cell in own.cells for own in line.during] for cell in line.cells], np.bool_)
        states = _placed(start, inside.reshape(len(line.cells), len(shape)), line.shared, modulus)
        # sums that end here have what is known of them
        for axis in reversed(range(len(shape))):
            if (own := line.during[axis]) not in line.after:
                states = _between(np.moveaxis(states, axis, 0), own, modulus)
        opened = line.after
    return int(states)


def _placed(start: Ints, inside: npt.NDArray[np.bool_], shared: _Sum | None, modulus: int) -> Ints:
    """The ways by partial sums after a line; `inside` are (cells, sums) flags."""
    from sdc.feasible.counting_kernel import add_cell, add_line

    if not start.ndim:
        return _placed(start[None], np.zeros((len(inside), 1), np.bool_), shared, modulus).reshape(())
    outer = start.shape[:-1]
    states = start.reshape(prod(outer), start.shape[-1])
    strides = np.array([prod(outer[axis + 1 :]) for axis in range(len(outer))], np.int64)
    steps, shifts = inside[:, :-1] @ strides, inside[:, -1].astype(np.int64)
    allowed = np.ones((len(inside), *outer), np.bool_)
    for flags, own in zip(allowed, inside[:, :-1], strict=True):
        for axis in np.flatnonzero(own).tolist():
            np.moveaxis(flags, axis, 0)[0] = False
    allowed = allowed.reshape(len(inside), -1)
    if shared is None:
        for step, shift, own in zip(steps.tolist(), shifts.tolist(), allowed, strict=True):
            add_cell(states, step, shift, own, modulus)
    else:
        rows = np.repeat(states[None], len(inside), axis=0)
        add_line(rows, steps, shifts, allowed, shared.high, modulus)
        states = rows[-1]
    return np.asarray(states.reshape(start.shape))


def _last_line(states: Ints, opened: Sequence[_Sum], line: _Line, modulus: int) -> int | None:
    """The count where each cell of the last line but one is what its one open sum leaves for it; None elsewhere."""
    of_cell = [[own for own in line.during if cell in own.cells] for cell in line.cells]
    ends = [own for owns in of_cell for own in owns]
    if line.shared is None or sorted(map(id, ends)) != sorted(map(id, opened)) or len(ends) < len(line.cells) - 1:
        return None
    if any(len(owns) > 1 for owns in of_cell) or any(own.low < own.high for own in ends):
        return None
    left = np.zeros((), np.int64)
    for own, size in zip(opened, states.shape, strict=True):
        left = left[..., None] + (own.high - np.arange(size))
    fits = left <= line.shared.high if len(ends) < len(line.cells) else left == line.shared.high
    return int(sum(states[fits].tolist()) % modulus)


def _between(states: Ints, own: _Sum, modulus: int) -> Ints:
    """The states whose sum on the first axis is as known, added up without that axis."""
    found = states[own.low]
    for more in states[own.low + 1 : own.high + 1]:
        found = (found + more) % modulus
    return np.asarray(found)


def _moduli(at_most: int) -> list[int]:
    """Coprime numbers up to 2^62 whose product exceeds a bound."""
    found, product, number = list[int](), 1, MODULUS
    while product <= at_most:
        if gcd(number, product) == 1:
            found.append(number)
            product *= number
        number -= 1
    return found


def _combined(residues: Sequence[int], moduli: Sequence[int]) -> int:
    """The number below the product of the moduli that has these residues."""
    found, product = 0, 1
    for residue, modulus in zip(residues, moduli, strict=True):
        found += product * ((residue - found) * pow(product, -1, modulus) % modulus)
        product *= modulus
    return found
