"""Small tables whose axes have levels, for Hypothesis, and all tables that agree with what is public of them.

These are listed by `tests.reference`, to which groups and counts are given as the schema has them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from math import prod
from typing import TypeAlias, TypeVar

import numpy as np
from hypothesis import note
from hypothesis import strategies as hs

from sdc.feasible.differences import Differences
from sdc.model import subtable as st
from sdc.model.fact import NO_FACTS
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.schema import Coarser, Schema, Variable, with_refinements
from sdc.model.structural_zeros import NO_ZEROS, Pattern, StructuralZeros
from sdc.model.table import Codes, Counts, Table
from tests import reference
from tests.profiles import scaled
from tests.reference import Cell, Fact, TooManyTablesError

Rng: TypeAlias = np.random.Generator
Made = TypeVar("Made")

MOST_CELLS, MOST_LEVELS, MOST_RECORDS = 24, 5, 12
MOST_TABLES = 20_000
CASES = 1_000
"""Random cases of a test that lists all tables of each: see `tests.profiles` for how many are taken when."""
FEW_NODES = min(40, scaled(40, fewest=5))
"""Of a walk of one cell: 5 find nearly all that 40 find, and of cells that cannot move all are used."""

# What is told of a cell


@cache
def variables_of(schema: Schema) -> tuple[reference.Variable, ...]:
    """Axes by their places, and levels of them."""
    axes = [v.name for v in schema.variables if v.of is None]
    return tuple(
        axes.index(v.name) if v.of is None else reference.Level(axes.index(v.of.axis), v.of.groups)
        for v in schema.variables
    )


def named(schema: Schema, subtable: int) -> list[reference.Variable]:
    """The variables of a sub-table."""
    return [variables_of(schema)[v] for v in members(subtable)]


def categories(schema: Schema, variables: Iterable[int], cell: Sequence[int]) -> Cell:
    """What a cell has of these variables: of an axis its code, of a level the group of that."""
    return tuple(int(reference.code(tuple(cell), variables_of(schema)[v])) for v in variables)


members, bits = st.members, st.of


def cells_of(schema: Schema) -> list[Cell]:
    """All cells in C order, codes of the axes."""
    return reference.every_cell(sizes_of(schema))


def sizes_of(schema: Schema) -> list[int]:
    return [len(v.categories) for v in schema.variables if v.of is None]


def as_codes(cells: Sequence[Sequence[int]], schema: Schema) -> Codes:
    return np.array(cells, np.uint16).reshape(-1, len(sizes_of(schema)))


def marginal(schema: Schema, subtable: int) -> dict[Cell, list[Cell]]:
    """The cells of each marginal cell, by what these have in common of all variables of the sub-table."""
    return reference.marginal_cells(sizes_of(schema), named(schema, subtable))


def partition(schema: Schema, subtable: int) -> frozenset[frozenset[Cell]]:
    """The marginal cells alone: sub-tables that tell the same have the same."""
    return frozenset(map(frozenset, marginal(schema, subtable).values()))


def dense_of(table: Table) -> Counts:
    """The counts of all cells, with one dimension for each axis."""
    found = np.zeros(sizes_of(table.schema), np.int64)
    found[tuple(table.codes.T)] = table.counts
    return found


def counts_of(table: Table) -> dict[Cell, int]:
    """The same by cells."""
    return {cell: int(count) for cell, count in np.ndenumerate(dense_of(table))}


def facts(table: Table, subtables: Iterable[int], zeros: StructuralZeros = NO_ZEROS) -> Iterator[Fact]:
    """What is public: these marginals, the number of records, and which cells cannot be."""
    yield from reference.released(dense_of(table), [named(table.schema, subtable) for subtable in subtables])
    yield from reference.impossible(impossible_cells(table.schema, zeros))


def impossible_cells(schema: Schema, zeros: StructuralZeros) -> list[Cell]:
    return [cell for cell in cells_of(schema) if any(matches(schema, pattern, cell) for pattern in zeros.patterns)]


def matches(schema: Schema, pattern: Pattern, cell: Cell) -> bool:
    return reference.matches(cell, [(variables_of(schema)[v], codes) for v, codes in pattern])


def agreeing(table: Table, subtables: Iterable[int], zeros: StructuralZeros = NO_ZEROS) -> Counts:
    """(tables, cells) all tables that agree; TooManyTablesError where they are more than anybody lists."""
    return reference.feasible(sizes_of(table.schema), facts(table, subtables, zeros), MOST_TABLES)


def _numbered(schema: Schema, subtable: Iterable[reference.Variable]) -> int:
    return bits(map(variables_of(schema).index, subtable))


@cache
def closed_sets(schema: Schema) -> list[int]:
    """Every sub-table that has all it tells."""
    every = reference.closed_subtables(sizes_of(schema), variables_of(schema))
    return sorted(_numbered(schema, subtable) for subtable in every)


def closure(schema: Schema, subtable: int) -> int:
    """With every variable of the same axes whose category follows from those that it has."""
    return _numbered(schema, reference.closure(sizes_of(schema), variables_of(schema), named(schema, subtable)))


def axis_of(schema: Schema, variable: int) -> int:
    own = schema.variables[variable]
    return variable if own.of is None else [v.name for v in schema.variables].index(own.of.axis)


# Random cases


@dataclass(frozen=True, eq=False)
class Case:
    """A table, what is public of it, and all tables that agree with that.

    subtables  the released ones, as they were drawn: not closed
    tables     (tables, cells) counts in C order
    """

    table: Table
    subtables: tuple[int, ...]
    zeros: StructuralZeros
    tables: Counts

    def __repr__(self) -> str:
        variables = [(v.name, len(v.categories) if v.of is None else v.of) for v in self.table.schema.variables]
        cells = dict(zip(map(tuple, self.table.codes.tolist()), self.table.counts.tolist(), strict=True))
        released = [[self.table.schema.names[v] for v in members(t)] for t in self.subtables]
        return f"Case({variables}, {cells}, {released}, {self.zeros.patterns}, {len(self.tables)} tables)"

    @property
    def schema(self) -> Schema:
        return self.table.schema

    @cached_property
    def known(self) -> Knowledge:
        return Knowledge.of(self.table, Release.of(self.subtables), self.zeros, NO_FACTS)

    @cached_property
    def cells(self) -> Codes:
        """(cells, axes) codes of all cells, C order."""
        return as_codes(cells_of(self.schema), self.schema)

    @cached_property
    def sharp(self) -> Counts:
        """(cells, 2) smallest and largest count of each over all tables that agree."""
        return reference.bounds(self.tables)

    @cached_property
    def _agreeing(self) -> frozenset[Cell]:
        return frozenset(map(tuple, self.tables.tolist()))

    def agrees(self, changes: dict[Cell, int]) -> bool:
        """Whether the table with these changes agrees with every fact."""
        counts = counts_of(self.table)
        return self.holds(np.array([count + changes.get(cell, 0) for cell, count in counts.items()], np.int64))

    def holds(self, after: Counts) -> bool:
        """Whether the table with these (cells,) counts agrees with every fact."""
        return tuple(after.tolist()) in self._agreeing

    def sharp_at(self, cells: Codes) -> Counts:
        """(n, 2) the same of some cells."""
        return self.sharp[np.ravel_multi_index(tuple(cells.T.astype(np.int64)), sizes_of(self.schema))]


def random_schema(rng: Rng, *, chains: bool = False, most_cells: int = MOST_CELLS) -> Schema:
    """1 to 3 axes of 2 to 5 categories, seldom one of a single category; each with up to 3 levels, in any order.

    chains  whether levels of one axis are coarser one than the other; else they may overlap
    """
    sizes = rng.integers(2, 6, rng.choice([1, 2, 2, 3, 3, 3])).tolist()
    while prod(sizes) > most_cells:
        sizes[rng.integers(len(sizes))] = 2
    variables: list[Variable] = []
    for name, size in zip("ABC", sizes, strict=False):
        most = MOST_LEVELS - sum(v.of is not None for v in variables)
        levels = _random_levels(rng, name, size, chains or rng.random() < 0.5, min(most, int(rng.integers(4))))
        variables += [Variable(name, tuple(f"{name}{code}" for code in range(size))), *levels]
    if rng.random() < 0.1:
        variables.append(Variable("one", ("only",)))
    schema = with_refinements([variables[v] for v in rng.permutation(len(variables))])
    # refinements come last; anywhere else they are as good
    return Schema(tuple(schema.variables[v] for v in rng.permutation(len(schema)))) if rng.random() < 0.5 else schema


def _random_levels(rng: Rng, axis: str, size: int, chain: bool, number: int) -> list[Variable]:
    """Partitions of the categories into fewer groups than these and more than one, each another."""
    found: dict[frozenset[frozenset[int]], tuple[int, ...]] = {}
    finer = tuple(range(size))
    for _ in range(number):
        if max(finer) < 2:
            break
        groups = _coarser(rng, finer if chain else tuple(range(size)))
        blocks = frozenset(frozenset(c for c in range(size) if groups[c] == g) for g in groups)
        if blocks not in found:
            found[blocks] = finer = groups
    return [
        Variable(f"{axis.lower()}{i}", tuple(f"{axis.lower()}{i}{g}" for g in range(max(of) + 1)), Coarser(axis, of))
        for i, of in enumerate(found.values(), start=1)
    ]


def _coarser(rng: Rng, groups: tuple[int, ...]) -> tuple[int, ...]:
    """Two groups of these groups or more, fewer than they are, numbered in any order."""
    before = max(groups) + 1
    number = int(rng.integers(2, before))
    chosen = rng.permutation([*range(number), *rng.integers(0, number, before - number).tolist()]).tolist()
    return tuple(chosen[group] for group in groups)


def random_subtable(rng: Rng, schema: Schema, share: float = 0.6) -> int:
    """Of some axes one of the variables; it is not closed."""
    axes = sorted({axis_of(schema, v) for v in range(len(schema))})
    own = [[v for v in range(len(schema)) if axis_of(schema, v) == axis] for axis in axes]
    return bits(int(rng.choice(some)) for some in own if rng.random() < share)


def random_release(rng: Rng, schema: Schema) -> tuple[int, ...]:
    """Any sub-tables, levels of an axis together or not; or pairs of one or two cuts through the levels.

    Seldom the full table, after which there is nothing to ask.
    """
    kind, cuts = rng.random(), [random_subtable(rng, schema, share=1) for _ in range(rng.integers(1, 3))]
    pairs = [bits((v, u)) for cut in cuts for v in members(cut) for u in members(cut) if v <= u]
    chosen = [pair for pair in pairs if rng.random() < 0.9]
    if kind < 0.6:
        chosen = [random_subtable(rng, schema) for _ in range(rng.integers(1, 6))]
    if kind < 0.1:
        chosen = rng.integers(0, 1 << len(schema), rng.integers(0, 4)).tolist()
    full = bits(range(len(schema)))
    return tuple(t for t in chosen if closure(schema, t) != full or rng.random() < 0.05)


def random_table(rng: Rng, schema: Schema, most_records: int = MOST_RECORDS) -> Table:
    """A few records spread thin, or on some of the cells alone."""
    cells = np.array(cells_of(schema), np.uint16)
    some = cells[rng.random(len(cells)) < 0.4] if rng.random() < 0.5 else cells
    records = rng.integers(most_records + 1) if len(some) else 0
    return Table.of(schema, some[rng.integers(0, max(1, len(some)), records)])


def random_zeros(rng: Rng, table: Table) -> StructuralZeros:
    """Up to three patterns over axes or levels, none with a record and none of all cells."""
    found: list[Pattern] = []
    cells, counts = cells_of(table.schema), counts_of(table)
    for _ in range(3):
        pattern = random_pattern(rng, table.schema, range(len(table.schema)), 3)
        hit = [cell for cell in cells if matches(table.schema, pattern, cell)]
        if len(hit) < len(cells) and not any(counts[cell] for cell in hit):
            found.append(pattern)
    return StructuralZeros(tuple(found))


def random_pattern(rng: Rng, schema: Schema, variables: Sequence[int], most: int) -> Pattern:
    """Some categories of up to so many of these variables."""
    named = sorted(rng.permutation(variables)[: rng.integers(1, most + 1)].tolist())
    sizes = [len(schema.variables[v].categories) for v in named]
    codes = [rng.permutation(size)[: rng.integers(1, max(2, size))].tolist() for size in sizes]
    return tuple((v, tuple(sorted(some))) for v, some in zip(named, codes, strict=True))


def thinned(rng: Rng, table: Table, of: Callable[[Table], Made]) -> Made:
    """What is made of a table; of fewer of its records where that leaves too many tables."""
    while True:
        try:
            return of(table)
        except TooManyTablesError:
            kept = rng.random(table.total) < 0.7
            table = Table.of(table.schema, np.repeat(table.codes, table.counts, axis=0)[kept])


def random_case(rng: Rng, *, chains: bool = False, with_zeros: bool = True) -> Case:
    """A table with levels, what is public of it, and all that agrees."""
    schema = random_schema(rng, chains=chains)
    public, table = random_release(rng, schema), random_table(rng, schema)
    zeros = random_zeros(rng, table) if with_zeros and rng.random() < 0.5 else NO_ZEROS
    return thinned(rng, table, lambda one: Case(one, public, zeros, agreeing(one, public, zeros)))


def random_differences(rng: Rng, of: Case) -> Differences:
    """Up to four: another table that agrees less the true one, that with some more changes, or any changes at all."""
    cells, truth = cells_of(of.schema), np.array(list(counts_of(of.table).values()))
    found: list[dict[Cell, int]] = []
    for kind in rng.choice(["other", "near", "any"], rng.integers(0, 5)):
        changes = dict(zip(cells, (rng.choice(of.tables) - truth).tolist(), strict=True)) if kind != "any" else {}
        for place in rng.integers(0, len(cells), rng.integers(1, 4)) if kind != "other" else ():
            changes[cells[place]] = changes.get(cells[place], 0) + int(rng.choice([-2, -1, 1, 2]))
        found.append({cell: change for cell, change in changes.items() if change})
    start = np.cumsum([0, *map(len, found)])
    codes = as_codes([cell for some in found for cell in some], of.schema)
    return Differences(start, codes, np.array([change for some in found for change in some.values()], np.int64))


@hs.composite
def generators(draw: hs.DrawFn) -> Rng:
    """Cases come from one and not from draws of Hypothesis, of which two in five have no record or no level."""
    seed = draw(hs.integers(0, 2**63 - 1))
    note(f"seed {seed}")
    return np.random.default_rng(seed)


def schemas() -> hs.SearchStrategy[Schema]:
    return generators().map(random_schema)


def cases(*, chains: bool = False, with_zeros: bool = True) -> hs.SearchStrategy[Case]:
    return generators().map(lambda rng: random_case(rng, chains=chains, with_zeros=with_zeros))


def each(found: Differences) -> Iterator[dict[Cell, int]]:
    """One difference after the other, by cells."""
    for codes, changes in found:
        assert len(np.unique(codes, axis=0)) == len(codes)
        yield dict(zip(map(tuple, codes.tolist()), changes.tolist(), strict=True))
