"""The witness pool: feasible tables found so far, as differences from the true one, and what each is feasible under."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from sdc.feasible.differences import Differences, Flags, extremes
from sdc.feasible.proof import Proof
from sdc.feasible.suppressed_cells import NO_PRIMARY_CELLS, PrimaryCells, changed_places
from sdc.feasible.witnesses import Witnesses
from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds, Intervals
from sdc.model.errors import InputError, ReleaseError
from sdc.model.fact import NO_FACTS
from sdc.model.knowledge import Knowledge
from sdc.model.marginal import CellMarginals
from sdc.model.recent import Recent
from sdc.model.release import NOTHING
from sdc.model.schema import Schema
from sdc.model.structural_zeros import NO_ZEROS
from sdc.model.subtable import SubTable
from sdc.model.table import Codes, Counts, Table

MAX_BYTES, MAX_MARGINAL_BYTES = 96 << 20, 16 << 20  # of frames remembered; of marginals of one of them

CellRows = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Frame:
    """A component of a release, as the at-risk cells see it: their marginal cells in it.

    row        (at-risk cells,) which of `cells` each of them is in, of as few bytes as that takes
    marginals  of the component's table at the different marginal cells
    own        small cells of sub-tables in part that the component has
    bounded    their cheap bounds under what was known of the component when last asked
    """

    variables: SubTable
    row: npt.NDArray[np.unsignedinteger]
    marginals: CellMarginals
    own: PrimaryCells
    bounded: list[tuple[Knowledge, CellBounds]] = field(default_factory=list)

    @property
    def table(self) -> Table:
        return self.marginals.table

    @property
    def cells(self) -> Codes:
        """(n, variables of the component) the different marginal cells."""
        return self.marginals.cells

    @property
    def counts(self) -> Counts:
        """(n,) their true counts."""
        return self.marginals.counts


class AtRisk:
    """(n, axes) cells of a table, at risk as a rule, and their marginal cells in the components, remembered.

    Each cell once, with its (n,) count; cells without a record may be among them. And small cells of sub-tables in
    part, which are to be shown to move like them. The search for evidence of a component begins with the witnesses.
    `values`: evidence keeps a table for each value of a cell that was found, and not for its ends alone.

    Frames of at most `max_bytes` are kept for the next question, and those that somebody has.
    """

    def __init__(
        self,
        table: Table,
        cells: Codes,
        counts: Counts,
        own: PrimaryCells = NO_PRIMARY_CELLS,
        witnesses: Witnesses | None = None,
        *,
        values: bool = False,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        # one column a variable beside the other: frames take some of them
        self.table, self.cells, self.counts, self.own = table, np.asfortranarray(cells), counts, own
        self._witnesses, self.values = witnesses, values
        self._first = Recent[SubTable, Evidence](max_bytes, lambda one: one.differences.cells.nbytes + one.row.nbytes)
        self._kept = Recent[SubTable, Frame](max_bytes, _bytes_of)
        self._in_use = WeakValueDictionary[SubTable, Frame]()

    def __len__(self) -> int:
        return len(self.cells)

    def frame(self, variables: SubTable) -> Frame:
        """The marginal table of these variables, at the cells that the at-risk cells are in."""
        frame = self._in_use.get(variables) or self._frame(variables)
        self._in_use[variables] = frame
        return self._kept.get(variables, lambda: frame)

    def first(self, variables: SubTable) -> Evidence:
        """What the witnesses show of a component before anything is searched."""
        if self._witnesses is None:
            return Evidence.none(self, variables)
        return self._first.get(variables, lambda: self._witnessed(variables))

    def _witnessed(self, variables: SubTable) -> Evidence:
        assert self._witnesses is not None
        found, known = self._witnesses.within(variables)
        return replace(Evidence.none(self, variables).plus(found, known), under=known)

    def _frame(self, variables: SubTable) -> Frame:
        if variables == st.full(len(self.table.schema)):
            marginals = CellMarginals(self.table, self.cells, counts=self.counts, max_bytes=MAX_MARGINAL_BYTES)
            return Frame(variables, np.arange(len(self), dtype=np.min_scalar_type(len(self))), marginals, self.own)
        table = self.table.marginal(variables)
        cells, row = self._marginal_cells(variables, table.schema)
        own = self.own.within(variables, self.table.schema)
        return Frame(variables, row, CellMarginals(table, cells, max_bytes=MAX_MARGINAL_BYTES), own)

    def _marginal_cells(self, variables: SubTable, schema: Schema) -> tuple[Codes, npt.NDArray[np.unsignedinteger]]:
        """The different ones, and which of them each of the cells is in."""
        of_each = self.table.schema.marginal_cells(self.cells, variables)
        first, row = schema.keys.distinct(of_each)
        return of_each[first], row.astype(np.min_scalar_type(len(first)))


def _bytes_of(frame: Frame) -> int:
    """About what a frame takes with its table and what was counted at its cells."""
    variables = len(frame.table.schema)
    return frame.row.nbytes + (len(frame.table) + len(frame.cells)) * (4 * variables + 40)


class Effects(NamedTuple):
    """What differences do to small cells of sub-tables in part: of which each is, the cell's number, its change."""

    of: CellRows
    row: CellRows
    changes: Counts

    @staticmethod
    def on(own: PrimaryCells, differences: Differences, schema: Schema) -> Effects:
        """Those of a component's differences."""
        if not len(own) or not len(differences):
            return NO_EFFECTS
        of, places, changes = changed_places(differences, own.views, schema)
        row = np.searchsorted(own.places, places)
        hit = own.places[np.minimum(row, len(own) - 1)] == places
        return Effects(of[hit], row[hit], changes[hit])

    def after(self, before: Effects, differences: int) -> Effects:
        """Both, of differences that come after so many others."""
        if not len(self.of):
            return before
        both = zip(before, self._replace(of=self.of + differences), strict=True)
        return Effects(*map(np.concatenate, both))

    def rows(self, kept: Flags) -> Effects:
        """Of the differences kept, which are numbered anew."""
        own = kept[self.of]
        return Effects((np.cumsum(kept) - 1)[self.of[own]], self.row[own], self.changes[own])


