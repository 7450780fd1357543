"""Cluster files: each kind loads and is refused in one sentence, and what is submitted for it is what it says."""

import logging
import os
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from sdc.config.build import ExecutionConfig
from sdc.execution import jobs as slurm_jobs
from sdc.execution.cluster import check_cluster, open_executor
from sdc.execution.jobs import (
    NANNY_BYTES,
    _certificates,
    autoscaler,
    job_script,
    job_settings,
    main,
    manifest,
    slurm_library,
    submitted,
)
from sdc.execution.settings import walltime_seconds
from sdc.executor import Executor
from sdc.model.errors import ConfigError
from sdc.model.table import Table
from sdc.refusal import TRY_AGAIN, status_of
from tests.system.execution.test_executors import memory_limit
from tests.unit.config.test_cluster_files import CLUSTER, KUBERNETES, SLURM, kubernetes, slurm, write

# What a worker may use


def test_dask_says_no_more_than_warnings() -> None:
    """In a new process, for it reads its settings when something imports it first."""
    code = (
        "import logging; from sdc.execution.cluster import machine_memory; machine_memory()\n"
        "print(logging.getLogger('distributed').level)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=900, check=True)
    assert int(done.stdout) == logging.WARNING


def test_an_adaptive_local_cluster(tmp_path: Path, czech: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """All its files are in one folder, which goes with it."""
    (temporary := tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    file = write(tmp_path, {"kind": "local", "adaptive": {"minimum": 1, "maximum": 2}, "memory_per_worker": "1GiB"})
    assert check_cluster(ExecutionConfig(cluster=str(file))) == 2
    executor: Executor
    with open_executor(ExecutionConfig(cluster=str(file))) as executor:
        assert executor.workers == 2
        assert list(executor.run(memory_limit, czech, range(4))) == [1 << 30] * 4
    assert not list(temporary.iterdir())


# SLURM


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


def test_an_interrupt_stays_one_with_the_library_for_slurm() -> None:
    ask = (
        "import signal; from sdc.execution.jobs import slurm_library as load; before = signal.getsignal(signal.SIGINT)"
    )
    subprocess.run(
        [sys.executable, "-c", f"{ask}; load(); assert signal.getsignal(signal.SIGINT) is before"],
        check=True,
        timeout=900,
    )


def test_slurm_needs_sbatch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "scratch").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="command sbatch is not on the PATH"):
        check_cluster(ExecutionConfig(cluster=str(write(tmp_path, SLURM))))


AWAY = "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)"


@pytest.mark.parametrize(
    ("script", "scratch", "message"),
    [
        ("exit 0", "other", r"scratch = '.*/scratch': the folder does not exist; create it"),
        ("exec sleep 60", "scratch", r"sbatch does not answer within 0\.2 s; is SLURM running?"),
        (
            f"echo '{AWAY}' >&2; exit 1",
            "scratch",
            r"accepts no job now: .*\(connect failure\); check that slurmctld runs",
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
    linted = subprocess.run([linter, CLUSTER / "Dockerfile"], capture_output=True, text=True, timeout=900)
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
    assert {environment["HOME"], environment["NUMBA_CACHE_DIR"], "0700", "10001"} <= {*made.split()}
    assert steps["HEALTHCHECK"][0].endswith('CMD ["sdc", "doctor"]')
    assert steps["USER"] == ["10001:10001"]
    assert "://" not in text
