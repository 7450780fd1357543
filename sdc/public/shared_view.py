"""What two published tables both count, by the finest categories that both tell apart: there they must agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt

from sdc.model.keys import KeySpace
from sdc.model.schema import Schema
from sdc.public.relation import Coding, Related
from sdc.public.system import InconsistentError

Flags = npt.NDArray[np.bool_]


def require_agreement(schema: Schema, tables: Sequence[Related]) -> None:
    """InconsistentError, which names both, where two of them have other counts of the records that both count.

    Of tables that tell all counts exactly: whether the others agree with all is for the system to tell.
    """
    for one, other in combinations([table for table in tables if table.published.is_exact], 2):
        kept, others = _of_both(one, other), _of_both(other, one)
        if kept is None or others is None:
            continue
        shared = {v: _common(_coding(one, v), _coding(other, v)) for v in one.variables if v in other.variables}
        counts = one.published.table.counts[kept], other.published.table.counts[others]
        first, second = one.published.source, other.published.source
        if counts[0].sum() != counts[1].sum():
            both = " of the records that both are of" if one.where or other.where else " records"
            raise InconsistentError(f"{first} has {counts[0].sum()}{both}, {second} has {counts[1].sum()}")
        codes = np.concatenate([_codes(one, shared, kept), _codes(other, shared, others)])
        keys = KeySpace(tuple(schema.sizes[v] + 1 for v in shared)).numbers(codes)
        difference = np.zeros(len(keys), np.int64)
        np.add.at(difference, np.unique(keys, return_inverse=True)[1], np.concatenate([counts[0], -counts[1]]))
        if difference.any():
            names = "*".join(schema.names[v] for v in shared)
            raise InconsistentError(f"{first} and {second} have different counts of {names}")


def _of_both(table: Related, other: Related) -> Flags | None:
    """(its cells,) which are of records that the other is of too; None where its categories do not tell."""
    kept = np.ones(len(table.published.table), np.bool_)
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
        kept &= np.isin(table.published.table.codes[:, table.variables.index(v)], inside)
    return kept


def _coding(table: Related, variable: int) -> Coding:
    return table.codings[table.variables.index(variable)]


def _common(one: Coding, other: Coding) -> Coding:
    """The finest coding that both are finer than, or equal to: each category with the first that is not told apart."""
    found = np.arange(len(one))
    while True:
        before = found
        for coding in (one, other):
            least = np.full(coding.max() + 1, len(one))
            np.minimum.at(least, coding, found)
            found = least[coding]
        if np.array_equal(found, before):
            return found


def _codes(table: Related, shared: Mapping[int, Coding], kept: Flags) -> npt.NDArray[np.int64]:
    """(cells kept, shared) codes from 1 on; 0 for a category that the tables' common refinement has not."""
    own, columns = table.published.table.codes[kept], [np.zeros((int(kept.sum()), 0), np.int64)]
    for v, common in shared.items():
        place, coding = table.variables.index(v), _coding(table, v)
        codes = np.zeros(max(int(coding.max()) + 1, table.published.table.schema.sizes[place]), np.int64)
        codes[coding] = common + 1
        columns.append(codes[own[:, place]][:, None])
    return np.concatenate(columns, axis=1)
