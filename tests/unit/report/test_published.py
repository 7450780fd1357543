"""What the published tables show: small counts, zeros and group disclosures, against going through every cell."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as hs

from sdc.model import subtable as st
from sdc.model.knowledge import Knowledge
from sdc.model.release import NOTHING
from sdc.model.structural_zeros import Pattern, StructuralZeros
from sdc.model.table import Table
from sdc.report import published as module
from sdc.report.published import impossible, published
from tests.strategies import dense, dense_counts, every_cell, knows, schema_of

SIZES = hs.lists(hs.integers(1, 3), min_size=1, max_size=4)


@hs.composite
def tables(draw: hs.DrawFn) -> tuple[Table, Knowledge]:
    """Sparse tables, some with structural zeros where they have no records."""
    schema = schema_of(draw(SIZES))
    counts = draw(hs.lists(hs.sampled_from([0, 0, 0, 1, 2, 3, 9]), min_size=schema.cells, max_size=schema.cells))
    if not any(counts):
        counts[0] = 1
    table = dense(schema, counts)
    zeros = StructuralZeros(tuple(p for p in draw(hs.lists(patterns(table), max_size=3)) if p))
    return table, knows(table, NOTHING, zeros)


@hs.composite
def patterns(draw: hs.DrawFn, table: Table) -> Pattern:
    """One that no record is in, else the empty one."""
    named = draw(hs.sets(hs.integers(0, len(table.schema) - 1), min_size=1))
    chosen = tuple((v, tuple(draw(hs.sets(hs.integers(0, table.schema.sizes[v] - 1), min_size=1)))) for v in named)
    return () if StructuralZeros((chosen,)).contains(table.codes, table.schema).any() else chosen


def groups(counts: np.ndarray, possible: np.ndarray, v: int) -> int:
    """Combinations of the others with records of one category only, though another one is possible."""
    found = 0
    for others in product(*(range(n) for u, n in enumerate(counts.shape) if u != v)):
        line, can = (np.moveaxis(a, v, -1)[others] for a in (counts, possible))
        found += (line > 0).sum() == 1 and bool((can & (line == 0)).any())
    return int(found)


@given(tables(), hs.data())
def test_each_table_is_counted_right(given_: tuple[Table, Knowledge], data: hs.DataObject) -> None:
    table, known = given_
    subtable = data.draw(hs.integers(1, st.full(len(table.schema))))
    (found,) = published(table, known, (subtable,), 2)
    marginal = table.marginal(subtable)
    counts, schema = dense_counts(marginal), marginal.schema
    possible = ~known.zeros.within(subtable).contains(every_cell(schema), schema).reshape(schema.sizes)
    assert (found.cells, found.small) == (counts.size, ((counts > 0) & (counts <= 2)).sum())
    assert found.zeros == ((counts == 0) & possible).sum()
    wanted = {
        name: groups(counts, possible, v)
        for v, name in enumerate(schema.names)
        if len(schema) > 1 and schema.sizes[v] > 1
    }
    assert dict(found.disclosing) == wanted
    assert found.groups == sum(wanted.values())


def test_the_most_disclosing_comes_first() -> None:
    table = dense(schema_of([2, 2, 2]), [5, 0, 5, 0, 5, 1, 5, 5])
    known = knows(table, NOTHING)
    found = published(table, known, (0, 0b011, 0b110), 2)
    assert [(one.label, one.groups, one.small, one.zeros) for one in found] == [("B*C", 0, 1, 0), ("A*B", 0, 0, 0)]
    (both,) = published(table, known, (0b111,), 2)
    assert both.variables == "A 2, C 2"


def test_patterns_of_too_many_combinations_exclude_none(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = schema_of([3, 3])
    zeros = StructuralZeros((((0, (0,)), (1, (0, 1))),))
    assert impossible(zeros, schema) == 2
    monkeypatch.setattr(module, "MOST_COMBINATIONS", 8)
    assert impossible(zeros, schema) == 0
