"""What runs where: by Prefect's and Dask's own accounts of flow runs, phrase by phrase of the handbook's table."""

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml
from distributed import SchedulerPlugin
from distributed.utils import key_split

from sdc.config.build import ExecutionConfig
from sdc.execution import cluster
from sdc.executor import Executor, never
from sdc.model.table import Table
from sdc.stages.build import open_build
from sdc.stages.needs import Needs
from sdc.storage.parquet import PartedTable
from tests.helpers.sharp import large
from tests.integration.stages.test_sweep import BYTES
from tests.system.flows.test_release_build import write_config
from tests.system.flows.test_running_cluster import slurm_file

__all__ = ["slurm_file"]
ROOT = Path(__file__).parents[3]
CZECH_TABLE = {
    **yaml.safe_load((ROOT / "configs" / "czech_auto_workers.yaml").read_text())["table"],
    "path": str(ROOT / "configs" / "czech_auto_workers.csv"),
}

pytestmark = pytest.mark.slow


@dataclass
class Seen(SchedulerPlugin):  # type: ignore[misc]
    """What a flow run was seen to do.

    asked    the Prefect task at work and the function, of each call of the executor
    done     Dask tasks that gave a result, by the name of their function and the process of their worker
    parted   the functions of units that read the Parquet parts of a table themselves
    opened   of each worker that was asked: the process, and the file that it maps for the table's counts
    tasks    task runs of the flow, by Prefect's API: name and state
    """

    asked: list[tuple[str, str]] = field(default_factory=list)
    done: Counter[tuple[str, int]] = field(default_factory=Counter)
    parted: set[str] = field(default_factory=set)
    opened: set[tuple[int, str]] = field(default_factory=set)
    tasks: list[tuple[str, str]] = field(default_factory=list)
    processes: dict[str, int] = field(default_factory=dict)
    build: Any = None

    def transition(self, key: str, start: str, finish: str, *args: Any, worker: str = "", **more: Any) -> None:
        if (start, finish) == ("processing", "memory"):
            self.done[key_split(key), self.processes[worker]] += 1

    def assert_on_workers(self, stage: str, function: str, least: int = 1) -> None:
        """So many Dask tasks of the function, in other processes than this one, asked for by the Prefect task."""
        assert (stage, function) in {*self.asked}, {*self.asked}
        assert (stage, "Completed") in self.tasks
        where = {process: tasks for (name, process), tasks in self.done.items() if name == function}
        assert sum(where.values()) >= least
        assert os.getpid() not in where


def opened_in_a_worker(table: Table, unit: int) -> tuple[int, str]:
    base: Any = table.counts
    while not isinstance(base, np.memmap):
        base = base.base
    return os.getpid(), str(base.filename)


@contextmanager
def seen() -> Iterator[Seen]:
    """Of the flows that are run within the block."""
    from prefect import tags
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import FlowRunFilter
    from prefect.context import TaskRunContext

    found, real = Seen(), cluster.open_executor

    @dataclass
    class Watched:
        executor: Any

        @property
        def scratch(self) -> Path | None:
            return self.executor.scratch

        def run(self, function: Any, table: Any, units: Any, is_over: Any = never) -> Iterator[Any]:
            context = TaskRunContext.get()
            assert context is not None
            found.asked.append((context.task.name, function.__name__))
            if isinstance(table, PartedTable):
                found.parted.add(function.__name__)
            yield from self.executor.run(function, table, units, is_over)
            if isinstance(table, Table):
                found.opened.update(self.executor.run(opened_in_a_worker, table, range(4)))

    @contextmanager
    def opened(execution: ExecutionConfig) -> Iterator[Executor]:
        with real(execution) as executor:
            found.processes |= executor.client.run(os.getpid)
            executor.client.cluster.scheduler.add_plugin(found)
            yield Watched(executor)

    with pytest.MonkeyPatch.context() as patched, tags(f"seen-{id(found)}"):
        patched.setattr("flows.tasks.open_executor", opened)
        yield found
    with get_client(sync_client=True) as client:
        these = FlowRunFilter(tags={"all_": [f"seen-{id(found)}"]})
        runs = client.read_task_runs(flow_run_filter=these)
        found.tasks = [(run.name.rsplit("-", 1)[0], run.state_name) for run in runs]


