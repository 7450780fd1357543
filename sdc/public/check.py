"""Check published tables together: whether they agree, and the bounds of each cell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sdc.config.earlier import EarlierConfig
from sdc.executor import IN_PROCESS, Executor
from sdc.model import graph
from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds, end_columns
from sdc.model.errors import InputError, many
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
from sdc.public.earlier import NamedBefore
from sdc.public.published import Published, read_published
from sdc.public.relation import Related, is_renaming, refinement, related, with_levels
from sdc.public.system import InconsistentError, System, require_agreement
from sdc.risk.bounds_in_units import bounds_in_units
from sdc.risk.min_width import MinWidth
from sdc.solve.integer import IntegerSystem


def joined_table(
    schema: Schema, known: Sequence[Related], elements: Sequence[SubTable], release: Release
) -> Table | None:
    """An integer table with all these marginals; None if the release is not decomposable, or an axis has levels only.

    elements  for each table, its sub-table of the schema (with levels)

    The method joins cliques in a perfect sequence and pairs the records of each separator cell in order, as the corner
    rule of transportation does. The marginals must agree on shared sub-tables.
    """
    decomposition = graph.decompose(release, len(schema))
    if decomposition is None or st.of(schema.axes) & ~st.union(elements):
        return None
    marginals = {own: _marginal(schema, table, own) for table, own in zip(known, elements, strict=True)}
    first, *others = decomposition.cliques
    joined = marginals[first]
    for clique, separator in zip(others, decomposition.separators, strict=True):
        joined = _paired(schema, joined, marginals[clique], separator, clique)
    return Table.of(schema, joined[0][:, list(schema.axes)], joined[1])


def _marginal(schema: Schema, table: Related, element: SubTable) -> tuple[Codes, Counts]:
    """(n, all variables) codes, 0 for missing variables, and the counts."""
    own, levels = table.published.table, schema.levels
    codes = np.zeros((len(own), len(schema)), np.uint16)
    for v in st.members(element):
        if levels.axis_of[v] in table.variables:
            place = table.variables.index(levels.axis_of[v])
            # for each category one that it contains, possibly in another order
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
"""Cells that are bounded one by one if not all tables are marginals. The engine bounds more, but not always sharply."""


@dataclass(frozen=True, eq=False, repr=False)
class Composition(Named):
    """The bounds of the cells of the common refinement.

    reason   why no counts agree with all tables; empty if some do
    cells    (n, variables) codes of the cells considered
    outer    (n, 2) proven bounds; inner (n, 2) reached by agreeing counts; equal if exact
    method   the method of the bounds
    narrow_cells  number of possibly small cells below the required width
    undecided_cells  those that are not shown to have it: bounds are narrower as far as reached, and wider as proven
    few_counts    tables that violate the minimum-frequency rule
    warnings      what to look at in the files before the answer is relied on, such as categories that may be totals
    """

    schema: Schema
    reason: str
    cells: Codes
    outer: npt.NDArray[np.int64]
    inner: npt.NDArray[np.int64]
    method: str
    narrow_cells: int = 0
    undecided_cells: int = 0
    few_counts: tuple[FewCounts, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def names(self) -> Schema:
        return self.schema

    @property
    def headline(self) -> str:
        if not self.consistent:
            said = "They contradict each other, see `reason`"
        else:
            said = f"They agree; bounds of {len(self.cells):,} cells by {self.method or 'nothing'}"
        return f"{said}; {many(len(self.warnings), 'warning')}, see `warnings`" if self.warnings else said

    def columns(self, schema: Schema) -> Mapping[str, Sequence[Any]]:
        """The cells by names, with their outer bounds."""
        ends = end_columns(self.outer, self.inner)
        return {**named_cells(self.cells, schema), **{name: own.tolist() for name, own in ends.items()}}

    @property
    def consistent(self) -> bool:
        """Whether some counts agree with all tables."""
        return not self.reason

    @property
    def is_kept(self) -> bool:
        """Whether the tables agree and each required rule is shown to be kept."""
        return self.consistent and not (self.narrow_cells or self.undecided_cells or self.few_counts)

    def judged(self, small_count: int, min_width: int | None, few: Iterable[FewCounts]) -> Composition:
        """Apply the rules; the width concerns cells that may have 1 up to `small_count` records."""
        if min_width is None:
            return replace(self, few_counts=tuple(few))
        of, is_wide = self.at_risk(small_count), MinWidth(min_width).is_wide
        narrow, shown = ~is_wide(of.width), is_wide(of.inner[:, 1] - of.inner[:, 0])
        undecided = int((~narrow & ~shown).sum())
        return replace(self, narrow_cells=int(narrow.sum()), undecided_cells=undecided, few_counts=tuple(few))

    @property
    def width(self) -> npt.NDArray[np.int64]:
        """(n,) width of the outer bounds."""
        return self.outer[:, 1] - self.outer[:, 0]

    def _rows(self, rows: npt.NDArray[np.integer] | npt.NDArray[np.bool_]) -> Composition:
        return replace(self, cells=self.cells[rows], outer=self.outer[rows], inner=self.inner[rows])

    def at_risk(self, small_count: int) -> Composition:
        """The cells that may have 1 up to `small_count` records."""
        return self._rows((self.outer[:, 1] >= 1) & (self.outer[:, 0] <= small_count))

    def narrowest_first(self) -> Composition:
        """The cells by width; equal ones by place."""
        return self._rows(np.argsort(self.width, kind="stable"))


@dataclass(frozen=True)
class FewCounts:
    """A published table with the number of its counts, or ranges of counts, from 1 to n - 1."""

    source: str
    sub_table: str
    counts: int


def few_counts(sources: Sequence[str | Path], n: int, relations: Sequence[EarlierConfig] = ()) -> list[FewCounts]:
    """The published tables that violate the minimum-frequency rule. Errors as `check`."""
    tables = (one for one, _ in _read(sources, {relation.folder: relation for relation in relations}))
    found = (few for one in tables if not one.base for few in _few(one, n))
    return [few for few in found if few.counts]


def _few(one: Published, n: int) -> Iterator[FewCounts]:
    """Small counts among the cells, and among totals that the cells do not imply."""
    yield FewCounts(one.source, one.label, int((one.table.counts < n).sum()))
    for sums in one.sums:
        is_few = (sums.low > 0) & (sums.high < n)
        of = f"totals of {sums.of}" if len(sums.names) < len(one.table.schema) else one.label
        yield FewCounts(one.source, of, int(is_few.sum()))


def check(
    sources: Sequence[str | Path],
    relations: Sequence[EarlierConfig] = (),
    *,
    small_count: int | None = 2,
    min_width: int | None = None,
    executor: Executor = IN_PROCESS,
) -> Composition:
    """Read publications and bound every cell of the common refinement, without confidential data.

    sources      folders or files; a relation with one of them as folder describes its records and categories
    small_count  restricts to cells that may have 1 up to so many records; None for all possible cells
    min_width    decides on which of more than 500 cells a solver is asked, where tables are suppressed or rounded

    Raises InputError if a table cannot be read or cannot be expressed beside the others.
    """
    found = composition(read_all(sources, relations), small_count, executor, min_width)
    return found if small_count is None else found.at_risk(small_count)


def read_all(
    sources: Sequence[str | Path], relations: Sequence[EarlierConfig]
) -> list[tuple[Published, EarlierConfig]]:
    """The tables of the publications, each with its relation to the others. Errors as `check`."""
    by_folder = {relation.folder: relation for relation in relations}
    if unknown := set(by_folder) - {str(source) for source in sources}:
        raise InputError(
            f"a relation names {min(map(str, unknown))!r}, which is not checked; name one of the checked folders"
        )
    others = {relation.folder for relation in relations if relation.disjoint}
    tables = list(_read([source for source in sources if str(source) not in others], by_folder))
    if not tables:
        raise InputError(
            "every table is declared to have other records, so there is nothing to check together; "
            "name two publications that share records"
        )
    return tables


def _read(
    sources: Sequence[str | Path], relations: Mapping[str | None, EarlierConfig]
) -> Iterator[tuple[Published, EarlierConfig]]:
    for source in sources:
        relation = relations.get(str(source)) or EarlierConfig(folder=str(source))
        for published in read_published(Path(source), relation.total, relation.not_totals):
            yield published, with_levels(relation, published)


def contradiction(folder: Path) -> str:
    """The first count on which two exact tables of a release differ; empty if there is none. Errors as `check`."""
    relation = EarlierConfig(folder=str(folder))
    every = read_published(folder)
    tables = [(published, with_levels(relation, published)) for published in every if published.is_exact]
    if not tables or any(published.contradiction for published in every):
        return next((published.contradiction for published in every if published.contradiction), "")
    schema = refinement(tables)
    try:
        require_agreement(schema, [related(published, own, schema) for published, own in tables])
    except InconsistentError as error:
        return str(error)
    return ""


def composition(
    tables: Sequence[tuple[Published, EarlierConfig]],
    small_count: int | None = None,
    executor: Executor = IN_PROCESS,
    min_width: int | None = None,
) -> Composition:
    """Check tables with their relations, in any order. Arguments and errors as `check`."""
    schema, known = all_related(tables)
    try:
        if problem := next((published.contradiction for published, _ in tables if published.contradiction), ""):
            raise InconsistentError(problem)
        require_agreement(schema, known)
        system = System.of(schema, known)
        system.require_bounded()
        is_small = len(system.cells) <= MOST_EXACT and not all(table.is_exact for table in known)
        if all(table.is_coarser for table in known) and not is_small:
            return _of_marginals(schema, known, system, small_count, executor)
        truth, wanted = system.solution(), np.flatnonzero(_is_wanted(system, small_count))
        cells, program = system.cells[wanted], IntegerSystem(0 * truth, system.upper, system.equations, truth)
        quick = _of_facts(schema, known, system, truth, cells, executor) if len(wanted) > MOST_EXACT else None
        # of very many cells the program bounds those that a width depends on
        found = program.bounds(cells, wanted, quick, min_width)
        return Composition(schema, "", found.cells, found.outer, found.inner, found.method)
    except InconsistentError as error:
        return _nothing(schema, str(error))


def all_related(tables: Sequence[tuple[Published, EarlierConfig]]) -> tuple[Schema, list[Related]]:
    """The tables on their common refinement, in a canonical order. InputError as `related`, and for a vacuous where."""
    tables = sorted(tables, key=lambda one: (one[0].source, one[0].label, one[0].table.digest))
    schema = refinement(tables)
    known = [related(published, relation, schema) for published, relation in tables]
    for one in known:
        if v := next((schema.names[v] for v, flags in one.where.items() if flags.all()), None):
            # of the other records' categories nothing is known, and their cells would not be bounded
            raise InputError(
                f"{one.published.source}: where lists all categories of {v!r} that any table has; remove {v!r} if "
                "the publication has all records, or add a table with the other categories"
            )
    return schema, known


def _nothing(schema: Schema, reason: str = "") -> Composition:
    none = np.zeros((0, 2), np.int64)
    return Composition(schema, reason, np.zeros((0, len(schema)), np.uint16), none, none, "")


def _of_marginals(
    schema: Schema, known: Sequence[Related], system: System, small_count: int | None, executor: Executor
) -> Composition:
    """Marginals of one table: any agreeing table has their bounds, and the engine uses their structure."""
    levelled, elements = levelled_tables(schema, known)
    release = Release.of(elements)
    joined = joined_table(levelled, known, elements, release)
    table = joined or Table.of(levelled, system.cells, system.solution())
    knowledge = Knowledge.of(table, release, NO_ZEROS, NO_FACTS)
    wanted = system.cells[_is_wanted(system, small_count)]
    if not len(wanted):
        return _nothing(schema)
    bounds = bounds_in_units(table, knowledge, wanted, "auto", executor)
    return Composition(schema, "", bounds.cells, bounds.outer, bounds.inner, bounds.method)


def _of_facts(
    schema: Schema, known: Sequence[Related], system: System, truth: Counts, cells: Codes, executor: Executor
) -> CellBounds | None:
    """Bounds of the cells by the engine; None where it cannot express all that the tables say."""
    # all records are known to builds, and that each category of a variable has one
    if not any(table.is_coarser for table in known) or not all(_lists_all(table) for table in known):
        return None
    before = NamedBefore(Table.of(schema, system.cells, truth))
    try:
        for table in known:
            before.add(table, table.published.source)
        unlisted = tuple((v, tuple(range(size))) for v, size in enumerate(schema.sizes))
        knowledge = before.known(NO_ZEROS, unlisted)
    except InputError:
        return None
    return bounds_in_units(before.table, knowledge, cells, "auto", executor)


def _lists_all(table: Related) -> bool:
    """Whether all categories have records of each variable whose labels say that some have."""
    own, names = table.published, table.published.table.schema.names
    listed = np.concatenate([own.table.codes, own.suppressed]) if len(own.suppressed) else own.table.codes
    pairs = enumerate(zip(names, table.codings, strict=True))
    met = [(place, coding) for place, (name, coding) in pairs if name in own.met and not own.is_exact]
    return all(is_renaming(coding) and len(np.unique(listed[:, place])) == len(coding) for place, coding in met)


def levelled_tables(schema: Schema, known: Sequence[Related]) -> tuple[Schema, list[SubTable]]:
    """The schema with a level for each coarser coding, and the sub-table of each table."""
    variables, named = [*schema.variables], list[list[str]]()
    for table in known:
        named.append([])
        for v, coding in zip(table.variables, table.codings, strict=True):
            axis, groups = schema.variables[v], tuple(numbered(coding).tolist())
            of = Coarser(axis.name, groups)
            if max(groups) + 1 == len(axis.categories):
                named[-1].append(axis.name)
            elif max(groups) > 0:  # a single category adds nothing
                level = next((own for own in variables if own.of == of), None)
                if level is None:
                    own = tuple(map(str, range(max(groups) + 1)))
                    level = Variable(f"{axis.name} (level {len(variables)})", own, of)
                    variables.append(level)
                named[-1].append(level.name)
    levelled = with_refinements(variables)
    return levelled, [st.named(names, levelled) for names in named]


def _is_wanted(system: System, small_count: int | None) -> npt.NDArray[np.bool_]:
    """Whether each cell may have records, and with `small_count` at most so many."""
    return np.ones(len(system.cells), np.bool_) if small_count is None else ~system.above(small_count)
