"""Widths, bounds, assessments and enumerations by command: the published numbers, as text and as JSON."""

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sdc.bounds.method import method_names
from sdc.commands import tables
from tests.helpers.builds import BY_NAME
from tests.helpers.commands import CZECH, RELEASE, Sdc, tree
from tests.wide import wide_table


def test_the_published_critical_widths(sdc: Sdc) -> None:
    answer = sdc("widths", CZECH, "--json")
    found = answer.document
    assert (found["variables"], found["records"], found["at_risk_cells"]) == (list("ABCDEF"), 1841, 3)
    pairs = [("".join(entry["sub_table"]), entry["critical_width"]) for entry in found["widths"]]
    assert len(pairs) == len(dict(pairs)) == 64
    assert pairs[0] == ("ABCDEF", 0)
    assert (pairs[1], dict(pairs)["BC"], dict(pairs)["DF"]) == (("ABCDF", 3), 119, 119)  # tests/papers has all
    assert [width for _, width in pairs] == sorted(width for _, width in pairs)
    assert {name for name, _ in pairs[1:37]}.isdisjoint(["", *"ABCDEF"])
    assert {dict(pairs)[name] for name in ["", *"ABCDEF"]} == {max(dict(pairs).values())} == {260}
    assert "1841 records, 63 non-zero of 64 cells" in answer.err


def test_variables_choose_and_order_the_columns(sdc: Sdc) -> None:
    found = sdc("widths", CZECH, "--json", "--variables", "F, E,D,C", "--small-count", "60").document
    assert found["variables"] == ["F", "E", "D", "C"]
    assert found["records"] == 1841
    assert found["widths"][0] == {"sub_table": ["F", "E", "D", "C"], "critical_width": 0}
    assert len(found["widths"]) == 16


