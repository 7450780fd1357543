"""What a build publishes: exact marginals, the same from any parts of the input, and nothing that is confidential."""

import csv
import json
import random
import shutil
import socket
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sdc.executor import IN_PROCESS
from sdc.model import subtable as st
from sdc.stages.build import Build, open_build
from sdc.stages.stages import run_all
from sdc.storage.runs import read_run
from tests.helpers.builds import ANNEALED, CONFIGS, CZECH_CSV, FRONTIER, NAMES, PUBLISHED, Config, built, made
from tests.helpers.folders import contents, said


def in_parts(folder: Path, parts: int) -> Path:
    """The Czech records, in so many parts."""
    folder.mkdir()
    header, *lines = CZECH_CSV.read_text().splitlines()
    for part in range(parts):
        (folder / f"{part}.csv").write_text("\n".join([header, *lines[part::parts], ""]))
    return folder


def test_fewer_records_than_in_the_last_run_are_warned_of(config: Config, tmp_path: Path) -> None:
    folder, said = in_parts(tmp_path / "parts", 4), list[str]()
    file = config(table={"path": str(folder)})
    whole = made(file)[0].folder
    assert read_run(whole.path).status["warnings"] == []
    (folder / "2.csv").unlink()
    build = open_build(file)
    run_all(build, IN_PROCESS, said.append)
    records = build.made.table.total
    (warning,) = [line for line in said if line.startswith("warning")]
    assert f"{records} records" in warning
    assert f"less than the 1841 of the last finished run, {whole.path}" in warning
    assert read_run(build.folder.path).status["warnings"] == [warning]
    # so is whoever takes over the table of a run that ended before it published
    shutil.rmtree(build.folder.stage("release"))
    again, statuses = made(config(table={"path": str(folder)}, risk={"min_width": 5}))
    assert statuses["table"] == "reused"
    assert read_run(again.folder.path).status["warnings"] == [warning]
    # the next one has as many records as that
    last = made(config(table={"path": str(folder)}, risk={"min_width": 4}))[0]
    assert read_run(last.folder.path).status["warnings"] == []


def test_the_run_folder(czech_build: Build) -> None:
    folder = czech_build.folder.path
    files = {".lock", "log.jsonl", "manifest.json"}
    assert {path.name for path in folder.iterdir()} == {*NAMES, *files}
    assert {path.name for path in (folder / "confidential").iterdir()} == {"report.html", "utility.json"}
    assert {path.name for path in (folder / "release").iterdir()} == PUBLISHED
    for stage in ("table", "widths", "assessment"):
        assert list((folder / stage).glob("*.parquet"))
    for stage in ("search", "assessment"):
        assert (folder / stage / "certificate.json").is_file()


def test_nothing_but_the_released_marginals_is_published(finished: Path) -> None:
    """Every byte of the published files is searched for what the agency keeps to itself."""
    run = finished.parent
    manifest = json.loads((run / "manifest.json").read_text())
    digests = [*manifest["digests"].values(), *(s[key] for s in manifest["stages"] for key in ("key", "output"))]
    words = "width risk small beta threshold undecided witness confidential critical refus unsafe frontier bound digest"
    places = [str(run), run.name, str(Path.home()), str(CONFIGS), sys.prefix, socket.gethostname(), "/tmp", "runs"]
    assert {path.name for path in finished.iterdir()} == PUBLISHED
    for name, content in said(finished).items():
        text = content.lower()
        for secret in [*words.split(), *digests, *places]:
            assert secret.lower().encode() not in text, (name, secret)
    for path in finished.glob("*.parquet"):
        file = pq.ParquetFile(path)
        assert set(file.metadata.metadata or {}) <= {b"ARROW:schema"}
        assert not file.schema_arrow.metadata
        assert all(not column.metadata for column in file.schema_arrow)


