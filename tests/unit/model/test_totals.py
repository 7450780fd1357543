"""Rows of totals are no records: refused as categories, and read as totals where a table lists all of them."""

from collections import Counter
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sdc.data.profile import written
from sdc.data.reading import read_table, read_weights
from sdc.data.source import open_source
from sdc.model.errors import InputError
from sdc.model.labels import Labels
from sdc.model.table import Table
from sdc.model.totals import is_reserved, is_usual, sum_categories
from sdc.publish.formats import FORMATS, CountTable
from tests.levels import Rng
from tests.strategies import dense, schema_of

Rows = list[tuple[Any, ...]]
CELLS: Rows = [("n", "f", 3), ("n", "m", 4), ("s", "f", 5), ("s", "m", 1)]


def with_totals(cells: Rows, over: tuple[int, ...], mark: str = "(total)") -> Rows:
    """Cells and, of each choice of these variables, the sums over them."""
    rows = list(cells)
    for axes in (axes for n in range(1, len(over) + 1) for axes in combinations(over, n)):
        sums = dict[tuple[str, ...], int]()
        for *cell, count in cells:
            named = tuple(mark if axis in axes else text for axis, text in enumerate(cell))
            sums[named] = sums.get(named, 0) + count
        rows += [(*cell, count) for cell, count in sums.items()]
    return rows


def read(rows: Rows, **settings: Any) -> Table:
    return read_table(pd.DataFrame(rows, columns=[*"abcd"[: len(rows[0]) - 1], "count"]), **settings)


def random_cells(rng: Rng) -> Rows:
    sizes = [int(size) for size in rng.integers(2, 4, rng.integers(1, 4))]
    cells = product(*([f"{axis}{code}" for code in range(size)] for axis, size in enumerate(sizes)))
    found = [(*cell, int(rng.choice([0, 1, 1, 2, 5]))) for cell in cells]
    return [row for row in found if row[-1]] or [(*found[0][:-1], 1)]


def summed(cells: Rows, keep: tuple[bool, ...], marks: str) -> Rows:
    """The counts of some variables, with marks for the others."""
    found = Counter[tuple[str, ...]]()
    for *cell, count in cells:
        found[tuple(c if kept else mark for c, kept, mark in zip(cell, keep, marks, strict=True))] += count
    return [(*cell, count) for cell, count in found.items()]


@pytest.mark.parametrize("mark", ["Total", "INSGESAMT", "ensemble", "Alle", "_T", "T", "All ages", "- total -", "合計"])
@pytest.mark.parametrize("seed", range(5))
def test_a_usual_name_with_the_sums_of_others_is_refused(seed: int, mark: str, night: list[int]) -> None:
    """In one variable or several, whichever of the sums are listed; a config may say that it is a category."""
    rng = np.random.default_rng([*night, seed])
    cells = random_cells(rng)
    over = [axis for axis in range(len(cells[0]) - 1) if rng.random() < 0.6] or [0]
    totals = with_totals(cells, tuple(over), mark)[len(cells) :]
    kept = [row for row in totals if rng.random() < 0.7] or totals
    with pytest.raises(InputError, match=r"has rows of totals: .* has the sums of other categories in every row"):
        read([*cells, *kept])
    allowed = {"abcd"[axis]: [mark] for axis in range(len(cells[0]) - 1) if any(row[axis] == mark for row in kept)}
    assert read([*cells, *kept], not_totals=allowed).total == sum(row[-1] for row in (*cells, *kept))


def test_totals_of_levels_and_of_margins_alone_are_seen() -> None:
    levels: Rows = [("A", 7), ("A1", 3), ("A2", 4), ("B", 5), ("B1", 5), ("Total", 12)]
    for rows in (levels, [*CELLS, ("Total", "Total", 13)], with_totals(CELLS, (0, 1), "Total")[4:]):
        with pytest.raises(InputError, match="has rows of totals"):
            read(rows)
    # it is called so, and counts other records: that is said before a build, and not refused
    table = read([*CELLS, ("Total", "f", 7)])
    assert [*sum_categories(table, {})] == [("a", "Total")]


