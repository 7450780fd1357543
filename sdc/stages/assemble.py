"""From settings to criterion and search, for commands, notebooks and builds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from sdc.checkpoint import NO_CHECKPOINT, Checkpoint
from sdc.config.analysis import WidthsConfig
from sdc.config.release import ReleaseConfig
from sdc.config.values import Objective
from sdc.deadline import NEVER, Deadline
from sdc.executor import IN_PROCESS, Executor
from sdc.model import subtable as st
from sdc.model.decomposable_graph import DecomposableGraph
from sdc.model.errors import ConfigError, InputError, NotReleasableError, many
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
from sdc.storage.proofs import SavedProofs, witnesses_of
from sdc.utility.halvings import Halvings, support_of
from sdc.utility.ipf import Stop
from sdc.utility.measures import Demand, Utility, Weights, cells, degrees_of_freedom, utility_of, weighted_sub_tables

MOST_LISTED_WITHOUT_THRESHOLD = 20  # variables; 2^20 widths take seconds, 2^23 do not
MOST_LISTED = 20_000  # sub-tables of more variables; a minute for 40 variables and 60,000 cells
RECONSTRUCTION_SWEEPS, RECONSTRUCTION_BYTES = 200, 256 << 20


def edition_before(like: str | None) -> tuple[Published, ...]:
    """Return the suppressed sub-tables of an earlier edition; ConfigError if it cannot be read."""
    try:
        # a total that is taken for a category is in no pattern
        read = () if like is None else read_published(Path(like), not_totals=None)
        return tuple(one for one in read if len(one.suppressed))
    except InputError as error:
        raise ConfigError(f"release.previous_pattern = {like!r}: {error}", error.detail) from error


@dataclass(frozen=True)
class Listing:
    """Which critical widths are listed.

    floor  only those of at least this width
    most   at most this many, the widest; 0 for all
    """

    floor: int = 0
    most: int = 0

    @staticmethod
    def of(widths: WidthsConfig, variables: int, least: int) -> Listing:
        """Follow the section; by default list all, or for many variables the widest that reach the least required
        width.

        Below the required width nothing is releasable, so this threshold loses nothing.
        """
        if widths.threshold is not None or widths.most is not None:
            most = widths.most or 0
        else:
            most = MOST_LISTED if variables > MOST_LISTED_WITHOUT_THRESHOLD else 0
        floor = widths.threshold if widths.threshold is not None else least if most else 0
        return Listing(floor, most)


ALL_WIDTHS = Listing()


@dataclass(frozen=True)
class SearchSettings:
    """All settings of a search apart from the table.

    listing   which critical widths are found
    release   section of a config, whose demand is not a file
    executor  changes only the time, never the result
    origin    levels that are judged but not searched, and levels for recoding
    like      suppressed sub-tables of an earlier edition, whose cells are suppressed again
    proofs    of earlier publications, checked before use
    """

    criteria: Criteria
    policy: Policy
    listing: Listing = ALL_WIDTHS
    release: ReleaseConfig = field(default_factory=ReleaseConfig)
    executor: Executor = IN_PROCESS
    origin: Provenance = field(default_factory=Provenance)
    like: Sequence[Published] = ()
    proofs: Callable[[], SavedProofs | None] = field(default=lambda: None, repr=False)

    @property
    def effort(self) -> Effort:
        """Limits of an evaluation."""
        release = self.release
        budget = Budget(release.seconds_per_cell, release.seconds)
        return Effort(budget, release.refute_cells, release.cells_per_slice, self.executor)

    def evaluator(self, table: Table, known: Knowledge, before: Knowledge | None = None) -> RiskEvaluator:
        """Return the evaluator of the table; InputError for a small count below 1.

        before  knowledge about suppressed cells without these tables, see `RiskEvaluator`
        """
        refutations, witnesses = Refutations(known.zeros), witnesses_of(table, known, self.proofs())
        criteria = self.criteria if self.release.reveal_suppressed else self.criteria.beside(table, known)
        shared = criteria, self.policy, self.effort
        return RiskEvaluator(table, known, *shared, refutations=refutations, before=before, witnesses=witnesses)

    def weights(self, schema: Schema) -> Weights:
        """Return the weight of each sub-table; InputError for unknown names or weights not above 0."""
        named = Weights.of(schema, self.release.weights.variables, self.release.weights.sub_tables)
        return self.requests(schema).added_to(named, schema)

    def requests(self, schema: Schema) -> Demand:
        """Return the users' demand; InputError as `weights`."""
        assert isinstance(self.release.demand, Mapping)
        return Demand.of(schema, self.release.demand)

    def constraints(self, known: Knowledge) -> Constraints:
        """Return the required and forbidden sub-tables; InputError for patterns that do not fit the table."""
        schema = known.schema
        hidden = st.members(self.origin.hides(schema))
        # only the table's names: hidden levels are searched together with their variables
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

    def _coarser(self, request: ProtectionRequest, schema: Schema) -> ProtectionRequest:
        """Return the request with the levels of this schema, and its recoding levels."""
        levels, label = schema.levels, st.label(request.view, schema)
        tried = [schema.index(level) for of, level in self.origin.tried if of == label]
        coarser = (st.with_level(request.view, v, schema) for v in tried)
        return replace(
            request, view=levels.closed(request.view), coarser=tuple(coarser), all_tried=label not in self.origin.left
        )

    def _as_before(self, requests: Sequence[ProtectionRequest], schema: Schema) -> tuple[ProtectionRequest, ...]:
        """Add the suppressed cells of an earlier edition; InputError if no request matches one."""
        editions = {frozenset(one.table.schema.names): one for one in self.like}
        found = list[ProtectionRequest]()
        for request in requests:
            own = schema.restrict(st.members(schema.levels.finest(request.view)))
            edition = editions.get(frozenset(own.names))
            again = () if edition is None else tuple(sorted(own.keys.pack(edition.suppressed_in(own)).tolist()))
            found.append(replace(request, again=again))
        if self.like and not any(frozenset(st.names(request.view, schema)) in editions for request in requests):
            raise InputError(
                f"previous_pattern suppresses cells of {', '.join(one.label for one in self.like)}, and protect is of "
                f"{', '.join(st.label(one.view, schema) for one in requests)}; name an edition of one of these, or "
                "leave it out"
            )
        return tuple(found)

    def found_before(self, known: Knowledge) -> Iterator[str]:
        """Yield notes on how many suppressed cells of an earlier edition this table has."""
        if self.release.previous_pattern is not None and not self.like:
            yield "previous_pattern names an edition without suppressed cells; it has no effect"
        editions = {frozenset(one.table.schema.names): one for one in self.like}
        for request in self.constraints(known).protect:
            if (edition := editions.get(frozenset(st.names(request.view, known.schema)))) is not None:
                lacking = "; its codes differ; write them as the table does" if not request.again else ""
                yield (
                    f"previous_pattern: {st.label(request.view, known.schema)} has {len(request.again)} of "
                    f"{many(len(edition.suppressed), 'cell')} that the earlier edition suppresses{lacking}"
                )

    def start_graph(self, schema: Schema) -> DecomposableGraph | None:
        """Return the start of the chains; InputError if it is not a decomposable graph on the table's variables."""
        start = self.release.annealing.start
        return None if start is None else DecomposableGraph.parse(start, schema)

    def coarser(
        self, table: Table, known: Knowledge, deadline: Deadline = NEVER
    ) -> tuple[Table, Knowledge, Provenance]:
        """Return the table with levels for recoding, its knowledge and its provenance.

        deadline  ends the search for levels; InputError as `merged`
        """
        constraints, hidden = self.constraints(known), self.origin.hides(table.schema)
        suppressed = {request.view for request in constraints.protect}
        beside = Release.of(t for t in constraints.require if t not in suppressed)
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
        """Return critical widths from the threshold on; `memory` and `parts` as in `critical_widths`."""
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
    """Return no widths, for a search that needs none (annealing)."""
    return CriticalWidths(np.zeros(0, np.uint64), np.zeros(0, np.int64), 0, 0)


