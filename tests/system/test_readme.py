"""The README: its build and its tests print what it shows."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sdc.handbook.markdown import snippets
from tests.helpers.console import Console
from tests.integration.test_handbook import ROOT, WRITTEN, matches

SDC = f'sdc() {{ "{sys.executable}" -c "from sdc.commands.cli import main; main()" "$@"; }}\n'


def shown() -> list[tuple[str, str]]:
    """Commands with what they are said to print."""
    parts = [one for one in snippets(WRITTEN["README.md"]) if one.kind in ("bash", "text")]
    assert [one.kind for one in parts] == ["bash", "text"] * 2
    return [(one.text.strip(), other.text) for one, other in zip(parts[::2], parts[1::2], strict=True)]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where the configs are."""
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    return tmp_path


def test_its_build_prints_what_it_shows(place: Path, console: Console) -> None:
    command, expected = shown()[0]
    name, *words = shlex.split(command.partition(" && ")[2])
    assert name == "sdc"
    done = console(*words, place=place)
    assert done.status == 0, done.err
    assert matches(expected, done.err + done.out), (done.err, done.out)
    (run,) = place.glob("runs/population/*")
    assert (run / "release").is_dir()


def test_its_tests_print_what_it_shows(tmp_path: Path) -> None:
    """Of two tests, one of which has no data; how a run of all ends is the same."""
    (tmp_path / "test_two.py").write_text(
        "import pytest\n\n\ndef test_one(): pass\n\n\ndef test_other(): pytest.skip('not here')\n"
    )
    command, expected = shown()[1]
    words = command.partition(" && ")[2].split()
    assert words[:3] == ["python", "-m", "pytest"]
    options = ["-c", str(ROOT / "pyproject.toml"), "-n", "0", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, tmp_path], cwd=ROOT, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stdout
    assert matches(expected, re.sub("={4,}", "====", done.stdout)), done.stdout
