"""The explorer of the query space: what its page, widget and text say, beside judges that ask every question."""

from __future__ import annotations

import json
import re
import shutil
import stat
import sys
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from html import unescape
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from playwright.sync_api import Page, sync_playwright
from typer.testing import CliRunner, Result

import sdc
from sdc.commands.cli import app
from sdc.executor import IN_PROCESS
from sdc.model import subtable as st
from sdc.model.errors import InputError, MissingLibraryError, NothingReleasableError, RunFolderError
from sdc.model.knowledge import Knowledge
from sdc.model.release import NOTHING, Release
from sdc.model.schema import Schema, Variable
from sdc.model.state import Status
from sdc.model.structural_zeros import NO_ZEROS
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.refusal import status_of
from sdc.report import explorer
from sdc.report.explorer import widget
from sdc.report.space import DRAWN, FORBIDDEN, QuerySpace, asset, query_space
from sdc.risk.criteria import Criteria
from sdc.risk.refutation import Refutation
from sdc.search.found import Found
from sdc.stages.build import Build, open_build
from sdc.stages.explore import space_of_run
from sdc.stages.stages import run_all
from sdc.storage.run_folder import RunFolder
from tests.conftest import CZECH_CSV
from tests.integration.server.test_levels import table_of
from tests.system.server.test_pages import WORDS
from tests.wide import wide_table

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
WIDTH = 6
in_a_browser = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")


def space_of(found: Found, table: Table) -> QuerySpace:
    """Of a release that was found, with critical widths."""
    kept = getattr(found, "refutations", ())
    widths = sdc.critical_widths(table)
    return query_space("small", found.knowledge, found.judgement.criteria, found, kept, widths=widths)


@pytest.fixture(scope="module")
def ended(czech: Table) -> Found:
    """A search that was told to end: some sub-tables are open."""
    return sdc.find_release(czech, NOTHING, "ordered", min_width=WIDTH, ended_after={"questions": 4})


@pytest.fixture(scope="module")
def space(ended: Found, czech: Table) -> QuerySpace:
    return space_of(ended, czech)


@pytest.fixture(scope="module")
def bisected(czech: Table) -> QuerySpace:
    """A release by bisection: beside it some are excluded because of what is out."""
    return space_of(sdc.bisection_release(czech, NOTHING, min_width=WIDTH), czech)


@pytest.fixture(scope="module")
def begun(czech: Table) -> QuerySpace:
    """With one of three sub-tables that exclude each other: with a second one the third is excluded."""
    every = space_of(sdc.ordered_release(czech, NOTHING, min_width=WIDTH), czech)
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
    found = sdc.ordered_release(table, NOTHING, min_width=2, small_count=1)
    return query_space("levels", known, Criteria.of(1, 2), None, found.refutations, widths=widths)


SPACES = ("space", "bisected", "begun", "met", "levelled")


def config_of(folder: Path, **sections: Any) -> Path:
    config: dict[str, Any] = {"name": "czech", "table": {"path": str(CZECH_CSV)}, "risk": {"min_width": WIDTH}}
    config |= {"execution": {"cluster": "in-process"}, "output": {"folder": str(folder / "runs")}, **sections}
    (folder / "czech.yaml").write_text(yaml.safe_dump(config))
    return folder / "czech.yaml"


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
    found = sdc.ordered_release(czech, NOTHING, min_width=WIDTH)
    shown = space_of(found, czech)
    assert shown.state.count(Status.OPEN) == shown.state.count(Status.UNDECIDED) == 0
    assert {st.label(t, czech.schema) for t in shown.state.unreleasable} == {"A*B*C*D*F", "A*B*C*E*F", "B*C*D*E*F"}
    assert shown.why(0b101111) == "Proven: whoever knows A*B*C*D*F, E knows a cell at risk to within 3 records."
    # by the search's word alone, where no proof is kept
    steps = tuple(replace(step, refutation=None) for step in found.steps)
    alone = query_space("small", found.knowledge, found.judgement.criteria, replace(found, steps=steps), ())
    assert {alone.why(t) for t in alone.state.unreleasable} == {
        "The search refused it, or one within it, beside what is released."
    }
    undecided = replace(found, steps=tuple(replace(step, answer=None) for step in steps if step.answer is False))
    asked = query_space("small", found.knowledge, found.judgement.criteria, undecided, ())
    assert asked.state.undecided == tuple(st.minimal(step.added[0] for step in undecided.steps if len(step.added) == 1))
    assert "Critical widths were not given" in asked.text
    assert "What the search was forbidden is not kept with its release" in asked.text


