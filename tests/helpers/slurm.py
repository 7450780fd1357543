"""SLURM on this machine alone: one node, no accounting, everything below one folder, gone when the block ends."""

import getpass
import os
import secrets
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.helpers import waiting

DAEMONS = "munged", "slurmctld", "slurmd"
SBIN = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
NODE, CPUS, MEBIBYTES = "localhost", 4, 8000
SHORT = "short"
SHORT_LIMIT = "00:06:00"
"""Of the partition of that name; the default one has none."""

CONF = """
ClusterName=test
SlurmctldHost={node}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={daemon}
SlurmUser={user}
SlurmdUser={user}
AuthInfo=socket={folder}/munge.socket
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
ReturnToService=2
SlurmdParameters=config_overrides
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmdSpoolDir={folder}/spool
StateSaveLocation={folder}/state
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/none
KillWait=2
NodeName={node} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory={memory}
PartitionName=normal Nodes=ALL Default=YES MaxTime=INFINITE
PartitionName={short} Nodes=ALL MaxTime={limit}
"""


@dataclass(frozen=True)
class Slurm:
    """One node that takes jobs; `conf` goes into SLURM_CONF of whoever submits them."""

    conf: Path

    def asked(self, *command: str) -> str:
        environment = {**os.environ, "SLURM_CONF": str(self.conf)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=True)
        return done.stdout

    def jobs(self, *states: str) -> list[str]:
        """Ids of the jobs in the queue, or of those in such states."""
        only = ["--states", ",".join(states)] if states else []
        return self.asked("squeue", "--noheader", "--format", "%i", *only).split()

    def processes(self) -> list[psutil.Process]:
        """Those of its jobs."""
        return [process for process in psutil.process_iter() if self._is_of_a_job(process)]

    def drain(self, *, drained: bool) -> None:
        change = ["state=drain", "reason=test"] if drained else ["state=resume"]
        self.asked("scontrol", "update", f"nodename={NODE}", *change)

    def empty(self) -> None:
        """Nothing is in the queue, and no process of a job is there."""
        if jobs := self.jobs():
            self.asked("scancel", *jobs)
        wait_until(lambda: not self.jobs() and not self.processes())

    def _is_of_a_job(self, process: psutil.Process) -> bool:
        try:
            environment = process.environ()
        except psutil.Error:
            return False
        return "SLURM_JOB_ID" in environment and environment.get("SLURM_CONF") == str(self.conf)


def missing() -> str:
    """Why there can be no SLURM here; empty where there can."""
    commands = [*DAEMONS, "sbatch", "scontrol"]
    absent = [command for command in commands if shutil.which(command, path=SBIN) is None]
    return f"{', '.join(absent)} not installed (Debian's slurm-wlm)" if absent else ""


@contextmanager
def running_slurm(folder: Path) -> Iterator[Slurm]:
    """Munge, controller and node as processes of this one."""
    conf, key = folder / "slurm.conf", folder / "munge.key"
    for name in ("spool", "state"):
        (folder / name).mkdir()
    key.touch(mode=0o600)
    key.write_bytes(secrets.token_bytes(128))
    controller, daemon = _free_ports(2)
    limits = {"cpus": CPUS, "memory": MEBIBYTES, "short": SHORT, "limit": SHORT_LIMIT}
    who = {"node": NODE, "user": getpass.getuser(), "folder": folder}
    conf.write_text(CONF.format(controller=controller, daemon=daemon, **who, **limits))
    files = {"socket": "socket", "key-file": "key", "log-file": "log", "pid-file": "pid", "seed-file": "seed"}
    munge = [f"--{option}={folder}/munge.{file}" for option, file in files.items()]
    slurm = Slurm(conf)
    with ExitStack() as daemons:
        daemons.enter_context(_daemon(folder, "munged", "--foreground", "--force", *munge))
        wait_until((folder / "munge.socket").exists)
        daemons.enter_context(_daemon(folder, "slurmctld", "-D", "-f", str(conf)))
        daemons.enter_context(_daemon(folder, "slurmd", "-D", "-f", str(conf), "-N", NODE))
        wait_until(lambda: "idle" in slurm.asked("sinfo", "--noheader", "--format", "%T"))
        daemons.callback(slurm.empty)
        yield slurm


@contextmanager
def _daemon(folder: Path, name: str, *arguments: str) -> Iterator[None]:
    command = shutil.which(name, path=SBIN)
    assert command is not None
    with (folder / f"{name}.out").open("wb") as log:
        process = subprocess.Popen([command, *arguments], stdout=log, stderr=log, start_new_session=True)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(timeout=300)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=300)


def wait_until(true: Callable[[], object], seconds: float = 60.0) -> None:
    def holds() -> bool:
        with suppress(subprocess.CalledProcessError):  # while the controller is still coming up
            return bool(true())
        return False

    waiting.wait_until(holds, seconds)


def _free_ports(number: int) -> list[int]:
    with ExitStack() as stack:
        found = [stack.enter_context(socket.socket()) for _ in range(number)]
        for free in found:
            free.bind(("127.0.0.1", 0))
        return [free.getsockname()[1] for free in found]


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    """A SLURM of the module's own."""
    if why := missing():
        pytest.skip(f"no SLURM: {why}")
    with running_slurm(tmp_path_factory.mktemp("slurm")) as found:
        yield found
