"""Progress on standard error: a bar on a terminal, plain lines otherwise."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sdc.executor import Executor, Input, Result, Unit

SECONDS_BETWEEN_LINES = 5.0


class Progress:
    """Says what happens, and how many units of the current call are done."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._last_line = time.monotonic()

    def __enter__(self) -> Progress:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import Progress as Bar

            self._bar = Bar(console=Console(stderr=True), transient=True)
            self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def say(self, text: str) -> None:
        """One line."""
        if self._bar is not None:
            self._bar.console.print(text, highlight=False, markup=False)
        else:
            print(text, file=sys.stderr, flush=True)

    @contextmanager
    def units(self, name: str, total: int) -> Iterator[Callable[[int], None]]:
        """A function to call with the number of units done; the bar goes when the block ends."""
        if self._bar is None:
            yield lambda done: self._line(name, done, total)
            return
        task = self._bar.add_task(name, total=total)
        try:
            yield lambda done: self._bar.update(task, completed=done)
        finally:
            self._bar.remove_task(task)

    def _line(self, name: str, done: int, total: int) -> None:
        if done < total and time.monotonic() - self._last_line >= SECONDS_BETWEEN_LINES:
            self._last_line = time.monotonic()
            self.say(f"{name}: {done} of {total} units")


class Watched:
    """An executor that tells a progress how far each call is."""

    def __init__(self, executor: Executor, progress: Progress) -> None:
        self._executor, self._progress = executor, progress
        self.workers = executor.workers

    @property
    def scratch(self) -> Path | None:
        return self._executor.scratch

    def run(self, function: Callable[[Input, Unit], Result], table: Input, units: Sequence[Unit]) -> Iterator[Result]:
        name = function.__name__.replace("_", " ")
        with self._progress.units(name, len(units)) as done:
            for number, result in enumerate(self._executor.run(function, table, units), start=1):
                done(number)
                yield result
