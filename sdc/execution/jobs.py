"""Workers as SLURM jobs and as pods: scripts, manifests, checks. `python -m sdc.execution.jobs FILE` prints them."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from shlex import quote
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import typer
import yaml

from sdc.config.values import size_in_bytes
from sdc.execution.connection import PATIENCE, check_workers
from sdc.execution.dask_executor import DaskExecutor
from sdc.execution.settings import KubernetesSettings, SlurmSettings, walltime_seconds
from sdc.executor import Executor
from sdc.model.errors import ConfigError, NoWorkersError
from sdc.model.extras import require_packages
from sdc.refusal import as_command
from sdc.storage.scratch import own_scratch

if TYPE_CHECKING:
    from sdc.execution.watch import WatchAddress

COMMANDS = "sbatch", "scancel", "sinfo", "squeue"
ANSWER_SECONDS = 60  # limit of a command
_AWAY = "Unable to contact slurm controller", "Socket timed out"
NEVER_COMES = (
    *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED"),
    *("NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT", "gone"),
)
"""States of a job whose worker will not come."""


def require_commands(_: SlurmSettings) -> None:
    """Raise ConfigError if SLURM's commands are missing."""
    for command in COMMANDS:
        if shutil.which(command) is None:
            raise ConfigError(f"command {command} is not on the PATH; run where SLURM jobs can be submitted")


def require_submission(settings: SlurmSettings) -> None:
    """Raise ConfigError if SLURM would refuse a worker's job, or never start it.

    NoWorkersError if it does not answer.
    """
    script = job_script(settings)
    # `--test-only` checks queue, account, wall time, memory and further options
    if _run("sbatch", "--test-only", given=script).returncode:
        # it also refuses jobs that would wait for a drained node: only a submission shows, which is held
        held = _run("sbatch", "--hold", "--parsable", given=script)
        if held.returncode:
            answer = (held.stderr or held.stdout).strip()
            if any(words in answer for words in _AWAY):
                raise NoWorkersError(f"SLURM accepts no job now: {answer}; check that slurmctld runs, then run again")
            raise ConfigError(f"SLURM would refuse the job of a worker: {answer}; fix the cluster file")
        _run("scancel", held.stdout.strip().partition(";")[0])
    _require_time(settings)


def _require_time(settings: SlurmSettings) -> None:
    """SLURM accepts a job that exceeds the time limit of its partition, but never starts it."""
    partition = ["--all"] if settings.queue is None else ["--partition", settings.queue]
    answer = _run("sinfo", "--noheader", "--format", "%P %l", *partition)
    if answer.returncode:
        raise NoWorkersError(f"sinfo does not report time limits: {answer.stderr.strip()}; is SLURM running?")
    rows = [line.split() for line in answer.stdout.splitlines()]
    limits = {name.rstrip("*"): limit for name, limit in rows if settings.queue or name.endswith("*")}
    if limits and not any(_allows(limit, settings.walltime) for limit in limits.values()):
        limits_text = ", ".join(f"{name} {limit}" for name, limit in limits.items())
        raise ConfigError(
            f"walltime = {settings.walltime!r} is more than the limit of the partition ({limits_text}), so no job "
            "would start; shorten it, or name another partition in queue"
        )


def _allows(limit: str, walltime: str) -> bool:
    """A limit is a time, infinite or n/a."""
    return not limit[0].isdigit() or walltime_seconds(walltime) <= walltime_seconds(limit)


def _run(*command: str, given: str = "") -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, input=given, capture_output=True, text=True, timeout=ANSWER_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise NoWorkersError(f"{command[0]} does not answer within {ANSWER_SECONDS} s; is SLURM running?") from error


@contextmanager
def slurm_executor(settings: SlurmSettings, memory: int, watch: WatchAddress | None) -> Iterator[Executor]:
    """Jobs are resubmitted as others reach their wall time; only they hold the scheduler's key."""
    import dask
    from distributed import Client

    library = slurm_library()
    with (
        own_scratch(settings.scratch) as scratch,
        dask.config.set(ALMOST_NO_HTTP),
        _submitted(settings, scratch, library.SLURMCluster, watch and watch.loop) as cluster,
        Client(cluster, timeout=PATIENCE) as client,  # type: ignore[no-untyped-call]
        nullcontext() if watch is None else watch.dashboard_of(cluster.scheduler),
    ):
        cluster.adapt(minimum=settings.fewest, maximum=settings.most, **STEADY)
        jobs = Jobs(cluster)
        check_workers(client, scratch, settings.timeout_seconds, waiting=jobs.before_the_first)
        shown, seconds = watch.PLACE if watch else None, settings.timeout_seconds
        yield DaskExecutor(client, scratch, settings.most, seconds, dashboard=shown, waiting=jobs.description)


