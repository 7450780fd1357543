"""Releases: counting against listing."""

from hypothesis import given, settings
from hypothesis import strategies as some

from sdc.model import subtable as st
from sdc.model.release import Release
from tests.reference import downward_closure
from tests.strategies import releases, schema_of

SCHEMA = schema_of([2] * 7)
subtables = some.integers(0, 2**7 - 1)


@given(some.lists(subtables, max_size=8))
def test_a_release_is_all_that_is_within_its_sub_tables(given_subtables: list[int]) -> None:
    """Counted and listed; no element of its frontier is within another."""
    release = Release.of(given_subtables)
    expected = {st.of(t) for t in downward_closure(map(st.members, [0, *given_subtables]))}
    assert {t for t in range(1 << 7) if t in release} == set(release.views(SCHEMA)) == expected
    assert len(release.views(SCHEMA)) == release.sub_tables_with_total(SCHEMA) == len(expected)
    assert release.sub_tables(SCHEMA) == len(expected) - 1
    for dimension, number in enumerate(release.by_dimension(SCHEMA)):
        assert number == sum(st.dimension(t) == dimension for t in expected)
    assert not any(a != b and st.is_within(a, b) for a in release.frontier for b in release.frontier)


@given(some.lists(subtables, max_size=6), some.lists(subtables, max_size=6), subtables)
def test_what_is_added_or_joined_is_released_too(one: list[int], other: list[int], added: int) -> None:
    release, larger = Release.of(one), Release.of(one).add(added)
    assert larger == Release.of([*one, added])
    assert larger.contains(release)
    assert release.contains(larger) == (added in release)
    assert release.join(Release.of(other)) == Release.of([*one, *other])


def test_counting_does_not_list() -> None:
    assert Release.of([st.full(63)]).sub_tables_with_total(schema_of([2] * 63)) == 2**63


@given(some.lists(subtables, max_size=6), subtables)
def test_within_is_what_is_released_of_the_marginal_table(given_subtables: list[int], part: int) -> None:
    """A sub-table of it is released where it is in the whole, each variable by its place among those kept."""
    release = Release.of(given_subtables)
    within, kept = release.within(part), st.members(part)
    for inside in range(1 << len(kept)):
        assert (inside in within) == (st.of(kept[place] for place in st.members(inside)) in release)
    assert st.is_within(within.variables, st.full(len(kept)))


@given(some.integers(1, 6).flatmap(lambda n: some.tuples(some.just(n), releases(n))))
@settings(max_examples=200)
def test_minimal_uncovered(example: tuple[int, Release]) -> None:
    variables, release = example
    every = range(1 << variables)
    expected = [s for s in every if s not in release and all(child in release for child in st.children(s, SCHEMA))]
    assert list(release.minimal_uncovered(variables)) == sorted(expected, key=lambda s: (st.dimension(s), s))
