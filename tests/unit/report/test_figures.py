"""Scales, chains and figures: classes meet at the required width, every mark is inside the figure."""

from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds
from sdc.model.decomposable_graph import DecomposableGraph
from sdc.model.release import Release
from sdc.model.schema import Coarser, Schema, Variable
from sdc.report import curve, figures, proof, publication, search
from sdc.report.audit import AuditEvidence
from sdc.report.blocks import amount
from sdc.report.figures import ByDimension, Scale, ink_on, levels, most_dangerous
from sdc.report.search import within
from sdc.report.svg import Plot, ticks
from sdc.risk.criteria import Criteria
from sdc.risk.critical_width import CriticalWidths
from sdc.risk.min_width import MinWidth
from sdc.risk.verdict import Verdict
from sdc.search.decomposable import TraceRow
from tests.helpers.audits import drawing


def luminance(colour: str) -> float:
    return float(sum(w * int(colour[k : k + 2], 16) ** 2.2 for w, k in ((0.2126, 1), (0.7152, 3), (0.0722, 5))))


@given(some.integers(0, 10**6), some.integers(0, 2**53), some.booleans())
def test_scale_has_few_rising_classes_and_an_edge_at_the_required_width(width: int, largest: int, near: bool) -> None:
    scale = Scale.near(width, largest) if near else Scale.of(width, largest)
    assert width in scale.edges
    assert scale.edges[0] == 0
    assert list(scale.edges) == sorted(set(scale.edges))
    assert len(scale.edges) == len(scale.colours) == len(scale.labels) <= 9
    assert len(set(scale.colours)) == len(scale.colours)
    assert list(map(luminance, scale.colours)) == sorted(map(luminance, scale.colours))


@pytest.mark.parametrize("colour", [*Scale.of(6, 10**9).colours])
def test_ink_contrasts_with_its_ground(colour: str) -> None:
    """WCAG 2 asks for 3 : 1 of large or bold text."""
    ground, ink = (luminance(c) / 255**2.2 for c in (colour, ink_on(colour)))
    assert (max(ground, ink) + 0.05) / (min(ground, ink) + 0.05) > 3.5


def test_35_most_dangerous_are_the_published_ones(czech: AuditEvidence) -> None:
    """[KDSF] table 3; 119 belongs to BC and DF, of which the printed list has one."""
    listed = [str(width) for _, width in most_dangerous(czech.widths, czech.table.schema, 35)]
    assert " ".join(listed) == (
        "3 5 6 9 10 10 10 12 12 20 20 21 22 23 23 25 25 26 30 30 45 49 52 54 55 56 57 58 58 59 61 61 64 68 119"
    )


def test_order_and_kinds_of_cells() -> None:
    """Unsafe, undecided, safe; an exact cell is never undecided."""
    outer = np.array([[0, 9], [0, 9], [0, 2], [0, 9]])
    inner = np.array([[0, 9], [1, 2], [0, 1], [0, 7]])
    bounds = CellBounds(np.arange(4, dtype=np.uint16)[:, None], np.array([1, 2, 1, 1]), outer, inner, "test")
    ordered = proof.by_exposure(bounds, Criteria.of(2, 3))
    assert ordered.cells[:, 0].tolist() == [2, 1, 3, 0]
    kinds = [proof.KINDS[kind] for kind in proof.kinds(ordered, Criteria.of(2, 3))]
    assert kinds == ["outer and inner", "undecided", "outer and inner", "exact"]
    first = proof.by_exposure(bounds, Criteria.of(2, 3), 2)
    assert first.cells.tolist() == ordered.cells[:2].tolist()
    verdicts = [Verdict.UNSAFE, Verdict.UNDECIDED, Verdict.SAFE, Verdict.SAFE]
    assert MinWidth(3).verdicts(ordered).tolist() == verdicts


def drawings(audit: AuditEvidence) -> list[str]:
    found = levels(audit.widths, audit.table.schema)
    dangerous = ByDimension.of(found, audit.table.schema)
    scale = Scale.of(audit.min_width, int(audit.widths.widths.max()))
    bounds = proof.by_exposure(audit.bounds, audit.criteria)
    lattice = figures.Lattice(found, dangerous, audit.found.release, audit.table.schema, scale).drawn
    cells = figures.exposed_cells(bounds.rows(np.arange(min(60, len(bounds)))), audit.criteria, audit.table.schema)
    return [figures.legend(scale), lattice, cells]


