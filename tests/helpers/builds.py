"""Builds in one process for tests: their configs, what became of each stage, and one of the Czech table to copy."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from sdc.executor import IN_PROCESS, Executor
from sdc.model.table import Table
from sdc.run_format import COUNT
from sdc.stages.build import Build, Say, open_build
from sdc.stages.stages import STAGES, run_all, stages_of
from sdc.storage.parquet import write_csv
from sdc.storage.run_folder import folder_digest, write_json

CONFIGS = Path(__file__).parents[2] / "configs"
CZECH_CSV, CZECH_YAML = CONFIGS / "czech_auto_workers.csv", CONFIGS / "czech_auto_workers.yaml"
NAMES = [stage.name for stage in STAGES]
Config = Callable[..., Path]
FRONTIER = ["ABCDE", "ABDEF", "ACDEF", "ABCF", "BCDF", "BCEF"]
BY_NAME = ["*".join(names) for names in FRONTIER]
BESIDE = {"SHA256SUMS", "catalogue.json", "croissant.json", "index.html", "ro-crate-metadata.json"}
BESIDE |= {"README.txt", "data_dictionary.csv", "datapackage.json"}
STEMS = [f"{number:03}_{'-'.join(names)}" for number, names in enumerate(FRONTIER, start=1)]
PUBLISHED = BESIDE | {f"{stem}.{suffix}" for stem in STEMS for suffix in ("csv", "parquet")}
ANNEALED = {"method": "decomposable", "annealing": {"steps": 2000, "rounds": 5, "patience": 0, "chains": 2}}
BEST = {**ANNEALED, "method": "best"}
EMPTY_CELL = '- {A: yes, B: no, C: no, D: ">=140", E: ">=3", F: pos}'


def table_columns(table: Table) -> dict[str, Any]:
    """The category names of each variable and the counts, a row for each cell with records."""
    axes = [table.schema.variables[axis] for axis in table.schema.axes]
    named = zip(axes, table.codes.T, strict=True)
    return {v.name: np.array(v.categories, object)[codes] for v, codes in named} | {COUNT: table.counts}


def write_counts(file: Path, table: Table) -> None:
    """Write a table as a CSV file of counted cells."""
    write_csv(file, table_columns(table))


def written(folder: Path, name: str = "build", /, **sections: Any) -> Path:
    """A config in a folder, of a build in this process that writes there; a section that is None is left out."""
    content = {"name": name, "risk": {"min_width": 3, "small_count": 2}, "execution": {"cluster": "in-process"}}
    content |= {"output": {"folder": str(folder / "runs")}, **sections}
    file = folder / f"{name}.yaml"
    file.write_text(yaml.safe_dump({key: value for key, value in content.items() if value is not None}))
    return file


def write_czech(
    folder: Path, file: str = "build.yaml", *, whole: dict[str, Any] | None = None, **sections: Any
) -> Path:
    """The Czech config in a folder, in this process and writing there, with settings or whole sections replaced."""
    content = yaml.safe_load(CZECH_YAML.read_text())
    content["table"]["path"] = str(CZECH_CSV)
    content |= {"execution": {"cluster": "in-process"}, "output": {"folder": str(folder / "runs")}}
    for section, values in sections.items():
        content[section] = {**content.get(section, {}), **values} if isinstance(values, dict) else values
    (folder / file).write_text(yaml.safe_dump(content | (whole or {}), sort_keys=False))
    return folder / file


def informed(config: Config, text: str = EMPTY_CELL, name: str = "zeros.yaml") -> Path:
    """The config with the one empty cell of the table as a structural zero, or another text."""
    file = config(table={"structural_zeros": name}, risk={"min_width": 7})
    (file.parent / name).write_text(text + "\n")
    return file


def built(file: Path, executor: Executor = IN_PROCESS, say: Say = lambda text: None) -> Build:
    """A build run to its end."""
    build = open_build(file)
    run_all(build, executor, say)
    return build


def made(file: Path, executor: Executor = IN_PROCESS) -> tuple[Build, dict[str, str]]:
    """A build run to its end, and what became of each stage."""
    build = open_build(file)
    return build, {record.name: record.status for record in run_all(build, executor)}


def redone(statuses: dict[str, str]) -> list[str]:
    return [name for name, status in statuses.items() if status == "done"]


def rekeyed(build: Build, begun: Build) -> list[str]:
    """The stages of a build that cannot be those of another one, though what they are made from came out the same."""
    records = begun.folder.records()
    outputs = {name: record.output for name, record in records.items()}
    return [stage.name for stage in stages_of(build.config) if stage.key(build, outputs) != records[stage.name].key]


def report_of(build: Build) -> str:
    return (build.folder.stage("confidential") / "report.html").read_text()


def document_of(build: Build, stage: str, name: str) -> Any:
    """A JSON file of a stage."""
    return json.loads((build.folder.stage(stage) / name).read_text())


def assert_nothing_published(build: Build) -> None:
    """No release under any name, nothing half-written, and a manifest that lists whole stages only."""
    assert not list(build.folder.path.glob("release*"))
    assert not [path for path in build.folder.path.rglob("*") if path.name.endswith((".unfinished", ".tmp"))]
    folders = {path.name: folder_digest(path) for path in build.folder.path.iterdir() if path.is_dir()}
    assert {name: record.output for name, record in build.folder.records().items()} == folders


def copied_with_risk(build: Build, folder: Path, **risk: Any) -> Path:
    """A copy of the run whose manifest has other settings of `risk`; those of a section are replaced one by one."""
    copy = Path(shutil.copytree(build.folder.path, folder, dirs_exist_ok=True))
    manifest = json.loads((build.folder.path / "manifest.json").read_text())
    for key, value in risk.items():
        own = manifest["config"]["risk"]
        own[key] = {**own[key], **value} if isinstance(value, dict) else value
    write_json(copy / "manifest.json", manifest)
    return copy


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """Writes the Czech config, working in one process below a temporary folder, with settings replaced."""
    return lambda name="build.yaml", **sections: write_czech(tmp_path, name, **sections)


@pytest.fixture(scope="session")
def czech_build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """The Czech build, not to be touched."""
    return built(write_czech(tmp_path_factory.mktemp("finished")))


@pytest.fixture(scope="session")
def finished(czech_build: Build) -> Path:
    """Its release/."""
    return czech_build.folder.stage("release")


@pytest.fixture
def begun(finished: Path, config: Config, tmp_path: Path) -> Build:
    """The Czech build as a test's own, all of whose stages are there: a copy of what was made once."""
    run = finished.parent
    shutil.copytree(run, tmp_path / "runs" / run.parent.name / run.name)
    return open_build(config())


@pytest.fixture
def czech_folder(tmp_path: Path) -> Path:
    """A folder with the Czech table."""
    shutil.copy(CZECH_CSV, tmp_path / "table.csv")
    return tmp_path
