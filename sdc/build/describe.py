"""What a search says of itself while it works: one line at a time."""

from __future__ import annotations

from collections.abc import Callable

from sdc.search.curve import CurvePoint
from sdc.search.decomposable import SearchState
from sdc.search.ordered import SearchStep

Say = Callable[[str], None]


def describe_round(state: SearchState) -> str:
    """One line for the progress of the chains."""
    values = sorted((chain.best.value for chain in state.chains), reverse=True)
    agreed = f", agreed {state.agreed} rounds" if state.agreed else ""
    return f"search: annealing round {state.round}: best values {', '.join(f'{v:.12g}' for v in values[:8])}{agreed}"


def say_step(step: SearchStep, say: Say) -> None:
    """Tells a progress of a step worth a line."""
    if (line := describe_step(step)) is not None:
        say(line)


def describe_step(step: SearchStep) -> str | None:
    """One line for the progress; None for sub-tables that cannot be added, there are too many."""
    answer = {True: "releasable", False: "refuted", None: "undecided"}[step.answer]
    if step.phase == "bisection":
        return f"search: the first {step.length} of the list: {answer}"
    if not step.answer:
        return None
    return f"search: {len(step.added)} more beside {step.length} sub-tables: {answer}"


def describe_point(point: CurvePoint) -> str:
    """One line for the progress of the curve."""
    criterion = f"small count {point.small_count}, min width {point.min_width_required}"
    return f"curve: {point.method}, {criterion}: {point.sub_tables} sub-tables"
