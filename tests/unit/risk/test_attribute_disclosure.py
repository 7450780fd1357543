"""Attribute disclosure against every group of every implied sub-table, with structural zeros and levels."""

import re
from collections import Counter
from collections.abc import Collection, Iterator
from itertools import product

import numpy as np
import pytest

from sdc.api import assess, find_release
from sdc.model import subtable as st
from sdc.model.errors import InputError, NotReleasableError, ReleaseError
from sdc.model.release import NOTHING, Release
from sdc.model.schema import Coarser, Schema, Variable
from sdc.model.structural_zeros import NO_ZEROS, StructuralZeros
from sdc.model.table import Table
from sdc.protect.release import protect
from sdc.protect.request import ProtectionRequest
from sdc.risk.attribute_disclosure import AttributeDisclosure
from sdc.risk.criteria import Criteria
from sdc.risk.evaluator import RiskEvaluator
from sdc.risk.verdict import Verdict
from sdc.stages.resolved import knowledge
from tests import reference
from tests.levels import (
    Cell,
    closed_sets,
    dense_of,
    impossible_cells,
    named,
    random_schema,
    random_table,
    random_zeros,
    variables_of,
)
from tests.profiles import scaled
from tests.strategies import dense, knows, schema_of

CASES = 300


def tells(table: Table, zeros: StructuralZeros, release: Release, rule: AttributeDisclosure) -> bool:
    """By all implied sub-tables, of each sensitive variable on its finest level there."""
    schema, impossible = table.schema, {*impossible_cells(table.schema, zeros)}
    own = map(schema.index, rule.sensitive)
    sensitive = {v for name in own for v in (name, *st.members(schema.levels.coarser[name]))}
    pairs = ((t, v) for t in closed_sets(schema) if t in release for v in sensitive if st.has(t, v))
    finest = ((t, v) for t, v in pairs if not any(schema.levels.finer(v) >> u & 1 for u in st.members(t)))
    return any(discloses(table, impossible, t, v, rule) for t, v in finest)


def discloses(table: Table, impossible: Collection[Cell], subtable: int, v: int, rule: AttributeDisclosure) -> bool:
    variable, view = variables_of(table.schema)[v], named(table.schema, subtable)
    return reference.discloses_attribute(dense_of(table), view, variable, rule.most, impossible, lacking=rule.lacking)


def random_rule(rng: np.random.Generator, schema: Schema) -> AttributeDisclosure:
    names = rng.permutation(schema.names)[: rng.integers(1, 3)].tolist()
    return AttributeDisclosure(tuple(names), int(rng.integers(1, 5)), bool(rng.random() < 0.5))


def test_the_rule_is_broken_exactly_where_a_group_is_told_of(night: list[int]) -> None:
    """Of tables with levels and structural zeros, which exclude categories of groups, alone and together."""
    rng, seen = np.random.default_rng([51, *night]), Counter[tuple[bool, bool]]()
    for number in range(scaled(CASES, fewest=120)):
        schema = random_schema(rng, most_cells=48)
        table = random_table(rng, schema)
        zeros = random_zeros(rng, table) if number % 2 else NO_ZEROS
        rule, release = random_rule(rng, schema), Release.of(rng.choice(closed_sets(schema), 2).tolist())
        if not table.total:
            continue
        broken = tells(table, zeros, release.closed(schema), rule)
        assert (rule.broken(table, knows(table, release, zeros)) is not None) == broken
        seen[broken, bool(zeros)] += 1
    assert len(seen) == 4


def sparse(rng: np.random.Generator, number: int) -> Iterator[Table]:
    """Tables of 2 or 3 variables with an at-risk cell."""
    while number:
        sizes = rng.integers(2, 4, rng.integers(2, 4)).tolist()
        counts = rng.integers(0, 9, sizes) * (rng.random(sizes) < 0.8)
        if 0 < counts[counts > 0].min(initial=9) <= 2:
            number -= 1
            yield dense(schema_of(sizes), counts.reshape(-1).tolist())


def test_a_release_without_such_a_group_is_not_refused_for_it(night: list[int]) -> None:
    rng, verdicts = np.random.default_rng([52, *night]), Counter[tuple[bool, Verdict]]()
    for table in sparse(rng, scaled(CASES, fewest=80)):
        rule = random_rule(rng, table.schema)
        release = Release.of(rng.integers(1, 1 << len(table.schema), 2).tolist())
        found = assess(table, knows(table, release), min_width=1, attribute_disclosure=rule)
        without, broken = assess(table, knows(table, release), min_width=1), tells(table, NO_ZEROS, release, rule)
        assert found.verdict is (Verdict.UNSAFE if broken else without.verdict)
        verdicts[broken, without.verdict] += 1
    assert {(True, Verdict.SAFE), (False, Verdict.SAFE)} <= verdicts.keys()


