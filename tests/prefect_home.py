"""Homes of Prefect with an empty database: a server makes one by a hundred migrations, ten seconds of a processor."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from filelock import FileLock

from tests.kept import kept_folder

DATABASE = "prefect.db"


def made_home(folder: Path) -> Path:
    """The folder, new or empty, as the home of a server that has never had a run."""
    kept = kept_folder("prefect", [], version("prefect"), version("sqlalchemy"))
    with FileLock(kept / "lock"):
        if not (kept / DATABASE).exists():
            _migrate(kept / DATABASE)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    shutil.copy(kept / DATABASE, folder)
    return folder


@contextmanager
def served_home(home: Path) -> Iterator[str]:
    """The URL of a build's server with this home, whatever the environment says of another."""
    from prefect.settings import PREFECT_API_URL, PREFECT_HOME, temporary_settings

    from flows.embedded import embedded_server

    with pytest.MonkeyPatch.context() as patch, temporary_settings({PREFECT_API_URL: None, PREFECT_HOME: home}):
        patch.setenv("PREFECT_HOME", str(home))
        patch.delenv("PREFECT_API_URL", raising=False)
        patch.delenv("PREFECT_API_DATABASE_CONNECTION_URL", raising=False)
        with embedded_server() as await_server:
            await_server()
            yield PREFECT_API_URL.value()


def _migrate(database: Path) -> None:
    with TemporaryDirectory() as home:
        url = f"sqlite+aiosqlite:///{home}/{DATABASE}"
        environment = {**os.environ, "PREFECT_HOME": home, "PREFECT_API_DATABASE_CONNECTION_URL": url}
        command = [sys.executable, "-m", "prefect", "server", "database", "upgrade", "--yes"]
        subprocess.run(command, env=environment, check=True, capture_output=True, timeout=300)
        whole = database.with_suffix(".new")
        whole.unlink(missing_ok=True)
        with closing(sqlite3.connect(f"{home}/{DATABASE}")) as made:
            made.execute("vacuum into ?", (str(whole),))  # one file, whatever its log still holds
        whole.replace(database)
