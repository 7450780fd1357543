"""The commands about published folders, ledgers and single tables, as a script meets them."""

import csv
import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow.parquet as pq
import pytest
import yaml
from typer.testing import CliRunner

from sdc import find_release, knowledge, publish
from sdc.commands.cli import app
from sdc.commands.treat import ALONE, CHOICE, EACH_OTHERS, SUMS
from sdc.config.release import ReleaseConfig
from sdc.model.errors import SdcError
from sdc.public.published import read_published
from sdc.refusal import ERROR, status_of
from tests import reference
from tests.helpers.builds import built, write_counts, written
from tests.strategies import dense, schema_of

CZECH = str(Path(__file__).parents[3] / "configs" / "czech_auto_workers.csv")


def sdc(*words: Any, status: int = 0) -> str:
    """What a command prints."""
    done = CliRunner().invoke(app, [*map(str, words)], catch_exceptions=True)
    if isinstance(done.exception, SdcError):
        raise done.exception
    assert done.exit_code == status, (done.output, done.exception)
    return done.stdout


def document(*words: Any, status: int = 0) -> Any:
    return json.loads(sdc(*words, "--json", status=status))


def write(path: Path, rows: Sequence[Sequence[Any]]) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return path


def test_check_says_what_two_files_tell(tmp_path: Path) -> None:
    one = write(tmp_path / "1.csv", [["a", "b", "count"], ["x", "u", 1], ["x", "v", 4], ["y", "u", 6], ["y", "v", 8]])
    two = write(tmp_path / "2.csv", [["b", "c", "count"], ["u", "p", 7], ["v", "p", 2], ["v", "q", 10]])
    found = document("check", one, two)
    assert found["consistent"]
    first = next(row for row in found["cells"] if row["cell"] == {"a": "x", "b": "u", "c": "p"})
    assert first == {"cell": {"a": "x", "b": "u", "c": "p"}, "outer": [1, 1], "inner": [1, 1], "exact": True}
    assert document("check", one, two, "--min-width", 2, status=3)["narrow_cells"] == 1
    assert "they agree; " in sdc("check", one, two)
    assert len(document("check", one, two, "--cells", "all")["cells"]) == 6
    write(tmp_path / "2.csv", [["b", "c", "count"], ["u", "p", 8], ["v", "q", 10]])
    found = document("check", one, two, status=3)
    assert (found["consistent"], found["cells"]) == (False, [])
    assert "they contradict each other" in sdc("check", one, two, status=3)
    with pytest.raises(SdcError, match="choose at-risk or all"):
        sdc("check", one, "--cells", "some")


