"""Published tables in every order: whether they agree, who contradicts whom, and the bounds, by listing all tables."""

from __future__ import annotations

import re
from itertools import combinations, permutations
from pathlib import Path

import numpy as np
import pytest

from sdc.model.schema import Schema
from sdc.public.check import Composition, check
from tests.integration.public.test_check import (
    Told,
    composed,
    key_of,
    listed,
    marginal,
    part,
    recoded,
    reordered,
    write,
)
from tests.profiles import scaled
from tests.reference import Fact, every_cell, feasible
from tests.strategies import dense, schema_of

CASES = scaled(200, fewest=40)


def drawn(rng: np.random.Generator) -> tuple[Schema, list[Told]]:
    """Two to four tables of the same records, or of nearly the same; names tell nothing of their order."""
    schema = schema_of([[2, 2], [2, 3], [2, 2, 2], [3, 2, 2]][rng.integers(4)])
    counts = rng.choice([0, 0, 1, 1, 2], schema.cells)
    told, names = list[Told](), rng.permutation(["a", "b", "c", "d"]).tolist()
    for name in names[: rng.integers(2, 5)]:
        own = counts.copy()
        if rng.random() < 0.3:
            own[rng.integers(len(own))] += 1
            own[rng.choice(np.flatnonzero(own))] -= rng.integers(2)
        table, kept = dense(schema, own.tolist()), int(rng.choice([1, 2, 3, 3, (1 << len(schema)) - 1]))
        kind = rng.choice(["marginal", "marginal", "reordered", "recoded", "part"])
        if kind == "recoded":
            told.append(recoded(table, kept, 1, name))
        elif kind == "part":
            told.append(part(table, kept, 1, name))
        else:
            of = reordered if kind == "reordered" and table.total else marginal
            told.append(of(table, kept, name))
    return schema, told


def facts(schema: Schema, told: Told) -> list[Fact]:
    """What one table says of the cells of all variables."""
    groups: dict[tuple[str, ...], set[tuple[int, ...]]] = {}
    for cell in every_cell(schema.sizes):
        if (key := key_of(told, schema.named(cell))) is not None:
            groups.setdefault(key, set()).add(cell)
    counts = listed(told)
    assert counts.keys() <= groups.keys()
    return [Fact(frozenset(cells), counts.get(key, 0), counts.get(key, 0)) for key, cells in groups.items()]


def all_tables(schema: Schema, *told: Told) -> np.ndarray:
    """Those that agree; of cells that nothing published counts, those with no more records than all that is."""
    most = sum(sum(listed(one).values()) for one in told)
    known = [fact for one in told for fact in facts(schema, one)]
    return feasible(schema.sizes, [*known, Fact(frozenset(every_cell(schema.sizes)), 0, most)])


def outcome(found: Composition) -> tuple[object, ...]:
    return found.reason, found.method, found.schema, found.cells.tolist(), found.outer.tolist(), found.inner.tolist()


def judged(rng: np.random.Generator) -> bool | None:
    """Whether the drawn tables agree, once everything about them is as it must be; None where they are refused."""
    schema, told = drawn(rng)
    found = composed(told)
    for order in permutations(told):
        again = composed(list(order))
        assert (found is None) == (again is None)
        assert found is None or again is None or outcome(again) == outcome(found)
    if found is None:
        return None
    kept = [schema.index(name) for name in found.schema.names]
    some = Schema(tuple(schema.variables[v] for v in sorted(kept)))
    tables = all_tables(some, *told)
    assert found.consistent == (len(tables) > 0)
    if not found.consistent:
        named = [one for one in told if f"{one[0].source} " in f"{found.reason} "]
        clashing = [pair for pair in combinations(told, 2) if not len(all_tables(some, *pair))]
        if found.reason.startswith("no counts agree"):
            assert not [pair for pair in clashing if all(not relation.where for _, relation in pair)]
        else:
            assert not len(all_tables(some, *named))
        return False
    at = {tuple(some.named(cell).values()): column for column, cell in enumerate(every_cell(some.sizes))}
    bounds = {key: [0, 0] for key in at}
    for cell, outer in zip(found.cells.tolist(), found.outer.tolist(), strict=True):
        by_name = found.schema.named(cell)
        bounds[tuple(by_name[name] for name in some.names)] = outer
    assert found.outer.tolist() == found.inner.tolist()
    assert bounds == {key: [tables[:, k].min(), tables[:, k].max()] for key, k in at.items()}
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


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        ("A,count\na0,1\na1,9\n", "A,count\na0,9\na1,1\n", "p.csv and {}q.csv have different counts of A$"),
        (
            "A,B,count\na0,b0,3\na0,b1,4\na1,b0,2\na1,b1,1\n",
            "A,B,count\na0,b0,4\na0,b1,3\na1,b0,1\na1,b1,2\n",
            r"p.csv and {}q.csv have different counts of A\*B$",
        ),
        ("A,B,count\na0,b0,3\na1,b0,2\n", "B,A,count\nb0,a0,2\nb0,a1,3\n", r"p.csv and {}q.csv .* counts of A\*B$"),
        ("A,B,count\na0,b0,3\na1,b0,2\n", "C,A,count\nc0,a0,2\nc0,a1,3\n", "p.csv and {}q.csv .* counts of A$"),
        ("A,count\na0,3\n", "B,count\nb0,4\n", "p.csv has 3 records, {}q.csv has 4$"),
    ],
    ids=["same variable", "same variables", "in another order", "a common marginal", "the total"],
)
def test_two_tables_that_contradict_are_named(tmp_path: Path, first: str, second: str, reason: str) -> None:
    files = [write(tmp_path / "p.csv", first), write(tmp_path / "q.csv", second)]
    for order in (files, files[::-1]):
        found = check(order)
        assert not found.consistent
        assert found.reason.startswith(str(tmp_path))
        assert re.search(reason.format(re.escape(f"{tmp_path}/")), found.reason)
