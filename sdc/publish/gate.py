"""The gate: what may go out. Publication takes nothing but what was cleared here.

Whoever writes the published files sees what is cleared: names, the total, and the marginals that will be public
anyway. The full table, the certificate and the criteria stay on this side.
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
from sdc.storage.certificate import Certificate
from sdc.storage.weighted import WeightedCertificate
from sdc.weighted.choice import is_kept

# this process's own: nothing that was read or unpickled can have it
_KEY = object()


@dataclass(frozen=True)
class GateSubject:
    """What a decision is about: the table by its digest, the criteria, and the policy for what it leaves open."""

    table_digest: str
    criteria: Criteria
    policy: Policy


@dataclass(frozen=True, eq=False)
class WeightedTotals:
    """Totals of weights, rounded.

    base  what they are rounded to, a whole number; total  of all records, None where that is withheld
    of    by sub-table, numbered as the cleared release, (cells,) totals of the marginal's cells with records
    """

    base: int
    total: int | None
    of: Mapping[SubTable, Counts]


@dataclass(frozen=True, eq=False)
class Cleared:
    """A release that may go out. `clear` alone makes one: TypeError elsewhere, and for every kind of copy.

    schema          the variables that are published, and where levels that overlap are published apart what tells them
                    together; `release` numbers them as it does
    unproven_cells  at-risk cells without proof, let through by the policy "outer"; 0 where all are proven
    weighted        totals of weights that may go out beside the counts; None where there are none
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
        """A released marginal; KeyError for one that is not on the frontier, not suppressed and has no totals."""
        return self._marginals[subtable]

    def require(self, subject: GateSubject) -> None:
        """ReleaseError where it was cleared for another table, other criteria or another policy."""
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
    """The certificate's release, where the certificate shows every at-risk cell of this table to be wide enough.

    Every difference is checked again, in integers; nothing that was said of the release before counts. Under the
    policy "outer" cells may stay without proof, as long as no outer bound refutes one. ReleaseError where the release
    may not go out, or where the certificate is of another table, of other criteria, or beside anything but
    what is `known`.

    With `weighted`, the weights of the table's cells and what shows that their totals are safe beside the counts, these
    totals are cleared too; that is shown again like all else. Levels that are `hidden` tell what others have published;
    they are judged, and not cleared. What is known to be suppressed stays so, unless the release may `reveal` it.
    """
    subject = GateSubject(table.digest, criteria, policy)
    # other criteria than the width follow from table and release, and have no certificate
    proven = replace(criteria, small_count=certificate.small_count, width=MinWidth(certificate.min_width))
    if difference := _difference(GateSubject(certificate.table_digest, proven, policy), subject):
        raise ReleaseError(
            f"the certificate is of another {difference}; nothing is published, assess the release again"
        )
    if certificate.known != known:
        raise ReleaseError(
            f"the certificate {_other(certificate.known, known)}; nothing is published, assess the release again"
        )
    # what is known is true of this table
    parts = certificate.suppressed_tables
    are_protected = all(one.is_suppressed or one.is_rounded(table) for one in parts.tables)
    if not are_protected or not certificate.release.contains(parts.beside):
        raise ReleaseError(
            "a suppressed table has an interval that neither suppression nor rounding gives, or is beside what is not "
            "released; run again"
        )
    knowledge = Knowledge.of(table, certificate.release, known.zeros, (*known.facts, *parts.facts), known.listed)
    # whatever a search, an assessment or a manifest says: what counts is what the certificate shows now
    own = criteria.primary_cells(table, knowledge, parts.before(known))
    broken = (criteria if reveal else criteria.beside(table, known)).broken(table, knowledge)
    if broken is not None:
        raise NotReleasableError(f"{broken.text}; nothing is published", broken.detail)
    unproven = criteria.unproven(table, knowledge, certificate.proof, own)
    if unproven:
        answer = _refuted(table, certificate, criteria, effort or Effort())
        # what is judged anew may even be safe, but it is the certificate that is published on: at best undecided
        if not policy.accepts(min(answer.verdict, Verdict.UNDECIDED)):
            raise NotReleasableError(_refusal(answer, unproven))
    limit = criteria.get(PosteriorLimit)
    likely = None if limit is None else limit.judge(table, knowledge, table.at_risk(criteria.small_count))
    if likely is not None and not likely.is_kept:
        raise NotReleasableError(f"the release makes too much likely: {likely.text}; nothing is published")
    totals = None if weighted is None else _totals(table, knowledge, criteria, *weighted)
    return _cleared(subject, table, _without(certificate.release, hidden), unproven, totals, parts, hidden)


