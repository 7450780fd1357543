"""From settings to criterion and search: one way for command, notebook and build."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from sdc.checkpoint import NOT_KEPT, Checkpoint
from sdc.config.analysis import WidthsConfig
from sdc.config.release import ReleaseConfig
from sdc.deadline import NEVER, Deadline
from sdc.executor import IN_PROCESS, Executor
from sdc.model import subtable as st
from sdc.model.decomposable_graph import DecomposableGraph
from sdc.model.errors import ConfigError, InputError, NotReleasableError
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.model.table import Cells, Table
from sdc.protect.recoding import merged
from sdc.protect.request import ProtectionRequest
from sdc.protect.rounding import require_no_levels
from sdc.public.earlier import Provenance
from sdc.public.published import Published, read_published
from sdc.risk.criteria import Criteria
from sdc.risk.critical_width import CriticalWidths, critical_widths
from sdc.risk.effort import Budget, Effort
from sdc.risk.evaluator import RiskEvaluator
from sdc.risk.refutation import Refutations
from sdc.risk.verdict import Policy
from sdc.search.best import ReleaseSearch
from sdc.search.constraints import Constraints
from sdc.search.decomposable import DecomposableSearch, SearchState
from sdc.search.ordered import OrderedSearch
from sdc.search.simulatable import SimulatableSearch, SimulatedStep
from sdc.search.step import SearchStep
from sdc.storage.proofs import KeptProofs, witnesses_of
from sdc.utility.halvings import Halvings
from sdc.utility.ipf import Stop
from sdc.utility.measures import (
    Demand,
    Utility,
    Weights,
    cells,
    degrees_of_freedom,
    utility_of,
    weighted_sub_tables,
)

MOST_LISTED_WITHOUT_FLOOR = 20  # variables; a list of 2^20 widths is made in seconds, one of 2^23 is not
MOST_LISTED = 20_000  # sub-tables of more variables; of 40 with 60,000 cells they take a minute
RECONSTRUCTION_SWEEPS, RECONSTRUCTION_BYTES = 200, 256 << 20


def edition_before(like: str | None) -> tuple[Published, ...]:
    """Sub-tables of an earlier edition with suppressed cells; ConfigError where it is not read."""
    try:
        return () if like is None else tuple(one for one in read_published(Path(like)) if len(one.suppressed))
    except InputError as error:
        raise ConfigError(f"release.previous_pattern = {like!r}: {error}", error.detail) from error


@dataclass(frozen=True)
class Listing:
    """Of the sub-tables those whose critical widths are listed.

    floor  only those whose critical width reaches it
    most   at most so many of these, the widest; 0 for all
    """

    floor: int = 0
    most: int = 0

    @staticmethod
    def of(widths: WidthsConfig, variables: int, least: int) -> Listing:
        """As the section says; else all, or where the list may be too long the widest that reach the least width asked.

        Below the width required no sub-table can be released, so nothing is lost by such a floor.
        """
        if widths.threshold is not None or widths.most is not None:
            most = widths.most or 0
        else:
            most = MOST_LISTED if variables > MOST_LISTED_WITHOUT_FLOOR else 0
        floor = widths.threshold if widths.threshold is not None else least if most else 0
        return Listing(floor, most)


ALL_WIDTHS = Listing()


@dataclass(frozen=True)
class SearchSettings:
    """All that a search for a release depends on beside the table.

    listing   the sub-tables whose critical widths are found
    release   the section of a config, whose demand is no file
    executor  changes how long a search takes, never the answer
    origin    levels of the table that are nobody's wish, and not asked about, and those of what may be coarsened
    like      sub-tables of an earlier edition with suppressed cells, which are suppressed again
    proofs    of what was published before, with which every search begins; nothing of them is believed
    """

    criteria: Criteria
    policy: Policy
    listing: Listing = ALL_WIDTHS
    release: ReleaseConfig = field(default_factory=ReleaseConfig)
    executor: Executor = IN_PROCESS
    origin: Provenance = field(default_factory=Provenance)
    like: Sequence[Published] = ()
    proofs: Callable[[], KeptProofs | None] = field(default=lambda: None, repr=False)

    @property
    def effort(self) -> Effort:
        """What an evaluation may cost."""
        release = self.release
        budget = Budget(release.seconds_per_cell, release.seconds)
        return Effort(budget, release.refute_cells, release.cells_per_slice, self.executor)

    def evaluator(self, table: Table, known: Knowledge, before: Knowledge | None = None) -> RiskEvaluator:
        """What asks the criterion about the table; InputError for a small count below 1.

        before  what is known of cells of suppressed tables without these, see `RiskEvaluator`
        """
        kept, witnesses = Refutations(known.zeros), witnesses_of(table, known, self.proofs())
        criteria = self.criteria if self.release.reveal_suppressed else self.criteria.beside(table, known)
        asked = criteria, self.policy, self.effort
        return RiskEvaluator(table, known, *asked, refutations=kept, before=before, witnesses=witnesses)

    def weights(self, schema: Schema) -> Weights:
        """What each sub-table counts; InputError for a name the table does not have, or a weight not above 0."""
        named = Weights.of(schema, self.release.weights.variables, self.release.weights.sub_tables)
        return self.requests(schema).added_to(named, schema)

    def requests(self, schema: Schema) -> Demand:
        """What users ask for; InputError as `weights`."""
        assert isinstance(self.release.demand, Mapping)
        return Demand.of(schema, self.release.demand)

    def wished(self, known: Knowledge) -> Constraints:
        """What the release must have and must not have; InputError for patterns that do not fit what is there."""
        schema = known.schema
        hidden = st.members(self.origin.hides(schema))
        # names of the table alone; of a hidden level no search asks but with what tells it
        named = schema.restrict(st.members(st.full(len(schema)) & ~st.of(hidden)))
        constraints = Constraints.of(named, self.release)
        if (public := next((t for t in constraints.forbid if t in known.release), None)) is not None:
            raise InputError(f"forbid has {st.label(public, schema)}, which was published before; take it out")
        for one in constraints.protect:
            if "rounding" in one.by:
                require_no_levels(one.view, named)
        return replace(
            constraints,
            require=tuple(map(schema.levels.closed, constraints.require)),
            protect=self._as_before([self._coarser(one, schema) for one in constraints.protect], schema),
            forbid=tuple(map(schema.levels.closed, constraints.forbid)),
            levels=tuple((1 << v, schema.levels.finer(v)) for v in hidden),
        )

    def _coarser(self, wish: ProtectionRequest, schema: Schema) -> ProtectionRequest:
        """By the levels of this schema, with what it may be coarsened to."""
        levels, label = schema.levels, st.label(wish.view, schema)
        tried = [schema.index(level) for of, level in self.origin.tried if of == label]
        coarser = (st.with_level(wish.view, v, schema) for v in tried)
        return replace(
            wish, view=levels.closed(wish.view), coarser=tuple(coarser), all_tried=label not in self.origin.left
        )

    def _as_before(self, constraints: Sequence[ProtectionRequest], schema: Schema) -> tuple[ProtectionRequest, ...]:
        """With the cells that an earlier edition suppresses; InputError where that has none of these sub-tables."""
        editions = {frozenset(one.table.schema.names): one for one in self.like}
        found = list[ProtectionRequest]()
        for wish in constraints:
            own = schema.restrict(st.members(schema.levels.finest(wish.view)))
            edition = editions.get(frozenset(own.names))
            again = () if edition is None else tuple(sorted(own.keys.pack(edition.suppressed_in(own)).tolist()))
            found.append(replace(wish, again=again))
        if self.like and not any(frozenset(st.names(wish.view, schema)) in editions for wish in constraints):
            raise InputError(
                f"previous_pattern has suppressed cells of {', '.join(one.label for one in self.like)}, and protect "
                f"is of {', '.join(st.label(one.view, schema) for one in constraints)}; name an edition of one "
                "of these, or leave it out"
            )
        return tuple(found)

    def found_before(self, known: Knowledge) -> Iterator[str]:
        """How many cells that an earlier edition suppresses this table has, in words; nothing where none is named."""
        if self.release.previous_pattern is not None and not self.like:
            yield "previous_pattern names an edition without suppressed cells; no cell is suppressed for it"
        editions = {frozenset(one.table.schema.names): one for one in self.like}
        for wish in self.wished(known).protect:
            if (edition := editions.get(frozenset(st.names(wish.view, known.schema)))) is not None:
                lacking = "; its codes are others, write them as the table does" if not wish.again else ""
                yield (
                    f"previous_pattern: {st.label(wish.view, known.schema)} has {len(wish.again)} of the "
                    f"{len(edition.suppressed)} cells that the edition before suppresses{lacking}"
                )

    def start_graph(self, schema: Schema) -> DecomposableGraph | None:
        """What chains start from; InputError where it is no decomposable graph on the table's variables."""
        start = self.release.annealing.start
        return None if start is None else DecomposableGraph.parse(start, schema)

    def coarser(
        self, table: Table, known: Knowledge, deadline: Deadline = NEVER
    ) -> tuple[Table, Knowledge, Provenance]:
        """The table with the levels on which sub-tables may go out that may be coarsened, and which these are.

        deadline  when no more of them are made; InputError as `merged`
        """
        constraints, hidden = self.wished(known), self.origin.hides(table.schema)
        partly = {wish.view for wish in constraints.protect}
        beside = Release.of(t for t in constraints.require if t not in partly)
        limited = replace(self, executor=deadline.limits(self.executor))
        found = merged(limited.evaluator(table, known), constraints.protect, hidden, beside, deadline)
        levels = found.table.schema.names[len(table.schema) :]
        own = replace(
            self.origin,
            hidden=(*self.origin.hidden, *levels),
            merged=levels,
            tried=found.tried,
            left=found.left,
            planned=sum("recoding" in one.by for one in constraints.protect) - len(found.left) if found.left else None,
        )
        return found.table, found.known, own

    def widths(self, table: Table, memory: int | None = None, parts: Cells | None = None) -> CriticalWidths:
        """Critical widths from the floor on; `memory` and `parts` as `critical_widths` has them."""
        return critical_widths(
            table,
            small_count=self.criteria.small_count,
            floor=self.listing.floor,
            most=self.listing.most,
            memory=memory,
            executor=self.executor,
            parts=parts,
        )


