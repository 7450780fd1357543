"""Small tables and releases of every kind for Hypothesis, and the published tables typed in from their papers."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import combinations, product
from math import prod
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
from hypothesis import reject
from hypothesis import strategies as hs

from sdc.bounds.decomposable import explicit_bounds
from sdc.data.reading import read_table
from sdc.executor import IN_PROCESS, Executor
from sdc.feasible.differences import Differences
from sdc.feasible.proof import ComponentProof, Proof
from sdc.model import graph
from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds, Intervals
from sdc.model.decomposable_graph import DecomposableGraph, Edge
from sdc.model.fact import NO_FACTS
from sdc.model.graph import Decomposition
from sdc.model.knowledge import Knowledge
from sdc.model.marginal import CellMarginals
from sdc.model.release import NOTHING, Release
from sdc.model.schema import Schema, Variable
from sdc.model.structural_zeros import NO_ZEROS, StructuralZeros
from sdc.model.table import Codes, Counts, Table
from sdc.risk.criteria import Criteria
from sdc.risk.effort import Budget, Effort
from sdc.risk.evaluator import RiskEvaluator
from sdc.risk.slices import CELLS_PER_SLICE
from sdc.risk.verdict import Policy
from tests import reference

CZECH_CSV = Path(__file__).parents[1] / "configs" / "czech_auto_workers.csv"


def schema_of(sizes: list[int]) -> Schema:
    """Variables A, B, ..., or where they are more than 8 v00, v01, ..., with the categories 0, 1, ..."""
    names = "ABCDEFGH" if len(sizes) <= 8 else [f"v{v:02}" for v in range(len(sizes))]
    return Schema(tuple(Variable(name, tuple(map(str, range(n)))) for name, n in zip(names, sizes, strict=False)))


def edgeless(variables: int) -> DecomposableGraph:
    """Every variable alone."""
    return DecomposableGraph((0,) * variables, variables)


def legal_moves(graph: DecomposableGraph) -> dict[Edge, DecomposableGraph]:
    """Where each move by one edge leads that the graph does not refuse."""
    found = {}
    for u, v in combinations(range(len(graph)), 2):
        with suppress(ValueError):
            found[u, v] = graph.toggled(u, v)
    return found


def additions(graph: DecomposableGraph) -> dict[Edge, DecomposableGraph]:
    return {edge: larger for edge, larger in legal_moves(graph).items() if larger.has_edge(*edge)}


def every_cell(schema: Schema) -> Codes:
    """(cells, variables) codes of the dense table, C order."""
    return np.array(list(product(*map(range, schema.sizes))), np.uint16)


def dense(schema: Schema, counts: list[int]) -> Table:
    """The table with these counts of all its cells, in C order."""
    return Table.of(schema, every_cell(schema), np.array(counts, np.int64))


def listed(table: Table, known: Knowledge, most: int = 50_000) -> Counts:
    """(tables, cells) all tables that agree with what is known, by `tests.reference`; TooManyTablesError beyond."""
    assert not known.facts, "see `tests.facts`"
    cells = every_cell(table.schema)
    facts = reference.released(table.dense, map(st.members, known.release.frontier))
    facts += reference.impossible(map(tuple, cells[known.impossible(cells)].tolist()))
    return reference.feasible(table.schema.sizes, facts, most)


def sharp_ends(table: Table, known: Knowledge) -> Intervals:
    """(cells, 2) the sharp bounds of all cells; a case of Hypothesis with too many tables is passed over."""
    try:
        return reference.bounds(listed(table, known))
    except reference.TooManyTablesError:
        reject()


def frontier_sets(release: Release) -> list[frozenset[int]]:
    """As `tests.reference` has them; the grand total is always one."""
    return [frozenset(st.members(t)) for t in (0, *release.frontier)]


def is_safe(table: Table, release: Iterable[frozenset[int]], min_width: int) -> bool:
    """By the listing of all feasible tables, with c = 2."""
    return reference.is_releasable(table.dense, release, 2, min_width)


def assert_safe_and_maximal(table: Table, release: Release, min_width: int) -> None:
    """By the listing: one more sub-table makes it unsafe."""

    def releasable(some: Collection[frozenset[int]]) -> bool:
        return is_safe(table, some, min_width)

    assert releasable(frontier_sets(release))
    assert reference.is_maximal(frontier_sets(release), len(table.schema), releasable)


def nested_in(inner: Intervals, outer: Intervals) -> bool:
    """Whether each of (n, 2) intervals is within its own of the others."""
    return bool((outer[:, 0] <= inner[:, 0]).all() and (inner[:, 1] <= outer[:, 1]).all())


def assert_around(bounds: CellBounds, sharp: Intervals) -> None:
    """Outer bounds around the sharp ones, inner ones within them, and exact where it is said."""
    assert nested_in(sharp, bounds.outer), bounds.method
    assert nested_in(bounds.inner, sharp), bounds.method
    assert (bounds.outer[bounds.exact] == sharp[bounds.exact]).all(), bounds.method


def knows(table: Table, release: Release, zeros: StructuralZeros = NO_ZEROS) -> Knowledge:
    """What is known of the table once the release is out."""
    return Knowledge.of(table, release, zeros, NO_FACTS)


def components(release: Release, variables: int, together: tuple[int, ...] = ()) -> Decomposition:
    """The finest split of the release; each sub-table of `together` lies within one component too."""
    return graph.components(graph.independence_graph([*release.frontier, *together], variables), release)


def subtable(letters: str) -> st.SubTable:
    """`subtable("AB")`: variable A is bit 0."""
    return st.of("ABCDEFGH".index(letter) for letter in letters)


def frontier(*names: str) -> Release:
    """`frontier("AB", "BC")`: the release of these sub-tables."""
    return Release.of(map(subtable, names))


ORDERED_60 = frontier("ABCDE", "ABDEF", "ACDEF", "ABCF", "BCDF", "BCEF")
"""The ordered release of the Czech table: 60 sub-tables with the total ([KDSF] 5.2)."""
TWO_CYCLES = frontier("AB", "AC", "BD", "CD", "CE", "DF", "EF")
"""Two four-cycles that share the released edge CD.

    A - C - E
    |   |   |
    B - D - F
