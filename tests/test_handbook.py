"""The handbook: every snippet in it runs and prints what it says, and the page is read in a real browser."""

from __future__ import annotations

import doctest
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from playwright.sync_api import ConsoleMessage, Page, sync_playwright

import sdc
from sdc.cli import app
from sdc.config_reference import reference
from sdc.handbook import Snippet, chapters, handbook, snippets

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
CZECH = Path(__file__).parents[1] / "configs" / "czech_auto_workers.csv"
KINDS = {"console", "pycon", "sh", "yaml", "csv"}
SDC = f'sdc() {{ "{sys.executable}" -c "from sdc.cli import main; main()" "$@"; }}\n'


@pytest.fixture(scope="module")
def page() -> str:
    return handbook(typer.main.get_command(app))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where all chapters are tried, one after the other, as a reader would."""
    place = tmp_path_factory.mktemp("reader")
    shutil.copy(CZECH, place)
    before = Path.cwd()
    os.chdir(place)
    yield place
    os.chdir(before)


def matches(expected: str, found: str) -> bool:
    """Line by line; `...` alone stands for any lines, within a line for any text."""
    pattern = ""
    for line in expected.splitlines():
        pattern += r"(?:.*\n)*" if line == "..." else re.escape(line).replace(r"\.\.\.", ".*") + r"\n"
    return re.fullmatch(pattern, found if found.endswith("\n") or not found else f"{found}\n") is not None


def test_a_pattern_can_fail() -> None:
    assert matches("a\n...\nb", "a\nx\ny\nb\n")
    assert matches("a...c", "abbc\n")
    assert not matches("a\nb", "a\n")
    assert not matches("a", "a\nb\n")


def run_console(text: str, place: Path) -> None:
    """Each command, with the status that it says, prints what follows it."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, expected = part.partition("\n")
        status = re.search(r"# status (\d)$", command)
        done = subprocess.run(["bash", "-c", SDC + command], cwd=place, capture_output=True, text=True)
        assert done.returncode == (int(status[1]) if status else 0), (command, done.stdout, done.stderr[-2000:])
        assert matches(expected, done.stdout), (command, done.stdout)


def run_sh(text: str, place: Path) -> None:
    """In a folder with a release that is signed, and the agency's key."""
    key = Ed25519PrivateKey.generate()
    (place / "key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    config = (place / "workers.yaml").read_text().replace("publication:", "publication:\n  signing_key: key.pem")
    (place / "signed.yaml").write_text(config.replace("name: workers", "name: signed"))
    run_console("$ sdc run signed.yaml\n...\n", place)
    (release,) = place.glob("runs/signed/*/release")
    shutil.copytree(release, place / "release")
    shutil.copy(release / "SHA256SUMS.pub", place / "release" / "agency.pem")
    done = subprocess.run(["bash", "-ec", text], cwd=place, capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert "Signature Verified Successfully" in done.stdout + done.stderr


def run_pycon(text: str) -> None:
    test = doctest.DocTestParser().get_doctest(text, {}, "handbook", None, 0)
    assert test.examples
    assert doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test).failed == 0


@pytest.mark.parametrize("name", [name for name, _ in chapters()])
def test_every_snippet_runs(name: str, folder: Path) -> None:
    for one in snippets(dict(chapters())[name]):
        assert one.kind in KINDS, one
        if one.kind in ("yaml", "csv"):
            (folder / one.name).write_text(one.text)
        elif one.kind == "console":
            run_console(one.text, folder)
        elif one.kind == "sh":
            run_sh(one.text, folder)
        else:
            run_pycon(one.text)


def test_each_chapter_has_something_to_run() -> None:
    found: dict[str, list[Snippet]] = {name: list(snippets(text)) for name, text in chapters()}
    assert len(found) == 7
    assert all(any(one.kind == "console" for one in own) for own in found.values())


def test_the_page_has_all_of_it(page: str) -> None:
    commands = re.findall(r'id="sdc-([a-z]+)"', page)
    assert commands == list(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
    assert re.findall(r'id="verb-(\w+)"', page) == list(sdc.__all__)
    assert page.count('id="key-') == len(list(reference()))
    assert "<!--" not in page
    assert not re.search(r'(src|href)="(?!#)', page)
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(re.findall(r'id="([^"]+)"', page))
    assert page == handbook(typer.main.get_command(app))
    assert "/home/" not in page
    assert " at 0x" not in page


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium or google-chrome on this machine")
def test_the_page_in_a_browser(page: str, tmp_path: Path) -> None:
    (tmp_path / "handbook.html").write_text(page, encoding="utf-8")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        tab, said = browser.new_page(viewport={"width": 320, "height": 640}), list[str]()

        def note(message: ConsoleMessage) -> None:
            said.append(message.text)

        tab.on("console", note)
        tab.goto((tmp_path / "handbook.html").as_uri())
        assert tab.evaluate("document.documentElement.scrollWidth") <= 320
        keyboard(tab)
        assert len(tab.pdf()) > 50_000
        assert said == []
        browser.close()


def keyboard(tab: Page) -> None:
    """The contents are reached and followed without a mouse."""
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.getAttribute('href')").startswith("#a-first-release")
    for _ in range(6):
        tab.keyboard.press("Tab")
    tab.keyboard.press("Enter")
    assert tab.url.endswith("#for-auditors")
    assert tab.evaluate("document.querySelector('#for-auditors').getBoundingClientRect().top") < 40
