"""What a risk criterion is: one question with three answers, asked the same way of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from sdc.executor import IN_PROCESS, Executor
from sdc.feasible.bank import Bank
from sdc.feasible.proof import Proof
from sdc.intruder.limit import Likely, PosteriorLimit
from sdc.model.errors import InputError
from sdc.model.knowledge import Knowledge
from sdc.model.named import Named, named_cells
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.model.sharpness import Sharpness
from sdc.model.table import Table
from sdc.risk.slices import CELLS_PER_SLICE
from sdc.risk.support import Support
from sdc.risk.verdict import Verdict

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
                raise InputError(
                    f"budget {name} is {getattr(self, name)}; give more than 0 seconds, or nothing is proven"
                )

    @property
    def steps_per_cell(self) -> int:
        """Nodes of the search, one at least."""
        return max(1, int(self.seconds_per_cell * STEPS_PER_SECOND))

    @property
    def steps(self) -> int:
        """Nodes of the search for all cells, one at least."""
        return max(1, int(self.seconds * STEPS_PER_SECOND))


class Depth(IntEnum):
    """How far a judgement goes; each does what those before it do.

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
    """What a judgement may cost, and who does the work.

    spent            steps of the budget that earlier questions took
    refute_cells     how many of the most exposed undecided cells get the dearer outer bound
    cells_per_slice  a larger table is searched slice by slice: less is found, and nothing that is not so
    executor         changes how long it takes, never the answer
    """

    budget: Budget = field(default_factory=Budget)
    refute_cells: int = 16
    cells_per_slice: int = CELLS_PER_SLICE
    executor: Executor = IN_PROCESS
    depth: Depth = Depth.FULL
    spent: int = 0


@dataclass(frozen=True)
class Witness:
    """A cell that shows why a release is unsafe, or that nothing could decide."""

    cell: tuple[int, ...]
    count: int
    outer: tuple[int, int]
    inner: tuple[int, int]
    method: str


@dataclass(frozen=True, repr=False)
class Assessment(Named):
    """Whether a release satisfies min width >= min_width_required ([KDSF] eq. 6), as documents have it.

    verdict          safe: every inner width reaches it; unsafe: some outer width does not; else undecided
    min_width        (lo, hi) that contains the sharp minimum width over the at-risk cells
    undecided_cells  cells whose outer width reaches it and whose inner width does not
    witnesses        cells that prove it unsafe, else the undecided ones, narrowest first, at most 20
    likely   what it makes likely, where the criterion limits that and the bounds do not refute it
    sharpness  how far the bounds of the at-risk cells came, where they were to be sharp
    """

    verdict: Verdict
    min_width_required: int
    min_width: tuple[int, int]
    at_risk_cells: int
    undecided_cells: int
    witnesses: tuple[Witness, ...]
    likely: Likely | None = None
    sharpness: Sharpness | None = None

    @property
    def releasable(self) -> bool | None:
        """True, False, or None where nothing could decide."""
        return self.verdict.releasable

    @property
    def headline(self) -> str:
        low, high = self.min_width
        return (
            f"Assessment: {self.verdict.name.lower()}, min width {low:,} to {high:,} of {self.min_width_required:,} "
            f"required, {self.at_risk_cells:,} at-risk cells, {self.undecided_cells:,} undecided"
        )

    def columns(self, schema: Schema) -> Mapping[str, Sequence[Any]]:
        """The witnesses by names, with their counts and bounds."""
        cells = np.array([w.cell for w in self.witnesses], np.int64).reshape(-1, len(schema.axes))
        bounds = {name: [list(getattr(w, name)) for w in self.witnesses] for name in ("outer", "inner")}
        return {**named_cells(cells, schema), "count": [w.count for w in self.witnesses], **bounds}


@dataclass(frozen=True, eq=False, repr=False)
class Judgement:
    """The answer to one question, with all it rests on: it stays proven whatever is asked later.

    known     what was public already
    asked     what would be beside it
    bank      what was known before and what was found; of a safe release what its proof needs, and no more
    spent     steps that it took
    blockers  codes of at-risk cells that stopped the release: refuted ones, or those that the search gave up
    """

    criterion: Criterion
    known: Knowledge
    asked: Release
    assessment: Assessment
    bank: Bank
    spent: int = 0
    blockers: tuple[tuple[int, ...], ...] = ()

    def __repr__(self) -> str:
        """Without a cell: what is printed may be logged."""
        return f"Judgement({self.assessment!r})"

    @cached_property
    def knowledge(self) -> Knowledge:
        """What an intruder knows once that is out."""
        return self.known.plus(self.asked)

    @property
    def release(self) -> Release:
        """All whole marginals that are public then."""
        return self.knowledge.release

    @property
    def verdict(self) -> Verdict:
        """The answer."""
        return self.assessment.verdict

    @property
    def margin(self) -> tuple[int, int]:
        """(lo, hi) around what the criterion measures; a release is safe where lo reaches what is required."""
        return self.assessment.min_width

    @cached_property
    def proof(self) -> Proof:
        """What shows that cells can move under the release: what a certificate writes down."""
        return Support(self.knowledge, self.bank).proof()


class Criterion(Protocol):
    """A rule about the at-risk cells of a table under what an intruder knows.

    monotone     whether what is safe stays so when less is known: searches may then cut by a refusal. A bisection, an
                 extension in halves and a frontier need it.
    small_count  cells of 1 up to this count are at risk
    min_width    what critical widths must reach for a sub-table to be worth a question
    limit        on what the release makes likely, None for none
    """

    @property
    def monotone(self) -> bool: ...

    @property
    def limit(self) -> PosteriorLimit | None: ...

    @property
    def small_count(self) -> int: ...

    @property
    def min_width(self) -> int: ...

    def bank(self, table: Table) -> Bank:
        """An empty bank for questions about the table; InputError where nothing is at risk."""

    def judge(self, table: Table, known: Knowledge, asked: Release, bank: Bank, effort: Effort) -> Judgement:
        """Of a release beside what is known.

        Pure: the same question with the same bank gets the same answer, whatever was asked before.

        ReleaseError where the bank is of another table or of other at-risk cells.
        """

    def unproven(self, table: Table, knowledge: Knowledge, proof: Proof) -> int:
        """For how many at-risk cells a proof does not show that they satisfy it, all of it checked in integers."""

    def likely(self, table: Table, knowledge: Knowledge) -> Likely | None:
        """What it makes likely, where that is limited; it follows from table and release, and needs no proof.

        ReleaseError where that cannot be told.
        """