_NONE = np.zeros(0, np.int64)
NO_EFFECTS = Effects(_NONE, _NONE, _NONE)


@dataclass(frozen=True, eq=False)
class Evidence:
    """Differences from a component's true table, each feasible under the knowledge `under`, and so under less.

    A search asks about larger and larger releases: what is feasible for a larger one is feasible for the smaller
    ones, and of what is known to be feasible only what a larger one adds must be looked at.

    row  (entries,) which of the frame's cells an entry of the differences falls on, -1 where on none
    own  what they do to the frame's own cells
    """

    at_risk: AtRisk
    variables: SubTable
    under: Knowledge
    differences: Differences
    row: CellRows
    own: Effects = NO_EFFECTS

    @staticmethod
    def none(at_risk: AtRisk, variables: SubTable) -> Evidence:
        """Nothing found yet of the component."""
        nothing = _nothing(at_risk.table, variables)
        return Evidence(at_risk, variables, nothing, Differences.none(len(nothing.schema.axes)), np.zeros(0, np.int64))

    @property
    def frame(self) -> Frame:
        """The component; not held, for evidence is kept of many that are not asked about any more."""
        return self.at_risk.frame(self.variables)

    def plus(self, found: Differences, known: Knowledge) -> Evidence:
        """With differences that are feasible under this knowledge; they count from then on under both."""
        schema = self.frame.table.schema
        rows = schema.keys.matching(self.frame.cells, found.cells)
        own = Effects.on(self.frame.own, found, schema).after(self.own, len(self.differences))
        # old ones are feasible under the old, new ones under the new. Of two that are not within each other nothing is
        # claimed: claiming too little costs a check of what is asked, claiming too much would be a false proof
        under = self.under if known.contains(self.under) else _nothing(self.at_risk.table, self.variables)
        joined = Differences.concatenated([self.differences, found])
        return Evidence(self.at_risk, self.variables, under, joined, np.concatenate([self.row, rows]), own)

    def feasible(self, known: Knowledge) -> Flags:
        """(differences,) which of them are feasible under this knowledge."""
        if self.under.contains(known):
            return np.ones(len(self.differences), np.bool_)
        # only what is known is asked again: that no count falls below zero was seen when it was found, and nothing that
        # is known changes that
        before = self.under.release if known.contains(self.under) else None
        found = self.differences.preserve(known, known=before)
        if not self.under.zeros.include(known.zeros):
            found &= self.differences.spare(known)
        for fact in set(known.facts) - set(self.under.facts):
            found &= self.differences.agree(fact, self.frame.table)
        return found

    def ends(self, kept: Flags) -> Intervals:
        """(n, 2) smallest and largest value of each marginal cell over the true table and the differences kept."""
        entries = self._entries(kept)
        found = extremes(self.row[entries], self.differences.changes[entries], len(self.frame.cells))
        return self.frame.counts[:, None] + found

    def own_ends(self, kept: Flags) -> Intervals:
        """(n, 2) the same of each of the frame's own cells."""
        effects = self.own.rows(kept)
        return self.frame.own.counts[:, None] + extremes(effects.row, effects.changes, len(self.frame.own))

    def _needed_by_own(self, kept: Flags) -> Flags:
        """(differences,) of those kept the sparsest to reach an end of one of the frame's own cells."""
        needed, cells = np.zeros(len(self.differences), np.bool_), np.diff(self.differences.start)
        of, row, changes = (part[kept[self.own.of]] for part in self.own)
        ends = extremes(row, changes, len(self.frame.own))
        for end in (0, 1):
            reaching = np.flatnonzero(changes == ends[row, end])
            reaching = reaching[np.argsort(cells[of[reaching]], kind="stable")]
            needed[of[reaching[np.unique(row[reaching], return_index=True)[1]]]] = True
        return needed

    def needed(self, kept: Flags, rows: CellRows) -> Flags:
        """(differences,) of those kept the sparsest to reach an end of one of these marginal cells."""
        ends = self.ends(kept) - self.frame.counts[:, None]
        # an end at the true count needs no difference, and no entry is 0: nothing is marked for it
        entries = self._entries(kept)
        entries = entries[np.isin(self.row[entries], rows)]
        needed, cells = np.zeros(len(self.differences), np.bool_), np.diff(self.differences.start)
        for end in (0, 1):
            reaching = entries[self.differences.changes[entries] == ends[self.row[entries], end]]
            # of those that reach as far the one of fewest cells: it is the likeliest to be feasible for larger releases
            # too, of which fewer of its marginals would be changed
            reaching = reaching[np.argsort(cells[self.differences.of[reaching]], kind="stable")]
            _, first = np.unique(self.row[reaching], return_index=True)
            needed[self.differences.of[reaching[first]]] = True
        if self.at_risk.values:
            sparsest = entries[np.argsort(cells[self.differences.of[entries]], kind="stable")]
            reached = np.stack([self.row[sparsest], self.differences.changes[sparsest]], axis=1)
            needed[self.differences.of[sparsest[np.unique(reached, axis=0, return_index=True)[1]]]] = True
        return needed

    def settled(self, known: Knowledge, kept: Flags) -> Evidence:
        """The evidence for the ends of all cells under this knowledge; the differences kept are feasible then."""
        # a table whose ends others reach too proves nothing more, and would be checked for every release still to come
        needed = self.needed(kept, np.arange(len(self.frame.cells))) | self._needed_by_own(kept)
        resting, row = self.differences.rows(needed), self.row[needed[self.differences.of]]
        return Evidence(self.at_risk, self.variables, known, resting, row, self.own.rows(needed))

    def _entries(self, kept: Flags) -> CellRows:
        """Entries of the differences kept that fall on a marginal cell of an at-risk cell."""
        return np.flatnonzero(kept[self.differences.of] & (self.row >= 0))


