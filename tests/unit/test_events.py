"""The log of a run: one JSON object a line, with the stage at work; broken lines are left out."""

from pathlib import Path

import pytest

from sdc.events import EXECUTION, EventLog, EventText, emit, heard, read_events


def test_events_are_kept_with_the_stage_at_work(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    with heard(EventLog(path)):
        emit("run started", pid=1)
        emit("stage started", "counts", stage="table")
        emit("worker lost", "worker tcp://a is lost", EXECUTION, units=3)
        emit("stage finished", stage="table", seconds=0.5)
        emit("run ended", outcome="finished")
    emit("note", "after the log was closed")
    events = read_events(path)
    assert [event.pop("time")[:2] for event in events] == ["20"] * 5
    assert events == [
        {"event": "run started", "pid": 1},
        {"event": "stage started", "stage": "table", "text": "counts"},
        {"event": "worker lost", "stage": "table", "text": "worker tcp://a is lost", "units": 3},
        {"event": "stage finished", "stage": "table", "seconds": 0.5},
        {"event": "run ended", "outcome": "finished"},
    ]


def test_a_line_that_was_cut_short_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"event": "a"}\n[1]\n{"event": "b"}\n{"event": "c", "te')
    assert [event["event"] for event in read_events(path)] == ["a", "b"]
    with heard(EventLog(path)):
        emit("d")
        emit("e")
    assert [event["event"] for event in read_events(path)] == ["a", "b", "d", "e"]
    assert read_events(tmp_path / "none.jsonl") == []


def test_a_log_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    with heard(EventLog(tmp_path / "none" / "log.jsonl")):
        emit("note", "into the void")
    assert not list(tmp_path.iterdir())


def test_only_what_happens_to_workers_is_heard_there(capsys: pytest.CaptureFixture[str]) -> None:
    lines: list[str] = []
    with heard(EventText(lines.append), EXECUTION):
        emit("note", "a line of a stage")
        emit("worker lost", "a worker is lost", EXECUTION)
    assert lines == ["a worker is lost"]
    assert capsys.readouterr() == ("", "")
