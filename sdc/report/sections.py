"""Rows of the report's sections, each capped so that the page stays of bounded size."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, combinations

import numpy as np

from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds
from sdc.model.decomposable_graph import DecomposableGraph
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.report import exposure, graphs, prefixes, refusals
from sdc.report.evidence import AuditEvidence
from sdc.report.lattice import ByDimension, letters, most_dangerous, released
from sdc.report.published import PublishedTable
from sdc.risk.criteria import Criteria
from sdc.risk.verdict import Policy
from sdc.search.blockers import tried
from sdc.search.step import SearchStep

MOST_DIMENSIONS = 20  # of these and the others: the page stays of bounded size, whatever the table and the search
MOST_DANGEROUS = 35
MOST_TIES = 3  # of a dimension
MOST_LETTERS = 120  # of a chain in a sentence
MOST_FRONTIER = 200
MOST_STEPS = 200
MOST_WITNESSES = 20
MOST_ADDED = 8
MOST_PATTERNS = 200
MOST_DRAWN = 60
MOST_CELLS = 500
MOST_CATEGORIES = 12_000
MOST_CELL_COLUMNS = 8
TIMES, SUPERSCRIPT = " \N{MULTIPLICATION SIGN} ", str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class DimensionRow:
    """Sub-tables of one dimension, or of several such as `5 to 63`: how many there are, how many are released."""

    dimension: str
    possible: int
    released: int

    @property
    def share(self) -> float:
        """Percentage released."""
        return 100 * self.released / self.possible


@dataclass(frozen=True)
class SubTableRow:
    """A sub-table as listed, by the variables that name it.

    width  critical width; None where it is not known
    ties   how many sub-tables of its dimension have its width, where it is the smallest
    chained  how a chain of most dangerous sub-tables comes to it
    edges  of a junction tree, that it is on
    shows  what it publishes, of a table of the released frontier
    """

    label: str
    kept: tuple[bool, ...]
    dimension: int
    cells: str
    width: int | None
    released: bool
    ties: int | None = None
    chained: str = ""
    edges: tuple[tuple[int, int], ...] = ()
    shows: PublishedTable | None = None


@dataclass(frozen=True)
class StepRow:
    """A question of the search and its answer: yes, no or undecided."""

    number: int
    length: int
    label: str
    answer: str
    min_width: tuple[int, int]
    undecided: int


@dataclass(frozen=True)
class Added:
    """Counts of the sub-tables that were tried beside a release, and those that were added to it."""

    tried: int
    refuted: int
    undecided: int
    added: int
    rows: tuple[StepRow, ...]


@dataclass(frozen=True)
class CellRow:
    """An at-risk cell; bounds as [low, high]."""

    rank: int
    categories: list[str]
    count: int
    outer: str
    inner: str
    width: str
    kind: str
    state: str


def by_dimension(audit: AuditEvidence) -> list[DimensionRow]:
    """From the one-way sub-tables up; of many variables, what is above the release in one row."""
    schema = audit.table.schema
    possible, counts = audit.everything.by_dimension(schema), audit.published.by_dimension(schema)
    most = len(possible) - 1
    # of 63 variables most dimensions hold nothing that was released
    shown = most if most <= MOST_DIMENSIONS else min(len(counts), most)
    padded = [*counts, *[0] * most]
    rows = [DimensionRow(str(d), possible[d], padded[d]) for d in range(1, shown + 1)]
    if shown < most:
        rows.append(DimensionRow(f"{shown + 1} to {most}", sum(possible[shown + 1 :]), 0))
    return rows


def frontier(audit: AuditEvidence, shows: Mapping[st.SubTable, PublishedTable]) -> list[SubTableRow]:
    """The first of the released frontier, with what each table shows."""
    known, first = audit.widths.by_sub_table(), audit.published.frontier[:MOST_FRONTIER]
    # widths are those of a sub-table with its hidden levels
    closed = audit.table.schema.levels.closed
    return [replace(_sub_table(audit, s, known.get(closed(s))), shows=shows.get(s)) for s in first]


def dangerous(audit: AuditEvidence, release: Release | None = None) -> list[SubTableRow]:
    """[KDSF] table 3: the proper sub-tables of smallest critical width, of all or of the release."""
    listed = most_dangerous(audit.widths, audit.table.schema, MOST_DANGEROUS, release)
    return [_sub_table(audit, s, width) for s, width in listed]


def of_dimensions(audit: AuditEvidence, found: ByDimension) -> list[SubTableRow]:
    """The first of the most dangerous sub-tables of each dimension, before the others that of a chain."""
    schema, rows = audit.table.schema, []
    for level, chosen, above in found.named:
        width, ties = int(level.widths[0]), len(level.least)
        others = [t for t in level.least[: MOST_TIES + 1].tolist() if t != chosen][: MOST_TIES - 1]
        step = "starts" if above is None else f"drops {st.label(above ^ chosen, schema)}"
        rows.append(replace(_sub_table(audit, chosen, width), ties=ties, chained=step))
        rows += [replace(_sub_table(audit, t, width), ties=ties) for t in others]
    return rows


def chain(audit: AuditEvidence, found: ByDimension) -> str:
    """Whether the most dangerous sub-tables of all dimensions form a chain, which [KDSF] 5.2 leaves open."""
    return " ".join(filter(None, [_chain(audit.table.schema, found), _not_known(audit, found)]))


def _chain(schema: Schema, found: ByDimension) -> str:
    if len(found.levels) < 2:
        return ""
    high, low = found.levels[0].dimension, found.levels[-1].dimension
    start = f"The most dangerous sub-tables of dimensions {low} to {high}"
    if len(found.chains) > 1:
        return f"{start} do not form a chain. {' '.join(_breaks(schema, found))}"
    names = " > ".join(letters(t, schema) for t in found.chains[0])
    return f"{start} form a chain{f': {names}' if len(names) <= MOST_LETTERS else ', which the table below shows'}."


def _breaks(schema: Schema, found: ByDimension) -> Iterator[str]:
    """A sentence for each dimension from which no chain goes on."""
    ends = accumulate(map(len, found.chains))
    for k, chain in zip(ends, found.chains[:-1], strict=False):
        first, above, below = (found.levels[at].dimension for at in (k - len(chain), k - 1, k))
        if found.goes_on(k - 1, schema):
            yield f"No chain from dimension {first} to {above} goes on to dimension {below}."
        else:
            yield f"None of dimension {above} contains one of dimension {below}."


def _not_known(audit: AuditEvidence, found: ByDimension) -> str:
    if found.is_whole:
        return ""
    first = found.levels[0].dimension + 1 if found.levels else 2
    return (
        f"From dimension {first} on the most dangerous sub-tables are not known, because not all critical widths are "
        "listed."
    )


def cliques(audit: AuditEvidence, graph: DecomposableGraph) -> list[SubTableRow]:
    """The cliques, in the order of the graph."""
    known = audit.widths.by_sub_table()
    return [_of_graph(audit, clique, known.get(audit.table.schema.levels.closed(clique))) for clique in graph.cliques]


def separators(audit: AuditEvidence, graph: DecomposableGraph) -> list[SubTableRow]:
    """Each separator once, with the edges of the junction tree that it is on."""
    return [
        replace(_of_graph(audit, separator, None), edges=tuple((a + 1, b + 1) for a, b in edges))
        for separator, edges in graphs.between(graph).items()
    ]


def _of_graph(audit: AuditEvidence, variables: st.SubTable, width: int | None) -> SubTableRow:
    """The sub-table of these variables with all their names: in the graph levels are variables of their own."""
    schema = audit.table.schema
    row = _sub_table(audit, schema.levels.closed(variables), width)
    return replace(row, label=st.label(variables, schema.flat), kept=_kept(variables, schema))


def _sub_table(audit: AuditEvidence, subtable: st.SubTable, width: int | None) -> SubTableRow:
    schema = audit.table.schema
    return SubTableRow(
        st.label(subtable, schema),
        _kept(schema.levels.finest(subtable), schema),
        st.ways(subtable, schema),
        number(st.cells(subtable, schema)),
        width,
        subtable in audit.found.release,
    )


def _kept(subtable: st.SubTable, schema: Schema) -> tuple[bool, ...]:
    return tuple(st.has(subtable, v) for v in range(len(schema)))


def method(audit: AuditEvidence) -> str:
    """Which method ran, and what it does."""
    ran = f"The method that ran is “{audit.config.release.method}”"
    if not audit.assessment.at_risk_cells:
        return f"{ran}; no cell is at risk, and nothing had to be searched."
    return f"{ran}{_METHODS.get(audit.config.release.method, '')}."


_METHODS = {
    "ordered": ": what is required goes first, then all candidates are asked about at once, and where they may not go "
    "out a release grows by those of them that fit, in an order by critical width and weight",
    "bisection": ": the longest prefix of the list by critical width that may go out, and nothing else ([KDSF] 5.2)",
    "decomposable": ": the best release of a decomposable graph that annealing found ([KDSF] 5.1)",
    "best": ": the best of three releases: what “bisection” finds, what “ordered” finds, and what “decomposable” "
    "finds, extended greedily",
    "optimum": ": the best of all releases, by proposals of a solver that the criteria judge; each refuted set is "
    "excluded from later proposals",
    "simulatable": ": a release that grows by decisions that tell nothing of the table",
}


def course(audit: AuditEvidence) -> list[str]:
    """What was asked, in the order in which it was, each kind of question called what it was."""
    phases = dict.fromkeys(step.phase for step in audit.found.steps)
    return [_COURSE[phase](audit, [step for step in audit.found.steps if step.phase == phase]) for phase in phases]


def _required(audit: AuditEvidence, steps: Sequence[SearchStep]) -> str:
    passed = sum(prefixes.passed(audit, step) for step in steps)
    return f"About what is required {len(steps):,} questions were asked, of which {passed:,} were accepted."


def _everything(audit: AuditEvidence, steps: Sequence[SearchStep]) -> str:
    said = {True: "releasable", False: "refuted", None: "undecided"}[steps[0].answer]
    said += ", and let through" * (steps[0].answer is None and prefixes.passed(audit, steps[0]))
    return f"All {steps[0].length:,} candidates were asked about at once, in one question: {said}."


def _additions(audit: AuditEvidence, steps: Sequence[SearchStep]) -> str:
    one = added(audit)
    grown = "what is required" if audit.found.required is not None else "the grand total"
    start = f"From {grown} the release grew" if steps[0].phase == "growth" else "The release that annealing found grew"
    refused = ", treated as unsafe" if audit.policy is Policy.REFUSE and one.undecided else ""
    return (
        f"{start}: {one.tried:,} sub-tables were tried, many at once and then in parts; by the last answer of each "
        f"{one.added:,} were added, {one.refuted:,} refuted, and {one.undecided:,} left undecided{refused}."
    )


def _proposals(audit: AuditEvidence, steps: Sequence[SearchStep]) -> str:
    refuted = sum(step.answer is False for step in steps)
    return f"Proposals, whole or in part: {len(steps):,}; refuted: {refuted:,}."


_COURSE = {
    "proposal": _proposals,
    "required": _required,
    "everything": _everything,
    "bisection": prefixes.said,
    "growth": _additions,
    "extension": _additions,
}


def added(audit: AuditEvidence) -> Added:
    """The sub-tables tried beside a release, each by its last answer."""
    steps = [step for step in audit.found.steps if step.phase in ("growth", "extension")]
    last = _last_answers(audit, steps)
    refused = [step for step in last.values() if not prefixes.passed(audit, step)]
    passed = [step for step in steps if prefixes.passed(audit, step)]
    return Added(
        len(last),
        sum(step.answer is False for step in refused),
        sum(step.answer is None for step in refused),
        len(last) - len(refused),
        tuple(_step(audit, k, step) for k, step in enumerate(passed[:MOST_STEPS], 1)),
    )


def _last_answers(audit: AuditEvidence, steps: Sequence[SearchStep]) -> dict[st.SubTable, SearchStep]:
    """For each sub-table that was tried alone, or was added with others, the step that settled it."""
    # a refusal of several together says nothing of each; the search asked again with fewer
    settled = [step for step in steps if len(step.added) == 1 or prefixes.passed(audit, step)]
    return {t: step for step in settled for t in step.added}


def _step(audit: AuditEvidence, k: int, step: SearchStep) -> StepRow:
    label = few(step.added, audit.table.schema)
    return StepRow(k, step.length, label, answer(step), step.min_width, step.undecided_cells)


@dataclass(frozen=True)
class BorderRow:
    """A sub-table just outside the release, and why it is not in it."""

    label: str
    width: int | None
    reason: str


def border(audit: AuditEvidence) -> list[BorderRow]:
    """[KDSF] unreleasable frontier: not released, all children released; narrowest critical width first."""
    last = _last_answers(audit, tried(audit.found.steps))
    known, schema = audit.widths.by_sub_table(), audit.table.schema
    # candidates from three sides, because all sub-tables outside may be 2^63
    outside = [t for t in {*_just_outside(audit), *_unjoined(audit), *last} if t not in audit.found.release]
    found = [t for t in outside if all(child in audit.found.release for child in st.children(t, schema))]
    rows = sorted(found, key=lambda t: (known.get(t, -1), -st.ways(t, schema), t))
    return [BorderRow(st.label(t, schema), known.get(t), _reason(t, last.get(t), known.get(t), audit)) for t in rows]


def few(subtables: Sequence[st.SubTable], schema: Schema) -> str:
    """The labels of the first, and how many more there are."""
    named = ", ".join(st.label(t, schema) for t in subtables[:MOST_ADDED])
    return named if len(subtables) <= MOST_ADDED else f"{named} and {len(subtables) - MOST_ADDED} more"


def _just_outside(audit: AuditEvidence) -> list[st.SubTable]:
    """Listed sub-tables below the required width that are released without their first axis."""
    narrow = audit.widths.sub_tables[
        ~audit.criteria.width.is_wide(audit.widths.widths) & (audit.widths.sub_tables != 0)
    ]
    # the number of the lowest bit, whose axis is the first; of all that are narrow a list would take gigabytes
    first = np.bitwise_count((narrow & (~narrow + np.uint64(1))) - np.uint64(1))
    of_axis = np.array(audit.table.schema.levels.of_axis, np.uint64)[first]
    found: list[st.SubTable] = narrow[released(narrow & ~of_axis, audit.found.release)].tolist()
    return found


def _unjoined(audit: AuditEvidence) -> list[st.SubTable]:
    """Every two variables not joined in the graph: the smallest sub-tables that a decomposable release is without."""
    if audit.found.graph is None:
        return []
    pairs, closed = combinations(range(len(audit.found.graph)), 2), audit.table.schema.levels.closed
    return [closed(1 << u | 1 << v) for u, v in pairs if not audit.found.graph.has_edge(u, v)]


def _reason(subtable: st.SubTable, step: SearchStep | None, width: int | None, audit: AuditEvidence) -> str:
    # not listed because it does not reach the floor, and so not the required width
    is_below_floor = width is None and audit.widths.has_all(audit.min_width) and step is None
    if is_below_floor or (width is not None and not audit.criteria.width.is_wide(width)):
        return f"refuted: its critical width is below {audit.min_width}"
    if subtable in audit.on_list:
        return "after the prefix on the list"
    if step is None and audit.found.graph is not None:
        return "not joined in the graph that was found, and not tried alone"
    if step is None:
        return "not tried"
    return refusals.reason(audit, step)


def answer(step: SearchStep) -> str:
    """`yes`, `no` or `undecided`."""
    return prefixes.ANSWERS[step.answer]


@dataclass(frozen=True)
class WitnessRow:
    """A cell the assessment names."""

    categories: list[str]
    count: int
    outer: str
    inner: str
    method: str


def witnesses(audit: AuditEvidence) -> list[WitnessRow]:
    """The first of them, narrowest first."""
    schema = audit.table.schema
    return [
        WitnessRow(exposure.categories(w.cell, schema), w.count, interval(*w.outer), interval(*w.inner), w.method)
        for w in audit.assessment.witnesses[:MOST_WITNESSES]
    ]


def kinds(bounds: CellBounds, criteria: Criteria) -> dict[str, int]:
    """How many cells have bounds of each kind."""
    numbers = np.bincount(exposure.kinds(bounds, criteria), minlength=len(exposure.KINDS)).tolist()
    return {kind: number for kind, number in zip(exposure.KINDS, numbers, strict=True) if number}


def cells(bounds: CellBounds, audit: AuditEvidence) -> list[CellRow]:
    """The first of the bounds, which are by exposure."""
    shown = bounds.rows(np.arange(min(len(bounds), MOST_CELLS, MOST_CATEGORIES // len(audit.table.schema.axes))))
    states = audit.criteria.width.verdicts(shown).tolist()
    named = [exposure.KINDS[kind] for kind in exposure.kinds(shown, audit.criteria)]
    return [
        CellRow(
            k + 1,
            exposure.categories(shown.cells[k].tolist(), audit.table.schema),
            int(shown.counts[k]),
            interval(*shown.outer[k].tolist()),
            interval(*shown.inner[k].tolist()),
            width(int(shown.inner_width[k]), int(shown.outer_width[k])),
            named[k],
            ("too narrow", "undecided", "wide enough")[states[k]],
        )
        for k in range(len(shown))
    ]


def interval(low: int, high: int) -> str:
    return f"[{low:,}, {high:,}]"


def width(low: int, high: int) -> str:
    """`9`, or `3 to 9` where the bounds leave it open."""
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def number(value: int) -> str:
    """With separators, from 10^15 on as a power of ten."""
    if value < 10**15:
        return f"{value:,}"
    mantissa, exponent = f"{value:.2e}".split("e+")
    return f"{mantissa}{TIMES}10{exponent.translate(SUPERSCRIPT)}"


def settings(audit: AuditEvidence) -> list[tuple[str, list[tuple[str, str]]]]:
    """The config by section, values as JSON unless they are text."""
    return [
        (
            section,
            [
                (key, value if isinstance(value, str) else json.dumps(value, default=str))
                for key, value in pairs.items()
            ],
        )
        for section, pairs in audit.settings.items()
    ]
