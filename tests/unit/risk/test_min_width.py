"""The criterion: three answers with witnesses, evidence for the safe ones, whatever the executor and the slices."""

import math
from dataclasses import replace
from functools import cache
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as hs

from sdc.api import assess
from sdc.bounds import exact
from sdc.bounds.method import is_small
from sdc.executor import Executor, InProcess
from sdc.feasible.proof import Proof
from sdc.model.cell_bounds import CellBounds
from sdc.model.errors import InputError, ReleaseError
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.table import Table
from sdc.risk.effort import Budget, Depth
from sdc.risk.evaluator import RiskEvaluator
from sdc.risk.min_width import MAX_WITNESSES, MinWidth
from sdc.risk.slices import Slice, slices
from sdc.risk.support import Support
from sdc.risk.verdict import Verdict
from tests.profiles import scaled
from tests.strategies import (
    Backwards,
    all_ways,
    evaluator_of,
    frontier,
    knows,
    nested_in,
    releases,
    scattered,
    sharp_ends,
    shown_by,
    tables_and_knowledge,
)

FRONTIER = ["A*B*C*D*E", "A*B*D*E*F", "A*C*D*E*F", "A*B*C*F", "B*C*D*F", "B*C*E*F"]


def bounds_of(outer: list[list[int]], inner: list[list[int]]) -> CellBounds:
    cells = np.arange(len(outer), dtype=np.uint16)[:, None]
    return CellBounds(cells, np.ones(len(outer), np.int64), np.array(outer), np.array(inner), "typed")


@pytest.mark.parametrize(
    ("outer", "inner", "releasable", "min_width", "undecided", "witnesses"),
    [
        ([[0, 9], [0, 5]], [[0, 6], [0, 5]], True, (5, 5), 0, []),  # wide inner bounds
        ([[0, 9], [0, 4]], [[0, 1], [1, 1]], False, (0, 4), 1, [(1,)]),  # a narrow outer one
        ([[0, 9], [0, 7]], [[0, 1], [0, 7]], None, (1, 7), 1, [(0,)]),  # anything between
    ],
)
def test_the_three_answers(
    outer: list[list[int]],
    inner: list[list[int]],
    releasable: bool | None,
    min_width: tuple[int, int],
    undecided: int,
    witnesses: list[tuple[int, ...]],
) -> None:
    answer = MinWidth(5).assess(bounds_of(outer, inner))
    assert (answer.releasable, answer.min_width, answer.undecided_cells) == (releasable, min_width, undecided)
    assert [witness.cell for witness in answer.witnesses] == witnesses
    assert [witness.outer for witness in answer.witnesses] == [tuple(outer[cell]) for (cell,) in witnesses]


def test_witnesses_are_the_narrowest() -> None:
    answer = MinWidth(100).assess(bounds_of([[0, 40 - k] for k in range(40)], [[1, 1]] * 40))
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


# Tables too large for an exact method


PAIRS, CYCLE = all_ways(5, 2), frontier("ABC", "BCD", "CDE", "ADE", "ABE")
SPLIT = frontier("AB", "BC", "AC", "CD", "DE", "CE")  # two triangles that meet in C
BUDGET = Budget(
    min(50, scaled(50, fewest=20)) / 1000, 60
)  # of all three-way sub-tables 60 cells stay undecided, and take all that there is


def proven(asked: RiskEvaluator, release: Release) -> tuple[CellBounds, Proof]:
    """The bounds of every at-risk cell, and what their inner ends rest on."""
    evaluation, bounds = asked.examine(release)
    return bounds, evaluation.proof


def shown(asked: RiskEvaluator, release: Release) -> Support:
    """What the witness pool shows of a release, without a question."""
    return Support(asked.knows(release), asked.pool)


@cache
def sharp_bounds(table: Table, release: Release) -> CellBounds:
    return exact.bounds(table, knows(table, release), table.codes[table.at_risk(2)])


@pytest.mark.parametrize("release", [PAIRS, CYCLE, all_ways(5, 3)], ids=str)
def test_answers_agree_with_the_exact_method(release: Release) -> None:
    """Safe and unsafe are as the exact method says; what is undecided contains its min width."""
    table = scattered()
    assert not is_small(table.schema)
    sharp = sharp_bounds(table, release)
    assert sharp.exact.all()
    width = int(sharp.outer_width.min())
    for min_width in sorted({1, 2, 3, max(1, width), width + 1, 10}):
        answer = assess(table, release, min_width=min_width, budget=BUDGET)
        assert answer.min_width[0] <= width <= answer.min_width[1]
        assert answer.releasable in (width >= min_width, None)
        if release in (PAIRS, CYCLE):
            assert answer.releasable is not None


