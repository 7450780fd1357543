"""The explorer of the query space: what its page and text say, beside judges that ask every question."""

import json
import re
import shutil
import stat
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import sdc
from sdc.commands.cli import app
from sdc.executor import IN_PROCESS
from sdc.model import subtable as st
from sdc.model.errors import NothingReleasableError, RunFolderError
from sdc.model.release import Release
from sdc.model.state import Status
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.refusal import status_of
from sdc.report.space import DRAWN, FORBIDDEN, QuerySpace, query_space
from sdc.risk.criteria import Criteria
from sdc.risk.refutation import Refutation
from sdc.search.found import Found
from sdc.stages.build import Build, open_build
from sdc.stages.finished import space_of_run
from sdc.stages.stages import run_all
from sdc.storage.run_folder import RunFolder
from tests.conftest import CZECH_CSV
from tests.helpers.builds import written
from tests.helpers.deadlines import AfterLooks
from tests.integration.server.test_levels import table_of
from tests.wide import wide_table

WIDTH = 6


def space_of(found: Found, table: Table) -> QuerySpace:
    """Of a release that was found, with critical widths."""
    kept = getattr(found, "refutations", ())
    widths = sdc.critical_widths(table)
    return query_space("small", found.knowledge, found.evaluation.criteria, found, kept, widths=widths)


@pytest.fixture(scope="module")
def ended(czech: Table) -> Found:
    """A search that was ended early: some sub-tables are open."""
    return sdc.find_release(czech, "ordered", min_width=WIDTH, deadline=AfterLooks(most=9))


@pytest.fixture(scope="module")
def space(ended: Found, czech: Table) -> QuerySpace:
    return space_of(ended, czech)


@pytest.fixture(scope="module")
def bisected(czech: Table) -> QuerySpace:
    """A release by bisection: beside it some are excluded because of what is out."""
    return space_of(sdc.find_release(czech, "bisection", min_width=WIDTH), czech)


@pytest.fixture(scope="module")
def begun(czech: Table) -> QuerySpace:
    """With one of three sub-tables that exclude each other: with a second one the third is excluded."""
    every = space_of(sdc.find_release(czech, "ordered", min_width=WIDTH), czech)
    return replace(every, released=Release.of([0b111011, 0b000100]))


@pytest.fixture(scope="module")
def met(begun: QuerySpace) -> QuerySpace:
    """With two of them."""
    return replace(begun, released=begun.released.add(0b111101))


@pytest.fixture(scope="module")
def levelled() -> QuerySpace:
    """Of a table whose area has levels, of which two overlap."""
    table = table_of(3, 60)
    known = sdc.knowledge(table, ["region*sex", "job"])
    widths = sdc.critical_widths(table, small_count=1)
    found = sdc.find_release(table, "ordered", min_width=2, small_count=1)
    return query_space("levels", known, Criteria.of(1, 2), None, found.refutations, widths=widths)


SPACES = ("space", "bisected", "begun", "met", "levelled")


def config_of(folder: Path, **sections: Any) -> Path:
    return written(folder, "czech", **{"table": {"path": str(CZECH_CSV)}, "risk": {"min_width": WIDTH}, **sections})


