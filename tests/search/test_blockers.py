"""The cells that stopped a release: that they are those, and how they are counted."""

from __future__ import annotations

from typing import Any

import pytest

from sdc.api import cell_bounds, ordered_release
from sdc.model.table import Table
from sdc.risk.criterion import Budget
from sdc.search.blockers import blockers
from sdc.search.ordered import SearchStep
from tests.strategies import scattered


def test_each_refused_question_names_cells_that_refute_it(czech: Table) -> None:
    """Judged by the sharp bounds of the cell under what was asked about."""
    found = ordered_release(czech, min_width=10)
    stopped = blockers(found.steps)
    assert stopped
    for cell, sub_tables in stopped:
        for sub_table in sub_tables:
            sharp = cell_bounds(czech, found.release.add(sub_table), method="shuttle")
            row = [tuple(other) for other in sharp.cells.tolist()].index(cell)
            assert sharp.outer_width[row] < 10


def test_an_undecided_question_names_cells_that_were_given_up() -> None:
    table = scattered()
    found = ordered_release(table, min_width=3, budget=Budget(0.3, 0.001))
    undecided = [step for step in found.steps if step.answer is None and step.undecided_cells]
    at_risk = set(map(tuple, table.codes[table.at_risk(2)].tolist()))
    assert any(step.blockers for step in undecided)
    assert all(set(step.blockers) <= at_risk for step in undecided)
    assert all(step.blockers == () for step in found.steps if step.answer)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([], []),
        ([("growth", (1,), False, ((0, 0),))], [((0, 0), (1,))]),
        ([("growth", (1, 2), False, ((0, 0),))], []),  # several together: it may be any of them
        ([("growth", (1,), None, ((0, 0),)), ("growth", (1,), True, ())], []),  # the last question counts
        ([("growth", (1,), False, ((0, 0),)), ("extension", (2,), False, ((1, 1),))], [((1, 1), (2,))]),
        (
            [("growth", (1,), False, ((0, 0), (1, 0))), ("growth", (2,), None, ((1, 0),))],
            [((1, 0), (1, 2)), ((0, 0), (1,))],
        ),
    ],
)
def test_what_is_counted(steps: list[Any], expected: list[Any]) -> None:
    asked = [SearchStep(phase, 1, added, answer, (0, 9), 1, cells) for phase, added, answer, cells in steps]
    assert blockers(asked) == expected
