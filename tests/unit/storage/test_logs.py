"""Logs of servers that are old: set aside and removed by age, without a line of what is younger."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sdc.events import SERVER, EventLog, emit, heard, read_events
from sdc.model.errors import RunFolderError
from sdc.storage.runs import old_logs
from tests.unit.storage.test_runs import STAGES, make

NOW = datetime(2026, 11, 27, tzinfo=UTC)
BEFORE = NOW - timedelta(days=30)


def log(root: Path, name: str, began: datetime, ended: datetime) -> Path:
    path = root / "births" / "server" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'{{"time": "{began.isoformat()}", "event": "server started"}}\n')
    os.utime(path, (ended.timestamp(), ended.timestamp()))
    return path


def cleaned(root: Path) -> list[tuple[str, str | None]]:
    found = list(old_logs(root, BEFORE))
    for one in found:
        one.clean()
    return [(one.path.name, one.aside and one.aside.name) for one in found]


def test_a_log_is_set_aside_and_goes_when_all_of_it_is_old(tmp_path: Path) -> None:
    old, young = NOW - timedelta(days=40), NOW - timedelta(days=1)
    log(tmp_path, "log.jsonl", old, young)
    log(tmp_path, "log-20261018T000000.000000Z.jsonl", old, old)
    log(tmp_path, "log-20261120T000000.000000Z.jsonl", old, young)
    assert cleaned(tmp_path) == [
        ("log-20261018T000000.000000Z.jsonl", None),
        ("log.jsonl", "log-20261126T000000.000000Z.jsonl"),
    ]
    there = sorted(path.name for path in (tmp_path / "births" / "server").iterdir())
    assert there == ["log-20261120T000000.000000Z.jsonl", "log-20261126T000000.000000Z.jsonl"]
    assert cleaned(tmp_path) == []


def test_what_is_written_meanwhile_is_in_a_new_log(tmp_path: Path) -> None:
    path = log(tmp_path, "log.jsonl", NOW - timedelta(days=40), NOW)
    with heard(EventLog(path), SERVER):
        emit("request", logger=SERVER)
        ((_, aside),) = cleaned(tmp_path)
        emit("server ended", logger=SERVER)
    assert aside is not None
    assert [event["event"] for event in read_events(path.with_name(aside))] == ["server started", "request"]
    assert [event["event"] for event in read_events(path)] == ["server ended"]


def test_young_logs_and_those_of_runs_stay(tmp_path: Path) -> None:
    log(tmp_path, "log.jsonl", NOW - timedelta(days=29), NOW)
    run = make(tmp_path, "births", "a", *STAGES)
    (run.path / "log.jsonl").write_text('{"time": "2020-01-01T00:00:00+00:00", "event": "run started"}\n')
    (tmp_path / "births" / "empty").mkdir()
    (tmp_path / "births" / "empty" / "log.jsonl").write_text("")
    assert cleaned(tmp_path) == []


def test_a_log_that_cannot_be_cleaned(tmp_path: Path) -> None:
    log(tmp_path, "log.jsonl", NOW - timedelta(days=40), NOW)
    (one,) = old_logs(tmp_path, BEFORE)
    one.path.unlink()
    with pytest.raises(RunFolderError, match=r"log\.jsonl cannot be cleaned: No such file"):
        one.clean()