def test_of_a_wide_table_the_widest_are_listed_and_it_is_said(
    sdc: Sdc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sdc.stages.assemble.MOST_LISTED", 400)
    table = wide_table(24, 300, 3)
    records = np.repeat(table.codes, table.counts, axis=0).astype(str)
    pq.write_table(
        pa.table({name: records[:, v] for v, name in enumerate(table.schema.names)}), tmp_path / "wide.parquet"
    )
    told = sdc("widths", tmp_path / "wide.parquet", "--json").document
    assert 0 < len(told["widths"]) <= 400
    assert re.match(r"Only sub-tables of critical width at least [0-9]+.* more than 400 reach the 1 that", told["cut"])
    assert told["cut"] in sdc("widths", tmp_path / "wide.parquet").err
    assert "cut" not in sdc("widths", tmp_path / "wide.parquet", "--floor", "200", "--json").document


def test_widths_of_a_table_with_missing_counts(sdc: Sdc, tmp_path: Path) -> None:
    """A has 12 and 28 records; by B or C nobody knows how many. The at-risk cells have 12 or 28 records around them."""
    lines = (
        "a0,b0,c0,",
        "a0,b0,c1,",
        "a0,b1,c0,5",
        "a0,b1,c1,1",
        "a1,b0,c0,7",
        "a1,b0,c1,2-4",
        "a1,b1,c0,",
        "a1,b1,c1,9",
    )
    totals = ("a0,b0,(total),6", "(total),(total),(total),40", "a1,(total),(total),28")
    path = tmp_path / "table.csv"
    path.write_text("\n".join(["A,B,C,count", *lines, *totals, ""]))
    answer = sdc("widths", path, "--json")
    assert answer.document == {
        "variables": ["A", "B", "C"],
        "records": 40,
        "at_risk_cells": 4,
        "unknown": [["B"], ["C"]],
        "widths": [{"sub_table": [], "critical_width": 12}, {"sub_table": ["A"], "critical_width": 12}],
    }
    assert "nothing that contains B, C can be published" in sdc("widths", path).err
    assert "omit --release" not in answer.err
    refused = sdc("widths", path, "--set", "widths.threshold=3", "--json")
    assert (refused.status, "omit widths.threshold" in refused.err) == (1, True)


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_widths_are_written_to_a_file_as_well(suffix: str, sdc: Sdc, tmp_path: Path) -> None:
    out = tmp_path / f"widths{suffix}"
    found = sdc("widths", CZECH, "--json", "--out", out).document["widths"]
    if suffix == ".csv":
        header, *lines = out.read_text().splitlines()
        rows = [(name, int(width)) for name, width in (line.split(",") for line in lines)]
        assert header == "sub_table,critical_width"
    else:
        columns = pq.read_table(out).to_pydict()
        assert list(columns) == ["sub_table", "critical_width"]
        rows = list(zip(*columns.values(), strict=True))
    assert rows == [("*".join(entry["sub_table"]) or "(total)", entry["critical_width"]) for entry in found]
    assert tree(tmp_path) == {out.name}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("widths.txt", r"--out .*widths\.txt.*must end in \.parquet or \.csv"),
        ("none/widths.parquet", r"--out .*none/widths\.parquet cannot be written: .*name another"),
        ("file/widths.csv", r"--out .*file/widths\.csv cannot be written: .*name another"),
        ("folder.csv", r"--out .*folder\.csv cannot be written: .*name another"),
    ],
)
def test_an_out_that_cannot_be_written(name: str, message: str, sdc: Sdc, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder.csv").mkdir()
    sdc("widths", CZECH, "--json", "--out", tmp_path / name).assert_refused(message)
    assert tree(tmp_path) == {"file", "folder.csv"}


def test_the_published_bounds(sdc: Sdc) -> None:
    found = sdc("bounds", CZECH, *RELEASE, "--json").document
    assert found["release"] == [name.split("*") for name in BY_NAME]
    assert set(found["method"].split(" + ")) <= set(method_names())
    assert found["cells"][0] == {
        "cell": {"A": "no", "B": "yes", "C": "yes", "D": "<140", "E": "<3", "F": "pos"},
        "count": 1,
        "outer": [0, 10],
        "inner": [0, 10],
        "exact": True,
    }
    assert [(cell["count"], cell["outer"], cell["inner"], cell["exact"]) for cell in found["cells"]] == [
        (1, [0, 10], [0, 10], True),
        (2, [0, 9], [0, 9], True),
        (2, [0, 9], [0, 9], True),
    ]


def test_bounds_of_sums_of_cells(sdc: Sdc) -> None:
    """Of what is released the count, of at-risk cells what the cells have; all over tables of fractions too."""
    words = ["bounds", CZECH, *RELEASE, "--cells", "A in (no, yes), B=no, D=<140"]
    found = sdc(*words, "--cells", "at-risk", "--json").document
    told, *cells = found["cells"]
    assert (told["cell"], told["count"]) == ({"B": ["no"], "D": ["<140"]}, 616)
    assert told["outer"] == told["inner"] == [616, 616]
    assert [cell["outer"] for cell in cells] == [[0, 10], [0, 9], [0, 9]]
    assert sdc(*words, "--fractional", "--json").document["method"] == "fractional"


UNTOLD = "a,b,count\nx,u,3\nx,v,\ny,u,2-5\ny,v,\nx,(total),4\n(total),(total),12\n"


def test_a_table_whose_counts_are_not_all_told(sdc: Sdc, tmp_path: Path) -> None:
    """By itself it tells what is known: its own counts, intervals and totals."""
    (tmp_path / "t.csv").write_text(UNTOLD)
    found = sdc("bounds", tmp_path / "t.csv", "--cells", "all", "--json").document
    assert list(found) == ["method", "cells"]
    assert [(row["count"], row["outer"], row["exact"]) for row in found["cells"]] == [
        *((3, [3, 3], True), (1, [1, 1], True), (None, [2, 5], True), (None, [3, 6], True))
    ]
    assert sdc("enumerate", tmp_path / "t.csv", "--json").document == {"feasible_tables": 4, "complete": True}
    lines = sdc("bounds", tmp_path / "t.csv", "--cells", "b=v").out.splitlines()
    assert " ".join(lines[2].split()) == "[4, 7] [4, 7] b=v"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["bounds", "t.csv", "--release", "a"], "only the file itself is used; omit --release"),
        (
            ["enumerate", "t.csv", "--variables", "a"],
            "which makes no variable: its rows of totals would be counted too",
        ),
        (["bounds", "t.csv", "--method", "shuttle"], "have one method; omit --sharp and --method"),
        (["bounds", "t.csv", "--cells", "some"], "cells = 'some'; choose at-risk or all"),
        (["bounds", "empty.csv"], "has 1 range of counts with the higher number first"),
        (["bounds", "wrong.csv"], "contradicts itself: "),
        (["widths", "rounded.csv"], "is rounded to multiples of 5, and alone does not state which of its sums are too"),
    ],
)
def test_what_is_no_such_table_is_one_message(words: list[str], message: str, sdc: Sdc, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(UNTOLD)
    (tmp_path / "empty.csv").write_text(UNTOLD.replace("2-5", "5-2"))
    (tmp_path / "wrong.csv").write_text(UNTOLD.replace("x,(total),4", "x,(total),2"))
    (tmp_path / "rounded.csv").write_text("a,count_rounded_to_5\nx,5\ny,10\n")
    command, name, *more = words
    before = tree(tmp_path)
    sdc(command, tmp_path / name, *more, "--json").assert_refused(message)
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    ("more", "min_width", "releasable", "sharp"), [([], 9, True, 9), (["A*B*C*E*F", "B*C*D*E*F"], 4, False, 3)]
)
def test_the_published_assessments(more: list[str], min_width: int, releasable: bool, sharp: int, sdc: Sdc) -> None:
    words = [word for name in more for word in ("--release", name)]
    found = sdc("assess", CZECH, *RELEASE, *words, "--min-width", min_width, "--json").document
    assert (found["releasable"], found["min_width_required"]) == (releasable, min_width)
    low, high = found["min_width"]
    assert low <= sharp <= high
    assert found["at_risk_cells"] == 3
    assert found["undecided_cells"] == 0 or not releasable  # a refusal stops at the first proof
    assert bool(found["witnesses"]) == (not releasable)
    for witness in found["witnesses"]:
        assert witness["outer"][1] - witness["outer"][0] < min_width


