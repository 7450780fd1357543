"""The whole build in one process: what is published, what is reused, and that failures publish nothing.

The Czech auto workers ([KDSF] 5.2) are the table: small enough that every build takes a fraction of a second.
"""

from __future__ import annotations

import csv
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from pyarrow.parquet import ParquetFile

from sdc.api import find_release, posterior, uniques
from sdc.bounds.enumeration import feasible_tables
from sdc.config.build import ExecutionConfig
from sdc.config.release import AnnealingConfig, ReleaseConfig
from sdc.execution.cluster import open_executor
from sdc.executor import IN_PROCESS, Executor
from sdc.feasible.bank import CellRows
from sdc.intruder import summary as laws_of_stage
from sdc.intruder.limit import PosteriorLimit
from sdc.intruder.losses import Claims
from sdc.model import subtable as st
from sdc.model.cell_bounds import Intervals
from sdc.model.errors import (
    ConfigError,
    InputError,
    NothingReleasableError,
    NotReleasableError,
    ReleaseError,
    RunFolderError,
    SdcError,
)
from sdc.model.release import NOTHING, Release
from sdc.model.structural_zeros import NO_ZEROS
from sdc.model.table import Table
from sdc.publish.gate import Cleared, GateSubject, clear
from sdc.publish.publication import write_publication
from sdc.refusal import NOT_RELEASABLE, status_of
from sdc.risk.attributes import Attributes
from sdc.risk.criteria import Criteria
from sdc.risk.n_rule import NRule
from sdc.risk.support import Support
from sdc.risk.verdict import Policy
from sdc.search.blockers import blockers
from sdc.search.decomposable import SearchState
from sdc.search.ordered import OrderedRelease, OrderedSearch
from sdc.stages import stages
from sdc.stages.assemble import ALL_WIDTHS, Listing, SearchSettings, Watch
from sdc.stages.build import Build, open_build
from sdc.stages.checks import check_before
from sdc.stages.refusals import refusals
from sdc.stages.stage import Stage, run_stage
from sdc.stages.stages import STAGES, SWEEP, run_all
from sdc.storage.certificate import read_certificate, write_certificate
from sdc.storage.parquet import read_written_table, table_columns, write_csv
from sdc.storage.results import (
    read_assessment,
    read_curve,
    read_likely_curve,
    read_posteriors,
    read_refusals,
    read_remedies,
    read_uniques,
    write_checkpoint,
)
from sdc.storage.run_folder import StageRecord, folder_digest, write_json
from sdc.storage.runs import read_run
from sdc.utility.uniques import Uniques
from sdc.verify.run_folder import verify
from tests.helpers.clearing import cleared_of
from tests.helpers.folders import contents, said
from tests.strategies import czech as czech_table
from tests.strategies import dense, knows, schema_of

CONFIGS = Path(__file__).parents[3] / "configs"
CZECH_CSV, CZECH_YAML = CONFIGS / "czech_auto_workers.csv", CONFIGS / "czech_auto_workers.yaml"
FRONTIER = ["ABCDE", "ABDEF", "ACDEF", "ABCF", "BCDF", "BCEF"]
BESIDE = {"SHA256SUMS", "catalogue.json", "croissant.json", "index.html", "ro-crate-metadata.json"}
PUBLISHED = {
    "README.txt",
    "data_dictionary.csv",
    "datapackage.json",
    *BESIDE,
    *(
        f"{number:03}_{'-'.join(names)}.{suffix}"
        for number, names in enumerate(FRONTIER, start=1)
        for suffix in ("csv", "parquet")
    ),
}
NAMES = [stage.name for stage in STAGES]


@pytest.fixture
def config(tmp_path: Path) -> Callable[..., Path]:
    """Writes the Czech config, working in one process below a temporary folder, with settings replaced."""

    def write(name: str = "build.yaml", **sections: dict[str, Any]) -> Path:
        content = yaml.safe_load(CZECH_YAML.read_text())
        content["table"]["path"] = str(CZECH_CSV)
        content["execution"] = {"cluster": "in-process"}
        content["output"] = {"folder": str(tmp_path / "runs")}
        for section, values in sections.items():
            content[section] = {**content.get(section, {}), **values}
        file = tmp_path / name
        file.write_text(yaml.safe_dump(content, sort_keys=False))
        return file

    return write


Config = Callable[..., Path]


def made(file: Path, executor: Executor = IN_PROCESS) -> tuple[Build, dict[str, str]]:
    """A build run to its end, and what became of each stage."""
    build = open_build(file)
    return build, {record.name: record.status for record in run_all(build, executor)}


def written(folder: Path) -> dict[str, int]:
    """When every file below was written."""
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def assert_nothing_published(build: Build) -> None:
    """No release under any name, nothing half-written, and a manifest that tells of whole stages only."""
    assert not list(build.folder.path.glob("release*"))
    assert not [path for path in build.folder.path.rglob("*") if path.name.endswith((".unfinished", ".tmp"))]
    folders = {path.name: folder_digest(path) for path in build.folder.path.iterdir() if path.is_dir()}
    assert {name: record.output for name, record in build.folder.records().items()} == folders


# What a part that is missing comes to


def in_parts(folder: Path, parts: int) -> Path:
    """The Czech records, in so many parts."""
    folder.mkdir()
    header, *lines = CZECH_CSV.read_text().splitlines()
    for part in range(parts):
        (folder / f"{part}.csv").write_text("\n".join([header, *lines[part::parts], ""]))
    return folder


def test_a_part_that_is_missing_is_refused_before_the_first_stage(config: Config, tmp_path: Path) -> None:
    folder = in_parts(tmp_path / "parts", 4)
    expecting = config(table={"path": str(folder), "expect": {"parts": 4}})
    assert made(expecting)[1]["release"] == "done"
    (folder / "2.csv").unlink()
    with pytest.raises(InputError, match=r"has 3 parts, table.expect.parts = 4; give all of them"):
        check_before(open_build(expecting))
    with pytest.raises(InputError, match=r"has 3 parts, table.expect.parts = 4; give all of them"):
        made(expecting)
    assert len(list((tmp_path / "runs").glob("*/*"))) == 1


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


# The run folder, and what is published


def test_the_run_folder(config: Config) -> None:
    build, statuses = made(config())
    folder = build.folder.path
    assert statuses == dict.fromkeys(NAMES, "done")
    assert {path.name for path in folder.iterdir()} == {
        ".lock", "log.jsonl", "manifest.json", "table", "widths", "search", "assessment", "confidential", "release",
    }  # fmt: skip
    assert {path.name for path in (folder / "confidential").iterdir()} == {"report.html", "utility.json"}
    assert {path.name for path in (folder / "release").iterdir()} == PUBLISHED
    for stage in ("table", "widths", "assessment"):
        assert list((folder / stage).glob("*.parquet"))
    for stage in ("search", "assessment"):
        assert (folder / stage / "certificate.json").is_file()
    assert (folder / "assessment" / "differences_0.parquet").is_file()  # the search of a small table needs none


def test_the_manifest(config: Config) -> None:
    build, _ = made(config())
    manifest = json.loads((build.folder.path / "manifest.json").read_text())
    assert manifest["format"] == 1
    assert manifest["name"] == "czech_auto_workers"
    assert manifest["config"] == build.config.model_dump(mode="json")
    assert list(manifest["digests"]) == ["code", "config", "data"]
    assert all(len(digest) == 64 for digest in manifest["digests"].values())
    assert [(entry["name"], entry["status"]) for entry in manifest["stages"]] == [(name, "done") for name in NAMES]
    for entry in manifest["stages"]:
        assert set(entry) == {"name", "key", "output", "status", "seconds", "driver_mib", "worker_mib"}
        assert entry["output"] == folder_digest(build.folder.stage(entry["name"]))


def test_the_table_is_written_in_the_parts_asked_for(config: Config, czech: Table) -> None:
    build, _ = made(config(table={"partitions": 4}))
    assert len(list(build.folder.stage("table").glob("part-*.parquet"))) == 4
    assert read_written_table(build.folder.stage("table")) == czech


def test_the_published_release(config: Config) -> None:
    build, _ = made(config())
    release, steps = build.made.found.release, build.made.found.steps
    schema = build.made.table.schema
    assert [st_names(element, schema.names) for element in release.frontier] == FRONTIER
    assert (
        build.made.found.release.sub_tables(build.made.table.schema),
        build.made.found.release.sub_tables_with_total(build.made.table.schema),
    ) == (59, 60)
    assert {step.phase for step in steps} == {"everything", "growth"}
    assessment = json.loads((build.folder.stage("assessment") / "assessment.json").read_text())
    assert (assessment["releasable"], assessment["min_width"], assessment["undecided_cells"]) == (True, [9, 9], 0)


def st_names(subtable: int, names: tuple[str, ...]) -> str:
    return "".join(name for v, name in enumerate(names) if subtable >> v & 1)


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


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The release/ of the Czech build, not to be touched."""
    folder = tmp_path_factory.mktemp("finished")
    content = yaml.safe_load(CZECH_YAML.read_text())
    content["table"]["path"], content["output"] = str(CZECH_CSV), {"folder": str(folder / "runs")}
    (folder / "build.yaml").write_text(yaml.safe_dump(content))
    return made(folder / "build.yaml")[0].folder.stage("release")


@pytest.fixture
def begun(finished: Path, config: Config, tmp_path: Path) -> Build:
    """The Czech build as a test's own, all of whose stages are there: a copy of what was made once."""
    run = finished.parent
    shutil.copytree(run, tmp_path / "runs" / run.parent.name / run.name)
    return open_build(config())


