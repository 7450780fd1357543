"""Differences and walks on axes with levels: what is feasible by hand, and how far walks come."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings

from sdc.feasible.differences import Differences
from sdc.feasible.walk import reached, shift
from sdc.model.release import Release
from sdc.model.structural_zeros import NO_ZEROS
from tests.levels import (
    CASES,
    FEW_NODES,
    Case,
    Rng,
    bits,
    cases,
    categories,
    each,
    generators,
    impossible_cells,
    random_case,
    random_differences,
)
from tests.profiles import scaled
from tests.strategies import nested_in
from tests.unit.feasible.test_differences import assert_same

NODES = 300


def check(of: Case, found: Differences) -> None:
    """Each is another table that agrees, and their ends are within the sharp ones."""
    for changes in each(found):
        assert changes
        assert of.agrees(changes)
    ends = reached(found, of.cells, of.table.count_at(of.cells), of.table)
    assert nested_in(ends, of.sharp)


# Differences


@given(cases(), generators())
@settings(max_examples=CASES)
def test_parts_of_what_is_feasible(of: Case, rng: Rng) -> None:
    """Marginals stay, whatever is below zero; impossible cells get nothing; and which variables change."""
    found, schema, known = random_differences(rng, of), of.schema, of.known
    wrong = set(impossible_cells(schema, of.zeros))
    more = Release.of([t for t in of.subtables if rng.random() < 0.5]).closed(schema)
    varying, stay = [], []
    for changes in each(found):
        told = [categories(schema, range(len(schema)), cell) for cell in changes]
        varying.append(bits(v for v in range(len(schema)) if len({codes[v] for codes in told}) > 1))
        sums = Counter[tuple[int, ...]]()
        for t in {0, *of.subtables}:
            for cell, change in changes.items():
                sums[t, *categories(schema, [v for v in range(len(schema)) if t >> v & 1], cell)] += change
        stay.append(not any(sums.values()))
    assert found.varying(schema).tolist() == varying
    assert found.preserve(known).tolist() == stay
    assert found.spare(known).tolist() == [not wrong & set(changes) for changes in each(found)]
    good = found.rows(found.preserve(known))
    assert good.preserve(known, known=more).all()


# Walks


@given(cases(), generators())
@settings(max_examples=CASES)
def test_every_table_shifted_to_is_feasible(of: Case, rng: Rng) -> None:
    """By any change of some of the cells, from the true table or from another that agrees."""
    some = of.cells[rng.permutation(len(of.cells))[: rng.integers(1, len(of.cells) + 1)]]
    changes = rng.integers(-6, 7, len(some))
    check(of, shift(of.table, of.known, some, changes, nodes=FEW_NODES).differences)
    other = rng.choice(of.tables)
    base = Differences.between(of.table, [other])
    found = shift(of.table, of.known, some, changes, nodes=FEW_NODES, base=base).differences
    for changed in each(found):
        assert of.agrees(changed)


@given(cases(), generators())
@settings(max_examples=CASES // 5)
def test_a_cell_is_moved_alone_as_with_others(of: Case, rng: Rng) -> None:
    changes = rng.integers(-4, 5, len(of.cells))
    together = shift(of.table, of.known, of.cells, changes, nodes=FEW_NODES).differences
    alone = [
        shift(of.table, of.known, cell[None], change[None], nodes=FEW_NODES).differences
        for cell, change in zip(of.cells, changes, strict=True)
    ]
    assert_same(together, Differences.concatenated(alone))


@pytest.mark.parametrize("chains", [True, False])
def test_most_sharp_ends_are_reached(chains: bool) -> None:
    """Of those that are not the count itself nine in ten where levels are chains, else most."""
    seen = Counter[str]()
    rng = np.random.default_rng(chains)
    for _ in range(scaled(400, fewest=60)):
        of = random_case(rng, chains=chains)
        if of.schema.levels.is_flat:
            continue
        counts = of.table.count_at(of.cells)
        for end, sign in ((0, -1), (1, 1)):
            found = shift(of.table, of.known, of.cells, of.sharp[:, end] - counts, nodes=NODES).differences
            ends = reached(found, of.cells, counts, of.table)[:, end]
            moves = of.sharp[:, end] != counts
            kind = "zeros" if of.zeros is not NO_ZEROS else "free"
            seen[f"{kind} moves"] += int(moves.sum())
            seen[f"{kind} reached"] += int((ends == of.sharp[:, end])[moves].sum())
            assert (sign * ends <= sign * of.sharp[:, end]).all()
    print(seen)
    assert seen["free moves"] > 80
    assert seen["free reached"] > 0.9 * seen["free moves"]
    assert seen["zeros reached"] > 0.7 * seen["zeros moves"]
