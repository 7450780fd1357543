"""What the stages find, on disk and back: widths, the search and its utility, the curve, remedies, the
assessment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import numpy as np

from sdc.intruder.guesses import Guesses
from sdc.intruder.measures import Groups
from sdc.intruder.refusals import Refusals
from sdc.intruder.summary import Summary
from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds
from sdc.model.decomposable_graph import DecomposableGraph
from sdc.model.documents import plain, typed
from sdc.model.parts import NO_PARTS, Parts
from sdc.model.recode import Recode
from sdc.model.release import Release
from sdc.model.schema import NamedCell, Schema
from sdc.model.sharpness import EndMethods
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.risk.assessment import Assessment
from sdc.risk.critical_width import CriticalWidths
from sdc.run_format import (
    ASSESSMENT_FILE,
    CELLS,
    COUNT,
    EXACT,
    INNER_LOWER,
    INNER_UPPER,
    METHOD_OF,
    OUTER_LOWER,
    OUTER_UPPER,
    SEARCH_FILE,
    SHARPNESS,
    variable_columns,
)
from sdc.search.best import Candidate, FoundRelease
from sdc.search.blockers import MOST_BLOCKERS, blockers
from sdc.search.curve import CurvePoint, LikelyPoint
from sdc.search.decomposable import TraceRow
from sdc.search.remedies import Remedy
from sdc.search.required import RequiredRecord
from sdc.search.simulatable import SimulatedStep
from sdc.search.step import SearchStep
from sdc.search.suppressed import Suppression
from sdc.storage.documents import assessment_facts, graph_facts, halvings_facts, uniques_facts
from sdc.storage.known import PartsDocument, read_parts, written_parts
from sdc.storage.parquet import named_columns, read_columns, write_columns, write_row_groups
from sdc.storage.run_folder import read_json, write_json
from sdc.utility.uniques import OF_CELLS, POISSON, Uniques

LIKELY_CURVE = "likely_curve.json"
WIDTHS, TRACE, CURVE = "widths.parquet", "trace.parquet", "curve.json"
ROWS = 1 << 20  # of a part of a long list
OF_LIST = ("floor", "visited", "most", "ways")  # beside the widths
REMEDIES, POSTERIOR, REFUSALS, UNIQUES = "remedies.json", "posterior.json", "refusals.json", "uniques.json"
ATTACK, _OF_GUESSES = "attack.json", ("methods", "names", "cells", "claimed")
_OF_CELL_LAWS = ("at_truth", "disclosing", "most_likely", "highest")

T = TypeVar("T")


@dataclass(frozen=True)
class _Blocker:
    cell: NamedCell
    stopped: tuple[SubTable, ...]


@dataclass(frozen=True)
class _SearchDocument:
    """What is None is no part of the file; cliques are by the names of all their variables, levels too."""

    method: str
    frontier: tuple[SubTable, ...]
    steps: tuple[SearchStep, ...]
    blockers: tuple[_Blocker, ...]
    reason: str | None = None
    simulated: tuple[SimulatedStep, ...] | None = None
    required: RequiredRecord | None = None
    graph: list[list[str]] | None = None
    ended_after: Mapping[str, int | None] | None = None
    in_part: PartsDocument | None = None
    halvings: float | None = None
    candidates: tuple[Candidate, ...] | None = None
    suppressed: tuple[Suppression, ...] | None = None
    resumed: tuple[str, ...] | None = None


@dataclass(frozen=True)
class _RecodeDocument:
    variable: str
    merged: list[str]
    asked: tuple[SubTable, ...]
    freed: tuple[SubTable, ...]
    lost: int


def _part(path: Path, part: str, kind: type[T], schema: Schema | None = None) -> T:
    """Of a JSON file; RunFolderError where it cannot be read or is another file."""
    content = read_json(path)
    return typed(kind, content.get(part) if isinstance(content, dict) else None, path, schema)


class SearchRecord(NamedTuple):
    """What is kept of a search, see `FoundRelease`."""

    release: Release
    steps: tuple[SearchStep, ...]
    graph: DecomposableGraph | None = None
    trace: tuple[TraceRow, ...] = ()
    reason: str | None = None
    simulated: tuple[SimulatedStep, ...] = ()
    required: RequiredRecord | None = None
    ended_after: Mapping[str, int] = MappingProxyType({})
    parts: Parts = NO_PARTS
    halvings: float | None = None
    candidates: tuple[Candidate, ...] = ()
    suppressed: tuple[Suppression, ...] = ()
    resumed: tuple[str, ...] = ()

    @property
    def asked_in_part(self) -> tuple[SubTable, ...]:
        """The required sub-tables that do not go out whole."""
        return () if self.required is None else tuple(self.required.in_part)


def write_widths(widths: CriticalWidths, schema: Schema, folder: Path) -> None:
    """Sub-tables as names and as uint64 bit sets, with their critical widths in records, in the list's order."""

    def part(start: int) -> dict[str, Any]:
        bits = widths.sub_tables[start : start + ROWS]
        named = [st.label(t, schema) for t in bits.tolist()]
        return {"sub_table": named, "bits": bits, "critical_width": widths.widths[start : start + ROWS]}

    # in parts: the names of 2^23 sub-tables at once take more than 1 GB
    parts = map(part, range(0, max(1, len(widths)), ROWS))
    told = {name: str(getattr(widths, name)) for name in OF_LIST}
    write_row_groups(folder / WIDTHS, parts, told)


