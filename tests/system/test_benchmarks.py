"""The benchmarks in short: on small tables each gives rows and the rivals' answers are ours. Times are not judged."""

from __future__ import annotations

import importlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sdc.model.table import Table
from tests.benchmarks import enumeration, suppression, widths
from tests.benchmarks.__main__ import JOBS, main
from tests.benchmarks.hardware import limits
from tests.benchmarks.measure import DATA, DifferentAnswersError, Limits, NotMeasured, Row, in_child, lacks
from tests.benchmarks.page import page
from tests.strategies import czech

LIMITS = Limits((10e9, 15e9), 5e9, 1.9)
APART = {"HiGHS", "LattE", "pytauargus"}
"""Rivals that are no part of the test extra."""


@pytest.mark.parametrize("job", JOBS)
def test_a_job_gives_rows_and_the_rivals_agree(job: str) -> None:
    found = importlib.import_module(f"tests.benchmarks.{job}").rows(True, LIMITS)
    absent = [row for row in found if isinstance(row, NotMeasured)]
    assert found
    assert {row.rival for row in absent} <= APART
    if len(absent) == len(found):
        pytest.skip("; ".join(f"{row.rival}: {row.reason}" for row in absent))
    for row in found:
        if isinstance(row, Row):
            assert len(row.ours) == len(row.theirs) >= 1
            assert min(*row.ours, *row.theirs) > 0


def test_limits_are_measured() -> None:
    found = limits(short=True)
    assert min(*found.copy, found.additions, found.scaling) > 0


def test_a_wrong_marginal_of_a_rival_is_found() -> None:
    table = czech()
    wrong = Table(table.schema, table.codes, table.counts + 1)
    with pytest.raises(DifferentAnswersError, match="width"):
        widths.same_answers("job", table, widths.sweep(table), widths.polars_marginal(wrong))


def test_a_pattern_that_does_not_protect_is_found() -> None:
    counts = np.array([[9, 1, 7], [8, 9, 2], [5, 6, 9]])
    hidden = suppression.least(counts)
    assert min(suppression.widths(counts, hidden)) >= suppression.MIN_WIDTH
    alone = counts <= suppression.SMALL_COUNT
    assert min(suppression.widths(counts, alone)) < suppression.MIN_WIDTH


def test_equations_for_latte_hold_for_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for LattE keeps its input and counts seven tables."""
    program = tmp_path / "count"
    program.write_text(f"#!/bin/sh\ncp $1 {tmp_path}/given\necho LattE\necho 7 > numOfLatticePoints\n")
    program.chmod(0o755)
    monkeypatch.setenv("LATTE", str(tmp_path))
    path = enumeration.latte()
    assert path == str(program)
    table = enumeration.two_way(enumeration.SMALL)
    assert enumeration.by_latte(table, [1, 2], path)[0] == 7
    first, *equations = (tmp_path / "given").read_text().splitlines()
    assert first == "6 10"
    for equation in equations[:6]:
        total, *cells = map(int, equation.split())
        assert total + np.dot(cells, np.ravel(enumeration.SMALL)) == 0


def test_what_is_absent_is_named() -> None:
    (lack,) = lacks("job", "rival", files=["no.parquet"], packages=["no_such_package"])
    assert "no.parquet is not in the data folder; set SDC_DATA_DIR" in lack.reason
    assert "no_such_package is not installed" in lack.reason
    assert str(DATA) not in lack.reason


def test_a_child_that_is_late_or_fails() -> None:
    assert in_child(importlib.import_module("time").sleep, 60.0, limit=0.5) is None
    with pytest.raises(RuntimeError, match="ValueError"):
        in_child(importlib.import_module("math").sqrt, -1.0, limit=60.0)


def test_the_page_has_each_row_and_counts_those_not_measured() -> None:
    row = Row("job", "rival", [0.5, 1.0, 2.0], [2.0, 2.0, 2.0], unit="a cell", note="what is timed")
    stopped = replace(row, ours=[20.0], theirs=[0.1], unit="", stopped=True)
    text = page([row, stopped, NotMeasured("other", "rival", "it is absent")], LIMITS, 0.5, 120.0)
    assert "| 1 | job | 1 s (0.5 to 2) a cell | rival | 2 s (2 to 2) a cell | 2 (1 to 4) |  |" in text
    assert "| 2 | job | more than 20 s | rival | 100 ms (100 to 100) | below 0.005 |  |" in text
    assert "| 3 | other | not measured | rival | not measured |  |  |" in text
    assert "1 row not measured." in text
    assert "1. What is timed.\n" in text
    assert "3. Not measured: it is absent.\n" in text


def test_different_answers_end_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def rows(short: bool, limits: Limits) -> list[Row]:
        raise DifferentAnswersError("job: 1, by the rival 2")

    monkeypatch.setattr("tests.benchmarks.__main__.limits", lambda: LIMITS)
    monkeypatch.setattr(widths, "rows", rows)
    assert main(["widths"]) == 1
    assert capsys.readouterr().err == "benchmarks: different answers: job: 1, by the rival 2; nothing was written\n"
