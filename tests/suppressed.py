"""Small tables some sub-tables of which go out suppressed, and all tables that agree with what is then public."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sdc.model import subtable as st
from sdc.model.fact import CellIntervals, Fact, suppressed_fact
from sdc.model.knowledge import Knowledge
from sdc.model.release import NOTHING, Release
from sdc.model.structural_zeros import StructuralZeros
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.protect.one_table import Dense, Flags
from sdc.risk.criteria import Criteria
from sdc.risk.evaluator import RiskEvaluator
from sdc.risk.verdict import Verdict
from tests import reference
from tests.facts import agreeing
from tests.levels import random_pattern
from tests.reference import every_cell
from tests.strategies import schema_of

MOST_TABLES = 20_000


@dataclass(frozen=True, eq=False)
class Case:
    """Sub-tables of a small table, beside a release, structural zeros and other facts, and what is to be protected."""

    table: Table
    known: Knowledge
    views: tuple[SubTable, ...]
    small_count: int
    min_width: int

    @property
    def evaluator(self) -> RiskEvaluator:
        return RiskEvaluator(self.table, self.known, Criteria.of(self.small_count, self.min_width))

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.table.schema.sizes

    @property
    def is_impossible(self) -> Flags:
        return self.known.zeros.contains(np.array(every_cell(self.sizes)), self.table.schema)

    def is_small(self, counts: Dense) -> Flags:
        return np.asarray((counts > 0) & (counts <= self.small_count))

    @property
    def at_risk(self) -> Flags:
        return self.is_small(self.table.dense.reshape(-1))

    def places(self, fact: Fact) -> list[int]:
        """Of the cells that a fact tells between two numbers, in C order."""
        assert fact.intervals is not None
        sizes = [self.sizes[v] for v in st.members(fact.view)]
        return [int(place) for place in np.ravel_multi_index(tuple(fact.intervals.cells.T.astype(int)), sizes)]

    def of(self, view: SubTable, tables: Dense) -> Dense:
        """(tables, cells of the view) of each of (tables, cells)."""
        return reference.sums(tables.reshape(-1, self.table.schema.cells), self.sizes, st.members(view))

    def agreeing(self, hidden: Sequence[Flags], margins: Sequence[SubTable] = ()) -> Dense:
        """All tables with the zeros, the cells of each view that are not hidden, the release and the other facts."""
        facts, total = [*self.known.facts], self.table.total
        for view, flags in zip(self.views, hidden, strict=True):
            cells = np.array(every_cell([self.sizes[v] for v in st.members(view)]), np.uint16)[flags]
            facts.append(suppressed_fact(view, cells, total, ""))
        return agreeing(self.table, [*margins, *self.known.release.frontier], self.known.zeros, facts, MOST_TABLES)


def some_fact(rng: np.random.Generator, table: Table) -> Fact:
    """Of a marginal all cells or those with some category of one variable; of half of them the count within 2."""
    view = int(rng.integers(1, st.full(len(table.schema)) + 1))
    v = int(rng.choice(st.members(view)))
    size = table.schema.sizes[v]
    universe = ((v, tuple(rng.permutation(size)[: rng.integers(1, size)].tolist())),) if rng.random() < 0.7 else ()
    axes = st.members(view)
    cells = np.array(every_cell([table.schema.sizes[w] for w in axes]), np.uint16)
    cells = cells[np.isin(cells[:, axes.index(v)], universe[0][1] if universe else range(size))]
    cells = cells[rng.random(len(cells)) < 0.5]
    counts = table.marginal(view).count_at(cells)
    low, high = np.maximum(counts - rng.integers(0, 3, len(cells)), 0), counts + rng.integers(0, 3, len(cells))
    return Fact(view, universe, CellIntervals(cells, low, high), f"table {view}")


def drawn(
    rng: np.random.Generator, shapes: Sequence[Sequence[int]], most: int, public: bool, facts: int
) -> tuple[Table, Knowledge]:
    """Counts up to `most` with some structural zeros, perhaps a release beside them and up to so many facts."""
    sizes = shapes[rng.integers(len(shapes))]
    schema = schema_of([*sizes])
    patterns = [random_pattern(rng, schema, range(len(sizes)), len(sizes)) for _ in range(rng.integers(3))]
    if sizes[1] == 4:  # the first variable is a coarser level of the second
        patterns += [((0, (1,)), (1, (0, 1))), ((0, (0,)), (1, (2, 3)))]
    zeros, cells = StructuralZeros(tuple(patterns)), np.array(every_cell(sizes))
    counts = rng.integers(0, most + 1, len(cells)) * (rng.random(len(cells)) < 0.7)
    table = Table.of(schema, cells, counts * ~zeros.contains(cells, schema))
    release = Release.of(rng.integers(0, st.full(len(sizes)), 2).tolist() if public else [])
    return table, Knowledge.of(table, release, zeros, [some_fact(rng, table) for _ in range(rng.integers(facts + 1))])


SIZES = ([2, 2, 2], [2, 3, 2], [3, 3, 2], [2, 2, 3], [2, 4, 2], [2, 2, 2, 2])


def cases(rng: np.random.Generator) -> Iterator[Case]:
    """Of which what is known alone is safe, with one to three sub-tables that are not public, without end."""
    while True:
        table, known = drawn(rng, SIZES, 4, True, 1)
        small, width = int(rng.integers(1, 3)), int(rng.integers(1, 4))
        every = range(1, st.full(len(table.schema)) + 1)
        others = [s for s in every if s not in known.release and st.dimension(s) > 1]
        if len(table.at_risk(small)) and others:
            views = tuple(sorted({int(view) for view in rng.choice(others, rng.integers(1, 4))}))
            case = Case(table, known, views, small, width)
            if case.evaluator.evaluate(NOTHING).verdict is Verdict.SAFE:
                yield case
