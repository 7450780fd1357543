"""Chains of moves from the true table, compiled: the search behind `sdc.feasible.moves`.

A basic move flips the variables of a set D of a cell, each to another category. Of its 2^|D| corners those with an
even number of variables flipped get a record and the others, the donors, give one. Where no released sub-table
contains D every released marginal stays: over the categories of a variable that it does not see, the changes cancel.
A move that lacks donors, because it would take from empty cells, is mended by raising those cells first, by moves of
their own.

The table is a hash table of packed cells. Cells are put in while one target is treated and taken out again in
reverse order afterwards, which restores the hash table slot by slot.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numba
import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]
Key: TypeAlias = Any  # a packed cell, an int64 in the kernels

EMPTY = -1
MAX_FLIPS = 7
MAX_DEPTHS = 4
MAX_MISSING = 4
MAX_CANDIDATES = 2048
MAX_CHAIN = 512
MAX_INSERTED = 1 << 16
MEMO_SLOTS = 1 << 14

FAILED, OPEN, DONE = 0, 1, 2
PRESENT, LACKING, HOPELESS = 0, 1, 2
KEY, BEGIN, FOUND, LACKS, CANDIDATE, TRIED, DONOR = range(7)
# corner i of a move has those variables flipped whose bits are set in i
ODD = np.array([i.bit_count() % 2 == 1 for i in range(1 << MAX_FLIPS)])
SCATTER = -7046029254386353131


class Search(NamedTuple):
    """What the kernels work on, one release and one table at a time.

    sizes, strides        of the variables; the key of a cell is sum(code * stride)
    flips, lengths        (sets, MAX_FLIPS) variables and (sets,) how many: sets that no released sub-table contains
    keys, counts          the hash table; `inserted` has the `filled[0]` slots filled since the last reset
    candidates, steps     moves listed at each depth: variables flipped, donors missing, their keys; what each
                          variable adds to a key
    chain                 moves made: cell, variables flipped, direction, what each variable adds to a key
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
    chain: Ints
    memo: Ints
    stamps: Ints
    stamp: Ints
    frames: Ints
    near: Ints
    nodes: Ints


