"""The risk criterion: is every at-risk cell's width at least beta? Three answers, with witnesses."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Witness:
    """A cell that shows why a release is unsafe, or that nothing could decide."""

    cell: tuple[int, ...]
    count: int
    outer: tuple[int, int]
    inner: tuple[int, int]
    method: str


@dataclass(frozen=True)
class Assessment:
    """Whether a release satisfies min width >= min_width_required ([KDSF] eq. 6).

    releasable       True: every inner width reaches it; False: some outer width does not; None: undecided
    min_width        (lo, hi) that contains the sharp minimum width over the at-risk cells
    undecided_cells  cells whose outer width reaches it and whose inner width does not
    witnesses        cells that prove it unsafe, else the undecided ones, narrowest first
    """

    releasable: bool | None
    min_width_required: int
    min_width: tuple[int, int]
    at_risk_cells: int
    undecided_cells: int
    witnesses: tuple[Witness, ...]
