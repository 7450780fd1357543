"""What an intruder's claims cost him and the agency: the decisions of [DFT] section 3."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sdc.intruder.cell_laws import Probabilities
from sdc.intruder.measures import EQUAL, are_identified
from sdc.model.errors import InputError

LEAST = 1e-6  # of what a wrong claim costs


@dataclass(frozen=True)
class IntruderLosses:
    """What it costs an intruder to claim nothing of a cell, and to claim a count that is `wrong`; a right one nothing.

    InputError for what is not above 0, and where `none` is next to nothing: he would claim only what is certain.
    """

    none: float
    wrong: float = 1.0

    def __post_init__(self) -> None:
        for name, loss in (("none", self.none), ("wrong", self.wrong)):
            if not 0 < loss < math.inf:
                raise InputError(f"{name} = {loss} of an intruder's losses; give a number above 0")
        if self.none < LEAST * self.wrong:
            raise InputError(
                f"none = {self.none} of an intruder's losses is next to nothing beside wrong = {self.wrong}: he claims "
                "nothing; give more"
            )

    @property
    def threshold(self) -> float:
        """How probable a count must be for him to claim it: more than this.

        To claim k is expected to cost wrong (1 - Pr(f = k)), least of the most probable count, and less than `none`
        where Pr(f = k) > 1 - none / wrong. It is 0, and he always claims, where `none` is not below `wrong`.
        """
        return max(0.0, 1 - self.none / self.wrong)


@dataclass(frozen=True)
class AgencyLosses:
    """What it costs the agency that a claim is right, and that it is wrong, which may harm too; none costs nothing.

    InputError for a negative one, and where nothing costs anything.
    """

    right: float = 1.0
    wrong: float = 0.0

    def __post_init__(self) -> None:
        for name, loss in (("right", self.right), ("wrong", self.wrong)):
            if not 0 <= loss < math.inf:
                raise InputError(f"{name} = {loss} of the agency's losses; give a number of at least 0")
        if self.right == self.wrong == 0:
            raise InputError("the agency's losses are all 0; give what a claim that is right costs it")


@dataclass(frozen=True)
class Claims:
    """How many claims of an intruder are right, how many wrong, None where these are not counted; of how many cells."""

    right: int
    wrong: int | None
    cells: int


@dataclass(frozen=True)
class Losses:
    """The losses of both sides for one at-risk cell, whose count the agency knows.

    With none = 1 - t and wrong = 1 of the intruder, and right = 1 and wrong = 0 of the agency, the disclosure risk is
    the fraction of the cells that are identified at the threshold t, [DFT] (5).
    """

    intruder: IntruderLosses
    agency: AgencyLosses = AgencyLosses()

    @staticmethod
    def of(facts: Mapping[str, Any]) -> Losses:
        """From `{"intruder": {"none": 0.1}, "agency": {"wrong": 0.5}}`, as a config and documents have them."""
        return Losses(IntruderLosses(**facts["intruder"]), AgencyLosses(**facts.get("agency", {})))

    def claims(self, at_truth: Probabilities, highest: Probabilities, equal: float = EQUAL) -> Claims:
        """By the (n,) probabilities of true and of most likely counts; of equal ones the true one is claimed."""
        threshold = self.intruder.threshold
        right = are_identified(at_truth, highest, threshold, equal)
        return Claims(int(right.sum()), int(((highest > threshold + equal) & ~right).sum()), len(right))

    def total(self, claims: Claims) -> float:
        """What all claims together cost the agency."""
        return self.agency.right * claims.right + self.agency.wrong * (claims.wrong or 0)

    def risk(self, claims: Claims) -> float:
        """DR(R), the mean over the cells of what the intruder's best action costs the agency; 0 of no cell."""
        return self.total(claims) / claims.cells if claims.cells else 0.0
