"""Clusters: from settings to an executor that is open for a while, and what is checked before any work."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

from sdc.config import ExecutionConfig
from sdc.execution.connection import check_workers, connect
from sdc.execution.dask_executor import DaskExecutor
from sdc.execution.jobs import ONE_THREAD, job_script, job_settings, manifest, slurm_library
from sdc.execution.settings import (
    AddressSettings,
    KubernetesSettings,
    LocalSettings,
    SlurmSettings,
    cluster_of,
    worker_memory,
)
from sdc.executor import IN_PROCESS, Executor
from sdc.model.errors import ConfigError, SdcError
from sdc.storage.scratch import own_scratch

TRIES = 3
HEALTH_ALONE = '["distributed.http.health"]'
_WORKER_ROUTES = "DASK_DISTRIBUTED__WORKER__HTTP__ROUTES"
SUBMISSION_SECONDS = 60  # that sbatch may take to say whether it would take a job
STEADY = {"interval": "5s", "wait_count": 12}  # workers stay for a minute without work, which there is between stages


@contextmanager
def open_executor(execution: ExecutionConfig) -> Iterator[Executor]:
    """The executor of a config: in this process, workers of this machine, or those of a cluster file.

    ConfigError where a cluster does not start, or its workers are not as they must be.
    """
    settings = cluster_of(execution)
    if settings is None:
        yield IN_PROCESS
        return
    # clusters are imported where they are opened: Dask takes 0.4 s, which a plain command need not wait for
    if isinstance(settings, LocalSettings):
        opened = _local(settings, worker_memory(execution))
    elif isinstance(settings, SlurmSettings):
        opened = _slurm(settings)
    elif isinstance(settings, KubernetesSettings):
        opened = _kubernetes(settings)
    else:
        opened = _at_address(settings, worker_memory(execution))
    with ExitStack() as stack:
        with _named(execution.cluster):
            # only what opening refuses is about the cluster file: the work that follows is outside of `_named`
            executor = stack.enter_context(opened)
        yield executor


def check_cluster(execution: ExecutionConfig) -> int:
    """How many workers a build will have at most; ConfigError, before any work, where it would get none.

    A running scheduler is asked, and so are its workers; of a cluster that a build starts, what starts it is tried.
    """
    settings = cluster_of(execution)
    if isinstance(settings, AddressSettings):
        with open_executor(execution) as executor:
            return executor.workers
    with _named(execution.cluster):
        if isinstance(settings, SlurmSettings):
            _require_package("dask_jobqueue", settings.kind)
            _require_folder(settings.scratch)
            _try_submission(settings)
        if isinstance(settings, KubernetesSettings):
            _require_package("dask_kubernetes", settings.kind)
            _require_folder(settings.scratch)
            _require_kube_config()
    return 1 if settings is None else settings.most


@contextmanager
def _named(cluster: str) -> Iterator[None]:
    """Refusals begin with the cluster file."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{cluster}: {error}") from error


@contextmanager
def _local(settings: LocalSettings, memory: int) -> Iterator[Executor]:
    import dask
    from distributed import Client, LocalCluster, Security

    # Dask's own setting fixes malloc's trim threshold, after which glibc maps every large array anew: a fifth slower
    environment = ONE_THREAD if settings.dashboard else {**ONE_THREAD, _WORKER_ROUTES: HEALTH_ALONE}
    routes = {} if settings.dashboard else {"distributed.scheduler.http.routes": json.loads(HEALTH_ALONE)}
    dask.config.set({"distributed.nanny.pre-spawn-environ": environment, **routes})
    # keys of this run alone, in memory: another user of this machine can reach the ports, and whoever a scheduler
    # listens to runs code in its workers
    security = Security.temporary()  # type: ignore[no-untyped-call]
    with own_scratch(Path(tempfile.gettempdir())) as scratch:

        def start() -> Any:
            with _deaf_to_signals():
                return LocalCluster(  # type: ignore[no-untyped-call]
                    n_workers=settings.fewest,
                    threads_per_worker=1,
                    processes=True,
                    host="127.0.0.1",
                    dashboard_address="127.0.0.1:0",  # without one Dask takes 8787, and warns where that is taken
                    scheduler_kwargs={"dashboard": settings.dashboard},
                    security=security,
                    memory_limit=memory,
                    local_directory=str(scratch),
                )

        with _in_a_few_tries(start) as cluster, Client(cluster) as client:  # type: ignore[no-untyped-call]
            if settings.adaptive:
                cluster.adapt(minimum=settings.fewest, maximum=settings.most, **STEADY)
            try:
                yield DaskExecutor(client, scratch, settings.most, dashboard=settings.dashboard)
            except BaseException:
                _kill(cluster)
                raise


def _kill(cluster: Any) -> None:
    """Ends workers at once: what they are at is of no use any more, and a kernel is not left before it is done."""
    for nanny in cluster.workers.values():
        nanny.auto_restart = False
        if nanny.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(nanny.pid, signal.SIGKILL)


@contextmanager
def _deaf_to_signals() -> Iterator[None]:
    """Threads that are started meanwhile, and the workers that these start whenever, take no signal that asks to end.

    One to the whole group would end the workers beside this process, which would wait for them and start others. They
    end when this process says so, or is gone.
    """
    resource_tracker.ensure_running()  # else it is started meanwhile, and lets signals in again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _in_a_few_tries(start: Callable[[], Any]) -> Any:
    """The cluster that is started; a worker that dies before it is up fails the start of all of them."""
    failures: list[RuntimeError] = []
    while len(failures) < TRIES:
        try:
            return start()
        except RuntimeError as error:
            failures.append(error)
    raise SdcError(f"the workers did not start, {TRIES} times: {failures[-1]}; is there memory for them?")


