"""Fits of log-linear models beside Poisson regression on the cells that linear programs find, and the forms of IPF."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given
from hypothesis import strategies as hs
from scipy.optimize import linprog

from sdc.model import subtable as st
from sdc.model.errors import InputError
from sdc.model.fact import suppressed_fact
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.schema import Schema, Variable
from sdc.model.structural_zeros import NO_ZEROS
from sdc.model.table import Table
from sdc.utility import estimable
from sdc.utility.ipf import Form
from sdc.utility.loglinear import LogLinearFit, fit_model
from tests.levels import random_release, random_schema, random_table, random_zeros
from tests.strategies import (
    ORDERED_60,
    all_ways,
    czech,
    dense,
    every_cell,
    frontier,
    knows,
    schema_of,
    tables_and_knowledge,
)

Values = npt.NDArray[np.float64]
FORMS: list[Form | None] = [None, "sparse", "dense"]


# The judge


@dataclass(frozen=True)
class Judged:
    """What a Poisson regression fits to dense counts; of all cells, in C order."""

    fitted: Values
    deviance: float
    pearson: float
    degrees_of_freedom: int


def design(table: Table, known: Knowledge) -> Values:
    """(cells, columns) whether each cell is in each marginal cell of what is released; more columns than rank."""
    cells = table.schema.columns(table.schema.keys.unpack(np.arange(table.schema.cells)))
    blocks = [np.ones((len(cells), 1))]
    for element in known.release.frontier:
        _, group = np.unique(cells[:, list(st.members(element))], axis=0, return_inverse=True)
        blocks.append(np.eye(int(group.max()) + 1)[group.reshape(-1)])
    return np.hstack(blocks)


def is_positive(matrix: Values, counts: Values, possible: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Cell by cell, whether a table of real numbers with these sums is positive there."""
    found = np.zeros(len(counts), np.bool_)
    bounds = [(0, None if one else 0) for one in possible]
    for cell in range(len(counts)):
        best = linprog(-np.eye(len(counts))[cell], A_eq=matrix.T, b_eq=matrix.T @ counts, bounds=bounds)
        found[cell] = -best.fun > 1e-7
    return found


def judge(table: Table, known: Knowledge) -> Judged:
    """Newton's method for the Poisson likelihood, with a column for each direction in which the model can go."""
    counts, matrix = table.dense.reshape(-1).astype(float), design(table, known)
    possible = ~known.zeros.contains(table.schema.keys.unpack(np.arange(len(counts))), table.schema)
    kept = is_positive(matrix, counts, possible)
    left, sizes, _ = np.linalg.svd(matrix[kept], full_matrices=False)
    basis, own = left[:, sizes > 1e-9], counts[kept]
    start = np.full(len(own), np.log(own.mean()))
    theta = basis.T @ start
    for _ in range(200):
        fitted = np.exp(basis @ theta)
        step = np.linalg.solve(basis.T @ (fitted[:, None] * basis), basis.T @ (own - fitted))
        before, scale = fitted.sum() - own @ (basis @ theta), 1.0
        while scale > 1e-8:
            ahead = basis @ (theta + scale * step)
            if np.exp(ahead).sum() - own @ ahead <= before + 1e-13 * abs(before):
                break
            scale /= 2
        theta = theta + scale * step
        if np.abs(step).max() < 1e-13:
            break
    fitted = np.zeros(len(counts))
    fitted[kept] = np.exp(basis @ theta)
    there = counts > 0
    deviance = 2 * float((counts[there] * np.log(counts[there] / fitted[there])).sum())
    pearson = float(((own - fitted[kept]) ** 2 / fitted[kept]).sum())
    return Judged(fitted, deviance, pearson, int(kept.sum()) - basis.shape[1])


def agrees(found: LogLinearFit, judged: Judged) -> None:
    cells = found.table.schema.keys.unpack(np.arange(found.table.schema.cells))
    fitted = found.at(cells)
    assert fitted == pytest.approx(judged.fitted, abs=1e-8)
    assert found.deviance == pytest.approx(judged.deviance, abs=1e-8)
    assert found.pearson == pytest.approx(judged.pearson, abs=1e-7)
    assert found.degrees_of_freedom == judged.degrees_of_freedom
    assert found.fitted_cells == (judged.fitted > 0).sum()
    assert sum(term.estimable or 0 for term in found.terms) == found.estimable
    assert sum(term.parameters for term in found.terms) == found.parameters


@given(tables_and_knowledge(max_records=16), hs.sampled_from(FORMS))
def test_any_model_of_any_table_as_a_regression_has_it(case: tuple[Table, Knowledge], form: Form | None) -> None:
    table, known = case
    assume(table.total)
    agrees(fit_model(table, known, form=form), judge(table, known))


