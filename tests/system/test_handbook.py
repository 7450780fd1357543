"""The handbook: its snippets run and print what it says, and its page is read by a full parser and in a browser."""

import doctest
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from glob import glob
from html.parser import HTMLParser
from itertools import chain
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from markdown_it import MarkdownIt
from playwright.sync_api import ConsoleMessage, Page, sync_playwright

from sdc.handbook import pages
from sdc.handbook.markdown import html, snippets
from tests.helpers.console import Console
from tests.integration.test_handbook import COMMANDS, ROOT, check_part, matches, whole
from tests.profiles import scaled

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
CZECH = ROOT / "configs" / "czech_auto_workers.csv"
WITH_WORKERS = {name for name, one in COMMANDS.items() if any(option.name == "workers" for option in one.params)}
AS_WRITTEN = ("clusters.md",)  # the build of the README is one with workers
FOLDERS = {"tutorial.md": "tutorial", "year.md": "tutorial"}  # in a folder of their own, as they say
AFTER = {"year.md": "tutorial.md"} | dict.fromkeys(
    ["ledger.md", "attack.md", "run_folder.md", "auditors.md", "proofs.md", "execution.md"], "first_release.md"
)
"""Pages that begin with the folder as another leaves it."""
IN_THE_NIGHT = scaled(100) == 100
PERFORMED = ("backup.md", "night.md")
MANY_DRAWS = "simulatable_release(table, nothing, min_width=6)"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where all pages are tried, one after the other, as a reader would."""
    place = tmp_path_factory.mktemp("reader")
    shutil.copy(CZECH, place)
    before = Path.cwd()
    os.chdir(place)
    yield place
    os.chdir(before)


def run_console(text: str, place: Path, console: Console, *, as_written: bool = False) -> None:
    """Each command, with the status that it says, prints what follows it; names are found as by a shell.

    Workers are started in the night, and in CI for what is to be run as it is written; what is printed is the same.
    """
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, expected = part.partition("\n")
        status = re.search(r"# status (\d)$", command)
        name, *words = shlex.split(command, comments=True)
        assert name == "sdc", command
        found = [sorted(glob(word, root_dir=place)) or [word] for word in words]
        more = [] if as_written or IN_THE_NIGHT or words[0] not in WITH_WORKERS else ["--workers", "1"]
        said = console(*chain.from_iterable(found), *more, place=place)
        assert said.status == (int(status[1]) if status else 0), (command, said.out, said.err[-2000:])
        assert matches(expected, said.out), (command, said.out)


def run_sh(text: str, place: Path, console: Console) -> None:
    """In a folder with a release that is signed, and the agency's key."""
    key = Ed25519PrivateKey.generate()
    (place / "key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    config = (place / "workers.yaml").read_text().replace("publication:", "publication:\n  signing_key: key.pem")
    (place / "signed.yaml").write_text(config.replace("name: workers", "name: signed"))
    run_console("$ sdc run signed.yaml\n...\n", place, console)
    (release,) = place.glob("runs/signed/*/release")
    shutil.copytree(release, place / "release")
    shutil.copy(release / "SHA256SUMS.pub", place / "agency.pem")
    run_shell(text, place)


def run_shell(text: str, place: Path) -> None:
    done = subprocess.run(["bash", "-ec", text], cwd=place, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, (done.stdout, done.stderr)


def run_pycon(text: str) -> None:
    """In CI with fewer draws: what is printed of them is left open."""
    if not IN_THE_NIGHT:
        text = text.replace(MANY_DRAWS, f"{MANY_DRAWS.removesuffix(')')}, draws=10)")
    test = doctest.DocTestParser().get_doctest(text, {}, "handbook", None, 0)
    assert test.examples
    assert doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test).failed == 0


@pytest.mark.parametrize("name", [name for name, _ in pages()])
def test_every_snippet_runs(name: str, folder: Path, console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each page by itself, or after the page that it continues."""
    if (first := AFTER.get(name)) is not None:
        perform(first, folder, console, monkeypatch)
    perform(name, folder, console, monkeypatch)


def perform(name: str, folder: Path, console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    done = folder / f".{name}"
    if done.exists():
        return
    place = folder / FOLDERS.get(name, "")
    place.mkdir(exist_ok=True)
    monkeypatch.chdir(place)
    for one in snippets(dict(pages())[name]):
        if one.name:
            (place / one.name).parent.mkdir(exist_ok=True)
            (place / one.name).write_text(one.text)
        elif one.kind == "yaml":
            check_part(one.text)
        elif one.kind in ("console", "sh") and name in PERFORMED:
            continue  # performed by tests/system/test_operations.py, where there are servers
        elif one.kind == "console":
            run_console(one.text, place, console, as_written=name in AS_WRITTEN)
        elif one.kind == "sh" and name == "auditors.md":
            run_sh(one.text, place, console)
        elif one.kind == "sh":
            run_shell(one.text, place)
        elif one.kind == "pycon":
            run_pycon(one.text)
        elif one.kind == "python":
            assert name == "pxwebapi.md"  # its calls are those of tests/system/server/test_pxweb.py
        elif one.kind == "sql":
            assert name == "server.md"  # asked of a history by tests/integration/server/test_views.py
        elif one.kind == "nginx":
            assert name == "server.md"  # served behind by tests/system/server/test_proxy.py
        else:
            assert not one.kind, one  # a drawing
    done.touch()


class Events(HTMLParser):
    """Tags, links and words of a text in HTML, without what only our own has: anchors, and what can be scrolled."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("div", "span"):
            self.found += [f"<{tag}>", *(str(value) for name, value in attrs if name == "href")]

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("div", "span"):
            self.found.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        self.found += data.split()


@pytest.mark.parametrize("name", [name for name, _ in pages()])
def test_pages_are_read_as_a_full_parser_reads_them(name: str) -> None:
    text = dict(pages())[name].partition("\n")[2]
    expected = re.sub(r"<(/?)h(\d)>", lambda m: f"<{m[1]}h{int(m[2]) + 1}>", library(text))
    own = re.sub(r'<span class="file">.*?</span>', "", html(text, "page"))
    assert Events(own).found == Events(expected).found


def library(text: str) -> str:
    text = re.sub(r"\]\((\w+)\.md\)", r"](#\1)", text)
    return str(MarkdownIt("commonmark").enable("table").render(text))


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium or google-chrome on this machine")
def test_the_page_in_a_browser(tmp_path: Path) -> None:
    (tmp_path / "handbook.html").write_text(whole(), encoding="utf-8")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        tab, said = browser.new_page(viewport={"width": 320, "height": 640}), list[str]()

        def note(message: ConsoleMessage) -> None:
            said.append(message.text)

        tab.on("console", note)
        tab.goto((tmp_path / "handbook.html").as_uri())
        assert tab.evaluate("document.documentElement.scrollWidth") <= 320
        searching(tab)
        keyboard(tab)
        assert len(tab.pdf()) > 50_000
        assert said == []
        browser.close()


FIRST = {
    "primary suppression": "words-primary-suppression",
    "secondary suppression": "protect-primary-and-secondary-suppression",
    "threshold": "criteria-minimum-frequency-threshold-rule",
    "minimum frequency": "criteria-minimum-frequency-threshold-rule",
    "next year": "year-january-next-year-s-edition",
    "special table": "year-june-a-second-request-a-special-table",
    "yearbook": "yearbook",
    "table refused": "why",
    "auditors": "auditors",
    "correction": "year-october-a-correction",
    "linked tables": "words-linked-tables",
    "singleton": "words-singleton",
    "p percent": "magnitude-dominance-and-the-p-percent-rule",
    "dominance": "magnitude-dominance-and-the-p-percent-rule",
    "global recoding": "recodes",
    "table redesign": "why-table-redesign-publish-it-in-another-form",
    "controlled rounding": "words-controlled-rounding",
    "l-diversity": "criteria-attribute-disclosure-groups-l-diversity",
    "differential privacy": "comparison",
    "cell key": "words-cell-key",
    "structural zeros": "hierarchies-structural-zeros",
    "survey weights": "weights",
    "choosing a width": "width",
    "signature": "publishing-the-signature",
    "differencing": "words-differencing",
}
"""Words of the trade, and the part of the handbook that the search lists first."""
PART = """id => {
    const at = document.getElementById(id), first = at.tagName === "SECTION" ? at.querySelector("h2") : at;
    let text = first.textContent, next = at.tagName === "TR" ? null : first.nextElementSibling;
    for (; next && !/^H[234]$/.test(next.tagName); next = next.nextElementSibling) text += " " + next.textContent;
    return text.toLowerCase();
}"""
FOUND = "[...document.querySelectorAll('#search-found a')].map(link => link.getAttribute('href').slice(1))"


def searching(tab: Page) -> None:
    """What is typed is found in every part that has it, in headings first, and followed without a mouse."""
    tab.locator("#search-words").focus()
    for typed, first in (
        ("reconstruction attack", "attack"),
        ("sdc.attack", "verb-attack"),
        ("attack.seeds", "key-attack.seeds"),
        ("SDC uniques table", "sdc-uniques"),
        *FIRST.items(),
    ):
        tab.locator("#search-words").fill(typed)
        found = tab.evaluate(FOUND)
        assert found[0] == first, (typed, found)
        for place in found:
            part = tab.evaluate(PART, place)
            assert all(word in part for word in typed.lower().split()), place
        assert tab.evaluate("document.documentElement.scrollWidth") <= 320
    tab.locator("#search-words").fill("<b>nowhere</b>")
    assert tab.locator("#search-said").inner_text() == "No part has <b>nowhere</b>."
    assert tab.evaluate(FOUND) == []
    tab.locator("#search-words").fill("width")
    assert "parts have width, the first 20:" in tab.locator("#search-said").inner_text()
    assert len(tab.evaluate(FOUND)) == 20
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.closest('#search-found') !== null")
    tab.keyboard.press("Enter")
    target = tab.evaluate(FOUND)[0]
    tab.wait_for_url(lambda url: url.endswith(target))
    tab.locator("#search-words").fill("")
    assert (tab.evaluate(FOUND), tab.locator("#search-said").inner_text()) == ([], "")
    tab.locator("#search-words").focus()


def keyboard(tab: Page) -> None:
    """The contents are reached and followed without a mouse, after the search."""
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.getAttribute('href')") == "#tutorial"
    while tab.evaluate("document.activeElement.getAttribute('href')") != "#auditors":
        tab.keyboard.press("Tab")
        assert tab.evaluate("document.activeElement.closest('nav') !== null")
    tab.keyboard.press("Enter")
    assert tab.url.endswith("#auditors")
    assert tab.evaluate("document.querySelector('#auditors').getBoundingClientRect().top") < 40
