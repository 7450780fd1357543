"""The memory of workers, as a run says it of each stage."""

from sdc.execution.dask_executor import DaskExecutor
from sdc.executor import Executor
from sdc.memory import MIB, forget_peak, peak_bytes
from sdc.model.table import Table
from sdc.progress import MeasuringExecutor
from tests.integration.test_progress import fill


def held() -> int:
    """MiB of this process."""
    forget_peak()
    return peak_bytes() // MIB


def test_the_memory_of_workers_is_that_of_their_units(two_workers: Executor, czech: Table) -> None:
    """Each stage has the largest of its own units, and nothing of this process."""
    assert isinstance(two_workers, DaskExecutor)
    had = two_workers.client.run(held).values()
    small, large, again = (MeasuringExecutor(two_workers) for _ in range(3))
    assert list(small.run(fill, czech, [1, 2])) == [MIB, 2 * MIB]
    assert list(large.run(fill, czech, [300, 1, 1])) == [300 * MIB, MIB, MIB]
    assert list(again.run(fill, czech, [1])) == [MIB]
    assert list(again.run(fill, czech, [])) == []
    assert (small.units, large.units, again.units) == (2, 3, 1)
    peaks = [measured.worker_mib for measured in (small, large, again)]
    assert peaks[0] is not None
    assert peaks[1] is not None
    assert peaks[2] is not None
    # the two workers have not the same to begin with, and who fills 300 may be either
    assert min(had) + 280 <= peaks[1] <= max(had) + 340
    assert peaks[2] < peaks[1] - 200
