"""The sections of a config about what is found out beside the release."""

from __future__ import annotations

from math import fsum
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StrictInt, model_validator

from sdc.config.methods import CurveMethod
from sdc.config.risk import AgencyLossesConfig, LossesConfig
from sdc.config.values import Loss, NotNegative, Positive, Section, Share, Text, Weight

TOLERANCE = 1e-6
Probability = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Threshold = Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]


def _adding_to_1(law: dict[Any, float]) -> dict[Any, float]:
    if abs((total := fsum(law.values())) - 1) > TOLERANCE:
        raise ValueError(f"the probabilities sum to {total:.6g}; they must sum to 1")
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


MOST_SEEDS = 100  # of a reconstruction


def _not_empty(values: tuple[Any, ...]) -> tuple[Any, ...]:
    if not values:
        raise ValueError("it is empty")
    return values


class CurveConfig(Section):
    """The risk-utility curve: the best release of each method for every width and small count."""

    newer = frozenset({"decision"})

    min_width: Annotated[tuple[Positive, ...], AfterValidator(_not_empty)]
    """a list of minimum widths, each at least 1"""
    small_count: Annotated[tuple[Positive, ...], AfterValidator(_not_empty)] | None = None
    """a list of small counts, each at least 1; default that of the build"""
    methods: Annotated[tuple[CurveMethod, ...], AfterValidator(_not_empty)] = ("ordered", "decomposable")
    """a list of ordered, bisection, decomposable and best"""
    max_above: tuple[Share, ...] = ()
    """a list of fractions of at-risk cells whose true count may be above the threshold, each at least 0 and below 1:
    the decomposable release of the build's min_width under each, and under none; default none of these"""
    threshold: Annotated[Share, Field(gt=0)] = 0.5
    """of the probability of a true count, between 0 and 1"""
    decision: DecisionConfig | None = None
    """a section about users of the releases, by which one of them is recommended; default none"""


class WeightedConfig(Section):
    """Totals of survey weights, beside or instead of the counts that are published."""

    publish: Literal["beside", "instead"] = "beside"
    """beside the counts, or instead of them; the counts decide, and are taken to be known, in both"""
    round: Annotated[StrictInt, Field(ge=1, le=10**9)] = 1000
    """totals are rounded to multiples of this whole number; the coarser, the more totals can go out"""
    programs: NotNegative = 200_000
    """most small linear programs that are solved for it; totals not judged by then are withheld"""


class RemediesConfig(Section):
    """Recodes that are tried on what stopped the release."""

    variables: Positive = 6
    """of how many variables, the most promising first, a merge of two categories and leaving the variable out are
    tried, at least 1"""


class PosteriorConfig(Section):
    """What an intruder may hold likely of the release, for the report."""

    laws: Annotated[tuple[Text, ...], AfterValidator(_not_empty)] = ("released",)
    """a list of released, uniform, saturated, and models such as '[a,b][b,c]'"""
    alpha: Annotated[tuple[Weight, ...], AfterValidator(_not_empty)] = (0.5,)
    """a list of numbers more than 0, of the prior for each cell of the full table"""
    threshold: Annotated[float, Field(ge=0, lt=1, strict=True)] = 0.9
    """a cell is identified where its true count is its most probable one and more so than this, at least 0 and below
    1"""
    losses: LossesConfig | None = None
    """a section with the losses of intruder and agency, for the disclosure risk; default those of risk.posterior, or
    none"""
    share: Annotated[float, Field(gt=0.5, le=1, strict=True)] = 1.0
    """the share of a released group in one cell that discloses the others' categories, above 0.5 up to 1, which is
    all"""
    draws: Annotated[Positive, Field(ge=20)] = 1000
    """the draws of each chain where there is no exact law, at least 20"""
    chains: Annotated[Positive, Field(le=1024)] = 4
    """the Markov chains where there is no exact law, from 1 to 1024"""
    seed: NotNegative = 0
    """the seed of the chains, at least 0"""
    error: Annotated[float | None, Field(gt=0, strict=True)] = 0.005
    """chains are made longer until no probability has a larger Monte Carlo standard error than this, above 0; null for
    the draws that are named"""
    most_draws: Positive = 64_000
    """the draws of each chain at most, where it is made longer"""
    refusals: Annotated[NotNegative, Field(le=100_000)] = 0
    """where no more tables than this agree with the release, each is built again, for what an intruder learns who knows
    the settings; 0: never"""

    @property
    def sampling(self) -> dict[str, Any]:
        """How far chains go, by the names of `sdc.intruder.chains.Sampling`."""
        own = self.model_dump(include={"draws", "chains", "seed", "error"})
        return {**own, "most": max(self.draws, self.most_draws)}


class UniquesConfig(Section):
    """How probably sample uniques are population uniques, for the report."""

    fraction: Annotated[float | None, Field(ge=1e-12, le=1, strict=True, allow_inf_nan=False)] = None
    """the share of the population that is in the sample, above 0 (1e-12 at least) and at most 1; default by the weights
    that table.weight names"""
    model: Text | None = None
    """best, the decomposable log-linear model of lowest BIC, the default; released, that of the release; or one such as
    '[a,b][b,c]'; only with a fraction"""

    @model_validator(mode="after")
    def _models_are_for_fractions(self) -> UniquesConfig:
        if self.model is not None and self.fraction is None:
            raise ValueError(
                f"model = {self.model!r} is given without a fraction, and weights have no model; give a fraction, or "
                "leave the model out"
            )
        return self


class AttackConfig(Section):
    """What a reconstruction from the published tables guesses, for the report."""

    seeds: Annotated[
        NotNegative,
        Field(
            le=MOST_SEEDS,
            description=f"number of starts of the reconstruction, from 0 to {MOST_SEEDS}, by sdc-tables[attack]; 0 "
            "means the independence model alone",
        ),
    ] = 3


class WidthsConfig(Section):
    place = "widths"

    threshold: NotNegative | None = None
    """only sub-tables whose critical width reaches this; default all, above 20 variables those that reach the least
    min_width, or the widest of them, see `most`"""
    most: Positive | None = None
    """at most so many sub-tables are listed: where more reach the least min_width a higher threshold is chosen, and
    said; default 20,000 above 20 variables, else all; not beside `threshold`, which is obeyed"""

    @model_validator(mode="after")
    def _only_one(self) -> WidthsConfig:
        if self.threshold is not None and self.most is not None:
            raise ValueError(f"threshold = {self.threshold} and most are both given; keep one")
        return self