def test_a_variable_that_is_not_released_is_not_mentioned(config: Config, tmp_path: Path) -> None:
    """A variable whose one-way table would already disclose appears nowhere in what is published."""
    rows = ["p,r,common,281", "p,s,common,208", "q,r,common,218", "q,s,common,224", "p,r,rarest,1", "q,s,rarest,1"]
    (tmp_path / "table.csv").write_text("\n".join(["plain,other,secret,count", *rows, ""]))
    build = built(config(table={"path": str(tmp_path / "table.csv"), "categories": {}}, risk={"min_width": 5}))
    assert not any(st.has(element, 2) for element in build.made.found.release.frontier)
    for name, content in contents(build.folder.stage("release")).items():
        assert b"secret" not in content, name
        assert b"rarest" not in content, name


SETTINGS_WORDS = (
    *("small_count", "min_width", "width", "at_risk", "at risk", "undecided", "policy", "refuse", "outer", "seconds"),
    *("method", "ordered", "decomposable", "best", "annealing", "seed", "chains", "rounds", "weights", "utility"),
    *("curve", "structural", "918273645", "271828"),
)


def test_a_release_tells_no_setting(config: Config, finished: Path) -> None:
    """Other settings that end at the same release give the same bytes, and no word of them, in Parquet neither."""
    annealing = {**ANNEALED["annealing"], "seed": 918273645}
    release = {"method": "best", "annealing": annealing, "refute_cells": 0, "seconds": 271828.0}
    build = built(config(release=release, risk={"small_count": 1, "min_width": 9, "accept_undecided": True}))
    folder = build.folder.stage("release")
    assert contents(folder) == contents(finished)
    told = [*contents(folder), *(content.decode("latin-1") for content in said(folder).values())]
    for parquet in map(pq.ParquetFile, sorted(folder.glob("*.parquet"))):
        told.append(str([parquet.metadata.to_dict(), parquet.schema_arrow.metadata, parquet.read().to_pydict()]))
    assert [word for word in SETTINGS_WORDS if word in "\n".join(told).lower()] == []


def records() -> list[list[str]]:
    """Microdata, one row a person, in an order of its own."""
    with CZECH_CSV.open(newline="") as file:
        _, *rows = csv.reader(file)
    people = [row[:-1] for row in rows for _ in range(int(row[-1]))]
    random.Random(7).shuffle(people)
    return people


def as_parquet_parts(folder: Path) -> Path:
    for number, rows in enumerate(np.array_split(records(), 5)):
        columns = dict(zip("ABCDEF", np.array(rows).T, strict=True))
        pq.write_table(pa.table({name: pa.array(list(column)) for name, column in columns.items()}),
                       folder / f"{number}.parquet", row_group_size=100)  # fmt: skip
    return folder


def test_the_parts_of_the_input_do_not_matter(config: Config, finished: Path, tmp_path: Path) -> None:
    """One row a person in five parts of another format, stored in three."""
    (tmp_path / "data").mkdir()
    path = as_parquet_parts(tmp_path / "data")
    build = built(config(table={"path": str(path), "partitions": 3}))
    assert contents(build.folder.stage("release")) == contents(finished)


def recomputed(names: str) -> Counter[tuple[str, ...]]:
    """A marginal by hand from the CSV that ships with the project, zeros left out."""
    with CZECH_CSV.open(newline="") as file:
        rows = list(csv.DictReader(file))
    sums: Counter[tuple[str, ...]] = Counter()
    for row in rows:
        sums[tuple(row[name] for name in names)] += int(row["count"])
    return +sums


@pytest.mark.parametrize(("number", "names"), list(enumerate(FRONTIER, start=1)))
def test_the_published_marginals_are_exact(number: int, names: str, finished: Path) -> None:
    stem = finished / f"{number:03}_{'-'.join(names)}"
    with stem.with_suffix(".csv").open(newline="") as file:
        header, *lines = csv.reader(file)
    assert header == [*names, "count"]
    assert {tuple(line[:-1]): int(line[-1]) for line in lines} == recomputed(names)
    columns = pq.read_table(stem.with_suffix(".parquet")).to_pydict()
    assert list(columns) == header
    assert [list(map(str, row)) for row in zip(*columns.values(), strict=True)] == lines