"""


def as_networkx(adjacency: graph.Adjacency) -> nx.Graph:
    """The graph for the judge."""
    judged = nx.empty_graph(len(adjacency))
    judged.add_edges_from((v, u) for v, around in enumerate(adjacency) for u in st.members(around))
    return judged


def most_parsimonious(subtable: st.SubTable, schema: Schema) -> Release:
    """MPR(T): T and the one-way sub-table of every axis outside T ([KDSF] section 5.2)."""
    return Release.of([subtable, *(schema.levels.closed(1 << axis) for axis in schema.axes)])


def all_ways(variables: int, dimension: int) -> Release:
    """All sub-tables of that dimension."""
    return Release.of(st.of(kept) for kept in combinations(range(variables), dimension))


@hs.composite
def small_tables(
    draw: hs.DrawFn, max_records: int = 8, max_cells: int = 36, min_size: int = 2, max_size: int = 4
) -> Table:
    """2 to 5 variables of `min_size` to `max_size` categories: a few records each on its own, or on few cells."""
    sizes = draw(
        hs.lists(hs.integers(min_size, max_size), min_size=2, max_size=5).filter(lambda s: prod(s) <= max_cells)
    )
    cell = hs.tuples(*(hs.integers(0, size - 1) for size in sizes))
    records = draw(hs.lists(cell, max_size=max_records))
    weights = draw(hs.lists(hs.integers(1, 3), min_size=len(records), max_size=len(records)))
    return Table.of(schema_of(sizes), np.array(records, np.int64).reshape(-1, len(sizes)), np.array(weights, np.int64))


@hs.composite
def decomposable_releases(draw: hs.DrawFn, variables: int) -> Release:
    """Cliques of a random chordal graph: each clique keeps a part of one earlier clique and adds new variables."""
    order = draw(hs.permutations(range(variables)))
    cliques: list[int] = []
    left = list(order)
    while left:
        fresh = [left.pop() for _ in range(draw(hs.integers(1, min(3, len(left)))))]
        host = draw(hs.sampled_from(cliques)) if cliques else 0
        kept = [v for v in st.members(host) if draw(hs.booleans())]
        cliques.append(st.of(fresh + kept))
    return Release.of(cliques)


@hs.composite
def arbitrary_releases(draw: hs.DrawFn, variables: int) -> Release:
    """Any set of sub-tables: variables may stay uncovered, or the full table be released."""
    return Release.of(draw(hs.lists(hs.integers(0, st.full(variables)), max_size=6)))


@hs.composite
def cyclic_releases(draw: hs.DrawFn, variables: int) -> Release:
    """A cycle of pairs through all variables, and perhaps a chord or a larger sub-table."""
    order = draw(hs.permutations(range(variables)))
    pairs = [st.of({a, b}) for a, b in zip(order, order[1:] + order[:1], strict=True)]
    return Release.of([*pairs, *draw(hs.lists(hs.integers(0, st.full(variables) - 1), max_size=1))])


def releases(variables: int) -> hs.SearchStrategy[Release]:
    """Releases of all kinds."""
    return hs.one_of(
        cyclic_releases(variables),
        hs.integers(1, variables).map(lambda dimension: all_ways(variables, dimension)),
        arbitrary_releases(variables),
        decomposable_releases(variables),
    )


@hs.composite
def tables_and_releases(draw: hs.DrawFn, max_records: int = 8, min_size: int = 2) -> tuple[Table, Release]:
    """A small table and a release of any kind."""
    table = draw(small_tables(max_records, min_size=min_size))
    return table, draw(releases(len(table.schema)))


@hs.composite
def structural_zeros(draw: hs.DrawFn, table: Table) -> StructuralZeros:
    """Up to four patterns of one to all variables that do not contradict the table; perhaps none."""
    patterns = []
    for _ in range(draw(hs.integers(0, 4))):
        named = sorted(draw(hs.sets(hs.integers(0, len(table.schema) - 1), min_size=1)))
        sizes = [table.schema.sizes[v] for v in named]
        codes = [draw(hs.sets(hs.integers(0, size - 1), min_size=1, max_size=max(1, size - 1))) for size in sizes]
        patterns.append(tuple(zip(named, map(tuple, codes), strict=True)))
    return StructuralZeros(tuple(p for p in patterns if _is_consistent(StructuralZeros((p,)), table)))


def _is_consistent(zeros: StructuralZeros, table: Table) -> bool:
    schema = table.schema
    return not zeros.contains(table.codes, schema).any() and not zeros.contains(every_cell(schema), schema).all()


@hs.composite
def tables_and_knowledge(draw: hs.DrawFn, max_records: int = 8, min_size: int = 2) -> tuple[Table, Knowledge]:
    """A small table, and of it a release of any kind, perhaps with structural zeros."""
    table, release = draw(tables_and_releases(max_records, min_size))
    return table, knows(table, release, draw(structural_zeros(table)))


@hs.composite
def differences(draw: hs.DrawFn, table: Table) -> Differences:
    """Up to four: records of two cells that exchange some codes, which is often feasible, or any changes at all."""
    kinds = hs.one_of(_exchanges(table), _changes(table)) if len(table) else _changes(table)
    return Differences.concatenated([Differences.none(len(table.schema)), *draw(hs.lists(kinds, max_size=4))])


@hs.composite
def _exchanges(draw: hs.DrawFn, table: Table) -> Differences:
    one, other = (table.codes[draw(hs.integers(0, len(table) - 1))] for _ in range(2))
    exchanged = np.array(draw(hs.lists(hs.booleans(), min_size=len(one), max_size=len(one))))
    cells = np.stack([one, other, np.where(exchanged, other, one), np.where(exchanged, one, other)])
    return Differences.summed(1, np.zeros(4, np.int64), cells, np.array([-1, -1, 1, 1]), table.schema)


@hs.composite
def _changes(draw: hs.DrawFn, table: Table) -> Differences:
    cell = hs.tuples(*(hs.integers(0, size - 1) for size in table.schema.sizes))
    entries = draw(hs.lists(hs.tuples(cell, hs.sampled_from([-2, -1, 1, 2])), max_size=4))
    cells = np.array([cell for cell, _ in entries], np.uint16).reshape(-1, len(table.schema))
    return Differences(np.array([0, len(entries)]), cells, np.array([change for _, change in entries], np.int64))


def gives_feasible(table: Table, known: Knowledge, cells: Codes, changes: Counts) -> bool:
    """The judge of a difference: each cell once, and the dense table it gives checked marginal by marginal."""
    before = table.dense
    after = before.copy()
    np.add.at(after, tuple(cells.T), changes)
    impossible = known.zeros.contains(every_cell(table.schema), table.schema).reshape(before.shape)
    summed = [tuple(v for v in range(before.ndim) if not st.has(element, v)) for element in known.release.frontier]
    same = all(np.array_equal(before.sum(axis=axes), after.sum(axis=axes)) for axes in summed)
    return same and after.min() >= 0 and not after[impossible].any() and len(np.unique(cells, axis=0)) == len(cells)


def rewritten(subtables: Iterable[int], part: int) -> Release:
    """What sub-tables have of a component's variables, by the places of those in the component."""
    kept = [v for v in range(64) if part >> v & 1]
    return Release.of(sum(1 << place for place, v in enumerate(kept) if s >> v & 1) for s in subtables)


