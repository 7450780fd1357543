"""A limit on what a release makes likely of true counts: a criterion beside the bounds, which keep the last word."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np

from sdc.intruder import hypergeometric
from sdc.intruder.cell_laws import CellLaws, Probabilities
from sdc.intruder.laws import RELEASED, law_of
from sdc.intruder.losses import Claims, Losses
from sdc.intruder.measures import EQUAL
from sdc.intruder.moments import Modes, SumRows, at_truth
from sdc.intruder.posterior import exact_posterior
from sdc.model.errors import InputError, ReleaseError
from sdc.model.knowledge import Knowledge
from sdc.model.losses import check_limit
from sdc.model.marginal import CellMarginals
from sdc.model.table import Counts, Table

CLAIMED = 1e-6  # no small count that is less probable is the most likely one
Exactly: TypeAlias = Callable[[Counts], tuple[Probabilities, Probabilities]]
"""Of some cells the probabilities of true and of most likely counts."""


@dataclass(frozen=True)
class PosteriorLimit:
    """How much of the at-risk cells' true counts a law may make likely.

    law, alpha       of the feasible tables, and its prior, see `laws.law_of`; only an exact engine judges
    threshold        of a true count's probability, above 0: every true count is more probable than that
    max_above        the largest fraction of the at-risk cells that may have theirs above it; None for no such limit
    max_probability  the largest probability that any one's true count may have; None for no such limit
    losses           what claims cost an intruder and the agency, see `Losses`; with `max_loss` alone
    max_loss         the largest disclosure risk, the mean of what his claims cost the agency; None for no such limit
    monotone         not: what one more sub-table tells may make true counts less likely

    A cell counts whether or not another count is more probable still: so the limit is stricter than one on the cells
    that are identified ([DFT] (5)), which are among them. InputError where nothing is limited, for an alpha that
    is not above 0, and for a value that is not between 0 and 1.

    Examples
    --------
    >>> sdc.PosteriorLimit(max_probability=0.02).law
    'released'
    """

    law: str = RELEASED
    alpha: float = 0.5
    threshold: float = 0.5
    max_above: float | None = None
    max_probability: float | None = None
    losses: Losses | None = None
    max_loss: float | None = None
    monotone: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 0 < self.threshold < 1:
            raise InputError(
                f"threshold = {self.threshold} of a limit; give a probability between 0 and 1, such as 0.5"
            )
        if self.max_above is not None and not 0 <= self.max_above < 1:
            raise InputError(f"max_above = {self.max_above}; give a fraction of at least 0 and less than 1")
        if self.max_probability is not None and not 0 < self.max_probability < 1:
            raise InputError(f"max_probability = {self.max_probability}; give a probability between 0 and 1")
        most = None if self.losses is None else self.losses.most
        check_limit(self.max_above, self.max_probability, self.max_loss, most)

    @staticmethod
    def from_facts(facts: Mapping[str, Any]) -> PosteriorLimit:
        """As a config and documents have it."""
        losses = facts.get("losses")
        return PosteriorLimit(**{**facts, "losses": losses and Losses.of(losses)})

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
        of_claims = None if self.losses is None else max(self.losses.intruder.threshold, CLAIMED)
        return [limit for limit in (threshold, self.max_probability, of_claims) if limit is not None]

    def judge(self, table: Table, knowledge: Knowledge, rows: Counts) -> Likely:
        """What the release makes likely of these at-risk rows of the table.

        ReleaseError where no exact engine gives the law: what is sampled proves no limit.
        """
        table, knowledge = table.flat, knowledge.flat
        law, cells = law_of(self.law, table.schema, self.alpha), table.codes[rows]
        if law.equals_released(knowledge) and hypergeometric.is_treatable(knowledge):

            def whole(asked: Counts) -> tuple[Probabilities, Probabilities]:
                return true_and_highest(hypergeometric.cell_laws(table, knowledge, cells[asked]))

            def modes(asked: Counts) -> tuple[Probabilities, Probabilities]:
                sums = SumRows.of(CellMarginals(table, cells), knowledge)
                return self.modes(table, table.counts[rows], whole).of(sums, asked)

            return self.of(at_truth(table, knowledge, rows), rows, modes)
        found = exact_posterior(table, knowledge, law, cells)
        if found is None:
            raise ReleaseError(
                f"the limit on the posterior is of the law {self.law}, which no exact engine gives of this release; "
                f"choose the law {RELEASED} and a decomposable release"
            )
        true, highest = true_and_highest(found.cells)
        return self.of(true, rows, lambda asked: (true[asked], highest[asked]))

    def modes(self, table: Table, counts: Counts, whole: Exactly) -> Modes:
        """What `claims` asks, of at-risk cells with these counts, by factorial moments where that is enough."""
        least = 0.0 if self.losses is None else self.losses.intruder.threshold
        return Modes(counts, table.total, least, whole)

    def of(self, probabilities: Probabilities, rows: Counts, exactly: Exactly) -> Likely:
        """From the (n,) probabilities of the true counts of these rows, of which there is one at least.

        exactly  asked of some of the n cells, where losses depend on more
        """
        first = int(np.argmax(probabilities))
        above = int((probabilities > self.threshold + EQUAL).sum())
        claims = self.claims(probabilities, exactly)
        kept = self.keeps(probabilities, len(rows)) and self.keeps_losses(claims)
        return Likely(self, kept, above, len(rows), float(probabilities[first]), int(rows[first]), claims)

    def claims(self, at_truth: Probabilities, exactly: Exactly, equal: float = EQUAL) -> Claims | None:
        """What an intruder claims of n cells, by the probabilities of their true counts; None without losses.

        Whole laws are asked only of wrong claims, where these cost something, and of true counts that are probable
        enough for a claim and not more probable than 1/2, for another count may be the most likely one.
        """
        if self.losses is None:
            return None
        threshold, counts_wrong = self.losses.intruder.threshold, self.losses.agency.wrong > 0
        asked = np.arange(len(at_truth)) if counts_wrong else np.flatnonzero(at_truth > threshold + equal)
        if not len(asked) or (threshold >= 0.5 and not counts_wrong):
            return Claims(len(asked), None, len(at_truth))
        found = self.losses.claims(*exactly(asked), equal)
        return Claims(found.right, found.wrong if counts_wrong else None, len(at_truth))

    def keeps_losses(self, claims: Claims | None) -> bool:
        """Whether so many claims of at-risk cells cost the agency no more than it may lose."""
        if self.losses is None or self.max_loss is None or claims is None:
            return True
        return self.losses.total(claims) <= self.max_loss * claims.cells

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
    claims        what an intruder with the limit's losses claims; None where it has none
    """

    limit: PosteriorLimit
    is_kept: bool
    above: int
    cells: int
    highest: float
    row: int
    claims: Claims | None = None

    @property
    def fraction(self) -> float:
        return self.above / self.cells

    @property
    def loss(self) -> float | None:
        """The disclosure risk DR(R), where the limit has losses."""
        losses = self.limit.losses
        return None if losses is None or self.claims is None else losses.risk(self.claims)

    @property
    def text(self) -> str:
        """What is found, and where the limit does not hold what it asks for."""
        limit = self.limit
        found = [
            f"{self.above} of {self.cells} at-risk cells ({self.fraction:.4f}) have their true count at a "
            f"probability above {limit.threshold:g}" + _allowed(limit.max_above),
            f"the most probable has {self.highest:.4f}" + _allowed(limit.max_probability),
        ]
        if self.claims is not None:
            wrong = "" if self.claims.wrong is None else f" and {self.claims.wrong} wrong"
            found.append(
                f"an intruder's {self.claims.right} right{wrong} claims cost {self.loss:.4f} a cell"
                + _allowed(limit.max_loss)
            )
        return f"under the law {limit.law} " + ", and ".join(found)


def true_and_highest(laws: CellLaws) -> tuple[Probabilities, Probabilities]:
    """(n,) and (n,) the probabilities of true and of most likely counts."""
    return laws.at_truth, laws.most_likely[1]


def _allowed(most: float | None) -> str:
    return "" if most is None else f" (at most {most:g} allowed)"
