"""The cells that stopped a release: that they are those, and how they are counted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sdc.api import cell_bounds, ordered_release
from sdc.model.release import NOTHING, Release
from sdc.model.table import Table
from sdc.risk.critical_width import critical_widths
from sdc.risk.effort import Budget
from sdc.search.blockers import blockers
from sdc.search.step import SearchStep
from tests.profiles import scaled
from tests.strategies import inquiry_of, scattered


@pytest.mark.parametrize("min_width", [6, 10, 30, 53])
def test_an_unsafe_release_names_cells_that_refute_it(min_width: int, czech: Table) -> None:
    """Judged by the sharp bounds under the release asked about: the critical widths down, in CI at some fifteen."""
    listed = critical_widths(czech).reaching(min_width)
    taken = np.linspace(1, len(listed), scaled(len(listed))).round().astype(int)
    for number in sorted(set(taken.tolist())):
        release = Release.of(listed[:number])
        judgement = inquiry_of(czech, min_width).ask(release)
        sharp = cell_bounds(czech, release)
        assert sharp.exact.all()
        narrow = {tuple(cell) for cell in sharp.cells[sharp.outer_width < min_width].tolist()}
        assert set(judgement.blockers) <= narrow
        assert bool(judgement.blockers) == bool(narrow)


def test_an_undecided_question_names_cells_that_were_given_up() -> None:
    table = scattered()
    budget = Budget(1e-4, 60.0)  # enough, but little for a cell
    steps = ordered_release(table, NOTHING, min_width=3, budget=budget).steps
    at_risk = set(map(tuple, table.codes[table.at_risk(2)].tolist()))
    assert any(step.answer is None for step in steps)
    assert all(bool(step.blockers) is (step.answer is None) for step in steps)
    assert all(set(step.blockers) <= at_risk for step in steps)


def test_cells_that_nothing_was_tried_for_are_not_named() -> None:
    steps = ordered_release(scattered(), NOTHING, min_width=3, budget=Budget(0.3, 0.001)).steps
    assert steps[0].answer is None  # all that were tried have their width, then the budget was spent
    assert not any(step.blockers for step in steps)


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
