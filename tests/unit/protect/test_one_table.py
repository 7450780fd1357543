"""Suppression against every choice of cells, and bounds against every table that agrees."""

from collections.abc import Iterator
from contextlib import suppress as suppress_errors
from itertools import islice
from math import prod

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as hs

from sdc.api import assess
from sdc.api import suppress as suppress_in
from sdc.model import subtable as st
from sdc.model.errors import InputError, NotReleasableError
from sdc.model.release import NOTHING, Release
from sdc.model.structural_zeros import StructuralZeros
from sdc.protect.one_table import Dense, Flags, Suppressed, least_suppressed, suppress
from tests import reference
from tests.profiles import scaled
from tests.reference import TooManyTablesError, feasible
from tests.strategies import dense, knows, schema_of
from tests.suppressed import Case, drawn

CASES = scaled(200, fewest=30)


@settings(max_examples=25, deadline=None)
@example((4,), [1, 1, 5, 4, 0, 0], 1)
@given(hs.sampled_from([(4,), (2, 2), (2, 3)]), hs.lists(hs.integers(0, 5), min_size=6, max_size=6), hs.integers(1, 2))
def test_the_cheapest_cells_are_withheld(shape: tuple[int, ...], drawn: list[int], width: int) -> None:
    counts = np.array(drawn[: int(np.prod(shape))], np.int64).reshape(shape)
    # of one variable the total alone is public, and that each category with records has some
    axes = [*range(len(shape))]
    labels = reference.listed(counts, 0, np.flatnonzero(counts == 0).tolist()) if len(shape) == 1 else ()
    known = reference.released(counts, [[axis] for axis in axes if len(axes) > 1], labels)
    least = reference.cheapest_pattern(counts, axes, 1, width, known)
    if least is None:
        with pytest.raises(NotReleasableError, match="though all cells are suppressed"):
            suppress(counts, 1, width)
        return
    found = suppress(counts, 1, width)
    assert found.optimal
    assert (counts[found.withheld] + 1).sum() == (counts.reshape(-1)[[*least]] + 1).sum()
    hidden = np.flatnonzero(found.withheld).tolist()
    tables = feasible(counts.shape, [*known, *reference.suppressed(counts, axes, hidden)])
    assert np.array_equal(reference.bounds(tables)[reference.at_risk(counts, 1)], found.bounds)


@settings(max_examples=50)
@given(hs.sampled_from([(2, 2), (2, 3), (3, 3), (4, 5)]), hs.data())
def test_no_choice_withholds_less_than_the_least(shape: tuple[int, ...], data: hs.DataObject) -> None:
    """Beside all margins; and it is the small cells, and one more in each line where one of them is alone."""
    drawn = data.draw(hs.lists(hs.integers(0, 6), min_size=prod(shape), max_size=prod(shape)))
    counts = np.array(drawn).reshape(shape)
    small = (counts > 0) & (counts <= 2)
    try:
        found = suppress(counts, 2, 2)
    except NotReleasableError:
        return
    assert least_suppressed(small, [True, True]) <= found.withheld.sum()
    assert least_suppressed(small, [False, False]) == small.sum()
    rows = sum(int(row.sum() == 1) for row in small)
    assert least_suppressed(small, [False, True]) == small.sum() + rows


def test_out_of_solves_a_choice_still_protects() -> None:
    counts = np.random.default_rng(1).integers(1, 9, (4, 4))
    found = suppress(counts, 1, 2, solves=0)
    assert not found.optimal
    assert (found.bounds[:, 1] - found.bounds[:, 0] >= 2).all()


