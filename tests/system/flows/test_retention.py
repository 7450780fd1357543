"""Old runs in the database of builds' own servers: those that ended go with all that is kept of them, others stay."""

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from flows.prefect_process import DATABASE
from sdc.model.errors import SdcError
from tests.conftest import ROOT
from tests.helpers.prefect_home import made_home

ID = "00000000-0000-4000-8000-{:012}"
OLD, YOUNG = "2020-01-01 00:00:00.000000", "2999-01-01 00:00:00.000000"
RUNS = [("COMPLETED", OLD), ("CRASHED", OLD), ("FAILED", YOUNG), ("RUNNING", None)]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """With a run of each kind, a line of its log and an artifact."""
    home = made_home(tmp_path / "prefect")
    with closing(sqlite3.connect(home / DATABASE)) as opened, opened:
        opened.execute("insert into flow (id, name) values (?, 'release-build')", [ID.format(99)])
        for number, (state, end) in enumerate(RUNS):
            run = ID.format(number)
            facts = "id, name, state_type, end_time, flow_id"
            opened.execute(
                f"insert into flow_run ({facts}) values (?, ?, ?, ?, ?)", [run, str(number), state, end, ID.format(99)]
            )
            opened.execute(
                "insert into log (name, level, flow_run_id, message, timestamp) values ('x', 20, ?, 'm', ?)", [run, OLD]
            )
            opened.execute("insert into artifact (type, data, flow_run_id) values ('markdown', '\"d\"', ?)", [run])
    return home


def rows(home: Path) -> dict[str, list[int]]:
    """By the number of the run."""
    with closing(sqlite3.connect(home / DATABASE)) as opened:
        columns = {"flow_run": "id", "log": "flow_run_id", "artifact": "flow_run_id"}
        return {
            table: sorted(int(run[-12:]) for (run,) in opened.execute(f"select {column} from {table}"))
            for table, column in columns.items()
        }


def clean(home: Path, *words: str, **more: str) -> Any:
    left_out = "PREFECT_API_URL", "PREFECT_API_DATABASE_CONNECTION_URL"
    environment = {name: value for name, value in os.environ.items() if name not in left_out}
    environment |= {"PREFECT_HOME": str(home), "PYTHONPATH": str(ROOT), **more}
    (home.parent / "runs").mkdir(exist_ok=True)
    command = [sys.executable, "-m", "sdc.commands.cli", "clean", "runs", "--older-than", "30", "--json", *words]
    done = subprocess.run(command, cwd=home.parent, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def test_what_ended_long_ago_is_forgotten(home: Path) -> None:
    everything = [*range(len(RUNS))]
    before = rows(home)
    found, said = clean(home)
    assert (found["flow_runs"], found["removed"]) == (2, False)
    assert said == f"would forget 2 flow runs in {home / DATABASE}\n"
    assert rows(home) == before == dict.fromkeys(before, everything)
    found, said = clean(home, "--yes")
    assert (found["flow_runs"], found["removed"]) == (2, True)
    assert rows(home) == {table: [2, 3] for table in before}


def test_another_database_is_left_alone(home: Path, tmp_path: Path) -> None:
    other = {"PREFECT_API_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{tmp_path}/other.db"}
    found, said = clean(home, "--yes", **other)
    assert (found["flow_runs"], said) == (0, "")
    assert rows(home)["flow_run"] == [*range(len(RUNS))]


def test_a_database_that_is_none(tmp_path: Path) -> None:
    from flows.retention import old_flow_runs

    (tmp_path / DATABASE).write_text("no database at all, of some length that makes a header of SQLite" * 10)
    with pytest.raises(
        SdcError, match=r"prefect\.db cannot be read: file is not a database; move it away, or repair it"
    ):
        old_flow_runs(tmp_path / DATABASE, 30)
