"""The annealing chain over decomposable graphs, compiled: proposals, acceptance and the widths of the at-risk cells.

With S = N(u) & N(v) the edge uv may be added where S separates u from v, and deleted where S is complete; C = S + u + v
is then the one clique that contains it. The sum in the lower bound, clique counts minus separator counts, is kept as
its terms: an addition changes it by n_C + n_S - n_(S+u) - n_(S+v), a deletion by the opposite. Bounds narrow when an
edge is added and widen when one is deleted, so only additions are tested.

A cell's lower bound is at most its count. With beta the minimum width: where n_C(i) >= beta + n(i) in every clique C
its width is beta or more, and only the others, the exposed cells of a clique, are looked at. They are few, because
n_C(i) >= beta everywhere. What a chain finds is judged again by the criteria, which compiled code cannot ask.

Rows of marginals come from the caller: where one is missing the kernel puts its generator back to the beginning of the
proposal and returns what it needs. So it does where the caller asks something of graphs beside their widths: then it
returns each move that the widths allow, and makes or refuses it once the caller has answered. Where the caller knows
what a graph is worth it answers with that, and Metropolis decides then.

Proposal, constraint and acceptance are usually callables of their own that a chain is put together from. Here one
kernel has all three: a proposal takes some microseconds, and to hand the arrays from Python to each part would cost
more than what they do. What one would exchange is data instead: the weights, the width, the cooling. And kernels that
call each other stay in this one module, because Numba's cache does not see changes elsewhere.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from sdc.compiled import inlined, inner, kernel

Ints: TypeAlias = npt.NDArray[np.int64]
MarginalCounts: TypeAlias = npt.NDArray[Any]  # int32 where every sum fits, else int64

DONE, MISSING, ON_TOP, ASKED = 0, 1, 2, 3
UNKNOWN, ILLEGAL, LEGAL, REFUSED = 0, 1, 2, 3
ALLOWED, VALUED = 1, 2  # what the caller is asked of a move, where it is: whether it may be made; and the graph's value
EMPTY = -1
NARROW = -2
SEEN_SLOTS = 1 << 12
SCATTER = -7046029254386353131  # 2^64 over the golden ratio: multiplicative hashing (Knuth, vol. 3, 6.4)
GOLDEN, MIX, MIX_AGAIN = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)

# entries of `numbers`
TERMS, CLOCK, NEEDED, SEEN, FINGERPRINT, ACCEPTED, ASKS, ANSWER = range(8)


class Cooling(NamedTuple):
    """Temperatures from start to end within a cycle of `length` steps: linear, or else geometric."""

    start: float
    end: float
    length: int
    is_linear: bool


class ChainWork(NamedTuple):
    """What the kernels work on: one chain over one table.

    neighbours, fixed    (K,) bit sets; edges that may not be deleted
    weights              (K,) of the variables; the value of an edge is w_u w_v prod_S (1 + w_s), and the corrections
    listed, corrections  (m,) sub-tables with a value of their own; what it is above the product of their weights
    first, second        (P,) the pairs of variables, first < second
    prints               (P,) random numbers whose XOR over the edges distinguishes graphs
    status               (P,) of each pair: whether toggling it is a legal move, or one that the widths refused
    terms, signs         (2 K + 4,) cliques and separators; 1 for a clique, else minus the separator's multiplicity
    term_rows            (2 K + 4,) where their rows are
    rows, stamps         (slots, n) marginals at the at-risk cells; when each was used last
    exposed, span        cells of all rows with n_C(i) < beta + n(i); (slots, 2) from where to where they are of a row
    keys, places         hash table from sub-table to row, or to NARROW where its critical width is too small
                         or it may not go out
    seen                 (SEEN_SLOTS,) hash set of graphs on top that were looked at
    value                (3,) of the current graph; best value so far; of the graph proposed, as the caller has answered
    random               (1,) uint64, the generator's state (splitmix64)
    numbers              counters, see the constants
    """

    neighbours: Ints
    fixed: Ints
    weights: npt.NDArray[np.float64]
    listed: Ints
    corrections: npt.NDArray[np.float64]
    first: Ints
    second: Ints
    prints: Ints
    status: Ints
    terms: Ints
    signs: Ints
    term_rows: Ints
    rows: MarginalCounts
    stamps: Ints
    exposed: Ints
    span: Ints
    keys: Ints
    places: Ints
    seen: Ints
    value: npt.NDArray[np.float64]
    random: npt.NDArray[np.uint64]
    numbers: Ints


@inner
def _uniform(work: ChainWork) -> float:
    """The next number in [0, 1): splitmix64 (Steele, Lea, Flood 2014), the upper 53 bits."""
    # a generator of one word: it is saved with the chain, and put back where a proposal has to begin again
    work.random[0] += GOLDEN
    z = work.random[0]
    z = (z ^ (z >> np.uint64(30))) * MIX
    z = (z ^ (z >> np.uint64(27))) * MIX_AGAIN
    z = z ^ (z >> np.uint64(31))
    return float(z >> np.uint64(11)) * 2.0**-53


# The graph


@inner
def _is_separated(neighbours: Ints, u: int, v: int, separator: int) -> bool:
    """Whether every path from u to v goes through the separator."""
    reached = fresh = 1 << u
    while fresh:
        around = 0
        for w in range(len(neighbours)):
            if fresh >> w & 1:
                around |= neighbours[w]
        if around >> v & 1:
            return False
        fresh = around & ~separator & ~reached
        reached |= fresh
    return True


@inner
def _is_complete(neighbours: Ints, subtable: int) -> bool:
    complete = True
    for w in range(len(neighbours)):
        if subtable >> w & 1:
            complete &= subtable & ~(neighbours[w] | 1 << w) == 0
    return complete


@inner
def _status(work: ChainWork, pair: int) -> int:
    """Whether the edge may be added, or deleted, so that the graph stays chordal."""
    u, v = work.first[pair], work.second[pair]
    common = work.neighbours[u] & work.neighbours[v]
    if work.neighbours[u] >> v & 1:
        is_free = not work.fixed[u] >> v & 1
        return LEGAL if is_free and _is_complete(work.neighbours, common) else ILLEGAL
    return LEGAL if _is_separated(work.neighbours, u, v, common) else ILLEGAL


@inner
def _forget_moves(work: ChainWork, u: int, v: int, common: int, added: bool) -> None:
    """Which pairs must be looked at again after uv was toggled.

    An edge ab may have changed where it has an end in {u, v} or both in S; a pair that is no edge where it has an end
    in {u, v} or where u and v are joined, or parted, outside its own separator, which then contains S. What was
    refused stays so where only edges came: bounds have narrowed; what the caller refused may be allowed of any other.
    """
    toggled = 1 << u | 1 << v
    for pair in range(len(work.status)):
        a, b = work.first[pair], work.second[pair]
        both = 1 << a | 1 << b
        around = work.neighbours[a] & work.neighbours[b]
        if both & toggled or (work.status[pair] == REFUSED and (not added or work.numbers[ASKS])):
            work.status[pair] = UNKNOWN
        elif work.neighbours[a] >> b & 1:
            if both & ~common == 0:
                work.status[pair] = UNKNOWN
        elif common & ~around == 0:
            work.status[pair] = UNKNOWN


@inlined
def _draw_move(work: ChainWork) -> int:
    """One of the legal moves, all with the same probability: pairs are drawn until one is legal."""
    # Drawing again needs no list of the legal moves, which each accepted one would change; and a status is worked out
    # only where it is drawn.
    while True:
        pair = int(_uniform(work) * len(work.status))
        if work.status[pair] == UNKNOWN:
            work.status[pair] = _status(work, pair)
        if work.status[pair] != ILLEGAL:  # a REFUSED one is legal: the proposal is made, and fails
            return pair


@inlined
def _toggle(work: ChainWork, pair: int, rows: tuple[int, int, int, int], added: bool) -> None:
    """The graph with the edge added or deleted: terms, legal moves, value and fingerprint."""
    u, v = work.first[pair], work.second[pair]
    common = work.neighbours[u] & work.neighbours[v]
    sign = 1 if added else -1
    add_term(work, common | 1 << u | 1 << v, rows[0], sign)
    add_term(work, common, rows[1], sign)
    add_term(work, common | 1 << u, rows[2], -sign)
    add_term(work, common | 1 << v, rows[3], -sign)
    work.neighbours[u] ^= 1 << v
    work.neighbours[v] ^= 1 << u
    work.numbers[FINGERPRINT] ^= work.prints[pair]
    if work.numbers[ASKS] == VALUED:
        work.value[0] = work.value[2]
    else:
        work.value[0] += sign * _value(work, u, v, common)
    work.numbers[ACCEPTED] += 1
    _forget_moves(work, u, v, common, added)


@inner
def _value(work: ChainWork, u: int, v: int, common: int) -> float:
    """Value of the complete sets S' + u + v, S' within S: w_u w_v prod_S (1 + w_s), and what listed ones are beside."""
    value = float(work.weights[u] * work.weights[v])
    for w in range(len(work.weights)):
        if common >> w & 1:
            value *= 1.0 + work.weights[w]
    both = 1 << u | 1 << v
    for j in range(len(work.listed)):
        if both & ~work.listed[j] == 0 and work.listed[j] & ~(common | both) == 0:
            value += work.corrections[j]
    return value


@kernel
def add_term(work: ChainWork, subtable: int, row: int, sign: int) -> None:
    """Adds the sub-table's counts, in this row, to the sum of the lower bound ([DKS] theorem 1), or takes them away.

    What cancels is dropped. At most 2 K + 4 terms, which the cliques and separators of K variables never exceed.
    """
    # cliques and separators are at most some 2 K, so that a search one by one is faster than a table would be
    last = work.numbers[TERMS]
    for j in range(last):
        if work.terms[j] == subtable:
            work.signs[j] += sign
            if work.signs[j] == 0:  # the last one takes its place
                last -= 1
                work.terms[j], work.signs[j], work.term_rows[j] = (
                    work.terms[last],
                    work.signs[last],
                    work.term_rows[last],
                )
                work.numbers[TERMS] = last
            return
    work.terms[last], work.signs[last], work.term_rows[last] = subtable, sign, row
    work.numbers[TERMS] = last + 1


# Marginals at the at-risk cells


@inner
def _slot(keys: Ints, subtable: int) -> int:
    """Where the sub-table is, or the empty slot where it would be."""
    mask = len(keys) - 1
    place = ((subtable * SCATTER) >> 24) & mask
    while keys[place] != subtable and keys[place] != EMPTY:
        place = (place + 1) & mask
    return place


@kernel
def remember(work: ChainWork, subtable: int, place: int) -> None:
    """Notes the row of a sub-table, or that it is NARROW."""
    slot = _slot(work.keys, subtable)
    work.keys[slot], work.places[slot] = subtable, place


@kernel
def row_of(work: ChainWork, subtable: int) -> int:
    """The row of a sub-table, NARROW, or EMPTY where neither is known: it is then needed."""
    slot = _slot(work.keys, subtable)
    if work.keys[slot] == EMPTY:
        work.numbers[NEEDED] = subtable
        return EMPTY
    if work.places[slot] >= 0:  # a note has no row to stamp
        work.stamps[work.places[slot]] = work.numbers[CLOCK]
    return int(work.places[slot])


@inner
def _is_wide(work: ChainWork, cell: int, rows: tuple[int, int, int, int], required: int) -> bool:
    """Whether the cell keeps the required width when the clique in the first of the rows is added."""
    high = int(work.rows[rows[0], cell])
    low = high + work.rows[rows[1], cell] - work.rows[rows[2], cell] - work.rows[rows[3], cell]
    for j in range(work.numbers[TERMS]):
        count = int(work.rows[work.term_rows[j], cell])
        low += work.signs[j] * count
        if work.signs[j] > 0:
            high = min(high, count)
    return bool(high - max(0, low) >= required)


@inner
def _all_wide(work: ChainWork, rows: tuple[int, int, int, int], required: int) -> bool:
    """Whether every cell keeps the required width when the clique in the first of the rows is added."""
    for j in range(-1, work.numbers[TERMS]):
        if j >= 0 and work.signs[j] < 0:
            continue
        row = work.term_rows[j] if j >= 0 else rows[0]
        for i in range(work.span[row, 0], work.span[row, 1]):
            if not _is_wide(work, work.exposed[i], rows, required):
                return False
    return True


# The chain


@inner
def _rows(work: ChainWork, u: int, v: int, common: int) -> tuple[int, int, int, int]:
    """Rows of C = S + u + v, S, S + u and S + v; as soon as one is EMPTY or NARROW it stands for the first."""
    # the whole clique first: most that are refused are narrow by their critical width, and need no other row
    whole = row_of(work, common | 1 << u | 1 << v)
    if whole < 0:
        return whole, 0, 0, 0
    rest, one, other = row_of(work, common), row_of(work, common | 1 << u), row_of(work, common | 1 << v)
    if rest < 0 or one < 0 or other < 0:
        work.numbers[NEEDED] = common if rest < 0 else common | (1 << u if one < 0 else 1 << v)
        return EMPTY, 0, 0, 0
    return whole, rest, one, other


@inlined
def _try_addition(work: ChainWork, pair: int, required: int, temperature: float) -> int:
    """One proposal to add an edge: it is taken where all widths allow, and the caller."""
    # weights are above 0, so that an addition never loses value and Metropolis always accepts it; where the caller
    # knows the value it may
    if work.status[pair] == REFUSED:
        return DONE
    u, v = work.first[pair], work.second[pair]
    common = work.neighbours[u] & work.neighbours[v]
    rows = _rows(work, u, v, common)
    if rows[0] == EMPTY:
        return MISSING
    if rows[0] == NARROW or not _all_wide(work, rows, required):
        work.status[pair] = REFUSED
        return DONE
    return _taken(work, pair, rows, True, temperature)


@inlined
def _delete(work: ChainWork, pair: int, temperature: float) -> int:
    """Deletes an edge, where the caller allows it."""
    # no width is tested: with less public no interval is narrower
    if work.status[pair] == REFUSED:
        return DONE
    u, v = work.first[pair], work.second[pair]
    common = work.neighbours[u] & work.neighbours[v]
    rows = _rows(work, u, v, common)
    if rows[0] < 0:
        return MISSING
    return _taken(work, pair, rows, False, temperature)


@inner
def _taken(work: ChainWork, pair: int, rows: tuple[int, int, int, int], added: bool, temperature: float) -> int:
    """Makes a move that the widths allow; where the caller wants to be asked, as it has answered."""
    if work.numbers[ASKS]:
        answer = work.numbers[ANSWER]
        work.numbers[ANSWER] = UNKNOWN
        if answer == UNKNOWN:
            work.numbers[NEEDED] = pair
            return ASKED
        if answer == REFUSED:
            work.status[pair] = REFUSED
            return DONE
        if work.numbers[ASKS] == VALUED and not _accepts(work, work.value[0] - work.value[2], temperature):
            return DONE
    _toggle(work, pair, rows, added)
    return DONE


@kernel
def temperature(cooling: Cooling, step: int) -> float:
    """Temperature at a step, in units of utility: every cycle begins at the start again ([KDSF] section 5.1)."""
    passed = (step % cooling.length) / cooling.length
    if cooling.is_linear:
        return float(cooling.start + (cooling.end - cooling.start) * passed)
    return float(cooling.start * (cooling.end / cooling.start) ** passed)


@inner
def _accepts(work: ChainWork, loss: float, temperature: float) -> bool:
    """Metropolis: whether a move that loses so much is accepted."""
    return bool(loss <= 0 or (temperature > 0 and _uniform(work) < np.exp(-loss / temperature)))


@inlined
def _may_delete(work: ChainWork, pair: int, temperature: float) -> bool:
    """Whether a deletion is accepted, or the caller has to be asked what it loses."""
    u, v = work.first[pair], work.second[pair]
    if work.numbers[ASKS] == VALUED:
        return True
    return _accepts(work, _value(work, u, v, work.neighbours[u] & work.neighbours[v]), temperature)


@inner
def _is_new_on_top(work: ChainWork) -> bool:
    """Whether the graph is as good as the best, within rounding, and was not looked at before."""
    # ties go to the larger width, which only the caller works out: each tie costs it a pass over all cells, and a cold
    # chain is on the same few graphs for thousands of steps
    if work.value[0] < work.value[1] - 1e-9 * abs(work.value[1]):
        return False
    return bool(work.seen[_slot(work.seen, work.numbers[FINGERPRINT] & 0x7FFFFFFFFFFFFFFF)] == EMPTY)


@kernel
def mark_seen(work: ChainWork) -> None:
    """The current graph was looked at; the set begins anew when it is half full, which costs time and nothing else."""
    if work.numbers[SEEN] >= SEEN_SLOTS // 2:
        work.seen[:] = EMPTY
        work.numbers[SEEN] = 0
    fingerprint = work.numbers[FINGERPRINT] & 0x7FFFFFFFFFFFFFFF
    work.seen[_slot(work.seen, fingerprint)] = fingerprint
    work.numbers[SEEN] += 1


@kernel
def advance(work: ChainWork, cooling: Cooling, required: int, step: int, until: int) -> tuple[int, int]:
    """Proposals from `step` on, and why it stopped: DONE, MISSING a row, ASKED for a move, ON_TOP to be looked at."""
    while step < until:
        before, accepted = work.random[0], work.numbers[ACCEPTED]
        work.numbers[CLOCK] += 1
        pair, heat = _draw_move(work), temperature(cooling, step)
        if work.neighbours[work.first[pair]] >> work.second[pair] & 1:
            outcome = _delete(work, pair, heat) if _may_delete(work, pair, heat) else DONE
        else:
            outcome = _try_addition(work, pair, required, heat)
        if outcome != DONE:
            work.random[0] = before  # so that a chain does not depend on what was remembered
            return step, outcome
        step += 1
        if work.numbers[ACCEPTED] > accepted and _is_new_on_top(work):
            return step, ON_TOP
    return until, DONE