def _submitted(settings: SlurmSettings, scratch: Path, cluster: Any, loop: Any) -> Any:
    """Start the Dask cluster of jobs; ConfigError if its scheduler does not start or no job is submitted."""
    try:
        if settings.log_folder is not None:
            settings.log_folder.mkdir(parents=True, exist_ok=True)
        return cluster(
            n_workers=settings.fewest,
            security=_certificates(scratch),
            loop=loop,
            # other nodes reach the scheduler, which requires the key; its HTTP requires none
            scheduler_options={
                "dashboard_address": "127.0.0.1:0",
                "dashboard": False,
                "local_directory": str(scratch),
            },
            **job_settings(settings),
        )
    except (OSError, RuntimeError, ValueError) as error:
        raise ConfigError(f"the Dask cluster of SLURM jobs did not start: {error}; fix the cluster file") from error


def _certificates(scratch: Path) -> Any:
    """Make certificates for this cluster: nodes are shared, and a scheduler runs whatever it receives.

    The workers' files are in the scratch folder and are removed with it; the library's own would remain after a kill.
    """
    from distributed import Security

    class OfJobs(Security):
        """Quotes the paths of workers' files in the job script, which the library does not."""

        def get_tls_config_for_role(self, role: str) -> dict[str, Any]:
            config: dict[str, Any] = super().get_tls_config_for_role(role)  # type: ignore[no-untyped-call]
            return config if role != "worker" else {key: value and quote(value) for key, value in config.items()}

    security = OfJobs.temporary()  # type: ignore[no-untyped-call]
    for name in ("tls_ca_file", "tls_worker_cert", "tls_worker_key"):
        path = scratch / f"{name}.pem"
        path.touch(mode=0o600)
        path.write_text(getattr(security, name))
        setattr(security, name, str(path))
    return security


class Jobs:
    """The jobs of a Dask cluster without a worker, with SLURM's state of them."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster

    def description(self) -> str:
        """Return a text such as "SLURM job 17 is PENDING (Resources)", or ""."""
        found: dict[str, list[str]] = {}
        for job, (state, reason) in self._waiting().items():
            found.setdefault(f"{state} ({reason})" if reason not in ("", "None") else state, []).append(job)
        return "; ".join(
            f"SLURM job {jobs[0]} is {what}" if len(jobs) == 1 else f"SLURM jobs {', '.join(jobs)} are {what}"
            for what, jobs in found.items()
        )

    def before_the_first(self) -> str:
        """Return the same; ConfigError if all of them have ended, so that no worker will come."""
        states = [state for state, _ in self._waiting().values()]
        if states and all(state in NEVER_COMES for state in states):
            raise ConfigError(
                f"no job has a worker: {self.description()}; see their output (log_folder), fix the cluster file or "
                "run again"
            )
        return self.description()

    def _waiting(self) -> dict[str, tuple[str, str]]:
        """Return the state and reason of each job without a worker; "gone" for unknown jobs."""
        here = self._cluster.observed
        ids = [job.job_id for name, job in list(self._cluster.workers.items()) if name not in here and job.job_id]
        if not ids:
            return {}
        try:
            listed = _run("squeue", "--noheader", "--me", "--states", "all", "--format", "%i %T %r")
        except ConfigError as error:  # SLURM may be unavailable during a long wait
            return dict.fromkeys(ids, ("unknown", str(error)))
        if listed.returncode:
            return dict.fromkeys(ids, ("unknown", listed.stderr.strip()))
        rows = {row[0]: row for line in listed.stdout.splitlines() if len(row := line.split(maxsplit=2)) == 3}
        return {job: (rows[job][1], rows[job][2]) if job in rows else ("gone", "cancelled?") for job in ids}


NANNY_BYTES = 256 << 20  # Dask's nanny runs in the job too, outside the worker's limit

ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
ALMOST_NO_HTTP = {f"distributed.{who}.http.routes": ["distributed.http.health"] for who in ("scheduler", "worker")}
"""Dask's HTTP pages need no key, so only the health page that Kubernetes needs is served."""
NO_HTTP = ["--no-dashboard", "--dashboard-address", "127.0.0.1:0"]
"""Of a worker: without an address Dask serves HTTP on every interface."""
STEADY = {"interval": "5s", "wait_count": 12}  # workers stay a minute without work, such as between stages
WORKER_ENV = {
    **ONE_THREAD,
    **{f"DASK_{name.upper().replace('.', '__')}": str(routes) for name, routes in ALMOST_NO_HTTP.items()},
    # Dask's own setting fixes malloc's trim threshold, which makes large arrays a fifth slower
    "DASK_DISTRIBUTED__NANNY__PRE_SPAWN_ENVIRON": "{'MALLOC_TRIM_THRESHOLD_': None}",
}


