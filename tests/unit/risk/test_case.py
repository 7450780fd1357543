"""How far one question goes: units of any size, witnesses that are cells of the table, and no step too many."""

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings

from sdc.model.fact import suppressed_fact
from sdc.model.knowledge import Knowledge
from sdc.model.release import NOTHING, Release
from sdc.model.suppressed_table import SuppressedTable
from sdc.model.table import Table
from sdc.risk.assessment import OwnJudged
from sdc.risk.criteria import Criteria
from sdc.risk.effort import Budget, Depth
from sdc.risk.evaluator import RiskEvaluator
from sdc.risk.min_width import MAX_WITNESSES
from sdc.risk.verdict import Verdict
from tests.strategies import all_ways, dense, evaluator_of, frontier, knows, scattered, schema_of, tables_and_knowledge

PAIRS = all_ways(5, 2)
DEPTHS = [Depth.REFUTE, Depth.BRIEF, Depth.FULL, Depth.EVERY]


def with_part() -> RiskEvaluator:
    """Of a table of which small cells of A*B*C are withheld."""
    table, before = scattered(), knows(scattered(), NOTHING)
    marginal = table.marginal(0b111)
    hidden = suppressed_fact(0b111, marginal.codes[marginal.counts <= 20], table.total, "A*B*C")
    return RiskEvaluator(table, before.plus_facts([hidden]), Criteria.of(6, 3), before=before)


@given(tables_and_knowledge().filter(lambda example: len(example[0].at_risk(2)) > 2))
@settings(max_examples=40)
@pytest.mark.parametrize("cells", [1, 2])
def test_cells_in_units_of_any_size(cells: int, example: tuple[Table, Knowledge]) -> None:
    """A small table has sharp bounds of every cell, and is never undecided."""
    table, known = example
    with patch("sdc.risk.case.CELLS_PER_UNIT", cells):
        asked = replace(evaluator_of(table, 2), known=known)
        evaluation, bounds = asked.examine(known.release)
        brief = replace(evaluator_of(table, 2), known=known).evaluate(known.release)
    assert bounds.exact.all()
    assert (evaluation.verdict is Verdict.SAFE) == (bounds.outer_width.min() >= 2) == (brief.verdict is Verdict.SAFE)
    assert brief.verdict is not Verdict.UNDECIDED


@pytest.mark.parametrize("release", [all_ways(5, 3), frontier("ABC", "CDE"), frontier("ABCDE")], ids=str)
@pytest.mark.parametrize("depth", DEPTHS)
def test_witnesses_are_small_cells_of_the_table(release: Release, depth: Depth) -> None:
    table = scattered()
    evaluation = evaluator_of(table, 3, budget=Budget(0.02, 1)).evaluate(release, depth)
    assert evaluation.assessment.witnesses
    for witness in evaluation.assessment.witnesses:
        assert table.count_at(np.array([witness.cell], np.uint16))[0] == witness.count
        assert 1 <= witness.count <= 2
    assert len(evaluation.blockers) <= MAX_WITNESSES


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize(
    ("of", "release"),
    [
        (evaluator_of(scattered()), PAIRS),
        *((with_part(), frontier(*names)) for names in (("AB", "BC", "AC"), ("DE",), ("CD", "DE"))),
    ],
    ids=["table", "part with a triangle", "part with a pair", "part with a chain"],
)
def test_nothing_is_searched_with_a_budget_that_is_spent(of: RiskEvaluator, release: Release, depth: Depth) -> None:
    assert replace(of, spent=of.effort.budget.steps).evaluate(release, depth).spent == 0
    spent = replace(of).evaluate(release, depth).spent
    assert spent == 0 if depth is Depth.REFUTE else spent > 0


def test_what_parts_tell_is_not_known_before_them() -> None:
    """Counts of 2 and 1, rounded to multiples of 3, are told closer than a width of 5: by that they stay at risk."""
    table = dense(schema_of([2, 3]), [4, 2, 5, 7, 6, 1])
    part = SuppressedTable.rounded_to(0b11, np.array([3, 3, 6, 6, 6, 0]), 3, [], table.schema, "A*B rounded")
    told = evaluator_of(table, 5).knowing(knows(table, NOTHING).plus_facts(part.facts))
    for asked in (told, told.knowing(told.known)):
        found = asked.evaluate(NOTHING).assessment
        assert (found.verdict, found.in_part) == (Verdict.UNSAFE, OwnJudged(2, 2))
        assert "2 small cells of suppressed tables, 2 not proven" in found.headline
    found = told.knowing(told.known, told.known).evaluate(NOTHING).assessment
    assert found.in_part is None
    assert "in part" not in found.headline
