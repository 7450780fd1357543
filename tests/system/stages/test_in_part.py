"""Builds of the yearbook whose tables go out suppressed, rounded or merged: formats, ledger, the next edition."""

import csv
import json
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from sdc.deadline import Deadline
from sdc.model import subtable as st
from sdc.model.errors import InputError, NotReleasableError, SdcError
from sdc.protect.summary import suppressed_table_facts
from sdc.public.published import read_published
from sdc.record.ledger import new_ledger, read_ledger
from sdc.risk.criteria import Evaluation
from sdc.risk.evaluator import RiskEvaluator
from sdc.search.ordered import grand_total
from sdc.stages.assemble import release_search
from sdc.stages.build import Build
from sdc.storage.parquet import write_csv
from sdc.verify.run_folder import verify
from tests.helpers.builds import built, report_of
from tests.helpers.yearbook import AREAS, FORMATS, PEOPLE, REQUIRED, ROUNDED, columns_of, config, records
from tests.integration.stages.test_in_part import next_edition, weighed


def test_parts_are_not_asked_about_without_what_goes_out_whole(
    yearbook: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is proven of them rests on a larger component then, and of a large table it would not be found again."""

    def alone(evaluator: RiskEvaluator) -> Evaluation:
        assert not evaluator.known.facts
        return grand_total(evaluator)

    monkeypatch.setattr("sdc.search.ordered.grand_total", alone)
    build = yearbook
    search = release_search(build.made.table, build.made.known, build.settings(), build.made.widths)
    assert search.run("ordered").suppressed_tables.facts == build.made.found.suppressed_tables.facts


@pytest.mark.parametrize("listed", [{}, {"zeros": True, "totals": True}])
def test_every_format_withholds_the_same(listed: dict[str, bool], tmp_path: Path) -> None:
    """Those that are read tell the same; with totals, which of them are withheld is verified from the files."""
    build = built(config(tmp_path, publication={"formats": FORMATS, **listed}))
    release = build.folder.stage("release")
    told = {
        suffix: read_published(next(release.glob(f"*_area-age{suffix}")))[0]
        for suffix in (".csv", ".parquet", ".json", ".px")
    }
    (fact,) = build.made.found.suppressed_tables.facts
    assert fact.intervals is not None
    assert len({one.digest for one in told.values()}) == 1
    assert {len(one.suppressed) for one in told.values()} == {len(fact.intervals.cells)}
    metadata = json.loads((release / "datapackage.json").read_text())
    assert {one["format"] for one in metadata["resources"] if "in_part" in one} == {*FORMATS} - {"xlsx", "pxapi"}
    assert verify(build.folder.path).verified
    with (next(release.glob("*_area-age.csv"))).open() as file:
        rows = {(row["area"], row["age"]): row for row in csv.DictReader(file)}
    totals = {key: row["count"] for key, row in rows.items() if "(total)" in key}
    assert all(totals.values())  # area*sex and age*sex*edu tell them
    assert len(totals) == (AREAS + 6 + 1 if listed else 0)


def test_a_ledger_and_the_next_build_know_what_went_out_in_part(tmp_path: Path) -> None:
    new_ledger(tmp_path / "led")
    first = built(config(tmp_path, "first", ledger="led"))
    (entry,) = read_ledger(tmp_path / "led").entries
    (told,) = entry.known["facts"]
    assert told["view"] == ["area", "age"]
    (own,) = suppressed_table_facts(
        first.made.found.suppressed_tables, {}, first.made.table, first.folder.stage("release")
    )
    assert len(told["withheld"]["cells"]) == own["suppressed"]
    more = {"release": {"require": ["area*sex*edu"]}, "ledger": "led"}
    second = built(config(tmp_path, "second", **more))
    assert [fact.view for fact in second.made.known.facts] == [
        fact.view for fact in first.made.found.suppressed_tables.facts
    ]
    assert verify(second.folder.path).verified
    with pytest.raises(SdcError, match=r"area\*age is"):
        built(config(tmp_path, "third", release={"require": ["area*age"]}, ledger="led"))


def test_a_ledger_and_earlier_know_what_went_out_rounded(rounded_yearbook: Build, tmp_path: Path) -> None:
    """As the build knew it; what it excludes is refused then, and another table is found out."""
    own = rounded_yearbook.made
    new_ledger(tmp_path / "led")
    built(config(tmp_path, "first", ledger="led", release=ROUNDED))
    (entry,) = read_ledger(tmp_path / "led").entries
    assert sorted("between" in fact for fact in entry.known["facts"]) == [True] * len(entry.known["facts"])
    only = {"require": ["area*sex*edu"]}
    for more in ({"ledger": "led"}, {"earlier": [{"folder": str(rounded_yearbook.folder.stage("release"))}]}):
        second = built(config(tmp_path, "second", release=only, **more))
        assert {fact.identity for fact in second.made.known.facts} == {
            fact.identity for fact in own.found.suppressed_tables.facts if fact.view not in second.made.known.release
        }
        assert verify(second.folder.path).verified
        with pytest.raises(SdcError, match=r"area\*age is"):
            built(config(tmp_path, "third", release={"require": ["area*age"]}, **more))
    write_csv(tmp_path / "people.csv", columns_of(records()[:-40]))
    with pytest.raises(InputError, match="counts"):
        built(config(tmp_path, "other", release=only, earlier=more["earlier"]))


def test_the_next_way_is_taken_where_one_does_not_do(tmp_path: Path) -> None:
    ways = {"of": "area*age", "by": ["suppression", "rounding"], "base": 5, "max_share": 0.01}
    release = {"require": REQUIRED[:2], "protect": [ways, {"of": "age*edu"}]}
    assert [part.base for part in built(config(tmp_path, release=release)).made.found.suppressed_tables.tables] == [5]
    ways["max_share"] = 0.5
    found = built(config(tmp_path, "other", release=release)).made.found
    assert [part.base for part in found.suppressed_tables.tables] == [0]


def withheld_by_names(release: Path) -> set[tuple[str, str]]:
    with next(release.glob("*_area-age.csv")).open() as file:
        return {(row["area"], row["age"]) for row in csv.DictReader(file) if not row["count"]}


def test_the_next_edition_withholds_what_the_one_before_did(yearbook: Build, tmp_path: Path) -> None:
    """And what must be besides, which is said; what it withholds is another fact than the pattern of the one before."""
    before = yearbook.folder.stage("release")
    build = built(next_edition(tmp_path, before))
    assert verify(build.folder.path).verified
    old, new = withheld_by_names(before), withheld_by_names(build.folder.stage("release"))
    kept = {cell for cell in old if cell[0] != f"area{AREAS - 1}"}
    assert kept < new
    text = report_of(build)
    said = re.search(r"edition before suppressed (\d+) of the suppressed cells of .*?; (\d+) are new: (.*?)</p>", text)
    assert said is not None
    assert (int(said[1]), int(said[2])) == (len(kept), len(new - kept))
    assert all(f"{area}" in said[3] for area, _ in new - kept)
    alone = built(config(tmp_path, "alone"))
    assert not kept <= withheld_by_names(alone.folder.stage("release"))


def test_what_does_not_go_out_in_part_either_is_refused_where_the_best_subset_is_wished_for(tmp_path: Path) -> None:
    release = {"require": REQUIRED, "protect": [{"of": "area*age", "max_share": 0.01}], "on_conflict": "drop"}
    found = built(config(tmp_path, release=release)).made.found
    assert found.suppressed_tables.facts == ()
    assert found.required is not None
    assert len(found.required.refused) == 1


@pytest.mark.parametrize(
    ("how", "part", "said"),
    [
        ({}, "in_part", r"ended early before area\*age was protected and proven"),
        ({"by": "recoding"}, "in_part", r"ended early before area\*age was protected and proven"),
        ({"by": "recoding"}, "coarsening", "ended early before it was found which"),
    ],
)
def test_a_build_that_is_told_to_end_refuses_what_is_not_proven_in_part(
    tmp_path: Path, how: dict[str, Any], part: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "merged" if part == "coarsening" else "protect"
    where, over = ("sdc.stages.assemble", 4) if part == "coarsening" else ("sdc.search.best", 3)
    ended = getattr(import_module(where), name)
    monkeypatch.setattr(f"{where}.{name}", lambda *asked: ended(*asked[:over], Deadline(0.0)))
    release = {"require": REQUIRED, "protect": [{"of": "area*age", **how}]}
    with pytest.raises(NotReleasableError, match=said):
        built(config(tmp_path, release=release))
    build = built(config(tmp_path, release=release | {"on_conflict": "drop"}))
    assert verify(build.folder.path).verified
    assert build.made.found.suppressed_tables.facts == ()
    assert build.made.found.ended_after == {part: 0}
    assert re.search(said, report_of(build))


COARSENED = {"require": REQUIRED, "protect": [{"of": "area*age", "by": "recoding"}]}


def test_what_goes_out_with_merged_categories_is_like_any_other(tmp_path: Path) -> None:
    """In the files, the page, the report and what the command prints; the ledger knows it and its level again."""
    new_ledger(tmp_path / "ledger")
    asked = {"release": COARSENED, "ledger": str(tmp_path / "ledger")}
    build = built(config(tmp_path, publication={"formats": FORMATS}, **asked))
    made, release = build.made, build.folder.stage("release")
    schema = made.table.schema
    assert made.found.required is not None
    assert (made.found.required.in_part, made.found.suppressed_tables.tables) == ((st.parse("area*age", schema),), ())
    ((of, instead),) = build.coarsened.items()
    assert (st.label(of, schema), {*st.names(instead, schema)}) == ("area*age", {"area_merged", "age"})
    (told,) = suppressed_table_facts(made.found.suppressed_tables, build.coarsened, made.table, release)
    assert told.pop("file") in {path.name for path in release.iterdir()}
    left = schema.sizes[schema.index("area_merged")] * 6
    merged = {"cells": AREAS * 6, "left": left, "recoded": ["age", "area_merged"]}
    assert told == {"sub_table": ["area", "age"], "by": "recoding", **merged}
    (published,) = (one for one in read_published(release) if {*one.table.schema.names} == {"age", "area_merged"})
    assert published.table.total == PEOPLE
    assert published.table.counts.min() > 2
    assert not verify(build.folder.path).failures
    assert 'id="coarsened"' in report_of(build)
    (entry,) = read_ledger(tmp_path / "ledger").entries
    assert [level["name"] for level in entry.known["hidden"]] == ["area_merged"]
    again = built(config(tmp_path, "again", release={"require": ["sex*edu"]}, ledger=str(tmp_path / "ledger")))
    assert st.parse("age*area_merged", again.made.table.schema) in again.made.known.release
    assert "area_merged" in again.origin.hidden
    assert not verify(again.folder.path).failures


def test_cells_that_weigh_much_are_shown_rather_than_others(tmp_path: Path, yearbook: Build) -> None:
    (fact,) = yearbook.made.found.suppressed_tables.facts
    assert fact.intervals is not None
    weights = {tuple(cell): 1000 for cell in fact.intervals.cells.tolist()}
    lines = [f"age{age:02},area{area:02},{weight}" for (area, age), weight in weights.items()]
    build = built(weighed(tmp_path, ["age,area,weight", *lines]))
    (other,) = build.made.found.suppressed_tables.facts
    assert other.intervals is not None
    small = build.made.table.marginal(other.view)
    small = small.codes[small.counts <= 2]
    both = {*map(tuple, other.intervals.cells.tolist())} & {*weights}
    # small ones are withheld whatever they weigh
    assert {*map(tuple, small.tolist())} <= both
    assert len(both) < len(weights)
    assert not verify(build.folder.path).failures
    assert build.config.release.protect[0].cost.weights[0] == ("age", "area", "weight")  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("release", "message"),
    [
        (
            {"require": REQUIRED[:2], "protect": [{"of": "area*age", "by": "rounding", "base": 2}]},
            r"area\*age rounded: no proof was found that every at-risk cell keeps the width, nor every small cell",
        ),
        (
            {"require": REQUIRED, "protect": [{"of": "area*age", "by": "recoding", "max_share": 0.01}]},
            "nothing merges away its small counts in as few cells as protect allows",
        ),
        (
            {"require": REQUIRED, "protect": [{"of": "area*age", "max_share": 0.01}]},
            rf"of area\*age \d+ of {AREAS * 6} cells would",
        ),
    ],
)
def test_what_is_not_proven_is_refused_before_anything_is_public(
    tmp_path: Path, release: dict[str, Any], message: str
) -> None:
    with pytest.raises(NotReleasableError, match=message):
        built(config(tmp_path, release=release))
    assert not [*tmp_path.rglob("release")]
