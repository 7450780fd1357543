"""Builds whose required sub-tables do not all fit whole: some go out in part, proven, published and read back."""

from __future__ import annotations

import csv
import hashlib
import json
import re
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from sdc.config.release import EndedAfterConfig
from sdc.executor import IN_PROCESS
from sdc.model import subtable as st
from sdc.model.errors import ConfigError, InputError, NotReleasableError, SdcError
from sdc.public.published import read_published
from sdc.record.ledger import new_ledger, read_ledger
from sdc.risk.assessment import OwnJudged
from sdc.risk.criteria import Judgement
from sdc.risk.inquiry import Inquiry
from sdc.search.ordered import grand_total
from sdc.stages.assemble import release_search
from sdc.stages.build import Build, open_build
from sdc.stages.compare import compare
from sdc.stages.stages import run_all
from sdc.stages.subject import Subject
from sdc.storage.documents import part_facts
from sdc.storage.parquet import write_csv
from sdc.storage.run_folder import write_json
from sdc.verify.run_folder import verify
from tests.integration.verify.test_verify import rejected
from tests.profiles import scaled

REQUIRED = ["area*sex", "age*sex*edu", "area*age", "area*edu"]
NAMES = ("area", "age", "sex", "edu")


def records() -> np.ndarray:
    """People by small areas, age, sex and education."""
    rng, number = np.random.default_rng(4), 6000
    columns = [
        np.minimum(rng.geometric(0.12, number) - 1, 23),
        np.minimum(rng.poisson(1.5, number), 5),
        rng.integers(0, 2, number),
        np.minimum(rng.geometric(0.5, number) - 1, 2),
    ]
    return np.stack(columns, axis=1)


def config(folder: Path, name: str = "yearbook", **sections: Any) -> Path:
    people = folder / "people.csv"
    if not people.exists():
        own = {v: [f"{v}{code:02}" for code in column] for v, column in zip(NAMES, records().T.tolist(), strict=True)}
        write_csv(people, own)
    content = {"name": name, "table": {"path": "people.csv"}, "risk": {"min_width": 3, "small_count": 2}}
    content |= {"release": {"require": REQUIRED, "in_part": "withhold"}}
    content |= {
        "sharp_seconds": 1.0,
        "execution": {"cluster": "in-process"},
        "output": {"folder": str(folder / "runs")},
        **sections,
    }
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(content))
    return folder / f"{name}.yaml"


def built(file: Path) -> Build:
    build = open_build(file)
    run_all(build, IN_PROCESS)
    return build


@pytest.fixture(scope="module")
def yearbook(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Build]:
    """The build, made when first asked for."""
    return cache(lambda: built(config(tmp_path_factory.mktemp("yearbook"))))


@pytest.fixture
def run(yearbook: Callable[[], Build], tmp_path: Path) -> Path:
    """A copy of its folder."""
    return Path(shutil.copytree(yearbook().folder.path, tmp_path / "run"))


def test_what_does_not_fit_whole_goes_out_in_part(yearbook: Callable[[], Build]) -> None:
    build = yearbook()
    made, release = build.made, build.folder.stage("release")
    schema, (fact,) = made.table.schema, made.found.parts.facts
    view = st.parse("area*age", schema)
    assert fact.view == view
    assert made.found.required is not None
    assert (made.found.required.in_part, made.found.required.refused) == ((view,), ())
    assert all(st.parse(name, schema) in made.found.release for name in ("area*sex", "age*sex*edu", "area*edu"))
    (told,) = part_facts(made.found.parts, {}, made.table, release)
    counts = made.table.marginal(view)
    small = counts.codes[counts.counts <= 2]
    hidden = fact.between.cells if fact.between is not None else small[:0]
    assert counts.schema.keys.matching(hidden, small).min() >= 0
    assert told["withheld"] == len(hidden) < told["cells"] / 4
    assert told["records_withheld"] == pytest.approx(counts.count_at(hidden).sum() / 6000, abs=1e-6)
    (published,) = [one for one in read_published(release / told["file"]) if len(one.withheld)]
    assert published.table.total == 6000 - counts.count_at(hidden).sum()
    assert len(published.withheld) == len(hidden)
    found = verify(build.folder.path)
    assert found.verified
    assert found.known == ""
    assert found.notes == (f"0 of {len(small)} small cells of sub-tables in part are not shown to keep the width",)


