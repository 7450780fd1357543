"""The hierarchical log-linear model of released sub-tables: fitted counts, deviance, degrees of freedom, terms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sdc.model import subtable as st
from sdc.model.errors import InputError
from sdc.model.fact import NO_FACTS
from sdc.model.knowledge import Knowledge
from sdc.model.named import Named, named_cells
from sdc.model.release import Release
from sdc.model.schema import Schema
from sdc.model.subtable import SubTable
from sdc.model.table import Codes, Table
from sdc.utility import ipf
from sdc.utility.closed_form import Values
from sdc.utility.estimable import MOST_ENTRIES, Estimable, Term
from sdc.utility.ipf import MAX_BYTES, STOP, Fit, Form, Stop
from sdc.utility.measures import degrees_of_freedom

PRECISION, MAX_SWEEPS = 1e-12, 10_000
"""The largest deviation of a marginal, as a share of all records, and how many sweeps may lead there."""
MOST_LISTED = 1 << 22


@dataclass(frozen=True, eq=False, repr=False)
class LogLinearFit(Named):
    """What a hierarchical log-linear model, whose largest interactions are the frontier of a release, fits to a table.

    table          that it is fitted to
    release        whose sub-tables are its terms
    fit            how it was found, and the expected counts: the maximum likelihood estimate
    deviance       G^2 = 2 sum n log(n / m), against the saturated model
    pearson        X^2 = sum (n - m)^2 / m, over the cells with a positive fit
    fitted_cells   how many of all cells have a positive fit
    parameters     of the model, with the constant
    estimable      how many of them can be estimated; None where that is not known
    terms          with their own; none where there are more than 4,096
    effects        by term the logarithms of its factors of the fit, an axis for each of its variables, along each of
                   which they sum to 0 (Bishop, Fienberg and Holland 1975, section 2.4); none where terms are not
                   listed, a fit is 0, variables have levels, or cells and terms are too many
    facts          what else is public, in part or between two numbers; it is not fitted
    """

    table: Table
    release: Release
    fit: Fit
    deviance: float
    pearson: float
    fitted_cells: int
    parameters: int
    estimable: int | None
    terms: tuple[Term, ...]
    effects: Mapping[SubTable, Values]
    facts: int

    @property
    def degrees_of_freedom(self) -> int | None:
        """Cells with a positive fit less the parameters that can be estimated; None where these are not known.

        (T_e - z_e) - (T_p - z_p) of Bishop, Fienberg and Holland (1975, section 3.8): of all cells T_e those are taken
        off whose fit is 0, structural zeros among them, and of the T_p parameters those that cannot be estimated then.
        """
        return None if self.estimable is None else self.fitted_cells - self.estimable

    @property
    def headline(self) -> str:
        named = " ".join(st.label(element, self.table.schema) for element in self.release.frontier)
        return f"Fit of {named}, by {self.fit.method}, {self.fit.form}"

    def at(self, cells: Codes) -> Values:
        """(n,) expected counts of (n, axes) cells, in records."""
        return self.fit.at(self.table.schema.columns(cells))

    def columns(self, schema: Schema) -> Mapping[str, Sequence[Any]]:
        """Every cell with a positive fit by names, with its count and what is expected; InputError beyond 2^22."""
        cells = self._cells()
        counts, fitted = self.table.count_at(cells).tolist(), self.at(cells).tolist()
        return {**named_cells(cells, schema), "count": counts, "fitted": fitted}

    def _cells(self) -> Codes:
        """(fitted cells, axes) codes, in their order."""
        if self.fitted_cells > MOST_LISTED:
            raise InputError(
                f"{self.fitted_cells:,} cells have a positive fit, and at most {MOST_LISTED:,} are listed; keep fewer "
                "variables"
            )
        cells, schema = self.fit.cells, self.fit.schema
        order = list(st.members(self.fit.variables))
        for v in st.members(st.full(len(schema)) & ~self.fit.variables):
            added = np.repeat(np.arange(schema.sizes[v], dtype=np.uint16), len(cells))
            cells, order = np.column_stack([np.tile(cells, (schema.sizes[v], 1)), added]), [*order, v]
        axes = cells[:, np.argsort(order)][:, list(self.table.schema.axes)]
        return axes[np.lexsort(axes.T[::-1])]


def fit_model(
    table: Table,
    known: Knowledge,
    *,
    form: Form | None = None,
    max_sweeps: int = MAX_SWEEPS,
    max_bytes: int = MAX_BYTES,
) -> LogLinearFit:
    """Fits the model of the released sub-tables; every set of them is one, for what lies within them is in it too.

    form  of IPF, "sparse" on the cells that can be positive or "dense" on an array; by default the closed form where
          it holds, else sparse

    Cells that the fit leaves empty are found first, so that IPF converges geometrically (Fienberg and Rinaldo 2012), to
    1e-12 of the records. Where they are too many to find it may be slow, and ends at a thousandth of a record.
    InputError for a table without records, where IPF has not converged after so many sweeps, and as `ipf.fit`;
    ReleaseError where what is known is of another table.
    """
    from scipy.special import kl_div  # n log(n / m) - n + m, no term of which is below 0

    known.check_is_of(table)
    if not table.total:
        raise InputError("the table has no records; there is nothing to fit")
    whole = replace(known, facts=NO_FACTS)
    estimable, flat = Estimable(table, whole), table.flat
    ending = Stop(PRECISION * table.total if estimable.is_proven else STOP.tolerance, max_sweeps)
    found = ipf.fit(flat, whole.flat, form=form, within=estimable.supports, stop=ending, max_bytes=max_bytes)
    if not found.converged:
        raise InputError(
            f"the fit has not converged: after {found.sweeps} sweeps a marginal is {found.deviation:.3g} records from "
            f"its count, and {ending.tolerance:.3g} are allowed; allow more sweeps, or leave out a sub-table"
        )
    fitted, schema = found.at(flat.codes), table.schema
    elsewhere = max(0.0, float(found.values.sum() - fitted.sum()))  # where the count is 0
    size = len(found.cells) * found.spread
    is_every = size == schema.cells
    terms = estimable.terms(found.cells, found.variables, is_every)
    return LogLinearFit(
        table,
        whole.release,
        found,
        2 * (float(kl_div(table.counts, fitted).sum()) + elsewhere),
        float((np.square(table.counts - fitted) / fitted).sum()) + elsewhere,
        size,
        degrees_of_freedom(whole.release, schema) + 1,
        estimable.parameters,
        terms,
        _effects(found, terms) if is_every and schema.levels.is_flat else {},
        len(known.facts),
    ).named_by(schema)


def _effects(fit: Fit, terms: Sequence[Term]) -> dict[SubTable, Values]:
    """Of each term, after all that are within it, what its averages have beside them; none beyond 2^24 numbers."""
    kept = st.members(fit.variables)
    if len(fit.cells) * len(terms) > MOST_ENTRIES:
        return {}
    logs = np.log(fit.values / fit.spread).reshape([fit.schema.sizes[v] for v in kept])
    found: dict[SubTable, Values] = {}
    for term in (one.sub_table for one in terms):
        away = tuple(axis for axis, v in enumerate(kept) if not st.has(term, v))
        average = logs.mean(axis=away, keepdims=True)
        found[term] = average - sum(own for other, own in found.items() if st.is_within(other, term))
    return {term: own.reshape([fit.schema.sizes[v] for v in st.members(term)]) for term, own in found.items()}
