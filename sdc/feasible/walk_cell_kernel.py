"""Cells of a walk, compiled: what each weighs, what it costs to change, and what a walk has changed.

The table is a hash table of packed cells that never changes. Beside it is a small one of the cells that a walk has
changed, emptied for each walk: so a target's answer does not depend on those before it, and none pays for a copy of
the table. What a cell weighs follows from the true table alone, and is kept where it may be overwritten.

Numba's cache does not see changes of one module in another: who changes this one touches `walk_kernel.py` too, or runs
the tests, which keep kernels by what all of them say.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from sdc.compiled import inlined, inner, kernel

Ints: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]
Key: TypeAlias = Any  # a packed cell, an int64 in the kernels

EMPTY = -1
MAX_FLIPS = 7  # 2^7 corners, half of which need a record: moves of more variables hardly ever have them
MAX_TRAIL = 1024
MAX_CHANGED = 2048

VALUE, TRUE, LOW, HIGH, WEIGHT, MOST, TABU, WRONG = range(8)
NEVER, ENDLESS = 1 << 40, 1 << 60
UNKNOWN = -NEVER
UNWEIGHED = 255  # more than what is kept of any cell
LONG = 64  # categories of an axis along which cells with records are counted once for all
HEAVIEST, LIGHTEST = 20, 4  # of an empty cell without occupied neighbours, and with many
AT, AMONG, SKIP, NUMBER = range(4)  # of the categories that a flip may go to, see `WalkWork.flip`
ALONE, CLOSE, CLOSE_BY = 20, 5, 2  # more, where all records of some released total are the cell's, or all but two
FORBIDDEN = 120  # of a cell that cannot be
MOST_LEARNT = 60
BROKEN_COST = 60  # of changing a cell that must not change
EASE = 64  # parts of a price of a cell that is shown, of which less and less counts
TABU_COST = 3  # of taking a record from a cell that was just given one
# corner i of a move has those blocks flipped whose bits are set in i; the odd ones give where the cell is raised
ODD = np.array([i.bit_count() % 2 == 1 for i in range(1 << MAX_FLIPS)])
SCATTER = -7046029254386353131  # 2^64 over the golden ratio: multiplicative hashing (Knuth, vol. 3, 6.4)
FACTOR, TERM = 6364136223846793005, 1442695040888963407  # of a linear congruential generator (Knuth, vol. 2, 3.3.4)


class TrueTable(NamedTuple):
    """The true table and the weights of its cells: all that weighing a cell needs.

    Numba counts each array that a function receives, so that a cell is weighed with these alone and not all `WalkWork`.

    sizes, strides      of the axes; the key of a cell is sum(code * stride)
    keys, counts        the table, a hash table
    totals, total       released marginals, clipped, one after another, and where each begins
    parts, part, reach  the axes of each marginal, from part[e] to part[e + 1], and where each begins in `shares`
    shares              what each category of an axis adds to the place in a marginal
    patterns            (structural zeros, axes, categories): whether a cell with that code may match
    lines, occupied     for each axis of more than LONG categories: lines of cells that differ in that axis alone,
                        hashed, and how many cells of each line have records
    weighed, whose      what is kept of cells, see `_weigh`; the cell at each place, empty if each has its own place
    """

    sizes: Ints
    strides: Ints
    keys: Ints
    counts: Ints
    totals: npt.NDArray[np.uint8]
    total: Ints
    parts: Ints
    part: Ints
    reach: Ints
    shares: Ints
    patterns: Flags
    lines: Ints
    occupied: Ints
    weighed: npt.NDArray[np.uint8]
    whose: Ints


class WalkWork(NamedTuple):
    """What the kernels work on, one release and one table at a time.

    table                  the true table, and what each of its cells weighs
    variable, begin, end   the trie of the smallest unreleased sets: each node's variable, and from where to where its
                           children are; a node without any ends a set
    axis, flip_at          of each variable its axis' place, and where its categories are in `flip`
    flip, order            (categories of axes, 4) of each the others that no coarser level separates from it:
                           for k from NUMBER to 1 order[AT + (SKIP + k) % AMONG]
    levels, level_at       the variables of each axis, the coarsest first, from level_at[axis] on
    groups, group_at       of each variable the codes of its axis' categories, from group_at[variable] on
    coarser                of each variable those that it determines, as a bit set
    released               (2^variables,) whether each set of variables is released
    changed, state, places cells that the walk has changed, a hash table; what is known of each, and where each is
    wrong, filled          (wrong cells,) where they are; how many cells have been changed, how many are wrong, how many
                           places were touched; the part of a price that counts, a place that moves must change, and how
                           many places are changed that must not be
    trail                  moves made: cell, blocks flipped, direction, what each flip adds to a key
    best, flips, sets      the best move so far: blocks, then what each adds to a key; flips listed: axes, what it adds
                           to a key, cost, variables that tell it; released sets that meet each block of a partial move
    random, looked         state of the generator; cells looked at
    shown, room, place_of  of sub-tables in part what changing each of their cells costs, one after another; (places, 2)
                           between which it may change, none where all may by any number; what each category of an axis
                           adds to the place there, (sub-tables, axes, categories)
    moved, touched         by how much the walk has changed each of these cells; places where it may have, a ring
    """

    table: TrueTable
    variable: Ints
    begin: Ints
    end: Ints
    axis: Ints
    flip_at: Ints
    flip: Ints
    order: Ints
    levels: Ints
    level_at: Ints
    groups: Ints
    group_at: Ints
    coarser: Ints
    released: Flags
    changed: Ints
    state: Ints
    places: Ints
    wrong: Ints
    filled: Ints
    trail: Ints
    best: Ints
    flips: Ints
    sets: Ints
    random: Ints
    looked: Ints
    shown: Ints
    room: Ints
    place_of: Ints
    moved: Ints
    touched: Ints


CHANGED, WRONGS, TOUCHED, EASED, GOAL, BROKEN = range(6)  # of `WalkWork.filled`


# Cells


@inner
def slot(keys: Ints, key: Key) -> int:
    """Where the key is, or the empty slot where it would be."""
    mask = len(keys) - 1
    place = ((key * SCATTER) >> 24) & mask  # int64 wraps, as is meant; the lowest bits of a product are mixed least
    while keys[place] != key and keys[place] != EMPTY:
        place = (place + 1) & mask
    return int(place)


@kernel
def add(table: TrueTable, keys: Ints, counts: Ints) -> None:
    """Adds (n,) counts to (n,) cells of the table."""
    for i in range(len(keys)):
        place = slot(table.keys, keys[i])
        table.keys[place] = keys[i]
        table.counts[place] += counts[i]


@inner
def _line(sizes: Ints, strides: Ints, key: Key, code: int, axis: int) -> Key:
    """A key of the cells that differ from one in an axis alone; int64 may wrap, and no two are alike even so."""
    return (key - code * strides[axis]) * len(sizes) + axis


@kernel
def count_lines(table: TrueTable) -> None:
    """Counts the cells with records along each line of a long axis, of a table that is there as a whole."""
    sizes, strides, lines, occupied = table.sizes, table.strides, table.lines, table.occupied
    for place in range(len(table.keys)):
        if table.counts[place] > 0:
            key = table.keys[place]
            codes = codes_of(key, sizes, strides)
            for v in range(len(codes)):
                if sizes[v] > LONG:
                    line = _line(sizes, strides, key, codes[v], v)
                    at = slot(lines, line)
                    lines[at] = line
                    occupied[at] += 1


@kernel
def forget_near(table: TrueTable, keys: Ints) -> None:
    """Forgets what is kept of (n,) cells and of those that differ from them in one axis."""
    for i in range(len(keys)):
        codes = codes_of(keys[i], table.sizes, table.strides)
        for v in range(len(codes)):
            for other in range(table.sizes[v]):
                near = keys[i] + (other - codes[v]) * table.strides[v]
                table.weighed[_kept_at(table.weighed, table.whose, near)] = UNWEIGHED


@inner
def draw(random: Ints, below: int) -> int:
    random[0] = random[0] * FACTOR + TERM
    return int(((random[0] >> 33) & 0x3FFFFFFF) % below)


@inner
def copy(target: Ints, source: Ints) -> None:
    """Copies all of the source. An assignment to a slice takes seconds to compile, for the message of its check."""
    for i in range(len(source)):
        target[i] = source[i]


@inner
def largest_of(values: Ints) -> int:
    """The largest of some positive numbers; NumPy's `max` takes a second to compile."""
    largest = 0
    for i in range(len(values)):
        largest = max(largest, values[i])
    return largest


