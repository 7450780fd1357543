"""Bounds proven by integer multipliers of released counts: weak duality, summed in integers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from sdc.model import subtable as st
from sdc.model.errors import ReleaseError
from sdc.model.structural_zeros import StructuralZeros
from sdc.model.subtable import SubTable
from sdc.model.table import Counts, Table

MAX_CELLS = 1 << 19
MAX_PRICE = 1 << 62
SCALES = (1, 2, 3, 4, 6, 8, 12, 24, 60, 1 << 10, 1 << 20, 1 << 30)

N = TypeVar("N", np.int64, np.float64)

MarginalCell: TypeAlias = tuple[SubTable, tuple[int, ...]]
"""A sub-table, and codes of its variables in their order."""


@dataclass(frozen=True)
class Multipliers:
    """Multipliers of released marginal cells, and the sub-tables that limit each cell.

    With y of the marginal cells, b their counts, s the scale, u_c the least count over c of the sub-tables in `caps` (0
    if c is impossible, the total without caps), for every feasible table x and every cell t

        s x_t <= y b + sum_c max(0, s [c = t] - (y A)_c) u_c,

    where (y A)_c sums the y of the marginal cells that contain c; likewise with -s for -x_t.

    of  sub-table, codes, and y
    """

    scale: int
    of: tuple[tuple[SubTable, tuple[int, ...], int], ...]
    caps: tuple[SubTable, ...]

    @property
    def support(self) -> tuple[SubTable, ...]:
        """The sub-tables whose release makes the bound valid."""
        return st.maximal([*self.caps, *(subtable for subtable, _, _ in self.of)])


def proven(table: Table, zeros: StructuralZeros, cell: Sequence[int], sign: int, multipliers: Multipliers) -> int:
    """The proven upper bound of sign * cell in all tables that agree with `Multipliers.support`.

    cell  codes; in a larger table with this marginal only the upper bound holds

    Raises ReleaseError for levels, beyond 2^19 cells, for a scale below 1 and for multipliers whose sums might
    overflow. Cost: a pass over the dense table for each multiplier.
    """
    return _Dense(table, zeros).proven(cell, sign, multipliers)


def narrowest(
    table: Table,
    zeros: StructuralZeros,
    cell: Sequence[int],
    sign: int,
    proposed: Iterable[Mapping[MarginalCell, float]],
    caps: Iterable[SubTable],
    whole: Iterable[Multipliers] = (),
) -> tuple[int, Multipliers] | None:
    """The least bound by rounding proposed multipliers, with the smallest scale and few caps.

    proposed  in floating point; invalid or too large ones are skipped; None if none remain
    whole     used unchanged if they give less than all rounded ones
    """
    dense, given, best = _Dense(table, zeros), tuple(caps), None
    rounded = (_rounded(one, scale, given) for scale, one in product(SCALES, list(proposed)))
    for one in filter(None, chain(rounded, whole)):
        value = dense.proven(cell, sign, one)
        if best is None or value < best[0]:
            best = value, one
    return None if best is None else (best[0], dense.with_few_caps(cell, sign, best[1], best[0]))


def _rounded(proposed: Mapping[MarginalCell, float], scale: int, caps: tuple[SubTable, ...]) -> Multipliers | None:
    values = np.array(list(proposed.values()), np.float64) * scale
    if not np.isfinite(values).all() or not np.abs(values).sum() < MAX_PRICE / 4:
        return None
    whole = np.rint(values).astype(np.int64).tolist()
    of = tuple((*marginal_cell, y) for marginal_cell, y in zip(proposed, whole, strict=True) if y)
    return Multipliers(scale, of, caps)


class _Dense:
    """A table with all cells, whose marginals are counted once."""

    def __init__(self, table: Table, zeros: StructuralZeros) -> None:
        schema = table.schema
        if not schema.levels.is_flat:
            raise ReleaseError("multipliers are of tables whose variables are not levels; take the axes alone")
        if schema.cells > MAX_CELLS:
            raise ReleaseError(f"the table has {schema.cells} cells, and multipliers price at most {MAX_CELLS}")
        self._counts = np.zeros(schema.sizes, np.int64)
        self._counts[tuple(table.codes.T)] = table.counts
        self._marginals: dict[SubTable, Counts] = {}
        cells = schema.keys.unpack(np.arange(schema.cells))
        self._impossible = zeros.contains(cells, schema).reshape(schema.sizes)

    def proven(self, cell: Sequence[int], sign: int, multipliers: Multipliers) -> int:
        return self._priced(cell, sign, multipliers)(multipliers.caps)

    def _priced(self, cell: Sequence[int], sign: int, multipliers: Multipliers) -> Callable[[Iterable[SubTable]], int]:
        lack = self._lack(cell, sign, multipliers)
        known = sum(y * int(self._over(s)[self._index(s, codes, 0)]) for s, codes, y in multipliers.of)
        short = np.nonzero(lack)
        lacking = lack[short].tolist()

        def value(caps: Iterable[SubTable]) -> int:
            # Python integers: products do not overflow
            priced = sum(a * b for a, b in zip(lacking, self._most(caps, short).tolist(), strict=True))
            return int(known + priced) // multipliers.scale

        return value

    def with_few_caps(self, cell: Sequence[int], sign: int, multipliers: Multipliers, value: int) -> Multipliers:
        """The multipliers without caps that the value does not need, the largest sub-tables first."""
        priced, needed = self._priced(cell, sign, multipliers), multipliers.caps
        for cap in sorted(needed, key=st.dimension, reverse=True):
            fewer = tuple(other for other in needed if other != cap)
            if priced(fewer) <= value:
                needed = fewer
        return replace(multipliers, caps=needed)

    def _lack(self, cell: Sequence[int], sign: int, multipliers: Multipliers) -> npt.NDArray[np.int64]:
        size = multipliers.scale + sum(abs(y) for _, _, y in multipliers.of)
        if multipliers.scale < 1 or size >= MAX_PRICE:
            raise ReleaseError(f"multipliers of scale {multipliers.scale} come to {size}, not between 1 and 2^62")
        lack = np.zeros(self._counts.shape, np.int64)
        lack[tuple(cell)] = sign * multipliers.scale
        for subtable, codes, y in multipliers.of:
            lack[self._index(subtable, codes, slice(None))] -= y
        return np.maximum(lack, 0)

    def _index(self, subtable: SubTable, codes: Sequence[int], other: int | slice) -> tuple[int | slice, ...]:
        given = iter(codes)
        return tuple(next(given) if st.has(subtable, v) else other for v in range(self._counts.ndim))

    def _over(self, subtable: SubTable) -> Counts:
        """The marginal, with axes of length 1 for the other variables."""
        if subtable not in self._marginals:
            summed = tuple(v for v in range(self._counts.ndim) if not st.has(subtable, v))
            self._marginals[subtable] = self._counts.sum(axis=summed, keepdims=True)
        return self._marginals[subtable]

    def _most(self, caps: Iterable[SubTable], cells: tuple[npt.NDArray[np.int64], ...]) -> Counts:
        most = np.where(self._impossible[cells], 0, self._counts.sum())
        for cap in caps:
            np.minimum(most, np.broadcast_to(self._over(cap), self._counts.shape)[cells], out=most)
        return most


def named_rows(levels: npt.NDArray[np.integer], multipliers: npt.NDArray[N]) -> Iterator[tuple[MarginalCell, Any]]:
    """Multipliers of rows of a linear program, (rows, variables) levels, as those of marginal cells."""
    for row, y in zip(levels.tolist(), multipliers.tolist(), strict=True):
        yield (st.of(v for v, level in enumerate(row) if level), tuple(level for level in row if level)), y
