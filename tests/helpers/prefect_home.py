"""Homes of Prefect with an empty database, and servers that are killed and started again at will."""

import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from filelock import FileLock

from flows.prefect_process import DATABASE
from tests.helpers.kept import ROOT, cache_folder
from tests.helpers.waiting import wait_until


def made_home(folder: Path) -> Path:
    """The folder, new or empty, as the home of a server that has never had a run; its database is made once."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    empty = cache_folder("prefect", [], version("prefect")) / DATABASE
    with FileLock(f"{empty}.lock"):
        if not empty.exists():
            with TemporaryDirectory() as home:
                command = [sys.executable, "-m", "prefect", "server", "database", "upgrade", "--yes"]
                url = f"sqlite+aiosqlite:///{home}/{DATABASE}"
                own = {"PREFECT_HOME": home, "PREFECT_API_DATABASE_CONNECTION_URL": url}
                subprocess.run(command, env=os.environ | own, check=True, capture_output=True, timeout=900)
                with closing(sqlite3.connect(f"{home}/{DATABASE}")) as made:
                    made.execute("vacuum into ?", (str(empty),))  # one file, whatever its log still holds
    shutil.copyfile(empty, folder / DATABASE)
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


class PrefectServer:
    """A server of `prefect server start` with a database of its own, which is killed and started again at will."""

    def __init__(self, folder: Path) -> None:
        self.home, self._log = made_home(folder / "prefect"), folder / "server.log"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = str(free.getsockname()[1])
        self.url = f"http://127.0.0.1:{self._port}/api"

    @property
    def environment(self) -> dict[str, str]:
        """Of a process that is to use it."""
        own = {"PREFECT_HOME": str(self.home), "PREFECT_API_URL": self.url}
        return {**own, "PYTHONPATH": str(ROOT), "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}

    def start(self) -> None:
        command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", self._port]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | self.environment)
        wait_until(self.answers)

    def answers(self) -> bool:
        try:
            return bool(urllib.request.urlopen(f"{self.url}/health", timeout=5).status == 200)
        except OSError:
            return False

    def end(self, number: int = signal.SIGTERM) -> None:
        self._process.send_signal(number)
        self._process.wait(timeout=300)


@contextmanager
def running_server(folder: Path) -> Iterator[PrefectServer]:
    server = PrefectServer(folder)
    server.start()
    try:
        yield server
    finally:
        server.end()


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PrefectServer]:
    """One of the test's own, which the processes that it starts use."""
    with running_server(tmp_path) as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield server
