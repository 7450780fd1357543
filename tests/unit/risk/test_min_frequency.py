"""The n-rule against every count of every implied marginal; with the width, in searches, in parts, and in builds."""

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from scipy.optimize import linprog

from sdc.api import assess, find_release, why
from sdc.config.methods import METHODS
from sdc.model import subtable as st
from sdc.model.errors import InputError, NothingReleasableError, NotReleasableError, ReleaseError
from sdc.model.release import NOTHING, Release
from sdc.model.structural_zeros import NO_ZEROS
from sdc.model.table import Table
from sdc.protect.release import protect
from sdc.protect.request import ProtectionRequest
from sdc.risk.criteria import Criteria
from sdc.risk.evaluator import RiskEvaluator
from sdc.risk.min_frequency import MinFrequency
from sdc.risk.verdict import Verdict
from sdc.stages.resolved import knowledge
from tests import reference
from tests.levels import closed_sets, dense_of, named, random_schema, random_table
from tests.profiles import scaled
from tests.strategies import dense, knows, schema_of

CASES = 300


def breaks(counts: np.ndarray, release: Release, n: int) -> bool:
    """By all implied marginals."""
    return reference.breaks_threshold(counts, reference.downward_closure(map(st.members, release.frontier)), n)


def tables(rng: np.random.Generator, number: int) -> Iterator[tuple[Table, np.ndarray]]:
    """Sparse ones with an at-risk cell or two, of 2 to 4 variables."""
    while number:
        sizes = rng.integers(2, 4, rng.integers(2, 5)).tolist()
        counts = rng.integers(0, 9, sizes) * (rng.random(sizes) < rng.choice([0.5, 0.9]))
        if 0 < counts[counts > 0].min(initial=9) <= 2:
            number -= 1
            yield dense(schema_of(sizes), counts.reshape(-1).tolist()), counts


def random_release(rng: np.random.Generator, variables: int) -> Release:
    return Release.of(rng.integers(1, 1 << variables, rng.integers(1, 4)).tolist())


def test_a_release_is_refused_by_the_rule_exactly_where_a_count_breaks_it(night: list[int]) -> None:
    """And else for the width alone: by every count that is implied."""
    rng, verdicts = np.random.default_rng([45, *night]), Counter[tuple[bool, Verdict]]()
    for table, counts in tables(rng, scaled(CASES, fewest=100)):
        release, n, width = random_release(rng, counts.ndim), int(rng.integers(2, 12)), int(rng.integers(1, 4))
        found = assess(table, knows(table, release), min_width=width, min_frequency=n)
        without = assess(table, knows(table, release), min_width=width)
        broken = breaks(counts, release, n)
        assert (found.broken is not None) == broken
        assert found.verdict is (Verdict.UNSAFE if broken else without.verdict)
        if found.broken is not None:
            count = int(found.broken.detail.rpartition(" ")[2].replace("records", "0")) or counts.sum()
            implied = reference.downward_closure(map(st.members, release.frontier))
            assert any(count in reference.marginal(counts, t).values() for t in implied)
        verdicts[broken, without.verdict] += 1
    assert {(True, Verdict.SAFE), (False, Verdict.SAFE), (False, Verdict.UNSAFE)} <= verdicts.keys()


def test_so_it_is_of_levels(night: list[int]) -> None:
    """Merged counts are published counts too: of every closed sub-table that is implied."""
    rng, seen = np.random.default_rng([46, *night]), Counter[bool]()
    for _ in range(scaled(CASES, fewest=60)):
        schema = random_schema(rng)
        table = random_table(rng, schema)
        n, release = int(rng.integers(2, 5)), Release.of(rng.choice(closed_sets(schema), 2).tolist()).closed(schema)
        if not table.total:
            continue
        implied = [named(schema, t) for t in closed_sets(schema) if t in release]
        broken = reference.breaks_threshold(dense_of(table), implied, n)
        assert (MinFrequency(n).broken(table, knows(table, release)) is not None) == broken
        seen[broken] += 1
    assert min(seen[True], seen[False]) > 0