@inner
def codes_of(key: Key, sizes: Ints, strides: Ints) -> Ints:
    codes = np.empty(len(sizes), np.int64)
    for v in range(len(codes)):
        codes[v] = (key // strides[v]) % sizes[v]
    return codes


@inner
def _is_impossible(patterns: Flags, codes: Ints) -> bool:
    for p in range(len(patterns)):
        inside = True
        for v in range(len(codes)):
            inside &= patterns[p, v, codes[v]]
        if inside:
            return True
    return False


@inner
def _smallest_total(table: TrueTable, codes: Ints, enough: int) -> int:
    """The smallest released total that a cell is part of; any other that is `enough`, where there is one."""
    totals, total, parts, part, reach = table.totals, table.total, table.parts, table.part, table.reach
    shares = table.shares
    smallest = 255
    for e in range(len(total)):
        at = total[e]
        for m in range(part[e], part[e + 1]):
            at += shares[reach[m] + codes[parts[m]]]
        smallest = min(smallest, int(np.int64(totals[at])))  # unsigned beside signed would be a float
        if smallest <= enough:
            break
    return smallest


@inlined
def _weight(table: TrueTable, key: Key, count: int) -> int:
    """How hard it is to give the cell a record: the fewer occupied cells are near it, and the smaller its totals."""
    sizes, strides, keys, counts = table.sizes, table.strides, table.keys, table.counts
    lines, occupied, codes = table.lines, table.occupied, codes_of(key, sizes, strides)
    if _is_impossible(table.patterns, codes):
        return FORBIDDEN
    near = 0
    for v in range(len(codes)):
        if sizes[v] > LONG:
            near += occupied[slot(lines, _line(sizes, strides, key, codes[v], v))] - (count > 0)
            continue
        for other in range(sizes[v]):
            if other != codes[v]:
                near += counts[slot(keys, key + (other - codes[v]) * strides[v])] > 0
    weight = max(LIGHTEST, HEAVIEST - (3 * near) // 2)
    smallest = _smallest_total(table, codes, count)
    if smallest <= count:
        return weight + ALONE
    return weight + CLOSE if smallest <= count + CLOSE_BY else weight


@inner
def _kept_at(weighed: npt.NDArray[np.uint8], whose: Ints, key: Key) -> int:
    """Where that of a cell is; cells next to each other are looked at together, so that they are next to each other."""
    return int(key if len(whose) == 0 else ((key * SCATTER) >> 24) & (len(weighed) - 1))


@inner
def _is_kept(weighed: npt.NDArray[np.uint8], whose: Ints, place: int, key: Key) -> bool:
    """Whether what is there is of a cell."""
    return bool(weighed[place] != UNWEIGHED and (len(whose) == 0 or whose[place] == key))


@inner
def _weigh(table: TrueTable, key: Key) -> None:
    """Keeps of a cell of the true table: twice its weight, and one more where it is occupied."""
    weighed, whose, count = table.weighed, table.whose, table.counts[slot(table.keys, key)]
    place = _kept_at(weighed, whose, key)
    weighed[place] = 2 * _weight(table, key, count) | (count > 0)
    if len(whose):
        whose[place] = key


@inlined
def _kept(table: TrueTable, key: Key) -> int:
    """What is kept of a cell of the true table."""
    place = _kept_at(table.weighed, table.whose, key)
    if not _is_kept(table.weighed, table.whose, place, key):
        _weigh(table, key)
    return int(np.int64(table.weighed[place]))


# Changes


@inner
def price_of_changed(state: Ints, place: int, up: bool, now: int) -> int:
    """What it costs to change a cell by one: its weight where that makes it wrong, less that where it mends it."""
    value, weight = int(state[place, VALUE]), int(state[place, WEIGHT])
    if up:
        return -weight if value < state[place, LOW] else weight if value >= state[place, HIGH] else 0
    if value > state[place, HIGH]:
        return -weight
    # a cell just raised was missing a record: taking one from it again would go round in circles
    return (TABU_COST if state[place, TABU] > now else 0) + (weight if value <= state[place, LOW] else 0)


@inner
def price_of_true(weighed: npt.NDArray[np.uint8], whose: Ints, key: Key, up: bool) -> int:
    """The same of a cell as the true table has it; UNKNOWN where nothing is kept of it."""
    place = _kept_at(weighed, whose, key)
    if not _is_kept(weighed, whose, place, key):
        return UNKNOWN
    kept = int(np.int64(weighed[place]))
    if kept >= 2 * FORBIDDEN:
        return 2 * NEVER  # whatever else is repaired
    return 0 if up or kept & 1 else kept >> 1


@inner
def price_anew(table: TrueTable, key: Key, up: bool, room: int) -> int:
    """The same of a cell that nothing was kept of; where that is `room` or more it may be less than it is."""
    # no empty cell weighs less, so that many need not be weighed
    if not up and room <= LIGHTEST and table.counts[slot(table.keys, key)] == 0:
        return LIGHTEST
    _weigh(table, key)
    return price_of_true(table.weighed, table.whose, key, up)


@inner
def enter(work: WalkWork, key: Key) -> int:
    """Where the state of a cell is, which begins as the true table has it."""
    place = slot(work.changed, key)
    if work.changed[place] == EMPTY:
        table, state = work.table, work.state
        count, weight = table.counts[slot(table.keys, key)], _kept(table, key) >> 1
        work.changed[place] = key
        work.places[work.filled[0]] = place
        work.filled[0] += 1
        state[place, VALUE] = state[place, TRUE] = count
        state[place, LOW], state[place, HIGH] = 0, ENDLESS
        state[place, WEIGHT], state[place, MOST] = weight, weight + MOST_LEARNT
        state[place, TABU], state[place, WRONG] = 0, EMPTY
    return int(place)


@inner
def _change(state: Ints, wrong: Ints, filled: Ints, place: int, by: int) -> None:
    """Changes a cell, and puts it on the list of wrong ones or takes it off."""
    state[place, VALUE] += by
    is_wrong = state[place, VALUE] < state[place, LOW] or state[place, VALUE] > state[place, HIGH]
    if is_wrong and state[place, WRONG] == EMPTY:
        state[place, WRONG] = filled[1]
        wrong[filled[1]] = place
        filled[1] += 1
    elif not is_wrong and state[place, WRONG] != EMPTY:
        filled[1] -= 1
        last = wrong[filled[1]]
        wrong[state[place, WRONG]] = last
        state[last, WRONG] = state[place, WRONG]
        state[place, WRONG] = EMPTY


# Sub-tables in part


@inlined
def _places(work: WalkWork, part: int, key: Key, flipped: int, steps: Ints, places: Ints) -> bool:
    """Where the corners of a move are in a sub-table in part; False where its changes cancel there."""
    place_of, sizes, strides = work.place_of, work.table.sizes, work.table.strides
    places[0] = 0
    for v in range(len(sizes)):
        places[0] += place_of[part, v, (key // strides[v]) % sizes[v]]
    for j in range(flipped):
        place, half = 0, 1 << j
        for v in range(len(sizes)):
            place += place_of[part, v, ((key + steps[j]) // strides[v]) % sizes[v]]
        if place == places[0]:
            return False
        for i in range(half):
            places[half + i] = places[i] + place - places[0]
    return True


@inner
def places_of(work: WalkWork, key: Key) -> Ints:
    """(sub-tables in part,) where a cell is in each."""
    place_of, sizes, strides = work.place_of, work.table.sizes, work.table.strides
    places = np.zeros(len(place_of), np.int64)
    for v in range(len(sizes)):
        code = (key // strides[v]) % sizes[v]
        for part in range(len(places)):
            places[part] += place_of[part, v, code]
    return places


@inlined
def _price_of_place(shown: Ints, room: Ints, moved: Ints, eased: int, place: int, by: int) -> int:
    """What it costs to change a cell of a sub-table in part, less what that restores."""
    before, price = moved[place], shown[place]
    cost = 0
    if before == 0:
        cost = price * eased // EASE if price > 0 else price
    elif before + by == 0:
        cost = -(price * eased // EASE if price > 0 else price)
    if len(room):
        cost += BROKEN_COST * (_is_broken(room, place, before + by) - _is_broken(room, place, before))
    return int(cost)


@inlined
def _is_broken(room: Ints, place: int, change: int) -> int:
    """1 where a cell of a sub-table in part has changed by more than is public of it; 0 without room."""
    return int(len(room) > 0 and (change < room[place, 0] or change > room[place, 1]))


@inner
def price_of_shown(
    shown: Ints, room: Ints, moved: Ints, eased: int, corners: Ints, costs: Ints, ways: Ints, flips: int, up: bool
) -> int:
    """What a move costs for cells of sub-tables in part that it changes first, less what it restores.

    corners  (sub-tables in part, 2^MAX_FLIPS) where the corners of its flips before the last are; of it they are added
    costs    (MAX_FLIPS + 1, sub-tables in part) what the first 0, 1, ... flips cost; of the last it is written
    ways     (sub-tables in part,) how far the last flip leads; where one leads nowhere all changes cancel: NEVER
    flips    how many; of none `corners` says where the cell itself is

    Less and less of a price counts, or walks would go on by moves that cost nothing; of a reward all does.
    """
    whole = 0
    for part in range(len(corners)):
        if flips and (ways[part] == 0 or costs[flips - 1, part] == NEVER):
            costs[flips, part] = NEVER
            continue
        half = 1 << flips >> 1
        cost = costs[flips - 1, part] if flips else 0
        for i in range(half, 1 << flips):
            if flips:
                corners[part, i] = corners[part, i - half] + ways[part]
            cost += _price_of_place(shown, room, moved, eased, corners[part, i], 1 if ODD[i] != up else -1)
        costs[flips, part] = cost
        whole += cost
    return int(whole)


@inner
def begun_suppressed(work: WalkWork, key: Key, up: bool) -> tuple[Ints, Ints, Ints]:
    """`corners`, `costs` and `ways` of `price_of_shown` for a cell of which nothing is flipped yet."""
    parts = len(work.place_of)
    corners, costs = np.empty((parts, 1 << MAX_FLIPS), np.int64), np.empty((MAX_FLIPS + 1, parts), np.int64)
    places, ways = places_of(work, key), np.zeros(parts, np.int64)
    for part in range(parts):
        corners[part, 0] = places[part]
    price_of_shown(work.shown, work.room, work.moved, work.filled[EASED], corners, costs, ways, 0, up)
    return corners, costs, ways


@inlined
def _move_suppressed(work: WalkWork, key: Key, flipped: int, steps: Ints, up: bool) -> None:
    """Counts the changes of a move in the sub-tables in part."""
    places = np.empty(1 << MAX_FLIPS, np.int64)
    for part in range(len(work.place_of)):
        if _places(work, part, key, flipped, steps, places):
            for i in range(1 << flipped):
                before = work.moved[places[i]]
                after = before + (1 if ODD[i] != up else -1)
                work.moved[places[i]] = after
                broken = _is_broken(work.room, places[i], after) - _is_broken(work.room, places[i], before)
                work.filled[BROKEN] += broken
                work.touched[work.filled[TOUCHED] % len(work.touched)] = places[i]
                work.filled[TOUCHED] += 1


@inner
def restore(work: WalkWork) -> None:
    """Nothing is changed, in the table and in the sub-tables in part, and nothing is wrong."""
    for i in range(work.filled[CHANGED]):
        work.changed[work.places[i]] = EMPTY
    if work.filled[TOUCHED] > len(work.touched):
        work.moved[:] = 0
    else:
        for i in range(work.filled[TOUCHED]):
            work.moved[work.touched[i]] = 0
    work.filled[CHANGED] = work.filled[WRONGS] = work.filled[TOUCHED] = work.filled[BROKEN] = 0


@inner
def apply(work: WalkWork, key: Key, flipped: int, steps: Ints, up: bool, until: int) -> None:
    """Makes a move; the cells that it raises are no cheap donors before the step `until`."""
    corners = np.empty(1 << MAX_FLIPS, np.int64)
    changed, state, wrong, filled = work.changed, work.state, work.wrong, work.filled
    corners[0] = key
    for i in range(1 << flipped):
        for j in range(flipped):
            if i >> j == 1:
                corners[i] = corners[i - (1 << j)] + steps[j]
        place = slot(changed, corners[i])
        if changed[place] == EMPTY:
            place = enter(work, corners[i])
        raised = ODD[i] != up
        _change(state, wrong, filled, place, 1 if raised else -1)
        if raised:
            state[place, TABU] = until
    if len(work.place_of):
        _move_suppressed(work, key, flipped, steps, up)
