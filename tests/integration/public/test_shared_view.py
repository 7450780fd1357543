"""Published tables in every order: whether they agree, who contradicts whom, and the bounds, by listing all tables."""

import re
from dataclasses import replace
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sdc.public.check as public_check
from sdc.model.cell_bounds import CellBounds
from sdc.model.schema import Schema
from sdc.model.table import Codes, Counts, Table
from sdc.public.check import Composition, check, composition
from sdc.public.system import System
from tests import reference
from tests.integration.public.test_check import Told, all_tables, bounds_of, composed, tables_of, write
from tests.profiles import scaled

CASES = scaled(200, fewest=40)


def outcome(found: Composition) -> tuple[object, ...]:
    return found.reason, found.method, found.schema, found.cells.tolist(), found.outer.tolist(), found.inner.tolist()


def is_of_all(told: Told) -> bool:
    return not told[1].where and not len(told[0].suppressed)


def judged(rng: np.random.Generator) -> bool | None:
    """Whether the drawn tables agree, once everything about them is as it must be; None where they are refused."""
    table, told = tables_of(rng, wrong=0.3)
    found = composed(told)
    for order in permutations(told):
        again = composed(list(order))
        assert (found is None) == (again is None)
        assert found is None or again is None or outcome(again) == outcome(found)
    if found is None:
        return None
    some = Schema(tuple(variable for variable in table.schema.variables if variable.name in found.schema.names))
    tables = all_tables(some, *told)
    assert found.consistent == (len(tables) > 0)
    if not found.consistent:
        named = [one for one in told if f"{one[0].source} " in f"{found.reason} "]
        clashing = [pair for pair in combinations(told, 2) if not len(all_tables(some, *pair))]
        if found.reason.startswith("no counts agree"):
            assert not [pair for pair in clashing if all(is_of_all(one) for one in pair)]
        else:
            assert not len(all_tables(some, *named))
        return False
    cells = [tuple(some.named(cell)[name] for name in found.schema.names) for cell in reference.every_cell(some.sizes)]
    expected = dict(zip(cells, reference.bounds(tables).tolist(), strict=True))
    assert {key: [0, 0] for key in cells} | bounds_of(found) == expected
    return True


@pytest.mark.parametrize("seed", [0])
def test_every_order_tells_what_all_tables_that_agree_tell(seed: int, night: list[int]) -> None:
    for one in [seed, *night]:
        rng = np.random.default_rng(one)
        answers = list[bool]()
        while len(answers) < CASES:
            if (answer := judged(rng)) is not None:
                answers.append(answer)
        assert min(sum(answers), CASES - sum(answers)) >= CASES // 4, "both answers must occur often"


def test_of_many_cells_bounds_are_those_of_few_or_contain_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """With suppressed cells and labels; what is reached is reached, and what is proven excludes no count."""
    rng, by_facts, sharp = np.random.default_rng(11), 0, 0
    of_facts = public_check._of_facts

    def counted(*asked: Any) -> CellBounds | None:
        nonlocal by_facts
        by_facts += (found := of_facts(*asked)) is not None
        return found

    def nothing_known(schema: Schema, _: Any, system: System, truth: Counts, cells: Codes, __: Any) -> CellBounds:
        counts = Table.of(schema, system.cells, truth).count_at(cells)
        outer = np.stack([0 * counts, np.full(len(cells), truth.sum())], axis=1)
        return CellBounds(cells, counts, outer, np.stack([counts, counts], axis=1), "none")

    monkeypatch.setattr(public_check, "_of_facts", counted)
    for _ in range(CASES):
        _, told = tables_of(rng)
        told = [(replace(one, met=frozenset(one.table.schema.names)), relation) for one, relation in told]
        if (found := composed(told)) is None or not found.consistent:
            continue
        with monkeypatch.context() as context:
            context.setattr(public_check, "MOST_EXACT", -1)
            many = composition(told)
        assert many.cells.tolist() == found.cells.tolist()
        assert (many.outer[:, 0] <= found.outer[:, 0]).all()
        assert (many.outer[:, 1] >= found.outer[:, 1]).all()
        assert (many.inner[:, 0] >= found.inner[:, 0]).all()
        assert (many.inner[:, 1] <= found.inner[:, 1]).all()
        sharp += many.outer.tolist() == found.outer.tolist()
        with monkeypatch.context() as context:
            context.setattr(public_check, "MOST_EXACT", -1)
            context.setattr(public_check, "_of_facts", nothing_known)
            asked = composition(told, min_width=2).judged(2, 2, ())
        assert (asked.narrow_cells, asked.undecided_cells) == (found.judged(2, 2, ()).narrow_cells, 0)
    assert by_facts >= CASES // 10
    assert sharp >= CASES // 2


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        ("A,count\na0,1\na1,9\n", "A,count\na0,9\na1,1\n", "p.csv and {}q.csv have different counts of A$"),
        ("A,B,count\na0,b0,3\na1,b0,2\n", "B,A,count\nb0,a0,2\nb0,a1,3\n", r"p.csv and {}q.csv .* counts of A\*B$"),
        ("A,B,count\na0,b0,3\na1,b0,2\n", "C,A,count\nc0,a0,2\nc0,a1,3\n", "p.csv and {}q.csv .* counts of A$"),
        ("A,count\na0,3\n", "B,count\nb0,4\n", "p.csv has 3 records, {}q.csv has 4$"),
    ],
)
def test_two_tables_that_contradict_are_named(tmp_path: Path, first: str, second: str, reason: str) -> None:
    files = [write(tmp_path / "p.csv", first), write(tmp_path / "q.csv", second)]
    for order in (files, files[::-1]):
        found = check(order)
        assert not found.consistent
        assert found.reason.startswith(str(tmp_path))
        assert re.search(reason.format(re.escape(f"{tmp_path}/")), found.reason)
