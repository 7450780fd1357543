"""A share of tests/fuzz.py: hostile configs, command lines and tables are one message and a status each."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.profiles import scaled

ROOT = Path(__file__).parents[2]
CASES = {"config": scaled(16, fewest=8), "command": scaled(20, fewest=10), "table": scaled(8, fewest=4)}


@pytest.mark.slow
def test_hostile_input_is_one_message_and_leaves_nothing() -> None:
    command = [sys.executable, "-m", "tests.fuzz", *map(str, CASES.values())]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    for kind, cases in CASES.items():
        assert re.search(rf"^{kind} +{cases} cases in ", done.stdout, re.MULTILINE), done.stdout
