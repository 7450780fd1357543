"""The walk from the true table, compiled: the search behind `sdc.feasible.walk`.

A move flips blocks of axes of a cell, each block to other categories. Of its 2^blocks corners those with an even
number of blocks flipped change by one, and the others by one the other way. A released sub-table meets a flip where it
has a variable that separates the two categories: the coarsest such level, for with a finer one it has that too. Where
none meets every block every released marginal stays: over the categories of a block that it does not see, the changes
cancel. So whatever moves are added up, all that is released agrees, and all that can be wrong is a count below zero.
The walk repairs one wrong cell after another by the cheapest move, as WalkSAT does clauses (Selman, Kautz and Cohen
1994), with weights (Morris 1993): a donor of a record it does not have costs more the harder it is to give it one, and
a cell that stays wrong costs more and more.

Numba counts each array that a function receives, by locked additions. It leaves them out only in a short function that
calls nothing after its last branch. The inner loops therefore pass such functions few arrays, one by one. When they
passed all of `WalkWork` at each cell, the walk took six times as long.
"""

from __future__ import annotations

import numpy as np

from sdc.compiled import inlined, inner, kernel
from sdc.feasible.walk_cell_kernel import (
    AMONG,
    AT,
    BROKEN,
    CHANGED,
    EASE,
    EASED,
    EMPTY,
    FORBIDDEN,
    GOAL,
    HIGH,
    LOW,
    MAX_CHANGED,
    MAX_FLIPS,
    MAX_TRAIL,
    MOST,
    NEVER,
    NUMBER,
    ODD,
    SCATTER,
    SKIP,
    TABU_COST,
    TERM,
    TRUE,
    UNKNOWN,
    VALUE,
    WEIGHT,
    WRONG,
    WRONGS,
    Flags,
    Ints,
    Key,
    WalkWork,
    apply,
    begun_suppressed,
    codes_of,
    copy,
    draw,
    enter,
    largest_of,
    places_of,
    price_anew,
    price_of_changed,
    price_of_shown,
    price_of_true,
    restore,
    slot,
)

MAX_BLOCKS = 6
MAX_BLOCK = 3  # axes
MAX_WIDER, MAX_DEEPER = 64, 24  # categories of an axis with which, and beside each of them, flips of more are looked at
MAX_ALONG = 256  # categories of an axis that are looked at for one step: other ones of a longer axis each time
BESIDE = 64  # on each side of the cell's own all: codes of one region are mostly side by side
MAX_LISTED = 200  # flips of blocks that are put together
BLOCK_NODES = 1000  # partial moves of blocks that are looked at for one step: 300 reach less, 4,000 hardly more
LOOKUPS = 1000  # cells looked at that count as one node
TABU_STEPS = 3


# Moves of single axes


@inner
def _changes(placed: Ints, costs: Ints, flips: int, goal: int) -> bool:
    """Whether a move changes a cell of a sub-table in part, of those that its own cell is in."""
    for part in range(len(placed)):
        if placed[part, 0] == goal:
            return bool(costs[flips, part] < NEVER)
    return False


@inner
def _along(other: int, own: int, size: int, turn: int) -> bool:
    """Whether a category is looked at in this step."""
    if size <= MAX_ALONG or abs(other - own) <= BESIDE:
        return True
    return bool((other + turn) % size < MAX_ALONG - 2 * BESIDE)


@inner
def _next_to(work: WalkWork, key: Key, own: Ints, up: bool, now: int) -> Ints:
    """(axes, categories) what it costs to change each cell next to one; NEVER of those that are not looked at."""
    changed, state, table = work.changed, work.state, work.table
    weighed, whose, free = table.weighed, table.whose, len(table.patterns) == 0
    sizes, strides, longest = table.sizes, table.strides, largest_of(table.sizes)
    near, turn = np.empty((len(sizes), longest), np.int64), draw(work.random, longest) if longest > MAX_ALONG else 0
    for v in range(len(own)):
        work.looked[0] += min(sizes[v], MAX_ALONG)
        for other in range(sizes[v]):
            if not _along(other, own[v], sizes[v], turn):
                near[v, other] = 2 * NEVER  # whatever else the step changes
                continue
            corner = key + (other - own[v]) * strides[v]
            place = slot(changed, corner)
            if changed[place] != EMPTY:
                one = price_of_changed(state, place, up, now)
            else:
                one = 0 if up and free else price_of_true(weighed, whose, corner, up)
                if one == UNKNOWN:
                    one = price_anew(table, corner, up, NEVER)
            near[v, other] = one
    return near


