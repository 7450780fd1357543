"""Builds whose required sub-tables do not all fit whole: some go out in part, proven, published and read back."""

import csv
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from sdc.commands.cli import app
from sdc.executor import IN_PROCESS
from sdc.model import subtable as st
from sdc.model.errors import ConfigError, SdcError
from sdc.protect.summary import suppressed_table_facts
from sdc.public.published import read_published
from sdc.record.ledger import new_ledger, read_ledger
from sdc.risk.assessment import OwnJudged
from sdc.stages.build import Build, open_build
from sdc.stages.finished import compare
from sdc.stages.resolved import ResolvedInput
from sdc.stages.stages import STAGES
from sdc.storage.parquet import write_csv
from sdc.verify.run_folder import verify
from tests.helpers.builds import built, made, redone, report_of
from tests.helpers.yearbook import AREAS, FORMATS, PEOPLE, REQUIRED, columns_of, config, records

__all__ = ["FORMATS", "REQUIRED", "built", "config"]  # for tests of verification


def test_what_does_not_fit_whole_goes_out_in_part(yearbook: Build) -> None:
    build = yearbook
    made, release = build.made, build.folder.stage("release")
    schema, (fact,) = made.table.schema, made.found.suppressed_tables.facts
    view = st.parse("area*age", schema)
    assert fact.view == view
    assert made.found.required is not None
    assert (made.found.required.in_part, made.found.required.refused) == ((view,), ())
    assert all(st.parse(name, schema) in made.found.release for name in ("area*sex", "age*sex*edu", "area*edu"))
    (told,) = suppressed_table_facts(made.found.suppressed_tables, {}, made.table, release)
    counts = made.table.marginal(view)
    small = counts.codes[counts.counts <= 2]
    hidden = fact.intervals.cells if fact.intervals is not None else small[:0]
    assert counts.schema.keys.matching(hidden, small).min() >= 0
    assert told["suppressed"] == len(hidden) < told["cells"] / 4
    assert told["records_suppressed"] == pytest.approx(counts.count_at(hidden).sum() / PEOPLE, abs=1e-6)
    (published,) = [one for one in read_published(release / told["file"]) if len(one.suppressed)]
    assert published.table.total == PEOPLE - counts.count_at(hidden).sum()
    assert len(published.suppressed) == len(hidden)
    found = verify(build.folder.path)
    assert found.verified
    assert found.known == ""
    number = len(small)
    assert found.notes == (f"{number} of {number} small cells of suppressed tables are proven to keep the width",)


def test_no_withheld_count_is_in_any_published_file(yearbook: Build) -> None:
    """Each file of the sub-table has the cells without a count, all of them alike, zeros among them."""
    build = yearbook
    release = build.folder.stage("release")
    metadata = json.loads((release / "datapackage.json").read_text())
    parts = [one for one in metadata["resources"] if "in_part" in one]
    assert {one["format"] for one in parts} == {"csv", "parquet"}
    for one in parts:
        path = release / one["path"]
        rows = list(csv.DictReader(path.open())) if one["format"] == "csv" else pq.read_table(path).to_pylist()
        withheld = [row for row in rows if row["count_status"]]
        assert {(row["count"] or None, row["count_status"]) for row in withheld} == {(None, "withheld")}
        assert all(row["count"] not in ("", None) for row in rows if row not in withheld)
        assert len(withheld) == one["in_part"]["withheld"]
    for name in ("index.html", "catalogue.json"):
        assert f"{parts[0]['in_part']['withheld']} of {AREAS * 6} cells withheld" in (release / name).read_text()
    assert "1 table goes out in part" in (release / "README.txt").read_text()


def test_the_largest_withheld_cells_stand_in_the_report_with_what_each_protects(yearbook: Build) -> None:
    (one,) = yearbook.made.found.suppressed
    (told,) = suppressed_table_facts(
        yearbook.made.found.suppressed_tables, {}, yearbook.made.table, yearbook.folder.stage("release"), [one]
    )
    assert told["largest"][0]["count"] == max(cell["count"] for cell in told["largest"])
    report = report_of(yearbook)
    assert all(f"<td>{cell['text']}</td>" in report for cell in told["largest"])
    assert one.share == pytest.approx(told["records_suppressed"], abs=1e-6)
    answer = CliRunner().invoke(app, ["why", str(yearbook.folder.path), "area*age"])
    assert f"area*age is released with {one.text}" in answer.stdout
    assert f"largest        {one.largest[0].text}" in answer.stdout


