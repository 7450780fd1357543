"""The better of both methods, made maximal; why it won; and that one criterion judges both."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from sdc.api import find_release
from sdc.executor import Executor, InProcess
from sdc.model.decomposable_graph import DecomposableGraph
from sdc.model.errors import ConfigError, ReleaseError
from sdc.model.release import Release
from sdc.model.table import Table
from sdc.risk.critical_width import critical_widths
from sdc.risk.verdict import Policy
from sdc.search.best import FoundRelease, ReleaseSearch
from sdc.search.decomposable import SearchState
from sdc.search.grown import Grown
from sdc.search.ordered import OrderedSearch
from sdc.search.simulatable import SimulatableSearch
from sdc.search.step import SearchStep, outlook
from tests.strategies import assert_safe_and_maximal, evaluator_of, frontier_sets, is_safe, scattered, small_tables
from tests.unit.search.test_annealing import random_table
from tests.unit.search.test_decomposable import annealed_search, cooled


def search_of(table: Table, min_width: int, **annealing: object) -> ReleaseSearch:
    asked = evaluator_of(table, min_width)
    short = {**cooled(2000, 20.0, 0.5), "chains": 2, "rounds": 5}
    return ReleaseSearch(
        OrderedSearch(asked, critical_widths(table)),
        annealed_search(asked, **{**short, **annealing}),
        SimulatableSearch(asked),
    )


@pytest.mark.parametrize(("min_width", "with_total"), [(6, 60), (9, 60), (10, 57), (30, 45)])
def test_czech(czech: Table, min_width: int, with_total: int) -> None:
    """The decomposable release of REFERENCE section 2 grows into the ordered one, which is published for 6 to 9."""
    search = search_of(czech, min_width)
    found, annealed = search.run("best"), search.run("decomposable")
    assert found.sub_tables_with_total == with_total
    assert found.release == search.run("ordered").release
    assert found.reason == f"Both methods end at the same release, of utility {with_total - 1}."
    assert (found.method, found.graph, found.trace) == ("best", annealed.graph, annealed.trace)
    assert found.steps[0].phase == "everything"


@given(small_tables(max_records=3, max_cells=12), some.integers(1, 4))
@settings(max_examples=40)
def test_the_best_is_safe_maximal_and_no_smaller_than_either(table: Table, min_width: int) -> None:
    """By the listing of all feasible tables."""
    if not len(table.at_risk(2)) or table.total < min_width:
        return
    search = search_of(table, min_width, **cooled(200, 5.0, 0.5))
    best = search.run("best")
    assert_safe_and_maximal(table, best.release, min_width)
    assert best.value >= search.run("ordered").value
    assert not search.can_anneal() or best.value >= search.run("decomposable").value


def test_a_width_that_no_decomposable_release_reaches(czech: Table) -> None:
    found = search_of(czech, 300).run("best")
    assert (found.sub_tables, found.graph, found.trace) == (13, None, ())
    assert "stands alone: no decomposable release with all variables reaches" in (found.reason or "")
    with pytest.raises(ReleaseError, match="minimum width 2000 is not reached even when only the grand total 1841"):
        search_of(czech, 2000).run("best")
    with pytest.raises(ReleaseError, match="the start graph is not releasable at the minimum width 40"):
        search_of(czech, 40, start=DecomposableGraph.parse("[A,B,C]  [B,C,F]", czech.schema)).run("best")


def test_ties_go_to_the_first_frontier() -> None:
    found = search_of(random_table(91, [3, 2, 2, 3], 58), 2).run("best")
    assert found.value == 10
    assert re.search("extended, wins: .* utility 10 .* smallest width 2; its frontier comes first", found.reason or "")


@pytest.mark.parametrize(
    ("ordered", "annealed", "winner", "named"),
    [
        ((50, 6), (47, 10), "ordered", ("50", "47")),
        ((46.5, 9), (47, 6), "decomposable", ("47", "46.5")),
        ((47, 6), (47, 10), "decomposable", ("47", "smallest width", "10", "6")),
        ((47, 9), (47, 8), "ordered", ("47", "smallest width", "9", "8")),
    ],
)
def test_the_reason(
    ordered: tuple[float, int], annealed: tuple[float, int], winner: str, named: tuple[str, ...], czech: Table
) -> None:
    """The larger utility wins, then the larger smallest width; both are named."""
    search = search_of(czech, 6)
    by_order, chains = valued(search.run("ordered"), *ordered), valued(search.run("decomposable"), *annealed)
    reason = search.best_of(None, chains, by_order, chains).reason or ""
    assert re.match(f"The {winner} release.* wins", reason)
    assert all(word in reason for word in named)


def test_all_candidates_are_reported(czech: Table) -> None:
    """The prefix of REFERENCE section 2, the decomposable release, and what grows from each."""
    found = search_of(czech, 6).run("best")
    assert {one.method: (one.sub_tables, one.min_width) for one in found.candidates} == {
        "bisection": (59, 9),
        "greedy search": (59, 9),
        "annealing": (47, 10),
        "annealing extended": (59, 9),
    }


def test_a_bisection_that_finds_more_wins(czech: Table) -> None:
    prefix, ordered = search_of(czech, 6).run("bisection"), search_of(czech, 30).run("ordered")
    found = search_of(czech, 6).best_of(prefix, None, ordered, None)
    assert (found.method, found.release, found.graph) == ("best", prefix.release, None)
    assert "The bisection release wins: its utility is 59, that of the ordered release 44." in (found.reason or "")


def test_a_bisection_that_wins_is_extended(czech: Table) -> None:
    """A shorter prefix than the longest leaves sub-tables that are still safe."""
    search, shorter = search_of(czech, 6), search_of(czech, 30).run("bisection")
    assert shorter.sub_tables < 59
    found = search.best_of(shorter, None, search_of(czech, 260).run("ordered"), None)
    assert found.sub_tables == 59
    assert found.candidates[-1].method == "bisection extended"


@given(small_tables(max_records=3, max_cells=12), some.integers(1, 3), some.data())
@settings(max_examples=30)
def test_beside_what_is_public_a_graph_found_alone_is_judged_with_it(
    table: Table, min_width: int, data: some.DataObject
) -> None:
    """By the listing of all feasible tables, beside a sub-table that was published before."""
    before = Release.of([data.draw(some.integers(1, (1 << len(table.schema)) - 1))])
    if not len(table.at_risk(2)) or not is_safe(table, frontier_sets(before), min_width):
        return
    found = find_release(table, "best", before, min_width=min_width, steps=50, chains=2)
    both = Release.of([*before.frontier, *found.release.frontier])
    assert is_safe(table, frontier_sets(both), min_width)
    methods = [one.method for one in found.candidates]
    assert ("annealing" in methods) is ("annealing extended" in methods)


def valued(found: FoundRelease, value: float, width: int) -> FoundRelease:
    assessment = replace(found.assessment, min_width=(width, width))
    return replace(found, value=value, evaluation=replace(found.evaluation, assessment=assessment))


def test_chains_go_on_where_they_were(czech: Table) -> None:
    kept: list[SearchState] = []
    search = search_of(czech, 11, checkpoint=kept.append, patience=0)
    whole = search.run("best")
    resumed = search.run("best", kept[2])
    assert len(kept) == 5 + 2
    assert (resumed.release, resumed.trace, resumed.steps) == (whole.release, whole.trace, whole.steps)


def asked_by(executor: Executor, table: Table, policy: Policy = Policy.REFUSE) -> ReleaseSearch:
    search, evaluator = search_of(table, 3), evaluator_of(table, 3, executor=executor, policy=policy)
    ordered, annealed = (replace(one, evaluator=evaluator) for one in (search.ordered, search.decomposable))
    return replace(search, ordered=ordered, decomposable=annealed)


def test_what_is_left_and_what_the_last_questions_gained() -> None:
    steps = [SearchStep("growth", k, (1,) * k, k % 2 == 0, (3, 3), 0, left=40 - k) for k in range(1, 13)]
    assert outlook(steps[:1]) == "at most 39 questions left, the last added 0 sub-tables"
    assert outlook(steps) == "at most 28 questions left, the last 10 added 40 sub-tables"
    assert outlook([replace(steps[1], left=1, added=(1,))]) == "at most 1 question left, the last added 1 sub-table"


def test_a_worker_is_not_believed() -> None:
    """It says that more was found than what it sends shows."""

    class Boasting:
        workers, scratch = 1, None

        def run(
            self, function: Callable[..., Any], table: Table, units: Sequence[Any], is_over: Any = None
        ) -> Iterator[Any]:
            results = InProcess().run(function, table, units)
            everything = Release.of([(1 << len(table.schema)) - 1])
            return (replace(r, release=everything) if isinstance(r, Grown) else r for r in results)

    with pytest.raises(RuntimeError, match="a worker's release is not proven by what it sent"):
        asked_by(Boasting(), scattered()).run("best")


def test_an_unknown_method(czech: Table) -> None:
    with pytest.raises(ConfigError, match="method 'greedy' is unknown; choose one of ordered, bisection, decomposable"):
        search_of(czech, 6).run("greedy")
