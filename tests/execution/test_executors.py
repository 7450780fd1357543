"""Every executor through the same tests, with faults injected: order, laziness, deaths, same results."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from sdc.api import ordered_release
from sdc.execution.cluster import open_executor, read_cluster
from sdc.executor import IN_PROCESS, Executor
from sdc.model.errors import ConfigError, SdcError
from sdc.model.structural_zeros import NO_ZEROS, StructuralZeros
from sdc.model.table import Table
from sdc.risk.critical_width import critical_widths


@pytest.fixture(scope="module")
def two_workers() -> Iterator[Executor]:
    with open_executor("local", 2) as executor:
        yield executor


@pytest.fixture(params=["in-process", "two workers"])
def executor(request: pytest.FixtureRequest) -> Executor:
    if request.param == "in-process":
        return IN_PROCESS
    found: Executor = request.getfixturevalue("two_workers")
    return found


def total_and(table: Table, unit: int) -> tuple[int, int]:
    return table.total, unit


def zeros_of(table: Table, unit: int) -> StructuralZeros:
    return table.zeros


def refuse_three(table: Table, unit: int) -> int:
    if unit == 3:
        raise SdcError("unit 3 is refused; leave it out")
    return unit


def process(table: Table, unit: int) -> int:
    return os.getpid()


def die_once(table: Table, unit: str) -> str:
    """Kills its worker the first time it runs: a lost worker, at a chosen moment."""
    marker = Path(unit)
    if not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return marker.name


def die_always(table: Table, unit: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return unit


def test_results_come_in_the_order_of_the_units(executor: Executor, czech: Table) -> None:
    assert list(executor.run(total_and, czech, range(20))) == [(1841, unit) for unit in range(20)]
    assert list(executor.run(total_and, czech, [])) == []


def test_structural_zeros_reach_every_worker(executor: Executor, czech: Table) -> None:
    zeros = StructuralZeros((tuple((v, (code,)) for v, code in enumerate((1, 0, 0, 1, 1, 1))),))
    assert list(executor.run(zeros_of, czech.with_zeros(zeros), range(4))) == [zeros] * 4
    assert list(executor.run(zeros_of, czech, range(4))) == [NO_ZEROS] * 4


def test_a_refusal_in_a_unit_is_the_same_refusal(executor: Executor, czech: Table) -> None:
    results = executor.run(refuse_three, czech, range(6))
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(SdcError, match="unit 3 is refused; leave it out"):
        next(results)


def test_one_may_stop_asking(executor: Executor, czech: Table) -> None:
    assert next(iter(executor.run(total_and, czech, range(100)))) == (1841, 0)


def test_widths_and_releases_do_not_depend_on_the_executor(executor: Executor, czech: Table) -> None:
    widths, expected = critical_widths(czech, executor=executor), critical_widths(czech)
    assert np.array_equal(widths.sub_tables, expected.sub_tables)
    assert np.array_equal(widths.widths, expected.widths)
    found, alone = ordered_release(czech, min_width=6, executor=executor), ordered_release(czech, min_width=6)
    assert (found.release, found.assessment, found.steps) == (alone.release, alone.assessment, alone.steps)
    assert found.proof.separators == alone.proof.separators
    for part, other in zip(found.proof.parts, alone.proof.parts, strict=True):
        assert (part.variables, part.cover) == (other.variables, other.cover)
        for name in ("start", "cells", "changes"):
            assert np.array_equal(getattr(part.differences, name), getattr(other.differences, name)), name


def test_units_run_in_other_processes(two_workers: Executor, czech: Table) -> None:
    assert os.getpid() not in set(two_workers.run(process, czech, range(8)))


def test_a_worker_that_dies_costs_nothing_but_time(czech: Table, tmp_path: Path) -> None:
    units = [str(tmp_path / name) for name in "abc"]
    for name in "bc":
        (tmp_path / name).touch()
    with open_executor("local", 2) as executor:
        assert list(executor.run(die_once, czech, units)) == ["a", "b", "c"]


def test_a_unit_that_kills_every_worker_is_named(czech: Table) -> None:
    with open_executor("local", 2) as executor, pytest.raises(SdcError, match="unit 0 of 1 of die_always killed every"):
        list(executor.run(die_always, czech, [0]))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: cloud", r"kind.*cloud"),
        ("kind: local\nworker: 2", r"worker = 2: Extra inputs are not permitted"),
        ("kind: local\nworkers: 0", r"workers = 0: Input should be greater than or equal to 1"),
        ("kind: address", r"address.*Field required"),
        ("[", r"cannot be read"),
        ("", r"the whole file = None"),
    ],
)
def test_faulty_cluster_files(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_cluster(file)


def test_a_cluster_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none.yaml cannot be read.*name a YAML file, or `local`"):
        read_cluster(tmp_path / "none.yaml")


def test_the_cluster_files_of_the_project_load() -> None:
    for file in sorted((Path(__file__).parents[2] / "cluster").glob("*.yaml")):
        assert read_cluster(file).kind == file.stem


def test_a_scheduler_that_does_not_answer(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(f"kind: address\naddress: tcp://127.0.0.1:1\nscratch: {tmp_path}\ntimeout_seconds: 1\n")
    with pytest.raises(ConfigError, match=r"no scheduler answers at 'tcp://127\.0\.0\.1:1' within 1\.0 s"):
        open_executor(str(file), 1).__enter__()


def test_a_running_scheduler_by_its_address(czech: Table, tmp_path: Path) -> None:
    from distributed import LocalCluster

    with LocalCluster(n_workers=1, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0") as cluster:
        file = tmp_path / "cluster.yaml"
        file.write_text(f"kind: address\naddress: {cluster.scheduler_address}\nscratch: {tmp_path / 'scratch'}\n")
        with open_executor(str(file), 7) as executor:
            assert executor.workers == 1
            assert list(executor.run(total_and, czech, [4])) == [(1841, 4)]
