"""Refutations: what each says is so in every table that agrees with its support, and it refuses whatever has that."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings

from sdc.bounds.duality import Multipliers
from sdc.model import subtable as st
from sdc.model.knowledge import Knowledge
from sdc.model.release import NOTHING, Release
from sdc.model.structural_zeros import NO_ZEROS, StructuralZeros
from sdc.model.table import Table
from sdc.risk import evaluator as asked
from sdc.risk.criteria import Criteria
from sdc.risk.effort import Depth
from sdc.risk.evaluator import RiskEvaluator
from sdc.risk.refutation import Refutation, Refutations, propagated
from sdc.risk.verdict import Verdict
from tests import levels
from tests.facts import FactCase, fact_cases
from tests.levels import Case, Rng, cases, generators
from tests.reference import TooManyTablesError
from tests.strategies import czech, frontier, knows, schema_of


def keeping(table: Table, min_width: int, known: Knowledge | None = None) -> RiskEvaluator:
    """Questions about the table beside what is known, whose refutations are kept."""
    public = known or knows(table, NOTHING)
    criteria = Criteria.of(2, min_width)
    return RiskEvaluator(table, public, criteria, refutations=Refutations(public.zeros))


def judged(of: Case, known: Knowledge, subtables: Sequence[int], cell: Sequence[int], zeros: bool) -> tuple[int, int]:
    """Smallest and largest count of a cell over all tables that agree with these; too many are no case."""
    try:
        tables = levels.agreeing(of.table, subtables, known.zeros if zeros else NO_ZEROS)
    except TooManyTablesError:
        assume(False)
    values = tables[:, levels.cells_of(of.schema).index(tuple(cell))]
    return int(values.min()), int(values.max())


def check(of: Case, evaluator: RiskEvaluator, refutation: Refutation) -> None:
    """It is of an at-risk cell, narrow enough, holds when worked out again, and in every table that agrees."""
    low, high = refutation.bounds
    assert 0 <= low <= refutation.count <= high
    assert 1 <= refutation.count <= 2
    assert refutation.width < evaluator.criteria.floor
    assert refutation.holds(of.table, evaluator.known.zeros)
    least, most = judged(of, evaluator.known, refutation.support, refutation.cell, refutation.with_zeros)
    assert low <= least
    assert most <= high


@given(cases(), generators())
@settings(max_examples=1000)
def test_each_is_so_by_brute_force_also_under_larger_releases(case: Case, rng: Rng) -> None:
    known = replace(case.known, release=NOTHING)
    evaluator = keeping(case.table, int(rng.integers(1, 6)), known)
    assume(len(evaluator.pool.at_risk))
    refutation = evaluator.evaluate(case.known.release).refutation
    assume(refutation is not None)
    assert refutation is not None
    check(case, evaluator, refutation)
    assert all(any(st.is_within(t, held) for held in case.known.release.frontier) for t in refutation.support)
    larger = case.known.release.add(levels.random_subtable(rng, case.schema))
    again = evaluator.evaluate(larger)
    assert again.verdict is Verdict.UNSAFE
    assert again.refutation is not None
    low, high = judged(case, known, larger.closed(case.schema).frontier, again.refutation.cell, zeros=True)
    assert high - low < evaluator.criteria.floor


@given(cases(), generators())
@settings(max_examples=1000)
def test_in_whatever_order_a_release_grows_what_is_refused_at_once_is_unsafe(case: Case, rng: Rng) -> None:
    known = replace(case.known, release=NOTHING)
    evaluator, release = keeping(case.table, int(rng.integers(1, 4)), known), NOTHING
    assume(len(evaluator.pool.at_risk))
    for subtable in rng.permutation(levels.closed_sets(case.schema)).tolist():
        larger = release.add(subtable)
        answer = evaluator.evaluate(larger)
        plain = replace(evaluator.anew(), refutations=None).evaluate(larger)
        assert (answer.verdict is Verdict.UNSAFE) == (plain.verdict is Verdict.UNSAFE)
        if answer.refutation is not None:
            check(case, evaluator, answer.refutation)
        if evaluator.accepts(answer):
            release = larger


@given(fact_cases(), generators())
@settings(max_examples=300)
def test_beside_facts_they_rest_on_whole_marginals_alone(case: FactCase, rng: Rng) -> None:
    known = replace(case.known, release=NOTHING)
    evaluator = keeping(case.table, int(rng.integers(1, 6)), known)
    assume(len(evaluator.pool.at_risk))
    answer = evaluator.evaluate(case.known.release)
    if answer.refutation is not None:
        check(case, evaluator, answer.refutation)


# What they are


KDSF_ALL = frontier("ABCDE", "ABDEF", "ACDEF", "ABCEF", "BCDF")


def test_the_support_has_nothing_that_is_not_needed() -> None:
    table, evaluator = czech(), keeping(czech(), 6)
    refutation = evaluator.evaluate(KDSF_ALL).refutation
    assert refutation is not None
    assert (refutation.bounds, refutation.labels(table.schema)) == ((0, 5), ["A*B*C*E*F", "A*B*D*E*F", "A*C*D*E*F"])
    for left_out in refutation.support:
        rest = [t for t in refutation.support if t != left_out]
        low, high = propagated(table, NO_ZEROS, refutation.cell, [*rest, *st.children(left_out, table.schema)])
        assert high - low >= 6


def test_what_the_shuttle_does_not_refute_multipliers_do() -> None:
    """Three-way sub-tables of 2^6 cells, where the linear program is tighter than the shuttle."""
    table, evaluator = czech(), keeping(czech(), 20)
    refutation = evaluator.evaluate(frontier("ADEF", "BDEF", "CDEF", "ABF", "ACF", "BCF")).refutation
    assert refutation is not None
    assert refutation.upper is not None
    low, high = propagated(table, NO_ZEROS, refutation.cell, refutation.support)
    assert high - low >= 20 > refutation.width


def test_structural_zeros_are_named_where_they_are_needed() -> None:
    """Of A*B the cell (0, 1) is impossible, so that A = 0 tells the count of (0, 0)."""
    table = Table.of(schema_of([2, 2]), np.array([[0, 0], [1, 0], [1, 1]]), np.array([2, 9, 9]))
    zeros = StructuralZeros((((0, (0,)), (1, (1,))),))
    answer = keeping(table, 2, knows(table, NOTHING, zeros)).evaluate(frontier("A", "B"))
    assert answer.refutation is not None
    assert (answer.refutation.bounds, answer.refutation.with_zeros) == ((2, 2), True)
    assert not answer.refutation.holds(table, NO_ZEROS)
    assert keeping(table, 2).evaluate(frontier("A", "B")).verdict is Verdict.SAFE


# Asked first


def test_what_has_the_support_is_refused_without_a_look_at_any_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluator = keeping(czech(), 6)
    first = evaluator.evaluate(KDSF_ALL)
    pool, spent = evaluator.pool, evaluator.spent

    def never(*_: Any) -> Any:
        raise AssertionError

    monkeypatch.setattr(Criteria, "_judged", never)
    again = evaluator.evaluate(Release.of([st.full(6)]))
    assert again.verdict is Verdict.UNSAFE
    assert again.refutation is first.refutation
    assert (again.assessment.min_width, again.assessment.undecided_cells) == ((0, 5), 0)
    assert [w.outer for w in again.assessment.witnesses] == [(0, 5)]
    assert again.refutation is not None
    assert again.blockers == (again.refutation.cell,)
    assert (evaluator.pool, evaluator.spent) == (pool, spent)


def test_every_bound_is_asked_for_all_the_same() -> None:
    evaluator = keeping(czech(), 6)
    evaluator.evaluate(KDSF_ALL)
    assert evaluator.evaluate(KDSF_ALL, Depth.EVERY).assessment.min_width == (5, 5)


def test_another_width_or_other_zeros_are_asked_about_anew() -> None:
    table, evaluator = czech(), keeping(czech(), 6)
    evaluator.evaluate(KDSF_ALL)
    assert evaluator.refutations is not None
    public = knows(table, KDSF_ALL)
    assert evaluator.refutations.of(public, 6) is not None
    assert evaluator.refutations.of(public, 5) is None
    assert evaluator.refutations.of(knows(table, frontier("ABCDE", "ABDEF")), 6) is None
    zeros = StructuralZeros((tuple((v, (code,)) for v, code in enumerate((1, 0, 0, 1, 1, 1))),))
    assert replace(evaluator.refutations, zeros=zeros).of(public, 6) is None
    assert evaluator.anew().refutations == Refutations()


def test_the_search_for_one_ends_with_its_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is refuted stays so; its support is as small as the steps went."""
    monkeypatch.setattr(asked, "STEPS", asked.STEPS_AT_LEAST + 3**6)
    refutation = keeping(czech(), 6).evaluate(KDSF_ALL).refutation
    assert refutation is not None
    assert refutation.support == KDSF_ALL.frontier
    monkeypatch.setattr(asked, "MOST_VARIABLES", 5)
    wide = keeping(czech(), 6).evaluate(KDSF_ALL).refutation
    assert wide is not None
    assert wide.upper is not None
    monkeypatch.setattr(asked, "STEPS", 0)
    by_program = keeping(czech(), 6).evaluate(KDSF_ALL).refutation
    assert by_program is not None
    assert by_program.upper is not None