@dataclass(frozen=True)
class Watch:
    """Callbacks of a search: evaluations, rounds of chains, simulated decisions.

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
    checkpoint: Checkpoint = NO_CHECKPOINT,
) -> ReleaseSearch:
    """Return all searches by one criterion, each until its end or the deadline.

    checkpoint  proven steps of greedy extensions, read and written

    InputError if the settings do not fit the table.
    """
    evaluator, weights = settings.evaluator(table, known), settings.weights(table.schema)
    start, constraints, release = settings.start_graph(table.schema), settings.constraints(known), settings.release
    shared = constraints, deadline, release.objective
    chains = DecomposableSearch(evaluator, release.annealing, weights, start, watch.on_round, *shared)
    simulatable = SimulatableSearch(evaluator, release.simulatable, weights, watch.on_simulated, constraints)
    own = constraints, weights, deadline, checkpoint
    ordered = OrderedSearch(evaluator, widths, watch.on_step, *own, objective=release.objective)
    before = {} if settings.origin.planned is None else {"coarsening": settings.origin.planned}
    return ReleaseSearch(ordered, chains, simulatable, deadline, before, neighbourhood=release.neighbourhood)


def require_utility(table: Table, known: Knowledge, release: Release, settings: SearchSettings) -> None:
    """Raise NotReleasableError if a release is worth less than `at_least`.

    InputError if it needs the reconstruction of more cells than can be listed.
    """
    if (required := settings.release.at_least) is None:
        return
    schema = table.schema
    measures: dict[str, Callable[[], float]] = {
        "sub_tables": lambda: release.sub_tables(schema),
        "cells": lambda: cells(release, schema),
        "degrees_of_freedom": lambda: degrees_of_freedom(release, schema),
        "weighted": lambda: weighted_sub_tables(release, settings.weights(schema), schema),
        "requests_served": lambda: float(settings.requests(schema).served(release)),
        "halvings": lambda: Halvings(table, known, settings.release.objective).of(release),
    }
    reached = {name: measures[name]() for name in required.facts}
    lacking = [
        f"{name} = {reached[name]:g}, required {least:g}"
        for name, least in required.facts.items()
        if reached[name] < least
    ]
    if lacking:
        raise NotReleasableError(
            f"the release found is below release.at_least: {'; '.join(lacking)}; require less, allow "
            "more risk, or search longer or by another method"
        )


def utility_of_release(
    table: Table, known: Knowledge, weights: Weights, objective: Objective, demand: Demand | None = None
) -> Utility:
    """Return every measure; IPF stops early, since nothing depends on its accuracy."""
    stop, support = Stop(max_sweeps=RECONSTRUCTION_SWEEPS), support_of(objective)
    return utility_of(
        table, known, weights, demand or Demand(), support=support, stop=stop, max_bytes=RECONSTRUCTION_BYTES
    )
