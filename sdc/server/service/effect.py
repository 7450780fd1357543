"""What releasing a sub-table would do: what becomes public with it, and what no longer can ([KDSF] figure 1)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sdc.model import subtable as st
from sdc.model.state import State, Status
from sdc.model.subtable import SubTable
from sdc.risk.verdict import Verdict
from sdc.server.service.judge import Judge


@dataclass(frozen=True)
class Effect:
    """What releasing a sub-table would do; for operators alone.

    status        of the sub-table now
    is_safe       whether it could be released itself; None where that is not decided
    released      the sub-tables that would newly be public, the largest first
    unreleasable  the minimal ones that would newly be unreleasable
    newly         how many sub-tables would become released, and how many unreleasable
    looked_at     of how many open sub-tables it was looked whether they would become unreleasable, `of` how many
    """

    sub_table: SubTable
    status: Status
    is_safe: bool | None
    released: tuple[SubTable, ...]
    unreleasable: tuple[SubTable, ...]
    newly: tuple[int, int]
    released_frontier: tuple[SubTable, ...]
    unreleasable_frontier: tuple[SubTable, ...]
    looked_at: int
    of: int

    @property
    def is_complete(self) -> bool:
        """Whether all were looked at that could be touched."""
        return self.looked_at == self.of


def effect_of(
    judge: Judge,
    state: State,
    subtable: SubTable,
    candidates: Iterable[SubTable] | None = None,
    most: int | None = None,
    *,
    larger: State | None = None,
) -> Effect:
    """The effect under a state of up to 20 variables, exact of a small table.

    candidates  open sub-tables of a large table, in the order in which they are looked at, `most` of them at most: of
                the others nothing is said
    larger      what is public then, of a sub-table that is safe with suppressed cells; by default it goes out whole
    """
    status, is_safe = state.status(subtable), True if larger else None
    if larger is None:
        if status is not Status.OPEN:
            # public already, or it never will be
            is_safe = None if status is Status.UNDECIDED else status.is_released
            return Effect(subtable, status, is_safe, (), (), (0, 0), state.released.frontier, state.unreleasable, 0, 0)
        if (verdict := judge.glance(state, subtable)) is not Verdict.UNDECIDED:
            is_safe = verdict is Verdict.SAFE
        larger = state.releasing(subtable)
    left = None if candidates is None else [t for t in candidates if larger.status(t) is Status.OPEN]
    found = judge.survey(larger, left, most)
    new = larger.knowing(found.unreleasable)
    count = new.count(Status.UNRELEASABLE) - state.count(Status.UNRELEASABLE)
    parts = st.subsets(subtable, state.schema)
    released = tuple(t for t in parts if t in new.released and t not in state.released)
    return Effect(
        subtable,
        status,
        is_safe,
        tuple(sorted(released, key=lambda t: (-st.dimension(t), t))),
        tuple(t for t in new.unreleasable if t not in state.unreleasable),
        (len(released), count),
        new.released.frontier,
        new.unreleasable,
        found.looked_at,
        found.of,
    )