def new_search(sizes: Ints, strides: Ints, flips: tuple[Ints, Ints], keys: Ints, counts: Ints) -> Search:
    """The search of a table with these cells and counts, for moves that flip such sets of variables."""
    slots = 1 << int(4 * len(keys) + 2 * MAX_INSERTED).bit_length()
    search = Search(
        sizes,
        strides,
        *flips,
        keys=np.full(slots, EMPTY),
        counts=np.zeros(slots, np.int64),
        inserted=np.zeros(MAX_INSERTED, np.int64),
        filled=np.zeros(1, np.int64),
        candidates=np.zeros((MAX_DEPTHS, MAX_CANDIDATES, 2 + MAX_MISSING), np.int64),
        steps=np.zeros((MAX_DEPTHS, MAX_CANDIDATES, MAX_FLIPS), np.int64),
        chain=np.zeros((MAX_CHAIN, 3 + MAX_FLIPS), np.int64),
        memo=np.full(MEMO_SLOTS, EMPTY),
        stamps=np.zeros(MEMO_SLOTS, np.int64),
        stamp=np.zeros(1, np.int64),
        frames=np.zeros((MAX_DEPTHS, 7), np.int64),
        near=np.zeros((len(sizes), int(sizes.max())), np.int64),
        nodes=np.zeros(1, np.int64),
    )
    _fill(search, keys, counts)
    search.filled[0] = 0
    return search


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _slot(keys: Ints, key: Key) -> int:
    """Where the key is, or the empty slot where it would be."""
    mask = len(keys) - 1
    place = ((key * SCATTER) >> 24) & mask
    while keys[place] != key and keys[place] != EMPTY:
        place = (place + 1) & mask
    return int(place)


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _count(search: Search, key: Key) -> int:
    """The count of a cell; an empty slot holds 0."""
    return int(search.counts[_slot(search.keys, key)])


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _add(search: Search, key: Key, change: int) -> None:
    place = _slot(search.keys, key)
    if search.keys[place] == EMPTY:
        search.keys[place] = key
        if search.filled[0] < MAX_INSERTED:
            search.inserted[search.filled[0]] = place
        search.filled[0] += 1
    search.counts[place] += change


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _fill(search: Search, keys: Ints, counts: Ints) -> None:
    for i in range(len(keys)):
        _add(search, keys[i], counts[i])


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _corners(key: Key, flipped: int, steps: Ints, corners: Ints) -> int:
    """The cells of a move, the cell itself first; how many there are."""
    corners[0] = key
    for j in range(flipped):
        for i in range(1 << j):
            corners[(1 << j) + i] = corners[i] + steps[j]
    return 1 << flipped


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _can_apply(search: Search, key: Key, flipped: int, steps: Ints, up: bool) -> bool:
    """Whether every donor has a record."""
    corners = np.empty(1 << MAX_FLIPS, np.int64)
    for i in range(_corners(key, flipped, steps, corners)):
        if ODD[i] == up and _count(search, corners[i]) <= 0:
            return False
    return True


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _apply(search: Search, key: Key, flipped: int, steps: Ints, up: bool) -> None:
    corners = np.empty(1 << MAX_FLIPS, np.int64)
    for i in range(_corners(key, flipped, steps, corners)):
        _add(search, corners[i], -1 if ODD[i] == up else 1)


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _do(search: Search, at: int, key: Key, flipped: int, steps: Ints, up: bool) -> None:
    """Makes a move and writes it down."""
    _apply(search, key, flipped, steps, up)
    search.chain[at, 0], search.chain[at, 1], search.chain[at, 2] = key, flipped, up
    search.chain[at, 3:] = steps


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _undo(search: Search, done: int, to: int) -> None:
    for at in range(done - 1, to - 1, -1):
        made = search.chain[at]
        _apply(search, made[0], made[1], made[3:], made[2] == 0)


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _has_room(search: Search, at: int, moves: int) -> bool:
    """Whether further moves fit the chain and the slots that are noted."""
    return bool(at + moves < MAX_CHAIN and search.filled[0] + (moves << MAX_FLIPS) < MAX_INSERTED)


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _given_up(search: Search, key: Key, depth: int, note: bool) -> bool:
    """Whether the cell could not be raised at that depth in this attempt; with `note`, remember that."""
    tagged = key * MAX_DEPTHS + depth
    place = ((tagged * SCATTER) >> 24) & (MEMO_SLOTS - 1)
    if note:
        search.memo[place], search.stamps[place] = tagged, search.stamp[0]
    return bool(search.memo[place] == tagged and search.stamps[place] == search.stamp[0])


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _donor(search: Search, key: Key, depth: int, target: Key) -> int:
    """Whether a cell can give a record: PRESENT, LACKING where it must be raised first, HOPELESS where that failed."""
    if key == target:
        return HOPELESS
    if _count(search, key) > 0:
        return PRESENT
    return HOPELESS if _given_up(search, key, depth, False) else LACKING


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _list_flips(search: Search, key: Key, up: bool, depth: int, allowed: int, target: Key) -> int:
    """Moves that flip single variables and lack at most `allowed` donors; the last lacks none if there is such a one.

    The target is no donor for others.
    """
    candidates, steps, near = search.candidates[depth], search.steps[depth], search.near
    corners = np.empty(1 << MAX_FLIPS, np.int64)
    missing = np.zeros((MAX_FLIPS + 1, 1 + MAX_MISSING), np.int64)
    step, level = np.zeros(MAX_FLIPS, np.int64), np.zeros(MAX_FLIPS, np.int64)
    own = np.empty(len(search.sizes), np.int64)
    for v in range(len(own)):
        own[v] = (key // search.strides[v]) % search.sizes[v]
        for other in range(search.sizes[v] if up else 0):
            near[v, other] = _donor(search, key + (other - own[v]) * search.strides[v], depth, target)
    found = 0
    corners[0] = key
    for move in range(len(search.lengths)):
        last = search.lengths[move] - 1
        j = 0
        level[0] = -1
        while j >= 0:
            v = search.flips[move, j]
            level[j] += 1
            if level[j] == own[v]:
                level[j] += 1
            if level[j] >= search.sizes[v]:
                j -= 1
                continue
            state = near[v, level[j]]
            lacks = missing[j, 0]
            if up and (state == HOPELESS or (state == LACKING and lacks >= allowed)):
                continue
            for i in range(1, lacks + 1):
                missing[j + 1, i] = missing[j, i]
            step[j] = (level[j] - own[v]) * search.strides[v]
            number = 1 << j
            for i in range(number):
                corners[number + i] = corners[i] + step[j]
            for i in range(number, 2 * number):
                if ODD[i] == up:
                    state = near[v, level[j]] if up and i == number else _donor(search, corners[i], depth, target)
                    if state == LACKING and lacks < allowed:
                        lacks += 1
                        missing[j + 1, lacks] = corners[i]
                    elif state != PRESENT:
                        lacks = MAX_MISSING + 1
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
def _enter(search: Search, key: Key, up: bool, d: int, allowed: Ints, target: Key, at: int) -> int:
    """Begins with a cell at depth d: DONE where a move lacks no donor and was made, OPEN where others can be mended."""
    search.nodes[0] -= 1
    if search.nodes[0] < 0 or not _has_room(search, at, 1):
        return FAILED
    found = _list_flips(search, key, up, d, allowed[d], target)
    last = found - 1
    if found and search.candidates[d, last, 1] == 0:
        _do(search, at, key, search.candidates[d, last, 0], search.steps[d, last], up)
        return DONE
    frame = search.frames[d]
    frame[KEY], frame[BEGIN], frame[FOUND], frame[LACKS], frame[CANDIDATE], frame[TRIED] = key, at, found, 1, -1, 0
    return OPEN


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _next_candidate(search: Search, d: int, allowed: int, width: int) -> bool:
    """Goes on to the next candidate of the frame, those that lack fewest donors first; False where none is left."""
    frame, candidates = search.frames[d], search.candidates[d]
    frame[DONOR] = 0
    while frame[LACKS] <= allowed:
        frame[CANDIDATE] += 1
        if frame[CANDIDATE] >= frame[FOUND]:
            frame[LACKS] += 1
            frame[CANDIDATE] = -1
        elif candidates[frame[CANDIDATE], 1] == frame[LACKS] and _has_hope(search, candidates[frame[CANDIDATE]], d):
            frame[TRIED] += 1
            return bool(frame[TRIED] <= width and search.nodes[0] >= 0)
    return False


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _has_hope(search: Search, candidate: Ints, depth: int) -> bool:
    given_up = 0
    for i in range(candidate[1]):
        given_up += _given_up(search, candidate[2 + i], depth, False)
    return given_up == 0


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _shift(search: Search, key: Key, up: bool, depth: int, allowed: Ints, width: int, target: Key, done: int) -> int:
    """Changes one cell by one, mending moves that lack donors up to `depth` deep; the chain's length, or -1.

    A depth-first search with its own stack, because a compiled function that calls itself cannot be kept on disk.
    """
    frames = search.frames
    d, at = depth, done
    outcome = _enter(search, key, up, d, allowed, target, at)
    while True:
        if outcome == OPEN and not _next_candidate(search, d, allowed[d], width):
            outcome = FAILED
        if outcome == DONE:
            at += 1
        if outcome != OPEN:
            if d == depth:
                return at if outcome == DONE else -1
            d += 1
            if outcome == FAILED:
                if frames[d, DONOR] == 0:
                    _given_up(search, search.candidates[d, frames[d, CANDIDATE], 2], d, True)
                _undo(search, at, frames[d, BEGIN])
                at = frames[d, BEGIN]
                outcome = OPEN
                continue
            frames[d, DONOR] += 1
        candidate, steps = search.candidates[d, frames[d, CANDIDATE]], search.steps[d, frames[d, CANDIDATE]]
        while frames[d, DONOR] < candidate[1] and _count(search, candidate[2 + frames[d, DONOR]]) > 0:
            frames[d, DONOR] += 1
        if frames[d, DONOR] < candidate[1]:
            d -= 1
            donor = candidate[2 + frames[d + 1, DONOR]]
            outcome = _enter(search, donor, True, d, allowed, target, at)
            continue
        direction = up or d < depth
        if _has_room(search, at, 1) and _can_apply(search, frames[d, KEY], candidate[0], steps, direction):
            _do(search, at, frames[d, KEY], candidate[0], steps, direction)
            outcome = DONE
        else:
            _undo(search, at, frames[d, BEGIN])
            at = frames[d, BEGIN]
            outcome = OPEN


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _repeat(search: Search, begin: int, done: int) -> int:
    """The moves from `begin` on once more, where all of them can be made; the chain's length, or -1."""
    length = done - begin
    if not _has_room(search, done, length):
        return -1
    for at in range(done, done + length):
        move = search.chain[at - length]
        if not _can_apply(search, move[0], move[1], move[3:], move[2] == 1):
            _undo(search, at, done)
            return -1
        _do(search, at, move[0], move[1], move[3:], move[2] == 1)
    return done + length


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def shift(search: Search, target: Key, wanted: int, schedule: Ints, nodes: int) -> tuple[int, int, int]:
    """Moves the target's count by up to `wanted` (its sign says which way), starting from the true table.

    schedule  (efforts, 3 + MAX_DEPTHS): depth, nodes, candidates a node, donors that may be missing at each depth;
              each unit is tried with one effort after another
    nodes     cells that may be looked at in all

    What was reached, how many moves are in `chain`, and the nodes used. `restore` brings the true table back.
    """
    up = wanted > 0
    sign = 1 if up else -1
    goal = _count(search, target) + wanted
    done = used = 0
    while sign * (goal - _count(search, target)) > 0 and used < nodes:
        longer = -1
        for effort in range(len(schedule)):
            search.stamp[0] += 1
            allowance = min(schedule[effort, 1], nodes - used)
            search.nodes[0] = allowance
            depth, width = schedule[effort, 0], schedule[effort, 2]
            lock = target if up else EMPTY
            longer = _shift(search, target, up, depth, schedule[effort, 3:], width, lock, done)
            used += allowance - max(0, search.nodes[0])
            if longer >= 0:
                break
        if longer < 0:
            break
        while longer >= 0:
            begun, done = done, longer
            if sign * (goal - _count(search, target)) <= 0:
                break
            longer = _repeat(search, begun, done)
    return wanted - (goal - _count(search, target)), done, used


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def restore(search: Search, done: int) -> None:
    """Undoes the chain and takes out the cells put in, last first, which leaves every probe sequence as it was."""
    _undo(search, done, 0)
    for i in range(search.filled[0] - 1, -1, -1):
        search.keys[search.inserted[i]] = EMPTY
        search.counts[search.inserted[i]] = 0
    search.filled[0] = 0


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def chain_corners(search: Search, done: int) -> tuple[Ints, Ints]:
    """Keys and changes (+1, -1) of all moves of the chain, not yet added up by cell."""
    corners = np.empty(1 << MAX_FLIPS, np.int64)
    total = 0
    for at in range(done):
        total += 1 << search.chain[at, 1]
    keys, changes = np.empty(total, np.int64), np.empty(total, np.int64)
    begin = 0
    for at in range(done):
        move = search.chain[at]
        number = _corners(move[0], move[1], move[3:], corners)
        for i in range(number):
            keys[begin + i] = corners[i]
            changes[begin + i] = -1 if ODD[i] == (move[2] == 1) else 1
        begin += number
    return keys, changes
