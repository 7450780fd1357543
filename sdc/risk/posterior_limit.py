"""The posterior limit: a criterion on the probability of true counts, in addition to the bounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

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
from sdc.risk.criterion import Criterion, register
from sdc.risk.verdict import Verdict

if TYPE_CHECKING:
    from sdc.risk.assessment import Assessment

CLAIMED = 1e-6  # the most likely small count always has a larger probability
Exactly: TypeAlias = Callable[[Counts], tuple[Probabilities, Probabilities]]
"""For some cells, the probabilities of true and of most likely counts."""


@register
@dataclass(frozen=True)
class PosteriorLimit(Criterion):
    """A limit on the probabilities of at-risk cells' true counts.

    law, alpha       of the feasible tables and its prior, see `laws.law_of`; only an exact engine can decide
    threshold        of a true count's probability
    max_above        largest fraction of the at-risk cells above the threshold; None for no limit
    max_probability  largest probability of any true count; None for no limit
    losses           of claims, for the intruder and the agency, see `Losses`; with `max_loss` only
    max_loss         largest disclosure risk, the agency's mean loss from claims; None for no limit
    monotone         no: one more sub-table may make true counts less likely

    A cell counts even if another count is more probable: so the limit is stricter than one on the cells that are
    identified ([DFT] (5)). Raises InputError if nothing is limited, for a non-positive alpha, and for values outside 0
    to 1.
    """

    law: str = RELEASED
    alpha: float = 0.5
    threshold: float = 0.5
    max_above: float | None = None
    max_probability: float | None = None
    losses: Losses | None = None
    max_loss: float | None = None
    key: ClassVar[str] = "posterior_limit"
    setting: ClassVar[str] = "risk.posterior"
    document: ClassVar[str] = "limit on the posterior"
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

    @classmethod
    def read(cls, given: Any) -> Self:
        if isinstance(given, cls):
            return given
        losses = given.get("losses")
        return cls(**{**given, "losses": losses and Losses.of(losses)})

    @property
    def facts(self) -> PosteriorLimit:
        return self

    @property
    def sentence(self) -> str:
        parts = []
        if self.max_above is not None:
            parts.append(
                f"at most {100 * self.max_above:g} % of these cells have a true count more probable than "
                f"{self.threshold:g}"
            )
        if self.max_probability is not None:
            parts.append(f"no true count is more probable than {self.max_probability:g}")
        if self.losses is not None and self.max_loss is not None:
            parts.append(
                f"an intruder who claims a count where it is more probable than {self.losses.intruder.threshold:g} "
                f"costs at most {self.max_loss:g} a cell, {self.losses.agency.right:g} where he is right and "
                f"{self.losses.agency.wrong:g} where he is wrong"
            )
        return f"Under the law “{self.law}” {' and '.join(parts)}."

    def with_likely(self, answer: Assessment, table: Table, known: Knowledge, rows: Counts) -> Assessment:
        found = self.judge(table, known, rows)
        return replace(answer, verdict=Verdict.worst([answer.verdict, found.verdict]), likely=found)

    @property
    def least(self) -> float:
        """Smaller probabilities never matter."""
        return min(self._counting)

    @property
    def most(self) -> float:
        """The exact size of larger probabilities never matters."""
        return max(self._counting) + 2 * EQUAL

    @property
    def _counting(self) -> list[float]:
        threshold = None if self.max_above is None else self.threshold
        of_claims = None if self.losses is None else max(self.losses.intruder.threshold, CLAIMED)
        return [limit for limit in (threshold, self.max_probability, of_claims) if limit is not None]

    def judge(self, table: Table, knowledge: Knowledge, rows: Counts) -> Likely:
        """The probabilities of these at-risk rows of the table under the release.

        Raises ReleaseError if no exact engine gives the law: samples prove no limit.
        """
        table, knowledge = table.flat, knowledge.flat
        law, cells = law_of(self.law, table.schema, self.alpha), table.codes[rows]
        if law.equals_released(knowledge) and hypergeometric.is_treatable(knowledge):

            def whole(chosen: Counts) -> tuple[Probabilities, Probabilities]:
                return true_and_highest(hypergeometric.cell_laws(table, knowledge, cells[chosen]))

            def modes(chosen: Counts) -> tuple[Probabilities, Probabilities]:
                sums = SumRows.of(CellMarginals(table, cells), knowledge)
                return self.modes(table, table.counts[rows], whole).of(sums, chosen)

            return self.of(at_truth(table, knowledge, rows), rows, modes)
        found = exact_posterior(table, knowledge, law, cells)
        if found is None:
            raise ReleaseError(
                f"the limit on the posterior is of the law {self.law}, which no exact engine gives of this release; "
                f"choose the law {RELEASED} and a decomposable release"
            )
        true, highest = true_and_highest(found.cells)
        return self.of(true, rows, lambda chosen: (true[chosen], highest[chosen]))

    def modes(self, table: Table, counts: Counts, whole: Exactly) -> Modes:
        """The modes for `claims`, of at-risk cells with these counts, from factorial moments where these suffice."""
        least = 0.0 if self.losses is None else self.losses.intruder.threshold
        return Modes(counts, table.total, least, whole)

    def of(self, probabilities: Probabilities, rows: Counts, exactly: Exactly) -> Likely:
        """From the (n,) probabilities of the true counts of these rows, at least one.

        exactly  is called for some of the n cells if losses depend on more
        """
        first = int(np.argmax(probabilities))
        above = int((probabilities > self.threshold + EQUAL).sum())
        claims = self.claims(probabilities, exactly)
        holds = self.allows(probabilities, len(rows)) and self.keeps_losses(claims)
        return Likely(self, holds, above, len(rows), float(probabilities[first]), int(rows[first]), claims)

    def claims(self, at_truth: Probabilities, exactly: Exactly, equal: float = EQUAL) -> Claims | None:
        """The intruder's claims on n cells, by the probabilities of their true counts; None without losses.

        Whole laws are needed only for wrong claims with a cost, and for true counts that are probable enough for a
        claim but at most 1/2, since another count may be more likely.
        """
        if self.losses is None:
            return None
        threshold, counts_wrong = self.losses.intruder.threshold, self.losses.agency.wrong > 0
        chosen = np.arange(len(at_truth)) if counts_wrong else np.flatnonzero(at_truth > threshold + equal)
        if not len(chosen) or (threshold >= 0.5 and not counts_wrong):
            return Claims(len(chosen), None, len(at_truth))
        found = self.losses.claims(*exactly(chosen), equal)
        return Claims(found.right, found.wrong if counts_wrong else None, len(at_truth))

    def keeps_losses(self, claims: Claims | None) -> bool:
        """Whether these claims cost the agency no more than it may lose."""
        if self.losses is None or self.max_loss is None or claims is None:
            return True
        return self.losses.total(claims) <= self.max_loss * claims.cells

    def allows(self, probabilities: Probabilities, cells: int, equal: float = EQUAL) -> bool:
        """Whether cells with these probabilities of true counts (others have less) are within the limit."""
        above = int((probabilities > self.threshold + equal).sum())
        few = self.max_above is None or above <= self.max_above * cells
        return few and (self.max_probability is None or bool((probabilities <= self.max_probability + equal).all()))


@dataclass(frozen=True)
class Likely:
    """The probabilities of at-risk cells' true counts under a release, compared with the limit.

    is_kept       whether the limit holds
    above, cells  number of cells whose true count is above the threshold, and of all
    highest, row  the largest probability of a true count, and its first row in the table
    claims        of an intruder with the limit's losses; None without
    """

    limit: PosteriorLimit
    is_kept: bool
    above: int
    cells: int
    highest: float
    row: int
    claims: Claims | None = None

    @property
    def verdict(self) -> Verdict:
        return Verdict.SAFE if self.is_kept else Verdict.UNSAFE

    @property
    def fraction(self) -> float:
        return self.above / self.cells

    @property
    def loss(self) -> float | None:
        """The disclosure risk DR(R), if the limit has losses."""
        losses = self.limit.losses
        return None if losses is None or self.claims is None else losses.risk(self.claims)

    @property
    def text(self) -> str:
        """The result, and the limit if it is violated."""
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
    """(n,) and (n,) probabilities of true and of most likely counts."""
    return laws.at_truth, laws.most_likely[1]


def _allowed(most: float | None) -> str:
    return "" if most is None else f" (at most {most:g} allowed)"
