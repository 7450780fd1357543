"""The page in a real browser: its elements are there, nothing overflows sideways, it prints on few pages."""

import re
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page

from sdc.report.audit import AuditEvidence
from tests.helpers.browser import browser, opened, tab

WIDTHS = (400, 1280)
MEASURE = """() => {
  const root = document.documentElement;
  document.querySelectorAll("details").forEach(part => { part.open = true; });
  const boxes = [...document.querySelectorAll("p, h1, h2, figure, .wide, dd")];
  const out = boxes.filter(b => b.getBoundingClientRect().right > root.clientWidth + 1).length;
  const inside = (a, b) => a.left >= b.left - 1 && a.right <= b.right + 1;
  const spills = figure => [...figure.querySelectorAll("text")].some(
    words => !inside(words.getBoundingClientRect(), figure.getBoundingClientRect()));
  const clipped = [...document.querySelectorAll("svg.figure")].filter(spills);
  return { scroll: root.scrollWidth - root.clientWidth, out, clipped: clipped.map(s => s.id) };
}"""

__all__ = ["browser", "tab"]

Rendered = Callable[[AuditEvidence], str]


@pytest.mark.parametrize("name", ["czech", "undecided", "large", "decomposable", "wide"])
def test_nothing_overflows_sideways(
    name: str, tab: Page, tmp_path: Path, request: pytest.FixtureRequest, rendered: Rendered
) -> None:
    opened(rendered(request.getfixturevalue(name)), tmp_path, tab)
    for width in WIDTHS:
        tab.set_viewport_size({"width": width, "height": 900})
        assert tab.evaluate(MEASURE) == {"scroll": 0, "out": 0, "clipped": []}


def printed(text: str, folder: Path, tab: Page) -> list[bytes]:
    """What is drawn on each printed page."""
    content = opened(text, folder, tab).pdf(prefer_css_page_size=True)
    numbers = re.findall(rb"/Type /Page\b[^s].*?/Contents (\d+) 0 R", content, re.DOTALL)
    streams = [re.search(rb"\n%s 0 obj.*?stream\r?\n(.*?)endstream" % n, content, re.DOTALL) for n in numbers]
    return [zlib.decompressobj().decompress(stream[1]) for stream in streams if stream]


def only(text: str, start: str, end: str, style: str = "") -> str:
    """The page with nothing but what is between two marks."""
    head, body = text.split("</style>", 1)
    return (
        f"{head}{style}</style></head><body><main>{start}{body.split(start, 1)[1].split(end, 1)[0]}{end}</main></body>"
    )


@pytest.mark.parametrize("name", ["czech", "large", "wide"])
def test_prints_on_few_pages(
    name: str, tab: Page, tmp_path: Path, request: pytest.FixtureRequest, rendered: Rendered
) -> None:
    text = rendered(request.getfixturevalue(name))
    few = len(printed(text, tmp_path, tab))
    assert 4 <= few <= 16
    assert len(printed(text.replace("<details>", "<details open>"), tmp_path, tab)) > few


@pytest.mark.parametrize("name", ["czech", "large"])
def test_first_page_is_two_at_most(
    name: str, tab: Page, tmp_path: Path, request: pytest.FixtureRequest, rendered: Rendered
) -> None:
    text = only(rendered(request.getfixturevalue(name)), '<section id="decision">', "</tbody></table>\n</section>")
    assert 1 <= len(printed(text, tmp_path, tab)) <= 2


def test_headers_are_printed_again_on_every_page(
    large: AuditEvidence, tab: Page, tmp_path: Path, rendered: Rendered
) -> None:
    # nothing else on the page has the colour
    style = "thead th { color: rgb(255, 0, 255) }"
    pages = printed(only(rendered(large), '<table class="search" id="cells">', "</table>", style), tmp_path, tab)
    assert len(pages) > 5
    assert all(b"1 0 1 rg" in page for page in pages)


def test_search_keeps_the_rows_with_all_words(
    large: AuditEvidence, tab: Page, tmp_path: Path, rendered: Rendered
) -> None:
    opened(rendered(large), tmp_path, tab)
    tab.locator("details:has(#frontier) summary").click()
    found = tab.locator(".wide:has(#frontier)")
    search = found.locator("xpath=preceding-sibling::*[1]")
    search.locator("input").fill("AGE race")
    rows = found.locator("#frontier tbody tr").evaluate_all("rows => rows.map(row => [row.hidden, row.innerHTML])")
    kept = [row for hidden, row in rows if not hidden]
    assert 0 < len(kept) < len(rows)
    assert all(("age" in row and "race" in row) == (not hidden) for hidden, row in rows)
    assert f"{len(kept)} of {len(rows)} rows" in search.inner_text()