@pytest.mark.parametrize(("most", "release"), [(40, PAIRS), (40, SPLIT), (100, CYCLE), (1, SPLIT)], ids=str)
def test_a_table_in_slices_is_shown_no_more_than_is_so(release: Release, most: int) -> None:
    """What is shown for slices holds for the whole table, is within the sharp bounds, and is something."""
    table, budget = scattered(), Budget(1, 60)
    sharp, criteria = sharp_bounds(table, release), evaluator_of(table, budget=budget, cells_per_slice=most)
    found, proof = proven(criteria, release)
    assert (found.inner == shown_by(table, knows(table, release), found.cells, proof)).all()
    assert nested_in(found.inner, sharp.inner)
    if most > 1:
        assert any(len(part.differences) for part in proof.parts)


def listed(proof: Proof) -> list[tuple[int, list[list[int]], list[int]]]:
    """Every difference, with the component it is of."""
    return [
        (part.variables, cells.tolist(), changes.tolist())
        for part in proof.parts
        for cells, changes in part.differences
    ]


def told(executor: Executor, release: Release, min_width: int) -> tuple[object, ...]:
    """All that a criterion says of a release."""
    criteria = evaluator_of(scattered(), min_width, executor=executor, budget=BUDGET)
    answer, (bounds, proof) = criteria.evaluate(release).assessment, proven(criteria, release)
    return answer, bounds.inner.tolist(), bounds.outer.tolist(), listed(proof)


@pytest.mark.parametrize(
    ("release", "min_width"),
    [*((release, min_width) for release in (PAIRS, CYCLE, SPLIT) for min_width in (1, 3)), (all_ways(5, 3), 3)],
    ids=str,
)
def test_the_order_of_the_units_changes_nothing(release: Release, min_width: int) -> None:
    forwards = told(InProcess(), release, min_width)
    assert told(Backwards(), release, min_width) == forwards
    assert told(InProcess(), release, min_width) == forwards


def test_a_brief_answer_is_never_more_than_the_full_one() -> None:
    """Brief, or without a search, the answer may be undecided; it is never the other one."""
    for release in (PAIRS, CYCLE, all_ways(5, 3)):
        full = evaluator_of(scattered(), budget=Budget(0.3, 60)).evaluate(release).verdict
        for depth in (Depth.REFUTE, Depth.BRIEF):
            found = evaluator_of(scattered(), budget=Budget(0.3, 60)).evaluate(release, depth).verdict
            assert found in (full, Verdict.UNDECIDED)


def test_what_was_proven_stays_proven_without_a_search() -> None:
    """A safe evaluation has all that its proof needs: asked again, nothing is looked for, whatever the budget."""
    asked = evaluator_of(scattered())
    evaluation = asked.evaluate(PAIRS)
    brief = evaluator_of(scattered(), budget=Budget(1e-4, 1e-4))
    again = replace(brief, pool=evaluation.pool).evaluate(PAIRS, Depth.REFUTE)
    assert (again.verdict, again.spent) == (Verdict.SAFE, 0)
    assert again.margin[0] == evaluation.margin[0]
    assert listed(again.proof) == listed(evaluation.proof)


WITH_RISK = tables_and_knowledge().filter(lambda example: len(example[0].at_risk(2)) > 0)


@given(WITH_RISK, hs.data())
@settings(max_examples=40)
def test_the_same_question_with_the_same_pool_gets_the_same_answer(
    example: tuple[Table, Knowledge], data: hs.DataObject
) -> None:
    """Whatever was asked before: a witness pool does not change, and nothing else is remembered."""
    table, known = example
    asked, pool = evaluator_of(table, 2, zeros=known.zeros), evaluator_of(table, 2).pool
    first = replace(asked, pool=pool).evaluate(known.release)
    other = known.plus(data.draw(releases(len(table.schema)))).release
    replace(asked, pool=pool).evaluate(other)
    second = replace(asked, pool=pool).evaluate(known.release)
    assert first.assessment == second.assessment
    assert listed(first.proof) == listed(second.proof)


@given(WITH_RISK)
@settings(max_examples=60)
def test_at_risk_cells_part_by_part(example: tuple[Table, Knowledge]) -> None:
    """Held two at a time, to the first that is not certified: safe is what is proven of every cell, and no more."""
    table, known = example
    asked = evaluator_of(table, 2, zeros=known.zeros)
    with patch("sdc.risk.case.CELLS_PER_PART", 2):
        evaluation = replace(asked, pool=asked.pool).evaluate(known.release, Depth.BRIEF)
    open_ = asked.criteria.unproven(table, evaluation.knowledge, evaluation.proof)
    assert (evaluation.verdict is Verdict.SAFE) == (open_ == 0)
    assert evaluation.assessment.at_risk_cells == len(table.at_risk(2))
    whole = replace(asked, pool=asked.pool).evaluate(known.release, Depth.REFUTE)
    # what the cheap bounds say of the worst cell is said whichever cells were looked at
    assert evaluation.margin[0] <= evaluation.margin[1] <= whole.margin[1]
    assert whole.verdict is not Verdict.UNSAFE or evaluation.verdict is not Verdict.SAFE


