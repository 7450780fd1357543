"""Compiled chains of hypergeometric laws, cell by cell."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sdc.compiled import inlined, inner, kernel

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]


@kernel
def chains(
    of_cliques: Ints,
    of_separators: Ints,
    one: Ints,
    other: Ints,
    share: float,
    least: float,
    first: Ints,
    start: Ints,
    probabilities: Floats,
) -> int:
    """Compute the laws of cells until one does not fit into the room left; return the number done.

    of_cliques     (cliques, n) counts of each cell's marginal cells
    of_separators  (edges, n) likewise; edge e of the junction tree is between the cliques one[e] and other[e]
    share          the share of a marginal cell's records that falls into the cell, 1 if cliques have all variables
    least          smaller probabilities at the ends are left out
    first, start, probabilities  are filled, see `CellLaws`; a law has at most as many probabilities as the room
    """
    done, room = 0, np.empty((3, len(probabilities)), np.float64)
    start[0] = 0
    for i in range(of_cliques.shape[1]):
        low, size, now = _chain(of_cliques[:, i], of_separators[:, i], one, other, least, room)
        if share < 1.0:
            low, size = _thinned(room, now, low, size, share, least)
            now = 1 - now
        if start[i] + size > len(probabilities):
            break
        first[i], start[i + 1] = low, start[i] + size
        for k in range(size):
            probabilities[start[i] + k] = room[now, k]
        done += 1
    return done


@inlined
def _chain(
    of_cliques: Ints, of_separators: Ints, one: Ints, other: Ints, least: float, room: Floats
) -> tuple[int, int, int]:
    """From the clique with the smallest count outwards; the law is in room[now, :size], of counts from low on."""
    reached = np.zeros(len(of_cliques), np.bool_)
    clique = np.argmin(of_cliques)
    reached[clique] = True
    low, size, now = of_cliques[clique], 1, 0
    room[0, 0] = 1.0
    for _ in range(len(one)):
        # next the neighbour with the smallest count: it leaves the smallest range
        edge = -1
        for e in range(len(one)):
            if reached[one[e]] != reached[other[e]]:
                new = other[e] if reached[one[e]] else one[e]
                if edge < 0 or of_cliques[new] < of_cliques[clique]:
                    edge, clique = e, new
        reached[clique] = True
        low, size = _matched(room, now, low, size, of_separators[edge], of_cliques[clique], least)
        now = 1 - now
    return low, size, now


@inner
def _matched(room: Floats, now: int, low: int, size: int, population: int, draws: int, least: float) -> tuple[int, int]:
    """m' of Hypergeometric(population, m, draws), for m of the law so far; into the other half of the room."""
    begin, end = max(0, low + draws - population), min(low + size - 1, draws)
    room[1 - now, : end - begin + 1] = 0.0
    for k in range(size):
        m = low + k
        lowest, highest, rest = max(0, m + draws - population), min(m, draws), population - m - draws
        # each from its neighbour by their ratio, outwards from the mode, so that values only decrease
        mode = min(max((m + 1) * (draws + 1) // (population + 2), lowest), highest)
        up, down, term, whole = mode, mode, 1.0, 1.0
        room[2, mode - begin] = 1.0
        while up < highest and term > least:
            term *= (m - up) / (up + 1.0) * ((draws - up) / (rest + up + 1.0))
            up += 1
            room[2, up - begin] = term
            whole += term
        term = 1.0
        while down > lowest and term > least:
            term *= down / (m - down + 1.0) * ((rest + down) / (draws - down + 1.0))
            down -= 1
            room[2, down - begin] = term
            whole += term
        # divided by their sum, so that no factorial is needed
        for x in range(down - begin, up - begin + 1):
            room[1 - now, x] += room[now, k] / whole * room[2, x]
    return _trimmed(room[1 - now], begin, end - begin + 1, least)


@inlined
def _thinned(room: Floats, now: int, low: int, size: int, share: float, least: float) -> tuple[int, int]:
    """m' of Binomial(m, share), for m of the law so far; into the other half of the room."""
    room[1 - now, : low + size] = 0.0
    odds = share / (1.0 - share)
    for k in range(size):
        m = low + k
        mode = min(int((m + 1) * share), m)
        up, down, term, whole = mode, mode, 1.0, 1.0
        room[2, mode] = 1.0
        while up < m and term > least:
            term *= (m - up) / (up + 1.0) * odds
            up += 1
            room[2, up] = term
            whole += term
        term = 1.0
        while down > 0 and term > least:
            term *= down / (m - down + 1.0) / odds
            down -= 1
            room[2, down] = term
            whole += term
        for x in range(down, up + 1):
            room[1 - now, x] += room[now, k] / whole * room[2, x]
    return _trimmed(room[1 - now], 0, low + size, least)


@inner
def _trimmed(law: Floats, low: int, size: int, least: float) -> tuple[int, int]:
    """Without ends below `least`, moved to the beginning; the sum stays 1 up to rounding."""
    begin, end = 0, size
    while begin < end - 1 and law[begin] < least:
        begin += 1
    while end - 1 > begin and law[end - 1] < least:
        end -= 1
    if begin:
        for k in range(begin, end):
            law[k - begin] = law[k]
    return low + begin, end - begin