def no_widths() -> CriticalWidths:
    """For a search that needs none: annealing."""
    return CriticalWidths(np.zeros(0, np.uint64), np.zeros(0, np.int64), 0, 0)


@dataclass(frozen=True)
class Watch:
    """Who hears of a search while it runs: of questions put to the criterion, of rounds of chains, of decisions.

    Examples
    --------
    >>> heard = []
    >>> watch = sdc.Watch(on_step=heard.append)
    >>> found = sdc.find_release("czech_auto_workers.csv", min_width=6, watch=watch)
    >>> len(heard) == len(found.steps)
    True
    """

    on_step: Callable[[SearchStep], None] = field(default=lambda step: None, repr=False)
    on_round: Callable[[SearchState], None] = field(default=lambda state: None, repr=False)
    on_simulated: Callable[[SimulatedStep], None] = field(default=lambda step: None, repr=False)


NOBODY = Watch()


def release_search(
    table: Table,
    known: Knowledge,
    settings: SearchSettings,
    widths: CriticalWidths,
    watch: Watch = NOBODY,
    deadline: Deadline = NEVER,
    checkpoint: Checkpoint = NOT_KEPT,
) -> ReleaseSearch:
    """All searches by one criterion, beside what is known, each until its end or the deadline.

    checkpoint  what growths go on from, and where they keep what is proven

    InputError where the settings do not fit the table.
    """
    evaluator, weights = settings.evaluator(table, known), settings.weights(table.schema)
    start, constraints, release = settings.start_graph(table.schema), settings.wished(known), settings.release
    shared = constraints, deadline, release.objective
    chains = DecomposableSearch(evaluator, release.annealing, weights, start, watch.on_round, *shared)
    simulatable = SimulatableSearch(evaluator, release.simulatable, weights, watch.on_simulated, constraints)
    own = constraints, weights, deadline, checkpoint
    ordered = OrderedSearch(evaluator, widths, watch.on_step, *own, objective=release.objective)
    before = {} if settings.origin.planned is None else {"coarsening": settings.origin.planned}
    return ReleaseSearch(ordered, chains, simulatable, deadline, before)


