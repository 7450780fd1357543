"""What the stages find, on disk and back: widths, the search and its utility, the curve, remedies, the
assessment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sdc.intruder.chains import Diagnostics
from sdc.intruder.limit import Likely, PosteriorLimit
from sdc.intruder.measures import Groups, above, identified, log_probability_if_uniform
from sdc.intruder.posterior import Posterior
from sdc.intruder.refusals import Refusals
from sdc.intruder.summary import Summary
from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds
from sdc.model.decomposable_graph import DecomposableGraph
from sdc.model.errors import RunFolderError
from sdc.model.recode import Recode
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.model.sharpness import EndMethods, Sharpness
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.risk.criterion import Assessment, Witness
from sdc.risk.critical_width import CriticalWidths
from sdc.risk.verdict import Verdict
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
from sdc.search.best import FoundRelease
from sdc.search.blockers import MOST_BLOCKERS, Cell, blockers
from sdc.search.curve import CurvePoint, LikelyPoint
from sdc.search.decomposable import SearchState, TraceRow
from sdc.search.ordered import SearchStep
from sdc.search.remedies import Remedy
from sdc.search.required import Required, RequiredRecord
from sdc.search.simulatable import SimulatedStep
from sdc.search.why import Reason
from sdc.storage.parquet import named_columns, read_columns, write_columns, write_row_groups
from sdc.storage.run_folder import read_json, write_json

LIKELY_CURVE = "likely_curve.json"
WIDTHS, TRACE, CURVE = "widths.parquet", "trace.parquet", "curve.json"
ROWS = 1 << 20  # of a part of a long list
REMEDIES, POSTERIOR, REFUSALS = "remedies.json", "posterior.json", "refusals.json"
_OF_CELL_LAWS = ("at_truth", "disclosing", "most_likely", "highest")
_OF_SUMMARY = (
    "law",
    "alpha",
    "reason",
    "engine",
    "feasible_tables",
    "log_probability",
    "equals_released",
)


class SearchRecord(NamedTuple):
    """What is kept of a search, see `FoundRelease`."""

    release: Release
    steps: tuple[SearchStep, ...]
    graph: DecomposableGraph | None = None
    trace: tuple[TraceRow, ...] = ()
    reason: str | None = None
    simulated: tuple[SimulatedStep, ...] = ()
    required: RequiredRecord | None = None


def write_widths(widths: CriticalWidths, schema: Schema, folder: Path) -> None:
    """Sub-tables as names and as uint64 bit sets, with their critical widths in records, in the list's order."""

    def part(start: int) -> dict[str, Any]:
        bits = widths.sub_tables[start : start + ROWS]
        named = [st.label(t, schema) for t in bits.tolist()]
        return {"sub_table": named, "bits": bits, "critical_width": widths.widths[start : start + ROWS]}

    # in parts: the names of 2^23 sub-tables at once take more than 1 GB
    parts = map(part, range(0, max(1, len(widths)), ROWS))
    write_row_groups(folder / WIDTHS, parts, {"floor": str(widths.floor), "visited": str(widths.visited)})


def read_widths(folder: Path) -> CriticalWidths:
    """What `write_widths` wrote; InputError where it cannot be read, KeyError where it is another file."""
    columns, metadata = read_columns(folder / WIDTHS, ["bits", "critical_width"])
    bits, widths = columns["bits"].astype(np.uint64), columns["critical_width"].astype(np.int64)
    return CriticalWidths(bits, widths, int(metadata["floor"]), int(metadata["visited"]))


def write_search(found: FoundRelease, schema: Schema, folder: Path) -> None:
    """The released frontier, every step that led to it, what stopped it, and of chains best graph and trace."""
    steps = [{**asdict(step), "added": [st.names(t, schema) for t in step.added]} for step in found.steps]
    content = {"method": found.method, "frontier": release_facts(found.release, schema)["frontier"], "steps": steps}
    if found.graph is not None:
        content["graph"] = graph_facts(found.graph, schema)
        names = [field.name for field in fields(TraceRow)]
        write_columns(folder / TRACE, {name: np.array([getattr(r, name) for r in found.trace]) for name in names})
    if found.reason is not None:
        content["reason"] = found.reason
    if found.simulated:
        content["simulated"] = [{**asdict(s), "added": st.names(s.added, schema)} for s in found.simulated]
    if found.required is not None:
        content["required"] = required_facts(found.required, schema)
    content["blockers"] = [_blocker(cell, stopped, schema) for cell, stopped in blockers(found.steps)[:MOST_BLOCKERS]]
    write_json(folder / SEARCH_FILE, content)