@pytest.mark.parametrize("name", ["czech", "undecided", "large"])
def test_figures_are_described_and_stay_inside(name: str, request: pytest.FixtureRequest) -> None:
    for drawn in drawings(request.getfixturevalue(name)):
        assert [child.tag for child in drawing(drawn, 100_000)][:2] == ["title", "desc"]


def test_each_square_is_a_sub_table(czech: AuditEvidence) -> None:
    root = drawing(drawings(czech)[1])
    titles = [title.text for title in root.iter("title")]
    assert "A*B*C*D*F: critical width 3, not released" in titles
    assert "B*C: critical width 119, released" in titles
    assert len(titles) == 1 + 64
    assert len([p for p in root.iter("path") if p.attrib["class"] == "cross"]) == 4
    framed = [box.findtext("title", "") for box in root.iter("rect") if box.attrib["class"] == "framed"]
    assert [words.partition(":")[0] for words in framed] == ["A*B*C*D*F", "B*C*D*F", "B*C*F", "B*C", "D*F"]


# Plots, the risk-utility curve and the measures of utility


@given(some.floats(0, 1e12), some.floats(1e-3, 1e12), some.integers(1, 14))
def test_ticks_are_few_and_inside(low: float, span: float, most: int) -> None:
    found = ticks(low, low + span, most)
    assert len(found) <= most + 1
    assert found == sorted(set(found))
    assert all(low - span / 1e3 - 1e-6 <= tick <= low + span * 1.001 + 1e-6 for tick in found)


def test_ticks_of_whole_numbers() -> None:
    assert ticks(46, 48, 10, least=1) == [46, 47, 48]
    assert ticks(0, 1, 4) == [0, 0.5, 1]


def test_places_of_a_logarithmic_axis() -> None:
    plot = Plot(100, 10, 200, 50, (1, 100), (0, 10), logarithmic=True)
    assert [plot.x(v) for v in (1, 10, 100)] == pytest.approx([100, 200, 300])
    assert [plot.y(v) for v in (0, 5, 10)] == [60, 35, 10]


@pytest.mark.parametrize("name", ["decomposable", "wide"])
def test_every_point_is_a_mark_inside(name: str, request: pytest.FixtureRequest) -> None:
    audit: AuditEvidence = request.getfixturevalue(name)
    drawn = curve.risk_utility(curve.by_series(audit.curve), audit.min_width)
    root = drawing(drawn)
    assert len([title for title in root.iter("title") if "required width" in (title.text or "")]) == len(audit.curve)
    assert f"this build: {audit.min_width}" in drawn


def test_a_reconstruction_says_how_far_off_it_is_and_whether_it_converged() -> None:
    closed = {"reconstruction_method": "closed form", "mean_squared_error": 4.0, "converged": True}
    assert "off by 2 records" in publication.reconstruction(closed)
    assert "converge" not in publication.reconstruction(closed)
    for converged in (True, False):
        found = {"reconstruction_method": "ipf", "sweeps": 1000, "deviation": 31.25, "converged": converged}
        words = publication.reconstruction(found)
        assert ("The iteration converged." in words) is converged
        assert ("did not converge" in words) is not converged
        assert "in 1,000 sweeps. The largest deviation from a released count is 31.2" in words
    assert publication.reconstruction({}) == ""


# Whether annealing chains agree, and amounts as they are written


def row(round_: int, chain: int, best: float) -> TraceRow:
    return TraceRow(round_, chain, 100 * (round_ + 1), 5.0, best - 1, best, 0)


def test_agreement_is_one_sentence() -> None:
    assert search.agreement([[row(0, 0, 7)]]).endswith("its best utility of 7.")
    both = [[row(0, 0, 9), row(1, 0, 9)], [row(0, 1, 7), row(1, 1, 9)]]
    assert "each found the best utility 9, the last of them in round 2 of 2" in search.agreement(both)
    apart = [[row(0, 0, 9)], [row(0, 1, 7)], [row(0, 2, 7)]]
    assert "do not agree: the best utility is 9 by 1, 7 by 2 of 3 chains after 1 round;" in search.agreement(apart)


@pytest.mark.parametrize(
    ("value", "said"),
    [(1234.0, "1,234"), (47.5, "47.5"), (1 / 3, "0.333333"), (1e300, "1.00e+300"), (12e6 + 0.5, "12.0M")],
)
def test_amounts(value: float, said: str) -> None:
    assert amount(value) == said


