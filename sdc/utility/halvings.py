"""Value by reconstruction: the improvement of the full table reconstructed by IPF ([KDSF] section 5)."""

from __future__ import annotations

from functools import cached_property
from math import log2

from sdc.config.values import Objective
from sdc.model.errors import InputError
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.table import Table
from sdc.utility.ipf import Stop, Support
from sdc.utility.marginal import SharedMarginals
from sdc.utility.measures import reconstruction

UNTIL, LEAST_ERROR = Stop(max_sweeps=50), 1e-12  # records squared; smaller errors count as this one
MOST_CELLS = 2_000_000  # of the full table if IPF lists them: less than 1 GB


class Halvings:
    """The number of halvings of the reconstruction's mean squared error by a release.

    log2 of the ratio of the errors for a cell of the full table, as `reconstruction` gives them: with prior knowledge
    only (usually the total), and with the release too. Rounded to 12 digits, so that equal values are equal. It is not
    monotone, though larger releases usually have more: IPF finds the most likely table, not the nearest, which may move
    away with one more marginal. Tables with a closed form may have any size. With the
    objective "reconstruction_non_zero" IPF fits the table's non-zero cells alone.
    """

    def __init__(self, table: Table, known: Knowledge, objective: Objective = "reconstruction") -> None:
        self._table, self._known, self._marginals = table, known, SharedMarginals(table.flat)
        self._support = support_of(objective)

    def of(self, release: Release) -> float:
        """The value of a release beside the prior knowledge; InputError if IPF would list too many cells."""
        return float(f"{self._without - self._log_error(self._known.plus(release)):.12g}")

    @cached_property
    def _without(self) -> float:
        return self._log_error(self._known)

    def _log_error(self, known: Knowledge) -> float:
        found = reconstruction(self._table, known, stop=UNTIL, support=self._support, marginals=self._marginals)
        return log2(max(found.mean_squared_error, LEAST_ERROR))


def support_of(objective: Objective) -> Support:
    """The cells that a reconstruction fits when releases are compared by this."""
    return "non-zero" if objective == "reconstruction_non_zero" else "possible"


def require_listable(table: Table) -> None:
    """InputError if the full table has too many cells for releases without a closed form."""
    if table.schema.cells > MOST_CELLS:
        raise InputError(
            f"the full table has {table.schema.cells:,} cells, and by reconstruction releases are compared that IPF "
            f"lists them for, {MOST_CELLS:,} at most; choose the method decomposable, without hierarchies, the "
            "objective sub_tables, or fewer variables"
        )


def halvings_facts(halvings: float | None) -> dict[str, float]:
    """The value by reconstruction if it measures utility, to 9 digits."""
    return {} if halvings is None else {"halvings": float(f"{halvings:.9g}")}
