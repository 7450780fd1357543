"""Bounds of what several publications tell together, against every table that agrees with them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as hs

from sdc.config.earlier import EarlierConfig
from sdc.model import subtable as st
from sdc.model.errors import ConfigError, InputError
from sdc.model.schema import Schema, Variable
from sdc.model.table import Counts, Table
from sdc.public.check import Composition, check, composition, few_counts
from sdc.public.published import Published
from sdc.public.relation import read_relations
from tests import reference
from tests.levels import Rng
from tests.reference import Fact
from tests.strategies import dense, every_cell, schema_of

Told = tuple[Published, EarlierConfig]


def test_counts_that_break_an_n_rule(tmp_path: Path) -> None:
    """Of counts that are published exactly; those of a sub-table that lists none are none."""
    for name, text in (("one", "age,sex,count\nyoung,f,1\nyoung,m,4\nold,f,6\n"), ("two", "sex,count\nf,7\nm,4\n")):
        (tmp_path / f"{name}.csv").write_text(text)
    files = [tmp_path / "one.csv", tmp_path / "two.csv"]
    assert [(one.sub_table, one.counts) for one in few_counts(files, 5)] == [("age*sex", 2), ("sex", 1)]
    assert few_counts(files[1:], 4) == []


def marginal(table: Table, kept: int, name: str) -> Told:
    """A sub-table as it is."""
    return Published(name, table.marginal(kept), True), EarlierConfig(folder=name)


def recoded(table: Table, kept: int, cut: int, name: str) -> Told:
    """A sub-table whose first variable has two categories: up to a code, and above."""
    own = table.marginal(kept)
    first = own.schema.variables[0]
    groups = {"low": list(first.categories[:cut]), "high": list(first.categories[cut:])}
    schema = Schema((Variable("grouped", ("low", "high")), *own.schema.variables[1:]))
    codes = own.codes.astype(np.int64)
    codes[:, 0] = codes[:, 0] >= cut
    related = EarlierConfig(folder=name, variables={"grouped": {"of": first.name, "groups": groups}})
    return Published(name, Table.of(schema, codes, own.counts), True), related


def reordered(table: Table, kept: int, name: str) -> Told:
    """A sub-table as a list of cells, its categories in another order and without those that have no record."""
    own = table.marginal(kept)
    present = [np.unique(own.codes[:, v])[::-1] for v in range(len(own.schema))]
    variables = [
        Variable(one.name, tuple(one.categories[code] for code in codes))
        for one, codes in zip(own.schema.variables, present, strict=True)
    ]
    places = [np.argsort(codes)[np.searchsorted(np.sort(codes), own.codes[:, v])] for v, codes in enumerate(present)]
    listed = Table.of(Schema(tuple(variables)), np.stack(places, axis=1), own.counts)
    return Published(name, listed, False), EarlierConfig(folder=name)


def part(table: Table, kept: int, cut: int, name: str) -> Told:
    """A sub-table of the records whose last variable is below a code."""
    last = table.schema.variables[-1]
    rows = table.codes[:, -1] < cut
    own = Table.of(table.schema, table.codes[rows], table.counts[rows]).marginal(kept)
    return Published(name, own, True), EarlierConfig(folder=name, where={last.name: last.categories[:cut]})


def in_part_of(told: Told, hidden: list[list[int]]) -> Told:
    """The same without the counts of these cells."""
    published, relation = told
    own, cells = published.table, np.array(hidden, np.uint16).reshape(len(hidden), len(published.table.schema))
    shown = own.schema.keys.matching(cells, own.codes) < 0
    table = Table.of(own.schema, own.codes[shown], own.counts[shown])
    return Published(published.source, table, published.is_whole, cells), relation


def in_part(draw: hs.DrawFn, told: Told) -> Told:
    cells = every_cell(told[0].table.schema).tolist()
    return in_part_of(told, [cell for cell in cells if draw(hs.booleans())])


def tables_of(rng: Rng, wrong: float = 0) -> tuple[Table, list[Told]]:
    """A small table, and two to four publications of it: as they are, as lists, recoded, of some records, or in part.

    Names tell nothing of their order; a share of them is `wrong`, of nearly the same records.
    """
    schema = schema_of([[2, 2], [2, 3], [2, 2, 2], [3, 2, 2]][rng.integers(4)])
    counts = rng.choice([0, 0, 1, 1, 2], schema.cells)
    told, names = list[Told](), rng.permutation(["a", "b", "c", "d"]).tolist()
    for name in names[: rng.integers(2, 5)]:
        own = counts.copy()
        if rng.random() < wrong:
            own[rng.integers(len(own))] += 1
            own[rng.choice(np.flatnonzero(own))] -= rng.integers(2)
        table, kept = dense(schema, own.tolist()), int(rng.choice([1, 2, 3, 3, (1 << len(schema)) - 1]))
        kind = rng.choice(["marginal", "marginal", "reordered", "recoded", "part"])
        if kind == "recoded":
            told.append(recoded(table, kept, int(rng.integers(1, schema.sizes[st.members(kept)[0]])), name))
        elif kind == "part":
            told.append(part(table, kept, int(rng.integers(1, schema.sizes[-1])), name))
        else:
            of = reordered if kind == "reordered" and table.total else marginal
            told.append(of(table, kept, name))
    if rng.random() < 0.3:
        cells = every_cell(told[0][0].table.schema).tolist()
        told[0] = in_part_of(told[0], [cell for cell in cells if rng.random() < 0.5])
    return dense(schema, counts.tolist()), told


def facts(schema: Schema, told: Told) -> list[Fact]:
    groups: dict[tuple[str, ...], set[tuple[int, ...]]] = {}
    for cell in reference.every_cell(schema.sizes):
        if (key := key_of(told, schema.named(cell))) is not None:
            groups.setdefault(key, set()).add(cell)
    rows = zip(told[0].table.codes.tolist(), told[0].table.counts.tolist(), strict=True)
    counts = {tuple(told[0].table.schema.named(cell).values()): count for cell, count in rows}
    assert counts.keys() <= groups.keys()
    return [Fact(frozenset(cells), counts.get(key, 0), counts.get(key, 0)) for key, cells in groups.items()]


def all_tables(schema: Schema, *told: Told) -> Counts:
    """Those that agree; of cells that nothing published counts, those with no more records than all that is."""
    most = sum(published.table.total for published, _ in told)
    known = [fact for one in told for fact in facts(schema, one)]
    return reference.feasible(schema.sizes, [*known, Fact(frozenset(reference.every_cell(schema.sizes)), 0, most)])


def enumerated(table: Table, told: list[Told], names: tuple[str, ...]) -> dict[tuple[str, ...], set[int]]:
    """The counts that each cell has in any table that agrees, by the categories of these variables: those it has."""
    schema = table.schema
    keys = [tuple(schema.named(cell)[name] for name in names) for cell in reference.every_cell(schema.sizes)]
    return {key: set(column.tolist()) for key, column in zip(keys, all_tables(schema, *told).T, strict=True)}


def key_of(one: Told, cell: dict[str, str]) -> tuple[str, ...] | None:
    published, relation = one
    if any(cell[name] not in chosen for name, chosen in relation.where.items()):
        return None
    key = []
    for name in published.table.schema.names:
        told = relation.variables.get(name)
        if told is None or told.groups is None:
            key.append(cell[name])
        else:
            key.append(next(label for label, values in told.groups.items() if cell[told.of or name] in values))
    if any(key == [*published.table.schema.named(codes).values()] for codes in published.suppressed.tolist()):
        return None  # nothing is told of it
    return tuple(key)


def bounds_of(found: Composition) -> dict[tuple[str, ...], list[int]]:
    assert found.outer.tolist() == found.inner.tolist()
    return {
        tuple(found.schema.named(cell).values()): outer
        for cell, outer in zip(found.cells.tolist(), found.outer.tolist(), strict=True)
    }


NAMED = ("name 1 category", "name 2 categories", "names 1 category")
NOT_THERE = ("nothing bounds them", "unknown variable", *NAMED)


def composed(told: list[Told]) -> Composition | None:
    """None where a variable, a category or some records are in no table; whatever else is refused is a fault."""
    try:
        return composition(told)
    except InputError as error:
        if not any(what in str(error) for what in NOT_THERE):
            raise
        return None


def test_what_contradicts_beside_a_table_in_part_is_found_out() -> None:
    """One record of A1 where B is B0, by all tables but one, that says two."""
    schema = Schema((Variable("A", ("A0", "A1")), Variable("B", ("B0", "B1"))))
    table = Table.of(schema, np.array([[1, 0]]), np.array([1]))
    whole, (below, where) = marginal(table, 0b11, "all"), part(table, 0b01, 1, "below")
    hidden = Published("all", table, True, np.array([[1, 1]], np.uint16)), whole[1]
    assert composition([hidden, marginal(table, 0b01, "A"), (below, where)]).consistent
    twice = replace(below, table=Table.of(below.table.schema, below.table.codes, 2 * below.table.counts))
    assert not composition([hidden, marginal(table, 0b01, "A"), (twice, where)]).consistent


def test_a_table_of_some_records_lacks_the_categories_of_others() -> None:
    """Whichever of the tables comes first; such a category has none of these records."""
    schema = schema_of([3, 2])
    table = dense(schema, [3, 1, 2, 4, 0, 5])
    whole, (below, where) = marginal(table, 0b01, "A"), part(table, 0b01, 1, "below")
    own = Schema((Variable(schema.names[0], schema.variables[0].categories[:2]),))
    told = replace(below, table=Table.of(own, below.table.codes, below.table.counts)), where
    for tables in ([whole, told, marginal(table, 0b10, "B")], [told, whole, marginal(table, 0b10, "B")]):
        found = composition(tables)
        assert found.consistent
        assert {*map(tuple, bounds_of(found).values())} >= {(n, n) for n in (3, 1, 2, 4, 5)}
    with pytest.raises(InputError, match="has other categories than"):
        composition([whole, (told[0], EarlierConfig(folder="below"))])


def test_many_cells_of_variables_that_are_there_in_coarser_categories_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine's table put all records into the first category of each group."""
    table = dense(schema_of([3, 2]), [2, 1, 3, 0, 1, 3])
    told = [recoded(table, 0b01, 1, "a"), recoded(table, 0b10, 1, "b")]
    few = bounds_of(composition(told))
    monkeypatch.setattr("sdc.public.check.MOST_EXACT", -1)
    assert bounds_of(composition(told)) == few


