"""Processes around reading: `sdc init` at a terminal, and the reader's child when its parent is killed."""

from __future__ import annotations

import os
import pickle
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from sdc.data.source import open_source

TIMEOUT = 900


def test_it_asks_at_a_terminal_alone(tmp_path: Path) -> None:
    rng = random.Random(5)
    file = tmp_path / "coded.csv"
    rows = (f"{rng.choice([3, *range(40, 440, 10)])},{rng.choice('mf')}\n" for _ in range(900))
    file.write_text("q7,sex\n" + "".join(rows))
    command = [sys.executable, "-m", "sdc.commands.cli", "init", str(file)]
    alone = subprocess.run(command, input="y\n", capture_output=True, text=True, check=True, timeout=TIMEOUT)
    assert "taken for codes; if they are amounts, bin them" in alone.stderr
    assert '"bins"' not in alone.stdout
    ours, its = os.openpty()
    os.write(ours, b"y\n")
    asked = subprocess.run(command, stdin=its, capture_output=True, text=True, check=True, timeout=TIMEOUT)
    assert "q7: 41 whole numbers. Are they amounts, to be binned, and no codes? [y/N]" in asked.stderr
    assert '"bins"' in asked.stdout
    os.close(ours)
    os.close(its)


@pytest.mark.parametrize("ended", [signal.SIGKILL, signal.SIGTERM])
def test_it_ends_with_its_parent_however_that_ends(ended: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"a\nx\ny\n")
    (part,) = open_source(tmp_path / "t.csv").parts
    code = (
        "import pickle, sys; from sdc.data.reader import READER; from tests.unit.data.test_reader import *\n"
        "part = pickle.load(sys.stdin.buffer)\n"
        "print(READER.run(process_of, part), flush=True)\n"
        "READER.run(sleep, part)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Path(__file__).parents[3]
    ) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        parent.stdin.write(pickle.dumps(part))
        parent.stdin.close()
        child = psutil.Process(int(parent.stdout.readline()))
        time.sleep(0.2)  # it is asked to sleep by now
        parent.send_signal(ended)
    child.wait(600)
