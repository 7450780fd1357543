"""What a claim on a count costs an intruder and the agency, [DFT] section 3, and what a limit on that may be."""

from __future__ import annotations

import math
from dataclasses import dataclass

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


def check_limit(
    max_above: float | None, max_probability: float | None, max_loss: float | None, most: float | None
) -> None:
    """InputError for a limit on the posterior that limits nothing, and for a loss that is none.

    most  what a claim may cost the agency; None without losses
    """
    if (most is None) != (max_loss is None):
        raise InputError("max_loss is of losses; give both, or none")
    if most is not None and max_loss is not None and not 0 <= max_loss < most:
        raise InputError(
            f"max_loss = {max_loss}; give at least 0, and less than the {most:g} that a claim may cost the agency"
        )
    if max_above is None and max_probability is None and max_loss is None:
        raise InputError("a limit on the posterior that limits nothing; give max_above, max_probability or max_loss")
