"""Searches that are to end, and that a fault of workers has left with work: nothing of them is kept as done."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sdc.config.build import ExecutionConfig
from sdc.events import EXECUTION, STARTED, UNIT_LOST, EventText, emit, heard
from sdc.execution import dask_executor
from sdc.execution.cluster import open_executor
from sdc.execution.dask_executor import DaskExecutor
from sdc.executor import IN_PROCESS
from sdc.model.errors import CutShortError
from sdc.refusal import TRY_AGAIN, status_of
from sdc.stages import search
from sdc.stages.build import Build, open_build
from sdc.stages.stages import run_all
from sdc.stages.verified import verify_run
from tests.helpers.builds import ANNEALED, write_czech


@contextmanager
def at_the_search(call: Callable[[], Any]) -> Iterator[None]:
    def begun(line: str) -> None:
        if line.startswith("search: "):
            call()

    with heard(EventText(begun, STARTED)):
        yield


def require_nothing_kept(build: Build) -> None:
    assert "search" not in build.folder.records()
    assert not build.folder.stage("search").exists()
    assert not build.folder.stage("release").exists()


@pytest.mark.parametrize("release", [{"method": "ordered"}, ANNEALED])
def test_workers_that_stopped(release: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The deadline is obeyed, with a status that says to try again; and then the build is whole."""
    monkeypatch.setattr(dask_executor, "SECONDS_SILENT", 5.0)
    config = write_czech(tmp_path, release={**release, "minutes": 0.2})
    with open_executor(ExecutionConfig(workers=2)) as executor:
        assert isinstance(executor, DaskExecutor)
        workers = executor.client.run(os.getpid).values()

        def stop() -> None:
            for worker in workers:
                os.kill(worker, signal.SIGSTOP)

        with at_the_search(stop), pytest.raises(CutShortError, match=r"unit 0 of .* is missing: .*Nothing is") as told:
            run_all(open_build(config), executor)
    assert status_of(told.value) == TRY_AGAIN
    require_nothing_kept(open_build(config))
    build = open_build(write_czech(tmp_path, release={**release, "minutes": 60}))
    run_all(build, IN_PROCESS)
    assert verify_run(build.folder.path).verified
    assert len(build.made.found.release.frontier) > 1


@pytest.mark.parametrize("method", ["ordered", "bisection"])
def test_the_total_alone_after_a_fault(method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor that nothing was proven in time is an answer then."""
    config, opened = write_czech(tmp_path, release={"method": method, "minutes": 1e-6}), search.release_search

    def faulty(*given: Any) -> Any:
        emit(UNIT_LOST, "unit 0 of 1 is missing", EXECUTION)
        return opened(*given)

    with monkeypatch.context() as patch:
        patch.setattr(search, "release_search", faulty)
        with pytest.raises(
            CutShortError, match=r"an error cut it short: unit 0 of 1 is missing\. Nothing is published"
        ):
            run_all(open_build(config), IN_PROCESS)
    require_nothing_kept(open_build(config))
    if method == "ordered":
        run_all(open_build(config), IN_PROCESS)
        assert open_build(config).folder.stage("release").exists()
