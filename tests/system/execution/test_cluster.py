"""Cluster files: each kind loads and is refused in one sentence, and what is submitted for it is what it says."""

from __future__ import annotations

import logging
import os
import re
import shlex
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from sdc.config.build import ExecutionConfig
from sdc.execution import slurm as slurm_jobs
from sdc.execution.cluster import check_cluster, open_executor
from sdc.execution.jobs import (
    NANNY_BYTES,
    autoscaler,
    job_script,
    job_settings,
    main,
    manifest,
    slurm_library,
    submitted,
)
from sdc.execution.settings import (
    KINDS,
    KubernetesSettings,
    SlurmSettings,
    machine_memory,
    own_memory,
    read_cluster,
    unit_memory,
    walltime_seconds,
    worker_memory,
    workers_of,
)
from sdc.execution.slurm import _certificates
from sdc.executor import Executor
from sdc.model.errors import ConfigError
from sdc.model.table import Table
from sdc.refusal import TRY_AGAIN, status_of
from tests.system.execution.test_executors import memory_limit

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
        ("kind: [local]", r"kind = \['local'\] is not one of"),
        ("- local", r"kind = None is not one of"),
        ("", r"kind = None is not one of"),
        ("[", r"cluster file .* is not valid YAML: line 1"),
        ("kind: local\nkind: slurm\n", r"line 2 gives 'kind' a second time"),
        ("kind: local\nworker: 2\nworkers: 2", r"worker is an unknown key; did you mean workers\? allowed: workers,"),
        ("kind: local\nworkers: 0", r"workers = 0: should be greater than or equal to 1 \(the number of workers"),
        ("kind: local", r"neither workers nor adaptive is given; give workers: 8, or adaptive: {minimum: 1, "),
        ("kind: local\nworkers: 2\nadaptive: {minimum: 1, maximum: 2}", r"both workers and adaptive are given"),
        ("kind: local\nadaptive: {minimum: 3, maximum: 2}", r"adaptive = .*the maximum 2 is below the minimum 3"),
        ("kind: local\nadaptive: {minimum: 0, maximum: 2}", r"adaptive\.minimum = 0: .*always there, from 1 to 1024"),
        ("kind: local\nadaptive: {minimum: 1, most: 2}", r"adaptive\.most is an unknown key.*minimum, maximum"),
        ("kind: local\nworkers: 2\nmemory_per_worker: 4 GiB", r"memory_per_worker = '4 GiB': it is no size"),
    ],
)  # fmt: skip
def test_faulty_files(tmp_path: Path, text: str, message: str) -> None:
    file = write(tmp_path, text)
    with pytest.raises(ConfigError, match=message) as refusal:
        read_cluster(file)
    assert str(file) in str(refusal.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"walltime": 14_400}, r"walltime = 14400: should be a valid string .*in quotes, such as '04:00:00'"),
        ({"walltime": "4h"}, r"walltime = '4h': it is no wall time; write hours, minutes and seconds"),
        ({"walltime": "00:04:59"}, r"walltime = '00:04:59': it is less than 300 s"),
        ({"memory_per_worker": "auto"}, r"memory_per_worker = 'auto': it is no size"),
        ({"scratch": None}, r"scratch = None: .*a folder that exists and that every worker sees"),
        ({"cores": 4}, r"cores is an unknown key"),
        (
            {"job_extra_directives": ["--partition=x"]},
            r"job_extra_directives\.0 = '--partition=x'.*name the partition in",
        ),
        ({"job_extra_directives": ["-t 9"]}, r"job_extra_directives\.0 = '-t 9'.*and the time in walltime"),
        ({"job_extra_directives": "--mem=0"}, r"job_extra_directives = '--mem=0'.*a list of further options"),
    ],
)
def test_faulty_settings_of_slurm(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        slurm(tmp_path, **change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cpu_per_worker": "one"}, r"cpu_per_worker = 'one'.*such as '1' or 500m"),
        ({"name": "SDC build"}, r"name = 'SDC build'.*lower-case letters, digits and hyphens"),
        ({"env": {"TZ": 1}}, r"env\.TZ = 1: should be a valid string \(environment variables"),
    ],
)
def test_faulty_settings_of_kubernetes(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        kubernetes(tmp_path, **change)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("127.0.0.1:8786", r"address = '127\.0\.0\.1:8786': it is no address; write tcp:// or tls://"),
        ("tls://127.0.0.1:8786", r"the address tls://127\.0\.0\.1:8786 needs a section tls with ca_file, cert and key"),
        ("tcp://127.0.0.1", r"it is no address"),
        ("tcp://127.0.0.1:65536", r"it is no address"),
        (
            "tcp://10.0.0.5:8786",
            r"whoever reaches tcp://10\.0\.0\.5:8786 may run code in its workers",
        ),
        ("tcp://127.0.0.1.example.org:8786", r"use tls:// with a section tls, or write open_to_the_network: true"),
    ],
)
def test_faulty_addresses(tmp_path: Path, address: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_cluster(write(tmp_path, {"kind": "address", "address": address, "scratch": "."}))


@pytest.mark.parametrize(
    "given",
    [
        {"address": "tcp://127.0.0.1:8786"},
        {"address": "tcp://127.1.2.3:8786"},
        {"address": "tcp://localhost:8786"},
        {"address": "tcp://10.0.0.5:8786", "open_to_the_network": True},
    ],
)
def test_plain_tcp_to_this_machine_or_where_the_file_says_so(tmp_path: Path, given: dict[str, Any]) -> None:
    read_cluster(write(tmp_path, {"kind": "address", "scratch": ".", **given}))


def test_a_key_without_encryption(tmp_path: Path) -> None:
    tls = {"ca_file": "ca.pem", "cert": "c.pem", "key": "c.key"}
    content = {"kind": "address", "address": "tcp://127.0.0.1:8786", "scratch": ".", "tls": tls}
    with pytest.raises(ConfigError, match=r"the address tcp://127\.0\.0\.1:8786 goes without tls"):
        read_cluster(write(tmp_path, content))


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    assert slurm(tmp_path, log_folder="../logs").scratch == tmp_path / "scratch"
    assert slurm(tmp_path, log_folder="../logs").log_folder == tmp_path.parent / "logs"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cluster file .*none\.yaml does not exist; give a YAML file"):
        read_cluster(tmp_path / "none.yaml")


# What a worker may use


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


def test_dask_says_no_more_than_warnings() -> None:
    """In a new process, for it reads its settings when something imports it first."""
    code = (
        "import logging; from sdc.execution.settings import machine_memory; machine_memory()\n"
        "print(logging.getLogger('distributed').level)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert int(done.stdout) == logging.WARNING


@pytest.mark.parametrize("given", [{"workers": 3}, {"memory_per_worker": "4GiB"}])
def test_a_cluster_file_has_its_own_workers(tmp_path: Path, given: dict[str, Any]) -> None:
    (name, value), file = next(iter(given.items())), write(tmp_path, SLURM)
    with pytest.raises(
        ConfigError, match=f"execution.{name} = {value!r} is for the embedded cluster; set it in {file}"
    ):
        check_cluster(ExecutionConfig(cluster=str(file), **given))


def test_an_adaptive_local_cluster(tmp_path: Path, czech: Table) -> None:
    file = write(tmp_path, {"kind": "local", "adaptive": {"minimum": 1, "maximum": 2}, "memory_per_worker": "1GiB"})
    assert check_cluster(ExecutionConfig(cluster=str(file))) == 2
    executor: Executor
    with open_executor(ExecutionConfig(cluster=str(file))) as executor:
        assert executor.workers == 2
        assert list(executor.run(memory_limit, czech, range(4))) == [1 << 30] * 4


# SLURM


def test_the_wall_time_in_seconds() -> None:
    assert [walltime_seconds(t) for t in ("00:05:00", "4:00:00", "1-12:30:01")] == [300, 14_400, 131_401]


@pytest.mark.parametrize(
    ("walltime", "lifetime", "stagger"), [("00:05:00", 180, 60), ("01:00:00", 2880, 360), ("2-00:00:00", 171_600, 600)]
)
def test_workers_leave_before_their_wall_time(tmp_path: Path, walltime: str, lifetime: int, stagger: int) -> None:
    settings = slurm(tmp_path, walltime=walltime)
    assert settings.leaving == (lifetime, stagger)
    assert lifetime + stagger < walltime_seconds(walltime)
    assert f"--lifetime {lifetime}s --lifetime-stagger {stagger}s" in job_script(settings)


def test_the_job_of_a_worker(tmp_path: Path) -> None:
    settings = slurm(
        tmp_path,
        queue="batch",
        account="statistics",
        interface="ib0",
        python="/opt/sdc/bin/python",
        log_folder="logs",
        job_extra_directives=["--constraint=haswell"],
        job_script_prologue=["module load gcc"],
    )
    lines = job_script(settings).splitlines()
    assert lines[0] == "#!/usr/bin/env bash"
    assert [line.removeprefix("#SBATCH ") for line in lines if line.startswith("#SBATCH")] == [
        "-J sdc-worker",
        "-p batch",
        "-A statistics",
        "-n 1",
        "--cpus-per-task=1",
        f"--mem={3072 + (NANNY_BYTES >> 20)}M",
        "-t 01:00:00",
        f"--output={tmp_path}/logs/%x-%j.log",
        "--constraint=haswell",
    ]
    assert {'export OMP_NUM_THREADS="1"', "module load gcc"} <= set(lines)
    command = lines[-1]
    assert command.startswith("/opt/sdc/bin/python -m distributed.cli.dask_worker tls://")
    for option in ("--nthreads 1", "--memory-limit 3.00GiB", "--nanny", "--interface ib0", "--no-dashboard"):
        assert option in command
    assert not (tmp_path / "logs").exists()


def test_what_is_not_set_is_left_to_slurm(tmp_path: Path) -> None:
    script = job_script(slurm(tmp_path))
    assert not [option for option in ("-p ", "-A ", "--output") if option in script]


def test_files_of_a_job_may_have_blanks_in_their_paths(tmp_path: Path) -> None:
    """The key to the scheduler is in the scratch folder, which is beside the cluster file."""
    (folder := tmp_path / "a b").mkdir()
    settings = slurm(folder, python="/opt/s d c/python", log_folder="l o g s")
    told = job_settings(settings)
    job = slurm_library().SLURMJob("tls://s:0", "worker", security=_certificates(folder), **told)
    *script, command = job.job_script().splitlines()
    words = shlex.split(command)
    files = {word: words[words.index(word) + 1] for word in words if word.startswith("--tls")}
    assert words[0] == "/opt/s d c/python"
    assert len(files) == 3
    assert all(Path(file).parent == folder and Path(file).is_file() for file in files.values())
    (logs,) = (line for line in script if "--output" in line)
    assert shlex.split(logs, comments=False)[1] == f"--output={folder}/l o g s/%x-%j.log"


def test_slurm_needs_an_interface_to_listen_on(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="interface"):
        read_cluster(write(tmp_path, {name: value for name, value in SLURM.items() if name != "interface"}))


def test_an_interrupt_stays_one_with_the_library_for_slurm() -> None:
    ask = (
        "import signal; from sdc.execution.jobs import slurm_library as load; before = signal.getsignal(signal.SIGINT)"
    )
    subprocess.run(
        [sys.executable, "-c", f"{ask}; load(); assert signal.getsignal(signal.SIGINT) is before"],
        check=True,
        timeout=120,
    )


def test_slurm_needs_sbatch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "scratch").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="there is no command sbatch on the PATH"):
        check_cluster(ExecutionConfig(cluster=str(write(tmp_path, SLURM))))


