"""The ordered release: the published Czech release, maximality, and the three answers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from sdc.api import find_release
from sdc.config.release import ReleaseConfig
from sdc.feasible.witness_pool import WitnessPool
from sdc.model import subtable as st
from sdc.model.errors import ConfigError, ReleaseError
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.schema import Schema, Variable
from sdc.model.table import Table
from sdc.risk.assessment import Assessment
from sdc.risk.criteria import Criteria, Evaluation
from sdc.risk.critical_width import critical_widths
from sdc.risk.effort import Budget, Effort
from sdc.risk.min_width import MinWidth
from sdc.risk.posterior_limit import PosteriorLimit
from sdc.risk.verdict import Verdict
from sdc.search.constraints import Constraints
from sdc.search.ordered import FEWEST_TRIED, OrderedSearch, ordered_list
from sdc.search.step import SearchStep
from sdc.stages.assemble import Watch
from sdc.utility.measures import Weights
from tests.strategies import (
    assert_safe_and_maximal,
    evaluator_of,
    knows,
    scattered,
    schema_of,
    shown_by,
    small_tables,
    unknowing,
)
from tests.strategies import czech as czech_table


@pytest.mark.parametrize(("min_width", "with_total"), [(5, 61), (3, 62), (10, 59), (2, 62)])
def test_the_neighbouring_widths(czech: Table, min_width: int, with_total: int) -> None:
    """REFERENCE section 2: adding ABCEF gives 5, adding BCDEF too gives 3; 10 needs another release."""
    found = find_release(czech, "ordered", min_width=min_width)
    if min_width < 10:
        assert found.sub_tables_with_total == with_total
    assert found.assessment.min_width[0] >= min_width


@given(small_tables(max_records=3, max_cells=12), some.integers(1, 4))
@settings(max_examples=100)
def test_releases_are_safe_and_maximal(table: Table, min_width: int) -> None:
    """By the listing of all feasible tables."""
    if not len(table.at_risk(2)) or table.total < min_width:
        return
    assert_safe_and_maximal(table, find_release(table, "ordered", min_width=min_width).release, min_width)


FEW_NODES = Budget(0.3, 0.001)  # ten: some cells stay open


def of_phase(steps: Iterable[SearchStep], phase: str) -> list[SearchStep]:
    return [step for step in steps if step.phase == phase]


def test_steps_are_told_and_kept(czech: Table) -> None:
    told: list[SearchStep] = []
    found = find_release(czech, "ordered", min_width=6, watch=Watch(told.append))
    assert tuple(told) == found.steps
    assert (found.steps[0].phase, found.steps[0].length) == ("everything", len(critical_widths(czech).reaching(6)))
    growth = of_phase(found.steps, "growth")
    assert len(growth) == len(found.steps) - 1
    assert found.release == Release.of(t for step in growth if step.answer for t in step.added)
    assert growth[0].added == tuple(t for t in critical_widths(czech).reaching(6) if st.dimension(t) == 1)
    assert growth[0].length == 0


def test_a_floor_above_the_width_is_refused(czech: Table) -> None:
    search = OrderedSearch(evaluator_of(czech, 6), critical_widths(czech, floor=7))
    with pytest.raises(ReleaseError, match=r"from the floor 7 on, the minimum width is 6; set the floor to at most 6"):
        search.run()


def test_a_floor_up_to_the_width_changes_nothing(czech: Table) -> None:
    cut = OrderedSearch(evaluator_of(czech, 6), critical_widths(czech, floor=6)).run()
    assert cut.release == find_release(czech, "ordered", min_width=6).release


def test_a_table_of_one_record() -> None:
    table = Table.of(Schema((Variable("a", ("x",)), Variable("b", ("y",)))), np.zeros((1, 2), np.uint16))
    with pytest.raises(
        ReleaseError, match=r"only the grand total 1 is public, .* as its records can be in no other; give"
    ):
        find_release(table, "ordered", min_width=3)


# The extension, many sub-tables at once


@pytest.mark.parametrize("min_width", [1, 2, 3])
def test_what_contains_a_refused_sub_table_is_not_asked_about(min_width: int) -> None:
    """With ten nodes some cells stay open."""
    steps = find_release(scattered(), "ordered", min_width=min_width, budget=FEW_NODES).steps
    refused: list[int] = []
    for step in (growth := of_phase(steps, "growth")):
        assert not [t for t in step.added if any(st.is_within(r, t) for r in refused)]
        if len(step.added) == 1 and step.answer is not True:
            refused.append(step.added[0])
    alone = [step.added[0] for step in growth if len(step.added) == 1]
    assert len(set(alone)) == len(alone)
    assert refused


def replayed(candidates: Sequence[int], steps: Iterable[SearchStep]) -> tuple[Release, Release]:
    """What was accepted: all at once, and what grew."""
    steps = list(steps)
    length = max((step.length for step in of_phase(steps, "everything") if step.answer), default=0)
    growth = [t for s in of_phase(steps, "growth") if s.answer for t in s.added]
    return Release.of(candidates[:length]), Release.of(growth)


def test_sub_tables_of_few_variables_come_first(czech: Table) -> None:
    """Level by level up to the breadth, then the rest, of which each that fits is added whatever its level."""
    found = find_release(czech, "ordered", min_width=6)
    levels = [max(map(st.dimension, step.added)) for step in of_phase(found.steps, "growth")]
    assert levels[:2] == [1, 2]
    assert min(levels[2:]) > 2
    assert found.release.by_dimension(czech.schema)[:3] == (1, 6, 15)


def test_no_more_questions_than_wished() -> None:
    """What was not asked about is counted, and what was accepted before stays."""
    widths = critical_widths(scattered())
    every = OrderedSearch(evaluator_of(scattered(), 3, budget=FEW_NODES), widths).run()
    assert every.unasked == 0
    for most in (1, 3, 6):
        asked = evaluator_of(scattered(), 3, budget=FEW_NODES)
        found = OrderedSearch(asked, widths, constraints=Constraints(questions=most)).run()
        assert [step.left for step in found.steps[1:]] == [most - k for k in range(2, most + 1)]
        assert [replace(step, left=0) for step in found.steps] == [replace(s, left=0) for s in every.steps[:most]]
        assert found.unasked > 0
        assert found.evaluation.verdict is Verdict.SAFE


@dataclass(frozen=True)
class TypedCriteria(Criteria):
    """Refuses exactly the releases that contain one of some sub-tables."""

    refused: frozenset[int] = frozenset()

    def judge(self, table: Table, known: Knowledge, asked: Release, pool: WitnessPool, effort: Effort) -> Evaluation:
        safe = not any(r in known.plus(asked).release for r in self.refused)
        verdict = Verdict.SAFE if safe else Verdict.UNSAFE
        answer = Assessment(verdict, 1, (int(safe), int(safe)), 1, 0, ())
        return Evaluation(self, known, asked, answer, pool)


@given(some.frozensets(some.integers(1, 63), max_size=8))
@settings(max_examples=100)
def test_the_extension_is_maximal_whatever_is_refused(refused: frozenset[int]) -> None:
    """All but the refused sub-tables and what contains them; one costs two questions a halving."""
    asked = unknowing(czech_table(), TypedCriteria(2, MinWidth(1), refused=refused))
    found = OrderedSearch(asked, critical_widths(czech_table())).run()
    candidates = critical_widths(czech_table()).reaching(1)
    allowed = [t for t in candidates if not any(st.is_within(r, t) for r in refused)]
    assert found.release == Release.of(allowed)
    smallest = [t for t in refused if not any(r != t and st.is_within(r, t) for r in refused)]
    levels, pieces, halvings = 2, 64 // FEWEST_TRIED, 2 * 7 * len(smallest)
    assert len(of_phase(found.steps, "everything")) == 1
    assert len(of_phase(found.steps, "growth")) <= levels + pieces + halvings
    assert found.unasked == 0


# What was proven stays proven


budgets = some.builds(lambda cell, all_cells: Budget(10**cell, 10**all_cells), some.floats(-4, 1), some.floats(-4, 1))


def largest_proven(table: Table, min_width: int, steps: Iterable[SearchStep]) -> Release:
    """Of the releases that a step of the search certified the one of most sub-tables."""
    widths = critical_widths(table)
    candidates = widths.reaching(min_width) or widths.sub_tables.tolist()
    return max(replayed(candidates, steps), key=lambda release: release.sub_tables(table.schema))


@given(budgets, some.integers(1, 6), some.integers(1, 4))
@settings(max_examples=20)
def test_whatever_the_budget_what_is_found_is_proven(budget: Budget, seed: int, min_width: int) -> None:
    """By feasible tables that are handed out; and it is no smaller than what a step of the search had proven."""
    table = scattered(seed)
    found = find_release(table, "ordered", min_width=min_width, budget=budget)
    assert found.evaluation.verdict is Verdict.SAFE
    shown = shown_by(table, knows(table, found.release), found.evaluation.pool.at_risk.cells, found.proof)
    assert (shown[:, 1] - shown[:, 0] >= min_width).all()
    assert found.sub_tables >= largest_proven(table, min_width, found.steps).sub_tables(table.schema)


def test_a_search_that_needs_monotonicity_refuses_a_criterion_without() -> None:
    asked = unknowing(czech_table(), Criteria.of(2, 6, PosteriorLimit(max_above=0.5)))
    with pytest.raises(ConfigError, match=r"is not monotone: .*choose decomposable or simulatable"):
        OrderedSearch(asked, critical_widths(czech_table())).run()


def test_a_floor_that_was_chosen_above_the_width_leaves_a_list_and_is_said(czech: Table) -> None:
    cut = critical_widths(czech, floor=6, most=40)
    assert cut.floor > 6
    assert len(cut) <= 40 < critical_widths(czech, floor=6).number_reaching(6)
    found = OrderedSearch(evaluator_of(czech, 6), cut).run()
    assert found.assessment.releasable is True
    assert set(found.release.frontier) <= set(cut.reaching(6))


def test_a_wide_table_has_a_breadth_of_one_and_fewer_questions() -> None:
    """Of a component of more variables than a walk takes no cell is certified, and all pairs are one component."""
    limits = [Constraints.of(schema_of([2] * number), ReleaseConfig()) for number in (20, 21)]
    assert [(each.breadth_for(1), each.questions_for(1)) for each in limits] == [(2, 200), (1, 400)]
    wished = Constraints.of(schema_of([2] * 21), ReleaseConfig(breadth=2, max_evaluations=3))
    assert (wished.breadth_for(1), wished.questions_for(1)) == (2, 3)


# What was refused together is asked about in parts


@pytest.mark.parametrize("weights", [None, Weights((Fraction(1), Fraction(1), Fraction(1), Fraction(1), Fraction(2)))])
def test_whatever_the_parts_what_is_left_out_does_not_fit(weights: Weights | None) -> None:
    """Each of the candidates was asked about beside what is released, or contains one that was, or is released."""
    table = scattered(2)
    evaluator = evaluator_of(table, 3, budget=FEW_NODES)
    widths = critical_widths(table)
    found = OrderedSearch(evaluator, widths, weights=weights).run()
    assert found.evaluation.verdict is Verdict.SAFE
    assert found.unasked == 0
    alone = {step.added[0] for step in found.steps if len(step.added) == 1 and not step.answer}
    for t in ordered_list(widths, 3, Constraints()):
        assert t in found.release or any(st.is_within(refused, t) for refused in alone)


def test_what_had_no_proof_is_asked_again_with_all_means(monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as all questions before took together; a walk of one node proves next to nothing at first."""
    monkeypatch.setattr("sdc.risk.certifying.BRIEF_STEPS", 1)
    monkeypatch.setattr("sdc.search.ordered.LEAST_AGAIN", 1)
    table = scattered()
    evaluator = evaluator_of(table, 3, budget=Budget(seconds_per_cell=0.5, seconds=60))
    found = OrderedSearch(evaluator, critical_widths(table)).run()
    alone = [step for step in found.steps if len(step.added) == 1]
    again = [step for k, step in enumerate(alone) if any(step.added == other.added for other in alone[:k])]
    assert any(step.answer for step in again)
    before = sum(step.spent for step in found.steps[: found.steps.index(again[0])])
    assert sum(step.spent for step in again[:-1]) < before
    assert found.evaluation.verdict is Verdict.SAFE
    assert all(step.added[0] in found.release for step in again if step.answer)