def _nothing(table: Table, variables: SubTable) -> Knowledge:
    """What somebody knows of the variables' marginal table who knows the number of its records."""
    return Knowledge(table.schema.restrict(st.members(variables)), table.total, NOTHING, NO_ZEROS, NO_FACTS)


@dataclass(frozen=True, eq=False)
class WitnessPool:
    """What has been found for the at-risk cells of one table, component by component. It does not change.

    A table that is feasible for a release is feasible for every release within it. So one witness pool serves all
    evaluations of its table, at any width. `missed` counts, for at-risk cells by row, how often the dearest search did
    not move them enough: they are tried first next time.
    """

    at_risk: AtRisk
    small_count: int
    evidence: Mapping[SubTable, Evidence] = field(default_factory=dict)
    missed: Mapping[int, int] = field(default_factory=dict)

    @staticmethod
    def of(
        table: Table,
        small_count: int,
        own: PrimaryCells = NO_PRIMARY_CELLS,
        witnesses: Witnesses | None = None,
        *,
        values: bool = False,
    ) -> WitnessPool:
        """One with witnesses alone, and small cells of sub-tables in part; InputError for a small count below 1."""
        rows = at_risk_rows(table, small_count)
        at_risk = AtRisk(table, table.codes[rows], table.counts[rows], own, witnesses, values=values)
        return WitnessPool(at_risk, small_count)

    @property
    def table(self) -> Table:
        return self.at_risk.table

    def require(self, table: Table, small_count: int) -> None:
        """ReleaseError where it is of another table, or of other at-risk cells."""
        if table is not self.table and table.digest != self.table.digest:
            raise ReleaseError(
                f"the evidence is of another table ({self.table.digest[:12]}, asked about is {table.digest[:12]}); "
                "judge it with its own"
            )
        if small_count != self.small_count:
            raise ReleaseError(
                f"the evidence is of the cells up to the small count {self.small_count}, asked is {small_count}; "
                "judge with a witness pool of that small count"
            )

    def emptied(self) -> WitnessPool:
        """Nothing found; the at-risk cells' frames are kept."""
        return WitnessPool(self.at_risk, self.small_count)

    def of_component(self, variables: SubTable) -> Evidence:
        """What was found of the component; of one not asked about yet what witnesses show of it, by its marginals."""
        return self.evidence.get(variables) or self.at_risk.first(variables)

    def plus(self, found: Iterable[Evidence], missed: Mapping[int, int]) -> WitnessPool:
        """With the components' evidence instead of its own of the same components."""
        return replace(self, evidence={**self.evidence, **{e.variables: e for e in found}}, missed=missed)

    def settled(self, found: Iterable[Evidence], missed: Mapping[int, int]) -> WitnessPool:
        """With this evidence and no other: releases that contain the one it is for are asked about next."""
        return replace(self, evidence={e.variables: e for e in found}, missed=missed)

    def learnt(self, proof: Proof, knowledge: Knowledge) -> WitnessPool:
        """With the differences of a proof that give feasible tables of components of what is known."""
        return self.with_evidence(((part.variables, part.differences) for part in proof.parts), knowledge, self.missed)

    def with_evidence(
        self, claimed: Iterable[tuple[SubTable, Differences]], knowledge: Knowledge, missed: Mapping[int, int]
    ) -> WitnessPool:
        """The same of differences by component, and how often cells were missed."""
        # within a released sub-table no cell moves, so what is claimed of it is worth nothing
        open_ = [v for v in knowledge.structure.components.cliques if v not in knowledge.release]
        found = []
        for variables, differences in claimed:
            if variables not in open_:
                continue
            evidence, within = self.of_component(variables), knowledge.within(variables)
            # checked here: a proof may come from a file, and a witness pool is taken for true from here on
            good = differences.rows(differences.feasible(evidence.frame.table, within))
            found.append(evidence.plus(good, within))
        return self.plus(found, missed)

    @cached_property
    def differences(self) -> int:
        """How many feasible tables it has."""
        return sum(len(evidence.differences) for evidence in self.evidence.values())


def at_risk_rows(table: Table, small_count: int) -> CellRows:
    """The at-risk cells, which may be none; InputError for a small count below 1."""
    if small_count < 1:
        raise InputError(f"small_count is {small_count}; give at least 1, or nothing is protected")
    return table.at_risk(small_count)


def require_at_risk(table: Table, small_count: int) -> CellRows:
    """The at-risk cells; InputError where there is none: then nothing needs protecting, and no cell is asked about."""
    rows = at_risk_rows(table, small_count)
    if not len(rows):
        raise InputError(
            f"no at-risk cell: no count is between 1 and the small count {small_count}, so every sub-table may be "
            "released; raise the small count, or ask about all cells",
            f"the smallest count is {int(table.counts.min())}",
        )
    return rows