def test_assess_with_a_limit_on_the_posterior(sdc: Sdc) -> None:
    """The bounds are wide enough: what is likely decides, and is said."""
    limit = ["--threshold", "0.1", "--max-above", "0.3"]
    found = sdc("assess", CZECH, *RELEASE, "--min-width", "6", *limit, "--law", "uniform", "--json").document
    likely = found["likely"]
    assert (found["releasable"], likely["is_kept"], likely["cells"]) == (False, False, 3)
    assert likely["limit"]["law"] == "uniform"
    said = sdc("assess", CZECH, *RELEASE, "--min-width", "6", "--max-probability", "0.9").out
    assert said.startswith("releasable\n")
    assert "\nlikely        under the law released " in said
    assert "likely" not in sdc("assess", CZECH, *RELEASE, "--min-width", "6", "--json").document


def test_assess_by_what_claims_cost(sdc: Sdc) -> None:
    """One true count of three is the most likely one, of a probability of 0.34: he claims it above 0.3."""
    asked = ["assess", CZECH, "--release", "A*B*C", "--release", "C*D*E*F", "--min-width", "3", "--loss", "none=0.7"]
    assert sdc(*asked, "--max-loss", "0.34").out.startswith("releasable\n")
    refused = sdc(*asked, "--max-loss", "0.33")
    assert refused.status == 3
    assert "an intruder's 1 right claims cost 0.3333 a cell (at most 0.33 allowed)" in refused.out
    alone = sdc(*asked[:-2], "--max-loss", "0.3")
    assert alone.status == 1
    assert "risk.posterior = {'max_loss': 0.3}: max_loss needs losses; give both or neither" in alone.err


def test_the_published_number_of_feasible_tables_or_as_many_as_are_asked_for(sdc: Sdc) -> None:
    assert sdc("enumerate", CZECH, *RELEASE).out == "810 feasible tables\n"
    for limit, there_are in ((5, 5), (1000, 810)):
        found = sdc("enumerate", CZECH, *RELEASE, "--limit", limit, "--json").document
        assert found == {"feasible_tables": there_are, "complete": there_are == 810}


def test_enumeration_without_a_limit_ends(sdc: Sdc, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one-way sub-tables of the Czech table have more tables than anybody waits for."""
    monkeypatch.setattr(tables, "DEFAULT_STEPS", 1 << 16)
    found = sdc("enumerate", CZECH, "--release", "A*B", "--json")
    assert found.document["complete"] is False
    assert found.document["feasible_tables"] > 1
    *_, ended, estimate, _ = found.err.split("\n")
    assert ended == "the search ended after some seconds; give --limit to continue"
    assert re.fullmatch(r"an estimated 10\^[0-9]+ tables agree: a count one by one will not end.*", estimate)
    assert sdc("enumerate", CZECH, "--release", "A*B").out.endswith(" feasible tables and maybe more\n")


@pytest.mark.parametrize(("min_width", "releasable"), [(6, True), (7, False), (9, False)])
def test_structural_zeros_decide(min_width: int, releasable: bool, informed: list[str], sdc: Sdc) -> None:
    found = sdc("assess", CZECH, *RELEASE, "--min-width", min_width, *informed, "--json").document
    assert (found["releasable"], found["min_width"]) == (releasable, [6, 6])
    released = sdc("release", CZECH, "--method", "ordered", "--min-width", min_width, *informed, "--json").document
    assert released["assessment"]["releasable"] is True
    assert (released["sub_tables_with_total"] == 60) == releasable
