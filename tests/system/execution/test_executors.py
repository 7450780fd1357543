"""Every executor through the same tests, with faults injected: order, laziness, deaths, same results."""

import gc
import os
import resource
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pytest

from sdc.api import find_release
from sdc.config.build import ExecutionConfig
from sdc.execution import dask_executor
from sdc.execution.cluster import open_executor
from sdc.execution.connection import software
from sdc.execution.dask_executor import DaskExecutor
from sdc.executor import IN_PROCESS, Executor
from sdc.memory import resident_bytes
from sdc.model.errors import ConfigError, SdcError
from sdc.model.knowledge import Knowledge
from sdc.model.structural_zeros import NO_ZEROS, StructuralZeros
from sdc.model.table import Table
from sdc.risk.critical_width import critical_widths
from tests.strategies import dense, every_cell, frontier, knows, schema_of


@pytest.fixture(params=["in-process", "two workers"])
def executor(request: pytest.FixtureRequest) -> Executor:
    if request.param == "in-process":
        return IN_PROCESS
    found: Executor = request.getfixturevalue("two_workers")
    return found


@pytest.fixture
def unknowing(two_workers: Executor) -> Callable[[int], DaskExecutor]:
    """An executor on the same workers, as if there were so many, that knows of no earlier call."""
    assert isinstance(two_workers, DaskExecutor)
    assert two_workers.scratch is not None
    return partial(DaskExecutor, two_workers.client, two_workers.scratch)


def total_and(table: Table, unit: int) -> tuple[int, int]:
    return table.total, unit


def known_of(table: Table, unit: Knowledge) -> tuple[Knowledge, int]:
    """What is known, and how many of the table's cells it says are impossible."""
    unit.check_is_of(table)
    return unit, int(unit.zeros.contains(every_cell(table.schema), table.schema).sum())


def memory_of_small_blocks(table: Table, mib: int) -> int:
    """The worker's memory in MiB, once it has had so many more in small blocks, the last of which it keeps."""
    blocks = [np.ones(1 << 13) for _ in range(1 + (mib << 4))]  # 64 KiB each, which the C library does not map
    KEPT.append(blocks[-1])
    del blocks
    return resident_bytes() >> 20


KEPT: list[Any] = []


def task(table: Table, unit: int) -> tuple[str, int]:
    """The Dask task that the unit is in."""
    from distributed import get_worker

    return str(get_worker().get_current_task()), unit


def rest(table: Table, unit: int) -> int:
    """Longer than an executor waits before it looks whether anybody works."""
    time.sleep(0.5)
    return unit


def refuse_three(table: Table, unit: int) -> int:
    if unit == 3:
        raise SdcError("unit 3 is refused; leave it out")
    return unit


def process(table: Table, unit: int) -> int:
    return os.getpid()


def memory_limit(table: Table, unit: int) -> int:
    from distributed import get_worker

    limit: int = get_worker().memory_manager.memory_limit
    return limit


def pause(dask_worker: Any) -> None:
    """As a worker does above four fifths of its memory; looks at its memory do not wake it."""
    from distributed.core import Status

    dask_worker.memory_manager.memory_pause_fraction = False
    dask_worker.status = Status.paused


