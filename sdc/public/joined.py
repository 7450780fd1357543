"""A table of counts that has given marginals, where their structure is decomposable: joined along its junction tree."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sdc.model import graph
from sdc.model import subtable as st
from sdc.model.keys import KeySpace
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable
from sdc.model.table import Codes, Counts, Table
from sdc.public.relation import Related


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
