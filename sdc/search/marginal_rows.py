"""Rows of marginals at the at-risk cells, where the annealing kernel looks them up: counted, kept and forgotten."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from sdc.model import subtable as st
from sdc.model.marginal import CellMarginals
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.risk.min_width import MinWidth
from sdc.search import chain_kernel as kernel

MAX_KEYS = 1 << 18


class MarginalRows:
    """n_T(i_T) at the at-risk cells for the sub-tables that chains come to, in the arrays of the kernel.

    Where the rows are full, or their exposed cells, half of them go, those not used for longest. A sub-table whose
    critical width is too small gets no row, only the note that it is narrow; so does one that contains a forbidden one,
    and one that does not keep what it is to keep by itself.
    """

    # `CellMarginals` counts them, and keeps none: the kernel reads rows at every proposal, so they are one array with a
    # hash table that compiled code can ask, and with each row come its exposed cells, mostly all that is read of it.

    def __init__(
        self,
        table: Table,
        at_risk: npt.NDArray[np.int64],
        width: MinWidth,
        work: kernel.ChainWork,
        forbidden: Sequence[SubTable] = (),
        keeps: Callable[[SubTable], bool] = lambda subtable: True,
    ) -> None:
        self._width, self._work = width, work
        self._is_forbidden, self._keeps = st.containing_any(forbidden), keeps
        self.marginals = CellMarginals(table, table.codes[at_risk])
        self._free = list(range(len(work.rows)))
        self._known = self._exposed = 0
        one_way, codes = table.one_way(), self.marginals.cells
        self._least_one_way = np.minimum.reduce([counts[codes[:, v]] for v, counts in enumerate(one_way)])
        self._lacking = [table.total - counts for counts in one_way]

    def of(self, subtable: SubTable) -> int:
        """The row of a sub-table, whatever its critical width: where in `work.rows` its counts at the cells are."""
        row = int(kernel.row_of(self._work, subtable))
        return row if row >= 0 else self._keep(subtable, self.marginals.count(subtable))

    @property
    def held(self) -> kernel.MarginalCounts:
        """(slots, n) where the rows are; one that `of` names stays while the graph it is of does."""
        return self._work.rows

    def bring(self, subtable: SubTable) -> None:
        """Brings what the kernel asked for: a row, or that the critical width is too small."""
        # critical widths never grow with a variable, and a note costs nothing where a count is a pass over the table
        if self._is_forbidden(subtable) or any(
            kernel.row_of(self._work, subtable ^ 1 << v) == kernel.NARROW for v in st.members(subtable)
        ):
            self._note(subtable, kernel.NARROW)
            return
        counts = self.marginals.count(subtable)
        if self.is_narrow(subtable, counts) or not self._keeps(subtable):
            self._note(subtable, kernel.NARROW)
        else:
            self._keep(subtable, counts)

    def is_narrow(self, subtable: SubTable, counts: npt.NDArray[np.int64]) -> bool:
        """Whether the critical width of T ([KDSF] eq. 10), with these (n,) marginal counts, is below the required one.

        By the explicit bounds under MPR(T), at the cells whose upper bound does not decide alone.
        """
        upper = np.minimum(counts, self._least_one_way)
        near = self._exposed_at(upper)
        lower, codes = counts[near], self.marginals.cells[near]
        for v, lacking in enumerate(self._lacking):
            if not st.has(subtable, v):
                # n_T less the sum of N - n_v outside T ([DKS] theorem 1): separators are empty, each of N records
                lower -= lacking[codes[:, v]]
        return not self._width.is_wide(upper[near] - np.maximum(0, lower)).all()

    def _exposed_at(self, upper: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The cells that (n,) upper bounds alone do not show to be wide: a lower bound is at most the count."""
        return np.flatnonzero(~self._width.is_wide(upper - self.marginals.counts))

    def _keep(self, subtable: SubTable, counts: npt.NDArray[np.int64]) -> int:
        work = self._work
        exposed = self._exposed_at(counts)
        # before a row is taken: rows and exposed cells run out at different times, and both go together
        while not self._free or self._exposed + len(exposed) > len(work.exposed):
            self._forget_rows()
        row = self._free.pop()
        work.rows[row] = counts
        work.stamps[row] = work.numbers[kernel.CLOCK]
        self._expose(row, exposed)
        self._note(subtable, row)
        return row

    def _expose(self, row: int, cells: npt.NDArray[np.int64]) -> None:
        stop = self._exposed + len(cells)
        self._work.exposed[self._exposed : stop] = cells
        self._work.span[row] = self._exposed, stop
        self._exposed = stop

    def _note(self, subtable: SubTable, place: int) -> None:
        if self._known == MAX_KEYS:
            # what is narrow is asked for at every proposal to add it, and so noted again; a row has cost the same count
            # and its place in the array besides
            self._keep_places(self._work.places >= 0)
        kernel.remember(self._work, subtable, place)
        self._known += 1

    def _forget_rows(self) -> None:
        """Half of the rows, those not used for longest; not those of the current graph."""
        work = self._work
        # a graph's own rows are read at every proposal, and `term_rows` says where they lie: they must not move
        in_use = set(work.term_rows[: work.numbers[kernel.TERMS]].tolist())
        kept = set(range(len(work.rows))) - set(self._free)
        idle = kept - in_use
        oldest = [row for row in np.argsort(work.stamps, kind="stable").tolist() if row in idle]
        forgotten = oldest[: max(1, len(oldest) // 2)]
        self._free += forgotten
        self._keep_places(~np.isin(work.places, forgotten))
        exposed = {row: work.exposed[slice(*work.span[row])].copy() for row in kept.difference(forgotten)}
        self._exposed = 0
        for row, cells in exposed.items():
            self._expose(row, cells)

    def _keep_places(self, kept: npt.NDArray[np.bool_]) -> None:
        # the hash table probes the next slots, so an entry cannot go on its own: what stays is put in anew
        work = self._work
        kept &= work.keys != kernel.EMPTY
        notes = list(zip(work.keys[kept].tolist(), work.places[kept].tolist(), strict=True))
        work.keys[:] = kernel.EMPTY
        for subtable, place in notes:
            kernel.remember(work, subtable, place)
        self._known = len(notes)