def require_utility(table: Table, known: Knowledge, release: Release, settings: SearchSettings) -> None:
    """NotReleasableError where a release is worth less than `at_least` asks, with how much it is worth.

    InputError where it asks for a reconstruction of more cells than can be listed.
    """
    if (asked := settings.release.at_least) is None:
        return
    schema = table.schema
    measures: dict[str, Callable[[], float]] = {
        "sub_tables": lambda: release.sub_tables(schema),
        "cells": lambda: cells(release, schema),
        "degrees_of_freedom": lambda: degrees_of_freedom(release, schema),
        "weighted": lambda: weighted_sub_tables(release, settings.weights(schema), schema),
        "requests_served": lambda: float(settings.requests(schema).served(release)),
        "halvings": lambda: Halvings(table, known).of(release),
    }
    reached = {name: measures[name]() for name in asked.facts}
    lacking = [
        f"{name} = {reached[name]:g}, asked {least:g}" for name, least in asked.facts.items() if reached[name] < least
    ]
    if lacking:
        raise NotReleasableError(
            f"the release found is worth less than release.at_least asks: {'; '.join(lacking)}; ask for less, allow "
            "more risk, or search longer or by another method"
        )


def utility_of_release(table: Table, known: Knowledge, weights: Weights, demand: Demand | None = None) -> Utility:
    """Every measure; IPF goes no further than is cheap, for nothing rests on its accuracy."""
    stop = Stop(max_sweeps=RECONSTRUCTION_SWEEPS)
    return utility_of(table, known, weights, demand or Demand(), stop=stop, max_bytes=RECONSTRUCTION_BYTES)
