"""What published tables tell together: whether they agree, and between which counts each cell must lie."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sdc.bounds.in_units import bounds_in_units
from sdc.config.earlier import EarlierConfig
from sdc.executor import IN_PROCESS, Executor
from sdc.model import graph
from sdc.model import subtable as st
from sdc.model.errors import InputError
from sdc.model.fact import NO_FACTS
from sdc.model.keys import KeySpace
from sdc.model.knowledge import Knowledge
from sdc.model.levels import numbered
from sdc.model.named import Named, named_cells
from sdc.model.release import Release
from sdc.model.schema import Coarser, Schema, Variable, with_refinements
from sdc.model.structural_zeros import NO_ZEROS
from sdc.model.subtable import SubTable
from sdc.model.table import Codes, Counts, Table
from sdc.public.published import Published, read_published
from sdc.public.relation import Related, refinement, related, with_levels
from sdc.public.shared_view import require_agreement
from sdc.public.system import InconsistentError, System
from sdc.risk.min_width import MinWidth
from sdc.solve.integer import IntegerSystem


def joined_table(
    schema: Schema, known: Sequence[Related], elements: Sequence[SubTable], release: Release
) -> Table | None:
    """A table that has all these marginals, in integers; None where the release is not decomposable.

    elements  of each of the tables the sub-table of the schema that it is, levels among its variables

    Clique after clique in a perfect sequence, the records of each cell of a separator being paired in order, as in the
    corner rule of transportation. The marginals agree on what they share.
    """
    decomposition = graph.decompose(release, len(schema))
    if decomposition is None:
        return None
    marginals = {own: _marginal(schema, table, own) for table, own in zip(known, elements, strict=True)}
    first, *others = decomposition.cliques
    joined = marginals[first]
    for clique, separator in zip(others, decomposition.separators, strict=True):
        joined = _paired(schema, joined, marginals[clique], separator, clique)
    return Table.of(schema, joined[0][:, list(schema.axes)], joined[1])


def _marginal(schema: Schema, table: Related, element: SubTable) -> tuple[Codes, Counts]:
    """(n, all variables) codes, 0 for variables that it has not, and its counts."""
    own, levels = table.published.table, schema.levels
    codes = np.zeros((len(own), len(schema)), np.uint16)
    for v in st.members(element):
        if levels.axis_of[v] in table.variables:
            place = table.variables.index(levels.axis_of[v])
            # of each of its categories one that is within it, maybe in another order
            within, first = np.unique(table.codings[place], return_index=True)
            codes[:, v] = levels.groups[v][first[np.searchsorted(within, own.codes[:, place])]]
    return codes, own.counts


def _paired(
    schema: Schema, one: tuple[Codes, Counts], other: tuple[Codes, Counts], separator: SubTable, clique: SubTable
) -> tuple[Codes, Counts]:
    shared, own = list(st.members(separator)), list(st.members(clique))
    space = KeySpace(tuple(schema.sizes[v] for v in shared))
    keys = space.numbers(np.concatenate([one[0][:, shared], other[0][:, shared]]))
    order, order2 = np.argsort(keys[: len(one[0])], kind="stable"), np.argsort(keys[len(one[0]) :], kind="stable")
    ends, ends2 = np.cumsum(one[1][order]), np.cumsum(other[1][order2])
    cuts = np.union1d(ends, ends2)
    sizes = np.diff(cuts, prepend=0)
    left, right = np.searchsorted(ends, cuts), np.searchsorted(ends2, cuts)
    cells = one[0][order[left]].copy()
    cells[:, own] = other[0][order2[right]][:, own]
    return cells, sizes


MOST_EXACT = 500
"""Cells of tables at several levels that are bounded one by one; the engine bounds more, but not always sharply."""


@dataclass(frozen=True, eq=False, repr=False)
class Composition(Named):
    """What published tables tell of the cells of their common refinement.

    reason   why no counts agree with all of them; empty where some do
    cells    (n, variables) codes of the cells that were asked about
    outer    (n, 2) proven bounds; inner (n, 2) reached by counts that agree with all; equal where exact
    method   what gave the bounds
    """

    schema: Schema
    reason: str
    cells: Codes
    outer: npt.NDArray[np.int64]
    inner: npt.NDArray[np.int64]
    method: str

    @property
    def names(self) -> Schema:
        return self.schema

    @property
    def headline(self) -> str:
        if not self.consistent:
            return "They contradict each other, see `reason`"
        return f"They agree; bounds of {len(self.cells):,} cells by {self.method or 'nothing'}"

    def columns(self, schema: Schema) -> Mapping[str, Sequence[Any]]:
        """The cells by names, and between which counts each must lie."""
        ends = {
            f"{kind}_{end}": both[:, at].tolist()
            for kind, both in (("outer", self.outer), ("inner", self.inner))
            for at, end in enumerate(("lower", "upper"))
        }
        return {**named_cells(self.cells, schema), **ends}

    @property
    def consistent(self) -> bool:
        """Whether counts were found that agree with all of them."""
        return not self.reason

    @property
    def width(self) -> npt.NDArray[np.int64]:
        """(n,) of the outer bounds."""
        return self.outer[:, 1] - self.outer[:, 0]

    def _rows(self, rows: npt.NDArray[np.integer] | npt.NDArray[np.bool_]) -> Composition:
        return replace(self, cells=self.cells[rows], outer=self.outer[rows], inner=self.inner[rows])

    def at_risk(self, small_count: int) -> Composition:
        """Of the cells that may have 1 up to so many records."""
        return self._rows((self.outer[:, 1] >= 1) & (self.outer[:, 0] <= small_count))

    def narrowest_first(self) -> Composition:
        """In order of width; of equal ones in that of the cells."""
        return self._rows(np.argsort(self.width, kind="stable"))


@dataclass(frozen=True, eq=False, repr=False)
class Checked(Composition):
    """The same with the rules that are broken.

    narrow_cells  how many of the cells that may be small are bounded more narrowly than was asked for
    few_counts    the tables that break the n-rule
    """

    narrow_cells: int = 0
    few_counts: tuple[FewCounts, ...] = ()

    @property
    def is_kept(self) -> bool:
        """Whether all agree, and no rule that was asked for is broken."""
        return self.consistent and not self.narrow_cells and not self.few_counts

    @staticmethod
    def of(found: Composition, small_count: int, min_width: int | None, few: Iterable[FewCounts]) -> Checked:
        """Of the cells that may have 1 up to so many records each is to keep the width, where there is one."""
        narrow = 0
        if min_width is not None:
            narrow = int((~MinWidth(min_width).is_wide(found.at_risk(small_count).width)).sum())
        shown = found.schema, found.reason, found.cells, found.outer, found.inner, found.method
        return Checked(*shown, narrow, tuple(few))


@dataclass(frozen=True)
class FewCounts:
    """How many counts from 1 to n - 1 a published table has, of those that it tells exactly."""

    source: str
    sub_table: str
    counts: int


def few_counts(sources: Sequence[str | Path], n: int, relations: Sequence[EarlierConfig] = ()) -> list[FewCounts]:
    """Of the published tables those that break the n-rule. Errors as `check`."""
    tables = (one for one, _ in _read(sources, {relation.folder: relation for relation in relations}))
    found = (few for one in tables if not one.base for few in _few(one, n))
    return [few for few in found if few.counts]


def _few(one: Published, n: int) -> Iterator[FewCounts]:
    """Of its cells, and of its totals where these tell more than the cells do."""
    yield FewCounts(one.source, one.label, int((one.table.counts < n).sum()))
    for sums in one.sums:
        is_few = (sums.low == sums.high) & (sums.low > 0) & (sums.low < n)
        yield FewCounts(one.source, f"totals of {'*'.join(sums.names) or 'all records'}", int(is_few.sum()))


def check(
    sources: Sequence[str | Path],
    relations: Sequence[EarlierConfig] = (),
    *,
    small_count: int | None = 2,
    executor: Executor = IN_PROCESS,
) -> Composition:
    """Reads what was published and bounds every cell of the common refinement, with no confidential table.

    sources      folders or files; a relation whose folder is one of them says how its records and categories relate
    small_count  only cells that may have 1 up to so many records; None for all that may have any

    InputError where a table cannot be read, or cannot be expressed beside the others.
    """
    found = composition(read_all(sources, relations), small_count, executor)
    return found if small_count is None else found.at_risk(small_count)


def read_all(
    sources: Sequence[str | Path], relations: Sequence[EarlierConfig]
) -> list[tuple[Published, EarlierConfig]]:
    """What was published of the same records, each table with how it relates to the others. Errors as `check`."""
    by_folder = {relation.folder: relation for relation in relations}
    if unknown := set(by_folder) - {str(source) for source in sources}:
        raise InputError(f"a relation is of {min(map(str, unknown))!r}, which is not checked; name one of the folders")
    others = {relation.folder for relation in relations if relation.disjoint}
    tables = list(_read([source for source in sources if str(source) not in others], by_folder))
    if not tables:
        raise InputError("every table is of other records; there is nothing to check together")
    return tables


def _read(
    sources: Sequence[str | Path], relations: Mapping[str | None, EarlierConfig]
) -> Iterator[tuple[Published, EarlierConfig]]:
    for source in sources:
        relation = relations.get(str(source)) or EarlierConfig(folder=str(source))
        for published in read_published(Path(source), relation.total, relation.not_totals):
            yield published, with_levels(relation, published)


def contradiction(folder: Path) -> str:
    """Where two tables of a release differ in what both count; empty where none do, of those that tell all counts.

    Errors as `check`; no cell is bounded.
    """
    relation = EarlierConfig(folder=str(folder))
    every = read_published(folder)
    tables = [(published, with_levels(relation, published)) for published in every if published.is_exact]
    if not tables or any(published.fault for published in every):
        return next((published.fault for published in every if published.fault), "")
    schema = refinement(tables)
    try:
        require_agreement(schema, [related(published, own, schema) for published, own in tables])
    except InconsistentError as error:
        return str(error)
    return ""


def composition(
    tables: Sequence[tuple[Published, EarlierConfig]], small_count: int | None = None, executor: Executor = IN_PROCESS
) -> Composition:
    """What tables tell, each with how it relates to the others, in whatever order. Errors as `check`."""
    schema, known = all_related(tables)
    try:
        if fault := next((published.fault for published, _ in tables if published.fault), ""):
            raise InconsistentError(fault)
        require_agreement(schema, known)
        system = System.of(schema, known)
        system.require_bounded()
        is_small = len(system.cells) <= MOST_EXACT and not all(table.is_exact for table in known)
        if all(table.is_coarser for table in known) and not is_small:
            return _of_marginals(schema, known, system, small_count, executor)
        return _of_system(schema, system, small_count)
    except InconsistentError as error:
        return _nothing(schema, str(error))


def all_related(tables: Sequence[tuple[Published, EarlierConfig]]) -> tuple[Schema, list[Related]]:
    """On the variables of their common refinement, in one order whatever theirs is. InputError as `related`."""
    tables = sorted(tables, key=lambda one: (one[0].source, one[0].label, one[0].table.digest))
    schema = refinement(tables)
    return schema, [related(published, relation, schema) for published, relation in tables]


def _nothing(schema: Schema, reason: str = "") -> Composition:
    """Without a cell."""
    none = np.zeros((0, 2), np.int64)
    return Composition(schema, reason, np.zeros((0, len(schema)), np.uint16), none, none, "")


def _of_marginals(
    schema: Schema, known: Sequence[Related], system: System, small_count: int | None, executor: Executor
) -> Composition:
    """Marginals of one table: any that agrees has their bounds, and the engine finds what structure there is."""
    levelled, elements = levelled_tables(schema, known)
    release = Release.of(elements)
    table = joined_table(levelled, known, elements, release) or _found(levelled, system)
    knowledge = Knowledge.of(table, release, NO_ZEROS, NO_FACTS)
    asked = _asked(system, small_count)
    if not len(asked):
        return _nothing(schema)
    bounds = bounds_in_units(table, knowledge, asked, "auto", executor)
    return Composition(schema, "", bounds.cells, bounds.outer, bounds.inner, bounds.method)


def levelled_tables(schema: Schema, known: Sequence[Related]) -> tuple[Schema, list[SubTable]]:
    """The schema with a level for each coarser coding, and what each of the tables is there."""
    variables, named = [*schema.variables], list[list[str]]()
    for table in known:
        named.append([])
        for v, coding in zip(table.variables, table.codings, strict=True):
            axis, groups = schema.variables[v], tuple(numbered(coding).tolist())
            of = Coarser(axis.name, groups)
            if max(groups) + 1 == len(axis.categories):
                named[-1].append(axis.name)
            elif max(groups) > 0:  # of one category it tells nothing
                level = next((own for own in variables if own.of == of), None)
                if level is None:
                    own = tuple(map(str, range(max(groups) + 1)))
                    level = Variable(f"{axis.name} (level {len(variables)})", own, of)
                    variables.append(level)
                named[-1].append(level.name)
    levelled = with_refinements(variables)
    return levelled, [st.named(names, levelled) for names in named]


def _of_system(schema: Schema, system: System, small_count: int | None) -> Composition:
    truth, asked = system.solution(), np.flatnonzero(_may_be_asked(system, small_count))
    program = IntegerSystem(0 * truth, system.upper, system.equations, truth)
    found = program.bounds(system.cells[asked], asked)
    return Composition(schema, "", found.cells, found.outer, found.inner, found.method)


def _asked(system: System, small_count: int | None) -> Codes:
    return system.cells[_may_be_asked(system, small_count)]


def _may_be_asked(system: System, small_count: int | None) -> npt.NDArray[np.bool_]:
    """All that may have records; with a small count those whose published counts do not show them to be larger."""
    return np.ones(len(system.cells), np.bool_) if small_count is None else ~system.above(small_count)


def _found(schema: Schema, system: System) -> Table:
    return Table.of(schema, system.cells, system.solution())
