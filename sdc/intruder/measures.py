"""Measures of what an intruder may hold known, of [DFT] section 4."""

from __future__ import annotations

from sdc.intruder.cell_laws import CellLaws
from sdc.model.errors import InputError

EQUAL = 1e-9  # a probability is above another one where it is so by more than rounding makes


def identified(laws: CellLaws, threshold: float) -> float:
    """The fraction of the cells whose true count has a probability of more than the threshold ([DFT] (5)).

    InputError for a threshold that is not between 0 and 1.
    """
    check_threshold(threshold)
    return float((laws.at_truth > threshold + EQUAL).mean())


def check_threshold(threshold: float) -> None:
    """InputError for what is not between 0 and 1."""
    if not 0 < threshold < 1:
        raise InputError(f"threshold = {threshold}; give a probability between 0 and 1, such as 0.9")
