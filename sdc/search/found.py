"""What every search ends with: a release, and the evaluation that let it through."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from sdc.feasible.proof import Proof
from sdc.model import subtable as st
from sdc.model.knowledge import Knowledge
from sdc.model.named import Drawn
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.risk.assessment import Assessment
from sdc.risk.criteria import Evaluation
from sdc.risk.critical_width import CriticalWidths

MOST_NAMED = 6


@dataclass(frozen=True, eq=False, repr=False)
class Found(Drawn):
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
    def headline(self) -> str:
        many = self.sub_tables
        shown = ", ".join(self.frontier[:MOST_NAMED]) + (", …" if len(self.frontier) > MOST_NAMED else "")
        return f"{type(self).__name__}: {many:,} sub-tables and the grand total, within {shown}; {self.assessment!r}"

    def columns(self, schema: Schema) -> Mapping[str, Sequence[Any]]:
        """The released frontier: labels, variables and cells of each sub-table."""
        elements = self.release.frontier
        ways, cells = ([many(t, schema) for t in elements] for many in (st.ways, st.cells))
        return {"sub_table": self.frontier, "variables": ways, "cells": cells}

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
