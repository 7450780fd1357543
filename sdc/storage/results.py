"""Results of stages on disk; each document follows its class, see `sdc.model.documents`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np

from sdc.intruder.decision import RatedRelease
from sdc.intruder.guesses import Guesses
from sdc.intruder.measures import Groups
from sdc.intruder.refusals import Refusals
from sdc.intruder.summary import Summary
from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds
from sdc.model.decomposable_graph import NamedGraph
from sdc.model.documents import InDocuments, picked, plain, sparse, typed
from sdc.model.named import beside
from sdc.model.recode import Recode
from sdc.model.release import Release
from sdc.model.schema import NamedCell, Schema
from sdc.model.sharpness import EndMethods
from sdc.model.subtable import SubTable
from sdc.model.suppressed_table import NO_SUPPRESSED_TABLES, SuppressedTables
from sdc.model.table import Table
from sdc.protect.summary import Suppression
from sdc.risk.assessment import Assessment, assessment_facts
from sdc.risk.critical_width import CriticalWidths
from sdc.run_format import ASSESSMENT_FILE, CELLS, METHOD_OF, SEARCH_FILE, SHARPNESS
from sdc.search.best import Candidate, FoundRelease
from sdc.search.blockers import MOST_BLOCKERS, blockers
from sdc.search.curve import CurvePoint, LikelyPoint
from sdc.search.decomposable import TraceRow
from sdc.search.reasons import share_of_best
from sdc.search.recodings import Recoding
from sdc.search.required import RequiredRecord
from sdc.search.simulatable import SimulatedStep
from sdc.search.step import SearchStep
from sdc.storage.known import SuppressedTablesDocument, read_parts, written_parts
from sdc.storage.parquet import named_columns, read_columns, write_columns, write_row_groups
from sdc.storage.run_folder import read_json, write_json
from sdc.utility.halvings import halvings_facts
from sdc.utility.uniques import OF_CELLS, POISSON, Uniques, uniques_facts

WIDTHS, TRACE = "widths.parquet", "trace.parquet"
_OF_POINTS: dict[type, str] = {
    CurvePoint: "curve.json",
    LikelyPoint: "likely_curve.json",
    RatedRelease: "decision.json",
}
ROWS = 1 << 20  # of a part of a long list
OF_LIST = ("floor", "visited", "most", "ways")  # with the widths
REMEDIES, POSTERIOR, REFUSALS, UNIQUES = "remedies.json", "posterior.json", "refusals.json", "uniques.json"
REDESIGNS = "redesigns.json"
ATTACK, _OF_GUESSES = "attack.json", ("methods", "names", "cells", "claimed")
_OF_CELL_LAWS = ("at_truth", "disclosing", "most_likely", "highest")

T = TypeVar("T")


def _part(path: Path, part: str, kind: type[T], schema: Schema | None = None) -> T:
    """Read a JSON file; RunFolderError if it cannot be read or is another file."""
    content = read_json(path)
    return typed(kind, content.get(part) if isinstance(content, dict) else None, path, schema)


def _reason(path: Path) -> str | None:
    """Return why nothing was found, if the file has a reason."""
    content = read_json(path)
    return _part(path, "reason", str) if isinstance(content, dict) and "reason" in content else None


# Results of stages


def write_widths(widths: CriticalWidths, schema: Schema, folder: Path) -> None:
    """Write sub-tables as names and uint64 bit sets, with critical widths in records, in order."""

    def part(start: int) -> dict[str, Any]:
        bits = widths.sub_tables[start : start + ROWS]
        named = [st.label(t, schema) for t in bits.tolist()]
        return {"sub_table": named, "bits": bits, "critical_width": widths.widths[start : start + ROWS]}

    # in parts: all names of 2^23 sub-tables take more than 1 GB
    parts = map(part, range(0, max(1, len(widths)), ROWS))
    write_row_groups(folder / WIDTHS, parts, {name: str(own) for name, own in picked(widths, *OF_LIST).items()})


def read_widths(folder: Path) -> CriticalWidths:
    """Read the widths; InputError if they cannot be read, KeyError for another file."""
    columns, metadata = read_columns(folder / WIDTHS, ["bits", "critical_width"])
    bits, widths = columns["bits"].astype(np.uint64), columns["critical_width"].astype(np.int64)
    return CriticalWidths(bits, widths, *(int(metadata[name]) for name in OF_LIST))


@dataclass(frozen=True)
class _Blocker:
    cell: NamedCell
    stopped: tuple[SubTable, ...]


def _elsewhere(default: Any) -> InDocuments:
    return InDocuments(None, lambda *_: None, lambda *_: default)


# version 0.1 wrote null for a part that had not ended
_ENDED = InDocuments(
    dict[str, int | None],
    lambda content, _: dict(content),
    lambda content, _: {of: n for of, n in content.items() if n is not None},
)


@dataclass(frozen=True)
class SearchRecord:
    """The stored part of a search, see `FoundRelease`; defaults are not written."""

    method: str
    frontier: tuple[SubTable, ...]
    steps: tuple[SearchStep, ...]
    blockers: tuple[_Blocker, ...]
    reason: str | None = None
    simulated: tuple[SimulatedStep, ...] = ()
    required: RequiredRecord | None = None
    graph: NamedGraph | None = None
    ended_after: Annotated[Mapping[str, int], _ENDED] = field(default_factory=dict)
    in_part: SuppressedTablesDocument | None = None
    halvings: float | None = None
    candidates: tuple[Candidate, ...] = ()
    suppressed: tuple[Suppression, ...] = ()
    resumed: tuple[str, ...] = ()
    bound: float | None = None
    utility: float | None = None
    trace: Annotated[tuple[TraceRow, ...], _elsewhere(())] = ()
    suppressed_tables: Annotated[SuppressedTables, _elsewhere(NO_SUPPRESSED_TABLES)] = NO_SUPPRESSED_TABLES

    @cached_property
    def release(self) -> Release:
        return Release.of(self.frontier)

    @property
    def share_of_best(self) -> str:
        """How far the release is from the best, in a sentence; empty where no bound is known."""
        return (
            "" if self.bound is None or self.utility is None else share_of_best(self.method, self.utility, self.bound)
        )

    @property
    def suppressed_required(self) -> tuple[SubTable, ...]:
        """Required sub-tables that are suppressed, rounded or recoded."""
        return () if self.required is None else tuple(self.required.in_part)


def write_search(found: FoundRelease, schema: Schema, folder: Path, suppressed: tuple[Suppression, ...] = ()) -> None:
    """Write the frontier, every step, what stopped it, and the chains' best graph and trace."""
    record = SearchRecord(
        found.method,
        found.release.frontier,
        found.steps,
        tuple(_Blocker(*each) for each in blockers(found.steps)[:MOST_BLOCKERS]),
        required=None if found.required is None else RequiredRecord.of(found.required, schema),
        in_part=written_parts(found.suppressed_tables, schema, folder) if found.suppressed_tables.tables else None,
        halvings=halvings_facts(found.halvings).get("halvings"),
        suppressed=suppressed,
        resumed=tuple(part for part, holds in found.resumed.items() if holds),
        utility=None if found.bound is None else found.value,
        **picked(found, "reason", "simulated", "graph", "ended_after", "candidates", "bound"),
    )
    if found.graph is not None:
        names = [one.name for one in fields(TraceRow)]
        write_columns(folder / TRACE, {name: np.array([getattr(r, name) for r in found.trace]) for name in names})
    write_json(folder / SEARCH_FILE, sparse(SearchRecord, record, schema))


