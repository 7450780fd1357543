"""Tables of which some counts are not told, or between two numbers, against every table of counts that agrees."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
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
        yield ",".join([*NAMES[: len(self.sizes)], "count"])
        for axes, sums in self.told.items():
            for cell, told in sums.items():
                by_axis = dict(zip(axes, cell, strict=True))
                names = [str(by_axis.get(axis, "(total)")) for axis in range(len(self.sizes))]
                yield ",".join([*names, written(told)])

    def write(self, folder: Path) -> Path:
        return write(folder / "table.csv", "\n".join(self.lines()) + "\n")

    @property
    def facts(self) -> Iterator[reference.Fact]:
        """For the judge, which is told of a cell without a count that it has some."""
        for axes, sums in self.told.items():
            inside = reference.marginal_cells(self.sizes, axes)
            yield from (reference.Fact(frozenset(inside[cell]), *told) for cell, told in sums.items() if told)


def written(told: Told) -> str:
    if told is None:
        return ""
    return str(told[0]) if told[0] == told[1] else f"{told[0]}-{told[1]}"


def random_file(rng: Rng) -> File:
    """A file of a small table with some counts, some intervals, and totals or none of them.

    Each cell is in some sum, and some cell is not told exactly: else totals are passed over.
    """
    while True:
        sizes = SIZES[rng.integers(len(SIZES))]
        counts, every = rng.choice([0, 0, 1, 1, 2, 3], sizes), tuple(range(len(sizes)))
        of = File(sizes)
        for axes in [every, *(some for number in every for some in combinations(every, number) if rng.random() < 0.6)]:
            share, withheld = (1, 0.45) if axes == every else (0.9, 0.1)
            sums = reference.marginal(counts, axes).items()
            of.told[axes] = {cell: random_told(rng, count, withheld) for cell, count in sums if rng.random() < share}
        is_exact = all(told is not None and told[0] == told[1] for told in of.told[every].values())
        if not is_exact and set().union(*(fact.cells for fact in of.facts)) == {*reference.every_cell(sizes)}:
            return of


def random_told(rng: Rng, count: int, withheld: float) -> Told:
    drawn = rng.random()
    if drawn < withheld:
        return None
    if drawn < withheld + 0.2:
        return max(0, count - int(rng.integers(0, 3))), count + int(rng.integers(0, 3))
    return count, count


@pytest.mark.parametrize("seed", range(scaled(300)))
def test_what_is_told_bounds_the_rest(seed: int, tmp_path: Path) -> None:
    """Bounds of cells, of super-cells and over fractions, and how many tables there are."""
    rng = np.random.default_rng(seed)
    of = random_file(rng)
    tables, cells = reference.feasible(of.sizes, of.facts), reference.every_cell(of.sizes)
    sharp, names = reference.bounds(tables).tolist(), NAMES[: len(of.sizes)]
    checked = check([of.write(tmp_path)], small_count=None)
    assert checked.consistent
    assert checked.outer.tolist() == checked.inner.tolist()
    shown = {cell: [0, 0] for cell in cells}
    for cell, ends in zip(checked.cells.tolist(), checked.outer.tolist(), strict=True):
        shown[tuple(int(checked.schema.named(cell)[name]) for name in names)] = ends
    assert shown == dict(zip(cells, sharp, strict=True))
    # the file by itself
    found = read_incomplete(of.write(tmp_path))
    assert found.bounds("all").exact.all()
    assert found.bounds("all").outer.tolist() == sharp
    pattern = [(axis, [code for code in range(size) if rng.random() < 0.6]) for axis, size in enumerate(of.sizes)]
    pattern = [(axis, codes) for axis, codes in pattern if codes]
    chosen = {names[axis]: [str(code) for code in codes] for axis, codes in pattern}
    sums = tables[:, [reference.matches(cell, pattern) for cell in cells]].sum(axis=1)
    assert found.bounds(chosen).outer.tolist() == found.bounds(chosen).inner.tolist() == [[sums.min(), sums.max()]]
    (fractions,) = found.bounds(chosen, fractional=True).outer
    assert fractions[0] <= sums.min()
    assert fractions[1] >= sums.max()
    seen = found.tables()
    assert (seen.feasible_tables, seen.complete) == (len(tables), True)
    assert np.stack([seen.lower, seen.upper], axis=1).tolist() == sharp


@pytest.mark.parametrize("seed", range(scaled(100)))
def test_what_contradicts_itself_is_found_out(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    of = random_file(rng)
    axes = [*of.told][rng.integers(len(of.told))]
    if told := [cell for cell, one in of.told[axes].items() if one is not None]:
        low, high = of.told[axes][told[0]] or (0, 0)
        of.told[axes][told[0]] = low + 2, high + 2
    there_are = bool(len(reference.feasible(of.sizes, of.facts)))
    assert check([of.write(tmp_path)], small_count=None).consistent == there_are
    if not there_are:
        with pytest.raises(InputError, match="contradicts itself: "):
            read_incomplete(of.write(tmp_path))


@pytest.mark.parametrize("seed", range(scaled(60)))
def test_totals_tell_of_exact_cells_that_are_left_out(seed: int, tmp_path: Path) -> None:
    """A cell that is not listed has no records, unless a total that it is in is more than the cells that are listed."""
    rng = np.random.default_rng(seed)
    sizes = SIZES[rng.integers(len(SIZES))]
    counts, every, of = rng.choice([0, 1, 1, 2, 3], sizes), tuple(range(len(sizes))), File(sizes)
    truth = reference.marginal(counts, every)
    listed = {cell: n for cell, n in truth.items() if len({*cell}) == 1 or rng.random() < 0.7}
    of.told[every] = {cell: (n, n) for cell, n in listed.items()}
    lacking = set(reference.every_cell(sizes)) - {*listed}
    open_cells, facts = set[Cell](), list(of.facts)
    for axes in (some for number in every for some in combinations(every, number) if rng.random() < 0.7):
        inside = reference.marginal_cells(sizes, axes)
        of.told[axes] = {}
        for cell, n in reference.marginal(counts, axes).items():
            if {*inside[cell]} & {*listed}:  # else it may be a category of which nothing is listed
                said = n + int(rng.choice([0, 0, 0, 0, 1, -1])) if n else 0
                of.told[axes][cell] = said, said
                facts.append(reference.Fact(frozenset(inside[cell]), said, said))
                short = said > sum(listed.get(own, 0) for own in inside[cell])
                open_cells |= {*inside[cell]} & lacking if short else set()
    facts += [reference.Fact(frozenset([cell]), 0, 0) for cell in lacking - open_cells]
    tables = reference.feasible(sizes, facts)
    checked = check([of.write(tmp_path)], small_count=None)
    assert checked.consistent == bool(len(tables))
    ends = reference.bounds(tables).tolist() if len(tables) else []
    sharp = dict(zip(reference.every_cell(sizes), ends, strict=False))
    for cell, found in zip(checked.cells.tolist(), checked.outer.tolist(), strict=True):
        named = checked.schema.named(cell)
        assert found == sharp.pop(tuple(int(named[name]) for name in NAMES[: len(sizes)]))
    assert not any(map(any, sharp.values()))


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,count\nx,3\ny,5-2\n", "has 1 range of counts with the higher number first; write the lower one"),
        ("a,count\nx,3\ny,2-\n", "is not a table of counts.*the one of row 2 is not a whole number"),
        ("a,count\nx,1.000\n", "is not a table of counts.*the one of row 1 is not a whole number"),
        ("a,count\nx,2..4\n", "the one of row 1 is not a whole number; write 2-4 for one that is between 2 and 4, and"),
        ("a,count\nx,3\ny,\n", "nothing bounds them; add one of all records"),
        ("a,count\nx,3\ny,\n(total),5\n(total),6\n", "lists a total twice; correct the file"),
        ("a,b,count\nx,u,\nz,(total),4\n", "has totals of a category of 'a' that no cell has"),
        ("a,count_rounded_to_5\nx,5\n(total),10\n", "its totals of all records are not what its cells add up to"),
        ("a,count_rounded_to_5\nx,5-10\n(total),10\n", "has counts that are not multiples of 5"),
    ],
)
def test_what_no_count_can_be_is_refused(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        check([write(tmp_path / "table.csv", text)], small_count=None)


LARGE = "".join(f"{a},{b},1\n" for a in range(70) for b in range(70))


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("a,count\nx,3\ny,\n", InputError, "nothing bounds some cells with missing counts; list totals"),
        (f"a,b,count\n{LARGE}70,70,2-3\n", ReleaseError, "has 5041 cells, .* missing counts may have 4096"),
    ],
)
def test_what_is_refused_by_itself(text: str, error: type[Exception], message: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=message):
        read_incomplete(write(tmp_path / "table.csv", text))


def test_intervals_are_read_from_parquet_as_texts(tmp_path: Path) -> None:
    columns = {"a": ["x", "y", "z", "(total)"], "count": ["3", "2-5", None, "9"]}
    pq.write_table(pa.table(columns), tmp_path / "table.parquet")
    (found,) = read_published(tmp_path / "table.parquet")
    text = "a,count\nx,3\ny,2-5\nz,\n(total),9\n"
    (same,) = read_published(write(tmp_path / "table.csv", text))
    assert found.digest == same.digest
    assert check([tmp_path / "table.csv"], small_count=None).outer.tolist() == [[3, 3], [2, 5], [1, 4]]


@pytest.mark.parametrize("number", [float("inf"), float("nan")])
def test_what_is_no_number_of_records_is_refused_by_its_row(number: float, tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": ["x", "y"], "count": [3.0, number]}), tmp_path / "table.parquet")
    with pytest.raises(InputError, match="the one of row 2 is not a whole number; write 2-4 for one that is") as told:
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
