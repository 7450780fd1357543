"""A real browser for tests of pages, which are skipped where there is none."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no chromium, chromium-browser or google-chrome on this machine")
    with pytest.importorskip("playwright.sync_api").sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def tab(browser: Browser) -> Page:
    """One page for all tests of a module: a process for each would take most of their time."""
    page = browser.new_context().new_page()
    page.set_default_timeout(300_000)
    return page


def opened(text: str, folder: Path, tab: Page) -> Page:
    """A page as the browser holds it once loaded from a file."""
    (folder / "page.html").write_text(text, encoding="utf-8")
    tab.goto((folder / "page.html").as_uri())
    return tab


def assert_whole(page: Page) -> None:
    """Everybody can read it: language, order of headings, labels, contrast, and nothing wider than the window."""
    found = page.evaluate(MEASURE)
    levels = found.pop("levels")
    assert (levels[0], levels.count(1)) == (1, 1), page.url
    assert all(b - a <= 1 for a, b in pairwise(levels)), page.url
    assert found == {"lang": "en", "scroll": 0, "unlabelled": 0, "contrast": []}, page.url


MEASURE = """() => {
  const root = document.documentElement;
  const light = c => c.match(/\\d+/g).slice(0, 3).map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = e => { const c = e ? getComputedStyle(e).backgroundColor : "rgb(255, 255, 255)";
    return c === "rgba(0, 0, 0, 0)" ? behind(e.parentElement) : c; };
  const contrast = e => { const [a, b] = [light(getComputedStyle(e).color), light(behind(e))].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05); };
  const words = [...document.querySelectorAll("body *")].filter(e => e.children.length === 0 && e.innerText);
  return {
    lang: root.lang, scroll: root.scrollWidth - root.clientWidth,
    levels: [...document.querySelectorAll("h1, h2, h3")].map(h => Number(h.tagName[1])),
    unlabelled: [...document.querySelectorAll("input:not([type=hidden])")].filter(i => !i.labels.length).length,
    contrast: words.filter(e => contrast(e) < 4.5).map(e => e.innerText),
  };
}"""
