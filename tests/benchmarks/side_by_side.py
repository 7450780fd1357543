"""What the benchmarks share: data files, clocks for rivals in turn, children with a limit, tables on stdout."""

from __future__ import annotations

import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

Result = TypeVar("Result")
ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("SDC_DATA_DIR", ROOT / "../shared/data")).resolve()


def data_file(name: str) -> Path:
    """Path of a public data file; ends the benchmark with one sentence where it is absent."""
    if not (DATA / name).is_file():
        sys.exit(f"public data file {name} is not in {DATA}; set SDC_DATA_DIR to the folder that has it")
    return DATA / name


def require(*packages: str) -> None:
    """Ends the benchmark with one sentence where a rival is not installed."""
    if missing := [name for name in packages if find_spec(name) is None]:
        sys.exit(f"{', '.join(missing)} not installed; run: python -m pip install -c constraints.txt '.[bench]'")


# Time


def seconds(work: Callable[[], Any]) -> float:
    """Wall time of one call."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def timed(work: Callable[[], Result]) -> tuple[Result, float, float]:
    """Result of one call, its wall time, and the processor time of this process and of children that ended."""
    begun, before = time.perf_counter(), _processor()
    result = work()
    return result, time.perf_counter() - begun, _processor() - before


def _processor() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def in_turn(rounds: int, *works: Callable[[], Any]) -> list[list[float]]:
    """Wall times of each; they take turns, so that a busy machine slows them alike."""
    times = [[seconds(work) for work in works] for _ in range(rounds)]
    return [list(column) for column in zip(*times, strict=True)]


def medians(rounds: int, *works: Callable[[], Any]) -> list[float]:
    """Median wall time of each, in turn."""
    return [statistics.median(times) for times in in_turn(rounds, *works)]


@contextmanager
def one_core() -> Iterator[str]:
    """Pins this process to the last core that it was given, where the system can; says what it did.

    Of two at once each is to be given its own, or they share the last: `taskset -c 0 python tests/benchmarks/...`.
    """
    if not hasattr(os, "sched_setaffinity"):
        yield "not pinned to a core: this system cannot"
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield f"pinned to core {max(before)}"
    finally:
        os.sched_setaffinity(0, before)


def machine() -> str:
    """Cores and load: how far wall times can be trusted."""
    return f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"


# Children


def in_child(work: Callable[..., Any], *arguments: Any, limit: float) -> Any:
    """Result of the call in a fresh process, None where it takes longer than `limit` seconds."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=partial(_answer, theirs, work, *arguments))
    child.start()
    theirs.close()
    try:
        return ours.recv() if ours.poll(limit) else None
    except EOFError:
        sys.exit(f"{work.__name__} failed in its process, see above")
    finally:
        child.terminate()
        child.join()


def _answer(pipe: Connection, work: Callable[..., Any], *arguments: Any) -> None:
    pipe.send(work(*arguments))


def peak_mib() -> float:
    """Largest resident memory of this process in MiB.

    From the memory itself where the system tells: ru_maxrss of a child starts at its parent's.
    """
    status = Path("/proc/self/status")
    if status.exists():
        return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM")) / 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)


# Output


def check(holds: bool, what: str) -> None:
    """Ends the benchmark where rivals disagree: then they did not do the same work."""
    if not holds:
        sys.exit(f"NOT EQUAL: {what}; the times above compare different work")


def say(text: str) -> None:
    print(text, flush=True)


def show(title: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table: the first column to the left, the others to the right."""
    cells = [list(header), *([_text(value) for value in row] for row in rows)]
    sizes = [max(map(len, column)) for column in zip(*cells, strict=True)]
    say(f"\n{title}")
    for row in cells:
        first, *others = (text.rjust(size) for text, size in zip(row, sizes, strict=True))
        say("  " + "  ".join([first.strip().ljust(sizes[0]), *others]).rstrip())


def _text(value: object) -> str:
    return f"{value:,.3f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
