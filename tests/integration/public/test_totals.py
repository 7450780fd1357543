"""Totals of published tables are facts, however their files mark them: found out where they do not add, and judged."""

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import sdc
from sdc.commands.cli import app
from sdc.config.earlier import EarlierConfig
from sdc.events import WARNING, EventText, heard
from sdc.model.errors import InputError
from sdc.public.check import check, few_counts
from sdc.public.incomplete import read_incomplete
from sdc.public.published import read_published
from tests.helpers.builds import built, written

CELLS = "north,f,12\nnorth,m,9\nsouth,f,2\nsouth,m,15\n"


def file(folder: Path, rows: str, name: str = "t.csv") -> Path:
    (folder / name).write_text("region,sex,count\n" + rows)
    return folder / name


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ("(total),f,14\n(total),m,25\n", "lists 25 for sex = m, and its cells have 24"),
        ("(total),(total),99\n", "lists 99 for all records, and its cells have 38"),
        ("north,(total),20\n", "lists 20 for region = north, and its cells have 21"),
        ("south,(total),18-20\n", "lists 18-20 for region = south, and its cells have 17"),
    ],
)
def test_a_total_that_its_cells_do_not_have_is_a_contradiction(tmp_path: Path, rows: str, reason: str) -> None:
    path = file(tmp_path, CELLS + rows)
    found = check([path])
    assert (found.consistent, found.reason) == (False, f"{path} {reason}")
    with pytest.raises(InputError, match=f"contradicts itself: .* {reason}"):
        read_incomplete(path)
    config = written(tmp_path, table={"path": str(file(tmp_path, CELLS, "c.csv"))}, earlier=[{"folder": str(path)}])
    with pytest.raises(InputError, match=f"{reason}; correct it, or take what was published"):
        built(config)


def test_a_cell_that_a_total_implies_is_seen(tmp_path: Path) -> None:
    path = file(tmp_path, "north,f,20\nsouth,f,12\nsouth,m,15\nnorth,(total),21\n")
    found = check([path]).judged(2, 2, ())
    assert [(found.schema.named(cell), ends) for cell, ends in zip(found.cells, found.outer.tolist(), strict=True)] == [
        ({"region": "north", "sex": "m"}, [1, 1])
    ]
    assert found.narrow_cells == 1
    # listed as 0 it has no record
    assert not check([file(tmp_path, path.read_text().partition("\n")[2] + "north,m,0\n")]).consistent


@pytest.mark.parametrize("width", [2, 3])
def test_a_category_that_only_a_total_of_0_names_may_have_records(tmp_path: Path, width: int) -> None:
    rounded = tmp_path / "r.csv"
    rounded.write_text(
        "region,sex,count_rounded_to_3\nnorth,f,9\nnorth,m,9\nnorth,(total),18\nsouth,(total),0\n(total),(total),18\n"
    )
    found = check([rounded]).judged(2, width, ())
    cells = [found.schema.named(cell)["region"] for cell in found.cells]
    assert (cells, found.outer.tolist(), found.is_kept) == (["south"] * 2, [[0, 2]] * 2, width == 2)
    # there is none of some records, and of the others there may be
    some = file(tmp_path, "north,f,5\nsouth,(total),0\n", "some.csv")
    (tmp_path / "sex.csv").write_text("sex,count\nf,5\nm,1\n")
    relation = EarlierConfig(folder=str(some), where={"sex": ("f",)})
    found = check([some, tmp_path / "sex.csv"], [relation])
    assert [found.schema.named(cell) for cell in found.cells] == [
        {"region": "north", "sex": "m"},
        {"region": "south", "sex": "m"},
    ]


def test_a_suppressed_total_of_a_category_that_no_cell_has_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="totals of a category of 'region' that no cell has"):
        check([file(tmp_path, "north,f,20\nnorth,m,12\nsouth,(total),\n")])


def test_records_of_every_category_that_is_listed_may_not_be_some_of_them(tmp_path: Path) -> None:
    """A reader of both cannot list the cells of the other records, of which there may be one."""
    women = file(tmp_path, "north,f,6-7\nsouth,f,9\n")
    (tmp_path / "all.csv").write_text("region,count\nnorth,7\nsouth,9\n")
    relation = EarlierConfig(folder=str(women), where={"sex": ("f",)})
    with pytest.raises(InputError, match="where lists all categories of 'sex' that any table has"):
        check([women, tmp_path / "all.csv"], [relation])


def test_a_cell_that_is_not_shown_to_be_wide_keeps_no_rule(tmp_path: Path) -> None:
    """As where bounds were not sharp in time: what was reached is narrower than what was proven."""
    found = check([file(tmp_path, "north,f,\nnorth,m,\nsouth,f,5\nsouth,m,6\nnorth,(total),4\n")])
    assert found.judged(2, 3, ()).is_kept
    blurred = replace(found, inner=found.inner.clip(0, 2)).judged(2, 3, ())
    assert (blurred.narrow_cells, blurred.undecided_cells, blurred.is_kept) == (0, 2, False)


