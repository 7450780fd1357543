"""Progress on standard error, and the time and memory of each stage."""

from __future__ import annotations

import sys
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from contextvars import copy_context
from functools import partial, update_wrapper
from importlib import import_module
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from sdc.compiled import compile_seconds
from sdc.events import EXECUTION, OUTLOOK, QUESTION, QUESTIONS, STARTED, STEP, EventText, emit, heard
from sdc.executor import Executor, ExecutorWrapper, never, works_of
from sdc.memory import MIB, forget_peak, give_back, peak_bytes
from sdc.model.errors import many
from sdc.storage.run_folder import StageRecord

if TYPE_CHECKING:
    from sdc.bounds.enumeration import EnumerationProgress

SECONDS_BETWEEN_LINES = 10.0  # if standard error is not a terminal; the log of the run has all lines
PLAIN = {"seek": "sharp bounds"}  # readable names of unit functions
EARLY = 10  # the remaining time is shown after a tenth of the work
SECONDS_OF_SILENCE, SECONDS_BETWEEN_PULSES = 60.0, 1.0
SECONDS_UNSHOWN = 2.0  # in a notebook, short calls show nothing
SECONDS_COMPILED = 3.0  # a few small kernels are not announced


class Progress:
    """Prints events and finished units: a bar on a terminal, otherwise a line now and then.

    Steps of a search are printed as often as units. After a silent minute it prints the current stage, its time and its
    work; in a notebook one changing line shows that all the time. The remaining time is shown if the units of a call
    have sizes, and for a search with a limit of evaluations.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, does: str = "") -> None:
        self._bar: Any = None
        self._clock = clock
        self._ended = threading.Event()
        self._compiled_before: float | None = compile_seconds()  # None once it is announced
        self._line_here = notebook_line()
        self._begin(does)

    def __enter__(self) -> Progress:
        self._stack = ExitStack()
        if sys.stderr.isatty():
            self._bar = self._stack.enter_context(_bar())
        self._stack.enter_context(heard(EventText(self.say), EXECUTION))
        self._stack.enter_context(heard(EventText(self._step, STEP)))
        self._stack.enter_context(heard(EventText(self._begin, STARTED)))
        self._stack.enter_context(heard(EventText(self._question, QUESTION, OUTLOOK), QUESTIONS))
        self._stack.callback(self._show, "")
        self._stack.callback(self._ended.set)
        # in this context, which links the output to the notebook cell
        threading.Thread(target=copy_context().run, args=(self._pulses,), daemon=True).start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def say(self, text: str) -> None:
        self._last_print = self._clock()
        if self._bar is not None:
            self._bar.console.print(text, highlight=False, markup=False)
        else:
            with suppress(OSError):  # the reader may have gone, such as a Prefect worker
                print(text, file=sys.stderr, flush=True)

    def pulse(self) -> None:
        """Print a line after a silent minute or when kernels are compiled, and update the line of a notebook."""
        if self._compiled_before is not None and compile_seconds() - self._compiled_before >= SECONDS_COMPILED:
            self._compiled_before = None
            self.say("compiling code for this machine, once: this may take a minute or two")
        self._show(" so far")
        if self._line_here is None and self._clock() - self._last_print >= SECONDS_OF_SILENCE:
            line = self._at_work(" so far")
            emit("at work", line)
            self.say(line)

    def _at_work(self, so_far: str) -> str:
        done = "".join(f", {many(number, what)}" for what, number in self._done.items() if number)
        ahead = self._outlook or self._of_call
        left = f"; {ahead}" if ahead and so_far else ""
        return f"{self._does or 'at work'}: {self._clock() - self._begun:.0f} s{so_far}{done}{left}"

    def _show(self, so_far: str) -> None:
        if self._line_here is not None and self._clock() - self._begun >= SECONDS_UNSHOWN:
            self._line_here(self._at_work(so_far))

    def _pulses(self) -> None:
        while not self._ended.wait(SECONDS_BETWEEN_PULSES):
            self.pulse()

    def _begin(self, does: str) -> None:
        self._does, self._begun, self._done = does, self._clock(), {"question": 0, "unit": 0}
        self._last_line = self._last_print = self._begun
        self._outlook = self._of_call = ""

    def _question(self, text: str) -> None:
        if text == QUESTION:
            self._done["question"] += 1
        else:
            self._outlook = text

    def _step(self, text: str) -> None:
        if self._bar is not None or self._is_due():
            self.say(text)

    def _is_due(self) -> bool:
        """Return whether another line is due, and count it as printed."""
        now = self._clock()
        is_due = now - self._last_line >= SECONDS_BETWEEN_LINES
        self._last_line = now if is_due else self._last_line
        return is_due

    @contextmanager
    def units(self, name: str, total: int, works: Sequence[int] | None = None) -> Iterator[Callable[[int], None]]:
        """Yield a function to call with the number of finished units.

        works  relative sizes of the units; None if unknown
        """
        begun, left = self._clock(), TimeLeft(works) if works else None
        task = None if self._bar is None else self._bar.add_task(name, total=total)

        def done(number: int) -> None:
            self._done["unit"] += 1
            if task is not None:
                self._bar.update(task, completed=number)
            seconds = self._clock() - begun
            ahead = left.after(number, seconds) if left else None
            self._of_call = "" if ahead is None else f"about {ahead:.0f} s left for these"
            self._line(name, number, total, seconds)

        try:
            yield done
        finally:
            self._of_call = ""
            if task is not None:
                self._bar.remove_task(task)

    def _line(self, name: str, done: int, total: int, seconds: float) -> None:
        # calls with a readable name have a better line from their caller
        if done >= total or name in PLAIN.values() or not self._is_due():
            return
        line = f"{name}: {done} of {total} units in {seconds:.0f} s"
        line += f", {self._of_call}" if self._of_call else ""
        emit("progress", line, units=done, of=total, seconds=round(seconds, 1))
        if self._bar is None and self._line_here is None:
            self.say(line)


class TimeLeft:
    """Estimates the remaining time of a call from the sizes of its units and the later half of the finished ones.

    The first units are not typical, so the estimate follows a changing speed and goes to 0 with the work.
    """

    def __init__(self, works: Sequence[int]) -> None:
        self._done = [0, *accumulate(works)]  # after each number of units
        self._seconds = [0.0]

    def after(self, units: int, seconds: float) -> float | None:
        """Return the remaining seconds after so many units, called in order; None if it is too early."""
        self._seconds += [seconds] * (units + 1 - len(self._seconds))
        done, all_ = self._done[units], self._done[-1]
        if EARLY * done < all_:
            return None
        before = max(0, bisect_left(self._done, done / 2, hi=units) - 1)
        return (all_ - done) * (seconds - self._seconds[before]) / (done - self._done[before])


def notebook_line() -> Callable[[str], None] | None:
    """Return a function that replaces one line below the current notebook cell; None elsewhere."""
    ipython = sys.modules.get("IPython")
    if ipython is None or getattr(ipython.get_ipython(), "kernel", None) is None:
        return None
    display, shown = import_module("IPython.display").display, list[Any]()

    def show(text: str) -> None:
        content = {"text/plain": text}
        if shown:
            shown[0].update(content, raw=True)
        else:
            shown.append(display(content, raw=True, display_id=True))

    return show


def _bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    return Bar(*columns, console=Console(stderr=True), transient=True)


@contextmanager
def in_notebook(does: str) -> Iterator[Callable[[Executor], Executor]]:
    """Show progress in a notebook and wrap executors for it; elsewhere do nothing."""
    if notebook_line() is None:
        yield lambda executor: executor
        return
    with Progress(does=does) as progress:
        yield lambda executor: Watched(executor, progress)


class Watched(ExecutorWrapper):
    """An executor that reports to a progress."""

    def __init__(self, executor: Executor, progress: Progress) -> None:
        super().__init__(executor)
        self._progress = progress

    def run(self, function: Any, table: Any, units: Any, is_over: Callable[[], bool] = never) -> Iterator[Any]:
        name = PLAIN.get(function.__name__, function.__name__.replace("_", " "))
        with self._progress.units(name, len(units), works_of(units)) as done:
            for number, result in enumerate(self._executor.run(function, table, units, is_over), start=1):
                done(number)
                yield result


# Memory and time


class MeasuringExecutor(ExecutorWrapper):
    """An executor that measures the seconds, units and memory of a stage.

    driver_mib  peak memory of this process since the executor was created
    worker_mib  peak memory of a worker that ran a unit; None if all units ran here
    """

    def __init__(self, executor: Executor) -> None:
        super().__init__(executor)
        self.units, self._begun = 0, time.perf_counter()
        self.worker_mib: int | None = None
        give_back()
        forget_peak()

    @property
    def seconds(self) -> float:
        return round(time.perf_counter() - self._begun, 3)

    @property
    def driver_mib(self) -> int:
        return peak_bytes() // MIB

    def run(self, function: Any, table: Any, units: Any, is_over: Callable[[], bool] = never) -> Iterator[Any]:
        # in this process, whose peak is measured for the stage as a whole
        if units and self.scratch is None:
            for result in self._executor.run(function, table, units, is_over):
                self.units += 1
                yield result
        elif units:
            # with the function's name: an executor records unit times by it
            measuring = update_wrapper(partial(_with_peak, function), function)
            for result, mib in self._executor.run(measuring, table, units, is_over):
                self.units, self.worker_mib = self.units + 1, max(self.worker_mib or 0, mib)
                yield result


def _with_peak(function: Callable[[Any, Any], Any], table: Any, unit: Any) -> tuple[Any, int]:
    forget_peak()
    return function(table, unit), peak_bytes() // MIB


def summary(records: Sequence[StageRecord]) -> list[str]:
    """Return the time and memory of each stage as lines of a table."""
    total = sum(record.seconds for record in records)
    lines = [f"{'stage':14}{'status':8}{'seconds':>9}{'share':>7}{'this process':>15}{'largest worker':>17}"]
    for r in records:
        share = f"{r.seconds / total:.0%}" if total else ""
        memory = f"{_mib(r.driver_mib):>15}{_mib(r.worker_mib):>17}"
        lines.append(f"{r.name:14}{r.status:8}{r.seconds:9.1f}{share:>7}{memory}")
    return [*lines, f"{'in all':22}{total:9.1f}"]


def _mib(value: int | None) -> str:
    return "" if value is None else f"{value} MiB"


class Nodes:
    """Prints the progress of an enumeration about once a second."""

    def __init__(
        self, say: Callable[[str], None], ended: threading.Event, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._say, self._ended, self._clock = say, ended, clock
        self._printed: float | None = None

    def __call__(self, progress: EnumerationProgress) -> bool:
        """Report, and return whether to go on."""
        now = self._clock()
        if self._printed is None:
            self._say(f"at most {_size(progress.at_most)} tables, by the cells' intervals")
            self._printed = now
        elif now - self._printed >= 1:
            self._printed = now
            self._say(f"{progress.steps:,} nodes, {_size(progress.tables)} tables so far")
        return not self._ended.is_set()


def _size(number: int) -> str:
    """Format a number; a long one as a power of ten."""
    return f"{number:,}" if number < 10**12 else f"10^{len(str(number)) - 1}"
