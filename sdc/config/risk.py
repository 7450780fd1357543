"""The section of a config about risk."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StrictBool, model_validator

from sdc.config.values import Loss, Names, Positive, Section, Share, Weight, as_fault
from sdc.model.losses import AgencyLosses, IntruderLosses, check_limit


class IntruderLossesConfig(Section):
    """What a claim on the count of an at-risk cell costs who makes it; one that is right costs nothing."""

    none: Weight
    """what it costs to claim nothing, more than 0: a count is claimed where it is more probable than 1 - none / wrong;
    one is always claimed where none is not below wrong"""
    wrong: Weight = 1.0
    """what it costs to claim a count that is wrong, more than 0"""

    @model_validator(mode="after")
    def _he_claims(self) -> IntruderLossesConfig:
        with as_fault():
            IntruderLosses(self.none, self.wrong)
        return self


class AgencyLossesConfig(Section):
    """What an intruder's claims cost the agency; to claim nothing costs nothing."""

    right: Loss = 1.0
    """what a claim that is right costs, at least 0"""
    wrong: Loss = 0.0
    """what one that is wrong costs, which may harm too, at least 0"""

    @model_validator(mode="after")
    def _something_costs(self) -> AgencyLossesConfig:
        with as_fault():
            AgencyLosses(self.right, self.wrong)
        return self


class LossesConfig(Section):
    """What an intruder claims of at-risk cells, and what that costs, [DFT] section 3."""

    intruder: IntruderLossesConfig
    """a section with none, and wrong"""
    agency: AgencyLossesConfig = AgencyLossesConfig()
    """a section with right and wrong"""

    @property
    def most(self) -> float:
        """What a claim may cost the agency."""
        return max(self.agency.right, self.agency.wrong)


class PosteriorLimitConfig(Section):
    """How much of the at-risk cells' true counts a release may make likely; not monotone."""

    law: Literal["released"] = "released"
    """released, the one law that is exact of every decomposable release"""
    threshold: Annotated[Share, Field(gt=0)] = 0.5
    """of the probability of a true count, between 0 and 1"""
    max_above: Share | None = None
    """the largest fraction of at-risk cells whose true count is more probable than the threshold, at least 0 and below
    1; default any"""
    max_probability: Annotated[Share | None, Field(gt=0)] = None
    """the largest probability of any one's true count, between 0 and 1; default any"""
    losses: LossesConfig | None = None
    """a section with the losses of intruder and agency, for max_loss; default none"""
    max_loss: Loss | None = None
    """the largest disclosure risk, the mean over the at-risk cells of what the intruder's claims cost the agency, at
    least 0 and less than a claim may cost; default any"""

    @model_validator(mode="after")
    def _limits(self) -> PosteriorLimitConfig:
        most = None if self.losses is None else self.losses.most
        with as_fault():
            check_limit(self.max_above, self.max_probability, self.max_loss, most)
        return self


class AttributesConfig(Section):
    """Groups of which nothing in common may be disclosed."""

    sensitive: Names
    """a list of variables; coarser levels of one are sensitive too"""
    most: Positive
    """the largest group that is protected, in records, at least 1"""
    lacking: StrictBool = True
    """true: no group may be shown to lack a category; false: only to have one category alone"""


class MinValuesConfig(Section):
    """How many different values an at-risk cell can still take."""

    least: Annotated[Positive, Field(ge=2)]
    """the least number of values over all feasible tables, at least 2"""
    include_zero: StrictBool = False
    """true: 0 must be one of them"""


def _section(given: Any) -> Any:
    """A plain number is the least."""
    return {"least": given} if isinstance(given, int) and not isinstance(given, bool) else given


class RiskConfig(Section):
    place = "risk"
    newer = frozenset({"min_values"})

    min_width: Positive
    """the smallest width allowed of the bounds of an at-risk cell, at least 1"""
    small_count: Positive = 2
    """cells of 1 up to this count are at risk, an integer of at least 1"""
    accept_undecided: StrictBool = False
    """true: accept what no outer bound refutes; false: refuse what is not proven safe"""
    min_frequency: Annotated[Positive | None, Field(ge=2)] = None
    """the smallest count above 0 that may be published, an integer of at least 2; default any"""
    attribute_disclosure: AttributesConfig | None = None
    """a section with sensitive variables, and most records of a group; default none"""
    min_values: Annotated[MinValuesConfig | None, BeforeValidator(_section)] = None
    """a section with the least number of values that an at-risk cell can take, and include_zero; default any"""
    posterior: PosteriorLimitConfig | None = None
    """a section with max_above, max_probability or max_loss, for method decomposable; default no limit"""