def job_settings(settings: SlurmSettings) -> dict[str, Any]:
    """Return dask-jobqueue's settings of a job: one worker of one thread, which leaves before the wall time."""
    memory = size_in_bytes(settings.memory_per_worker)
    lifetime, stagger = settings.leaving
    logs = [] if settings.log_folder is None else [f"--output={quote(str(settings.log_folder))}/%x-%j.log"]
    return {
        "queue": settings.queue,
        "account": settings.account,
        "walltime": settings.walltime,
        "cores": 1,  # a unit has one thread, and a worker runs one unit
        "processes": 1,
        "memory": f"{memory}B",
        "job_mem": f"{-(-(memory + NANNY_BYTES) >> 20)}M",
        "job_name": "sdc-worker",
        "python": quote(settings.python or sys.executable),
        "interface": settings.interface,
        "job_extra_directives": [*logs, *settings.job_extra_directives],
        "job_script_prologue": [
            *(f'export {name}="{value}"' for name, value in WORKER_ENV.items()),
            *settings.job_script_prologue,
        ],
        "worker_extra_args": ["--lifetime", f"{lifetime}s", "--lifetime-stagger", f"{stagger}s", *NO_HTTP],
    }


def job_script(settings: SlurmSettings) -> str:
    """Return the script of a job, without the scheduler's address and certificate files."""
    # a placeholder: this script is not submitted
    job = slurm_library().SLURMJob(scheduler="tls://scheduler:0", name="worker", **job_settings(settings))
    return str(job.job_script())


def slurm_library() -> ModuleType:
    """Import `dask_jobqueue.slurm` without its handler of interrupts, which would end a build with status 0."""
    before = signal.getsignal(signal.SIGINT)
    import dask_jobqueue.slurm

    if signal.getsignal(signal.SIGINT) is not before:
        signal.signal(signal.SIGINT, before)
    return dask_jobqueue.slurm


def manifest(settings: KubernetesSettings) -> dict[str, Any]:
    """Return the DaskCluster resource: the operator's, with our commands, and the claim mounted as scratch folder."""
    from dask_kubernetes.operator import make_cluster_spec

    memory, env = size_in_bytes(settings.memory_per_worker), {**WORKER_ENV, **settings.env}  # the file's own override
    resource: dict[str, Any] = make_cluster_spec(settings.name, settings.image, settings.fewest, env=env)
    pods = [resource["spec"][who]["spec"] for who in ("worker", "scheduler")]
    for pod in pods:
        pod["securityContext"] = {"runAsNonRoot": True}
        if settings.service_account is not None:
            pod["serviceAccountName"] = settings.service_account
        if settings.image_pull_secrets:
            pod["imagePullSecrets"] = [{"name": name} for name in settings.image_pull_secrets]
    (worker,), (scheduler,) = (pod["containers"] for pod in pods)
    for container, unused in (worker, ["ports"]), (scheduler, ["resources", "livenessProbe"]):
        for key in unused:
            container.pop(key, None)
    scheduler["args"] = ["dask", "scheduler", "--host", "0.0.0.0", "--no-dashboard"]
    worker["args"] = ["dask", "worker", "--name", "$(DASK_WORKER_NAME)", "--nthreads", "1"]
    worker["args"] += ["--memory-limit", str(memory), "--local-directory", "/tmp", "--death-timeout", "120", *NO_HTTP]
    size = {"cpu": settings.cpu_per_worker, "memory": str(memory + NANNY_BYTES)}
    worker["resources"] = {"requests": size, "limits": {**size}}  # equal, so that workers get what they are promised
    worker["volumeMounts"] = [{"name": "scratch", "mountPath": str(settings.scratch)}]
    claim = {"claimName": settings.volume_claim}
    pods[0]["volumes"] = [{"name": "scratch", "persistentVolumeClaim": claim}]
    return resource


def autoscaler(settings: KubernetesSettings) -> dict[str, Any]:
    """Return the DaskAutoscaler resource of an adaptive cluster."""
    scale = {"cluster": settings.name, "minimum": settings.fewest, "maximum": settings.most}
    return {
        "apiVersion": "kubernetes.dask.org/v1",
        "kind": "DaskAutoscaler",
        "metadata": {"name": settings.name},
        "spec": scale,
    }


def manifests(settings: KubernetesSettings) -> str:
    """Return all resources as YAML."""
    resources = [manifest(settings), *([autoscaler(settings)] if settings.adaptive else [])]
    return yaml.safe_dump_all(resources, sort_keys=False)


def submitted(path: Path) -> str:
    """Return what a build would submit for a cluster file; ConfigError for other kinds."""
    from sdc.execution.cluster import KINDS, read_cluster  # imports this module

    settings = read_cluster(path)
    kind = KINDS[settings.kind]
    if kind.submitted is not None:
        require_packages(f"kind = {kind.name}", *kind.packages)
        return kind.submitted(settings)
    kinds = " or ".join(one.name for one in KINDS.values() if one.submitted)
    raise ConfigError(f"{path}: a cluster of kind {settings.kind} submits nothing; name one of kind {kinds}")


def main(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A cluster file of kind slurm or kubernetes.")],
) -> None:
    """Print what a build would submit: a job script or manifests."""
    print(submitted(file), end="")


if __name__ == "__main__":
    with as_command():
        typer.run(main)
