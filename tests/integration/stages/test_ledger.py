"""Builds with a ledger: each release is entered, the next is judged with all, and one that does not hold is refused."""

import json
import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sdc.commands.cli import app
from sdc.config.risk import RiskConfig
from sdc.events import WARNING, EventText, heard
from sdc.executor import IN_PROCESS
from sdc.model import subtable as st
from sdc.model.errors import ConfigError, InputError, NothingReleasableError, ReleaseError, RunFolderError
from sdc.model.table import Table
from sdc.public.published import read_published
from sdc.record.chain import Chain
from sdc.record.database import ChainError, Use
from sdc.record.ledger import SEALED, Ledger, Publication, new_ledger, read_ledger, record
from sdc.stages.build import open_build
from sdc.stages.resolved import ResolvedInput
from sdc.stages.stages import run_all
from sdc.stages.verified import verify_run
from sdc.storage.parquet import write_csv
from sdc.storage.runs import read_runs, superfluous
from sdc.verify.run_folder import verify
from tests.helpers.builds import CZECH_CSV, built, report_of, written
from tests.helpers.folders import contents
from tests.integration.public.test_check import marginal, part, recoded
from tests.integration.stages.test_earlier import OTHER, PAIR, WIDTH, config, folder_of, released, write
from tests.strategies import dense, schema_of


def test_a_ledger_has_every_release_and_the_next_is_judged_with_all(czech_folder: Path) -> None:
    new_ledger(czech_folder / "led")
    more = {"ledger": "led", "risk": {"small_count": 2, "min_width": WIDTH}}
    first = config(czech_folder, "first", [], release={"require": PAIR, "forbid": [{"of": ["B", "E"]}]}, **more)
    build = built(first)
    (entry,) = read_ledger(czech_folder / "led").entries
    assert (entry.name, entry.folder) == ("first", str(build.folder.stage("release")))
    assert PAIR[0].split("*") in [list(names) for names in entry.sub_tables]
    assert build.made.table.digest not in (czech_folder / "led").read_bytes().decode("latin-1")
    with pytest.raises(NothingReleasableError, match="is not releasable"):
        built(config(czech_folder, "second", [], release={"require": [OTHER]}, **more))
    # run again it is the same build, and no second entry
    assert built(first).folder.path == build.folder.path
    third = built(config(czech_folder, "third", [], **more))
    assert [e.name for e in read_ledger(czech_folder / "led").entries] == ["first", "third"]
    assert third.made.found.release.contains(build.made.found.release)
    assert built(first).folder.path == build.folder.path
    asked = ResolvedInput.open(str(third.folder.path))
    assert st.parse(PAIR[0], third.made.table.schema) in asked.known.release.frontier
    assert st.parse(PAIR[0], third.made.table.schema) in asked.public(["A"]).release


def test_an_entry_of_another_table_needs_a_word(czech_folder: Path) -> None:
    new_ledger(czech_folder / "led")
    built(config(czech_folder, "first", [], ledger="led", publication={"population": "men", "period": "1981"}))
    with pytest.raises(InputError, match="it is of this table; take it out"):
        built(config(czech_folder, "second", [{"entry": 1, "disjoint": True}], ledger="led"))
    text = (czech_folder / "table.csv").read_text().splitlines()
    (czech_folder / "table.csv").write_text("\n".join([*text[:-1], text[-1][:-1] + "9"]) + "\n")
    told = r"entry 1 of the ledger, first, is of another table \(Population men, Reference period 1981\)"
    with pytest.raises(InputError, match=told):
        built(config(czech_folder, "second", [], ledger="led"))
    with pytest.raises(InputError, match="is not of these records"):
        built(config(czech_folder, "second", [{"entry": 1}], ledger="led"))
    with pytest.raises(ConfigError, match="earlier names entry 7, and the ledger has 1 entry"):
        built(config(czech_folder, "second", [{"entry": 7}], ledger="led"))
    assert built(config(czech_folder, "third", [{"entry": 1, "disjoint": True}], ledger="led"))


