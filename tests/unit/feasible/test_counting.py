"""The count by dynamic programming: published numbers, and random tables against the listing."""

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as hs

from sdc.feasible import counting
from sdc.feasible.counting import MAX_WORK, count_block, count_tables, estimated_log10
from sdc.feasible.depth_first import FeasibleTables
from sdc.model.knowledge import Knowledge
from sdc.model.suppressed_table import SuppressedTable
from sdc.model.table import Table
from tests.reference import TooManyTablesError
from tests.strategies import (
    ORDERED_60,
    all_ways,
    czech,
    dense,
    frontier,
    knows,
    listed,
    schema_of,
    tables_and_knowledge,
)


def counted(sizes: list[int], counts: list[int], *released: str) -> int | None:
    table = dense(schema_of(sizes), counts)
    return count_tables(table, knows(table, frontier(*released)), MAX_WORK)


def test_semi_magic_squares() -> None:
    """OEIS A002817, A001496, A003438, A003439: n x n tables with all rows and columns of the same sum."""
    published = {3: (6, 21, 55, 120, 231), 4: (24, 282, 2008, 10147), 5: (120, 6210, 153040), 6: (720, 202410)}
    for n, numbers in published.items():
        for total, number in enumerate(numbers, 1):
            assert counted([n, n], (np.eye(n, dtype=int) * total).reshape(-1).tolist(), "A", "B") == number


def test_three_way_tables_and_latin_squares() -> None:
    """3x3x3 with all two-way marginals, and Latin squares (OEIS A002860)."""
    for n, total, number in [(3, t, m) for t, m in zip(range(2, 6), (132, 847, 3921, 14286), strict=True)] + [
        (2, 1, 2),
        (3, 1, 12),
        (4, 1, 576),
    ]:
        square = np.fromfunction(lambda i, j, k, n=n: (i + j + k) % n == 0, (n, n, n)).astype(int) * total
        table = dense(schema_of([n, n, n]), square.reshape(-1).tolist())
        assert count_tables(table, knows(table, all_ways(3, 2)), MAX_WORK) == number


def test_large_numbers() -> None:
    """Diaconis and Gangolli 1995, Diaconis and Efron 1985: 5 x 3, and hair and eye colour."""
    assert counted([5, 3], [10, 0, 0, 55, 7, 0, 0, 13, 0, 0, 5, 6, 0, 0, 39], "A", "B") == 239_382_173
    hair_and_eyes = [68, 119, 26, 7, 20, 84, 17, 94, 15, 54, 14, 10, 5, 29, 14, 16]
    assert counted([4, 4], hair_and_eyes, "A", "B") == 1_225_914_276_768_514


def test_numbers_beyond_a_machine_word() -> None:
    """Two rows of four cells with 10^6 records: C(n + 3, 3) each; and 2 x 40, more than 2^64."""
    each = 1_000_003 * 1_000_002 * 1_000_001 // 6
    assert counted([2, 4], [1_000_000, 0, 0, 0] * 2, "A") == each**2
    # pairs of a first row x and 2 - x with the sum 40: the coefficients of (1 + z + z^2)^50
    row = [1]
    for _ in range(50):
        row = [sum(row[max(0, k - 2) : k + 1]) for k in range(len(row) + 2)]
    assert counted([2, 50], [1] * 100, "A", "B") == max(row) > 1 << 64


@settings(max_examples=200)
@given(of=tables_and_knowledge())
def test_random_tables_against_the_listing(of: tuple[Table, Knowledge]) -> None:
    table, known = of
    try:
        expected = len(listed(table, known))
    except TooManyTablesError:
        reject()
    assert count_tables(table, known, MAX_WORK) in (expected, None)


@settings(max_examples=50)
@given(of=tables_and_knowledge(max_records=6), hidden=hs.data())
def test_tables_with_suppressed_cells_against_the_search(of: tuple[Table, Knowledge], hidden: hs.DataObject) -> None:
    """Sums between two numbers: a cell of a suppressed table is any count."""
    from sdc.bounds.enumeration import enumerate_tables

    table, known = of
    view = known.release.frontier[0]
    cells = table.marginal(view).dense.size if view else 1
    places = np.array(sorted(hidden.draw(hs.sets(hs.integers(0, cells - 1), max_size=3))), np.int64)
    own = SuppressedTable.at(view, places, table.schema, table.total) if view else None
    known = known.with_facts((own.fact,)) if own is not None else known
    found = enumerate_tables(table, known, limit=20_000)
    if not found.complete:
        reject()
    assert count_tables(table, known, MAX_WORK) in (found.feasible_tables, None)


def test_no_count_beyond_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    table = dense(schema_of([3, 3]), [1, 0, 1, 2, 1, 0, 1, 1, 1])
    known = knows(table, frontier("A", "B"))
    (block,) = (found := FeasibleTables(table, known)).blocks
    assert count_block(found, block) is not None
    assert count_block(found, block, 1) is None
    for limit in ("MAX_STATES", "MAX_SUMS", "MAX_COEFFICIENT"):
        with monkeypatch.context() as patch:
            patch.setattr(counting, limit, 0)
            assert count_tables(table, known, MAX_WORK) is None


def test_estimate() -> None:
    """Of 810 tables, and of 1.2 * 10^15 within a factor of ten; descents have explicit seeds."""
    table = czech()
    found = FeasibleTables(table, knows(table, ORDERED_60))
    assert abs(estimated_log10(found) - np.log10(810)) < 0.2
    table = dense(schema_of([4, 4]), [68, 119, 26, 7, 20, 84, 17, 94, 15, 54, 14, 10, 5, 29, 14, 16])
    found = FeasibleTables(table, knows(table, frontier("A", "B")))
    assert abs(estimated_log10(found) - np.log10(1_225_914_276_768_514)) < 1
    assert estimated_log10(found) == estimated_log10(found)
