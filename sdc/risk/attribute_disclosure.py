"""Attribute disclosure by what is published: what a group of a few records has in common, category by category."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any, ClassVar

import numpy as np

from sdc.feasible.differences import Flags
from sdc.model import subtable as st
from sdc.model.errors import InputError
from sdc.model.knowledge import Knowledge
from sdc.model.schema import Schema
from sdc.model.structural_zeros import StructuralZeros
from sdc.model.subtable import SubTable
from sdc.model.table import Codes, Table
from sdc.risk.assessment import Broken
from sdc.risk.criterion import Criterion, register


@register
@dataclass(frozen=True)
class AttributeDisclosure(Criterion):
    """No published group of 1 up to `most` records discloses that none of it has a category of a sensitive variable.

    sensitive  names of variables; coarser levels of one are sensitive too
    lacking    whether one category that none has is enough; if not, only a group counts that has one category alone

    A group is a cell of a sub-table without the sensitive variable's axis, where the sub-table with it is public. What
    structural zeros exclude of a group everybody knows, and it is no disclosure. InputError for a `most` below 1 and
    where no variable is named.

    What breaks the rule breaks it with whatever else is released: the group stays public. Without structural zeros of
    a sensitive variable it is also broken by whatever contains it, for a part of the group lacks what the group does;
    then the frontier of a release is looked at, and nothing else. With them a finer sub-table may have a category
    excluded of every part of a group and not of the group: then all that is within the frontier is looked at. Of a
    sub-table of which some cells are withheld is asked what is asked of it whole.

    Examples
    --------
    >>> sdc.AttributeDisclosure(sensitive=("illness",), most=5).most
    5
    """

    sensitive: tuple[str, ...]
    most: int
    lacking: bool = True
    key: ClassVar[str] = "attribute_disclosure"
    setting: ClassVar[str] = "risk.attribute_disclosure"
    document: ClassVar[str] = "attributes"
    is_of_counts: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.most < 1 or not self.sensitive:
            raise InputError(
                f"attribute_disclosure of {len(self.sensitive)} sensitive variables in groups of at most {self.most} "
                "records; name a variable, and give at least 1 record"
            )

    @property
    def facts(self) -> dict[str, Any]:
        return {"sensitive": list(self.sensitive), "most": self.most, "lacking": self.lacking}

    @property
    def sentence(self) -> str:
        what = "that none is in some category" if self.lacking else "that all are in one category"
        group = f"No published group of at most {self.most:,} records discloses"
        return f"{group} {what} of {' or '.join(self.sensitive)}."

    def check(self, schema: Schema) -> None:
        for name in self.sensitive:
            schema.index(name)

    def keeps(self, table: Table, zeros: StructuralZeros, subtable: SubTable) -> bool:
        """Whether it may be published whole, and all within it; kept for the next time."""
        kept, schema = _verdicts(self, table, zeros), table.schema
        if not subtable & self._named(schema):
            return True
        if subtable not in kept:
            within = st.children(subtable, schema) if self._is_in(zeros, schema) else iter(())
            own = all(not groups.discloses.any() for groups in self._each(table, zeros, subtable))
            kept[subtable] = own and all(self.keeps(table, zeros, child) for child in within)
        return kept[subtable]

    def broken(self, table: Table, known: Knowledge) -> Broken | None:
        """The first group that discloses too much, of whole or suppressed tables; None where there is none."""
        frontier = (t for t in known.release.frontier if not self.keeps(table, known.zeros, t))
        whole = (self._broken(table, known.zeros, t) for t in frontier)
        # a suppressed count may be worked out from the rest of a group; no rounded count is exact
        exact = (fact.view for fact in known.facts if fact.exactly(table.schema).any())
        in_part = (self._broken(table, known.zeros, t) for t in exact if not self.keeps(table, known.zeros, t))
        return next(chain(whole, in_part), None)

    def _text(self, label: str) -> str:
        what = (
            f"none of at most {self.most} records has some"
            if self.lacking
            else f"all of at most {self.most} records have one"
        )
        return (
            f"{label} discloses that in a group {what} category of a sensitive variable ({', '.join(self.sensitive)})"
        )

    def _broken(self, table: Table, zeros: StructuralZeros, subtable: SubTable) -> Broken:
        """Of what does not keep it; where that is something within, the first such."""
        for groups in self._each(table, zeros, subtable):
            if groups.discloses.any():
                return Broken(self._text(st.label(groups.subtable, table.schema)), groups.first)
        children = st.children(subtable, table.schema)
        return next(self._broken(table, zeros, t) for t in children if not self.keeps(table, zeros, t))

    def _named(self, schema: Schema) -> SubTable:
        """The sensitive variables, with their coarser levels."""
        return st.union(1 << v | schema.levels.coarser[v] for v in map(schema.index, self.sensitive))

    def _is_in(self, zeros: StructuralZeros, schema: Schema) -> bool:
        """Whether a structural zero says something of a sensitive variable."""
        own = st.union(schema.levels.of_axis[v] for v in st.members(self._named(schema)))
        return bool(own & st.union(zeros.subtables))

    def _each(self, table: Table, zeros: StructuralZeros, subtable: SubTable) -> list[_Groups]:
        """The groups of a sub-table beside each of its sensitive variables."""
        schema, found = table.schema, []
        for v in st.members(subtable & self._named(schema)):
            others = subtable & ~schema.levels.of_axis[v]
            own = schema.levels.closed(others | 1 << v)
            excluded = zeros.excluded(own, schema) if self._is_in(zeros, schema) else None
            found.append(_groups(table.marginal(own), own, others, excluded, self))
        return found


@lru_cache(maxsize=4)
def _verdicts(rule: AttributeDisclosure, table: Table, zeros: StructuralZeros) -> dict[SubTable, bool]:
    """What was found of a table's sub-tables."""
    return {}


