"""The measures of [DFT] sections 3 and 4 side by side, for a release and for minimal alternatives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sdc.bounds.method import cell_bounds
from sdc.intruder.laws import RELEASED, law_of
from sdc.intruder.losses import Losses
from sdc.intruder.measures import log_probability_if_uniform
from sdc.intruder.posterior import exact_posterior
from sdc.intruder.summary import Summary
from sdc.model.cell_bounds import CellBounds
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.table import Counts, Table


@dataclass(frozen=True, eq=False)
class MeasuredRelease:
    """The possible ranges and probabilities of n at-risk cells under one release.

    name        of the release
    sub_tables  number, without the grand total
    bounds      of the cells
    summary     of the law, with the reason if no exact engine gives it
    """

    name: str
    sub_tables: int
    bounds: CellBounds
    summary: Summary

    def facts(self, threshold: float, losses: Losses | None) -> dict[str, Any]:
        """Each measure by name, None if unknown; `sampled` and `reason` explain why."""
        widths, tables = self.bounds.outer_width, self.summary.feasible_tables
        of_law: Mapping[str, Any] = {} if self.summary.reason is not None else self._of_law(threshold, losses)
        return {
            "release": self.name,
            "sub_tables": self.sub_tables,
            "at_risk_cells": len(self.bounds),
            "bounds_are_sharp": bool(self.bounds.exact.all()),
            "known_by_bounds": int((widths == 0).sum()),
            "total_width": int(widths.sum()),
            "mean_width": float(widths.mean()) if len(widths) else None,
            "feasible_tables": tables,
            "log_probability_if_uniform": None if tables is None else log_probability_if_uniform(tables),
            "law": self.summary.label,
            "reason": self.summary.reason,
            "sampled": self.summary.diagnostics is not None,
            **dict.fromkeys(_OF_LAW),
            **of_law,
        }

    def _of_law(self, threshold: float, losses: Losses | None) -> dict[str, Any]:
        found, some = self.summary, len(self.bounds) > 0
        risk = None if losses is None or not some else losses.risk(losses.claims(found.at_truth, found.highest))
        of_cells = found.identified(threshold) if some else None
        return dict(zip(_OF_LAW, (found.log_probability, found.entropy, of_cells, risk), strict=True))


_OF_LAW = ("log_probability_of_true_table", "entropy", "identified", "disclosure_risk")


def least_releases(table: Table, known: Knowledge, rows: Counts) -> tuple[MeasuredRelease, ...]:
    """Releases of prior knowledge only, and of the one-way sub-tables, under the law `released`."""
    one_way = Release.of(1 << variable for variable in range(len(table.schema)))
    return (
        _measured("one-way sub-tables", table, known.plus(one_way), rows),
        _measured("nothing but the total" if not known.release.variables else "nothing new", table, known, rows),
    )


def _measured(name: str, table: Table, known: Knowledge, rows: Counts) -> MeasuredRelease:
    cells, law = table.codes[rows], law_of(RELEASED, table.schema, 0.5)
    found, sub_tables = exact_posterior(table, known, law, cells), known.release.sub_tables(table.schema)
    why = "structural zeros and other facts that are known leave no exact engine for it"
    summary = Summary.none(law, why) if found is None else Summary.of(found)
    return MeasuredRelease(name, sub_tables, cell_bounds(table, known, cells), summary)
