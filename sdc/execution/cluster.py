"""Clusters: the kinds, what a build may use of one, opening an executor with quiet logs, and checking it early."""

from __future__ import annotations

import gc
import logging
import os
import signal
import stat
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from multiprocessing import resource_tracker
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sdc.config.build import ExecutionConfig
from sdc.config.features import by_name
from sdc.config.file import load_yaml, validated
from sdc.config.values import EMBEDDED_CLUSTERS, size_in_bytes
from sdc.events import LOGGER, SERVER, EventLog
from sdc.execution.connection import PATIENCE, check_workers, connect, tls_context
from sdc.execution.dask_executor import DaskExecutor
from sdc.execution.jobs import (
    ALMOST_NO_HTTP,
    ONE_THREAD,
    STEADY,
    job_script,
    manifest,
    manifests,
    require_commands,
    require_submission,
    slurm_executor,
)
from sdc.execution.settings import (
    AddressSettings,
    ClusterSettings,
    KubernetesSettings,
    LocalSettings,
    SlurmSettings,
    Started,
)
from sdc.executor import IN_PROCESS, Executor, without_main_script
from sdc.model.errors import ConfigError, SdcError
from sdc.model.extras import require_packages
from sdc.paths import require_own
from sdc.storage.scratch import own_scratch

if TYPE_CHECKING:
    from sdc.execution.watch import WatchAddress

LIBRARIES = (
    *("distributed", "distributed.client", "distributed.gc"),  # each may have its own handler
    *("asyncio", "bokeh", "tornado", "tornado.application"),
)


class _ToRunLog(logging.Handler):
    """Passes records to the open log of a run or server, if any."""

    def emit(self, record: logging.LogRecord) -> None:
        for log in _open_logs():
            log.handle(record)


def _open_logs() -> list[EventLog]:
    return [handler for handler in (*LOGGER.handlers, *SERVER.handlers) if isinstance(handler, EventLog)]


@contextmanager
def quiet_here() -> Iterator[None]:
    """Send warnings and errors of these libraries to the log of the run, within the block.

    A lost worker is one line of our own, and errors are raised; these records are for diagnosis.
    """
    import distributed  # noqa: F401  # its import sets up the loggers

    before = [(logger, logger.handlers, logger.level, logger.propagate) for logger in _loggers()]
    _send_to([_ToRunLog()])
    try:
        yield
    finally:
        for logger, handlers, level, propagate in before:
            logger.handlers, logger.propagate = handlers, propagate
            logger.setLevel(level)


def quiet_worker() -> Callable[[], None]:
    """Do the same in a local worker process, until it ends."""
    return partial(_log_to_files, [log.path.absolute() for log in _open_logs()])


def _log_to_files(paths: Sequence[Path]) -> None:
    _send_to([*map(EventLog, paths)])


def _has_no_data(record: logging.LogRecord) -> bool:
    """Drop Dask's records of failed or unsendable tasks: they contain inputs, which may be counts.

    The error itself is raised anyway.
    """
    return not str(record.msg).startswith("Compute Failed") and not record.name.startswith("distributed.protocol")


def _send_to(handlers: list[logging.Handler]) -> None:
    for handler in handlers:
        handler.addFilter(_has_no_data)
    for logger in _loggers():
        # otherwise Python writes to standard error
        logger.handlers, logger.propagate = [*handlers] or [logging.NullHandler()], False
        logger.setLevel(max(logger.level, logging.WARNING))


def _loggers() -> list[logging.Logger]:
    return [logging.getLogger(name) for name in LIBRARIES]


TRIES = 3
WATCH: ContextVar[WatchAddress | None] = ContextVar("watch", default=None)
"""Where new clusters show Dask's dashboard, if anywhere."""