def read_widths(folder: Path) -> CriticalWidths:
    """What `write_widths` wrote; InputError where it cannot be read, KeyError where it is another file."""
    columns, metadata = read_columns(folder / WIDTHS, ["bits", "critical_width"])
    bits, widths = columns["bits"].astype(np.uint64), columns["critical_width"].astype(np.int64)
    return CriticalWidths(bits, widths, *(int(metadata[name]) for name in OF_LIST))


def write_search(found: FoundRelease, schema: Schema, folder: Path, suppressed: tuple[Suppression, ...] = ()) -> None:
    """The released frontier, every step that led to it, what stopped it, and of chains best graph and trace."""
    stopped = tuple(_Blocker(*each) for each in blockers(found.steps)[:MOST_BLOCKERS])
    required = None if found.required is None else RequiredRecord.of(found.required, schema)
    graph = None if found.graph is None else graph_facts(found.graph, schema)
    parts = written_parts(found.parts, schema, folder) if found.parts.tables else None
    halvings = halvings_facts(found.halvings).get("halvings")
    told = found.reason, found.simulated or None, required, graph, dict(found.ended_after) or None, parts, halvings
    resumed = tuple(part for part, holds in found.resumed.items() if holds)
    lists = found.candidates or None, suppressed or None, resumed or None
    document = _SearchDocument(found.method, found.release.frontier, found.steps, stopped, *told, *lists)
    content = plain(_SearchDocument, document, schema)
    if found.graph is not None:
        names = [field.name for field in fields(TraceRow)]
        write_columns(folder / TRACE, {name: np.array([getattr(r, name) for r in found.trace]) for name in names})
    write_json(folder / SEARCH_FILE, {name: value for name, value in content.items() if value is not None})


def read_search(folder: Path, schema: Schema) -> SearchRecord:
    """What `write_search` wrote.

    RunFolderError or InputError where a file cannot be read, is another one, or names what the schema does not have.
    """
    found = typed(_SearchDocument, read_json(folder / SEARCH_FILE), folder / SEARCH_FILE, schema)
    graph, trace = None, tuple[TraceRow, ...]()
    if found.graph is not None:
        # from cliques, not from neighbours: a graph that is not chordal is refused. Levels are vertices of their own
        graph = DecomposableGraph.from_cliques((st.named(names, schema.flat) for names in found.graph), schema)
        columns, _ = read_columns(folder / TRACE)
        rows = zip(*(columns[field.name].tolist() for field in fields(TraceRow)), strict=True)
        trace = tuple(TraceRow(*row) for row in rows)
    parts = NO_PARTS if found.in_part is None else read_parts(found.in_part, schema, folder / SEARCH_FILE)
    ended = {part: number for part, number in (found.ended_after or {}).items() if number is not None}
    told = found.reason, found.simulated or (), found.required, ended, parts, found.halvings
    more = found.candidates or (), found.suppressed or (), found.resumed or ()
    return SearchRecord(Release.of(found.frontier), found.steps, graph, trace, *told, *more)


def write_curve(points: Sequence[CurvePoint], folder: Path) -> None:
    """The points of the risk-utility curve, in their order."""
    write_json(folder / CURVE, {"points": plain(tuple[CurvePoint, ...], tuple(points))})


def read_curve(folder: Path) -> tuple[CurvePoint, ...]:
    """What `write_curve` wrote; errors as for `_part`."""
    return _part(folder / CURVE, "points", tuple[CurvePoint, ...])


def write_likely_curve(points: Sequence[LikelyPoint], folder: Path) -> None:
    """The releases under limits on the posterior, in their order."""
    write_json(folder / LIKELY_CURVE, {"points": plain(tuple[LikelyPoint, ...], tuple(points))})


