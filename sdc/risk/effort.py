"""What an evaluation may cost: budgets, depths, and who does the work."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from sdc.executor import IN_PROCESS, Executor
from sdc.model.errors import InputError
from sdc.risk.slices import CELLS_PER_SLICE

STEPS_PER_SECOND = 10_000  # measured: 0.1 ms a node


@dataclass(frozen=True)
class Budget:
    """How much search a proof of safety may cost, in seconds of a reference core.

    They are counted in steps of the search, not by the clock, so that a build gives the same on every machine and
    with any number of workers. InputError where one is not positive: nothing could be proven.

    seconds_per_cell  for one at-risk cell under one release
    seconds           for all cells under all releases of a search, and again for the assessment of what it found
    """

    seconds_per_cell: float = 5.0
    seconds: float = 1200.0

    def __post_init__(self) -> None:
        for name in ("seconds_per_cell", "seconds"):
            if not getattr(self, name) > 0:
                raise InputError(f"budget {name} is {getattr(self, name)}; give more than 0 seconds")

    @property
    def steps_per_cell(self) -> int:
        """Nodes of the search, one at least."""
        return max(1, int(self.seconds_per_cell * STEPS_PER_SECOND))

    @property
    def steps(self) -> int:
        """Nodes of the search for all cells, one at least."""
        return max(1, int(self.seconds * STEPS_PER_SECOND))


class Depth(IntEnum):
    """How far an evaluation goes; each does what those before it do.

    REFUTE  looks for no proof of safety: a release can be refuted or undecided
    BRIEF   stops at the first cell found hard to certify: the answer is then undecided at best
    FULL    goes on for every cell until the budget is spent
    EVERY   and bounds every cell as narrowly as it can, where nothing is left to decide too
    """

    REFUTE = 0
    BRIEF = 1
    FULL = 2
    EVERY = 3


@dataclass(frozen=True)
class Effort:
    """What an evaluation may cost, and who does the work.

    spent            steps of the budget that earlier questions took
    refute_cells     how many of the most exposed undecided cells get the dearer outer bound
    cells_per_slice  a larger table is searched slice by slice, and where it is less than by default a linear program is
                     smaller in proportion: less is found, and nothing that is not so
    executor         changes how long it takes, never the answer
    """

    budget: Budget = field(default_factory=Budget)
    refute_cells: int = 16
    cells_per_slice: int = CELLS_PER_SLICE
    executor: Executor = IN_PROCESS
    depth: Depth = Depth.FULL
    spent: int = 0
