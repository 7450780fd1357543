"""Facts: counts of cells of one marginal that are public, each as it is or between two numbers."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from sdc.model import subtable as st
from sdc.model.errors import InputError, many
from sdc.model.schema import Schema
from sdc.model.structural_zeros import Pattern, canonical, matches
from sdc.model.subtable import SubTable
from sdc.model.table import Codes, Counts, Table, freeze

MOST_QUOTED, MOST_NAMED = 100, 8


@dataclass(frozen=True, eq=False)
class CellIntervals:
    """Cells whose counts are public as intervals alone.

    cells      (n, axes of the view) codes, each cell once
    low, high  (n,) int64 between which its count lies, both possible
    """

    cells: Codes
    low: Counts
    high: Counts

    def __post_init__(self) -> None:
        object.__setattr__(self, "low", np.maximum(self.low, 0))
        freeze(self, "cells", "low", "high")

    def suppressed(self, total: int) -> npt.NDArray[np.bool_]:
        """(n,) which cells are suppressed: nothing is public of them but that each has at most all records."""
        found: npt.NDArray[np.bool_] = (self.low == 0) & (self.high >= total)
        return found


@dataclass(frozen=True, eq=False, repr=False)
class Fact:
    """What is public of some cells of a marginal: all those of a universe, and of no other.

    view      the sub-table, closed; its cells are the fact's
    universe  as a pattern of a structural zero has it: cells with one of the codes of each variable, which the view
              has; all cells where it names none
    intervals cells of the universe whose counts are not exact; None where all are
    source    what says so, for people: two facts that say the same are equal
    of_labels whether it says no more than that listed categories have records, see `labels_of`

    A fact holds no count that is public exactly: that is the table's. A marginal that is public whole and exactly is no
    fact, it belongs to a `Release`; a structural zero is a fact of a table whose counts there are 0, kept by itself
    as `StructuralZeros`.
    """

    view: SubTable
    universe: Pattern = ()
    intervals: CellIntervals | None = None
    source: str = ""
    of_labels: bool = False

    def __post_init__(self) -> None:
        # in one order, as patterns of structural zeros are
        object.__setattr__(self, "universe", canonical(self.universe))
        if self.intervals is not None and not len(self.intervals.cells):
            object.__setattr__(self, "intervals", None)

    @cached_property
    def identity(self) -> tuple[SubTable, Pattern, str]:
        """Its content without its source."""
        sha = hashlib.sha256()
        if self.intervals is not None:
            for array in (self.intervals.cells.astype("<u2"), self.intervals.low, self.intervals.high):
                sha.update(np.ascontiguousarray(array).data)
        return self.view, self.universe, "" if self.intervals is None else sha.hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fact) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)

    def __lt__(self, other: Fact) -> bool:
        return self.identity < other.identity

    def __repr__(self) -> str:
        """Without a count: what is printed may be logged."""
        return f"Fact(view={self.view}, universe={self.universe}, source={self.source!r})"

    def __reduce__(self) -> tuple[type[Fact], tuple[SubTable, Pattern, CellIntervals | None, str, bool]]:
        return Fact, (self.view, self.universe, self.intervals, self.source, self.of_labels)

    def label(self, schema: Schema) -> str:
        """By names: `age*sex where region = north or south`."""
        # a variable with one code has that code in every record
        kept = schema.levels.finest(self.view) & ~st.of(v for v, codes in self.universe if len(codes) == 1)
        where = " and ".join(_named(schema, v, codes) for v, codes in self.universe)
        return st.label(kept, schema) + (f" where {where}" if where else "")

    # Against a schema and a table

    def check(self, schema: Schema) -> None:
        """InputError, by its source, where it does not fit the schema, or says of a cell what no count can be."""
        if self.view >> len(schema) or schema.levels.closed(self.view) != self.view:
            raise InputError(
                f"{self.source}: its view is not a sub-table of {', '.join(schema.names)}; give one that is"
            )
        for v, codes in self.universe:
            name = schema.names[v] if 0 <= v < len(schema) else f"variable {v}"
            if not self.view >> max(v, 0) & 1:
                raise InputError(
                    f"{self.source}: its universe names {name}, which its view does not have; add it there"
                )
            if not codes or codes[0] < 0 or codes[-1] >= schema.sizes[v]:
                raise InputError(
                    f"{self.source}: its universe names the codes {list(codes)} of {name}, which has 0 to "
                    f"{schema.sizes[v] - 1}; name some of these"
                )
        if self.intervals is not None:
            self._check_intervals(self.intervals, schema)

    def _check_intervals(self, intervals: CellIntervals, schema: Schema) -> None:
        inside = schema.restrict(st.members(self.view))
        fits = intervals.cells.ndim == 2 and intervals.cells.shape[1] == len(inside.axes)
        if not fits or (intervals.cells >= np.array(inside.keys.sizes)).any():
            raise InputError(f"{self.source}: it names cells that {self.label(schema)} does not have; remove them")
        if len(inside.keys.distinct(intervals.cells)[0]) < len(intervals.cells):
            raise InputError(f"{self.source}: it names a cell of {self.label(schema)} twice; name each once")
        if not matches(self.within(self.view).universe, intervals.cells, inside).all():
            raise InputError(f"{self.source}: it names cells that are not of {self.label(schema)}; leave them out")
        empty = np.flatnonzero((intervals.low > intervals.high) | (intervals.high < 0))
        if len(empty):
            listed = [
                f"{inside.written(intervals.cells[row])}: {intervals.low[row]} to {intervals.high[row]}"
                for row in empty[:MOST_QUOTED]
            ]
            raise InputError(
                f"{self.source}: of {many(len(empty), 'cell')} of {self.label(schema)} the interval is empty; give "
                "a lowest "
                "count that is not above the largest",
                "\n".join(listed),
            )

    def check_true(self, table: Table) -> None:
        """InputError, by its source, where the table has a count that it excludes."""
        if (intervals := self.intervals) is None:
            return
        inside = table.schema.restrict(st.members(self.view))
        counts = table.marginal(self.view).count_at(intervals.cells)
        wrong = np.flatnonzero((counts < intervals.low) | (counts > intervals.high))
        if len(wrong):
            raise InputError(
                f"{self.source} is not of these records: the counts of {many(len(wrong), 'cell')} of "
                f"{self.label(table.schema)} differ from those of the table; take what was published of these records",
                "\n".join(
                    f"{inside.written(intervals.cells[row])}: {intervals.low[row]} to {intervals.high[row]}, "
                    f"the table has {counts[row]}"
                    for row in wrong[:MOST_QUOTED]
                ),
            )

    def contradicts(self, other: Fact, schema: Schema) -> bool:
        """Whether no count of some cell of the same view lies between the numbers of both."""
        if self.view != other.view or self.intervals is None or other.intervals is None:
            return False
        place = schema.restrict(st.members(self.view)).keys.matching(self.intervals.cells, other.intervals.cells)
        own, others = place[place >= 0], np.flatnonzero(place >= 0)
        low = np.maximum(self.intervals.low[own], other.intervals.low[others])
        return bool((low > np.minimum(self.intervals.high[own], other.intervals.high[others])).any())

    # What it says of cells

    def holds(self, cells: npt.NDArray[np.integer], schema: Schema) -> npt.NDArray[np.bool_]:
        """(n,) whether it says anything of the marginal cells of cells with (n, axes) codes."""
        return matches(self.universe, cells, schema)

    def exactly(self, schema: Schema) -> npt.NDArray[np.bool_]:
        """(cells of its view,) in C order which counts it makes public exactly."""
        inside = schema.restrict(st.members(self.view))
        is_exact: npt.NDArray[np.bool_] = np.ones(inside.cells, np.bool_)
        if self.universe:
            is_exact = matches(self.within(self.view).universe, inside.keys.unpack(np.arange(inside.cells)), inside)
        if self.intervals is not None:
            is_exact[inside.keys.pack(self.intervals.cells)] = False
        return is_exact

    def room(self, cells: Codes, table: Table) -> tuple[Counts, Counts]:
        """(n,) by how much the counts of the marginal cells of (n, axes) cells that it holds may change, from and to.

        The table has the cells' true counts.
        """
        low, high = np.zeros((2, len(cells)), np.int64)
        if self.intervals is not None:
            schema = table.schema
            space = schema.space(st.members(schema.levels.finest(self.view)))
            place = space.matching(self.intervals.cells, schema.marginal_cells(cells, self.view))
            hit = place >= 0
            counts = table.marginal_at(self.view, cells[hit])
            low[hit], high[hit] = self.intervals.low[place[hit]] - counts, self.intervals.high[place[hit]] - counts
        return low, high

    def outside(self, cells: Codes, schema: Schema) -> npt.NDArray[np.int64]:
        """(n,) a variable of the universe that has no code of it in each of (n, axes) cells; -1 where it holds them."""
        found = np.full(len(cells), -1)
        for v, codes in reversed(self.universe):
            found[~np.isin(schema.levels.groups[v], codes)[cells[:, schema.levels.column_of[v]]]] = v
        return found

    # In other schemas

    def within(self, subtable: SubTable) -> Fact:
        """The same of the marginal table of a sub-table that has its view, variables numbered as there."""
        place = {v: new for new, v in enumerate(st.members(subtable))}
        universe = tuple((place[v], codes) for v, codes in self.universe)
        return replace(self, view=st.within(self.view, subtable), universe=universe)

    def of_levels(self, schema: Schema) -> Fact:
        """The same of a schema's levels taken as variables of their own."""
        if self.intervals is None:
            return self
        inside = schema.restrict(st.members(self.view))
        return replace(self, intervals=replace(self.intervals, cells=inside.columns(self.intervals.cells)))


