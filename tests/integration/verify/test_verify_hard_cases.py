"""Certificates of tables by hand, that prove something only where a rule of the proof is forgotten."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sdc.feasible.differences import Differences
from sdc.feasible.proof import ComponentProof, Proof
from sdc.model.cell_bounds import CellBounds
from sdc.model.graph import Decomposition
from sdc.model.release import Release
from sdc.model.schema import Schema, Variable
from sdc.model.structural_zeros import StructuralZeros
from sdc.model.table import Table
from sdc.verify.run_folder import Verification, verify
from tests.integration.verify.forging import (
    BEYOND,
    alone,
    before,
    certified,
    evidence,
    forged,
    only,
    proof_with,
    proven,
    rejected,
    shared,
    sharp_bounds,
    with_part,
)
from tests.integration.verify.test_verify import EMPTY, KDSF, NEVER, explicit_bounds, two_cycles
from tests.strategies import czech, frontier, knows, rewritten, schema_of


def many(variables: int, categories: int) -> Schema:
    return Schema(tuple(Variable(f"v{v:02}", tuple(map(str, range(categories)))) for v in range(variables)))


def unmoved(table: Table) -> CellBounds:
    """What is claimed of at-risk cells of which nothing is known."""
    cells = table.codes[table.at_risk(2)]
    counts = table.count_at(cells)
    outer = np.stack([0 * counts, 0 * counts + table.total], axis=1)
    return CellBounds(cells, counts, outer, np.stack([counts, counts], axis=1), "none")


def proves_nothing(found: Verification, *words: str) -> None:
    """No cell is certified, and failures have these words."""
    assert found.certified_cells == 0
    for one in words:
        assert any(one in failure for failure in found.failures), found.failures
    assert not any(BEYOND in failure for failure in found.failures)


def test_changes_that_add_up_to_nothing_only_in_64_bits(tmp_path: Path) -> None:
    """Each cell gains 2^60, and the 16 cells of a released marginal cell 2^64: in 64 bits that is nothing."""
    table, release = czech(), frontier("AB", "BC")
    cells = np.array(list(np.ndindex(*table.schema.sizes)), np.uint16)
    huge = Differences(np.array([0, len(cells)]), cells, np.full(len(cells), 1 << 60, np.int64))
    assert not huge.feasible(table, knows(table, release)).any()
    run = forged(
        tmp_path / "run", table, certified(table, release, alone(table, None, huge), 10), explicit_bounds(release)
    )
    proves_nothing(verify(run), "1 of 1 differences give no feasible table")


def test_changes_within_the_total_that_add_up_to_nothing_only_in_64_bits(tmp_path: Path) -> None:
    """2^53 records; each of the 2,048 cells of a released marginal cell gains 2^53, in all 2^64."""
    table = Table.of(many(12, 2), np.array([[0] * 12, [1] * 12]), np.array([(1 << 53) - 1, 1]))
    cells = np.array([(0, *rest) for rest in np.ndindex(*[2] * 11)], np.uint16)
    huge = Differences(np.array([0, len(cells)]), cells, np.full(len(cells), 1 << 53, np.int64))
    certificate = certified(table, Release.of([1]), alone(table, None, huge))
    proves_nothing(
        verify(forged(tmp_path / "run", table, certificate, unmoved(table))), "1 of 1 differences give no feasible"
    )


@pytest.mark.parametrize("changed", [False, True])
def test_a_cell_space_far_beyond_64_bits(changed: bool, tmp_path: Path) -> None:
    """63 variables of 4 categories: every cell is told from every other, and exchanges are feasible or are not."""
    table = Table.of(many(63, 4), np.random.default_rng(3).integers(0, 4, (40, 63)))
    one, other = table.codes[:2].copy()
    one_crossed, other_crossed = one.copy(), other.copy()
    one_crossed[:30], other_crossed[:30] = other[:30], one[:30]
    cells = np.stack([one, other, one_crossed, other_crossed])
    cells[3, 62] = (cells[3, 62] + 1) % 4 if changed else cells[3, 62]
    exchange = Differences(np.array([0, 4]), cells, np.array([-1, -1, 1, 1]))
    release = Release.of([(1 << 30) - 1, (1 << 63) - (1 << 30)])
    certificate = certified(table, release, alone(table, None, exchange))
    found = verify(forged(tmp_path / "run", table, certificate, unmoved(table)))
    assert (found.at_risk_cells, found.certified_cells) == (40, 0 if changed else 2)
    assert any("1 of 1 differences give no feasible" in failure for failure in found.failures) is changed


@pytest.mark.parametrize(("cover", "certified_cells"), [(0b01, 1), (0b11, 1), (0b00, 0), (0b10, 0), (0b101, 0)])
def test_what_no_clique_has_is_free(cover: int, certified_cells: int, tmp_path: Path) -> None:
    """A = a is released with B, which has one category; C is in no clique, so a cell may take all of A = a or nothing.

    C        no yes
    A = a     2   9
    A = b     9   9
    """
    schema = Schema((Variable("A", ("a", "b")), Variable("B", ("all",)), Variable("C", ("no", "yes"))))
    table = Table.of(schema, np.array([[0, 0, 0], [0, 0, 1], [1, 0, 0], [1, 0, 1]]), np.array([2, 9, 9, 9]))
    sharp = sharp_bounds(table, frontier("AB"))
    assert sharp.outer.tolist() == [[0, 11]]
    certificate = certified(table, frontier("AB"), alone(table, Decomposition((cover,), ())), 11)
    found = verify(forged(tmp_path / "run", table, certificate, sharp))
    assert (found.certified_cells, found.verified) == (certified_cells, bool(certified_cells))


@pytest.mark.parametrize("release", [("ABCD", "CE"), ("AB", "CE"), ("AB", "AC", "BD", "CD", "CE"), ("A",), ("",)])
def test_variables_that_are_not_released_are_components(release: tuple[str, ...], tmp_path: Path) -> None:
    """Left out of the certificate, what they say of a cell is missing, and nothing is proven."""
    table, public = two_cycles(), frontier(*release)
    bounds, certificate = proven(table, public)
    assert 0b100000 in [part.variables for part in certificate.proof.parts]
    run = forged(tmp_path / "run", table, certificate, bounds)
    assert verify(run).failures == ()
    kept = tuple(part for part in certificate.proof.parts if part.variables != 0b100000)
    proof = Proof(kept, shared([part.variables for part in kept]))
    proves_nothing(rejected(run, proof_with(lambda _: proof), "the components do not have every variable"))


def test_a_cycle_split_where_it_must_not_be(tmp_path: Path) -> None:
    """Two records at nnnn and yyyn pin each other; BC is not released, and apart from A, BCD could move.

    A - B
    |   |
    C - D
    """
    table = Table.of(schema_of([2, 2, 2, 2]), np.array([[0, 0, 0, 0], [1, 1, 1, 0]]))
    release = frontier("AB", "AC", "BD", "CD")
    sharp = sharp_bounds(table, release)
    assert (sharp.outer == 1).all()
    halves = []
    for half in (0b0111, 0b1110):
        inside, public = table.marginal(half), rewritten(release.frontier, half)
        halves.append(replace(only(evidence(inside, public)), variables=half))
    assert len(halves[1].differences)
    certificate = certified(table, release, Proof(tuple(halves), (0b0110,)))
    found = verify(forged(tmp_path / "run", table, certificate, sharp))
    assert found.failures == ("the separator B*C is not released",)
    proves_nothing(found)


def test_a_difference_that_fills_an_impossible_cell(tmp_path: Path) -> None:
    """What is feasible without the structural zero fills its cell; with it the evidence is none."""
    table = czech()
    certificate = replace(evidence(table, KDSF, 6), known=before(table, NEVER))
    found = only(certificate).differences
    filling = {d for d, (cells, _) in enumerate(found) if (cells == EMPTY).all(axis=1).any()}
    assert filling
    failures = verify(forged(tmp_path / "run", table, certificate, sharp_bounds(table, KDSF))).failures
    assert any(f"{len(filling)} of {len(found)} differences" in failure for failure in failures)
    assert any("claims releasable, but" in failure for failure in failures)


def test_a_cover_that_forgets_a_structural_zero(tmp_path: Path) -> None:
    """The explicit bounds are reached only by tables that fill the cell known to be impossible."""
    table, release = czech(), frontier("ABDEF", "ACDEF")
    honest = evidence(table, release, 10)
    certificate = replace(with_part(honest, differences=Differences.none(6)), known=before(table, NEVER))
    found = verify(forged(tmp_path / "run", table, certificate, explicit_bounds(release)))
    proves_nothing(found, "the structural zero A = yes and B = no and", "but 3 of 3 cells are not proven")


def test_components_that_forget_a_structural_zero(tmp_path: Path) -> None:
    """Two components, and a combination of variables of both that cannot occur."""
    table, release = two_cycles(), frontier("AB", "CDEF")
    bounds, certificate = proven(table, release)
    patterns = (((0, (a,)), (2, (c,)), (5, (f,))) for a, c, f in np.ndindex(2, 2, 2))
    zeros = next(
        z for z in (StructuralZeros((p,)) for p in patterns) if not z.contains(table.codes, table.schema).any()
    )
    found = verify(forged(tmp_path / "run", table, replace(certificate, known=before(table, zeros)), bounds))
    proves_nothing(found, "the structural zero A = ", "within no component")
    honest, certificate = proven(table, release, zeros=zeros)
    assert 0b100101 in [part.variables for part in certificate.proof.parts]
    assert verify(forged(tmp_path / "honest", table, certificate, honest)).failures == ()


@pytest.mark.parametrize("as_difference", [True, False])
def test_a_structural_zero_that_names_a_variable_of_one_category(as_difference: bool, tmp_path: Path) -> None:
    """A = a and C = yes cannot occur. The zero names B too, which all have, and a part without B does not know it.

    C        no yes
    A = a     2   -
    A = b     1   1
    """
    schema = Schema((Variable("A", ("a", "b")), Variable("B", ("all",)), Variable("C", ("no", "yes"))))
    zeros = StructuralZeros((((0, (0,)), (1, (0,)), (2, (1,))),))
    table = Table.of(schema, np.array([[0, 0, 0], [1, 0, 0], [1, 0, 1]]), np.array([2, 1, 1]))
    sharp = sharp_bounds(table, frontier("A", "C"), zeros)
    assert (sharp.outer == sharp.counts[:, None]).all()
    cells = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], np.uint16)
    exchange = Differences(np.array([0, 4]), cells, np.array([-1, 1, 1, -1]))
    apart = Decomposition((0b01, 0b10), (0,))
    part = ComponentProof(0b101, None, exchange) if as_difference else ComponentProof(0b101, apart, Differences.none(2))
    proof = Proof((part, ComponentProof(0b010, None, Differences.none(1))), (0,))
    certificate = certified(table, frontier("A", "C"), proof, zeros=zeros)
    found = verify(forged(tmp_path / "run", table, certificate, sharp))
    proves_nothing(found)
    assert not found.verified