@inner
def _cheapest(work: WalkWork, key: Key, up: bool, now: int, most: int) -> int:
    """The cheapest move that flips single axes of a cell, into `best`; its cost, NEVER where there is none.

    The cell's own change is not counted. Depth first over the trie with the best so far as the bound: what a partial
    move costs a whole one costs too, but for wrong cells that it might repair, which the bound leaves out.
    """
    # longer than a function should be, for the reason given at the top
    changed, state, table = work.changed, work.state, work.table
    weighed, whose, free = table.weighed, table.whose, len(table.patterns) == 0
    sizes, strides, variable, begin, end = table.sizes, table.strides, work.variable, work.begin, work.end
    axis, flip_at, flip, order = work.axis, work.flip_at, work.flip, work.order
    shown, room, moved, eased, goal = work.shown, work.room, work.moved, work.filled[EASED], work.filled[GOAL]
    own, place_of, suppressed = codes_of(key, sizes, strides), work.place_of, len(work.place_of) > 0
    placed, costs, ways = begun_suppressed(work, key, up)
    near = _next_to(work, key, own, not up, now)
    corners = np.empty(1 << MAX_FLIPS, np.int64)
    stack = np.zeros((MAX_FLIPS + 1, 5), np.int64)  # node, children seen, its child, categories left, cost
    step = np.zeros(MAX_FLIPS, np.int64)
    corners[0] = key
    d, least, looked, turn = 0, NEVER, work.looked[0], draw(work.random, 1 << 20)
    while d >= 0 and looked < most:
        if stack[d, 3] == 0:
            node, seen = stack[d, 0], stack[d, 1]
            number = end[node] - begin[node]
            if seen == number:
                d -= 1
                continue
            # in turn from a random one: of moves that cost the same the first is taken
            child = begin[node] + (seen + turn) % number
            v = variable[child]
            stack[d, 1], stack[d, 2], stack[d, 3] = seen + 1, child, flip[flip_at[v] + own[axis[v]], NUMBER]
            if stack[d, 3] == 0:
                continue
        child = stack[d, 2]
        row = flip_at[variable[child]]
        v = axis[variable[child]]
        row += own[v]
        other = order[flip[row, AT] + (flip[row, SKIP] + stack[d, 3]) % flip[row, AMONG]]
        stack[d, 3] -= 1
        cost = stack[d, 4] + near[v, other]
        if cost >= least:
            continue
        step[d] = (other - own[v]) * strides[v]
        is_whole = begin[child] == end[child]
        if suppressed:
            for part in range(len(ways)):
                ways[part] = place_of[part, v, other] - place_of[part, v, own[v]]
            if is_whole:
                cost += price_of_shown(shown, room, moved, eased, placed, costs, ways, d + 1, up)
                if cost >= least or (goal >= 0 and not _changes(placed, costs, d + 1, goal)):
                    continue
        half = 1 << d
        corners[half] = key + step[d]
        for i in range(half + 1, 2 * half):
            corners[i] = corners[i - half] + step[d]
            looked += 1
            raised = ODD[i] != up
            place = slot(changed, corners[i])
            if changed[place] != EMPTY:
                one = price_of_changed(state, place, raised, now)
            else:
                one = 0 if raised and free else price_of_true(weighed, whose, corners[i], raised)
                if one == UNKNOWN:
                    one = price_anew(table, corners[i], raised, least - cost)
            cost += one
            if cost >= least:
                break
        if cost >= least:
            continue
        if is_whole:
            least = cost
            work.best[0] = d + 1
            copy(work.best[1:], step[: d + 1])
            continue
        d += 1
        stack[d, 0], stack[d, 1], stack[d, 3], stack[d, 4] = child, 0, 0, cost
        if suppressed:
            price_of_shown(shown, room, moved, eased, placed, costs, ways, d, up)
    work.looked[0] = looked
    return least


