"""What would free more: recodes of a table, and re-designs along hierarchies; that what they free is safe."""

from itertools import product
from math import prod

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as hs

import sdc
from sdc.api import assess
from sdc.model import subtable as st
from sdc.model.errors import InputError
from sdc.model.recode import Recode
from sdc.model.release import NOTHING, Release
from sdc.model.schema import Coarser, Schema, Variable
from sdc.model.structural_zeros import StructuralZeros
from sdc.model.table import Table
from sdc.risk.criteria import Criteria
from sdc.risk.critical_width import critical_widths
from sdc.risk.effort import Budget
from sdc.search.blockers import blockers, near
from sdc.search.constraints import Constraints
from sdc.search.grown import Grown
from sdc.search.ordered import OrderedSearch
from sdc.search.recodings import Recoding, candidates, coarser, promising, recodes
from tests.profiles import scaled
from tests.strategies import (
    dense,
    evaluator_of,
    frontier_sets,
    is_safe,
    knows,
    scattered,
    schema_of,
    small_tables,
    unknowing,
)

BUDGET = Budget(0.05, 5)


@hs.composite
def some_recodes(draw: hs.DrawFn, table: Table) -> Recode:
    """Two categories of some variable, or all of them."""
    variable = draw(hs.sampled_from([v for v, size in enumerate(table.schema.sizes) if size > 1]))
    codes = range(table.schema.sizes[variable])
    merged = draw(hs.lists(hs.sampled_from(codes), min_size=2, max_size=len(codes), unique=True))
    return Recode(table.schema, variable, tuple(sorted(merged)))


@given(hs.data())
@settings(max_examples=100)
def test_a_recoded_table_counts_the_recoded_records(data: hs.DataObject) -> None:
    """Judged record by record, by the names of the categories."""
    table = data.draw(small_tables())
    recode = data.draw(some_recodes(table))
    expected: dict[tuple[str, ...], int] = {}
    for codes, count in zip(table.codes.tolist(), table.counts.tolist(), strict=True):
        named = [v.categories[code] for v, code in zip(table.schema.variables, codes, strict=True)]
        if recode.leaves_out:
            del named[recode.variable]
        elif named[recode.variable] in recode.names:
            named[recode.variable] = " or ".join(recode.names)
        expected[tuple(named)] = expected.get(tuple(named), 0) + count
    after = recode.table(table)
    found = [tuple(after.schema.named(codes).values()) for codes in after.codes.tolist()]
    assert dict(zip(found, after.counts.tolist(), strict=True)) == expected


def test_a_variable_that_structural_zeros_name_is_not_recoded() -> None:
    table = scattered()
    free = np.flatnonzero(~(table.codes[:, [0, 1]] == [0, 0]).all(axis=1))
    table = Table.of(table.schema, table.codes[free], table.counts[free])
    known = knows(table, NOTHING, StructuralZeros((((0, (0,)), (1, (0,))),)))
    with pytest.raises(InputError, match=r"structural zeros name 'A', so it cannot be recoded; leave it as it is"):
        Recode(table.schema, 0, (0, 1)).known(known)
    other = Recode(table.schema, 2, (0, 1))
    assert other.known(known) == knows(other.table(table), NOTHING, known.zeros)
    cell = tuple(table.codes[table.at_risk(2)[0]].tolist())
    assert {recode.variable for recode in promising(table, known, 2, [(cell, (1,))])} == {2, 3, 4}


@given(small_tables(max_records=12))
@settings(max_examples=60)
def test_what_is_near_differs_in_one_variable_or_two(table: Table) -> None:
    for cell in table.codes[:3].tolist():
        found = near(table, tuple(cell))
        distance = (table.codes != np.array(cell)).sum(axis=1)
        assert sorted(found.differing.sum(axis=1).tolist()) == sorted(
            distance[(distance > 0) & (distance < 3)].tolist()
        )
        assert found.counts.sum() == table.counts[(distance > 0) & (distance < 3)].sum()
        assert found.alone.sum() == (distance == 1).sum()


def found_and_tried(table: Table, min_width: int, variables: int = 2) -> tuple[Grown, list[Recoding]]:
    evaluator = evaluator_of(table, min_width, budget=BUDGET)
    found = OrderedSearch(evaluator.anew(), critical_widths(table)).run()
    grown = Grown(found.release, found.proof, found.steps)
    return grown, recodes(grown, evaluator.anew(), variables, print)


