"""What a command is about: bounds under a run's release show what its certificate shows."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from sdc import api
from sdc.bounds import method
from sdc.commands import cli
from sdc.model.errors import RunFolderError
from sdc.stages.resolved import ResolvedInput
from tests.helpers.builds import built, written

WIDTH = 2


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a table that is large for the methods that bound all of it: 960 cells, in one component."""
    folder, random = tmp_path_factory.mktemp("large"), np.random.default_rng(1)
    codes = np.minimum(random.exponential(0.9, (20_000, 5)).astype(int), np.array([4, 5, 4, 4, 3]) - 1)
    rows = [",".join(f"{name}{code}" for name, code in zip("abcde", row, strict=True)) for row in codes.tolist()]
    (folder / "t.csv").write_text("\n".join(["A,B,C,D,E", *rows]))
    file = written(
        folder,
        table={"path": str(folder / "t.csv")},
        risk={"min_width": WIDTH, "small_count": 1},
        release={"max_evaluations": 12},
        assessment="proven",  # else the run has sharp bounds, and the certificate shows nothing more
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(method, "LINEAR_ROWS", 0)
        return built(file).folder.path


def test_bounds_of_a_run_are_as_wide_as_its_certificate_shows(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(method, "LINEAR_ROWS", 0)
    subject = ResolvedInput.open(str(run))
    alone = api.cell_bounds(subject.table, subject.public(None), small_count=1)
    found = subject.certified(alone, 1)
    assert (alone.inner_width < WIDTH).any(), "a case in which nothing is to be learnt"
    assert (found.inner_width >= WIDTH).all()
    assert np.array_equal(found.outer, alone.outer)
    assert found.method == f"{alone.method} + certificate"

    every = subject.certified(api.cell_bounds(subject.table, subject.public(None), cells="all"), 1)
    rows = subject.table.schema.keys.matching(every.cells, found.cells)
    assert np.array_equal(every.inner[rows], found.inner)


def test_the_command_shows_them(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(method, "LINEAR_ROWS", 0)
    shown = CliRunner().invoke(cli.app, ["bounds", str(run)])
    assert "+ certificate\n" in shown.stdout
    for asked in (["--method", "nested"], ["--release", "A*B"]):
        assert "certificate" not in CliRunner().invoke(cli.app, ["bounds", str(run), *asked]).stdout


def test_a_certificate_that_was_changed_is_refused(run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    subject = ResolvedInput.open(str(copy))
    bounds = api.cell_bounds(subject.table, subject.public(None), small_count=1, method="nested")
    file = next((copy / "assessment").glob("certificate*.json"))
    file.chmod(0o600)
    file.write_text(file.read_text() + " ")
    with pytest.raises(RunFolderError, match="assessment differs from the manifest; run the build again"):
        subject.certified(bounds, 1)