def read_search(folder: Path, schema: Schema) -> SearchRecord:
    """Read a search.

    RunFolderError or InputError if a file cannot be read, is another one, or has unknown names.
    """
    path = folder / SEARCH_FILE
    found = typed(SearchRecord, read_json(path), path, schema)
    if found.graph is not None:
        columns, _ = read_columns(folder / TRACE)
        trace = zip(*(columns[one.name].tolist() for one in fields(TraceRow)), strict=True)
        found = replace(found, trace=tuple(TraceRow(*row) for row in trace))
    return found if found.in_part is None else replace(found, suppressed_tables=read_parts(found.in_part, schema, path))


def write_points(points: Sequence[T], kind: type[T], folder: Path) -> None:
    """Write the points of a curve in order, to the file of their kind."""
    write_json(folder / _OF_POINTS[kind], {"points": plain(tuple[kind, ...], tuple(points))})  # type: ignore[valid-type]


def read_points(kind: type[T], folder: Path) -> tuple[T, ...]:
    """Read the points of a kind; errors as `_part`."""
    return _part(folder / _OF_POINTS[kind], "points", tuple[kind, ...])  # type: ignore[valid-type]


@dataclass(frozen=True)
class _RecodeDocument:
    variable: str
    merged: list[str]
    asked: tuple[SubTable, ...]
    freed: tuple[SubTable, ...]
    lost: int

    def recoding(self, schema: Schema) -> Recoding:
        variable = schema.index(self.variable)
        merged = tuple(map(schema.variables[variable].categories.index, self.merged))
        return Recoding.by_recode(Recode(schema, variable, merged), self.asked, self.freed, self.lost)