@contextmanager
def _slurm(settings: SlurmSettings) -> Iterator[Executor]:
    """Jobs are submitted anew as others reach the end of their time; only they hold the key to the scheduler."""
    from distributed import Client

    with (
        _scratch_below(settings.scratch) as scratch,
        _submitted(settings, slurm_library().SLURMCluster) as cluster,
        Client(cluster) as client,  # type: ignore[no-untyped-call]
    ):
        cluster.adapt(minimum=settings.fewest, maximum=settings.most, **STEADY)
        check_workers(client, scratch, settings.timeout_seconds)
        yield DaskExecutor(client, scratch, settings.most)


def _submitted(settings: SlurmSettings, cluster: Any) -> Any:
    """The Dask cluster whose workers are jobs; ConfigError where its scheduler does not start or none is submitted."""
    try:
        if settings.log_folder is not None:
            settings.log_folder.mkdir(parents=True, exist_ok=True)
        return cluster(
            n_workers=settings.fewest,
            # certificates made for this cluster: nodes are shared, and a scheduler runs whatever it is sent
            security=True,
            shared_temp_directory=str(settings.scratch),
            # jobs on other nodes need the scheduler, which asks for the key; the dashboard asks nobody
            scheduler_options={"dashboard_address": "127.0.0.1:0"},
            **job_settings(settings),
        )
    except (OSError, RuntimeError, ValueError) as error:
        raise ConfigError(f"the Dask cluster of SLURM jobs did not start: {error}; mend the cluster file") from error


@contextmanager
def _kubernetes(settings: KubernetesSettings) -> Iterator[Executor]:
    from dask_kubernetes.operator import KubeCluster
    from distributed import Client

    # a name of its own: two builds at once must not share, or remove, one cluster
    own = settings.model_copy(update={"name": f"{settings.name}-{uuid.uuid4().hex[:8]}"})
    with (
        _scratch_below(own.scratch) as scratch,
        _started(own, KubeCluster) as cluster,
        Client(cluster) as client,  # type: ignore[no-untyped-call]
    ):
        if own.adaptive:
            cluster.adapt(minimum=own.fewest, maximum=own.most)
        check_workers(client, scratch, own.timeout_seconds)
        yield DaskExecutor(client, scratch, own.most)


def _started(settings: KubernetesSettings, cluster: Any) -> Any:
    """The Dask cluster that the operator has started; it is removed when it is closed."""
    try:
        return cluster(
            custom_cluster_spec=manifest(settings),
            namespace=settings.namespace,
            resource_timeout=int(settings.timeout_seconds),
            shutdown_on_close=True,
            quiet=True,
        )
    except Exception as error:  # the library raises those of its transport, its parser and its own
        raise ConfigError(
            f"the Dask operator did not start cluster {settings.name} of image {settings.image!r}: {error!r}; see what "
            "kubectl describe says of it"
        ) from error


@contextmanager
def _at_address(settings: AddressSettings, memory: int) -> Iterator[Executor]:
    with _scratch_below(settings.scratch) as scratch, connect(settings) as client:
        workers = check_workers(client, scratch, settings.timeout_seconds, memory)
        yield DaskExecutor(client, scratch, workers)


@contextmanager
def _scratch_below(folder: Path) -> Iterator[Path]:
    """A folder of this build; workers may run as another user of the group that the one it is in is for.

    Where that one is open to everybody, as a folder for temporary files is, this one is for its user alone.
    """
    _require_folder(folder)
    with tempfile.TemporaryDirectory(prefix="sdc-", dir=folder, ignore_cleanup_errors=True) as scratch:
        # `mkdtemp` gives it to this user alone
        mode = folder.stat().st_mode
        os.chmod(scratch, 0o700 if mode & (stat.S_ISVTX | stat.S_IWOTH) else mode & 0o770)
        yield Path(scratch)


def _require_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise ConfigError(f"scratch = {str(folder)!r}: there is no such folder; make it where all workers see it")
    if not os.access(folder, os.W_OK):
        raise ConfigError(f"scratch = {str(folder)!r}: it cannot be written; mend its permissions, or name another")


def _require_package(name: str, kind: str) -> None:
    if find_spec(name) is None:
        package = name.replace("_", "-")
        raise ConfigError(f"a cluster of kind {kind} needs the package {package}; install sdc[cluster]")


def _require_kube_config() -> None:
    """A kube config, or the account of the pod that this process is in."""
    named = os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
    in_a_pod = "KUBERNETES_SERVICE_HOST" in os.environ
    if not in_a_pod and not any(Path(path).is_file() for path in named.split(os.pathsep)):
        raise ConfigError(f"there is no kube config at {named}; set KUBECONFIG to one, or run in a pod of the cluster")


def _try_submission(settings: SlurmSettings) -> None:
    """Asks SLURM whether it would take such a job, without submitting one."""
    if shutil.which("sbatch") is None:
        raise ConfigError("there is no command sbatch on the PATH; run where SLURM jobs can be submitted")
    try:
        # `--test-only` asks all that a submission would: queue, account, wall time, memory and further options
        answer = subprocess.run(
            ["sbatch", "--test-only"],
            input=job_script(settings),
            capture_output=True,
            text=True,
            timeout=SUBMISSION_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise ConfigError(f"sbatch does not answer within {SUBMISSION_SECONDS} s; is SLURM at work?") from error
    if answer.returncode:
        said = (answer.stderr or answer.stdout).strip()
        raise ConfigError(f"SLURM would refuse the job of a worker: {said}; mend the cluster file")
