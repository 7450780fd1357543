"""Suppression against every choice of cells, and bounds against every table that agrees."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations, islice
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as hs

from sdc.api import assess
from sdc.api import suppress as suppress_in
from sdc.bounds.enumeration import feasible_tables
from sdc.model import subtable as st
from sdc.model.errors import InputError, NotReleasableError
from sdc.model.fact import Between, Fact
from sdc.model.knowledge import Knowledge
from sdc.model.release import NOTHING, Release
from sdc.model.structural_zeros import Pattern, StructuralZeros
from sdc.model.table import Table
from sdc.treat.suppression import Dense, Flags, Suppressed, least_withheld, suppress
from tests import judge
from tests.judge import TooManyTablesError, agreeing, every_cell, exact, impossible
from tests.profiles import scaled
from tests.strategies import dense, knows, schema_of, small_tables

CASES = scaled(200, fewest=80)


def widths(counts: Dense, withheld: frozenset[int]) -> dict[int, int]:
    """How far each withheld cell can move over all tables with the same margins and the same public cells."""
    flat, hidden = counts.reshape(-1), sorted(withheld)
    if not hidden:
        return {}
    most = min(int(counts.sum(axis=a).max()) for a in range(counts.ndim))
    values = np.indices([most + 1] * len(hidden), np.int8).reshape(len(hidden), -1).T
    tried = np.tile(flat.astype(np.int8), (len(values), 1))
    tried[:, hidden] = values
    tables = tried.reshape(-1, *counts.shape)
    for a in range(counts.ndim):
        tables = tables[(tables.sum(axis=a + 1) == counts.sum(axis=a)).reshape(len(tables), -1).all(axis=1)]
    return dict(zip(hidden, np.ptp(tables.reshape(len(tables), -1)[:, hidden], axis=0).tolist(), strict=True))


def cheapest(counts: Dense, small: int, width: int) -> int | None:
    """The least weight of a choice that protects, by trying all."""
    flat = counts.reshape(-1)
    sensitive = frozenset(np.flatnonzero((flat > 0) & (flat <= small)).tolist())
    others, best = [c for c in range(flat.size) if c not in sensitive], None
    for size in range(len(others) + 1):
        for more in combinations(others, size):
            chosen = sensitive | set(more)
            cost = int((flat[sorted(chosen)] + 1).sum()) if chosen else 0
            if (best is None or cost < best) and all(
                own >= width for cell, own in widths(counts, chosen).items() if cell in sensitive
            ):
                best = cost
    return best


@settings(max_examples=25, deadline=None)
@given(hs.sampled_from([(2, 2), (2, 3)]), hs.lists(hs.integers(0, 5), min_size=6, max_size=6), hs.integers(1, 2))
def test_the_cheapest_cells_are_withheld(shape: tuple[int, ...], drawn: list[int], width: int) -> None:
    counts = np.array(drawn[: int(np.prod(shape))], np.int64).reshape(shape)
    least = cheapest(counts, 1, width)
    if least is None:
        with pytest.raises(NotReleasableError, match="though all cells are withheld"):
            suppress(counts, 1, width)
        return
    found = suppress(counts, 1, width)
    assert found.optimal
    assert int((counts[found.withheld] + 1).sum()) == least
    own = widths(counts, frozenset(np.flatnonzero(found.withheld).tolist()))
    cells = np.flatnonzero((counts > 0) & (counts <= 1)).tolist()
    assert [own[cell] for cell in cells] == (found.bounds[:, 1] - found.bounds[:, 0]).tolist()


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
    assert least_withheld(small, [True, True]) <= found.withheld.sum()
    assert least_withheld(small, [False, False]) == small.sum()
    rows = sum(int(row.sum() == 1) for row in small)
    assert least_withheld(small, [False, True]) == small.sum() + rows


def test_a_table_without_a_small_count_keeps_all() -> None:
    found = suppress(np.array([[5, 6], [7, 8]]), 2, 3)
    assert not found.withheld.any()
    assert found.weight == 0


def test_one_small_count_takes_three_others() -> None:
    found = suppress(np.array([[1, 20, 9], [30, 40, 8], [7, 6, 50]]), 1, 5)
    assert found.withheld.sum() >= 4
    assert (found.bounds[:, 1] - found.bounds[:, 0] >= 5).all()


def test_out_of_solves_a_choice_still_protects() -> None:
    counts = np.random.default_rng(1).integers(1, 9, (4, 4))
    found = suppress(counts, 1, 2, solves=0)
    assert not found.optimal
    assert (found.bounds[:, 1] - found.bounds[:, 0] >= 2).all()


@pytest.mark.parametrize(
    ("counts", "small", "width", "message"),
    [([[1, -1]], 1, 1, "below 0"), ([], 1, 1, "0 cells"), ([1, 2], 0, 1, "small count 0"), ([1, 2], 1, 0, "width 0")],
)
def test_what_cannot_be_treated_is_refused(counts: list[int], small: int, width: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        suppress(np.array(counts, np.int64), small, width)


def widths_beside(table: Table, release: Release, subtable: int, withheld: Dense) -> list[int]:
    """Of each at-risk cell, over all tables with the release's marginals and the public cells of the sub-table."""
    others = tuple(v for v in range(len(table.schema)) if not subtable >> v & 1)
    known = table.dense.sum(axis=others)
    agreeing = [
        one
        for one in feasible_tables(table, knows(table, release))
        if (one.reshape(table.schema.sizes).sum(axis=others) == known)[~withheld].all()
    ]
    cells = tuple(table.codes[table.at_risk(2)].T)
    values = np.stack([one.reshape(table.schema.sizes)[cells] for one in agreeing])
    return (values.max(axis=0) - values.min(axis=0)).tolist()


