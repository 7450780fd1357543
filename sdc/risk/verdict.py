"""What is said of a release, and what may follow from it."""

from __future__ import annotations

from enum import Enum, IntEnum

import numpy as np
import numpy.typing as npt


class Verdict(IntEnum):
    """The three answers; a larger one is better. What is not proven safe is never called so."""

    UNSAFE = 0
    UNDECIDED = 1
    SAFE = 2

    @property
    def releasable(self) -> bool | None:
        """As documents have it: true, false, or null where nothing could decide."""
        return {Verdict.SAFE: True, Verdict.UNSAFE: False, Verdict.UNDECIDED: None}[self]

    @staticmethod
    def worst(verdicts: npt.ArrayLike) -> Verdict:
        """Of (n,) verdicts; of none it is SAFE. One that refutes is enough, whatever the others are."""
        return Verdict(int(np.min(verdicts, initial=Verdict.SAFE)))

    @staticmethod
    def read(releasable: bool | None) -> Verdict:
        """What `releasable` gave."""
        return {True: Verdict.SAFE, False: Verdict.UNSAFE, None: Verdict.UNDECIDED}[releasable]


class Policy(Enum):
    """Which verdicts let a release out: only what is proven, or also what no outer bound refutes."""

    REFUSE = "refuse"
    OUTER = "outer"

    def accepts(self, verdict: Verdict) -> bool:
        """Whether a release with this verdict may go out."""
        return verdict >= (Verdict.SAFE if self is Policy.REFUSE else Verdict.UNDECIDED)