@dataclass(frozen=True)
class _CoarserDocument:
    sub_table: SubTable
    instead: list[dict[str, Any]]


def write_recodings(found: Sequence[Recoding], refused: Sequence[SubTable], schema: Schema, folder: Path) -> None:
    """Write the tried recodes by names, and by refused sub-table what may be released instead of it; best first."""
    tried = [
        _RecodeDocument(schema.names[recode.variable], recode.names, one.asked, one.freed, one.lost)
        for one in found
        if (recode := one.recode)
    ]
    instead = [_CoarserDocument(t, [one.facts for one in found if not one.recode and t in one.asked]) for t in refused]
    write_json(folder / REMEDIES, {"remedies": plain(list[_RecodeDocument], tried, schema)})
    write_json(folder / REDESIGNS, {"redesigns": plain(list[_CoarserDocument], instead, schema)})


def read_recodings(folder: Path, schema: Schema) -> tuple[Recoding, ...]:
    """Read the recodings of a table with this schema.

    RunFolderError or InputError if a file cannot be read or has unknown variables, ValueError for unknown categories.
    """
    tried = _part(folder / REMEDIES, "remedies", list[_RecodeDocument], schema)
    refused = _part(folder / REDESIGNS, "redesigns", list[_CoarserDocument], schema)
    coarser = ((one.sub_table, row) for one in refused for row in one.instead)
    return (
        *(one.recoding(schema) for one in tried),
        *(Recoding(tuple(row["sub_table"]), row["cells"], row["lost"], row["config"], (t,)) for t, row in coarser),
    )


def write_posteriors(found: Sequence[Summary], groups: Groups, schema: Schema, folder: Path) -> None:
    """Write posteriors by law, and the probabilities of at-risk cells in the order of the table."""
    named = {bits: st.label(bits, schema) for bits in np.unique(groups.sub_tables).tolist()}
    columns: dict[str, Any] = {
        "group": [named[bits] for bits in groups.sub_tables.tolist()],
        "group_bits": groups.sub_tables,
        "group_records": groups.records,
    }
    for place, summary in enumerate(found):
        if summary.reason is None:
            columns |= {f"{place}:{name}": own for name, own in picked(summary, *_OF_CELL_LAWS).items()}
    laws = plain(tuple[Summary, ...], tuple(found), leave_out={"__all__": {*_OF_CELL_LAWS}})
    write_json(folder / POSTERIOR, {"share": groups.share, "laws": laws})
    write_columns(folder / CELLS, columns)


def read_posteriors(folder: Path) -> tuple[Summary, ...]:
    """Read posteriors; RunFolderError or InputError if they cannot be read, KeyError for other cells."""
    columns, _ = read_columns(folder / CELLS)
    laws = list(_part(folder / POSTERIOR, "laws", tuple[Summary, ...]))
    for place, law in enumerate(laws):
        if law.reason is None:
            of_cells: dict[str, Any] = {name: columns[f"{place}:{name}"] for name in _OF_CELL_LAWS}
            laws[place] = replace(law, **of_cells)
    return tuple(laws)


def read_groups(folder: Path) -> Groups:
    """Read the groups of `write_posteriors`; errors as above."""
    columns, _ = read_columns(folder / CELLS, ("group_bits", "group_records"))
    sub_tables, records = columns["group_bits"].astype(np.uint64), columns["group_records"].astype(np.int64)
    return Groups(_part(folder / POSTERIOR, "share", float), sub_tables, records)


def write_refusals(found: Refusals, folder: Path) -> None:
    """Write the result of repeated searches; ranges of at-risk cells are in the order of the table."""
    write_json(folder / REFUSALS, plain(Refusals, found))


def read_refusals(folder: Path) -> Refusals:
    return typed(Refusals, read_json(folder / REFUSALS), folder / REFUSALS)


