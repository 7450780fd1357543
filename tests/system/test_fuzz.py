"""A share of tests/fuzz.py: hostile configs, command lines and tables are one message and a status each."""

import subprocess
import sys

import pytest

from tests.helpers.kept import ROOT
from tests.profiles import scaled

CASES = {"config": scaled(64, fewest=8), "command": scaled(80, fewest=10), "table": scaled(32, fewest=4)}


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "cases"), CASES.items())
def test_hostile_input_is_one_message_and_leaves_nothing(kind: str, cases: int, night: list[int]) -> None:
    command = [sys.executable, "-m", "tests.fuzz", kind, str(cases), " ".join(map(str, night))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{cases} cases, by status" in done.stdout
