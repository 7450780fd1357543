"""The verbs for notebooks and for the command line: names in, values out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sdc.executor import IN_PROCESS, Executor
from sdc.ingest.reading import read_table
from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds
from sdc.model.decomposable_graph import DecomposableGraph
from sdc.model.errors import InputError, ReleaseError
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.table import Codes, Table
from sdc.risk import criterion
from sdc.risk.criterion import Assessment, Budget, Criterion
from sdc.risk.critical_width import CriticalWidths, critical_widths, require_at_risk
from sdc.search.annealing import Schedule
from sdc.search.best import FoundRelease, ReleaseSearch, require_method
from sdc.search.curve import CurvePoint, CurveSearch
from sdc.search.decomposable import DecomposableRelease, DecomposableSearch, SearchState
from sdc.search.ordered import OrderedRelease, OrderedSearch, SearchStep
from sdc.utility.measures import Weights

if TYPE_CHECKING:
    from sdc.bounds.enumeration import Enumeration

__all__ = [
    "assess",
    "best_release",
    "cell_bounds",
    "critical_widths",
    "decomposable_release",
    "enumerate_tables",
    "find_release",
    "ordered_release",
    "read_table",
    "release_of",
    "risk_utility_curve",
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
    judged_by = Criterion(table, small_count, min_width, refute_cells, executor, budget or Budget())
    widths = _widths(table, judged_by, "ordered", min_width)
    return OrderedSearch(judged_by, widths, extend, accept_undecided, on_step).run()


def decomposable_release(
    table: Table,
    *,
    min_width: int,
    small_count: int = 2,
    seed: int = 0,
    chains: int = 4,
    steps: int = 200_000,
    start: str | None = None,
    weights: Mapping[str, float] | None = None,
    executor: Executor = IN_PROCESS,
    on_round: Callable[[SearchState], None] = lambda state: None,
) -> DecomposableRelease:
    """The best decomposable release that annealing chains find, with its graph and the trace of the chains.

    steps    proposals of each chain, of which there are `chains`; their seeds come from `seed`
    start    the graph to start from, such as "[age,sex] [sex,race]"; no edges by default
    weights  what counts more than 1: a variable "age", whose sub-tables all count more, or a sub-table "age*sex"

    InputError for settings that make no search, ReleaseError where not even the one-way sub-tables reach the width, or
    where the start does not.
    """
    judged_by = Criterion(table, small_count, min_width, executor=executor)
    return _annealing(table, judged_by, seed, chains, steps, start, weights, on_round).run()


def best_release(table: Table, *, min_width: int, **settings: Any) -> FoundRelease:
    """The better of the ordered and the decomposable release, both extended until maximal, and the reason.

    Settings as for `find_release`.
    """
    return find_release(table, "best", min_width=min_width, **settings)


def find_release(
    table: Table,
    method: str,
    *,
    min_width: int,
    small_count: int = 2,
    seed: int = 0,
    chains: int = 4,
    steps: int = 200_000,
    start: str | None = None,
    weights: Mapping[str, float] | None = None,
    refute_cells: int = 16,
    budget: Budget | None = None,
    executor: Executor = IN_PROCESS,
    on_step: Callable[[SearchStep], None] = lambda step: None,
    on_round: Callable[[SearchState], None] = lambda state: None,
) -> FoundRelease:
    """The release that a method finds: ordered, decomposable, or best; settings as for the method's own verb."""
    require_method(method)
    judged_by = Criterion(table, small_count, min_width, refute_cells, executor, budget or Budget())
    annealing = _annealing(table, judged_by, seed, chains, steps, start, weights, on_round)
    ordered = OrderedSearch(judged_by, _widths(table, judged_by, method, min_width), on_step=on_step)
    return ReleaseSearch(ordered, annealing).run(method)


def risk_utility_curve(
    table: Table,
    *,
    min_widths: Sequence[int],
    small_counts: Sequence[int] = (2,),
    methods: Sequence[str] = ("ordered", "decomposable"),
    seed: int = 0,
    chains: int = 4,
    steps: int = 200_000,
    weights: Mapping[str, float] | None = None,
    refute_cells: int = 16,
    budget: Budget | None = None,
    executor: Executor = IN_PROCESS,
    on_point: Callable[[CurvePoint], None] = lambda point: None,
) -> tuple[CurvePoint, ...]:
    """The utility of what each method can release at each small count and minimum width; settings as above.

    ConfigError for an unknown method, InputError for a width or small count below 1 and where none is given.
    """
    for name, values in (("min_widths", min_widths), ("small_counts", small_counts)):
        if not values or min(values) < 1:
            raise InputError(f"{name} = {list(values)}; give at least one, each at least 1")
    judged_by = Criterion(table, small_counts[0], min(min_widths), refute_cells, executor, budget or Budget())
    annealing = _annealing(table, judged_by, seed, chains, steps, None, weights, lambda state: None)
    ordered = OrderedSearch(judged_by, _widths(table, judged_by, "ordered", min(min_widths)))
    search = ReleaseSearch(ordered, annealing)
    return CurveSearch(search, tuple(min_widths), tuple(small_counts), tuple(methods), on_point).run()


def _annealing(
    table: Table,
    judged_by: Criterion,
    seed: int,
    chains: int,
    steps: int,
    start: str | None,
    weights: Mapping[str, float] | None,
    on_round: Callable[[SearchState], None],
) -> DecomposableSearch:
    return DecomposableSearch(
        judged_by,
        Schedule(steps),
        chains=chains,
        seed=seed,
        weights=weights_of(table, weights or {}),
        start=None if start is None else DecomposableGraph.parse(start, table.schema),
        checkpoint=on_round,
    )


def weights_of(table: Table, by_name: Mapping[str, float]) -> Weights:
    """Weights of variables and of sub-tables `a*b`; InputError for what the table does not have, or not above 0."""
    variables = {name: weight for name, weight in by_name.items() if "*" not in name}
    sub_tables = {name: weight for name, weight in by_name.items() if "*" in name}
    return Weights.of(table.schema, variables, sub_tables)


def _widths(table: Table, judged_by: Criterion, method: str, least: int) -> CriticalWidths:
    """Critical widths, from the least one asked for where there are many variables; annealing does without."""
    if method == "decomposable":
        nothing = np.zeros(0, np.int64)
        return CriticalWidths(nothing.astype(np.uint64), nothing, 0, 0)
    floor = least if len(table.schema) > 20 else 0
    return critical_widths(table, small_count=judged_by.small_count, floor=floor, executor=judged_by.executor)


def enumerate_tables(table: Table, release: ReleaseLike, *, limit: int | None = None) -> Enumeration:
    """All feasible integer tables counted, or the first `limit` of them, with the range of every cell."""
    from sdc.bounds.enumeration import enumerate_tables as enumerate_feasible

    return enumerate_feasible(table, Knowledge.of(table, release_of(table, release)), limit=limit)
