"""What every benchmark uses: data files, clocks that take turns, child processes, and the rows of the result."""

import os
import pickle
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("SDC_DATA_DIR", ROOT / "../shared/data")).resolve()
INSTALL = "python -m pip install -c constraints.txt '.[bench]'"
LIBRARIES = "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS", "NUMBA_NUM_THREADS"


class DifferentAnswersError(Exception):
    """Ours and a rival's answer differ, so their times do not compare the same work."""


@dataclass(frozen=True)
class Row:
    """One line of the table.

    job     what is computed, of which table
    rival   the other program or method
    ours    seconds of each round, or seconds a unit
    theirs  the same of the rival; round by round they took turns
    unit    of what the seconds are, such as "a cell"; empty for the whole job
    limit   the share of a measured limit of the machine
    note    what is timed, and how the answers were compared
    stopped ours was stopped after these seconds, unfinished; there is no answer to compare then
    """

    job: str
    rival: str
    ours: Sequence[float]
    theirs: Sequence[float]
    unit: str = ""
    limit: str = ""
    note: str = ""
    stopped: bool = False

    @property
    def ratios(self) -> list[float]:
        """How many times as long the rival takes, round by round."""
        return [theirs / ours for ours, theirs in zip(self.ours, self.theirs, strict=True)]


@dataclass(frozen=True)
class NotMeasured:
    """A line that could not be measured here, and why."""

    job: str
    rival: str
    reason: str


@dataclass(frozen=True)
class Limits:
    """What the machine can do, measured in the same run.

    copy       bytes read and written a second when arrays are copied, by one process and by two at once
    additions  additions of numbers in the cache a second, by one process
    scaling    how many times as many additions two processes do as one
    """

    copy: tuple[float, float]
    additions: float
    scaling: float

    def share_of_copy(self, moved: float, seconds: Sequence[float], processes: int = 1) -> str:
        """The share for so many bytes that a job must at least read or write."""
        return f"{percent(moved / statistics.median(seconds) / self.copy[processes - 1])} of memory bandwidth"

    def share_of_additions(self, additions: float, seconds: Sequence[float]) -> str:
        """The share for so many additions that a job must at least do, by one process."""
        return f"{percent(additions / statistics.median(seconds) / self.additions)} of additions"

    def share_of_scaling(self, row: Row) -> str:
        """The share for a row whose rival is the same job with one process where ours has two."""
        return f"{percent(statistics.median(row.ratios) / self.scaling)} of two processes"


def percent(share: float) -> str:
    return "under 0.1%" if share < 0.001 else f"{share:.1%}" if share < 0.095 else f"{share:.0%}"


def check(holds: bool, what: str) -> None:
    """DifferentAnswersError where the answers are not the same; `what` names the job, the rival and the difference."""
    if not holds:
        raise DifferentAnswersError(what)


# What may be absent


def lacks(job: str, rival: str, *, files: Sequence[str] = (), packages: Sequence[str] = ()) -> list[NotMeasured]:
    """One line that names the data files and packages that this job lacks here; none where all are there."""
    reasons = [f"{name} is not in the data folder; set SDC_DATA_DIR" for name in files if not (DATA / name).is_file()]
    reasons += [f"{name} is not installed; {INSTALL}" for name in packages if find_spec(name) is None]
    return [NotMeasured(job, rival, "; ".join(reasons))] if reasons else []


# Time


def seconds(work: Callable[[], Any]) -> float:
    """Wall time of one call."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def in_turn(rounds: int, ours: Callable[[], Any], theirs: Callable[[], Any]) -> tuple[list[float], list[float]]:
    """Wall times of both; ours, theirs, ours, theirs, so that a busy machine slows them alike."""
    times = [(seconds(ours), seconds(theirs)) for _ in range(rounds)]
    return [ours for ours, _ in times], [theirs for _, theirs in times]


@contextmanager
def one_core() -> Iterator[None]:
    """Pins this process to one core, where the system can."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


# Child processes


def start_child(work: Callable[..., Any], *arguments: Any, threads: int = 1) -> Callable[[float], Any]:
    """Starts the call in a fresh Python; the function that is returned waits so many seconds for its result.

    The child imports the module of `work` and nothing else of ours. Libraries have so many threads there. The result is
    None where it does not come in time; an exception of the child is raised here as RuntimeError.
    """
    limits = dict.fromkeys(LIBRARIES, str(threads))
    given, answer = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115
    pickle.dump((work.__module__, work.__qualname__, arguments), given)
    given.seek(0)
    command = [sys.executable, "-m", "tests.benchmarks.child"]
    child = subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, **limits}, stdin=given, stdout=answer, stderr=subprocess.PIPE
    )

    def wait(limit: float) -> Any:
        with given, answer:
            try:
                _, errors = child.communicate(timeout=limit)
            except subprocess.TimeoutExpired:
                child.kill()
                child.communicate()
                return None
            if child.returncode:
                raise RuntimeError(f"{work.__module__}.{work.__qualname__} failed in its process:\n{errors.decode()}")
            answer.seek(0)
            return pickle.load(answer)

    return wait


def in_child(work: Callable[..., Any], *arguments: Any, limit: float, threads: int = 1) -> Any:
    """The result of the call in a fresh Python, None where it takes longer than so many seconds."""
    return start_child(work, *arguments, threads=threads)(limit)