@settings(max_examples=60)
@given(small_tables(max_records=5, max_cells=12).filter(lambda table: len(table.at_risk(2)) > 0), hs.data())
def test_beside_a_release_every_cell_of_the_table_keeps_its_width(table: Table, data: hs.DataObject) -> None:
    full = (1 << len(table.schema)) - 1
    release = Release.of(data.draw(hs.lists(hs.integers(0, full - 1), min_size=1, max_size=3).filter(any)))
    subtable = data.draw(hs.sampled_from([s for s in range(1, full + 1) if s not in release]))
    width = data.draw(hs.integers(1, 3))
    try:
        found = suppress_in(table, release, st.label(subtable, table.schema), small_count=2, min_width=width)
    except NotReleasableError:
        return
    if found.margins:
        release = release.join(Release.of(st.children(subtable, table.schema)))
    own = widths_beside(table, release, subtable, found.withheld)
    assert min(own) >= width


def test_a_sub_table_without_a_small_count_may_tell_one_of_the_table() -> None:
    """By itself nothing would be withheld, and beside what is released it tells of a count of the whole table."""
    counts = [0, 30, 5, 1, 30, 5, 2, 1, 0, 9, 9, 30, 30, 30, 0, 0, 9, 9]
    table, release = dense(schema_of([2, 3, 3]), counts), ["A", "B", "C"]
    assert assess(table, release, min_width=4).releasable
    assert assess(table, [*release, "A*B"], min_width=4).releasable is False
    assert not suppress_in(table, NOTHING, "A*B", small_count=2, min_width=4).withheld.any()
    found = suppress_in(table, release, "A*B", small_count=2, min_width=4)
    assert found.withheld.sum() == 4
    known = Release.of(st.parse(name, table.schema) for name in release)
    with pytest.raises(InputError, match=r"A is in the release as it is"):
        suppress_in(table, known, "A", small_count=2, min_width=4)
    with pytest.raises(NotReleasableError, match=r"whatever is withheld: without it the verdict is unsafe"):
        suppress_in(table, ["A*B"], "A*B*C", small_count=2, min_width=4)


