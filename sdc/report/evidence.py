"""The evidence of an audit report: the values a build ends with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from sdc.config.build import ELSEWHERE, BuildConfig
from sdc.intruder.decision import RatedRelease
from sdc.intruder.guesses import Guesses
from sdc.intruder.measures import Groups
from sdc.intruder.refusals import Refusals
from sdc.intruder.summary import Summary
from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.public.earlier import Provenance
from sdc.risk.assessment import Assessment
from sdc.risk.criteria import Criteria
from sdc.risk.critical_width import CriticalWidths
from sdc.risk.refutation import Refutation
from sdc.risk.verdict import Policy
from sdc.search.curve import CurvePoint, LikelyPoint
from sdc.search.recodings import Recoding
from sdc.storage.certificate import WeightedCertificate
from sdc.storage.results import SearchRecord
from sdc.utility.uniques import Uniques


@dataclass(frozen=True)
class AuditEvidence:
    """Everything the report shows.

    digests       of config, data and code, in hexadecimal
    known         what was known before: published, and judged together with the release, which has it too; facts beside
                  it; and which cells cannot be
    policy        "refuse": undecided counts as unsafe; "outer": it is let through
    found         the release, and the course of the search that found it
    bounds        of every at-risk cell under the release
    listed        of the method "bisection" the list whose prefixes were asked about
    utility       of the release by measure, see `utility.MEASURES`, and how the full table was reconstructed
    curve         utility against the required width
    likely_curve  decomposable releases against what they may make likely
    choice        releases by the risk and utility of the users of the config
    recodings     recodes tried on what stopped the release, then coarser sub-tables instead; None where none were tried
    posteriors    what an intruder may hold likely, a law each; none where none was asked for
    uniques       what is thought of sample uniques, or why nothing is; None where that was not asked for
    guesses       what is guessed from all public tables, or why nothing is; None where that was not asked for
    measures      of [DFT] section 3 and 4 by name, of the release and of the least that might go out; with posteriors
    groups        the smallest released group of each at-risk cell; with posteriors
    refutations   what proves refusals, by name
    refusals      what they tell who knows the settings; None where that was not asked for
    weighted      what shows which totals of weights may go out
    bad_records   those read and those set aside, by reason, see `sdc.data.reading.CountedRecords`
    origin        where that is from which was known before
    """

    config: BuildConfig
    digests: Mapping[str, str]
    table: Table
    known: Knowledge
    criteria: Criteria
    policy: Policy
    widths: CriticalWidths
    found: SearchRecord
    assessment: Assessment
    bounds: CellBounds
    listed: tuple[SubTable, ...] = ()
    utility: Mapping[str, int | float | str | bool] | None = None
    curve: tuple[CurvePoint, ...] = ()
    likely_curve: tuple[LikelyPoint, ...] = ()
    choice: tuple[RatedRelease, ...] = ()
    recodings: tuple[Recoding, ...] | None = None
    refutations: Mapping[str, Refutation] = field(default_factory=dict)
    refusals: Refusals | None = None
    posteriors: tuple[Summary, ...] = ()
    measures: Sequence[Mapping[str, Any]] = ()
    groups: Groups | None = None
    uniques: Uniques | str | None = None
    guesses: Guesses | str | None = None
    weighted: WeightedCertificate | None = None
    bad_records: Mapping[str, Any] | None = None
    origin: Provenance = field(default_factory=Provenance)
    again: Mapping[SubTable, Sequence[int]] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, Any]:
        """The config by section; the name heads the report."""
        settings = self.config.model_dump(mode="json", exclude={**ELSEWHERE, "name": True})
        settings["assessment"] = {key: settings.pop(key) for key in ("assessment", "sharp_seconds")}
        if published := self.origin.sources:
            settings["published before"] = {f"{number}": source for number, source in enumerate(published, start=1)}
        return {name: section for name, section in settings.items() if section is not None}

    @property
    def schema(self) -> Schema:
        return self.table.schema

    def label(self, subtable: SubTable) -> str:
        return st.label(subtable, self.schema)

    def labels(self, subtables: Iterable[SubTable]) -> list[str]:
        return [self.label(one) for one in subtables]

    @cached_property
    def hidden(self) -> SubTable:
        """The levels that were added to the table and are not published with what was found."""
        return self.origin.hides(self.table.schema, self.found.release, self.found.suppressed_required)

    @property
    def threshold(self) -> float:
        """The threshold of the probabilities that identify a cell, and disclose a group's categories."""
        return self.config.posterior.threshold if self.config.posterior else 0.0

    @cached_property
    def on_list(self) -> frozenset[SubTable]:
        """The sub-tables that are `listed`."""
        return frozenset(self.listed)

    @cached_property
    def published(self) -> Release:
        """The release without hidden levels, which are not published."""
        return Release.of(element & ~self.hidden for element in self.found.release.frontier)

    @cached_property
    def sub_tables(self) -> int:
        """How many sub-tables go out, without the grand total."""
        return self.published.sub_tables(self.schema)

    @property
    def variables(self) -> SubTable:
        """The table's own, without the hidden ones."""
        return st.full(len(self.schema)) & ~self.hidden

    @cached_property
    def everything(self) -> Release:
        """All sub-tables of the table's own variables: the query space."""
        return Release.of([self.variables])

    @cached_property
    def possible(self) -> int:
        """How many sub-tables the query space has, the grand total included."""
        return self.everything.sub_tables_with_total(self.schema)

    @property
    def has_counts(self) -> bool:
        """Whether counts go out, and not totals of weights instead."""
        totals = self.config.totals
        return totals is None or totals.publish == "beside"

    @property
    def small_count(self) -> int:
        return self.criteria.small_count

    @property
    def min_width(self) -> int:
        return self.criteria.width.min_width