def test_a_difference_of_two_universes_isolates_a_person() -> None:
    """Everybody by sex, and everybody but those over 90 by sex: the one man over 90 is told."""
    schema = Schema(
        (Variable("sex", ("f", "m")), Variable("ill", ("no", "yes")), Variable("age", ("under", "over 90")))
    )
    table = Table.of(schema, every_cell(schema), np.array([9, 4, 3, 0, 8, 0, 5, 1]))
    whole, below, ages = marginal(table, 0b011, "all"), part(table, 0b011, 1, "under"), marginal(table, 0b100, "age")
    assert bounds_of(composition([whole, below, ages]))["over 90", "m", "yes"] == [1, 1]
    assert bounds_of(composition([whole, ages]))["over 90", "m", "yes"] == [0, 5]


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def test_lists_in_another_order_and_without_empty_categories_are_marginals() -> None:
    """The engine bounds them as it does tables of the same categories; a solver is not asked."""
    schema = schema_of([4, 2, 2])
    table = dense(schema, [3, 1, 0, 2, 0, 0, 0, 0, 5, 0, 1, 1, 0, 0, 0, 0])
    same = composition([marginal(table, 0b011, "one"), marginal(table, 0b101, "two")])
    lists = composition([marginal(table, 0b011, "one"), reordered(table, 0b101, "two")])
    assert lists.method == same.method == "decomposable"
    assert bounds_of(lists) == bounds_of(same)


