"""The definition itself: it stands alone, and gives the published figures."""

import ast
from itertools import combinations
from math import prod
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as hs

from tests import reference
from tests.reference import Fact, Level, TooManyTablesError, exact, feasible, impossible, released

# [DFT] table 1: gender, race, income
DELAWARE = np.array([[[96, 72, 161], [10, 7, 6], [1, 1, 2]], [[186, 127, 51], [11, 7, 3], [0, 1, 0]]])
# [DKS] section 4: the one integer table with its six two-way marginals
DKS = np.array([1, 0, 0, 1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0, 0]).reshape(2, 2, 2, 2)


def test_it_imports_nothing_of_the_program_and_is_short() -> None:
    text = Path(reference.__file__).read_text()
    named = [node for node in ast.walk(ast.parse(text)) if isinstance(node, (ast.Import, ast.ImportFrom))]
    modules = {getattr(node, "module", None) or alias.name for node in named for alias in node.names}
    assert {module.partition(".")[0] for module in modules} <= {
        *("__future__", "collections", "dataclasses", "itertools", "math", "numpy", "typing")
    }
    assert len(text.splitlines()) <= 500


def test_bounds_of_the_published_table() -> None:
    """[DFT] table 1: for the release {race x income, income x gender} an income at a time."""
    numbers = []
    for income, largest in enumerate(([107, 21, 1], [80, 14, 2], [169, 9, 2])):
        tables = feasible((2, 3), released(DELAWARE[:, :, income], [[0], [1]]))
        assert reference.bounds(tables)[:3, 1].tolist() == largest
        numbers.append(len(tables))
    assert numbers == [44, 45, 30]


def test_all_two_way_tables_of_the_published_table_leave_one() -> None:
    assert feasible(DKS.shape, released(DKS, combinations(range(4), 2))).tolist() == [DKS.ravel().tolist()]


@pytest.mark.parametrize(
    ("shape", "margins", "numbers"),
    [
        # semi-magic squares (OEIS A002817, A001496) and three-way tables with all two-way marginals
        ((3, 3), [[0], [1]], [6, 21, 55, 120, 231]),
        ((4, 4), [[0], [1]], [24, 282, 2008]),
        ((3, 3, 3), [[0, 1], [0, 2], [1, 2]], [12, 132, 847]),
    ],
)
def test_numbers_of_tables_with_equal_margins(
    shape: tuple[int, ...], margins: list[list[int]], numbers: list[int]
) -> None:
    for total, number in enumerate(numbers, start=1):
        counts = np.zeros(shape, np.int64)
        for cell in np.ndindex(*shape[1:]):
            counts[(-sum(cell) % shape[0], *cell)] = total
        assert len(feasible(shape, released(counts, margins))) == number


def test_zeros_and_intervals_narrow() -> None:
    counts = np.array([[1, 2], [3, 0]])
    margins = released(counts, [[0], [1]])
    for more, first in (([], [1, 3]), (impossible([(1, 1)]), [1, 1]), ([Fact(frozenset([(0, 0)]), 2, 9)], [2, 3])):
        assert reference.bounds(feasible((2, 2), [*margins, *more]))[0].tolist() == first


def test_too_many_and_none() -> None:
    counts = np.full((3, 3), 50)
    with pytest.raises(TooManyTablesError):
        feasible(counts.shape, exact(counts, []), most=1000)
    none = [Fact(frozenset([(0,), (1,)]), 3, 3), Fact(frozenset([(0,)]), 0, 1), *impossible([(1,)])]
    assert len(feasible((2,), none)) == 0


def test_levels_are_closed_by_what_follows() -> None:
    """Who has the area has its region; two regionings together tell the area."""
    north, east = Level(0, (0, 0, 1, 1)), Level(0, (0, 1, 0, 1))
    variables = [0, north, east, 1]
    assert reference.closure((4, 2), variables, [0]) == {0, north, east}
    assert reference.closure((4, 2), variables, [north, east, 1]) == {0, north, east, 1}
    assert len(reference.closed_subtables((4, 2), variables)) == 4 * 2
    counts = np.array([[1, 0], [2, 0], [0, 3], [0, 4]])
    assert reference.marginal(counts, [north, 1]) == {(0, 0): 3, (0, 1): 0, (1, 0): 0, (1, 1): 7}


