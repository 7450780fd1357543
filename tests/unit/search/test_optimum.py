"""The method optimum: the Czech table, every down-set of small random tables, bounds, constraints and refusals."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

import sdc
from sdc.model import subtable as st
from sdc.model.errors import ConfigError, InputError
from sdc.model.table import Table
from sdc.risk.criteria import Criteria
from sdc.risk.posterior_limit import PosteriorLimit
from sdc.search import optimum
from sdc.solve.down_sets import DownSets
from tests import reference
from tests.strategies import schema_of

BEST = {6: 59, 10: 56, 20: 52}
"""Of the Czech table by width, without the grand total; the ordered search finds 51 at 20."""

DownSet = frozenset[frozenset[int]]


@pytest.mark.parametrize("min_width", BEST)
def test_the_best_release_of_the_czech_table(min_width: int, czech: Table) -> None:
    found = sdc.find_release(czech, "optimum", min_width=min_width)
    assert (found.sub_tables, found.bound) == (BEST[min_width], BEST[min_width])
    assert found.assessment.releasable
    assert "No release is better" in (found.reason or "")


def all_down_sets(axes: int) -> list[DownSet]:
    """Every set of sub-tables that has with each all within it, the grand total apart."""
    ordered = sorted((t for t in reference.query_space(axes) if t), key=len)
    found: list[DownSet] = [frozenset()]
    for t in ordered:
        smaller = [t - {v} for v in t if len(t) > 1]
        found += [held | {t} for held in found if all(child in held for child in smaller)]
    return found


def best_value(axes: int, is_safe: Callable[[DownSet], bool], value: Callable[[DownSet], int]) -> int:
    """Of all down-sets, the most valuable first."""
    known = dict[DownSet, bool]()
    for held in sorted(all_down_sets(axes), key=lambda held: -value(held)):
        if not any(refuted <= held for refuted, safe in known.items() if not safe):
            known[held] = is_safe(held)
            if known[held]:
                return value(held)
    raise AssertionError("not even the grand total is safe")


@some.composite
def sparse_tables(draw: some.DrawFn, axes: int, records: int) -> Table:
    cell = some.tuples(*(some.integers(0, 1) for _ in range(axes)))
    cells = draw(some.lists(cell, min_size=2, max_size=records, unique=True))
    counts = [draw(some.integers(1, 3 if number else 2)) for number in range(len(cells))]
    return Table.of(schema_of([2] * axes), np.array(cells), np.array(counts))


def judged(table: Table, min_width: int, weights: dict[str, float] | None = None) -> None:
    """What the method finds beside a search through all down-sets."""
    axes = len(table.schema)
    counts = np.zeros(table.schema.sizes, np.int64)
    counts[tuple(table.codes.T)] = table.counts
    own = [(weights or {}).get(variable.name, 1) for variable in table.schema.variables]

    def is_safe(held: DownSet) -> bool:
        release = [sorted(t) for t in held] or [[]]
        return reference.is_releasable(counts, release, 2, min_width)

    def value(held: DownSet) -> int:
        return sum(int(np.prod([own[v] for v in t])) for t in held)

    expected = best_value(axes, is_safe, value)
    found = sdc.find_release(table, "optimum", min_width=min_width, **{"weights": weights} if weights else {})
    held = frozenset(frozenset(st.members(t)) for t in found.release.views(table.schema) if t)
    assert (value(held), found.bound) == (expected, expected)
    assert is_safe(held)


@given(sparse_tables(3, 4), some.integers(1, 3))
@settings(max_examples=15, deadline=None)
def test_no_down_set_is_better(table: Table, min_width: int) -> None:
    judged(table, min(min_width, table.total))


@given(sparse_tables(3, 4), some.integers(1, 3), some.tuples(*[some.integers(1, 3)] * 3))
@settings(max_examples=10, deadline=None)
def test_no_down_set_is_worth_more(table: Table, min_width: int, weights: tuple[int, ...]) -> None:
    names = [variable.name for variable in table.schema.variables]
    judged(table, min(min_width, table.total), {n: float(w) for n, w in zip(names, weights, strict=True)})


def test_a_sub_table_may_be_worth_more_than_all_one_way_sub_tables() -> None:
    """A*C goes out alone, and with no B: its critical width, beside all one-way sub-tables, is 0."""
    table = Table.of(schema_of([2, 2, 2]), np.array([[0, 1, 0], [1, 1, 1]]), np.array([2, 2]))
    judged(table, 1, {variable.name: worth for variable, worth in zip(table.schema.variables, (3, 1, 3), strict=True)})


def test_required_and_forbidden_sub_tables(czech: Table) -> None:
    found = sdc.find_release(czech, "optimum", min_width=20, require=["A*C*D*E"], forbid=["B*D"], small_count=2)
    names = {st.label(t, czech.schema) for t in found.release.views(czech.schema)}
    assert "A*C*D*E" in names
    assert not {name for name in names if {"B", "D"} <= {*name.split("*")}}
    assert found.bound == found.sub_tables


def test_an_open_proposal_leaves_a_bound(czech: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """No conflict is found: the release of the ordered search stays, and the bound is that of the proposal."""
    monkeypatch.setattr(optimum.OptimumSearch, "_conflicts", lambda *_: iter(()))
    monkeypatch.setattr(DownSets, "exclude", lambda *_: None)
    found = sdc.find_release(czech, "optimum", min_width=20)
    assert found.bound is not None
    assert found.sub_tables < found.bound
    share = 100 * found.sub_tables / found.bound
    assert f"at least {share:.1f} % of the utility of the best release" in (found.reason or "")


def test_what_cannot_be_asked(czech: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="choose best"):
        sdc.find_release(czech, "optimum", min_width=3, objective="reconstruction")
    with pytest.raises(ConfigError, match="not monotone"):
        sdc.find_release(czech, "optimum", criteria=Criteria.of(2, 3, PosteriorLimit(max_above=0.1)))
    monkeypatch.setattr(optimum, "MOST_LISTED", 10)
    with pytest.raises(InputError, match="at most 10"):
        sdc.find_release(czech, "optimum", min_width=3)


@given(some.data())
@settings(max_examples=30, deadline=None)
def test_best_down_sets_beside_all(data: some.DataObject) -> None:
    n = data.draw(some.integers(1, 6))
    values = [data.draw(some.integers(0, 5)) for _ in range(n)]
    below = [sorted(data.draw(some.sets(some.integers(0, k - 1), max_size=2))) if k else [] for k in range(n)]
    excluded = data.draw(some.lists(some.sets(some.integers(0, n - 1), min_size=1), max_size=4))
    sets = [{k for k in range(n) if bits >> k & 1} for bits in range(1 << n)]
    fits = [s for s in sets if all(low in s for k in s for low in below[k]) and not any(e <= s for e in excluded)]
    master = DownSets(values, below)
    for members in excluded:
        master.exclude(members)
    found = master.best()
    assert found is not None
    most = max(sum(values[k] for k in s) for s in fits)
    assert set(found.members) in fits
    assert found.value == found.bound == most