def assert_splits(known: Knowledge, proof: Proof) -> None:
    """The judge of components: all variables, what is released or impossible in one, and a junction tree of them."""
    parts = [part.variables for part in proof.parts]
    assert all(parts)
    assert st.full(len(known.schema)) == Release.of(parts).variables
    together = [*known.release.frontier, *known.zeros.subtables]
    assert all(any(st.is_within(s, part) for part in parts) for s in together)
    assert len(proof.separators) == len(parts) - 1
    for j, separator in enumerate(proof.separators, start=1):
        assert parts[j] & Release.of(parts[:j]).variables == separator
        assert any(st.is_within(separator, earlier) for earlier in parts[:j])
        assert separator in known.release


def shown_by(table: Table, known: Knowledge, cells: Codes, proof: Proof) -> Intervals:
    """(cells, 2) the ends again from what is handed out: each part's cover, its differences one by one, and the tree.

    Asserts on the way that all of it is as it should be.
    """
    assert_splits(known, proof)
    ends = [_shown_by_part(table, known, cells, part) for part in proof.parts]
    shown = []
    for row, cell in enumerate(cells):
        between = [_count_at(table, separator, cell) for separator in proof.separators]
        low = sum(int(of_part[row][0]) for of_part in ends) - sum(between)
        shown.append([max(0, low), min(int(of_part[row][1]) for of_part in ends)])
    return np.array(shown, np.int64).reshape(-1, 2)


