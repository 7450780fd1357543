"""The feasible tables found for the at-risk cells of one table, shared by all releases that are asked about."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sdc.model.cell_bounds import Intervals
from sdc.model.differences import Differences, Flags, extremes
from sdc.model.release import Release
from sdc.model.table import Codes, Counts, Table, matching_rows


class Evidence:
    """Differences from the true table; each is feasible under `release`, and so under every release within it.

    A search asks about releases that contain the one it has settled on. What is found for one of them is kept
    for all: a difference that is feasible for a larger release is feasible for the smaller ones, and for the next
    larger release only what it adds must be looked at.
    """

    def __init__(self, table: Table, cells: Codes, counts: Counts) -> None:
        self._table, self._cells, self._counts = table, cells, counts
        self.release = Release.of([])
        self.differences = Differences.none(len(table.schema))
        self._row = np.zeros(0, np.int64)
        self._asked, self._kept = self.release, np.zeros(0, np.bool_)

    def ask(self, release: Release) -> None:
        """Turns to a release: which differences are feasible under it?

        Where it does not contain the settled one, what is found for it need not be feasible there: nothing is
        settled any more.
        """
        if release != self._asked:
            if not release.contains(self.release):
                self.release = Release.of([])
            self._kept = self.differences.preserve(release, self._table.schema, known=self.release)
            self._asked = release

    def add(self, found: Differences) -> None:
        """Keeps differences that are feasible under the release last asked about."""
        self._row = np.concatenate([self._row, matching_rows(self._cells, found.cells, self._table.schema)])
        self.differences = Differences.concatenated([self.differences, found])
        self._kept = np.concatenate([self._kept, np.ones(len(found), np.bool_)])

    def settle(self, release: Release) -> None:
        """From now on the releases asked about contain this one; differences that no cell rests on are dropped."""
        self.ask(release)
        needed = self._needed(np.arange(len(self._cells)))
        self._row = self._row[needed[self.differences.of]]
        self.differences = self.differences.rows(needed)
        self.release, self._kept = release, np.ones(len(self.differences), np.bool_)

    @property
    def inner(self) -> Intervals:
        """(n, 2) smallest and largest value of each at-risk cell over the true table and the feasible ones."""
        entries = self._entries()
        ends = extremes(self._row[entries], self.differences.changes[entries], len(self._cells))
        return self._counts[:, None] + ends

    def resting(self, rows: npt.NDArray[np.int64]) -> Differences:
        """Of the feasible differences those that the ends of these at-risk cells rest on."""
        return self.differences.rows(self._needed(rows))

    def _needed(self, rows: npt.NDArray[np.int64]) -> Flags:
        """(differences,) the first to reach an end of one of the cells."""
        ends = self.inner - self._counts[:, None]
        entries = self._entries()
        entries = entries[np.isin(self._row[entries], rows)]
        needed = np.zeros(len(self.differences), np.bool_)
        for end in (0, 1):
            reaching = entries[self.differences.changes[entries] == ends[self._row[entries], end]]
            _, first = np.unique(self._row[reaching], return_index=True)
            needed[self.differences.of[reaching[first]]] = True
        return needed

    def _entries(self) -> npt.NDArray[np.int64]:
        """Entries of feasible differences that fall on an at-risk cell."""
        return np.flatnonzero(self._kept[self.differences.of] & (self._row >= 0))
