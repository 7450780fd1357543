"""Keys: one integer for each cell, for any number of variables. The only encoding of cells outside the kernels."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sdc.model.errors import InputError

Codes: TypeAlias = npt.NDArray[np.integer]
Keys: TypeAlias = npt.NDArray[np.int64]

MAX_CELLS = 1 << 62  # a doubled key fits 64 bits: kernels may tag and subtract keys
MAX_DENSE_CELLS, DENSE_CELLS_EACH = 1 << 22, 16  # at most 32 MB, and so many slots for each number looked up


@dataclass(frozen=True)
class KeySpace:
    """The cells of variables with given numbers of categories, in C order: the first variable is slowest.

    Below 2^62 cells a key is the cell's position, see `pack`. Larger spaces have no positions: the given cells are
    ranked, see `numbers` and `KeyIndex`, which accept any space.
    """

    sizes: tuple[int, ...]

    def restricted(self, variables: Iterable[int]) -> KeySpace:
        """The space of some variables, in the given order."""
        return KeySpace(tuple(self.sizes[v] for v in variables))

    @cached_property
    def cells(self) -> int:
        """The number of cells, a Python int that may exceed 2^64."""
        return prod(self.sizes)

    @property
    def fits(self) -> bool:
        """Whether every key has less than 62 bits."""
        return self.cells < MAX_CELLS

    @property
    def strides(self) -> Keys:
        """(variables,) increment of a key for one category more; InputError if keys do not fit."""
        self._require_fit()
        return np.array([prod(self.sizes[v + 1 :]) for v in range(len(self.sizes))], np.int64)

    def pack(self, codes: Codes) -> Keys:
        """(n,) keys of cells with valid (n, variables) codes; InputError if keys do not fit."""
        self._require_fit()
        return self.numbers(codes)

    def unpack(self, keys: Keys) -> npt.NDArray[np.uint16]:
        """(n, variables) codes of cells with (n,) keys; InputError if keys do not fit."""
        return (keys[:, None] // self.strides % np.array(self.sizes, np.int64)).astype(np.uint16)

    def numbers(self, codes: Codes) -> Keys:
        """(n,) numbers of cells with (n, variables) codes: equal for equal cells, and in their order.

        These are the keys if they fit. Otherwise numbers are replaced by ranks before the next variable would exceed 62
        bits: such numbers are comparable only within one call.
        """
        ids, space = np.zeros(len(codes), np.int64), 1
        for column, size in zip(codes.T, self.sizes, strict=True):
            # ids < space always. Ranks preserve the order; after ranking the space is the number of given cells, which
            # times 65,536 categories is far below 2^62
            if space * size >= MAX_CELLS:
                ids = np.unique(ids, return_inverse=True)[1].astype(np.int64)
                space = len(codes)
            ids *= size
            ids += column
            space *= size
        return ids

    def distinct(self, codes: Codes) -> tuple[Keys, Keys]:
        """The first row of each distinct cell, in their order, and (n,) the index of each (n, variables) cell."""
        numbers = self.numbers(codes)
        if self.cells < min(MAX_DENSE_CELLS, DENSE_CELLS_EACH * len(numbers)):
            # a lookup array is several times faster than sorting if it is dense
            row = np.full(self.cells, len(numbers))
            row[numbers[::-1]] = np.arange(len(numbers))[::-1]  # the first of equal ones is written last
            found = np.flatnonzero(row < len(numbers))
            first = row[found]
            row[found] = np.arange(len(found))
            return first, row[numbers]
        _, first, group = np.unique(numbers, return_index=True, return_inverse=True)
        return first, group

    def matching(self, rows: Codes, cells: Codes) -> Keys:
        """(n,) the index of each of (n, variables) cells among (m, variables) distinct rows, -1 if absent."""
        if not len(rows):
            return np.full(len(cells), -1)
        # in one call, because ranks are comparable only within a call
        ids = self.numbers(np.concatenate([rows, cells]))
        own, wanted = ids[: len(rows)], ids[len(rows) :]
        highest = int(ids.max())
        if highest < min(MAX_DENSE_CELLS, DENSE_CELLS_EACH * len(ids)):
            # a lookup array is several times faster than bisection if it is dense
            row = np.full(highest + 1, -1)
            row[own] = np.arange(len(own))
            return row[wanted]
        order = np.argsort(own, kind="stable")
        # beyond the last row any index will do: its number differs
        place = order[np.minimum(np.searchsorted(own, wanted, sorter=order), len(rows) - 1)]
        return np.where(own[place] == wanted, place, -1)

    def _require_fit(self) -> None:
        if not self.fits:
            raise InputError(
                f"{len(self.sizes)} variables have {self.cells} cells, and keys of 62 bits number fewer than 2^62; "
                "choose fewer variables"
            )


class KeyIndex:
    """Finds cells among the wanted ones, chunk by chunk: only the wanted cells are ranked.

    own     (n,) the group of each wanted cell; equal cells share a group
    groups  number of groups

    The wanted cells have (n, variables) codes within the sizes; any space is allowed.
    """

    # `KeySpace.numbers` in two halves: the ranks of the wanted cells are stored, and other cells are looked up among
    # them variable by variable. A prefix that is missing there belongs to no wanted cell.

    def __init__(self, space: KeySpace, wanted: Codes) -> None:
        self._sizes = space.sizes
        self._ranked: dict[int, Keys] = {}
        ids, cells = np.zeros(len(wanted), np.int64), 1
        for column, size in enumerate(self._sizes):
            if cells * size >= MAX_CELLS:
                self._ranked[column], ids = np.unique(ids, return_inverse=True)
                cells = len(wanted)
            ids = ids * size + wanted[:, column]
            cells *= size
        self._last, self.own = np.unique(ids, return_inverse=True)
        self.groups = len(self._last)

    def place(self, codes: Codes) -> Keys:
        """(n,) the group of each of (n, variables) cells, `groups` for an unwanted cell."""
        ids, wanted = np.zeros(len(codes), np.int64), np.ones(len(codes), np.bool_)
        for column, size in enumerate(self._sizes):
            # between rankings every id stays below 2^62, for unwanted cells too: each starts from some rank with valid
            # codes
            if column in self._ranked:
                ids = _ranks(self._ranked[column], ids, wanted)
            ids = ids * size + codes[:, column]
        ids = _ranks(self._last, ids, wanted)
        ids[~wanted] = self.groups
        return ids


def _ranks(ascending: Keys, ids: Keys, wanted: npt.NDArray[np.bool_]) -> Keys:
    """The rank of each id; an unknown id gets any rank and is marked as unwanted."""
    place = np.searchsorted(ascending, ids)
    place[place == len(ascending)] = 0
    wanted &= ascending[place] == ids if len(ascending) else False
    return place
