"""Processes around reading: `sdc init` at a terminal, and the reader's child when its parent is killed."""

import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from sdc.config.build import ExecutionConfig
from sdc.data import reading
from sdc.data.reading import read_table
from sdc.data.source import open_source
from sdc.execution.cluster import open_executor

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


def kill_a_worker_that_reads(stop: threading.Event, killed: list[int]) -> None:
    """The first that has a process to read for it."""
    while not stop.wait(0.01) and not killed:
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                worker = process.parent()
                if "child import serve" in " ".join(process.cmdline()) and worker and worker.pid != os.getpid():
                    killed.append(worker.pid)
                    worker.kill()
                    break


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_the_same_table_though_a_worker_is_killed_while_it_reads(workers: int, tmp_path: Path) -> None:
    rng = random.Random(workers)
    for part in range(6):
        rows = (f"{rng.randrange(40)},{rng.choice('mf')},{rng.randrange(part + 2)}\n" for _ in range(60_000))
        (tmp_path / f"{part}.csv").write_text("age,sex,area\n" + "".join(rows))
    expected, killed, stop = read_table(tmp_path), list[int](), threading.Event()
    watch = threading.Thread(target=kill_a_worker_that_reads, args=(stop, killed))
    with open_executor(ExecutionConfig(workers=workers, memory_per_worker="600MiB")) as executor:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(reading, "_PARTS", 1)
            watch.start()
            assert read_table(tmp_path, executor=executor, memory=32 << 20) == expected
        stop.set()
        watch.join()
        assert killed
        assert read_table(tmp_path, executor=executor, memory=32 << 20) == expected
