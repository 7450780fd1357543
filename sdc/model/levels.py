"""Levels: which variables of a schema are coarser views of others, and what a sub-table then tells and is named by."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Groups = npt.NDArray[np.uint16]


@dataclass(frozen=True, eq=False)
class Levels:
    """The variables of a schema by number: axes, and levels of them.

    axis_of  of each variable its axis, which an axis is itself
    groups   of each variable (categories of its axis,) its code of each; its own of an axis
    """

    axis_of: tuple[int, ...]
    groups: tuple[Groups, ...]

    @cached_property
    def is_flat(self) -> bool:
        """Whether no variable is a level."""
        return self.axis_of == tuple(range(len(self.axis_of)))

    @cached_property
    def column_of(self) -> tuple[int, ...]:
        """Of each variable the place of its axis among the codes of a cell."""
        return tuple(map(sorted({*self.axis_of}).index, self.axis_of))

    @cached_property
    def of_axis(self) -> tuple[int, ...]:
        """Of each variable its axis and all levels of that, as a sub-table."""
        return tuple(sum(1 << u for u, other in enumerate(self.axis_of) if other == axis) for axis in self.axis_of)

    @cached_property
    def coarser(self) -> tuple[int, ...]:
        """Of each variable those that it tells, itself not among them, as a sub-table: coarser levels of its axis."""
        pairs = [(v, u) for v, u in self._pairs() if _tells(self.groups[v], self.groups[u])]
        return tuple(sum(1 << u for w, u in pairs if w == v) for v in range(len(self.axis_of)))

    def _pairs(self) -> Iterator[tuple[int, int]]:
        """Two variables of one axis, in both orders."""
        for v, axis in enumerate(self.axis_of):
            yield from ((v, u) for u, other in enumerate(self.axis_of) if other == axis and u != v)

    @cached_property
    def _joins(self) -> dict[tuple[int, int], int]:
        """Of two levels that overlap the variable that is their common refinement."""
        found = {}
        for v, u in self._pairs():
            if not (self.coarser[v] >> u & 1 or self.coarser[u] >> v & 1):
                both = numbered(self.groups[v], self.groups[u])
                axis = (w for w, of in enumerate(self.axis_of) if of == self.axis_of[v])
                found[v, u] = next(w for w in axis if np.array_equal(numbered(self.groups[w]), both))
        return found

    def closed(self, subtable: int) -> int:
        """With all that it tells: coarser levels, and of levels that overlap their common refinement."""
        if self.is_flat:
            return subtable
        for (v, u), join in self._joins.items():
            if subtable >> v & 1 and subtable >> u & 1:
                subtable |= 1 << join
        kept = subtable | self._told(subtable)
        # what was added may overlap: a refinement of refinements
        return kept if kept == subtable else self.closed(kept)

    def telling(self, subtable: int) -> int:
        """Without the levels that another variable of it tells: what it is named by."""
        return subtable if self.is_flat else subtable & ~self._told(subtable)

    def _told(self, subtable: int) -> int:
        """What its variables tell, each beside itself."""
        told, rest = 0, subtable
        while rest:
            low = rest & -rest
            rest ^= low
            told |= self.coarser[low.bit_length() - 1]
        return told

    def just_coarser(self, variable: int) -> int:
        """The finest of the levels that a variable tells."""
        return self.telling(self.coarser[variable])

    def finer(self, variable: int) -> int:
        """The variables that tell a level."""
        return sum(1 << v for v, coarser in enumerate(self.coarser) if coarser >> variable & 1)

    def coarsest(self, subtable: int) -> int:
        """Those of its variables that tell no other of it."""
        return sum(1 << v for v, coarser in enumerate(self.coarser) if subtable >> v & 1 and not coarser & subtable)


def _tells(fine: Groups, coarse: Groups) -> bool:
    """Whether two categories that are in one group of the first are in one of the second."""
    pairs = len(np.unique(fine.astype(np.int64) << 16 | coarse))
    return pairs == len(np.unique(fine))


def numbered(*groups: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """(n,) the blocks of (n,) groups together, numbered as they come: equal partitions get equal numbers."""
    _, first, block = np.unique(np.stack(groups, axis=1), axis=0, return_index=True, return_inverse=True)
    found: npt.NDArray[np.int64] = np.argsort(np.argsort(first))[block.reshape(-1)]
    return found
