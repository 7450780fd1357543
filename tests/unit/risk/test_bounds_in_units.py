"""The bounds that `auto` gives: sharp ones, or the brackets that a small budget leaves."""

from itertools import combinations

import numpy as np
import pytest

from sdc.executor import IN_PROCESS
from sdc.model import subtable as st
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.model.table import Table
from sdc.risk.bounds_in_units import bounds_in_units
from tests import reference
from tests.strategies import all_ways, every_cell, knows, schema_of

SIZES = ((2, 2, 2, 2), (3, 3, 2), (2, 3, 4), (2, 2, 2, 2, 2), (4, 2, 3))


def random_case(rng: np.random.Generator) -> tuple[Table, Release]:
    """A table of 4 to 8 records, and sub-tables of one number of variables."""
    sizes = SIZES[rng.integers(len(SIZES))]
    counts = rng.multinomial(rng.integers(4, 9), rng.dirichlet(np.full(np.prod(sizes), 0.4))).reshape(sizes)
    ways = [*combinations(range(len(sizes)), int(rng.integers(2, len(sizes))))]
    kept = rng.permutation(len(ways))[: int(rng.integers(2, len(ways) + 1))]
    return dense_table(schema_of(sizes), counts), Release.of(st.of(ways[k]) for k in kept)


def dense_table(schema: Schema, counts: np.ndarray) -> Table:
    return Table.of(schema, every_cell(schema), counts.reshape(-1))


def agrees(seed: int) -> bool:
    rng = np.random.default_rng(seed)
    while True:
        table, release = random_case(rng)
        facts = reference.released(table.dense, [frozenset(st.members(element)) for element in release.frontier])
        try:
            sharp = reference.bounds(reference.feasible(table.schema.sizes, facts, 20_000))
        except reference.TooManyTablesError:
            continue
        found = bounds_in_units(table, knows(table, release), every_cell(table.schema), "auto", IN_PROCESS)
        return bool((found.outer == sharp).all() and (found.inner == sharp).all())


@pytest.mark.parametrize("seed", range(16))
def test_auto_is_sharp_in_small_tables(seed: int) -> None:
    assert agrees(seed)


def test_auto_brackets_what_a_budget_does_not_settle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sdc.risk.bounds_in_units.AUTO_SECONDS", 0.01)
    table = dense_table(schema_of((2,) * 7), np.random.default_rng(5).poisson(0.9, (2,) * 7))
    cells = table.codes[table.at_risk(2)]
    found = bounds_in_units(table, knows(table, all_ways(7, 3)), cells, "auto", IN_PROCESS)
    assert (~found.exact).any()
    named = bounds_in_units(table, knows(table, all_ways(7, 3)), cells, "collapse", IN_PROCESS)
    assert (found.outer[:, 0] <= named.inner[:, 0]).all()


def test_a_formula_is_taken_where_one_is_sharp() -> None:
    table = dense_table(schema_of((2, 2, 2, 2)), np.random.default_rng(5).poisson(2, (2, 2, 2, 2)))
    for ways, method in ((4, "decomposable"), (3, "dichotomous"), (1, "decomposable")):
        found = bounds_in_units(table, knows(table, all_ways(4, ways)), table.codes, "auto", IN_PROCESS)
        assert method in found.method
        assert found.exact.all()