# Moves of blocks


@inner
def _list_flip(flips: Ints, random: Ints, found: int, axes: int, step: int, cost: int, telling: int) -> int:
    """Lists a flip; where there is no room a random one goes, each equally likely (Vitter 1985, algorithm R)."""
    at = found if found < len(flips) else draw(random, found + 1)
    if at < len(flips):
        flips[at, 0], flips[at, 1], flips[at, 2], flips[at, 3] = axes, step, cost, telling
    return found + 1


@inner
def _telling(work: WalkWork, axis: int, own: int, other: int) -> int:
    """The coarsest variables of an axis that tell two categories apart, as a bit set."""
    groups, group_at, bits, bit_at, coarser = work.groups, work.group_at, work.levels, work.level_at, work.coarser
    found = 0
    for i in range(bit_at[axis], bit_at[axis + 1]):
        v = bits[i]
        if groups[group_at[v] + own] != groups[group_at[v] + other] and not coarser[v] & found:
            found |= 1 << v
    return found


@inner
def _list_flips(work: WalkWork, key: Key, now: int, least: int, largest: int) -> int:
    """Lists flips of up to `largest` axes, in random order: several only where the donor has a record to give."""
    changed, state, table = work.changed, work.state, work.table
    weighed, whose = table.weighed, table.whose
    sizes, strides, flips, random = table.sizes, table.strides, work.flips, work.random
    own = codes_of(key, sizes, strides)
    # next axis, how many of its categories were looked at, axes flipped, steps, what separates
    stack = np.zeros((MAX_BLOCK + 1, 5), np.int64)
    d = found = looked = 0
    turn = draw(random, 1 << 20) if largest_of(sizes) > MAX_DEEPER else 0
    while d >= 0:
        v, seen = stack[d, 0], stack[d, 1]
        if v == len(own):
            d -= 1
            continue
        if seen == sizes[v] or (d and seen == MAX_DEEPER):
            stack[d, 0], stack[d, 1] = v + 1, 0
            continue
        stack[d, 1] += 1
        other = seen
        if d and sizes[v] > MAX_DEEPER:
            # beside another flip some categories of many, others each time
            other, turn = (seen + turn) % sizes[v], turn + d
        if other == own[v] or not _along(other, own[v], sizes[v], turn):
            continue
        axes, step = stack[d, 2] | 1 << v, stack[d, 3] + (other - own[v]) * strides[v]
        looked += 1
        place = slot(changed, key + step)
        if changed[place] != EMPTY:
            cost = price_of_changed(state, place, False, now)
        else:
            cost = price_of_true(weighed, whose, key + step, False)
            if cost == UNKNOWN:
                cost = price_anew(table, key + step, False, NEVER)
        telling = stack[d, 4] | _telling(work, v, own[v], other)
        if cost < least and (d == 0 or cost <= TABU_COST):
            found = _list_flip(flips, random, found, axes, step, cost, telling)
        if d + 1 < largest and (seen + turn) % sizes[v] < MAX_WIDER:
            d += 1
            stack[d, 0], stack[d, 1], stack[d, 2], stack[d, 3], stack[d, 4] = v + 1, 0, axes, step, telling
    work.looked[0] += looked
    found = min(found, len(flips))
    for i in range(found - 1, 0, -1):
        j = draw(random, i + 1)
        for k in range(4):
            flips[i, k], flips[j, k] = flips[j, k], flips[i, k]
    return found


@inner
def _meeting(released: Flags, sets: Ints, d: int, number: int, block: int) -> int:
    """Of the released sets of one variable of each of d blocks those that stay so with one of the next; how many.

    More than there is room for where they do not fit.
    """
    kept = 0
    for i in range(number):
        rest = block
        while rest:
            lowest = rest & -rest
            rest ^= lowest
            if released[sets[d, i] | lowest]:
                if kept == sets.shape[1]:
                    return kept + 1
                sets[d + 1, kept] = sets[d, i] | lowest
                kept += 1
    return kept


