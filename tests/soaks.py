"""Soaks: long tests of kills, full disks, pairs of features, compiling, run in the night and with changed code.

`soaks.txt` has the digest of the code with which all of them have passed in the night. While the code is that one they
are left out; with any other, or without the file, they are run. Tests marked `nightly` are run in the night alone.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kept import ROOT, digest

PATTERNS = (
    "cluster/*.yaml",
    "constraints.txt",
    "flows/*.py",
    "sdc/compiled.py",
    "sdc/config/*.py",
    "sdc/execution/*.py",
    "sdc/executor.py",
    "sdc/handbook/19_operations.md",
    "sdc/ingest/*.py",
    "sdc/public/earlier.py",
    "sdc/publish/*.py",
    "sdc/record/*.py",
    "sdc/refusal.py",
    "sdc/search/*.py",
    "sdc/server/*/*.py",
    "sdc/stages/*.py",
    "sdc/storage/*.py",
    "tests/capability_cases.py",
    "tests/execution/*.py",
    "tests/faults/*.py",
    "tests/flows/*.py",
    "tests/listening.py",
    "tests/prefect_home.py",
    "tests/server/databases.py",
    "tests/slurm.py",
    "tests/stages/test_build.py",
    "tests/stages/test_sharp.py",
    "tests/stages/test_warm.py",
    "tests/test_capabilities.py",
    "tests/test_operations.py",
)
"""What soaks try: the parts that write, lose, end and take up again, and those that say what works with what."""

RECORD = Path(__file__).with_suffix(".txt")


def code_tried() -> list[Path]:
    return sorted(path for pattern in PATTERNS for path in ROOT.glob(pattern))


def have_passed() -> bool:
    """Whether the record is of the code as it is."""
    return RECORD.exists() and RECORD.read_text().strip() == digest(code_tried())


def note_that_they_passed() -> None:
    RECORD.write_text(f"{digest(code_tried())}\n")


def add_option(parser: pytest.Parser) -> None:
    parser.addoption(
        "--soaks",
        choices=("changed", "always"),
        default="changed",
        help="changed: where their code is not that of tests/soaks.txt; single files are tested with all of theirs",
    )


def leave_out(items: list[pytest.Item], config: pytest.Config) -> None:
    """Takes the night's tests from what is collected of folders, and soaks that have passed with this code."""
    if config.getoption("soaks") == "always" or not any(Path(a).is_dir() for a in config.args):
        return
    marks = ("soak", "nightly") if have_passed() else ("nightly",)
    left_out = [item for item in items if any(item.get_closest_marker(mark) for mark in marks)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]
