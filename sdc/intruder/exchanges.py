"""Chains on the records of a table under a decomposable release, for any number of cells."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from sdc.intruder.draws import Draws
from sdc.intruder.hypergeometric import junction_tree
from sdc.intruder.laws import Law
from sdc.model import subtable as st
from sdc.model.errors import ReleaseError
from sdc.model.graph import Decomposition
from sdc.model.keys import MAX_CELLS, KeySpace
from sdc.model.knowledge import Knowledge
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable
from sdc.model.table import Codes, Table

MAX_PLACES = 1 << 27  # of records at all edges, 2 GB
PROPOSALS = 2_000  # from draw to draw, and one more for each record

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class _JunctionOrder:
    """An order of variables in which those beyond each edge of the junction tree are consecutive.

    order       of the variables: as the cliques of a preorder add them, then those in no clique
    edges       (separator, first, last, end) of each edge in preorder: order[first:last] are the variables beyond it,
                and the edges beyond it end before `end`
    uncovered   positions of varying unknown variables in the order
    """

    order: tuple[int, ...]
    edges: tuple[tuple[SubTable, int, int, int], ...]
    uncovered: tuple[int, ...]


class Records:
    """The feasible tables of a decomposable release as records that exchange categories, see `exchange_kernel`.

    Records of the same cell of a separator exchange their categories beyond it. That preserves every clique's marginal,
    and gives the primitive moves of the decomposable model, which reach every feasible table (Dobra 2003, Markov bases
    for decomposable graphical models). Categories of unknown variables are free. The start is an independent draw from
    the law `released`. A proposal costs O(edges + variables * terms) for any number of cells; memory is O(records *
    (edges + terms)). Raises ReleaseError as `check`.
    """

    connectivity = "proven"

    def __init__(self, table: Table, knowledge: Knowledge, law: Law, rng: np.random.Generator) -> None:
        check(table, knowledge)
        layout = _layout(junction_tree(knowledge), knowledge)
        codes = Draws(table, knowledge).codes(int(rng.integers(1 << 63)))
        sizes = table.schema.sizes
        self._schema, self._order = table.schema, list(layout.order)
        self._keys = table.schema.keys.restricted(self._order)
        self._records = self._keys.pack(codes[:, self._order])
        self._radix = np.array([self._keys.strides, self._keys.sizes], np.int64)
        self._moves = _moves(layout, self._keys)
        self._lists = np.empty((len(layout.edges), table.total, 3), np.int32)
        for edge, (separator, *_) in enumerate(layout.edges):
            self._lists[edge] = _list(table, codes, separator)
        self._places = np.argsort(self._lists[:, :, 0], axis=1).astype(np.int32)
        terms = dict(law.terms(knowledge))
        everything = st.full(len(sizes))
        tables = [everything, *(term for term in terms if term != everything)]
        self._signs, self._shifts = _weights(tables, terms, law, table.schema)
        self._strides = np.array([_strides(one, self._order, sizes) for one in tables], np.int64)
        self._following = np.full(table.total, -1, np.int32)
        self._hashed, self._slots = _hash_tables([prod(sizes[v] for v in st.members(s)) for s in tables], table.total)
        self._fill()

    def _fill(self) -> None:
        from sdc.intruder.exchange_kernel import fill

        fill(self._records, self._following, self._radix, self._strides, self._hashed, self._slots)

    def advance(self, state: npt.NDArray[np.uint64], rng: np.random.Generator) -> int:
        """Advance to the next draw; return the number of proposals that changed the table."""
        if not (len(self._moves) and len(self._records)):
            return 0
        from sdc.intruder.exchange_kernel import run

        return run(
            self._records,
            self._following,
            self._moves,
            self._lists,
            self._places,
            self._radix,
            self._strides,
            self._signs,
            self._shifts,
            self._hashed,
            self._slots,
            state,
            self.proposals,
        )

    def counts_at(self, cells: Codes) -> Ints:
        """(n,) int64 current counts of (n, variables) cells."""
        from sdc.intruder.exchange_kernel import counts_at

        counts = np.empty(len(cells), np.int64)
        counts_at(self._keys.pack(cells[:, self._order]), self._hashed, self._slots, counts)
        return counts

    def table(self) -> Table:
        """The current table, from its records."""
        codes = np.empty((len(self._records), len(self._order)), np.uint16)
        codes[:, self._order] = self._keys.unpack(self._records)
        return Table.of(self._schema, codes)

    @property
    def moves(self) -> int:
        return len(self._moves)

    @property
    def proposals(self) -> int:
        return PROPOSALS + len(self._records)


def check(table: Table, knowledge: Knowledge) -> None:
    """ReleaseError if the release is not decomposable, or for too many records or cells."""
    edges = len(junction_tree(knowledge).separators)
    if not table.schema.keys.fits:
        raise ReleaseError(
            f"{len(table.schema)} variables have {table.schema.cells} cells, and chains number fewer than {MAX_CELLS}; "
            "choose fewer variables by --variables, or --law released, which needs no chains"
        )
    if edges * table.total > MAX_PLACES:
        raise ReleaseError(
            f"{table.total} records have {edges * table.total} places at the {edges} separators of the release, and "
            f"chains store at most {MAX_PLACES}; choose fewer variables, or the law released"
        )


def _layout(tree: Decomposition, knowledge: Knowledge) -> _JunctionOrder:
    hosts = [
        next(k for k in range(later) if st.is_within(separator, tree.cliques[k]))
        for later, separator in enumerate(tree.separators, start=1)
    ]
    order: list[int] = []
    edges: list[tuple[SubTable, int, int, int]] = []

    def visit(clique: int) -> None:
        separator = tree.separators[clique - 1] if clique else 0
        place, first = len(edges), len(order)
        edges.append((separator, first, 0, 0))
        order.extend(st.members(tree.cliques[clique] & ~separator))
        for later, host in enumerate(hosts, start=1):
            if host == clique:
                visit(later)
        edges[place] = (separator, first, len(order), len(edges) - 1)

    visit(0)
    uncovered = st.members(knowledge.structure.varying & ~tree.variables)
    places = range(len(order), len(order) + len(uncovered))
    constant = st.members(st.full(len(knowledge.schema)) & ~tree.variables & ~knowledge.structure.varying)
    return _JunctionOrder((*order, *uncovered, *constant), tuple(edges[1:]), tuple(places))


def _moves(layout: _JunctionOrder, keys: KeySpace) -> Ints:
    """(moves, 3) for the kernel: the edges, then the unknown variables."""
    parts = [*((first, last, end) for _, first, last, end in layout.edges), *((v, v + 1, 0) for v in layout.uncovered)]
    rows = [(prod(keys.sizes[last:]), prod(keys.sizes[first:last]), end) for first, last, end in parts]
    return np.array(rows, np.int64).reshape(-1, 3)


def _list(table: Table, codes: Codes, separator: SubTable) -> Ints:
    """(records, 3) the records by the separator's cell, and where those of the cell begin and end in the list."""
    chosen = st.members(separator)
    cells = table.schema.keys.restricted(chosen).numbers(codes[:, chosen])
    order = np.argsort(cells, kind="stable")
    ordered = cells[order]
    begin, end = (np.searchsorted(ordered, ordered, side) for side in ("left", "right"))
    return np.stack([order, begin, end], axis=1)