@dataclass(frozen=True, eq=False)
class _Groups:
    """The groups that a sub-table has beside one variable.

    own    the schema of its other variables, None where it has none: then all records are one group
    codes  (groups, axes of its own) of each that has records; discloses  (groups,) too much
    """

    subtable: SubTable
    own: Schema | None
    codes: Codes
    discloses: Flags

    @property
    def first(self) -> str:
        """The first group that discloses too much, by names."""
        if self.own is None:
            return "all records"
        return f"the group {self.own.written(self.codes[int(self.discloses.argmax())])}"


def _groups(
    marginal: Table, subtable: SubTable, others: SubTable, excluded: Flags | None, rule: AttributeDisclosure
) -> _Groups:
    """The groups of a sub-table by its others; excluded are (categories of its axes) flags of impossible cells."""
    schema, kept = marginal.schema, st.within(others, subtable)
    own = schema.restrict(st.members(kept)) if kept else None
    codes, group, first = np.zeros((1, 0), np.uint16), np.zeros(len(marginal), np.int64), np.zeros(1, np.int64)
    if own is not None:
        codes = schema.marginal_cells(marginal.codes, kept)
        first, group = own.keys.distinct(codes)
        codes = codes[first]
    # in the marginal a cell is a group with one of the categories
    present, records = np.bincount(group), np.bincount(group, marginal.counts)
    column = next(c for c, axis in enumerate(schema.axes) if not st.has(kept, axis))
    categories = schema.sizes[schema.axes[column]]
    possible = np.full(len(present), categories)
    if excluded is not None:
        for category in range(categories):
            cells = marginal.codes[first].copy()
            cells[:, column] = category
            possible -= excluded[tuple(cells.T)]
    disclosed = present < possible if rule.lacking else (present == 1) & (possible > 1)
    return _Groups(subtable, own, codes, disclosed & (records <= rule.most))
