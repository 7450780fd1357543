"""What every search ends with: a release, and the judgement that let it through."""

from __future__ import annotations

from dataclasses import dataclass

from sdc.feasible.proof import Proof
from sdc.model.release import Release
from sdc.risk.criterion import Assessment, Judgement


@dataclass(frozen=True, eq=False)
class Found:
    """A release with its judgement, as it was when the search accepted it."""

    judgement: Judgement

    @property
    def release(self) -> Release:
        return self.judgement.release

    @property
    def assessment(self) -> Assessment:
        return self.judgement.assessment

    @property
    def proof(self) -> Proof:
        """What shows that the release is safe."""
        return self.judgement.proof
