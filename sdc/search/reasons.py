"""Sentences of a search: why one release was taken, and what was left."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor
from typing import TYPE_CHECKING

from sdc.model import subtable as st
from sdc.model.errors import many
from sdc.model.schema import Schema
from sdc.search.ordered import OrderedSearch
from sdc.search.step import SearchStep, outlook

if TYPE_CHECKING:
    from sdc.protect.release import ProtectedRelease
    from sdc.search.best import FoundRelease
    from sdc.search.constraints import Constraints
    from sdc.search.grown import Grown
    from sdc.search.ordered import OrderedRelease
    from sdc.search.required import Required

NOTHING_ELSE = "Only the required sub-tables were requested."


def cut(search: OrderedSearch) -> str:
    """What to say where more sub-tables reach the width than were listed."""
    said = search.widths.cut(search.evaluator.criteria.floor)
    return f"{said}; the search evaluated none of the others." if said else ""


def share_of_best(method: str, utility: float, bound: float) -> str:
    """How much of the utility of the best release a release has at least."""
    of, by = "the best release with all one-way sub-tables", "by the critical widths, which are not verified"
    if method == "optimum":
        of, by = "the best of all releases that the method considers", "by the solver, which is not verified"
    # down, so that 100 % is said of the best alone
    share = floor(1000 * utility / bound) / 10
    return f"The utility {utility:.12g} is at least {share:.1f} % of that of {of}: that is at most {bound:.12g}, {by}."


def left(search: OrderedSearch, found: OrderedRelease | Grown) -> str | None:
    """What to say where not all that could be released was asked about."""
    return " ".join(filter(None, (cut(search), _unasked(search, found)))) or None


def of_levels(constraints: Constraints, schema: Schema) -> str:
    """What to say where it was ended early before all levels were made that may take the place of an axis."""
    left = ", ".join(st.label(request.view, schema) for request in constraints.protect if not request.all_tried)
    if not left:
        return ""
    return (
        f"The search was ended early before it was found which categories to merge of {left}; more time may find some."
    )


def of_required(required: Required) -> str:
    """What to say where it was ended early before the best subset of what is required was known."""
    if not required.is_ended:
        return ""
    number, kept = len(required.sub_tables), len(required.sub_tables) - len(required.refused)
    return (
        f"The search was ended early after {many(required.asked, 'question')} about the "
        f"{number} required sub-tables: the best subset that was proven by then has {kept} of them."
    )


def of_suppressed(found: ProtectedRelease, schema: Schema) -> str:
    """What to say where the deadline came before all suppressed tables were proven, or were proven together."""
    if not found.ended_after:
        return ""
    if found.left:
        names = ", ".join(st.label(view, schema) for view in found.left)
        were = "were" if len(found.left) > 1 else "was"
        return f"The search was ended early before {names} {were} protected and proven."
    before = "it had seen whether less has to be suppressed"
    if "in_part_together" in found.ended_after and not found.together:
        before = "the suppressed tables were proven together, and looked for one after another"
    return f"The search was ended early before {before}; more time may suppress less."


def _unasked(search: OrderedSearch, found: OrderedRelease | Grown) -> str:
    """What to say of candidates on the list."""
    steps, unasked = found.steps, found.unasked
    if not unasked:
        return ""
    if found.is_ended:
        more = f", {outlook(steps)}" if steps and steps[-1].left else ""
        return (
            f"The search was ended early after {questions(steps)}: {many(unasked, 'sub-table')} not "
            f"evaluated{more}; more time may release more."
        )
    most = search.constraints.questions_for(len(search.evaluator.pool.at_risk))
    return f"After {most} questions {many(unasked, 'sub-table')} not evaluated; more questions may release more."


def of_prefixes(found: OrderedRelease) -> str:
    """What to say of a bisection that was ended early."""
    return (
        f"The bisection was ended early after {questions(found.steps)}: longer prefixes were not evaluated "
        f"({found.unasked})."
    )


def of_rounds(rounds: int, before: int, after: int) -> str:
    """What large neighbourhood search came to."""
    came = f"{before:,} sub-tables became {after:,}" if after != before else "no better release was found"
    return f"Large neighbourhood search, {many(rounds, 'round')}: {came}."


def questions(steps: Sequence[SearchStep]) -> str:
    """How many there were."""
    return many(len(steps), "question")


def alone(ordered: FoundRelease, is_required: bool) -> str:
    """Why no decomposable release was compared."""
    has = "all variables" + (" and every structural zero in a clique" if ordered.evaluation.knowledge.zeros else "")
    has += " and what is required" if is_required else ""
    rule = " and keeps the rules" if ordered.evaluation.criteria.rules else ""
    return (
        f"The ordered release stands alone: no decomposable release with {has} reaches the minimum width "
        f"{ordered.assessment.min_width_required}{rule}."
    )


def better(winner: FoundRelease, loser: FoundRelease) -> str:
    """One sentence: what the two were compared by."""
    value, width, name = winner.value, winner.assessment.min_width[0], _name(loser)
    utility = "utility" if winner.halvings is None else "value"
    if winner.release == loser.release:
        return f"Both methods end at the same release, of {utility} {_amount(winner)}."
    if winner.evaluation.verdict > loser.evaluation.verdict:
        return f"The {_name(winner)} wins: it is proven safe, and the {name} is not."
    if value > loser.value:
        return f"The {_name(winner)} wins: its {utility} is {_amount(winner)}, that of the {name} {_amount(loser)}."
    tie = f"The {_name(winner)} wins: both it and the {name} have the {utility} {_amount(winner)}"
    if width > loser.assessment.min_width[0]:
        return f"{tie}; its smallest width is {width}, that of the other {loser.assessment.min_width[0]}."
    return f"{tie} and the smallest width {width}; its frontier comes first."


def _amount(found: FoundRelease) -> str:
    return f"{found.value:.12g}{'' if found.halvings is None else ' halvings'}"


def _name(found: FoundRelease) -> str:
    was_extended = found.graph is not None and found.release != found.graph.release
    return f"{found.method} release" + (", extended," if was_extended else "")
