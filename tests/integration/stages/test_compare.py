"""Two runs side by side."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from sdc.commands.cli import app
from sdc.stages.build import Build
from sdc.stages.finished import compare
from tests.helpers import builds
from tests.helpers.builds import CZECH_CSV


def built(folder: Path, name: str, **more: object) -> Build:
    sections = {"table": {"path": str(CZECH_CSV)}, "risk": {"min_width": 6}, **more}
    return builds.built(builds.written(folder, name, **sections))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Build, Build]:
    folder = tmp_path_factory.mktemp("runs")
    wide = built(folder, "wide", risk={"min_width": 12}, release={"forbid": ["D*E*F"]})
    return built(folder, "narrow"), wide


def test_what_came_and_went_is_explained(runs: tuple[Build, Build]) -> None:
    found = compare(*(run.folder.path for run in runs))
    assert found.config == {"release.forbid": ([], ["D*E*F"]), "risk.min_width": (6, 12)}
    assert found.table == {}
    assert found.release == tuple(run.made.found.release.sub_tables(run.made.table.schema) for run in runs)
    went = dict(found.went)
    assert went[("A", "B", "D", "E", "F")] == "release.forbid names it, or a sub-table within it"
    assert all(why for _, why in found.went)
    assert any("breaks the criterion" in why for why in went.values())
    back = compare(*(run.folder.path for run in reversed(runs)))
    assert (dict(back.came), back.release) == (went, found.release[::-1])


def test_a_run_does_not_differ_from_itself(runs: tuple[Build, Build], tmp_path: Path) -> None:
    path = str(runs[0].folder.path)
    done = CliRunner().invoke(app, ["compare", path, path])
    assert "nothing differs" in done.stdout
    assert "- A*B*D*E*F: release.forbid" in CliRunner().invoke(app, ["compare", path, str(runs[1].folder.path)]).stdout


def test_another_table_is_told_by_its_variables(runs: tuple[Build, Build], tmp_path: Path) -> None:
    fewer = built(tmp_path, "fewer", table={"path": str(CZECH_CSV), "variables": ["A", "B", "C"]})
    found = compare(runs[0].folder.path, fewer.folder.path)
    assert found.table["variables"] == ("A, B, C, D, E, F", "A, B, C")
    assert any("the table has no" in why for _, why in found.went)


def test_a_coarser_level_is_within_the_finer_one(tmp_path: Path) -> None:
    """Regions by sex are in a run that has areas by sex, and are no news beside it."""
    counts = [("e1", 40, 12), ("e2", 9, 30), ("w1", 21, 2), ("w2", 14, 15)]
    rows = [(area[0], area, sex, n) for area, *both in counts for sex, n in zip("fm", both, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["region,area,sex,count", *(",".join(map(str, row)) for row in rows)]))
    table = {"path": str(tmp_path / "t.csv"), "hierarchies": {"place": ["region", "area"]}}
    risk = {"small_count": 1, "min_width": 5}
    finer = built(tmp_path, "finer", table=table, risk=risk)
    coarser = built(tmp_path, "coarser", table=table, risk=risk, release={"forbid": ["area*sex"]})
    found = compare(finer.folder.path, coarser.folder.path)
    assert found.release == (5, 4)
    assert (found.came, found.went) == ((), ((("area", "sex"), "release.forbid names it, or a sub-table within it"),))