def read_likely_curve(folder: Path) -> tuple[LikelyPoint, ...]:
    """What `write_likely_curve` wrote; errors as for `_part`."""
    return _part(folder / LIKELY_CURVE, "points", tuple[LikelyPoint, ...])


def write_remedies(remedies: Sequence[Remedy], schema: Schema, folder: Path) -> None:
    """Recodes that were tried, by the names of variables and categories, best first."""
    rows = (
        _RecodeDocument(schema.names[r.recode.variable], r.recode.names, r.asked, r.freed, r.lost) for r in remedies
    )
    write_json(folder / REMEDIES, {"remedies": plain(tuple[_RecodeDocument, ...], tuple(rows), schema)})


def read_remedies(folder: Path, schema: Schema) -> tuple[Remedy, ...]:
    """What `write_remedies` wrote of a table with this schema.

    RunFolderError or InputError where it cannot be read or names a variable that the schema does not have, ValueError
    for a category.
    """
    return tuple(
        _remedy(row, schema) for row in _part(folder / REMEDIES, "remedies", tuple[_RecodeDocument, ...], schema)
    )


def _remedy(row: _RecodeDocument, schema: Schema) -> Remedy:
    variable = schema.index(row.variable)
    merged = tuple(map(schema.variables[variable].categories.index, row.merged))
    return Remedy(Recode(schema, variable, merged), row.asked, row.freed, row.lost)


def write_posteriors(found: Sequence[Summary], groups: Groups, schema: Schema, folder: Path) -> None:
    """What is likely under each law, and of the at-risk cells in the order of the table's rows how probable."""
    named = {bits: st.label(bits, schema) for bits in np.unique(groups.sub_tables).tolist()}
    columns: dict[str, Any] = {
        "group": [named[bits] for bits in groups.sub_tables.tolist()],
        "group_bits": groups.sub_tables,
        "group_records": groups.records,
    }
    for place, summary in enumerate(found):
        if summary.reason is None:
            columns.update({f"{place}:{name}": getattr(summary, name) for name in _OF_CELL_LAWS})
    laws = plain(tuple[Summary, ...], tuple(found), leave_out={"__all__": {*_OF_CELL_LAWS}})
    write_json(folder / POSTERIOR, {"share": groups.share, "laws": laws})
    write_columns(folder / CELLS, columns)


def read_posteriors(folder: Path) -> tuple[Summary, ...]:
    """What `write_posteriors` wrote; RunFolderError or InputError where it cannot be read, KeyError of other cells."""
    columns, _ = read_columns(folder / CELLS)
    laws = list(_part(folder / POSTERIOR, "laws", tuple[Summary, ...]))
    for place, law in enumerate(laws):
        if law.reason is None:
            of_cells: dict[str, Any] = {name: columns[f"{place}:{name}"] for name in _OF_CELL_LAWS}
            laws[place] = replace(law, **of_cells)
    return tuple(laws)


def read_groups(folder: Path) -> Groups:
    """The groups that `write_posteriors` wrote; errors as above."""
    columns, _ = read_columns(folder / CELLS, ("group_bits", "group_records"))
    sub_tables, records = columns["group_bits"].astype(np.uint64), columns["group_records"].astype(np.int64)
    return Groups(_part(folder / POSTERIOR, "share", float), sub_tables, records)


def write_refusals(found: Refusals, folder: Path) -> None:
    """What refusals tell; ranges are those of the at-risk cells in the order of the table's rows."""
    write_json(folder / REFUSALS, plain(Refusals, found))


def read_refusals(folder: Path) -> Refusals:
    """What `write_refusals` wrote; errors as for `typed`."""
    return typed(Refusals, read_json(folder / REFUSALS), folder / REFUSALS)


def write_uniques(found: Uniques | str, schema: Schema, folder: Path) -> None:
    """What is thought of sample uniques, all together and in the order of the table's rows; or why nothing is."""
    if isinstance(found, str):
        write_json(folder / UNIQUES, {"reason": found})
        return
    write_json(folder / UNIQUES, uniques_facts(found))
    write_columns(folder / CELLS, found.columns(schema))


def read_uniques(folder: Path, table: Table) -> Uniques | str:
    """What `write_uniques` wrote of this table; RunFolderError or InputError where it cannot be read."""
    path = folder / UNIQUES
    content = read_json(path)
    if isinstance(content, dict) and "reason" in content:
        return _part(path, "reason", str)
    columns, _ = read_columns(folder / CELLS, OF_CELLS)
    alone, matched, expected = (columns[name].astype(np.float64) for name in OF_CELLS)
    twos, fraction, by = _part(path, "sample_twos", int), _part(path, "fraction", float), _part(path, "estimator", str)
    model = _part(path, "model", str) if by == POISSON else None
    return Uniques(table.codes[table.counts == 1], alone, matched, expected, twos, fraction, by, model)


