"""What an audit report rests on: the values a build ends with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from sdc.config.analysis import WeightedConfig
from sdc.config.publication import AuditConfig, LabelsConfig, PublicationConfig
from sdc.intruder.measures import Groups
from sdc.intruder.refusals import Refusals
from sdc.intruder.summary import Summary
from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds
from sdc.model.decomposable_graph import DecomposableGraph
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.risk.criterion import Assessment
from sdc.risk.critical_width import CriticalWidths
from sdc.risk.min_width import MinWidth
from sdc.risk.verdict import Policy
from sdc.search.curve import CurvePoint, LikelyPoint
from sdc.search.decomposable import TraceRow
from sdc.search.ordered import SearchStep
from sdc.search.remedies import Remedy
from sdc.search.required import RequiredRecord
from sdc.search.simulatable import SimulatedStep
from sdc.storage.weighted import WeightedCertificate


@dataclass(frozen=True)
class Audit:
    """Everything the report shows.

    digests           of config, data and code, in hexadecimal
    settings          the config by section
    policy            "refuse": undecided counts as unsafe; "outer": it is let through
    bounds            of every at-risk cell under the release
    graph             the decomposable graph that was found, with the trace of the chains that found it
    listed            of the method "bisection" the list whose prefixes were asked about
    best_reason       of the method "best": why the one that won did; of "simulatable": what it costs
    simulated         decisions of the method "simulatable"
    utility           of the release by measure, see `utility.MEASURES`, and how the full table was reconstructed
    curve             utility against the required width
    likely_curve      decomposable releases against what they may make likely
    redesigns         of sub-tables that were refused what coarser ones may go out instead, as `remedies/` has it
    remedies          recodes tried on what stopped the release, best first; None where none were to be tried
    posteriors        what an intruder may hold likely, a law each; none where none was asked for
    groups            the smallest released group of each at-risk cell; with posteriors
    threshold         of the probabilities that identify a cell, and disclose a group's categories
    refusals          what they tell who knows the settings; None where that was not asked for
    about             what the config says of this report: purpose, date, who prepared it
    publication       and of what is published: population, period, source, ...
    labels            how variables and categories are called
    required          what became of the required sub-tables; None where none were
    weighted          what shows which totals of weights may go out; with totals, how they are published
    bad_records       those read and those set aside, by reason, see `sdc.ingest.reading.CountedRecords`
    known             what was known before: published, and judged together with the release, which has it too; facts
                      beside it; and which cells cannot be
    hidden            the levels that were added to the table for it, and are never published
    sources           what was published before, for people
    declared          what the config says of the records and categories of earlier publications
    """

    name: str
    digests: Mapping[str, str]
    settings: Mapping[str, Mapping[str, object]]
    table: Table
    known: Knowledge
    criterion: MinWidth
    policy: Policy
    method: str
    widths: CriticalWidths
    release: Release
    search_steps: tuple[SearchStep, ...]
    assessment: Assessment
    bounds: CellBounds
    graph: DecomposableGraph | None = None
    trace: tuple[TraceRow, ...] = ()
    listed: tuple[SubTable, ...] = ()
    best_reason: str | None = None
    simulated: tuple[SimulatedStep, ...] = ()
    utility: Mapping[str, int | float | str | bool] | None = None
    curve: tuple[CurvePoint, ...] = ()
    likely_curve: tuple[LikelyPoint, ...] = ()
    remedies: tuple[Remedy, ...] | None = None
    redesigns: Sequence[Mapping[str, Any]] = ()
    refusals: Refusals | None = None
    posteriors: tuple[Summary, ...] = ()
    groups: Groups | None = None
    threshold: float = 0.9
    bad_records: Mapping[str, Any] | None = None
    required: RequiredRecord | None = None
    weighted: WeightedCertificate | None = None
    totals: WeightedConfig | None = None
    about: AuditConfig = field(default_factory=AuditConfig)
    publication: PublicationConfig = field(default_factory=PublicationConfig)
    labels: LabelsConfig = field(default_factory=LabelsConfig)
    hidden: SubTable = st.GRAND_TOTAL
    sources: tuple[str, ...] = ()
    declared: tuple[str, ...] = ()

    @cached_property
    def on_list(self) -> frozenset[SubTable]:
        """What is `listed`."""
        return frozenset(self.listed)

    @cached_property
    def published(self) -> Release:
        """What of the release is no hidden level: that goes out."""
        return Release.of(element & ~self.hidden for element in self.release.frontier)

    @cached_property
    def sub_tables(self) -> int:
        """How many sub-tables go out, without the grand total."""
        return self.published.sub_tables(self.table.schema)

    @property
    def sub_tables_with_total(self) -> int:
        """The same with the grand total."""
        return self.sub_tables + 1

    @property
    def variables(self) -> SubTable:
        """The table's own, without the hidden ones."""
        return st.full(len(self.table.schema)) & ~self.hidden

    @cached_property
    def everything(self) -> Release:
        """All sub-tables of the table's own variables: the query space."""
        return Release.of([self.variables])

    @cached_property
    def possible(self) -> int:
        """How many sub-tables the query space has, the grand total included."""
        return self.everything.sub_tables_with_total(self.table.schema)

    @property
    def has_counts(self) -> bool:
        """Whether counts go out, and not totals of weights instead."""
        return self.totals is None or self.totals.publish == "beside"

    @property
    def small_count(self) -> int:
        return self.criterion.small_count

    @property
    def min_width(self) -> int:
        return self.criterion.min_width