@pytest.mark.parametrize("number", range(60))
def test_levels_are_columns_of_the_regression(number: int) -> None:
    rng = np.random.default_rng(number)
    schema = random_schema(rng)
    table = random_table(rng, schema)
    if table.total:
        known = knows(table, Release.of(random_release(rng, schema)), random_zeros(rng, table))
        agrees(fit_model(table, known), judge(table, known))


# What is known of zeros


def test_a_fit_that_goes_to_0_where_no_marginal_is() -> None:
    """Haberman (1974): of 2x2x2 with all pairs two opposite zeros; one degree of freedom, one parameter too many."""
    table = dense(schema_of([2, 2, 2]), [0, 3, 4, 5, 6, 7, 2, 0])
    found = fit_model(table, knows(table, all_ways(3, 2)))
    assert (found.fitted_cells, found.parameters, found.estimable, found.degrees_of_freedom) == (6, 7, 6, 0)
    assert [(term.sub_table, term.estimable) for term in found.terms if term.estimable != term.parameters] == [(6, 0)]
    assert found.deviance == pytest.approx(0, abs=1e-12)
    assert found.sweeps < 50


def test_what_is_too_large_to_know_is_not_said(monkeypatch: pytest.MonkeyPatch) -> None:
    table = dense(schema_of([2, 2, 2]), [0, 3, 4, 5, 6, 7, 2, 1])
    known = knows(table, all_ways(3, 2))
    assert fit_model(table, known).degrees_of_freedom == 1
    monkeypatch.setattr(estimable, "MOST_CELLS", 7)
    found = fit_model(table, known)
    assert (found.estimable, found.degrees_of_freedom, found.fitted_cells) == (None, None, 8)
    monkeypatch.undo()
    zero = dense(schema_of([2, 2, 2]), [0, 3, 4, 5, 6, 7, 2, 0])
    monkeypatch.setattr(estimable, "MOST_PARAMETERS", 6)
    found = fit_model(zero, knows(zero, all_ways(3, 2)))
    assert (found.degrees_of_freedom, {term.estimable for term in found.terms}) == (None, {None})
    monkeypatch.setattr(estimable, "MOST_TERMS", 6)
    assert fit_model(zero, knows(zero, all_ways(3, 2))).terms == ()


def test_ranks_are_those_of_matrices() -> None:
    rng = np.random.default_rng(0)
    schema = schema_of([3, 2, 4])
    known, terms = knows(dense(schema, [1] * 24), all_ways(3, 2)), [0, 1, 2, 4, 3, 5, 6]
    assert estimable.terms_of(known) == terms
    for cells in (rng.permutation(every_cell(schema))[:n] for n in range(1, 24)):
        blocks = [
            np.unique(cells[:, list(st.members(term))], axis=0, return_inverse=True)[1].reshape(-1) for term in terms
        ]
        columns = [np.eye(int(block.max()) + 1)[block] for block in blocks]
        of_so_many = [np.linalg.matrix_rank(np.hstack(columns[: n + 1])) for n in range(len(terms))]
        found = estimable.ranks(cells, st.full(3), known)
        assert found is not None
        assert np.cumsum(found).tolist() == of_so_many


# What is told


def test_a_published_table() -> None:
    """Czech car workers: what the release of [KDSF] 5.2 leaves of the saturated model."""
    table = czech()
    release = ORDERED_60
    for form in FORMS:
        found = fit_model(table, knows(table, release), form=form)
        assert found.method == f"{form or 'sparse'} IPF"
        assert (found.deviance, found.degrees_of_freedom) == (pytest.approx(7.1286904), 4)
        agrees(found, judge(table, knows(table, release)))
    assert repr(found) == "Fit of A*B*C*D*E A*B*D*E*F A*C*D*E*F A*B*C*F B*C*D*F B*C*E*F, by dense IPF"


def test_effects_add_up_to_the_logarithms_of_the_fit() -> None:
    table = czech()
    found = fit_model(table, knows(table, frontier("ABC", "CD", "DEF", "AF")))
    logs, cells = np.zeros(64), every_cell(table.schema)
    for term, effect in found.effects.items():
        assert all(effect.sum(axis=axis) == pytest.approx(0, abs=1e-12) for axis in range(effect.ndim))
        logs += effect[tuple(cells[:, v] for v in st.members(term))]
    assert logs == pytest.approx(np.log(found.at(cells)))
    assert {*found.effects} == {term.sub_table for term in found.terms}


