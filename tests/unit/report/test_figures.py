"""Scales, chains and figures: classes meet at the required width, every mark is inside the figure."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from sdc.model.cell_bounds import CellBounds
from sdc.report import exposure, figures
from sdc.report.audit import AuditEvidence
from sdc.report.lattice import ByDimension, levels, most_dangerous
from sdc.report.scale import Scale, ink_on
from sdc.risk.criteria import Criteria
from sdc.risk.min_width import MinWidth
from sdc.risk.verdict import Verdict
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
    ordered = exposure.by_exposure(bounds, Criteria.of(2, 3))
    assert ordered.cells[:, 0].tolist() == [2, 1, 3, 0]
    kinds = [exposure.KINDS[kind] for kind in exposure.kinds(ordered, Criteria.of(2, 3))]
    assert kinds == ["outer and inner", "undecided", "outer and inner", "exact"]
    first = exposure.by_exposure(bounds, Criteria.of(2, 3), 2)
    assert first.cells.tolist() == ordered.cells[:2].tolist()
    verdicts = [Verdict.UNSAFE, Verdict.UNDECIDED, Verdict.SAFE, Verdict.SAFE]
    assert MinWidth(3).verdicts(ordered).tolist() == verdicts


def drawings(audit: AuditEvidence) -> list[str]:
    found = levels(audit.widths, audit.table.schema)
    dangerous = ByDimension.of(found, audit.table.schema)
    scale = Scale.of(audit.min_width, int(audit.widths.widths.max()))
    bounds = exposure.by_exposure(audit.bounds, audit.criteria)
    lattice = figures.lattice(found, dangerous, audit.found.release, audit.table.schema, scale)
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
