"""Builds on a real SLURM, one node on this machine: the same bytes, jobs that go, nodes that rest, keys that vanish."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from sdc.data.reading import read_table
from sdc.refusal import TRY_AGAIN
from sdc.risk.critical_width import critical_widths
from sdc.storage.results import read_widths
from tests.conftest import ROOT
from tests.helpers.folders import contents, released_here
from tests.helpers.listening import listened_to, status_of
from tests.helpers.prefect_home import made_home
from tests.helpers.slurm import SHORT, Slurm, slurm, wait_until

pytestmark = pytest.mark.slow
__all__ = ["slurm"]
CLUSTER = {
    "kind": "slurm",
    "walltime": "00:10:00",
    "memory_per_worker": "1GiB",
    "workers": 2,
    "scratch": "scratch",
    "interface": "lo",
    "timeout_seconds": 120,
    "log_folder": "logs",
}
CZECH = yaml.safe_load((ROOT / "configs" / "czech_auto_workers.yaml").read_text())
SECONDS = 900


class OnSlurm:
    """A build in a folder of its own whose workers are jobs."""

    def __init__(self, slurm: Slurm, folder: Path) -> None:
        self.slurm, self.folder = slurm, folder
        (folder / "scratch").mkdir()
        self.write(CZECH | {"table": CZECH["table"] | {"path": str(ROOT / "configs" / "czech_auto_workers.csv")}})

    def write(self, config: dict[str, Any], **cluster: Any) -> None:
        content = config | {"execution": {"cluster": "slurm.yaml"}, "output": {"folder": "runs"}}
        (self.folder / "build.yaml").write_text(yaml.safe_dump(content))
        (self.folder / "slurm.yaml").write_text(yaml.safe_dump(CLUSTER | cluster))

    def started(self, *words: str, command: str = "run") -> subprocess.Popen[str]:
        environment = os.environ | {
            "SLURM_CONF": str(self.slurm.conf),
            "PYTHONPATH": str(ROOT),
            "PREFECT_HOME": str(made_home(self.folder / "prefect")),
        }
        return subprocess.Popen(
            [sys.executable, "-m", "sdc.commands.cli", command, "build.yaml", *words],
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=(self.folder / "said").open("w"),
            text=True,
        )

    @property
    def said(self) -> str:
        return (self.folder / "said").read_text()

    def ended(self, build: subprocess.Popen[str], status: int = 0) -> None:
        """With that status, and nothing of it left in the queue, in the scratch folder, or among the processes."""
        build.communicate(timeout=SECONDS)
        assert build.returncode == status, self.said
        self.nothing_is_left()

    def nothing_is_left(self) -> None:
        wait_until(lambda: not self.slurm.jobs() and not self.slurm.processes())
        wait_until(lambda: not list((self.folder / "scratch").iterdir()))

    def require_the_same_as_here(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """What is to be published has the bytes of a build in this process."""
        monkeypatch.chdir(self.folder)
        (release,) = Path("runs").glob("*/*/release")
        assert contents(release) == released_here(Path("build.yaml").absolute())


@pytest.fixture
def on_slurm(slurm: Slurm, tmp_path: Path) -> OnSlurm:
    (folder := tmp_path / "a folder").mkdir()
    return OnSlurm(slurm, folder)


def test_the_same_bytes_and_nobody_else_can_listen(on_slurm: OnSlurm, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every socket is of the interface that the file names, which here is the loopback; none of HTTP tells anything."""
    build = on_slurm.started()
    sockets, answers = listened_to(build, on_slurm.slurm.processes)
    on_slurm.ended(build)
    jobs = {socket.process for socket in sockets} - {build.pid}
    assert len(jobs) >= 4  # two workers and their nannies; the server of Prefect besides
    assert {socket.address for socket in sockets} == {"127.0.0.1"}
    assert answers == []
    on_slurm.require_the_same_as_here(monkeypatch)


