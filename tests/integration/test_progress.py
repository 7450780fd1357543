"""Progress with the time left, the memory of stages and units, and the summary of a run."""

import re
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sdc
from sdc import progress
from sdc.bounds.enumeration import EnumerationProgress
from sdc.events import OUTLOOK, QUESTION, QUESTIONS, STARTED, STEP, EventLog, emit, heard, read_events
from sdc.executor import IN_PROCESS
from sdc.memory import MIB, forget_peak, peak_bytes
from sdc.model.table import Table
from sdc.progress import MeasuringExecutor, Nodes, Progress, TimeLeft, Watched


def double(table: Table, unit: int) -> int:
    return 2 * unit


def fill(table: Table, unit: int) -> int:
    """Needs so many MiB for a moment."""
    return len(np.ones(unit * MIB, np.uint8))


@dataclass
class Clock:
    """Time that passes when a test says so."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def test_what_is_done_is_said_and_logged(
    czech: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And no time that is left: forty variables were said to be done in 125 s, for minutes."""
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    with Progress(lambda: 0.0) as shown, heard(EventLog(tmp_path / "log.jsonl")):
        assert list(Watched(IN_PROCESS, shown).run(double, czech, [1, 2, 3])) == [2, 4, 6]
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["double: 1 of 3 units in 0 s", "double: 2 of 3 units in 0 s"]
    events = read_events(tmp_path / "log.jsonl")
    assert [(e["event"], e["text"], e["units"], e["of"], e["seconds"]) for e in events] == [
        ("progress", line, number, 3, 0.0) for number, line in enumerate(lines, start=1)
    ]


def test_no_minute_is_silent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a stage does, for how long, and what it has asked and computed; whatever is said begins a new minute."""
    clock = Clock()
    with Progress(clock) as shown, heard(EventLog(tmp_path / "log.jsonl")):
        emit(STARTED, "search: finds a release", stage="search")
        with shown.units("move cells", 2) as done:
            for second in range(1, 1100):
                clock.now = second
                if second in (70, 1000):
                    done(1 + second // 1000)
                if second > 1000:
                    emit(QUESTION, logger=QUESTIONS)
                    emit(OUTLOOK, f"at most {2000 - second} questions left", logger=QUESTIONS)
                shown.pulse()
        emit(STARTED, "assessment: bounds every at-risk cell", stage="assessment")
        clock.now += 61
        shown.pulse()
    lines = capsys.readouterr().err.splitlines()
    assert lines[1:3] == ["move cells: 1 of 2 units in 70 s", "search: finds a release: 130 s so far, 1 unit"]
    assert lines[-2].endswith("1090 s so far, 90 questions, 2 units; at most 910 questions left")
    assert lines[-1].endswith(": 61 s so far")
    assert len(lines) == 20
    logged = [event["text"] for event in read_events(tmp_path / "log.jsonl") if event["event"] == "at work"]
    assert logged == [line for line in lines if "so far" in line]


def test_compilation_is_announced_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    seconds = iter([100.0, 102.9, 103.1])
    monkeypatch.setattr(progress, "compile_seconds", lambda: next(seconds))
    with Progress(Clock()) as shown:
        for _ in range(4):
            shown.pulse()
    assert capsys.readouterr().err == "compiling code for this machine, once: this may take a minute or two\n"


@dataclass
class Kernel:
    """What IPython has in a notebook, as far as it is asked: one output that is changed by its handle."""

    kernel: object = True
    shown: list[tuple[str, str]] = field(default_factory=list)

    def get_ipython(self) -> "Kernel":
        return self

    def display(self, content: dict[str, str], *, raw: bool, display_id: bool) -> "Kernel":
        assert raw
        assert display_id
        self.shown.append(("shown", content["text/plain"]))
        return self

    def update(self, content: dict[str, str], *, raw: bool) -> None:
        assert raw
        self.shown.append(("changed", content["text/plain"]))


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    made = Kernel()
    monkeypatch.setitem(sys.modules, "IPython", made)
    monkeypatch.setitem(sys.modules, "IPython.display", made)
    return made


def test_a_notebook_has_one_line_that_changes(kernel: Kernel, capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    with Progress(clock, "sdc.find_release") as shown, shown.units("move cells", 3) as done:
        shown.pulse()
        clock.now = 2.0
        shown.pulse()
        done(1)
        clock.now = 70.0
        shown.pulse()
        emit("question", logger=QUESTIONS)
    assert kernel.shown == [
        ("shown", "sdc.find_release: 2 s so far"),
        ("changed", "sdc.find_release: 70 s so far, 1 unit"),
        ("changed", "sdc.find_release: 70 s, 1 question, 1 unit"),
    ]
    assert capsys.readouterr().err == ""


def test_a_verb_in_a_notebook_says_how_far_it_is(kernel: Kernel, czech: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    widths = sdc.widths(czech)
    assert kernel.shown == []  # it was done at once
    monkeypatch.setattr(progress, "SECONDS_UNSHOWN", 0.0)
    assert sdc.widths(czech).widths.tolist() == widths.widths.tolist()
    assert kernel.shown[-1][1].startswith("sdc.critical_widths: ")
    assert kernel.shown[-1][1].endswith(" units")


def test_minutes_pass_by_themselves(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever the stage is at, another thread says it."""
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_PULSES", 0.001)
    said, clock = threading.Event(), Clock()
    monkeypatch.setattr(Progress, "say", lambda shown, text: said.set())
    with Progress(clock):
        clock.now = 60.0
        assert said.wait(600)