def test_a_ledger_is_made_and_shown(tmp_path: Path) -> None:
    assert document("ledger", tmp_path / "led", "--new") == {"ledger": str(tmp_path / "led"), "entries": []}
    assert "0 publications, the chain holds" in sdc("ledger", tmp_path / "led")


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".json", ".px", ".xml", ".xlsx"])
def test_a_rounded_table_is_called_so_in_every_format(tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"t{suffix}"
    found = document("round", CZECH, "A*B*C", "--base", 7, "--out", out)
    assert all(row["rounded"] % 7 == 0 for row in found["cells"])
    assert found["margins"][0] == "(total)"
    if suffix in (".csv", ".json", ".px", ".xml"):
        assert "rounded" in out.read_text()
    if suffix in (".csv", ".parquet", ".json", ".px"):
        (read,) = read_published(out)
        assert read.base == 7
        assert {"*".join(margin) or "(total)" for margin in (*read.margins, ())} == {*found["margins"]}
        assert found["cells"] == [
            {"cell": read.table.schema.named(cell), "rounded": count}
            for cell, count in zip(read.table.codes.tolist(), read.table.counts.tolist(), strict=True)
        ]
    with pytest.raises(SdcError, match="exists already"):
        sdc("round", CZECH, "A*B", "--out", out)


def test_how_far_cells_were_moved_is_confidential(tmp_path: Path) -> None:
    """It stands apart in what is printed, and in no file."""
    found = document("round", CZECH, "A*B*C", "--base", 5, "--out", tmp_path / "t.json")
    moved = found["confidential"]["moved"]
    assert "moved" not in (tmp_path / "t.json").read_text()
    *lines, last = sdc("round", CZECH, "A*B*C", "--base", 5).splitlines()
    assert f"confidential  total change {moved}, the minimum" in last
    assert lines[-1] == ALONE
    assert "moved" not in "".join(lines)


@pytest.mark.parametrize("words", [["round"], ["suppress", "--min-width", 3]])
def test_what_makes_no_single_table_is_refused_and_nothing_left(tmp_path: Path, words: list[Any]) -> None:
    table = write(tmp_path / "t.csv", [["a", "b", "count"], *([a, b, 9] for a in "xy" for b in "uv")])
    out, zeros, missing = tmp_path / "o.csv", tmp_path / "z.yaml", tmp_path / "none" / "o.csv"
    zeros.write_text("- {a: x, b: u}\n")
    for more, message in (
        ([tmp_path / "none.csv", "a*b"], "none.csv"),
        ([table, "a*c"], "names the unknown variable 'c'"),
        ([table, "a*b", "--set", f"table.structural_zeros={tmp_path / 'none.yaml'}"], "none.yaml"),
        ([table, "a*b", "--set", f"table.structural_zeros={zeros}"], "structural zeros contradict the data"),
        ([table, "a*b", "--variables", "a,c"], "'c'"),
    ):
        with pytest.raises(SdcError, match=message) as refused:
            sdc(*words, *more, "--out", out)
        assert status_of(refused.value) == ERROR
    with pytest.raises(SdcError, match="there is no folder"):
        sdc(*words, table, "a*b", "--out", missing)
    assert not out.exists()


@pytest.mark.parametrize("words", [["round"], ["suppress", "--min-width", 3]])
def test_what_a_config_forbids_or_publishes_beside_others_is_refused(tmp_path: Path, words: list[Any]) -> None:
    """The second before the table is read, which is not there."""
    write(tmp_path / "t.csv", [["a", "b", "count"], *([a, b, 9] for a in "xy" for b in "uv")])
    config = {"name": "t", "table": {"path": "t.csv"}, "risk": {"min_width": 3}, "release": {"forbid": ["b"]}}
    path = tmp_path / "t.yaml"
    path.write_text(yaml.safe_dump(config))
    assert ALONE in sdc(*words, path, "a")
    with pytest.raises(SdcError, match=r"a\*b is forbidden by release.forbid"):
        sdc(*words, path, "a*b")
    sdc("ledger", tmp_path / "led", "--new")
    path.write_text(yaml.safe_dump(config | {"table": {"path": "none.csv"}, "ledger": "led"}))
    with pytest.raises(SdcError, match=rf"ledger with sdc {words[0]}: it makes no entry in a ledger"):
        sdc(*words, path, "a")


def test_withheld_cells_have_no_count(tmp_path: Path) -> None:
    table = write(
        tmp_path / "t.csv",
        [["a", "b", "count"], *((a, b, n) for a, b, n in zip("xxyyzz", "uvuvuv", [1, 9, 8, 7, 6, 9], strict=True))],
    )
    found = document("suppress", table, "a*b", "--min-width", 3, "--out", tmp_path / "out.csv")
    assert found["confidential"] == {"optimal": True, "too_narrow_without_it": 0}
    assert found["public_margins"] == ["a", "b"]
    withheld = [row for row in found["cells"] if row["count"] is None]
    assert len(withheld) == found["withheld_cells"] == 4
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["count"] == "" for row in rows[:6]] == [row["count"] is None for row in found["cells"]]
    # the margins that are called public are in the file
    assert [[*row.values()] for row in rows[6:]] == [
        ["(total)", "u", "15"],
        ["(total)", "v", "25"],
        ["x", "(total)", "10"],
        ["y", "(total)", "15"],
        ["z", "(total)", "15"],
        ["(total)", "(total)", "40"],
    ]
    assert found["judged"].startswith("each cell of a*b, none of the whole table,")
    (read,) = read_published(tmp_path / "out.csv")
    assert [[*read.table.schema.named(cell).values()] for cell in read.suppressed.tolist()] == [
        [row["a"], row["b"]] for row in withheld
    ]
    assert read.table.counts.tolist() == [row["count"] for row in found["cells"] if row["count"] is not None]
    said = sdc("suppress", table, "a*b", "--min-width", 3).splitlines()
    assert "public with it: a, b, their totals, and structural zeros" in said
    assert said[-3:-1] == [ALONE, CHOICE]
    assert said[-1] == "confidential  no fewer suffice (cells plus records); do not publish this"
    with pytest.raises(SdcError, match="cannot be published beside what is public, whatever is suppressed") as refused:
        sdc("suppress", table, "a*b", "--min-width", 41)
    assert status_of(refused.value) == 3


