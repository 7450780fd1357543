"""Searches of builds: what run folders say of an objective, and of a sub-table that was left out."""

from __future__ import annotations

from pathlib import Path

from sdc.storage.run_folder import read_json
from tests.helpers import builds
from tests.helpers.builds import CZECH_CSV


def test_a_build_tells_the_value_and_is_made_again_for_another_objective(tmp_path: Path) -> None:
    keys, folders = [], []
    for objective in ("reconstruction", "sub_tables"):
        release = {"method": "decomposable", "annealing": {"steps": 2000}, "objective": objective}
        sections = {"table": {"path": str(CZECH_CSV)}, "risk": {"min_width": 11}, "release": release}
        build = builds.built(builds.written(tmp_path, "valued", **sections))
        keys.append(build.folder.records()["search"].key)
        folders.append(build.folder.path)
    assert keys[0] != keys[1]
    told = [read_json(folder / "search" / "search.json") for folder in folders]
    assert 7.68 < told[0]["halvings"] < 7.71
    assert "halvings" not in told[1]
    assert read_json(folders[0] / "confidential" / "utility.json")["halvings"] == told[0]["halvings"]
    assert "halvings" in (folders[0] / "confidential" / "report.html").read_text()