def build_of(folder: Path, **sections: Any) -> Build:
    build = open_build(config_of(folder, **sections))
    run_all(build, IN_PROCESS)
    return build


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of the Czech auto workers, which forbids what has A, B and F."""
    return build_of(tmp_path_factory.mktemp("explored"), release={"forbid": ["A*B*F"]}).folder.path


@pytest.fixture
def own(run: Path, tmp_path: Path) -> Path:
    """A copy to break."""
    return Path(shutil.copytree(run, tmp_path / "run"))


# What it says is so


def is_refuted(space: QuerySpace, czech: Table, released: list[SubTable]) -> bool:
    """By exact bounds of every at-risk cell of a small table."""
    table, small = (table_of(3, 60), 1) if "area" in space.schema.names else (czech, 2)
    answer = sdc.assess(table, Release.of(released), min_width=space.min_width, small_count=small)
    return answer.releasable is False


def test_whoever_knows_a_conflict_has_a_cell_too_narrow(czech: Table, space: QuerySpace, bisected: QuerySpace) -> None:
    for one in (*space.conflicts, *bisected.conflicts):
        bounds = sdc.cell_bounds(czech, [st.label(t, czech.schema) for t in one.of])
        assert int((bounds.outer[:, 1] - bounds.outer[:, 0]).min()) <= one.width < WIDTH


@pytest.mark.parametrize("name", SPACES)
def test_statuses_follow_from_what_the_criterion_says(name: str, czech: Table, request: pytest.FixtureRequest) -> None:
    space: QuerySpace = request.getfixturevalue(name)
    for t, status in enumerate(space.state.statuses.tolist()):
        assert (0 < status <= Status.INDIRECT) == (t in space.released and status > 0)
        if status == Status.UNRELEASABLE:
            assert is_refuted(space, czech, [*space.released.frontier, t])
        elif status == 0:
            assert space.schema.levels.closed(t) != t
    assert space.state.count(Status.UNRELEASABLE) > 0
    assert (space.state.count(Status.OPEN) > 0) == (name != "bisected")


def test_what_was_refused_is_excluded_and_said_why(czech: Table) -> None:
    found = sdc.find_release(czech, "ordered", min_width=WIDTH)
    shown = space_of(found, czech)
    assert shown.state.count(Status.OPEN) == shown.state.count(Status.UNDECIDED) == 0
    assert {st.label(t, czech.schema) for t in shown.state.unreleasable} == {"A*B*C*D*F", "A*B*C*E*F", "B*C*D*E*F"}
    assert shown.why(0b101111) == "Proven: with A*B*C*D*F, E an intruder knows a cell at risk to within 3 records."
    # by the search's word alone, where no proof is kept
    steps = tuple(replace(step, refutation=None) for step in found.steps)
    alone = query_space("small", found.knowledge, found.evaluation.criteria, replace(found, steps=steps), ())
    assert {alone.why(t) for t in alone.state.unreleasable} == {
        "The search refused it, or one within it, beside what is released."
    }
    undecided = replace(found, steps=tuple(replace(step, answer=None) for step in steps if step.answer is False))
    asked = query_space("small", found.knowledge, found.evaluation.criteria, undecided, ())
    assert asked.state.undecided == tuple(st.minimal(step.added[0] for step in undecided.steps if len(step.added) == 1))
    assert "Critical widths were not given" in asked.text
    assert "Forbidden sub-tables are not kept with the release" in asked.text


def test_decisions_by_draws_are_said_to_be_such(czech: Table) -> None:
    found = sdc.find_release(czech, "simulatable", min_width=WIDTH, draws=10)
    shown = space_of(found, czech)
    assert DRAWN in shown.against.values()
    assert not [t for t in shown.against if t in shown.released]


def test_what_a_config_forbids_is_said_to_be_forbidden(run: Path) -> None:
    shown = space_of_run(run)
    assert shown.against == {0b100011: FORBIDDEN}
    assert shown.why(0b100011) == FORBIDDEN
    assert shown.notes == ()


def test_rules_on_what_is_published_are_looked_at_in_a_run(tmp_path: Path, czech: Table) -> None:
    shown = space_of_run(build_of(tmp_path, risk={"min_width": WIDTH, "min_frequency": 20}).folder.path)
    for t in range(64):
        few = 0 < czech.least_count(t) < 20
        assert not few or shown.state.status(t) is Status.UNRELEASABLE
    found = sdc.find_release(czech, "ordered", min_width=WIDTH, min_frequency=20)
    assert "risk.min_frequency is not evaluated here: open sub-tables may break it" in space_of(found, czech).text


def test_levels_that_are_not_published_have_no_square(tmp_path: Path) -> None:
    """Of what was published before by bands of D, and of what goes out with merged categories."""
    before = tmp_path / "before.csv"
    before.write_text("band,count\nall,1841\n")
    hierarchies = {"of": "D", "groups": {"all": "*"}}
    earlier = [{"folder": str(before), "variables": {"band": hierarchies}}]
    shown = space_of_run(build_of(tmp_path, earlier=earlier).folder.path)
    assert "band" not in shown.schema.names
    assert "band" not in shown.page
    assert len(shown.record["statuses"]) == 64


# The commands, and what is refused


def sdc_explore(*words: object) -> Result:
    return CliRunner().invoke(app, ["explore", *map(str, words)])


def test_the_page_is_the_same_and_for_its_owner_alone(run: Path, tmp_path: Path) -> None:
    pages = []
    for name in ("one.html", "other.html"):
        done = sdc_explore(run, "--to", tmp_path / name)
        assert (done.exit_code, done.stdout) == (0, f"explorer  {tmp_path / name}\n")
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
        pages.append((tmp_path / name).read_bytes())
    assert pages[0] == pages[1]
    told = sdc_explore(run, "--to", tmp_path / "one.html", "--json")
    assert json.loads(told.stdout) == {"explorer": str(tmp_path / "one.html"), "bytes": len(pages[0])}


def test_the_page_has_no_count_and_no_category(run: Path, czech: Table) -> None:
    page = space_of_run(run).page
    body = re.sub(r"<script.*?</script>", "", page.split("<body>")[1], flags=re.DOTALL)
    words = re.sub(r'data-record="[^"]*"', "", body)
    counts = {int(count) for t in range(1, 64) for count in czech.marginal(t).counts.tolist()}
    # what is shown of numbers is how many sub-tables there are, dimensions and widths
    assert not {n for n in map(int, re.findall(r"\d+", words)) if n > 64 and n in counts}
    for variable in czech.schema.variables[3:]:
        assert not [name for name in variable.categories if name in unescape(body)]
    assert "CONFIDENTIAL" in body
    assert not re.search(r"(src|href)=", page.replace("http-equiv", ""))


def test_without_a_file_it_is_in_the_run_folder_and_opened(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = tmp_path / "opened"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}\n')
    browser.chmod(0o700)
    monkeypatch.setenv("BROWSER", f"{browser} %s")
    done = sdc_explore(own)
    assert (done.exit_code, done.stdout) == (0, f"explorer  {own}/explorer.html\n")
    assert opened.read_text().strip() == (own / "explorer.html").as_uri()
    assert stat.S_IMODE((own / "explorer.html").stat().st_mode) == 0o600
    assert CliRunner().invoke(app, ["verify", str(own)]).exit_code == 0
    for screen in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(screen, raising=False)
    opened.unlink()
    assert sdc_explore(own).exit_code == 0
    assert not opened.exists()


def refused(path: Path, message: str) -> None:
    """By the command with status 1 and no page, and from Python."""
    done = sdc_explore(path, "--to", path.parent / "page.html")
    assert isinstance(done.exception, RunFolderError)
    assert status_of(done.exception) == 1
    assert re.search(message, str(done.exception))
    assert "\n" not in str(done.exception)
    assert not (path.parent / "page.html").exists()
    with pytest.raises(RunFolderError, match=message):
        sdc.explore(path)


def test_a_run_in_work_is_refused(own: Path) -> None:
    with RunFolder(own).locked():
        refused(own, "run is still running; explore it when sdc status shows that it is finished")


def test_what_has_no_release_is_refused(tmp_path: Path) -> None:
    refused(tmp_path / "nothing", "is not a run folder: it has no manifest.json; name a folder of sdc run")
    build = open_build(config_of(tmp_path, risk={"min_width": 5000}))
    with pytest.raises(NothingReleasableError):
        run_all(build, IN_PROCESS)
    refused(build.folder.path, "is refused and has no release to explore; see sdc status for why")


def test_a_run_that_lost_something_or_was_changed_is_refused(own: Path) -> None:
    kept = (own / "widths" / "widths.parquet").read_bytes()
    (own / "widths" / "widths.parquet").write_bytes(kept + b"x")
    refused(own, "widths differs from the manifest; run the build again")
    shutil.rmtree(own / "widths")
    refused(own, "run has lost its widths; run the build again")
    (own / "manifest.json").write_text("{")
    refused(own, "manifest.json cannot be read")


# Many variables


def test_of_many_variables_there_are_the_frontiers_alone() -> None:
    table = wide_table(16, 300, 1)
    known = sdc.knowledge(table, ["v0*v1*v2", "v3*v4"])
    refutations = [Refutation((0,) * 16, 1, (0, width), (0b111, 0b11 << n)) for n, width in ((5, 2), (7, 3))]
    shown = query_space("wide", known, Criteria.of(2, 3), None, refutations)
    assert (shown.is_drawn, shown.record) == (False, {})
    assert "More than 14 variables have too many sub-tables to draw" in shown.text
    assert "data-record" not in shown.page
    assert "<script" not in shown.page
    assert "<li>v0*<wbr>v1*<wbr>v2</li>\n<li>v3*<wbr>v4</li>" in shown.text
    # what is as wide as is required is no conflict
    assert [st.label(t, table.schema) for t in shown.state.unreleasable] == ["v5*v6"]
    assert "Proven: with v0*<wbr>v1*<wbr>v2, v5*<wbr>v6 an intruder knows a cell" in shown.text


def test_a_page_that_cannot_be_written(run: Path, tmp_path: Path) -> None:
    done = sdc_explore(run, "--to", tmp_path / "no" / "page.html")
    assert re.match("--to .*page.html cannot be written: No such file or directory; name a file", str(done.exception))
    done = sdc_explore(run, "--to", run / "release" / "page.html")
    assert re.match("--to .*page.html is in the folder to publish, and the page is confidential;", str(done.exception))
    assert not (run / "release" / "page.html").exists()
