"""What users wish: patterns, required sub-tables against brute force, forbidden ones under every method."""

from fractions import Fraction
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from pydantic import ValidationError

from sdc import api
from sdc.config.given import with_given
from sdc.config.release import ReleaseConfig
from sdc.model import subtable as st
from sdc.model.errors import InputError, NothingReleasableError, ReleaseError
from sdc.model.release import NOTHING, Release
from sdc.model.schema import Schema, Variable
from sdc.model.table import Table
from sdc.risk.assessment import Assessment
from sdc.risk.criteria import Criteria, Evaluation
from sdc.risk.verdict import Verdict
from sdc.search.constraints import Constraints, named
from sdc.search.required import RequiredSearch, cheapest_hitting_set
from sdc.utility.measures import Demand, Weights
from tests.strategies import czech as czech_table
from tests.strategies import knows

ABCDEF = Schema(tuple(Variable(name, ("0", "1")) for name in "ABCDEF"))


def labels(*patterns: object) -> list[str]:
    release = with_given(ReleaseConfig(), {"require": patterns})
    return [st.label(t, ABCDEF) for t in named("require", release.require, ABCDEF)]


def test_patterns_name_sub_tables() -> None:
    assert labels("B*A") == ["A*B"]
    assert labels({"all": 1}) == labels("all:1") == list("ABCDEF")
    assert len(labels({"all": 2})) == 15
    assert labels({"of": ["C", "A", "B"], "up_to": 2}) == labels("A*B*C:2") == ["A*B", "A*C", "B*C"]
    assert labels({"of": ("A", "B", "C")}) == ["A*B*C"]
    assert labels("A*B", {"of": ["A", "B"]}, "C") == ["A*B", "C"]