@given(hs.sampled_from([(2, 2), (2, 3), (2, 2, 2)]), hs.data())
def test_explicit_critical_widths_are_those_of_a_listing(shape: tuple[int, ...], data: hs.DataObject) -> None:
    """[DKS] theorem 1 for the most parsimonious release."""
    drawn = data.draw(hs.lists(hs.integers(0, 3), min_size=prod(shape), max_size=prod(shape)))
    counts = np.array(drawn).reshape(shape)
    subtable = data.draw(hs.sampled_from(reference.query_space(len(shape))))
    codes = np.array(reference.every_cell(shape))
    explicit = reference.explicit_critical_width(codes, counts.reshape(-1), subtable, 2)
    try:
        assert reference.critical_width(counts, subtable, 2) == explicit
    except TooManyTablesError:
        return


def test_numbers_of_decomposable_graphs() -> None:
    """Chordal labelled graphs (OEIS A058862)."""
    for size, number in enumerate((1, 2, 8, 61, 822), start=1):
        pairs = [*combinations(range(size), 2)]
        graphs = [frozenset(some) for many in range(len(pairs) + 1) for some in combinations(pairs, many)]
        assert sum(reference.is_decomposable(graph, size) for graph in graphs) == number


def test_the_cheapest_pattern_hides_a_square() -> None:
    """One small count takes one more in its row, one in its column, and their corner."""
    counts = np.array([[1, 20, 9], [30, 40, 8], [7, 6, 50]])
    found = reference.cheapest_pattern(counts[:2, :2], [0, 1], 1, 1, released(counts[:2, :2], [[0], [1]]))
    assert found == {0, 1, 2, 3}
    assert reference.is_safe_pattern(counts, [0, 1], {0, 2, 6, 8}, 1, 2, released(counts, [[0], [1]]))
    assert not reference.is_safe_pattern(counts, [0, 1], {0, 2}, 1, 2, released(counts, [[0], [1]]))


def test_a_rounding_keeps_its_margins() -> None:
    counts = np.array([[1, 1], [1, 1]])
    found = {tuple(one.reshape(-1).tolist()) for one in reference.controlled_roundings(counts, 3, [[0], [1], []])}
    assert found == {(0, 3, 3, 0), (3, 0, 0, 3), (0, 0, 0, 3), (0, 0, 3, 0), (0, 3, 0, 0), (3, 0, 0, 0)}


def test_decisions_that_look_at_the_table_tell_of_it() -> None:
    """A request is refused for the small count, which another table with the same total does not have."""
    counts = np.array([[1, 2], [2, 4]])

    def decide(truth: reference.Counts) -> list[bool]:
        return reference.decisions([[0], [1], [0, 1]], lambda t: reference.is_releasable(truth, t, 1, 2))

    assert decide(counts) == [True, True, False]
    assert not reference.is_simulatable(counts, [[0], [1]], decide)
    assert reference.is_simulatable(counts, [[0, 1]], decide)


def test_the_published_posteriors() -> None:
    """[DFT] section 5: of (male, Chinese, low income) under three laws, exact values."""
    counts = DELAWARE[:, :, 0]
    tables = feasible((2, 3), released(counts, [[0], [1]]))
    models = {"saturated": {"alpha": 0.5, "of": [[0, 1]]}, "released": {}}
    laws = {
        name: reference.posterior(tables, [reference.log_weight(t.reshape(2, 3), **model) for t in tables])[2]
        for name, model in models.items()
    }
    assert laws["saturated"] == pytest.approx({0: 0.499, 1: 0.501}, abs=6e-4)
    assert laws["released"] == pytest.approx({0: 0.648, 1: 0.352}, abs=6e-4)