def _shown_by_part(table: Table, known: Knowledge, cells: Codes, part: ComponentProof) -> list[tuple[int, int]]:
    kept = [v for v in range(len(table.schema)) if part.variables >> v & 1]
    inside = table.marginal(part.variables)
    zeros = known.zeros.within(part.variables)
    public = knows(inside, rewritten(known.release.frontier, part.variables), zeros)
    assert part.cover is not None
    cover = Release.of(part.cover.cliques)
    assert all(element in cover for element in public.release.frontier)
    assert all(subtable in cover for subtable in zeros.subtables)
    marginals = CellMarginals(inside, cells[:, kept])
    found = explicit_bounds(marginals, part.cover, knows(inside, cover).is_floating(marginals.cells)).tolist()
    for changed, changes in part.differences:
        assert gives_feasible(inside, public, changed, changes)
        for row, cell in enumerate(marginals.cells.tolist()):
            here = sum(change for at, change in zip(changed.tolist(), changes.tolist(), strict=True) if at == cell)
            value = int(marginals.counts[row]) + here
            found[row] = [min(found[row][0], value), max(found[row][1], value)]
    return [(low, high) for low, high in found]


def _count_at(table: Table, subtable: int, cell: Codes) -> int:
    kept = [v for v in range(len(cell)) if subtable >> v & 1]
    return int(table.counts[(table.codes[:, kept] == cell[kept]).all(axis=1)].sum())


