"""Small tables with facts of every kind, for Hypothesis, and all tables that agree with them, by `tests.reference`."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

import numpy as np
from hypothesis import strategies as hs

from sdc.feasible.suppressed_cells import primary_cells
from sdc.model.fact import CellIntervals, Fact, suppressed_fact
from sdc.model.knowledge import Knowledge
from sdc.model.release import NOTHING, Release
from sdc.model.schema import Schema
from sdc.model.structural_zeros import NO_ZEROS, Pattern, StructuralZeros
from sdc.model.table import Counts, Table
from tests import levels, reference
from tests.levels import (
    Case,
    Rng,
    categories,
    closure,
    counts_of,
    generators,
    marginal,
    matches,
    members,
    random_pattern,
    random_release,
    random_schema,
    random_subtable,
    random_table,
    random_zeros,
    sizes_of,
    thinned,
    variables_of,
)
from tests.reference import Cell, TooManyTablesError, controlled, nearest

MOST_RECORDS, MOST_LISTED = 8, 5_000
KINDS = ("whole", "universe", "withheld", "nearest", "controlled", "few", "interval", "mixture")
Ends = dict[Cell, tuple[int, int]]

# All tables that agree


def finest(schema: Schema, view: int) -> tuple[int, ...]:
    """Of each axis that a closed view has the variable with the most groups, which tells the others."""
    axes = sorted({levels.axis_of(schema, v) for v in members(view)})
    own = ([v for v in members(view) if levels.axis_of(schema, v) == axis] for axis in axes)
    return tuple(sorted(max(some, key=lambda v: len(schema.variables[v].categories)) for some in own))


def view_cells(schema: Schema, view: int) -> dict[Cell, list[Cell]]:
    """The cells of each cell of a view, by the codes that facts name it by."""
    return {categories(schema, finest(schema, view), inside[0]): inside for inside in marginal(schema, view).values()}


def sums_of(fact: Fact, table: Table) -> Iterator[reference.Fact]:
    """What a fact tells of a table with these counts: of each of its cells the sum, or between what that lies."""
    schema, ends = table.schema, Ends()
    if fact.intervals is not None:
        told = zip(
            fact.intervals.cells.tolist(), fact.intervals.low.tolist(), fact.intervals.high.tolist(), strict=True
        )
        ends = {tuple(cell): (low, high) for cell, low, high in told}
    view = [variables_of(schema)[v] for v in finest(schema, fact.view)]
    universe = [(variables_of(schema)[v], codes) for v, codes in fact.universe]
    return reference.published(levels.dense_of(table), view, universe, ends)


def agreeing(
    table: Table, subtables: Iterable[int], zeros: StructuralZeros, facts: Iterable[Fact], most: int = MOST_LISTED
) -> Counts:
    """(tables, cells) all tables that agree; TooManyTablesError where they are more than `most`."""
    facts = list(facts)
    told = chain(levels.facts(table, subtables, zeros), *(sums_of(fact, table) for fact in facts), labels(table, facts))
    return reference.feasible(sizes_of(table.schema), told, most)


def labels(table: Table, facts: Iterable[Fact]) -> Iterator[reference.Fact]:
    """What the labels of their variables say; of categories without records a code list has them."""
    dense = levels.dense_of(table)
    for v in {v for fact in facts for v in finest(table.schema, fact.view)}:
        own = variables_of(table.schema)[v]
        unmet = [code for (code,), count in reference.marginal(dense, [own]).items() if not count]
        yield from reference.listed(dense, own, unmet)


# Random cases


@dataclass(frozen=True, eq=False, repr=False)
class FactCase(Case):
    """A table, what is public of it with facts, and all tables that agree with that."""

    facts: tuple[Fact, ...]

    @staticmethod
    def of(
        table: Table, subtables: Sequence[int], zeros: StructuralZeros, facts: Sequence[Fact], most: int = MOST_LISTED
    ) -> "FactCase":
        """With the tables listed; TooManyTablesError where they are more than `most`."""
        tables = agreeing(table, subtables, zeros, facts, most)
        return FactCase(table, tuple(subtables), zeros, tables, tuple(facts))

    def __repr__(self) -> str:
        told = [(fact.label(self.schema), list(sums_of(fact, self.table)), fact.source) for fact in self.facts]
        return f"{super().__repr__()} and {told}"

    @cached_property
    def known(self) -> Knowledge:
        return Knowledge.of(self.table, Release.of(self.subtables), self.zeros, self.facts)


def fact_of(schema: Schema, view: int, universe: Pattern = (), ends: Ends | None = None, source: str = "it") -> Fact:
    """A fact of these cells of a view, by their codes; `ends` None tells all exactly."""
    if ends is None:
        return Fact(view, universe, None, source)
    cells = np.array(list(ends), np.uint16).reshape(len(ends), len(finest(schema, view)))
    low, high = np.array(list(ends.values()), np.int64).reshape(-1, 2).T
    return Fact(view, universe, CellIntervals(cells, low, high), source)


def random_fact(rng: Rng, table: Table, kind: str, source: str) -> Fact:
    """A fact of one of the kinds that is so of the table."""
    schema, counts = table.schema, counts_of(table)
    # what a level tells is mostly told without its axis, and seldom everything
    view = closure(schema, random_subtable(rng, schema)) or closure(schema, 1 << int(rng.integers(len(schema))))
    universe = random_pattern(rng, schema, members(view), 2) if kind in ("universe", "mixture") else ()
    if all(len(codes) == len(schema.variables[v].categories) for v, codes in universe):
        universe = ()
    held = {cell: inside for cell, inside in view_cells(schema, view).items() if matches(schema, universe, inside[0])}
    sums = {cell: sum(counts[one] for one in inside) for cell, inside in held.items()}
    if kind == "mixture":
        kind = str(rng.choice(["nearest", "controlled", "few", "interval"]))
    if kind in ("whole", "universe"):
        return fact_of(schema, view, universe, None if rng.random() < 0.9 else {}, source)
    if kind == "withheld":
        hidden = np.array([cell for cell in sums if rng.random() < 0.5], np.uint16)
        return suppressed_fact(view, hidden.reshape(-1, len(finest(schema, view))), table.total, source)
    base, ends = int(rng.choice([3, 5])), Ends()
    for cell, count in sums.items():
        if kind == "nearest":
            ends[cell] = nearest(count, base)
        elif kind == "controlled":
            ends[cell] = controlled(count, base, up=bool(rng.random() < 0.5))
        elif kind == "few" and count < 5:
            ends[cell] = int(count > 0), 4
        elif kind == "interval" and rng.random() < 0.6:
            ends[cell] = count - int(rng.integers(0, 3)), count + int(rng.integers(0, 3))
    if rng.random() < 0.5:
        ends = {cell: (max(0, low), high) for cell, (low, high) in ends.items()}
    return fact_of(schema, view, universe, ends, source)


def random_facts(rng: Rng, table: Table, most: int = 4) -> list[Fact]:
    """One to four facts of any kinds."""
    kinds = rng.choice(KINDS, rng.integers(1, most + 1)).tolist()
    return [random_fact(rng, table, kind, f"{kind} {place}") for place, kind in enumerate(kinds)]


def random_fact_case(rng: Rng) -> FactCase:
    """A table with what is public of it, mostly in part."""
    schema = random_schema(rng, chains=bool(rng.random() < 0.3), most_cells=int(rng.choice([12, 24, 60])))
    public = random_release(rng, schema)
    # much that is public whole leaves nothing to facts
    public = public[: rng.integers(0, 3)] if rng.random() < 0.6 else public
    table = random_table(rng, schema, MOST_RECORDS)
    zeros = random_zeros(rng, table) if rng.random() < 0.3 else NO_ZEROS
    return thinned(rng, table, lambda one: FactCase.of(one, public, zeros, random_facts(rng, one)))


def fact_cases() -> hs.SearchStrategy[FactCase]:
    return generators().map(random_fact_case)


def nearly(rng: Rng, of: FactCase, number: int = 12) -> Counts:
    """(number, cells) tables that agree with all but one fact, and perhaps with that too."""
    without = int(rng.integers(len(of.facts)))
    others = [fact for place, fact in enumerate(of.facts) if place != without]
    try:
        tables = agreeing(of.table, of.subtables, of.zeros, others)
    except TooManyTablesError:
        tables = of.tables
    found: Counts = rng.choice(tables, number)
    return found


def own_widths(of: FactCase, small_count: int, min_width: int) -> list[int]:
    """Of all small cells of parts that facts alone do not tell, and no sub-table that is released, over all tables."""
    before, found = replace(of.known, release=NOTHING), list[int]()
    own = primary_cells(of.table, before, before, small_count, min_width)
    for view, _, places in own.of_views(of.schema):
        if len(places) and view not in of.known.release:
            sums = [Table.of(of.schema, of.cells, counts).marginal(view).dense.reshape(-1) for counts in of.tables]
            found += np.ptp(np.stack(sums)[:, places], axis=0).tolist()
    return found