@pytest.mark.parametrize(
    ("second", "relation", "message"),
    [
        ("a,count\nX ,3\ny,4\n", "", "1 category of 'a' written in another case or with other spaces than elsewhere"),
        ("a,count\nyoung,3\nold,4\n", "", "has other categories than 'a' elsewhere; give by groups"),
        ("g,count\nyoung,7\n", "variables: {g: {of: a, groups: {young: [x]}}}", "1 category of 'a' in no group"),
        ("g,count\nyoung,7\n", "variables: {g: {of: a, groups: {young: [x, z], o: '*'}}}", "name 1 category"),
        ("g,count\nq,7\n", "variables: {g: {of: a, groups: {young: '*'}}}", "1 category of 'g' without a group"),
        ("a,count\nx,7\n", "where: {q: [x]}", "unknown variable 'q'"),
        ("a,count\nx,7\n", "where: {a: [q]}", "where names 1 category that 'a' does not have"),
    ],
)
def test_what_cannot_be_expressed_is_refused(tmp_path: Path, second: str, relation: str, message: str) -> None:
    one, two = write(tmp_path / "1.csv", "a,count\nx,3\ny,4\n"), write(tmp_path / "2.csv", second)
    relations = write(tmp_path / "r.yaml", f"- {{folder: {two}, {relation}}}\n")
    with pytest.raises(InputError, match=message):
        check([one, two], read_relations(Path(relations)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- {folder: a, entry: 1}", "either folder or entry"),
        ("- {where: {a: [x]}}", "either folder or entry"),
        ("- {folder: a, disjoint: true, where: {a: [x]}}", "leave where and variables out"),
        ("- {folder: a, folders: b}", "folders is an unknown key"),
        (
            "- {folder: a, key: {column: p, records: f.csv}}",
            "key shows that all records are others; add disjoint: true",
        ),
        ("- {folder: a, disjoint: true, key: {column: p, records: f.csv}}", "which only a build reads; leave key out"),
        ("3", "tuple|list"),
        ("- {folder: a, where: {a: []}}", "at least 1"),
    ],
)
def test_relations_that_are_none_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_relations(Path(write(tmp_path / "r.yaml", text)))


def test_a_relation_of_what_is_not_checked_is_refused(tmp_path: Path) -> None:
    one = write(tmp_path / "1.csv", "a,count\nx,3\n")
    with pytest.raises(InputError, match="which is not checked"):
        check([one], [EarlierConfig(folder="other")])
    with pytest.raises(InputError, match="every table is declared to have other records"):
        check([one], [EarlierConfig(folder=one, disjoint=True)])
