"""Cluster settings: the keys of the YAML file of each kind of cluster; `sdc.execution.cluster.KINDS` opens them."""

from __future__ import annotations

import os
import re
from functools import reduce
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, Field, StrictBool, ValidationInfo, model_validator

from sdc.config.values import Memory, Seconds, Section, Text, Workers, size_in_bytes

MIN_WALLTIME = 300  # seconds


def _relative_path(value: Path, info: ValidationInfo) -> Path:
    """Resolve a path from its file's folder. Links stay: on a worker they may lead elsewhere."""
    folder: Path = (info.context or {}).get("folder", Path.cwd())
    return Path(os.path.abspath(folder / value))


def _size(value: str) -> str:
    size_in_bytes(value)
    return value


def _walltime(value: str) -> str:
    if not re.fullmatch(r"([0-9]{1,3}-)?[0-9]{1,2}:[0-5][0-9]:[0-5][0-9]", value):
        raise ValueError("not a wall time; write hours, minutes and seconds in quotes, such as '04:00:00'")
    if walltime_seconds(value) < MIN_WALLTIME:
        raise ValueError(f"less than {MIN_WALLTIME} s, too short to start a worker")
    return value


def walltime_seconds(value: str) -> int:
    """Return the seconds of a wall time such as 04:00:00 or 1-12:00:00; ValueError for other texts."""
    days, _, clock = value.rpartition("-")
    return int(days or 0) * 86_400 + reduce(lambda total, part: 60 * total + int(part), clock.split(":"), 0)


def _address(value: str) -> str:
    match = re.fullmatch(r"(?:tcp|tls)://[^/:\s]+:([0-9]{1,5})", value)
    if not match or not 0 < int(match[1]) < 1 << 16:
        raise ValueError("not an address; write tcp:// or tls://, a host and a port, such as tls://10.0.0.5:8786")
    return value


def _directive(value: str) -> str:
    if re.match(r"(-[pt]|--(partition|time)(=|\s|$))", value):
        raise ValueError("it would bypass the checks; name the partition in queue, and the time in walltime")
    return value


RelativePath = Annotated[Path, AfterValidator(_relative_path)]
Size = Annotated[Text, AfterValidator(_size)]
Name = Annotated[Text, Field(pattern=r"^[a-z]([a-z0-9-]{0,40}[a-z0-9])?$")]

WORKERS = "the number of workers, from 1 to 1024; or give adaptive"
SIZE = "a size such as 4GiB"
SCRATCH = "a folder that exists and that every worker sees and can write, under the same path"
TIMEOUT = "how many seconds to wait for the first worker, more than 0"


class AdaptiveSettings(Section):
    """Workers come and go with the work, between two numbers."""

    minimum: Annotated[Workers, Field(description="the least number of workers, from 1 to 1024")]
    maximum: Annotated[Workers, Field(description="the largest number of workers under load, at least the minimum")]

    @model_validator(mode="after")
    def _in_order(self) -> AdaptiveSettings:
        if self.maximum < self.minimum:
            raise ValueError(f"the maximum {self.maximum} is below the minimum {self.minimum}")
        return self


class Started(Section):
    """A cluster that a build starts and ends, with a fixed or adaptive number of workers."""

    workers: Annotated[Workers | None, Field(description=WORKERS)] = None
    adaptive: Annotated[
        AdaptiveSettings | None, Field(description="a section with minimum and maximum, instead of workers")
    ] = None

    @model_validator(mode="after")
    def _one_of_two(self) -> Started:
        # no default: the owner of the cluster decides
        if (self.workers is None) == (self.adaptive is None):
            given = "both workers and adaptive are" if self.workers else "neither workers nor adaptive is"
            raise ValueError(f"{given} given; give workers: 8, or adaptive: {{minimum: 1, maximum: 8}}")
        return self

    @property
    def fewest(self) -> int:
        """Number of workers at the start and at least."""
        return self.adaptive.minimum if self.adaptive else self.workers or 1

    @property
    def most(self) -> int:
        """Maximum number of workers at once."""
        return self.adaptive.maximum if self.adaptive else self.workers or 1


class LocalSettings(Started):
    """Workers as separate processes of this machine."""

    kind: Literal["local"]
    memory_per_worker: Annotated[
        Memory, Field(description=f"{SIZE}, or auto: the machine's memory shared by the workers and this process")
    ] = "auto"


