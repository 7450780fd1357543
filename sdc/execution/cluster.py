"""Clusters: from settings to an executor that is open for a while."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from sdc.execution.dask_executor import DaskExecutor
from sdc.executor import IN_PROCESS, Executor
from sdc.model.errors import ConfigError


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class LocalSettings(_Settings):
    """Workers as separate processes of this machine."""

    kind: Literal["local"]
    workers: int = Field(2, ge=1, le=1024)
    memory_per_worker: str = Field("auto", description="such as 4GiB; auto divides the machine's memory")


class AddressSettings(_Settings):
    """A scheduler that is running already, and a scratch folder that its workers share with this process."""

    kind: Literal["address"]
    address: str
    scratch: str
    timeout_seconds: float = Field(30.0, gt=0)


ClusterSettings = Annotated[LocalSettings | AddressSettings, Field(discriminator="kind")]


def read_cluster(path: Path) -> LocalSettings | AddressSettings:
    """The settings of a cluster file; ConfigError for an unknown kind or key, or a value out of range."""
    try:
        content = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"cluster file {path} cannot be read: {error}; name a YAML file, or `local`") from error
    adapter: TypeAdapter[LocalSettings | AddressSettings] = TypeAdapter(ClusterSettings)
    try:
        return adapter.validate_python(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the whole file"
        raise ConfigError(f"cluster file {path}: {place} = {first['input']!r}: {first['msg']}; mend it") from error


@contextmanager
def open_executor(cluster: str, workers: int) -> Iterator[Executor]:
    """The executor named: `in-process`, `local` with so many worker processes, or a cluster file.

    ConfigError where a scheduler cannot be reached.
    """
    if cluster == "in-process":
        yield IN_PROCESS
        return
    settings = (
        LocalSettings.model_validate({"kind": "local", "workers": workers})
        if cluster == "local"
        else read_cluster(Path(cluster))
    )
    opened = _local(settings) if isinstance(settings, LocalSettings) else _at_address(settings)
    with opened as executor:
        yield executor


_ONE_THREAD = {"OMP_NUM_THREADS": 1, "MKL_NUM_THREADS": 1, "OPENBLAS_NUM_THREADS": 1}


@contextmanager
def _local(settings: LocalSettings) -> Iterator[Executor]:
    _quiet_dask()
    import dask
    from distributed import Client, LocalCluster

    # Dask's own setting fixes malloc's trim threshold, after which glibc maps every large array anew: a fifth slower
    dask.config.set({"distributed.nanny.pre-spawn-environ": _ONE_THREAD})
    memory = None if settings.memory_per_worker == "none" else settings.memory_per_worker
    with (
        tempfile.TemporaryDirectory(prefix="sdc-") as scratch,
        LocalCluster(  # type: ignore[no-untyped-call]
            n_workers=settings.workers,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            memory_limit=memory,
            local_directory=scratch,
        ) as cluster,
        Client(cluster) as client,  # type: ignore[no-untyped-call]
    ):
        yield DaskExecutor(client, Path(scratch), settings.workers)


@contextmanager
def _at_address(settings: AddressSettings) -> Iterator[Executor]:
    _quiet_dask()
    from distributed import Client

    try:
        client = Client(settings.address, timeout=settings.timeout_seconds)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"no scheduler answers at {settings.address!r} within {settings.timeout_seconds} s; start it, or mend the "
            "address in the cluster file"
        ) from error
    with client:
        yield DaskExecutor(client, Path(settings.scratch), len(client.scheduler_info(n_workers=-1)["workers"]))


def _quiet_dask() -> None:
    os.environ.setdefault("DASK_LOGGING__DISTRIBUTED", "warning")
