"""The section of a config about the decision of [DFT] section 3: who uses a release, for what, and at what loss."""

from __future__ import annotations

from math import fsum
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from sdc.config.risk import AgencyLossesConfig
from sdc.config.values import Loss, Section, Text, Weight

TOLERANCE = 1e-6
Probability = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Threshold = Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]


def _adding_to_1(law: dict[Any, float]) -> dict[Any, float]:
    if abs((total := fsum(law.values())) - 1) > TOLERANCE:
        raise ValueError(f"the probabilities add to {total:.6g} instead of 1; change them")
    return law


Targets = Literal["at-risk", "all"] | Annotated[dict[Text, Probability], AfterValidator(_adding_to_1)]


class DataUserConfig(Section):
    """A user of the release: what the user looks for, and what the user believes before it."""

    targets: Targets = "at-risk"
    """the cells of the full table that may be the target: at-risk or all, each as probable; or a section with the
    probability of each, written 'age=young, sex=f', that add to 1"""
    law: Text = "released"
    """what the user believes: released, uniform, saturated, or a model such as '[a,b][b,c]'"""
    alpha: Weight = 0.5
    """of the prior for each cell of the full table, more than 0"""
    weight: Weight = 1.0
    """the weight of this user among those of its kind, more than 0"""


class IntruderConfig(DataUserConfig):
    """A user who claims the most probable count of the target where its probability is above a threshold."""

    thresholds: Annotated[dict[Threshold, Probability], AfterValidator(_adding_to_1)] = {0.9: 1.0}
    """the law of the threshold, which the agency does not know: a section with the probability of each, such as
    {0.5: 0.3, 0.9: 0.7}, that add to 1; thresholds are at least 0 and below 1"""
    agency: AgencyLossesConfig = AgencyLossesConfig()
    """a section with what a right and a wrong claim cost the agency"""


class ScientistConfig(DataUserConfig):
    """A user who estimates the count of the target, at the least expected loss."""

    targets: Targets = "all"
    """as those of an intruder; default all"""
    loss: Literal["squared", "absolute", "wrong"] = "squared"
    """of an estimate: the square of its error, its error, or 1 where it is not the count"""


class DecisionConfig(Section):
    """Which release to choose: the one of least risk among those of most utility ([DFT] section 3)."""

    intruders: tuple[IntruderConfig, ...] = ()
    """a list of sections, one an intruder; default one with its defaults. The risk is the weighted mean of what their
    claims cost the agency"""
    scientists: tuple[ScientistConfig, ...] = ()
    """a list of sections, one a scientist; default one with its defaults. The utility is the weighted mean of their
    losses, with a minus sign"""
    releases: dict[Text, tuple[Text, ...]] = {}
    """by any name a list of sub-tables: releases that are considered beside those of the curve, if they are
    releasable; default none"""
    within: Loss = 0.0
    """releases whose utility is at most this below the largest count as of most utility, at least 0"""

    @property
    def users(self) -> tuple[tuple[IntruderConfig, ...], tuple[ScientistConfig, ...]]:
        """The intruders and the scientists, at least one of each."""
        return self.intruders or (IntruderConfig(),), self.scientists or (ScientistConfig(),)

    @property
    def laws(self) -> tuple[str, ...]:
        """The laws of all users."""
        return tuple(user.law for users in self.users for user in users)