AWAY = "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)"


@pytest.mark.parametrize(
    ("script", "scratch", "message"),
    [
        ("exit 0", "other", r"scratch = '.*/scratch': there is no such folder; make it"),
        ("exec sleep 60", "scratch", r"sbatch does not answer within 0\.2 s; is SLURM at work"),
        (
            f"echo '{AWAY}' >&2; exit 1",
            "scratch",
            r"takes no job just now: .*\(connect failure\); see that slurmctld runs",
        ),
    ],
)
def test_slurm_that_takes_no_job(
    script: str, scratch: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By commands of its names, first on the PATH; where it may take one later, the build may be tried again."""
    for command in slurm_jobs.COMMANDS:
        (tmp_path / command).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / command).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(slurm_jobs, "ANSWER_SECONDS", 0.2 if "sleep" in script else 20)
    (tmp_path / scratch).mkdir()
    with pytest.raises(ConfigError, match=message) as refused:
        check_cluster(ExecutionConfig(cluster=str(write(tmp_path, SLURM))))
    assert (status_of(refused.value) == TRY_AGAIN) == (scratch == "scratch")


@pytest.mark.parametrize(("content", "package"), [(SLURM, "dask-jobqueue"), (KUBERNETES, "dask-kubernetes")])
def test_what_starts_a_cluster_must_be_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: dict[str, Any], package: str
) -> None:
    monkeypatch.setitem(sys.modules, package.replace("-", "_"), None)
    message = rf"kind = {content['kind']} needs the package {package}; run: pip install 'sdc-tables\[cluster\]'"
    with pytest.raises(ConfigError, match=message):
        check_cluster(ExecutionConfig(cluster=str(write(tmp_path, content))))


# Kubernetes


def schema_of(kind: str) -> dict[str, Any]:
    """The schema by which the operator's own definition of a resource judges it."""
    (package,) = find_spec("dask_kubernetes").submodule_search_locations  # found, not imported: that takes seconds
    folder = Path(package, "operator/deployment/helm/dask-kubernetes-operator/crds")
    definition = yaml.safe_load((folder / f"{kind}.yaml").read_text())
    schema: dict[str, Any] = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def test_the_resource_of_a_cluster(tmp_path: Path) -> None:
    settings = kubernetes(
        tmp_path, service_account="builder", image_pull_secrets=["registry"], env={"TZ": "UTC"}, cpu_per_worker="500m"
    )
    resource = manifest(settings)
    jsonschema.validate(resource, schema_of("daskcluster"))
    assert yaml.safe_load(yaml.safe_dump(resource)) == resource
    worker, pod = resource["spec"]["worker"], resource["spec"]["worker"]["spec"]
    (container,) = pod["containers"]
    amounts = {"cpu": "500m", "memory": str((1 << 30) + NANNY_BYTES)}
    assert worker["replicas"] == 3
    assert container["image"] == "sdc-worker:1"
    assert container["resources"] == {"requests": amounts, "limits": amounts}
    assert container["volumeMounts"] == [{"name": "scratch", "mountPath": "/scratch/sdc"}]
    assert pod["volumes"] == [{"name": "scratch", "persistentVolumeClaim": {"claimName": "shared"}}]
    assert pod["serviceAccountName"] == "builder"
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    env = {entry["name"]: entry["value"] for entry in container["env"]}
    assert (env["OMP_NUM_THREADS"], env["TZ"]) == ("1", "UTC")
    command = " ".join(container["args"])
    assert command.startswith("dask worker --name $(DASK_WORKER_NAME) --nthreads 1 --memory-limit 1073741824")
    assert "--no-dashboard --dashboard-address 127.0.0.1:0" in command
    (scheduler,) = resource["spec"]["scheduler"]["spec"]["containers"]
    assert scheduler["args"][-1] == "--no-dashboard"
    for container in (scheduler, worker["spec"]["containers"][0]):
        routes = [entry["value"] for entry in container["env"] if entry["name"].endswith("__HTTP__ROUTES")]
        assert routes == ["['distributed.http.health']"] * 2


def test_the_resource_of_an_adaptive_cluster(tmp_path: Path) -> None:
    settings = kubernetes(tmp_path, workers=None, adaptive={"minimum": 2, "maximum": 8})
    assert manifest(settings)["spec"]["worker"]["replicas"] == 2
    jsonschema.validate(autoscaler(settings), schema_of("daskautoscaler"))
    assert autoscaler(settings)["spec"] == {"cluster": "sdc", "minimum": 2, "maximum": 8}


def test_kubernetes_needs_a_kube_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(ConfigError, match=r"there is no kube config at .*none; set KUBECONFIG to one"):
        check_cluster(ExecutionConfig(cluster=str(write(tmp_path, KUBERNETES | {"scratch": str(tmp_path)}))))


KUBE_CONFIG = """
apiVersion: v1
kind: Config
current-context: none
contexts: [{name: none, context: {cluster: none, user: none}}]
clusters: [{name: none, cluster: {server: "http://127.0.0.1:9"}}]
users: [{name: none, user: {}}]
"""


def test_kubernetes_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    (tmp_path / "config").write_text(KUBE_CONFIG)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    execution = ExecutionConfig(cluster=str(write(tmp_path, KUBERNETES | {"scratch": str(tmp_path)})))
    assert check_cluster(execution) == 3
    with (
        pytest.raises(
            ConfigError, match=r"the Dask operator did not start cluster sdc-\w{8} of image 'sdc-worker:1': "
        ),
        open_executor(execution),
    ):
        pass


# What an operator reads before


def test_what_would_be_submitted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(CLUSTER / "slurm.yaml")
    assert capsys.readouterr().out == submitted(CLUSTER / "slurm.yaml")
    resources = list(yaml.safe_load_all(submitted(CLUSTER / "kubernetes.yaml")))
    assert [resource["kind"] for resource in resources] == ["DaskCluster", "DaskAutoscaler"]
    fixed = list(yaml.safe_load_all(submitted(write(tmp_path, KUBERNETES))))
    assert [resource["kind"] for resource in fixed] == ["DaskCluster"]
    with pytest.raises(ConfigError, match="a cluster of kind local submits nothing; name one of kind slurm or kubern"):
        submitted(CLUSTER / "local.yaml")


# The image of the workers


def test_the_image_of_the_workers() -> None:
    """Docker itself is not run: the files it copies are there, and what it installs is pinned and not run by root.

    A linter knows what else is wrong with such a file.
    """
    linter = Path(sys.executable).with_name("hadolint")  # of this environment, which need not be an active one
    linted = subprocess.run([linter, CLUSTER / "Dockerfile"], capture_output=True, text=True, timeout=120)
    assert (linted.returncode, linted.stdout) == (0, "")
    text = (CLUSTER / "Dockerfile").read_text().replace("\\\n", " ")
    steps = dict[str, list[str]]()
    for line in re.findall(r"^[A-Z].*$", text, re.MULTILINE):
        step, _, words = line.partition(" ")
        steps.setdefault(step, []).append(" ".join(words.split()))
    project = tomllib.loads((CLUSTER.parent / "pyproject.toml").read_text())["project"]
    copied = {source for words in steps["COPY"] for source in words.split()[:-1]}
    environment = dict(word.split("=") for word in steps["ENV"][0].split())
    assert steps["FROM"] == ["${BASE}"]
    assert steps["ARG"] == [f"BASE=python:{project['requires-python'].removeprefix('>=')}-slim"]
    assert all((CLUSTER.parent / source).exists() for source in copied)
    assert {"pyproject.toml", "constraints.txt", project["readme"], "sdc", "flows"} <= copied
    for run in ("pip install --no-cache-dir -c constraints.txt '.[cluster,postgresql,s3,server]'", "postgresql-client"):
        assert any(run in words for words in steps["RUN"])
    (made,) = [words for words in steps["RUN"] if words.startswith("install ")]
    assert {environment["HOME"], environment["NUMBA_CACHE_DIR"]} <= {*made.split()}
    assert steps["HEALTHCHECK"][0].endswith('CMD ["sdc", "doctor"]')
    assert steps["USER"] == ["10001:10001"]
    assert "://" not in text