def czech() -> Table:
    """Czech auto workers, 2^6 cells, N = 1841 ([KDSF] section 5.2); at risk with c = 2: counts 1, 2, 2."""
    categories = {"D": ("<140", ">=140"), "E": ("<3", ">=3"), "F": ("neg", "pos")}
    return read_table(CZECH_CSV, categories={**dict.fromkeys("ABC", ("no", "yes")), **categories})


def scattered(seed: int = 1) -> Table:
    """5 variables, 576 cells, some 150 of them with records and some 60 with 1 or 2: too large for exact methods."""
    rng, sizes = np.random.default_rng(seed), [4, 4, 4, 3, 3]
    spread = rng.integers(0, sizes, (150, 5))
    codes = np.concatenate([spread, spread[:70].repeat(3, axis=0), rng.integers(0, 2, (400, 5))])
    return Table.of(schema_of(sizes), codes)


def dks_2x2x2x2() -> Table:
    """[DKS] section 4: rows (A, B), columns (C, D); the only integer table with its two-way marginals.

    nn: 1 0 0 1    ny: 0 0 1 0    yn: 0 0 1 0    yy: 0 1 0 0
    """
    return dense(schema_of([2, 2, 2, 2]), [1, 0, 0, 1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0, 0])


def dft_2x3x3() -> Table:
    """[DFT] table 1: gender (male, female) x race (white, black, chinese) x income (3 levels)."""
    male = [96, 72, 161, 10, 7, 6, 1, 1, 2]
    female = [186, 127, 51, 11, 7, 3, 0, 1, 0]
    return dense(schema_of([2, 3, 3]), male + female)


_MALE = [[85, 107], [64, 80], [158, 169], [0, 21], [0, 14], [0, 9], [0, 1], [0, 2], [0, 2]]
_FEMALE = [[175, 197], [119, 135], [43, 54], [0, 21], [0, 14], [0, 9], [0, 1], [0, 2], [0, 2]]
DFT_BOUNDS = _MALE + _FEMALE
"""Published bounds under {race x income, income x gender}, in C order."""


def unknowing(
    table: Table,
    criteria: Criteria,
    policy: Policy = Policy.REFUSE,
    effort: Effort | None = None,
    zeros: StructuralZeros = NO_ZEROS,
) -> RiskEvaluator:
    """Questions about a table of which nothing is public yet."""
    return RiskEvaluator(table, knows(table, NOTHING, zeros), criteria, policy, effort or Effort())


def evaluator_of(
    table: Table,
    min_width: int = 3,
    *,
    small_count: int = 2,
    budget: Budget | None = None,
    executor: Executor = IN_PROCESS,
    cells_per_slice: int = CELLS_PER_SLICE,
    policy: Policy = Policy.REFUSE,
    zeros: StructuralZeros = NO_ZEROS,
) -> RiskEvaluator:
    """Questions about min width, put to the table."""
    effort = Effort(budget or Budget(), cells_per_slice=cells_per_slice, executor=executor)
    return unknowing(table, Criteria.of(small_count, min_width), policy, effort, zeros)


class Backwards:
    """An executor that runs the last unit first, as if its worker were the fastest."""

    workers, scratch = 3, None

    def run(
        self, function: Callable[[Any, Any], Any], table: Any, units: Sequence[Any], is_over: Any = None
    ) -> Iterator[Any]:
        results = [function(table, unit) for unit in reversed(units)]
        return iter(results[::-1])