def test_one_section_protects_all_that_it_lists() -> None:
    def views(*sections: object) -> list[str]:
        release = with_given(ReleaseConfig(), {"protect": sections})
        return [st.label(one.view, ABCDEF) for one in Constraints.of(ABCDEF, release).protect]

    assert views({"of": ["B*A", {"of": ["C", "D", "E"], "up_to": 2}]}) == ["A*B", "C*D", "C*E", "D*E"]
    assert views({"of": ["A*B", "C"]}) == views({"of": "A*B"}, {"of": "C"})
    assert views({"of": ["A", "B"]}) == views({"of": [["A", "B"]]}) == ["A*B"]  # a list of names is one, as elsewhere
    with pytest.raises(InputError, match=r"protect names A\*B in two sections"):
        views({"of": ["A*B", "C"]}, {"of": "B*A"})
    for several in ([], ["A", "B"]):
        with pytest.raises(ValidationError, match=r"write A\*B for one|at least 1 item"):
            ReleaseConfig.model_validate({"protect": [{"of": several}]})


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("A*X", r"require 'A\*X': sub-table 'A\*X' names the unknown variable 'X'"),
        ({"all": 7}, "require 'all:7' matches nothing: it asks for 7 of 6 variables"),
        ("A*B:3", r"require 'A\*B:3' matches nothing: it asks for 3 of 2"),
        ("A*B:0", "asks for 0 of 2"),
    ],
)
def test_a_pattern_that_matches_nothing(pattern: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        labels(pattern)


def test_a_pattern_of_too_many() -> None:
    wide = Schema(tuple(Variable(f"v{k}", ("0", "1")) for k in range(40)))
    with pytest.raises(InputError, match="'all:10' is more than 100000 sub-tables; name fewer"):
        named("forbid", ["all:10"], wide)
    with pytest.raises(InputError, match=r"release.require = 'A': should be a list \(a list of sub-tables"):
        with_given(ReleaseConfig(), {"require": "A"})


def test_required_and_forbidden_at_once() -> None:
    with pytest.raises(InputError, match=r"require has A\*B, and forbid B, without which it cannot be released"):
        Constraints.of(ABCDEF, ReleaseConfig(require=("A*B",), forbid=("B",)))


# Required sets by brute force, under a criterion that refuses what it is told to


def judged(table: Table, refused: list[set[int]], release: Release) -> Evaluation:
    safe = not any(all(t in release for t in together) for together in refused)
    verdict = Verdict.SAFE if safe else Verdict.UNSAFE
    criteria = Criteria.of(2, 1)
    answer = Assessment(verdict, 1, (int(safe), int(safe)), 1, 0, ())
    return Evaluation(criteria, knows(table, NOTHING), release, answer, criteria.pool(table))


sub_tables = some.lists(
    some.sampled_from([t for t in range(1, 64) if st.dimension(t) == 2]), min_size=1, max_size=7, unique=True
)


@given(sub_tables, some.data())
@settings(max_examples=80)
def test_conflicts_are_minimal_and_the_subset_is_the_best(required: list[int], data: some.DataObject) -> None:
    table = czech_table()
    sets = some.sets(some.sampled_from(required), min_size=1, max_size=4)
    refused = data.draw(some.lists(sets, max_size=5))
    worth = {t: Fraction(data.draw(some.integers(1, 5))) for t in required}
    search = RequiredSearch(
        lambda release: judged(table, refused, release), lambda evaluation: evaluation.verdict is Verdict.SAFE, worth
    )
    found = search.run(required, judged(table, refused, Release.of([])))

    def fits(chosen: tuple[int, ...]) -> bool:
        return judged(table, refused, Release.of(chosen)).verdict is Verdict.SAFE

    kept = tuple(t for t in required if t not in found.refused)
    assert found.is_best
    assert fits(kept)
    every = [c for n in range(len(required) + 1) for c in combinations(required, n) if fits(c)]
    assert sum(worth[t] for t in kept) == max(sum(worth[t] for t in chosen) for chosen in every)
    for conflict in found.conflicts:
        assert conflict.proven
        assert not fits(conflict.sub_tables)
        assert all(fits(tuple(t for t in conflict.sub_tables if t != left)) for left in conflict.sub_tables)
    assert bool(found.conflicts) == bool(found.refused)


@given(some.lists(some.sets(some.integers(1, 6), min_size=1), max_size=5))
def test_the_cheapest_hitting_set(conflicts: list[set[int]]) -> None:
    worth = {t: Fraction(t) for t in range(1, 7)}
    found = cheapest_hitting_set(conflicts, worth)
    assert all(found & conflict for conflict in conflicts)
    hitting = [
        set(chosen)
        for n in range(7)
        for chosen in combinations(range(1, 7), n)
        if all(set(chosen) & c for c in conflicts)
    ]
    assert sum(found) == min(map(sum, hitting))


def test_with_few_questions_what_is_worth_most_is_taken_as_long_as_it_fits() -> None:
    table, required = czech_table(), [3, 5, 6]
    refused = [{3, 5}]
    search = RequiredSearch(
        lambda release: judged(table, refused, release),
        lambda evaluation: evaluation.verdict is Verdict.SAFE,
        dict.fromkeys(required, Fraction(1)),
        questions=1,
    )
    found = search.run(required, judged(table, refused, Release.of([])))
    assert (found.refused, found.is_best) == ((5,), False)


# On the published Czech table, where width 6 keeps ABCDEF, ABCDF, BCDEF and ABCEF back


CHAINS: dict[str, Any] = {"steps": 2_000, "chains": 2}
SHORT: dict[str, dict[str, Any]] = {"ordered": {}, "decomposable": CHAINS, "best": CHAINS, "simulatable": {"draws": 20}}


@pytest.mark.parametrize("method", SHORT)
def test_every_method_has_what_is_required_and_nothing_forbidden(method: str) -> None:
    table = czech_table()
    constraints: dict[str, Any] = {"require": ["A*B*C", "E*F"], "forbid": ["B*D"], **SHORT[method]}
    found = api.find_release(table, method, min_width=6, **constraints)
    wanted = [st.parse(text, table.schema) for text in ("A*B*C", "E*F")]
    assert all(t in found.release for t in wanted)
    assert st.parse("B*D", table.schema) not in found.release
    assert found.evaluation.verdict is Verdict.SAFE
    assert api.assess(table, found.release, min_width=6).releasable


def test_required_sub_tables_that_conflict_are_named() -> None:
    table = czech_table()
    with pytest.raises(
        NothingReleasableError, match=r"do not fit together: A\*B\*C\*D\*F is not releasable \(refused, proven\); drop"
    ) as info:
        api.find_release(table, "ordered", min_width=6, require=["A*B*C*D*F", "A*B"])
    assert "count 1" in info.value.detail or "count 2" in info.value.detail
    assert "count" not in str(info.value)
    found = api.find_release(table, "ordered", min_width=6, require=["A*B*C*D*F", "A*B"], on_conflict="drop")
    assert found.required is not None
    assert [st.label(t, table.schema) for t in found.required.refused] == ["A*B*C*D*F"]
    assert found.sub_tables_with_total == 60


@pytest.mark.parametrize("method", ["decomposable", "simulatable"])
def test_a_decomposable_release_refuses_what_does_not_fit(method: str) -> None:
    table, cycle = czech_table(), ["all:2"]  # every pair joined: one clique, the full table
    with pytest.raises(NothingReleasableError, match="required"):
        api.find_release(table, method, min_width=6, require=cycle, **SHORT[method])
    some_of_it = api.find_release(table, method, min_width=6, require=cycle, on_conflict="drop", **SHORT[method])
    assert some_of_it.evaluation.verdict is Verdict.SAFE


def test_a_forbidden_variable_has_no_decomposable_release() -> None:
    with pytest.raises(ReleaseError, match="has the clique A, which contains a forbidden sub-table"):
        api.find_release(czech_table(), "decomposable", min_width=6, forbid=["A"], steps=200)
    found = api.find_release(czech_table(), "best", min_width=6, forbid=["A"], steps=200)
    assert not found.release.variables & 1
    assert found.reason is not None
    assert "what is required" in found.reason


def test_weights_come_first_in_the_list() -> None:
    """Where not everything fits, what counts more is released rather."""
    table = czech_table()
    for one, other in (("A*B*C*D*F", "A*B*C*E*F"), ("A*B*C*E*F", "A*B*C*D*F")):
        found = api.find_release(table, "ordered", min_width=2, weights={one: 1000.0, other: 0.001})
        without = st.parse(one, table.schema) not in found.release
        assert not (without and st.parse(other, table.schema) in found.release)


def test_demand_is_weighed_and_served() -> None:
    weights = Weights.of(ABCDEF, {"A": 2.0})
    demand = Demand.of(ABCDEF, {"A*B": 3, "B*A": 1, "C": 4})
    added = demand.added_to(weights, ABCDEF)
    assert added.of_sub_table(0b11, ABCDEF) == 2 + 4
    assert added.of_sub_table(0b100, ABCDEF) == 1 + 4
    assert added.of_sub_table(0b1, ABCDEF) == 2
    assert demand.served(Release.of([0b11])) == Fraction(1, 2)
    with pytest.raises(InputError, match="demand for 'A' = 0: give a number more than 0"):
        Demand.of(ABCDEF, {"A": 0})
