"""One integer system of several tables: a cell of the common refinement a number, a published count an equation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sdc.model.errors import InputError
from sdc.model.keys import KeySpace
from sdc.model.schema import Schema
from sdc.model.table import MAX_TOTAL, Counts
from sdc.public.published import Sums
from sdc.public.relation import Related
from sdc.solve import integer as integer_system
from sdc.solve.equations import Equations
from sdc.solve.integer import IntegerSystem, UndecidedError

MOST_CELLS = 1 << 22  # of the common refinement, while cells without records are taken out


class InconsistentError(Exception):
    """No table of counts agrees with all that was published; the message says where that shows."""


@dataclass(frozen=True, eq=False)
class System:
    """What is known of the cells that may have records; all others have none.

    cells      (n, variables) codes of the refinement, in C order
    equations  each published cell with records: the cells of the refinement within it, and its count
    """

    schema: Schema
    cells: npt.NDArray[np.uint16]
    equations: Equations

    @staticmethod
    def of(schema: Schema, tables: Sequence[Related]) -> System:
        """InputError where the cells are too many; InconsistentError where a published count has no cell for it."""
        cells = _candidates(schema, tables)
        found = System(schema, cells, Equations.joined([part for table in tables for part in _told(table, cells)]))
        labels = list(_labels(tables, cells, found.upper)) if found.is_bounded else []
        return replace(found, equations=Equations.joined([found.equations, *labels])) if labels else found

    @cached_property
    def upper(self) -> Counts:
        """(n,) the least published count that each cell is within."""
        return self.equations.least(len(self.cells))

    @property
    def is_bounded(self) -> bool:
        """Whether each cell is in some published count."""
        return not len(self.cells) or bool(self.upper.max() < np.iinfo(np.int64).max)

    def require_bounded(self) -> None:
        """InputError where a cell is in no published count, so that nothing bounds it."""
        if not self.is_bounded:
            raise InputError("some cells are in no published table, and nothing bounds them; add one of all records")

    def solution(self) -> Counts:
        """(n,) counts that agree with all; InconsistentError where none do, InputError where neither was found."""
        if len(self.cells) > integer_system.MAX_CELLS:
            raise InputError(
                f"the tables have {len(self.cells)} cells together that may have records, at most "
                f"{integer_system.MAX_CELLS} are solved for at once; check fewer tables or variables"
            )
        try:
            found = IntegerSystem(np.zeros_like(self.upper), self.upper, self.equations).solution()
        except UndecidedError as error:
            raise InputError(
                "no counts were found that agree with all tables, and none excluded; check fewer tables at once"
            ) from error
        if found is None:
            raise InconsistentError("no counts agree with all of them, though every two agree on what both count")
        return found

    def above(self, count: int) -> npt.NDArray[np.bool_]:
        """(n,) whether a cell is alone in a published cell of more records."""
        sizes, first = np.diff(self.equations.start), self.equations.members[self.equations.start[:-1]]
        found = np.zeros(len(self.cells), np.bool_)
        found[first[(sizes == 1) & (self.equations.low > count)]] = True
        return found


def _candidates(schema: Schema, tables: Sequence[Related]) -> npt.NDArray[np.uint16]:
    """Cells that no table shows to be empty; each table is looked at as soon as all of its variables are there."""
    needed = [set(table.variables) | set(table.where) for table in tables]
    cells, known = np.zeros((1, len(schema)), np.uint16), set[int]()
    waiting = list(range(len(tables)))
    while waiting:
        # next what brings the fewest new cells
        nearest = min(waiting, key=lambda t: (_growth(schema, needed[t] - known), t))
        for v in sorted(needed[nearest] - known):
            cells = _times(schema, cells, v)
            known.add(v)
        for t in [t for t in waiting if needed[t] <= known]:
            cells = cells[_possible(tables[t], cells)]
            waiting.remove(t)
    if lacking := set(range(len(schema))) - known:
        raise InputError(f"no table has {schema.names[min(lacking)]!r}; leave it out")
    order = np.lexsort(cells.T[::-1])
    return cells[order]


def _growth(schema: Schema, variables: set[int]) -> int:
    size = 1
    for v in variables:
        size *= schema.sizes[v]
    return size


def _times(schema: Schema, cells: npt.NDArray[np.uint16], variable: int) -> npt.NDArray[np.uint16]:
    size = schema.sizes[variable]
    if len(cells) * size > MOST_CELLS:
        raise InputError(
            f"the tables have more than {MOST_CELLS} cells together that may have records; check fewer tables at once"
        )
    grown = np.repeat(cells, size, axis=0)
    grown[:, variable] = np.tile(np.arange(size, dtype=np.uint16), len(cells))
    return grown


def _possible(table: Related, cells: npt.NDArray[np.uint16]) -> npt.NDArray[np.bool_]:
    """(n,) whether the table has a record in the cell's cell, tells nothing of it, or is of other records."""
    if table.published.base:
        return np.ones(len(cells), np.bool_)  # what became 0 may have been less than the base
    return ~table.holds(cells) | (rows_of(table, cells) >= 0) | table.published.withholds(table.codes(cells))


