"""What facts do everywhere, against every table that agrees with them, by a judge that shares no code with the engine.

A test of random cases names CASES of them, a slow one fewer: the night takes all, CI a fortieth, and the profile
`long` twenty times as many.
"""

import pickle
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as hs

from sdc.bounds.decomposable import covering_bounds
from sdc.bounds.enumeration import enumerate_tables, feasible_tables
from sdc.bounds.method import cell_bounds, cheap_bounds, method_names
from sdc.feasible.differences import Differences
from sdc.feasible.equations import MarginalEquations
from sdc.feasible.suppressed_cells import narrow, primary_cells
from sdc.feasible.walk import find, reached, shift
from sdc.feasible.witness_pool import WitnessPool
from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds, combine
from sdc.model.errors import InputError, ReleaseError
from sdc.model.fact import NO_FACTS, Fact, suppressed_fact
from sdc.model.knowledge import Knowledge
from sdc.model.marginal import CellMarginals
from sdc.model.release import NOTHING, Release
from sdc.model.schema import Coarser, Schema, Variable
from sdc.model.structural_zeros import NO_ZEROS
from sdc.model.table import Table
from sdc.risk.criteria import Criteria
from sdc.risk.effort import Budget, Depth, Effort
from sdc.risk.evaluator import RiskEvaluator
from sdc.risk.support import Shift, Support
from sdc.risk.verdict import Verdict
from tests.facts import Ends, FactCase, agreeing, fact_cases, fact_of, nearly, own_widths
from tests.levels import CASES, FEW_NODES, Rng, cells_of, closure, each, generators, random_differences
from tests.reference import TooManyTablesError, controlled, nearest
from tests.strategies import assert_around, dense, nested_in, schema_of, subtable
from tests.unit.feasible.test_level_walks import check as check_moves

SLOW = ("auto", "exact", "integer-program", "linear-program", "moves")
EXACT = ("enumeration", "reducible", "branch-and-bound", "exact", "integer-program", "auto")
REFUSING = ("decomposable", "dichotomous", "linear-program")

AREA, SEX = Variable("area", ("1", "2", "3")), Variable("sex", ("f", "m"))
REGION = Variable("region", ("north", "south"), Coarser("area", (0, 0, 1)))


def of_axes(schema: Schema, counts: list[int]) -> Table:
    """The table with these counts of all cells, in C order of the axes."""
    return Table.of(schema, np.array(cells_of(schema), np.uint16), np.array(counts))


# a. What is feasible


@given(fact_cases())
@settings(max_examples=CASES)
def test_what_is_known_is_true_and_stays_the_same(of: FactCase) -> None:
    """Of facts those are kept that the release does not tell, each once; copies, flat and reduced ones are true too."""
    known = of.known
    released = [closure(of.schema, t) for t in of.subtables]
    assert set(known.published) == {fact for fact in of.facts if all(fact.view & ~t for t in released)}
    assert len(known.facts) == len(set(known.facts))
    assert pickle.loads(pickle.dumps(known)) == known
    assert known == Knowledge.of(of.table, known.release, known.zeros, of.facts[::-1])
    assert known.contains(Knowledge.of(of.table, NOTHING, NO_ZEROS, of.facts[:1]))
    Knowledge.of(of.table.flat, known.flat.release, known.flat.zeros, known.flat.facts)
    inside = of.table.marginal(known.structure.looked_at)
    Knowledge.of(inside, known.reduced.release, known.reduced.zeros, known.reduced.facts)


@given(fact_cases(), generators())
@settings(max_examples=CASES)
def test_equations_hold_of_the_tables_that_agree(of: FactCase, rng: Rng) -> None:
    """Of these, of those that one fact excludes, of either with records moved or taken away, and of any counts."""
    equations = MarginalEquations.of(of.table, of.known)
    tables = [*rng.choice(of.tables, 4), *nearly(rng, of), *rng.integers(0, 3, (4, len(of.cells)))]
    for counts in tables:
        assert equations.holds(counts) == of.holds(counts)
        np.add.at(counts, rng.integers(0, len(counts), 2), rng.choice([[1, -1], [1, 0], [-1, 0], [2, -1]]))
        assert equations.holds(counts) == of.holds(counts)