def test_the_example(on_slurm: OnSlurm, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is, on this node instead of that of its cluster file."""
    config = yaml.safe_load((ROOT / "configs" / "slurm.yaml").read_text())
    on_slurm.write(config | {"table": config["table"] | {"path": str(ROOT / "configs" / "population")}})
    on_slurm.ended(on_slurm.started())
    on_slurm.require_the_same_as_here(monkeypatch)


def test_its_dashboard_is_seen_by_whoever_has_the_key_alone(on_slurm: OnSlurm) -> None:
    """The scheduler is in the process of the build, on whatever node the workers are."""
    build = on_slurm.started("--watch")
    wait_until(lambda: "  Dask " in on_slurm.said)
    (address,) = re.findall(r"^  Dask +(\S+)$", on_slurm.said, re.MULTILINE)
    wait_until(lambda: status_of(address) == 200)
    assert status_of(f"{address.rpartition('/')[0]}x/status") == 403
    on_slurm.ended(build)


def test_a_sweep_of_what_no_worker_holds(on_slurm: OnSlurm, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs read the table part by part, and find the widths of a sweep in this process."""
    rng = np.random.default_rng(40)
    sizes = (12, 10, 8, 8, 6, 5, 4, 3, 3)
    columns = {f"v{n}": rng.integers(0, size, 6_000_000).astype(np.uint8) for n, size in enumerate(sizes)}
    pq.write_table(pa.table(columns), on_slurm.folder / "records.parquet")
    table = {"path": "records.parquet", "partitions": 16}
    config = {"name": "large", "table": table, "risk": {"min_width": 3}}
    on_slurm.write(config, memory_per_worker="512MiB")
    on_slurm.ended(on_slurm.started(command="sweep"))
    assert "widths: the table does not fit a worker, so it is read in 16 parts" in on_slurm.said
    monkeypatch.chdir(on_slurm.folder)
    (found,) = Path("runs").glob("*/*/widths")
    here = read_table("records.parquet")
    assert read_widths(found).by_sub_table() == critical_widths(here).by_sub_table()


def test_a_job_that_is_cancelled(
    on_slurm: OnSlurm, public_data: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its worker is lost and another job comes; the bytes are those of a build here."""
    table = {"path": str(public_data("cps8.parquet"))}
    on_slurm.write({"name": "cps8", "table": table, "risk": {"min_width": 6}}, workers=1)
    build = on_slurm.started()
    wait_until(lambda: "widths: critical widths" in on_slurm.said and on_slurm.slurm.jobs("RUNNING"))
    wait_until(lambda: "dashboard: " in on_slurm.said)
    (job,) = on_slurm.slurm.jobs("RUNNING")
    on_slurm.slurm.asked("scancel", job)
    on_slurm.ended(build)
    assert "is lost; its units are recomputed" in on_slurm.said
    on_slurm.require_the_same_as_here(monkeypatch)


def test_a_node_that_is_drained(on_slurm: OnSlurm, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs wait for it, and the build says which and why; when it is back the build goes on."""
    on_slurm.slurm.drain(drained=True)
    try:
        build = on_slurm.started()
        wait_until(lambda: "no worker yet (SLURM job" in on_slurm.said)
    finally:
        on_slurm.slurm.drain(drained=False)
    on_slurm.ended(build)
    (line, *_) = (line for line in on_slurm.said.splitlines() if line.startswith("no worker yet"))
    assert "PENDING (" in line
    assert line.endswith("of 120 s")
    on_slurm.require_the_same_as_here(monkeypatch)


def test_a_queue_in_which_nothing_starts(on_slurm: OnSlurm) -> None:
    """The build waits for as long as the cluster file says, and ends so that it may be tried again as it is."""
    on_slurm.write(yaml.safe_load((on_slurm.folder / "build.yaml").read_text()), timeout_seconds=5)
    on_slurm.slurm.drain(drained=True)
    try:
        on_slurm.ended(on_slurm.started(), status=TRY_AGAIN)
    finally:
        on_slurm.slurm.drain(drained=False)
    assert "has no worker within 5 s (SLURM job" in on_slurm.said


def test_a_partition_that_is_too_short(on_slurm: OnSlurm) -> None:
    on_slurm.write(yaml.safe_load((on_slurm.folder / "build.yaml").read_text()), queue=SHORT)
    on_slurm.ended(on_slurm.started(), status=1)
    assert (
        f"walltime = '00:10:00' is more than the limit of the partition ({SHORT} 6:00), so no job would"
        in on_slurm.said
    )
    assert not (on_slurm.folder / "runs").exists()


def test_jobs_that_end_before_they_have_a_worker(on_slurm: OnSlurm) -> None:
    on_slurm.write(yaml.safe_load((on_slurm.folder / "build.yaml").read_text()), python="/nowhere/python")
    on_slurm.ended(on_slurm.started(), status=1)
    assert "no job has a worker: SLURM jobs" in on_slurm.said
    assert "FAILED (NonZeroExitCode); see their output (log_folder)," in on_slurm.said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_key_outlives_its_build(on_slurm: OnSlurm, number: int) -> None:
    """Interrupted while it waits for a job; one that is killed leaves its jobs to SLURM, and no key for them."""
    on_slurm.slurm.drain(drained=True)
    try:
        build = on_slurm.started()
        wait_until(lambda: "no worker yet (SLURM job" in on_slurm.said)
        (key,) = on_slurm.folder.glob("scratch/sdc-*/tls_worker_key.pem")
        assert key.stat().st_mode & 0o777 == 0o600
        build.send_signal(number)
        build.communicate(timeout=SECONDS)
        wait_until(lambda: not list((on_slurm.folder / "scratch").glob("sdc-*")))
    finally:
        on_slurm.slurm.drain(drained=False)
        on_slurm.slurm.empty()
    assert build.returncode == (130 if number == signal.SIGTERM else -signal.SIGKILL)