def rows_of(table: Related, cells: npt.NDArray[np.uint16]) -> npt.NDArray[np.int64]:
    """(n,) which row of a published table each of (n, variables) cells of the refinement is in, -1 for none."""
    own = table.published.table
    codes = table.codes(cells)
    inside = (codes < np.array(own.schema.sizes)).all(axis=1)
    found = np.full(len(cells), -1, np.int64)
    found[inside] = own.schema.keys.matching(own.codes.astype(np.int64), codes[inside])
    return found


def _told(table: Related, cells: npt.NDArray[np.uint16]) -> Iterator[Equations]:
    """What a table tells: of each of its cells, and of its margins where it is rounded or has cells withheld."""
    if table.published.records is not None and not table.published.is_exact:
        every = np.array([table.published.records])
        yield _between(table, cells, Sums((), np.zeros((1, 0), np.uint16), every, every))
    if not table.published.base:
        yield _equations(table, cells)
        for sums in table.published.sums:
            yield _between(table, cells, sums)
        return
    names = table.published.table.schema.names
    for margin in (names, *table.published.margins, ()):
        yield _near(table, cells, [names.index(name) for name in margin])


def _labels(tables: Sequence[Related], cells: npt.NDArray[np.uint16], upper: Counts) -> Iterator[Equations]:
    """That listed categories have records, of variables that no table tells exactly.

    upper  (cells,) what each has at most
    """
    told = {v for table in tables if table.is_exact for v in table.variables}
    most = int(min(upper.sum(dtype=np.float64), MAX_TOTAL))
    for table in tables:
        own = table.published
        # a category all of whose cells are told to be 0 has none; of a rounded table none is told
        listed = own.table.schema.keys.unpack(np.arange(own.table.schema.cells)) if own.base else own.table.codes
        listed = np.concatenate([listed, own.withheld]) if len(own.withheld) else listed
        for place, (v, name) in enumerate(zip(table.variables, own.table.schema.names, strict=True)):
            if not own.is_exact and v not in told and name in own.met:
                codes = np.unique(listed[:, place])
                ends = np.ones(len(codes), np.int64), np.full(len(codes), most)
                yield _between(table, cells, Sums((name,), codes[:, None].astype(np.uint16), *ends))


def _between(table: Related, cells: npt.NDArray[np.uint16], sums: Sums) -> Equations:
    """That sums of its cells lie between two numbers."""
    columns = [table.published.table.schema.names.index(name) for name in sums.names]
    held = np.flatnonzero(table.holds(cells))
    of = np.full(len(cells), -1)
    of[held] = sums.matching(table.codes(cells)[held][:, columns])
    there = np.isin(np.arange(len(sums.cells)), of)
    if (sums.low[~there] > 0).any():
        raise InconsistentError(
            f"{table.published.source} has records in {int((sums.low[~there] > 0).sum())} sums, and the other tables "
            "have none there"
        )
    place = np.where(of >= 0, np.cumsum(there)[of] - 1, -1)
    return replace(Equations.by_place(place, sums.low[there]), high=sums.high[there])


def _near(table: Related, cells: npt.NDArray[np.uint16], kept: list[int]) -> Equations:
    """That sums of the cells of a rounded table are less than the base from those of the true ones."""
    own, base = table.published.table, table.published.base
    held = np.flatnonzero(table.holds(cells))
    codes = table.codes(cells)[held][:, kept]
    both = np.concatenate([own.codes[:, kept].astype(np.int64), codes])
    # a category that the table has not comes after its own
    first, group = KeySpace(tuple((both.max(axis=0, initial=0) + 1).tolist())).distinct(both)
    sums = np.zeros(len(first), np.int64)
    np.add.at(sums, group[: len(own)], own.counts)
    of = np.full(len(cells), -1)
    of[held] = group[len(own) :]
    if len(lacking := np.setdiff1d(np.flatnonzero(sums >= base), of)):
        source = table.published.source
        raise InconsistentError(
            f"{source} counts records of {len(lacking)} cells, and the other tables have none there"
        )
    there, place = np.unique(of[of >= 0], return_inverse=True)
    of[of >= 0] = place
    found = Equations.by_place(of, sums[there])
    return replace(found, low=np.maximum(sums[there] - base + 1, 0), high=sums[there] + base - 1)


def _equations(table: Related, cells: npt.NDArray[np.uint16]) -> Equations:
    of, totals = np.where(table.holds(cells), rows_of(table, cells), -1), table.published.table.counts
    lacking = np.setdiff1d(np.arange(len(totals)), of)
    if len(lacking):
        own = table.published.table
        raise InconsistentError(
            f"{table.published.source} counts records of {own.schema.written(own.codes[lacking[0]])}, and the other "
            "tables have none there"
        )
    return Equations.by_place(of, totals)