@inner
def _cheapest_of_blocks(work: WalkWork, key: Key, now: int, least: int, largest: int, most: int) -> int:
    """The cheapest move of blocks that raises a cell, where it costs less than `least`, into `best`; the lower cost.

    Blocks of up to `largest` axes, disjoint. A released sub-table meets every block exactly where it has some
    variable of each of them: where no such set is released the move leaves every released marginal.
    """
    # longer than a function should be, for the reason given at the top
    changed, state, table = work.changed, work.state, work.table
    weighed, whose, free = table.weighed, table.whose, len(table.patterns) == 0
    flips, sets, released, found = work.flips, work.sets, work.released, _list_flips(work, key, now, least, largest)
    corners = np.empty(1 << MAX_FLIPS, np.int64)
    shown, room, moved, eased = work.shown, work.room, work.moved, work.filled[EASED]
    placed, costs, ways = begun_suppressed(work, key, True)
    suppressed, leads = len(ways) > 0, np.full((found, len(ways)), NEVER)
    stack = np.zeros((MAX_BLOCKS + 1, 4), np.int64)  # next flip, axes, cost, released sets that meet all blocks
    step = np.zeros(MAX_BLOCKS, np.int64)
    corners[0], stack[0, 3], sets[0, 0] = key, 1, 0
    d, nodes, looked = 0, 0, work.looked[0]
    while d >= 0:
        at = stack[d, 0]
        if at >= found or nodes >= BLOCK_NODES or looked >= most:
            d -= 1
            continue
        stack[d, 0] += 1
        cost = stack[d, 2] + flips[at, 2]
        if flips[at, 0] & stack[d, 1] or cost >= least:
            continue
        nodes += 1
        step[d] = flips[at, 1]
        half = 1 << d
        corners[half] = key + step[d]
        for i in range(half + 1, 2 * half):
            corners[i] = corners[i - half] + step[d]
            looked += 1
            raised = not ODD[i]
            place = slot(changed, corners[i])
            if changed[place] != EMPTY:
                one = price_of_changed(state, place, raised, now)
            else:
                one = 0 if raised and free else price_of_true(weighed, whose, corners[i], raised)
                if one == UNKNOWN:
                    one = price_anew(table, corners[i], raised, least - cost)
            cost += one
            if cost >= least:
                break
        if cost >= least:
            continue
        kept = _meeting(released, sets, d, stack[d, 3], flips[at, 3])
        if suppressed and leads[at, 0] == NEVER:
            led = places_of(work, key + step[d])
            for part in range(len(led)):
                leads[at, part] = led[part] - placed[part, 0]
        if kept == 0:
            if suppressed:
                cost += price_of_shown(shown, room, moved, eased, placed, costs, leads[at], d + 1, True)
                if cost >= least:
                    continue
            least = cost
            work.best[0] = d + 1
            copy(work.best[1:], step[: d + 1])
        elif d + 1 < MAX_BLOCKS and kept <= sets.shape[1]:
            d += 1
            stack[d, 0], stack[d, 1], stack[d, 2], stack[d, 3] = at + 1, stack[d - 1, 1] | flips[at, 0], cost, kept
            if suppressed:
                price_of_shown(shown, room, moved, eased, placed, costs, leads[at], d, True)
    work.looked[0] = looked
    return least


# The walk


@inlined
def _begin(work: WalkWork, target: Key, by: int) -> int:
    """From the true table to one with the target alone wrong: where it is."""
    goal = enter(work, target)
    work.state[goal, LOW] = work.state[goal, HIGH] = work.state[goal, TRUE] + by
    work.state[goal, WRONG], work.wrong[0], work.filled[1] = 0, goal, 1
    return goal


