"""What is handed to SLURM and to the Dask operator: a job script and manifests. `python -m sdc.execution.jobs FILE`."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from shlex import quote
from types import ModuleType
from typing import Annotated, Any

import typer
import yaml

from sdc.config.values import size_in_bytes
from sdc.execution.settings import KubernetesSettings, SlurmSettings, read_cluster
from sdc.model.errors import ConfigError
from sdc.refusal import as_command

NANNY_BYTES = 256 << 20  # the process that watches a worker lives in its job too, and is not in the worker's limit

ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
ALMOST_NO_HTTP = {f"distributed.{who}.http.routes": ["distributed.http.health"] for who in ("scheduler", "worker")}
"""What Dask serves by HTTP, which asks nobody for a key: that a process is well, as Kubernetes asks."""
NO_HTTP = ["--no-dashboard", "--dashboard-address", "127.0.0.1:0"]
"""Of a worker: Dask serves HTTP all the same, and without an address on every interface."""
STEADY = {"interval": "5s", "wait_count": 12}  # workers stay for a minute without work, which there is between stages
WORKER_ENV = {
    **ONE_THREAD,
    **{f"DASK_{name.upper().replace('.', '__')}": str(routes) for name, routes in ALMOST_NO_HTTP.items()},
    # Dask's own setting fixes malloc's trim threshold, after which glibc maps every large array anew: a fifth slower
    "DASK_DISTRIBUTED__NANNY__PRE_SPAWN_ENVIRON": "{'MALLOC_TRIM_THRESHOLD_': None}",
}


def job_settings(settings: SlurmSettings) -> dict[str, Any]:
    """What dask-jobqueue is given for each job: one worker process of one thread, which leaves before the wall time."""
    memory = size_in_bytes(settings.memory_per_worker)
    lifetime, stagger = settings.leaving
    logs = [] if settings.log_folder is None else [f"--output={quote(str(settings.log_folder))}/%x-%j.log"]
    return {
        "queue": settings.queue,
        "account": settings.account,
        "walltime": settings.walltime,
        "cores": 1,  # a unit has one thread, and a worker's memory is for one unit
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
    """The script of a job, but for the address of the scheduler and the files of its certificate."""
    # an address that no job will have: what is tried, or printed, is not submitted
    job = slurm_library().SLURMJob(scheduler="tls://scheduler:0", name="worker", **job_settings(settings))
    return str(job.job_script())


def slurm_library() -> ModuleType:
    """`dask_jobqueue.slurm`. Its import would replace the handler of interrupts: one would end a build with 0."""
    before = signal.getsignal(signal.SIGINT)
    import dask_jobqueue.slurm

    if signal.getsignal(signal.SIGINT) is not before:
        signal.signal(signal.SIGINT, before)
    return dask_jobqueue.slurm


def manifest(settings: KubernetesSettings) -> dict[str, Any]:
    """The DaskCluster resource: a scheduler, its service, and workers with the claim mounted as scratch folder."""
    memory = size_in_bytes(settings.memory_per_worker)
    worker_args = ["dask", "worker", "--name", "$(DASK_WORKER_NAME)", "--nthreads", "1", "--memory-limit", str(memory)]
    worker_args += ["--local-directory", "/tmp", "--death-timeout", "120", *NO_HTTP]
    worker = {
        **_container("worker", settings, worker_args),
        "resources": _resources(memory + NANNY_BYTES, settings.cpu_per_worker),
        "volumeMounts": [{"name": "scratch", "mountPath": str(settings.scratch)}],
    }
    claim = {"name": "scratch", "persistentVolumeClaim": {"claimName": settings.volume_claim}}
    scheduler = {
        **_container("scheduler", settings, ["dask", "scheduler", "--host", "0.0.0.0", "--no-dashboard"]),
        "ports": [
            {"name": "tcp-comm", "containerPort": 8786, "protocol": "TCP"},
            {"name": "http-dashboard", "containerPort": 8787, "protocol": "TCP"},
        ],
        "readinessProbe": {"httpGet": {"port": "http-dashboard", "path": "/health"}, "periodSeconds": 5},
    }
    return {
        "apiVersion": "kubernetes.dask.org/v1",
        "kind": "DaskCluster",
        "metadata": {"name": settings.name},
        "spec": {
            "worker": {"replicas": settings.fewest, "spec": {**_pod(settings, worker), "volumes": [claim]}},
            "scheduler": {"spec": _pod(settings, scheduler), "service": _service(settings.name)},
        },
    }


def autoscaler(settings: KubernetesSettings) -> dict[str, Any]:
    """The DaskAutoscaler resource of an adaptive cluster."""
    scale = {"cluster": settings.name, "minimum": settings.fewest, "maximum": settings.most}
    return {
        "apiVersion": "kubernetes.dask.org/v1",
        "kind": "DaskAutoscaler",
        "metadata": {"name": settings.name},
        "spec": scale,
    }


def _pod(settings: KubernetesSettings, container: dict[str, Any]) -> dict[str, Any]:
    pod: dict[str, Any] = {"containers": [container], "securityContext": {"runAsNonRoot": True}}
    if settings.service_account is not None:
        pod["serviceAccountName"] = settings.service_account
    if settings.image_pull_secrets:
        pod["imagePullSecrets"] = [{"name": name} for name in settings.image_pull_secrets]
    return pod


def _container(name: str, settings: KubernetesSettings, args: list[str]) -> dict[str, Any]:
    # the file's own come last, and so may replace ours
    env = {**WORKER_ENV, **settings.env}
    return {
        "name": name,
        "image": settings.image,
        "args": args,
        "env": [{"name": variable, "value": value} for variable, value in env.items()],
    }


def _resources(memory: int, cpu: str) -> dict[str, Any]:
    """Requests equal to limits: what a worker is promised is what it may use."""
    return {kind: {"cpu": cpu, "memory": str(memory)} for kind in ("requests", "limits")}


def _service(name: str) -> dict[str, Any]:
    return {
        "type": "ClusterIP",
        "selector": {"dask.org/cluster-name": name, "dask.org/component": "scheduler"},
        "ports": [
            {"name": port, "protocol": "TCP", "port": number, "targetPort": port}
            for port, number in (("tcp-comm", 8786), ("http-dashboard", 8787))
        ],
    }


def submitted(path: Path) -> str:
    """What a build would submit for a cluster file; ConfigError for a kind that submits nothing."""
    settings = read_cluster(path)
    if isinstance(settings, SlurmSettings):
        return job_script(settings)
    if isinstance(settings, KubernetesSettings):
        resources = [manifest(settings), *([autoscaler(settings)] if settings.adaptive else [])]
        return yaml.safe_dump_all(resources, sort_keys=False)
    raise ConfigError(
        f"{path}: a cluster of kind {settings.kind} submits nothing; name one of kind slurm or kubernetes"
    )


def main(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A cluster file of kind slurm or kubernetes.")],
) -> None:
    """Prints what a build would submit: the script of a job, or manifests."""
    print(submitted(file), end="")


if __name__ == "__main__":
    with as_command():
        typer.run(main)
