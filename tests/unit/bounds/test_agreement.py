"""Every method against the judge, the enumeration of all feasible tables, on thousands of random cases."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from sdc.bounds import dichotomous
from sdc.bounds.enumeration import enumerate_tables
from sdc.bounds.method import method_called, method_names
from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds
from sdc.model.errors import ReleaseError
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.structural_zeros import NO_ZEROS, StructuralZeros
from sdc.model.table import Table
from tests.profiles import scaled
from tests.strategies import all_ways, dks_2x2x2x2, every_cell, knows, schema_of

METHODS = {**{name: method_called(name) for name in method_names()}, "dichotomous": dichotomous.bounds}
EXACT = ("decomposable", "dichotomous", "reducible", "branch-and-bound", "integer-program", "exact", "enumeration")
PARTIAL = ("decomposable", "dichotomous")
SOLVER = ("integer-program", "exact", "auto")
MOST_TABLES = 3_000
KINDS = ("nested", "reducible", "cyclic", "all-ways", "uncovered", "any")
SIZES = [(2, 4), (2, 3, 4), (3, 3, 2), (4, 4), (2, 2, 2), (2, 2, 2, 2), (2, 3, 2, 2), (2, 2, 2, 2, 2), (2,) * 6]
ROUNDS = scaled(50, fewest=2)
SOLVER_EVERY = 12


def random_table(rng: np.random.Generator, sizes: tuple[int, ...], dense: bool) -> Table:
    """A few records spread thin, or every cell with a chance of some."""
    cells = every_cell(schema_of(list(sizes)))
    if dense:
        counts = rng.integers(0, 4, len(cells)) * (rng.random(len(cells)) < 0.7)
    else:
        counts = np.bincount(rng.integers(0, len(cells), rng.integers(1, 9)), minlength=len(cells))
    return Table.of(schema_of(list(sizes)), cells, counts)


def random_release(rng: np.random.Generator, kind: str, variables: int) -> Release:
    order = rng.permutation(variables).tolist()
    if kind == "nested":
        return Release.of(st.of(order[:k]) for k in rng.integers(0, variables + 1, 3).tolist())
    if kind == "reducible":
        cut = int(rng.integers(1, variables))
        shared = order[max(0, cut - int(rng.integers(0, 3))) : cut]
        sides = (order[:cut], shared + order[cut:])
        pairs = [st.of((a, b)) for side in sides for a, b in zip(side, side[1:] + side[:1], strict=True)]
        return Release.of([*pairs, st.of(shared)])
    if kind == "cyclic":
        pairs = [st.of((a, b)) for a, b in zip(order, order[1:] + order[:1], strict=True)]
        return Release.of([*pairs, *rng.integers(0, 1 << variables, rng.integers(0, 3)).tolist()])
    if kind == "all-ways":
        return all_ways(variables, int(rng.integers(1, variables)))
    kept = st.full(variables) & ~(1 << order[0]) if kind == "uncovered" else st.full(variables)
    return Release.of(int(s) & kept for s in rng.integers(0, 1 << variables, rng.integers(1, 7)))


def random_zeros(rng: np.random.Generator, table: Table) -> StructuralZeros:
    """Up to three patterns on one or more variables that no record is in."""
    found = []
    for _ in range(3):
        variables = np.flatnonzero(rng.random(len(table.schema)) < 0.6).tolist()
        pattern = tuple((v, (int(rng.integers(table.schema.sizes[v])),)) for v in variables)
        if pattern and not StructuralZeros((pattern,)).contains(table.codes, table.schema).any():
            found.append(pattern)
    return StructuralZeros(tuple(found))


def check(bounds: CellBounds, sharp: np.ndarray, name: str) -> None:
    assert (bounds.outer[:, 0] <= sharp[:, 0]).all(), name
    assert (bounds.outer[:, 1] >= sharp[:, 1]).all(), name
    assert (bounds.inner[:, 0] >= sharp[:, 0]).all(), name
    assert (bounds.inner[:, 1] <= sharp[:, 1]).all(), name


def applicable(known: Knowledge) -> set[str]:
    """The methods that treat any release, and those that treat this one."""
    names = set(METHODS)
    if known.structure.decomposition is None:
        names.remove("decomposable")
    if not known.structure.covered or not dichotomous.is_treatable(known.reduced.release, known.reduced.schema):
        names.remove("dichotomous")
    return names


def agree(table: Table, known: Knowledge, cells: np.ndarray, sharp: np.ndarray, skipped: tuple[str, ...]) -> set[str]:
    """The methods held against the judge; exact ones are exact, explicit bounds where there are no structural zeros."""
    usable = applicable(known)
    for name in sorted(set(PARTIAL) - usable):
        with pytest.raises(ReleaseError, match=r"is not decomposable|dichotomous takes"):
            METHODS[name](table, known, cells)
    for name in sorted(usable - set(skipped)):
        bounds = METHODS[name](table, known, cells)
        check(bounds, sharp, name)
        if name in EXACT and not (name == "decomposable" and known.zeros):
            assert bounds.exact.all(), name
    return usable - set(skipped)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("with_zeros", [False, True])
def test_all_methods_agree_with_the_judge(kind: str, with_zeros: bool, night: list[int]) -> None:
    rng = np.random.default_rng([KINDS.index(kind), with_zeros, *night])
    held: Counter[str] = Counter()
    for example in range(ROUNDS * len(SIZES)):
        table = random_table(rng, SIZES[example % len(SIZES)], dense=rng.random() < 0.3)
        release = random_release(rng, kind, len(table.schema))
        known = knows(table, release, random_zeros(rng, table) if with_zeros else NO_ZEROS)
        seen = enumerate_tables(table, known, MOST_TABLES)
        if seen.complete:
            cells, sharp = every_cell(table.schema), np.stack([seen.lower, seen.upper], axis=1)
            few = rng.permutation(len(cells))[: max(4, len(cells) // 4)]
            skipped = () if example % SOLVER_EVERY == 0 else SOLVER
            held.update(agree(table, known, cells[few], sharp[few], skipped))
    assert held["branch-and-bound"] > ROUNDS * len(SIZES) // 2
    assert held["exact"] > (20 if ROUNDS >= 50 else ROUNDS // 4)


@pytest.mark.parametrize("name", ["reducible", "branch-and-bound", "integer-program", "exact", "enumeration"])
def test_the_integrality_gap_is_closed(name: str) -> None:
    """[DKS] section 4: linear programming leaves [0, 1.67]; the two-way marginals have one integer table."""
    table = dks_2x2x2x2()
    cells = every_cell(table.schema)
    bounds = METHODS[name](table, knows(table, all_ways(4, 2)), cells)
    assert bounds.exact.all()
    assert (bounds.outer == table.count_at(cells)[:, None]).all()