def test_a_release_that_was_changed_is_no_entry_any_more(czech_folder: Path) -> None:
    new_ledger(czech_folder / "led")
    build = built(config(czech_folder, "first", [], ledger="led"))
    metadata = build.folder.stage("release") / "datapackage.json"
    metadata.chmod(0o600)
    metadata.write_text(metadata.read_text() + " ")
    with pytest.raises(InputError, match="was changed after entry 1 was published"):
        built(config(czech_folder, "second", [{"entry": 1, "where": {"A": ["no"]}}], ledger="led"))


def test_what_others_publish_meanwhile_is_judged_with_it(czech_folder: Path) -> None:
    """The release that was found without it has no place; another is found beside it."""
    new_ledger(czech_folder / "led")
    more = {"ledger": "led", "risk": {"small_count": 2, "min_width": WIDTH}}
    file = config(czech_folder, "first", [], release={"weights": {"sub_tables": {OTHER: 1000}}}, **more)
    build, said = open_build(file), list[str]()
    assert build.head == read_ledger(czech_folder / "led").head  # read before another release is recorded
    apart = {"require": PAIR, "forbid": [{"of": ["B", "E"]}]}
    between = built(config(czech_folder, "other", [], release=apart, **more))
    run_all(build, IN_PROCESS, said.append)
    assert any("has 1 entries, and this release was judged together with 0" in line for line in said)
    assert not build.folder.stage("release").exists()
    again = open_build(file)
    assert [entry.name for entry in read_ledger(czech_folder / "led").entries] == ["other", "first"]
    assert released(again) == {
        tuple(st.names(t, again.made.table.schema)) for t in between.made.found.release.frontier if t
    }
    assert st.parse(OTHER, again.made.table.schema) not in again.made.found.release
    assert verify_run(again.folder.path).verified