def _other(judged: Knowledge, known: Knowledge) -> str:
    """What a certificate was judged beside that is not known, or the other way round."""
    for what, alone in (
        ("lacks {}, which is known of the table", _beyond(known, judged)),
        ("adds {}, which is not known of the table", _beyond(judged, known)),
    ):
        if alone:
            return what.format(alone[0])
    return "is beside what is known of another table"


def _beyond(one: Knowledge, other: Knowledge) -> list[str]:
    """What is known with one that is not with the other, in words."""
    schema = one.schema
    zeros = StructuralZeros(tuple(set(one.zeros.patterns) - set(other.zeros.patterns))).labels(schema)
    facts = (fact for fact in one.facts if fact not in other.facts and fact.view not in other.release)
    return [
        *(f"the structural zero {label}" for label in zeros),
        *(st.label(element, schema) for element in one.release.frontier if element not in other.release),
        *(f"{fact.label(schema)} by {fact.source}" for fact in facts),
    ]


def _without(release: Release, hidden: SubTable) -> Release:
    """What of a release needs none of these variables."""
    return Release.of(element & ~hidden for element in release.frontier) if hidden else release


def _totals(
    table: Table, knowledge: Knowledge, criteria: Criteria, weights: RecordWeights, certificate: WeightedCertificate
) -> WeightedTotals:
    """By sub-tables of the table; ReleaseError where they are not shown to be safe."""
    if certificate.table_digest != table.digest:
        raise ReleaseError(
            f"the weighted totals are of another table: {certificate.table_digest[:12]}, asked is {table.digest[:12]}; "
            "nothing is published, run again"
        )
    weights.check(table)
    public = RoundedTotals(certificate.totals, certificate.base)
    good = certificate.pairs.feasible(table, weights, replace(knowledge, totals=public))
    if not good.all() or (certificate.totals and not is_kept(table, criteria, certificate.pairs)):
        raise NotReleasableError(
            "the weighted totals are not shown to be safe beside the counts; nothing is published, run again or take "
            "table.weight off the config"
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
    # a schema has a variable, though nothing but the total goes out
    kept = _told(release.join(Release.of(views)), table.schema) or 1
    schema, within = table.schema.restrict(st.members(kept)), release.within(kept)
    # both frontiers are in one order, because renumbering keeps that of the variables; not strict, because the total
    # alone has no marginal
    marginals = dict(zip(within.frontier, (table.marginal(t) for t in release.frontier if t), strict=False))
    if totals is not None:
        marginals |= {st.within(t, kept): table.marginal(t) for t in totals.of if t not in release.frontier}
        totals = replace(totals, of={st.within(t, kept): counts for t, counts in totals.of.items()})
    suppressed = {st.within(view, kept): one for view, one in zip(views, parts.tables, strict=True)}
    marginals |= {view: one.published(table.marginal(one.view & ~hidden)) for view, one in suppressed.items()}
    suppressed = {view: one.within(kept, hidden) for view, one in suppressed.items()}
    return Cleared(subject, schema, within, table.total, unproven, marginals, totals, suppressed, _KEY)


def _told(release: Release, schema: Schema) -> SubTable:
    """The released variables, and of each axis what tells all of them."""
    kept = release.variables
    for axis in schema.axes:
        # closed, it may have hidden levels too, which are coarser: they tell nothing that is not told
        kept |= schema.levels.telling(schema.levels.closed(kept & schema.levels.of_axis[axis]))
    return kept


def _refuted(table: Table, certificate: Certificate, criteria: Criteria, effort: Effort) -> Assessment:
    """What is to be said of a release that is not proven: whether outer bounds refute it."""
    # with what the certificate does show, so that the refusal says what is open and not what was never looked at
    own = criteria.primary_cells(table, certificate.knowledge, certificate.suppressed_tables.before(certificate.known))
    pool = criteria.pool(table, own).learnt(certificate.proof, certificate.knowledge)
    cheap = replace(effort, depth=Depth.REFUTE, spent=0)
    known = certificate.known.telling(certificate.suppressed_tables.facts)
    return criteria.judge(table, known, certificate.asked, pool, cheap).assessment


def _refusal(answer: Assessment, unproven: int) -> str:
    """What stands in the way; a certificate may be poorer than what is found by looking again."""
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
    """What differs first, with both values; nothing where nothing does."""
    proven, asked = found.criteria.facts, wanted.criteria.facts
    pairs = [
        ("table", found.table_digest[:12], wanted.table_digest[:12]),
        *((name, proven.get(name), asked.get(name)) for name in {**proven, **asked}),
        ("policy", found.policy.value, wanted.policy.value),
    ]
    differing = [(name, one, other) for name, one, other in pairs if one != other]
    return next((f"{name}: {one}, asked is {other}" for name, one, other in differing), "")
