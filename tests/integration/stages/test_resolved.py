"""What a command is about: bounds under a run's release show what its certificate shows."""

import json
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


def test_bounds_of_a_run_are_as_wide_as_its_certificate_shows(run: Path) -> None:
    subject = ResolvedInput.open(str(run))
    alone = api.cell_bounds(subject.table, subject.public(None), small_count=1, method="nested")
    assert (alone.inner_width < WIDTH).any(), "a case in which nothing is to be learnt"
    for cells in ("at-risk", "all"):
        shown = CliRunner().invoke(cli.app, ["bounds", str(run), "--cells", cells, "--seconds", "0.01", "--json"])
        rows = [row for row in json.loads(shown.stdout)["cells"] if row["count"] == 1]
        assert len(rows) == len(alone)
        assert all(row["inner"][1] - row["inner"][0] >= WIDTH for row in rows)
        assert any("given" in row["inner_by"] for row in rows)


def test_bounds_by_a_method_or_of_another_release_use_no_certificate(run: Path) -> None:
    for asked in (["--method", "nested"], ["--release", "A*B"]):
        assert "given" not in CliRunner().invoke(cli.app, ["bounds", str(run), *asked]).stdout


def test_a_certificate_that_was_changed_is_refused(run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    subject = ResolvedInput.open(str(copy))
    file = next((copy / "assessment").glob("certificate*.json"))
    file.chmod(0o600)
    file.write_text(file.read_text() + " ")
    with pytest.raises(RunFolderError, match="assessment differs from the manifest; run the build again"):
        _ = subject.start