def read_search(folder: Path, schema: Schema) -> SearchRecord:
    """What `write_search` wrote.

    RunFolderError or InputError where a file cannot be read, or names what the schema does not have; KeyError where it
    is another file. Steps are read as they are: only the report shows them.
    """
    content = read_json(folder / SEARCH_FILE)
    release = Release.of(_bits(names, schema) for names in content["frontier"])
    steps = tuple(_step(step, schema) for step in content["steps"])
    simulated = [SimulatedStep(**{**s, "added": _bits(s["added"], schema)}) for s in content.get("simulated", ())]
    required = _required(content.get("required"), schema)
    if "graph" not in content:
        return SearchRecord(release, steps, reason=content.get("reason"), simulated=tuple(simulated), required=required)
    # from cliques, not from neighbours: a graph that is not chordal is refused here. Levels are vertices of their own
    graph = DecomposableGraph.from_cliques((_bits(names, schema.flat) for names in content["graph"]), schema)
    columns, _ = read_columns(folder / TRACE)
    rows = zip(*(columns[field.name].tolist() for field in fields(TraceRow)), strict=True)
    trace = tuple(TraceRow(*row) for row in rows)
    return SearchRecord(release, steps, graph, trace, content.get("reason"), required=required)


def required_facts(found: Required, schema: Schema) -> dict[str, Any]:
    """What became of the required sub-tables, by names; of each conflict its cell too, which is confidential."""
    return {
        "required": [st.names(t, schema) for t in found.sub_tables],
        "refused": [st.names(t, schema) for t in found.refused],
        "is_best": found.is_best,
        "conflicts": [
            {
                "sub_tables": [st.names(t, schema) for t in conflict.sub_tables],
                "proven": conflict.proven,
                "text": conflict.text(schema),
                "witness": None if conflict.witness is None else _witness_facts(conflict.witness, schema),
            }
            for conflict in found.conflicts
        ],
    }


def _required(content: dict[str, Any] | None, schema: Schema) -> RequiredRecord | None:
    if content is None:
        return None
    sub_tables, refused = (tuple(_bits(names, schema) for names in content[key]) for key in ("required", "refused"))
    conflicts = tuple((tuple(_bits(t, schema) for t in c["sub_tables"]), c["text"]) for c in content["conflicts"])
    return RequiredRecord(sub_tables, refused, conflicts, content["is_best"])


def write_curve(points: Sequence[CurvePoint], folder: Path) -> None:
    """The points of the risk-utility curve, in their order."""
    write_json(folder / CURVE, {"points": [asdict(point) for point in points]})


def read_curve(folder: Path) -> tuple[CurvePoint, ...]:
    """What `write_curve` wrote; RunFolderError where it cannot be read, KeyError where it is another file."""
    return tuple(CurvePoint(**point) for point in read_json(folder / CURVE)["points"])


def write_likely_curve(points: Sequence[LikelyPoint], folder: Path) -> None:
    """The releases under limits on the posterior, in their order."""
    write_json(folder / LIKELY_CURVE, {"points": [asdict(point) for point in points]})


def read_likely_curve(folder: Path) -> tuple[LikelyPoint, ...]:
    """What `write_likely_curve` wrote; RunFolderError where it cannot be read, KeyError where it is another file."""
    return tuple(LikelyPoint(**point) for point in read_json(folder / LIKELY_CURVE)["points"])


def write_remedies(remedies: Sequence[Remedy], schema: Schema, folder: Path) -> None:
    """Recodes that were tried, by the names of variables and categories, best first."""
    rows = [
        {
            "variable": schema.names[remedy.recode.variable],
            "merged": remedy.recode.names,
            "asked": [st.names(t, schema) for t in remedy.asked],
            "freed": [st.names(t, schema) for t in remedy.freed],
            "lost": remedy.lost,
        }
        for remedy in remedies
    ]
    write_json(folder / REMEDIES, {"remedies": rows})


def read_remedies(folder: Path, schema: Schema) -> tuple[Remedy, ...]:
    """What `write_remedies` wrote of a table with this schema.

    RunFolderError or InputError where it cannot be read or names what the schema does not have, KeyError where it is
    another file.
    """
    return tuple(_remedy(row, schema) for row in read_json(folder / REMEDIES)["remedies"])


def _remedy(row: dict[str, Any], schema: Schema) -> Remedy:
    variable = schema.index(row["variable"])
    merged = tuple(schema.variables[variable].categories.index(name) for name in row["merged"])
    asked, freed = (tuple(_bits(names, schema) for names in row[key]) for key in ("asked", "freed"))
    return Remedy(Recode(schema, variable, merged), asked, freed, row["lost"])


