"""Tables of which some counts are not told, or between two numbers, against every table of counts that agrees."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest

from sdc.model.errors import InputError, ReleaseError
from sdc.public.check import check
from sdc.public.incomplete import read_incomplete
from sdc.public.published import read_published
from tests import reference
from tests.levels import Rng
from tests.profiles import scaled
from tests.reference import Cell

SIZES = [(2, 2), (2, 3), (3, 3), (2, 2, 2), (3,), (2, 3, 2)]
Told = tuple[int, int] | None
NAMES = "ABC"


@dataclass
class File:
    """What a file tells: of cells, and of totals by the axes that they are of."""

    sizes: tuple[int, ...]
    told: dict[tuple[int, ...], dict[Cell, Told]] = field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        """As CSV."""
        yield ",".join([*NAMES[: len(self.sizes)], "count"])
        for axes, sums in self.told.items():
            for cell, told in sums.items():
                by_axis = dict(zip(axes, cell, strict=True))
                names = [str(by_axis.get(axis, "(total)")) for axis in range(len(self.sizes))]
                yield ",".join([*names, written(told)])

    def write(self, folder: Path, name: str = "table.csv") -> Path:
        (folder / name).write_text("\n".join(self.lines()) + "\n")
        return folder / name

    @property
    def facts(self) -> Iterator[reference.Fact]:
        """For the judge, which is told of a cell without a count that it has some."""
        for axes, sums in self.told.items():
            for cell, told in sums.items():
                inside = (one for one in reference.every_cell(self.sizes) if tuple(one[axis] for axis in axes) == cell)
                if told is not None:
                    yield reference.Fact(frozenset(inside), *told)

    @property
    def is_bounded(self) -> bool:
        """Whether each cell is in some sum, and some cell is not told exactly: else totals are passed over."""
        cells = self.told[tuple(range(len(self.sizes)))].values()
        if all(told is not None and told[0] == told[1] for told in cells):
            return False
        return frozenset().union(*(fact.cells for fact in self.facts)) == {*reference.every_cell(self.sizes)}


def written(told: Told) -> str:
    if told is None:
        return ""
    return str(told[0]) if told[0] == told[1] else f"{told[0]}-{told[1]}"


def random_file(rng: Rng) -> tuple[np.ndarray, File]:
    """A small table, and of it a file with some counts, some intervals, and totals or none of them."""
    sizes = SIZES[rng.integers(len(SIZES))]
    counts = rng.choice([0, 0, 1, 1, 2, 3], sizes)
    every = tuple(range(len(sizes)))
    of = File(
        sizes, {every: {cell: _random_told(rng, int(counts[cell]), 0.45) for cell in product(*map(range, sizes))}}
    )
    for number in every:
        for axes in combinations(every, number):
            if rng.random() < 0.6:
                rest = tuple(axis for axis in every if axis not in axes)
                sums = counts.sum(axis=rest)
                cells = [cell for cell in product(*(range(sizes[axis]) for axis in axes)) if rng.random() < 0.9]
                of.told[axes] = {cell: _random_told(rng, int(sums[cell]), 0.1) for cell in cells}
    return counts, of


def _random_told(rng: Rng, count: int, withheld: float) -> Told:
    drawn = rng.random()
    if drawn < withheld:
        return None
    if drawn < withheld + 0.2:
        return max(0, count - int(rng.integers(0, 3))), count + int(rng.integers(0, 3))
    return count, count


def random_bounded(rng: Rng) -> tuple[np.ndarray, File]:
    """One with each cell in some sum."""
    while True:
        counts, of = random_file(rng)
        if of.is_bounded:
            return counts, of


@pytest.mark.parametrize("seed", range(scaled(300)))
def test_what_is_told_bounds_the_rest(seed: int, tmp_path: Path) -> None:
    _, of = random_bounded(np.random.default_rng(seed))
    found = check([of.write(tmp_path)], small_count=None)
    assert found.consistent
    bounds = map(tuple, reference.bounds(reference.feasible(of.sizes, of.facts)).tolist())
    sharp = dict(zip(reference.every_cell(of.sizes), bounds, strict=True))
    shown = dict.fromkeys(sharp, (0, 0))
    for cell, outer, inner in zip(found.cells.tolist(), found.outer.tolist(), found.inner.tolist(), strict=True):
        named = found.schema.named(cell)
        assert outer == inner
        shown[tuple(int(named[name]) for name in NAMES[: len(of.sizes)])] = tuple(outer)
    assert shown == sharp


@pytest.mark.parametrize("seed", range(scaled(300)))
def test_a_table_by_itself_has_the_tables_that_agree(seed: int, tmp_path: Path) -> None:
    """Bounds of cells, of super-cells and over fractions, and how many tables there are."""
    rng = np.random.default_rng(seed)
    _, of = random_bounded(rng)
    found, tables = read_incomplete(of.write(tmp_path)), reference.feasible(of.sizes, of.facts)
    all_cells = found.bounds("all")
    assert all_cells.exact.all()
    assert np.array_equal(all_cells.outer, np.stack([tables.min(axis=0), tables.max(axis=0)], axis=1))
    chosen = {
        NAMES[axis]: [str(code) for code in range(size) if rng.random() < 0.6] for axis, size in enumerate(of.sizes)
    }
    chosen = {name: own for name, own in chosen.items() if own}
    inside = [
        all(str(code) in chosen.get(NAMES[a], [str(code)]) for a, code in enumerate(cell))
        for cell in reference.every_cell(of.sizes)
    ]
    sums = tables[:, inside].sum(axis=1)
    assert found.bounds(chosen).outer.tolist() == found.bounds(chosen).inner.tolist() == [[sums.min(), sums.max()]]
    (fractions,) = found.bounds(chosen, fractional=True).outer
    assert fractions[0] <= sums.min()
    assert fractions[1] >= sums.max()
    seen = found.tables()
    assert (seen.feasible_tables, seen.complete) == (len(tables), True)
    assert np.array_equal(np.stack([seen.lower, seen.upper], axis=1), all_cells.outer)


@pytest.mark.parametrize("seed", range(scaled(100)))
def test_what_contradicts_itself_is_found_out(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    _, of = random_bounded(rng)
    axes = [*of.told][rng.integers(len(of.told))]
    if told := [cell for cell, one in of.told[axes].items() if one is not None]:
        low, high = of.told[axes][told[0]] or (0, 0)
        of.told[axes][told[0]] = low + 2, high + 2
    there_are = bool(len(reference.feasible(of.sizes, of.facts)))
    assert check([of.write(tmp_path)], small_count=None).consistent == there_are
    if not there_are:
        with pytest.raises(InputError, match="contradicts itself: no counts agree with all that it tells"):
            read_incomplete(of.write(tmp_path))


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "a,count\nx,3\ny,5-2\n",
            "has 1 counts between two numbers that no count is between; give the lower one first",
        ),
        ("a,count\nx,3\ny,2-\n", "is not a table of counts as its name says: the one of row 2 is no whole number"),
        (
            "a,count\nx,2..4\n",
            "the one of row 1 is no whole number; write 2-4 for one that is between 2 and 4, and noth",
        ),
        ("a,count\nx,3\ny,\n", "nothing bounds them; add one of all records"),
        ("a,count\nx,3\ny,\n(total),5\n(total),6\n", "lists a total twice; name a table that has each once"),
        ("a,b,count\nx,u,\nz,(total),4\n", "has totals of a category of 'a' that no cell has"),
        ("a,count_rounded_to_5\nx,5\n", "by itself does not say which of its sums are too; .*or list its totals"),
        ("a,count_rounded_to_5\nx,5\n(total),10\n", "its totals of all records are not what its cells add up to"),
        ("a,count_rounded_to_5\nx,5-10\n(total),10\n", "has counts that are no multiples of 5"),
    ],
)
def test_what_no_count_can_be_is_refused(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        check([write(tmp_path / "table.csv", text)], small_count=None)


def test_what_nothing_bounds_is_refused_by_itself(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing bounds some cells whose count is not told; list totals"):
        read_incomplete(write(tmp_path / "table.csv", "a,count\nx,3\ny,\n"))


def test_a_large_table_is_refused(tmp_path: Path) -> None:
    lines = [f"{a},{b},1" for a in range(70) for b in range(70)]
    with pytest.raises(ReleaseError, match="has 5041 cells, and a table with counts that are not told at most 4096"):
        read_incomplete(write(tmp_path / "table.csv", "\n".join(["a,b,count", *lines, "70,70,2-3"]) + "\n"))


def test_intervals_are_read_from_parquet_as_texts(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {"a": ["x", "y", "z", "(total)"], "count": ["3", "2-5", None, "9"]}
    pq.write_table(pa.table(columns), tmp_path / "table.parquet")
    (found,) = read_published(tmp_path / "table.parquet")
    text = "a,count\nx,3\ny,2-5\nz,\n(total),9\n"
    (same,) = read_published(write(tmp_path / "table.csv", text))
    assert found.digest == same.digest
    assert check([tmp_path / "table.csv"], small_count=None).outer.tolist() == [[3, 3], [2, 5], [1, 4]]


@pytest.mark.parametrize("number", [float("inf"), float("nan")])
def test_what_is_no_number_of_records_is_refused_by_its_row(number: float, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"a": ["x", "y"], "count": [3.0, number]}), tmp_path / "table.parquet")
    with pytest.raises(
        InputError, match="the one of row 2 is no whole number; write 2-4 for one that is between"
    ) as told:
        read_published(tmp_path / "table.parquet")
    assert told.value.detail == f"row 2 has the count {number}"


def test_lines_in_another_order_say_the_same(tmp_path: Path) -> None:
    lines = ["x,u,3", "x,v,", "y,u,2-5", "y,v,", "x,(total),4", "y,(total),7", "(total),(total),11"]
    one, other = (
        read_published(write(tmp_path / "table.csv", "\n".join(["a,b,count", *own]) + "\n"))[0]
        for own in (lines, lines[::-1])
    )
    assert one.digest == other.digest


def test_totals_of_what_is_told_add_nothing(tmp_path: Path) -> None:
    """Of a the total of y is that of a cell without a count; of b no such total is told."""
    text = "a,b,count\nx,u,3\nx,v,1\ny,u,2\ny,v,\nx,(total),4\ny,(total),5\n(total),u,5\n"
    (found,) = read_published(write(tmp_path / "table.csv", text))
    assert [sums.names for sums in found.sums] == [("a",), ("b",)]
    told = {sums.names: (sums.cells.tolist(), sums.high.tolist()) for sums in found.in_part(9)}
    assert told == {("a", "b"): ([[1, 1]], [9]), ("a",): ([], [])}


def test_a_rounded_table_says_by_its_totals_how_it_is_read(tmp_path: Path) -> None:
    text = "a,b,count_rounded_to_5\nx,u,5\nx,v,10\ny,u,5\nx,(total),15\ny,(total),5\n(total),(total),20\n"
    (found,) = read_published(write(tmp_path / "table.csv", text))
    assert found.margins == (("a",),)
    assert check([tmp_path / "table.csv"], small_count=None).outer.tolist() == [[1, 9], [6, 14], [1, 9], [0, 4]]
