"""What every search ends with: a release, and the evaluation that let it through."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import Any, ClassVar

import numpy as np

from sdc.feasible.proof import Proof
from sdc.model import subtable as st
from sdc.model.errors import InputError, ReleaseError, many
from sdc.model.knowledge import Knowledge
from sdc.model.named import Drawn, Tabular, html_rows, named_cells
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.model.suppressed_table import SuppressedTable
from sdc.model.table import Table
from sdc.risk.assessment import Assessment
from sdc.risk.criteria import Evaluation
from sdc.risk.critical_width import CriticalWidths
from sdc.run_format import COUNT, ROUNDED_COUNT

MOST_NAMED = 6
MOST_CELLS = 1 << 20  # of a table whose cells without records are listed too
MOST_SUB_TABLES = 1 << 17  # that are listed


@dataclass(frozen=True, eq=False, repr=False)
class ReleasedTable(Tabular):
    """One table of a release as readers have it: all cells, a suppressed one without a count.

    Parameters
    ----------
    table : Table
        The marginal, with the true counts.
    part : Part, optional
        How it is suppressed or rounded; None where it is published as it is.

    Notes
    -----
    A table of more than 2^20 cells lists only those with records, as its published file does.

    Examples
    --------
    >>> sdc.find_release("czech_auto_workers.csv", min_width=6)["A*C"].to_arrow().column("count").to_pylist()
    [540, 421, 387, 493]
    """

    table: Table
    part: SuppressedTable | None = None

    @property
    def names(self) -> Schema:
        return self.table.schema

    @property
    def suppressed(self) -> int:
        """The number of suppressed cells."""
        return 0 if self.part is None else len(self.part.suppressed)

    @property
    def headline(self) -> str:
        cells, (name,) = self.names.cells, self.tables
        how = f", {self.suppressed:,} of them suppressed" if self.suppressed else ""
        rounded = f", rounded to multiples of {self.part.base}" if self.part is not None and self.part.base else ""
        return f"{name}: {cells:,} cells{how}{rounded}"

    def columns(self, schema: Schema) -> Mapping[str, Sequence[Any]]:
        """Each cell with its count, None where it is suppressed."""
        codes, counts = self.table.codes, self.table.counts
        if self.names.cells <= MOST_CELLS:
            codes, counts = self.names.keys.unpack(np.arange(self.names.cells)), self.table.dense.reshape(-1)
        between = None if self.part is None else self.part.fact.intervals
        if self.part is None or between is None:
            return {**named_cells(codes, self.names), COUNT: counts.tolist()}
        if base := self.part.base:
            return {
                **named_cells(between.cells, self.names),
                f"{ROUNDED_COUNT}{base}": (between.high - base + 1).tolist(),
            }
        hidden = self.names.keys.matching(between.cells, codes) >= 0
        numbers = [None if is_hidden else n for is_hidden, n in zip(hidden.tolist(), counts.tolist(), strict=True)]
        return {**named_cells(codes, self.names), COUNT: numbers}


@dataclass(frozen=True, eq=False, repr=False)
class Found(Drawn, Tabular):
    """A release with its evaluation, as it was when the search accepted it."""

    evaluation: Evaluation
    exploring: ClassVar[Callable[..., Any]]

    @property
    def release(self) -> Release:
        return self.evaluation.release

    @property
    def knowledge(self) -> Knowledge:
        """What everybody knows once it is out."""
        return self.evaluation.knowledge

    @property
    def names(self) -> Schema:
        """The schema of the table that it was found for."""
        return self.knowledge.schema

    @property
    def frontier(self) -> list[str]:
        """Labels of the released frontier."""
        return [st.label(t, self.names) for t in self.release.frontier]

    @property
    def sub_tables(self) -> int:
        """How many sub-tables are released, without the grand total."""
        return self.release.sub_tables(self.names)

    @property
    def sub_tables_with_total(self) -> int:
        """The same with the grand total."""
        return self.release.sub_tables_with_total(self.names)

    @property
    def protected(self) -> tuple[SuppressedTable, ...]:
        """The sub-tables that are published suppressed or rounded."""
        return ()

    @property
    def headline(self) -> str:
        shown = ", ".join(self.frontier[:MOST_NAMED]) + (", …" if len(self.frontier) > MOST_NAMED else "")
        parts = "".join(f"; {self._released(part.view)!r}" for part in self.protected[:MOST_NAMED])
        many = f"{type(self).__name__}: {self.sub_tables:,} sub-tables and the grand total, within {shown}{parts}"
        return f"{many}; {self.assessment!r}; small_count={self.evaluation.criteria.small_count}"

    @cached_property
    def tables(self) -> Mapping[str, ReleasedTable]:
        """The tables that are published: the frontier, and those that are suppressed or rounded."""
        views = [view for view in (*self.release.frontier, *(part.view for part in self.protected)) if view]
        return {st.label(view, self.names): self._released(view) for view in views}

    def __getitem__(self, asked: Any) -> ReleasedTable:
        """A table of the release, by `age*sex` or a list of names; ReleaseError where it is not released."""
        view = self.names.levels.closed(st.subtable_of(asked, self.names))
        if view not in self.release and all(part.view != view for part in self.protected):
            raise ReleaseError(f"{st.label(view, self.names)} is not released; sdc.why says why, or choose another")
        return self._released(view)

    def _released(self, view: int) -> ReleasedTable:
        part = next((part for part in self.protected if part.view == view and view not in self.release), None)
        return ReleasedTable(self.evaluation.pool.table.marginal(view), part)

    def columns(self, schema: Schema) -> Mapping[str, Sequence[Any]]:
        """Every sub-table that is released, whether it is of the frontier, and how it is published."""
        if self.sub_tables > MOST_SUB_TABLES:
            raise InputError(
                f"{many(self.sub_tables, 'sub-table')}: too many to list; `frontier` has the largest of them"
            )
        elements = [view for view in self.release.views(schema) if view]
        how = ["exact"] * len(elements) + ["rounded" if part.base else "suppressed" for part in self.protected]
        largest = {*self.release.frontier}
        elements += [part.view for part in self.protected]
        ways, cells = ([many(t, schema) for t in elements] for many in (st.ways, st.cells))
        labels, is_largest = [st.label(t, schema) for t in elements], [t in largest for t in elements]
        return {"sub_table": labels, "variables": ways, "cells": cells, "frontier": is_largest, "published": how}

    def _repr_html_(self) -> str:
        """The headline, and the first tables; a suppressed cell is empty."""
        shown = [*self.tables.values()][:MOST_NAMED]
        pages = (f"<h4>{escape(repr(table))}</h4>{html_rows(table.by_name())}" for table in shown)
        return f"<p>{escape(repr(self))}</p>{''.join(pages)}"

    @property
    def assessment(self) -> Assessment:
        return self.evaluation.assessment

    def explore(self, widths: CriticalWidths | None = None) -> Any:
        """The query space in a notebook: under the cursor what a sub-table would add and exclude.

        widths  critical widths of the table, by which more is known to be excluded

        By what the search has kept and by these alone, no question is asked. It is as confidential as the audit report.
        MissingLibraryError, an ImportError, without anywidget; InputError for other widths.
        """
        return Found.exploring(self, widths)

    @property
    def proof(self) -> Proof:
        """What shows that the release is safe."""
        return self.evaluation.proof
