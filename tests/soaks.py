"""Soaks: long tests of kills and full disks, run by the nightly command and wherever their code has changed.

A soak that has passed is left out until the code that it tries is another; where nothing is known of it, it is run.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.kept import ROOT, kept_folder

PATTERNS = (
    "cluster/*.yaml",
    "constraints.txt",
    "flows/*.py",
    "sdc/build/*.py",
    "sdc/execution/*.py",
    "sdc/executor.py",
    "sdc/storage/*.py",
    "tests/faults/*.py",
    "tests/flows/*.py",
)
"""What soaks try: the parts that write, lose and take up again."""


def code_tried() -> list[Path]:
    return sorted(path for pattern in PATTERNS for path in ROOT.glob(pattern))


def add_option(parser: pytest.Parser) -> None:
    parser.addoption(
        "--soaks",
        choices=("changed", "always"),
        default="changed",
        help="changed: those that have not passed with this code; single files are tested with all of theirs",
    )


class Soaks:
    """Leaves out those that have passed, and notes those that pass."""

    def __init__(self, config: pytest.Config) -> None:
        self._passed = kept_folder("soaks", code_tried()) / "passed"
        self._all = config.getoption("soaks") == "always" or not any(Path(a).is_dir() for a in config.args)

    def pytest_collection_modifyitems(self, items: list[pytest.Item], config: pytest.Config) -> None:
        known = self._passed.read_text().splitlines() if self._passed.exists() and not self._all else ()
        left_out = [item for item in items if item.get_closest_marker("soak") and item.nodeid in known]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        of_a_soak = "soak" in report.keywords and report.when == "call"
        if of_a_soak and report.passed and "PYTEST_XDIST_WORKER" not in os.environ:  # workers report to this process
            with self._passed.open("a") as file:
                file.write(f"{report.nodeid}\n")