def write_uniques(found: Uniques | str, schema: Schema, folder: Path) -> None:
    """Write estimates of sample uniques in the order of the table, or why there are none."""
    write_json(folder / UNIQUES, {"reason": found} if isinstance(found, str) else uniques_facts(found))
    if isinstance(found, Uniques):
        write_columns(folder / CELLS, found.columns(schema))


def read_uniques(folder: Path, table: Table) -> Uniques | str:
    """Read estimates of this table; RunFolderError or InputError if they cannot be read."""
    path = folder / UNIQUES
    if (reason := _reason(path)) is not None:
        return reason
    columns, _ = read_columns(folder / CELLS, OF_CELLS)
    alone, matched, expected = (columns[name].astype(np.float64) for name in OF_CELLS)
    twos, fraction, by = _part(path, "sample_twos", int), _part(path, "fraction", float), _part(path, "estimator", str)
    model = _part(path, "model", str) if by == POISSON else None
    return Uniques(table.codes[table.counts == 1], alone, matched, expected, twos, fraction, by, model)


def write_guesses(found: Guesses | str, folder: Path) -> None:
    """Write guesses of at-risk cells in the order of the table, or why there are none."""
    write_json(folder / ATTACK, {"reason": found} if isinstance(found, str) else picked(found, *_OF_GUESSES))
    if isinstance(found, Guesses):
        write_columns(folder / CELLS, dict(zip(found.names, found.expected, strict=True)))


def read_guesses(folder: Path) -> Guesses | str:
    """Read guesses; RunFolderError or InputError if they cannot be read."""
    path = folder / ATTACK
    if (reason := _reason(path)) is not None:
        return reason
    methods, names = (_part(path, name, tuple[str, ...]) for name in _OF_GUESSES[:2])
    cells, claimed = (_part(path, name, tuple[int, ...]) for name in _OF_GUESSES[2:])
    columns, _ = read_columns(folder / CELLS, names)
    return Guesses(methods, names, cells, claimed, np.stack([columns[name].astype(np.float64) for name in names]))


def write_assessment(
    assessment: Assessment, bounds: CellBounds, schema: Schema, folder: Path, by: EndMethods | None = None
) -> None:
    """Write the assessment and the bounds of at-risk cells in records, in the order of the table.

    by  the method of each end of sharp bounds
    """
    named = named_columns([schema.variables[axis] for axis in schema.axes], bounds.cells)
    ends: dict[str, Any] = bounds.numbers
    if by is not None:
        ends |= {of: getattr(by, end[:5])[:, int(end.endswith("upper"))].tolist() for end, of in METHOD_OF.items()}
    write_columns(folder / CELLS, beside(named, ends), {"method": bounds.method})
    write_json(folder / ASSESSMENT_FILE, assessment_facts(assessment, schema))


def _both(columns: Mapping[str, Any], end: str) -> Any:
    return np.stack([columns[end.format("lower")], columns[end.format("upper")]], axis=1)


def read_end_methods(folder: Path) -> EndMethods | None:
    """Read the methods of sharp bounds, or None; InputError as above."""
    if SHARPNESS not in read_json(folder / ASSESSMENT_FILE):
        return None
    columns, _ = read_columns(folder / CELLS, tuple(METHOD_OF.values()))
    return EndMethods(_both(columns, "outer_{}_by"), _both(columns, "inner_{}_by"))


def read_assessment(folder: Path, table: Table, small_count: int) -> tuple[Assessment, CellBounds]:
    """Read the assessment of this table and small count, without the methods.

    InputError or RunFolderError if a file cannot be read, KeyError for another file, ValueError for other cells: bounds
    that exclude their counts, or a wrong number of cells.
    """
    columns, metadata = read_columns(folder / CELLS, tuple(METHOD_OF))
    # cells and counts come from the table, only ends from the file; `CellBounds` refuses ends that exclude the
    # counts
    rows, ends = table.at_risk(small_count), (_both(columns, "outer_{}"), _both(columns, "inner_{}"))
    bounds = CellBounds(table.codes[rows], table.counts[rows], *ends, metadata["method"])
    facts = read_json(folder / ASSESSMENT_FILE)
    facts["verdict"] = facts.pop("releasable")
    return typed(Assessment, facts, folder / ASSESSMENT_FILE, table.schema), bounds
