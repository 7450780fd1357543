"""Costs of an intruder's claims for both sides: the decisions of [DFT] section 3."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sdc.intruder.cell_laws import Probabilities
from sdc.intruder.measures import EQUAL, are_identified
from sdc.model.losses import AgencyLosses, IntruderLosses


@dataclass(frozen=True)
class Claims:
    """The numbers of right and wrong claims of an intruder, None if not counted, and of cells."""

    right: int
    wrong: int | None
    cells: int


@dataclass(frozen=True)
class Losses:
    """The losses of both sides for one at-risk cell, whose count the agency knows.

    With none = 1 - t and wrong = 1 for the intruder, and right = 1 and wrong = 0 for the agency, the disclosure risk is
    the fraction of the cells that are identified at the threshold t, [DFT] (5).
    """

    intruder: IntruderLosses
    agency: AgencyLosses = field(default_factory=AgencyLosses)

    @property
    def most(self) -> float:
        """The largest cost of a claim for the agency."""
        return max(self.agency.right, self.agency.wrong)

    @staticmethod
    def of(facts: Mapping[str, Any]) -> Losses:
        """From `{"intruder": {"none": 0.1}, "agency": {"wrong": 0.5}}`, as in configs and documents."""
        return Losses(IntruderLosses(**facts["intruder"]), AgencyLosses(**facts.get("agency", {})))

    def claims(self, at_truth: Probabilities, highest: Probabilities, equal: float = EQUAL) -> Claims:
        """Claims by the (n,) probabilities of true and of most likely counts; of equal ones the true one is claimed."""
        threshold = self.intruder.threshold
        right = are_identified(at_truth, highest, threshold, equal)
        return Claims(int(right.sum()), int(((highest > threshold + equal) & ~right).sum()), len(right))

    def total(self, claims: Claims) -> float:
        """The cost of all claims for the agency."""
        return self.agency.right * claims.right + self.agency.wrong * (claims.wrong or 0)

    def risk(self, claims: Claims) -> float:
        """DR(R), the agency's mean loss over the cells from the intruder's best action; 0 without cells."""
        return self.total(claims) / claims.cells if claims.cells else 0.0