def test_the_reserved_names_are_no_categories(tmp_path: Path) -> None:
    for mark in ("(total)", " (TOTAL) ", "( all )"):
        assert is_reserved(mark)
        with pytest.raises(InputError, match=r"'a' has \(total\) or \(all\), which stands for all others"):
            read(with_totals(CELLS, (0,), mark))
        with pytest.raises(InputError, match="which stands for totals; rename it"):
            read(CELLS, recodes={"a": {"groups": {mark: ["n"], "rest": ["s"]}}})
        with pytest.raises(InputError, match="which stands for all others"):
            read([*CELLS, (mark, "f", 8)], recodes={"a": {"groups": {"north": ["n"], "rest": "*"}}})
    with pytest.raises(InputError, match="column 'a' has 'Total', by its name a total"):
        read([*CELLS, ("Total", "f", 8)], recodes={"a": {"groups": {"north": ["n"], "rest": "*"}}})
    for mark in ("(total)", "Total"):
        with pytest.raises(InputError, match="in column 'a', which makes no variable: its rows of totals would be"):
            read(with_totals(CELLS, (0,), mark), variables=["b"])
    assert read([*CELLS, ("Total", "f", 1)], variables=["b"], not_totals={"a": ["Total"]}).total == 14
    (tmp_path / "t.csv").write_text("a,b\nn,f\nn,m\n(total),f\n")
    with pytest.raises(InputError, match="which stands for all others"):
        read_table(tmp_path / "t.csv")
    assert [is_usual(name) for name in ("Totale", "tot", "north", "Tirol", "0")] == [True, True, False, False, False]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_published_table_with_its_totals_is_the_table(suffix: str, tmp_path: Path, night: list[int]) -> None:
    rng = np.random.default_rng([*night, 1])
    table = dense(schema_of([3, 2, 2]), rng.integers(0, 5, 12)).marginal(3)
    listed = replace(CountTable.of("t", "t", table, Labels()), totals=True)
    for zeros in (False, True):
        path = tmp_path / f"{zeros}{suffix}"
        path.write_bytes(b"".join(FORMATS[suffix[1:]].of_table[suffix](replace(listed, zeros=zeros))))
        found = read_table(path)
        assert (found.total, found.counts.tolist()) == (table.total, table.counts.tolist())


@pytest.mark.parametrize("seed", range(10))
def test_totals_that_are_wrong_or_not_all_there_are_refused(seed: int, night: list[int]) -> None:
    """A change of any total, or one of several that is left out: without its only one a table has no totals."""
    rng = np.random.default_rng([*night, seed])
    cells = random_cells(rng)
    rows = with_totals(cells, tuple(range(len(cells[0]) - 1)))
    assert read(rows) == read(cells)
    place = int(rng.integers(len(cells), len(rows)))
    more = (*rows[place][:-1], rows[place][-1] + 1)
    for changed in ([more], []) if len(rows) > len(cells) + 1 else ([more],):
        with pytest.raises(InputError, match="a table with totals is read only if it lists every total, each correct"):
            read([*rows[:place], *changed, *rows[place + 1 :]])


def test_the_sum_of_all_others_is_named_whatever_it_is_called(tmp_path: Path) -> None:
    rows = with_totals([*CELLS, ("w", "f", 2)], (0,), "country")
    assert [*sum_categories(read(rows), {})] == [("a", "country")]
    assert [*sum_categories(read(rows), {"a": ["country"]})] == []
    # codes of classes within others, as of NACE, and all of them
    leaves: Rows = [(c, s, 2 + 3 * k) for k, (c, s) in enumerate(product(["A1", "A2", "B1", "B2"], "fmd"))]
    sums = [(c, s, sum(n for leaf, t, n in leaves if leaf[0] == c and t == s)) for c, s in product("AB", "fmd")]
    top = [("x", s, sum(n for _, t, n in sums if t == s)) for s in "fmd"]
    assert [*sum_categories(read([*leaves, *sums, *top]), {})] == [("a", "A"), ("a", "B"), ("a", "x")]
    # as ROLLUP and GROUPING SETS of SQL have them: all variables but the first few, under one name or several
    cells: Rows = [(a, b, c, 1 + 7 * k) for k, (a, b, c) in enumerate(product("xyz", "pq", "12"))]
    for marks in ("***", "789"):
        for least in (0, 2):
            kept = [tuple(place < left for place in range(3)) for left in range(least, 3)]
            rows = [*cells, *(row for keep in (*kept, (False,) * 3) for row in summed(cells, keep, marks))]
            table = read(list(dict.fromkeys(rows)))
            assert [*sum_categories(table, {})] == [*zip("abc", marks, strict=True)]
            assert [*sum_categories(table, {"a": marks[0], "b": marks[1], "c": marks[2]})] == []
    records = pd.DataFrame([("n", 2.5), ("s", 1.0), ("s", 0.5), ("Total", 4.0)], columns=["a", "w"])
    with pytest.raises(InputError, match="'Total' of 'a' has the sums"):
        read_weights(records, "w")
    counted = pd.DataFrame(with_totals(CELLS, (0,), "Total"), columns=["a", "b", "count"])
    counted.to_csv(tmp_path / "t.csv", index=False)
    config, facts = written(open_source(tmp_path / "t.csv"), "t")
    assert facts["sums"] == [["a", "Total"]]
    assert '  # not_totals: {"a": ["Total"]}\n' in config
