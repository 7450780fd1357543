"""What Dask logs, here and in workers: in the log of the run that is open, and never on the console."""

import logging
import os
import signal
import time
from contextlib import nullcontext
from pathlib import Path

import pytest

from sdc.config.build import ExecutionConfig
from sdc.events import EventLog, heard, read_events
from sdc.execution.cluster import LIBRARIES, open_executor, quiet_here
from sdc.model.errors import SdcError
from sdc.model.table import Table


def warn_and_die_once(table: Table, unit: str) -> str:
    from distributed import get_worker

    marker = Path(unit)
    if not marker.exists():
        marker.write_text(get_worker().address)
        logging.getLogger("distributed.worker.memory").warning("memory of a worker is short")
        os.kill(os.getpid(), signal.SIGKILL)
    return marker.name


def refuse(table: Table, unit: int) -> int:
    raise SdcError(f"{unit} is refused")


@pytest.mark.parametrize("is_logged", [True, False])
def test_a_lost_worker_leaves_the_console_alone(
    is_logged: bool, czech: Table, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log.jsonl"
    with heard(EventLog(path)) if is_logged else nullcontext(), open_executor(ExecutionConfig(workers=2)) as executor:
        assert list(executor.run(warn_and_die_once, czech, [str(tmp_path / "unit")])) == ["unit"]
        deadline = time.monotonic() + 300
        while is_logged and "distributed.nanny" not in path.read_text() and time.monotonic() < deadline:
            time.sleep(0.1)  # the nanny may notice after the unit is computed again
        logging.getLogger("distributed.nanny").info("of no use")
        logging.getLogger("asyncio").error("SSL handshake failed")
    assert capfd.readouterr() == ("", "")
    events = [(event["event"], event["text"]) for event in read_events(path)]
    kept = {
        ("distributed.worker.memory", "memory of a worker is short"),
        ("distributed.nanny", "Restarting worker (status=Status.running)"),
        ("asyncio", "SSL handshake failed"),
    }
    # a nanny whose worker is not up again when all ends may say it twice
    assert kept.intersection(events) == (kept if is_logged else set())
    died = (tmp_path / "unit").read_text()  # a busy machine may lose another
    lost = [text for name, text in events if name == "worker lost" and f" {died} " in text]
    assert len(lost) == is_logged
    assert "of no use" not in dict(map(reversed, events))


def test_no_data_are_logged(czech: Table, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The task, its arguments and the message of an error may have counts."""
    path = tmp_path / "log.jsonl"
    with (
        heard(EventLog(path)),
        open_executor(ExecutionConfig(workers=2)) as executor,
        pytest.raises(SdcError, match="774411993"),
    ):
        list(executor.run(refuse, czech, [774_411_993]))
    assert capfd.readouterr() == ("", "")
    assert "774411993" not in path.read_text()


def test_loggers_are_as_before(tmp_path: Path) -> None:
    def state() -> list[tuple[object, ...]]:
        return [(of.handlers, of.level, of.propagate) for of in map(logging.getLogger, LIBRARIES)]

    import distributed  # noqa: F401  # it sets its loggers up

    before, path = state(), tmp_path / "log.jsonl"
    with heard(EventLog(path)), quiet_here():
        assert state() != before
        logging.getLogger("distributed.comm.tcp").warning("a connection broke")
    assert state() == before
    assert [(event["event"], event["text"]) for event in read_events(path)] == [
        ("distributed.comm.tcp", "a connection broke")
    ]