def test_evidence_of_another_table_is_refused_by_name() -> None:
    asked, other = evaluator_of(scattered(1)), evaluator_of(scattered(2))
    with pytest.raises(ReleaseError, match=r"the evidence is of another table \([0-9a-f]{12}, asked about is"):
        replace(asked, pool=other.pool).evaluate(PAIRS)
    with pytest.raises(ReleaseError, match="of the cells up to the small count 1, asked is 2"):
        replace(asked, pool=evaluator_of(scattered(1), small_count=1).pool).evaluate(PAIRS)


def test_what_is_known_of_another_table_is_refused() -> None:
    known = knows(scattered(1), PAIRS)
    other = Table.of(scattered().schema, scattered().codes, scattered().counts + 1)
    with pytest.raises(ReleaseError, match=rf"what is known is of {known.total} records .* has {other.total} of A, B"):
        replace(evaluator_of(other), known=known)


# The budget


@pytest.mark.parametrize("seconds", [0, -1, -0.5, math.nan])
def test_a_budget_that_proves_nothing(seconds: float) -> None:
    with pytest.raises(InputError, match=rf"budget seconds_per_cell is {seconds}; give more than 0 seconds"):
        Budget(seconds)
    with pytest.raises(InputError, match=rf"budget seconds is {seconds}; give more than 0 seconds"):
        Budget(1, seconds)


def test_a_budget_that_is_used_up_leaves_cells_undecided() -> None:
    asked = evaluator_of(scattered(), budget=Budget(1, 1e-4))
    answer = asked.evaluate(PAIRS).assessment
    assert asked.spent >= asked.effort.budget.steps
    assert answer.verdict is Verdict.UNDECIDED
    assert answer.undecided_cells > 0
    assert asked.evaluate(PAIRS).assessment == answer


# The evidence


@pytest.mark.parametrize("elsewhere", [frontier("AB", "BC", "AC"), PAIRS], ids=str)
def test_what_was_found_of_other_components_is_not_learnt(elsewhere: Release) -> None:
    """Another component with as many variables and categories, or one that has all variables."""
    first, other = evaluator_of(scattered()), evaluator_of(scattered())
    evaluation = first.evaluate(elsewhere)
    assert evaluation.verdict is Verdict.SAFE
    assert evaluation.proof.differences
    release = frontier("AB", "BD", "AD")
    other.learn(evaluation.proof, release)
    assert shown(other, release).proof().differences == 0


def test_learning_what_was_found_proves_the_release_again() -> None:
    first = evaluator_of(scattered()).evaluate(PAIRS)
    assert first.verdict is Verdict.SAFE
    again = evaluator_of(scattered(), budget=Budget(1e-4, 1e-4))
    assert again.evaluate(PAIRS).verdict is Verdict.UNDECIDED
    again.learn(first.proof, PAIRS)
    assert again.evaluate(PAIRS).verdict is Verdict.SAFE
    inner = shown(again, PAIRS).inner
    assert (inner[:, 1] - inner[:, 0] >= 3).all()
    again.learn(first.proof, CYCLE)
    assert again.evaluate(frontier("ABCDE")).verdict is Verdict.UNSAFE


@given(tables_and_knowledge(max_records=6))
@settings(max_examples=60)
def test_what_is_proven_of_small_tables_is_sharp(example: tuple[Table, Knowledge]) -> None:
    """By the listing of all feasible tables."""
    table, known = example
    if not len(table.at_risk(2)):
        return
    bounds, _ = proven(evaluator_of(table, 2, zeros=known.zeros), known.release)
    sharp = sharp_ends(table, known)[table.schema.keys.pack(bounds.cells)]
    assert np.array_equal(bounds.outer, sharp)
    assert np.array_equal(bounds.inner, sharp)


@given(tables_and_knowledge().map(lambda pair: pair[0]), hs.integers(1, 8))
def test_slices_are_a_partition_of_the_cells(table: Table, most: int) -> None:
    parts = slices(table, most)
    held = np.array([part.holds(table.codes, table.schema) for part in parts])
    assert (held.sum(axis=0) == 1).all()
    assert (held.sum(axis=1) <= most).all()
    for part, rows in zip(parts, held, strict=True):
        own = part.of(table)
        assert (own.codes == table.codes[rows]).all()
        assert (own.counts == table.counts[rows]).all()
        assert own.schema == table.schema
    assert parts == slices(table, most)


def test_the_whole_is_one_slice_that_copies_nothing() -> None:
    table = scattered()
    assert slices(table, len(table)) == [Slice()]
    assert Slice().of(table) is table


@pytest.mark.parametrize(("most", "variables"), [(140, 1), (20, 2)])
def test_as_few_variables_as_will_do(most: int, variables: int) -> None:
    """Of those with most categories."""
    table = scattered()
    parts = slices(table, most)
    assert {len(part.variables) for part in parts} == {variables}
    assert set(parts[0].variables) <= {0, 1, 2}