@dataclass(frozen=True, eq=False)
class Case:
    """A sub-table of a small table, what is to be protected, and what is known: structural zeros, maybe more."""

    table: Table
    known: Knowledge
    subtable: int
    small_count: int
    min_width: int

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.table.schema.sizes

    @property
    def is_impossible(self) -> Flags:
        return self.known.zeros.contains(np.array(every_cell(self.sizes)), self.table.schema)

    def is_small(self, counts: Dense) -> Flags:
        return np.asarray((counts > 0) & (counts <= self.small_count))

    def of(self, tables: Dense) -> Dense:
        """(tables, categories...) the sub-table of each of (tables, cells)."""
        out = tuple(v + 1 for v in range(len(self.sizes)) if not self.subtable >> v & 1)
        return np.asarray(tables.reshape(-1, *self.sizes).sum(axis=out))

    def agreeing(self, withheld: Flags, *, margins: bool = True) -> Dense:
        """All tables with the zeros, the sub-table's margins and public cells, the release and the other facts."""
        counts, zeros = self.table.dense, np.array(every_cell(self.sizes))[self.is_impossible].tolist()
        facts, told_too = [*impossible(map(tuple, zeros))], st.children(self.subtable, self.table.schema)
        for known in [*(told_too if margins else ()), *self.known.release.frontier]:
            facts += exact(counts, st.members(known))
        cells = exact(counts, st.members(self.subtable))
        facts += [cell for cell, hidden in zip(cells, withheld.reshape(-1), strict=True) if not hidden]
        facts += [one for fact in self.known.facts for one in told(counts, fact)]
        return agreeing(self.sizes, facts, 300_000)

    def suppress(self) -> Suppressed:
        """Which cells are withheld, none of them known to be 0."""
        name = st.label(self.subtable, self.table.schema)
        found = suppress_in(self.table, self.known, name, small_count=self.small_count, min_width=self.min_width)
        assert self.of(~self.is_impossible)[0][found.withheld].all()
        return found


def told(counts: Dense, fact: Fact) -> Iterator[judge.Fact]:
    """Of each marginal cell that the fact is of the interval that it tells."""
    axes = st.members(fact.view)
    between = [] if fact.between is None else fact.between.cells.tolist()
    for one in exact(counts, axes):
        own = dict(zip(axes, (cell := [next(iter(one.cells))[axis] for axis in axes]), strict=True))
        if cell in between:
            row = between.index(cell)
            yield replace(one, low=int(fact.between.low[row]), high=int(fact.between.high[row]))
        elif all(own[v] in codes for v, codes in fact.universe):
            yield one


def some_fact(rng: np.random.Generator, table: Table) -> Fact:
    """Of a marginal all cells or those with some category of one variable; of half of them the count within 2."""
    view = int(rng.integers(1, st.full(len(table.schema)) + 1))
    v = int(rng.choice(st.members(view)))
    size = table.schema.sizes[v]
    universe = ((v, tuple(rng.permutation(size)[: rng.integers(1, size)].tolist())),) if rng.random() < 0.7 else ()
    axes = st.members(view)
    cells = np.array(every_cell([table.schema.sizes[w] for w in axes]), np.uint16)
    cells = cells[np.isin(cells[:, axes.index(v)], universe[0][1] if universe else range(size))]
    cells = cells[rng.random(len(cells)) < 0.5]
    counts = table.marginal(view).count_at(cells)
    low, high = np.maximum(counts - rng.integers(0, 3, len(cells)), 0), counts + rng.integers(0, 3, len(cells))
    return Fact(view, universe, Between(cells, low, high), f"table {view}")