@pytest.mark.parametrize("method", ["ordered", "bisection", "best", "decomposable", "simulatable"])
def test_what_a_search_releases_tells_of_no_such_group(method: str, night: list[int]) -> None:
    rng, found = np.random.default_rng([53, *night]), Counter[bool]()
    for table in sparse(rng, scaled(CASES // 4, fewest=5)):
        rule = random_rule(rng, table.schema)
        given = {"chains": 1, "steps": 200} if method in ("best", "decomposable") else {}
        given |= {"draws": 20, "share": 0.2} if method == "simulatable" else {}
        try:
            release = find_release(
                table, method, knowledge(table), min_width=1, attribute_disclosure=rule, **given
            ).release
        except ReleaseError:
            found[False] += 1
            continue
        assert not tells(table, NO_ZEROS, release, rule)
        found[True] += 1
    assert found[True] > 0


def test_what_is_withheld_of_a_part_makes_no_such_group_safe(night: list[int]) -> None:
    """By a public total of the group it is worked out; what is rounded is told of nobody."""
    rng, seen = np.random.default_rng([54, *night]), Counter[tuple[str, bool]]()
    for table in sparse(rng, scaled(CASES // 2, fewest=16)):
        rule, view = random_rule(rng, table.schema), (1 << len(table.schema)) - 1
        evaluator = RiskEvaluator(table, knows(table, NOTHING), Criteria.of(2, 1, attribute_disclosure=rule))
        for way in ("suppression", "rounding"):
            whole = evaluator.evaluate(NOTHING)
            found = (
                protect(evaluator, whole, [ProtectionRequest(view, (way,), base=4)])
                if evaluator.accepts(whole)
                else None
            )
            if found is not None and found.suppressed_tables.tables:
                broken = tells(table, NO_ZEROS, Release.of([view]), rule)
                assert not (broken and way == "suppression")
                seen[way, broken] += 1
    assert seen.keys() == {("suppression", False), ("rounding", False), ("rounding", True)}


def test_by_hand() -> None:
    """All 3 of the north are ill; of the south some of each."""
    schema = Schema((Variable("area", ("north", "south")), Variable("ill", ("yes", "no"))))
    table = dense(schema, [3, 0, 40, 50])
    rule = AttributeDisclosure(("ill",), 3)
    found = assess(table, ["area*ill"], min_width=1, attribute_disclosure=rule)
    assert found.broken is not None
    assert re.match(r"area\*ill discloses that in a group none of at most 3 records", found.broken.text)
    assert found.broken.detail == "the group area = north"
    assert assess(table, ["area", "ill"], min_width=1, attribute_disclosure=rule).releasable
    assert assess(table, ["area*ill"], min_width=1, attribute_disclosure=AttributeDisclosure(("ill",), 2)).releasable
    zeros = StructuralZeros((((0, (0,)), (1, (1,))),))
    assert assess(table, knows(table, Release.of([3]), zeros), min_width=1, attribute_disclosure=rule).broken is None


def test_with_structural_zeros_what_is_within_may_break_it_alone() -> None:
    """Men cannot be pregnant, and 2 records of an area are men: beside sex that is no news, without it it is."""
    sizes = {"area": ("a", "b"), "sex": ("m", "f"), "pregnant": ("yes", "no")}
    schema = Schema(tuple(Variable(name, categories) for name, categories in sizes.items()))
    counts = {("a", "m", "no"): 2, ("b", "m", "no"): 9, ("b", "f", "yes"): 5, ("b", "f", "no"): 6}
    table = dense(schema, [counts.get(cell, 0) for cell in product(*sizes.values())])
    zeros, rule = StructuralZeros((((1, (0,)), (2, (0,))),)), AttributeDisclosure(("pregnant",), 4)
    told = [discloses(table, impossible_cells(schema, zeros), t, 2, rule) for t in (0b101, 0b111)]
    assert told == [True, False]
    found = rule.broken(table, knows(table, Release.of([0b111]), zeros))
    assert found is not None
    assert found.text.startswith("area*pregnant discloses that")


def test_coarser_levels_are_sensitive_too() -> None:
    """That all have one kind of illness is told, though of each kind there are several."""
    ill = Variable("ill", ("flu", "cold", "none"))
    kind = Variable("kind", ("some", "none"), Coarser("ill", (0, 0, 1)))
    schema = Schema((Variable("area", ("north", "south")), ill, kind))
    table = Table.of(schema, np.array([*product(range(2), range(3))]), np.array([1, 2, 0, 30, 40, 50]))
    rule = AttributeDisclosure(("ill",), 3, lacking=False)
    found = rule.broken(table, knows(table, Release.of([0b011])))
    assert found is not None
    assert found.text.startswith("area*kind discloses that in a group all of at most 3 records have one category")


def test_what_is_no_rule() -> None:
    table = dense(schema_of([2, 2]), [1, 2, 3, 4])
    with pytest.raises(InputError, match="unknown variable 'income'; the table has A, B"):
        assess(table, ["A"], min_width=1, attribute_disclosure=AttributeDisclosure(("income",), 3))
    for sensitive, most in (((), 3), (("A",), 0)):
        with pytest.raises(InputError, match="name a variable, and give at least 1 record"):
            AttributeDisclosure(sensitive, most)


def test_a_required_sub_table_that_breaks_it() -> None:
    table = dense(schema_of([2, 2]), [3, 0, 30, 1])
    with pytest.raises(
        NotReleasableError, match=r"A\*B is not releasable: A\*B discloses that in a group none of at most 3"
    ) as found:
        find_release(
            table,
            "ordered",
            knowledge(table),
            min_width=1,
            attribute_disclosure=AttributeDisclosure(("B",), 3),
            require=["A*B"],
        )
    assert found.value.detail == "the group A = 0"
