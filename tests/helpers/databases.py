"""Databases of histories: a PostgreSQL cluster of the tests' own on a Unix socket, and SQLite files."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from glob import glob
from inspect import signature
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FOLDERS = os.pathsep.join([os.environ.get("PATH", ""), *sorted(glob("/usr/lib/postgresql/*/bin"), reverse=True)])
USER, WITH_PASSWORD = "postgres", "ann"
_NUMBERS = count()


@dataclass(frozen=True)
class Cluster:
    """A running PostgreSQL server that listens on no network, and asks one user for a password."""

    folder: Path

    def start(self) -> None:
        self._control("start", "-w", "-l", str(self.folder / "log"), "-o", self._options)

    def stop(self) -> None:
        """At once: sessions are ended."""
        self._control("stop", "-m", "fast")

    def crash(self) -> None:
        """As if it had died: what is under way is not ended well, and its next start recovers."""
        self._control("stop", "-m", "immediate")

    def url(self, database: str, user: str = USER) -> str:
        return f"postgresql://{user}@/{database}?host={self.folder}"

    def new_url(self) -> str:
        """Of a new and empty database."""
        name = f"history{next(_NUMBERS)}"
        self.execute(USER, f"CREATE DATABASE {name}")
        return self.url(name)

    def execute(self, database: str, statement: str) -> None:
        import psycopg

        with psycopg.connect(f"host={self.folder} user={USER} dbname={database}", autocommit=True) as connection:
            connection.execute(statement.encode())

    @property
    def _options(self) -> str:
        return f"-k {self.folder} -c listen_addresses='' -c fsync=off"

    def _control(self, *words: str) -> None:
        _run("pg_ctl", "-D", str(self.folder / "data"), *words)


def _run(program: str, *words: str) -> None:
    """As the user postgres where we are root, whom PostgreSQL refuses."""
    found = shutil.which(program, path=FOLDERS) or program
    as_user = ["runuser", "-u", USER, "--"] if os.geteuid() == 0 else []
    subprocess.run(
        [*as_user, found, *words], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=900
    )


@contextmanager
def running_cluster() -> Iterator[Cluster]:
    """A new one, gone when the block ends."""
    # not in pytest's folder, which no other user may enter; and the name of a socket must be short
    with tempfile.TemporaryDirectory(prefix="pg") as name:
        cluster = Cluster(Path(name))
        if os.geteuid() == 0:
            user = pwd.getpwnam(USER)
            os.chown(name, user.pw_uid, user.pw_gid)
        _run("initdb", "-D", f"{name}/data", "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "-N")
        rules = Path(name) / "data" / "pg_hba.conf"
        rules.write_text(f"local all {WITH_PASSWORD} scram-sha-256\n{rules.read_text()}")
        cluster.start()
        try:
            yield cluster
        finally:
            cluster.stop()


@pytest.fixture(scope="session")
def postgres_cluster() -> Iterator[Cluster]:
    """One for all tests; they are skipped where there is no PostgreSQL."""
    pytest.importorskip("psycopg")
    if not all(shutil.which(program, path=FOLDERS) for program in ("initdb", "pg_ctl", "postgres")):
        pytest.skip("PostgreSQL's initdb, pg_ctl and postgres are not installed")
    with running_cluster() as cluster:
        yield cluster


@pytest.fixture
def postgres_url(postgres_cluster: Cluster) -> str:
    """The URL of a new database."""
    return postgres_cluster.new_url()


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """The path of a file that is not there."""
    return str(tmp_path / "history.db")


@pytest.fixture
def history_url(sqlite_url: str) -> str:
    """The URL of a new history: in SQLite, but for tests that put PostgreSQL in its place."""
    return sqlite_url


def of_histories(module: ModuleType) -> dict[str, Any]:
    """The tests of a module that take a history, by name: another module runs them on PostgreSQL."""
    found = {name: test for name, test in vars(module).items() if name.startswith("test_")}
    return {
        name: test
        for name, test in found.items()
        if {"history", "history_url", "served"} & {*signature(test).parameters}
    }
