"""The commands about published folders, ledgers and single tables, as a script meets them."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from sdc.cli import app
from sdc.composition.published import read_published
from sdc.model.errors import InputError, SdcError
from sdc.storage.parquet import table_columns, write_csv
from tests.strategies import dense, schema_of

CZECH = str(Path(__file__).parents[1] / "configs" / "czech_auto_workers.csv")


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
    with pytest.raises(InputError, match="is there already"):
        sdc("ledger", tmp_path / "led", "--new")


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".json", ".px", ".xml", ".xlsx"])
def test_a_rounded_table_is_called_so_in_every_format(tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"t{suffix}"
    found = document("round", CZECH, "A*B*C", "--base", 7, "--out", out)
    assert all(row["rounded"] % 7 == 0 for row in found["cells"])
    assert found["margins"][0] == "(total)"
    if suffix in (".csv", ".json", ".px", ".xml"):
        assert "rounded" in out.read_text()
    if suffix in (".csv", ".parquet", ".json", ".px"):
        with pytest.raises(InputError, match=r"no column count|rounded"):
            read_published(out)
    with pytest.raises(SdcError, match="exists already"):
        sdc("round", CZECH, "A*B", "--out", out)
    assert "cells were moved by" in sdc("round", CZECH, "A*B")


def test_a_rounded_table_of_another_suffix_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SdcError, match="choose a file that ends in"):
        sdc("round", CZECH, "A*B", "--out", tmp_path / "t.doc")


def test_withheld_cells_have_no_count(tmp_path: Path) -> None:
    table = write(
        tmp_path / "t.csv",
        [["a", "b", "count"], *((a, b, n) for a, b, n in zip("xxyyzz", "uvuvuv", [1, 9, 8, 7, 6, 9], strict=True))],
    )
    found = document("suppress", table, "a*b", "--min-width", 3, "--out", tmp_path / "out.csv")
    assert found["optimal"]
    withheld = [row for row in found["cells"] if row["count"] is None]
    assert len(withheld) == found["withheld_cells"] == 4
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["count"] == "" for row in rows] == [row["count"] is None for row in found["cells"]]
    with pytest.raises(InputError, match="is not a table of counts"):
        read_published(tmp_path / "out.csv")
    assert "no fewer would do" in sdc("suppress", table, "a*b", "--min-width", 3)
    with pytest.raises(SdcError, match="though all cells are withheld") as refused:
        sdc("suppress", table, "a*b", "--min-width", 30)
    assert refused.value.status == 3


def test_of_a_run_cells_are_withheld_beside_its_release(tmp_path: Path) -> None:
    table = dense(schema_of([2, 3, 3]), [0, 30, 5, 1, 30, 5, 2, 1, 0, 9, 9, 30, 30, 30, 0, 0, 9, 9])
    write_csv(tmp_path / "table.csv", table_columns(table))
    config = {"name": "t", "table": {"path": "table.csv"}, "risk": {"small_count": 2, "min_width": 4}}
    config |= {"execution": {"cluster": "in-process"}, "output": {"folder": str(tmp_path / "runs")}}
    (tmp_path / "t.yaml").write_text(yaml.safe_dump(config))
    sdc("run", tmp_path / "t.yaml")
    (run,) = (tmp_path / "runs" / "t").iterdir()
    alone = document("suppress", tmp_path / "table.csv", "A*B", "--min-width", 4)
    assert (alone["withheld_cells"], alone["judged_beside_release"]) == (0, False)
    beside = document("suppress", run, "A*B", "--out", tmp_path / "out.csv")
    assert (beside["withheld_cells"], beside["judged_beside_release"]) == (4, True)
    assert "what is released later is not judged together with it" in sdc("suppress", run, "A*B")
    with pytest.raises(SdcError, match="A is in the release as it is"):
        sdc("suppress", run, "A")
    with pytest.raises(SdcError, match="says nothing of the criterion; give --min-width"):
        sdc("suppress", tmp_path / "table.csv", "A*B")


def test_a_magnitude_table_passes_or_is_refused(tmp_path: Path) -> None:
    rows = [[f"r{k % 2}", "all", f"f{k}", 10 + k] for k in range(8)]
    table = write(tmp_path / "t.csv", [["region", "land", "firm", "sales"], *rows])
    words = ["magnitude", table, "--value", "sales", "--by", "region", "--contributor", "firm"]
    found = document(*words, "--contributors", 3, "--dominance", "1:70", "--out", tmp_path / "o.csv")
    assert found == {
        "value": "sales",
        "levels": {"region": "region"},
        "cells": [{"region": "r0", "total": "52"}, {"region": "r1", "total": "56"}],
    }
    assert (tmp_path / "o.csv").read_text() == "region,total\nr0,52\nr1,56\n"
    coarse = document(*words, "--contributors", 5, "--hierarchy", "region=land", "--percent", 10)
    assert coarse["levels"] == {"region": "land"}
    assert "every cell passes; region as region" in sdc(*words, "--contributors", 2)
    with pytest.raises(SdcError, match="fail the rules at every level") as refused:
        sdc(*words, "--contributors", 9)
    assert refused.value.status == 3
    for option, text in (("--dominance", "many"), ("--hierarchy", "region"), ("--negative", "keep")):
        with pytest.raises(SdcError, match=text):
            sdc(*words, option, text)


def test_docs_writes_one_page(tmp_path: Path) -> None:
    assert document("docs", "--out", tmp_path / "h.html")["bytes"] == (tmp_path / "h.html").stat().st_size
    assert "handbook  " in sdc("docs", "--out", tmp_path / "h.html")
    with pytest.raises(SdcError, match="cannot be written"):
        sdc("docs", "--out", tmp_path / "none" / "h.html")
