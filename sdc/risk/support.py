"""What shows that at-risk cells can move under what is known: components, their covers, and feasible tables found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from functools import cached_property

import numpy as np

from sdc.bounds.decomposable import covering_bounds
from sdc.feasible.bank import Bank, CellRows, Evidence
from sdc.feasible.differences import Differences
from sdc.feasible.proof import ComponentProof, Proof
from sdc.feasible.walk import FIRST, OTHERS
from sdc.model import subtable as st
from sdc.model.cell_bounds import Intervals, combine
from sdc.model.graph import Decomposition
from sdc.model.knowledge import Knowledge
from sdc.model.subtable import SubTable
from sdc.model.table import Counts
from sdc.risk.slices import CELLS_PER_SLICE, Slice, slices


class Shift(IntEnum):
    """A way to look for a feasible table that moves a cell."""

    DOWN = 0
    UP = 1
    MORE_DOWN = 2
    MORE_UP = 3
    SPARSEST_UP = 4

    @property
    def is_down(self) -> bool:
        return self in (Shift.DOWN, Shift.MORE_DOWN)

    @property
    def tries(self) -> range:
        """Of a walk: the first alone, which mostly does, or all others."""
        return FIRST if self in (Shift.DOWN, Shift.UP) else OTHERS


class Component:
    """One component under what is known of it, while it is searched.

    What a component shows starts from a bank's evidence and only grows; `evidence` is what it has come to.
    """

    def __init__(self, evidence: Evidence, knowledge: Knowledge, cells_per_slice: int = CELLS_PER_SLICE) -> None:
        self.frame, self.knowledge, self.evidence = evidence.frame, knowledge, evidence
        self._cells_per_slice = cells_per_slice
        self._kept = evidence.feasible(knowledge.release)
        self.covered = covering_bounds(self.frame.marginals, knowledge)
        self._tried = np.zeros((len(Shift), len(self.frame.cells)), np.int64)
        self._inner: Intervals | None = None

    @cached_property
    def is_explicit(self) -> bool:
        """Whether the bounds under its cover are sharp: what is known of it is decomposable ([DKS] theorem 1)."""
        return self.knowledge.decomposition is not None and self.knowledge.zeros_are_released

    def places(self, rows: CellRows) -> tuple[CellRows, CellRows]:
        """The different marginal cells of some at-risk cells, and (rows,) which of these each of them is in."""
        cells, place = np.unique(self.frame.row[rows], return_inverse=True)
        return cells, place

    @cached_property
    def slices(self) -> list[Slice]:
        """Those of its table that are searched one by one."""
        return slices(self.frame.table, self._cells_per_slice)

    def add(self, found: Differences) -> None:
        """Keeps differences that are feasible under what is known."""
        if len(found):
            self.evidence = self.evidence.plus(found, self.knowledge.release)
            # what is found comes last in the evidence too
            self._kept = np.concatenate([self._kept, np.ones(len(found), np.bool_)])
            self._inner = None

    @property
    def inner(self) -> Intervals:
        """(n, 2) the range of each marginal cell under the cover, and over the feasible tables found."""
        if self._inner is None:
            found, covered = self.evidence.ends(self._kept), self.covered
            low, high = np.minimum(found[:, 0], covered[:, 0]), np.maximum(found[:, 1], covered[:, 1])
            self._inner = np.stack([low, high], axis=1)
        return self._inner

    def untried(self, rows: CellRows, shift: Shift, values: Counts) -> tuple[CellRows, Counts]:
        """Marginal cells that do not reach the values asked of them yet, and the changes that would.

        rows    of at-risk cells; values  (rows,) that their marginal cell has to reach
        A change is handed out once: what was tried is not tried again.
        """
        sign = -1 if shift.is_down else 1
        row, counts = self.frame.row[rows], self.frame.counts
        by = np.zeros(len(counts), np.int64)
        # several at-risk cells may share a marginal cell: the one that needs most decides, and the others have it too
        np.maximum.at(by, row, sign * (values - counts[row]))
        reached = sign * (self.inner[:, max(0, sign)] - counts)
        chosen = np.flatnonzero((by > reached) & (by > self._tried[shift]))
        self._tried[shift, chosen] = by[chosen]
        return chosen, sign * by[chosen]

    def settled(self) -> Evidence:
        """What its inner ends rest on."""
        return self.evidence.settled(self.knowledge.release, self._kept)

    def part(self) -> ComponentProof:
        """What its inner ends rest on, with the cover, as a certificate has it."""
        return ComponentProof(self.frame.variables, self.knowledge.cover, self.settled().differences)


class Support:
    """Inner bounds of the at-risk cells under what is known, from feasible tables of its components.

    A release splits at separators that it contains, and inner bounds of the components combine ([DKS], reducible
    models); a component that is released is known.
    """

    def __init__(self, knowledge: Knowledge, bank: Bank, cells_per_slice: int = CELLS_PER_SLICE) -> None:
        self.knowledge, self.bank = knowledge, bank
        self._open = {
            variables: Component(bank.of_component(variables), knowledge.within(variables), cells_per_slice)
            for variables in knowledge.components.cliques
            if variables not in knowledge.release
        }
        self._inner: Intervals = np.zeros((0, 2), np.int64)
        self._known_for: tuple[int, ...] | None = None

    @property
    def open(self) -> tuple[Component, ...]:
        """The components that are not released."""
        return tuple(self._open.values())

    @property
    def inner(self) -> Intervals:
        """(n, 2) of each at-risk cell, each end reached by some feasible table."""
        found = tuple(len(component.evidence.differences) for component in self.open)
        if self._known_for != found:  # a search asks again and again, and most answers change nothing
            rows = np.arange(len(self.bank.at_risk))
            ends = {variables: component.inner[component.frame.row] for variables, component in self._open.items()}
            self._inner, self._known_for = self.combined(ends, rows), found
        return self._inner

    def combined(self, ends: Mapping[SubTable, Intervals], rows: CellRows) -> Intervals:
        """(rows, 2) of some at-risk cells, from (rows, 2) `ends` of their marginal cells in components.

        A component that is released, or whose bounds are explicit, needs none.
        """
        at_risk, tree = self.bank.at_risk, self.knowledge.components
        between = sum((at_risk.at(s)[rows] for s in tree.separators), np.zeros(len(rows), np.int64))
        return combine([ends[v] if v in ends else self._known(v, rows) for v in tree.cliques], between)

    def _known(self, variables: SubTable, rows: CellRows) -> Intervals:
        """(rows, 2) what is known of the marginal cells of a component without a search."""
        if variables in self._open:
            component = self._open[variables]
            return component.covered[component.frame.row[rows]]
        counts = self.bank.at_risk.at(variables)[rows]
        return np.stack([counts, counts], axis=1)

    def wanted(self, rows: CellRows, width: int, shift: Shift) -> Iterator[tuple[Component, CellRows, Counts]]:
        """The marginal cells of components that have to move so that at-risk cells get a width, and by how much.

        Down: so that a cell may have none. Up: so that it may have so many more than the least it is known to have.
        """
        lower = self.inner[rows, 0]
        for component in self.open:
            # an upper bound is the least of the components', so each of them has to reach it; a lower bound is their
            # sum less the separators', so any one of them can lower it alone
            known = component.frame.counts[component.frame.row[rows]]
            values = known - np.minimum(known, lower) if shift.is_down else width + lower
            cells, changes = component.untried(rows, shift, values)
            if len(cells):
                yield component, cells, changes

    def proof(self) -> Proof:
        """What the inner bounds rest on."""
        tree = self.knowledge.components
        return Proof(tuple(self._part(variables) for variables in tree.cliques), tree.separators)

    def _part(self, variables: SubTable) -> ComponentProof:
        if variables in self._open:
            return self._open[variables].part()
        # a released component is its own cover: one clique, whose marginal is known
        number = st.dimension(variables)
        return ComponentProof(variables, Decomposition((st.full(number),), ()), Differences.none(number))