def test_what_a_recode_frees_is_safe_with_all_that_was_released() -> None:
    """By a question of its own about the recoded table, which is too large for an exact method."""
    table = scattered(2)
    found, tried = found_and_tried(table, 1)
    assert blockers(found.steps)
    assert len({remedy.recode for remedy in tried}) == len(tried) == 4
    assert any(remedy.freed for remedy in tried)
    for remedy in tried:
        recode = remedy.recode
        assert recode is not None
        assert set(remedy.freed) <= set(remedy.asked)
        assert all(t not in found.release and st.is_within(t, recode.remaining) for t in remedy.asked)
        lost = [t for t in found.release.listed(5).nonzero()[0].tolist() if t and t & ~recode.remaining]
        assert remedy.lost == len(lost)
        if remedy.freed:
            together = Release.of([*recode.release(found.release).frontier, *map(recode.sub_table, remedy.freed)])
            answer = assess(recode.table(table), together, min_width=1, budget=Budget(1, 60))
            assert answer.releasable is True
    gains = [len(remedy.freed) - remedy.lost for remedy in tried]
    assert gains == sorted(gains, reverse=True)


def test_small_tables_by_enumeration(night: list[int]) -> None:
    """What is said to be freed is so by all feasible tables of the recoded table."""
    rng, judged = np.random.default_rng([55, *night]), 0
    for number in range(number_of := scaled(200, fewest=30)):
        sizes = [(3, 3), (4, 3), (3, 2, 2)][number % 3]
        table = dense(schema_of(sizes), rng.choice([0, 0, 0, 1, 2, 3], prod(sizes)).tolist())
        if not len(table.at_risk(2)) or table.total < 3:
            continue
        found, tried = found_and_tried(table, 3)
        for remedy in tried:
            recode = remedy.recode
            assert recode is not None
            after = recode.table(table)
            freed = Release.of([*recode.release(found.release).frontier, *map(recode.sub_table, remedy.freed)])
            if remedy.freed and len(after.at_risk(2)):
                assert is_safe(after, frontier_sets(freed), 3)
                judged += 1
    assert judged > number_of // 10


def test_nothing_stopped_and_nothing_tried() -> None:
    table = scattered()
    assert recodes(Grown(Release.of([0]), found_and_tried(table, 2)[0].proof), evaluator_of(table), 3, print) == []


def test_a_single_variable_is_not_left_out() -> None:
    schema = Schema((Variable("A", ("0", "1")),))
    table = Table.of(schema, np.array([[0], [1]]), np.array([1, 5]))
    assert list(promising(table, knows(table, NOTHING), 2, [((0,), (1,))])) == []


SCHEMA = Schema(
    (
        Variable("land", ("N", "S"), Coarser("place", (0, 0, 0, 1))),
        Variable("region", ("n", "m", "s"), Coarser("place", (0, 0, 1, 2))),
        Variable("place", ("n1", "n2", "m1", "s1")),
        Variable("sex", ("f", "m")),
        Variable("ill", ("no", "yes")),
    )
)


def nested(counts: list[int]) -> Table:
    """Places in regions in lands, by sex and illness."""
    cells = list(product(range(4), range(2), range(2)))
    return Table.of(SCHEMA, np.array(cells), np.array(counts, np.int64))


@settings(max_examples=25)
@given(hs.lists(hs.sampled_from([0, 1, 2, 5, 9, 20]), min_size=16, max_size=16), hs.integers(2, 6))
def test_the_least_is_lost(counts: list[int], width: int) -> None:
    table = nested([count + 1 if k % 4 == 0 else count for k, count in enumerate(counts)])
    if not len(table.at_risk(2)):
        return
    evaluator = unknowing(table, Criteria.of(2, width))
    asked = st.parse("place*sex*ill", SCHEMA)
    before = Release.of([st.parse("sex", SCHEMA)])
    found = coarser(evaluator, before, asked, Constraints().allows)
    best = None
    for level, others in product([2, 1, 0, None], product([False, True], repeat=2)):
        kept = ([] if level is None else [level]) + [v for v, keep in zip((3, 4), others, strict=True) if keep]
        candidate = SCHEMA.levels.closed(st.of(kept))
        if candidate in (0, asked) or not evaluator.accepts(evaluator.anew().evaluate(before.add(candidate))):
            continue
        cells = prod(SCHEMA.sizes[v] for v in kept)
        best = cells if best is None else max(best, cells)
    assert (None if found is None else found.cells) == best
    if found is not None:
        assert found.lost == 16 - found.cells


def test_what_is_tried() -> None:
    tried = [st.label(t, SCHEMA) for t in candidates(st.parse("place*sex", SCHEMA), SCHEMA)]
    assert tried == ["region*sex", "land*sex", "place", "region", "land", "sex"]


def test_the_verb_says_what_to_paste() -> None:
    table = nested([9, 9, 9, 9, 1, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9])
    (found,) = sdc.redesign(table, ["sex", "ill"], "place*sex*ill", min_width=4, merging=False)
    assert yaml.safe_load(found.config) == {"release": {"require": ["*".join(found.names)]}}
    assert sdc.assess(table, ["sex", "ill", "*".join(found.names)], min_width=4).releasable
    assert sdc.redesign(table, ["sex"], "sex*ill", min_width=1000) == ()
