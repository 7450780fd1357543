"""Bounds of super-cells, whole and fractional, against every table that agrees, and the figures that [DKS] prints."""

from fractions import Fraction

import numpy as np
import pytest

from sdc.bounds.super_cells import bounds
from sdc.model import subtable as st
from sdc.model.errors import InputError, ReleaseError
from sdc.model.release import Release
from sdc.model.schema import Schema, Variable
from sdc.model.super_cell import SuperCell, SuperCellBounds
from sdc.model.table import Table
from tests.facts import FactCase, random_fact_case
from tests.levels import Rng
from tests.profiles import scaled
from tests.strategies import all_ways, dks_2x2x2x2, every_cell, frontier, knows, nested_in, schema_of


def random_super_cell(rng: Rng, schema: Schema) -> SuperCell:
    """Of each axis all categories, or some."""
    codes = [np.flatnonzero(rng.random(size) < 0.5).tolist() for size in schema.keys.sizes]
    whole = rng.random(len(codes)) < 0.3
    pairs = zip(codes, whole, schema.keys.sizes, strict=True)
    return SuperCell(tuple(tuple(range(size)) if all_ or not own else tuple(own) for own, all_, size in pairs))


def judged(of: FactCase, one: SuperCell) -> tuple[int, int]:
    """Smallest and largest sum over all tables that agree."""
    inside = [all(code in own for code, own in zip(cell, one.codes, strict=True)) for cell in of.cells.tolist()]
    sums = of.tables[:, np.array(inside)].sum(axis=1)
    return int(sums.min()), int(sums.max())


def assert_contains(found: SuperCellBounds, sharp: np.ndarray) -> None:
    assert nested_in(sharp, found.outer)


@pytest.mark.parametrize("seed", range(scaled(300)))
def test_bounds_are_those_of_all_tables_that_agree(seed: int) -> None:
    rng = np.random.default_rng(seed)
    of = random_fact_case(rng)
    asked = [random_super_cell(rng, of.schema) for _ in range(4)]
    sharp = np.array([judged(of, one) for one in asked])
    for method in ("auto", "integer-program", "enumeration", "collapse"):
        found = bounds(of.table, of.known, asked, method)
        assert_contains(found, sharp)
        assert nested_in(found.inner, sharp)
        if method != "collapse":
            assert found.exact.all(), method
    assert_contains(bounds(of.table, of.known, asked, "shuttle"), sharp)
    fractions = bounds(of.table, of.known, asked, "fractional")
    assert_contains(fractions, sharp)
    assert fractions.exact.all()


def test_the_published_fractions() -> None:
    """[DKS] table 1: [0, 1] for the ones, [0, 0.67] for the zeros, [0, 1.67] for (n, n, y, n); all of them forced."""
    table, release = dks_2x2x2x2(), all_ways(4, 2)
    cells = every_cell(table.schema)
    found = bounds(table, knows(table, release), SuperCell.of_cells(cells), "fractional")
    largest = [
        Fraction(5, 3) if cell.tolist() == [0, 0, 1, 0] else Fraction(1) if count else Fraction(2, 3)
        for cell, count in zip(cells, table.count_at(cells), strict=True)
    ]
    assert found.exact.all()
    assert found.outer.tolist() == [[0, most] for most in largest]
    whole = bounds(table, knows(table, release), SuperCell.of_cells(cells), "integer-program")
    assert whole.outer.tolist() == [[count, count] for count in table.count_at(cells)]


def test_a_wide_table_is_collapsed() -> None:
    """13 variables of 4 categories: of a clique exact, of separate cliques too, of a cycle outer."""
    rng = np.random.default_rng(0)
    table = Table.of(schema_of([4] * 13), rng.integers(0, 4, (2000, 13)))
    apart = Release.of([st.of([0, 1]), st.of([2, 3])])
    cycle = Release.of(st.of([v, (v + 1) % 13]) for v in range(13))
    one = SuperCell.named({"v00": ["0", "1"], "v02": "3"}, table.schema)
    told = SuperCell.named({"v00": ["0", "1"], "v01": "3"}, table.schema)
    for release, asked, method, exact in (
        (apart, one, "collapse", True),
        (apart, told, "released", True),
        (cycle, one, "collapse", False),
        (cycle, told, "released", True),
    ):
        found = bounds(table, knows(table, release), [asked])
        assert found.method == method
        assert found.exact.tolist() == [exact]
    with pytest.raises(ReleaseError, match="the integer program takes at most 4096"):
        bounds(table, knows(table, cycle), [one], "integer-program")
    with pytest.raises(ReleaseError, match="bounds over fractions take at most 4096; leave fractional out, or choose"):
        bounds(table, knows(table, cycle), [one], "fractional")


def test_a_method_of_single_cells_is_refused() -> None:
    table = dks_2x2x2x2()
    one = SuperCell.named({"A": "0"}, table.schema)
    with pytest.raises(ReleaseError, match="the method moves is none of super-cells; choose one of auto, integer"):
        bounds(table, knows(table, frontier("AB", "CD")), [one], "moves")


AGES = Schema((Variable("age", ("young", "old", "a, (b)")), Variable("sex", ("f", "m", "<3"))))


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("age=old", ((1,), (0, 1, 2))),
        ("age in (old, young), sex=f", ((0, 1), (0,))),
        (' sex = <3 , age in ("a, (b)",old)', ((1, 2), (2,))),
        ('age="a, (b)"', ((2,), (0, 1, 2))),
        ("age in (old)", ((1,), (0, 1, 2))),
    ],
)
def test_super_cells_are_written(text: str, codes: tuple[tuple[int, ...], ...]) -> None:
    assert SuperCell.parse(text, AGES).codes == codes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("age in ()", "a super-cell has no category of 'age'; name at least one"),
        ("age in (teen)", "a super-cell names 'teen', which is not a category of 'age'; choose one of its own"),
        ("height=1", "unknown variable 'height'; the table has age, sex"),
        ("age=old, age=young", "names 'age' twice; name each variable once"),
        ("", "is not written such as"),
        ("age in (old", "is not written such as"),
        ("age in (old,,young)", "is not written such as"),
        ("age=", "is not written such as"),
        ("age=old sex=f)", "names 'old sex=f\\)', which is not a category of 'age'"),
    ],
)
def test_what_is_no_super_cell_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        SuperCell.parse(text, AGES)