def test_of_the_steps_of_a_search_few_are_said_and_all_are_logged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = Clock()
    with Progress(clock), heard(EventLog(tmp_path / "log.jsonl")):
        for second in range(25):
            clock.now = second
            emit(STEP, f"search: step {second}")
        emit("note", "what others hear of")
    assert capsys.readouterr().err.splitlines() == ["search: step 10", "search: step 20"]
    assert len(read_events(tmp_path / "log.jsonl")) == 26


def in_a_new_process(work: Callable[[], Any]) -> Any:
    """What it returns in a process that has needed no memory before."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(work).result(timeout=60)


def peaks_of_200_mib() -> list[int]:
    forget_peak()
    peaks = [peak_bytes() // MIB]
    fill(None, 200)  # type: ignore[arg-type]
    peaks.append(peak_bytes() // MIB)
    forget_peak()
    return [*peaks, peak_bytes() // MIB]


def test_a_peak_is_forgotten() -> None:
    before, then, after = in_a_new_process(peaks_of_200_mib)
    assert 190 <= then - before <= 210
    assert after < before + 100


def units_of_250_mib() -> tuple[Any, ...]:
    measured = MeasuringExecutor(IN_PROCESS)
    before = measured.driver_mib
    found = list(measured.run(fill, None, [250]))
    return found, measured.worker_mib, measured.units, measured.driver_mib - before


def test_units_of_this_process_are_its_own_memory() -> None:
    *facts, grown = in_a_new_process(units_of_250_mib)
    assert facts == [[250 * MIB], None, 1]
    assert 240 <= grown <= 270


def test_an_enumeration_says_how_far_it_is_once_a_second() -> None:
    said: list[str] = []
    ended, now = threading.Event(), [0.0]
    nodes = Nodes(said.append, ended, lambda: now[0])
    for at, tables in ((0.0, 0), (0.5, 10), (1.5, 20), (1.7, 30), (9.0, 10**15)):
        now[0] = at
        assert nodes(EnumerationProgress(tables, 1000 * int(at), 10**20))
    assert len(said) == 3
    assert "10^15 tables" in said[-1]
    ended.set()
    assert not nodes(EnumerationProgress(1, 1, 1))


def test_time_left_is_right_where_work_is(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of units that say how they compare; nothing before a tenth of the work is done."""
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    clock = Clock()
    with Progress(clock) as shown, shown.units("widths above", 4, [1, 10, 20, 9]) as done:
        for number, seconds in enumerate((2, 22, 62, 80), start=1):
            clock.now = seconds
            done(number)
    first, *others = capsys.readouterr().err.splitlines()
    assert "left" not in first
    assert [re.findall(r"about (\d+) s left", line) for line in others] == [["58"], ["18"]]


@pytest.mark.parametrize("growth", [0.5, 0.9, 1.0, 1.1, 2.0])
def test_time_left_converges_whatever_the_pace_becomes(growth: float) -> None:
    """Units of equal work, the last of which take so many times as long as the first, one after another a little more.

    What is said is never off by more than that factor, never by more than the true time in the later half, and falls
    to 0.
    """
    costs = [growth ** (k / 99) for k in range(100)]
    left, seconds, said = TimeLeft([1] * 100), 0.0, []
    for number, cost in enumerate(costs, start=1):
        seconds += cost
        said.append((left.after(number, seconds), sum(costs) - seconds))
    assert [one for one, _ in said[:9]] == [None] * 9
    factor = max(growth, 1 / growth) + 1e-9
    assert all(true / factor <= one <= true * factor for one, true in said[9:-1])
    assert said[-1][0] == 0
    errors = [abs(one - true) for one, true in said[9:]]
    assert max(errors[60:]) <= max(errors) / 2 + 1e-9


def test_elsewhere_a_verb_says_nothing(czech: Table, capsys: pytest.CaptureFixture[str]) -> None:
    assert progress.notebook_line() is None
    sdc.widths(czech)
    assert capsys.readouterr() == ("", "")
