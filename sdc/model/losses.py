"""Losses from claims on counts, of an intruder and of the agency, [DFT] section 3, and limits on them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sdc.model.errors import InputError

LEAST = 1e-6  # relative to the loss of a wrong claim


@dataclass(frozen=True)
class IntruderLosses:
    """The intruder's loss for no claim on a cell (`none`) and for a `wrong` claim; a right claim costs nothing.

    Raises InputError for a value that is not positive, or if `none` is so small that only certain counts would be
    claimed.
    """

    none: float
    wrong: float = 1.0

    def __post_init__(self) -> None:
        for name, loss in (("none", self.none), ("wrong", self.wrong)):
            if not 0 < loss < math.inf:
                raise InputError(f"{name} = {loss} of an intruder's losses; give a number above 0")
        if self.none < LEAST * self.wrong:
            raise InputError(
                f"none = {self.none} of an intruder's losses is negligible beside wrong = {self.wrong}, so no claim "
                "would be made; raise none"
            )

    @property
    def threshold(self) -> float:
        """The probability above which a count is claimed.

        A claim of k has the expected loss wrong (1 - Pr(f = k)), least for the most probable count, and below `none` if
        Pr(f = k) > 1 - none / wrong. It is 0, so that every cell is claimed, if `none` is not below `wrong`.
        """
        return max(0.0, 1 - self.none / self.wrong)


@dataclass(frozen=True)
class AgencyLosses:
    """The agency's loss if a claim is right, and if it is wrong, which may harm too; no claim costs nothing.

    Raises InputError for a negative loss, and if all are 0.
    """

    right: float = 1.0
    wrong: float = 0.0

    def __post_init__(self) -> None:
        for name, loss in (("right", self.right), ("wrong", self.wrong)):
            if not 0 <= loss < math.inf:
                raise InputError(f"{name} = {loss} of the agency's losses; give a number of at least 0")
        if self.right == self.wrong == 0:
            raise InputError("the agency's losses are all 0; give the loss that a correct claim causes")


def check_limit(
    max_above: float | None, max_probability: float | None, max_loss: float | None, most: float | None
) -> None:
    """InputError for a limit that limits nothing, or an invalid loss.

    most  the largest loss of the agency from one claim; None without losses
    """
    if (most is None) != (max_loss is None):
        raise InputError("max_loss needs losses; give both or neither")
    if most is not None and max_loss is not None and not 0 <= max_loss < most:
        raise InputError(
            f"max_loss = {max_loss}; give at least 0, and less than the {most:g} that a claim may cost the agency"
        )
    if max_above is None and max_probability is None and max_loss is None:
        raise InputError("the posterior limit has no limit; give max_above, max_probability or max_loss")
