"""Large neighbourhood search: the Czech table, exchanges, seeds, workers, deadlines, and random small tables."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

import sdc
from sdc.checkpoint import Checkpoint
from sdc.config.release import NeighbourhoodConfig
from sdc.model import subtable as st
from sdc.model.errors import ConfigError, InputError
from sdc.model.table import Table
from sdc.risk.criteria import Criteria
from sdc.risk.critical_width import critical_widths
from sdc.risk.refutation import Refutations
from sdc.search.constraints import Constraints
from sdc.search.neighbourhood import Improved, NeighbourhoodSearch
from sdc.search.ordered import OrderedSearch
from tests.strategies import frontier_sets, is_safe, small_tables, unknowing

ROUNDS = {"neighbourhood": {"rounds": 5}}


def improved(table: Table, min_width: int, **more: Any) -> sdc.FoundRelease:
    return sdc.find_release(table, more.pop("method", "ordered"), min_width=min_width, **{**ROUNDS, **more})


@pytest.mark.parametrize("method", ["ordered", "best"])
def test_an_exchange_finds_the_best_release_of_the_czech_table(method: str, czech: Table) -> None:
    """At width 20 the ordered search ends with 51 sub-tables, and none has more than 52: see test_optimum."""
    found = improved(czech, 20, method=method)
    assert (found.sub_tables, found.assessment.releasable) == (52, True)
    assert "51 sub-tables became 52" in (found.reason or "")
    if method == "best":
        assert found.candidates[-1].sub_tables == 52


@pytest.mark.parametrize("method", ["ordered", "best"])
def test_points_of_a_curve_are_improved_too(method: str, czech: Table) -> None:
    (point,) = sdc.risk_utility_curve(czech, min_widths=[20], methods=[method], **ROUNDS)
    assert point.sub_tables == 52


def test_nothing_better_leaves_the_release_as_it_is(czech: Table) -> None:
    found, before = improved(czech, 6), sdc.find_release(czech, "ordered", min_width=6)
    assert (found.release, found.steps) == (before.release, before.steps)
    assert "no better release was found" in (found.reason or "")


def test_what_is_required_is_never_given_up(czech: Table) -> None:
    for seed in range(3):
        found = improved(czech, 20, require=["A*B*C", "D*E"], neighbourhood={"rounds": 3, "seed": seed})
        assert all(st.parse(name, czech.schema) in found.release for name in ("A*B*C", "D*E"))


def test_an_exchange_gives_up_all_that_contains_a_support(czech: Table) -> None:
    evaluator = unknowing(czech, Criteria.of(2, 20))
    evaluator.refutations = Refutations(evaluator.known.zeros)
    ordered = OrderedSearch(evaluator, critical_widths(czech))
    found = ordered.run()
    search = NeighbourhoodSearch(ordered, NeighbourhoodConfig(rounds=1), lambda release: len(release.frontier))
    listed = search.exchanges(found.release, evaluator.refutations)
    assert listed
    for one in listed:
        views = set(found.release.views(czech.schema))
        assert set(one.left.views(czech.schema)) == {t for t in views if not st.is_within(one.given_up, t)}
        assert one.hindered
        for candidate in one.hindered:
            refutation = evaluator.refutations.of(evaluator.knows(found.release.add(candidate)), 20)
            assert one.given_up in (refutation.support if refutation else ())


def test_seeds_draw_other_exchanges(czech: Table) -> None:
    evaluator = unknowing(czech, Criteria.of(2, 20))
    evaluator.refutations = Refutations(evaluator.known.zeros)
    ordered = OrderedSearch(evaluator, critical_widths(czech))
    found = ordered.run()
    drawn = set[tuple[int, ...]]()
    for seed in range(4):
        search = NeighbourhoodSearch(ordered, NeighbourhoodConfig(rounds=1, seed=seed), float)
        listed = search.exchanges(found.release, evaluator.refutations)
        drawn.add(tuple(one.given_up for one in search.drawn(listed, found.release, 0)))
    assert len(drawn) > 1


def test_a_killed_search_begins_with_the_best_that_was_proven(czech: Table, tmp_path: Path) -> None:
    """And with nothing that is damaged, or lacks what is required."""

    def searched(kept: Checkpoint, rounds: int, **more: Any) -> Improved:
        ordered = OrderedSearch(unknowing(czech, Criteria.of(2, 20)), critical_widths(czech), checkpoint=kept, **more)
        ordered.evaluator.refutations = Refutations(ordered.evaluator.known.zeros)
        found = OrderedSearch(ordered.evaluator, ordered.widths).run()
        search = NeighbourhoodSearch(
            ordered, NeighbourhoodConfig(rounds=rounds), lambda release: release.sub_tables(czech.schema)
        )
        return search.run(found.evaluation, found.refutations)

    kept = Checkpoint(tmp_path / "search", "0" * 64)
    best = searched(kept, 5)
    again = searched(kept.anew(), 0)
    assert (best.resumed, again.resumed, again.evaluation.release) == (None, True, best.evaluation.release)
    assert again.steps == best.steps
    (part,) = kept.anew().found.values()
    damaged = {**part, "release": part["release"] + 1}
    assert searched(Checkpoint(found={"neighbourhood": damaged}), 0).resumed is False
    lacking = Constraints(require=(st.full(len(czech.schema)),))
    assert searched(kept.anew(), 0, constraints=lacking).resumed is False


def test_a_deadline_ends_the_rounds(czech: Table) -> None:
    found = improved(czech, 20, minutes=1e-6, neighbourhood={"rounds": 50})
    assert found.ended_after


@given(small_tables(max_records=5, max_cells=12), some.integers(1, 4), some.integers(0, 9))
@settings(max_examples=15, deadline=None)
def test_a_release_is_safe_and_no_smaller(table: Table, min_width: int, seed: int) -> None:
    if not len(table):
        with pytest.raises(InputError, match="no records"):
            sdc.find_release(table, "ordered", min_width=min_width)
        return
    min_width = min(min_width, table.total)
    before = sdc.find_release(table, "ordered", min_width=min_width)
    found = improved(table, min_width, neighbourhood={"rounds": 3, "seed": seed})
    assert is_safe(table, frontier_sets(found.release), min_width)
    assert found.sub_tables >= before.sub_tables
    again = improved(table, min_width, neighbourhood={"rounds": 3, "seed": seed})
    assert again.release == found.release


def test_other_methods_have_no_rounds(czech: Table) -> None:
    with pytest.raises(ConfigError, match="neighbourhood"):
        improved(czech, 6, method="bisection")
