"""Levels: coarser views of variables, what a sub-table implies, and the variables that name it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Groups = npt.NDArray[np.uint16]


@dataclass(frozen=True, eq=False)
class Levels:
    """The variables of a schema by number: axes and their levels.

    axis_of  the axis of each variable; an axis is its own
    groups   of each variable (categories of its axis,) the code of each
    """

    axis_of: tuple[int, ...]
    groups: tuple[Groups, ...]

    @cached_property
    def is_flat(self) -> bool:
        """Whether no variable is a level."""
        return self.axis_of == tuple(range(len(self.axis_of)))

    @cached_property
    def column_of(self) -> tuple[int, ...]:
        """By variable, the position of its axis in the codes of a cell."""
        return tuple(map(sorted({*self.axis_of}).index, self.axis_of))

    @cached_property
    def of_axis(self) -> tuple[int, ...]:
        """By variable, its axis with all levels, as a sub-table."""
        return tuple(sum(1 << u for u, other in enumerate(self.axis_of) if other == axis) for axis in self.axis_of)

    @cached_property
    def coarser(self) -> tuple[int, ...]:
        """By variable, the other variables that it implies, as a sub-table: coarser levels of its axis."""
        pairs = [(v, u) for v, u in self._pairs() if _implies(self.groups[v], self.groups[u])]
        return tuple(sum(1 << u for w, u in pairs if w == v) for v in range(len(self.axis_of)))

    def _pairs(self) -> Iterator[tuple[int, int]]:
        for v, axis in enumerate(self.axis_of):
            yield from ((v, u) for u, other in enumerate(self.axis_of) if other == axis and u != v)

    @cached_property
    def _joins(self) -> dict[tuple[int, int], int]:
        """For overlapping levels, the variable that is their common refinement."""
        found = {}
        for v, u in self._pairs():
            if not (self.coarser[v] >> u & 1 or self.coarser[u] >> v & 1):
                both = numbered(self.groups[v], self.groups[u])
                axis = (w for w, of in enumerate(self.axis_of) if of == self.axis_of[v])
                found[v, u] = next(w for w in axis if np.array_equal(numbered(self.groups[w]), both))
        return found

    def closed(self, subtable: int) -> int:
        """The sub-table with all it implies: coarser levels, and common refinements of overlapping ones."""
        if self.is_flat:
            return subtable
        for (v, u), join in self._joins.items():
            if subtable >> v & 1 and subtable >> u & 1:
                subtable |= 1 << join
        closure = subtable | self._implied(subtable)
        # added variables may overlap again: a refinement of refinements
        return closure if closure == subtable else self.closed(closure)

    def finest(self, subtable: int) -> int:
        """The sub-table without the levels that its other variables imply: the variables that name it."""
        return subtable if self.is_flat else subtable & ~self._implied(subtable)

    def _implied(self, subtable: int) -> int:
        """The variables that those of the sub-table imply, without themselves."""
        implied, rest = 0, subtable
        while rest:
            low = rest & -rest
            rest ^= low
            implied |= self.coarser[low.bit_length() - 1]
        return implied

    def just_coarser(self, variable: int) -> int:
        """The finest levels that a variable implies."""
        return self.finest(self.coarser[variable])

    def finer(self, variable: int) -> int:
        """The variables that imply a level."""
        return sum(1 << v for v, coarser in enumerate(self.coarser) if coarser >> variable & 1)

    def coarsest(self, subtable: int) -> int:
        """Its variables that imply no other of it."""
        return sum(1 << v for v, coarser in enumerate(self.coarser) if subtable >> v & 1 and not coarser & subtable)


def _implies(fine: Groups, coarse: Groups) -> bool:
    """Whether categories in one group of the first are in one group of the second."""
    pairs = len(np.unique(fine.astype(np.int64) << 16 | coarse))
    return pairs == len(np.unique(fine))


def numbered(*groups: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """(n,) joint blocks of (n,) groups, numbered by first occurrence: equal partitions get equal numbers."""
    _, first, block = np.unique(np.stack(groups, axis=1), axis=0, return_index=True, return_inverse=True)
    found: npt.NDArray[np.int64] = np.argsort(np.argsort(first))[block.reshape(-1)]
    return found
