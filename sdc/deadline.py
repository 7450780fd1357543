"""How long a search goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

from sdc.config.release import ReleaseConfig
from sdc.executor import Executor, ExecutorWrapper, never


class DeadlineError(Exception):
    """A deadline has passed, and what was asked last has no answer. A search ends then with what is proven."""


@dataclass(frozen=True)
class Deadline:
    """When a search ends with what is proven by then. It goes to workers.

    moment  in seconds since 1970, as the clocks of all machines have it
    marker  a file that all of them see: once it is there, the search is over
    steady  the moment by a clock that nobody sets back, which no other process has
    """

    moment: float = inf
    marker: Path | None = None
    steady: float = inf

    @staticmethod
    def of(release: ReleaseConfig, marker: Path | None = None) -> Deadline:
        """After the minutes of the section, counted from now, or by the marker."""
        if release.minutes is None:
            return Deadline(marker=marker)
        seconds = 60 * release.minutes
        return Deadline(time.time() + seconds, marker, time.monotonic() + seconds)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "steady": inf}

    @property
    def is_over(self) -> bool:
        """Once it is over it stays so."""
        is_late = time.time() >= self.moment or time.monotonic() >= self.steady
        return is_late or (self.marker is not None and self.marker.exists())

    @property
    def halved(self) -> Deadline:
        """With half of the time that is left."""
        if self.moment == inf:
            return self
        return Deadline((time.time() + self.moment) / 2, self.marker, (time.monotonic() + self.steady) / 2)

    def check(self) -> None:
        """DeadlineError where it is over."""
        if self.is_over:
            raise DeadlineError

    def limits(self, executor: Executor, grace: float = 0.0) -> Executor:
        """The executor, whose units are given up by DeadlineError once the deadline is over.

        grace  seconds that units have which end by themselves, as they know the deadline
        """
        return executor if self == NEVER else _Limited(executor, self, grace)


NEVER = Deadline()


class _Limited(ExecutorWrapper):
    def __init__(self, executor: Executor, deadline: Deadline, grace: float) -> None:
        super().__init__(executor)
        self.deadline, self.grace, self._since = deadline, grace, inf

    def run(self, function: Any, table: Any, units: Any, is_over: Callable[[], bool] = never) -> Iterator[Any]:
        left = len(units)
        for result in self._executor.run(function, table, units, lambda: self._is_over or is_over()):
            if self._is_over:
                break
            left -= 1
            yield result
        if left:
            raise DeadlineError

    @property
    def _is_over(self) -> bool:
        if self.deadline.is_over:
            self._since = min(self._since, time.monotonic())
        return time.monotonic() - self._since >= self.grace