def write_posteriors(found: Sequence[Summary], groups: Groups, schema: Schema, folder: Path) -> None:
    """What is likely under each law, and of the at-risk cells in the order of the table's rows how probable."""
    facts = []
    named = {bits: st.label(bits, schema) for bits in np.unique(groups.sub_tables).tolist()}
    columns: dict[str, Any] = {
        "group": [named[bits] for bits in groups.sub_tables.tolist()],
        "group_bits": groups.sub_tables,
        "group_records": groups.records,
    }
    for place, summary in enumerate(found):
        diagnostics = summary.diagnostics and asdict(summary.diagnostics)
        facts.append({**{name: getattr(summary, name) for name in _OF_SUMMARY}, "diagnostics": diagnostics})
        if summary.reason is None:
            columns.update({f"{place}:{name}": getattr(summary, name) for name in _OF_CELL_LAWS})
    write_json(folder / POSTERIOR, {"share": groups.share, "laws": facts})
    write_columns(folder / CELLS, columns)


def read_posteriors(folder: Path) -> tuple[Summary, ...]:
    """What `write_posteriors` wrote; RunFolderError or InputError where it cannot be read, KeyError of another file."""
    columns, _ = read_columns(folder / CELLS)
    nothing = {name: np.empty(0, np.int64 if name == "most_likely" else np.float64) for name in _OF_CELL_LAWS}
    return tuple(
        Summary(
            **{
                **facts,
                "diagnostics": facts["diagnostics"] and Diagnostics(**facts["diagnostics"]),
                **({n: columns[f"{place}:{n}"] for n in nothing} if facts["reason"] is None else nothing),
            }
        )
        for place, facts in enumerate(read_json(folder / POSTERIOR)["laws"])
    )


def write_kept_posteriors(found: Sequence[Summary], key: str, path: Path) -> None:
    """The laws that are found, for a stage with this key that may end before all are."""
    laws = [{field.name: _plain(getattr(summary, field.name)) for field in fields(Summary)} for summary in found]
    write_json(path, {"key": key, "laws": laws})


def read_kept_posteriors(path: Path, key: str) -> tuple[Summary, ...]:
    """What `write_kept_posteriors` wrote with this key; nothing where it is of another, damaged or not there."""
    try:
        content = read_json(path)
        return tuple(map(_kept_summary, content["laws"])) if content["key"] == key else ()
    except (RunFolderError, LookupError, TypeError, ValueError, AttributeError):
        return ()


def _plain(value: Any) -> Any:
    return asdict(value) if isinstance(value, Diagnostics) else _listed(value)


def _kept_summary(facts: dict[str, Any]) -> Summary:
    arrays = {n: np.array(facts[n], np.int64 if n == "most_likely" else np.float64) for n in _OF_CELL_LAWS}
    diagnostics = facts["diagnostics"] and Diagnostics(**facts["diagnostics"])
    return Summary(**{**facts, **arrays, "diagnostics": diagnostics})


def read_groups(folder: Path) -> Groups:
    """The groups that `write_posteriors` wrote; errors as above."""
    columns, _ = read_columns(folder / CELLS, ("group_bits", "group_records"))
    sub_tables, records = columns["group_bits"].astype(np.uint64), columns["group_records"].astype(np.int64)
    return Groups(read_json(folder / POSTERIOR)["share"], sub_tables, records)


def write_refusals(found: Refusals, folder: Path) -> None:
    """What refusals tell; ranges are those of the at-risk cells in the order of the table's rows."""
    write_json(folder / REFUSALS, {f.name: _listed(getattr(found, f.name)) for f in fields(Refusals)})


def read_refusals(folder: Path) -> Refusals:
    """What `write_refusals` wrote; RunFolderError where it cannot be read."""
    content = read_json(folder / REFUSALS)
    ranges = {name: np.array(content[name], np.int64).reshape(-1, 2) for name in ("possible", "left")}
    return Refusals(**{**content, **ranges, "at_truth": np.array(content["at_truth"], np.float64)})


