"""The audit of a table of areas in regions: closed sub-tables, named by the variables that tell the others."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as hs

import sdc
from sdc.model import subtable as st
from sdc.model.decomposable_graph import DecomposableGraph
from sdc.model.fact import NO_FACTS
from sdc.model.knowledge import Knowledge
from sdc.model.release import NOTHING, Release
from sdc.model.schema import Coarser, Schema, Variable
from sdc.model.structural_zeros import StructuralZeros
from sdc.model.table import Table
from sdc.public.earlier import Provenance
from sdc.report import first_page, publication, search
from sdc.report.audit import AuditEvidence, render
from sdc.report.figures import ByDimension, levels, most_dangerous
from sdc.report.publication import published
from sdc.risk.assessment import Assessment, Witness
from sdc.risk.criteria import Criteria
from sdc.risk.verdict import Policy, Verdict
from sdc.search.step import SearchStep
from tests.helpers.audits import DIGESTS, config_of, record, searched
from tests.levels import Case, Cell, axis_of, cases, categories, cells_of, closed_sets, counts_of, matches, members
from tests.strategies import knows
from tests.unit.report.test_audit import Page

REGION = ("east", "west", "east", "west")
COUNTS = [[40, 12], [9, 30], [21, 2], [14, 15]]


def table_of(counts: list[list[int]]) -> Table:
    groups = tuple(("east", "west").index(region) for region in REGION)
    region = Variable("region", ("east", "west"), Coarser("area", groups))
    schema = Schema((region, Variable("area", ("e1", "w1", "e2", "w2")), Variable("sex", ("f", "m"))))
    cells = np.indices((4, 2)).reshape(2, -1).T
    return Table.of(schema, cells, np.array(counts).reshape(-1))


@pytest.fixture(scope="module")
def audit() -> AuditEvidence:
    """Areas, and regions by sex; areas by sex were refused for the two men of e2."""
    table = table_of(COUNTS)
    release = Release.of(st.parse(name, table.schema) for name in ("area", "region*sex"))
    bounds = sdc.cell_bounds(table, knows(table, release), small_count=2)
    low, high = int(bounds.inner_width.min()), int(bounds.outer_width.min())
    cell = tuple(bounds.cells[0].tolist())
    return AuditEvidence(
        config=config_of("areas", min_width=5),
        digests=DIGESTS,
        table=table,
        known=knows(table, NOTHING),
        criteria=Criteria.of(2, 5),
        policy=Policy.REFUSE,
        widths=sdc.critical_widths(table, small_count=2),
        found=record(
            release,
            (SearchStep("growth", 5, (0b111,), False, (0, 0), 0, (cell,)),),
            graph=DecomposableGraph.parse("[region,area] [region,sex]", table.schema),
        ),
        assessment=Assessment(Verdict.SAFE, 5, (low, high), len(bounds), 0, (Witness(cell, 2, (0, 14), (0, 14), "x"),)),
        bounds=bounds,
    )


def test_what_is_known_of_each_level_is_said_on_the_first_page(audit: AuditEvidence) -> None:
    assert first_page.levels(audit.table.schema.flat) == []
    number = Variable("number", ("1", "2"), Coarser("area", (0, 0, 1, 1)))
    said = first_page.levels(Schema((*audit.table.schema.variables, number)))
    assert ["region" in said[0], "number" in said[1]] == ["each category of area" in one for one in said] == [True] * 2
    assert said[0] in Page(render(audit)).text


def test_closed_sub_tables_are_counted(audit: AuditEvidence) -> None:
    """The total, sex, region, area, region*sex, area*sex, of which the last is not released."""
    text = Page(render(audit)).text
    assert (audit.possible, audit.sub_tables) == (6, 4)
    assert "4 sub-tables without the grand total, 5 of 6 with it" in text
    assert [row[:3] for row in publication.by_dimension(audit)][:2] == [("1", 3, 3), ("2", 2, 1)]
    assert "a variable and its coarser levels count as one" in text


def test_sub_tables_are_named_by_what_tells_the_others(audit: AuditEvidence) -> None:
    rows = publication.frontier(audit, {})
    assert [row[:3] for row in rows] == [("area", 1, "4"), ("region*sex", 2, "4")]
    assert all(row[3] is not None for row in rows)
    assert [(row[0], row[2]) for row in search.border(audit)] == [
        ("area*sex", "refuted: its critical width is below 5")
    ]


def test_the_lattice_has_a_level_for_each_number_of_axes(audit: AuditEvidence) -> None:
    schema = audit.table.schema
    found = levels(audit.widths, schema)
    assert [(level.dimension, level.possible, len(level)) for level in found] == [(2, 2, 2), (1, 3, 3), (0, 1, 1)]
    # of two axes no dimension is between those of one and of all, where there is nothing to compare
    assert search.chain(audit, ByDimension.of(found, schema)) == ""
    assert len(most_dangerous(audit.widths, schema, 9)) == 5


def test_a_graph_has_levels_for_variables_of_their_own(audit: AuditEvidence) -> None:
    assert audit.found.graph is not None
    assert "[region,area] [region,sex]" in Page(render(audit)).text
    assert search.within(audit.found.graph, audit.found.release, audit.table.schema).startswith(
        "The release is exactly"
    )
    more = audit.found.release.add(0b111)
    assert "and 1 sub-table more" in search.within(audit.found.graph, more, audit.table.schema)
    # as a graph may be that joins area and sex alone
    finer = DecomposableGraph.parse("[region,area] [area,sex]", audit.table.schema)
    assert search.within(finer, more, audit.table.schema).startswith("The release is exactly")
    # not joined are area and sex, which is the closed area*sex; the release has region*sex within it
    unlisted = replace(audit.widths, sub_tables=audit.widths.sub_tables[:0], widths=audit.widths.widths[:0])
    border = search.border(searched(replace(audit, widths=unlisted), steps=()))
    assert [row[0] for row in border] == ["area*sex"]


def test_cells_are_named_by_axes(audit: AuditEvidence) -> None:
    page = render(audit)
    assert '<th scope="row" class="n">1</th><td><span><i>area</i> e2</span> <span><i>sex</i> m</span></td>' in page


def test_hidden_levels_are_not_counted(audit: AuditEvidence) -> None:
    """A region that only what was published before has."""
    hidden = replace(audit, origin=Provenance(("region",)))
    assert (hidden.possible, hidden.sub_tables) == (4, 2)
    assert [row[0] for row in publication.frontier(hidden, {})] == ["area", "sex"]
    before = replace(
        audit, known=knows(audit.table, Release.of([0b011, 0b101])), origin=Provenance(("region",), ("x",))
    )
    assert "largest tables of all records are 2; 1 of these have other categories" in " ".join(
        publication.before(before)
    )


def groups(table: Table, zeros: StructuralZeros, subtable: int) -> dict[str, int]:
    """By going through every combination: of which variable all records of it have one category, and no finer one."""
    schema, counts = table.schema, counts_of(table)
    of_axis = [[v for v in members(subtable) if axis_of(schema, v) == axis] for axis in range(len(schema))]
    own = [axis for axis in of_axis if axis]
    found = {schema.names[v]: 0 for axis in own for v in axis if len(own) > 1 and schema.sizes[v] > 1}
    impossible = _impossible(schema, zeros, subtable)
    for axis in own if len(own) > 1 else []:
        others = [v for each in own if each is not axis for v in each]
        lines: dict[Cell, list[Cell]] = {}
        for cell in cells_of(schema):
            lines.setdefault(categories(schema, others, cell), []).append(cell)
        for line in lines.values():
            held = [cell for cell in line if counts[cell]]
            agreed = [v for v in axis if held and len({categories(schema, [v], cell) for cell in held}) == 1]
            finest = [v for v in agreed if not any(schema.levels.coarser[u] >> v & 1 for u in agreed)]
            for v in (v for v in finest if schema.sizes[v] > 1):
                told = categories(schema, [v], held[0])
                other = [c for c in line if categories(schema, [v], c) != told and not impossible(c)]
                found[schema.names[v]] += bool(other)
    return found


def _impossible(schema: Schema, zeros: StructuralZeros, subtable: int) -> Callable[[Cell], bool]:
    own = [p for p in zeros.patterns if all(subtable >> v & 1 for v, _ in p)]
    return lambda cell: any(matches(schema, pattern, cell) for pattern in own)


@settings(max_examples=200)
@given(cases(), hs.data())
def test_each_published_table_is_counted_right(case: Case, data: hs.DataObject) -> None:
    table, zeros = case.table, case.zeros
    subtable = data.draw(hs.sampled_from([t for t in closed_sets(table.schema) if t]))
    (found,) = published(table, Knowledge.of(table, NOTHING, zeros, NO_FACTS), (subtable,), 2)
    counts: dict[Cell, int] = {}
    for cell, count in counts_of(table).items():
        own = categories(table.schema, members(subtable), cell)
        counts[own] = counts.get(own, 0) + count
    never = _impossible(table.schema, zeros, subtable)
    possible = {categories(table.schema, members(subtable), c) for c in cells_of(table.schema) if not never(c)}
    assert (found.cells, found.small) == (len(counts), sum(0 < count <= 2 for count in counts.values()))
    assert found.zeros == sum(not count and cell in possible for cell, count in counts.items())
    assert dict(found.disclosing) == groups(table, zeros, subtable)