def cases(rng: np.random.Generator, *, beside: bool) -> Iterator[Case]:
    """Such cases with a count at risk, of which all tables that agree can be listed, without end."""
    while True:
        sizes = [[2, 2, 2], [2, 3, 2], [3, 3], [2, 4], [2, 2, 3], [2, 4, 2]][rng.integers(6)]
        patterns = [pattern(rng, sizes) for _ in range(rng.integers(4))]
        if sizes[1] == 4:  # the first variable is a coarser level of the second
            patterns += [((0, (1,)), (1, (0, 1))), ((0, (0,)), (1, (2, 3)))]
        zeros, cells = StructuralZeros(tuple(patterns)), np.array(every_cell(sizes))
        counts = (
            rng.integers(0, 4, len(cells)) * (rng.random(len(cells)) < 0.7) * ~zeros.contains(cells, schema_of(sizes))
        )
        full = st.full(len(sizes))
        release = Release.of(rng.integers(0, full, 2).tolist() if beside else [])
        subtable, small, width = (int(rng.integers(1, end)) for end in (full + 1, 3, 4))
        if not ((counts > 0) & (counts <= small)).any() or (beside and (subtable in release or release == NOTHING)):
            continue
        table = Table.of(schema_of(sizes), cells, counts)
        facts = [some_fact(rng, table) for _ in range(rng.integers(3) if beside else 0)]
        case = Case(table, Knowledge.of(table, release, zeros, facts), subtable, small, width)
        try:
            case.agreeing(np.ones(case.of(counts)[0].shape, np.bool_))
        except TooManyTablesError:
            continue
        yield case


def pattern(rng: np.random.Generator, sizes: list[int]) -> Pattern:
    named = sorted(rng.permutation(len(sizes))[: rng.integers(1, len(sizes) + 1)].tolist())
    return tuple((v, tuple(rng.permutation(sizes[v])[: rng.integers(1, sizes[v])].tolist())) for v in named)


def test_whoever_knows_the_zeros_and_the_margins_pins_no_small_count(night: list[int]) -> None:
    """And where it is refused, not even withholding all that may be withheld would do."""
    protected, refused = 0, 0
    for case in islice(cases(np.random.default_rng([1, *night]), beside=False), CASES):
        own = case.of(case.table.dense)[0]
        try:
            withheld = case.suppress().withheld
            protected += bool(withheld.any())
        except NotReleasableError:
            withheld = None
            refused += 1
        tables = case.of(case.agreeing(np.ones(own.shape, np.bool_) if withheld is None else withheld))
        is_wide = bool((np.ptp(tables, axis=0)[case.is_small(own)] >= case.min_width).all())
        assert is_wide == (withheld is not None)
    assert min(protected, refused) > CASES // 10


def test_beside_what_is_public_the_margins_and_zeros_pin_no_count_of_the_table(night: list[int]) -> None:
    """And none of the sub-table, but those that are too narrow without it; these are all withheld too."""
    protected, without_margins = 0, 0
    for case in islice(cases(np.random.default_rng([2, *night]), beside=True), CASES):
        try:
            found = case.suppress()
            tables = case.agreeing(found.withheld, margins=found.margins)
        except (NotReleasableError, TooManyTablesError):
            continue
        small, own = case.is_small(case.table.dense.reshape(-1)), case.of(case.table.dense)[0]
        assert (np.ptp(tables, axis=0)[small] >= case.min_width).all()
        assert found.withheld[case.is_small(own)].all()
        ranges, refuted = np.ptp(case.of(tables), axis=0), np.zeros(own.shape, np.bool_)
        refuted[tuple(found.refuted.T)] = True
        assert (ranges[case.is_small(own) & ~refuted] >= case.min_width).all()
        hidden = np.ones(own.shape, np.bool_)
        without = np.ptp(case.of(case.agreeing(hidden, margins=found.margins)), axis=0) if refuted.any() else ranges
        assert (without[refuted] < case.min_width).all()
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
        suppress_in(table, knows(table, NOTHING, halves), "A*B", small_count=3, min_width=1)
    assert suppress_in(table, NOTHING, "A*B", small_count=3, min_width=1).withheld.all()
    with pytest.raises(InputError, match="2 cells known to be 0 have records"):
        suppress(np.array([1, 2]), 1, 1, zeros=np.array([True, True]))
