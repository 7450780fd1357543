"""The README: what fits on it, that its links lead somewhere, and that its commands print what it shows."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from sdc.config.build import BuildConfig
from sdc.handbook import pages
from sdc.handbook.markdown import Snippet, snippets
from tests.helpers.console import Console
from tests.integration.test_handbook import matches

ROOT = Path(__file__).parents[3]
SDC = f'sdc() {{ "{sys.executable}" -c "from sdc.commands.cli import main; main()" "$@"; }}\n'
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
MOST_WORDS = 25  # of a sentence


def shown() -> dict[str, str]:
    """What each command is said to print."""
    parts = [one for one in snippets(TEXT) if one.kind in ("bash", "text")]
    assert [one.kind for one in parts] == ["bash", "text"] * 2
    return {one.text.strip(): other.text for one, other in zip(parts[::2], parts[1::2], strict=True)}


def test_it_is_short_and_says_where_the_rest_is() -> None:
    assert len(TEXT.encode()) <= 8000
    links = re.findall(r"\]\(([^)]+)\)", TEXT)
    assert all((ROOT / link).exists() for link in links)
    assert {f"sdc/handbook/{name}" for name, _ in pages()} <= {*links}


def test_no_sentence_is_long() -> None:
    prose = re.sub(r"```.*?```|<!--.*?-->", "\n\n", TEXT, flags=re.DOTALL)
    lines = [line for line in prose.splitlines() if not line.startswith(("|", "#", "!"))]
    sentences = re.split(r"(?<=[.:?!])\s+|\n\s*\n", re.sub(r"\]\([^)]*\)", "]", "\n".join(lines)))
    assert [one for one in sentences if len(one.replace("·", "").split()) > MOST_WORDS and "·" not in one] == []


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where the configs are."""
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    return tmp_path


def test_its_build_prints_what_it_shows(place: Path, console: Console) -> None:
    (command, expected), _ = shown().items()
    name, *words = shlex.split(command.partition(" && ")[2])
    assert name == "sdc"
    done = console(*words, place=place)
    assert done.status == 0, done.err
    assert matches(expected, done.err + done.out), (done.err, done.out)
    (run,) = place.glob("runs/population/*")
    assert (run / "release").is_dir()


@pytest.mark.slow
def test_its_build_prints_it_in_a_shell(place: Path) -> None:
    (command, expected), _ = shown().items()
    done = subprocess.run(
        ["bash", "-c", SDC + command.partition(" && ")[2]],
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert matches(expected, done.stdout), done.stdout


def test_its_tests_print_what_it_shows(tmp_path: Path) -> None:
    """Of two tests, one of which has no data; how a run of all ends is the same."""
    (tmp_path / "test_two.py").write_text(
        "import pytest\n\n\ndef test_one(): pass\n\n\ndef test_other(): pytest.skip('not here')\n"
    )
    _, (command, expected) = shown().items()
    words = command.partition(" && ")[2].split()
    assert words == ["python", "-m", "pytest"]
    done = subprocess.run(
        [sys.executable, *words[1:], "-c", ROOT / "pyproject.toml", "-n", "0", "-p", "no:cacheprovider", tmp_path],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert matches(expected, re.sub("={4,}", "====", done.stdout)), done.stdout


def test_its_config_is_one() -> None:
    (config,) = (one for one in snippets(TEXT) if one == Snippet("yaml", "", one.text))
    BuildConfig.model_validate(yaml.safe_load(config.text))