def _listed(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


def write_checkpoint(state: SearchState, key: str, path: Path) -> None:
    """The state of the chains, for a search whose stage has this key."""
    write_json(path, {"key": key, "state": state.as_json()})


def read_checkpoint(path: Path, key: str) -> SearchState | None:
    """What `write_checkpoint` wrote with this key; None where it is of another search, damaged or not there."""
    try:
        content = read_json(path)
        # no fault of any kind stops a search: without a checkpoint it takes longer, and comes to the same
        return SearchState.from_json(content["state"]) if content["key"] == key else None
    except (RunFolderError, LookupError, TypeError, AttributeError):
        return None


def graph_facts(graph: DecomposableGraph, schema: Schema) -> list[list[str]]:
    """The cliques by the names of all their variables, levels too."""
    return [st.names(clique, schema.flat) for clique in graph.cliques]


def _blocker(cell: Cell, stopped: Iterable[SubTable], schema: Schema) -> dict[str, Any]:
    return {"cell": schema.named(cell), "stopped": [st.names(t, schema) for t in stopped]}


def _step(step: dict[str, Any], schema: Schema) -> SearchStep:
    added = tuple(_bits(names, schema) for names in step["added"])
    low, high = step["min_width"]
    blockers = tuple(map(tuple, step["blockers"]))
    return SearchStep(**{**step, "added": added, "min_width": (low, high), "blockers": blockers})


def release_facts(release: Release, schema: Schema) -> dict[str, Any]:
    """Frontier by names, and how many sub-tables it stands for."""
    return {
        "frontier": [st.names(element, schema) for element in release.frontier],
        "sub_tables": release.sub_tables(schema),
        "sub_tables_with_total": release.sub_tables_with_total(schema),
    }


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
        ends |= dict(zip(METHOD_OF.values(), _by_end(by), strict=True))
    # a variable may have the name of one of the ends
    own = variable_columns(named, ends)
    columns = {**{own[name]: column for name, column in named.items()}, **ends}
    write_columns(folder / CELLS, columns, {"method": bounds.method})
    write_json(folder / ASSESSMENT_FILE, assessment_facts(assessment, schema))


def _by_end(by: EndMethods) -> tuple[list[str], ...]:
    """In the order of `METHOD_OF`."""
    ends = by.outer[:, 0], by.inner[:, 0], by.inner[:, 1], by.outer[:, 1]
    return tuple(end.tolist() for end in ends)


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
    content = read_json(folder / ASSESSMENT_FILE)
    witnesses = tuple(_witness(w, table.schema) for w in content["witnesses"])
    low, high = content["min_width"]
    # what is no verdict raises, and passes for none
    verdict = Verdict.read(content.pop("releasable"))
    likely = _likely(content.pop("likely")) if "likely" in content else None
    sharpness = Sharpness(**content.pop(SHARPNESS)) if SHARPNESS in content else None
    facts = {**content, "min_width": (low, high), "witnesses": witnesses, "likely": likely, SHARPNESS: sharpness}
    return Assessment(verdict, **facts), bounds


def bounds_facts(release: Release, bounds: CellBounds, by: EndMethods | None, schema: Schema) -> dict[str, Any]:
    """Bounds under a release, a cell a row; with methods, which gave each end, and how many cells are sharp."""
    columns = {
        "count": bounds.counts.tolist(),
        "outer": bounds.outer.tolist(),
        "inner": bounds.inner.tolist(),
        "exact": bounds.exact.tolist(),
        **({} if by is None else {"outer_by": by.outer.tolist(), "inner_by": by.inner.tolist()}),
    }
    cells = [
        {"cell": schema.named(cell), **dict(zip(columns, row, strict=True))}
        for cell, *row in zip(bounds.cells.tolist(), *columns.values(), strict=True)
    ]
    told = {} if by is None else {SHARPNESS: _sharpness(Sharpness.of(bounds, by))}
    return {"release": release_facts(release, schema)["frontier"], "method": bounds.method, "cells": cells, **told}


def _sharpness(found: Sharpness) -> dict[str, Any]:
    return {**asdict(found), "text": found.text}


def assessment_facts(assessment: Assessment, schema: Schema) -> dict[str, Any]:
    """An assessment with the categories of its witnesses by name."""
    witnesses = [_witness_facts(w, schema) for w in assessment.witnesses]
    facts = {**asdict(assessment), "witnesses": witnesses}
    for name in ("likely", SHARPNESS):
        if facts[name] is None:
            del facts[name]  # of most builds it is no part
    return {"releasable": Verdict(facts.pop("verdict")).releasable, **facts}


def reason_facts(reason: Reason, schema: Schema) -> dict[str, Any]:
    """Why a sub-table is released or not, as a document."""
    return {
        "sub_table": st.names(reason.sub_table, schema),
        "released": reason.released,
        "forbidden": reason.forbidden,
        "within": None if reason.within is None else st.names(reason.within, schema),
        "critical_width": reason.critical_width,
        "text": reason.text(schema),
        "conflicts": [st.names(other, schema) for other in reason.conflicts],
        **{name: assessment_facts(getattr(reason, name), schema) for name in ("alone", "one_way", "together")},
    }


def _likely(found: dict[str, Any]) -> Likely:
    return Likely(**{**found, "limit": PosteriorLimit(**found["limit"])})


def posterior_facts(found: Posterior, bounds: CellBounds, schema: Schema, threshold: float) -> dict[str, Any]:
    """A posterior with the bounds of its cells; probabilities, and their errors, are of the counts from `from` on."""
    laws = found.cells
    held = _group_facts(found, schema)
    diagnostics = {} if found.diagnostics is None else {"diagnostics": asdict(found.diagnostics)}
    cells = [
        {
            "cell": schema.named(cell),
            "count": count,
            "outer": outer,
            "from": first,
            "probabilities": laws.of(row).tolist(),
            "standard_error": _errors(found, row),
            "group": held[row],
        }
        for row, (cell, count, outer, first) in enumerate(
            zip(laws.cells.tolist(), laws.counts.tolist(), bounds.outer.tolist(), laws.first.tolist(), strict=True)
        )
    ]
    return {
        **_law_facts(found),
        "engine": found.engine,
        "exact": found.exact,
        "feasible_tables": found.feasible_tables,
        "log_probability_of_true_table": found.log_probability,
        **_if_uniform(found.feasible_tables),
        "identified": {
            "threshold": threshold,
            "fraction": identified(laws.at_truth, laws.most_likely[1], threshold),
        },
        "above": {"threshold": threshold, "fraction": above(laws.at_truth, threshold)},
        "attribute_disclosure": _disclosure(found, bounds, threshold),
        "cells": cells,
        **diagnostics,
        "models": [
            {
                **_law_facts(model.posterior),
                "prior": model.prior,
                "posterior": model.probability,
                "standard_error": model.standard_error,
            }
            for model in found.models
        ],
    }


def _if_uniform(feasible_tables: int | None) -> dict[str, float | None]:
    """1/M(T), which for very many tables is no double above 0, and its logarithm."""
    if feasible_tables is None:
        return {"probability_if_uniform": None, "log_probability_if_uniform": None}
    log = log_probability_if_uniform(feasible_tables)
    return {"probability_if_uniform": 1 / feasible_tables, "log_probability_if_uniform": log}


def _disclosure(found: Posterior, bounds: CellBounds, threshold: float) -> dict[str, Any] | None:
    """How many cells hold their share of a released group: for certain, not at all, and probably."""
    if found.groups is None:
        return None
    return {
        "share": found.groups.share,
        "certain": int(found.groups.are_certain(bounds.outer).sum()),
        "impossible": int(found.groups.are_impossible(bounds.outer).sum()),
        "above_threshold": int((found.groups.probabilities(found.cells) > threshold).sum()),
    }


def _group_facts(found: Posterior, schema: Schema) -> list[dict[str, Any] | None]:
    """Of each cell its smallest released group, and how probably the cell holds the share of it."""
    if found.groups is None:
        return [None] * len(found.cells)
    of_cells = found.groups.sub_tables, found.groups.records, found.groups.probabilities(found.cells)
    return [
        {"sub_table": st.names(sub_table, schema), "records": records, "probability": probability}
        for sub_table, records, probability in zip(*(values.tolist() for values in of_cells), strict=True)
    ]


def _errors(found: Posterior, row: int) -> list[float] | None:
    start = found.cells.start
    return None if found.standard_errors is None else found.standard_errors[start[row] : start[row + 1]].tolist()


def _law_facts(found: Posterior) -> dict[str, Any]:
    error = {} if found.log_evidence_error is None else {"log_evidence_standard_error": found.log_evidence_error}
    named = {"law": found.law, "alpha": found.alpha, "equals_released": found.equals_released}
    return {**named, "log_evidence": found.log_evidence, **error}


def _witness_facts(witness: Witness, schema: Schema) -> dict[str, Any]:
    return {**asdict(witness), "cell": schema.named(witness.cell)}


def _witness(content: dict[str, Any], schema: Schema) -> Witness:
    axes = (schema.variables[axis] for axis in schema.axes)
    cell = tuple(axis.categories.index(content["cell"][axis.name]) for axis in axes)
    return Witness(cell, content["count"], tuple(content["outer"]), tuple(content["inner"]), content["method"])


def _bits(names: list[str], schema: Schema) -> SubTable:
    return st.named(names, schema)
