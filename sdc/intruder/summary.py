"""Summaries of posteriors: the probability of each at-risk cell's true count, under several laws and priors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from sdc.executor import IN_PROCESS, Executor
from sdc.intruder.cell_laws import Probabilities
from sdc.intruder.chains import Diagnostics, Sampling
from sdc.intruder.laws import RELEASED, UNIFORM, Law, law_of
from sdc.intruder.measures import EQUAL, Groups, above, identified
from sdc.intruder.posterior import Posterior, posterior
from sdc.model.errors import ReleaseError
from sdc.model.knowledge import Knowledge
from sdc.model.schema import Schema
from sdc.model.table import Codes, Counts, Table


@dataclass(frozen=True, eq=False)
class Summary:
    """The summary of a posterior of n cells; if no engine gives it, a reason and empty arrays.

    law, alpha, engine, feasible_tables, log_probability, entropy, equals_released, diagnostics  see `Posterior`
    at_truth     (n,) probability of each cell's true count
    disclosing   (n,) probability of holding all, or nearly all, of a released group, see `Groups`
    most_likely  (n,) the most likely count, and `highest` (n,) its probability
    """

    law: str
    alpha: float | None
    reason: str | None
    engine: str | None
    feasible_tables: int | None
    log_probability: float | None
    equals_released: bool
    diagnostics: Diagnostics | None
    at_truth: Probabilities = field(default_factory=lambda: np.empty(0))
    disclosing: Probabilities = field(default_factory=lambda: np.empty(0))
    most_likely: Counts = field(default_factory=lambda: np.empty(0, np.int64))
    highest: Probabilities = field(default_factory=lambda: np.empty(0))
    entropy: float | None = None

    @property
    def label(self) -> str:
        """`saturated, alpha 0.5`."""
        return self.law if self.law in (RELEASED, UNIFORM) else f"{self.law}, alpha {self.alpha:g}"

    @staticmethod
    def of(found: Posterior, groups: Groups | None = None) -> Summary:
        """The summary of a posterior of the at-risk cells, with what they disclose of groups that are given."""
        disclosing = np.empty(0) if groups is None else groups.probabilities(found.cells)
        of_law = found.engine, found.feasible_tables, found.log_probability, found.equals_released
        of_cells = found.cells.at_truth, disclosing, *found.cells.most_likely
        return Summary(found.law, found.alpha, None, *of_law, found.diagnostics, *of_cells, found.entropy)

    def identified(self, threshold: float) -> float:
        return identified(self.at_truth, self.highest, threshold)

    def above(self, threshold: float) -> float:
        return above(self.at_truth, threshold)

    def disclosed(self, threshold: float) -> int:
        """The number of cells that hold all, or nearly all, of a released group with a larger probability."""
        return int((self.disclosing > threshold + EQUAL).sum())

    @staticmethod
    def none(law: Law, reason: str) -> Summary:
        """A law that no engine gives."""
        return Summary(law.name, law.alpha, reason, None, None, None, False, None)


def laws_of(names: Sequence[str], alphas: Sequence[float], schema: Schema) -> list[Law]:
    """Each law with each alpha, or once if it has none; InputError as for `law_of`."""
    found = [law_of(name, schema, alpha) for name in names for alpha in alphas]
    return list(dict.fromkeys(found))


def summaries(
    table: Table,
    knowledge: Knowledge,
    cells: Codes,
    laws: Sequence[Law],
    groups: Groups,
    sampling: Sampling,
    executor: Executor = IN_PROCESS,
    report: Callable[[Summary], None] = lambda summary: None,
    done: Sequence[Summary] = (),
) -> tuple[Summary, ...]:
    """The summary of (n, variables) at-risk cells and their groups under each law, in order.

    `report` is called with each; `done` are those of the first laws from an interrupted run. If no engine gives a law,
    its summary has the reason, and the other laws follow.
    """
    found = list(done)
    for law in laws[len(done) :]:
        try:
            found.append(Summary.of(posterior(table, knowledge, law, cells, sampling, executor), groups))
        except ReleaseError as error:
            found.append(Summary.none(law, str(error)))
        report(found[-1])
    return tuple(found)
