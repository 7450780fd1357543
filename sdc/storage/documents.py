"""What is said of results as documents that nobody reads back: by names, for `--json` and for the files of a build."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sdc.intruder.cell_laws import CellLaws
from sdc.intruder.chains import Diagnostics
from sdc.intruder.losses import Claims, Losses
from sdc.intruder.measures import above, identified, log_probability_if_uniform
from sdc.intruder.posterior import Posterior
from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds
from sdc.model.decomposable_graph import DecomposableGraph
from sdc.model.documents import plain
from sdc.model.labels import NO_LABELS, Labels
from sdc.model.parts import Parts
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.model.sharpness import EndMethods, Sharpness
from sdc.model.subtable import SubTable
from sdc.model.super_cell import SuperCellBounds, written
from sdc.model.table import Codes, Table
from sdc.risk.assessment import Assessment
from sdc.run_format import METADATA, SHARPNESS, SUB_TABLE
from sdc.search.required import Required, RequiredRecord
from sdc.search.suppressed import SuppressedCell, Suppression
from sdc.search.why import Reason
from sdc.storage.refutations import refutation_facts
from sdc.storage.run_folder import read_json
from sdc.utility.loglinear import LogLinearFit
from sdc.utility.model_search import ModelSearch
from sdc.utility.uniques import OF_CELLS, Uniques


def release_facts(release: Release, schema: Schema) -> dict[str, Any]:
    """Frontier by names, and how many sub-tables it stands for."""
    return {
        "frontier": [st.names(element, schema) for element in release.frontier],
        "sub_tables": release.sub_tables(schema),
        "sub_tables_with_total": release.sub_tables_with_total(schema),
    }


def part_facts(
    parts: Parts,
    coarsened: Mapping[SubTable, SubTable],
    table: Table,
    release: Path,
    suppressed: Sequence[Suppression] = (),
) -> list[dict[str, Any]]:
    """Of each sub-table that went out in part what is withheld or merged, or how it is rounded, and its first file.

    coarsened   of those with merged categories what went out of them
    suppressed  of those with withheld cells the largest of these, which are confidential
    """
    listed = read_json(release / METADATA)["resources"]
    files = {frozenset(one[SUB_TABLE]): one["path"] for one in reversed(listed) if SUB_TABLE in one}
    found = []
    for view, coarser in coarsened.items():
        names, by = st.names(view, table.schema), st.names(coarser, table.schema)
        numbers = {"cells": st.cells(view, table.schema), "left": st.cells(coarser, table.schema)}
        found.append({"sub_table": names, "how": "coarsen", **numbers, "by": by, "file": files[frozenset(by)]})
    for part in parts.tables:
        assert part.fact.between is not None
        names, cells = st.names(part.view, table.schema), st.cells(part.view, table.schema)
        told: dict[str, Any] = {"how": "round", "cells": cells, "base": part.base}
        if part.base:
            told["margins"] = [st.names(margin.view, table.schema) for margin in part.margins]
        else:
            hidden = table.marginal(part.view).count_at(part.fact.between.cells)
            share = round(int(hidden.sum()) / table.total, 6)
            told = {"how": "withhold", "cells": cells, "withheld": len(hidden), "records_withheld": share}
            told["largest"] = largest_facts(suppressed, part.view, table.schema)
        found.append({"sub_table": names, **told, "file": files[frozenset(names)]})
    return found


def largest_facts(suppressed: Sequence[Suppression], view: SubTable, schema: Schema) -> list[dict[str, Any]]:
    """The largest suppressed cells of a sub-table, and what each protects; of older runs none."""
    cells = [cell for one in suppressed if one.sub_table == st.label(view, schema) for cell in one.largest]
    return [{**plain(SuppressedCell, cell), "text": cell.text} for cell in cells]


def graph_facts(graph: DecomposableGraph, schema: Schema) -> list[list[str]]:
    """The cliques by the names of all their variables, levels too."""
    return [st.names(clique, schema.flat) for clique in graph.cliques]


def halvings_facts(halvings: float | None) -> dict[str, float]:
    """The value of a release by reconstruction, where that is what it is worth, to 9 digits as other errors."""
    return {} if halvings is None else {"halvings": float(f"{halvings:.9g}")}


def required_facts(found: Required, schema: Schema) -> dict[str, Any]:
    """What became of the required sub-tables, by names; of each conflict its cell too, which is confidential."""
    facts: dict[str, Any] = plain(RequiredRecord, RequiredRecord.of(found, schema), schema)
    return facts


def assessment_facts(assessment: Assessment, schema: Schema) -> dict[str, Any]:
    """An assessment with the categories of its witnesses by name."""
    facts = plain(Assessment, assessment, schema)
    # what a limit or sharp bounds tell is of most builds no part
    return {"releasable": facts.pop("verdict"), **{name: told for name, told in facts.items() if told is not None}}


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
    sharpness = None if by is None else Sharpness.of(bounds, by)
    told = {} if sharpness is None else {SHARPNESS: {**plain(Sharpness, sharpness), "text": sharpness.text}}
    return {"release": release_facts(release, schema)["frontier"], "method": bounds.method, "cells": cells, **told}


def super_cell_facts(release: Release | None, bounds: SuperCellBounds, schema: Schema) -> dict[str, Any]:
    """Bounds under a release, a super-cell a row, by the categories of the variables that it does not have all of.

    No release is one of a table that tells by itself what is known of it.
    """
    # where no table is the true one a count is known by its bounds alone
    counts = [int(low) if low == high == int(low) else None for low, high in bounds.outer]
    if bounds.counts is not None:
        counts = bounds.counts.tolist()
    rows = zip(bounds.super_cells, counts, bounds.outer, bounds.inner, bounds.exact, strict=True)
    cells = [
        {
            "cell": one.categories(schema),
            "count": count,
            "outer": list(map(written, outer)),
            "inner": list(map(written, inner)),
            "exact": bool(exact),
        }
        for one, count, outer, inner, exact in rows
    ]
    told = {} if release is None else {"release": release_facts(release, schema)["frontier"]}
    return {**told, "method": bounds.method, "cells": cells}


def reason_facts(reason: Reason, schema: Schema, labels: Labels = NO_LABELS) -> dict[str, Any]:
    """Why a sub-table is released or not, as a document; `customer` alone is for others than the agency."""
    return {
        "sub_table": st.names(reason.sub_table, schema),
        "released": reason.released,
        "forbidden": reason.forbidden,
        "within": None if reason.within is None else st.names(reason.within, schema),
        "critical_width": reason.critical_width,
        "text": reason.text(schema),
        "customer": reason.customer(schema, labels),
        "proof": reason.proof(schema) or None,
        "refutation": None if reason.refutation is None else refutation_facts(reason.refutation, schema),
        "conflicts": [st.names(other, schema) for other in reason.conflicts],
        **{name: assessment_facts(getattr(reason, name), schema) for name in ("alone", "one_way", "together")},
    }


def posterior_facts(
    found: Posterior, bounds: CellBounds, schema: Schema, threshold: float, losses: Losses | None = None
) -> dict[str, Any]:
    """A posterior with the bounds of its cells; probabilities, and their errors, are of the counts from `from` on.

    losses  of whom claims something of the cells, and of the agency, for the disclosure risk
    """
    laws = found.cells
    held = _group_facts(found, schema)
    diagnostics = {} if found.diagnostics is None else {"diagnostics": plain(Diagnostics, found.diagnostics)}
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
        "entropy": found.entropy,
        "bounds": {
            "sharp": bool(bounds.exact.all()),
            "known": int((bounds.outer_width == 0).sum()),
            "total_width": int(bounds.outer_width.sum()),
        },
        "losses": None if losses is None else _losses(losses, laws),
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


def _losses(losses: Losses, laws: CellLaws) -> dict[str, Any]:
    """What an intruder claims of the cells, and what that costs the agency in the mean."""
    claims = losses.claims(laws.at_truth, laws.most_likely[1])
    return {**plain(Losses, losses), "claims": plain(Claims, claims), "disclosure_risk": losses.risk(claims)}


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


def fit_facts(found: LogLinearFit, cells: Codes) -> dict[str, Any]:
    """Of a fit how well it does, its terms, and what it expects of (n, axes) cells."""
    schema = found.table.schema
    told = zip(cells.tolist(), found.table.count_at(cells).tolist(), found.at(cells).tolist(), strict=True)
    return {
        "frontier": [st.names(element, schema) for element in found.known.release.frontier],
        "method": found.method,
        "sweeps": found.sweeps,
        "deviation": found.deviation,
        "deviance": found.deviance,
        "pearson": found.pearson,
        "degrees_of_freedom": found.degrees_of_freedom,
        "fitted_cells": found.fitted_cells,
        "parameters": found.parameters,
        "estimable": found.estimable,
        "terms": [
            {
                "sub_table": st.names(term.sub_table, schema),
                "parameters": term.parameters,
                "estimable": term.estimable,
                "effects": found.effects[term.sub_table].tolist() if found.effects else None,
            }
            for term in found.terms
        ],
        "facts_not_fitted": found.facts,
        "cells": [{"cell": schema.named(cell), "count": count, "fitted": fitted} for cell, count, fitted in told],
    }


def uniques_facts(found: Uniques) -> dict[str, Any]:
    """Of the sample uniques together how many are thought to be population uniques, and how many matches right."""
    return {
        "estimator": found.estimator,
        "model": found.model,
        "fraction": found.fraction,
        "sample_uniques": len(found),
        "sample_twos": found.twos,
        "population_uniques": float(found.alone.sum()),
        "matched": float(found.matched.sum()),
        "right_matches": found.right_matches,
        "intrusion": found.intrusion,
    }


def unique_cells(found: Uniques, schema: Schema) -> list[dict[str, Any]]:
    """Each sample unique."""
    rows = zip(found.alone.tolist(), found.matched.tolist(), found.expected.tolist(), strict=True)
    return [
        {"cell": schema.named(cell), **dict(zip(OF_CELLS, row, strict=True))}
        for cell, row in zip(found.cells.tolist(), rows, strict=True)
    ]


def models_facts(found: ModelSearch, schema: Schema) -> dict[str, Any]:
    """The models that a search has found, the best first."""
    columns = found.columns(schema)
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return {"looked_at": found.looked_at, "complete": found.is_complete, "models": rows}


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
