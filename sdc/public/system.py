"""Agreement of several tables: one integer system of their cells, and the counts that two of them share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np
import numpy.typing as npt

from sdc.model.errors import InputError
from sdc.model.keys import KeySpace
from sdc.model.schema import Schema
from sdc.model.table import MAX_TOTAL, Counts
from sdc.public.published import Sums
from sdc.public.relation import Coding, Related
from sdc.solve import integer as integer_system
from sdc.solve.equations import Equations
from sdc.solve.integer import IntegerSystem, UndecidedError

Flags = npt.NDArray[np.bool_]
MOST_CELLS = 1 << 22  # of the refinement, before empty cells are removed


class InconsistentError(Exception):
    """No table of counts agrees with all publications; the message names the place."""


@dataclass(frozen=True, eq=False)
class System:
    """The cells that may have records; all others have none.

    cells      (n, variables) codes of the refinement, in C order
    equations  each published cell with records: its cells of the refinement, and its count
    """

    schema: Schema
    cells: npt.NDArray[np.uint16]
    equations: Equations

    @staticmethod
    def of(schema: Schema, tables: Sequence[Related]) -> System:
        """Build the system; InputError for too many cells, InconsistentError for a count without a cell."""
        cells = _candidates(schema, tables)
        found = System(
            schema, cells, Equations.joined([part for table in tables for part in _equations_of(table, cells)])
        )
        labels = list(_labels(tables, cells, found.upper)) if found.is_bounded else []
        return replace(found, equations=Equations.joined([found.equations, *labels])) if labels else found

    @cached_property
    def upper(self) -> Counts:
        """(n,) the least published count that contains each cell."""
        return self.equations.least(len(self.cells))

    @property
    def is_bounded(self) -> bool:
        """Whether each cell is in some published count."""
        return not len(self.cells) or bool(self.upper.max() < np.iinfo(np.int64).max)

    def require_bounded(self) -> None:
        """InputError if a cell is in no published count and so unbounded."""
        if not self.is_bounded:
            raise InputError("some cells are in no published table, and nothing bounds them; add one of all records")

    def solution(self) -> Counts:
        """(n,) agreeing counts; InconsistentError if there are none, InputError if the solver does not decide."""
        if len(self.cells) > integer_system.MAX_CELLS:
            raise InputError(
                f"the tables have {len(self.cells)} cells together that may have records, at most "
                f"{integer_system.MAX_CELLS} are solved for at once; check fewer tables or variables"
            )
        try:
            found = IntegerSystem(np.zeros_like(self.upper), self.upper, self.equations).solution()
        except UndecidedError as error:
            raise InputError(
                "the solver found no counts that agree with all tables, and no proof that there are none; check "
                "fewer tables at once"
            ) from error
        if found is None:
            raise InconsistentError("no counts agree with all of them, though every two agree on what both count")
        return found

    def above(self, count: int) -> npt.NDArray[np.bool_]:
        """(n,) whether a cell is alone in a published cell with more records."""
        sizes, first = np.diff(self.equations.start), self.equations.members[self.equations.start[:-1]]
        return np.isin(np.arange(len(self.cells)), first[(sizes == 1) & (self.equations.low > count)])


def _candidates(schema: Schema, tables: Sequence[Related]) -> npt.NDArray[np.uint16]:
    """The cells that no table shows to be empty; each table is applied once all its variables are there."""
    needed = [set(table.variables) | set(table.where) for table in tables]
    cells, known = np.zeros((1, len(schema)), np.uint16), set[int]()
    waiting = list(range(len(tables)))
    while waiting:
        # next the variable with the fewest new cells
        nearest = min(waiting, key=lambda t: (schema.space(needed[t] - known).cells, t))
        for v in sorted(needed[nearest] - known):
            before, size = len(cells), schema.sizes[v]
            if before * size > MOST_CELLS:
                raise InputError(
                    f"the tables have more than {MOST_CELLS} cells together that may have records; check fewer tables "
                    "at once"
                )
            cells = np.repeat(cells, size, axis=0)
            cells[:, v] = np.tile(np.arange(size, dtype=np.uint16), before)
            known.add(v)
        for t in [t for t in waiting if needed[t] <= known]:
            cells = cells[_possible(tables[t], cells)]
            waiting.remove(t)
    if lacking := set(range(len(schema))) - known:
        raise InputError(f"no table has the variable {schema.names[min(lacking)]!r}; leave it out")
    order = np.lexsort(cells.T[::-1])
    return cells[order]


def _possible(table: Related, cells: npt.NDArray[np.uint16]) -> npt.NDArray[np.bool_]:
    """(n,) whether the table allows records in each cell."""
    if table.published.base:
        return np.ones(len(cells), np.bool_)  # a rounded 0 may have been less than the base
    return ~table.holds(cells) | (rows_of(table, cells) >= 0) | table.published.suppresses(table.codes(cells))


def rows_of(table: Related, cells: npt.NDArray[np.uint16]) -> npt.NDArray[np.int64]:
    """(n,) the row of a published table for each of (n, variables) cells, -1 if none."""
    own = table.published.table
    codes = table.codes(cells)
    inside = (codes < np.array(own.schema.sizes)).all(axis=1)
    found = np.full(len(cells), -1, np.int64)
    found[inside] = own.schema.keys.matching(own.codes.astype(np.int64), codes[inside])
    return found


def _equations_of(table: Related, cells: npt.NDArray[np.uint16]) -> Iterator[Equations]:
    """The equations of a table: of its cells, and of its margins if it is rounded or suppressed."""
    own = table.published
    if own.records is not None and not own.is_exact:
        every = np.array([own.records])
        yield _between(table, cells, Sums((), np.zeros((1, 0), np.uint16), every, every))
    if not own.base:
        yield _between(table, cells, Sums(own.table.schema.names, own.table.codes, own.table.counts, own.table.counts))
    for sums in own.bounded(table.codes(cells)[table.holds(cells)]):
        yield _between(table, cells, sums)


def _labels(tables: Sequence[Related], cells: npt.NDArray[np.uint16], upper: Counts) -> Iterator[Equations]:
    """Listed categories have records; for variables without an exact table.

    upper  (cells,) maximum of each
    """
    exact_variables = {v for table in tables if table.is_exact for v in table.variables}
    most = int(min(upper.sum(dtype=np.float64), MAX_TOTAL))
    for table in (one for one in tables if not one.published.is_total):
        own = table.published
        # a category with published zeros only has none; a rounded table has no published zeros
        listed = own.table.schema.keys.unpack(np.arange(own.table.schema.cells)) if own.base else own.table.codes
        listed = np.concatenate([listed, own.suppressed]) if len(own.suppressed) else listed
        for place, (v, name) in enumerate(zip(table.variables, own.table.schema.names, strict=True)):
            if not own.is_exact and v not in exact_variables and name in own.met:
                codes = np.unique(listed[:, place])
                ends = np.ones(len(codes), np.int64), np.full(len(codes), most)
                yield _between(table, cells, Sums((name,), codes[:, None].astype(np.uint16), *ends))


def _between(table: Related, cells: npt.NDArray[np.uint16], sums: Sums) -> Equations:
    own = table.published.table.schema
    columns = [own.names.index(name) for name in sums.names]
    held = np.flatnonzero(table.holds(cells))
    of = np.full(len(cells), -1)
    of[held] = sums.matching(table.codes(cells)[held][:, columns])
    there = np.isin(np.arange(len(sums.cells)), of)
    if len(lacking := np.flatnonzero(~there & (sums.low > 0))):
        first = own.restrict(columns).written(sums.cells[lacking[0]]) if columns else "all records"
        raise InconsistentError(
            f"{table.published.source} counts records of {first}, and the other tables have none there"
        )
    place = np.where(of >= 0, np.append(np.cumsum(there), 0)[of] - 1, -1)
    return replace(Equations.by_place(place, sums.low[there]), high=sums.high[there])


def require_agreement(schema: Schema, tables: Sequence[Related]) -> None:
    """InconsistentError, with both names, if two exact tables have other counts of the records that both count.

    Agreement with inexact tables is a matter for the system.
    """
    for one, other in combinations([table for table in tables if table.published.is_exact], 2):
        own_rows, other_rows = _of_both(one, other), _of_both(other, one)
        if own_rows is None or other_rows is None:
            continue
        shared = {v: _common(_coding(one, v), _coding(other, v)) for v in one.variables if v in other.variables}
        counts = one.published.table.counts[own_rows], other.published.table.counts[other_rows]
        first, second = one.published.source, other.published.source
        if counts[0].sum() != counts[1].sum():
            where = " of the records that both are of" if one.where or other.where else " records"
            raise InconsistentError(f"{first} has {counts[0].sum()}{where}, {second} has {counts[1].sum()}")
        codes = np.concatenate([_codes(one, shared, own_rows), _codes(other, shared, other_rows)])
        keys = KeySpace(tuple(schema.sizes[v] + 1 for v in shared)).numbers(codes)
        difference = np.zeros(len(keys), np.int64)
        np.add.at(difference, np.unique(keys, return_inverse=True)[1], np.concatenate([counts[0], -counts[1]]))
        if difference.any():
            names = "*".join(schema.names[v] for v in shared)
            raise InconsistentError(f"{first} and {second} have different counts of {names}")


def _of_both(table: Related, other: Related) -> Flags | None:
    """(its cells,) flags of records that the other table counts too; None if its categories do not decide."""
    both = np.ones(len(table.published.table), np.bool_)
    for v, flags in other.where.items():
        possible = table.where.get(v, np.ones_like(flags))
        if flags[possible].all():
            continue
        if v not in table.variables:
            return None
        coding = _coding(table, v)
        inside = np.unique(coding[possible & flags])
        if np.isin(coding[possible & ~flags], inside).any():
            return None
        both &= np.isin(table.published.table.codes[:, table.variables.index(v)], inside)
    return both


def _coding(table: Related, variable: int) -> Coding:
    return table.codings[table.variables.index(variable)]


def _common(one: Coding, other: Coding) -> Coding:
    """The finest coding that both refine: each category with the first one that is not distinguished."""
    found = np.arange(len(one))
    while True:
        before = found
        for coding in (one, other):
            least = np.full(coding.max() + 1, len(one))
            np.minimum.at(least, coding, found)
            found = least[coding]
        if np.array_equal(found, before):
            return found


def _codes(table: Related, shared: Mapping[int, Coding], both: Flags) -> npt.NDArray[np.int64]:
    """(cells, shared) codes from 1; 0 for a category outside the common refinement."""
    own, columns = table.published.table.codes[both], [np.zeros((int(both.sum()), 0), np.int64)]
    for v, common in shared.items():
        place, coding = table.variables.index(v), _coding(table, v)
        codes = np.zeros(max(int(coding.max()) + 1, table.published.table.schema.sizes[place]), np.int64)
        codes[coding] = common + 1
        columns.append(codes[own[:, place]][:, None])
    return np.concatenate(columns, axis=1)