class SlurmSettings(Started):
    """Each worker is a SLURM job with one core. Jobs leave before their wall time ends, and are replaced."""

    kind: Literal["slurm"]
    memory_per_worker: Annotated[Size, Field(description=SIZE)]
    walltime: Annotated[
        Text, AfterValidator(_walltime), Field(description="of a job, in quotes, such as '04:00:00' or '1-12:00:00'")
    ]
    scratch: Annotated[RelativePath, Field(description=SCRATCH)]
    # required: other nodes must reach the scheduler, which listens only there
    interface: Annotated[Text, Field(description="the network interface of scheduler and workers, such as ib0")]
    queue: Annotated[Text | None, Field(description="the partition, default SLURM's")] = None
    account: Annotated[Text | None, Field(description="the account that pays, default SLURM's")] = None
    python: Annotated[Text | None, Field(description="the interpreter on the nodes, default the one that runs")] = None
    log_folder: Annotated[RelativePath | None, Field(description="where jobs write their output, default nowhere")] = (
        None
    )
    job_extra_directives: Annotated[
        tuple[Annotated[Text, AfterValidator(_directive)], ...],
        Field(description="a list of further options of a job, such as '--constraint=haswell'"),
    ] = ()
    job_script_prologue: Annotated[
        tuple[Text, ...], Field(description="a list of lines to run in a job before its worker, such as 'module load'")
    ] = ()
    timeout_seconds: Annotated[Seconds, Field(description=TIMEOUT)] = 3600.0

    @property
    def leaving(self) -> tuple[int, int]:
        """Seconds after which a worker leaves, and their variation; all end before the wall time."""
        # the stagger works both ways, so the last worker leaves before SLURM ends its job; if all left together, a
        # search would have no workers
        margin = min(max(walltime_seconds(self.walltime) // 10, 60), 600)
        return walltime_seconds(self.walltime) - 2 * margin, margin


class KubernetesSettings(Started):
    """Workers are pods of the Dask operator. The scratch folder is a volume claim, mounted here too."""

    kind: Literal["kubernetes"]
    image: Annotated[Text, Field(description="the image of scheduler and workers, see cluster/Dockerfile")]
    memory_per_worker: Annotated[Size, Field(description=SIZE)]
    scratch: Annotated[RelativePath, Field(description=f"{SCRATCH}; the claim is mounted there")]
    volume_claim: Annotated[Text, Field(description="the name of a claim that many pods may write")]
    cpu_per_worker: Annotated[Text, Field(pattern=r"^[0-9]+(m|\.[0-9]+)?$", description="such as '1' or 500m")] = "1"
    name: Annotated[Name, Field(description="lower-case letters, digits and hyphens, at most 42")] = "sdc"
    namespace: Annotated[Text | None, Field(description="the namespace, default that of the kube config")] = None
    service_account: Annotated[Text | None, Field(description="the account that pods run under")] = None
    image_pull_secrets: Annotated[tuple[Text, ...], Field(description="a list of names of secrets")] = ()
    env: dict[Text, Text] = Field(
        default_factory=dict, description="environment variables of the pods, values in quotes"
    )
    timeout_seconds: Annotated[Seconds, Field(description=TIMEOUT)] = 600.0


class TlsSettings(Section):
    """TLS files of scheduler and client; Dask requires certificates of both sides."""

    ca_file: Annotated[
        RelativePath, Field(description="the certificate of the authority that signed the scheduler's, PEM")
    ]
    cert: Annotated[RelativePath, Field(description="the certificate that this process shows, PEM")]
    key: Annotated[RelativePath, Field(description="the key of that certificate, PEM, not encrypted")]


class AddressSettings(Section):
    """A running scheduler."""

    kind: Literal["address"]
    address: Annotated[
        Text, AfterValidator(_address), Field(description="of the scheduler, such as tcp://10.0.0.5:8786, or tls://")
    ]
    scratch: Annotated[RelativePath, Field(description=SCRATCH)]
    tls: Annotated[
        TlsSettings | None, Field(description="a section with ca_file, cert and key, for a tls:// address")
    ] = None
    open_to_the_network: Annotated[
        StrictBool,
        Field(
            description="true only for a tcp:// scheduler of another host: anyone who reaches it can run code "
            "in its workers and read the table"
        ),
    ] = False
    memory_per_worker: Annotated[
        Memory, Field(description=f"{SIZE} that its workers have, or auto: as if they were on this machine")
    ] = "auto"
    timeout_seconds: Annotated[
        Seconds, Field(description="seconds to wait for the scheduler and for a worker, more than 0")
    ] = 30.0

    @model_validator(mode="after")
    def _tls_for_tls(self) -> AddressSettings:
        if self.address.startswith("tls://") != (self.tls is not None):
            wanted = "needs a section tls with ca_file, cert and key" if self.tls is None else "goes without tls"
            raise ValueError(f"the address {self.address} {wanted}")
        return self

    @model_validator(mode="after")
    def _closed(self) -> AddressSettings:
        host = self.address.removeprefix("tcp://").rsplit(":", 1)[0]
        is_here = host == "localhost" or re.fullmatch(r"127(\.[0-9]{1,3}){3}", host) is not None
        if self.address.startswith("tcp://") and not is_here and not self.open_to_the_network:
            raise ValueError(
                f"anyone who reaches {self.address} can run code in its workers and read the table; use tls:// with a "
                "section tls, or write open_to_the_network: true"
            )
        return self


ClusterSettings: TypeAlias = LocalSettings | SlurmSettings | KubernetesSettings | AddressSettings