NO_FACTS: tuple[Fact, ...] = ()


def suppressed_fact(view: SubTable, cells: Codes, total: int, source: str) -> Fact:
    """A marginal all of whose cells are exact but these, (n, axes of the view), which are suppressed."""
    none = np.zeros(len(cells), np.int64)
    return Fact(view, (), CellIntervals(cells, none, none + total), source)


@lru_cache(maxsize=256)
def labels_of(view: SubTable, unknown: tuple[int, ...], size: int, total: int, name: str) -> Fact:
    """That each category of a variable has a record, as its published labels say; kept for the next time.

    view     the one-way sub-table of the variable, closed
    unknown  codes of categories that may have no record: a code list names them
    """
    cells = np.arange(size, dtype=np.uint16)
    low = (~np.isin(cells, unknown)).astype(np.int64)
    return Fact(view, (), CellIntervals(cells[:, None], low, np.full(size, total)), f"the labels of {name}", True)


def _named(schema: Schema, variable: int, codes: tuple[int, ...]) -> str:
    """Codes of a variable by the categories of its axis that have them."""
    axis = schema.variables[schema.levels.axis_of[variable]]
    own = [axis.categories[at] for at in np.flatnonzero(np.isin(schema.levels.groups[variable], codes)).tolist()]
    more = f" or {len(own) - MOST_NAMED} more" if len(own) > MOST_NAMED else ""
    return f"{axis.name} = {' or '.join(own[:MOST_NAMED])}{more}"
