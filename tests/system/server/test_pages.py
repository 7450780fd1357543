"""The pages in a real browser: a user asks, gets and is refused, an operator sees what releasing would do."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Error, Locator, Page

from sdc.model import subtable as st
from sdc.model.errors import ReleaseError
from sdc.model.state import Status
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.risk.criteria import Criteria
from sdc.server.service.outcome import Reply
from sdc.server.web.answers import FORMATS, Answer, Shape
from sdc.server.web.gateway import SESSION
from tests.helpers.browser import assert_whole, browser, tab
from tests.helpers.http import Site, serving
from tests.helpers.small_service import SmallService
from tests.integration.server.test_levels import EVERY, SCHEMA, opened

__all__ = ["browser", "opened", "tab"]

FOR_ALL = ("/", "/requests", "/frontier", "/frontier?version=0", "/about", "/login")
FOR_ALL += ("/tables/A", "/tables/A*B*C*D*E*F", "/jobs/1", "/jobs/2")
FOR_OPERATORS = ("/operator", "/operator/space", "/operator/frontier", "/operator/requests", "/operator/requests/2")


@dataclass
class Visit:
    """One person in a browser, and what the browser complained of."""

    url: str
    context: BrowserContext
    page: Page
    complaints: list[str] = field(default_factory=list)

    def go(self, path: str) -> int:
        response = self.page.goto(self.url + path)
        assert response is not None
        if self.page.locator("#space").count():
            self.page.locator("#space[aria-busy=false]").wait_for()
        return response.status

    def hear(self, message: ConsoleMessage) -> None:
        # that a page is a 404 is said on the console too
        if message.type in ("error", "warning") and "Failed to load resource" not in message.text:
            self.complaints.append(message.text)

    def fault(self, error: Error) -> None:
        self.complaints.append(str(error))

    def choose(self, subtable: SubTable, service: SmallService) -> None:
        for name in service.schema.names:
            self.page.get_by_label(name, exact=True).set_checked(name in st.names(subtable, service.schema))

    def follow(self, button: Locator) -> None:
        """Presses a button or link, until the page that it leads to is loaded."""
        with self.page.expect_navigation():
            button.click()

    def ask(self) -> None:
        self.follow(self.page.get_by_role("button", name="Ask for this table"))

    def items(self, selector: str) -> list[str]:
        return self.page.locator(selector).all_inner_texts()


@pytest.fixture(autouse=True)
def closed(tab: Page, browser: Browser) -> Iterator[None]:
    """What was visited is left, as a page that stays open goes on asking; the next visitor is nobody yet."""
    yield
    tab.unroute_all()
    tab.goto("about:blank")
    tab.context.clear_cookies()
    for context in browser.contexts:
        if context is not tab.context:
            context.close()


@pytest.fixture(scope="module")
def begun(czech: Table) -> SmallService:
    """For tests that go on from a copy."""
    return SmallService(czech, Criteria.of(2, 6))


@pytest.fixture(scope="module")
def service(begun: SmallService) -> SmallService:
    """Of the sub-tables of five variables one is public, and of two others only one can still be released."""
    service = begun.copy()
    assert [service.ask(t, "operator").result().decision for t in (0b110111, 0b111110)] == ["released", "refused"]
    return service


def enter(context: BrowserContext, site: Site, role: str) -> None:
    """As somebody of the role, who is called so."""
    context.add_cookies([{"name": SESSION, "value": site.sessions[role], "url": site}])


@contextmanager
def visited(
    tab: Page, service: SmallService, role: str = "user", width: int = 1200, is_dark: bool = False, **settings: Any
) -> Iterator[Visit]:
    """Somebody at a server, whose browser has nothing to complain of until the block ends."""
    with serving(service, **settings) as site:
        tab.set_viewport_size({"width": width, "height": 800})
        tab.emulate_media(color_scheme="dark" if is_dark else "light")
        enter(tab.context, site, role)
        visit = Visit(site, tab.context, tab)
        tab.on("console", visit.hear)
        tab.on("pageerror", visit.fault)
        yield visit
        assert visit.complaints == []


def labels(subtables: tuple[SubTable, ...], service: SmallService) -> list[str]:
    return [st.label(t, service.schema) for t in subtables]


def test_a_user_asks_gets_is_refused_and_goes_to_what_is_to_be_had(tab: Page, begun: SmallService) -> None:
    service = begun.copy()
    with visited(tab, service) as visit:
        page = visit.page
        visit.go("/")
        visit.choose(0b1111, service)
        assert "A*B*C*D has 16 cells" in page.inner_text("#chosen")
        visit.ask()
        assert page.url == f"{visit.url}/tables/A*B*C*D"
        assert 0b1111 in service.state.released
        shown = [int(text) for text in visit.items(".counts td")]
        assert sum(shown) == service.records
        for link in page.locator(".downloads a").all():
            with page.expect_download() as download:
                link.click()
            suffix = str(download.value.url).rpartition(".")[2]
            marginal = service.marginal(0b1111)
            assert marginal is not None
            content = b"".join(FORMATS[suffix].write(Answer(service.title, marginal)))
            assert download.value.path().read_bytes() == content
        assert page.locator(".downloads a").count() == len(FORMATS)
        visit.go("/")
        visit.choose(0b111110, service)
        visit.ask()
        reply = service.reply_to(2, "user")
        assert reply is not None
        assert reply.decision == "refused"
        assert page.url == f"{visit.url}/jobs/2"
        assert visit.items("main .names li") == labels(reply.projection, service)
        assert visit.items(".asks button") == ["Ask for B*C*D*E*F with suppressed cells"]
        visit.follow(page.locator("main .names a").first)
        assert page.inner_text("h1") == " by ".join(st.names(reply.projection[0], service.schema))
        visit.go("/requests")
        assert visit.items("tbody th") == [st.label(r.sub_table, service.schema) for r in service.requests("user")]


def test_zeros_and_totals_are_links_and_large_tables_downloads(tab: Page, service: SmallService) -> None:
    with visited(tab, service, limits={"cells_on_screen": 8, "cells": 32}) as visit:
        visit.go("/tables/A*B")
        visit.follow(visit.page.get_by_role("link", name="Show totals"))
        visit.follow(visit.page.get_by_role("link", name="Show cells without records"))
        assert visit.page.url.endswith("?zeros=true&totals=true")
        marginal = service.marginal(0b11)
        assert marginal is not None
        cells = Answer("", marginal, Shape(True, True)).table.at_most
        assert f"The table has {cells} cells; a page shows at most 8." in visit.page.inner_text("main")
        assert visit.page.locator("table").count() == 0
        assert "zeros=true&totals=true" in str(visit.page.locator(".downloads a").first.get_attribute("href"))
        visit.go("/")
        visit.choose(0b111111, service)
        assert "64 cells: too many, at most 32" in visit.page.inner_text("#chosen")


@pytest.mark.parametrize("is_published", [False, True])
def test_what_can_no_longer_be_released_is_told_where_that_is_published(
    tab: Page, service: SmallService, is_published: bool
) -> None:
    with visited(tab, service, publish_unreleasable=is_published) as visit:
        page = visit.page
        visit.go("/")
        element = service.state.unreleasable[0]
        visit.choose(element, service)
        told = page.get_by_text("can no longer be released: it contains " + st.label(element, service.schema))
        assert told.count() == is_published
        visit.choose(service.state.released.frontier[0], service)
        assert page.locator("#closed").is_visible() is False
        for path in ("/frontier", "/"):
            visit.go(path)
            assert (st.label(element, service.schema) in str(page.text_content("main"))) == is_published
        assert page.locator("input:disabled").count() == 0


@pytest.mark.parametrize("has_script", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_the_frontier_is_a_matrix_that_one_steps_through(
    browser: Browser, begun: SmallService, has_script: bool
) -> None:
    service = begun.copy()
    for subtable in (0b11, 0b1100, 0b1111):
        assert service.ask(subtable, "ada").result().decision == "released"
    with serving(service) as url:
        context = browser.new_context(java_script_enabled=has_script)
        enter(context, url, "operator")
        page = context.new_page()
        for path in ("/frontier", "/operator/frontier"):
            page.goto(url + path)
            for moment in reversed(service.moments()):
                tables = [marks_of(table) for table in page.locator("table.matrix").all()]
                frontiers = [moment.released, moment.unreleasable][: 2 if "operator" in path else 1]
                assert tables == [{st.label(t, service.schema): st.marks(t, 6) for t in found} for found in frontiers]
                assert f"{moment.sub_tables} sub-tables are released" in page.inner_text("main")
                if moment.version:
                    assert st.label(moment.cause or 0, service.schema) in page.inner_text("main p:not(.closed)")
                    with page.expect_navigation():  # what is read next is of the page to come
                        page.get_by_role("link", name="Before", exact=True).click()
            assert page.url == f"{url}{path}?version=0"
            assert "Before" not in [link.inner_text() for link in page.locator("main nav a").all()]
            page.get_by_role("link", name="After", exact=True).click()
            page.get_by_role("link", name="Last", exact=True).click()
            assert page.url == f"{url}{path}?version=3"
            assert "A*B, C*D are within it now" in page.inner_text("main")
            page.locator("tbody td.n a").last.click()
            assert page.url == f"{url}{path}?version=0"


def marks_of(matrix: Locator) -> dict[str, str]:
    """By the label of each row what is in it, as the papers write it."""
    rows = matrix.locator("tbody tr").all()
    return {
        row.locator("th").inner_text(): "".join(row.locator("td").all_inner_texts()).replace("·", ".") for row in rows
    }


def test_a_pending_request_is_looked_at_again(
    tab: Page, service: SmallService, monkeypatch: pytest.MonkeyPatch
) -> None:
    decided = service.reply_to(1, "operator")
    waiting = Reply("pending", "in-progress", "It is being looked into.", 0b110111, 0, job=1)
    told = [waiting, waiting]
    monkeypatch.setattr(service, "reply_to", lambda number, who: told.pop(0) if told else decided)
    with visited(tab, service) as visit:
        assert visit.go("/jobs/1") == 202
        assert visit.page.inner_text("#job") == waiting.message
        visit.page.wait_for_url("**/tables/A*B*C*E*F")


def test_a_server_that_answers_again_is_no_longer_said_to_be_away(
    tab: Page, service: SmallService, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = Reply("pending", "in-progress", "It is being looked into.", 0b110111, 0, job=1)
    monkeypatch.setattr(service, "reply_to", lambda number, who: waiting)
    with visited(tab, service) as visit:
        page = visit.page
        page.route("**/api/jobs/*", lambda route: route.abort())
        page.goto(f"{visit.url}/jobs/1")
        page.get_by_text("The server does not answer").wait_for()
        page.unroute("**/api/jobs/*")
        page.get_by_text(waiting.message).wait_for()


def test_a_refused_request_leads_to_its_table_once_that_is_released(tab: Page, begun: SmallService) -> None:
    service = begun.copy()
    refused = 0b111111
    assert service.ask(refused, "user").result().decision == "refused"
    with visited(tab, service) as visit:
        assert visit.go("/jobs/1") == 200
        assert visit.page.inner_text("h1").startswith("Not released")
        # by another rule than refused it
        service._state = service.state.releasing(refused)
        visit.go("/jobs/1")
        assert visit.page.url == f"{visit.url}/tables/{st.label(refused, service.schema)}"


def test_an_operator_points_at_a_sub_table_and_reads_the_effect(tab: Page, service: SmallService) -> None:
    subtable = next(t for t in range(63, 0, -1) if service.state.status(t) is Status.OPEN)
    effect = service.effect(subtable).result()
    assert effect.unreleasable
    with visited(tab, service, "operator") as visit:
        page = visit.page
        visit.go("/operator/space")
        x, y = page.evaluate("t => space.view.places[t]", subtable)
        page.locator("#space").hover(position={"x": x + 5, "y": y + 5})
        page.get_by_text("Releasing it would make").wait_for()
        said = page.inner_text("#effect")
        assert st.label(subtable, service.schema) in said
        assert f"{effect.newly[0]} sub-table{'s' * (effect.newly[0] != 1)} released" in said
        assert f"{effect.newly[1]} sub-table{'s' * (effect.newly[1] != 1)} unreleasable" in said
        joins = "#effect h3:text('Joins the released frontier') + ul li"
        news = set(effect.after.released.frontier) - set(service.state.released.frontier)
        assert set(visit.items(joins)) == set(labels(tuple(news), service))


def test_the_text_of_the_query_space_is_the_desks_state(tab: Page, service: SmallService) -> None:
    with visited(tab, service, "auditor") as visit:
        visit.go("/operator/space")
        rows = [re.findall(r"\d+", row) for row in visit.items("#counts tbody tr")]
        state = service.state
        for dimension, row in enumerate(rows):
            level = [state.status(t) for t in range(64) if st.dimension(t) == dimension]
            assert [int(n) for n in row] == [dimension, len(level), *(level.count(status) for status in Status)]
        assert visit.items("#released + ul li") == labels(state.released.frontier, service)
        assert visit.items("#unreleasable + ul li") == labels(state.unreleasable, service)
        assert visit.page.evaluate("[...space.view.statuses]") == service.statuses().tolist()
        visit.go("/operator/requests")
        explained = [service.explained(request.number) for request in service.requests()]
        for line, one in zip(visit.items("tbody tr"), explained, strict=True):
            assert one is not None
            assert one.rule in line
            assert one.witness is None or f"count {one.witness['count']}" in line


def test_the_query_space_follows_the_version_and_says_that_its_text_does_not(tab: Page, begun: SmallService) -> None:
    service = begun.copy()
    with visited(tab, service, "operator") as visit:
        page = visit.page
        visit.go("/operator/space")
        assert page.locator("#stale").is_hidden()
        assert service.ask(0b11, "user").result().decision == "released"
        x, y = page.evaluate("space.view.places[3]")
        page.locator("#space").hover(position={"x": x + 5, "y": y + 5})
        page.locator("#stale").wait_for()
        page.get_by_text("It is public.").wait_for()
        assert page.evaluate("[...space.view.statuses]") == service.statuses().tolist()
        assert "Releasing it" not in page.inner_text("#effect")


def test_a_query_space_that_is_not_to_be_had_is_said_to_be_so(tab: Page, service: SmallService) -> None:
    with visited(tab, service, "operator") as visit:
        visit.page.route("**/api/operator/statuses", lambda route: route.fulfill(status=503))
        visit.page.goto(f"{visit.url}/operator/space")
        visit.page.get_by_text("The query space could not be had (status 503)").wait_for()


def test_statuses_and_marks_are_told_apart_without_colours(tab: Page, service: SmallService) -> None:
    with visited(tab, service, "operator") as visit:
        visit.go("/operator/space")
        # of each square which points are of another colour than its corner
        shapes = visit.page.evaluate("""[...document.querySelectorAll(".swatch")].map(swatch => {
            const points = new Uint32Array(swatch.getContext("2d").getImageData(0, 0, 22, 22).data.buffer);
            return [...points].map(point => Number(point !== points[24])).join("");
        })""")
        assert len(set(shapes)) == len(shapes) == len(Status) + 2


def test_of_many_variables_there_are_the_frontiers_alone(
    tab: Page, service: SmallService, monkeypatch: pytest.MonkeyPatch
) -> None:
    def statuses() -> NoReturn:
        raise ReleaseError("too many variables")

    monkeypatch.setattr(service, "statuses", statuses)
    with visited(tab, service, "operator") as visit:
        assert visit.go("/operator") == visit.go("/operator/space") == 200
        assert visit.page.locator("canvas, #counts").count() == 0
        assert visit.items("#released + ul li") == labels(service.state.released.frontier, service)
        assert visit.items("#unreleasable + ul li") == labels(service.state.unreleasable, service)


def test_keyboard_only(tab: Page, begun: SmallService) -> None:
    service = begun.copy()
    with visited(tab, service, "operator") as visit:
        page = visit.page
        visit.go("/")
        page.keyboard.press("Tab")
        assert focused(page) == "Skip to the content"
        page.keyboard.press("Enter")
        for name in ("A", "B"):
            tab_to(page, name)
            page.keyboard.press("Space")
        tab_to(page, "Ask for this table")
        page.keyboard.press("Enter")
        page.wait_for_url("**/tables/A*B")
        tab_to(page, "Query space")
        page.keyboard.press("Enter")
        page.locator("#space[aria-busy=false]").wait_for()
        tab_to(page, "space")
        for key in ("ArrowUp", "ArrowUp", "End"):
            page.keyboard.press(key)
        last = max(t for t in range(64) if st.dimension(t) == 2)
        assert page.inner_text("#effect h2") == st.label(last, service.schema)
        page.get_by_text("Releasing it would make").wait_for()
        for key in ("Home", "ArrowRight", "ArrowLeft", "ArrowDown", "ArrowDown"):
            page.keyboard.press(key)
        assert page.inner_text("#effect h2") == "(total)"


def focused(page: Page) -> str:
    said: str = page.evaluate(
        "(e => ((e.labels && e.labels[0]) || e).innerText.trim() || e.id)(document.activeElement)"
    )
    return said


def tab_to(page: Page, name: str) -> None:
    """Tabs on until what is so called has the focus, which must be seen."""
    for _ in range(60):
        page.keyboard.press("Tab")
        if focused(page) == name:
            assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
            return
    pytest.fail(f"{name} is not reached by the keyboard")


@pytest.mark.parametrize(("width", "is_dark"), [(320, False), (1200, True)])
def test_every_page_is_whole(tab: Page, service: SmallService, width: int, is_dark: bool) -> None:
    with visited(tab, service, "operator", width, is_dark, publish_unreleasable=True) as visit:
        for path in (*FOR_ALL, *FOR_OPERATORS):
            visit.go(path)
            assert_whole(visit.page)
            assert " · " in visit.page.title()


def test_of_levels_there_is_a_square_for_each_sub_table(tab: Page, opened: SmallService) -> None:
    service = opened.copy()
    with visited(tab, service, "operator", publish_unreleasable=True) as visit:
        page = visit.page
        visit.go("/operator/space")
        shown = page.evaluate("space.view.levels.map(level => level.map(t => space.view.tables.label(t)))")
        by_dimension = [[t for t in sorted(EVERY) if st.ways(t, SCHEMA) == dimension] for dimension in range(4)]
        assert shown == [[st.label(t, SCHEMA) for t in level] for level in by_dimension]
        assert set(page.evaluate("space.view.released")) == set(service.state.released.frontier)
        assert set(page.evaluate("space.view.unreleasable")) == set(service.state.unreleasable)
        page.locator("#space").focus()
        for key in ("Home", "PageUp", "ArrowRight", "ArrowDown", "PageUp", "PageUp", "PageUp", "End"):
            page.keyboard.press(key)
            assert page.evaluate("space.view.at") in EVERY
        assert page.inner_text("#effect h2") == "sex*area*job"
        visit.go("/")
        for name in ("area", "region", "sex"):
            page.locator(f"input[value={name}]").check()
        assert page.inner_text("#chosen") == "sex*area has 8 cells."