def test_what_an_older_default_published_is_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A config that names no cost is the build that it was, and its ledger keeps one entry."""
    new_ledger(tmp_path / "led")
    file = config(
        tmp_path, release={"require": ["area*sex"], "required_only": True, "protect": "suppression"}, ledger="led"
    )
    first = built(file)
    later = tuple(replace(stage, version=stage.version + 1) for stage in STAGES)
    monkeypatch.setattr("sdc.stages.stages.STAGES", later)
    again, statuses = made(file)
    assert (again.folder.path, redone(statuses)) == (first.folder.path, [])
    assert len(read_ledger(tmp_path / "led").entries) == 1
    by_cells = config(tmp_path, release={"protect": [{"of": "area*sex", "cost": "cells"}]})
    by_default = config(tmp_path, "default", release={"protect": [{"of": "area*sex"}]})
    digested = [open_build(one).config.release.recorded(exclude_defaults=True) for one in (by_cells, by_default)]
    assert digested == [{"in_part": [{"of": "area*sex", **cost}]} for cost in ({"cost": "cells"}, {})]


def test_a_run_is_asked_about_with_what_went_out_in_part(yearbook: Build) -> None:
    run = str(yearbook.folder.path)
    subject = ResolvedInput.open(run)
    assert subject.suppressed_tables.labels(subject.table.schema) == ["area*age"]
    assert len(subject.known.published) == 1
    assert compare(run, run).in_part == {}


def test_a_small_cell_that_whole_sub_tables_tell_is_counted_and_stops_nothing(tmp_path: Path) -> None:
    """All of the first region are of one kind, so that region*kind tells the kinds of each of its areas."""
    of_area = {"a": [2, 0], "b": [9, 0], "c": [1, 8], "d": [9, 7]}
    rows = [
        (area, "north" if area in "ab" else "south", "xy"[kind], "fm"[k % 2])
        for area, counts in of_area.items()
        for kind, count in enumerate(counts)
        for k in range(count)
    ]
    names = ("area", "region", "kind", "sex")
    write_csv(tmp_path / "people.csv", dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))
    table = {"path": "people.csv", "hierarchies": {"place": ["region", "area"]}}
    release = {"require": ["region*kind", "area"], "protect": [{"of": "area*kind"}], "required_only": True}
    build = built(config(tmp_path, table=table, release=release, risk={"min_width": 2, "small_count": 2}))
    (fact,) = build.made.found.suppressed_tables.facts
    assert fact.intervals is not None
    assert build.made.assessed(2)[0].in_part == OwnJudged(1, 0)
    assert verify(build.folder.path).verified


def test_a_report_says_how_many_cells_the_pattern_narrows(tmp_path: Path) -> None:
    """Of a table that seven agree with, and of these itself alone leads to what is published."""
    counts = {"000": 4, "010": 3, "100": 5, "101": 1}
    rows = [(f"{a},{b},{c}") for (a, b, c), number in counts.items() for _ in range(number)]
    (tmp_path / "people.csv").write_text("\n".join(["a,b,c", *rows, ""]))
    sections = {
        "release": {"require": ["a*b", "a*c", "b*c"], "protect": "suppression"},
        "posterior": {"refusals": 100},
        "risk": {"min_width": 2, "small_count": 2},
        "table": {"path": "people.csv", "categories": {v: ["0", "1"] for v in "abc"}},
    }
    build = built(config(tmp_path, **sections))
    told = json.loads((build.folder.path / "posterior" / "refusals.json").read_text())
    ranges = {kind: np.array(told[kind]) for kind in ("possible", "left", "own_possible", "own_left")}
    narrowed = [
        int(((np.ptp(ranges[all_], axis=1) >= 2) & (np.ptp(ranges[left], axis=1) < 2)).sum())
        for all_, left in (("possible", "left"), ("own_possible", "own_left"))
    ]
    assert (told["feasible_tables"], told["alike"], narrowed) == (7, 1, [1, 2])
    assert f"{narrowed[1]} of {len(ranges['own_left'])} small cells of the suppressed tables" in report_of(build)


def test_a_sub_table_goes_out_rounded(rounded_yearbook: Build) -> None:
    """Each cell and each margin is a multiple less than the base away, in every format, and named as rounded."""
    build = rounded_yearbook
    release, table = build.folder.stage("release"), build.made.table
    (part,) = build.made.found.suppressed_tables.tables
    assert (part.label(table.schema), part.base) == ("area*age", 5)
    assert {margin.label(table.schema) for margin in part.margins} == {"area", "age"}
    answer = CliRunner().invoke(app, ["why", str(build.folder.path), "area*age"])
    assert "area*age is released rounded\n" in answer.stdout
    metadata = json.loads((release / "datapackage.json").read_text())
    told = [one["in_part"] for one in metadata["resources"] if "in_part" in one]
    assert told == [{"cells": AREAS * 6, "rounded_to": 5, "margins": [["area"], ["age"]]}] * 8
    (read,) = [one for one in read_published(release) if one.base]
    assert (read.base, read.margins, read.label) == (5, (("area",), ("age",)), "area*age")
    assert not (read.table.counts % 5).any()
    assert abs(int(read.table.counts.sum()) - table.total) < 5
    for suffix in (".csv", ".parquet", ".json", ".px"):
        # its totals say how it is rounded
        (alone,) = read_published(next(release.glob(f"*_area-age{suffix}")))
        assert alone.digest == read.digest
    found = verify(build.folder.path)
    assert found.verified
    assert re.fullmatch(r"(\d+) of \1 small cells .* are proven .*", found.notes[0])
    assert json.loads((build.folder.path / "search" / "search.json").read_text())["in_part"]["rounded"][0]["base"] == 5


def next_edition(folder: Path, like: Path, **release: Any) -> Path:
    """A year later some have moved, nobody lives in the last area any more, and there is a new one."""
    rng, people = np.random.default_rng(5), records()
    moved = rng.random(len(people)) < 0.3
    people[moved, 0] = np.minimum(rng.geometric(0.17, int(moved.sum())) - 1, AREAS - 1)
    people[people[:, 0] == AREAS - 1, 0] = 30
    write_csv(folder / "people.csv", columns_of(people))
    section = {"require": REQUIRED, "protect": "suppression", "previous_pattern": str(like), **release}
    return config(folder, "next", release=section)


def test_a_pattern_is_known_by_what_it_says_and_not_by_where_it_lies(yearbook: Build, tmp_path: Path) -> None:
    edition = yearbook.folder.stage("release")
    shutil.copytree(edition, tmp_path / "moved")
    (path,) = (tmp_path / "moved").glob("*_area-age.csv")
    (tmp_path / "more.csv").write_text(
        re.sub(r"(?m)^(area0[0-2],.*),\d+,$", r"\1,,withheld", path.read_text(), count=1)
    )
    editions = edition, tmp_path / "moved", path, tmp_path / "more.csv"
    digests = [open_build(next_edition(tmp_path, like)).digests for like in editions]
    assert digests[0] == digests[1] == digests[2] != digests[3]


def test_of_an_edition_with_other_codes_or_no_suppression_it_is_said_what_was_found(
    yearbook: Build, tmp_path: Path
) -> None:
    folder = yearbook.folder.stage("release")
    recoded = tmp_path / "recoded.csv"
    recoded.write_text(re.sub(r"(?m)^area(?=\d)", "a", next(folder.glob("*_area-age.csv")).read_text()))
    (with_totals := tmp_path / "totals.csv").write_text(
        f"{next(folder.glob('*_area-age.csv')).read_text()}Total,Total,{len(records())},\n"
    )
    for like, said in (
        (with_totals, r"previous_pattern: area\*age has [1-9]\d* of [1-9]\d* cells? that the earlier .* suppresses$"),
        (next(folder.glob("*_area-sex.csv")), "previous_pattern names an edition without suppressed cells"),
        (recoded, r"previous_pattern: area\*age has 0 of [1-9]\d* cells .*; its codes differ"),
        (folder, r"previous_pattern: area\*age has [1-9]\d* of [1-9]\d* cells? that the earlier .* suppresses$"),
    ):
        build = open_build(next_edition(tmp_path, like))
        _, known, origin = build.with_earlier(build.counted(IN_PROCESS))
        (line,) = replace(build, given=origin).settings().found_before(known)
        assert re.match(said, line)


def test_an_edition_that_tells_nothing_of_what_goes_out_in_part_is_refused(yearbook: Build, tmp_path: Path) -> None:
    part = next(yearbook.folder.stage("release").glob("*_area-age.csv"))
    with pytest.raises(
        ConfigError, match=r"previous_pattern suppresses cells of area\*age, and protect is of area\*edu; name an"
    ):
        built(next_edition(tmp_path, part, protect=[{"of": "area*edu"}], require=["area*sex"]))
    with pytest.raises(ConfigError, match="previous_pattern is given, and no sub-table is protected; give protect"):
        built(next_edition(tmp_path, part, protect=[]))
    with pytest.raises(ConfigError, match=r"release\.previous_pattern = .*nowhere does not exist"):
        built(next_edition(tmp_path, tmp_path / "nowhere"))
    assert not [*tmp_path.rglob("release")]


def weighed(folder: Path, lines: list[str], **section: Any) -> Path:
    (folder / "weights.csv").write_text("\n".join(lines) + "\n")
    part = {"of": "area*age", "cost": {"weights": "weights.csv"}, **section}
    return config(folder, "weighed", release={"require": REQUIRED, "protect": [part]})


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        (["age,weight", "age00,3"], "have the columns age, weight; give area, age, weight"),
        (["age,area,weight", "age00,area99,3"], "line 2: it is of no cell that the sub-table has"),
        (["age,area,weight", "age00,area01,-3"], "line 2: it is of no cell .* or no whole number from 0"),
        (["age,area,weight", "age00,area01"], "line 2"),
        ([], "have the columns ; give area, age, weight"),
    ],
)
def test_weights_of_other_cells_are_refused(tmp_path: Path, lines: list[str], fault: str) -> None:
    file = weighed(tmp_path, lines)
    with pytest.raises(SdcError, match=fault):
        built(file)
    (tmp_path / "weights.csv").unlink()
    with pytest.raises(ConfigError, match=r"release\.protect\.0\.cost\.weights"):
        open_build(file)


def test_what_is_within_another_with_the_same_merged_categories_has_a_file_of_its_own(tmp_path: Path) -> None:
    small, large = [("s1", 2), ("s2", 2)], [("l1", 30), ("l2", 40), ("l3", 50)]
    rows = [(area, age, "f") for area, n in small for age in ("young", "middle", "old") for _ in range(n)]
    rows += [(a, age, sex) for a, n in large for age in ("young", "middle", "old") for sex in "fm" for _ in range(n)]
    lines = ["area,age,sex", *(",".join(row) for row in rows)]
    (tmp_path / "areas.csv").write_text("\n".join(lines) + "\n")
    parts = [{"of": of, "by": "recoding", "merge": "area"} for of in ("area*age", "area*age*sex")]
    release = {"require": [part["of"] for part in parts], "protect": parts}
    build = built(config(tmp_path, table={"path": "areas.csv"}, release=release))
    schema = build.made.table.schema
    instead = {st.label(of, schema): {*st.names(by, schema)} for of, by in build.coarsened.items()}
    assert instead == {"area*age": {"area_merged", "age"}, "area*age*sex": {"area_merged", "age", "sex"}}
    told = suppressed_table_facts(
        build.made.found.suppressed_tables, build.coarsened, build.made.table, build.folder.stage("release")
    )
    assert len({one["file"] for one in told}) == 2
    assert not verify(build.folder.path).failures
