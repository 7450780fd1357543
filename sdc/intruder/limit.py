"""A limit on what a release makes likely of true counts: a criterion beside the bounds, which keep the last word."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sdc.intruder import hypergeometric
from sdc.intruder.cell_laws import Probabilities
from sdc.intruder.laws import RELEASED, law_of
from sdc.intruder.measures import EQUAL, check_threshold
from sdc.intruder.moments import at_truth
from sdc.intruder.posterior import exact_posterior
from sdc.model.errors import InputError, ReleaseError
from sdc.model.knowledge import Knowledge
from sdc.model.table import Counts, Table


@dataclass(frozen=True)
class PosteriorLimit:
    """How much of the at-risk cells' true counts a law may make likely.

    law, alpha       of the feasible tables, and its prior, see `laws.law_of`; only an exact engine judges
    threshold        a cell is identified where its true count is more probable than this
    max_identified   the largest fraction of the at-risk cells that may be identified; None for no such limit
    max_probability  the largest probability that any one's true count may have; None for no such limit

    Not monotone: what one more sub-table tells may make true counts less likely. InputError where nothing is limited,
    for an alpha that is not above 0, and for a value that is not between 0 and 1.
    """

    law: str = RELEASED
    alpha: float = 0.5
    threshold: float = 0.5
    max_identified: float | None = None
    max_probability: float | None = None

    def __post_init__(self) -> None:
        check_threshold(self.threshold)
        if self.max_identified is None and self.max_probability is None:
            raise InputError("a limit on the posterior that limits nothing; give max_identified or max_probability")
        if self.max_identified is not None and not 0 <= self.max_identified < 1:
            raise InputError(f"max_identified = {self.max_identified}; give a fraction of at least 0 and less than 1")
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
        threshold = None if self.max_identified is None else self.threshold
        return [limit for limit in (threshold, self.max_probability) if limit is not None]

    def judge(self, table: Table, knowledge: Knowledge, rows: Counts) -> Identification:
        """What the release makes likely of these at-risk rows of the table.

        ReleaseError where no exact engine gives the law: what is sampled proves no limit.
        """
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

    def of(self, probabilities: Probabilities, rows: Counts) -> Identification:
        """From the (n,) probabilities of the true counts of these rows, of which there is one at least."""
        first = int(np.argmax(probabilities))
        identified = int((probabilities > self.threshold + EQUAL).sum())
        kept = self.keeps(probabilities, len(rows))
        return Identification(self, kept, identified, len(rows), float(probabilities[first]), int(rows[first]))

    def keeps(self, probabilities: Probabilities, cells: int, equal: float = EQUAL) -> bool:
        """Whether so many cells keep the limit, whose true counts have these probabilities, the others less ones."""
        identified = int((probabilities > self.threshold + equal).sum())
        few = self.max_identified is None or identified <= self.max_identified * cells
        return few and (self.max_probability is None or bool((probabilities <= self.max_probability + equal).all()))


@dataclass(frozen=True)
class Identification:
    """What a release makes likely of the at-risk cells' true counts, beside its limit.

    is_kept            whether the limit holds
    identified, cells  how many cells are identified, of how many
    highest, row       the largest probability of a true count, and the row of the table that has it first
    """

    limit: PosteriorLimit
    is_kept: bool
    identified: int
    cells: int
    highest: float
    row: int

    @property
    def fraction(self) -> float:
        return self.identified / self.cells

    @property
    def text(self) -> str:
        """What is found, and where the limit does not hold what it asks for."""
        limit = self.limit
        found = [
            f"{self.identified} of {self.cells} at-risk cells ({self.fraction:.4f}) have their true count at a "
            f"probability above {limit.threshold:g}" + _allowed(limit.max_identified),
            f"the most probable has {self.highest:.4f}" + _allowed(limit.max_probability),
        ]
        return f"under the law {limit.law} " + ", and ".join(found)


def _allowed(most: float | None) -> str:
    return "" if most is None else f" (at most {most:g} allowed)"
