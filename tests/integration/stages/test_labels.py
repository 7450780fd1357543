"""Published labels say that a category has a record: what goes out keeps the width for readers who know that too."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sdc.executor import IN_PROCESS
from sdc.model.errors import InputError, NotReleasableError, ReleaseError
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.schema import Coarser, Schema, Variable
from sdc.model.structural_zeros import NO_ZEROS
from sdc.model.table import Table
from sdc.public.check import check
from sdc.record.ledger import new_ledger
from sdc.stages.build import Build, open_build
from sdc.verify.run_folder import verify
from tests import reference
from tests.helpers.builds import built, written
from tests.reference import Counts, Fact, Level

ONE, TWO = np.array([1, 1, 9, 8]), np.array([[1, 0], [1, 0], [9, 7], [8, 9]])
"""Two small areas beside two large ones: the label `a1 or a2` of two records says that each has one."""
A = ("a1", "a2", "a3", "a4")
WAYS: dict[str, dict[str, Any]] = {"recoding": {}, "suppression": {}, "rounding": {"base": 3}}


def build_of(counts: Counts, folder: Path, by: str, min_width: int, **table: Any) -> Build:
    names = "AB"[: counts.ndim]
    rows = (
        [*(f"{name}{code + 1}" for name, code in zip(names.lower(), cell, strict=True)), counts[tuple(cell)]]
        for cell in np.argwhere(counts).tolist()
    )
    lines = (",".join(map(str, row)) for row in [[*names, "count"], *rows])
    folder.mkdir()
    (folder / "t.csv").write_text("\n".join(lines))
    release = {"protect": [{"of": "*".join(names), "by": by, **WAYS[by]}]}
    risk = {"small_count": 1, "min_width": min_width}
    return built(written(folder, table={"path": "t.csv", **table}, risk=risk, release=release))


def told(release: Path, counts: Counts, *, labels_tell: bool) -> Iterator[Fact]:
    """All that the files of a release tell of a table with these sizes."""
    dictionary = list(csv.DictReader((release / "data_dictionary.csv").open()))
    if labels_tell:
        named = {category for row in dictionary for category in row["category"].split(" or ")}
        yield from reference.listed(counts, 0, [code for code, name in enumerate(A) if name not in named])
    yield from reference.exact(counts, ())
    for path in release.glob("0*.csv"):
        header, *rows = csv.reader(path.open())
        axes = [name for name in header if name[0] in "AB"]
        labels = [[row["category"] for row in dictionary if row["variable"] == name] for name in axes]
        merged = next(own for name, own in zip(axes, labels, strict=True) if name[0] == "A")
        groups = tuple(next(k for k, label in enumerate(merged) if name in label.split(" or ")) for name in A)
        view = [Level(0, groups) if name[0] == "A" else 1 for name in axes]
        texts = {tuple(row[: len(axes)]): row[len(axes)] for row in rows}
        for key, inside in reference.marginal_cells(counts.shape, view).items():
            text = texts.get(tuple(own[code] for own, code in zip(labels, key, strict=True)), "0")
            if text:
                yield Fact(frozenset(inside), int(text), int(text))


@pytest.mark.parametrize(
    ("by", "counts", "min_width", "file"),
    [
        ("recoding", ONE, 2, "A_merged,count\na1 or a2 or a4,10\na3,9\n"),
        ("recoding", TWO, 2, "B,A_merged,count\nb1,a1 or a2 or a3,11\nb1,a4,8\nb2,a1 or a2 or a3,7\nb2,a4,9\n"),
        ("suppression", ONE, 1, "A,count,count_status\na1,,withheld\na2,,withheld\na3,9,\na4,,withheld\n"),
        ("rounding", ONE, 2, None),
    ],
)
def test_a_reader_who_knows_the_labels_knows_no_small_count(
    by: str, counts: Counts, min_width: int, file: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Judged from the published files alone. Where a code list names the categories, less is merged or suppressed."""
    if file is None:
        with pytest.raises(NotReleasableError, match="rounded"):
            build_of(counts, tmp_path / "judged", by, min_width)
        return
    release = (build := build_of(counts, tmp_path / "judged", by, min_width)).folder.stage("release")
    assert next(release.glob("0*A*.csv")).read_text() == file
    assert reference.min_width(counts, told(release, counts, labels_tell=True), 1) >= min_width
    assert verify(build.folder.path).verified
    listed = build_of(counts, tmp_path / "listed", by, min_width, categories={"A": [*A]})
    assert reference.min_width(counts, told(listed.folder.stage("release"), counts, labels_tell=False), 1) >= min_width
    assert next(listed.folder.stage("release").glob("0*A*.csv")).read_text() != file
    assert verify(listed.folder.path).verified
    # whoever leaves labels out of account publishes what the independent checker refuses
    monkeypatch.setattr(Knowledge, "_labels_beside", lambda known, given: iter(()))
    with pytest.raises(ReleaseError, match=r"no feasible table|within no clique"):
        build_of(counts, tmp_path / "unsafe", by, min_width)


