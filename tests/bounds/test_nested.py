"""The sandwich between decomposable releases."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as hs

from sdc.bounds import decomposable, nested
from sdc.model import graph
from sdc.model import subtable as st
from sdc.model.release import Release
from tests.strategies import all_ways, czech, decomposable_releases, every_cell, frontier, releases, small_tables


@example((7, all_ways(7, 3)))
@given(hs.integers(2, 8).flatmap(lambda k: hs.tuples(hs.just(k), releases(k))))
def test_spanning_sequences_are_decomposable_releases_within(case: tuple[int, Release]) -> None:
    variables, release = case
    if release.variables != st.full(variables):
        return
    for sequence in nested.spanning_sequences(release, st.full(variables)):
        assert all(clique in release for clique in sequence.cliques)
        inside = Release.of(sequence.cliques)
        assert graph.decompose(inside, variables) is not None
        assert inside.variables == release.variables
        for j, separator in enumerate(sequence.separators):
            earlier, clique = sequence.cliques[: j + 1], sequence.cliques[j + 1]
            assert separator == clique & Release.of(earlier).variables
            assert any(st.is_within(separator, one) for one in earlier)


@given(hs.data())
def test_inner_is_exact_for_decomposable_releases(data: hs.DataObject) -> None:
    table = data.draw(small_tables())
    release = data.draw(decomposable_releases(len(table.schema)))
    cells = every_cell(table.schema)
    sharp = decomposable.bounds(table, release, cells)
    bounds = nested.bounds(table, release, cells)
    assert (bounds.inner == sharp.inner).all()
    assert (bounds.outer[:, 1] == sharp.outer[:, 1]).all()


def test_a_four_cycle_has_room_on_the_inside() -> None:
    table = czech()
    bounds = nested.bounds(table, frontier("ABE", "BCF", "CD", "AD"), table.codes)
    assert bounds.method == "nested"
    assert (bounds.inner_width > 0).all()


def test_an_element_that_meets_two_cliques_keeps_one_of_them() -> None:
    """ABC, DEF, then ADG would close a cycle: only G and A, or G and D, are taken from it."""
    (first, *_) = nested.spanning_sequences(frontier("ABC", "DEF", "ADG"), st.full(7))
    assert Release.of(first.cliques) in (frontier("ABC", "DEF", "AG"), frontier("ABC", "DEF", "DG"))
