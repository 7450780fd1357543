"""Searches of builds: what run folders say of an objective, and of a sub-table that was left out."""

from __future__ import annotations

from pathlib import Path

from sdc.api import assess
from sdc.model import subtable as st
from sdc.model.release import Release
from sdc.risk.verdict import Verdict
from sdc.stages.finished import compare
from sdc.storage.run_folder import read_json
from tests.helpers import builds
from tests.helpers.builds import CZECH_CSV, write_counts
from tests.integration.stages.test_earlier import WIDTH, built, config
from tests.strategies import czech


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


def test_what_was_published_before_is_among_the_conflicts(tmp_path: Path) -> None:
    """A run that left out, for what was published before, what another run released; by itself it may go out."""
    write_counts(tmp_path / "table.csv", czech())
    pair, other = ["A*B*D*F", "A*D*E*F"], "B*D*E*F"
    risk = {"small_count": 2, "min_width": WIDTH}
    first = built(config(tmp_path, "first", [], risk=risk, release={"require": pair, "forbid": [{"of": ["B", "E"]}]}))
    earlier = [{"folder": str(first.folder.stage("release"))}]
    rest = built(config(tmp_path, "rest", earlier, risk=risk, release={"require": pair}))
    alone = built(config(tmp_path, "alone", [], risk=risk, release={"require": [other], "method": "bisection"}))
    said = dict(compare(rest.folder.path, alone.folder.path).came)[tuple(other.split("*"))]
    begin, named = said.split(" together with ")
    assert begin == f"{other} breaks the criterion"
    conflicts = [st.parse(name, czech().schema) for name in named.split(", ")]
    assert all(one in rest.made.found.release for one in conflicts)
    assert any(one in first.made.found.release for one in conflicts)
    together = Release.of([*conflicts, st.parse(other, czech().schema)])
    assert assess(czech(), together, min_width=WIDTH).verdict is Verdict.UNSAFE