@inner
def _has_room(work: WalkWork, done: int, moves: int) -> bool:
    """Whether further moves fit the trail and the cells that are changed."""
    return bool(done + moves <= MAX_TRAIL and work.filled[0] + (moves << MAX_FLIPS) <= MAX_CHANGED)


@inlined
def _step(work: WalkWork, place: int, now: int, largest: int, most: int, done: int) -> bool:
    """Mends a wrong cell by the cheapest move, which is written down; False where there is none."""
    key, state, best, move = work.changed[place], work.state, work.best, work.trail[done]
    up = state[place, VALUE] < state[place, LOW]
    cost = _cheapest(work, key, up, now, most)
    if cost > 0 and up and largest > 1:
        cost = _cheapest_of_blocks(work, key, now, cost, largest, most)
    if cost >= NEVER:
        return False
    if cost >= state[place, WEIGHT]:
        # nothing is won by this move: what is wrong now weighs more from here on, or the walk would come back
        for i in range(work.filled[1]):
            at = work.wrong[i]
            state[at, WEIGHT] = min(state[at, WEIGHT] + 1, state[at, MOST])
    move[0], move[1], move[2] = key, best[0], up
    copy(move[3:], best[1:])
    apply(work, key, best[0], move[3:], up, now + TABU_STEPS + draw(work.random, TABU_STEPS))
    return True


@inlined
def _go_back(work: WalkWork, done: int, to: int) -> int:
    for at in range(done - 1, to - 1, -1):
        move = work.trail[at]
        apply(work, move[0], move[1], move[3:], move[2] == 0, 0)
    return to


@inner
def _gone(work: WalkWork, goal: int, by: int) -> int:
    """How far the target has gone its way where nothing else is wrong; else, and where too far, nothing."""
    if work.filled[BROKEN] > 0 or work.filled[1] > 1 or (work.filled[1] == 1 and work.wrong[0] != goal):
        return 0
    gone = (work.state[goal, VALUE] - work.state[goal, TRUE]) * (1 if by > 0 else -1)
    return int(gone) if 0 < gone <= abs(by) else 0


@inlined
def _repeat(work: WalkWork, goal: int, by: int, begun: int, done: int) -> int:
    """The moves from `begun` on once more and more, while the target gets farther: no search. The trail's length."""
    moves = done - begun
    while work.filled[1] and _has_room(work, done, moves):
        before = _gone(work, goal, by)
        for at in range(done, done + moves):
            move = work.trail[at]
            copy(move, work.trail[at - moves])
            apply(work, move[0], move[1], move[3:], move[2] == 1, 0)
        if _gone(work, goal, by) <= before:
            _go_back(work, done + moves, done)
            break
        done += moves
    return done


@inlined
def _goal_step(work: WalkWork, key: Key, place: int, up: bool, now: int, most: int, done: int) -> bool:
    """The cheapest move of a cell that changes the place too, which is written down; False where there is none."""
    best, move = work.best, work.trail[done]
    if up and work.state[enter(work, key), WEIGHT] >= FORBIDDEN:
        return False
    work.filled[GOAL] = place
    cost = _cheapest(work, key, up, now, most)
    work.filled[GOAL] = EMPTY
    if cost >= NEVER:
        return False
    move[0], move[1], move[2] = key, best[0], up
    copy(move[3:], best[1:])
    apply(work, key, best[0], move[3:], up, now + TABU_STEPS + draw(work.random, TABU_STEPS))
    return True


@inlined
def _repair_suppressed(work: WalkWork, now: int, most: int, done: int) -> bool:
    """A move of a changed cell back, in a place that is changed and must not be; False where there is none."""
    number = work.filled[CHANGED]
    begin = draw(work.random, number)
    for i in range(number):
        at = work.places[(begin + i) % number]
        change = work.state[at, VALUE] - work.state[at, TRUE]
        if change == 0:
            continue
        key = work.changed[at]
        for place in places_of(work, key):
            moved = work.moved[place]
            low, high = work.room[place, 0], work.room[place, 1]
            if (moved > high and change > 0) or (moved < low and change < 0):
                return _goal_step(work, key, place, change < 0, now, most, done)
    return False


