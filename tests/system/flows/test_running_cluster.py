"""A scheduler and workers as processes of their own, over TLS, and workers started by a stand-in for SLURM."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml
from distributed import Security

from sdc.config.build import ExecutionConfig
from sdc.execution import connection
from sdc.execution.cluster import check_cluster, read_cluster
from sdc.execution.connection import connect
from sdc.execution.jobs import Jobs
from sdc.execution.settings import AddressSettings
from sdc.model.errors import ConfigError
from sdc.refusal import TRY_AGAIN, status_of
from tests.helpers.builds import built, write_czech
from tests.helpers.folders import contents
from tests.helpers.waiting import wait_until

ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.slow


def certificate(folder: Path, name: str) -> None:
    """One that signs itself, and its key: `<name>.pem` and `<name>.key`."""
    found = Security.temporary()
    (folder / f"{name}.pem").write_text(found.tls_scheduler_cert)
    (folder / f"{name}.key").write_text(found.tls_scheduler_key)


@contextmanager
def processes(*commands: list[str], folder: Path) -> Iterator[None]:
    """Runs Dask's commands in a folder until the block ends."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with (folder / "log").open("wb") as log:
        started = [
            subprocess.Popen([sys.executable, "-m", *command], cwd=folder, env=environment, stdout=log, stderr=log)
            for command in commands
        ]
        try:
            yield
        finally:
            for process in reversed(started):  # workers before their scheduler, which they would look for
                process.terminate()
                process.wait(timeout=300)


def address_in(file: Path) -> str:
    """What a scheduler has written when it is up."""
    return str(json.loads(wait_until(lambda: file.exists() and file.read_text()))["address"])


