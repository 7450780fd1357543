"""A limit on what a release makes likely of true counts: a criterion beside the bounds, which keep the last word."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sdc.intruder import hypergeometric
from sdc.intruder.cell_laws import Probabilities
from sdc.intruder.laws import RELEASED, law_of
from sdc.intruder.measures import EQUAL
from sdc.intruder.moments import at_truth
from sdc.intruder.posterior import exact_posterior
from sdc.model.errors import InputError, ReleaseError
from sdc.model.knowledge import Knowledge
from sdc.model.table import Counts, Table


@dataclass(frozen=True)
class PosteriorLimit:
    """How much of the at-risk cells' true counts a law may make likely.

    law, alpha       of the feasible tables, and its prior, see `laws.law_of`; only an exact engine judges
    threshold        of a true count's probability, above 0: every true count is more probable than that
    max_above        the largest fraction of the at-risk cells that may have theirs above it; None for no such limit
    max_probability  the largest probability that any one's true count may have; None for no such limit
    monotone         not: what one more sub-table tells may make true counts less likely

    A cell counts whether or not another count is more probable still: so the limit is stricter than one on the cells
    that are identified ([DFT] (5)), which are among them. InputError where nothing is limited, for an alpha that
    is not above 0, and for a value that is not between 0 and 1.
    """

    law: str = RELEASED
    alpha: float = 0.5
    threshold: float = 0.5
    max_above: float | None = None
    max_probability: float | None = None
    monotone: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 0 < self.threshold < 1:
            raise InputError(
                f"threshold = {self.threshold} of a limit; give a probability between 0 and 1, such as 0.5"
            )
        if self.max_above is None and self.max_probability is None:
            raise InputError("a limit on the posterior that limits nothing; give max_above or max_probability")
        if self.max_above is not None and not 0 <= self.max_above < 1:
            raise InputError(f"max_above = {self.max_above}; give a fraction of at least 0 and less than 1")
        if self.max_probability is not None and not 0 < self.max_probability < 1:
            raise InputError(f"max_probability = {self.max_probability}; give a probability between 0 and 1")

    @property
    def least(self) -> float:
        """What is less probable than this counts nowhere."""
        return min(self._counting)

    @property
    def most(self) -> float:
        """What is more probable than this, counts in no other way for how much it is so."""
        return max(self._counting) + 2 * EQUAL

    @property
    def _counting(self) -> list[float]:
        threshold = None if self.max_above is None else self.threshold
        return [limit for limit in (threshold, self.max_probability) if limit is not None]

    def judge(self, table: Table, knowledge: Knowledge, rows: Counts) -> Likely:
        """What the release makes likely of these at-risk rows of the table.

        ReleaseError where no exact engine gives the law: what is sampled proves no limit.
        """
        table, knowledge = table.flat, knowledge.flat
        law, cells = law_of(self.law, table.schema, self.alpha), table.codes[rows]
        if law.equals_released(knowledge) and hypergeometric.is_treatable(knowledge):
            return self.of(at_truth(table, knowledge, rows), rows)
        found = exact_posterior(table, knowledge, law, cells)
        if found is None:
            raise ReleaseError(
                f"the limit on the posterior is of the law {self.law}, which no exact engine gives of this release; "
                f"choose the law {RELEASED} and a decomposable release"
            )
        return self.of(found.cells.at_truth, rows)

    def of(self, probabilities: Probabilities, rows: Counts) -> Likely:
        """From the (n,) probabilities of the true counts of these rows, of which there is one at least."""
        first = int(np.argmax(probabilities))
        above = int((probabilities > self.threshold + EQUAL).sum())
        kept = self.keeps(probabilities, len(rows))
        return Likely(self, kept, above, len(rows), float(probabilities[first]), int(rows[first]))

    def keeps(self, probabilities: Probabilities, cells: int, equal: float = EQUAL) -> bool:
        """Whether so many cells keep the limit, whose true counts have these probabilities, the others less ones."""
        above = int((probabilities > self.threshold + equal).sum())
        few = self.max_above is None or above <= self.max_above * cells
        return few and (self.max_probability is None or bool((probabilities <= self.max_probability + equal).all()))


@dataclass(frozen=True)
class Likely:
    """What a release makes likely of the at-risk cells' true counts, beside its limit.

    is_kept       whether the limit holds
    above, cells  how many cells have their true count above the threshold, of how many
    highest, row  the largest probability of a true count, and the row of the table that has it first
    """

    limit: PosteriorLimit
    is_kept: bool
    above: int
    cells: int
    highest: float
    row: int

    @property
    def fraction(self) -> float:
        return self.above / self.cells

    @property
    def text(self) -> str:
        """What is found, and where the limit does not hold what it asks for."""
        limit = self.limit
        found = [
            f"{self.above} of {self.cells} at-risk cells ({self.fraction:.4f}) have their true count at a "
            f"probability above {limit.threshold:g}" + _allowed(limit.max_above),
            f"the most probable has {self.highest:.4f}" + _allowed(limit.max_probability),
        ]
        return f"under the law {limit.law} " + ", and ".join(found)


def _allowed(most: float | None) -> str:
    return "" if most is None else f" (at most {most:g} allowed)"
