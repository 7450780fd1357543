"""Which candidates break what certifies the cells that stopped a release, and which leave it as it is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from sdc.feasible.differences import Differences, Flags
from sdc.feasible.witness_pool import CellRows, Evidence
from sdc.model import subtable as st
from sdc.model.fact import NO_FACTS
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.structural_zeros import NO_ZEROS
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.risk.criteria import Evaluation

Parts = tuple[Sequence[SubTable], Sequence[SubTable]]


def parted(evaluation: Evaluation, stopped: Evaluation, candidates: Sequence[SubTable]) -> Parts:
    """Candidates that were refused together, in two parts, each in its order: what is likely to be accepted first.

    evaluation  that of the release which they were to be added to
    stopped    that of the release with all of them

    The first part keeps every difference by which the cells that stopped them are certified in the smaller release:
    whatever stops it is another cell. Of these cells as many are looked at as leave something to both parts. Where
    there is none, halves.
    """
    part, pool = np.zeros(len(candidates), np.bool_), evaluation.pool
    keys = pool.table.schema.keys
    for cell in stopped.blockers:
        row = keys.matching(pool.at_risk.cells, np.array([cell], np.uint16))
        both = part | _breaking(list(pool.evidence.values()), row, candidates)
        if both.all():
            break
        part = both
    return split(candidates, part.tolist()) if part.any() else halves(candidates)


def halves(candidates: Sequence[SubTable]) -> Parts:
    """The first half, and the rest."""
    half = len(candidates) // 2
    return candidates[:half], candidates[half:]


def split(candidates: Sequence[SubTable], is_last: Iterable[bool]) -> Parts:
    """Those that come first, and those that come last, each in their order."""
    parts: tuple[list[SubTable], list[SubTable]] = [], []
    for candidate, flag in zip(candidates, is_last, strict=True):
        parts[flag].append(candidate)
    return parts


def _breaking(found: Sequence[Evidence], row: CellRows, candidates: Sequence[SubTable]) -> Flags:
    """(candidates,) which of them change a difference that an end of an at-risk cell rests on, or join components."""
    broken = np.zeros(len(candidates), np.bool_)
    for evidence in found:
        every = np.ones(len(evidence.differences), np.bool_)
        resting = evidence.differences.rows(evidence.needed(every, evidence.frame.row[row].astype(np.int64)))
        if len(resting):
            table, variables = evidence.frame.table, evidence.variables
            broken |= [not _is_kept(resting, t, table, variables) for t in candidates]
    return broken


def _is_kept(differences: Differences, candidate: SubTable, table: Table, variables: SubTable) -> bool:
    """Whether a candidate within a component changes none of the differences of its marginal table."""
    if not st.is_within(candidate, variables):
        return False  # with it components are joined, and what was found of them counts no more
    asked = Release.of([st.within(candidate, variables)])
    known = Knowledge(table.schema, table.total, asked, NO_ZEROS, NO_FACTS)
    return bool(differences.preserve(known).all())