def test_a_build_that_others_outrun_is_refused_in_the_end(czech_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new_ledger(czech_folder / "led")
    file, runs = config(czech_folder, "first", [], ledger="led"), list[str]()

    def outrun(content: dict[str, Any], judged: Ledger) -> None:
        runs.append(judged.head)
        record({**content, "build": f"another {len(runs)}"}, judged)
        record(content, judged)

    monkeypatch.setattr("sdc.stages.release.record_publication", outrun)
    with pytest.raises(InputError, match=r"has 3 entries, and this release was judged together with 2, .*; run again"):
        built(file)
    assert len({*runs}) == 3
    assert not list((czech_folder / "runs").glob("*/*/release"))


def test_a_ledger_keeps_what_an_entry_was_judged_with(tmp_path: Path) -> None:
    """Of the recodes that tell a count together one is others', and only the first config names it."""
    table = dense(schema_of([4, 2]), [9, 9, 1, 8, 9, 9, 9, 9])
    write(table, tmp_path)
    other = folder_of(tmp_path, "other", [recoded(table, 0b11, 1, "other")])
    relation = {"folder": "other", "variables": {"grouped": {"of": "A", "groups": {"low": ["0"], "high": "*"}}}}
    recodes = {"C": {"column": "A", "groups": {"low": ["0", "1"], "high": "*"}}}
    both = {"path": "table.csv", "variables": ["A", "B", "C"], "recodes": recodes, "hierarchies": {"A": ["C", "A"]}}
    apart = {"require": ["A", "B"], "forbid": [{"of": ["A", "B"]}]}
    new_ledger(tmp_path / "led")
    first = built(config(tmp_path, "first", [relation], table=both, release=apart, ledger="led"))
    (entry,) = read_ledger(tmp_path / "led").entries
    assert entry.known["foreign"][0][0] == "grouped*B of other"
    assert read_published(other)[0].table.digest not in (tmp_path / "led").read_bytes().decode("latin-1")
    shutil.rmtree(other)  # what is public does not come back with its file
    release = {"require": ["B*C"], "forbid": [{"of": ["A", "B"]}]}
    with pytest.raises(NothingReleasableError, match=r"B\*C is not releasable"):
        built(config(tmp_path, "second", [], table=both, release=release, ledger="led"))
    third = built(config(tmp_path, "third", [], table=both, release=apart, ledger="led"))
    assert third.origin.hidden == first.origin.hidden
    assert released(third) == {("A",), *released(first)}  # and what the first published
    assert verify(third.folder.path).verified


def test_search_entry_and_release_are_on_disk_in_this_order(nines: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = list[str]()

    def synced(*paths: Path) -> None:
        runs = nines / "runs"
        there = "".join(path.name[0] for path in runs.glob("t/*/*") if path.name in ("search", "release"))
        told.append(f"{len(read_ledger(nines / 'led').entries)} {there}" if len(paths) > 1 else "")

    monkeypatch.setattr("sdc.storage.run_folder.sync", synced)
    built(config(nines, "t", [], ledger="led", release={"require": ["A"]}))
    assert list(filter(None, told)) == ["0 ", "0 s", "1 s", "1 sr"]  # files before a name, folders after it


def listing(hidden: set[tuple[int, int]], counts: list[list[int]]) -> str:
    """A table of counts as CSV, hidden ones left empty."""
    rows = (f"a{i},b{j},{'' if (i, j) in hidden else n}" for i, row in enumerate(counts) for j, n in enumerate(row))
    return "\n".join(["A,B,count", *rows, ""])


SUPPRESSED: dict[str, Any] = {"release": {"require": ["A", "B"], "protect": [{"of": "A*B"}]}, "ledger": "led"}


def test_the_list_has_what_an_entry_itself_suppressed_and_rounded() -> None:
    """Not an earlier table that is whole now, is of some records, or was not published again."""
    cells = {"variables": ["A", "B"], "cells": [["a", "b"]]}
    facts = [
        {"view": view, "universe": universe, **part}
        for view, universe, part in (
            (["A", "B"], {}, {"withheld": cells}),
            (["A", "C"], {}, {"withheld": cells}),
            (["B", "C"], {"A": ["a"]}, {"withheld": cells}),
            (["C", "D"], {}, {"between": cells}),
            (["B", "D"], {}, {"withheld": cells}),
        )
    ]
    whole, tables = (("A", "C", "E"),), dict.fromkeys(("A*B", "A*C*E", "A*C", "B*C", "C*D"), "digest")
    known = {"facts": facts, "foreign": [], "declared": []}
    entry = Publication(1, "t", "", "", "", whole, known, {}, "", "", "", {"tables": tables})
    assert (entry.suppressed, entry.rounded) == ({"A*B": 1}, ["C*D"])


@pytest.fixture
def nines(tmp_path: Path) -> Path:
    """A folder with a table of nine cells, one of them small, and an empty ledger."""
    (tmp_path / "table.csv").write_text(listing(set(), [[1, 9, 9], [9, 9, 9], [9, 9, 9]]))
    new_ledger(tmp_path / "led")
    return tmp_path


def gone(folder: Path, *names: str) -> None:
    for name in names:
        shutil.rmtree(folder / name)


CORNER, CROSS = {(0, 0), (0, 1), (1, 0), (1, 1)}, {(0, 0), (0, 2), (2, 0), (2, 2)}


def test_another_pattern_is_another_build_and_judged_beside_the_first(nines: Path) -> None:
    """Each hides the small count; both together would tell it, if the ledger took the second for the first."""
    release = {"require": ["A", "B"], "protect": [{"of": "A*B"}], "required_only": True, "previous_pattern": "like.csv"}
    hidden, bases = list[set[tuple[int, ...]]](), set[str]()
    for pattern in (CORNER, CROSS):
        (nines / "like.csv").write_text(listing(pattern, [[9] * 3] * 3))
        build = built(config(nines, "t", [], release=release, ledger="led"))
        (part,) = build.made.found.suppressed_tables.tables
        assert part.fact.intervals is not None
        hidden.append({*map(tuple, part.fact.intervals.cells.tolist())})
        bases.add(build.base)
    assert len(bases) == len(read_ledger(nines / "led").entries) == 2
    assert hidden[0] == CORNER < hidden[1]
    listed = CliRunner().invoke(app, ["ledger", str(nines / "led")]).stdout
    assert re.findall(r"A\*B \((\d+) cells suppressed\)", listed) == [str(len(cells)) for cells in hidden]


def test_a_weaker_criterion_than_that_of_an_entry_is_named(nines: Path) -> None:
    """In a warning, to who waits and in the log, and on page one."""
    said, lines, release = list[str](), list[str](), {"require": ["A", "B"], "required_only": True}
    with heard(EventText(said.append, WARNING)):
        for name, width in (("first", 3), ("second", 3), ("third", 1)):
            build = built(
                config(nines, name, [], release=release, risk={"min_width": width, "small_count": 1}, ledger="led"),
                say=lines.append,
            )
            assert bool(said) is (width == 1)
    words = "which had a stricter criterion (min_width 3, now 1): counts that it protected may be found now"
    assert [words in one for one in said] == [True, True]
    assert [line.removeprefix("warning: ") for line in lines if line.startswith("warning: ")] == said
    assert report_of(build).count(words) >= 2


def test_each_setting_of_risk_that_protects_less_is_named() -> None:
    strict = RiskConfig.model_validate({"min_width": 3, "min_values": {"least": 3}, "min_frequency": 5})
    entry = Publication(1, "t", "", "", "", (), {}, {}, "", "", "", criterion=strict.model_dump(mode="json"))
    weaker = {"min_width": 2, "small_count": 1, "min_frequency": 4, "min_values": None, "accept_undecided": True}
    for name, now in weaker.items():
        later = RiskConfig.model_validate({**strict.model_dump(), name: now}).model_dump(mode="json")
        assert entry.stricter(later).startswith(f"{name} ")
    stricter = strict.model_dump(mode="json") | {"min_width": 4, "small_count": 3, "min_frequency": 6}
    assert entry.stricter(stricter) == ""


def test_a_second_edition_suppresses_the_same_cells(tmp_path: Path) -> None:
    rows = zip("aabbcc", "xyxyxy", (1, 9, 9, 9, 7, 8), strict=True)
    (tmp_path / "table.csv").write_text("A,B,count\n" + "".join(f"{a},{b},{n}\n" for a, b, n in rows))
    new_ledger(tmp_path / "led")
    sections: dict[str, Any] = {"table": {"path": "table.csv"}, "risk": {"min_width": 1, "small_count": 1}}
    sections["release"] = {"require": ["B"], "protect": [{"of": "A*B"}], "required_only": True}
    one, other = (built(written(tmp_path, name, **sections, ledger="led")) for name in ("first", "second"))
    files = [build.folder.stage("release") / "002_A-B.csv" for build in (one, other)]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert len(read_ledger(tmp_path / "led").entries) == 2


def test_an_entry_is_published_again_as_it_is_or_refused(nines: Path) -> None:
    """From what the search found, without a search; where that is gone, a new build is judged beside the entry."""
    file = config(nines, "first", [], **SUPPRESSED)
    first = built(file).folder.path
    before, entries = contents(first / "release"), read_ledger(nines / "led").entries
    gone(first, "release", "assessment", "widths")
    assert superfluous(read_runs(nines / "runs"), unfinished=True) == []
    build = open_build(file)
    assert {r.name: r.status for r in run_all(build, IN_PROCESS)}["search"] == "reused"
    assert (build.folder.path, contents(first / "release")) == (first, before)
    # elsewhere, and here: the result of the search is not there
    elsewhere = config(nines, "first", [], output={"folder": str(nines / "other")}, **SUPPRESSED)
    with pytest.raises(RunFolderError, match=r"is entry 1 of the ledger, .*/first/.* is missing or .* run --again"):
        built(elsewhere)
    assert not (nines / "other").exists()
    file = config(nines, "first", [], **SUPPRESSED)
    gone(first, "release", "search")
    assert [run.folder.path for run in superfluous(read_runs(nines / "runs"), unfinished=True)] == [first]
    with pytest.raises(
        RunFolderError, match=r"is entry 1 of the ledger, .*The result of its search is missing or changed"
    ):
        built(file)
    assert not (first / "release").exists()
    assert read_ledger(nines / "led").entries == entries
    again = open_build(file, again=True)
    run_all(again, IN_PROCESS)
    assert again.origin.sources[0].startswith("entry 1 of the ledger")
    assert [e.build for e in read_ledger(nines / "led").entries] == [entries[0].build, again.base]
    assert verify_run(again.folder.path).verified
    # what was entered and is not yet public comes first; then there is a third
    gone(again.folder.path, "release")
    assert open_build(file, again=True).folder.path == again.folder.path
    run_all(open_build(file, again=True), IN_PROCESS)
    assert open_build(file, again=True).again == 2
    assert len(read_ledger(nines / "led").entries) == 2


def test_margins_required_after_their_table_was_suppressed_are_suppressed_too(nines: Path) -> None:
    """The message names the way, and the way is there."""
    part = {"require": ["A*B"], "required_only": True, "protect": "suppression"}
    assert built(config(nines, "first", [], ledger="led", release=part)).made.found.release.frontier == (0,)
    margins = {"require": ["A", "B"], "required_only": True}
    with pytest.raises(NothingReleasableError, match=r"suppress cells of them \(release.protect: suppression\)"):
        built(config(nines, "whole", [], ledger="led", release=margins))
    later = built(config(nines, "later", [], ledger="led", release={**margins, "protect": "suppression"}))
    assert later.made.found.suppressed_tables.tables
    assert verify_run(later.folder.path).verified


def test_an_entry_has_all_that_is_public_and_a_release_of_the_build_that_differs_is_refused(nines: Path) -> None:
    build = built(config(nines, "t", [], **SUPPRESSED))
    ledger = read_ledger(nines / "led")
    (entry,) = ledger.entries
    assert entry.public["records"] == 73
    assert entry.public["categories"] == {"A": ["a0", "a1", "a2"], "B": ["b0", "b1", "b2"]}
    shown = {one.label: one.digest for one in read_published(build.folder.stage("release"))}
    assert entry.public["tables"] == {label: ledger.keyed(digest) for label, digest in shown.items()}
    moved = json.loads(json.dumps(entry.facts))
    moved["known"]["facts"][0]["source"] = "elsewhere"
    assert record(moved, ledger) == record(entry.facts, ledger) == entry
    for differs, change in DIFFERENT.items():
        content = json.loads(json.dumps(entry.facts))
        change(content)
        with pytest.raises(InputError, match=rf"entry 1 of .* is of this build, and differs in {differs}\. The entry"):
            record(content, ledger)
    assert read_ledger(nines / "led").entries == (entry,)


DIFFERENT: dict[str, Callable[[Any], object]] = {
    "the table": lambda content: content.update(table="0"),
    "the sub-tables": lambda content: content["sub_tables"].pop(),
    "what is suppressed, rounded or known": lambda content: content["known"]["facts"][0]["withheld"]["cells"].pop(),
    "the number of records": lambda content: content["public"].update(records=1),
    "levels": lambda content: content["public"].update(levels=[{"variable": "A"}]),
    r"the counts of A\*B": lambda content: content["public"]["tables"].update({"A*B": "0"}),
    "the categories of A": lambda content: content["public"]["categories"]["A"].reverse(),
    "the bytes of the files": lambda content: content.update(metadata="sha256:0"),
    "the table, the sub-tables, the number of records and 6 more": lambda content: content.update(
        table="0", sub_tables=[], public={}
    ),
}


def test_a_build_is_all_contents_that_its_config_names(tmp_path: Path) -> None:
    table = dense(schema_of([2, 2, 2]), [9] * 8)
    write(table, tmp_path)
    folder_of(tmp_path, "other", [marginal(table, 0b011, "other")])
    file = config(tmp_path, "t", [{"folder": "other"}])
    first = open_build(file).base
    shutil.move(tmp_path / "other", tmp_path / "moved")
    assert open_build(config(tmp_path, "t", [{"folder": "moved"}])).base == first
    folder_of(tmp_path, "other", [marginal(table, 0b101, "other")])
    assert open_build(config(tmp_path, "t", [{"folder": "other"}])).base != first


def test_what_an_entry_of_another_table_was_judged_with_must_be_named(tmp_path: Path) -> None:
    table = dense(schema_of([4, 2, 2]), [9] * 16)
    write(table, tmp_path)
    folder_of(tmp_path, "other", [marginal(table, 0b110, "other")])
    new_ledger(tmp_path / "led")
    fewer = {"path": "table.csv", "variables": ["B", "C"]}
    built(config(tmp_path, "first", [{"folder": "other"}], table=fewer, ledger="led"))
    told = "was judged together with B\\*C of other, which earlier does not name"
    with pytest.raises(InputError, match=told):
        built(config(tmp_path, "second", [{"entry": 1}], ledger="led"))
    second = built(config(tmp_path, "second", [{"entry": 1}, {"folder": "other"}], ledger="led"))
    assert ("B", "C") in released(second)
    with pytest.raises(InputError, match=told):
        built(config(tmp_path, "third", [{"entry": 1}], ledger="led", release={"require": ["A"]}))
    with pytest.raises(InputError, match=r"entry 1 is of other records than .*table\.csv, and its B\*C has"):
        built(config(tmp_path, "third", [{"entry": 1, "disjoint": True}], ledger="led"))
    others = Table.of(table.schema, table.codes[:-1], table.counts[:-1])
    write(others, tmp_path)
    assert built(
        config(tmp_path, "third", [{"entry": 1, "disjoint": True}, {"entry": 2, "disjoint": True}], ledger="led")
    )


def test_what_is_declared_stands_in_manifest_ledger_and_on_page_one(tmp_path: Path) -> None:
    table = dense(schema_of([2, 2, 2]), [9] * 8)
    write(table, tmp_path)
    folder_of(tmp_path, "some", [part(table, 0b011, 1, "some")])
    write_csv(tmp_path / "coarse.csv", {"low": ["yes"], "count": [72]})
    write_csv(tmp_path / "others.csv", {"Q": ["x", "y"], "count": [3, 1]})
    groups = {"yes": ["0", "1"]}
    earlier: list[dict[str, Any]] = [
        {"folder": "some", "where": {"C": ["0"]}},
        {"folder": "coarse.csv", "variables": {"low": {"of": "A", "groups": groups}}},
        {"folder": "others.csv", "disjoint": True},
    ]
    new_ledger(tmp_path / "led")
    build = built(config(tmp_path, "t", earlier, ledger="led"))
    words = (
        "some: of the records with C = 0 alone",
        "coarse.csv: its low is A, grouped as yes",
        "others.csv: of other records, none of which is in this table",
    )
    assert build.origin.declared == words
    assert tuple(read_ledger(tmp_path / "led").entries[0].known["declared"]) == words
    config_told = build.folder.manifest().config or {}
    told = [
        {key: one[key] for key in given if key != "folder"}
        for one, given in zip(config_told["earlier"], earlier, strict=True)
    ]
    assert told == [{key: value for key, value in given.items() if key != "folder"} for given in earlier]
    page = report_of(build)
    assert all(f"Trusts the config on what was published before: {said}." in page for said in words)
    assert "no further earlier or overlapping publication" in page
    shown = CliRunner().invoke(app, ["ledger", str(tmp_path / "led")]).stdout
    assert all(f"as declared in its config: {said}" in shown for said in words)


def test_another_ledger_of_as_many_entries_is_not_the_one_it_was_judged_with(czech_folder: Path) -> None:
    new_ledger(czech_folder / "led")
    copy = shutil.copy(czech_folder / "led", czech_folder / "copy")
    built(config(czech_folder, "first", [], ledger="led"))
    second = open_build(config(czech_folder, "second", [], ledger="led", release={"first_dimension": 1}))
    assert second.publications is not None
    shutil.copy(copy, czech_folder / "led")
    built(config(czech_folder, "other", [], ledger="led", release={"require": ["A"], "method": "bisection"}))
    with pytest.raises(ReleaseError, match=r"never had the head .*; nothing is released"):
        run_all(second, IN_PROCESS)
    judged = second.publications.ledger
    assert judged is not None
    with pytest.raises(InputError, match="has 1 entries, and this release was judged together with 1, up to the head"):
        record({"table": "t", "build": "b"}, judged)


def broken(how: str) -> Callable[[Path], object]:
    def change(path: Path) -> None:
        with sqlite3.connect(path) as database:
            database.execute("DROP TRIGGER entries_not_changed")
            database.execute("DROP TRIGGER entries_not_removed")
            database.execute(how)

    return change


def no_utf8(path: Path) -> None:
    """What SQLite says of its tables it says in these bytes."""
    path.write_bytes(path.read_bytes().replace(b"CREATE TABLE entries", b"CREATE TABLX \x9cntries"))


def of_format_4(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE ledger (format INTEGER NOT NULL)")
        database.execute("CREATE TABLE entry (number INTEGER PRIMARY KEY, content TEXT NOT NULL, hash TEXT NOT NULL)")
        database.execute("INSERT INTO ledger VALUES (4)")


@pytest.fixture(scope="module")
def entered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the Czech table and a ledger of two releases of it, not to be touched."""
    folder = tmp_path_factory.mktemp("entered")
    shutil.copy(CZECH_CSV, folder / "table.csv")
    new_ledger(folder / "led")
    for name in ("first", "second"):
        built(config(folder, name, [], ledger="led"))
    return folder


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (broken("UPDATE entries SET body = replace(body, 'first', 'worst')"), "is broken at entry 1"),
        (broken("DELETE FROM entries WHERE seq = 2"), "is broken at entry 2"),
        (broken("UPDATE entries SET body = replace(body, '\"ledger\":6', '\"ledger\":9')"), "format 9, this version"),
        (broken("UPDATE entries SET body = replace(body, '\"ledger\":6', '\"ledger\":5')"), "of another format"),
        (broken("UPDATE entries SET body = '{}' WHERE seq = 2"), "is broken at entry 1"),
        (of_format_4, "has no mark of a migration, .*; use the one that wrote it"),
        (lambda path: path.write_text("none of these"), "the ledger .*led is not an SQLite database, or corrupt"),
        (no_utf8, "the ledger .*led is not an SQLite database, or corrupt"),
        (lambda path: path.unlink(), "there is no ledger .*; if it was moved, .* first one with sdc ledger .* --new"),
        (lambda path: path.with_name("led.key").unlink(), "the key .* of the ledger cannot be read"),
        (lambda path: path.with_name("led.key").write_text("00"), "has 1 bytes, not 32"),
        (lambda path: path.with_name("led.key").write_text(f"{SEALED}{'0' * 64}"), "is not the key of the ledger"),
    ],
)
def test_a_ledger_that_does_not_hold_is_refused(
    entered: Path, tmp_path: Path, change: Callable[[Path], object], message: str
) -> None:
    folder = Path(shutil.copytree(entered, tmp_path / "own"))
    change(folder / "led")
    with pytest.raises(InputError, match=message):
        built(config(folder, "third", [], ledger="led"))


def test_a_history_is_no_ledger_and_the_other_way_around(tmp_path: Path) -> None:
    new_ledger(tmp_path / "led")
    with pytest.raises(ChainError, match='of another table: table is missing, not "t"; ledger is 6, not missing'):
        Chain.open(str(tmp_path / "led"), {"table": "t"})
    Chain.open(str(tmp_path / "history.db"), {"table": "t"}).close()
    with pytest.raises(InputError, match=r"the ledger .*history.db has the format None, this version reads 6; use"):
        read_ledger(tmp_path / "history.db")


def test_a_ledger_is_made_once(tmp_path: Path) -> None:
    new_ledger(tmp_path / "led")
    assert (tmp_path / "led.key").stat().st_mode & 0o77 == 0
    with pytest.raises(InputError, match="exists already"):
        new_ledger(tmp_path / "led")
    (tmp_path / "led").unlink()  # or it was never finished
    with pytest.raises(InputError, match=r"its ledger .* does not; bring the ledger back, or remove the key"):
        new_ledger(tmp_path / "led")
    with pytest.raises(InputError, match="cannot be made"):
        new_ledger(tmp_path / "no" / "led")


def test_a_ledger_that_has_a_publication_twice_is_refused(czech_folder: Path) -> None:
    new_ledger(czech_folder / "led")
    built(config(czech_folder, "first", [], ledger="led"))
    with closing(Chain.read(str(czech_folder / "led"), Use.SHARE, "ledger")) as chain, chain.turn() as turn:
        chain.key = read_ledger(czech_folder / "led").key
        turn.append("published", "", "", turn.entries(1)[0].body)
    with pytest.raises(InputError, match="lists one publication twice, as entries 1 and 2"):
        read_ledger(czech_folder / "led")