def test_decisions_by_draws_are_said_to_be_such(czech: Table) -> None:
    found = sdc.simulatable_release(czech, NOTHING, min_width=WIDTH, draws=10)
    shown = space_of(found, czech)
    assert DRAWN in shown.against.values()
    assert not [t for t in shown.against if t in shown.released]


def test_what_a_config_forbids_is_said_to_be_forbidden(run: Path) -> None:
    shown = space_of_run(run)
    assert shown.against == {0b100011: FORBIDDEN}
    assert shown.why(0b100011) == FORBIDDEN
    assert shown.notes == ()


def test_rules_on_what_is_published_are_looked_at_in_a_run(tmp_path: Path, czech: Table) -> None:
    shown = space_of_run(build_of(tmp_path, risk={"min_width": WIDTH, "n_rule": 20}).folder.path)
    for t in range(64):
        few = 0 < czech.least_count(t) < 20
        assert not few or shown.state.status(t) is Status.UNRELEASABLE
    found = sdc.ordered_release(czech, NOTHING, min_width=WIDTH, n_rule=20)
    assert "n_rule and attributes, rules on what is published itself, are not looked at" in space_of(found, czech).text


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
        refused(own, "run is at work; explore it when sdc status says that it is finished")


def test_what_has_no_release_is_refused(tmp_path: Path) -> None:
    refused(tmp_path / "nothing", "is no run folder: it has no manifest.json; name one that sdc run has made")
    build = open_build(config_of(tmp_path, risk={"min_width": 5000}))
    with pytest.raises(NothingReleasableError):
        run_all(build, IN_PROCESS)
    refused(build.folder.path, "is refused and has no release to explore; see sdc status for why")


def test_a_run_that_lost_something_or_was_changed_is_refused(own: Path) -> None:
    kept = (own / "widths" / "widths.parquet").read_bytes()
    (own / "widths" / "widths.parquet").write_bytes(kept + b"x")
    refused(own, "widths is not what the manifest recorded; make it again with sdc run")
    shutil.rmtree(own / "widths")
    refused(own, "run has lost its widths; run the build again")
    (own / "manifest.json").write_text("{")
    refused(own, "manifest.json cannot be read")


def test_a_page_that_cannot_be_written(run: Path, tmp_path: Path) -> None:
    done = sdc_explore(run, "--to", tmp_path / "no" / "page.html")
    assert re.match("--to .*page.html cannot be written: No such file or directory; name a file", str(done.exception))
    done = sdc_explore(run, "--to", run / "release" / "page.html")
    assert re.match("--to .*page.html is in what is to be published, and the page is confid", str(done.exception))
    assert not (run / "release" / "page.html").exists()


# Many variables


def test_of_many_variables_there_are_the_frontiers_alone() -> None:
    table = wide_table(16, 300, 1)
    known = sdc.knowledge(table, ["v0*v1*v2", "v3*v4"])
    refutations = [Refutation((0,) * 16, 1, (0, width), (0b111, 0b11 << n)) for n, width in ((5, 2), (7, 3))]
    shown = query_space("wide", known, Criteria.of(2, 3), None, refutations)
    assert (shown.is_drawn, shown.record) == (False, {})
    assert "Of more than 14 variables there are too many sub-tables to draw" in shown.text
    assert "data-record" not in shown.page
    assert "<script" not in shown.page
    assert "<li>v0*<wbr>v1*<wbr>v2</li>\n<li>v3*<wbr>v4</li>" in shown.text
    # what is as wide as is required is no conflict
    assert [st.label(t, table.schema) for t in shown.state.unreleasable] == ["v5*v6"]
    assert "Proven: whoever knows v0*<wbr>v1*<wbr>v2, v5*<wbr>v6 knows a cell" in shown.text


# In a notebook