@contextmanager
def open_executor(execution: ExecutionConfig) -> Iterator[Executor]:
    """Open the executor of a config: this process, local workers, or a cluster file.

    ConfigError if a cluster does not start or its workers do not fit.
    """
    settings = cluster_of(execution)
    if settings is None:
        yield IN_PROCESS
        return
    opened = KINDS[settings.kind].opened(settings, worker_memory(execution), WATCH.get())
    # an unclosed Dask client closes when it is collected, under a lock that opening the next one holds:
    # a collection meanwhile would deadlock
    gc.collect()
    with ExitStack() as stack:
        stack.enter_context(quiet_here())
        with _named(execution.cluster):
            # only errors of opening name the cluster file
            executor = stack.enter_context(opened)
        yield executor


def check_cluster(execution: ExecutionConfig) -> int:
    """Return the maximum number of workers; ConfigError early if there would be none.

    A running scheduler and its workers are contacted; for a cluster that a build starts, its starter is tested.
    """
    settings = cluster_of(execution)
    kind = settings and KINDS[settings.kind]
    if kind and kind.is_running:
        with open_executor(execution) as executor:
            return executor.workers
    require_here(execution)
    if kind:
        with _named(execution.cluster):
            kind.tested(settings)
    return workers_of(execution) or 1


def require_here(execution: ExecutionConfig) -> None:
    """Raise ConfigError if this machine lacks something for the config's cluster; nothing is started or written.

    Checked are packages, commands, the scratch folder, key files and a kube config.
    """
    if (settings := cluster_of(execution)) is not None:
        kind = KINDS[settings.kind]
        with _named(execution.cluster):
            require_packages(f"kind = {kind.name}", *kind.packages)
            kind.required(settings)
            if (scratch := getattr(settings, "scratch", None)) is not None:
                _require_folder(scratch)


