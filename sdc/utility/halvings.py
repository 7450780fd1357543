"""Value by reconstruction: how much nearer to the full table IPF comes with a release ([KDSF] section 5)."""

from __future__ import annotations

from functools import cached_property
from math import log2

from sdc.model.errors import InputError
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.table import Table
from sdc.utility.ipf import Stop
from sdc.utility.marginal import SharedMarginals
from sdc.utility.measures import reconstruction

UNTIL, LEAST_ERROR = Stop(max_sweeps=50), 1e-12  # records squared; what is nearer counts as this near
MOST_CELLS = 2_000_000  # of the full table where IPF lists them: less than 1 GB


class Halvings:
    """By how many halvings a release brings the mean squared error of a reconstruction below that without it.

    log2 of the ratio of the errors of a cell of the full table, as `reconstruction` has them: of what is known, at the
    start mostly the total alone, and of this with the release. To 12 digits, so that equal values are equal.

    It is not monotone, though mostly a larger release has more: IPF finds the likeliest table and not the nearest, and
    with one more marginal that may be farther away. Where the closed form holds tables may be of any size.
    """

    def __init__(self, table: Table, known: Knowledge) -> None:
        self._table, self._known, self._marginals = table, known, SharedMarginals(table.flat)

    def of(self, release: Release) -> float:
        """Of a release beside what is known; InputError where IPF would list too many cells."""
        return float(f"{self._without - self._log_error(self._known.plus(release)):.12g}")

    @cached_property
    def _without(self) -> float:
        return self._log_error(self._known)

    def _log_error(self, known: Knowledge) -> float:
        found = reconstruction(self._table, known, stop=UNTIL, marginals=self._marginals)
        return log2(max(found.mean_squared_error, LEAST_ERROR))


def require_listable(table: Table) -> None:
    """InputError where the full table has too many cells for releases that no closed form reconstructs."""
    if table.schema.cells > MOST_CELLS:
        raise InputError(
            f"the full table has {table.schema.cells:,} cells, and by reconstruction releases are compared that IPF "
            f"lists them for, {MOST_CELLS:,} at most; choose the method decomposable, without hierarchies, the "
            "objective sub_tables, or fewer variables"
        )


def halvings_facts(halvings: float | None) -> dict[str, float]:
    """The value of a release by reconstruction, where that is what it is worth, to 9 digits as other errors."""
    return {} if halvings is None else {"halvings": float(f"{halvings:.9g}")}
