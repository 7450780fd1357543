"""The table stage: parts that are recoded and counted on workers, what is set aside, what changes meanwhile."""

import json
from pathlib import Path

import pytest

from sdc.executor import IN_PROCESS, Executor
from sdc.stages.build import Build, open_build
from sdc.stages.stages import TABLE, run_stage
from sdc.storage.parquet import read_written_table

CONFIG = """
name: parts
table:
  path: parts/*.csv
  variables: [age, school, region]
  recodes:
    age: {bins: {young: [0, 30], old: [30, null]}}
    school: {groups: {some: [primary, secondary], none: ["no"]}}
  missing: {region: unknown}
  invalid_records: exclude
risk: {min_width: 2, small_count: 8}
output: {folder: OUTPUT}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return recoded_parts(tmp_path)


def recoded_parts(tmp_path: Path) -> Path:
    """Four parts of 60 records; of every 20, one has a negative age, and one of these an unknown school besides."""
    folder = tmp_path / "parts"
    folder.mkdir()
    rows = [
        f"{-1 if n % 20 == 0 else n % 60},{'lost' if n % 80 == 0 else ['primary', 'secondary', 'no'][n % 3]},"
        f"{['north', 'south', ''][n // 7 % 3]}"
        for n in range(240)
    ]
    for part in range(4):
        lines = ["age,school,region", *rows[60 * part : 60 * part + 60]]
        (folder / f"{part}.csv").write_text("\n".join(lines) + "\n")
    path = tmp_path / "build.yaml"
    path.write_text(CONFIG.replace("OUTPUT", str(tmp_path / "runs")))
    return path


def table_of(build: Build, executor: Executor = IN_PROCESS) -> tuple[Path, list[str]]:
    """The folder of the table stage, made anew, and what was said."""
    said: list[str] = []
    with build.started([]):
        run_stage(TABLE, build, executor, said.append)
    return build.folder.stage("table"), said


def test_a_table_of_recoded_parts(config: Path) -> None:
    folder, said = table_of(open_build(config))
    table = read_written_table(folder)
    assert [variable.categories for variable in table.schema.variables] == [
        ("young", "old"),
        ("some", "none"),
        ("north", "south", "unknown"),
    ]
    assert table.total == 228
    assert json.loads((folder / "bad_records.json").read_text()) == {
        "records": 240,
        "set_aside": 12,
        "reasons": [{"variable": "age", "reason": "value that no bin or group covers", "records": 12}],
        "unmet": {},
        "sums": [],
    }
    assert "table: 12 records excluded: age: value that no bin or group covers" in said


def test_two_names_of_one_set_of_parts_are_one_build(config: Path) -> None:
    by_glob, by_folder = open_build(config), open_build(config, data=str(config.parent / "parts"))
    by_url = open_build(config, data=f"file://{config.parent}/parts")
    assert by_glob.folder == by_folder.folder == by_url.folder