def die_always(table: Table, unit: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return unit


def test_results_come_in_the_order_of_the_units(executor: Executor, czech: Table) -> None:
    assert list(executor.run(total_and, czech, range(20))) == [(1841, unit) for unit in range(20)]
    assert list(executor.run(total_and, czech, [])) == []


def test_structural_zeros_reach_every_worker(executor: Executor, czech: Table) -> None:
    """With what is known, which is in the unit: of one table some know more than others."""
    zeros = StructuralZeros((tuple((v, (code,)) for v, code in enumerate((1, 0, 0, 1, 1, 1))),))
    informed, ignorant = (knows(czech, frontier("AB"), some) for some in (zeros, NO_ZEROS))
    units = [informed, informed, ignorant, informed]
    assert list(executor.run(known_of, czech, units)) == [(one, int(one is informed)) for one in units]


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
    found, alone = (find_release(czech, "ordered", min_width=6, executor=some) for some in (executor, IN_PROCESS))
    assert (found.release, found.assessment, found.steps) == (alone.release, alone.assessment, alone.steps)
    assert found.proof.separators == alone.proof.separators
    for part, other in zip(found.proof.parts, alone.proof.parts, strict=True):
        assert (part.variables, part.cover) == (other.variables, other.cover)
        for name in ("start", "cells", "changes"):
            assert np.array_equal(getattr(part.differences, name), getattr(other.differences, name)), name


def test_units_run_in_other_processes(two_workers: Executor, czech: Table) -> None:
    assert os.getpid() not in set(two_workers.run(process, czech, range(8)))


def test_workers_have_the_memory_of_the_config(two_workers: Executor, czech: Table) -> None:
    assert set(two_workers.run(memory_limit, czech, range(8))) == {2 << 30}


def test_a_full_scratch_folder_is_one_message(unknowing: Callable[[int], DaskExecutor]) -> None:
    """Of a table that no worker has met; and once there is room again, it is counted."""
    executor, table = unknowing(2), dense(schema_of([2, 3]), [1, 2, 3, 4, 5, 6])
    with (
        files_no_larger_than(100),
        pytest.raises(SdcError, match=r"scratch folder .* cannot be written: .*; free its disk or name another"),
    ):
        list(executor.run(total_and, table, [1]))
    assert list(executor.run(total_and, table, [1])) == [(21, 1)]


@contextmanager
def files_no_larger_than(size: int) -> Iterator[None]:
    """As a disk that is full: writing more to a file fails in this process."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_worker_with_other_software_gets_no_unit_done(
    two_workers: Executor, czech: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that joins a running build late, where nobody checks it before."""
    here = {**software(), "numpy": "1.0"}
    monkeypatch.setattr(dask_executor, "software", lambda: here)
    with pytest.raises(ConfigError, match=r"worker tls://\S+ differs from this process: numpy \S+ \(here 1\.0\); inst"):
        list(two_workers.run(total_and, czech, [0]))


def test_a_worker_that_does_not_see_the_scratch_folder(
    two_workers: Executor, czech: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(two_workers, "_place", lambda table: "/proc/self/nowhere")
    with pytest.raises(ConfigError, match=r"worker tls://\S+ does not see the scratch folder /proc/self/nowhere"):
        list(two_workers.run(total_and, czech, [0]))


@pytest.mark.parametrize("workers", [1, 2])
def test_short_units_share_tasks(
    workers: int, czech: Table, unknowing: Callable[[int], DaskExecutor], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the second call on, fewer and fewer of them; the results are the same."""
    monkeypatch.setattr(dask_executor, "SHORTEST_TASK", 0.0)
    monkeypatch.setattr(dask_executor, "LONGEST_TASK", 1e9)
    executor = unknowing(workers)
    first, second = ([*executor.run(task, czech, range(50))] for _ in range(2))
    assert [unit for _, unit in first] == [unit for _, unit in second] == list(range(50))
    assert len({name for name, _ in first}) == 50
    sizes = [*Counter(name for name, _ in second).values()]
    assert sizes == sorted(sizes, reverse=True)
    assert 25 // workers > sizes[0] > 5 // workers
    assert sizes[-1] == 1


def test_each_worker_has_a_task(
    czech: Table, unknowing: Callable[[int], DaskExecutor], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However short units are; and where there are fewer of them than workers, each is one."""
    monkeypatch.setattr(dask_executor, "SHORTEST_TASK", 1e9)
    executor = unknowing(2)
    for units, sizes in ((50, [1] * 50), (50, [25, 25]), (3, [1, 1, 1]), (1, [1])):
        names = [name for name, _ in executor.run(task, czech, range(units))]
        assert list(Counter(names).values()) == sizes


def test_long_units_have_tasks_of_their_own(
    czech: Table, unknowing: Callable[[int], DaskExecutor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_executor, "LONGEST_TASK", 1e-6)
    executor = unknowing(1)
    for _ in range(2):
        assert len({name for name, _ in executor.run(task, czech, range(50))}) == 50


@pytest.mark.slow
def test_a_client_that_is_just_closing(czech: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """It knows of no workers. The unit may still be answered; once the client is closed it will not be."""
    monkeypatch.setattr(dask_executor, "SECONDS_BETWEEN_LOOKS", 0.05)
    with open_executor(ExecutionConfig(workers=1)) as executor:
        assert isinstance(executor, DaskExecutor)

        def closed(client: Any) -> dict[str, Any]:
            monkeypatch.setattr(client, "status", "closed")
            return {}

        monkeypatch.setattr(dask_executor, "workers_of", lambda client: {})
        assert list(executor.run(rest, czech, [1])) == [1]
        monkeypatch.setattr(dask_executor, "workers_of", closed)
        with pytest.raises(SdcError, match="the Dask scheduler was lost"):
            list(executor.run(rest, czech, [1]))
        monkeypatch.undo()


@pytest.mark.slow
def test_a_worker_keeps_no_memory_that_it_does_not_use(czech: Table) -> None:
    """Dask would give no unit to one that had four fifths of its memory."""
    with open_executor(ExecutionConfig(workers=1, memory_per_worker="1GiB")) as one:
        before, full, after = (next(one.run(memory_of_small_blocks, czech, [mib])) for mib in (0, 450, 0))
    assert full - before > 400 > 200 > after - before, (before, full, after)


@pytest.mark.slow
def test_a_client_that_was_not_closed_does_not_stop_the_next_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dask closes it when it is collected, with a lock that it holds while a loop is started."""
    from distributed.utils import LoopRunner

    was_free = list[bool]()

    class NotClosed:
        def __init__(self) -> None:
            self.itself = self  # so that a collection is what ends it

        def __del__(self) -> None:
            if free := LoopRunner._lock.acquire(blocking=False):
                LoopRunner._lock.release()
            was_free.append(free)

    start = LoopRunner._start_unlocked

    def collected_meanwhile(runner: LoopRunner) -> None:
        gc.collect()
        start(runner)

    monkeypatch.setattr(LoopRunner, "_start_unlocked", collected_meanwhile)
    gc.disable()
    try:
        NotClosed()
        with open_executor(ExecutionConfig(workers=1)):
            pass
    finally:
        gc.enable()
    assert was_free == [True]


@pytest.mark.slow
def test_a_paused_worker_is_no_worker(czech: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_executor(ExecutionConfig(workers=1)) as executor:
        assert isinstance(executor, DaskExecutor)
        executor.patience = 1.0
        executor.client.run(pause)
        with pytest.raises(SdcError, match=r"0 of 1 of total_and: for 1 s all workers \(1\) were paused, short of"):
            list(executor.run(total_and, czech, [1]))


@pytest.mark.slow
@pytest.mark.parametrize("failures", [2, 3])
def test_workers_that_die_before_they_are_up(failures: int, czech: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dask gives up the whole cluster then; it is started anew, but not for ever."""
    import distributed

    start, left = distributed.LocalCluster, iter(range(failures))

    def fail_at_first(**settings: Any) -> Any:
        if next(left, None) is not None:
            raise RuntimeError("Nanny failed to start.")
        return start(**settings)

    monkeypatch.setattr(distributed, "LocalCluster", fail_at_first)
    opened = open_executor(ExecutionConfig(workers=1))
    if failures == 3:
        with pytest.raises(SdcError, match=r"the workers did not start, 3 times: Nanny failed to start\.; is there"):
            opened.__enter__()
    else:
        with opened as executor:
            assert list(executor.run(total_and, czech, [1])) == [(1841, 1)]


@pytest.mark.slow
def test_a_unit_that_kills_every_worker_is_named(czech: Table) -> None:
    with (
        open_executor(ExecutionConfig(workers=2)) as executor,
        pytest.raises(SdcError, match="unit 0 of 1 of die_always killed every"),
    ):
        list(executor.run(die_always, czech, [0]))
