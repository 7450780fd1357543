"""Exact laws by enumeration of each independent part of the feasible tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import networkx as nx
import numpy as np
import numpy.typing as npt
from scipy.special import entr, gammaln, logsumexp

from sdc.feasible.depth_first import Block, DepthFirst, FeasibleTables
from sdc.intruder.cell_laws import CellLaws, Probabilities
from sdc.intruder.laws import Law
from sdc.model import subtable as st
from sdc.model.errors import ReleaseError
from sdc.model.knowledge import Knowledge
from sdc.model.subtable import SubTable
from sdc.model.table import Codes, Counts, Table

MAX_TABLES = 1 << 20  # of one part
MAX_ENTRIES = 1 << 26  # counts in all of them, 512 MB
MAX_STEPS = 1 << 28  # some 5 s for a block

Logs = npt.NDArray[np.float64]


class TooManyTablesError(ReleaseError):
    """The feasible tables are too many to list."""


@dataclass(frozen=True, eq=False)
class IndependentPart:
    """Cells that vary together under a law, with all their tables; independent of all other cells.

    cells   (c,) int64 dense cells, ascending
    tables  (t, c) int64
    logs    (t,) logarithms of their weights
    truth   (c,) int64 true counts
    """

    cells: Counts
    tables: npt.NDArray[np.int64]
    logs: Logs
    truth: Counts

    @cached_property
    def probabilities(self) -> Probabilities:
        """(t,) of each table of the part."""
        found: Probabilities = np.exp(self.logs - logsumexp(self.logs))
        return found

    @property
    def log_probability_of_truth(self) -> float:
        is_true = (self.tables == self.truth).all(axis=1)
        return float((self.logs[is_true] - logsumexp(self.logs))[0])

    @property
    def entropy(self) -> float:
        """- sum p log p over the tables of the part."""
        return float(entr(self.probabilities).sum())

    def law_of(self, cell: int) -> tuple[int, Probabilities]:
        """The least count of a dense cell of the part, and the probabilities from there on."""
        values = self.tables[:, np.searchsorted(self.cells, cell)]
        least = int(values.min())
        return least, np.bincount(values - least, self.probabilities).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Enumerated:
    """All feasible tables under a law: a product of independent parts; all other cells have their true counts."""

    table: Table
    parts: tuple[IndependentPart, ...]

    @property
    def feasible_tables(self) -> int:
        """M(T), the number of feasible tables; a Python int that may exceed 2^64."""
        return prod(len(part.tables) for part in self.parts)

    @property
    def log_probability_of_truth(self) -> float:
        """log Pr(F | R) of the true table."""
        return sum((part.log_probability_of_truth for part in self.parts), 0.0)

    @property
    def entropy(self) -> float:
        """Entropy of the law of the tables, in natural units: 0 for a known table, log M(T) for equal weights."""
        return sum((part.entropy for part in self.parts), 0.0)

    def laws(self, cells: Codes) -> CellLaws:
        """The laws of (n, variables) cells."""
        keys, counts = self.table.schema.keys.pack(cells), self.table.count_at(cells)
        part_of = {cell: part for part in self.parts for cell in part.cells.tolist()}
        forced = np.ones(1)
        laws = [
            part_of[key].law_of(key) if key in part_of else (count, forced)
            for key, count in zip(keys.tolist(), counts.tolist(), strict=True)
        ]
        return CellLaws.of_each(cells, counts, laws)


def enumerated(table: Table, knowledge: Knowledge, law: Law, max_tables: int = MAX_TABLES) -> Enumerated:
    """The feasible tables, weighted by a law.

    What propagation leaves open consists of blocks that combine freely; blocks that share a factor of the law form one
    part, whose combinations are listed. TooManyTablesError for more than `max_tables` in a part, ReleaseError beyond
    2,048 dense cells.
    """
    found, terms = FeasibleTables(table, knowledge), law.terms(knowledge)
    parts = []
    for blocks in _together(found.blocks, terms, table):
        cells = np.concatenate([block.cells for block in blocks])
        tables = _product([_tables_of(block, max_tables) for block in blocks], max_tables)
        order = np.argsort(cells)
        cells, tables = cells[order], tables[:, order]
        logs = _log_weights(tables, cells, law, terms, found.equations.truth, table)
        parts.append(IndependentPart(cells, tables, logs, found.equations.truth[cells]))
    return Enumerated(table, tuple(parts))


def _together(blocks: Sequence[Block], terms: Sequence[tuple[SubTable, int]], table: Table) -> list[list[Block]]:
    ties = nx.empty_graph(len(blocks))
    for sub_table, _ in terms:
        seen: dict[int, int] = {}
        for number, block in enumerate(blocks):
            for key in set(_marginal_keys(block.cells, sub_table, table).tolist()):
                ties.add_edge(seen.setdefault(key, number), number)
    return [[blocks[k] for k in sorted(group)] for group in nx.connected_components(ties)]


def _tables_of(block: Block, max_tables: int) -> npt.NDArray[np.int64]:
    search, left, batches = DepthFirst(block), max_tables + 1, [np.empty((0, len(block.cells)), np.int64)]
    # one more than allowed shows that there are too many
    while left and len(found := search.more(left, MAX_STEPS)):
        batches.append(found)
        left -= len(found)
    if not left or not search.exhausted:
        _refuse(max_tables)
    return np.concatenate(batches)


def _product(of_blocks: Sequence[npt.NDArray[np.int64]], max_tables: int) -> npt.NDArray[np.int64]:
    """(t, cells) every table of one block combined with every table of the others."""
    sizes = [len(tables) for tables in of_blocks]
    if prod(sizes) > max_tables or prod(sizes) * sum(tables.shape[1] for tables in of_blocks) > MAX_ENTRIES:
        _refuse(max_tables)
    chosen = np.indices(sizes).reshape(len(sizes), -1)
    return np.concatenate([tables[rows] for tables, rows in zip(of_blocks, chosen, strict=True)], axis=1)


def _refuse(max_tables: int) -> None:
    raise TooManyTablesError(
        f"more than {max_tables} feasible tables vary together, too many to list them all; release more, or choose "
        "the law released and a decomposable release"
    )


def _log_weights(
    tables: npt.NDArray[np.int64],
    cells: Counts,
    law: Law,
    terms: Sequence[tuple[SubTable, int]],
    truth: Counts,
    table: Table,
) -> Logs:
    """(t,) logarithms of the weights of a part's tables, up to a constant."""
    everything = st.full(len(table.schema))
    if law.alpha == 1.0 and dict(terms).get(everything) == 1:
        # Gamma(f + 1) / f! is 1, without rounding
        logs, terms = np.zeros(len(tables)), [term for term in terms if term[0] != everything]
    else:
        logs = -gammaln(tables + 1).sum(axis=1)
    for sub_table, sign in terms:
        keys = _marginal_keys(np.arange(len(truth)), sub_table, table)
        different, column = np.unique(keys[cells], return_inverse=True)
        summed = np.zeros((len(different), len(tables)), np.int64)
        np.add.at(summed, column, tables.T)
        # cells of other parts do not contribute to these sums; cells in no part have their true counts
        outside = np.ones(len(truth), np.bool_)
        outside[cells] = False
        forced = np.bincount(keys[outside], truth[outside], minlength=int(keys.max()) + 1).astype(np.int64)
        summed += forced[different][:, None]
        logs = logs + sign * gammaln(summed + law.alpha_of(sub_table, table.schema)).sum(axis=0)
    return logs


def _marginal_keys(cells: Counts, sub_table: SubTable, table: Table) -> Counts:
    """(n,) key of each dense cell's cell in the sub-table."""
    chosen = st.members(sub_table)
    codes = table.schema.keys.unpack(np.asarray(cells, np.int64))
    return table.schema.keys.restricted(chosen).pack(codes[:, chosen])
