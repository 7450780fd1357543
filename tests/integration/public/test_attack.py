"""What is guessed from published tables alone, and how it is scored."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given

from sdc.config.earlier import EarlierConfig
from sdc.intruder.guesses import ALONE, Score, Values, mean_score
from sdc.model.cell_bounds import CellBounds
from sdc.model.errors import ConfigError, InputError
from sdc.model.schema import Schema
from sdc.model.table import Table
from sdc.public.attack import Measurement, Target, attack_on, guesses
from sdc.public.check import read_all
from sdc.public.mixture import Mixture
from tests.integration.public.test_check import NOT_THERE, Told, marginal, tables_of
from tests.levels import Rng, generators
from tests.strategies import dense, schema_of


def sums(one: Measurement, target: Target, cells: Values) -> Values:
    """(n,) of dense cells, what the measurement counts."""
    out = tuple(v for v in range(len(target.schema)) if v not in one.variables)
    own = cells.reshape(target.schema.sizes).sum(axis=out).reshape(-1)
    return np.bincount(one.place, own, len(one.counts) + 1)[: len(one.counts)]


class Scaling:
    """Iterative proportional fitting, in place of the method that is installed apart."""

    method = "scaling"
    target: Target

    def __call__(self, target: Target, seeds: Sequence[int]) -> Values:
        self.target, found = target, np.full(target.schema.cells, target.total / target.schema.cells)
        every = target.schema.keys.unpack(np.arange(target.schema.cells))
        for one in target.measurements * 300:
            place = one.place[target.schema.space(one.variables).pack(every[:, one.variables])]
            own = sums(one, target, found)
            factor = np.divide(one.counts, own, out=np.zeros(len(own)), where=own > 0)
            found = found * np.append(factor, 1)[place]
        return np.stack([found for _ in seeds])


def on(schema: Schema, table: Table) -> Values:
    """The counts of a table, dense, as a schema of its variables codes them."""
    columns = []
    for variable in schema.variables:
        v, code = table.schema.index(variable.name), {c: place for place, c in enumerate(variable.categories)}
        columns.append(
            np.array([code.get(c, -1) for c in table.schema.variables[v].categories])[
                table.schema.columns(table.codes, [v])[:, 0]
            ]
        )
    return np.bincount(schema.keys.pack(np.stack(columns, axis=1)), table.counts, schema.cells)


@given(generators())
def test_what_is_fitted_is_what_the_table_has(rng: Rng) -> None:
    """Whatever is published of it: marginals, lists, recoded, of some records, or with cells withheld."""
    table, told = tables_of(rng)
    scaling = Scaling()
    try:
        found = attack_on(told, (0,), scaling)
    except InputError as error:
        lacking = (
            *NOT_THERE,
            "no published table has exact counts of all records",
            "no published table of all records",
        )
        if not any(said in str(error) for said in lacking):
            raise
        assume(False)
    target, truth = scaling.target, on(found.schema, table)
    assert found.total == table.total
    assert (found.published, found.telling) == (len(told), len(target.measurements))
    for one in target.measurements:
        assert sums(one, target, truth).tolist() == one.counts.tolist()
    assert found.alone.sum() == pytest.approx(table.total)


def test_a_rounded_table_is_fitted_as_it_may_be_off() -> None:
    table = dense(schema_of([2, 2]), [5, 7, 11, 4])
    published, relation = marginal(table, 0b11, "rounded")
    told = replace(published, table=dense(published.table.schema, [6, 6, 9, 3]), base=3)
    scaling = Scaling()
    attack_on([(told, relation), marginal(table, 0b01, "exact")], (0,), scaling)
    assert sorted((one.base, one.counts.tolist()) for one in scaling.target.measurements) == [
        (0, [12, 15]),
        (3, [6, 6, 9, 3]),
    ]


def test_of_a_decomposable_release_its_closed_form_is_expected() -> None:
    """And independence by one who has the one-way tables only."""
    counts = np.arange(1, 13).reshape(2, 3, 2)
    table = dense(schema_of([2, 3, 2]), counts.ravel().tolist())
    # what another one tells is not fitted too
    found = attack_on([marginal(table, kept, str(kept)) for kept in (0b011, 0b110, 0b001, 0b010)], (0,), Scaling())
    assert (found.published, found.telling) == (4, 2)
    ab, bc, b = counts.sum(axis=2), counts.sum(axis=0), counts.sum(axis=(0, 2))
    assert found.by_intruder["seed 0"] == pytest.approx((ab[:, :, None] * bc[None] / b[:, None]).ravel())
    alone = np.einsum("a,b,c->abc", counts.sum(axis=(1, 2)), b, counts.sum(axis=(0, 1))) / counts.sum() ** 2
    assert found.by_intruder[ALONE] == pytest.approx(alone.ravel())


def test_what_is_guessed_is_told_by_names(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("seed 0,b,count\nx,u,4\nx,v,2\ny,u,1\ny,v,3\n")
    found = attack_on(read_all([tmp_path / "t.csv"], ()), (0,), Scaling())
    columns = found.columns(found.schema)
    assert [*columns] == ["variable:seed 0", "variable:b", "seed 0", "independence"]
    assert [*map(list, columns.values())] == [
        ["x", "x", "y", "y"],
        ["u", "v", "u", "v"],
        pytest.approx([4, 2, 1, 3]),
        pytest.approx([3, 3, 2, 2]),
    ]
    assert found.least(1) == (4, [{"cell": {"seed 0": "y", "b": "u"}, "guessed": pytest.approx(1), ALONE: 2.0}])
    assert repr(found) == "Guesses of 4 cells by scaling; independence of all variables, from one-way tables alone"


def test_a_guess_is_right_where_it_is_once_rounded() -> None:
    """Cells in C order, of which the table lists those with records alone."""
    table = dense(schema_of([2, 3]), [0, 1, 2, 1, 5, 0])
    expected = np.array([[0.3, 1.4, 1.6, 0.2, 4.8, 2.2], [1.5, 1.0, 1.0, 1.0, 1.0, 0.5]])
    published = marginal(table, 0b11, "t")
    found = replace(attack_on([published], (), Scaling()), seeds=(4,), guessed=expected[:1], alone=expected[1])
    bounds = CellBounds(
        table.codes[:3],
        table.counts[:3],
        np.array([[1, 4], [1, 2], [0, 3]]),
        np.array([[1, 1], [2, 2], [1, 1]]),
        "hand",
    )
    own = guesses(found, table, 2)
    assert own.expected.tolist() == expected[:, [1, 2, 3]].tolist()
    assert own.scores(bounds) == {
        "seed 4": Score(cells=4, at_risk=2, provable=2, claimed=3),
        ALONE: Score(cells=3, at_risk=2, provable=1, claimed=5),
    }
    assert mean_score(own.scores(bounds)) == {"cells": 4.0, "at_risk": 2.0, "provable": 2.0, "claimed": 3.0}
    (only,) = guesses(found, table, 1).claimed[:1]
    assert only == 1


def refused(told: list[Told], message: str) -> None:
    with pytest.raises(InputError, match=message):
        attack_on(told, (), Scaling())


def test_what_cannot_be_guessed_says_why() -> None:
    table = dense(schema_of([2, 2]), [5, 7, 11, 4])
    published, relation = marginal(table, 0b11, "one")
    first = table.schema.variables[0]
    of_some = published, EarlierConfig(folder="one", where={first.name: first.categories[:1]})
    refused([(replace(published, base=3), relation)], "has exact counts of all records, .* name one that does")
    refused([of_some, marginal(table, 0b10, "two")], f"no published table of all records has '{first.name}'; name one")
    other = marginal(dense(table.schema, [5, 7, 11, 5]), 0b10, "other")
    refused(
        [marginal(table, 0b01, "two"), other],
        "contradicts itself, other has 28 records, two has 27; name what is of one table",
    )


def test_more_cells_than_are_reconstructed_are_refused(tmp_path: Path) -> None:
    for v in range(21):
        (tmp_path / f"{v}.csv").write_text(f"v{v},count\nno,3\nyes,2\n")
    with pytest.raises(InputError, match=r"has 2097152 cells together and 42 in the tables to fit; at most 1048576"):
        attack_on(read_all([tmp_path], ()), (0,), Scaling())


@pytest.mark.parametrize("package", ["mbi", "optax"])
def test_without_the_extra_it_says_what_to_install(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigError, match=rf"needs .*{package}.*; run: .*tables\[attack\]', or set seeds to 0"):
        Mixture().require()
