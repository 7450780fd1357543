"""Page one: the decision, at most twelve facts that a board must know before it signs, and lines to sign on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sdc.model import subtable as st
from sdc.model.errors import many
from sdc.model.schema import Schema
from sdc.model.table import missing_words
from sdc.report.blocks import because, few, number, shorten
from sdc.report.evidence import AuditEvidence
from sdc.report.proof import width_of
from sdc.report.publication import PublishedTable, before, rounded
from sdc.report.risks import right_guesses
from sdc.risk.verdict import Policy
from sdc.search.step import Refused

MOST_NAMED = 6
MOST_REQUIRED = 20
SIGNATURES = ("Prepared by", "Statistical disclosure control", "Data owner")


@dataclass(frozen=True)
class PageFact:
    """A fact of page one, its id there, and the id of the section that explains it."""

    name: str
    text: str
    key: str
    section: str


def facts(audit: AuditEvidence, done: str, tables: list[PublishedTable]) -> list[PageFact]:
    """The facts that this build has."""
    found = [
        PageFact("Data", _data(audit), "data", "record"),
        PageFact("Criterion", criterion(audit), "criterion", "record"),
        PageFact(done.capitalize(), _published(audit, tables), "published", "publication"),
        PageFact("Visible in the tables", _visible(tables, audit.small_count), "shown", "publication"),
        PageFact("Not published whole", _changed(audit), "changed", "publication"),
        PageFact("Totals of weights", _weighted(audit, done), "totals", "publication"),
        PageFact("Required", _required(audit, done), "required", "search"),
        PageFact("Proof", _proof(audit), "proved", "proof"),
        PageFact("Refused", course(audit), "refused-questions", "search"),
        PageFact("Earlier publications", " ".join(before(audit)), "earlier", "publication"),
        PageFact("Intruder", " ".join(assumptions(audit)), "assumptions", "risks"),
        PageFact("Guesses", right_guesses(audit), "not-promised", "risks"),
    ]
    return [fact for fact in found if fact.text]


def _data(audit: AuditEvidence) -> str:
    own = audit.schema.restrict(st.members(audit.variables))
    words = [
        f"{number(audit.table.total)} records on {len(own)} variables; {number(own.cells)} cells, "
        f"{number(len(audit.table))} of them not zero."
    ]
    for text in missing_words(audit.table):
        words.append(
            f"{text[0].upper()}{text[1:]}. The counts in this report are those of one table that agrees with the file."
        )
    bad = audit.bad_records or {}
    if bad.get("set_aside"):
        reasons = "; ".join(f"{one['variable']}, {one['reason']}: {one['records']:,}" for one in bad["reasons"])
        words.append(
            f"{bad['set_aside']:,} of {bad['records']:,} records read were excluded, each for the first of its errors: "
            f"{reasons}. The release is of the others."
        )
    unmet = [f"{shorten(name)}: {few(list(map(shorten, v)), MOST_NAMED)}" for name, v in bad.get("unmet", {}).items()]
    if unmet:
        words.append(f"The config names categories and values that no record has: {'; '.join(unmet)}.")
    return " ".join(words)


def criterion(audit: AuditEvidence) -> str:
    """The criterion in words, and what its width comes to for what is published itself."""
    small, width = audit.small_count, audit.min_width
    cell = "Every cell of the full table with 1 record" if small == 1 else f"Every cell with 1 to {small:,} records"
    tables = "all published tables together" + ", these and those of before" * bool(audit.origin.sources)
    known = " and from the structural zeros" if audit.known.zeros else ""
    words = (
        f"{cell}, of all {st.dimension(audit.variables)} variables crossed, can still take values at least {width:,} "
        f"apart, whatever an intruder computes from {tables}{known}."
    )
    return " ".join([words, *audit.criteria.sentences]) + _implied(audit)


def _implied(audit: AuditEvidence) -> str:
    """The minimum frequency that the width implies for whole sub-tables, where the release keeps it and none says more.

    A count of at most `small_count` has a cell in it that is at risk, and bounds that cell by itself.
    """
    most = min(audit.small_count, audit.min_width - 1)
    counts = (audit.table.least_count(t) for t in audit.published.frontier)
    others = not audit.has_counts or most < 1 or any(one.hides >= most for one in audit.criteria.others)
    if others or any(0 < count <= most for count in counts):
        return ""
    numbers = "of 1" if most == 1 else f"from 1 to {most:,}"
    return (
        f" So no count {numbers} is in a table that is published whole: it would bound the at-risk cell within it to a "
        f"width of {most:,} at most."
    )


def _published(audit: AuditEvidence, tables: list[PublishedTable]) -> str:
    exact = "as exact counts, without noise or suppression"
    if not audit.has_counts:
        exact = "with totals of weights and no count, though all is judged as if counts were published"
    by_dimension = enumerate(audit.published.by_dimension(audit.schema))
    counted = ", ".join(f"{n:,} of dimension {d}" for d, n in by_dimension if d and n)
    return (
        f"{audit.sub_tables:,} sub-tables without the grand total, "
        f"{audit.sub_tables + 1:,} of {audit.possible:,} with it; by number of variables: {counted or 'none'}. "
        f"They are {many(len(tables), 'table')} and everything within, {exact}. {audit.found.share_of_best}"
    ).rstrip()


def _visible(tables: list[PublishedTable], small_count: int) -> str:
    """Small counts, zeros and disclosed groups of the published tables."""
    if not tables:
        return ""

    def of(numbers: list[int]) -> str:
        return many(sum(number > 0 for number in numbers), "table")

    small, zeros, groups = ([getattr(one, key) for one in tables] for key in ("small", "zeros", "groups"))
    words = (
        f"{many(sum(small), 'count')} of 1 to {small_count} in {of(small)}; {many(sum(zeros), 'zero')} that no "
        f"structural zero explains, in {of(zeros)}; {many(sum(groups), 'group')} in {of(groups)}, all of whose "
        f"records have the same "
        "category of one more variable."
    )
    return words + " A person known to be in such a group is known to have that category." * any(groups)


def _changed(audit: AuditEvidence) -> str:
    """Suppressed, rounded and recoded tables."""
    schema, words = audit.schema, list[str]()
    suppressed = [part for part in audit.found.suppressed_tables.tables if not part.base]
    if suppressed:
        hidden = sum(len(part.suppressed) for part in suppressed)
        shares = sorted(one.share for one in audit.found.suppressed)
        words.append(
            f"{many(len(suppressed), 'sub-table')} with suppression: {many(hidden, 'cell')} suppressed."
            f"{_hidden(shares)}"
        )
    if words_of := rounded(audit):
        words.append(words_of)
    found = audit.origin.coarsened(audit.found.suppressed_required, audit.found.release, schema)
    words += [f"{st.label(view, schema)} is published as {st.label(to, schema)}." for view, to in found.items()]
    return " ".join(words)


def _hidden(shares: list[float]) -> str:
    """Which share of the records the suppressed cells of each table hold; ascending."""
    if not shares:
        return ""
    if len(shares) == 1:
        return f" They hold {shares[0]:.1%} of the records."
    mean = sum(shares) / len(shares)
    return f" Those of one table hold {shares[0]:.1%} to {shares[-1]:.1%} of the records, {mean:.1%} on average."


def _weighted(audit: AuditEvidence, done: str) -> str:
    """How many tables have published totals of weights, and how many have none."""
    found, totals, schema = audit.weighted, audit.config.totals, audit.schema
    if found is None or totals is None:
        return ""
    would = "are" if done == "released" else "would be"
    words = [
        f"Totals of the weights, rounded to multiples of {totals.round:,}, {would} published of "
        f"{sum(t > 0 for t in found.totals):,} tables, {'instead of' if totals.publish == 'instead' else 'beside'} the "
        "counts: every cell at risk is still proven with them."
    ]
    if found.withheld:
        named = few([shorten(st.label(t, schema)) for t in found.withheld], MOST_REQUIRED)
        words.append(
            f"Those of {len(found.withheld):,} published tables are not: {named}. The choice depends on the records: "
            "an intruder who knows how it was made may derive something from it."
        )
    return " ".join(words)


def _required(audit: AuditEvidence, done: str) -> str:
    """How much of the required is published, and why not the rest."""
    required = audit.found.required
    if not required:
        return ""
    whole = len({*required.required} - {*required.refused, *required.in_part})
    part = f" whole, and {len(required.in_part):,} suppressed, rounded or recoded" * bool(required.in_part)
    words = [
        f"{whole:,} of {len(required.required):,} required sub-tables {'are' if done == 'released' else 'would be'} "
        f"published{part}."
    ]
    refused = required.refused[:MOST_REQUIRED]
    words += [because(audit.label(t), required.why(t)) for t in refused]
    more = len(required.refused) - MOST_REQUIRED
    return " ".join([*words, *[f"{more:,} more are refused, see search/search.json."] * (more > 0)])


def _proof(audit: AuditEvidence) -> str:
    """Widths that are proved, and cells that are undecided."""
    found, required = audit.assessment, audit.min_width
    if not found.at_risk_cells:
        keeps = "every release keeps the criterion" if not audit.criteria.rules else "every cell keeps the width"
        return f"The table has no at-risk cell (no count from 1 to {audit.small_count}), so that {keeps}."
    words = [
        f"{many(found.at_risk_cells, 'cell')} of the full table {'are' if found.at_risk_cells > 1 else 'is'} at risk, "
        f"with a count from 1 to {audit.small_count}. The narrowest interval that an intruder can derive for any of "
        f"them from the whole release{' and earlier publications' * bool(audit.origin.sources)} is proved to have a "
        f"width of {width_of(*found.min_width)}; required is at least {required:,}."
    ]
    if sharp := found.sharpness:
        other = sharp.cells - sharp.sharp
        of = f"{sharp.sharp:,}" if other else "all"
        words.append(f"The bounds of {of} of them are sharp: the smallest and the largest count that is possible.")
        if other:
            words.append(
                f"The bounds of the other {other:,} are bracketed by an outer and an inner interval, within "
                f"{audit.config.seconds_to_sharpen:g} seconds of a reference core."
            )
    if found.in_part is not None:
        words.append(
            f"Some public sub-tables are {_how_partly(audit)}. {many(found.in_part.cells, 'small cell')} of these that "
            f"no publication implies, with a count from 1 to {audit.criteria.primary_count}, must keep a width of "
            f"{required:,} too; {found.in_part.unproven:,} of them are not proved to."
        )
    if found.likely is not None:
        kept = "keeps" if found.likely.is_kept else "does not keep"
        words.append(f"The release {kept} its limit on probabilities: {found.likely.text}.")
    return " ".join([*words, f"Undecided cells: {found.undecided_cells:,}.", *_undecided(audit)])


def _how_partly(audit: AuditEvidence) -> str:
    """How tables are public that are not whole, now or from before: suppressed, rounded, or both."""
    facts = [*audit.found.suppressed_tables.facts, *audit.known.published]
    nothing = np.concatenate(
        [fact.intervals.suppressed(audit.known.total) for fact in facts if fact.intervals is not None]
    )
    kinds = {"suppressed": nothing.any(), "rounded": not nothing.all()}
    return " or ".join(kind for kind, is_so in kinds.items() if is_so)


def _undecided(audit: AuditEvidence) -> Iterator[str]:
    treated = "accepted" if audit.policy is Policy.OUTER else "treated as unsafe"
    if audit.assessment.undecided_cells:
        yield f"Neither proof succeeded there; undecided is {treated}."
    elif audit.assessment.releasable:
        yield "For every at-risk cell one of the two proofs succeeded."
    if steps := sum(step.answer is None for step in audit.found.steps):
        yield f"In the search {many(steps, 'question')} stayed undecided, {treated}."


def course(audit: AuditEvidence) -> str:
    """How many refusals of the search are by proof, and how many for lack of time; and how it ended."""
    refused = Refused.of(audit.found.steps, audit.policy is Policy.OUTER)
    proven, words = refused.proven + refused.refuted, list[str]()
    if refused.questions:
        words.append(f"The search refused {many(refused.questions, 'question')}, each about one or more sub-tables.")
        if proven:
            kept = f", and for {refused.proven:,} of these the proof is kept, and sdc verify repeats it"
            words.append(
                f"{proven:,} of them by proof: the criterion would be broken{kept * bool(refused.proven)}. More time "
                "changes nothing."
            )
        if refused.unproven:
            words.append(
                f"{refused.unproven:,} of them for lack of time: in {many(refused.spent, 'step')} no proof was found "
                "either way. More time may release these."
            )
        else:
            words.append("None for lack of time.")
    if audit.found.ended_after:
        words.append(
            "The search ended early; sub-tables that it had not evaluated by then are not released. The release is "
            "proven all the same; another run of this config may end elsewhere."
        )
    if audit.found.resumed:
        words.append(
            "The search was interrupted and resumed from a checkpoint. The release is proven all the same; a run "
            "without interruption may end elsewhere."
        )
    return " ".join(words)


def assumptions(audit: AuditEvidence) -> Iterator[str]:
    """Assumptions about the knowledge of the intruder."""
    yield (
        "Knows every published table exactly, the grand total, and the names and categories of all variables, and can "
        "compute everything that follows from them."
    )
    yield from levels(audit.schema)
    if audit.known.zeros:
        patterns = many(len(audit.known.zeros.patterns), "pattern")
        yield f"Knows {patterns} of impossible cells, which the config names."
    else:
        yield "Knows of no cell that it is impossible: the config names none."
    if audit.weighted is not None:
        yield (
            "Knows the smallest and largest weight of each category, and considers every weight between them "
            "possible. Does not know which values occur, or anybody's weight."
        )
    if audit.config.release.method == "simulatable":
        yield "May know the method and all settings: refusals reveal nothing."
    else:
        yield (
            "Does not know the settings and this report. An intruder who knows how the release was decided may derive "
            "more from what was left out."
        )
    if audit.config.release.reveal_suppressed:
        shown = [fact.label(audit.schema) for fact in audit.known.published if fact.view in audit.published]
        yield (
            "May learn all counts that earlier publications suppressed, by release.reveal_suppressed: "
            f"{', '.join(shown) or 'no such table'} is whole in this release."
        )
    yield from (f"Trusts the config on what was published before: {said}." for said in audit.origin.declared)
    if audit.config.server is not None:
        yield (
            "Has no answer of the table server but those that are among the earlier publications: its answers are in "
            "its own history, which sdc audit checks."
        )
    yield (
        f"Has no other figures of the same records: no {'further ' * bool(audit.origin.sources)}earlier or overlapping "
        "publication, and no knowledge of single records."
    )


def levels(schema: Schema) -> list[str]:
    """The public knowledge of each level: which category of it each category of its axis is in."""
    return [
        f"Knows which category of {shorten(level.name)} each category of {shorten(level.of.axis)} is in."
        for level in schema.variables
        if level.of is not None
    ]
