"""The process of a build's own Prefect server: the database that it makes in a new home."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.helpers.kept import ROOT

MAKES = """
import sys
from pathlib import Path
from flows.prefect_process import DATABASE, make_database
make_database(Path(sys.argv[1]) / DATABASE)
"""


def test_two_servers_that_start_at_once_in_a_new_home_make_one_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    command = [sys.executable, "-c", MAKES, tmp_path]
    both = [subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE) for _ in range(2)]
    assert [process.communicate(timeout=600)[1] for process in both] == [b"", b""]
    with closing(sqlite3.connect(tmp_path / "prefect.db")) as opened:
        tables = {name for (name,) in opened.execute("select name from sqlite_schema where type = 'table'")}
        assert opened.execute("select count(*) from alembic_version").fetchone() == (1,)
    assert {"flow_run", "task_run", "artifact"} <= tables