def test_every_cell_with_a_positive_fit_is_listed() -> None:
    table = dense(schema_of([2, 3, 2]), [1, 2, 0, 3, 4, 0, 5, 6, 0, 7, 8, 9])
    found = fit_model(table, knows(table, frontier("B")))
    rows = found.to_arrow().to_pylist()
    assert [(row["A"], row["B"], row["C"]) for row in rows] == [tuple(map(str, c)) for c in every_cell(table.schema)]
    assert [row["count"] for row in rows] == table.dense.reshape(-1).tolist()
    assert [row["fitted"] for row in rows] == pytest.approx(found.at(every_cell(table.schema)).tolist())
    assert sum(row["fitted"] for row in rows) == pytest.approx(table.total)


def test_what_is_public_in_part_is_not_fitted() -> None:
    table = czech()
    part = suppressed_fact(3, np.array([[0, 0]], np.uint16), table.total, "A*B in part")
    known = Knowledge.of(table, frontier("A", "C"), NO_ZEROS, [part])
    found, alone = fit_model(table, known), fit_model(table, knows(table, frontier("A", "C")))
    assert (found.facts, alone.facts) == (1, 0)
    assert (found.deviance, found.degrees_of_freedom) == (alone.deviance, alone.degrees_of_freedom)


def test_a_decomposable_release_of_more_cells_than_anybody_lists() -> None:
    """A chain over 40 variables, 4^40 cells; one pair never meets, which takes a sixteenth of them off."""
    schema = Schema(tuple(Variable(f"v{v}", tuple("abcd")) for v in range(40)))
    codes = np.random.default_rng(0).integers(0, 4, (2000, 40))
    table = Table.of(schema, codes[(codes[:, 7] != 0) | (codes[:, 8] != 3)])
    found = fit_model(table, knows(table, Release.of(st.of({v, v + 1}) for v in range(39))))
    assert found.method == "closed form"
    assert found.fitted_cells == 4**40 - 4**38
    assert (found.parameters, found.estimable) == (1 + 40 * 3 + 39 * 9, 40 * 3 + 39 * 9)
    assert found.degrees_of_freedom == found.fitted_cells - 471
    assert {term.estimable for term in found.terms} == {None}
    assert found.deviance > 0
    with pytest.raises(InputError, match="cells have a positive fit, and at most 4,194,304 are listed; use fewer"):
        found.to_arrow()


# What is refused


def test_fits_that_cannot_be() -> None:
    table = czech()
    empty = Table.of(table.schema, table.codes[:0])
    with pytest.raises(InputError, match="the table has no records, so nothing can be fitted"):
        fit_model(empty, knows(empty, frontier("AB")))
    with pytest.raises(InputError, match="form = 'round': choose sparse or dense"):
        fit_model(table, knows(table, frontier("AB")), form="round")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"has not converged: after 2 sweeps a marginal is \S+ records from its count"):
        fit_model(table, knows(table, all_ways(6, 2)), max_sweeps=2)
    for form in ("sparse", "dense"):
        with pytest.raises(InputError, match=r"fitting [0-9]+ cells needs"):
            fit_model(table, knows(table, all_ways(6, 2)), form=form, max_bytes=1000)


# The non-zero cells alone ([DKS] 3.2)


def test_a_fit_of_the_non_zero_cells_by_hand() -> None:
    """Rows 3 0 5, 2 0 4, 6 1 0: the middle column is the 1 alone, then both other rows share by their totals.

    The cell of row 3 in the first column is all that its row has left, 6. Rows 1 and 2 share 5 and 9 of the columns
    by 8 and 6 of 14.
    """
    table = dense(schema_of([3, 3]), [3, 0, 5, 2, 0, 4, 6, 1, 0])
    found = fit_model(table, knows(table, frontier("A", "B")), support="non-zero")
    by_hand = [8 * 5 / 14, 8 * 9 / 14, 6 * 5 / 14, 6 * 9 / 14, 6, 1]
    assert found.at(table.codes) == pytest.approx(by_hand, abs=1e-9)
    assert found.fitted_cells == 6
    assert found.degrees_of_freedom == 1
    # by default zero cells have a fit too: 14 records of 7 in the third row
    possible = fit_model(table, knows(table, frontier("A", "B")))
    assert possible.fitted_cells == 9
    assert possible.at(np.array([[2, 2]]))[0] == pytest.approx(7 * 9 / 21)


def test_a_dense_fit_of_the_non_zero_cells_is_refused() -> None:
    table = dense(schema_of([2, 2]), [3, 0, 5, 2])
    with pytest.raises(InputError, match="leave it out for a fit of the non-zero ones"):
        fit_model(table, knows(table, frontier("A", "B")), support="non-zero", form="dense")