@inlined
def _walk(
    work: WalkWork, cells: Ints, target: int, by: int, of_suppressed: bool, steps: int, largest: int, most: int
) -> int:
    """How far the target was changed with no count wrong; where that is, the walk ends.

    A target of a sub-table in part is a place there, changed by moves of its cells and what mends these.
    """
    up, reached, length, done, goal, gone = by > 0, 0, 0, 0, EMPTY, 0
    restore(work)
    if not of_suppressed:
        goal = _begin(work, target, by)
        if work.state[goal, WEIGHT] >= FORBIDDEN:
            return 0
    for now in range(1, steps + 1):
        if work.looked[0] >= most or not _has_room(work, done, 1):
            break
        work.filled[EASED] = EASE - EASE * now // (steps + 1)
        if of_suppressed:
            gone = work.moved[target] if up else -work.moved[target]
        right = work.filled[WRONGS] + work.filled[BROKEN] == 0
        if of_suppressed and gone < abs(by) and (right or gone <= reached):
            if not _goal_step(work, cells[draw(work.random, len(cells))], target, up, now, most, done):
                continue
        elif work.filled[WRONGS] > 0:
            if not _step(work, work.wrong[draw(work.random, work.filled[WRONGS])], now, largest, most, done):
                break
        elif not _repair_suppressed(work, now, most, done):
            break
        done += 1
        if of_suppressed:
            gone = work.moved[target] if up else -work.moved[target]
            if work.filled[WRONGS] + work.filled[BROKEN] == 0:
                if reached < gone <= abs(by):
                    reached, length = gone, done
                if gone >= abs(by):
                    break
        else:
            if _gone(work, goal, by) > reached:
                done = _repeat(work, goal, by, length, done)
                reached, length = _gone(work, goal, by), done
            if work.filled[WRONGS] + work.filled[BROKEN] == 0:
                break
    _go_back(work, done, length)
    return int(reached)


@inner
def _write(work: WalkWork, keys: Ints, changes: Ints, begin: int) -> int:
    """What the walk has changed, from `begin` on; where it ends."""
    for i in range(work.filled[0]):
        place = work.places[i]
        change = work.state[place, VALUE] - work.state[place, TRUE]
        if change:
            keys[begin], changes[begin] = work.changed[place], change
            begin += 1
    return begin


@kernel
def shift(
    work: WalkWork,
    begin: Ints,
    cells: Ints,
    targets: Ints,
    wanted: Ints,
    tries: Ints,
    nodes: Ints,
    found: Ints,
    gone: Ints,
    keys: Ints,
    by: Ints,
) -> None:
    """Changes (n,) targets by what is wanted of each, or as far as one of the tries gets, each from the true table.

    begin     empty: targets are cells. Else they are places in sub-tables in part, and a walk to change target i begins
              with one of cells[begin[i]:begin[i + 1]]
    tries     (tries, 3): its number, steps, axes of a block
    nodes     (n,) that may be used; afterwards those that were
    found     (n + 1,) target i has the entries found[i]:found[i + 1] of the (n * MAX_CHANGED,) keys and their changes
    gone      (n,) how far each was changed
    """
    for t in range(len(targets)):
        most = nodes[t] * LOOKUPS
        work.looked[0], found[t + 1], gone[t] = 0, found[t], 0
        own = cells[begin[t] : begin[t + 1]] if len(begin) else targets[t : t + 1]
        for row in range(len(tries)):
            if gone[t] == abs(wanted[t]) or work.looked[0] >= most or len(own) == 0:
                break
            # of the target and the try alone, so that cells may be cut into units anywhere
            work.random[0] = (targets[t] + 1) * SCATTER + tries[row, 0] * TERM
            got = _walk(work, own, targets[t], wanted[t], len(begin) > 0, tries[row, 1], tries[row, 2], most)
            if got > gone[t]:
                gone[t], found[t + 1] = got, _write(work, keys, by, found[t])
        nodes[t] = -(-work.looked[0] // LOOKUPS)
        if wanted[t] < 0:
            gone[t] = -gone[t]
