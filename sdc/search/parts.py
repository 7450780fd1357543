"""Sub-tables that do not fit whole, in part beside those that do: all at once, or one after another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sdc.feasible.differences import Differences
from sdc.model import subtable as st
from sdc.model.errors import NotReleasableError
from sdc.model.parts import Parts
from sdc.model.release import NOTHING, Release
from sdc.model.subtable import SubTable
from sdc.risk.criteria import Judgement
from sdc.risk.effort import Depth
from sdc.risk.inquiry import Inquiry
from sdc.risk.verdict import Verdict
from sdc.search.wishes import PartWish
from sdc.search.withholding import withhold


@dataclass(frozen=True, eq=False)
class FoundParts:
    """What goes out in part.

    inquiry    knows it
    judgement  of all that goes out whole with it
    refused    sub-tables that do not go out in part either, and why
    """

    parts: Parts
    inquiry: Inquiry
    judgement: Judgement
    refused: tuple[tuple[SubTable, str], ...] = ()


def in_part(inquiry: Inquiry, whole: Judgement, wishes: Sequence[PartWish]) -> FoundParts:
    """Cells of sub-tables that were refused are withheld, so that all that is public then is proven safe.

    whole  the judgement that let out what fits

    They are looked at together first: what each withholds protects the others. Where that is not proven, or withholds
    more than is wished for, one after another, and those that fail are refused.
    """
    beside = replace(inquiry, known=inquiry.known.plus(whole.release), bank=whole.bank, refutations=None)
    refused = list[tuple[SubTable, str]]()
    try:
        found = _withheld(beside, wishes)
    except NotReleasableError as error:
        found = beside
        for wish in wishes:
            try:
                found = _withheld(found, [wish])
            except NotReleasableError as own:
                refused.append((wish.view, str(own if len(wishes) > 1 else error)))
    facts = tuple(fact for fact in found.known.facts if fact not in beside.known.facts)
    # of some nothing had to be withheld: these are whole
    release = whole.release.join(Release.of(fact.view for fact in facts if fact.between is None))
    parts = Parts(whole.release, tuple(fact for fact in facts if fact.between is not None))
    known = inquiry.known.telling(parts.facts)
    told = inquiry.knowing(known, parts.before(inquiry.known))
    told.bank = told.bank.with_evidence(_evidence(found), known.plus(release), {})
    judgement = told.ask(release, Depth.REFUTE)
    if not told.accepts(judgement):
        raise RuntimeError(
            "sub-tables in part are not proven by what was found for them; this is a fault of the search"
        )
    return FoundParts(parts, told, judgement, tuple(refused))


def _evidence(inquiry: Inquiry) -> Iterator[tuple[SubTable, Differences]]:
    for evidence in inquiry.bank.evidence.values():
        yield evidence.variables, evidence.differences


def _withheld(inquiry: Inquiry, wishes: Sequence[PartWish]) -> Inquiry:
    """What is known with the sub-tables in part; NotReleasableError where that is not proven, or too little of them."""
    schema = inquiry.table.schema
    views = [wish.view for wish in wishes]
    again = {wish.view: np.array(wish.again, np.int64) for wish in wishes}
    found = withhold(inquiry, views, cost={wish.view: wish.cost for wish in wishes}, again=again)
    for wish, hidden in zip(wishes, found.hidden, strict=True):
        if hidden.mean() > wish.most:
            raise NotReleasableError(
                f"of {st.label(wish.view, schema)} {int(hidden.sum())} of {len(hidden)} cells would have to be "
                f"withheld, and in_part allows {wish.most:g} of them; allow more, or publish coarser categories"
            )
    if found.inquiry.ask(NOTHING).verdict is not Verdict.SAFE:
        together = ", ".join(st.label(view, schema) for view in views)
        raise NotReleasableError(
            f"{together} in part: no proof was found that every at-risk cell keeps the width, whatever is withheld; "
            "give a larger budget, or publish coarser categories"
        )
    return found.inquiry
