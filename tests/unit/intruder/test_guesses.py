"""How many guesses are right, and how many cells a refusal narrows, counted by hand."""

from typing import Any

import numpy as np
import pytest

from sdc.intruder.guesses import ALONE, Guesses, Right, Score, mean_score
from sdc.intruder.refusals import Refusals
from sdc.intruder.summary import Summary
from sdc.model.cell_bounds import CellBounds
from sdc.model.schema import Schema, Variable

SCHEMA = Schema((Variable("outer_lower", ("no", "yes")), Variable("sex", ("f", "m"))))
CELLS = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], np.uint16)
OUTER = np.array([[0, 9], [1, 3], [2, 2], [0, 4]])
INNER = np.array([[0, 8], [1, 3], [2, 2], [1, 4]])
BOUNDS = CellBounds(CELLS, np.array([1, 2, 2, 1]), OUTER, INNER, "by hand")
# the counts are 1, 2, 2, 1: the first seed guesses three right, the second one, independence all
EXPECTED = np.array([[1.4, 1.6, 2.0, 0.2], [1.6, 0.0, 2.4, 3.0], [1.0, 2.0, 2.0, 1.0]])
GUESSES = Guesses(("fitted",), ("seed 0", "seed 1", ALONE), (10, 20, 30), (4, 6, 8), EXPECTED)


def right(bounds: CellBounds = BOUNDS, min_width: int | None = None, **more: Any) -> Right:
    return Right(GUESSES, bounds, 2, min_width, **more).named_by(SCHEMA)


def test_a_guess_is_right_when_it_rounds_to_the_count() -> None:
    scores = GUESSES.scores(BOUNDS)
    assert scores == {"seed 0": Score(10, 3, 2, 4), "seed 1": Score(20, 1, 1, 6), ALONE: Score(30, 4, 2, 8)}
    assert mean_score(scores) == {"cells": 15.0, "at_risk": 2.0, "provable": 1.5, "claimed": 5.0}
    assert mean_score({ALONE: scores[ALONE]}) is None


def test_the_mean_is_over_the_seeds_alone() -> None:
    assert GUESSES.mean is not None
    np.testing.assert_allclose(GUESSES.mean, [1.5, 0.8, 2.2, 1.6])
    assert Guesses(("fitted",), (ALONE,), (30,), (8,), EXPECTED[2:]).mean is None


def test_a_cell_is_certain_when_its_bounds_prove_a_record() -> None:
    facts = right().facts
    assert (facts["certain_cells"], facts["at_risk_cells"], facts["small_count"]) == (2, 4, 2)
    assert "width_kept" not in facts


@pytest.mark.parametrize(("rows", "min_width", "kept"), [([0], 8, True), ([0], 9, False), ([0, 1], 8, False)])
def test_the_width_is_kept_when_every_cell_moves_so_far(rows: list[int], min_width: int, kept: bool) -> None:
    own = Guesses(GUESSES.methods, GUESSES.names, GUESSES.cells, GUESSES.claimed, EXPECTED[:, rows])
    facts = Right(own, BOUNDS.rows(np.array(rows)), 2, min_width).named_by(SCHEMA).facts
    assert (facts["min_width"], facts["width_kept"]) == (min_width, kept)


def test_cells_are_listed_narrowest_first_with_the_laws_that_are_known() -> None:
    of = {"entropy": None, "engine": None, "feasible_tables": None, "log_probability": None}
    of |= {"equals_released": False, "diagnostics": None}
    known = Summary("saturated", 0.5, None, at_truth=np.array([0.1, 0.2, 0.3, 0.4]), **of)
    cells = right(posteriors=(known, Summary("released", None, "too large", **of))).facts["cells"]
    assert [(cell["count"], cell["outer"]) for cell in cells] == [(2, [2, 2]), (2, [1, 3]), (1, [0, 4]), (1, [0, 9])]
    assert cells[0]["cell"] == {"outer_lower": "yes", "sex": "f"}
    assert cells[0]["guessed"] == {"seed 0": 2.0, "seed 1": 2.4, ALONE: 2.0}
    assert cells[0]["posterior"] == {known.label: 0.3}


def test_columns_have_the_bounds_beside_a_variable_of_that_name() -> None:
    columns = right().columns(SCHEMA)
    assert (columns["outer_lower"], columns["outer_upper"]) == ([0, 1, 2, 0], [9, 3, 2, 4])
    assert columns["seed 1"] == [1.6, 0.0, 2.4, 3.0]
    assert ["no", "no", "yes", "yes"] in columns.values()


def intervals(*widths: int) -> np.ndarray:
    return np.array([[2, 2 + width] for width in widths], np.int64)


def test_a_cell_is_narrowed_from_the_width_to_below_it() -> None:
    # of width 3 before: only those that fall from 3 or more to 2 or less count
    possible, left = intervals(3, 3, 2, 4, 9), intervals(2, 3, 1, 3, 0)
    refusals = Refusals(9, 2, possible, left, np.ones(5), possible[:2], left[:2])
    assert refusals.narrowed(3) == (2, 1)
    assert Refusals.none("too many tables").narrowed(3) == (0, 0)
