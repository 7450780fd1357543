"""What a search says of itself while it works: one line at a time."""

from __future__ import annotations

from collections.abc import Callable

from sdc.intruder.refusals import Refusals
from sdc.intruder.summary import Summary
from sdc.model import subtable as st
from sdc.model.schema import Schema
from sdc.risk.sharp import SharpProgress
from sdc.search.curve import CurvePoint, LikelyPoint
from sdc.search.decomposable import SearchState
from sdc.search.ordered import SearchStep
from sdc.search.remedies import Remedy
from sdc.search.simulatable import SimulatedStep

Say = Callable[[str], None]


def describe_round(state: SearchState) -> str:
    """One line for the progress of the chains."""
    values = sorted((chain.best.value for chain in state.chains), reverse=True)
    agreed = f", agreed {state.agreed} rounds" if state.agreed else ""
    return f"search: annealing round {state.round}: best values {', '.join(f'{v:.12g}' for v in values[:8])}{agreed}"


def say_step(step: SearchStep, say: Say) -> None:
    """One line for the progress; none for sub-tables that cannot be added, there are too many."""
    answer = {True: "releasable", False: "refuted", None: "undecided"}[step.answer]
    if step.phase in ("everything", "bisection"):
        say(f"search: {'all' if step.phase == 'everything' else 'the first'} {step.length} of the list: {answer}")
    elif step.answer:
        say(f"search: {len(step.added)} more beside {step.length} sub-tables: {answer}")


def describe_simulated(step: SimulatedStep, schema: Schema) -> str:
    """One line for the progress of decisions that tell nothing."""
    answer = "accepted" if step.accepted else "refused"
    named = st.label(step.added, schema)
    return f"search: {named} beside {step.length} sub-tables: {answer}, {step.breaking} draws break the criterion"


def describe_point(point: CurvePoint) -> str:
    """One line for the progress of the curve."""
    criterion = f"small count {point.small_count}, min width {point.min_width_required}"
    return f"curve: {point.method}, {criterion}: {point.sub_tables} sub-tables"


def describe_likely_point(point: LikelyPoint) -> str:
    """One line for the progress of the curve under limits on the posterior."""
    limit = "no limit" if point.max_above is None else f"at most {point.max_above:g} above the threshold"
    found = point.reason or f"{point.sub_tables} sub-tables, {point.above or 0:.4f} above the threshold"
    return f"curve: decomposable, {limit}: {found}"


def describe_law(summary: Summary, threshold: float) -> str:
    """One line for the progress of the posterior."""
    if summary.reason is not None:
        return f"posterior: {summary.label}: {summary.reason}"
    return f"posterior: {summary.label}: by {summary.engine}, {100 * summary.identified(threshold):.2f} % identified"


def describe_refusals(found: Refusals) -> str:
    """One line for the progress of builds that are done again."""
    if found.reason is not None:
        return f"posterior: refusals: {found.reason}"
    return f"posterior: refusals: {found.alike} of {found.feasible_tables} tables lead to the same release"


def describe_remedy(remedy: Remedy) -> str:
    """One line for the progress of the remedies, without a category."""
    recode = remedy.recode
    name = recode.before.names[recode.variable]
    what = f"leaving out {name}" if recode.leaves_out else f"merging two categories of {name}"
    return f"remedies: {what}: {len(remedy.freed)} of {len(remedy.asked)} sub-tables freed, {remedy.lost} lost"


def describe_sharp(progress: SharpProgress) -> str:
    """One line for the progress of sharp bounds."""
    done = f"{progress.parts_done:,} of {progress.parts:,} parts"
    return f"bounds: {progress.sharp:,} of {progress.cells:,} cells sharp; {progress.round}: {done}"
