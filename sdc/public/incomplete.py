"""Incomplete tables: some counts are missing. Bounds and enumeration use every table that agrees with the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sdc.bounds import fractional as fractions
from sdc.bounds import integer_program
from sdc.bounds.enumeration import Enumeration, Watch, enumerate_found
from sdc.bounds.super_cells import FRACTIONAL, PROGRAM
from sdc.config.earlier import EarlierConfig
from sdc.config.table import TableConfig
from sdc.data.reading import CountedRecords
from sdc.data.source import Source, require_records
from sdc.feasible.depth_first import FeasibleTables
from sdc.feasible.equations import MAX_SUM, MarginalEquations, every_cell
from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds
from sdc.model.errors import InputError, ReleaseError
from sdc.model.schema import Schema
from sdc.model.structural_zeros import NO_ZEROS
from sdc.model.subtable import SubTable
from sdc.model.super_cell import SuperCell, SuperCellBounds, SuperCells, each, is_written
from sdc.model.table import Counts, MissingCounts, Table
from sdc.public.published import read_published
from sdc.public.relation import related
from sdc.public.system import InconsistentError, System
from sdc.run_format import TOTAL
from sdc.solve.ends import settled
from sdc.solve.integer import IntegerSystem

MAX_CELLS = integer_program.MAX_CELLS


@dataclass(frozen=True, eq=False)
class Incomplete:
    """An incomplete table as sums of its cells.

    equations  over all cells in C order; their truth is one of the agreeing tables, not more likely than others
    """

    schema: Schema
    equations: MarginalEquations

    def bounds(
        self, cells: SuperCells = "at-risk", *, small_count: int = 2, fractional: bool = False
    ) -> SuperCellBounds:
        """Bounds of super-cells, exact if the solver finishes its proofs.

        cells        super-cells, each as for `super_cell_bounds`; or "all" cells; or "at-risk": cells that may have 1
                     up to the small count of records
        fractional   bounds over tables of fractions

        Raises InputError for an invalid super-cell.
        """
        if isinstance(cells, str) and not is_written(cells):
            found = self._of_cells(cells, small_count)
            return self._of_sums(found.super_cells, fractional=True) if fractional else found
        wanted = tuple(SuperCell.of(one, self.schema) for one in each(cells))
        return self._of_sums(wanted, fractional=fractional)

    def _of_cells(self, which: str, small_count: int) -> SuperCellBounds:
        if which not in ("at-risk", "all"):
            raise InputError(f"cells = {which!r}; choose at-risk or all")
        cells, upper = every_cell(self.schema), self.equations.upper
        system = IntegerSystem(0 * upper, upper, self.equations.sums, self.equations.truth)
        found = system.bounds(cells, np.arange(len(cells)))
        if which == "at-risk":
            found = found.rows((found.outer[:, 1] >= 1) & (found.outer[:, 0] <= small_count))
        return self._named(SuperCell.of_cells(found.cells), found.outer, found.inner, found.method)

    def _of_sums(self, wanted: Sequence[SuperCell], *, fractional: bool) -> SuperCellBounds:
        groups = [one.places(self.schema) for one in wanted]
        if fractional:
            return self._named(wanted, *fractions.sums(self.equations, groups), FRACTIONAL)
        return self._named(wanted, *integer_program.sums(self.equations, groups, self._most), PROGRAM)

    def _named(self, wanted: Sequence[SuperCell], *found: Any) -> SuperCellBounds:
        return SuperCellBounds(tuple(wanted), None, *found).named_by(self.schema)

    @property
    def _most(self) -> int:
        return int(self.equations.upper.sum())

    def table(self) -> Table:
        """One of the agreeing tables, with the cells that may be at risk and the sub-tables that may not be published.

        Decisions about it hold whatever the missing counts are: the published counts are the same in all agreeing
        tables, and every cell is at risk that is so in one of them. Raises InputError if nothing determines the number
        of records.
        """
        cells, upper, truth = every_cell(self.schema), self.equations.upper, self.equations.truth
        system = IntegerSystem(0 * upper, upper, self.equations.sums, truth)
        ends = np.stack([0 * upper, upper], axis=1), np.stack([truth, truth], axis=1)
        known = CellBounds(cells, truth, *ends, PROGRAM)
        found = settled(known, np.arange(len(cells)), lambda cell, end, *_: system.farthest(cell, end), PROGRAM)
        low, high = found.bounds.outer.T
        unknown = self._unknown(np.flatnonzero(low < high), np.array([one - truth for one in found.tables], np.int64))
        if st.GRAND_TOTAL in unknown:
            raise InputError("nothing determines the number of records of the table; list the total of all cells")
        rows = high > 0
        missing = MissingCounts(np.maximum(low, 1)[rows], unknown) if (low < high).any() else None
        return Table(self.schema, cells[rows], truth[rows], missing)

    def _unknown(self, varying: Counts, differences: Counts) -> tuple[SubTable, ...]:
        """The minimal sub-tables of which some count is not proven to be the same in all agreeing tables.

        varying      positions of the cells whose count is not
        differences  (n, cells) of agreeing tables from the truth
        """
        # a random sum of differences changes every sub-table that one of them changes, but for rare accidents
        factors = np.random.default_rng(0).integers(1, 1 << 20, len(differences))
        mixed, cells = factors @ differences.reshape(-1, len(self.equations.truth)), every_cell(self.schema)
        proven, unknown = list[SubTable](), list[SubTable]()
        for subtable in sorted(st.submasks(st.varying(self.schema)), key=st.dimension, reverse=True):
            if any(st.is_within(subtable, one) for one in proven):
                continue
            members = st.members(subtable)
            place = np.unique(cells[:, members], axis=0, return_inverse=True)[1].reshape(-1)
            changes = np.zeros(len(cells), np.int64)
            np.add.at(changes, place, mixed)
            groups = [varying[place[varying] == one] for one in np.unique(place[varying])]
            is_same = not changes.any()
            if is_same:
                outer, _ = integer_program.sums(self.equations, groups, self._most)
                is_same = bool((outer[:, 0] == outer[:, 1]).all())
            (proven if is_same else unknown).append(subtable)
        return st.minimal(unknown)

    def tables(
        self, limit: int | None = None, max_steps: int | None = None, watch: Watch = lambda progress: True
    ) -> Enumeration:
        """Enumerate all agreeing tables; see `enumerate_tables` for parameters and errors."""
        return enumerate_found(FeasibleTables.of_sums(self.equations), limit, max_steps, watch)


def count_missing(source: Source, settings: TableConfig) -> CountedRecords:
    """The table of a file with missing counts, see `Incomplete.table`; errors as there and as `read_incomplete`."""
    if len(source.parts) != 1:
        raise InputError(f"{source.path} has {len(source.parts)} parts, and missing_counts reads one file; name that")
    table = read_incomplete(settings.path).table()
    if settings.expect is not None:
        require_records(table.total, settings.path, settings.expect)
    return CountedRecords(table, NO_ZEROS, {}, {})


def read_incomplete(path: str | Path, total: str = TOTAL) -> Incomplete:
    """Read a published table of which not all counts are published.

    Parameters
    ----------
    path : str or path
        The file.
    total : str, default "(total)"
        The category that stands for all others of a variable, in lines with totals.

    Returns
    -------
    Incomplete
        The table with what its totals imply of each cell.

    Raises
    ------
    InputError
        Where it is no such file, where nothing bounds some cell, and where no counts agree with it.
    ReleaseError
        Beyond 4,096 cells.

    Notes
    -----
    It costs one integer program to see that counts agree.

    Examples
    --------
    >>> from pathlib import Path
    >>> lines = "sex,age,count\\nf,old,\\nf,young,5\\nm,old,\\nm,young,6\\nf,(total),8\\nm,(total),9\\n"
    >>> _ = Path("part.csv").write_text(lines)
    >>> sdc.read_incomplete("part.csv").tables().feasible_tables
    1
    """
    (published,) = read_published(Path(path), total)
    if published.contradiction:
        raise InputError(f"{path} contradicts itself: {published.contradiction}; correct it")
    schema = published.table.schema
    if published.is_total:
        raise InputError(f"{path} has the number of records alone; give a table with a variable")
    if schema.cells > MAX_CELLS:
        raise ReleaseError(
            f"{path} has {schema.cells} cells, and a table with missing counts may have {MAX_CELLS}; take a "
            "sub-table of it"
        )
    try:
        system = System.of(schema, [related(published, EarlierConfig(folder=str(path)), schema)])
        if not system.is_bounded:
            raise InputError(
                f"{path}: nothing bounds some cells with missing counts; list totals that they are in, or check it "
                "beside other tables by sdc check"
            )
        if sum(system.upper.tolist()) > MAX_SUM:
            raise InputError(f"{path}: its counts could overflow a sum; divide them")
        solution = system.solution()
    except InconsistentError as error:
        raise InputError(
            f"{path} contradicts itself: no table has all of its counts and totals; correct the file"
        ) from error
    place = schema.keys.pack(system.cells)
    truth, possible = np.zeros(schema.cells, np.int64), np.zeros(schema.cells, np.bool_)
    truth[place], possible[place] = solution, True
    sums = system.equations.at(place)
    return Incomplete(schema, MarginalEquations(truth, sums, possible))