@pytest.mark.parametrize(
    ("counts", "small", "width", "message"),
    [
        ([[1, -1]], 1, 1, "below 0"),
        ([], 1, 1, "0 cells"),
        ([1, 2], 0, 1, "small_count = 0"),
        ([1, 2], 1, 0, "min_width = 0"),
    ],
)
def test_what_cannot_be_treated_is_refused(counts: list[int], small: int, width: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        suppress(np.array(counts, np.int64), small, width)


def test_a_sub_table_without_a_small_count_may_tell_one_of_the_table() -> None:
    """By itself nothing would be withheld, and beside what is released it tells of a count of the whole table."""
    counts = [0, 30, 5, 1, 30, 5, 2, 1, 0, 9, 9, 30, 30, 30, 0, 0, 9, 9]
    table, release = dense(schema_of([2, 3, 3]), counts), ["A", "B", "C"]
    assert assess(table, release, min_width=4).releasable
    assert assess(table, [*release, "A*B"], min_width=4).releasable is False
    assert not suppress_in(table, "A*B", small_count=2, min_width=4).withheld.any()
    found = suppress_in(table, "A*B", public=release, small_count=2, min_width=4)
    assert found.withheld.sum() == 4
    known = Release.of(st.parse(name, table.schema) for name in release)
    with pytest.raises(InputError, match=r"A is in the release unchanged"):
        suppress_in(table, "A", public=known, small_count=2, min_width=4)
    with pytest.raises(NotReleasableError, match=r"whatever is suppressed: without it the verdict is unsafe"):
        suppress_in(table, "A*B*C", public=["A*B"], small_count=2, min_width=4)


def suppressed(case: Case) -> Suppressed:
    """Which cells of its sub-table are withheld, none of them known to be 0."""
    name = st.label(case.views[0], case.table.schema)
    found = suppress_in(case.table, name, public=case.known, small_count=case.small_count, min_width=case.min_width)
    assert case.of(case.views[0], ~case.is_impossible)[0][found.withheld.reshape(-1)].all()
    return found


def agreeing(case: Case, withheld: Flags, *, margins: bool = True) -> Dense:
    """All tables that agree with the public cells of its sub-table, and with the margins of that."""
    told = st.children(case.views[0], case.table.schema) if margins else ()
    return case.agreeing([withheld.reshape(-1)], told)


def cases(rng: np.random.Generator, *, beside: bool) -> Iterator[Case]:
    """Of one sub-table each, with a count at risk, of which all tables that agree can be listed, without end."""
    shapes = [[2, 2, 2], [2, 3, 2], [3, 3], [2, 4], [2, 2, 3], [2, 4, 2]]
    while True:
        table, known = drawn(rng, shapes, 3, beside, 2 * beside)
        full = st.full(len(table.schema))
        subtable, small, width = (int(rng.integers(1, end)) for end in (full + 1, 3, 4))
        if (beside and (subtable in known.release or known.release == NOTHING)) or not len(table.at_risk(small)):
            continue
        case = Case(table, known, (subtable,), small, width)
        with suppress_errors(TooManyTablesError):
            agreeing(case, np.ones(st.cells(subtable, table.schema), np.bool_))
            yield case


def test_whoever_knows_the_zeros_and_the_margins_pins_no_small_count(night: list[int]) -> None:
    """And where it is refused, not even withholding all of it and its margins would do."""
    protected, without_margins, refused = 0, 0, 0
    for case in islice(cases(np.random.default_rng([1, *night]), beside=False), CASES):
        (view,) = case.views
        own, told = case.of(view, case.table.dense)[0], False
        withheld, small = np.ones(own.shape, np.bool_), case.is_small(own)
        try:
            found = suppressed(case)
            withheld, told = found.withheld, found.margins
            protected += bool(withheld.any())
            without_margins += not told
            small &= ~np.isin(np.arange(len(own)), np.ravel_multi_index(tuple(found.refuted.T), found.withheld.shape))
            is_found = True
        except NotReleasableError:
            is_found = False
            refused += 1
        tables = agreeing(case, withheld, margins=told)
        wide = np.ptp(case.of(view, tables), axis=0)[small], np.ptp(tables, axis=0)[case.at_risk]
        assert is_found == bool((np.concatenate(wide[: 1 + (not is_found or not told)]) >= case.min_width).all())
    assert min(protected, without_margins, refused) > CASES // 40


def test_beside_what_is_public_the_margins_and_zeros_pin_no_count_of_the_table(night: list[int]) -> None:
    """And none of the sub-table, but those that are too narrow without it; these are all withheld too."""
    protected, without_margins = 0, 0
    for case in islice(cases(np.random.default_rng([2, *night]), beside=True), CASES):
        try:
            found = suppressed(case)
            tables = agreeing(case, found.withheld, margins=found.margins)
        except (NotReleasableError, TooManyTablesError):
            continue
        (view,) = case.views
        small = case.is_small(case.of(view, case.table.dense)[0])
        assert (np.ptp(tables, axis=0)[case.at_risk] >= case.min_width).all()
        assert found.withheld.reshape(-1)[small].all()
        ranges, refuted = np.ptp(case.of(view, tables), axis=0), np.zeros(found.withheld.shape, np.bool_)
        refuted[tuple(found.refuted.T)] = True
        assert (ranges[small & ~refuted.reshape(-1)] >= case.min_width).all()
        if refuted.any():
            without = case.of(view, agreeing(case, np.ones_like(refuted), margins=found.margins))
            assert (np.ptp(without, axis=0)[refuted.reshape(-1)] < case.min_width).all()
        protected += bool(found.withheld.any())
        without_margins += not found.margins
    assert min(protected, without_margins) > CASES // 20


def test_zeros_of_several_patterns_exclude_a_cell_of_a_sub_table() -> None:
    """Two patterns that each leave a category of C leave none of the cell together."""
    table = dense(schema_of([2, 2, 2]), [0, 0, 1, 2, 3, 4, 5, 6])
    halves = StructuralZeros(tuple(((0, (0,)), (1, (0,)), (2, (c,))) for c in (0, 1)))
    assert halves.excluded(0b011, table.schema).tolist() == [[True, False], [False, False]]
    assert not halves.excluded(0b101, table.schema).any()
    with pytest.raises(NotReleasableError, match="its margins and the structural zeros tell them; merge categories"):
        suppress(table.marginal(0b011).dense, 3, 1, zeros=halves.excluded(0b011, table.schema))
    found = suppress_in(table, "A*B", public=knows(table, NOTHING, halves), small_count=3, min_width=1)
    assert (found.margins, found.withheld.tolist()) == (False, [[False, True], [False, True]])
    assert suppress_in(table, "A*B", small_count=3, min_width=1).withheld.all()
    with pytest.raises(InputError, match="2 cells known to be 0, with a count above 0"):
        suppress(np.array([1, 2]), 1, 1, zeros=np.array([True, True]))