@given(fact_cases(), generators())
@settings(max_examples=CASES)
def test_differences_are_feasible_where_the_table_agrees(of: FactCase, rng: Rng) -> None:
    for found in (random_differences(rng, of), Differences.between(of.table, list(nearly(rng, of)))):
        assert found.feasible(of.table, of.known).tolist() == [of.agrees(changes) for changes in each(found)]


@given(fact_cases())
@settings(max_examples=CASES)
def test_with_every_view_whole_no_other_table_agrees(of: FactCase) -> None:
    """What is feasible with the hulls, or the cover, is feasible with the facts."""
    tables = set(map(tuple, of.tables.tolist()))
    hulls = of.known.with_hulls
    assert hulls.facts == NO_FACTS
    for public in (hulls.release.frontier, of.known.structure.cover.cliques):
        zeros = of.zeros if public == hulls.release.frontier else NO_ZEROS
        assert set(map(tuple, agreeing(of.table, public, zeros, NO_FACTS).tolist())) <= tables


@given(fact_cases(), generators())
@settings(max_examples=CASES)
def test_who_knows_two_parts_knows_all(of: FactCase, rng: Rng) -> None:
    """Whatever is public may come in two parts, or later; what is feasible for the whole is so for either part."""
    of_one = rng.random(len(of.facts)) < 0.5
    facts = [tuple(fact for fact, mine in zip(of.facts, of_one, strict=True) if mine == own) for own in (True, False)]
    cut = int(rng.integers(len(of.subtables) + 1))
    public = of.subtables[:cut], of.subtables[cut:]
    one, other = (Knowledge.of(of.table, Release.of(p), of.zeros, f) for p, f in zip(public, facts, strict=True))
    assert one | other == of.known
    assert one.plus(other.release).facts == tuple(fact for fact in one.facts if fact.view not in of.known.release)
    for part in (one, other):
        assert of.known.contains(part)
        equations = MarginalEquations.of(of.table, part)
        assert all(equations.holds(counts) for counts in of.tables[:: 1 + len(of.tables) // 20])


# b. Listing


@given(fact_cases())
@settings(max_examples=CASES)
def test_listed_are_the_tables_that_agree(of: FactCase) -> None:
    listed = [tuple(counts.reshape(-1).tolist()) for counts in feasible_tables(of.table, of.known)]
    assert sorted(listed) == sorted(map(tuple, of.tables.tolist()))
    found = enumerate_tables(of.table, of.known)
    assert (found.feasible_tables, found.complete) == (len(of.tables), True)
    assert np.array_equal(np.stack([found.lower, found.upper], axis=1), of.sharp)


# c. Bounds


def check_bounds(of: FactCase, bounds: CellBounds) -> None:
    assert np.array_equal(bounds.cells, of.cells)
    assert_around(bounds, of.sharp)


def held(of: FactCase, method: str) -> None:
    try:
        bounds = cell_bounds(of.table, of.known, of.cells, method)
    except ReleaseError:
        assert method in REFUSING, method
        return
    check_bounds(of, bounds)
    assert bounds.exact.all() or method not in EXACT, method


@given(fact_cases())
@settings(max_examples=CASES)
def test_methods_agree_with_the_judge(of: FactCase) -> None:
    for method in sorted(set(method_names()) - set(SLOW)):
        held(of, method)


@pytest.mark.parametrize("method", SLOW)
@given(of=fact_cases())
@settings(max_examples=CASES // 5)
def test_slow_methods_agree_with_the_judge(of: FactCase, method: str) -> None:
    held(of, method)


@given(fact_cases())
@settings(max_examples=CASES)
def test_cheap_bounds_agree_with_the_judge(of: FactCase) -> None:
    marginals = CellMarginals(of.table, of.cells)
    check_bounds(of, cheap_bounds(marginals, of.known))
    inner = covering_bounds(marginals, of.known)
    assert (inner[:, 0] >= of.sharp[:, 0]).all()
    assert (inner[:, 1] <= of.sharp[:, 1]).all()


# d. Components


@given(fact_cases())
@settings(max_examples=CASES)
def test_views_lie_in_one_component_and_one_clique(of: FactCase) -> None:
    """And separators are released: no fact separates anything."""
    known = of.known
    for fact in known.facts:
        assert any(fact.view & ~part == 0 for part in known.structure.components.cliques)
        varying = fact.view & known.structure.varying
        assert any(varying & ~clique == 0 for clique in known.structure.cover.cliques)
        assert varying & ~known.structure.covered == 0
        assert any(varying & ~element == 0 for element in known.structure.informed.frontier)
    assert all(separator in known.release for separator in known.structure.components.separators)


@given(fact_cases())
@settings(max_examples=CASES)
def test_sharp_ends_of_components_combine_to_sharp_ends(of: FactCase) -> None:
    """Each part by listing its marginal table, with the facts that it has."""
    split, ends = of.known.structure.components, []
    assert sum(len(of.known.within(part).facts) for part in split.cliques) >= len(of.known.facts)
    for part in split.cliques:
        inside, public = of.table.marginal(part), of.known.within(part)
        try:
            found = agreeing(inside, public.release.frontier, public.zeros, public.facts)
        except TooManyTablesError:
            return
        place = {cell: row for row, cell in enumerate(cells_of(inside.schema))}
        rows = [place[tuple(cell)] for cell in of.schema.marginal_cells(of.cells, part).tolist()]
        ends.append(np.stack([found.min(axis=0)[rows], found.max(axis=0)[rows]], axis=1))
    between = sum((of.table.marginal_at(s, of.cells) for s in split.separators), np.zeros(len(of.cells), np.int64))
    assert combine(ends, between).tolist() == of.sharp.tolist()


@given(fact_cases(), generators())
@settings(max_examples=CASES)
def test_a_part_of_what_is_known_holds_for_the_marginal_of_all_that_agrees(of: FactCase, rng: Rng) -> None:
    part = closure(of.schema, int(rng.integers(1, 1 << len(of.schema))))
    inside, public = of.table.marginal(part), of.known.within(part)
    assert public.schema == inside.schema
    assert public.release == public.release.closed(public.schema)
    equations = MarginalEquations.of(inside, public)
    for counts in of.tables[:: 1 + len(of.tables) // 20]:
        assert equations.holds(Table.of(of.schema, of.cells, counts).marginal(part).dense.reshape(-1))


# e. Verdicts


def judged(of: FactCase, criteria: Criteria, effort: Effort, *, is_small: bool) -> Verdict:
    """The verdict, as such and by an evaluator, with its margin held against the judge, and the proof of a safe one."""
    rows = of.table.at_risk(criteria.small_count)
    smallest = int(np.diff(of.sharp_at(of.table.codes[rows]), axis=1).min(initial=of.table.total))
    with patch("sdc.risk.case.is_small", lambda schema: is_small):
        evaluation = criteria.judge(of.table, of.known, NOTHING, criteria.pool(of.table), effort)
        known = Knowledge.of(of.table, NOTHING, of.zeros, of.facts)
        asked = RiskEvaluator(of.table, known, criteria, effort=effort).evaluate(of.known.release, effort.depth)
    low, high = evaluation.margin
    assert low <= smallest <= high
    if asked.verdict is Verdict.SAFE:
        assert all(width >= criteria.width.min_width for width in own_widths(of, criteria.small_count, criteria.floor))
    for one in (evaluation, asked):
        if one.verdict is not Verdict.UNDECIDED:
            assert (one.verdict is Verdict.SAFE) == (smallest >= criteria.width.min_width or not len(rows))
        if one.verdict is Verdict.SAFE:
            assert criteria.unproven(of.table, one.knowledge, one.proof) == 0
    return min(evaluation.verdict, asked.verdict)


@given(fact_cases(), hs.integers(1, 3), hs.integers(1, 6))
@settings(max_examples=CASES // 2)
def test_small_tables_are_decided_by_the_sharp_widths(of: FactCase, small_count: int, width: int) -> None:
    criteria = Criteria.of(small_count, width)
    found, own = judged(of, criteria, Effort(), is_small=True), own_widths(of, small_count, width)
    # of small cells of parts that are too narrow nothing is proven; no bounds are sought that would refute it
    assert found in (Verdict.SAFE, Verdict.UNSAFE) or not all(w >= width for w in own)


@given(fact_cases(), generators())
@settings(max_examples=CASES)
def test_searches_decide_nothing_against_the_sharp_widths(of: FactCase, rng: Rng) -> None:
    """As larger tables have their verdicts: by tables found, whole or slice by slice, and by outer bounds."""
    effort = Effort(Budget(0.1, 10), depth=Depth(rng.choice(list(Depth))), cells_per_slice=int(rng.choice([2, 5, 100])))
    with patch("sdc.bounds.method.is_small", lambda schema: False):
        judged(of, Criteria.of(int(rng.integers(1, 4)), int(rng.integers(1, 7))), effort, is_small=False)


def assert_inside(support: Support, of: FactCase) -> None:
    """Inner and outer bounds of the at-risk cells around and within the sharp ones."""
    at_risk = support.pool.at_risk
    sharp, rows = of.sharp_at(at_risk.cells), np.arange(len(at_risk))
    inner, outer = support.inner, support.outer_at(rows)
    assert nested_in(inner, sharp)
    assert nested_in(sharp, outer)


def searched(support: Support, width: int) -> None:
    """What a criterion does: every component's cells are moved as far as is wanted of them."""
    rows = np.arange(len(support.pool.at_risk))
    for way in (Shift.DOWN, Shift.UP):
        for component, cells, changes in support.wanted(rows, width, way):
            table, moved = component.frame.table, component.frame.cells[cells]
            component.add(shift(table, component.knowledge, moved, changes, nodes=FEW_NODES).differences)


@given(fact_cases(), hs.integers(1, 3), hs.integers(1, 6))
@settings(max_examples=CASES // 2)
def test_support_is_within_the_sharp_bounds(of: FactCase, small_count: int, width: int) -> None:
    """Before anything is found, then with what is found for less, and for all: no more is claimed than is so."""
    pool = WitnessPool.of(of.table, small_count)
    for facts in (of.facts[:1], of.facts, of.facts[1:]):
        try:
            asked = FactCase.of(of.table, of.subtables, of.zeros, facts)
        except TooManyTablesError:
            continue
        support = Support(asked.known, pool)
        assert_inside(support, asked)
        searched(support, width)
        assert_inside(support, asked)
        again = Support(asked.known, WitnessPool.of(of.table, small_count).learnt(support.proof(), asked.known))
        assert_inside(again, asked)
        pool = pool.plus((c.evidence for c in support.open), {})


@given(fact_cases(), generators(), hs.integers(1, 6))
@settings(max_examples=CASES // 2)
def test_a_cell_that_is_too_narrow_by_what_is_known_is_so(of: FactCase, rng: Rng, width: int) -> None:
    """Of every view, whether or not anything is published of it."""
    views = {fact.view for fact in of.known.facts} | {
        of.schema.levels.closed(int(rng.integers(1, 1 << len(of.schema))))
    }
    for view in views:
        sums = [Table.of(of.schema, of.cells, counts).marginal(view).dense.reshape(-1) for counts in of.tables]
        flags = narrow(of.table, view, of.known, width)
        assert (np.ptp(np.stack(sums), axis=0)[flags] < width).all()


def test_a_cell_that_others_tell_is_not_to_be_protected() -> None:
    """Areas, and regions by kind, are public, and all of one region are of one kind: so are those of its areas."""
    region = Variable("region", ("r0", "r1"), Coarser("area", (0, 0, 1, 1)))
    schema = Schema((Variable("area", tuple("abcd")), Variable("kind", tuple("xy")), region))
    counts = np.array([[2, 0], [9, 0], [1, 8], [9, 7]])
    table = Table.of(schema, np.argwhere(counts), counts[counts > 0])
    area, kind = schema.levels.closed(0b001), 0b010
    public, view = Knowledge.of(table, Release.of([area, 0b110]), NO_ZEROS, NO_FACTS), area | kind
    assert narrow(table, view, public, 1).tolist() == [True] * 4 + [False] * 4
    cells = schema.restrict(st.members(view)).keys.unpack(np.arange(8))
    part = public.plus_facts([suppressed_fact(view, cells, table.total, "in part")])
    kept = primary_cells(table, part, public, 2, 1)
    assert (kept.places.tolist(), kept.counts.tolist()) == ([4], [1])


@pytest.mark.parametrize(
    ("counts", "hidden", "kept"), [([1, 2], [1], []), ([5, 1, 9], [1], []), ([1, 2, 9], [0, 1], [0, 1])]
)
def test_the_only_suppressed_cell_is_told_by_the_total(counts: list[int], hidden: list[int], kept: list[int]) -> None:
    """Which is public: it cannot be protected any more, and hinders nothing. Two cells may still share what is left."""
    schema = Schema((Variable("a", tuple("xyz"[: len(counts)])),))
    table = Table.of(schema, np.arange(len(counts))[:, None], np.array(counts))
    fact = suppressed_fact(1, np.array(hidden)[:, None], table.total, "before")
    public = Knowledge.of(table, NOTHING, NO_ZEROS, NO_FACTS).plus_facts([fact])
    assert primary_cells(table, public, public, 2, 1).places.tolist() == kept


# f. Walks


@given(fact_cases(), hs.integers(1, 6))
@settings(max_examples=CASES // 2)
def test_every_table_found_is_feasible(of: FactCase, width: int) -> None:
    check_moves(of, find(of.table, of.known, of.cells, np.full(len(of.cells), width), nodes=FEW_NODES).differences)


@given(fact_cases(), generators())
@settings(max_examples=CASES)
def test_every_table_shifted_to_is_feasible(of: FactCase, rng: Rng) -> None:
    changes = rng.integers(-4, 5, len(of.cells))
    check_moves(of, shift(of.table, of.known, of.cells, changes, nodes=FEW_NODES).differences)


def test_a_walk_outside_of_a_universe_crosses_nothing_of_it() -> None:
    """Areas by sex are public in the north: records of the southern ones change places, as the hull forbids."""
    area = Variable("area", ("1", "2", "3", "4"))
    schema = Schema((area, Variable("region", ("north", "south"), Coarser("area", (0, 0, 1, 1))), SEX))
    table = of_axes(schema, [2, 1, 3, 4, 1, 2, 2, 1])
    north = fact_of(schema, 0b111, ((1, (0,)),))
    of = FactCase.of(table, [0b011, 0b100], NO_ZEROS, [north])
    wide = np.full(8, 9)
    found = find(table, of.known, of.cells, wide, nodes=200).differences
    assert (found.cells[:, 0] >= 2).all()
    assert reached(found, of.cells, table.count_at(of.cells), table).tolist() == of.sharp.tolist()
    assert of.sharp.tolist() == [[2, 2], [1, 1], [3, 3], [4, 4], [0, 3], [0, 3], [0, 3], [0, 3]]
    assert len(find(table, of.known.with_hulls, of.cells, wide, nodes=200).differences) == 0


# g. Traps by name


def sharp_at(of: FactCase, cell: tuple[int, ...]) -> list[int]:
    """The judge's bounds of a cell, once every exact method has been seen to give them."""
    row = cells_of(of.schema).index(cell)
    for method in EXACT:
        assert cell_bounds(of.table, of.known, of.cells, method).outer.tolist() == of.sharp.tolist(), method
    for method in sorted(set(method_names()) - set(EXACT)):
        held(of, method)
    return list(of.sharp[row].tolist())


def test_a_fact_across_two_components() -> None:
    """AB and CD public, and of AC the counts with A = 0."""
    table = dense(schema_of([2, 2, 2, 2]), [0, 0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0])
    public, some = [subtable("AB"), subtable("CD")], fact_of(table.schema, subtable("AC"), ((0, (0,)),))
    assert sharp_at(FactCase.of(table, public, NO_ZEROS, []), (0, 0, 1, 0)) == [0, 2]
    of = FactCase.of(table, public, NO_ZEROS, [some])
    assert sharp_at(of, (0, 0, 1, 0)) == [1, 2]
    assert set(of.known.structure.components.cliques) == set(map(subtable, ("AB", "AC", "CD")))


def test_a_region_of_one_area_tells_the_counts_of_the_area() -> None:
    """Region by sex public, whole or of the south alone; of the north the areas may have all or nothing."""
    schema = Schema((AREA, REGION, SEX))
    table = of_axes(schema, [2, 1, 1, 2, 1, 3])
    view = closure(schema, 0b110)
    of = FactCase.of(table, [view], NO_ZEROS, [])
    assert [sharp_at(of, cell) for cell in ((0, 0), (2, 0), (2, 1))] == [[0, 3], [1, 1], [3, 3]]
    of = FactCase.of(table, [], NO_ZEROS, [fact_of(schema, view, ((1, (1,)),))])
    assert [sharp_at(of, cell) for cell in ((0, 0), (2, 0), (2, 1))] == [[0, 6], [1, 1], [3, 3]]


def of_ab(of: FactCase) -> list[int]:
    """Between what the sum of the first two cells lies, of three variables of two categories the first cell of AB."""
    sums = of.tables[:, :2].sum(axis=1)
    listed = [int(counts[0, 0].sum()) for counts in feasible_tables(of.table, of.known)]
    assert sorted(listed) == sorted(sums.tolist())
    return [int(sums.min()), int(sums.max())]


def without_c(of: FactCase) -> list[int]:
    """The bounds of that cell of whoever looks at A and B alone."""
    part = subtable("AB")
    found = cell_bounds(of.table.marginal(part), of.known.within(part), np.zeros((1, 2), np.uint16))
    assert found.exact.all()
    return list(found.outer[0].tolist())


def test_a_count_of_fewer_variables_as_a_fact() -> None:
    """AC and BC public, n(a, b) = 3: within 2 and 5 with C in the question, without C within 0 and 5; or it is told."""
    table = dense(schema_of([2, 2, 2]), [3, 0, 2, 0, 2, 1, 1, 4])
    public = [subtable("AC"), subtable("BC")]
    of = FactCase.of(table, public, NO_ZEROS, [])
    assert (of_ab(of), without_c(of)) == ([2, 5], [0, 5])
    one = fact_of(table.schema, subtable("AB"), ((0, (0,)), (1, (0,))))
    of = FactCase.of(table, public, NO_ZEROS, [one])
    assert (of_ab(of), without_c(of)) == ([3, 3], [3, 3])
    of = FactCase.of(table, public, NO_ZEROS, [fact_of(table.schema, subtable("AB"), (), {(0, 0): (3, 4)})])
    # all others of AB are told, and with the margins so is this one
    assert (of_ab(of), without_c(of)) == ([3, 3], [3, 3])
    of = FactCase.of(table, public, NO_ZEROS, [fact_of(table.schema, subtable("AB"), one.universe, {(0, 0): (1, 4)})])
    assert (of_ab(of), without_c(of)) == ([2, 4], [1, 4])


def test_4_printed_as_5() -> None:
    """To the next 5 that may be 1 to 9, to the nearest 5 it is 3 to 7."""
    table = dense(schema_of([3]), [4, 7, 9])
    to_nearest: Ends = {(code,): nearest(count, 5) for code, count in enumerate([4, 7, 9])}
    to_next: Ends = {(0,): controlled(4, 5, up=True), (1,): controlled(7, 5, up=False), (2,): controlled(9, 5, up=True)}
    assert (to_nearest, to_next) == (
        {(0,): (3, 7), (1,): (3, 7), (2,): (8, 12)},
        {(0,): (1, 9), (1,): (1, 9), (2,): (6, 14)},
    )
    for ends, sharp in ((to_nearest, [3, 7]), (to_next, [1, 9])):
        assert sharp_at(FactCase.of(table, [], NO_ZEROS, [fact_of(table.schema, 1, (), ends)]), (0,)) == sharp


def test_controlled_margins_that_are_not_printed() -> None:
    """2 5 | 7 1 printed as 3 3 | 6 0: the rows add up to 6 and 6, which says that they are 4 to 8 and not 2 to 10."""
    table = dense(schema_of([2, 2]), [2, 5, 7, 1])
    printed = fact_of(table.schema, 3, (), {(0, 0): (1, 5), (0, 1): (1, 5), (1, 0): (4, 8), (1, 1): (-2, 2)})
    assert controlled(2, 3, up=True) == controlled(5, 3, up=False) == (1, 5)
    second = fact_of(table.schema, 3, ((1, (1,)),), None, "the second column")
    rows = fact_of(table.schema, 1, (), {(0,): (4, 8), (1,): (4, 8)})
    assert sharp_at(FactCase.of(table, [], NO_ZEROS, [printed, second]), (0, 0)) == [1, 5]
    assert sharp_at(FactCase.of(table, [], NO_ZEROS, [printed, second, rows]), (0, 0)) == [2, 3]


def test_a_fact_of_another_table() -> None:
    table = dense(schema_of([2, 2]), [2, 5, 7, 1])
    wrong = fact_of(table.schema, 3, ((0, (1,)),), {(1, 0): (3, 6)}, "the yearbook of 2019")
    for public in (NOTHING, Release.of([3])):  # also where the release tells more than it
        with pytest.raises(
            InputError, match="the yearbook of 2019 is not of these records: the counts of 1 cell of B where A = 1"
        ):
            Knowledge.of(table, public, NO_ZEROS, [wrong])


def test_more_than_63_levels() -> None:
    """A fact of the last of 63 variables is held, and there is no 64th."""
    others = tuple(Variable(f"v{i}", ("only",)) for i in range(60))
    schema = Schema((*others, AREA, REGION, SEX))
    codes = np.concatenate([np.zeros((6, 60), np.uint16), np.array(cells_of(Schema((AREA, SEX))), np.uint16)], axis=1)
    table = Table.of(schema, codes, np.array([2, 1, 1, 2, 1, 3]))
    south = fact_of(schema, 0b110 << 60, ((61, (1,)),))
    of = FactCase.of(table, [1 << 62], NO_ZEROS, [south])
    assert of.sharp.tolist() == [[0, 3], [0, 3], [0, 3], [0, 3], [1, 1], [3, 3]]
    for method in EXACT:
        assert cell_bounds(table, of.known, of.cells, method).outer.tolist() == of.sharp.tolist(), method


SCHEMA = Schema((AREA, REGION, SEX))
YEARBOOK = fact_of(SCHEMA, 0b110, (), {(1, 0): (3, 6), (0, 0): (0, 9)}, "the yearbook")


@pytest.mark.parametrize(
    ("facts", "match"),
    [
        ([fact_of(SCHEMA, 0b001)], "it: its view is not a sub-table of area, region, sex"),
        ([fact_of(SCHEMA, 0b1011)], "it: its view is not a sub-table"),
        ([fact_of(SCHEMA, 0b011, ((2, (0,)),))], "it: its universe names sex, which its view does not have"),
        ([fact_of(SCHEMA, 0b110, (), {(2, 0): (0, 1)})], r"it: it names cells that region\*sex does not have"),
        ([fact_of(SCHEMA, 0b110, ((2, (0,)),), {(0, 1): (0, 1)})], "it: .* cells that are not of region where sex = f"),
        ([fact_of(SCHEMA, 0b110, (), {(1, 0): (4, 3)})], r"it: of 1 cell of region\*sex the interval is empty"),
        ([fact_of(SCHEMA, 0b110, (), {(1, 0): (-3, -1)})], r"it: of 1 cell of region\*sex the interval is empty"),
        (
            [YEARBOOK, fact_of(SCHEMA, 0b110, ((1, (1,)),), {(1, 0): (7, 9)}, "the atlas")],
            "the yearbook and the atlas contradict each other about region",
        ),
    ],
)
def test_facts_that_no_table_has(facts: list[Fact], match: str) -> None:
    """They do not fit the variables, or no count can be as they say."""
    with pytest.raises(InputError, match=match):
        Knowledge(SCHEMA, 15, NOTHING, NO_ZEROS, tuple(facts))