# Forged


def good() -> tuple[Table, Refutation]:
    table = czech()
    refutation = keeping(table, 20).evaluate(frontier("ADEF", "BDEF", "CDEF", "ABF", "ACF", "BCF")).refutation
    assert refutation is not None
    assert refutation.upper is not None
    return table, refutation


def test_what_is_not_so_does_not_hold() -> None:
    table, fair = good()
    upper = fair.upper
    assert upper is not None
    (first, codes, y), *others = upper.of
    assert fair.holds(table, NO_ZEROS)
    forged = [
        replace(fair, count=1),
        replace(fair, cell=(0, 0, 0, 0, 0, 0)),
        replace(fair, cell=(1, 0, 0, 1, 1, 1), count=0),
        replace(fair, cell=(7, 0, 0, 0, 0, 0)),
        replace(fair, bounds=(0, fair.bounds[1] - 1)),
        replace(fair, bounds=(1, fair.bounds[1])),
        replace(fair, support=fair.support[1:]),
        replace(fair, upper=None),
        replace(fair, upper=replace(upper, of=((first, codes, y + 100), *others))),
        replace(fair, upper=replace(upper, scale=2 * upper.scale)),
        replace(fair, upper=replace(upper, scale=0)),
        replace(fair, upper=Multipliers(1, (), ())),
        replace(fair, lower=Multipliers(1, (), ()), bounds=(1, fair.bounds[1])),
    ]
    assert [one for one in forged if one.holds(table, NO_ZEROS)] == []
    other = Table.of(table.schema, table.codes, table.counts + (table.counts == 44))
    assert not replace(fair, support=(st.full(6),), upper=None, bounds=(3, 3)).holds(other, NO_ZEROS)


def test_names_are_of_what_is_said() -> None:
    _, fair = good()
    assert fair.name == replace(fair).name
    assert fair.name != replace(fair, bounds=(0, fair.bounds[1] + 1)).name