def write_guesses(found: Guesses | str, folder: Path) -> None:
    """What is guessed, at-risk cells in the order of the table's rows; or why nothing is."""
    if isinstance(found, str):
        write_json(folder / ATTACK, {"reason": found})
        return
    write_json(folder / ATTACK, {name: getattr(found, name) for name in _OF_GUESSES})
    write_columns(folder / CELLS, dict(zip(found.names, found.expected, strict=True)))


def read_guesses(folder: Path) -> Guesses | str:
    """What `write_guesses` wrote; RunFolderError or InputError where it cannot be read."""
    content = read_json(folder / ATTACK)
    if isinstance(content, dict) and "reason" in content:
        return _part(folder / ATTACK, "reason", str)
    methods, names = (_part(folder / ATTACK, name, tuple[str, ...]) for name in _OF_GUESSES[:2])
    cells, claimed = (_part(folder / ATTACK, name, tuple[int, ...]) for name in _OF_GUESSES[2:])
    columns, _ = read_columns(folder / CELLS, names)
    return Guesses(methods, names, cells, claimed, np.stack([columns[name].astype(np.float64) for name in names]))


def write_assessment(
    assessment: Assessment, bounds: CellBounds, schema: Schema, folder: Path, by: EndMethods | None = None
) -> None:
    """The answer, and the bounds of every at-risk cell, in records; these in the order of the table's rows.

    by  which method gave each end, where bounds were to be sharp
    """
    named = named_columns([schema.variables[axis] for axis in schema.axes], bounds.cells)
    ends: dict[str, Any] = {
        COUNT: bounds.counts,
        OUTER_LOWER: bounds.outer[:, 0],
        OUTER_UPPER: bounds.outer[:, 1],
        INNER_LOWER: bounds.inner[:, 0],
        INNER_UPPER: bounds.inner[:, 1],
        EXACT: bounds.exact,
    }
    if by is not None:
        of_ends = by.outer[:, 0], by.inner[:, 0], by.inner[:, 1], by.outer[:, 1]
        ends |= {name: end.tolist() for name, end in zip(METHOD_OF.values(), of_ends, strict=True)}
    # a variable may have the name of one of the ends
    own = variable_columns(named, ends)
    columns = {**{own[name]: column for name, column in named.items()}, **ends}
    write_columns(folder / CELLS, columns, {"method": bounds.method})
    write_json(folder / ASSESSMENT_FILE, assessment_facts(assessment, schema))


def read_end_methods(folder: Path) -> EndMethods | None:
    """What `write_assessment` wrote of the methods; None where bounds were not to be sharp. InputError as above."""
    if SHARPNESS not in read_json(folder / ASSESSMENT_FILE):
        return None
    columns, _ = read_columns(folder / CELLS, tuple(METHOD_OF.values()))
    outer_lower, inner_lower, inner_upper, outer_upper = (columns[name] for name in METHOD_OF.values())
    return EndMethods(np.stack([outer_lower, outer_upper], 1), np.stack([inner_lower, inner_upper], 1))


def read_assessment(folder: Path, table: Table, small_count: int) -> tuple[Assessment, CellBounds]:
    """What `write_assessment` wrote of this table and small count, but for the methods.

    InputError or RunFolderError where a file cannot be read, KeyError where it is another one, and ValueError where it
    is of other cells: bounds that do not enclose their counts, or as many as there are not at-risk cells.
    """
    columns, metadata = read_columns(folder / CELLS, (OUTER_LOWER, OUTER_UPPER, INNER_LOWER, INNER_UPPER))
    # cells and counts are the table's own: of the file only the ends are read, and `CellBounds` refuses ends that do
    # not enclose the counts
    rows = table.at_risk(small_count)
    outer = np.stack([columns[OUTER_LOWER], columns[OUTER_UPPER]], axis=1)
    inner = np.stack([columns[INNER_LOWER], columns[INNER_UPPER]], axis=1)
    bounds = CellBounds(table.codes[rows], table.counts[rows], outer, inner, metadata["method"])
    facts = read_json(folder / ASSESSMENT_FILE)
    facts["verdict"] = facts.pop("releasable")
    return typed(Assessment, facts, folder / ASSESSMENT_FILE, table.schema), bounds
