"""How long a search goes on: until it is told to end, or as far as one went that was told to."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path

from sdc.config.release import ReleaseConfig
from sdc.executor import Executor, Input, Result, Unit


@dataclass(frozen=True)
class Ending:
    """When a search is to end with what is proven; it goes to workers, and says no more than that it is over.

    moment  in seconds since 1970, as the clocks of all machines have it
    marker  a file that all of them see: once it is there, the search is over
    """

    moment: float = inf
    marker: Path | None = None

    @staticmethod
    def of(release: ReleaseConfig, marker: Path | None = None) -> Ending:
        """As the section says from now on: after its minutes, unless it names how far to go; or by the marker."""
        if release.minutes is None or release.ended_after is not None:
            return Ending(marker=marker)
        return Ending(time.time() + 60 * release.minutes, marker)

    @property
    def is_over(self) -> bool:
        """Once it is over it stays so."""
        return time.time() >= self.moment or (self.marker is not None and self.marker.exists())

    @property
    def halved(self) -> Ending:
        """With half of the time that is left."""
        now = time.time()
        return self if self.moment == inf else Ending(now + (self.moment - now) / 2, self.marker)


NEVER = Ending()


class ToldToEndError(Exception):
    """Nobody sees it but searches: what was asked last has no answer."""


class UntilToldToEnd:
    """An executor whose units are waited for until a search is told to end; then it raises `ToldToEndError`."""

    def __init__(self, executor: Executor, ending: Ending) -> None:
        self.executor, self._ending = executor, ending
        self.workers = executor.workers

    @property
    def scratch(self) -> Path | None:
        return self.executor.scratch

    def run(self, function: Callable[[Input, Unit], Result], table: Input, units: Sequence[Unit]) -> Iterator[Result]:
        for result in self.executor.run(function, table, units):
            if self._ending.is_over:
                raise ToldToEndError
            yield result


def at_leisure(executor: Executor) -> Executor:
    """One whose units are waited for whatever it was told."""
    return executor.executor if isinstance(executor, UntilToldToEnd) else executor


@dataclass(frozen=True)
class Pace:
    """Of one part of a search: over once it has taken so many steps, or is told to end.

    patient  whether it has the time that it needs, for a clock ends it
    """

    most: int | None = None
    ending: Ending = NEVER
    patient: bool = False

    def is_over(self, taken: int) -> bool:
        """After so many steps; once it is over it stays so."""
        return (self.most is not None and taken >= self.most) or self.ending.is_over

    def patience(self, executor: Executor) -> Executor:
        """Of who waits for units: none once it is told to end."""
        return executor if self.ending == NEVER else UntilToldToEnd(executor, self.ending)

    @property
    def halved(self) -> Pace:
        """With half of the time that is left."""
        return replace(self, ending=self.ending.halved)


UNHURRIED = Pace()


@dataclass(eq=False)
class Paced:
    """A part of a search that asks its pace before each step; only whole steps count as `taken`.

    is_over  whether a step was not taken, or not to its end
    """

    pace: Pace = UNHURRIED
    taken: int = 0
    is_over: bool = False

    @contextmanager
    def step(self) -> Iterator[None]:
        """Around one of them; ToldToEndError where the pace is over before it."""
        try:
            if self.pace.is_over(self.taken):
                raise ToldToEndError
            yield
        except ToldToEndError:
            self.is_over = True
            raise
        self.taken += 1
