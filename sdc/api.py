"""The verbs for notebooks and for the command line: names in, values out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from sdc.executor import IN_PROCESS, Executor
from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds
from sdc.model.errors import ConfigError, InputError, ReleaseError
from sdc.model.release import Release
from sdc.model.table import Codes, Table
from sdc.risk import criterion
from sdc.risk.criterion import Assessment, Budget, Criterion
from sdc.risk.critical_width import CriticalWidths, critical_widths, require_at_risk
from sdc.search.ordered import OrderedRelease, OrderedSearch, SearchStep
from sdc.storage.reading import read_table

if TYPE_CHECKING:
    from sdc.bounds.enumeration import Enumeration

__all__ = [
    "assess",
    "cell_bounds",
    "critical_widths",
    "decomposable_release",
    "enumerate_tables",
    "ordered_release",
    "read_table",
    "release_of",
]

ReleaseLike: TypeAlias = Release | Sequence[str]
MAX_CELLS_BOUNDED = 1_000_000


def release_of(table: Table, sub_tables: ReleaseLike) -> Release:
    """The downward closure of sub-tables written `age*sex`; ReleaseError for an unknown variable or no sub-table."""
    if isinstance(sub_tables, Release):
        return sub_tables
    if isinstance(sub_tables, str) or not sub_tables:
        raise ReleaseError(f"release {sub_tables!r} is not a list of sub-tables; give one such as ['age*sex', 'race']")
    return Release.of(st.parse(text, table.schema) for text in sub_tables)


def cell_bounds(
    table: Table,
    release: ReleaseLike,
    *,
    cells: str = "at-risk",
    small_count: int = 2,
    method: str = "auto",
    executor: Executor = IN_PROCESS,
) -> CellBounds:
    """Bounds given a release, of the at-risk cells, or with cells="all" of all cells, zeros included.

    InputError without an at-risk cell, or for more than a million cells; ReleaseError where the
    release or the method does not fit.
    """
    chosen = _cells(table, cells, small_count)
    return criterion.bounds_in_units(table, release_of(table, release), chosen, method, executor)


def _cells(table: Table, cells: str, small_count: int) -> Codes:
    if cells == "at-risk":
        require_at_risk(table, small_count)
        return np.asarray(table.codes[table.at_risk(small_count)])
    if cells != "all":
        raise InputError(f"cells = {cells!r}; choose at-risk or all")
    if table.schema.cells > MAX_CELLS_BOUNDED:
        raise InputError(
            f"the full table has {table.schema.cells} cells, at most {MAX_CELLS_BOUNDED} are bounded at once; choose "
            "fewer variables, or the at-risk cells"
        )
    grid: npt.NDArray[np.int64] = np.indices(table.schema.sizes).reshape(len(table.schema), -1).T
    return grid.astype(np.uint16)


def assess(
    table: Table,
    release: ReleaseLike,
    *,
    min_width: int,
    small_count: int = 2,
    refute_cells: int = 16,
    budget: Budget | None = None,
    executor: Executor = IN_PROCESS,
) -> Assessment:
    """Is the release safe: does every at-risk cell keep a width of at least `min_width`?"""
    judged_by = Criterion(table, small_count, min_width, refute_cells, executor, budget or Budget())
    return judged_by.assess(release_of(table, release))


def ordered_release(
    table: Table,
    *,
    min_width: int,
    small_count: int = 2,
    extend: bool = True,
    accept_undecided: bool = False,
    refute_cells: int = 16,
    budget: Budget | None = None,
    executor: Executor = IN_PROCESS,
    on_step: Callable[[SearchStep], None] = lambda step: None,
) -> OrderedRelease:
    """The longest releasable prefix of the list ordered by critical width, extended until it is maximal.

    Critical widths below `min_width` are not listed where there are more than 20 variables.
    """
    floor = min_width if len(table.schema) > 20 else 0
    widths: CriticalWidths = critical_widths(table, small_count=small_count, floor=floor, executor=executor)
    judged_by = Criterion(table, small_count, min_width, refute_cells, executor, budget or Budget())
    return OrderedSearch(judged_by, widths, extend, accept_undecided, on_step).run()


def decomposable_release(table: Table, *, min_width: int, small_count: int = 2, seed: int = 0) -> OrderedRelease:
    """ConfigError: not built yet."""
    raise ConfigError("release method 'decomposable' is not built yet; use 'ordered'")


def enumerate_tables(table: Table, release: ReleaseLike, *, limit: int | None = None) -> Enumeration:
    """All feasible integer tables counted, or the first `limit` of them, with the range of every cell."""
    from sdc.bounds.enumeration import enumerate_tables as enumerate_feasible

    return enumerate_feasible(table, release_of(table, release), limit=limit)