def test_published_folders_are_read_back_with_what_their_labels_tell(tmp_path: Path) -> None:
    """`check` bounds the cells as the judge does. A code list is named in the folder."""
    counts = np.array([[1, 0], [9, 1], [9, 7], [8, 9]])
    for lists in ({}, {"A": [*A]}):
        build = build_of(counts, tmp_path / f"{len(lists)}", "suppression", 1, categories=lists)
        release = build.folder.stage("release")
        found = check([release], small_count=None)
        bounds = reference.bounds(reference.feasible(counts.shape, told(release, counts, labels_tell=not lists)))
        assert np.array_equal(found.inner, bounds[np.ravel_multi_index(found.cells.T.astype(int), counts.shape)])
        assert json.loads((release / "datapackage.json").read_text()).get("code_lists", []) == [*lists]
        # what was said once stays said, whatever a later config calls a code list
        table = {"path": build.config.table.path, "categories": {"A": [*A]}}
        later = open_build(written(tmp_path, table=table, earlier=[{"folder": str(release)}]))
        _, known, _ = later.with_earlier(build.counted(IN_PROCESS))
        assert bool(known.listed) == bool(lists)
        # a file by itself does not say it: its readers may know, unless the config says otherwise
        (tmp_path / "bare.csv").write_bytes(next(release.glob("0*.csv")).read_bytes())
        for said in ([], ["A"]):
            one = {"folder": "bare.csv", "code_lists": said}
            later = open_build(written(tmp_path, table=table, earlier=[one]))
            assert bool(later.with_earlier(build.counted(IN_PROCESS))[1].listed) == bool(said)
        later = open_build(written(tmp_path, table=table, earlier=[{"folder": "bare.csv", "code_lists": ["a"]}]))
        with pytest.raises(InputError, match=r"'a', which is not a variable of .*bare.csv; did you mean A"):
            later.with_earlier(build.counted(IN_PROCESS))


def test_where_counts_of_a_variable_are_public_its_labels_say_nothing_new() -> None:
    """One fact of each variable otherwise. A code list says nothing, nor a merged category with a name of its own."""
    level = Variable("M", ("a1 or a2", "a3", "a4"), Coarser("A", (0, 0, 1, 2)))
    schema = Schema((Variable("A", A), level, Variable("B", ("b1", "b2"))))
    table = Table.of(schema, np.argwhere(TWO), TWO[TWO > 0])
    known = Knowledge.of(table, Release.of([0b010, 0b100]), NO_ZEROS, ())
    (labels,) = known.facts
    assert (labels.view, labels.of_labels) == (0b011, True)
    assert labels.intervals is not None
    assert labels.intervals.low.tolist() == [1, 1, 1, 1]
    assert known.published == ()
    for release in ([], [0b100], [0b011], [0b111]):
        assert Knowledge.of(table, Release.of(release), NO_ZEROS, ()).facts == ()
    assert known.plus(Release.of([0b011])).facts == ()
    assert Knowledge.of(table, known.release, NO_ZEROS, (), listed=((0, (0, 1, 2, 3)),)).facts == ()
    renamed = Schema((schema.variables[0], Variable("M", ("north", "a3", "a4"), level.of), schema.variables[2]))
    assert Knowledge.of(Table(renamed, table.codes, table.counts), known.release, NO_ZEROS, ()).facts == ()


@pytest.mark.parametrize("by", ["ledger", "folder"])
def test_a_code_list_that_was_published_is_not_taken_back(by: str, tmp_path: Path) -> None:
    """Readers would know from then on that each category has a record, of one of which there are few."""
    (tmp_path / "t.csv").write_text("A,B,count\na1,b1,1\na1,b2,2\na2,b3,4\n")
    new_ledger(tmp_path / "led")
    release = {"require": ["A", "B"], "protect": [{"of": "B", "by": "rounding", "base": 3}]}
    sections: dict[str, Any] = {"risk": {"small_count": 1, "min_width": 2}, "release": release}
    sections |= {"ledger": "led"} if by == "ledger" else {}
    lists = {"A": ["a1", "a2"], "B": ["b1", "b2", "b3"]}
    first = built(written(tmp_path, "first", table={"path": "t.csv", "categories": lists}, **sections))
    assert [table.base for table in first.made.found.suppressed_tables.tables] == [3]
    if by == "folder":
        sections["earlier"] = [{"folder": str(first.folder.stage("release"))}]
    later = written(tmp_path, "later", table={"path": "t.csv", "categories": {"A": lists["A"]}}, **sections)
    with pytest.raises(InputError, match="the categories of 'B' from a code list, and the config has none"):
        built(later)
    # counts of A are public, so that its labels say nothing new
    assert built(written(tmp_path, "again", table={"path": "t.csv", "categories": {"B": lists["B"]}}, **sections))


def test_structural_zeros_of_an_entry_stay_known(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("A,B,count\na1,b1,9\na1,b2,9\na2,b2,9\n")
    (tmp_path / "zeros.yaml").write_text("- {A: a2, B: b1}\n")
    new_ledger(tmp_path / "led")
    zeros = {"path": "t.csv", "structural_zeros": "zeros.yaml"}
    built(written(tmp_path, "first", table=zeros, ledger="led"))
    with pytest.raises(InputError, match="judged with 1 structural zero that the config lacks; list them in"):
        built(written(tmp_path, "later", table={"path": "t.csv"}, ledger="led"))
    assert built(written(tmp_path, "third", table=zeros, ledger="led"))