def test_parts_are_not_asked_about_without_what_goes_out_whole(
    yearbook: Callable[[], Build], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is proven of them rests on a larger component then, and of a large table it would not be found again."""

    def alone(inquiry: Inquiry) -> Judgement:
        assert not inquiry.known.facts
        return grand_total(inquiry)

    monkeypatch.setattr("sdc.search.ordered.grand_total", alone)
    build = yearbook()
    search = release_search(build.made.table, build.made.known, build.settings(), build.made.widths)
    for method in ("ordered", "best"):
        assert search.run(method).parts.facts == build.made.found.parts.facts


def test_no_withheld_count_is_in_any_published_file(yearbook: Callable[[], Build]) -> None:
    """Each file of the sub-table has the cells without a count, all of them alike, zeros among them."""
    build = yearbook()
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
    said = f"{parts[0]['in_part']['withheld']} of 144 cells withheld"
    for name in ("index.html", "catalogue.json"):
        assert said in (release / name).read_text()
    assert "1 table goes out in part" in (release / "README.txt").read_text()
    assert "1 table goes out in part" in metadata["description"]


FORMATS = ["csv", "parquet", "csvw", "json-stat", "px", "sdmx-csv", "xml", "xlsx"]


@pytest.mark.parametrize("listed", [{}, {"zeros": True, "totals": True}])
def test_every_format_withholds_the_same(listed: dict[str, bool], tmp_path: Path) -> None:
    """Those that are read tell the same; with totals, which of them are withheld is verified from the files."""
    build = built(config(tmp_path, publication={"formats": FORMATS, **listed}))
    release = build.folder.stage("release")
    told = {
        suffix: read_published(next(release.glob(f"*_area-age{suffix}")))[0]
        for suffix in (".csv", ".parquet", ".json", ".px")
    }
    (fact,) = build.made.found.parts.facts
    assert fact.between is not None
    assert len({one.digest for one in told.values()}) == 1
    assert {len(one.withheld) for one in told.values()} == {len(fact.between.cells)}
    metadata = json.loads((release / "datapackage.json").read_text())
    assert {one["format"] for one in metadata["resources"] if "in_part" in one} == {*FORMATS} - {"xlsx"}
    assert verify(build.folder.path).verified
    with (next(release.glob("*_area-age.csv"))).open() as file:
        rows = {(row["area"], row["age"]): row for row in csv.DictReader(file)}
    totals = {key: row["count"] for key, row in rows.items() if "(total)" in key}
    assert all(totals.values())  # area*sex and age*sex*edu tell them
    assert len(totals) == (24 + 6 + 1 if listed else 0)


def test_a_run_is_asked_about_with_what_went_out_in_part(yearbook: Callable[[], Build]) -> None:
    run = str(yearbook().folder.path)
    subject = Subject.open(run)
    assert subject.parts.labels(subject.table.schema) == ["area*age"]
    assert len(subject.known.facts) == 1
    assert compare(run, run).in_part == {}


def test_a_ledger_and_the_next_build_know_what_went_out_in_part(tmp_path: Path) -> None:
    new_ledger(tmp_path / "led")
    first = built(config(tmp_path, "first", ledger="led"))
    (entry,) = read_ledger(tmp_path / "led").entries
    (told,) = entry.known["facts"]
    assert told["view"] == ["area", "age"]
    (own,) = part_facts(first.made.found.parts, {}, first.made.table, first.folder.stage("release"))
    assert len(told["withheld"]["cells"]) == own["withheld"]
    more = {"release": {"require": ["area*sex*edu"]}, "ledger": "led"}
    second = built(config(tmp_path, "second", **more))
    assert [fact.view for fact in second.made.known.facts] == [fact.view for fact in first.made.found.parts.facts]
    assert verify(second.folder.path).verified
    with pytest.raises(SdcError, match=r"area\*age is"):
        built(config(tmp_path, "third", release={"require": ["area*age"]}, ledger="led"))


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
    release = {"require": ["region*kind", "area"], "in_part": [{"of": "area*kind"}], "only": "required"}
    build = built(config(tmp_path, table=table, release=release, risk={"min_width": 2, "small_count": 2}))
    (fact,) = build.made.found.parts.facts
    assert fact.between is not None
    page = (build.folder.stage("confidential") / "report.html").read_text()
    assert "Of the small cells 1 are too narrow by what is known without these sub-tables" in page
    assert build.made.assessed(2)[0].in_part == OwnJudged(1, 0)
    assert verify(build.folder.path).verified


def test_a_report_says_how_many_cells_the_pattern_narrows(tmp_path: Path) -> None:
    """Of a table that seven agree with, and of these itself alone leads to what is published."""
    counts = {"000": 4, "010": 3, "100": 5, "101": 1}
    rows = [(f"{a},{b},{c}") for (a, b, c), number in counts.items() for _ in range(number)]
    (tmp_path / "people.csv").write_text("\n".join(["a,b,c", *rows, ""]))
    sections = {
        "release": {"require": ["a*b", "a*c", "b*c"], "in_part": "withhold"},
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
    page = (build.folder.stage("confidential") / "report.html").read_text()
    assert (
        f"For whoever knows them {narrowed[0]} of {len(ranges['left'])} at-risk cells fall below the width of 2, and "
        f"{narrowed[1]} of {len(ranges['own_left'])} small cells of the sub-tables in part."
    ) in page


# Rounded


ROUNDED = {"require": REQUIRED[:2], "in_part": [{"of": "area*age", "how": "round", "base": 5}, {"of": "area*edu"}]}


@pytest.fixture(scope="module")
def rounded_yearbook(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Build]:
    """A build one of whose sub-tables goes out rounded, with totals, made when first asked for."""
    folder = tmp_path_factory.mktemp("rounded")
    return cache(lambda: built(config(folder, release=ROUNDED, publication={"formats": FORMATS, "totals": True})))


@pytest.fixture
def rounded_run(rounded_yearbook: Callable[[], Build], tmp_path: Path) -> Path:
    return Path(shutil.copytree(rounded_yearbook().folder.path, tmp_path / "run"))


def test_a_sub_table_goes_out_rounded(rounded_yearbook: Callable[[], Build]) -> None:
    """Each cell and each margin is a multiple less than the base away, in every format, and named as rounded."""
    build = rounded_yearbook()
    release, table = build.folder.stage("release"), build.made.table
    (part,) = build.made.found.parts.tables
    assert (part.label(table.schema), part.base) == ("area*age", 5)
    assert {margin.label(table.schema) for margin in part.margins} == {"area", "age"}
    with next(release.glob("*_area-age.csv")).open() as file:
        rows = {(row["area"], row["age"]): int(row["count_rounded_to_5"]) for row in csv.DictReader(file)}
    people = records()
    for area, age in [(area, age) for area in range(25) for age in range(7)]:
        inside = np.ones(len(people), np.bool_)
        for column, code, most in ((0, area, 24), (1, age, 6)):
            inside &= (people[:, column] == code) | (code == most)
        named = f"area{area:02}" if area < 24 else "(total)", f"age{age:02}" if age < 6 else "(total)"
        count = rows.get(named, 0)
        assert count % 5 == 0
        assert abs(count - inside.sum()) < 5
    metadata = json.loads((release / "datapackage.json").read_text())
    told = [one["in_part"] for one in metadata["resources"] if "in_part" in one]
    assert told == [{"cells": 24 * 6, "rounded_to": 5, "margins": [["area"], ["age"]]}] * 8
    guide = (release / "README.txt").read_text()
    assert "The table of area, age is rounded: each count, each sum by area, each sum by age and the total bec" in guide
    assert "rounded to multiples of 5" in (release / "index.html").read_text()
    (read,) = [one for one in read_published(release) if one.base]
    assert (read.base, read.margins, read.label) == (5, (("area",), ("age",)), "area*age")
    assert read.table.counts.sum() == rows["(total)", "(total)"]
    for suffix in (".csv", ".parquet", ".json", ".px"):
        # its totals say how it is rounded
        (alone,) = read_published(next(release.glob(f"*_area-age{suffix}")))
        assert alone.digest == read.digest
    found = verify(build.folder.path)
    assert found.verified
    assert found.notes[0].startswith("0 of ")
    assert json.loads((build.folder.path / "search" / "search.json").read_text())["in_part"]["rounded"][0]["base"] == 5


def test_a_ledger_and_earlier_know_what_went_out_rounded(rounded_yearbook: Callable[[], Build], tmp_path: Path) -> None:
    """As the build knew it; what it excludes is refused then, and another table is found out."""
    own = rounded_yearbook().made
    new_ledger(tmp_path / "led")
    built(config(tmp_path, "first", ledger="led", release=ROUNDED))
    (entry,) = read_ledger(tmp_path / "led").entries
    assert sorted("between" in fact for fact in entry.known["facts"]) == [True] * len(entry.known["facts"])
    only = {"require": ["area*sex*edu"]}
    for more in ({"ledger": "led"}, {"earlier": [{"folder": str(rounded_yearbook().folder.stage("release"))}]}):
        second = built(config(tmp_path, "second", release=only, **more))
        assert {fact.identity for fact in second.made.known.facts} == {
            fact.identity for fact in own.found.parts.facts if fact.view not in second.made.known.release
        }
        assert verify(second.folder.path).verified
        with pytest.raises(SdcError, match=r"area\*age is"):
            built(config(tmp_path, "third", release={"require": ["area*age"]}, **more))
    people = records()[:-40]
    columns = {v: [f"{v}{code:02}" for code in column] for v, column in zip(NAMES, people.T.tolist(), strict=True)}
    write_csv(tmp_path / "people.csv", columns)
    with pytest.raises(InputError, match="counts"):
        built(config(tmp_path, "other", release=only, earlier=more["earlier"]))


def test_the_next_way_is_taken_where_one_does_not_do(tmp_path: Path) -> None:
    ways = {"of": "area*age", "how": ["withhold", "round"], "base": 5, "most": 0.01}
    release = {"require": REQUIRED[:2], "in_part": [ways, {"of": "age*edu"}]}
    assert [part.base for part in built(config(tmp_path, release=release)).made.found.parts.tables] == [5]
    ways["most"] = 0.5
    found = built(config(tmp_path, "other", release=release)).made.found
    assert [part.base for part in found.parts.tables] == [0]


# The next edition


def next_edition(folder: Path, like: Path, **release: Any) -> Path:
    """A year later some have moved, nobody lives in the last area any more, and there is a new one."""
    rng, people = np.random.default_rng(5), records()
    moved = rng.random(len(people)) < 0.3
    people[moved, 0] = np.minimum(rng.geometric(0.12, int(moved.sum())) - 1, 23)
    people[people[:, 0] == 23, 0] = 30
    own = {v: [f"{v}{code:02}" for code in column] for v, column in zip(NAMES, people.T.tolist(), strict=True)}
    write_csv(folder / "people.csv", own)
    section = {"require": REQUIRED, "in_part": "withhold", "like": str(like), **release}
    return config(folder, "next", release=section)


def withheld_by_names(release: Path) -> set[tuple[str, str]]:
    with next(release.glob("*_area-age.csv")).open() as file:
        return {(row["area"], row["age"]) for row in csv.DictReader(file) if not row["count"]}


def test_the_next_edition_withholds_what_the_one_before_did(yearbook: Callable[[], Build], tmp_path: Path) -> None:
    """And what must be besides, which is said; what it withholds is another fact than the pattern of the one before."""
    before = yearbook().folder.stage("release")
    build = built(next_edition(tmp_path, before))
    assert verify(build.folder.path).verified
    old, new = withheld_by_names(before), withheld_by_names(build.folder.stage("release"))
    kept = {cell for cell in old if cell[0] != "area23"}
    assert kept < new
    text = (build.folder.stage("confidential") / "report.html").read_text()
    said = re.search(r'<p class="as-before">(\d+) of the withheld .* before, and (\d+) were not: (.*?)</p>', text)
    assert said is not None
    assert (int(said[1]), int(said[2])) == (len(kept), len(new - kept))
    assert all(f"{area}" in said[3] for area, _ in new - kept)
    alone = built(config(tmp_path, "alone"))
    assert not kept <= withheld_by_names(alone.folder.stage("release"))


def test_a_pattern_is_known_by_what_it_says_and_not_by_where_it_lies(
    yearbook: Callable[[], Build], tmp_path: Path
) -> None:
    edition = yearbook().folder.stage("release")
    shutil.copytree(edition, tmp_path / "moved")
    (path,) = (tmp_path / "moved").glob("*_area-age.csv")
    (tmp_path / "more.csv").write_text(
        re.sub(r"(?m)^(area0[0-2],.*),\d+,$", r"\1,,withheld", path.read_text(), count=1)
    )
    editions = edition, tmp_path / "moved", path, tmp_path / "more.csv"
    digests = [open_build(next_edition(tmp_path, like)).digests for like in editions]
    assert digests[0] == digests[1] == digests[2] != digests[3]


def test_an_edition_that_tells_nothing_of_what_goes_out_in_part_is_refused(
    yearbook: Callable[[], Build], tmp_path: Path
) -> None:
    whole = next(yearbook().folder.stage("release").glob("*_area-sex.csv"))
    with pytest.raises(ConfigError, match=r"like = .* withholds no cell; name an edition that does, or lea"):
        built(next_edition(tmp_path, whole))
    part = next(yearbook().folder.stage("release").glob("*_area-age.csv"))
    with pytest.raises(ConfigError, match=r"like withholds cells of area\*age, and in_part is of area\*edu; name an"):
        built(next_edition(tmp_path, part, in_part=[{"of": "area*edu"}], require=["area*sex"]))
    with pytest.raises(ConfigError, match="like is of what goes out in part, and nothing is to; give in_part"):
        built(next_edition(tmp_path, part, in_part=[]))
    with pytest.raises(ConfigError, match=r"release\.like = .*nowhere is no file or folder"):
        built(next_edition(tmp_path, tmp_path / "nowhere"))
    assert not [*tmp_path.rglob("release")]


# What is asked for


def test_what_fits_whole_is_whole(tmp_path: Path) -> None:
    of = {"in_part": [{"of": "area*sex"}, {"of": "area*age", "cost": "records"}], "only": None}
    found = built(config(tmp_path, release=of)).made.found
    schema_names = [fact.source for fact in found.parts.facts]
    assert schema_names == ["area*age in part"]
    assert found.required is not None
    assert len(found.required.required) == 2


@pytest.mark.parametrize(
    ("release", "error", "message"),
    [
        ({"in_part": "withhold"}, ConfigError, "in_part is withhold, and nothing is required"),
        ({"in_part": [{"of": "area*age"}], "forbid": ["age"]}, ConfigError, r"in_part has area\*age, and forbid age"),
        (
            {"in_part": [{"of": "area*age"}], "method": "simulatable"},
            ConfigError,
            "what is withheld depends on the rec",
        ),
        ({"in_part": [{"of": "area*age"}, {"of": "age*area"}]}, ConfigError, r"in_part names area\*age twice"),
        ({"in_part": [{"of": "area*height"}]}, ConfigError, r"in_part 'area\*height': .* unknown variable 'height'"),
        ({"in_part": [{"of": "area*age", "most": 0}]}, ConfigError, "most"),
        ({"in_part": [{"of": "area*age", "how": "hide"}]}, ConfigError, "how"),
        ({"in_part": [{"of": "area*age", "how": "round", "base": 1}]}, ConfigError, "base = 1"),
        ({"in_part": [{"of": "area*age", "how": "round"}]}, ConfigError, "base goes with how: round, which needs one"),
        ({"in_part": [{"of": "area*age", "base": 5}]}, ConfigError, "base goes with how: round, which needs one"),
        ({"in_part": [{"of": "area*age", "how": ["withhold", "withhold"]}]}, ConfigError, "how names a way twice"),
        ({"in_part": [{"of": "area*age", "how": []}]}, ConfigError, "how"),
        (
            {"require": REQUIRED[:2], "in_part": [{"of": "area*age", "how": "round", "base": 2}]},
            NotReleasableError,
            r"area\*age rounded: no proof was found that every at-risk cell keeps the width, nor every small cell",
        ),
        (
            {"require": REQUIRED, "in_part": [{"of": "area*age", "most": 0.01}]},
            NotReleasableError,
            r"of area\*age \d+ of 144 cells would have to be withheld, and in_part allows 0\.01 of them; allow more",
        ),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_public(
    tmp_path: Path, release: dict[str, Any], error: type[SdcError], message: str
) -> None:
    with pytest.raises(error, match=message):
        built(config(tmp_path, release=release))
    assert not [*tmp_path.rglob("release")]


def test_what_does_not_go_out_in_part_either_is_refused_where_the_best_subset_is_wished_for(tmp_path: Path) -> None:
    release = {"require": REQUIRED, "in_part": [{"of": "area*age", "most": 0.01}], "conflicts": "best_subset"}
    found = built(config(tmp_path, release=release)).made.found
    assert found.parts.facts == ()
    assert found.required is not None
    assert len(found.required.refused) == 1


@pytest.mark.parametrize("how", [{}, {"how": "coarsen"}])
def test_a_build_that_is_told_to_end_refuses_what_is_not_proven_in_part(tmp_path: Path, how: dict[str, Any]) -> None:
    release = {"require": REQUIRED, "in_part": [{"of": "area*age", **how}], "ended_after": {"in_part": 0}}
    with pytest.raises(NotReleasableError, match=r"told to end before area\*age was proven in part; give it more time"):
        built(config(tmp_path, release=release))
    build = built(config(tmp_path, release=release | {"conflicts": "best_subset"}))
    assert verify(build.folder.path).verified
    assert build.made.found.parts.facts == ()
    page = (build.folder.stage("confidential") / "report.html").read_text()
    assert "The search was told to end before area*age was proven in part." in page


def test_a_build_that_is_told_to_end_makes_no_more_levels_of_merged_categories(tmp_path: Path) -> None:
    release = {"require": REQUIRED, "in_part": [{"of": "area*age", "how": "coarsen"}], "ended_after": {"coarsening": 1}}
    said = "told to end before it was found which"
    with pytest.raises(NotReleasableError, match=rf"area\*age with merged categories: the search was {said} of them"):
        built(config(tmp_path, release=release))
    build = built(config(tmp_path, release=release | {"conflicts": "best_subset"}))
    assert verify(build.folder.path).verified
    assert build.made.found.ended_after == EndedAfterConfig(coarsening=1)
    page = (build.folder.stage("confidential") / "report.html").read_text()
    assert f"The search was {said} categories to merge of area*age; more time may find some." in page


# Forged


def changed(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    content = json.loads(path.read_text())
    change(content)
    write_json(path, content)


def shown(run: Path, nth: int = 0) -> None:
    """A withheld cell is published with its count."""
    (path,) = (run / "release").glob("*_area-age.csv")
    lines = path.read_text().splitlines()
    withheld = [k for k, line in enumerate(lines) if line.endswith(",withheld")]
    at = withheld[nth % len(withheld)]
    area, age, *_ = lines[at].split(",")
    count = int(((records()[:, 0] == int(area[4:])) & (records()[:, 1] == int(age[3:]))).sum())
    lines[at] = f"{area},{age},{count},"
    path.write_text("\n".join([*lines, ""]))


def hidden_less(run: Path, nth: int = 0) -> None:
    """The certificate withholds a cell less than is withheld."""
    path = run / "assessment" / "withheld_0.parquet"
    cells = pq.read_table(path)
    at = nth % len(cells)
    pq.write_table(pa.concat_tables([cells.slice(0, at), cells.slice(at + 1)]), path)


def proven_less(run: Path, nth: int = 0) -> None:
    """The certificate has a tenth of its feasible tables, from another one on each time."""
    certificate, path = run / "assessment" / "certificate.json", run / "assessment" / "differences_0.parquet"
    cells = pq.read_table(path)
    of = cells["difference"].to_numpy()
    kept = of % 10 == nth % 10
    _, number = np.unique(of[kept], return_inverse=True)
    place, field = cells.column_names.index("difference"), cells.schema.field("difference")
    left = cells.filter(pa.array(kept)).set_column(place, field, pa.array(number, field.type))
    pq.write_table(left, path)
    changed(certificate, lambda told: told["components"][0].update(differences=int(number.max()) + 1))


def in_page(old: str, new: str) -> Callable[[Path], None]:
    """The page of the release says something else, and the checksums are of that."""

    def forge(run: Path) -> None:
        page, sums = run / "release" / "index.html", run / "release" / "SHA256SUMS"
        text = page.read_text()
        assert old in text
        before = hashlib.sha256(page.read_bytes()).hexdigest()
        page.write_text(text.replace(old, new, 1))
        sums.write_text(sums.read_text().replace(before, hashlib.sha256(page.read_bytes()).hexdigest()))

    return forge


ROW = '<tr><th scope="row">'
PAGES = {
    "a row shows a count": (in_page(ROW, f"{ROW}4711 "), "index.html says other things of .* than its metadata"),
    "its text shows a count": (in_page("</h1>", "</h1><p>In area 4711: one.</p>"), "index.html tells numbers that its"),
    "it lists another table": (
        in_page(ROW, f"{ROW}area</th><td>1</td><td></td></tr>\n{ROW}"),
        "index.html lists other tables or files than its metadata",
    ),
    "it has another link": (
        in_page("<ul>", '<ul><li><a href="records.csv">records</a></li>'),
        "index.html lists other tables or files than its metadata",
    ),
}


def immovable(run: Path) -> None:
    """The certificate has no feasible table."""
    changed(run / "assessment" / "certificate.json", lambda told: told["components"][0].update(differences=0))
    (run / "assessment" / "differences_0.parquet").unlink()


FORGED: dict[str, tuple[Callable[[Path], None], str]] = {
    "a withheld count is shown": (shown, "is not the marginal in part|is not the exact marginal"),
    "a cell less is withheld": (hidden_less, "cells, .* are claimed"),
    "nothing is in part": (
        lambda run: changed(run / "assessment" / "certificate.json", lambda told: told.update(parts=[])),
        "what goes out in part is not what the certificate is of|is of other sub-tables in part",
    ),
    "beside what is not released": (
        lambda run: changed(
            run / "assessment" / "certificate.json",
            lambda told: told["parts"][0].update(beside=[["area", "age", "sex", "edu"]]),
        ),
        "a part is beside what is not out",
    ),
    "another is in part": (
        lambda run: changed(run / "search" / "search.json", lambda told: told.pop("in_part")),
        "the certificate is of other sub-tables in part than search/search.json",
    ),
    "its file is gone": (
        lambda run: next((run / "release").glob("*_area-age.csv")).unlink(),
        "is missing|checksums",
    ),
    "the metadata say less": (
        lambda run: changed(
            run / "release" / "datapackage.json",
            lambda told: [one["in_part"].update(withheld=1) for one in told["resources"] if "in_part" in one],
        ),
        "what is said of its cells is not so|checksums",
    ),
    "small cells are said to be proven": (
        lambda run: changed(
            run / "assessment" / "assessment.json", lambda told: told["in_part"].update(unproven=0, cells=1)
        ),
        "says other things of sub-tables in part",
    ),
    "no table moves anything": (immovable, "small cells of sub-tables in part are not shown to keep the width"),
    **PAGES,
}


@pytest.mark.parametrize("name", FORGED)
def test_what_was_forged_is_rejected(name: str, run: Path) -> None:
    rejected(run, *FORGED[name])


ONE_OF_MANY: dict[str, tuple[Callable[[Path, int], None], str]] = {
    "a withheld count is shown": (shown, "is not the marginal in part|is not the exact marginal"),
    "a cell less is withheld": (hidden_less, "cells, .* are claimed"),
    "most tables are gone": (proven_less, "not shown to keep the width|narrower"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ONE_OF_MANY)
def test_whichever_of_many_was_forged_is_rejected(name: str, yearbook: Callable[[], Build], tmp_path: Path) -> None:
    forge, message = ONE_OF_MANY[name]
    for nth in range(scaled(30)):
        run = Path(shutil.copytree(yearbook().folder.path, tmp_path / str(nth)))
        rejected(run, lambda run, nth=nth: forge(run, nth), message)


def moved(run: Path) -> None:
    """A count is rounded the other way, in the file that is read."""
    (path,) = (run / "release").glob("*_area-age.csv")
    lines = path.read_text().splitlines()
    area, age, count = lines[1].split(",")
    lines[1] = f"{area},{age},{int(count) + 5}"
    path.write_text("\n".join([*lines, ""]))


def closer(run: Path) -> None:
    """The certificate tells a cell less well than it is told."""
    path = run / "assessment" / "withheld_0.parquet"
    columns = pq.read_table(path).to_pydict()
    columns["high"][0] -= 1
    pq.write_table(pa.table(columns, schema=pq.read_schema(path)), path)


def of_parts(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    return lambda run: changed(
        run / "assessment" / "certificate.json", lambda told: change(told["parts"][0]["rounded"][0])
    )


FORGED_ROUNDED: dict[str, tuple[Callable[[Path], None], str]] = {
    "a count is another": (moved, "is not the marginal in part|is not the exact marginal"),
    "a cell is told less well": (closer, "what is rounded is no multiple of its base|is told otherwise|damaged"),
    "to another base": (of_parts(lambda told: told.update(base=4)), "what is rounded is no multiple of its base"),
    "to no base": (of_parts(lambda told: told.update(base=1)), "rounded to no multiples"),
    "a margin less": (of_parts(lambda told: told["margins"].pop()), "what is said of its cells is not so|in part"),
    "it is withheld": (
        lambda run: changed(run / "assessment" / "certificate.json", lambda told: told["parts"][0].update(rounded=[])),
        "what goes out in part is not told as withheld",
    ),
    "the metadata name a margin less": (
        lambda run: changed(
            run / "release" / "datapackage.json",
            lambda told: [one["in_part"]["margins"].pop() for one in told["resources"] if "in_part" in one],
        ),
        "what is said of its cells is not so|checksums",
    ),
    "no table moves anything": (immovable, "small cells of sub-tables in part are not shown to keep the width"),
}


@pytest.mark.parametrize("name", FORGED_ROUNDED)
def test_what_was_forged_of_a_rounded_sub_table_is_rejected(name: str, rounded_run: Path) -> None:
    rejected(rounded_run, *FORGED_ROUNDED[name])


COARSENED = {"require": REQUIRED, "in_part": [{"of": "area*age", "how": "coarsen"}]}


def test_what_goes_out_with_merged_categories_is_like_any_other(tmp_path: Path) -> None:
    """In the files, the page, the report and what the command prints; the ledger knows it and its level again."""
    new_ledger(tmp_path / "ledger")
    asked = {"release": COARSENED, "ledger": str(tmp_path / "ledger")}
    build = built(config(tmp_path, publication={"formats": FORMATS}, **asked))
    made, release = build.made, build.folder.stage("release")
    schema = made.table.schema
    assert made.found.required is not None
    assert (made.found.required.in_part, made.found.parts.tables) == ((st.parse("area*age", schema),), ())
    ((of, instead),) = build.coarsened.items()
    assert (st.label(of, schema), {*st.names(instead, schema)}) == ("area*age", {"area_merged", "age"})
    (told,) = part_facts(made.found.parts, build.coarsened, made.table, release)
    assert told.pop("file") in {path.name for path in release.iterdir()}
    left = schema.sizes[schema.index("area_merged")] * 6
    assert told == {
        "sub_table": ["area", "age"], "how": "coarsen", "cells": 24 * 6, "left": left, "by": ["age", "area_merged"]
    }  # fmt: skip
    (published,) = (one for one in read_published(release) if {*one.table.schema.names} == {"age", "area_merged"})
    assert published.table.total == 6000
    assert published.table.counts.min() > 2
    assert not verify(build.folder.path).failures
    page = (build.folder.stage("confidential") / "report.html").read_text()
    assert 'id="coarsened"' in page
    assert "in part, rounded or with merged categories" in page
    (entry,) = read_ledger(tmp_path / "ledger").entries
    assert [level["name"] for level in entry.known["hidden"]] == ["area_merged"]
    again = built(config(tmp_path, "again", release={"require": ["sex*edu"]}, ledger=str(tmp_path / "ledger")))
    assert st.parse("age*area_merged", again.made.table.schema) in again.made.known.release
    assert "area_merged" in again.origin.hidden
    assert not verify(again.folder.path).failures


@pytest.mark.parametrize(
    ("section", "fault"),
    [
        ({"how": "withhold", "merge": "area"}, "merge goes with how: coarsen"),
        ({"how": "coarsen", "merge": "edu"}, "'edu' is none of its axes; name an axis"),
        ({"how": "coarsen", "base": 5}, "base goes with how: round"),
        ({"how": "coarsen", "most": 0.01}, "nothing merges away its small counts in as few cells as in_part allows"),
    ],
)
def test_coarsening_that_cannot_be_is_refused(tmp_path: Path, section: dict[str, Any], fault: str) -> None:
    release = {"require": REQUIRED, "in_part": [{"of": "area*age", **section}]}
    with pytest.raises(SdcError, match=re.escape(fault)):
        built(config(tmp_path, release=release))


def weighed(folder: Path, lines: list[str], **section: Any) -> Path:
    (folder / "weights.csv").write_text("\n".join(lines) + "\n")
    part = {"of": "area*age", "cost": {"weights": "weights.csv"}, **section}
    return config(folder, "weighed", release={"require": REQUIRED, "in_part": [part]})


def test_cells_that_weigh_much_are_shown_rather_than_others(tmp_path: Path, yearbook: Callable[[], Build]) -> None:
    (fact,) = yearbook().made.found.parts.facts
    assert fact.between is not None
    weights = {tuple(cell): 1000 for cell in fact.between.cells.tolist()}
    lines = [f"age{age:02},area{area:02},{weight}" for (area, age), weight in weights.items()]
    build = built(weighed(tmp_path, ["age,area,weight", *lines]))
    (other,) = build.made.found.parts.facts
    assert other.between is not None
    small = build.made.table.marginal(other.view)
    small = small.codes[small.counts <= 2]
    both = {*map(tuple, other.between.cells.tolist())} & {*weights}
    # small ones are withheld whatever they weigh
    assert {*map(tuple, small.tolist())} <= both
    assert len(both) < len(weights)
    assert not verify(build.folder.path).failures
    assert build.config.release.in_part[0].cost.weights[0] == ("age", "area", "weight")  # type: ignore[union-attr]


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
    with pytest.raises(SdcError, match=fault):
        built(weighed(tmp_path, lines))


def test_a_file_of_weights_that_is_not_there_is_refused(tmp_path: Path) -> None:
    file = weighed(tmp_path, [])
    (tmp_path / "weights.csv").unlink()
    with pytest.raises(ConfigError, match=r"release.in_part.cost.weights"):
        open_build(file)


def test_what_is_within_another_with_the_same_merged_categories_has_a_file_of_its_own(tmp_path: Path) -> None:
    small, large = [("s1", 2), ("s2", 2)], [("l1", 30), ("l2", 40), ("l3", 50)]
    rows = [(area, age, "f") for area, n in small for age in ("young", "middle", "old") for _ in range(n)]
    rows += [(a, age, sex) for a, n in large for age in ("young", "middle", "old") for sex in "fm" for _ in range(n)]
    lines = ["area,age,sex", *(",".join(row) for row in rows)]
    (tmp_path / "areas.csv").write_text("\n".join(lines) + "\n")
    parts = [{"of": of, "how": "coarsen", "merge": "area"} for of in ("area*age", "area*age*sex")]
    release = {"require": [part["of"] for part in parts], "in_part": parts}
    build = built(config(tmp_path, table={"path": "areas.csv"}, release=release))
    schema = build.made.table.schema
    instead = {st.label(of, schema): {*st.names(by, schema)} for of, by in build.coarsened.items()}
    assert instead == {"area*age": {"area_merged", "age"}, "area*age*sex": {"area_merged", "age", "sex"}}
    told = part_facts(build.made.found.parts, build.coarsened, build.made.table, build.folder.stage("release"))
    assert len({one["file"] for one in told}) == 2
    assert not verify(build.folder.path).failures
