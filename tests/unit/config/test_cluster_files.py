"""Cluster files: each kind loads and is refused in one sentence, and what workers may use by them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from sdc.config.build import ExecutionConfig
from sdc.execution.cluster import (
    KINDS,
    check_cluster,
    machine_memory,
    own_memory,
    read_cluster,
    unit_memory,
    worker_memory,
    workers_of,
)
from sdc.execution.settings import KubernetesSettings, SlurmSettings, walltime_seconds
from sdc.model.errors import ConfigError

CLUSTER = Path(__file__).parents[3] / "cluster"
MACHINE = machine_memory()
SLURM = {
    "kind": "slurm",
    "memory_per_worker": "3GiB",
    "walltime": "01:00:00",
    "scratch": "scratch",
    "interface": "lo",
    "workers": 4,
}
KUBERNETES = {
    "kind": "kubernetes",
    "image": "sdc-worker:1",
    "memory_per_worker": "1GiB",
    "scratch": "/scratch/sdc",
    "volume_claim": "shared",
    "workers": 3,
}


def write(folder: Path, content: dict[str, Any] | str) -> Path:
    file = folder / "cluster.yaml"
    file.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return file


def slurm(folder: Path, **changes: Any) -> SlurmSettings:
    settings = read_cluster(write(folder, SLURM | changes))
    assert isinstance(settings, SlurmSettings)
    return settings


def kubernetes(folder: Path, **changes: Any) -> KubernetesSettings:
    settings = read_cluster(write(folder, KUBERNETES | changes))
    assert isinstance(settings, KubernetesSettings)
    return settings


@pytest.mark.parametrize("kind", KINDS)
def test_the_file_of_each_kind_loads_as_it_is(kind: str) -> None:
    assert read_cluster(CLUSTER / f"{kind}.yaml").kind == kind


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: cloud", r"kind = 'cloud' is not one of local, slurm, kubernetes, address; name one"),
        ("", r"kind = None is not one of"),
        ("kind: local\nkind: slurm\n", r"line 2 gives 'kind' a second time"),
        ("kind: local\nworker: 2\nworkers: 2", r"worker is an unknown key; did you mean workers\? allowed: workers,"),
        ("kind: local", r"neither workers nor adaptive is given; give workers: 8, or adaptive: {minimum: 1, "),
        ("kind: local\nworkers: 2\nadaptive: {minimum: 1, maximum: 2}", r"both workers and adaptive are given"),
        ("kind: local\nadaptive: {minimum: 3, maximum: 2}", r"adaptive = .*the maximum 2 is below the minimum 3"),
        ("kind: local\nadaptive: {minimum: 0, maximum: 2}", r"adaptive\.minimum = 0: .*least number of workers"),
        ("kind: local\nworkers: 2\nmemory_per_worker: 4 GiB", r"memory_per_worker = '4 GiB': it is not a size"),
    ],
)  # fmt: skip
def test_faulty_files(tmp_path: Path, text: str, message: str) -> None:
    file = write(tmp_path, text)
    with pytest.raises(ConfigError, match=message) as refusal:
        read_cluster(file)
    assert str(file) in str(refusal.value)


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        (slurm, {"walltime": 14_400}, r"walltime = 14400: should be a valid string .*in quotes, such as '04:00:00'"),
        (slurm, {"walltime": "00:04:59"}, r"walltime = '00:04:59': less than 300 s"),
        (slurm, {"memory_per_worker": "auto"}, r"memory_per_worker = 'auto': it is not a size"),
        (slurm, {"scratch": None}, r"scratch = None: .*a folder that exists and that every worker sees"),
        (slurm, {"job_extra_directives": ["--partition=x"]}, r"directives\.0 = '--partition=x'.*name the partition in"),
        (slurm, {"job_extra_directives": "--mem=0"}, r"job_extra_directives = '--mem=0'.*a list of further options"),
        (kubernetes, {"cpu_per_worker": "one"}, r"cpu_per_worker = 'one'.*such as '1' or 500m"),
        (kubernetes, {"name": "SDC build"}, r"name = 'SDC build'.*lower-case letters, digits and hyphens"),
        (kubernetes, {"env": {"TZ": 1}}, r"env\.TZ = 1: should be a valid string \(environment variables"),
    ],
)
def test_faulty_settings(tmp_path: Path, kind: Callable[..., Any], change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        kind(tmp_path, **change)


TLS = {"ca_file": "ca.pem", "cert": "c.pem", "key": "c.key"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"address": "127.0.0.1:8786"}, r"address = '127\.0\.0\.1:8786': not an address; write tcp:// or tls://"),
        ({"address": "tcp://127.0.0.1:65536"}, r"not an address;"),
        ({"address": "tls://127.0.0.1:8786"}, r"needs a section tls with ca_file, cert and key"),
        ({"address": "tcp://127.0.0.1:8786", "tls": TLS}, r"the address tcp://127\.0\.0\.1:8786 goes without tls"),
        ({"address": "tcp://10.0.0.5:8786"}, r"anyone who reaches tcp://10\.0\.0\.5:8786 can run code in its workers"),
        ({"address": "tcp://127.0.0.1.example.org:8786"}, r"or write open_to_the_network: true"),
        ({"address": "tcp://127.0.0.1:8786"}, None),
        ({"address": "tcp://localhost:8786"}, None),
        ({"address": "tcp://10.0.0.5:8786", "open_to_the_network": True}, None),
    ],
)
def test_addresses(tmp_path: Path, given: dict[str, Any], message: str | None) -> None:
    """Plain TCP to this machine, or where the file says so; else TLS."""
    file = write(tmp_path, {"kind": "address", "scratch": ".", **given})
    if message is None:
        read_cluster(file)
        return
    with pytest.raises(ConfigError, match=message):
        read_cluster(file)


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    assert slurm(tmp_path, log_folder="../logs").scratch == tmp_path / "scratch"
    assert slurm(tmp_path, log_folder="../logs").log_folder == tmp_path.parent / "logs"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cluster file .*none\.yaml does not exist; give a YAML file"):
        read_cluster(tmp_path / "none.yaml")


def test_the_memory_of_a_worker(tmp_path: Path) -> None:
    assert worker_memory(ExecutionConfig(workers=3)) == MACHINE // 4
    assert worker_memory(ExecutionConfig(memory_per_worker="512MiB")) == 512 << 20
    assert worker_memory(ExecutionConfig(cluster="in-process", memory_per_worker="1GB")) == 10**9
    assert worker_memory(ExecutionConfig(cluster=str(write(tmp_path, SLURM)))) == 3 << 30
    adaptive = write(tmp_path, {"kind": "local", "adaptive": {"minimum": 1, "maximum": 9}})
    assert worker_memory(ExecutionConfig(cluster=str(adaptive))) == MACHINE // 10


def test_the_memory_of_the_process_of_a_build(tmp_path: Path) -> None:
    """What workers beside it leave; workers elsewhere leave it the machine."""
    assert own_memory(ExecutionConfig(workers=2, memory_per_worker="512MiB")) == MACHINE - (1 << 30)
    assert own_memory(ExecutionConfig(workers=1000, memory_per_worker="2GiB")) == 0
    assert own_memory(ExecutionConfig(cluster="in-process", memory_per_worker="1GB")) == 10**9
    assert own_memory(ExecutionConfig(cluster=str(write(tmp_path, SLURM)))) == MACHINE


def test_what_a_worker_may_reach(tmp_path: Path) -> None:
    """Dask pauses it before its memory is full; a process that is no worker has all."""
    assert unit_memory(ExecutionConfig(memory_per_worker="500MiB")) == 400 << 20
    assert unit_memory(ExecutionConfig(cluster="in-process", memory_per_worker="500MiB")) == 500 << 20
    assert unit_memory(ExecutionConfig(cluster="in-process")) == MACHINE


def test_how_many_workers_a_build_has(tmp_path: Path) -> None:
    assert workers_of(ExecutionConfig(workers=3)) == 3
    assert workers_of(ExecutionConfig(workers=3, cluster="in-process")) == 1
    assert workers_of(ExecutionConfig(cluster=str(write(tmp_path, {"kind": "local", "workers": 5})))) == 5
    at = {"kind": "address", "address": "tcp://127.0.0.1:1", "scratch": "."}
    assert workers_of(ExecutionConfig(cluster=str(write(tmp_path, at)))) is None


@pytest.mark.parametrize("given", [{"workers": 3}, {"memory_per_worker": "4GiB"}])
def test_a_cluster_file_has_its_own_workers(tmp_path: Path, given: dict[str, Any]) -> None:
    (name, value), file = next(iter(given.items())), write(tmp_path, SLURM)
    with pytest.raises(
        ConfigError, match=f"execution.{name} = {value!r} is for the embedded cluster; set it in {file}"
    ):
        check_cluster(ExecutionConfig(cluster=str(file), **given))


def test_the_wall_time_in_seconds() -> None:
    assert [walltime_seconds(t) for t in ("00:05:00", "4:00:00", "1-12:30:01")] == [300, 14_400, 131_401]