@pytest.fixture(scope="module")
def release(prefect_server: None, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """A sweep whose workers have no room for the table, then the build that takes its widths over, on two workers."""
    from flows.release_build import release_build
    from flows.width_sweep import width_sweep

    annealing = {"method": "best", "annealing": {"steps": 2000, "chains": 2}}
    config = write_config(tmp_path_factory.mktemp("seen"), table={**CZECH_TABLE, "partitions": 3}, release=annealing)
    with seen() as found:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Needs, "sweep", lambda self, table: (BYTES, True))
            width_sweep(config)
        found.build = open_build(Path(release_build(config)["run_folder"]).parents[2] / "build.yaml")
    return found


def test_critical_widths_are_tasks_of_workers(release: Seen) -> None:
    """Of every one of the 2^6 sub-tables, once: the build takes them over."""
    assert [asked for asked in release.asked if asked[0] == "widths"] == [("widths", "widths_of_sub_lattice")]
    release.assert_on_workers("widths", "widths_of_sub_lattice", least=2)
    assert len(release.build.made.widths) == 64


def test_chains_are_tasks_of_workers(release: Seen) -> None:
    release.assert_on_workers("annealing", "annealing_chains", least=2)


@pytest.fixture(scope="module")
def bisected(prefect_server: None, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """A build by the published method, whose bounds are then sought with sharp ends, on two workers."""
    from flows.release_build import release_build

    method = {"method": "bisection", "require": [{"all": 2}], "seconds": 0.2}
    execution = {"cluster": "local", "workers": 2}
    with seen() as found:
        made = release_build(str(large(tmp_path_factory.mktemp("bisected"), release=method, execution=execution)))
        found.build = open_build(Path(made["run_folder"]).parents[2] / "large.yaml")
    return found


def test_questions_of_bisection_are_tasks_of_workers(bisected: Seen) -> None:
    """Of each prefix that is asked about, all that is computed of its cells."""
    assert "bisection" in {step.phase for step in bisected.build.made.found.steps}
    for function in {function for stage, function in bisected.asked if stage == "bisection"}:
        bisected.assert_on_workers("bisection", function)
    assert sum(stage == "bisection" for stage, _ in bisected.asked) > 1


def test_sharp_bounds_are_tasks_of_workers(bisected: Seen) -> None:
    bisected.assert_on_workers("sharp bounds", "seek", least=2)


def test_workers_read_parts_of_sparse_parquet(release: Seen) -> None:
    """Of the non-zero cells alone, part by part where they have no room; else what is made of the parts, by path."""
    parts = sorted(release.build.folder.stage("table").glob("**/*.parquet"))
    assert len(parts) == 3
    assert sum(pq.read_metadata(part).num_rows for part in parts) == 63
    assert release.parted == {"widths_of_sub_lattice"}
    assert {process for process, _ in release.opened} <= {*release.processes.values()}
    assert {Path(file).parent.name for _, file in release.opened} == {release.build.made.table.digest}


def test_a_sweep_is_submitted_to_a_cluster(prefect_server: None, slurm_file: Path, tmp_path: Path) -> None:
    """By commands that stand in for SLURM's: its worker is a job, and computes what the sweep asks for."""
    from flows.width_sweep import width_sweep

    with seen() as found:
        width_sweep(write_config(tmp_path, execution={"cluster": str(slurm_file)}))
    assert len(list((slurm_file.parent / "jobs").glob("*.sh"))) == 1
    found.assert_on_workers("widths", "widths_of_sub_lattice")
