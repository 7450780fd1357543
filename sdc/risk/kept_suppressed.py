"""What an earlier table suppressed stays suppressed: no sub-table that contains it whole is published."""

from __future__ import annotations

from dataclasses import dataclass

from sdc.model import subtable as st
from sdc.model.knowledge import Knowledge
from sdc.model.schema import Schema
from sdc.model.structural_zeros import StructuralZeros
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.risk.assessment import Broken


@dataclass(frozen=True)
class KeptSuppressed:
    """Earlier suppressed tables whose primary cells keep their width: (the sub-table, closed; what suppressed it)."""

    views: tuple[tuple[SubTable, str], ...]

    def keeps(self, table: Table, zeros: StructuralZeros, subtable: SubTable) -> bool:
        """Whether it contains none of them."""
        return self._within(subtable) is None

    def broken(self, table: Table, known: Knowledge) -> Broken | None:
        """The first published sub-table that contains one of them; None where none does."""
        for element in known.release.frontier:
            if (found := self._within(element)) is not None:
                return Broken(self._text(element, *found, table.schema), "")
        return None

    def _within(self, subtable: SubTable) -> tuple[SubTable, str] | None:
        return next((one for one in self.views if st.is_within(one[0], subtable)), None)

    def _text(self, subtable: SubTable, view: SubTable, source: str, schema: Schema) -> str:
        contains = "has" if subtable == view else f"contains {st.label(view, schema)} and so"
        return (
            f"{st.label(subtable, schema)} {contains} cells that {source} suppressed; leave it out, suppress it too by "
            "release.protect, or publish them with release.reveal_suppressed: true"
        )
