"""Measures of an intruder's possible knowledge, of [DFT] section 4."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sdc.intruder.cell_laws import CellLaws, Probabilities
from sdc.model import subtable as st
from sdc.model.cell_bounds import Intervals
from sdc.model.errors import InputError
from sdc.model.knowledge import Knowledge
from sdc.model.marginal import CellMarginals
from sdc.model.subtable import SubTable
from sdc.model.table import Counts, freeze

ALL = 1.0
EQUAL = 1e-9  # tolerance for rounding when probabilities are compared


def log_probability_if_uniform(feasible_tables: int) -> float:
    """log 1/M(T), of the true table if all feasible ones are equally likely ([DFT] section 4.1); M(T) may exceed
    doubles.
    """
    return 0.0 - math.log(feasible_tables)


def identified(at_truth: Probabilities, highest: Probabilities, threshold: float) -> float:
    """The fraction of cells whose true count is their most likely one, and more probable than the threshold.

    [DFT] (5), from the (n,) probabilities of true and of most likely counts; ties count as the true one. InputError for
    an invalid threshold.
    """
    check_threshold(threshold)
    return float(are_identified(at_truth, highest, threshold).mean())


def are_identified(
    at_truth: Probabilities, highest: Probabilities, threshold: float, equal: float = EQUAL
) -> npt.NDArray[np.bool_]:
    """(n,) which cells are identified."""
    found: npt.NDArray[np.bool_] = (at_truth > threshold + equal) & (at_truth >= highest - EQUAL)
    return found


def above(at_truth: Probabilities, threshold: float) -> float:
    """The fraction of the cells whose true count is more probable than the threshold, most likely or not."""
    check_threshold(threshold)
    return float((at_truth > threshold + EQUAL).mean())


def check_threshold(threshold: float) -> None:
    """InputError unless 0 <= threshold < 1."""
    if not 0 <= threshold < 1:
        raise InputError(f"threshold = {threshold}; give a probability of at least 0 and below 1, such as 0.9")


@dataclass(frozen=True, eq=False)
class Groups:
    """Attribute disclosure: does a cell hold all, or nearly all, of a released marginal cell that contains it?

    All variables are known for the members of such a group. The smallest group decides: a cell with a share of any
    released group has at least that share of the smallest one.

    share       of a group's records, above 0.5; 1 for all
    sub_tables  (n,) uint64 bit sets of each cell's smallest group, the first of equal ones
    records     (n,) int64 number in the group
    """

    share: float
    sub_tables: npt.NDArray[np.uint64]
    records: Counts

    def __post_init__(self) -> None:
        freeze(self, "sub_tables", "records")

    @property
    def needed(self) -> Counts:
        """(n,) the least count with this share; without records there is none."""
        # 0.7 of 10 are 7, which binary fractions would make 8
        least = np.ceil(np.round(self.share * self.records, 9)).astype(np.int64)
        return np.maximum(least, 1)

    def probabilities(self, laws: CellLaws) -> Probabilities:
        """(n,) Pr(f_i >= share n_m | R) of each cell, the largest over the released groups m that contain it."""
        return laws.at_least(self.needed)

    def are_certain(self, bounds: Intervals) -> npt.NDArray[np.bool_]:
        """(n,) where (n, 2) bounds prove it."""
        return bounds[:, 0] >= self.needed

    def are_impossible(self, bounds: Intervals) -> npt.NDArray[np.bool_]:
        """(n,) where (n, 2) bounds exclude it."""
        return bounds[:, 1] < self.needed


def groups(marginals: CellMarginals, knowledge: Knowledge, share: float = ALL) -> Groups:
    """The smallest released group of each cell; InputError for a share that is not above 0.5 and at most 1."""
    check_share(share)
    sub_tables = _with_groups(knowledge)
    counts = np.stack([marginals.at(sub_table) for sub_table in sub_tables])
    return Groups(share, np.array(sub_tables, np.uint64)[counts.argmin(axis=0)], counts.min(axis=0))


def _with_groups(knowledge: Knowledge) -> tuple[SubTable, ...]:
    """The largest released sub-tables with something to learn: of the whole table, all but one variable."""
    frontier, varying, schema = knowledge.release.frontier, knowledge.structure.varying, knowledge.schema
    if not any(st.is_within(varying, element) for element in frontier):
        return frontier
    return tuple(st.children(varying, schema)) or (st.GRAND_TOTAL,)


def check_share(share: float) -> None:
    """InputError unless 0.5 < share <= 1: below, two cells may hold as much."""
    if not 0.5 < share <= 1:
        raise InputError(f"share = {share}; give a number above 0.5 and at most 1, such as 0.9, or 1 for all")
