"""The gate: publication accepts only what is cleared here.

The writer of the files sees only names, the total and the marginals that become public. The full table, the certificate
and the criteria stay behind the gate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field, replace
from typing import NoReturn

import numpy as np

from sdc.model import subtable as st
from sdc.model.errors import NotReleasableError, ReleaseError
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.model.structural_zeros import StructuralZeros
from sdc.model.subtable import SubTable
from sdc.model.suppressed_table import NO_SUPPRESSED_TABLES, SuppressedTable, SuppressedTables
from sdc.model.table import Counts, Table
from sdc.model.weights import UNIT, RecordWeights, RoundedTotals
from sdc.risk.assessment import Assessment
from sdc.risk.criteria import Criteria
from sdc.risk.effort import Depth, Effort
from sdc.risk.min_width import MinWidth
from sdc.risk.posterior_limit import PosteriorLimit
from sdc.risk.verdict import Policy, Verdict
from sdc.storage.certificate import Certificate, WeightedCertificate
from sdc.weighted.choice import is_wide_enough

# private to this process: nothing read or unpickled can have it
_KEY = object()


@dataclass(frozen=True)
class GateSubject:
    """The subject of a decision: the table by its digest, the criteria, and the policy for undecided cells."""

    table_digest: str
    criteria: Criteria
    policy: Policy


@dataclass(frozen=True, eq=False)
class WeightedTotals:
    """Rounded totals of weights.

    base  they are rounded to multiples of this whole number; total  of all records, None if suppressed
    of    by sub-table, numbered as the cleared release, (cells,) totals of the marginal's cells with records
    """

    base: int
    total: int | None
    of: Mapping[SubTable, Counts]


@dataclass(frozen=True, eq=False)
class Cleared:
    """A release that may be published. Only `clear` creates one; other calls and all kinds of copies raise TypeError.

    schema          the published variables; if overlapping levels are published apart, also the variable that implies
                    both; `release` numbers variables as this schema
    unproven_cells  at-risk cells without proof that the policy "outer" accepts; 0 if all are proven
    weighted        totals of weights published beside the counts; None if there are none
    suppressed_tables  by sub-table; their marginals have no suppressed cell, or rounded counts
    """

    subject: GateSubject
    schema: Schema
    release: Release
    total: int
    unproven_cells: int
    _marginals: Mapping[SubTable, Table]
    weighted: WeightedTotals | None = None
    suppressed_tables: Mapping[SubTable, SuppressedTable] = field(default_factory=dict)
    key: InitVar[object] = None

    def __post_init__(self, key: object) -> None:
        if key is not _KEY:
            raise TypeError("only the gate clears a release; call sdc.publish.gate.clear")

    def __reduce__(self) -> NoReturn:
        raise TypeError("a cleared release is not copied or stored; clear it again where it is published")

    def marginal(self, subtable: SubTable) -> Table:
        """A released marginal; KeyError if it is not on the frontier, not suppressed and has no totals."""
        return self._marginals[subtable]

    def require(self, subject: GateSubject) -> None:
        """ReleaseError if it was cleared for another table, other criteria or another policy."""
        if difference := _difference(self.subject, subject):
            raise ReleaseError(f"the cleared release is of another {difference}; clear the one that is to be published")


def clear(
    table: Table,
    known: Knowledge,
    certificate: Certificate,
    criteria: Criteria,
    policy: Policy,
    effort: Effort | None = None,
    weighted: tuple[RecordWeights, WeightedCertificate] | None = None,
    hidden: SubTable = st.GRAND_TOTAL,
    reveal: bool = False,
) -> Cleared:
    """Clear the certificate's release if the certificate proves the width of every at-risk cell of this table.

    Every difference is checked again, in integers; earlier results do not count. The policy "outer" accepts cells
    without proof unless an outer bound refutes one. With `weighted`, the totals of weights are checked and cleared too.
    Levels that are `hidden` come from other publications: they are evaluated, not cleared. Cells known to be suppressed
    stay suppressed unless the release may `reveal` them. Raises ReleaseError if the release is unsafe, or if the
    certificate is of another table, other criteria or other prior knowledge.
    """
    subject = GateSubject(table.digest, criteria, policy)
    # criteria other than the width need no certificate: they follow from table and release
    proven = replace(criteria, small_count=certificate.small_count, width=MinWidth(certificate.min_width))
    if difference := _difference(GateSubject(certificate.table_digest, proven, policy), subject):
        raise ReleaseError(
            f"the certificate is of another {difference}; nothing is published, assess the release again"
        )
    if certificate.known != known:
        raise ReleaseError(
            f"the certificate {_other(certificate.known, known)}; nothing is published, assess the release again"
        )
    # the prior knowledge is true for this table
    parts = certificate.suppressed_tables
    are_protected = all(one.is_suppressed or one.is_rounded(table) for one in parts.tables)
    if not are_protected or not certificate.release.contains(parts.beside):
        raise ReleaseError(
            "a suppressed table has an interval that neither suppression nor rounding gives, or a margin that is "
            "not released; run again"
        )
    knowledge = Knowledge.of(table, certificate.release, known.zeros, (*known.facts, *parts.facts), known.listed)
    # only what the certificate proves now counts, not earlier results
    own = criteria.primary_cells(table, knowledge, parts.before(known))
    broken = (criteria if reveal else criteria.beside(table, known)).broken(table, knowledge)
    if broken is not None:
        raise NotReleasableError(f"{broken.text}; nothing is published", broken.detail)
    unproven = criteria.unproven(table, knowledge, certificate.proof, own)
    if unproven:
        answer = _refuted(table, certificate, criteria, effort or Effort())
        # a new evaluation may find more, but the certificate is what is published: undecided at best
        if not policy.accepts(min(answer.verdict, Verdict.UNDECIDED)):
            raise NotReleasableError(_refusal(answer, unproven))
    limit = criteria.get(PosteriorLimit)
    likely = None if limit is None else limit.judge(table, knowledge, table.at_risk(criteria.small_count))
    if likely is not None and not likely.is_kept:
        raise NotReleasableError(f"the release breaks the posterior limit: {likely.text}; nothing is published")
    totals = None if weighted is None else _totals(table, knowledge, criteria, *weighted)
    shown = Release.of(element & ~hidden for element in certificate.release.frontier)
    return _cleared(subject, table, shown, unproven, totals, parts, hidden)


def _other(judged: Knowledge, known: Knowledge) -> str:
    for what, alone in (
        ("lacks {}, which is known of the table", _beyond(known, judged)),
        ("adds {}, which is not known of the table", _beyond(judged, known)),
    ):
        if alone:
            return what.format(alone[0])
    return "is beside what is known of another table"


def _beyond(one: Knowledge, other: Knowledge) -> list[str]:
    schema = one.schema
    zeros = StructuralZeros(tuple(set(one.zeros.patterns) - set(other.zeros.patterns))).labels(schema)
    facts = (fact for fact in one.facts if fact not in other.facts and fact.view not in other.release)
    return [
        *(f"the structural zero {label}" for label in zeros),
        *(st.label(element, schema) for element in one.release.frontier if element not in other.release),
        *(f"{fact.label(schema)} by {fact.source}" for fact in facts),
    ]


def _totals(
    table: Table, knowledge: Knowledge, criteria: Criteria, weights: RecordWeights, certificate: WeightedCertificate
) -> WeightedTotals:
    """Totals by sub-tables of the table; ReleaseError unless they are proven safe."""
    if certificate.table_digest != table.digest:
        raise ReleaseError(
            f"the weighted totals are of another table: {certificate.table_digest[:12]}, asked is {table.digest[:12]}; "
            "nothing is published, run again"
        )
    weights.check(table)
    public = RoundedTotals(certificate.totals, certificate.base)
    good = certificate.pairs.feasible(table, weights, replace(knowledge, totals=public))
    if not good.all() or (certificate.totals and not is_wide_enough(table, criteria, certificate.pairs)):
        raise NotReleasableError(
            "the weighted totals are not shown to be safe beside the counts; nothing is published, run again, or "
            "remove table.weight from the config"
        )
    truth = Table(table.schema, table.codes, weights.totals)
    of = {t: public.shown(truth.marginal(t).counts) // UNIT for t in public.of if t}
    whole = int(public.shown(np.array([truth.total]))[0]) // UNIT if 0 in public.of else None
    return WeightedTotals(public.base // UNIT, whole, of)


def _cleared(
    subject: GateSubject,
    table: Table,
    release: Release,
    unproven: int,
    totals: WeightedTotals | None = None,
    parts: SuppressedTables = NO_SUPPRESSED_TABLES,
    hidden: SubTable = st.GRAND_TOTAL,
) -> Cleared:
    views = [part.view & ~hidden for part in parts.tables]
    # a schema needs a variable, even if only the total is published
    kept = _variables_of(release.join(Release.of(views)), table.schema) or 1
    schema, within = table.schema.restrict(st.members(kept)), release.within(kept)
    # renumbering keeps the order of variables, so both frontiers have one order; not strict: the total has no marginal
    marginals = dict(zip(within.frontier, (table.marginal(t) for t in release.frontier if t), strict=False))
    if totals is not None:
        marginals |= {st.within(t, kept): table.marginal(t) for t in totals.of if t not in release.frontier}
        totals = replace(totals, of={st.within(t, kept): counts for t, counts in totals.of.items()})
    suppressed = {st.within(view, kept): one for view, one in zip(views, parts.tables, strict=True)}
    marginals |= {view: one.published(table.marginal(one.view & ~hidden)) for view, one in suppressed.items()}
    suppressed = {view: one.within(kept, hidden) for view, one in suppressed.items()}
    return Cleared(subject, schema, within, table.total, unproven, marginals, totals, suppressed, _KEY)


def _variables_of(release: Release, schema: Schema) -> SubTable:
    """The released variables, and for each axis the variable that implies all of them."""
    kept = release.variables
    for axis in schema.axes:
        # the closure may add hidden levels, which are coarser and add no information
        kept |= schema.levels.finest(schema.levels.closed(kept & schema.levels.of_axis[axis]))
    return kept


def _refuted(table: Table, certificate: Certificate, criteria: Criteria, effort: Effort) -> Assessment:
    """The assessment of an unproven release: do outer bounds refute it?"""
    # with the certificate's proofs, so that the refusal lists the open cells only
    own = criteria.primary_cells(table, certificate.knowledge, certificate.suppressed_tables.before(certificate.known))
    pool = criteria.pool(table, own).learnt(certificate.proof, certificate.knowledge)
    cheap = replace(effort, depth=Depth.REFUTE, spent=0)
    known = certificate.known.plus_facts(certificate.suppressed_tables.facts)
    return criteria.judge(table, known, certificate.asked, pool, cheap).assessment


def _refusal(answer: Assessment, unproven: int) -> str:
    """The reason of a refusal. A certificate may prove less than a new search would."""
    why = {
        Verdict.UNSAFE: "refuted",
        Verdict.UNDECIDED: f"{answer.open_cells} cells are undecided",
        Verdict.SAFE: f"its certificate does not show it of {unproven} of {answer.at_risk_cells} cells",
    }[answer.verdict]
    return (
        f"the release found is not proven safe ({why}, min width between {answer.min_width[0]} and "
        f"{answer.min_width[1]}, required {answer.min_width_required}); nothing is published"
    )


def _difference(found: GateSubject, wanted: GateSubject) -> str:
    proven, asked = found.criteria.facts, wanted.criteria.facts
    pairs = [
        ("table", found.table_digest[:12], wanted.table_digest[:12]),
        *((name, proven.get(name), asked.get(name)) for name in {**proven, **asked}),
        ("policy", found.policy.value, wanted.policy.value),
    ]
    differing = [(name, one, other) for name, one, other in pairs if one != other]
    return next((f"{name}: {one}, asked is {other}" for name, one, other in differing), "")
