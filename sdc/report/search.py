"""The section on the search: its method and questions, what it refused and why, and critical widths."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, groupby

import numpy as np

from sdc.config.methods import METHOD_OF
from sdc.model import subtable as st
from sdc.model.decomposable_graph import DecomposableGraph
from sdc.model.errors import many
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.report import figures
from sdc.report.blocks import Block, Cell, FigureBlock, ListBlock, TextBlock, amount, few, interval, pairs, shorten
from sdc.report.evidence import AuditEvidence
from sdc.report.figures import ByDimension, Scale, letters, levels, most_dangerous, released
from sdc.report.svg import share
from sdc.risk.refutation import Refutation
from sdc.risk.verdict import Policy
from sdc.search.blockers import MOST_BLOCKERS, blockers, near, tried
from sdc.search.decomposable import TraceRow
from sdc.search.step import SearchStep

MOST_ROWS = 200  # of each table: the page stays of bounded size, whatever the table and the search
MOST_DANGEROUS = 35
MOST_LETTERS = 120  # of a chain in a sentence
MOST_ADDED, MOST_SUPPORT = 8, 6
FOLDER = "search/"
ANSWERS = {True: "● releasable", False: "✕ refuted", None: "◇ undecided"}


def blocks(audit: AuditEvidence) -> Iterator[Block]:
    """The paragraphs, tables and figure of the section."""
    yield TextBlock(method(audit), "method")
    if reason := audit.found.reason:
        yield TextBlock(reason, "best-reason")
    if candidates := audit.found.candidates:
        rows = [(one.method, one.sub_tables, one.value, one.min_width) for one in candidates]
        columns = "Found by | #Sub-tables | #Utility | #Smallest width"
        yield ListBlock("candidates", "Releases that were compared", columns, rows, is_open=True)
    yield from _simulated(audit)
    yield from _chains(audit.found.trace)
    if (graph := audit.found.graph) is not None:
        related = within(graph, audit.found.release, audit.schema)
        yield TextBlock(f"Cliques of the decomposable graph: {graph.text(audit.schema)}. {related}", "independence")
    if sentences := course(audit):
        treated = "treated as unsafe" if audit.policy is Policy.REFUSE else "accepted (risk.accept_undecided)"
        yield TextBlock(f"{' '.join(sentences)} An undecided evaluation is {treated}.", "course")
    yield from _prefixes(audit)
    yield from _refused(audit)
    yield from _remedies(audit)
    yield from _widths(audit)


def method(audit: AuditEvidence) -> str:
    """Which method ran, and what it does."""
    ran = f"The method that ran is “{audit.config.release.method}”"
    if not audit.assessment.at_risk_cells:
        return f"{ran}; no cell is at risk, and nothing had to be searched."
    return f"{ran}: {METHOD_OF[audit.config.release.method].does}."


def _simulated(audit: AuditEvidence) -> Iterator[Block]:
    if not (steps := audit.found.simulated):
        return
    yield TextBlock(
        "The order of the candidates is public. Each was accepted or refused by tables drawn at random from all that "
        "agree with the release so far, not by the true table: anyone with the release can repeat every decision, so "
        "that a refusal reveals nothing of the data. The true table was evaluated once, at the end, for the whole "
        "release.",
        "simulated",
    )
    rows = [
        (shorten(audit.label(one.added)), one.length, "accepted" if one.accepted else "refused", one.breaking)
        for one in steps[:MOST_ROWS]
    ]
    columns = "Sub-table | #Released before | Decision | #Draws that would break the criterion"
    yield ListBlock("decisions", "Simulatable decisions", columns, rows, len(steps), FOLDER)


def _chains(trace: Sequence[TraceRow]) -> Iterator[Block]:
    """Each annealing chain, and whether they agree."""
    ordered = sorted(trace, key=lambda row: (row.chain, row.round))
    chains = [list(rows) for _, rows in groupby(ordered, key=lambda row: row.chain)]
    if not chains:
        return
    yield TextBlock(agreement(chains), "agreement")
    rows = [
        (f"{n + 1}", end.best_value, _best(chain).step, end.value, end.step, share(end.accepted, max(1, end.step)))
        for chain in chains[:MOST_ROWS]
        for n, end in [(chain[-1].chain, chain[-1])]
    ]
    columns = "#Chain | #Best utility | #Seen by step | #Utility at the end | #Steps | #Accepted"
    yield ListBlock("chains", "Annealing chains", columns, rows, len(chains), FOLDER)


def _best(chain: Sequence[TraceRow]) -> TraceRow:
    """The first row with the best utility."""
    return next(row for row in chain if row.best_value == chain[-1].best_value)


def agreement(chains: Sequence[Sequence[TraceRow]]) -> str:
    """Whether all chains ended with the same best utility."""
    # equal values are equal floats: a graph's value is rounded to 12 digits for that
    best = Counter(chain[-1].best_value for chain in chains)
    made = chains[0][-1].round + 1
    if len(chains) == 1:
        return f"One annealing chain ran, so no other confirms its best utility of {amount(max(best))}."
    if len(best) == 1:
        since = max(_best(chain).round for chain in chains) + 1
        return (
            f"All {len(chains)} annealing chains agree: each found the best utility {amount(max(best))}, the last of "
            f"them in round {since:,} of {made:,}."
        )
    reached = few([f"{amount(value)} by {count}" for value, count in sorted(best.items(), reverse=True)], 10)
    return (
        f"The annealing chains do not agree: the best utility is {reached} of {len(chains)} chains after "
        f"{many(made, 'round')}; more steps may find a better release."
    )


def within(graph: DecomposableGraph, release: Release, schema: Schema) -> str:
    """How the graph and the release are related."""
    own = graph.release.closed(schema)
    if own == release:
        return "The release is exactly the complete sets of this graph: its cliques are the released frontier."
    if release.contains(own):
        more = release.sub_tables(schema) - own.sub_tables(schema)
        return f"The release has every complete set of this graph and {many(more, 'sub-table')} more."
    return "The release is not that of this graph: another method found it."


# Questions


def course(audit: AuditEvidence) -> list[str]:
    """A sentence for each kind of evaluation, in the order in which they were made."""
    phases = dict.fromkeys(step.phase for step in audit.found.steps)
    return [_phase(audit, phase, [step for step in audit.found.steps if step.phase == phase]) for phase in phases]


def _passed(audit: AuditEvidence, step: SearchStep) -> bool:
    return step.answer is True or (step.answer is None and audit.policy is Policy.OUTER)


def _phase(audit: AuditEvidence, phase: str, steps: Sequence[SearchStep]) -> str:
    passed, has_required = [step for step in steps if _passed(audit, step)], audit.found.required is not None
    evaluations = many(len(steps), "evaluation")
    match phase:
        case "required":
            return f"The search made {evaluations} of required sub-tables, and accepted {len(passed):,}."
        case "everything":
            return f"It evaluated all {steps[0].length:,} candidates at once: {ANSWERS[steps[0].answer][2:]}."
        case "proposal":
            refuted = sum(step.answer is False for step in steps)
            return f"{len(steps):,} sets of sub-tables were proposed or cut down, and {refuted:,} of them refuted."
        case "bisection":
            longest = max((step.length for step in passed), default=0)
            return (
                f"The list has {len(audit.listed):,} sub-tables. Bisection looked for its longest releasable prefix"
                f"{' together with the required sub-tables' * has_required}, in {evaluations}: "
                f"{f'it is the first {longest:,}' if longest else 'there is none'}."
            )
    # growth, or the extension of another release
    first = "the required sub-tables" if has_required else "the grand total"
    start = first if phase == "growth" else "the release that annealing found"
    last = _last_answers(audit, steps)
    refused = [step.answer for step in last.values() if not _passed(audit, step)]
    return (
        f"From {start} on, {len(last):,} sub-tables were tried, many at once and then in parts; by the last answer of "
        f"each {len(last) - len(refused):,} were added, {refused.count(False):,} refuted, and {refused.count(None):,} "
        "left undecided."
    )


def _last_answers(audit: AuditEvidence, steps: Iterable[SearchStep]) -> dict[st.SubTable, SearchStep]:
    """For each sub-table that was tried alone, or was added with others, the step that settled it."""
    # a refusal of several together says nothing of each; the search asked again with fewer
    settled = [step for step in steps if len(step.added) == 1 or _passed(audit, step)]
    return {t: step for step in settled for t in step.added}


def _prefixes(audit: AuditEvidence) -> Iterator[Block]:
    """Every evaluated prefix of the list, with its last sub-table."""
    steps = [step for step in audit.found.steps if step.phase == "bisection"]
    if not steps:
        return
    known = audit.widths.widths[np.isin(audit.widths.sub_tables, np.array(audit.listed, np.uint64))]
    rows = list[tuple[Cell, ...]]()
    for k, step in enumerate(steps, 1):
        last, answer = step.length - 1, (ANSWERS[step.answer], interval(step.min_width), step.undecided_cells)
        rows.append((f"{k}", step.length, audit.label(audit.listed[last]), int(known[last]), *answer))
    columns = "#Step | #Prefix length | Last sub-table | #Critical width | Answer | #Min width | #Open cells"
    yield ListBlock("bisection", "Evaluated prefixes of the list by critical width", columns, rows, is_open=True)


# Refusals


def _refused(audit: AuditEvidence) -> Iterator[Block]:
    rows = border(audit)
    yield TextBlock(
        f"The unreleasable frontier has {many(len(rows), 'sub-table')}: the smallest that are not released."
        if rows
        else "The unreleasable frontier is not known: all sub-tables next to the release are below the width threshold."
        if audit.widths.floor
        else "The unreleasable frontier is empty: every sub-table is released."
    )
    if rows:
        columns = "Sub-table | #Critical width | Why it is not released"
        yield ListBlock("border", "Unreleasable frontier", columns, rows[:MOST_ROWS], len(rows))
    yield from _refutations(audit)
    yield from _blockers(audit)


def border(audit: AuditEvidence) -> list[tuple[str, int | None, str]]:
    """[KDSF] unreleasable frontier: not released, all children released; narrowest critical width first."""
    last = _last_answers(audit, tried(audit.found.steps))
    known, schema, release = audit.widths.by_sub_table(), audit.schema, audit.found.release
    # candidates from three sides, because all sub-tables outside may be 2^63
    outside = [t for t in {*_just_outside(audit), *_unjoined(audit), *last} if t not in release]
    found = [t for t in outside if all(child in release for child in st.children(t, schema))]
    rows = sorted(found, key=lambda t: (known.get(t, -1), -st.ways(t, schema), t))
    return [(audit.label(t), known.get(t), _reason(t, last.get(t), known.get(t), audit)) for t in rows]


def _just_outside(audit: AuditEvidence) -> list[st.SubTable]:
    """Listed sub-tables below the required width that are released without their first axis."""
    known = audit.widths
    narrow = known.sub_tables[~audit.criteria.width.is_wide(known.widths) & (known.sub_tables != 0)]
    # the number of the lowest bit, whose axis is the first; of all that are narrow a list would take gigabytes
    first = np.bitwise_count((narrow & (~narrow + np.uint64(1))) - np.uint64(1))
    of_axis = np.array(audit.schema.levels.of_axis, np.uint64)[first]
    found: list[st.SubTable] = narrow[released(narrow & ~of_axis, audit.found.release)].tolist()
    return found


def _unjoined(audit: AuditEvidence) -> list[st.SubTable]:
    """Every two variables not joined in the graph: the smallest sub-tables that a decomposable release is without."""
    if audit.found.graph is None:
        return []
    two, closed = combinations(range(len(audit.found.graph)), 2), audit.schema.levels.closed
    return [closed(1 << u | 1 << v) for u, v in two if not audit.found.graph.has_edge(u, v)]


def _reason(subtable: st.SubTable, step: SearchStep | None, width: int | None, audit: AuditEvidence) -> str:
    # not listed because it does not reach the threshold, and so not the required width
    is_below = width is None and audit.widths.has_all(audit.min_width) and step is None
    if is_below or (width is not None and not audit.criteria.width.is_wide(width)):
        return f"refuted: its critical width is below {audit.min_width}"
    if subtable in audit.on_list:
        return "after the prefix on the list"
    if step is None and audit.found.graph is not None:
        return "not joined in the graph that was found, and not tried alone"
    if step is None:
        return "not tried"
    if step.answer is None:
        steps, cells = many(step.spent, "step"), many(step.undecided_cells, "cell")
        return f"undecided: no proof found in {steps}, with {cells} open"
    outer = f"with the release a cell has outer width {step.min_width[1]}"
    if step.refutation is None:
        return f"refuted: {outer}"
    one = audit.refutations.get(step.refutation)
    return f"refused, proven: {outer}" + ("" if one is None else f", by {_support(one, audit.schema)}")


def _support(one: Refutation, schema: Schema) -> str:
    return few(one.labels(schema), MOST_SUPPORT) or "the grand total alone"


def _refutations(audit: AuditEvidence) -> Iterator[Block]:
    """At-risk cells that are too narrow given some sub-tables, those that refused most first."""
    questions, schema = Counter(step.refutation for step in audit.found.steps), audit.schema
    ordered = sorted(audit.refutations.values(), key=lambda one: (-questions[one.name], one.name))
    if not ordered:
        return
    yield TextBlock(
        "Each refutation gives sub-tables that leave an at-risk cell too narrow. It follows in integers from their "
        "counts, without a solver; sdc verify computes all of them again."
    )
    rows = list[tuple[Cell, ...]]()
    for one in ordered[:MOST_ROWS]:
        by = "by the shuttle" if one.upper is None else f"by {many(len(one.upper.of), 'multiplier')}"
        cell = pairs(one.cell, schema), one.count, interval(one.bounds)
        rows.append((one.name, *cell, _support(one, schema), by, questions[one.name]))
    columns = "Name | Cell | #Count | #Bounds | Given | Proof | #Questions"
    yield ListBlock("refutations", "Refutations", columns, rows, len(ordered), FOLDER)


def _blockers(audit: AuditEvidence) -> Iterator[Block]:
    """The cells that refused most, with the occupied cells near them."""
    found, rows, schema = blockers(audit.found.steps)[:MOST_BLOCKERS], [], audit.schema
    for cell, stopped in found:
        alone = near(audit.table, cell).alone
        count = int(audit.table.count_at(np.array([cell], np.uint16))[0])
        labels = few(audit.labels(stopped), MOST_ADDED)
        rows.append((pairs(cell, schema), count, int(alone.sum()), int((~alone).sum()), len(stopped), labels))
    if rows:
        advice = "; with a section remedies: {} in the config the next run tries such changes" * (
            audit.recodings is None
        )
        yield TextBlock(
            "A cell with few occupied cells near it can hardly move. Merging its categories, or leaving out a "
            f"variable, may free the sub-tables that it refused{advice}."
        )
        columns = "Cell | #Count | #Occupied at distance 1 | #At distance 2 | #Refused | Sub-tables"
        yield ListBlock("blockers", "At-risk cells that refused most", columns, rows)


def _remedies(audit: AuditEvidence) -> Iterator[Block]:
    """Recodes that were tried, and coarser sub-tables in the place of refused ones."""
    schema, rows, instead = audit.schema, list[tuple[str | int, ...]](), list[tuple[str | int, ...]]()
    for one in audit.recodings or ():
        if one.recode is None:
            instead.append((audit.label(one.asked[0]), "*".join(one.names), one.lost, one.config))
            continue
        merge = " and ".join(f"“{shorten(name)}”" for name in one.recode.names)
        done, labels = "leave it out" if one.recode.leaves_out else f"merge {merge}", few(audit.labels(one.freed), 8)
        numbers = len(one.asked), len(one.freed), one.lost
        rows.append((schema.names[one.recode.variable], done, *numbers, labels, one.config))
    columns = "Variable | Recode | #Tried on | #Freed | #Lost | Sub-tables freed | For the config"
    if rows:
        yield ListBlock("remedies", "Recodes that were tried on them", columns, rows)
    if instead:
        columns = "Refused | Releasable instead | #Fewer cells | For the config"
        yield ListBlock("redesigns", "Coarser sub-tables instead of refused ones", columns, instead)


# Critical widths


def _widths(audit: AuditEvidence) -> Iterator[Block]:
    schema, rows = audit.schema, levels(audit.widths, audit.schema)
    listed, required, floor = sum(len(level) for level in rows), audit.min_width, audit.widths.floor
    yield TextBlock(
        "The critical width of a sub-table is the min width when it and the one-way sub-tables of the other variables "
        f"are released, and nothing else. A sub-table with a critical width below {required:,} cannot be in a release "
        "that has every one-way sub-table; one that reaches it may still be refused together with others."
    )
    if floor and audit.widths.cut(required):
        yield TextBlock(f"Width threshold {floor:,}: {audit.widths.cut(required)}. No width of any other is listed.")
    elif floor:
        yield TextBlock(
            f"Width threshold {floor:,}: only the {listed:,} sub-tables whose critical width reaches it are listed. "
            "Every other one is below it; its width was not computed."
        )
    dangerous = ByDimension.of(rows, schema)
    if sentence := chain(audit, dangerous):
        yield TextBlock(sentence, "chain")
    if rows:
        scale = Scale.of(required, max(int(level.widths[-1]) for level in rows))
        drawing = figures.Lattice(rows, dangerous, audit.found.release, schema, scale).drawn
        shape = (
            "One square a sub-table with its critical width, one row a dimension, narrowest first. ✕: not released."
            if listed <= figures.MOST_SQUARES
            else f"All {listed:,} listed sub-tables, one bar a dimension, sorted by critical width."
        )
        frames = (
            " Thick frame: the most dangerous sub-tables of a dimension; the line joins those that contain the next."
        )
        yield FigureBlock(figures.legend(scale) + drawing, shape + frames * bool(dangerous.levels))
    states = "✕\N{NO-BREAK SPACE}not released", "●\N{NO-BREAK SPACE}released"
    found = [
        (audit.label(t), st.ways(t, schema), width, states[t in audit.found.release])
        for t, width in most_dangerous(audit.widths, schema, MOST_DANGEROUS)
    ]
    columns = "Sub-table | #Dimension | #Critical width | In the release"
    if found:
        yield ListBlock("dangerous", f"The {len(found)} most dangerous sub-tables", columns, found, listed, "widths/")


def chain(audit: AuditEvidence, found: ByDimension) -> str:
    """Whether the most dangerous sub-tables of all dimensions form a chain, which [KDSF] 5.2 leaves open."""
    words, above = list[str](), 2
    if found.levels:
        high, low, above = found.levels[0].dimension, found.levels[-1].dimension, found.levels[0].dimension + 1
        names = " > ".join(letters(t, audit.schema) for t in found.chains[0])
        shown = f" form a chain{f': {names}' if len(names) <= MOST_LETTERS else ', which the figure shows'}."
        if low < high:
            is_one = shown if len(found.chains) == 1 else " do not form a chain."
            words.append(f"The most dangerous sub-tables of dimensions {low} to {high}{is_one}")
    if not found.is_whole:
        words.append(
            f"From dimension {above} on the most dangerous sub-tables are not known, because not all critical widths "
            "are listed."
        )
    return " ".join(words)
