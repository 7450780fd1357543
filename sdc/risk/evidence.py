"""The feasible tables found for the at-risk cells, shared by all releases that are asked about."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sdc.bounds.decomposable import covering_bounds
from sdc.feasible.differences import Differences, Flags, extremes
from sdc.feasible.proof import Part, Proof
from sdc.model import subtable as st
from sdc.model.cell_bounds import Intervals, combine
from sdc.model.graph import Decomposition
from sdc.model.knowledge import Knowledge
from sdc.model.marginal import CellMarginals
from sdc.model.release import Release
from sdc.model.subtable import SubTable
from sdc.model.table import Codes, Counts, Table, matching_rows
from sdc.risk.slices import CELLS_PER_SLICE, Slice, slices

MAX_BYTES = 16 << 20  # of marginals remembered for a component
Rows = npt.NDArray[np.int64]


class Shift(IntEnum):
    """A way to look for a feasible table that moves a cell."""

    QUICK_DOWN = 0
    QUICK_UP = 1
    DOWN = 2
    UP = 3
    SPARSEST_UP = 4

    @property
    def is_down(self) -> bool:
        return self in (Shift.QUICK_DOWN, Shift.DOWN)

    @property
    def is_quick(self) -> bool:
        """By the cheapest chains alone."""
        return self in (Shift.QUICK_DOWN, Shift.QUICK_UP)


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


class Component:
    """One component of a release: its marginal table, the at-risk cells' marginal cells in it, and what was found.

    row    (at-risk cells,) which of `cells` each of them is in
    cells  (n, variables of the component) the different ones
    """

    def __init__(
        self,
        marginals: CellMarginals,
        variables: SubTable,
        release: Release,
        cells_per_slice: int = CELLS_PER_SLICE,
    ) -> None:
        self.variables, self._cells_per_slice = variables, cells_per_slice
        self.table = marginals.table
        if variables != st.full(len(self.table.schema)):
            self.table = self.table.marginal(variables)
        cells, row = np.unique(marginals.cells[:, st.members(variables)], axis=0, return_inverse=True)
        self.row: Rows = row.ravel()
        self._marginals = CellMarginals(self.table, cells, max_bytes=MAX_BYTES)
        self.cells, self.counts = self._marginals.cells, self._marginals.counts
        self.found = Evidence(self.table, self.cells, self.counts)
        self._turn_to(release)

    @cached_property
    def slices(self) -> list[Slice]:
        """Those of its table that are searched one by one."""
        return slices(self.table, self._cells_per_slice)

    def _turn_to(self, release: Release) -> None:
        self.release, self.knowledge = release, Knowledge.of(self.table, release)
        self.found.ask(release)
        self._covered = covering_bounds(self._marginals, self.knowledge)
        self._tried = np.zeros((len(Shift), len(self.cells)), np.int64)
        self._inner: Intervals | None = None

    def ask(self, release: Release) -> None:
        """Turns to what is released of the component."""
        if release != self.release:
            self._turn_to(release)

    def add(self, found: Differences) -> None:
        """Keeps differences that are feasible under what is released."""
        self.found.add(found)
        self._inner = None

    @property
    def inner(self) -> Intervals:
        """(n, 2) the range of each marginal cell under the cover, and over the feasible tables found."""
        if self._inner is None:
            found, covered = self.found.inner, self._covered
            low, high = np.minimum(found[:, 0], covered[:, 0]), np.maximum(found[:, 1], covered[:, 1])
            self._inner = np.stack([low, high], axis=1)
        return self._inner

    def untried(self, rows: Rows, shift: Shift, values: Counts) -> tuple[Rows, Counts]:
        """Marginal cells that do not reach the values asked of them yet, and the changes that would.

        rows    of at-risk cells; values  (rows,) that their marginal cell has to reach
        A change is handed out once: what was tried for a release is not tried again.
        """
        sign = -1 if shift.is_down else 1
        by = np.zeros(len(self.cells), np.int64)
        np.maximum.at(by, self.row[rows], sign * (values - self.counts[self.row[rows]]))
        reached = sign * (self.inner[:, max(0, sign)] - self.counts)
        chosen = np.flatnonzero((by > reached) & (by > self._tried[shift]))
        self._tried[shift, chosen] = by[chosen]
        return chosen, sign * by[chosen]

    def part(self) -> Part:
        """What its inner ends rest on."""
        rests_on = self.found.resting(np.arange(len(self.cells)))
        return Part(self.variables, self.knowledge.cover, rests_on)


class Support:
    """Inner bounds of the at-risk cells under one release after another, from feasible tables of its components.

    A release splits at separators that it contains, and inner bounds of the components combine; a component that is
    released is known. Each other one keeps its evidence as long as releases have it.
    """

    def __init__(self, marginals: CellMarginals, cells_per_slice: int = CELLS_PER_SLICE) -> None:
        self._marginals, self._cells_per_slice = marginals, cells_per_slice
        self._components: dict[SubTable, Component] = {}
        self._release = Release.of([])
        self._tree = Decomposition((), ())

    def ask(self, release: Release) -> None:
        """Turns to a release."""
        if release == self._release and self._tree.cliques:
            return
        self._release = release
        self._tree = Knowledge.of(self._marginals.table, release).components
        for variables in self._tree.cliques:
            if variables in release:
                continue
            within = release.within(variables)
            if variables not in self._components:
                self._components[variables] = Component(self._marginals, variables, within, self._cells_per_slice)
            self._components[variables].ask(within)

    def settle(self, release: Release) -> None:
        """From now on the releases asked about contain this one; other components are dropped."""
        self.ask(release)
        self._components = {component.variables: component for component in self.open}
        for component in self.open:
            component.found.settle(component.release)

    @property
    def open(self) -> Iterator[Component]:
        """The components that are not released."""
        return (self._components[v] for v in self._tree.cliques if v not in self._release)

    @property
    def inner(self) -> Intervals:
        """(n, 2) of each at-risk cell."""
        between = sum((self._marginals.at(s) for s in self._tree.separators), np.zeros(len(self._marginals), np.int64))
        return combine([self._ends(variables) for variables in self._tree.cliques], between)

    def _ends(self, variables: SubTable) -> Intervals:
        if variables in self._release:
            counts = self._marginals.at(variables)
            return np.stack([counts, counts], axis=1)
        component = self._components[variables]
        return component.inner[component.row]

    def wanted(self, rows: Rows, width: int, shift: Shift) -> Iterator[tuple[Component, Rows, Counts]]:
        """The marginal cells of components that have to move so that at-risk cells get a width, and by how much.

        Down: so that a cell may have none. Up: so that it may have so many more than the least it is known to have.
        """
        lower = self.inner[rows, 0]
        for component in self.open:
            known = component.counts[component.row[rows]]
            values = known - np.minimum(known, lower) if shift.is_down else width + lower
            cells, changes = component.untried(rows, shift, values)
            if len(cells):
                yield component, cells, changes

    def proof(self) -> Proof:
        """What the inner bounds rest on."""
        return Proof(tuple(self._part(variables) for variables in self._tree.cliques), self._tree.separators)

    def _part(self, variables: SubTable) -> Part:
        if variables not in self._release:
            return self._components[variables].part()
        number = st.dimension(variables)
        return Part(variables, Decomposition((st.full(number),), ()), Differences.none(number))

    def learn(self, proof: Proof) -> None:
        """Takes over what was found of components that the release has too, where it is feasible."""
        known = {part.variables: part.differences for part in proof.parts}
        for component in self.open:
            if (claimed := known.get(component.variables)) is not None:
                component.add(claimed.rows(claimed.feasible(component.table, component.knowledge)))
