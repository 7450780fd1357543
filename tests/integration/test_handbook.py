"""The handbook and the README: what they name is there, and the page of the handbook has all of it."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

import sdc
from sdc.commands.cli import app
from sdc.commands.options import PANELS
from sdc.config.build import BuildConfig
from sdc.config.reference import reference
from sdc.handbook import PARTS, handbook, pages
from sdc.handbook.lists import lists
from sdc.handbook.markdown import snippets

ROOT = Path(__file__).parents[2]
COMMANDS: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def page() -> str:
    return whole()


def whole() -> str:
    return handbook(lists(typer.main.get_command(app)))


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


def check_part(text: str) -> None:
    """What is said of a part of a config is what a config may have."""
    whole = {"name": "part", "table": {"path": "t.csv"}, "risk": {"min_width": 3}}
    BuildConfig.model_validate({**whole, **yaml.safe_load(text)})


def test_commands_on_their_page() -> None:
    text = dict(pages())["use.md"]
    parts = re.split(r"^## (.*)\n", text.partition("\n## Output")[0], flags=re.MULTILINE)[1:]
    assert parts[::2] == [panel.partition(" (")[0] for panel in PANELS]
    for panel, part in zip(PANELS, parts[1::2], strict=True):
        expected = [name for name, command in COMMANDS.items() if command.rich_help_panel == panel]
        assert re.findall(r"^\| `sdc (\w+)", part, re.MULTILINE) == expected


def test_verbs_on_their_page() -> None:
    text = dict(pages())["python_names.md"].partition("\n## ")[0]
    rows = re.findall(r"^\| (.*?) \|", text, re.MULTILINE)
    assert sorted(re.findall(r"`sdc\.(\w+)`", " ".join(rows))) == sorted(sdc.__all__)


WRITTEN = {path.name: path.read_text() for path in sorted(ROOT.glob("*.md"))}
WRITTEN |= {f"sdc/handbook/{name}": text for name, text in pages()}
IN_CODE = re.compile(r"`([^`\n]+)`")


@pytest.mark.parametrize("name", WRITTEN)
def test_what_is_named_is_there(name: str) -> None:
    """Where links lead, files, tests, commands and their options."""
    text, options = WRITTEN[name], {o for one in COMMANDS.values() for p in one.params for o in p.opts} | {"--help"}
    for to in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.DOTALL)):
        assert ((ROOT / name).parent / to).is_file(), to
    for said in IN_CODE.findall(text):
        if re.fullmatch(r"(?:sdc|flows|tests|cluster|configs)/[\w./-]*", said):
            assert any((place / said).exists() for place in (ROOT, *TIERS)), said
        if re.fullmatch(r"test_\w+", said):
            assert said in TESTS, said
        if command := re.match(r"sdc ([a-z]+)\b", said):
            assert command[1] in COMMANDS, said
            assert {*re.findall(r"(?<!\S)--[a-z-]+", said)} <= options, said


TIERS = [ROOT / "tests" / tier for tier in ("unit", "integration", "system")]
TESTS = {test for path in (ROOT / "tests").rglob("*.py") for test in re.findall(r"def (test_\w+)", path.read_text())}


def test_the_readme_is_short_leads_to_every_part_and_shows_a_config() -> None:
    text = WRITTEN["README.md"]
    assert len(text.encode()) <= 8000
    linked = {*re.findall(r"\(sdc/handbook/(\w+)\.md\)", text)}
    assert [part for part, names in PARTS.items() if not linked & {*names.split()}] == []
    (config,) = (one.text for one in snippets(text) if one.kind == "yaml")
    BuildConfig.model_validate(yaml.safe_load(config))


def test_each_page_is_in_one_part() -> None:
    listed = [name for names in PARTS.values() for name in names.split()]
    assert sorted(listed) == sorted(path.stem for path in (ROOT / "sdc" / "handbook").glob("*.md"))
    assert list(PARTS) == ["Tutorial", "How-to guides", "Reference", "Explanation"]


def test_a_file_that_two_pages_name_is_the_same() -> None:
    """Otherwise what a page prints would depend on which pages were tried before it."""
    texts: dict[str, str] = {}
    for page, text in pages():
        for one in snippets(text):
            if one.name:
                assert texts.setdefault(one.name, one.text) == one.text, (page, one.name)


def test_the_page_has_all_of_it(page: str) -> None:
    commands = re.findall(r'id="sdc-([a-z]+)"', page)
    assert commands == list(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
    assert re.findall(r'id="verb-(\w+)"', page) == list(sdc.__all__)
    assert page.count('id="key-') == len(list(reference()))
    assert "<!--" not in page
    assert not re.search(r'(src|href)="(?!#)', page)
    anchors = re.findall(r'id="([^"]+)"', page)
    assert len(anchors) == len(set(anchors))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(anchors)
    assert page == whole()
    assert "/home/" not in page
    assert " at 0x" not in page


def test_papers_that_are_named_are_listed(page: str) -> None:
    listed = re.findall(r"<strong>\[([A-Z]+)\]</strong>", page)
    assert {"KDSF", "DKS", "DFT", "CACM"} <= {*listed}
    assert {*re.findall(r"\[(KDSF|DKS|DFT|CACM|DF)\]", page)} <= {*listed}


def test_without_an_install() -> None:
    """From a clone, by Python alone: no package can be imported, and each page is there."""
    done = subprocess.run([sys.executable, "-S", "-E", "-m", "sdc.handbook"], cwd=ROOT, capture_output=True, check=True)
    assert done.stdout.decode() == handbook()
    assert done.stdout.count(b"<section") == len(pages())
    with pytest.raises(subprocess.CalledProcessError):
        subprocess.run([sys.executable, "-S", "-E", "-c", "import typer"], cwd=ROOT, capture_output=True, check=True)
