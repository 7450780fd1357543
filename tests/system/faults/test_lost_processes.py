"""Real schedulers and workers, started as processes of their own and killed: the same results, or one clear error."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sdc.events import EXECUTION, EventText, heard
from sdc.execution.dask_executor import DaskExecutor
from sdc.model.errors import SdcError
from sdc.model.table import Table
from tests.system.execution.test_executors import total_and


class Cluster:
    """A scheduler at a port of its own and one worker, which die and are started again at will."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.address = f"tcp://127.0.0.1:{probe.getsockname()[1]}"
        self._folder = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, *names: str) -> None:
        alone = ["--nthreads", "1", "--no-nanny", "--local-directory", str(self._folder)]
        commands = {"scheduler": ["--host", self.address], "worker": [self.address, *alone]}
        path = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        for name in names:
            self._processes[name] = subprocess.Popen(
                [sys.executable, "-m", "dask", name, "--no-dashboard", *commands[name]],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=path,
            )

    def kill(self, *names: str) -> None:
        for name in names:
            process = self._processes.pop(name)
            process.send_signal(signal.SIGKILL)
            process.wait(timeout=300)

    def stop(self) -> None:
        self.kill(*self._processes)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path)
    cluster.start("scheduler", "worker")
    yield cluster
    cluster.stop()


@contextmanager
def connected(cluster: Cluster, scratch: Path, patience: float) -> Iterator[DaskExecutor]:
    from distributed import Client

    with Client(cluster.address, timeout=patience) as client:
        client.wait_for_workers(1, timeout=300)  # a busy machine may take longer than the patience to start it
        yield DaskExecutor(client, scratch, 1, patience)


@contextmanager
def told() -> Iterator[list[str]]:
    lines: list[str] = []
    with heard(EventText(lines.append), EXECUTION):
        yield lines


@pytest.mark.slow
def test_a_scheduler_that_comes_back_answers_the_rest(cluster: Cluster, czech: Table, tmp_path: Path) -> None:
    """What was answered is kept; what was not is asked again, of a scheduler that knows nothing."""
    with connected(cluster, tmp_path, 60) as executor, told() as lines:
        results = executor.run(total_and, czech, range(50))
        found = [next(results) for _ in range(3)]
        cluster.kill("scheduler", "worker")
        cluster.start("scheduler", "worker")
        assert found + list(results) == [(1841, unit) for unit in range(50)]
        cluster.kill("scheduler", "worker")  # and once more, between two calls
        results = executor.run(total_and, czech, [2])
        cluster.start("scheduler", "worker")
        assert list(results) == [(1841, 2)]
    assert lines[:2] == [
        "the Dask scheduler is lost; waiting for it",
        "the Dask scheduler is back; its units are recomputed",
    ]


@pytest.mark.slow
def test_nobody_is_waited_for_without_end(cluster: Cluster, czech: Table, tmp_path: Path) -> None:
    """A worker and then the scheduler go, and each is one message; a worker that comes back is made use of."""
    with connected(cluster, tmp_path, 60) as executor, told() as lines:
        results = executor.run(total_and, czech, range(50))
        assert next(results) == (1841, 0)
        cluster.kill("worker")
        executor.patience = 1
        with pytest.raises(SdcError, match=r"of 1 of total_and: for 1 s there was no worker; start workers, then run"):
            list(executor.run(total_and, czech, [2]))
        cluster.start("worker")
        executor.patience = 60
        assert list(executor.run(total_and, czech, [3])) == [(1841, 3)]
        (line,) = lines
        assert line.startswith("worker tcp://127.0.0.1:")
        assert line.endswith(" is lost; its units are recomputed")
        executor.patience = 2  # for nothing is started any more
        cluster.kill("scheduler")
        with pytest.raises(
            SdcError, match=r"scheduler was lost for 2 s; start it, then run again: finished stages .* reused"
        ):
            list(results)
        with pytest.raises(SdcError, match="scheduler was lost"):
            list(executor.run(total_and, czech, [4]))
