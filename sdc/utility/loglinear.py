"""The hierarchical log-linear model of released sub-tables: fitted counts, deviance, degrees of freedom, terms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sdc.model import subtable as st
from sdc.model.documents import picked, rows
from sdc.model.errors import InputError
from sdc.model.fact import NO_FACTS
from sdc.model.knowledge import Knowledge
from sdc.model.named import Named, beside, named_cells
from sdc.model.release import release_facts
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable
from sdc.model.table import Codes, Table
from sdc.utility import ipf
from sdc.utility.closed_form import ClosedForm, Values
from sdc.utility.estimable import MOST_ENTRIES, Estimable, Term, ranks
from sdc.utility.ipf import MAX_BYTES, STOP, Fit, Form, Stop, Support
from sdc.utility.measures import degrees_of_freedom

PRECISION, MAX_SWEEPS = 1e-12, 10_000
"""The largest deviation of a marginal, as a share of all records, and the limit of sweeps."""
MOST_LISTED = 1 << 22


@dataclass(frozen=True, eq=False, repr=False)
class LogLinearFit(Named):
    """The fit of a hierarchical log-linear model, whose largest interactions are the frontier of a release.

    table          the fitted table
    known          the release, whose sub-tables are the terms, and structural zeros
    expected       the expected counts: the maximum likelihood estimate, for a table whose levels are variables
    deviance       G^2 = 2 sum n log(n / m), against the saturated model
    pearson        X^2 = sum (n - m)^2 / m, over the cells with a positive fit
    fitted_cells   number of cells with a positive fit
    parameters     of the model, with the constant
    estimable      number of estimable parameters; None if unknown
    terms          with their own parameters; none if there are more than 4,096
    effects        by term the logarithms of its factors of the fit, an axis for each of its variables, with sums of 0
                   along each (Bishop, Fienberg and Holland 1975, section 2.4); none if terms are not listed, a fit is
                   0, variables have levels, or cells and terms are too many
    facts          other public information, with counts or bounds; not fitted
    """

    table: Table
    known: Knowledge
    expected: Fit | ClosedForm
    deviance: float
    pearson: float
    fitted_cells: int
    parameters: int
    estimable: int | None
    terms: tuple[Term, ...]
    effects: Mapping[SubTable, Values]
    facts: int

    @property
    def method(self) -> str:
        """Closed form, sparse IPF on a list of cells, or dense IPF on an array of all."""
        return f"{self.expected.form} IPF" if isinstance(self.expected, Fit) else "closed form"

    @property
    def sweeps(self) -> int:
        """Of IPF; 0 in closed form."""
        return self.expected.sweeps if isinstance(self.expected, Fit) else 0

    @property
    def deviation(self) -> float:
        """The largest deviation of a released marginal, in records; 0 in closed form."""
        return self.expected.deviation if isinstance(self.expected, Fit) else 0.0

    @property
    def degrees_of_freedom(self) -> int | None:
        """Cells with a positive fit less estimable parameters; None if unknown.

        (T_e - z_e) - (T_p - z_p) of Bishop, Fienberg and Holland (1975, section 3.8): of all cells T_e those with a fit
        of 0 are subtracted, structural zeros included, and of the T_p parameters those that cannot be estimated then.
        """
        return None if self.estimable is None else self.fitted_cells - self.estimable

    @property
    def headline(self) -> str:
        named = " ".join(st.label(element, self.table.schema) for element in self.known.release.frontier)
        return f"Fit of {named}, by {self.method}"

    def at(self, cells: Codes) -> Values:
        """(n,) expected counts of (n, axes) cells, in records."""
        return self.expected.at(self.table.schema.columns(cells))

    def columns(self, schema: Schema) -> Mapping[str, Sequence[Any]]:
        """Every cell with a positive fit by names, with its count and expected count; InputError beyond 2^22."""
        cells = self._cells()
        counts, fitted = self.table.count_at(cells).tolist(), self.at(cells).tolist()
        return beside(named_cells(cells, schema), {"count": counts, "fitted": fitted})

    def _cells(self) -> Codes:
        if self.fitted_cells > MOST_LISTED:
            raise InputError(
                f"{self.fitted_cells:,} cells have a positive fit, and at most {MOST_LISTED:,} are listed; use fewer "
                "variables"
            )
        listed, schema = _listed(self.table, self.known, self.expected), self.table.flat.schema
        cells, order = listed.cells, list(st.members(listed.variables))
        for v in st.members(st.full(len(schema)) & ~listed.variables):
            added = np.repeat(np.arange(schema.sizes[v], dtype=np.uint16), len(cells))
            cells, order = np.column_stack([np.tile(cells, (schema.sizes[v], 1)), added]), [*order, v]
        axes = cells[:, np.argsort(order)][:, list(self.table.schema.axes)]
        return axes[np.lexsort(axes.T[::-1])]


def fit_model(
    table: Table,
    known: Knowledge,
    *,
    form: Form | None = None,
    support: Support = "possible",
    max_sweeps: int = MAX_SWEEPS,
    max_bytes: int = MAX_BYTES,
) -> LogLinearFit:
    """Fit the model of the released sub-tables: every set of sub-tables is one, with all sub-tables within them.

    form  of IPF, "sparse" on the cells that can be positive or "dense" on an array; by default the closed form if it
          exists, else sparse
    support  "possible", or "non-zero" to fit the table's non-zero cells alone, as if all others were structural zeros
             ([DKS] 3.2); the list of these is not public, so readers of the release cannot compute that fit

    Cells with a fit of 0 are found first, so that IPF converges geometrically (Fienberg and Rinaldo 2012), to 1e-12 of
    the records. If they are too many, it may be slow, and ends at a thousandth of a record. Raises InputError for a
    table without records, without convergence within the sweeps, and as `ipf.fit`; ReleaseError for knowledge of
    another table.
    """
    from scipy.special import kl_div  # n log(n / m) - n + m, no term of which is negative

    known.check_is_of(table)
    if not table.total:
        raise InputError("the table has no records, so nothing can be fitted; give a table with records")
    whole = known.with_facts(NO_FACTS)
    estimable, schema = Estimable(table, whole), table.schema
    if support != "possible":
        if form == "dense":
            raise InputError("form = 'dense' is an array of all cells; leave it out for a fit of the non-zero ones")
        found: Fit | ClosedForm = _of_non_zero_cells(table, whole, support, max_sweeps, max_bytes)
    else:
        found = expected_counts(estimable, form, max_sweeps, max_bytes)
    fitted, size = found.at(table.all_codes), found.fitted_cells
    elsewhere = max(0.0, table.total - float(fitted.sum()))  # where the count is 0
    is_small = size // found.spread * len(estimable.listed) <= MOST_ENTRIES
    listed = _listed(table, whole, found) if is_small else None
    of_cells = ranks(table.flat.codes, st.full(len(table.flat.schema)), whole) if support != "possible" else None
    return LogLinearFit(
        table,
        whole,
        found,
        2 * (float(kl_div(table.counts, fitted).sum()) + elsewhere),
        float((np.square(table.counts - fitted) / fitted).sum()) + elsewhere,
        size,
        degrees_of_freedom(whole.release, schema) + 1,
        estimable.parameters if support == "possible" else None if of_cells is None else sum(of_cells),
        terms := estimable.terms(size, listed),
        {} if listed is None or size < schema.cells or not schema.levels.is_flat else _effects(listed, terms),
        len(known.published),
    ).named_by(schema)


def expected_counts(
    estimable: Estimable, form: Form | None = None, max_sweeps: int = MAX_SWEEPS, max_bytes: int = MAX_BYTES
) -> Fit | ClosedForm:
    """The closed form, without a list of cells, if it exists and no form of IPF is required.

    For a table whose levels are variables. InputError as `fit_model`.
    """
    table, known = estimable.table.flat, estimable.known.flat
    marginals = ipf.marginals_of(table, known)
    tree = ipf.tree_of(table.schema, marginals, known.zeros)
    if tree is not None and form is None:
        return ClosedForm(table.schema, marginals, tree)
    stop = Stop(PRECISION * table.total if estimable.is_proven else STOP.tolerance, max_sweeps)
    found = ipf.fit(table, known, form=form or "sparse", within=estimable.supports, stop=stop, max_bytes=max_bytes)
    return _converged(found, stop)


def _of_non_zero_cells(table: Table, known: Knowledge, support: Support, max_sweeps: int, max_bytes: int) -> Fit:
    stop = Stop(PRECISION * table.total, max_sweeps)
    return _converged(ipf.fit(table.flat, known.flat, support=support, stop=stop, max_bytes=max_bytes), stop)


def _converged(found: Fit, stop: Stop) -> Fit:
    if not found.converged:
        raise InputError(
            f"the fit has not converged: after {found.sweeps} sweeps a marginal is {found.deviation:.3g} records from "
            f"its count, and {stop.tolerance:.3g} are allowed; allow more sweeps, or leave out a sub-table"
        )
    return found


def _listed(table: Table, known: Knowledge, expected: Fit | ClosedForm) -> Fit:
    """With the cells that have a positive fit; InputError if the closed form has too many of them."""
    return expected if isinstance(expected, Fit) else ipf.fit(table.flat, known.flat)


def _effects(fit: Fit, terms: Sequence[Term]) -> dict[SubTable, Values]:
    """By term, after all within it, the remaining part of its averages."""
    members = st.members(fit.variables)
    logs = np.log(fit.values / fit.spread).reshape([fit.schema.sizes[v] for v in members])
    found: dict[SubTable, Values] = {}
    for term in (one.sub_table for one in terms):
        away = tuple(axis for axis, v in enumerate(members) if not st.has(term, v))
        average = logs.mean(axis=away, keepdims=True)
        found[term] = average - sum(own for other, own in found.items() if st.is_within(other, term))
    return {term: own.reshape([fit.schema.sizes[v] for v in st.members(term)]) for term, own in found.items()}


_FIGURES = ("method", "sweeps", "deviation", "deviance", "pearson", "degrees_of_freedom", "fitted_cells", "parameters")


def fit_facts(found: LogLinearFit, cells: Codes) -> dict[str, Any]:
    """For documents: quality of a fit, its terms, and expected counts of (n, axes) cells."""
    schema, effects = found.table.schema, found.effects
    terms = [
        {
            "sub_table": st.names(term.sub_table, schema),
            **picked(term, "parameters", "estimable"),
            "effects": effects[term.sub_table].tolist() if effects else None,
        }
        for term in found.terms
    ]
    named = {"cell": map(schema.named, cells.tolist()), "count": found.table.count_at(cells), "fitted": found.at(cells)}
    details = {"terms": terms, "facts_not_fitted": found.facts, "cells": rows(named)}
    frontier = release_facts(found.known.release, schema)["frontier"]
    return {"frontier": frontier, **picked(found, *_FIGURES, "estimable"), **details}