# How a decomposable graph and the release of a build are related


def test_how_the_release_and_the_graph_are_related() -> None:
    schema = Schema(tuple(Variable(f"v{v}", ("no", "yes")) for v in range(4)))
    graph = DecomposableGraph.from_cliques([0b0111, 0b1110], schema)
    assert "exactly the complete sets" in within(graph, graph.release, schema)
    more = Release.of([*graph.cliques, st.of((0, 3))])
    assert "every complete set of this graph and 1 sub-table more" in within(graph, more, schema)
    assert "another method found it" in within(graph, Release.of([0b1]), schema)


# The most dangerous sub-tables of each dimension, all ties kept, and whether they form a chain ([KDSF] 5.2)


def flat(variables: int) -> Schema:
    return Schema(tuple(Variable(name, ("0", "1")) for name in "ABCDEF"[:variables]))


def with_a_level() -> Schema:
    region = Variable("region", ("east", "west"), Coarser("area", (0, 0, 1)))
    return Schema((region, Variable("area", ("e1", "e2", "w1")), *flat(3).variables))


def listing(widths: Mapping[int, int], floor: int = 0) -> CriticalWidths:
    kept = {t: width for t, width in widths.items() if width >= floor}
    return CriticalWidths(np.array([*kept], np.uint64), np.array([*kept.values()], np.int64), floor, len(widths))


def lowest(schema: Schema, drawn: Callable[[], int]) -> dict[int, int]:
    """Widths that never grow when a variable is added."""
    closed = sorted(st.subsets(st.full(len(schema)), schema), key=int.bit_count)
    widths: dict[int, int] = {}
    for t in closed:
        widths[t] = min([drawn(), *(widths[child] for child in st.children(t, schema))])
    return widths


def least_of(widths: Mapping[int, int], schema: Schema) -> list[list[int]]:
    """By the definition, from one below the full table's dimension down to 2."""
    found = []
    for d in range(len(schema.axes) - 1, 1, -1):
        level = {t: width for t, width in widths.items() if st.ways(t, schema) == d}
        found.append(sorted(t for t, width in level.items() if width == min(level.values())))
    return found


def nested(chain: Iterable[int]) -> bool:
    return all(low & ~high == 0 for high, low in pairwise(chain))


@given(some.data(), some.sampled_from([flat(4), flat(5), with_a_level()]), some.integers(1, 6))
def test_a_chain_is_found_exactly_where_a_choice_of_ties_is_one(
    data: some.DataObject, schema: Schema, most: int
) -> None:
    widths = lowest(schema, lambda: data.draw(some.integers(0, most)))
    found, expected = ByDimension.of(levels(listing(widths), schema), schema), least_of(widths, schema)
    assert [sorted(level.least.tolist()) for level in found.levels] == expected
    assert found.is_whole
    assert (len(found.chains) == 1) == any(map(nested, product(*expected)))
    assert all(map(nested, found.chains))


@given(some.data(), some.integers(1, 6))
def test_of_a_listing_with_a_floor_what_is_known_is_right(data: some.DataObject, floor: int) -> None:
    schema = flat(5)
    widths = lowest(schema, lambda: data.draw(some.integers(0, 6)))
    found, expected = ByDimension.of(levels(listing(widths, floor), schema), schema), least_of(widths, schema)
    known = [sorted(level.least.tolist()) for level in found.levels]
    assert known == expected[len(expected) - len(known) :]
    assert found.is_whole == (len(known) == len(expected))


def said(audit: AuditEvidence, widths: CriticalWidths) -> str:
    return search.chain(audit, ByDimension.of(levels(widths, audit.table.schema), audit.table.schema))


def test_the_czech_chain(czech: AuditEvidence) -> None:
    """REFERENCE section 2, the data's own letters; the two-way DF ties with BC."""
    schema = czech.table.schema
    found = ByDimension.of(levels(czech.widths, schema), schema)
    assert [[st.label(t, schema).replace("*", "") for t in chain] for chain in found.chains] == [
        ["ABCDF", "BCDF", "BCF", "BC"]
    ]
    assert [(int(level.widths[0]), len(level.least)) for level in found.levels] == [(3, 1), (10, 1), (25, 1), (119, 2)]
    assert said(czech, czech.widths) == (
        "The most dangerous sub-tables of dimensions 2 to 5 form a chain: ABCDF > BCDF > BCF > BC."
    )
