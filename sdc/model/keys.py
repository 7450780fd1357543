"""Keys: a cell as one number, however many cells the variables have. The one encoding of cells outside of kernels."""

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

MAX_CELLS = 1 << 62  # a key times two still fits 64 bits, so that kernels may tag keys and subtract them
MAX_DENSE_CELLS, DENSE_CELLS_EACH = 1 << 22, 16  # 32 MB at most, and so many slots for each number looked up


@dataclass(frozen=True)
class KeySpace:
    """The cells of variables with so many categories each, in C order: the first variable is slowest.

    Below 2^62 cells a cell's key is its place among all of them, see `pack`. Beyond that no number holds a place; then
    the cells at hand are ranked on the way, see `numbers` and `KeyIndex`, which take any space.
    """

    sizes: tuple[int, ...]

    def keep(self, variables: Iterable[int]) -> KeySpace:
        """The space of some of the variables, in the order given."""
        return KeySpace(tuple(self.sizes[v] for v in variables))

    @cached_property
    def cells(self) -> int:
        """How many cells there are; a Python int, it may exceed 2^64."""
        return prod(self.sizes)

    @property
    def fits(self) -> bool:
        """Whether every cell has a key of less than 62 bits."""
        return self.cells < MAX_CELLS

    @property
    def strides(self) -> Keys:
        """(variables,) what one category more of each variable adds to a key; InputError where keys do not fit."""
        self._require_fit()
        return np.array([prod(self.sizes[v + 1 :]) for v in range(len(self.sizes))], np.int64)

    def pack(self, codes: Codes) -> Keys:
        """(n,) keys of cells with (n, variables) codes within the sizes; InputError where keys do not fit."""
        self._require_fit()
        return self.numbers(codes)

    def unpack(self, keys: Keys) -> npt.NDArray[np.uint16]:
        """(n, variables) codes of cells with (n,) keys; InputError where keys do not fit."""
        return (keys[:, None] // self.strides % np.array(self.sizes, np.int64)).astype(np.uint16)

    def numbers(self, codes: Codes) -> Keys:
        """(n,) numbers of the cells with (n, variables) codes, equal where these are equal, and ordered as they are.

        The keys where they fit. Beyond that numbers are replaced by their ranks as often as the next variable would
        leave 62 bits: then they tell the given cells apart, and mean nothing beside those of another call.
        """
        ids, space = np.zeros(len(codes), np.int64), 1
        for column, size in zip(codes.T, self.sizes, strict=True):
            # ids < space throughout. Ranks are ascending as the ids are, so that the order stays; after ranking the
            # space is the number of cells at hand, which times 65,536 categories is far from 2^62
            if space * size >= MAX_CELLS:
                ids = np.unique(ids, return_inverse=True)[1].astype(np.int64)
                space = len(codes)
            ids *= size
            ids += column
            space *= size
        return ids

    def distinct(self, codes: Codes) -> tuple[Keys, Keys]:
        """A row of each of the distinct cells, in their order, and (n,) which of these each of (n, variables) is."""
        numbers = self.numbers(codes)
        if self.cells < min(MAX_DENSE_CELLS, DENSE_CELLS_EACH * len(numbers)):
            # one array to look up in is several times faster than sorting, where it is soon filled
            row = np.full(self.cells, len(numbers))
            row[numbers[::-1]] = np.arange(len(numbers))[::-1]  # of equal ones the first is written last
            found = np.flatnonzero(row < len(numbers))
            first = row[found]
            row[found] = np.arange(len(found))
            return first, row[numbers]
        _, first, group = np.unique(numbers, return_index=True, return_inverse=True)
        return first, group

    def matching(self, rows: Codes, cells: Codes) -> Keys:
        """(n,) for each of (n, variables) cells which of the (m, variables) rows it is, -1 where none; no row twice."""
        if not len(rows):
            return np.full(len(cells), -1)
        # together, because numbers that are ranks mean nothing beside those of another call
        ids = self.numbers(np.concatenate([rows, cells]))
        own, wanted = ids[: len(rows)], ids[len(rows) :]
        highest = int(ids.max())
        if highest < min(MAX_DENSE_CELLS, DENSE_CELLS_EACH * len(ids)):
            # one array to look up in is several times faster than halving, where it is soon filled
            row = np.full(highest + 1, -1)
            row[own] = np.arange(len(own))
            return row[wanted]
        order = np.argsort(own, kind="stable")
        # beyond the last row any place will do: the number there differs
        place = order[np.minimum(np.searchsorted(own, wanted, sorter=order), len(rows) - 1)]
        return np.where(own[place] == wanted, place, -1)

    def _require_fit(self) -> None:
        if not self.fits:
            raise InputError(
                f"{len(self.sizes)} variables have {self.cells} cells, and keys of 62 bits number fewer than 2^62; "
                "choose fewer variables"
            )


class KeyIndex:
    """Finds cells among those wanted, in chunks of whatever size: only the cells wanted are ranked.

    own     (n,) which group each of the wanted is in, equal cells being a group
    groups  how many there are

    The wanted are (n, variables) codes within the space's sizes; any space.
    """

    # `KeySpace.numbers` in two halves: the ranks that the wanted cells get on the way are kept, and another cell's
    # number is looked up among them at the same variables. What is not found there is the beginning of no wanted cell.

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
        """(n,) the group of each of (n, variables) cells, `groups` where it is not wanted."""
        ids, wanted = np.zeros(len(codes), np.int64), np.ones(len(codes), np.bool_)
        for column, size in enumerate(self._sizes):
            # between two of these an id stays below 2^62, that of a cell not wanted too: it starts from some rank, and
            # its codes are within the sizes
            if column in self._ranked:
                ids = _ranks(self._ranked[column], ids, wanted)
            ids = ids * size + codes[:, column]
        ids = _ranks(self._last, ids, wanted)
        ids[~wanted] = self.groups
        return ids


def _ranks(ascending: Keys, ids: Keys, wanted: npt.NDArray[np.bool_]) -> Keys:
    """The place of each id; where it has none, any, and it is no longer wanted."""
    place = np.searchsorted(ascending, ids)
    place[place == len(ascending)] = 0
    wanted &= ascending[place] == ids if len(ascending) else False
    return place