def test_the_data_dictionary_and_the_metadata(finished: Path) -> None:
    with (finished / "data_dictionary.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert [row[:3] for row in rows[:3]] == [["variable", "place", "category"], ["A", "1", "no"], ["A", "2", "yes"]]
    assert rows[-1] == ["F", "2", "pos", "pos", "F", "", ""]
    assert len(rows) == 13
    metadata = json.loads((finished / "datapackage.json").read_text())
    assert set(metadata) == {"description", "format", "name", "profile", "records", "resources", "title"}
    assert metadata["records"] == 1841
    assert {resource["path"] for resource in metadata["resources"]} == PUBLISHED - BESIDE - {
        "README.txt",
        "datapackage.json",
    }


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
    rng = np.random.default_rng(3)
    rows = [f"{a},{b},{count}" for a in "pq" for b in "rs" for count in [int(rng.integers(200, 300))]]
    (tmp_path / "table.csv").write_text(
        "plain,other,secret,count\n" + "".join(f"{r.rsplit(',', 1)[0]},common,{r.rsplit(',', 1)[1]}\n" for r in rows)
        + "p,r,rarest,1\nq,s,rarest,1\n"
    )  # fmt: skip
    file = config(table={"path": str(tmp_path / "table.csv"), "categories": {}}, risk={"min_width": 5})
    build, _ = made(file)
    assert "secret" not in [name for element in build.made.found[0].frontier for name in _named(element, build)]
    for name, content in contents(build.folder.stage("release")).items():
        assert b"secret" not in content, name
        assert b"rarest" not in content, name


def _named(element: int, build: Build) -> list[str]:
    return [name for v, name in enumerate(build.made.table.schema.names) if element >> v & 1]


# Reuse


def test_a_rerun_reuses_everything_and_rewrites_nothing(config: Config) -> None:
    build, _ = made(config())
    before = written(build.folder.path)
    again, statuses = made(config())
    assert again.folder.path == build.folder.path
    assert statuses == dict.fromkeys(NAMES, "reused")
    after = written(build.folder.path)
    assert {name for name in after if after[name] != before.get(name)} <= {"manifest.json", "log.jsonl", ".lock"}
    assert after.keys() == before.keys()


def redone(statuses: dict[str, str]) -> list[str]:
    return [name for name, status in statuses.items() if status == "done"]


@pytest.mark.parametrize(
    ("sections", "again"),
    [
        ({"risk": {"min_width": 7}}, ["search", "assessment", "confidential", "release"]),
        ({"risk": {"small_count": 3}}, ["widths", "search", "assessment", "confidential", "release"]),
        ({"release": {"seconds_per_cell": 0.1}}, ["search", "assessment", "confidential", "release"]),
        ({"release": {"seconds": 60.0}}, ["search", "assessment", "confidential", "release"]),
        ({"risk": {"undecided": "outer"}}, ["search", "assessment", "confidential", "release"]),
        ({"release": {"method": "bisection"}}, ["search", "assessment", "confidential", "release"]),
        ({"widths": {"floor": 2}}, ["widths", "search", "assessment", "confidential", "release"]),
        ({"table": {"partitions": 3}}, NAMES),
        ({"table": {"variables": ["F", "E", "D", "C", "B", "A"]}}, NAMES),
        ({"release": {"annealing": {"seed": 1}}}, ["confidential"]),
        ({"release": {"weights": {"variables": {"A": 2}}}}, ["search", "assessment", "confidential", "release"]),
        ({"labels": {"variables": {"A": {"label": "Smokes"}}}}, ["confidential", "release"]),
        ({"publication": {"period": "1981"}}, ["confidential", "release"]),
        ({"execution": {"workers": 7}}, []),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else "",
)
def test_what_a_change_of_the_config_redoes(
    sections: dict[str, Any], again: list[str], config: Config, begun: Build
) -> None:
    second, statuses = made(config(**sections))
    unchanged = {"search", "assessment", "release"}  # their inputs may come out as they were
    assert set(redone(statuses)) <= set(again)
    assert set(again) - set(redone(statuses)) <= unchanged
    assert (second.folder.path == begun.folder.path) == ("execution" in sections)
    assert {path.name for path in begun.folder.stage("release").iterdir()} == PUBLISHED
    assert second.folder.stage("release").is_dir()


def test_a_code_list_counts_by_its_content_and_is_published(config: Config, tmp_path: Path) -> None:
    (tmp_path / "codes.csv").write_text("variable,category,label\nA,,Smokes\nA,no,never\n")
    first, _ = made(config(labels={"code_list": "codes.csv"}))
    assert "A,1,no,never,Smokes,," in (first.folder.stage("release") / "data_dictionary.csv").read_text()
    assert verify(first.folder.path).failures == ()
    (tmp_path / "codes.csv").rename(tmp_path / "others.csv")
    assert redone(made(config(labels={"code_list": "others.csv"}))[1]) == []
    (tmp_path / "others.csv").write_text("variable,category,label\nA,,Smoking\n")
    assert redone(made(config(labels={"code_list": "others.csv"}))[1]) == ["confidential", "release"]


@pytest.mark.parametrize(
    ("variables", "match"),
    [
        (
            {"A": {"categories": {"maybe": "perhaps"}}},
            "labels: the label 'perhaps' is of the category 'maybe', and",
        ),
        ({"Z": {"label": "z"}}, "labels: unknown variable 'Z'; the table has A, B, C, D, E, F"),
    ],
)
def test_labels_of_what_the_table_does_not_have(
    variables: dict[str, Any], match: str, config: Config, begun: Build
) -> None:
    build = open_build(config(labels={"variables": variables}, risk={"min_width": 7}))
    with pytest.raises(ConfigError, match=match):
        run_all(build, IN_PROCESS)
    assert not build.folder.stage("search").exists()  # better before the work than after


def test_another_format_is_written_without_the_work_done_again(config: Config, begun: Build) -> None:
    build, statuses = made(config(publication={"formats": ["csv", "px"], "children": ["A*B"], "zeros": True}))
    assert redone(statuses) == ["confidential", "release"]
    assert {path.suffix for path in build.folder.stage("release").glob("0*")} == {".csv", ".px"}
    assert list(build.folder.stage("release").glob("*_A-B.px"))


def test_a_child_of_what_the_table_does_not_have(config: Config, begun: Build) -> None:
    build = open_build(config(publication={"children": ["A*nobody"]}, risk={"min_width": 7}))
    with pytest.raises(ConfigError, match=r"publication\.children: unknown variable 'nobody'; the table has A, B"):
        run_all(build, IN_PROCESS)
    assert not build.folder.stage("search").exists()


def test_a_change_of_min_width_takes_table_and_widths_over(config: Config, begun: Build) -> None:
    first, _ = made(config())
    second, statuses = made(config(risk={"min_width": 10}))
    assert redone(statuses) == ["search", "assessment", "confidential", "release"]
    for name in ("table", "widths"):
        assert contents(second.folder.stage(name)) == contents(first.folder.stage(name))
    assert second.made.found[0] != first.made.found[0]
    assert second.made.found[0].sub_tables_with_total(second.made.table.schema) < 60


def changed_data(file: Path) -> None:
    lines = CZECH_CSV.read_text().splitlines()
    lines[1] = lines[1].rsplit(",", 1)[0] + ",45"
    file.write_text("\n".join(lines) + "\n")


def test_a_change_of_the_data_redoes_everything(config: Config, begun: Build, tmp_path: Path) -> None:
    changed_data(tmp_path / "changed.csv")
    second, statuses = made(config(table={"path": str(tmp_path / "changed.csv")}))
    assert redone(statuses) == NAMES
    assert second.folder.path != begun.folder.path
    assert second.folder.path.parent == begun.folder.path.parent


EMPTY_CELL = '- {A: yes, B: no, C: no, D: ">=140", E: ">=3", F: pos}'


def informed(config: Config, text: str = EMPTY_CELL, name: str = "zeros.yaml") -> Path:
    """The config with the one empty cell of the table as a structural zero, or another text."""
    file = config(table={"structural_zeros": name}, risk={"min_width": 7})
    (file.parent / name).write_text(text + "\n")
    return file


def test_structural_zeros_are_honoured_and_not_published(config: Config) -> None:
    """[KDSF] releases 60 at 7; who knows the empty cell has a width of 6 there."""
    plain, _ = made(config(risk={"min_width": 7}))
    build, _ = made(informed(config))
    assert plain.made.found[0].sub_tables_with_total(plain.made.table.schema) == 60
    assert build.made.found[0].sub_tables_with_total(build.made.table.schema) < 60
    assert build.made.known.zeros.labels(build.made.table.schema) == [
        "A = yes and B = no and C = no and D = >=140 and E = >=3 and F = pos"
    ]
    assessment = json.loads((build.folder.stage("assessment") / "assessment.json").read_text())
    assert assessment["releasable"] is True
    assert "everybody knows to be impossible, 1 in all" in (
        build.folder.stage("confidential") / "report.html"
    ).read_text(encoding="utf-8")
    for name, content in contents(build.folder.stage("release")).items():
        assert b"zeros" not in content.lower(), name
        assert b"impossible" not in content.lower(), name


def test_structural_zeros_that_stay_are_reused_and_others_redo(config: Config) -> None:
    first, _ = made(informed(config))
    assert redone(made(informed(config))[1]) == []
    moved, statuses = made(informed(config, name="moved.yaml"))
    assert (redone(statuses), moved.folder.path) == ([], first.folder.path)
    commented, statuses = made(informed(config, f"# as before\n{EMPTY_CELL}"))
    assert redone(statuses) == ["table"]  # which comes out as it was
    assert contents(commented.folder.stage("table")) == contents(first.folder.stage("table"))
    none, statuses = made(informed(config, "[]"))
    assert redone(statuses) == NAMES
    assert none.made.found[0].sub_tables_with_total(none.made.table.schema) == 60


def test_structural_zeros_that_contradict_the_data_publish_nothing(config: Config) -> None:
    file = informed(config, "- {A: yes, B: [yes, no]}")
    with pytest.raises(InputError, match="structural zeros contradict the data: A = yes and B = no or yes"):
        made(file)
    assert_nothing_published(open_build(file))
    assert not open_build(file).folder.records()


def test_the_same_data_under_another_name_redo_the_counting_at_most(
    config: Config, begun: Build, tmp_path: Path
) -> None:
    shutil.copy(CZECH_CSV, tmp_path / "copy.csv")
    second, statuses = made(config(table={"path": str(tmp_path / "copy.csv")}))
    assert set(redone(statuses)) <= {"table"}
    assert contents(second.folder.stage("release")) == contents(begun.folder.stage("release"))


def test_another_version_of_the_code_redoes_everything(
    config: Config, begun: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = made(config())
    for module in ("build", "stage"):
        monkeypatch.setattr(f"sdc.stages.{module}.code_digest", lambda: "0" * 64)
    second, statuses = made(config())
    assert redone(statuses) == NAMES
    assert second.folder.path != first.folder.path
    assert contents(second.folder.stage("release")) == contents(first.folder.stage("release"))


def test_a_sweep_alone_is_taken_over_by_a_build(config: Config) -> None:
    build = open_build(config())
    with build.started(NAMES):
        swept = [run_stage(stage, build, IN_PROCESS, lambda text: None) for stage in SWEEP]
    assert [record.status for record in swept] == ["done", "done"]
    assert_nothing_published(build)
    assert redone(made(config())[1]) == NAMES[2:]


# Annealing, and the curve


ANNEALED = {"method": "decomposable", "annealing": {"steps": 2000, "rounds": 5, "patience": 0, "chains": 2}}
BEST = {**ANNEALED, "method": "best"}


def test_a_decomposable_build(config: Config) -> None:
    """REFERENCE section 2: 48 sub-tables with the total, at the width 10; its graph, trace and utility are kept."""
    build, statuses = made(config(release=ANNEALED))
    found = build.made.found
    assert statuses == dict.fromkeys(NAMES, "done")
    assert found.release.sub_tables_with_total(build.made.table.schema) == 48
    assert found.graph is not None
    assert found.graph.release == found.release
    assert [(row.round, row.chain, row.step) for row in found.trace[:3]] == [(0, 0, 400), (0, 1, 400), (1, 0, 800)]
    assert len(found.trace) == 10
    assert (found.steps, found.reason) == ((), None)
    assert json.loads((build.folder.stage("confidential") / "utility.json").read_text())["converged"] is True
    assert json.loads((build.folder.stage("assessment") / "assessment.json").read_text())["min_width"] == [10, 10]
    assert not build.folder.checkpoint("search").exists()


def test_the_best_of_both(config: Config, finished: Path) -> None:
    build, _ = made(config(release=BEST))
    assert build.made.found.reason == "Both methods end at the same release, of utility 59."
    assert contents(build.folder.stage("release")) == contents(finished)
    assert "Both methods end at the same release" in (build.folder.stage("confidential") / "report.html").read_text()


SETTINGS_WORDS = (
    *("small_count", "min_width", "width", "at_risk", "at risk", "undecided", "policy", "refuse", "outer", "seconds"),
    *("method", "ordered", "decomposable", "best", "annealing", "seed", "chains", "rounds", "weights", "utility"),
    *("curve", "structural", "918273645", "271828"),
)


def test_a_release_tells_no_setting(config: Config, finished: Path) -> None:
    """Other settings that end at the same release give the same bytes, and no word of them, in Parquet neither."""
    annealing = {**ANNEALED["annealing"], "seed": 918273645}
    release = {"method": "best", "annealing": annealing, "refute_cells": 0, "seconds": 271828.0}
    build, _ = made(config(release=release, risk={"small_count": 1, "min_width": 9, "undecided": "outer"}))
    published = contents(build.folder.stage("release"))
    assert published == contents(finished)
    folder = build.folder.stage("release")
    told = [*published, *(content.decode("latin-1") for content in said(folder).values())]
    for parquet in map(ParquetFile, sorted(build.folder.stage("release").glob("*.parquet"))):
        told.append(str([parquet.metadata.to_dict(), parquet.schema_arrow.metadata, parquet.read().to_pydict()]))
    assert [word for word in SETTINGS_WORDS if word in "\n".join(told).lower()] == []


def test_a_curve_is_a_stage_before_the_report(config: Config, finished: Path) -> None:
    curve = {"min_width": [6, 10, 11], "small_count": [1, 2], "methods": ["ordered", "decomposable"]}
    settings = {"steps": 2000, "chains": 2}
    build, statuses = made(config(release={"annealing": settings}, curve=curve))
    assert statuses == dict.fromkeys([*NAMES[:4], "curve", *NAMES[4:]], "done")
    points = {
        (p.method, p.small_count, p.min_width_required): p.sub_tables for p in read_curve(build.folder.stage("curve"))
    }
    assert len(points) == 12
    assert [points["ordered", 2, 6], points["decomposable", 2, 10], points["decomposable", 2, 11]] == [59, 47, 31]
    assert contents(build.folder.stage("release")) == contents(finished)
    _, again = made(config(release={"annealing": settings}, curve=curve))
    assert redone(again) == []
    _, wider = made(config(release={"annealing": settings}, curve={**curve, "min_width": [6]}))
    assert redone(wider) == ["curve", "confidential"]
    _, none = made(config(release={"annealing": settings}))
    assert redone(none) == ["confidential"]


LIMIT = {"threshold": 0.006, "max_above": 0.0, "max_probability": 0.006}


def test_a_limit_on_the_posterior(config: Config) -> None:
    """Without it 47 sub-tables go out, and the second at-risk cell has its true count at 0.0106."""
    build, _ = made(config(release=ANNEALED, risk={"posterior": LIMIT}))
    assessed, _ = read_assessment(build.folder.stage("assessment"), build.made.table, 2)
    likely = assessed.likely
    assert likely is not None
    own = posterior(build.made.table, build.made.found.release).cells.at_truth
    assert (likely.is_kept, likely.above, likely.cells, likely.highest) == (
        True,
        0,
        3,
        pytest.approx(own.max(), abs=1e-9),
    )
    # from a graph that makes less likely than the one-way sub-tables alone, with 0.0314
    assert 6 < build.made.found.release.sub_tables(build.made.table.schema) < 47
    assert own.max() <= 0.006
    page = (build.folder.stage("confidential") / "report.html").read_text()
    assert "keeps a limit on what it makes likely: under the law released 0 of 3 at-risk cells" in page
    published = contents(build.folder.stage("release"))
    assert not [name for name, content in published.items() if b"likely" in content or b"0.006" in content]
    # a limit that nothing breaks changes nothing but what is said of it
    free, _ = made(config(release=ANNEALED))
    loose, _ = made(config(release=ANNEALED, risk={"posterior": {"max_probability": 0.9}}))
    assert contents(loose.folder.stage("release")) == contents(free.folder.stage("release"))


def test_verification_judges_the_limit_too(config: Config, tmp_path: Path) -> None:
    """The release of a looser limit under a manifest with a stricter one: all is recorded as it is, and it fails."""
    loose, _ = made(config(release=ANNEALED, risk={"posterior": {"threshold": 0.005, "max_above": 0.5}}))
    found = verify(loose.folder.path)
    assert (found.failures, found.notes) == ((), ("1 of 3 true counts have a probability above 0.005",))
    shutil.copytree(loose.folder.path, tmp_path / "copied")
    manifest = json.loads((tmp_path / "copied" / "manifest.json").read_text())
    for stricter, failure in (
        ({"max_above": 0.3}, "1 true counts are above 0.005, more than 0.3 of all"),
        ({"max_probability": 0.01}, "a true count is more probable than 0.01"),
        ({"threshold": 0.5}, "claims above = 1 of what is likely, it is 0"),
        ({"law": "uniform"}, "the limit on the posterior is of the law uniform, not released"),
    ):
        risk = manifest["config"]["risk"]
        changed = {**risk, "posterior": {**risk["posterior"], **stricter}}
        write_json(
            tmp_path / "copied" / "manifest.json", {**manifest, "config": {**manifest["config"], "risk": changed}}
        )
        assert [what for what in verify(tmp_path / "copied").failures if failure in what], failure


LOSSES = {"intruder": {"none": 0.72}, "agency": {"right": 1.0, "wrong": 0.25}}
"""Of who claims what is more probable than 0.28."""


def test_a_limit_on_losses(config: Config) -> None:
    """Of the release without it he claims something of two cells of three, and is wrong."""
    loose, _ = made(config(release=ANNEALED, risk={"posterior": {"losses": LOSSES, "max_loss": 0.17}}))
    free, _ = made(config(release=ANNEALED))
    assert contents(loose.folder.stage("release")) == contents(free.folder.stage("release"))
    likely = read_assessment(loose.folder.stage("assessment"), loose.made.table, 2)[0].likely
    assert likely is not None
    assert likely.claims == Claims(0, 2, 3)
    assert likely.loss == pytest.approx(0.5 / 3)
    strict, _ = made(config(release=ANNEALED, risk={"posterior": {"losses": LOSSES, "max_loss": 0.1}}))
    own = posterior(strict.made.table, strict.made.found.release).cells
    assert (own.most_likely[0] != own.counts).all()
    assert (own.most_likely[1] > 0.28).sum() <= 1
    page = (strict.folder.stage("confidential") / "report.html").read_text()
    assert re.search(r"0 right and [01] wrong claims cost 0\.\d+ a cell \(at most 0\.1 allowed\)", page)


def test_verification_judges_losses_too(config: Config, tmp_path: Path) -> None:
    loose, _ = made(config(release=ANNEALED, risk={"posterior": {"losses": LOSSES, "max_loss": 0.2}}))
    assert verify(loose.folder.path).failures == ()
    shutil.copytree(loose.folder.path, tmp_path / "copied")
    manifest = json.loads((tmp_path / "copied" / "manifest.json").read_text())
    harmless = {"intruder": {"none": 0.72, "wrong": 1.0}, "agency": {"right": 1.0, "wrong": 0.0}}
    for stricter, failure in (
        ({"max_loss": 0.16}, "claims cost 0.5, more than 0.16 a cell"),
        ({"losses": harmless}, "of what is likely, it is {'right': 0, 'wrong': None, 'cells': 3}"),
    ):
        risk = manifest["config"]["risk"]
        changed = {**risk, "posterior": {**risk["posterior"], **stricter}}
        content = {**manifest, "config": {**manifest["config"], "risk": changed}}
        write_json(tmp_path / "copied" / "manifest.json", content)
        assert [what for what in verify(tmp_path / "copied").failures if failure in what], failure


def test_the_last_verification_relies_on_no_judge_of_losses(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PosteriorLimit, "keeps_losses", lambda *of: True)
    file = config(release=ANNEALED, risk={"posterior": {"losses": LOSSES, "max_loss": 0.1}})
    with pytest.raises(ReleaseError, match=r"release: claims cost 0.5, more than 0.1 a cell; "):
        made(file)
    assert_nothing_published(open_build(file))


def test_the_last_verification_relies_on_no_judge_of_the_limit(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that finds every release within the limit: nothing is published all the same."""
    monkeypatch.setattr(PosteriorLimit, "keeps", lambda *of: True)
    file = config(release=ANNEALED, risk={"posterior": {"max_probability": 0.01}})
    with pytest.raises(ReleaseError, match=r"release: a true count is more probable than 0.01; "):
        made(file)
    assert_nothing_published(open_build(file))


def test_the_gate_judges_the_limit(config: Config) -> None:
    """Whatever an assessment says: cells are wide enough, and one true count is too probable."""
    build, _ = made(config(release=ANNEALED))
    certificate = read_certificate(build.folder.stage("assessment"), build.made.table.schema)
    strict = Criteria.of(2, 6, PosteriorLimit(max_probability=0.01))
    with pytest.raises(ReleaseError, match=r"makes too much likely: .* has 0.0106 \(at most 0.01 allowed\); nothing"):
        clear(build.made.table, build.made.known, certificate, strict, Policy.REFUSE)
    loose = Criteria.of(2, 6, PosteriorLimit(max_probability=0.02))
    cleared = clear(build.made.table, build.made.known, certificate, loose, Policy.REFUSE)
    with pytest.raises(
        ReleaseError, match=r"of another limit on the posterior: .*max_probability=0.02.*, asked is None"
    ):
        cleared.require(build.subject)


def test_a_release_that_is_worth_too_little(config: Config, finished: Path, begun: Build) -> None:
    """59 sub-tables are found; of those that ask for more nothing is published, and what was out before is not left."""
    met, statuses = made(config(release={"at_least": {"sub_tables": 59, "degrees_of_freedom": 59}}))
    assert redone(statuses) == ["confidential", "release"]
    assert contents(met.folder.stage("release")) == contents(finished)
    file = config(release={"at_least": {"sub_tables": 60, "weighted": 59.5, "cells": 1}})
    with pytest.raises(
        NotReleasableError,
        match=r"worth less than release.at_least asks: sub_tables = 59, asked 60; weighted = 59, asked 59.5; ask for "
        r"less, .*; nothing is published, see .*report.html",
    ):
        made(file)
    assert_nothing_published(open_build(file))
    assert (open_build(file).folder.stage("confidential") / "report.html").is_file()


def test_a_reconstruction_that_is_near_enough(config: Config, begun: Build) -> None:
    """With the 59 sub-tables the error is halved ten times and a half."""
    with pytest.raises(NotReleasableError, match=r"release.at_least asks: halvings = 10\.59\d+, asked 12;"):
        made(config(release={"at_least": {"halvings": 12.0}}))
    made(config(release={"at_least": {"halvings": 10.0}}))


def test_requests_that_are_served(config: Config, begun: Build) -> None:
    demand = {"A*B": 3, "A*B*C*D*E*F": 1}
    with pytest.raises(NotReleasableError, match=r"requests_served = 0.75, asked 0.8"):
        made(config(release={"demand": demand, "at_least": {"requests_served": 0.8}}))
    made(config(release={"demand": demand, "at_least": {"requests_served": 0.75}}))


def test_an_n_rule(config: Config, tmp_path: Path) -> None:
    """What goes out has no count below it; under a stricter one all that is recorded as it is fails."""
    build, _ = made(config(risk={"n_rule": 10}))
    table, release = build.made.table, build.made.found.release
    assert min(table.least_count(t) for t in release.frontier) == 10
    assert release.sub_tables(table.schema) == 56
    found = verify(build.folder.path)
    assert (found.failures, found.uncertified) == ((), ())
    page = (build.folder.stage("confidential") / "report.html").read_text()
    assert "No published count is from 1 to 9." in page
    assert "Every sub-table that is public, whole or in part, keeps the rules on what is published." in page
    shutil.copytree(build.folder.path, tmp_path / "copied")
    manifest = json.loads((tmp_path / "copied" / "manifest.json").read_text())
    manifest["config"]["risk"]["n_rule"] = 11
    write_json(tmp_path / "copied" / "manifest.json", manifest)
    failures = verify(tmp_path / "copied").failures
    assert [what for what in failures if "has a count from 1 to 10, which the n-rule excludes" in what]
    assert [what for what in failures if "claims releasable = True, it is False" in what]
    certificate = read_certificate(build.folder.stage("assessment"), table.schema)
    with pytest.raises(NotReleasableError, match=r"has a count from 1 to 10, which the n-rule of 11 excludes; nothing"):
        clear(table, build.made.known, certificate, Criteria.of(2, 6, n_rule=11), Policy.REFUSE)
    cleared = clear(table, build.made.known, certificate, Criteria.of(2, 6, n_rule=9), Policy.REFUSE)
    with pytest.raises(ReleaseError, match="of another n_rule: 9, asked is 10"):
        cleared.require(build.subject)


def test_the_last_verification_relies_on_no_judge_of_the_n_rule(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that finds every count large enough: nothing is published all the same."""
    monkeypatch.setattr(NRule, "keeps", lambda *of: True)
    file = config(risk={"n_rule": 10})
    with pytest.raises(ReleaseError, match="has a count from 1 to 9, which the n-rule excludes"):
        made(file)
    assert_nothing_published(open_build(file))


def test_an_n_rule_that_not_even_the_total_keeps(config: Config) -> None:
    file = config(risk={"n_rule": 2_000})
    with pytest.raises(NothingReleasableError, match="has 1841 records, and the n-rule of 2000") as refused:
        made(file)
    assert status_of(refused.value) == NOT_RELEASABLE
    assert_nothing_published(open_build(file))


def test_an_n_rule_in_part(config: Config, tmp_path: Path) -> None:
    """Counts that are not small are withheld too; the verifier looks at those that are shown."""
    names = ["A*B*C*D*F"]
    build, _ = made(config(release={"require": names, "in_part": [{"of": names[0]}]}, risk={"n_rule": 8}))
    (part,) = build.made.found.parts.tables
    counts = build.made.table.marginal(part.view).dense.reshape(-1)
    shown = np.delete(counts, part.places(build.made.table.schema))
    assert not ((shown > 0) & (shown < 8)).any()
    assert ((counts > 2) & (counts < 8)).any()
    assert verify(build.folder.path).failures == ()
    least = int(shown[shown > 0].min())
    shutil.copytree(build.folder.path, tmp_path / "copied")
    manifest = json.loads((tmp_path / "copied" / "manifest.json").read_text())
    manifest["config"]["risk"]["n_rule"] = least + 1
    write_json(tmp_path / "copied" / "manifest.json", manifest)
    failures = verify(tmp_path / "copied").failures
    assert [what for what in failures if f"A*B*C*D*F has a count from 1 to {least}, which" in what]


@pytest.fixture
def sensitive(tmp_path: Path) -> Path:
    """Records of which 6 that have a1 and b0 all have c0, and 9 that have a2 and b0."""
    cells = np.array([*product(range(3), range(2), range(2))])
    counts = np.array([7, 8, 30, 40, 6, 0, 20, 30, 9, 0, 50, 60])
    rows = [
        ",".join(("abc"[v] + str(code)) for v, code in enumerate(cell)) for cell in np.repeat(cells, counts, axis=0)
    ]
    (tmp_path / "records.csv").write_text("\n".join(["a,b,c", *rows]) + "\n")
    return tmp_path / "records.csv"


def test_a_rule_on_sensitive_variables(config: Config, sensitive: Path, tmp_path: Path) -> None:
    """What goes out tells nothing of a group; under a stricter rule all that is recorded as it is fails."""
    asked = {"table": {"path": str(sensitive), "categories": {}}, "labels": {"variables": {}}}
    build, _ = made(config(**asked, risk={"min_width": 2, "attributes": {"sensitive": ["c"], "most": 5}}))
    assert build.made.found.release == Release.of([0b111])
    assert verify(build.folder.path).failures == ()
    page = (build.folder.stage("confidential") / "report.html").read_text()
    assert "Of no published group of at most 5 records is it told that none is in some category of c." in page
    shutil.copytree(build.folder.path, tmp_path / "copied")
    manifest = json.loads((tmp_path / "copied" / "manifest.json").read_text())
    manifest["config"]["risk"]["attributes"]["most"] = 6
    write_json(tmp_path / "copied" / "manifest.json", manifest)
    failures = verify(tmp_path / "copied").failures
    assert [what for what in failures if "a*b*c tells of a group of at most 6 records what is sensitive" in what]
    stricter, _ = made(config(**asked, risk={"min_width": 2, "attributes": {"sensitive": ["c"], "most": 6}}))
    assert stricter.made.found.release == Release.of([0b011, 0b101, 0b110])


def test_the_last_verification_relies_on_no_judge_of_sensitive_variables(
    config: Config, sensitive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that finds nothing told: nothing is published all the same."""
    monkeypatch.setattr(Attributes, "keeps", lambda *of: True)
    asked = {"sensitive": ["c"], "most": 9}
    file = config(
        table={"path": str(sensitive), "categories": {}},
        labels={"variables": {}},
        risk={"min_width": 1, "attributes": asked},
    )
    with pytest.raises(ReleaseError, match="tells of a group of at most 9 records what is sensitive"):
        made(file)
    assert_nothing_published(open_build(file))


def test_a_sensitive_variable_that_the_table_does_not_have(config: Config) -> None:
    file = config(risk={"attributes": {"sensitive": ["income"], "most": 3}})
    with pytest.raises(
        ConfigError, match=r"risk\.attributes\.sensitive: unknown variable 'income'; the table has A, B, C"
    ):
        made(file)
    assert_nothing_published(open_build(file))


def test_a_curve_under_limits(config: Config) -> None:
    """No more sub-tables under a stricter limit; the largest release is that of none."""
    curve = {"min_width": [6], "methods": ["decomposable"], "max_above": [0.0, 0.4], "threshold": 0.006}
    annealing = {**ANNEALED["annealing"], "chains": 1}
    build, _ = made(config(release={"annealing": annealing}, curve=curve))
    points = read_likely_curve(build.folder.stage("curve"))
    assert [point.max_above for point in points] == [0.0, 0.4, None]
    assert 6 < points[0].sub_tables < points[1].sub_tables == points[2].sub_tables == 47
    assert [point.above for point in points] == [0.0, 1 / 3, 1 / 3]
    page = (build.folder.stage("confidential") / "report.html").read_text()
    assert 'id="likely-curve"' in page
    strict = {**curve, "max_above": [0.0], "threshold": 1e-6}
    build, _ = made(config(release={"annealing": annealing}, curve=strict))
    points = read_likely_curve(build.folder.stage("curve"))
    assert (points[0].sub_tables, points[1].sub_tables) == (0, 47)
    assert points[0].reason is not None
    assert points[0].reason.startswith("the graph [A] [B] [C] [D] [E] [F], from which the search starts, makes")
    assert points[0].reason.endswith("no graph kept it; give a start that does, or allow more")


def test_a_simulatable_build(config: Config) -> None:
    """What refusals tell is nothing: and what that costs is said."""
    build, _ = made(config(release={"method": "simulatable", "simulatable": {"draws": 10}}))
    found = build.made.found
    accepted = Release.of(step.added for step in found.simulated if step.accepted)
    assert (found.release, found.release.sub_tables(build.made.table.schema)) == (accepted, 39)
    assert not all(step.accepted for step in found.simulated)
    page = (build.folder.stage("confidential") / "report.html").read_text()
    assert "cost 20 sub-tables: the ordered search" in page
    assert 'id="simulated"' in page
    _, statuses = made(
        config(release={"method": "simulatable", "simulatable": {"draws": 10}, "annealing": {"steps": 9}})
    )
    assert redone(statuses) == ["confidential"]
    _, statuses = made(config(release={"method": "simulatable", "simulatable": {"draws": 10, "seed": 1}}))
    assert "search" in redone(statuses)
    assert verify(build.folder.path).verified


def test_remedies_are_a_stage_before_the_report(config: Config, finished: Path, begun: Build) -> None:
    """They can be asked for afterwards: what was found stays, and the release too."""
    build, statuses = made(config(remedies={"variables": 6}))
    assert redone(statuses) == ["remedies", "confidential"]
    tried = read_remedies(build.folder.stage("remedies"), build.made.table.schema)
    assert tried
    assert all(remedy.recode.leaves_out for remedy in tried)  # all variables have two categories
    stopped = {t for _, sub_tables in blockers(build.made.found.steps) for t in sub_tables}
    assert stopped
    for remedy in tried:
        assert set(remedy.asked) == {t for t in stopped if not st.has(t, remedy.recode.variable)}
        assert set(remedy.freed) <= set(remedy.asked)
        assert remedy.lost == sum(st.has(t, remedy.recode.variable) for t in range(64) if t in build.made.found.release)
    page = (build.folder.stage("confidential") / "report.html").read_text()
    assert 'id="remedies"' in page
    assert "the next run tries that" not in page
    assert contents(build.folder.stage("release")) == contents(finished)
    _, none = made(config())
    assert "remedies" not in none


def test_what_is_refused_is_offered_at_coarser_levels(tmp_path: Path) -> None:
    """Places in regions: the report has what to require instead of a table by place that may not go out."""
    rows = ["region,place,sex,ill,count"]
    for place, (region, counts) in enumerate([("n", [9, 8, 1, 9]), ("n", [9, 9, 9, 9]), ("s", [9, 9, 9, 9])]):
        cells = zip(("f", "f", "m", "m"), ("no", "yes", "no", "yes"), counts, strict=True)
        rows += [f"{region},{region}{place},{sex},{ill},{count}" for sex, ill, count in cells]
    (tmp_path / "table.csv").write_text("\n".join(rows) + "\n")
    content = {"name": "t", "table": {"path": "table.csv", "hierarchies": {"place": ["region", "place"]}}}
    content |= {"risk": {"min_width": 9, "small_count": 2}, "remedies": {}, "execution": {"cluster": "in-process"}}
    content |= {"release": {"require": ["place*sex*ill"], "conflicts": "best_subset"}}
    content |= {"output": {"folder": str(tmp_path / "runs")}}
    (tmp_path / "build.yaml").write_text(yaml.safe_dump(content))
    build, _ = made(tmp_path / "build.yaml")
    rows_of = json.loads((build.folder.stage("remedies") / "redesigns.json").read_text())["redesigns"]
    (asked,) = [row for row in rows_of if row["sub_table"] == ["place", "sex", "ill"]]
    page = (build.folder.stage("confidential") / "report.html").read_text()
    assert 'id="redesigns"' in page
    for one in asked["instead"]:
        assert "*".join(one["sub_table"]) in page
    (coarser,) = [one for one in asked["instead"] if "in_part" not in one["config"]]
    assert yaml.safe_load(coarser["config"])["release"]["require"] == ["*".join(coarser["sub_table"])]


def test_what_is_likely_is_a_stage_before_the_report(config: Config, finished: Path, begun: Build) -> None:
    """It can be asked for afterwards: what was found stays, and the release too."""
    asked = {"laws": ["released", "saturated", "[A,B][B,C]"], "alpha": [0.5, 1.0], "threshold": 0.4}
    build, statuses = made(config(posterior=asked))
    assert redone(statuses) == ["posterior", "confidential"]
    found = read_posteriors(build.folder.stage("posterior"))
    labels = ["released", "saturated, alpha 0.5", "saturated, alpha 1", "[A,B][B,C], alpha 0.5", "[A,B][B,C], alpha 1"]
    assert [summary.label for summary in found] == labels
    for summary in found:
        own = posterior(build.made.table, build.made.found.release, law=summary.law, alpha=summary.alpha or 0.5)
        assert summary.feasible_tables == own.feasible_tables == 810
        assert summary.at_truth.tolist() == own.cells.at_truth.tolist()
        assert summary.disclosing.tolist() == own.groups.probabilities(own.cells).tolist()
        assert summary.above(0.4) == (own.cells.at_truth > 0.4).mean()
        assert summary.identified(0.4) <= summary.above(0.4)
    page = (build.folder.stage("confidential") / "report.html").read_text()
    assert 'id="likely-cells"' in page
    assert contents(build.folder.stage("release")) == contents(finished)
    _, statuses = made(config(posterior={**asked, "threshold": 0.2}))
    assert redone(statuses) == ["confidential"]
    _, statuses = made(config(posterior={**asked, "share": 0.8}))
    assert redone(statuses) == ["posterior", "confidential"]
    _, none = made(config())
    assert "posterior" not in none


def test_measures_side_by_side(config: Config, finished: Path, begun: Build) -> None:
    """Of the 810 tables that agree all are alike under the law uniform; beside it the one-way tables, and the total."""
    losses = {"intruder": {"none": 0.9}, "agency": {"right": 1.0, "wrong": 0.5}}
    build, _ = made(config(posterior={"laws": ["uniform"], "threshold": 0.1, "losses": losses}))
    document = json.loads((build.folder.stage("confidential") / "measures.json").read_text())
    own, one_way, nothing = document["releases"]
    cells = posterior(build.made.table, build.made.found.release, law="uniform").cells
    is_claimed, is_true = cells.most_likely[1] > 0.1, cells.at_truth >= cells.most_likely[1] - 1e-9
    assert own == {
        "release": "this release",
        "sub_tables": 59,
        "at_risk_cells": 3,
        "bounds_are_sharp": True,
        "known_by_bounds": 0,
        "total_width": 28,
        "mean_width": pytest.approx(28 / 3),
        "feasible_tables": 810,
        "log_probability_if_uniform": pytest.approx(-np.log(810)),
        "law": "uniform",
        "reason": None,
        "sampled": False,
        "log_probability_of_true_table": pytest.approx(-np.log(810)),
        "entropy": pytest.approx(np.log(810)),
        "identified": pytest.approx((is_claimed & is_true).mean()),
        "disclosure_risk": pytest.approx(((is_claimed & is_true) + 0.5 * (is_claimed & ~is_true)).mean()),
    }
    by_hand = posterior(build.made.table, list("ABCDEF")).cells
    assert (one_way["release"], one_way["sub_tables"], one_way["law"]) == ("one-way sub-tables", 6, "released")
    assert one_way["identified"] == 0
    assert one_way["disclosure_risk"] == pytest.approx(0.5 * (by_hand.most_likely[1] > 0.1).mean())
    assert (nothing["sub_tables"], nothing["total_width"], nothing["disclosure_risk"]) == (0, 3 * 1841, 0)
    assert own["entropy"] < one_way["entropy"] < nothing["entropy"]
    page = (build.folder.stage("confidential") / "report.html").read_text()
    measures = page[page.index('<table id="side-by-side">') :]
    for figure in ('total width of their bounds</th><td class="n">28</td>', ">6.70<", ">5,523<"):
        assert figure in measures[: measures.index("</table>")]
    _, statuses = made(config(posterior={"laws": ["uniform"], "threshold": 0.1}))
    assert redone(statuses) == ["confidential"]


def test_laws_are_kept_one_by_one(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """A build that ends while it samples goes on after the last whole law, to the same bytes."""
    asked = {"laws": ["released", "saturated"], "alpha": [0.5, 1.0]}
    whole, _ = made(config(posterior=asked))
    expected = contents(whole.folder.stage("posterior"))
    shutil.rmtree(whole.folder.path)
    found, own = list[str](), laws_of_stage.posterior

    def counted(*of: Any) -> Any:
        if len(found) == 2:
            found.append("killed")
            raise KeyboardInterrupt
        found.append(of[2].name)
        return own(*of)

    monkeypatch.setattr(laws_of_stage, "posterior", counted)
    with pytest.raises(KeyboardInterrupt):
        made(config(posterior=asked))
    build, _ = made(config(posterior=asked))
    assert found == ["released", "saturated", "killed", "saturated"]
    assert contents(build.folder.stage("posterior")) == expected
    assert not build.folder.checkpoint("posterior").exists()


@pytest.mark.slow
def test_what_refusals_tell_of_the_czech_table(config: Config) -> None:
    """Of the 810 tables that agree with the release 744 lead to it; each is built again by what makes a build."""
    build, _ = made(config(posterior={"refusals": 1000}))
    found = read_refusals(build.folder.stage("posterior"))
    assert (found.feasible_tables, found.alike, found.reason) == (810, 744, None)
    assert found.possible.tolist() == found.left.tolist() == [[0, 10], [0, 9], [0, 9]]
    page = (build.folder.stage("confidential") / "report.html").read_text()
    assert "Of the 810 that agree with it 744 lead to it" in page
    build, statuses = made(config(posterior={"refusals": 809}))
    assert redone(statuses) == ["posterior", "confidential"]
    reason = "more than 809 tables agree with the release, and no more are built again"
    assert read_refusals(build.folder.stage("posterior")).reason == reason


def test_what_refusals_tell(config: Config, tmp_path: Path) -> None:
    """Of the 52 tables that agree with the release 35 lead to it; each is built again by what makes a build."""
    write_csv(tmp_path / "t.csv", table_columns(NARROWED))
    small = {"table": {"path": str(tmp_path / "t.csv"), "categories": {}}, "risk": {"min_width": 3}}
    build, _ = made(config(posterior={"refusals": 1000}, **small))
    found = read_refusals(build.folder.stage("posterior"))
    assert (found.feasible_tables, found.alike, found.reason) == (52, 35, None)
    assert (found.possible.tolist(), found.left.tolist()) == ([[0, 5]], [[0, 4]])
    page = (build.folder.stage("confidential") / "report.html").read_text()
    assert "Of the 52 that agree with it 35 lead to it" in page
    build, statuses = made(config(posterior={"refusals": 51}, **small))
    assert redone(statuses) == ["posterior", "confidential"]
    reason = "more than 51 tables agree with the release, and no more are built again"
    assert read_refusals(build.folder.stage("posterior")).reason == reason


NARROWED = dense(schema_of([2, 2, 2]), [0, 2, 3, 0, 3, 3, 4, 5])
NOTHING_KNOWN = knows(NARROWED, NOTHING)
SETTINGS = SearchSettings(Criteria.of(2, 3), Policy.REFUSE, ALL_WIDTHS)


def test_refusals_narrow_what_is_left() -> None:
    """Beside a plain loop over the feasible tables: some lead elsewhere, and some have no at-risk cell at all."""
    table, found = NARROWED, find_release(NARROWED, NOTHING, "ordered", min_width=3)
    told = refusals(table, NOTHING_KNOWN, SETTINGS, "ordered", found.release, 1000)
    alike = []
    for counts in feasible_tables(table, knows(table, found.release)):
        other = dense(table.schema, counts.reshape(-1).tolist())
        with suppress(InputError, ReleaseError):
            if find_release(other, NOTHING, "ordered", min_width=3).release == found.release:
                alike.append(counts.reshape(-1))
    assert (told.feasible_tables, told.alike, len(alike)) == (52, 35, 35)
    assert (told.possible.tolist(), told.left.tolist()) == ([[0, 5]], [[0, 4]])
    rows = table.schema.keys.pack(table.codes[table.at_risk(2)])
    kept = np.array(alike)[:, rows]
    assert told.left.tolist() == np.stack([kept.min(axis=0), kept.max(axis=0)], axis=1).tolist()
    assert told.at_truth == pytest.approx((kept == table.counts[table.at_risk(2)]).mean(axis=0))


def test_of_some_tables_nothing_may_be_released() -> None:
    """Three records of A = 0 are in one cell not at risk, and as 2 and 1 keep no width of 4: no fault of settings."""
    table = dense(schema_of([3, 2]), [3, 0, 1, 4, 5, 3])
    found = find_release(table, NOTHING, "decomposable", min_width=4, steps=200, chains=2)
    release = ReleaseConfig(annealing=AnnealingConfig(steps=200, chains=2))
    settings = replace(SETTINGS, criteria=Criteria.of(2, 4), release=release)
    told = refusals(table, knows(table, NOTHING), settings, "decomposable", found.release, 1000)
    alike = [
        counts
        for counts in feasible_tables(table, knows(table, found.release))
        if counts[0, 0] in (0, 3) and ((counts > 0) & (counts <= 2)).any()
    ]
    assert (told.feasible_tables, told.alike) == (23, len(alike))


def test_a_fault_of_the_settings_is_none_of_the_tables() -> None:
    found = find_release(NARROWED, NOTHING, "ordered", min_width=3)
    with pytest.raises(ReleaseError, match="critical widths are known from the floor 4 on, the minimum width is 3"):
        refusals(NARROWED, NOTHING_KNOWN, replace(SETTINGS, listing=Listing(4)), "ordered", found.release, 1000)
    release = ReleaseConfig(annealing=AnnealingConfig(start="[A,Z]"))
    with pytest.raises(InputError, match="unknown variable 'Z'"):
        refusals(NARROWED, NOTHING_KNOWN, replace(SETTINGS, release=release), "ordered", found.release, 1000)


def test_refusals_are_of_a_release_that_the_settings_make() -> None:
    """Of another release the true table is not among those that lead to it."""
    with pytest.raises(RuntimeError, match="lead to it, and the true table is not among them"):
        refusals(NARROWED, NOTHING_KNOWN, SETTINGS, "ordered", Release.of([0b111]), 1000)


def test_a_law_of_other_variables_is_refused_before_the_search(config: Config) -> None:
    with pytest.raises(ConfigError, match=r"posterior.laws = \['\[A,Z\]'\]: unknown variable 'Z'"):
        made(config(posterior={"laws": ["[A,Z]"]}))


def test_a_model_of_other_variables_is_refused_before_the_search(config: Config) -> None:
    with pytest.raises(ConfigError, match=r"uniques.model = '\[A,Z\]': unknown variable 'Z'"):
        made(config(uniques={"fraction": 0.5, "model": "[A,Z]"}))


def test_sample_uniques_are_a_stage_before_the_report(config: Config, finished: Path, begun: Build) -> None:
    """It can be asked for afterwards: what was found stays, and the release too."""
    build, statuses = made(config(uniques={"fraction": 0.05}))
    assert redone(statuses) == ["uniques", "confidential"]
    assert contents(build.folder.stage("release")) == contents(finished)
    table, folder = build.made.table, build.folder.stage("uniques")
    found, own = read_uniques(folder, table), uniques(table, fraction=0.05)
    assert isinstance(found, Uniques)
    assert [getattr(found, one.name) for one in fields(Uniques)][4:] == [
        getattr(own, one.name) for one in fields(Uniques)
    ][4:]
    assert (found.cells.tolist(), found.alone.tolist()) == (own.cells.tolist(), own.alone.tolist())
    assert (found.matched.tolist(), found.expected.tolist()) == (own.matched.tolist(), own.expected.tolist())
    page = (build.folder.stage("confidential") / "report.html").read_text()
    assert 'id="unique-cells"' in page
    assert f"{100 * own.intrusion:.2f} % from 1 cells of one record and {own.twos} of two" in page
    build, statuses = made(config(uniques={"fraction": 0.05, "model": "released"}))
    assert redone(statuses) == ["uniques", "confidential"]
    released = read_uniques(build.folder.stage("uniques"), table)
    own = uniques(table, build.made.found.release, fraction=0.05, model="released")
    assert isinstance(released, Uniques)
    assert released.alone.tolist() == own.alone.tolist()
    _, none = made(config())
    assert "uniques" not in none


def test_the_report_says_why_uniques_are_not_known(config: Config, tmp_path: Path) -> None:
    """Two records wherever there was one: nobody is alone, and all else goes on."""
    twice = tmp_path / "twice.csv"
    twice.write_text(re.sub(r",1$", ",2", CZECH_CSV.read_text(), flags=re.MULTILINE))
    build, _ = made(config(table={"path": str(twice)}, uniques={"fraction": 0.05}))
    reason = "no cell has one record; there is no sample unique"
    assert read_uniques(build.folder.stage("uniques"), build.made.table) == reason
    assert reason in (build.folder.stage("confidential") / "report.html").read_text()


def test_a_change_of_annealing_redoes_the_search_not_the_widths(config: Config) -> None:
    made(config(release=ANNEALED))
    annealing = {**ANNEALED["annealing"], "seed": 3}
    _, statuses = made(config(release={**ANNEALED, "annealing": annealing}))
    assert redone(statuses)[0] == "search"
    assert (statuses["table"], statuses["widths"]) == ("reused", "reused")


@pytest.mark.parametrize(
    "release", [ANNEALED, BEST, {**ANNEALED, "annealing": {**ANNEALED["annealing"], "tempering": True}}]
)
def test_a_search_that_is_interrupted_goes_on_from_its_last_round(
    release: dict[str, Any], config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After round 3 of 5 the build fails; what it then makes is, byte for byte, what it would have made at once."""
    whole, _ = made(config(release=release))
    expected = contents(whole.folder.stage("search"))
    shutil.rmtree(whole.folder.path)
    said: list[str] = []

    def fail_after_three(line: str) -> None:
        said.append(line)
        if "annealing round 3" in line:
            raise RuntimeError("struck")

    with pytest.raises(RuntimeError, match="struck"):
        run_all(open_build(config(release=release)), IN_PROCESS, fail_after_three)
    assert whole.folder.checkpoint("search").is_file()
    said.clear()
    build = open_build(config(release=release))
    run_all(build, IN_PROCESS, said.append)
    assert [line.split(":")[1] for line in said if "annealing round" in line] == [
        " annealing round 4",
        " annealing round 5",
    ]
    assert contents(build.folder.stage("search")) == expected
    assert not build.folder.checkpoint("search").exists()


def test_the_checkpoint_of_another_search_is_not_gone_on_from(config: Config) -> None:
    whole, _ = made(config(release=ANNEALED))
    expected = contents(whole.folder.stage("search"))
    other: list[SearchState] = []
    find_release(whole.made.table, NOTHING, "decomposable", min_width=30, steps=50, watch=Watch(on_round=other.append))
    write_checkpoint(other[-1], "another key", whole.folder.checkpoint("search"))
    whole.folder.discard("search")
    again, _ = made(config(release=ANNEALED))
    assert contents(again.folder.stage("search")) == expected
    assert not again.folder.checkpoint("search").exists()


KILLED_IN_A_ROUND = """
import os, signal, sys
from pathlib import Path
from sdc.bounds.enumeration import feasible_tables
from sdc.stages import stages
from sdc.stages.assemble import ALL_WIDTHS, Listing, SearchSettings, Watch
from sdc.stages.build import open_build
from sdc.api import find_release, posterior
from sdc.executor import IN_PROCESS
def say(line):
    if "annealing round 2" in line:
        os.kill(os.getpid(), signal.SIGKILL)
stages.run_all(open_build(Path(sys.argv[1])), IN_PROCESS, say)
"""


@pytest.mark.slow
def test_a_build_that_is_killed_while_it_anneals(config: Config, two_workers: Executor) -> None:
    """Killed in one process, it goes on with two workers and ends as if nothing had happened."""
    file = config(release=ANNEALED)
    whole, _ = made(file)
    expected = {name: contents(whole.folder.stage(name)) for name in ("search", "confidential")}
    shutil.rmtree(whole.folder.path)
    done = subprocess.run([sys.executable, "-c", KILLED_IN_A_ROUND, file], timeout=120)
    assert done.returncode == -signal.SIGKILL
    assert json.loads(whole.folder.checkpoint("search").read_text())["state"]["round"] == 2
    build, _ = made(file, two_workers)
    assert {name: contents(build.folder.stage(name)) for name in expected} == expected
    assert {path.name for path in build.folder.path.iterdir()} == {".lock", "log.jsonl", "manifest.json", *NAMES}


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 4])
def test_any_number_of_workers_anneals_the_same(workers: int, config: Config) -> None:
    with open_executor(ExecutionConfig(workers=workers)) as executor:
        assert_anneals_the_same(executor, config)


def test_two_workers_anneal_the_same(config: Config, two_workers: Executor) -> None:
    assert_anneals_the_same(two_workers, config)


def assert_anneals_the_same(executor: Executor, config: Config) -> None:
    alone, _ = made(config(release=BEST))
    expected = contents(alone.folder.stage("search"))
    shutil.rmtree(alone.folder.path)
    build, _ = made(config(release=BEST), executor)
    assert contents(build.folder.stage("search")) == expected


# Failures


def failing(name: str, error: BaseException, *, after: bool) -> tuple[Stage, ...]:
    """The stages, one of them raising an error before or after it wrote its files."""

    def fail(build: Build, into: Path, executor: Executor, say: Callable[[str], None]) -> None:
        if after:
            whole.make(build, into, executor, say)
        (into / "half.txt").write_text("half")
        raise error

    whole = next(stage for stage in STAGES if stage.name == name)
    return tuple(replace(stage, make=fail) if stage is whole else stage for stage in STAGES)


@pytest.mark.parametrize(
    ("name", "after"),
    [
        *((name, False) for name in NAMES),
        *(pytest.param(name, True, marks=() if name == "release" else pytest.mark.slow) for name in NAMES),
    ],
)
def test_a_stage_that_fails_publishes_nothing(
    name: str, after: bool, config: Config, finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = open_build(config())
    with monkeypatch.context() as patch:
        patch.setattr(stages, "STAGES", failing(name, RuntimeError("struck"), after=after))
        with pytest.raises(RuntimeError, match="struck"):
            run_all(build, IN_PROCESS)
    assert_nothing_published(build)
    assert list(build.folder.records()) == NAMES[: NAMES.index(name)]
    again, statuses = made(config())
    assert redone(statuses) == NAMES[NAMES.index(name) :]
    assert contents(again.folder.stage("release")) == contents(finished)


def test_a_disk_that_fills_up_is_a_refusal(begun: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    full = OSError(28, "No space left on device")
    monkeypatch.setattr(stages, "STAGES", failing("release", full, after=True))
    begun.folder.discard("release")
    with pytest.raises(RunFolderError, match=r"stage release cannot be written in .*No space left.*free the disk"):
        run_all(begun, IN_PROCESS)
    assert_nothing_published(begun)


KILLED = """
import os, signal, sys
from pathlib import Path
from sdc.bounds.enumeration import feasible_tables
from sdc.stages import release, stages
from sdc.stages.assemble import ALL_WIDTHS, Listing, SearchSettings, Watch
from sdc.stages.build import open_build
from sdc.api import find_release, posterior
from sdc.executor import IN_PROCESS
whole = release.write_publication
def write_and_die(*arguments, **settings):
    whole(*arguments, **settings)
    os.kill(os.getpid(), signal.SIGKILL)
release.write_publication = write_and_die
stages.run_all(open_build(Path(sys.argv[1])), IN_PROCESS)
"""


def test_a_killed_build_publishes_nothing_and_goes_on_where_it_was(config: Config, finished: Path) -> None:
    file = config()
    done = subprocess.run([sys.executable, "-c", KILLED, file], timeout=120)
    assert done.returncode == -signal.SIGKILL
    build = open_build(file)
    assert not build.folder.stage("release").exists()
    assert len(list(build.folder.path.glob(".release.*.unfinished"))) == 1
    _, statuses = made(file)
    assert redone(statuses) == ["release"]
    assert contents(build.folder.stage("release")) == contents(finished)
    assert not list(build.folder.path.glob(".*.unfinished"))


def test_the_report_is_the_same_wherever_and_however_it_is_made(
    config: Config, tmp_path: Path, two_workers: Executor
) -> None:
    """Whole in one process; elsewhere, from a copy of the data, with two workers; of stages that were reused."""
    whole, _ = made(config(curve={"min_width": [3]}))
    expected = contents(whole.folder.stage("confidential"))
    copied = shutil.copy(CZECH_CSV, tmp_path)
    elsewhere = config(
        curve={"min_width": [3]}, table={"path": str(copied)}, output={"folder": str(tmp_path / "elsewhere")}
    )
    other, statuses = made(elsewhere, two_workers)
    assert other.folder.path != whole.folder.path
    assert set(statuses.values()) == {"done"}
    assert contents(other.folder.stage("confidential")) == expected
    other.folder.discard("confidential")
    again, statuses = made(elsewhere)
    assert redone(statuses) == ["confidential"]
    assert contents(again.folder.stage("confidential")) == expected


@pytest.mark.parametrize("name", NAMES)
def test_files_that_were_touched_are_made_again(name: str, config: Config, begun: Build) -> None:
    before = contents(begun.folder.stage(name))
    file = sorted(path for path in begun.folder.stage(name).iterdir())[0]
    file.write_bytes(file.read_bytes() + b"1")
    again, statuses = made(config())
    assert redone(statuses) == [name]
    assert contents(again.folder.stage(name)) == before


@pytest.mark.parametrize("touch", ["removed", "added"])
def test_a_published_file_more_or_less_is_not_left_so(touch: str, config: Config, begun: Build, finished: Path) -> None:
    file = begun.folder.stage("release") / ("widths.csv" if touch == "added" else "001_A-B-C-D-E.csv")
    file.write_text("sub_table,critical_width\n") if touch == "added" else file.unlink()
    again, statuses = made(config())
    assert redone(statuses) == ["release"]
    assert contents(again.folder.stage("release")) == contents(finished)


def test_a_release_that_is_no_longer_whole_is_gone_at_once(
    config: Config, begun: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    (begun.folder.stage("release") / "001_A-B-C-D-E.csv").write_text("tampered")
    monkeypatch.setattr(stages, "STAGES", failing("release", RuntimeError("struck"), after=False))
    with pytest.raises(RuntimeError, match="struck"):
        run_all(open_build(config()), IN_PROCESS)
    assert_nothing_published(begun)


def test_a_manifest_of_another_format_is_refused(config: Config, begun: Build) -> None:
    (begun.folder.path / "manifest.json").write_text('{"format": 2}')
    with pytest.raises(RunFolderError, match="has format 2, this version reads 1; remove the run folder"):
        made(config())


# What is checked before it is published


def one_count_more(folder: Path, suffix: str, *, honest: bool) -> None:
    """Adds one to a published count; an honest hash hides it from all but the comparison with the table."""
    path = sorted(folder.glob(f"001_*{suffix}"))[0]
    if suffix == ".csv":
        head, first, *rest = path.read_text().splitlines()
        cells, count = first.rsplit(",", 1)
        path.write_text("\n".join([head, f"{cells},{int(count) + 1}", *rest]) + "\n")
    else:
        table = pq.read_table(path)
        counts = table.column("count").to_pylist()
        table = table.set_column(table.num_columns - 1, "count", pa.array([counts[0] + 1, *counts[1:]]))
        pq.write_table(table, path)
    if honest:
        _rehash(folder, path)


def _rehash(folder: Path, path: Path) -> None:
    import hashlib

    file = folder / "datapackage.json"
    metadata = json.loads(file.read_text())
    for resource in metadata["resources"]:
        if resource["path"] == path.name:
            resource["hash"] = "sha256:" + hashlib.sha256(path.read_bytes()).hexdigest()
    file.write_text(json.dumps(metadata))


Tampering = Callable[[Path], None]


def without_a_resource(folder: Path) -> None:
    file = folder / "datapackage.json"
    metadata = json.loads(file.read_text())
    kept = [resource for resource in metadata["resources"] if resource.get("sub_table") != list("ABCF")]
    file.write_text(json.dumps({**metadata, "resources": kept}))


def one_file_less(folder: Path) -> None:
    (folder / "004_A-B-C-F.parquet").unlink()


def one_file_more(folder: Path) -> None:
    (folder / "007_A-B-C-E-F.csv").write_text("A,B,C,E,F,count\nno,yes,yes,<3,pos,1\n")


def other_total(folder: Path) -> None:
    file = folder / "datapackage.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "records": 1842}))


@pytest.mark.parametrize(
    ("tamper", "message"),
    [
        (lambda folder: one_count_more(folder, ".csv", honest=False), r"001_A-B-C-D-E\.csv is not the exact marginal"),
        (lambda folder: one_count_more(folder, ".csv", honest=True), r"001_A-B-C-D-E\.csv is not the exact marginal"),
        (lambda folder: one_count_more(folder, ".parquet", honest=True), r"001_.*parquet is not the exact marginal"),
        (one_file_less, r"004_A-B-C-F\.parquet is missing; nothing is released"),
        (one_file_more, r"007_A-B-C-E-F\.csv"),
        (other_total, r"says 1842 records, the table has 1841"),
        (without_a_resource, r"nothing is released|004_A-B-C-F"),
    ],
    ids=["csv", "csv and hash", "parquet and hash", "file less", "file more", "total", "frontier"],
)
def test_files_that_are_not_what_was_assessed_are_refused(
    tamper: Tampering, message: str, config: Config, begun: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault between writing and checking: nothing gets the name release/."""

    def write(cleared: Cleared, subject: GateSubject, name: str, folder: Path, **settings: Any) -> None:
        write_publication(cleared, subject, name, folder)
        tamper(folder)

    monkeypatch.setattr("sdc.stages.release.write_publication", write)
    begun.folder.discard("release")
    with pytest.raises(SdcError, match=message):
        run_all(begun, IN_PROCESS)
    assert_nothing_published(begun)
    monkeypatch.undo()
    assert redone(made(config())[1]) == ["release"]


def test_files_that_disclose_more_than_was_assessed_are_refused(begun: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer publishes a sub-table too many, honestly hashed and listed."""

    def write(cleared: Cleared, subject: GateSubject, name: str, folder: Path, **settings: Any) -> None:
        larger = cleared_of(czech_table(), cleared.release.add(0b110111), subject)
        write_publication(larger, subject, name, folder)

    monkeypatch.setattr("sdc.stages.release.write_publication", write)
    begun.folder.discard("release")
    with pytest.raises(RunFolderError, match=r"is of A\*B\*C\*E\*F, which was not cleared; nothing is released"):
        run_all(begun, IN_PROCESS)
    assert_nothing_published(begun)


def test_files_that_disclose_less_than_was_assessed_are_refused(begun: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer leaves a frontier sub-table out: as safe as what was assessed, and not what was found."""

    def write(cleared: Cleared, subject: GateSubject, name: str, folder: Path, **settings: Any) -> None:
        smaller = cleared_of(czech_table(), Release.of(cleared.release.frontier[:-1]), subject)
        write_publication(smaller, subject, name, folder)

    monkeypatch.setattr("sdc.stages.release.write_publication", write)
    begun.folder.discard("release")
    with pytest.raises(RunFolderError, match=r"lacks B\*C\*E\*F, which was cleared; nothing is released"):
        run_all(begun, IN_PROCESS)
    assert_nothing_published(begun)


def without_evidence(folder: Path) -> None:
    """The assessment's claims stay, and the feasible tables that they rest on are gone."""
    certificate = json.loads((folder / "certificate.json").read_text())
    components = [{**component, "differences": 0} for component in certificate["components"]]
    (folder / "certificate.json").write_text(json.dumps({**certificate, "components": components}))


def test_a_release_whose_evidence_has_no_structural_zeros_is_refused(config: Config) -> None:
    build = open_build(informed(config))

    def forget(text: str) -> None:
        if text.startswith("release: "):
            certificate = read_certificate(build.folder.stage("assessment"), build.made.table.schema)
            certificate = replace(certificate, known=replace(certificate.known, zeros=NO_ZEROS))
            write_certificate(certificate, build.made.table.schema, build.folder.stage("assessment"))

    with pytest.raises(
        ReleaseError, match=r"the certificate lacks the structural zero A = yes and .*; nothing is published"
    ):
        run_all(build, IN_PROCESS, forget)
    assert not list(build.folder.path.glob("release*"))


def test_a_release_whose_evidence_is_gone_is_refused(begun: Build) -> None:
    begun.folder.discard("release")

    def lose(text: str) -> None:
        if text.startswith("release: "):
            without_evidence(begun.folder.stage("assessment"))

    with pytest.raises(ReleaseError, match=r"its certificate does not show it of 3 of 3 cells, .* see .*report\.html"):
        run_all(begun, IN_PROCESS, lose)
    assert not list(begun.folder.path.glob("release*"))


# Undecided


@pytest.fixture
def unproven(monkeypatch: pytest.MonkeyPatch) -> int:
    """Evidence for no release of more than 40 sub-tables: there the true table is all that is known."""
    evident, below = Support.inner_at, Support.below

    def is_large(support: Support) -> bool:
        return support.knowledge.release.sub_tables(support.knowledge.schema) > 40

    def inner_at(self: Support, rows: CellRows) -> Intervals:
        counts = self.bank.at_risk.counts[rows]
        return np.stack([counts, counts], axis=1) if is_large(self) else evident(self, rows)

    def all_below(self: Support, value: int) -> CellRows:
        return np.arange(len(self.bank.at_risk)) if is_large(self) else below(self, value)

    monkeypatch.setattr(Support, "inner_at", inner_at)
    monkeypatch.setattr(Support, "below", all_below)
    return 40


def test_undecided_is_not_released(unproven: int, config: Config) -> None:
    build, _ = made(config())
    assert build.made.found[0].sub_tables(build.made.table.schema) <= unproven
    assert any(step.answer is None for step in build.made.found[1])
    assert json.loads((build.folder.stage("assessment") / "assessment.json").read_text())["releasable"] is True


def test_undecided_is_released_where_the_config_says_so(unproven: int, config: Config) -> None:
    build, _ = made(config(risk={"undecided": "outer"}))
    assert build.made.found[0].sub_tables(build.made.table.schema) == 59
    assessment = json.loads((build.folder.stage("assessment") / "assessment.json").read_text())
    assert (assessment["releasable"], assessment["undecided_cells"], assessment["min_width"]) == (None, 3, [0, 9])
    assert {path.name for path in build.folder.stage("release").iterdir()} == PUBLISHED
    report = (build.folder.stage("confidential") / "report.html").read_text()
    assert "undecided" in report.lower()


def test_an_undecided_release_is_not_published_whatever_the_search_says(
    unproven: int, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last gate does not trust the search: here it accepts what nothing proved."""
    accepting = OrderedSearch.run

    def run(self: OrderedSearch) -> OrderedRelease:
        return accepting(replace(self, inquiry=replace(self.inquiry, policy=Policy.OUTER)))

    monkeypatch.setattr(OrderedSearch, "run", run)
    build = open_build(config())
    refusal = (
        r"not proven safe \(3 cells are undecided, min width between 0 and 9, required 6\); .*, see .*report\.html"
    )
    with pytest.raises(ReleaseError, match=refusal):
        run_all(build, IN_PROCESS)
    assert_nothing_published(build)
    assert (build.folder.stage("confidential") / "report.html").is_file()


@pytest.mark.parametrize("undecided", ["refuse", "outer"])
def test_a_refuted_release_is_never_published(undecided: str, config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    found = OrderedSearch.run

    def run(self: OrderedSearch) -> OrderedRelease:
        return replace(found(self), judgement=self.inquiry.ask(Release.of([0b111111])))

    monkeypatch.setattr(OrderedSearch, "run", run)
    file = config(risk={"undecided": undecided})
    file.write_text(file.read_text() + "assessment: proven\n")  # sharp bounds would refuse it before the gate does
    build = open_build(file)
    with pytest.raises(ReleaseError, match=r"not proven safe \(refuted, min width between 0 and 0, required 6\)"):
        run_all(build, IN_PROCESS)
    assert_nothing_published(build)


@pytest.mark.parametrize("method", ["ordered", "decomposable"])
def test_without_an_at_risk_cell_the_table_is_published(method: str, config: Config, tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("a,b,count\nx,y,10\nw,z,20\n")
    table = {"path": str(tmp_path / "table.csv"), "categories": {}}
    build = open_build(config(table=table, release={"method": method}))
    run_all(build, IN_PROCESS)
    assert build.made.found.release == Release.of([0b11])
    assert build.made.found.reason == "No cell is at risk: no count is from 1 to 2, so every sub-table may be released."
    assert verify(build.folder.path, lambda line: None).verified
    assert "no at-risk cell" in (build.folder.stage("confidential") / "report.html").read_text()


# The same release whoever computes it, from whatever parts


def test_two_workers_publish_the_same_bytes(config: Config, finished: Path, two_workers: Executor) -> None:
    build, statuses = made(config(), two_workers)
    assert redone(statuses) == NAMES
    assert contents(build.folder.stage("release")) == contents(finished)
    for name in ("table", "widths", "search", "assessment"):
        assert contents(build.folder.stage(name)) == contents(finished.parent / name)


def records() -> list[list[str]]:
    """Microdata, one row a person, in an order of its own."""
    with CZECH_CSV.open(newline="") as file:
        _, *rows = csv.reader(file)
    people = [row[:-1] for row in rows for _ in range(int(row[-1]))]
    random.Random(7).shuffle(people)
    return people


def as_csv_parts(folder: Path) -> Path:
    for number, rows in enumerate(np.array_split(records(), 3)):
        (folder / f"part-{number}.csv").write_text("A,B,C,D,E,F\n" + "".join(",".join(row) + "\n" for row in rows))
    return folder


def as_parquet_parts(folder: Path) -> Path:
    for number, rows in enumerate(np.array_split(records(), 5)):
        columns = dict(zip("ABCDEF", np.array(rows).T, strict=True))
        pq.write_table(pa.table({name: pa.array(list(column)) for name, column in columns.items()}),
                       folder / f"{number}.parquet", row_group_size=100)  # fmt: skip
    return folder


def as_one_parquet(folder: Path) -> Path:
    with CZECH_CSV.open(newline="") as file:
        header, *rows = csv.reader(file)
    columns: dict[str, list[Any]] = dict(zip(header, map(list, zip(*reversed(rows), strict=True)), strict=True))
    columns["count"] = [int(count) for count in columns["count"]]
    pq.write_table(pa.table(columns), folder / "cells.parquet")
    return folder / "cells.parquet"


@pytest.mark.parametrize("source", [as_csv_parts, as_parquet_parts, as_one_parquet])
@pytest.mark.parametrize("partitions", [1, 3])
def test_the_parts_of_the_input_do_not_matter(
    source: Callable[[Path], Path], partitions: int, config: Config, finished: Path, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    path = source(tmp_path / "data")
    build, _ = made(config(table={"path": str(path), "partitions": partitions}))
    assert contents(build.folder.stage("release")) == contents(finished)


def test_progress_is_told(config: Config) -> None:
    said: list[str] = []
    found: list[StageRecord] = run_all(open_build(config()), IN_PROCESS, said.append)
    for record in found:
        assert f"{record.name}: done in {record.seconds:.1f} s" in said
    assert "table: 1841 records, 6 variables, 63 non-zero of 64 cells" in said


def test_the_number_of_workers_may_be_given(config: Config) -> None:
    assert open_build(config(), workers=5).config.execution.workers == 5
    assert open_build(config(), data=CZECH_CSV).digests == open_build(config()).digests
    assert os.path.isabs(open_build(config()).config.table.path)
