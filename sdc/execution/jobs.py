"""Job scripts for SLURM and manifests for the Dask operator. `python -m sdc.execution.jobs FILE`."""

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
from sdc.execution.settings import KubernetesSettings, SlurmSettings
from sdc.model.errors import ConfigError
from sdc.refusal import as_command

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
    """Return the DaskCluster resource: scheduler, service, and workers with the claim mounted as scratch folder."""
    memory = size_in_bytes(settings.memory_per_worker)
    worker_args = ["dask", "worker", "--name", "$(DASK_WORKER_NAME)", "--nthreads", "1", "--memory-limit", str(memory)]
    worker_args += ["--local-directory", "/tmp", "--death-timeout", "120", *NO_HTTP]
    size = {"cpu": settings.cpu_per_worker, "memory": str(memory + NANNY_BYTES)}
    worker = {
        **_container("worker", settings, worker_args),
        "resources": {"requests": size, "limits": {**size}},  # equal, so that workers get what they are promised
        "volumeMounts": [{"name": "scratch", "mountPath": str(settings.scratch)}],
    }
    claim = {"name": "scratch", "persistentVolumeClaim": {"claimName": settings.volume_claim}}
    ports = [
        {"name": "tcp-comm", "containerPort": 8786, "protocol": "TCP"},
        {"name": "http-dashboard", "containerPort": 8787, "protocol": "TCP"},
    ]
    scheduler = {
        **_container("scheduler", settings, ["dask", "scheduler", "--host", "0.0.0.0", "--no-dashboard"]),
        "ports": ports,
        "readinessProbe": {"httpGet": {"port": "http-dashboard", "path": "/health"}, "periodSeconds": 5},
    }
    service = {
        "type": "ClusterIP",
        "selector": {"dask.org/cluster-name": settings.name, "dask.org/component": "scheduler"},
        "ports": [
            {"name": port["name"], "protocol": "TCP", "port": port["containerPort"], "targetPort": port["name"]}
            for port in ports
        ],
    }
    return {
        "apiVersion": "kubernetes.dask.org/v1",
        "kind": "DaskCluster",
        "metadata": {"name": settings.name},
        "spec": {
            "worker": {"replicas": settings.fewest, "spec": {**_pod(settings, worker), "volumes": [claim]}},
            "scheduler": {"spec": _pod(settings, scheduler), "service": service},
        },
    }


def autoscaler(settings: KubernetesSettings) -> dict[str, Any]:
    """Return the DaskAutoscaler resource of an adaptive cluster."""
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
    # the file's own come last and may override
    env = {**WORKER_ENV, **settings.env}
    return {
        "name": name,
        "image": settings.image,
        "args": args,
        "env": [{"name": variable, "value": value} for variable, value in env.items()],
    }


def manifests(settings: KubernetesSettings) -> str:
    """Return all resources as YAML."""
    resources = [manifest(settings), *([autoscaler(settings)] if settings.adaptive else [])]
    return yaml.safe_dump_all(resources, sort_keys=False)


def submitted(path: Path) -> str:
    """Return what a build would submit for a cluster file; ConfigError for other kinds."""
    from sdc.execution.cluster import KINDS, read_cluster  # imports this module

    settings = read_cluster(path)
    if (write := KINDS[settings.kind].submitted) is not None:
        return write(settings)
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