def test_of_a_run_cells_are_withheld_beside_its_release(tmp_path: Path) -> None:
    table = dense(schema_of([2, 3, 3]), [0, 30, 5, 1, 30, 5, 2, 1, 0, 9, 9, 30, 30, 30, 0, 0, 9, 9])
    write_counts(tmp_path / "table.csv", table)
    risk = {"small_count": 2, "min_width": 4}
    run = built(written(tmp_path, table={"path": "table.csv"}, risk=risk)).folder.path
    alone = document("suppress", tmp_path / "table.csv", "A*B", "--min-width", 4)
    assert (alone["withheld_cells"], alone["judged_beside_release"]) == (0, False)
    beside = document("suppress", run, "A*B", "--out", tmp_path / "out.csv")
    assert (beside["withheld_cells"], beside["judged_beside_release"]) == (4, True)
    assert "later releases are not judged together with it" in sdc("suppress", run, "A*B")
    with pytest.raises(SdcError, match="A is in the release unchanged"):
        sdc("suppress", run, "A")
    with pytest.raises(SdcError, match="has no criterion; give --min-width"):
        sdc("suppress", tmp_path / "table.csv", "A*B")


def test_of_a_config_the_whole_table_is_judged_with_nothing_public_before(tmp_path: Path) -> None:
    """The sub-table has no small count of its own, and its cells tell those of the whole table."""
    table = dense(schema_of([2, 2, 2]), [1, 2, 3, 3, 3, 3, 3, 3])
    write_counts(tmp_path / "table.csv", table)
    path = written(tmp_path, table={"path": "table.csv"}, risk={"small_count": 2, "min_width": 4})
    assert document("suppress", tmp_path / "table.csv", "A*B", "--min-width", 4)["withheld_cells"] == 0
    found = document("suppress", path, "A*B", "--out", tmp_path / "out.csv")
    assert found["judged"] == "each cell of the whole table with 1 to 2 records has at least width 4"
    assert found["withheld_cells"] == 4
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = [([row["A"], row["B"]], row["count"]) for row in csv.DictReader(file)]
    facts = []
    for named, count in ((named, count) for named, count in rows if count):
        wanted = [(axis, [int(text)]) for axis, text in enumerate(named) if text != "(total)"]
        cells = [cell for cell in reference.every_cell((2, 2, 2)) if reference.matches(cell, wanted)]
        facts += [reference.Fact(frozenset(cells), int(count), int(count))]
    # what the file tells, its totals too, leaves each at-risk cell its width
    assert len(facts) == 5
    assert reference.min_width(table.dense, facts, 2) >= 4


@pytest.mark.parametrize("by", ["suppression", "rounding"])
def test_what_a_release_has_in_part_is_published_with_it(tmp_path: Path, by: str) -> None:
    table = dense(schema_of([3, 2, 2]), [1, 2, 9, 8, 7, 9, 9, 6, 5, 5, 7, 7])
    part = {"of": "A*B", "by": by, **({"base": 5} if by == "rounding" else {})}
    release = ReleaseConfig.model_validate({"require": ["A*C"], "protect": [part], "required_only": True})
    found = find_release(table, "ordered", knowledge(table), release=release, min_width=4, small_count=2)
    publish(found, tmp_path / "out", title="t")
    of = {one.label: one for one in read_published(tmp_path / "out")}
    assert {*of} == {"A*B", "A*C"}
    assert (len(of["A*B"].suppressed), of["A*B"].base) == ((2, 0) if by == "suppression" else (0, 5))
    assert of["A*C"].table.counts.tolist() == table.marginal("A*C").counts.tolist()


def test_of_a_run_with_a_hierarchy_whoever_knows_it_pins_no_count(tmp_path: Path) -> None:
    counts = [("m1", "d1", 1, 4), ("m1", "d2", 3, 2), ("m2", "d3", 2, 7), ("m2", "d4", 8, 6)]
    rows = [[major, detail, sex, n] for major, detail, *both in counts for sex, n in zip("fm", both, strict=True)]
    write(tmp_path / "h.csv", [["major", "detail", "sex", "count"], *rows])
    table = {"path": "h.csv", "variables": ["major", "detail", "sex"], "hierarchies": {"ind": ["major", "detail"]}}
    run = built(written(tmp_path, table=table, risk={"small_count": 1, "min_width": 3})).folder.path
    found = document("suppress", run, "detail*sex")
    assert found["public_margins"] == ["detail", "sex"]
    assert found["withheld_cells"] == 4
    assert not [row for row in found["cells"] if row["count"] == 1]


