"""One question to min width while it is answered: cheap bounds first, then searches for what they leave open."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from sdc.bounds.method import is_small
from sdc.feasible.witness_pool import CellRows, WitnessPool
from sdc.model.cell_bounds import CellBounds, Intervals
from sdc.model.knowledge import Knowledge
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.risk.assessment import Assessment
from sdc.risk.certifying import FIRST_BATCH, WALK_STEPS, Certifying
from sdc.risk.effort import Depth, Effort
from sdc.risk.min_width import MAX_WITNESSES, MinWidth, Others, most_exposed
from sdc.risk.program_units import FIRST_ASKED, LAST_ASKED, MOST_ASKED, Programs
from sdc.risk.support import Support
from sdc.risk.units import batches, find_ends, narrowed
from sdc.risk.verdict import Verdict

CELLS_PER_UNIT = 8
CELLS_PER_PART = 1 << 18  # at-risk cells whose bounds are held at once


class Case:
    """The bounds so far, what supports them, and what the search has taken.

    Bounds are held of the at-risk cells in doubt when it was asked; of all of them at the depth that bounds every one.
    Where one that is not certified is enough they are held part by part, as far as to the first with such a cell.
    """

    def __init__(self, width: MinWidth, table: Table, knowledge: Knowledge, pool: WitnessPool, effort: Effort) -> None:
        self._width, self._table, self._pool, self._effort = width, table, pool, effort
        self.support = Support(knowledge, pool, effort.cells_per_slice)
        self._is_exact = is_small(table.schema)
        self._search = Certifying(width, table, self.support, effort, dict(pool.missed))
        self.programs = Programs(width, table, self.support, effort)
        self._methods = dict.fromkeys(["nested" if knowledge.structure.decomposition is None else "decomposable"])
        self._hold(np.zeros(0, np.int64))

    def assessed(self) -> Assessment:
        """The answer, as far as the effort goes."""
        if self._effort.depth is Depth.EVERY:
            self._bound_every()
        else:
            for rows in self._parts():
                self._hold(rows)
                if self._verdict is Verdict.UNDECIDED:
                    self._decide()
                if self._verdict is not Verdict.SAFE:
                    break
        # the cells not held are wide enough, or in parts that nobody needed to look at
        others = Others(len(self._pool.at_risk) - len(self._rows), self.support.narrowest())
        answer, own = self._width.assess(self.bounds, others), self._pool.at_risk.own
        return self._with_own(answer) if len(own) else answer

    def _with_own(self, answer: Assessment) -> Assessment:
        """With what is shown of small cells of sub-tables in part: looked for where nothing else stops the release."""
        found = self._width.with_own(answer, self.support)
        if answer.verdict is not Verdict.SAFE or found.verdict is Verdict.SAFE or self._effort.depth <= Depth.REFUTE:
            return found
        self._search.certify_own()
        return self._width.with_own(answer, self.support)

    @property
    def bounds(self) -> CellBounds:
        """Of the cells held: inner ends are those that the components' covers and feasible tables show."""
        counts, inner = self._pool.at_risk.counts[self._rows], self.support.inner_at(self._rows)
        return CellBounds(self._cells, counts, self._outer, inner, " + ".join(self._methods))

    @property
    def spent(self) -> int:
        """Steps that it took."""
        return self._search.spent + self.programs.spent

    def pool(self, verdict: Verdict) -> WitnessPool:
        """Of a safe release what its proof needs, for larger ones are asked about next; else all that was found."""
        if verdict is Verdict.SAFE:
            return self._pool.settled((part.settled() for part in self.support.open), self._search.missed)
        return self._pool.plus((part.evidence for part in self.support.open), self._search.missed)

    def blockers(self, answer: Assessment) -> tuple[tuple[int, ...], ...]:
        """Of an unsafe release the cells that refute it, of an undecided one those that were given up."""
        if answer.verdict is Verdict.UNSAFE:
            return tuple(witness.cell for witness in answer.witnesses)
        open_ = self._search.short(np.array(self._search.given_up, np.int64))
        cells = self._pool.at_risk.cells[open_[:MAX_WITNESSES]]
        return tuple(tuple(cell) for cell in cells.tolist())

    def _hold(self, rows: CellRows) -> None:
        """Holds the bounds of these at-risk cells, ascending, and no others."""
        cells, self._rows, self._outer = self._pool.at_risk.cells, rows, self.support.outer_at(rows)
        # of all of them no copy: they may be millions
        self._cells = cells if len(rows) == len(cells) else cells[rows]

    def _parts(self) -> Iterator[CellRows]:
        """At-risk cells in doubt, those that were missed before and the most exposed in the first part."""
        rows = self._width.doubtful(self.support)
        if self._effort.depth is not Depth.BRIEF or len(rows) <= CELLS_PER_PART:
            yield rows
            return
        begins = range(0, len(rows), CELLS_PER_PART)
        exposed = np.concatenate([self._exposure(rows[begin : begin + CELLS_PER_PART]) for begin in begins])
        exposed[np.isin(rows, list(self._search.missed))] = 0
        ordered = rows[np.argsort(exposed, kind="stable")]
        for begin in begins:
            yield np.sort(ordered[begin : begin + CELLS_PER_PART])

    def _exposure(self, rows: CellRows) -> npt.NDArray[np.uint16]:
        """(rows,) numbers that order them by outer and then by inner width, as far as to a width of 255."""
        outer, inner = (np.diff(ends)[:, 0] for ends in (self.support.outer_at(rows), self.support.inner_at(rows)))
        return (np.minimum(outer, 255) << 8 | np.minimum(inner, 255)).astype(np.uint16)

    def _bound_every(self) -> None:
        self._hold(np.arange(len(self._pool.at_risk)))
        if self._is_exact:
            bounds = self.bounds
            self._bound_ends(self._rows[most_exposed(bounds, np.flatnonzero(~bounds.exact))])
        else:
            self._decide()

    @property
    def _verdict(self) -> Verdict:
        return Verdict.worst(self._width.verdicts(self.bounds))

    def _decide(self) -> None:
        """Searches for tables that prove cells safe, then for outer bounds that prove one unsafe."""
        depth = self._effort.depth
        if not self._is_exact and depth > Depth.REFUTE:
            self._methods["moves"] = None
            self._search.certify(self._open())
        most = None if self._is_exact else self._effort.refute_cells
        if depth is Depth.BRIEF and most is not None:
            most = min(most, FIRST_BATCH)
        self._bound_ends(self._open()[:most])
        # a linear program costs more than a walk, whatever is allowed for a cell
        may_run = not self._is_exact and depth >= Depth.FULL and self._effort.budget.steps_per_cell > WALK_STEPS
        if may_run and self._verdict is Verdict.UNDECIDED:
            self._run_programs()

    def _run_programs(self) -> None:
        """The linear program for a few cells that stay open, as far as to one that it leaves open too, or refutes."""
        for rows in batches(self._open()[:MOST_ASKED], FIRST_ASKED, LAST_ASKED):
            left = self._effort.budget.steps - self._effort.spent - self.spent
            begun, places = self.programs.spent, np.searchsorted(self._rows, rows)
            self._outer = narrowed(self._outer, places, self.programs.outer(rows, left))
            if self.programs.spent > begun:
                self._methods["linear-program"] = None
            if self._verdict is Verdict.UNSAFE or len(self._search.short(rows)):
                break

    def _open(self) -> CellRows:
        """Undecided cells, those that were missed before first, then the most exposed."""
        bounds = self.bounds
        undecided = self._width.verdicts(bounds) == Verdict.UNDECIDED
        rows = self._rows[most_exposed(bounds, np.flatnonzero(undecided))]
        # a release is undecided as soon as one cell is, so those that failed before may spare all others a search
        times = np.array([self._search.missed.get(int(row), 0) for row in rows], np.int64)
        return rows[np.argsort(-times, kind="stable")]

    def _bound_ends(self, rows: CellRows) -> None:
        """Dearer bounds of some cells, in their order; no further than to one that is refuted where that decides."""
        chunks = [rows[i : i + CELLS_PER_UNIT] for i in range(0, len(rows), CELLS_PER_UNIT)]
        # an explicit component has its sharp bounds already
        searched = [component for component in self.support.open if not component.is_explicit]
        units = [
            (one.frame.variables, one.knowledge, one.frame.cells[one.places(chunk)[0]])
            for chunk in chunks
            for one in searched
        ]
        results = iter(self._effort.executor.run(find_ends, self._table, units))
        for chunk in chunks if searched else ():
            outer: dict[SubTable, Intervals] = {}
            # not strict: the results go on with the next chunk
            for component, found in zip(searched, results, strict=False):
                component.add(found.differences)
                self._methods[found.method] = None
                outer[component.frame.variables] = found.outer[component.places(chunk)[1]]
            places = np.searchsorted(self._rows, chunk)
            self._outer = narrowed(self._outer, places, self.support.outer_by(outer, chunk))
            if self._effort.depth < Depth.EVERY and self._verdict is Verdict.UNSAFE:
                break