SCHEDULER = ["distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
WORKER = ["distributed.cli.dask_worker", "--nthreads", "1", "--memory-limit", "2GiB", "--no-dashboard"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two certificates, and the scratch folder."""
    folder = tmp_path_factory.mktemp("cluster")
    for name in ("ca", "other"):
        certificate(folder, name)
    (folder / "scratch").mkdir()
    return folder


@pytest.fixture(scope="module")
def tls_address(folder: Path) -> Iterator[str]:
    """A scheduler that speaks TLS, and its two workers."""
    tls = ["--tls-ca-file", "ca.pem", "--tls-cert", "ca.pem", "--tls-key", "ca.key"]
    scheduler = [*SCHEDULER, "--protocol", "tls", "--scheduler-file", "tls.json", *tls]
    worker = [*WORKER, "--scheduler-file", "tls.json", *tls]
    with processes(scheduler, worker, worker, folder=folder):
        address = address_in(folder / "tls.json")
        with connect(address_settings(cluster_file(folder, address))) as client:
            client.wait_for_workers(2, timeout=300)
        yield address


@pytest.fixture(scope="module")
def plain_address(folder: Path) -> Iterator[str]:
    """A scheduler without TLS and without workers."""
    with processes([*SCHEDULER, "--scheduler-file", "plain.json"], folder=folder):
        yield address_in(folder / "plain.json")


def cluster_file(folder: Path, address: str, tls: str | None = "ca ca ca", **changes: Any) -> Path:
    """`tls` names the authority, the certificate and the key."""
    content = {
        "kind": "address",
        "address": address,
        "scratch": "scratch",
        "timeout_seconds": 20,
        "memory_per_worker": "2GiB",
    } | changes
    if tls is not None:
        ca, cert, key = tls.split()
        content["tls"] = {"ca_file": f"{ca}.pem", "cert": f"{cert}.pem", "key": f"{key}.key"}
    file = folder / "address.yaml"
    file.write_text(yaml.safe_dump(content))
    return file


def address_settings(file: Path) -> AddressSettings:
    settings = read_cluster(file)
    assert isinstance(settings, AddressSettings)
    return settings


def check(file: Path) -> int:
    return check_cluster(ExecutionConfig(cluster=str(file)))


def test_a_build_on_two_workers_over_tls(folder: Path, tls_address: str, prefect_server: None, tmp_path: Path) -> None:
    from flows.release_build import release_build

    cluster = cluster_file(folder, tls_address)
    assert check(cluster) == 2
    made = release_build(str(write_czech(tmp_path, execution={"cluster": str(cluster)})))
    alone = built(write_czech(tmp_path, output={"folder": str(tmp_path / "alone")}))
    assert contents(Path(made["run_folder"]) / "release") == contents(alone.folder.stage("release"))
    assert list((folder / "scratch").iterdir()) == []


@pytest.mark.parametrize(
    ("scheduler", "protocol", "tls", "changes", "message"),
    [
        ("tls", "tls", "ca ca other", {}, r"tls\.key = '.*other\.key' is not the key of tls\.cert"),
        ("tls", "tls", "other ca ca", {}, r"its certificate is not signed by tls\.ca_file"),
        ("tls", "tls", "ca other other", {}, r"it does not accept tls\.cert \(tlsv1 alert unknown ca\)"),
        ("tls", "tls", "none ca ca", {}, r"tls\.ca_file = '.*none\.pem': file not found;"),
        ("tls", "tls", "empty ca ca", {}, r"tls\.ca_file = '.*empty\.pem' has no certificate;"),
        ("tls", "tcp", None, {"timeout_seconds": 1}, r"within 1 s: it is silent; is it .* a tls:// scheduler"),
        ("plain", "tls", "ca ca ca", {}, r"it does not speak TLS \(wrong version number\); is it a tcp:// scheduler"),
        ("tls", "tls", "ca ca ca", {"scratch": "elsewhere"}, r"scratch = '.*/elsewhere': the folder does not exist;"),
        ("tls", "tls", "ca ca ca", {"memory_per_worker": "3GiB"}, r"2147483648 bytes .*, less than .* \(3221225472\)"),
    ],
)
def test_what_does_not_fit_the_scheduler(
    scheduler: str,
    protocol: str,
    tls: str | None,
    changes: dict[str, Any],
    message: str,
    folder: Path,
    tls_address: str,
    plain_address: str,
) -> None:
    (folder / "empty.pem").touch()
    address = {"tls": tls_address, "plain": plain_address}[scheduler].partition("://")[2]
    with pytest.raises(ConfigError, match=message):
        check(cluster_file(folder, f"{protocol}://{address}", tls, **changes))


def test_a_scheduler_without_workers(folder: Path, plain_address: str) -> None:
    whole = r"the scheduler tcp://\S+ has no worker within 0\.5 s; start one, or wait"
    with pytest.raises(ConfigError, match=whole) as refused:
        check(cluster_file(folder, plain_address, None, timeout_seconds=0.5))
    assert status_of(refused.value) == TRY_AGAIN


def test_a_service_that_is_no_scheduler(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as service:
        Thread(
            target=lambda: [service.accept()[0].sendall(b"220 ready\r\n" * 100) for _ in range(2)], daemon=True
        ).start()
        address = f"tcp://127.0.0.1:{service.getsockname()[1]}"
        with pytest.raises(ConfigError, match=r"it answers, but is not a Dask scheduler of this version"):
            check(cluster_file(folder, address, None, timeout_seconds=1))


def test_no_scheduler(folder: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"no scheduler accepts us at 'tcp://127\.0\.0\.1:1' within 0\.3 s: Connection"
    ) as refused:
        check(cluster_file(folder, "tcp://127.0.0.1:1", None, timeout_seconds=0.3))
    assert status_of(refused.value) == TRY_AGAIN
    with pytest.raises(ConfigError, match=r"within 20 s: unknown host") as refused:
        check(cluster_file(folder, "tcp://host.invalid:1", None, open_to_the_network=True))


def test_workers_that_do_not_see_the_scratch_folder(
    folder: Path, tls_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path that is another folder in each process."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"worker tls://\S+ cannot read or write the scratch.*No such file"):
        check(cluster_file(folder, tls_address, scratch="/proc/self/cwd"))
    assert list(tmp_path.iterdir()) == []


OTHER = {**connection.software(), "sdc code": "0" * 12, "python": "3.99"}


def test_workers_with_other_code(folder: Path, tls_address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "software", lambda: OTHER)
    with pytest.raises(
        ConfigError, match=r"differs from this process: sdc code \w{12} \(here 0{12}\), python 3\.\d+ \(here"
    ):
        check(cluster_file(folder, tls_address))


def test_the_command_line_says_one_sentence(folder: Path, tls_address: str, tmp_path: Path) -> None:
    cluster = cluster_file(folder, tls_address, "ca other other")
    config = write_czech(tmp_path, execution={"cluster": str(cluster)})
    command = [sys.executable, "-m", "sdc.commands.cli", "run", str(config)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=ROOT)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1].startswith(
        f"sdc: {folder}/address.yaml: no scheduler accepts us at '{tls_address}' within"
    )
    assert not (tmp_path / "runs").exists()


# SLURM

SBATCH = """#!/usr/bin/env bash
# Takes a job as sbatch does, and runs it here.
if [ "$1" = --test-only ] || [ "$1" = --hold ]; then
  grep -q '^#SBATCH -A nobody' && { echo "sbatch: error: Invalid account" >&2; exit 1; }
  exit 0
fi
cp "$1" "$JOBS/$$.sh"
setsid bash "$JOBS/$$.sh" >"$JOBS/$$.log" 2>&1 &
echo "$! RUNNING None" >>"$JOBS/queue"
echo "Submitted batch job $!"
"""
SCANCEL = """#!/usr/bin/env bash
kill -- "-$1"
"""
SINFO = """#!/usr/bin/env bash
echo "batch* 8:00"
echo "long 1-00:00:00"
"""
SQUEUE = """#!/usr/bin/env bash
cat "$JOBS/queue" 2>/dev/null || true
"""


@pytest.fixture
def slurm_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cluster file, and on the PATH commands that stand in for SLURM's."""
    for name, script in (("sbatch", SBATCH), ("scancel", SCANCEL), ("sinfo", SINFO), ("squeue", SQUEUE)):
        (tmp_path / name).write_text(script)
        (tmp_path / name).chmod(0o755)
    for name in ("scratch", "jobs"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("JOBS", str(tmp_path / "jobs"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    settings = {
        "kind": "slurm",
        "walltime": "00:08:00",
        "memory_per_worker": "1GiB",
        "workers": 1,
        "scratch": "scratch",
        "interface": "lo",
        "timeout_seconds": 60,
    }
    file = tmp_path / "slurm.yaml"
    file.write_text(yaml.safe_dump(settings))
    return file


def test_a_job_that_slurm_would_refuse(slurm_file: Path) -> None:
    slurm_file.write_text(slurm_file.read_text() + "account: nobody\n")
    with pytest.raises(ConfigError, match="SLURM would refuse the job of a worker: sbatch: error: Invalid account"):
        check_cluster(ExecutionConfig(cluster=str(slurm_file)))


def test_a_wall_time_beyond_the_limit_of_the_partition(slurm_file: Path) -> None:
    """SLURM would take the job, and never start it; another partition gives more."""
    text = slurm_file.read_text().replace("00:08:00", "00:09:00")
    slurm_file.write_text(text)
    with pytest.raises(
        ConfigError, match=r"walltime = '00:09:00' is more than the limit of the partition \(batch 8:00\), so no"
    ):
        check_cluster(ExecutionConfig(cluster=str(slurm_file)))
    slurm_file.write_text(text + "queue: batch,long\n")
    assert check_cluster(ExecutionConfig(cluster=str(slurm_file))) == 1


@dataclass
class SubmittedJob:
    job_id: str | None


@dataclass
class ClusterOfJobs:
    """As much of a Dask cluster as is asked about its jobs."""

    workers: dict[str, SubmittedJob]
    observed: frozenset[str] = frozenset({"has one"})


def test_what_slurm_says_of_jobs_without_a_worker(slurm_file: Path) -> None:
    ids = {"has one": "1", "a": "2", "b": "3", "c": "4", "not yet": None}
    jobs = Jobs(ClusterOfJobs({name: SubmittedJob(job) for name, job in ids.items()}))
    queue = slurm_file.parent / "jobs" / "queue"
    queue.write_text("1 RUNNING None\n2 PENDING Resources\n3 PENDING Resources\n4 RUNNING None\n9 PENDING Other\n")
    assert jobs.description() == "SLURM jobs 2, 3 are PENDING (Resources); SLURM job 4 is RUNNING"
    queue.write_text("2 PENDING Nodes required for job are DOWN, DRAINED\n3 CANCELLED None\n")
    drained = "SLURM job 2 is PENDING (Nodes required for job are DOWN, DRAINED)"
    assert jobs.before_the_first() == f"{drained}; SLURM job 3 is CANCELLED; SLURM job 4 is gone (cancelled?)"
    queue.write_text("2 CANCELLED None\n3 FAILED NonZeroExitCode\n")
    with pytest.raises(
        ConfigError, match=r"no job has a worker: SLURM job 2 is CANCELLED; SLURM job 3 is FAILED .*; see"
    ):
        jobs.before_the_first()
    assert Jobs(ClusterOfJobs({})).before_the_first() == ""
