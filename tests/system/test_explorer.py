"""The explorer of the query space as a widget and in a browser: each answer is that of the criterion."""

import json
import re
import sys
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

import sdc
from sdc.model import subtable as st
from sdc.model.errors import InputError, MissingLibraryError
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.schema import Schema, Variable
from sdc.model.state import Status
from sdc.model.structural_zeros import NO_ZEROS
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.report import space as space_module
from sdc.report.space import QuerySpace, asset, query_space, widget
from sdc.risk.criteria import Criteria
from sdc.risk.refutation import Refutation
from sdc.search.found import Found
from sdc.stages.finished import space_of_run
from tests.helpers.browser import assert_whole, browser, opened, tab
from tests.integration.test_explorer import (
    SPACES,
    begun,
    bisected,
    ended,
    is_refuted,
    levelled,
    met,
    run,
    space,
    space_of,
)

__all__ = ["begun", "bisected", "browser", "ended", "levelled", "met", "run", "space", "tab"]

# In a notebook


def test_the_widget_has_what_the_page_has(ended: Found, czech: Table, run: Path) -> None:
    found, shown = ended.explore(sdc.widths(czech)), space_of(ended, czech)
    assert json.dumps(found.record) == json.dumps(shown.record)
    assert (found.text, found.sheet) == (shown.text, asset("query_space.css"))
    assert repr(found) == "Explorer of the query space of a release that was found"
    assert ended.explore().record["widths"] == [None] * 64
    assert json.dumps(sdc.explore(run).record) == json.dumps(space_of_run(run).record)
    assert f"{found._esm}\nconst place" in shown.page


def test_other_widths_are_refused(ended: Found) -> None:
    with pytest.raises(InputError, match="widths is of the type list; give critical widths"):
        ended.explore([1])  # type: ignore[arg-type]


def test_without_the_extra_it_is_named(space: QuerySpace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anywidget", None)
    monkeypatch.setattr(space_module, "_kind", cache(space_module._kind.__wrapped__))
    with pytest.raises(MissingLibraryError, match=r"pip install 'sdc-tables\[notebook\]', or use the page"):
        widget(space)
    assert isinstance(MissingLibraryError("x"), ImportError)


# In a browser


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
    opened(page, folder, tab).locator("#space[aria-busy=false]").wait_for()
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


@pytest.mark.usefixtures("complaints")
@pytest.mark.parametrize(("width", "is_dark"), [(320, False), (1200, True)])
def test_the_page_is_whole(space: QuerySpace, tab: Page, tmp_path: Path, width: int, is_dark: bool) -> None:
    assert_whole(shown(space.page, tmp_path, tab, width, is_dark))
    rows = [list(map(int, re.findall(r"\d+", row))) for row in tab.locator("#counts tbody tr").all_inner_texts()]
    by_dimension = [[status for t, status in enumerate(space.state.statuses) if st.dimension(t) == d] for d in range(7)]
    assert rows == [[d, len(own), *(own.count(status) for status in Status)] for d, own in enumerate(by_dimension)]
    assert len(tab.pdf()) > 10_000


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
