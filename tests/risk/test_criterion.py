"""The criterion: three answers with witnesses, and the same answer from every executor."""

from __future__ import annotations

import numpy as np
import pytest

from sdc.api import assess, cell_bounds, release_of
from sdc.model.cell_bounds import CellBounds
from sdc.model.errors import InputError, ReleaseError
from sdc.model.table import Table
from sdc.risk.criterion import MAX_WITNESSES, Criterion, judge

FRONTIER = ["A*B*C*D*E", "A*B*D*E*F", "A*C*D*E*F", "A*B*C*F", "B*C*D*F", "B*C*E*F"]


def bounds_of(outer: list[list[int]], inner: list[list[int]]) -> CellBounds:
    cells = np.arange(len(outer), dtype=np.uint16)[:, None]
    return CellBounds(cells, np.ones(len(outer), np.int64), np.array(outer), np.array(inner), "typed")


def test_wide_inner_is_safe() -> None:
    answer = judge(bounds_of([[0, 9], [0, 5]], [[0, 6], [0, 5]]), 5)
    assert (answer.releasable, answer.min_width, answer.undecided_cells) == (True, (5, 5), 0)
    assert answer.witnesses == ()


def test_narrow_outer_is_unsafe_and_names_the_cell() -> None:
    answer = judge(bounds_of([[0, 9], [0, 4]], [[0, 1], [1, 1]]), 5)
    assert (answer.releasable, answer.min_width, answer.undecided_cells) == (False, (0, 4), 1)
    assert [w.cell for w in answer.witnesses] == [(1,)]
    assert answer.witnesses[0].outer == (0, 4)


def test_anything_between_is_undecided() -> None:
    answer = judge(bounds_of([[0, 9], [0, 7]], [[0, 1], [0, 7]]), 5)
    assert (answer.releasable, answer.undecided_cells) == (None, 1)
    assert [w.cell for w in answer.witnesses] == [(0,)]


def test_witnesses_are_the_narrowest() -> None:
    answer = judge(bounds_of([[0, 40 - k] for k in range(40)], [[1, 1]] * 40), 100)
    assert len(answer.witnesses) == MAX_WITNESSES
    assert answer.witnesses[0].outer == (0, 1)


def test_the_published_min_widths(czech: Table) -> None:
    """REFERENCE section 2: 9, then 5 with ABCEF, 3 with BCDEF too, 1 with all five-way sub-tables."""
    for added, width in (([], 9), (["A*B*C*E*F"], 5), (["A*B*C*E*F", "B*C*D*E*F"], 3)):
        assert assess(czech, FRONTIER + added, min_width=width).releasable is True
        refused = assess(czech, FRONTIER + added, min_width=width + 1)
        assert refused.releasable is False
        assert refused.min_width[0] <= width == refused.min_width[1]
        assert refused.witnesses[0].count in (1, 2)
    everything = [*FRONTIER, "A*B*C*E*F", "B*C*D*E*F", "A*B*C*D*F"]
    assert assess(czech, everything, min_width=2).min_width[1] == 1


def test_sharp_bounds_of_the_three_at_risk_cells(czech: Table) -> None:
    found = cell_bounds(czech, FRONTIER)
    assert found.exact.all()
    ends = {(count, *outer) for count, outer in zip(found.counts.tolist(), found.outer.tolist(), strict=True)}
    assert ends == {(1, 0, 10), (2, 0, 9)}


def test_a_release_of_the_full_table_pins_every_count(czech: Table) -> None:
    answer = assess(czech, ["A*B*C*D*E*F"], min_width=1)
    assert (answer.releasable, answer.min_width) == (False, (0, 0))


def test_cells_all_has_every_cell(czech: Table) -> None:
    found = cell_bounds(czech, ["A*B*C"], cells="all")
    assert len(found) == 64
    assert (found.inner[:, 0] <= found.counts).all()
    with pytest.raises(InputError, match="cells = 'every'; choose at-risk or all"):
        cell_bounds(czech, ["A*B"], cells="every")


def test_releases_that_fit_no_table(czech: Table) -> None:
    with pytest.raises(ReleaseError, match="unknown variable 'G'"):
        release_of(czech, ["A*G"])
    with pytest.raises(ReleaseError, match="not a list of sub-tables"):
        release_of(czech, "A*B")
    with pytest.raises(ReleaseError, match="not a list of sub-tables"):
        release_of(czech, [])


def test_no_at_risk_cell(czech: Table) -> None:
    table = Table.of(czech.schema, czech.codes, czech.counts * 100)
    with pytest.raises(InputError, match="no at-risk cell"):
        Criterion(table, 2, 3)
    with pytest.raises(InputError, match="no at-risk cell"):
        cell_bounds(table, ["A*B"])
