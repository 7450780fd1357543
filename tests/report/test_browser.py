"""The page in a real browser: its elements are there, nothing overflows sideways, it prints on few pages."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import zlib
from pathlib import Path

import pytest

from sdc.report.audit import Evidence, render
from tests.report.conftest import bisected

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
QUIET = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
WIDTHS = (1000, 1400)
MEASURE = """<pre id="said"></pre>
<script>
const said = {};
function measured(page) {
  const root = page.documentElement;
  const boxes = [...page.querySelectorAll("p, h1, h2, h3, svg.figure, .card, dd")];
  const out = boxes.filter(b => b.getBoundingClientRect().right > root.clientWidth + 1).length;
  const inside = (a, b) => a.left >= b.left - 1 && a.right <= b.right + 1;
  const clipped = [...page.querySelectorAll("svg.figure")].filter(figure => [...figure.querySelectorAll("text")].some(
    words => !inside(words.getBoundingClientRect(), figure.getBoundingClientRect())));
  const nodes = [...page.querySelectorAll("#junction-tree rect")].map(r => r.getBoundingClientRect());
  const names = [...page.querySelectorAll("#junction-tree text")].map(t => t.getBoundingClientRect());
  const holds = (b, n) => inside(n, b) && n.top > b.top - 3 && n.bottom < b.bottom + 3;
  const spilt = names.filter(n => !nodes.some(b => holds(b, n))).length;
  return { scroll: root.scrollWidth - root.clientWidth, out, clipped: clipped.map(s => s.id), spilt };
}
for (const width of WIDTHS) {
  const frame = document.body.appendChild(document.createElement("iframe"));
  frame.style = `width:${width}px;height:900px;border:0`;
  frame.onload = () => {
    said[width] = measured(frame.contentDocument);
    document.getElementById("said").textContent = JSON.stringify(said);
  };
  frame.src = "page.html";
}
</script>"""

pytestmark = pytest.mark.skipif(
    BROWSER is None, reason="no chromium, chromium-browser or google-chrome on this machine"
)


def browsed(*words: str) -> str:
    """What the browser writes; once more where it was killed by a signal, which says nothing of the page."""
    command = [str(BROWSER), *QUIET, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode < 0:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    done.check_returncode()
    return done.stdout


def dumped(page: Path, profile: Path, *more: str) -> str:
    """The document as the browser holds it once loaded."""
    return browsed(f"--user-data-dir={profile}", *more, "--dump-dom", page.as_uri())


@pytest.mark.parametrize("name", ["czech", "undecided", "large"])
def test_page_in_a_browser(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    audit: Evidence = request.getfixturevalue(name)
    (tmp_path / "page.html").write_text(render(bisected(audit)), encoding="utf-8")
    document = dumped(tmp_path / "page.html", tmp_path / "profile")
    for key in (
        "verdict",
        "frontier-grid",
        "lattice",
        "chain",
        "bisection",
        "prefixes",
        "list",
        "histogram",
        "exposed",
        "cell-table",
    ):
        assert f'id="{key}"' in document
    assert document.count("<svg") == document.count("</svg>") >= 4


@pytest.mark.parametrize("name", ["decomposable", "wide"])
def test_annealed_page_in_a_browser(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    (tmp_path / "page.html").write_text(render(request.getfixturevalue(name)), encoding="utf-8")
    document = dumped(tmp_path / "page.html", tmp_path / "profile")
    for key in ("utility", "risk-utility", "clique-grid", "separator-grid", "junction-tree", "traces", "cooling"):
        assert f'id="{key}"' in document
    assert document.count("<svg") == document.count("</svg>") >= 8


@pytest.mark.parametrize("name", ["czech", "undecided", "large", "decomposable", "wide"])
def test_nothing_overflows_sideways(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    (tmp_path / "page.html").write_text(render(request.getfixturevalue(name)), encoding="utf-8")
    (tmp_path / "measure.html").write_text(MEASURE.replace("WIDTHS", str(list(WIDTHS))), encoding="utf-8")
    more = ("--allow-file-access-from-files", "--virtual-time-budget=5000", "--window-size=1600,1000")
    document = dumped(tmp_path / "measure.html", tmp_path / "profile", *more)
    found = re.search(r'<pre id="said">(.*?)</pre>', document)
    assert found is not None
    fits = {"scroll": 0, "out": 0, "clipped": [], "spilt": 0}
    assert json.loads(found[1]) == {str(width): fits for width in WIDTHS}


def printed(text: str, folder: Path) -> list[bytes]:
    """What is drawn on each printed page."""
    (folder / "page.html").write_text(text, encoding="utf-8")
    pdf, page = folder / "page.pdf", folder / "page.html"
    browsed(f"--user-data-dir={folder / 'profile'}", f"--print-to-pdf={pdf}", page.as_uri())
    content = pdf.read_bytes()
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
def test_prints_on_few_pages(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    text = render(request.getfixturevalue(name))
    few = len(printed(text, tmp_path))
    assert 4 <= few <= 16
    assert len(printed(text.replace('id="print-all"', 'id="print-all" checked'), tmp_path)) > few


@pytest.mark.parametrize("name", ["czech", "large"])
def test_first_page_is_two_at_most(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    text = only(render(request.getfixturevalue(name)), '<section id="first">', "</tbody></table>\n</section>")
    assert 1 <= len(printed(text, tmp_path)) <= 2


def test_headers_are_printed_again_on_every_page(large: Evidence, tmp_path: Path) -> None:
    # nothing else on the page has the colour
    style = "thead th { color: rgb(255, 0, 255) }"
    pages = printed(only(render(large), '<table class="search" id="cell-table">', "</table>", style), tmp_path)
    assert len(pages) > 5
    assert all(b"1 0 1 rg" in page for page in pages)


SEARCHED = """<script>
const box = document.querySelector("#added").closest(".wide").previousElementSibling.querySelector("input");
box.value = "AGE race";
box.dispatchEvent(new Event("input"));
</script>"""


def test_search_keeps_the_rows_with_all_words(large: Evidence, tmp_path: Path) -> None:
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", render(large)) + SEARCHED
    (tmp_path / "page.html").write_text(text, encoding="utf-8")
    table = dumped(tmp_path / "page.html", tmp_path / "profile").split('id="added"', 1)
    rows = re.findall(
        r"<tr( hidden=\"\")?>(.*?)</tr>", table[1].split("<tbody>", 1)[1].split("</tbody>", 1)[0], re.DOTALL
    )
    kept = [row for hidden, row in rows if not hidden]
    assert 0 < len(kept) < len(rows)
    assert all(("age" in row and "race" in row) == (not hidden) for hidden, row in rows)
    assert f"{len(kept)} of {len(rows)} rows" in table[0]