def _weights(tables: list[SubTable], terms: dict[SubTable, int], law: Law, schema: Schema) -> tuple[Floats, Floats]:
    """(tables, 2) signs and shifts of the factors of each table; the first is the full table."""
    signs = np.array([[terms.get(one, 0), 0] for one in tables], np.float64)
    shifts = np.array([[law.alpha_of(one, schema), 1] for one in tables])
    # 1/f!; Gamma(f + 1) / f! is 1, without rounding
    signs[0] = (0, 0) if signs[0, 0] == 1 and law.alpha == 1.0 else (signs[0, 0], -1)
    return signs, shifts


def _strides(sub_table: SubTable, order: list[int], sizes: tuple[int, ...]) -> Ints:
    """(variables,) increments of the key of the sub-table's cell for one category more; 0 for other variables."""
    chosen = [v for v in order if st.has(sub_table, v)]
    stride = dict(zip(chosen, KeySpace(tuple(sizes[v] for v in chosen)).strides.tolist(), strict=True))
    return np.array([stride.get(v, 0) for v in order], np.int64)


def _hash_tables(cells: list[int], records: int) -> tuple[Ints, Ints]:
    # at least four slots for each cell that can have records at once: after a rebuild a quarter is used
    slots = [1 << (4 * max(4, min(records, size)) - 1).bit_length() for size in cells]
    begins = np.concatenate([[0], np.cumsum(slots)]).astype(np.int64)
    hashed = np.stack([begins[:-1], np.array(slots) - 1, np.zeros(len(slots), np.int64)], axis=1)
    return hashed, np.tile(np.array([-1, 0, -1], np.int64), (int(begins[-1]), 1))
