"""The benchmarks in short: on small tables each gives rows and the rivals' answers are ours. Times are not judged."""

import importlib
from pathlib import Path

import numpy as np
import pytest

from sdc.model.table import Table
from tests.benchmarks import enumeration, suppression, widths
from tests.benchmarks.__main__ import JOBS, main
from tests.benchmarks.measure import DATA, DifferentAnswersError, Limits, NotMeasured, Row, in_child, lacks
from tests.strategies import czech

LIMITS = Limits((10e9, 15e9), 5e9, 1.9)
APART = {"HiGHS", "LattE", "pytauargus"}
"""Rivals that are not part of the test extra."""


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


def test_different_answers_end_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def rows(short: bool, limits: Limits) -> list[Row]:
        raise DifferentAnswersError("job: 1, by the rival 2")

    monkeypatch.setattr("tests.benchmarks.__main__.limits", lambda: LIMITS)
    monkeypatch.setattr(widths, "rows", rows)
    assert main(["widths"]) == 1
    assert capsys.readouterr().err == "benchmarks: different answers: job: 1, by the rival 2; nothing was written\n"
