"""Moves from the true table, compiled: the search behind `sdc.feasible.moves`.

A basic move flips the variables of a set D of a cell, each to another category. Of its 2^|D| corners those with an
even number of variables flipped get a record and the others, the donors, give one. Where no released sub-table
contains D every released marginal stays: over the categories of a variable that it does not see, the changes cancel.
A move that lacks donors, because it would take from empty cells, is mended by raising those cells first, by moves of
their own.

The table is a hash table of packed cells. Cells are put in while one target is treated and taken out again in
reverse order afterwards, which restores the hash table slot by slot. So a target's answer does not depend on those
before it, and none pays for a copy of the table.

Kernels that call each other stay in this one module: Numba's cache does not see changes elsewhere.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numba
import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]
Key: TypeAlias = Any  # a packed cell, an int64 in the kernels

EMPTY = -1
MAX_FLIPS = 7  # 2^7 corners, half of which need a record: moves of more variables hardly ever have them
MAX_DEPTHS = 4
MAX_MISSING = 4
MAX_CANDIDATES = 2048
MAX_TRAIL = 512
MAX_INSERTED = 1 << 16
MEMO_SLOTS = 1 << 14  # one entry a slot: what is overwritten is only tried again

FAILED, OPEN, DONE = 0, 1, 2
PRESENT, LACKING, HOPELESS = 0, 1, 2
KEY, BEGIN, FOUND, LACKS, CANDIDATE, TRIED, DONOR = range(7)
# corner i of a move has those variables flipped whose bits are set in i; the odd ones give where the cell is raised
ODD = np.array([i.bit_count() % 2 == 1 for i in range(1 << MAX_FLIPS)])
SCATTER = -7046029254386353131  # 2^64 over the golden ratio: multiplicative hashing (Knuth, vol. 3, 6.4)


class Work(NamedTuple):
    """What the kernels work on, one release and one table at a time.

    sizes, strides        of the variables; the key of a cell is sum(code * stride)
    flips, lengths        (sets, MAX_FLIPS) variables and (sets,) how many: sets that no released sub-table contains
    keys, counts          the hash table; `inserted` has the `filled[0]` slots filled since the last reset
    candidates, steps     moves listed at each depth: variables flipped, donors missing, their keys; what each
                          variable adds to a key
    trail                 moves made: cell, variables flipped, direction, what each variable adds to a key
    memo, stamps, stamp   cells given up at a depth, and in which attempt
    frames                the stack, a frame a depth
    near                  (variables, categories) state of the donors next to a cell
    nodes                 cells that may still be looked at
    """

    sizes: Ints
    strides: Ints
    flips: Ints
    lengths: Ints
    keys: Ints
    counts: Ints
    inserted: Ints
    filled: Ints
    candidates: Ints
    steps: Ints
    trail: Ints
    memo: Ints
    stamps: Ints
    stamp: Ints
    frames: Ints
    near: Ints
    nodes: Ints


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _slot(keys: Ints, key: Key) -> int:
    """Where the key is, or the empty slot where it would be."""
    mask = len(keys) - 1
    place = ((key * SCATTER) >> 24) & mask  # int64 wraps, as is meant; the lowest bits of a product are mixed least
    while keys[place] != key and keys[place] != EMPTY:
        place = (place + 1) & mask
    return int(place)


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _count(work: Work, key: Key) -> int:
    """The count of a cell; an empty slot holds 0."""
    return int(work.counts[_slot(work.keys, key)])


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _add(work: Work, key: Key, change: int) -> None:
    place = _slot(work.keys, key)
    if work.keys[place] == EMPTY:
        work.keys[place] = key
        if work.filled[0] < MAX_INSERTED:  # more are put in by `fill` alone, and those stay
            work.inserted[work.filled[0]] = place
        work.filled[0] += 1
    work.counts[place] += change


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def fill(work: Work, keys: Ints, counts: Ints) -> None:
    """Puts in (n,) cells with (n,) counts."""
    for i in range(len(keys)):
        _add(work, keys[i], counts[i])


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _corners(key: Key, flipped: int, steps: Ints, corners: Ints) -> int:
    """The cells of a move, the cell itself first; how many there are."""
    corners[0] = key
    for j in range(flipped):
        for i in range(1 << j):
            corners[(1 << j) + i] = corners[i] + steps[j]
    return 1 << flipped


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _can_apply(work: Work, key: Key, flipped: int, steps: Ints, up: bool) -> bool:
    """Whether every donor has a record."""
    corners = np.empty(1 << MAX_FLIPS, np.int64)
    for i in range(_corners(key, flipped, steps, corners)):
        if ODD[i] == up and _count(work, corners[i]) <= 0:
            return False
    return True


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _apply(work: Work, key: Key, flipped: int, steps: Ints, up: bool) -> None:
    corners = np.empty(1 << MAX_FLIPS, np.int64)
    for i in range(_corners(key, flipped, steps, corners)):
        _add(work, corners[i], -1 if ODD[i] == up else 1)


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _do(work: Work, at: int, key: Key, flipped: int, steps: Ints, up: bool) -> None:
    """Makes a move and writes it down."""
    _apply(work, key, flipped, steps, up)
    work.trail[at, 0], work.trail[at, 1], work.trail[at, 2] = key, flipped, up
    work.trail[at, 3:] = steps


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _undo(work: Work, done: int, to: int) -> None:
    for at in range(done - 1, to - 1, -1):
        made = work.trail[at]
        _apply(work, made[0], made[1], made[3:], made[2] == 0)


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _has_room(work: Work, at: int, moves: int) -> bool:
    """Whether further moves fit the trail and the slots that are noted."""
    return bool(at + moves < MAX_TRAIL and work.filled[0] + (moves << MAX_FLIPS) < MAX_INSERTED)


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _given_up(work: Work, key: Key, depth: int, note: bool) -> bool:
    """Whether the cell could not be raised at that depth in this attempt; with `note`, remember that."""
    # keys have 59 bits at most, so that the depth fits beside them; stamps make forgetting an attempt one addition
    tagged = key * MAX_DEPTHS + depth
    place = ((tagged * SCATTER) >> 24) & (MEMO_SLOTS - 1)
    if note:
        work.memo[place], work.stamps[place] = tagged, work.stamp[0]
    return bool(work.memo[place] == tagged and work.stamps[place] == work.stamp[0])


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _donor(work: Work, key: Key, depth: int, target: Key) -> int:
    """Whether a cell can give a record: PRESENT, LACKING where it must be raised first, HOPELESS where that failed."""
    if key == target:  # it is being raised: what it gave would be missing there
        return HOPELESS
    if _count(work, key) > 0:
        return PRESENT
    return HOPELESS if _given_up(work, key, depth, False) else LACKING


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _look_around(work: Work, key: Key, up: bool, depth: int, target: Key) -> Ints:
    """The codes of a cell; where it is to be raised the state of the donors next to it goes into `near`."""
    own = np.empty(len(work.sizes), np.int64)
    for v in range(len(own)):
        own[v] = (key // work.strides[v]) % work.sizes[v]
        for other in range(work.sizes[v] if up else 0):
            work.near[v, other] = _donor(work, key + (other - own[v]) * work.strides[v], depth, target)
    return own


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _list_flips(work: Work, key: Key, up: bool, depth: int, allowed: int, target: Key) -> int:
    """Moves that flip single variables and lack at most `allowed` donors; the last lacks none if there is such a one.

    The target is no donor for others. Flips are chosen one variable after another, because the first few mostly tell
    already that a move lacks too much.
    """
    # Longer than a function should be: with the body of the inner loop in one of its own the search took 1.8 times as
    # long, because all arrays of `work` are handed over at each flip.
    candidates, steps, near = work.candidates[depth], work.steps[depth], work.near
    corners = np.empty(1 << MAX_FLIPS, np.int64)
    missing = np.zeros((MAX_FLIPS + 1, 1 + MAX_MISSING), np.int64)
    step, level = np.zeros(MAX_FLIPS, np.int64), np.zeros(MAX_FLIPS, np.int64)
    own, found = _look_around(work, key, up, depth, target), 0
    corners[0] = key
    for move in range(len(work.lengths)):
        last = work.lengths[move] - 1
        j = 0
        level[0] = -1
        while j >= 0:
            v = work.flips[move, j]
            level[j] += 1
            if level[j] == own[v]:
                level[j] += 1
            if level[j] >= work.sizes[v]:
                j -= 1
                continue
            state = near[v, level[j]]
            lacks = missing[j, 0]
            if up and (state == HOPELESS or (state == LACKING and lacks >= allowed)):
                continue
            for i in range(1, lacks + 1):
                missing[j + 1, i] = missing[j, i]
            step[j] = (level[j] - own[v]) * work.strides[v]
            number = 1 << j
            for i in range(number):
                corners[number + i] = corners[i] + step[j]
            for i in range(number, 2 * number):
                if ODD[i] == up:
                    # the corner that differs in this variable only was looked at once for all moves
                    state = near[v, level[j]] if up and i == number else _donor(work, corners[i], depth, target)
                    if state == LACKING and lacks < allowed:
                        lacks += 1
                        missing[j + 1, lacks] = corners[i]
                    elif state != PRESENT:
                        lacks = MAX_MISSING + 1  # more than any schedule allows
                        break
            if lacks > MAX_MISSING:
                continue
            missing[j + 1, 0] = lacks
            if j < last:
                j += 1
                level[j] = -1
                continue
            candidates[found, 0] = last + 1
            candidates[found, 1:] = missing[j + 1]
            steps[found] = step
            found += 1
            if lacks == 0 or found == MAX_CANDIDATES:
                return found
    return found


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _enter(work: Work, key: Key, up: bool, d: int, allowed: Ints, target: Key, at: int) -> int:
    """Begins with a cell at depth d: DONE where a move lacks no donor and was made, OPEN where others can be mended."""
    work.nodes[0] -= 1
    if work.nodes[0] < 0 or not _has_room(work, at, 1):
        return FAILED
    found = _list_flips(work, key, up, d, allowed[d], target)
    last = found - 1
    if found and work.candidates[d, last, 1] == 0:
        _do(work, at, key, work.candidates[d, last, 0], work.steps[d, last], up)
        return DONE
    frame = work.frames[d]
    frame[KEY], frame[BEGIN], frame[FOUND], frame[LACKS], frame[CANDIDATE], frame[TRIED] = key, at, found, 1, -1, 0
    return OPEN


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _next_candidate(work: Work, d: int, allowed: int, width: int) -> bool:
    """Goes on to the next candidate of the frame, those that lack fewest donors first; False where none is left."""
    frame, candidates = work.frames[d], work.candidates[d]
    frame[DONOR] = 0
    while frame[LACKS] <= allowed:
        frame[CANDIDATE] += 1
        if frame[CANDIDATE] >= frame[FOUND]:
            frame[LACKS] += 1
            frame[CANDIDATE] = -1
        elif candidates[frame[CANDIDATE], 1] == frame[LACKS] and _has_hope(work, candidates[frame[CANDIDATE]], d):
            frame[TRIED] += 1
            return bool(frame[TRIED] <= width and work.nodes[0] >= 0)
    return False


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _has_hope(work: Work, candidate: Ints, depth: int) -> bool:
    given_up = 0
    for i in range(candidate[1]):
        given_up += _given_up(work, candidate[2 + i], depth, False)
    return given_up == 0


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _shift(work: Work, key: Key, up: bool, depth: int, allowed: Ints, width: int, target: Key, done: int) -> int:
    """Changes one cell by one, mending moves that lack donors up to `depth` deep; the trail's length, or -1.

    A depth-first search with its own stack, because a compiled function that calls itself cannot be kept on disk.
    """
    frames = work.frames
    d, at = depth, done
    outcome = _enter(work, key, up, d, allowed, target, at)
    while True:
        if outcome == OPEN and not _next_candidate(work, d, allowed[d], width):
            outcome = FAILED
        if outcome == DONE:
            at += 1
        if outcome != OPEN:
            if d == depth:
                return at if outcome == DONE else -1
            d += 1
            if outcome == FAILED:
                if frames[d, DONOR] == 0:  # later donors failed on a table that mending the earlier ones had changed
                    _given_up(work, work.candidates[d, frames[d, CANDIDATE], 2], d, True)
                _undo(work, at, frames[d, BEGIN])
                at = frames[d, BEGIN]
                outcome = OPEN
                continue
            frames[d, DONOR] += 1
        candidate, steps = work.candidates[d, frames[d, CANDIDATE]], work.steps[d, frames[d, CANDIDATE]]
        # a move made for an earlier donor may have mended a later one too
        while frames[d, DONOR] < candidate[1] and _count(work, candidate[2 + frames[d, DONOR]]) > 0:
            frames[d, DONOR] += 1
        if frames[d, DONOR] < candidate[1]:
            d -= 1
            donor = candidate[2 + frames[d + 1, DONOR]]
            outcome = _enter(work, donor, True, d, allowed, target, at)
            continue
        direction = up or d < depth  # donors are always raised
        # or may have taken from one that was there
        if _has_room(work, at, 1) and _can_apply(work, frames[d, KEY], candidate[0], steps, direction):
            _do(work, at, frames[d, KEY], candidate[0], steps, direction)
            outcome = DONE
        else:
            _undo(work, at, frames[d, BEGIN])
            at = frames[d, BEGIN]
            outcome = OPEN


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _repeat(work: Work, begin: int, done: int) -> int:
    """The moves from `begin` on once more, where all of them can be made; the trail's length, or -1."""
    length = done - begin
    if not _has_room(work, done, length):
        return -1
    for at in range(done, done + length):
        move = work.trail[at - length]
        if not _can_apply(work, move[0], move[1], move[3:], move[2] == 1):
            _undo(work, at, done)
            return -1
        _do(work, at, move[0], move[1], move[3:], move[2] == 1)
    return done + length


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def shift(work: Work, target: Key, wanted: int, schedule: Ints, nodes: int) -> tuple[int, int, int]:
    """Moves the target's count by up to `wanted` (its sign says which way), starting from the true table.

    schedule  (efforts, 3 + MAX_DEPTHS): depth, nodes, candidates a node, donors that may be missing at each depth;
              each unit is tried with one effort after another
    nodes     cells that may be looked at in all

    What was reached, how many moves are in `trail`, and the nodes used. `restore` brings the true table back.
    """
    up = wanted > 0
    sign = 1 if up else -1
    goal = _count(work, target) + wanted
    done = used = 0
    while sign * (goal - _count(work, target)) > 0 and used < nodes:
        longer = -1
        for effort in range(len(schedule)):
            work.stamp[0] += 1  # a new attempt: the memo is empty
            allowance = min(schedule[effort, 1], nodes - used)
            work.nodes[0] = allowance
            depth, width = schedule[effort, 0], schedule[effort, 2]
            lock = target if up else EMPTY
            longer = _shift(work, target, up, depth, schedule[effort, 3:], width, lock, done)
            used += allowance - max(0, work.nodes[0])
            if longer >= 0:
                break
        if longer < 0:
            break
        # moves that were found are made once more, as often as they can be, which costs no search
        while longer >= 0:
            begun, done = done, longer
            if sign * (goal - _count(work, target)) <= 0:
                break
            longer = _repeat(work, begun, done)
    return wanted - (goal - _count(work, target)), done, used


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def restore(work: Work, done: int) -> None:
    """Undoes the trail and takes out the cells put in, last first, which leaves every probe sequence as it was."""
    _undo(work, done, 0)
    for i in range(work.filled[0] - 1, -1, -1):
        work.keys[work.inserted[i]] = EMPTY
        work.counts[work.inserted[i]] = 0
    work.filled[0] = 0
