"""Searches of builds: what run folders say of an objective, and of how much better a release could be."""

from pathlib import Path

import pytest

from sdc.risk.critical_width import critical_widths
from sdc.storage.run_folder import read_json
from sdc.verify.run_folder import verify
from tests.helpers import builds
from tests.helpers.builds import CZECH_CSV, Config, built, config, document_of, report_of

__all__ = ["config"]


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


@pytest.mark.parametrize(("method", "sub_tables", "bound"), [("optimum", 52, 52), ("ordered", 51, 53)])
def test_a_method_states_its_bound(method: str, sub_tables: int, bound: int, config: Config) -> None:
    """Of the Czech table 53 sub-tables have a critical width of 20, and no release has more than 52."""
    build = built(config(release={"method": method}, risk={"min_width": 20}))
    table = build.made.table
    assert build.made.found.release.sub_tables(table.schema) == sub_tables
    assert document_of(build, "search", "search.json")["bound"] == bound
    if method == "ordered":
        assert len([*filter(None, critical_widths(table).reaching(20))]) == bound
    share = int(1000 * sub_tables / bound) / 10
    said = "No release is better" if sub_tables == bound else f"is at least {share} % of that of the best release"
    assert said in report_of(build)
    assert verify(build.folder.path).verified