@contextmanager
def _named(cluster: str) -> Iterator[None]:
    """Prefix errors with the cluster file."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{cluster}: {error}") from error


@contextmanager
def _local(settings: LocalSettings, memory: int, watch: WatchAddress | None) -> Iterator[Executor]:
    import dask
    from distributed import Client, LocalCluster, Security

    # Dask's own setting fixes malloc's trim threshold, which makes large arrays a fifth slower
    configured = {"distributed.nanny.pre-spawn-environ": ONE_THREAD, **ALMOST_NO_HTTP}
    # keys of this run only, in memory: other users can reach the ports, and a scheduler's clients run code in
    # its workers
    security = Security.temporary()  # type: ignore[no-untyped-call]
    with own_scratch() as scratch, dask.config.set(configured):

        def start() -> Any:
            with deaf_to_signals():
                return LocalCluster(  # type: ignore[no-untyped-call]
                    n_workers=settings.fewest,
                    threads_per_worker=1,
                    processes=True,
                    host="127.0.0.1",
                    dashboard_address="127.0.0.1:0",  # the default, 8787, may be taken
                    scheduler_kwargs={"dashboard": False, "local_directory": str(scratch)},
                    security=security,
                    memory_limit=memory,
                    local_directory=str(scratch),
                    loop=watch and watch.loop,
                )

        with (
            without_main_script(),  # workers may start at any time
            _in_a_few_tries(start) as cluster,
            Client(cluster, timeout=PATIENCE) as client,  # type: ignore[no-untyped-call]
            nullcontext() if watch is None else watch.dashboard_of(cluster.scheduler),
        ):
            client.register_worker_callbacks(quiet_worker())
            if settings.adaptive:
                cluster.adapt(minimum=settings.fewest, maximum=settings.most, **STEADY)
            try:
                yield DaskExecutor(client, scratch, settings.most, dashboard=watch.PLACE if watch else None)
            finally:
                _kill(cluster)


def _kill(cluster: Any) -> None:
    """End workers at once: their work is obsolete, and kernels cannot be interrupted.

    This also avoids messages about heartbeats to the closed scheduler.
    """
    for nanny in cluster.workers.values():
        nanny.auto_restart = False
        if nanny.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(nanny.pid, signal.SIGKILL)


@contextmanager
def deaf_to_signals() -> Iterator[None]:
    """Threads started within the block, and their workers, ignore signals to end.

    A signal to the process group would end the workers, and this process would wait and start others. They end when
    this process says so or is gone.
    """
    resource_tracker.ensure_running()  # otherwise it starts later and accepts signals
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _in_a_few_tries(start: Callable[[], Any]) -> Any:
    """Start the cluster, with retries: a worker that dies early fails the start of all."""
    failures: list[RuntimeError] = []
    while len(failures) < TRIES:
        try:
            return start()
        except RuntimeError as error:
            failures.append(error)
    raise SdcError(f"the workers did not start, {TRIES} times: {failures[-1]}; is there memory for them?")


@contextmanager
def _kubernetes(settings: KubernetesSettings, memory: int, watch: WatchAddress | None) -> Iterator[Executor]:
    from dask_kubernetes.operator import KubeCluster
    from distributed import Client

    # unique name: builds must not share a cluster
    own = settings.model_copy(update={"name": f"{settings.name}-{uuid.uuid4().hex[:8]}"})
    with (
        _scratch_below(own.scratch) as scratch,
        _started(own, KubeCluster) as cluster,
        Client(cluster, timeout=PATIENCE) as client,  # type: ignore[no-untyped-call]
    ):
        if own.adaptive:
            cluster.adapt(minimum=own.fewest, maximum=own.most)
        check_workers(client, scratch, own.timeout_seconds)
        yield DaskExecutor(client, scratch, own.most)


def _started(settings: KubernetesSettings, cluster: Any) -> Any:
    """Start a cluster with the Dask operator; closing removes it."""
    try:
        return cluster(
            custom_cluster_spec=manifest(settings),
            namespace=settings.namespace,
            resource_timeout=int(settings.timeout_seconds),
            shutdown_on_close=True,
            quiet=True,
        )
    except Exception as error:  # any error of its transport or parser
        raise ConfigError(
            f"the Dask operator did not start cluster {settings.name} of image {settings.image!r}: {error!r}; run "
            "kubectl describe on it"
        ) from error


@contextmanager
def _at_address(settings: AddressSettings, memory: int, watch: WatchAddress | None) -> Iterator[Executor]:
    with _scratch_below(settings.scratch) as scratch, connect(settings) as client:
        workers = check_workers(client, scratch, settings.timeout_seconds, memory)
        yield DaskExecutor(client, scratch, workers, dashboard=client.dashboard_link)


@contextmanager
def _scratch_below(folder: Path) -> Iterator[Path]:
    """Create a folder of this build; workers may run as another user of the parent's group.

    If the parent is open to everybody, such as a temporary folder, this one is for its user only.
    """
    _require_folder(folder)
    mode = folder.stat().st_mode
    with own_scratch(folder, 0o700 if mode & (stat.S_ISVTX | stat.S_IWOTH) else mode & 0o770) as scratch:
        yield scratch


def _require_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise ConfigError(f"scratch = {str(folder)!r}: the folder does not exist; create it where all workers see it")
    if not os.access(folder, os.W_OK):
        raise ConfigError(f"scratch = {str(folder)!r}: it cannot be written; fix its permissions, or name another")


def _require_kube_config(_: KubernetesSettings) -> None:
    """Require a kube config, or the account of a pod."""
    named = os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
    in_a_pod = "KUBERNETES_SERVICE_HOST" in os.environ
    if not in_a_pod and not any(Path(path).is_file() for path in named.split(os.pathsep)):
        raise ConfigError(f"there is no kube config at {named}; set KUBECONFIG to one, or run in a pod of the cluster")


def _nothing(_: Any) -> None:
    """Nothing more is required."""


@dataclass(frozen=True)
class ClusterKind:
    """A kind of cluster, under its name in `kind` of a cluster file.

    settings   the keys of its file
    opened     an executor on it, given the memory of a worker and where Dask's dashboard is shown
    packages   that it needs; required  raises ConfigError if this machine lacks something else
    tested     raises ConfigError if it would not start; submitted  what is submitted to start it, as text
    elsewhere  where its scheduler is, if not in the process of the run
    is_running  whether it is checked by connecting to it
    """

    name: str
    settings: type[ClusterSettings]
    opened: Callable[[Any, int, WatchAddress | None], AbstractContextManager[Executor]]
    packages: tuple[str, ...] = ()
    required: Callable[[Any], object] = _nothing
    tested: Callable[[Any], None] = _nothing
    submitted: Callable[[Any], str] | None = None
    elsewhere: Callable[[Any], str] | None = None
    is_running: bool = False


KINDS = by_name(
    [
        ClusterKind("local", LocalSettings, _local),
        ClusterKind(
            "slurm",
            SlurmSettings,
            slurm_executor,
            packages=("dask_jobqueue",),
            required=require_commands,
            tested=require_submission,
            submitted=job_script,
        ),
        ClusterKind(
            "kubernetes",
            KubernetesSettings,
            _kubernetes,
            packages=("dask_kubernetes",),
            required=_require_kube_config,
            submitted=manifests,
            elsewhere=lambda settings: "is a pod",
        ),
        ClusterKind(
            "address",
            AddressSettings,
            _at_address,
            required=lambda settings: settings.tls and tls_context(settings.tls),
            elsewhere=lambda settings: f"runs at {settings.address}",
            is_running=True,
        ),
    ]
)
"""All kinds by their names; another one is one more line."""


def read_cluster(path: Path) -> ClusterSettings:
    """Read a cluster file; relative paths start at its folder.

    ConfigError with all errors in one message: an unknown kind or key, a value and what is allowed. InputError as
    `require_own`.
    """
    content = load_yaml(path, "cluster file", ConfigError)
    require_own(path)  # its commands and scripts run as this user
    kind = content.get("kind") if isinstance(content, dict) else None
    if not isinstance(kind, str) or kind not in KINDS:
        raise ConfigError(f"cluster file {path}: kind = {kind!r} is not one of {', '.join(KINDS)}; name one")
    return validated(KINDS[kind].settings, content, path)


def cluster_of(execution: ExecutionConfig) -> ClusterSettings | None:
    """Return the cluster of a config, None for in-process.

    ConfigError if the config sets keys of the cluster's file, and as `read_cluster`.
    """
    if execution.cluster in EMBEDDED_CLUSTERS:
        same: dict[str, Any] = {"workers": execution.workers, "memory_per_worker": execution.memory_per_worker}
        return None if execution.cluster == "in-process" else LocalSettings(kind="local", **same)
    for name in ("workers", "memory_per_worker"):
        if name in execution.model_fields_set:
            value = getattr(execution, name)
            raise ConfigError(
                f"execution.{name} = {value!r} is for the embedded cluster; set it in {execution.cluster} instead"
            )
    return read_cluster(Path(execution.cluster))


def workers_of(execution: ExecutionConfig) -> int | None:
    """Return the maximum number of workers; None for a scheduler address. ConfigError as `cluster_of`."""
    settings = cluster_of(execution)
    if settings is None:
        return 1
    return settings.most if isinstance(settings, Started) else None


def worker_memory(execution: ExecutionConfig) -> int:
    """Return the bytes of a worker; auto is a share of this machine's memory, with one share for this process.

    ConfigError as `cluster_of`.
    """
    settings = cluster_of(execution)
    memory = execution.memory_per_worker if settings is None else settings.memory_per_worker
    if memory != "auto":
        return size_in_bytes(memory)
    if settings is None:
        return machine_memory()
    workers = settings.most if isinstance(settings, LocalSettings) else execution.workers
    return machine_memory() // (workers + 1)


def unit_memory(execution: ExecutionConfig) -> int:
    """Return the bytes that a worker process may use: Dask pauses workers above four fifths of their memory."""
    memory = worker_memory(execution)
    return memory if cluster_of(execution) is None else memory * 4 // 5


def own_memory(execution: ExecutionConfig) -> int:
    """Return the bytes for the build's process: what local workers leave."""
    settings, memory = cluster_of(execution), worker_memory(execution)
    if settings is None:
        return memory
    workers = settings.most if isinstance(settings, LocalSettings) else 0
    return max(0, machine_memory() - workers * memory)


def machine_memory() -> int:
    """Return the bytes of this machine, or of its container."""
    # Dask's figure, which limits its workers: the least of machine, cgroup and process
    from distributed.system import MEMORY_LIMIT

    return int(MEMORY_LIMIT)