def test_a_magnitude_table_passes_or_is_refused(tmp_path: Path) -> None:
    rows = [[f"r{k % 2}", "all", f"f{k}", 10 + k] for k in range(8)]
    table = write(tmp_path / "t.csv", [["region", "land", "firm", "sales"], *rows])
    words = ["magnitude", table, "--value", "sales", "--by", "region", "--contributor", "firm"]
    found = document(*words, "--contributors", 3, "--dominance", "1:70", "--out", tmp_path / "o.csv")
    assert found["cells"] == [{"region": "r0", "total": "52"}, {"region": "r1", "total": "56"}]
    assert (found["levels"], found["note"]) == ({"region": "region"}, f"{ALONE}; {SUMS}")
    assert (tmp_path / "o.csv").read_text() == "region,total\nr0,52\nr1,56\n"
    for suffix in (".parquet", ".xlsx"):
        document(*words, "--contributors", 3, "--out", tmp_path / f"o{suffix}")
    assert pq.read_table(tmp_path / "o.parquet").to_pylist() == [
        {"region": "r0", "total": Decimal(52)},
        {"region": "r1", "total": Decimal(56)},
    ]
    rows = openpyxl.load_workbook(tmp_path / "o.xlsx").active.values
    assert [*rows] == [("region", "total"), ("r0", 52), ("r1", 56)]
    with pytest.raises(SdcError, match=r"choose a file that ends in \.csv or \.parquet or \.xlsx"):
        sdc(*words, "--out", tmp_path / "o.px")
    coarse = document(*words, "--contributors", 5, "--hierarchy", "region=land", "--percent", 10)
    assert (coarse["levels"], coarse["cells"]) == ({"region": "land"}, [{"land": "all", "total": "108"}])
    assert coarse["confidential"]["failing"][0] == {
        "cell": {"region": "r0"},
        "rule": "contributors 5",
        "figures": "4 contribute",
    }
    said = sdc(*words[:-2], "--contributors", 5, "--hierarchy", "region=land")
    assert EACH_OTHERS in said
    assert "confidential  region=r0: fails contributors 5, 4 contribute\n" in said
    assert "every cell passes; region as region" in sdc(*words, "--contributors", 2)
    with pytest.raises(SdcError, match="fail the rules at every level") as refused:
        sdc(*words, "--contributors", 9)
    assert status_of(refused.value) == 3
    for option, text in (
        ("--dominance", "many"),
        ("--hierarchy", "region"),
        ("--negative", "keep"),
        ("--alike", "all"),
    ):
        with pytest.raises(SdcError, match=text):
            sdc(*words, "--contributors", 2, option, text)
    with pytest.raises(SdcError, match="has no column 'colour'"):
        sdc(*words, "--contributors", 2, "--by", "colour")
    with pytest.raises(SdcError, match="region is listed twice"):
        sdc(*words, "--contributors", 2, "--by", "region")
    write(table, [["region;firm;sales"], *([f"r;f{k};1"] for k in range(3)), ["r;F1;0"]])
    office = document(*words, "--contributors", 3, "--delimiter", ";", "--encoding", "latin-1", "--alike", "merge")
    assert office["cells"] == [{"region": "r", "total": "3"}]


def test_tables_of_several_groupings_are_one_document_and_one_file(tmp_path: Path) -> None:
    rows = [[f"r{k % 2}", f"s{k // 8}", 1] for k in range(16)]
    table = write(tmp_path / "t.csv", [["region", "size", "sales"], *rows])
    words = ["magnitude", table, "--value", "sales", "--by", "region", "--by", "size", "--contributors", 4]
    found = document(*words, "--out", tmp_path / "o.csv")
    assert found["by"] == ["region", "size"]
    assert found["levels"] == {"region": "region", "size": "size"}
    assert (tmp_path / "o.csv").read_text() == ("region,size,total\nr0,(all),8\nr1,(all),8\n(all),s0,8\n(all),s1,8\n")
    said = sdc(*words)
    assert "the tables by region, size were judged together" in said
    assert said.endswith(f"{ALONE}\n{SUMS}\n{EACH_OTHERS}\n")
    assert "region as region, size as (all)" in sdc(*words[:-1], 5)


def test_docs_writes_one_page(tmp_path: Path) -> None:
    assert document("docs", "--out", tmp_path / "h.html")["bytes"] == (tmp_path / "h.html").stat().st_size
    assert "handbook  " in sdc("docs", "--out", tmp_path / "h.html")
    with pytest.raises(SdcError, match="cannot be written"):
        sdc("docs", "--out", tmp_path / "none" / "h.html")