def test_the_widget_has_what_the_page_has(ended: Found, czech: Table, run: Path) -> None:
    found, shown = ended.explore(sdc.widths(czech)), space_of(ended, czech)
    assert json.dumps(found.record) == json.dumps(shown.record)
    assert (found.text, found.sheet) == (shown.text, asset("query_space.css"))
    assert repr(found) == "Explorer of the query space of a release that was found"
    assert ended.explore().record["widths"] == [None] * 64
    assert json.dumps(sdc.explore(run).record) == json.dumps(space_of_run(run).record)
    assert f"{found._esm}\nconst place" in shown.page


@pytest.mark.parametrize(("verb", "more"), [("ordered", {}), ("bisection", {}), ("decomposable", {"steps": 200})])
def test_every_release_that_is_found_can_be_explored(verb: str, more: dict[str, Any], czech: Table) -> None:
    found = getattr(sdc, f"{verb}_release")(czech, NOTHING, min_width=WIDTH, **more)
    assert sum(status in (1, 2) for status in found.explore().record["statuses"]) == found.sub_tables_with_total


def test_other_widths_are_refused(ended: Found) -> None:
    with pytest.raises(InputError, match="widths is of the type list; give critical widths"):
        ended.explore([1])  # type: ignore[arg-type]


def test_without_the_extra_it_is_named(space: QuerySpace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anywidget", None)
    monkeypatch.setattr(explorer, "_kind", cache(explorer._kind.__wrapped__))
    with pytest.raises(MissingLibraryError, match=r"pip install 'sdc-tables\[notebook\]', or use the page"):
        widget(space)
    assert isinstance(MissingLibraryError("x"), ImportError)


# In a browser


@pytest.fixture(scope="module")
def tab() -> Iterator[Page]:
    """Of one browser for all tests, each of which is to end without a complaint."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.set_default_timeout(20_000)
        yield page
        browser.close()


@pytest.fixture
def complaints(tab: Page) -> Iterator[list[str]]:
    heard: list[str] = []
    tab.on("console", lambda message: heard.append(message.text) if message.type in ("error", "warning") else None)
    tab.on("pageerror", lambda error: heard.append(str(error)))
    yield heard
    assert heard == []


def shown(page: str, folder: Path, tab: Page, width: int = 1200, is_dark: bool = False) -> Page:
    """A page as it is opened from a file."""
    tab.set_viewport_size({"width": width, "height": 800})
    tab.emulate_media(color_scheme="dark" if is_dark else "light")
    (folder / "page.html").write_text(page, encoding="utf-8")
    tab.goto((folder / "page.html").as_uri())
    tab.locator("#space[aria-busy=false]").wait_for()
    return tab


TELL = """async canvas => {
  const told = [];
  for (let t = 0; t < canvas.view.statuses.length; t++) {
    const { said, lists, marks } = await canvas.view.ask(t);
    told.push({ said, lists: Object.fromEntries(lists), marks: [...(marks || [])] });
  }
  return told;
}"""


def marked(told: Mapping[str, Any], what: str) -> set[SubTable]:
    return {t for t, mark in told["marks"] if mark == what}


def closed(space: QuerySpace, released: Iterable[SubTable]) -> set[SubTable]:
    """What is unreleasable beside other sub-tables, worked out anew."""
    other = replace(space, released=Release.of(released))
    return {t for t, status in enumerate(other.state.statuses.tolist()) if status == Status.UNRELEASABLE}


@in_a_browser
@pytest.mark.usefixtures("complaints")
@pytest.mark.parametrize("name", SPACES)
def test_what_each_sub_table_adds_and_excludes(
    name: str, tab: Page, tmp_path: Path, czech: Table, request: pytest.FixtureRequest
) -> None:
    space: QuerySpace = request.getfixturevalue(name)
    every = shown(space.page, tmp_path, tab).locator("#space").evaluate(TELL)
    frontier, statuses = list(space.released.frontier), space.state.statuses.tolist()
    now, added, needed = closed(space, frontier), 0, 0
    for t, (status, told) in enumerate(zip(statuses, every, strict=True)):
        if not status:
            continue
        within = {*st.subsets(t, space.schema)}
        own = {s for s in within if s not in space.released}
        if status in (Status.OPEN, Status.UNDECIDED):
            then = closed(space, [*frontier, t])
            assert marked(told, "released") == own
            assert marked(told, "unreleasable") == then - now
            number = f"{len(own)} sub-table{'s' * (len(own) != 1)} released and {len(then - now)} sub-table"
            assert any(f"Releasing it would make {number}" in words for words in told["said"])
            for u in told["lists"]["Joins the unreleasable frontier"]:
                assert is_refuted(space, czech, [*frontier, t, u])
                added += 1
            assert any("takes a question to the criterion" in words for words in told["said"])
        elif status == Status.DIRECT:
            others = [one for one in frontier if one != t]
            assert marked(told, "released") == {s for s in within if not st.within_any(others)(s)}
            assert marked(told, "unreleasable") == now - closed(space, others)
            needed += len(marked(told, "unreleasable"))
        elif status == Status.INDIRECT:
            assert told["lists"]["Within"] == [one for one in frontier if st.is_within(t, one)]
        else:
            assert is_refuted(space, czech, told["lists"]["Not to be known together"])
            assert all(s in space.released.add(t) for s in told["lists"]["Not to be known together"])
    assert (added > 0, needed > 0) == (name in ("begun", "levelled"), name not in ("space", "levelled"))


@in_a_browser
@pytest.mark.usefixtures("complaints")
@pytest.mark.parametrize(("width", "is_dark"), [(320, False), (1200, True)])
def test_the_page_is_whole(space: QuerySpace, tab: Page, tmp_path: Path, width: int, is_dark: bool) -> None:
    found = shown(space.page, tmp_path, tab, width, is_dark).evaluate(MEASURE)
    assert found["lang"] == "en"
    assert found["scroll"] == 0
    assert found["contrast"] == []
    assert found["levels"][0] == 1
    assert all(b - a <= 1 for a, b in pairwise(found["levels"]))
    rows = [list(map(int, re.findall(r"\d+", row))) for row in tab.locator("#counts tbody tr").all_inner_texts()]
    by_dimension = [[status for t, status in enumerate(space.state.statuses) if st.dimension(t) == d] for d in range(7)]
    assert rows == [[d, len(own), *(own.count(status) for status in Status)] for d, own in enumerate(by_dimension)]
    assert len(tab.pdf()) > 10_000


MEASURE = (
    f"""() => {{ {WORDS}"""
    + """  return {
    lang: root.lang, scroll: root.scrollWidth - root.clientWidth,
    levels: [...document.querySelectorAll("h1, h2, h3")].map(h => Number(h.tagName[1])),
    contrast: words.filter(e => contrast(e) < 4.5).map(e => e.innerText),
  };
}"""
)


@in_a_browser
@pytest.mark.usefixtures("complaints")
def test_by_the_keyboard_alone(space: QuerySpace, tab: Page, tmp_path: Path) -> None:
    page = shown(space.page, tmp_path, tab, width=320)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "space"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
    rows = {y for _, y in page.evaluate("space.view.places")}
    for _ in range(len(rows) - 1):
        page.keyboard.press("ArrowUp")
    assert page.inner_text("#effect h2") == "A*B*C*D*E*F"
    for level in range(5, 0, -1):
        page.keyboard.press("PageDown")
        assert f"dimension {level}," in page.inner_text("#effect")
        top, bottom = page.evaluate("(b => [b.top, b.bottom])(document.querySelector('#spot').getBoundingClientRect())")
        assert 0 <= top < bottom <= 800
    for key in ("End", "Home", "ArrowRight", "ArrowLeft"):
        page.keyboard.press(key)
    assert page.inner_text("#effect h2") == "A"
    page.get_by_text("It is public, within").wait_for()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "effect"


@in_a_browser
@pytest.mark.usefixtures("complaints")
def test_what_is_pointed_at_is_told(space: QuerySpace, tab: Page, tmp_path: Path, czech: Table) -> None:
    page = shown(space.page, tmp_path, tab)
    subtable = next(t for t in range(63, 0, -1) if space.state.status(t) is Status.OPEN)
    x, y = page.evaluate("t => space.view.places[t]", subtable)
    page.locator("#space").hover(position={"x": x + 5, "y": y + 5})
    page.get_by_text("Releasing it would make").wait_for()
    said = page.inner_text("#effect")
    assert said.startswith(st.label(subtable, czech.schema))
    assert f"critical width {space.widths[subtable]}" in said


@in_a_browser
@pytest.mark.usefixtures("complaints")
def test_names_that_are_markup_are_shown_as_they_are(tab: Page, tmp_path: Path) -> None:
    names = ("</script><b>x", "\"'><i>&amp;", "c")
    schema = Schema(tuple(Variable(name, ("0", "1")) for name in names))
    known = Knowledge(schema, 10, Release.of([0b011, 0b100]), NO_ZEROS, ())
    space = query_space("<b>own</b>", known, Criteria.of(1, 2), None, [Refutation((0, 0, 0), 1, (0, 1), (0b101,))])
    page = shown(space.page, tmp_path, tab)
    assert page.locator("b, i").count() == 0
    page.locator("#space").focus()
    page.keyboard.press("PageUp")
    page.keyboard.press("Home")
    assert page.inner_text("#effect h2") == names[0]
    assert page.inner_text("#unreleasable + div tbody th") == f"{names[0]}*c"
    assert "<b>own</b>" in page.inner_text("h1")
    tab.goto("about:blank")
    tab.evaluate(HOST, {"module": module_of(widget(space)), "all": [traits_of(widget(space))]})
    tab.locator("canvas#space[aria-busy=false]").wait_for()
    assert tab.locator("b, i").count() == 0


@in_a_browser
@pytest.mark.usefixtures("complaints")
def test_of_thirteen_variables_each_sub_table_can_be_pointed_at(tab: Page, tmp_path: Path) -> None:
    table = wide_table(13, 300, 1)
    known, widths = sdc.knowledge(table, ["v0*v1*v2", "v3*v4"]), sdc.critical_widths(table)
    space = query_space("wide", known, Criteria.of(2, 3), None, (), widths=widths)
    assert len(space.conflicts) > 100
    page = shown(space.page, tmp_path, tab)
    assert page.evaluate("space.view.places.length") == 8192
    assert page.evaluate("space.view.cell") >= 8
    assert page.evaluate("space.clientHeight") < 1600
    for t in (0b111, st.full(13), 0b1010101):
        x, y = page.evaluate("t => space.view.places[t]", t)
        page.locator("#space").hover(position={"x": x + 3, "y": y + 3})
        page.wait_for_function("t => space.view.at === t && space.view.told.has(t)", arg=t)
        assert page.inner_text("#effect h2") == st.label(t, table.schema)
        assert "Looking" not in page.inner_text("#effect")
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0


def module_of(explorer: Any) -> str:
    return f"data:text/javascript;base64,{b64encode(explorer._esm.encode()).decode()}"


def traits_of(explorer: Any) -> dict[str, Any]:
    return {name: getattr(explorer, name) for name in ("record", "text", "sheet")}


HOST = """async ({ module, all }) => {
  const { default: widget } = await import(module);
  for (const traits of all) {
    const el = document.body.appendChild(document.createElement("div"));
    widget.render({ model: { get: name => traits[name] }, el });
  }
}"""


@in_a_browser
@pytest.mark.usefixtures("complaints")
def test_two_widgets_live_apart_from_each_other_and_from_their_page(
    tab: Page, tmp_path: Path, ended: Found, czech: Table, space: QuerySpace
) -> None:
    widgets = [ended.explore(sdc.widths(czech)), widget(replace(space, released=Release.of([0])))]
    tab.goto("about:blank")
    tab.set_content("<h2>Own</h2><p class='soft' id='keys'>Words</p>")
    style = "getComputedStyle(document.querySelector('#keys')).color"
    before = tab.evaluate(style)
    tab.evaluate(HOST, {"module": module_of(widgets[0]), "all": [*map(traits_of, widgets)]})
    canvases = tab.locator("canvas#space[aria-busy=false]")
    canvases.nth(1).wait_for()
    assert canvases.count() == 2
    assert tab.evaluate(style) == before
    assert tab.evaluate("document.querySelectorAll('#space').length") == 0
    told = canvases.nth(0).evaluate(TELL)
    assert told == shown(space.page, tmp_path, tab).locator("#space").evaluate(TELL)