def test_a_threshold_is_asked_of_totals_too(tmp_path: Path) -> None:
    path = file(tmp_path, "north,f,\nnorth,m,\nsouth,f,40\nsouth,m,60\nnorth,(total),4\n(total),(total),104\n")
    assert [(one.sub_table, one.counts) for one in few_counts([path], 5)] == [("totals of region", 1)]
    assert few_counts([path], 4) == []
    path = file(tmp_path, "north,f,3-4\nnorth,m,1-9\nsouth,f,40\nsouth,m,60\n(total),f,43-44\n")
    assert [(one.sub_table, one.counts) for one in few_counts([path], 5)] == [("region*sex", 1)]


def px(summed: str) -> str:
    head = 'CHARSET="ANSI";STUB="region";HEADING="sex";VALUES("region")="North","South","Whole";'
    codes = 'CODES("region")="n","s","x";VALUES("sex")="f","m";CONTENTS="t";'
    return f'{head}{codes}ELIMINATION("region")={summed};ELIMINATION("sex")=YES;DATA=12 9 2 15 14 24;'


def json_stat(extension: dict[str, Any]) -> str:
    region = {"category": {"index": ["n", "s", "x"]}, "extension": extension}
    dimension = {"region": region, "sex": {"category": {"index": ["f", "m"]}}}
    shape = {"version": "2.0", "class": "dataset", "id": ["region", "sex"], "size": [3, 2], "dimension": dimension}
    return json.dumps({**shape, "value": [12, 9, 2, 15, 14, 24]})


@pytest.mark.parametrize(
    ("name", "marked", "plain"),
    [
        ("t.px", px('"Whole"'), px("YES")),
        ("t.json", json_stat({"elimination": True, "eliminationValueCode": "x"}), json_stat({})),
    ],
)
def test_a_file_may_say_itself_which_category_is_the_total(tmp_path: Path, name: str, marked: str, plain: str) -> None:
    (tmp_path / name).write_text(marked)
    (table,) = read_published(tmp_path / name)
    assert (table.table.total, table.table.schema.sizes, table.contradiction) == (38, (2, 2), "")
    (tmp_path / name).write_text(marked.replace("24", "23"))
    assert "lists 23 for" in check([tmp_path / name]).reason
    (tmp_path / name).write_text(plain)
    assert read_published(tmp_path / name)[0].table.total == 76


@pytest.mark.parametrize("mark", ["Total", "(Total)", "(all)", "_T"])
def test_rows_of_totals_that_nothing_marks_are_refused(tmp_path: Path, mark: str) -> None:
    path = file(tmp_path, CELLS + f"{mark},f,14\n{mark},m,24\n")
    with pytest.raises(InputError, match="has rows of totals, by the category"):
        read_published(path)
    assert read_published(path, mark)[0].table.total == 38
    # beside cells without a count nobody can add up
    with pytest.raises(InputError, match="has rows of totals"):
        read_published(file(tmp_path, CELLS.replace("12", "") + "Total,m,25\n"))


def test_the_sums_of_others_are_named_whatever_they_are_called(tmp_path: Path) -> None:
    path, said = file(tmp_path, CELLS + "land,f,14\nland,m,24\n"), list[str]()
    with heard(EventText(said.append, WARNING)):
        assert read_published(path)[0].table.total == 76
        assert read_published(path, "land")[0].table.total == 38
        read_published(path, not_totals={"region": ("land",)})
    assert [text.partition(": ")[2].partition(". ")[0].replace(str(path), "") for text in said] == [
        ": 'land' of 'region' has the sums of others"
    ]


def test_a_check_carries_the_warnings_of_its_files(tmp_path: Path) -> None:
    path = file(tmp_path, CELLS + "land,f,14\nland,m,24\n")
    with warnings.catch_warnings(record=True) as shown:
        found = sdc.check(path, min_frequency=3)
    (line,) = found.warnings
    assert line.startswith(f"{path}: 'land' of 'region' has the sums of others")
    assert repr(found).endswith("; 1 warning, see `warnings`")
    assert [str(one.message) for one in shown] == [line]
    answer = CliRunner().invoke(app, ["check", str(path), "--min-frequency", "3", "--json"])
    assert json.loads(answer.stdout)["warnings"] == [line]
    assert answer.stderr.count(f"warning: {line}") == 1
    named = sdc.check(path, relations=[{"folder": str(path), "total": "land"}])
    assert named.warnings == ()
    assert "warning" not in repr(named)


def test_a_category_may_be_called_as_a_total_where_that_is_said(tmp_path: Path) -> None:
    path, other = file(tmp_path, CELLS + "Total,f,14\nTotal,m,24\n"), file(tmp_path, CELLS, "o.csv")
    said = EarlierConfig(folder=str(path), not_totals={"region": ("Total",)})
    assert check([path], [said], small_count=None).consistent
    with pytest.raises(InputError, match="marked by 'Total', which is a category of 'region' elsewhere"):
        check([path, other], [said, EarlierConfig(folder=str(other), total="Total")])
