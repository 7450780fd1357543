"""Whether differences leave released marginals as they are, compiled: the check behind `Differences.preserve`."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sdc.compiled import inner, kernel

Ints: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]

SCATTER = -7046029254386353131  # 2^64 over the golden ratio: multiplicative hashing (Knuth, vol. 3, 6.4)


@inner
def _agree(cells: Ints, one: int, other: int, members: Ints) -> bool:
    """Whether two entries fall on the same marginal cell."""
    equal = True
    for v in members:
        equal &= cells[one, v] == cells[other, v]
    return equal


@inner
def _cancel(cells: Ints, changes: Ints, begin: int, end: int, members: Ints, first: Ints, sums: Ints) -> bool:
    """Whether the changes of the entries from begin to end sum to zero in each marginal cell.

    first, sums  a hash table of marginal cells: the first entry on each, -1 where there is none, and the sum so far
    """
    first[:] = -1
    mask, others = len(first) - 1, 0  # marginal cells whose sum is not zero
    for entry in range(begin, end):
        key = 0
        for v in members:
            key = (key + cells[entry, v] + 1) * SCATTER  # int64 wraps: equal cells meet, and whether they are is asked
            key ^= (key >> 29) & 0x7FFFFFFFF
        place = key & mask
        while first[place] >= 0 and not _agree(cells, first[place], entry, members):
            place = (place + 1) & mask
        if first[place] < 0:
            first[place], sums[place] = entry, 0
        others -= sums[place] != 0
        sums[place] += changes[entry]
        others += sums[place] != 0
    return others == 0


@kernel
def preserved(
    start: Ints, cells: Ints, changes: Ints, varying: Ints, elements: Ints, parts: Ints, part: Ints, public: Flags
) -> Flags:
    """(differences,) whether each leaves the marginals of all elements as they are.

    varying   (differences,) the variables that an element matters by: of two cells that agree in all others it sees
              what it has of these
    elements  (elements,) bit sets; element e has the variables parts[part[e]:part[e + 1]]
    public    (2^variables,) sets whose marginals are known to stay; none where that is not known
    """
    kept = np.ones(len(start) - 1, np.bool_)
    for d in range(len(kept)):
        begin, end = start[d], start[d + 1]
        size = 2
        while size < 2 * (end - begin):
            size *= 2
        first, sums = np.empty(size, np.int64), np.empty(size, np.int64)
        for e in range(len(elements)):
            if len(public) and public[elements[e] & varying[d]]:
                continue
            if not _cancel(cells, changes, begin, end, parts[part[e] : part[e + 1]], first, sums):
                kept[d] = False
                break
    return kept
