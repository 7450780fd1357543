"""A refutation: an at-risk cell, how far it can move at most, and what shows that by adding whole numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from sdc.bounds import duality
from sdc.bounds.collapse import Collapse
from sdc.bounds.duality import Multipliers
from sdc.canonical import digest_of
from sdc.model import subtable as st
from sdc.model.cell_bounds import is_wide
from sdc.model.documents import plain
from sdc.model.errors import SdcError
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.schema import NamedCell, Schema
from sdc.model.structural_zeros import NO_ZEROS, StructuralZeros
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.risk.assessment import Assessment, Witness
from sdc.risk.verdict import Verdict

NAME = 16  # hexadecimal digits of a digest
METHOD = "refutation"

Bounds: TypeAlias = tuple[int, int]


@dataclass(frozen=True)
class Refutation:
    """Given the support the cell is within these bounds; so it is given more.

    It is of one table and the structural zeros of one build, and of no other fact: it needs none.

    support     released sub-tables
    with_zeros  whether the structural zeros are needed too
    lower       multipliers that show the lower bound; None where there is nothing to show, or the shuttle does, on the
                table collapsed around the cell ({its own category, the rest} of each variable of the support)
    upper       likewise of the upper one
    """

    cell: NamedCell
    count: int
    bounds: Bounds
    support: tuple[SubTable, ...]
    with_zeros: bool = False
    lower: Multipliers | None = None
    upper: Multipliers | None = None

    @cached_property
    def name(self) -> str:
        """By what it says: equal ones have one name."""
        return digest_of(astuple(self))[:NAME]

    @property
    def width(self) -> int:
        low, high = self.bounds
        return high - low

    def labels(self, schema: Schema) -> list[str]:
        """Of the support."""
        return [st.label(t, schema) for t in self.support]

    def is_known(self, release: Release) -> bool:
        """Whether the release has its support."""
        return all(t in release for t in self.support)

    def witness(self) -> Witness:
        """As an assessment names the cell."""
        return Witness(self.cell, self.count, self.bounds, (self.count, self.count), METHOD)

    def holds(self, table: Table, zeros: StructuralZeros) -> bool:
        """Whether all that it says is so, worked out again; of what is not a refutation of this table it is not."""
        try:
            count = int(table.count_at(np.array([self.cell], np.int64))[0])
            low, high = self._shown(table, zeros if self.with_zeros else NO_ZEROS)
        except (SdcError, LookupError, ValueError):
            return False
        return count == self.count > 0 and low >= self.bounds[0] and high <= self.bounds[1]

    def _shown(self, table: Table, zeros: StructuralZeros) -> Bounds:
        low, high = 0, table.total
        if self.upper is None or (self.lower is None and self.bounds[0]):
            low, high = propagated(table, zeros, self.cell, self.support)
        if self.upper is not None:
            high = priced(table, zeros, self.cell, self.support, 1, self.upper)
        if self.lower is not None:
            low = -priced(table, zeros, self.cell, self.support, -1, self.lower)
        return max(0, low), high


def propagated(table: Table, zeros: StructuralZeros, cell: NamedCell, support: Sequence[SubTable]) -> Bounds:
    """The shuttle's bounds of a cell from these sub-tables and structural zeros alone; see `Collapse`."""
    if not st.union(support):
        return 0, table.total
    known = Knowledge.of_tables(table.schema, table.total, Release.of(support), zeros)
    return Collapse(table, known).at(np.array(cell, np.int64))


def priced(
    table: Table, zeros: StructuralZeros, cell: NamedCell, support: Sequence[SubTable], sign: int, by: Multipliers
) -> int:
    """What multipliers show that sign * cell does not exceed, in the marginal table of all variables that are named.

    Of a cell that is one of several in its marginal cell the lower bound is 0. ValueError where the multipliers use
    what is not of the support.
    """
    if not Release.of(support).contains(Release.of(by.support)):
        raise ValueError("multipliers are of sub-tables that the support does not have")
    kept = table.schema.levels.closed(st.union([*support, *zeros.subtables]))
    codes = np.array([cell], np.int64)
    if sign < 0 and table.schema.shared(kept, codes)[0]:
        return 0
    inside = tuple(table.schema.marginal_cells(codes, kept)[0].tolist())
    part = Multipliers(
        by.scale,
        tuple((st.within(t, kept), codes_, y) for t, codes_, y in by.of),
        tuple(st.within(t, kept) for t in by.caps),
    )
    return duality.proven(table.marginal(kept), zeros.within(kept), inside, sign, part)


@dataclass(frozen=True)
class Refutations:
    """Those found so far of one table, in their order; with its structural zeros they refute what has their support."""

    zeros: StructuralZeros = NO_ZEROS
    found: Mapping[str, Refutation] = field(default_factory=dict)

    def plus(self, *refutations: Refutation) -> Refutations:
        """With some more; of those that are there already none."""
        return replace(self, found={**self.found, **{one.name: one for one in refutations}})

    def named(self, names: Iterable[str | None]) -> tuple[Refutation, ...]:
        """Those with these names, each once, in the order in which they were found."""
        asked = {*names}
        return tuple(one for name, one in self.found.items() if name in asked)

    def emptied(self) -> Refutations:
        """None of them."""
        return Refutations(self.zeros)

    def of(self, knowledge: Knowledge, min_width: int) -> Refutation | None:
        """The first that shows under this knowledge that a cell is narrower than the width; None where none does."""
        if not knowledge.zeros.include(self.zeros):
            return None
        known = (
            one for one in self.found.values() if not is_wide(one.width, min_width) and one.is_known(knowledge.release)
        )
        return next(known, None)


def refuted(refutation: Refutation, min_width: int, at_risk: int) -> Assessment:
    """What is said of a release that has the support: of its smallest width no more than the refutation shows."""
    least = 0, refutation.width
    return Assessment(Verdict.UNSAFE, min_width, least, at_risk, 0, (refutation.witness(),))


def refutation_facts(refutation: Refutation, schema: Schema) -> dict[str, Any]:
    """As a document, by names; with its cell and count, which are confidential."""
    return {"name": refutation.name, **plain(Refutation, refutation, schema)}