@pytest.mark.parametrize("method", METHODS)
def test_what_a_search_releases_keeps_the_rule(method: str, night: list[int]) -> None:
    rng, found = np.random.default_rng([47, *night]), Counter[bool]()
    for table, counts in tables(rng, scaled(CASES // 4, fewest=4)):
        n = int(rng.integers(2, 12))
        given = {"chains": 1, "steps": 200} if method in ("best", "decomposable") else {}
        given |= {"draws": 20, "share": 0.2} if method == "simulatable" else {}
        try:
            release = find_release(table, method, knowledge(table), min_width=2, min_frequency=n, **given).release
        except ReleaseError:
            found[False] += 1
            continue
        assert not breaks(counts, release, n)
        found[True] += 1
    assert found[True] > 0


def test_a_width_implies_the_rule_for_what_may_be_a_small_cell(night: list[int]) -> None:
    """Who knows a count of c records knows of each cell in it that it has 0 to c: its width is c at most.

    A cell with records is in it, with at most c; that is at risk where c is no more than the small count. So no count
    from 1 to min(small count, width - 1) is public.
    """
    rng, safe = np.random.default_rng([49, *night]), 0
    for table, counts in tables(rng, scaled(CASES, fewest=100)):
        release, width, small = random_release(rng, counts.ndim), int(rng.integers(1, 6)), int(rng.integers(1, 6))
        if assess(table, knows(table, release), min_width=width, small_count=small).releasable:
            safe += 1
            assert not breaks(counts, release, min(small + 1, width))
    assert safe > 0


def test_a_width_does_not_imply_it_of_larger_counts() -> None:
    """A count of 4 of a cell that is not at risk is public whole, whatever width the others keep."""
    table = dense(schema_of([2, 2]), [4, 30, 30, 1])
    assert assess(table, knows(table, Release.of([1, 2])), min_width=6).releasable
    alone = dense(schema_of([3]), [4, 30, 1])
    assert not assess(alone, knows(alone, Release.of([1])), min_width=6).releasable
    level = dense(schema_of([2, 3]), [4, 0, 0, 0, 30, 1])  # a = 0 has 4 records, all in one cell
    told = knows(level, Release.of([1]))
    assert assess(level, told, min_width=6).releasable
    found = assess(level, told, min_width=6, min_frequency=5)
    assert found.broken is not None
    assert (found.releasable, found.broken.detail) == (False, "A: the cell A = 0 has the count 4")
    broken = "A has a count from 1 to 4, which the minimum frequency of 5 excludes"
    assert repr(found) == f"Assessment: unsafe, {broken}; small_count=2"


def test_parts_withhold_what_the_rule_excludes(night: list[int]) -> None:
    """Neither a count that is shown nor a sum of such is excluded; and none that is keeps less than the width."""
    rng, parts, larger = np.random.default_rng([50, *night]), 0, 0
    for table, counts in tables(rng, scaled(CASES // 2, fewest=16)):
        n, view = int(rng.integers(3, 8)), int(rng.integers(1, 1 << counts.ndim))
        criteria, rule = Criteria.of(2, 2, min_frequency=n), MinFrequency(n)
        alone = [1 << v for v in st.members(view) if rule.keeps(table, NO_ZEROS, 1 << v)]
        evaluator = RiskEvaluator(table, knows(table, Release.of(alone[: rng.integers(3)])), criteria)
        whole = evaluator.evaluate(NOTHING)
        if view in evaluator.known.release or not evaluator.accepts(whole):
            continue
        found = protect(evaluator, whole, [ProtectionRequest(view)])
        assert evaluator.criteria.broken(table, found.evaluation.knowledge) is None
        for part in found.suppressed_tables.tables:
            out = tuple(axis for axis in range(counts.ndim) if not st.has(view, axis))
            own, told = counts.sum(axis=out), part.fact.exactly(table.schema).reshape(counts.sum(axis=out).shape)
            assert not ((own > 0) & (own < n) & told).any()
            for axis in range(own.ndim):
                sums = own.sum(axis=axis)[told.all(axis=axis)]
                assert not ((sums > 0) & (sums < n)).any()
            known = [axis for axis, v in enumerate(st.members(view)) if 1 << v in evaluator.known.release]
            few = np.flatnonzero((own > 0) & (own < n))
            before, after = (widths(own, shown, known, few) for shown in (np.zeros_like(told), told))
            assert (after[before >= 2] >= 2).all()
            larger += int((own.reshape(-1)[few] > 2).sum())
            parts += 1
    assert min(parts, larger) > 0


def widths(counts: np.ndarray, told: np.ndarray, known: list[int], cells: np.ndarray) -> np.ndarray:
    """Of some cells by those that are told and the sums along all other axes than each of these, by linear programs."""
    grid = np.indices(counts.shape).reshape(counts.ndim, -1)
    rows = [np.ones(counts.size), *np.eye(counts.size)[told.reshape(-1)]]
    rows += [grid[axis] == code for axis in known for code in range(counts.shape[axis])]
    sums = np.array(rows, float)
    ends = [
        [linprog(sign * one, A_eq=sums, b_eq=sums @ counts.reshape(-1)).fun for sign in (1, -1)]
        for one in np.eye(counts.size)[cells]
    ]
    return np.round([-low - high for low, high in ends], 6)


# What is refused


def test_an_n_that_excludes_nothing() -> None:
    table = dense(schema_of([2]), [1, 9])
    with pytest.raises(InputError, match="min_frequency is 1; give at least 2, or no count is excluded"):
        assess(table, knows(table, NOTHING), min_width=1, min_frequency=1)


@pytest.mark.parametrize("method", METHODS)
def test_a_rule_that_not_even_the_total_keeps(method: str) -> None:
    table = dense(schema_of([2, 2]), [1, 2, 3, 4])
    with pytest.raises(
        NothingReleasableError, match=r"10 records, and the minimum frequency of 11 .* frequency of at most 10"
    ):
        find_release(table, method, knowledge(table), min_width=1, min_frequency=11)
    MinFrequency(10).require_total(table)


def test_a_rule_that_a_one_way_sub_table_breaks_leaves_chains_nothing() -> None:
    """The ordered search does without it."""
    table = dense(schema_of([2, 2]), [1, 2, 30, 40])
    with pytest.raises(NothingReleasableError, match=r"A has a count from 1 to 4, .*, and every decomposable") as found:
        find_release(table, "decomposable", knowledge(table), min_width=1, min_frequency=5)
    assert "A = 0 has the count 3" in found.value.detail
    assert find_release(table, "ordered", knowledge(table), min_width=1, min_frequency=5).frontier == ["B"]
    for n, kept in ((5, [0b10]), (4, [0b10]), (3, [0b01, 0b10])):  # the least count of A is 3
        assert list(Criteria.of(2, 1, min_frequency=n).keeping(table, NO_ZEROS, [0b01, 0b10, 0b11])) == kept
    best = find_release(table, "best", knowledge(table), min_width=1, min_frequency=5)
    assert best.reason is not None
    assert "reaches the minimum width 1 and keeps the rules" in best.reason


@pytest.mark.parametrize("method", ["ordered", "bisection", "best"])
def test_a_table_without_a_small_cell_may_break_it_too(method: str) -> None:
    """Nothing is at risk; that everything may go out is no longer so."""
    table = dense(schema_of([2, 2]), [3, 9, 30, 40])
    assert find_release(table, method, knowledge(table), min_width=3).frontier == ["A*B"]
    assert find_release(table, method, knowledge(table), min_width=3, min_frequency=5).frontier == ["A", "B"]
    with pytest.raises(InputError, match="no cell is at risk, but other rules exclude some sub-tables"):
        find_release(table, "decomposable", knowledge(table), min_width=3, min_frequency=5)


def test_a_required_sub_table_that_breaks_it() -> None:
    table = dense(schema_of([2, 2]), [3, 9, 30, 1])
    with pytest.raises(NotReleasableError, match=r"A\*B is not releasable: A\*B has a count from 1 to 4") as found:
        find_release(table, "ordered", knowledge(table), min_width=1, min_frequency=5, require=["A*B"])
    assert found.value.detail == "A*B: the cell A = 1, B = 1 has the count 1"
    reason = why(table, ["A", "B"], "A*B", min_width=1, min_frequency=5)
    proof = "refused, proven: A*B has a count from 1 to 4, which the minimum frequency of 5 excludes"
    assert reason.proof(table.schema) == proof
