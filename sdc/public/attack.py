"""Reconstruction attacks: guesses of every cell from published tables, or from all public tables of a build."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from math import prod
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from sdc.config.earlier import EarlierConfig, RelatedVariableConfig
from sdc.intruder.guesses import ALONE, Guesses, Right, Values
from sdc.model import subtable as st
from sdc.model.documents import picked, rows
from sdc.model.errors import InputError
from sdc.model.fact import Fact
from sdc.model.keys import KeySpace
from sdc.model.knowledge import Knowledge
from sdc.model.named import Named, beside, named_cells
from sdc.model.schema import Schema, Variable
from sdc.model.suppressed_table import SuppressedTable, base_of
from sdc.model.table import Counts, Table, freeze
from sdc.public.check import all_related
from sdc.public.published import Published
from sdc.public.relation import Related
from sdc.public.system import InconsistentError, require_agreement, rows_of

MOST_CELLS = 1 << 20  # of the table, and of all fitted tables together
OF_ALONE = "independence of all variables, from one-way tables alone"


@dataclass(frozen=True, eq=False)
class Measurement:
    """A published table: sums of cells over some variables.

    variables  of the common refinement, in order
    place      (cells of these,) in C order: the index of the count that contains each; n if none does
    counts     (n,) as published
    base       counts are rounded to multiples of it, 0 if exact
    """

    variables: tuple[int, ...]
    place: npt.NDArray[np.int64]
    counts: Counts
    base: int

    @property
    def is_marginal(self) -> bool:
        """Whether it has one count for each cell, in order."""
        return np.array_equal(self.place, np.arange(len(self.counts)))


@dataclass(frozen=True, eq=False)
class Target:
    """The input of a reconstruction method: all published tables.

    schema  the common refinement
    total   the number of records
    """

    schema: Schema
    total: int
    measurements: tuple[Measurement, ...]


class ReconstructionMethod(Protocol):
    """A reconstruction method; `method` is its name."""

    @property
    def method(self) -> str: ...

    def __call__(self, target: Target, seeds: Sequence[int]) -> Values:
        """(seeds, cells) the expected number of records in each cell, in C order."""


@dataclass(frozen=True, eq=False, repr=False)
class Attack(Named):
    """The expected records in each cell for an intruder who has the published tables only.

    schema     the common refinement
    total      the number of records
    published  number of tables; telling  number of those that imply all others, which are fitted with their margins
    methods    of the reconstruction, if there are seeds, and of the independence guess
    guessed    (seeds, cells) reconstructions, in C order
    alone      (cells,) guesses from one-way tables under independence
    right      the correct guesses, if the table was compared; else None
    """

    schema: Schema
    total: int
    published: int
    telling: int
    methods: tuple[str, ...]
    seeds: tuple[int, ...]
    guessed: Values
    alone: Values
    right: Right | None = None

    def __post_init__(self) -> None:
        freeze(self, "guessed", "alone")

    @property
    def headline(self) -> str:
        return f"Guesses of {self.schema.cells:,} cells by {'; '.join(self.methods)}"

    @cached_property
    def by_intruder(self) -> Mapping[str, Values]:
        """(cells,) of each intruder: the reconstruction by seed, then independence."""
        return {**{f"seed {s}": own for s, own in zip(self.seeds, self.guessed, strict=True)}, ALONE: self.alone}

    def least(self, most: int) -> tuple[int, list[dict[str, Any]]]:
        """The number of cells with expected records, and the cells with fewest, by the mean over seeds or by
        independence.
        """
        mean = self.guessed.mean(axis=0) if self.seeds else self.alone
        order = np.argsort(mean, kind="stable")
        order = order[np.rint(mean[order]) > 0]
        codes = self.schema.keys.unpack(order[:most])
        guessed = {"guessed": mean[order[:most]], ALONE: self.alone[order[:most]]}
        return len(order), rows({"cell": map(self.schema.named, codes.tolist()), **guessed})

    @property
    def facts(self) -> dict[str, Any]:
        """The fields of a document, without the cells."""
        own = picked(self, "published", "telling", "methods", "seeds")
        return {"records": self.total, "cells": self.schema.cells, **own}

    def columns(self, schema: Schema) -> Mapping[str, Sequence[Any]]:
        """The expected records of each intruder by cell."""
        numbers = {name: values.tolist() for name, values in self.by_intruder.items()}
        return beside(named_cells(schema.keys.unpack(np.arange(schema.cells)), schema), numbers)


def attack_on(
    tables: Sequence[tuple[Published, EarlierConfig]], seeds: Sequence[int], reconstruct: ReconstructionMethod
) -> Attack:
    """Guess every cell of the common refinement without a confidential table.

    tables       each with its relation to the others
    reconstruct  the method, run once for each seed

    Raises InputError if the tables contradict each other, if none has exact counts of all records, or beyond 2^20 cells
    of the table or of the fitted tables.
    """
    if problem := next((published.contradiction for published, _ in tables if published.contradiction), ""):
        raise InputError(f"{problem}; correct it")
    schema, known = all_related(tables)
    own = _generating(known)
    _require_size(schema, own)
    fitted = _generating([part for table in own for part in (table, *_margins(table))])
    _require_size(schema, fitted)
    target = Target(schema, _total(schema, own), tuple(_measurement(table, schema) for table in fitted))
    guessed = reconstruct(target, seeds) if seeds else np.zeros((0, schema.cells))
    methods = (*((reconstruct.method,) if seeds else ()), OF_ALONE)
    shares = reduce(np.multiply.outer, [_shares(v, schema, fitted) for v in range(len(schema))]).reshape(-1)
    sizes = target.total, len(known), len(own)
    return Attack(schema, *sizes, methods, tuple(seeds), guessed, target.total * shares).named_by(schema)


def _generating(known: Sequence[Related]) -> list[Related]:
    """The tables that imply all others: an exact table implies its margins and its copies."""
    found = list[Related]()
    exact = [{*table.variables} for table in known if table.is_exact]
    for table in known:
        own = {*table.variables, *table.where}
        known_already = [{*one.variables} for one in found if one.is_exact] if table.is_exact else exact
        if own not in known_already and not any(own < view for view in exact):
            found.append(table)
    return found


def _margins(table: Related) -> Iterator[Related]:
    """The margins that a table gives beside its cells: rounded ones, or totals of suppressed cells, as tables."""
    own = table.published
    margins = [replace(own, table=own.table.marginal(names), margins=()) for names in own.margins]
    for sums in own.sums:
        if sums.names and sums.names != own.table.schema.names:
            schema = own.table.schema.restrict(map(own.table.schema.index, sums.names))
            is_known, every = sums.low == sums.high, schema.keys.unpack(np.arange(schema.cells))
            is_cell_known = np.append(is_known, False)[sums.matching(every.astype(np.int64))]
            known_here = Table.of(schema, sums.cells[is_known], sums.low[is_known])
            margins.append(Published(own.source, known_here, own.is_whole, every[~is_cell_known]))
    for margin in margins:
        places = [own.table.schema.names.index(name) for name in margin.table.schema.names]
        variables = tuple(table.variables[place] for place in places)
        yield Related(margin, variables, tuple(table.codings[place] for place in places), table.where)


def _require_size(schema: Schema, known: Sequence[Related]) -> None:
    fitted = sum(prod(schema.sizes[v] for v in {*table.variables, *table.where}) for table in known)
    if max(schema.cells, fitted) > MOST_CELLS:
        raise InputError(
            f"what is published has {schema.cells} cells together and {fitted} in the tables to fit; at most "
            f"{MOST_CELLS} of each are reconstructed, name tables of fewer variables"
        )


def _total(schema: Schema, known: Sequence[Related]) -> int:
    exact = [table for table in known if table.published.is_exact and not table.where]
    if not exact:
        raise InputError(
            "no published table has exact counts of all records, so the number of records is unknown; name "
            "one that does"
        )
    try:
        require_agreement(schema, known)
    except InconsistentError as error:
        raise InputError(f"what is published contradicts itself, {error}; name what is of one table") from error
    return exact[0].published.table.total


def _measurement(table: Related, schema: Schema) -> Measurement:
    variables = sorted({*table.variables, *table.where})
    space = schema.space(variables)
    cells = np.zeros((space.cells, len(schema)), np.uint16)
    cells[:, variables] = space.unpack(np.arange(space.cells))
    is_known = table.holds(cells) & ~table.published.suppresses(table.codes(cells))
    codes, rows = table.codes(cells)[is_known], rows_of(table, cells)[is_known]
    first, group = KeySpace(tuple((codes.max(axis=0, initial=0) + 1).tolist())).distinct(codes)
    place = np.full(space.cells, len(first))
    place[is_known] = group
    counts = np.append(table.published.table.counts, 0)[rows[first]]
    return Measurement(tuple(variables), place, counts, table.published.base)


def _shares(variable: int, schema: Schema, known: Sequence[Related]) -> Values:
    """(categories,) shares of all records, from the table with the finest categories; equal shares within a group."""
    candidates = [
        (table, table.variables.index(variable)) for table in known if variable in table.variables and not table.where
    ]
    if not candidates:
        raise InputError(f"no published table of all records has {schema.names[variable]!r}; name one that does")
    table, place = max(candidates, key=lambda one: (one[0].is_exact, len(np.unique(one[0].codings[one[1]]))))
    own, coding = table.published.table, table.codings[place]
    counts = np.bincount(own.codes[:, place], own.counts, coding.max() + 1)
    found = counts[coding] / np.bincount(coding)[coding]
    return np.asarray(found / found.sum() if found.any() else np.full(len(coding), 1 / len(coding)))


def guesses(found: Attack, table: Table, small_count: int) -> Guesses:
    """How many guesses are right; InputError if the table lacks an attacked variable or category."""
    places, truth = _places(found.schema, table), np.zeros(found.schema.cells, np.int64)
    truth[places] = table.counts
    rounded_guesses = np.rint([*found.by_intruder.values()])
    right, claimed = (
        (rounded_guesses == truth).sum(axis=1),
        ((rounded_guesses > 0) & (rounded_guesses <= small_count)).sum(axis=1),
    )
    expected = np.stack([*found.by_intruder.values()])[:, places[table.at_risk(small_count)]]
    return Guesses(found.methods, (*found.by_intruder,), tuple(right.tolist()), tuple(claimed.tolist()), expected)


def _places(published: Schema, table: Table) -> Counts:
    """(cells with records,) the index of each among the cells of the refinement, in C order."""
    schema, columns = table.schema, []
    if others := {*published.names} - {*schema.names}:
        raise InputError(
            f"{min(others)!r} is published and is not a variable of the table; give its variable by --relations"
        )
    if lacking := {schema.names[axis] for axis in schema.axes} - {*published.names}:
        raise InputError(
            f"{min(lacking)!r} is a variable of the table and is not published, so no cell can be "
            "guessed; leave it out of the table"
        )
    for variable in published.variables:
        v, code = schema.index(variable.name), {name: code for code, name in enumerate(variable.categories)}
        coding = np.array([code.get(category, -1) for category in schema.variables[v].categories])
        columns.append(coding[schema.columns(table.codes, [v])[:, 0]])
        if columns[-1].min(initial=0) < 0:
            raise InputError(
                f"records of the table have categories of {variable.name!r} that are not published; give by "
                "--relations the groups of each"
            )
    return published.keys.pack(np.stack(columns, axis=1))


# The public tables of a build


def public_tables(table: Table, known: Knowledge) -> Iterator[tuple[Published, EarlierConfig]]:
    """The maximal public tables: exact, suppressed and rounded ones.

    Together they imply the tables over coarser levels. Bounds of cells and structural zeros are left out.
    """
    whole = [Fact(element) for element in known.release.frontier if element]
    margins = {fact: _margin_facts(fact, known) for fact in known.published}
    implied = {margin for own in margins.values() for margin in own}
    for fact in (*whole, *known.published):
        where = _where(fact, table.schema)
        if fact not in implied and all(where.values()):  # a fact on no records is empty
            own = [one for one in _variables(fact, table.schema) if one.of is not None]
            levels = {one.name: _within(one, table.schema) for one in own}
            relation = EarlierConfig(folder=fact.label(table.schema), variables=levels, where=where)
            yield _as_published(fact, margins.get(fact, ()), table, known), relation


def _margin_facts(fact: Fact, known: Knowledge) -> Sequence[Fact]:
    schema, base = known.schema, base_of(fact, known)
    own = schema.levels.finest(fact.view)
    views = [one.view for one in known.published if st.is_within(schema.levels.finest(one.view), own) and one != fact]
    if not base or not views:
        return ()
    counts = SuppressedTable(fact, base).rounded(schema)
    whole = SuppressedTable.rounded_to(fact.view, counts, base, views, schema, fact.source)
    return [one for one in whole.margins if one in known.facts]


def _as_published(fact: Fact, margins: Sequence[Fact], table: Table, known: Knowledge) -> Published:
    schema, label, base = table.schema, fact.label(table.schema), base_of(fact, known)
    own = Schema(tuple(Variable(one.name, one.categories) for one in _variables(fact, schema)))
    met = frozenset(own.names) - {schema.names[v] for v, _ in known.listed_within(range(len(schema)))}
    if base:
        cells, counts = own.keys.unpack(np.arange(own.cells)), SuppressedTable(fact, base).rounded(schema)
        near = tuple(tuple(st.names(margin.view, schema)) for margin in margins)
        return Published(label, Table.of(own, cells, counts), True, base=base, margins=near, met=met)
    inside = fact.holds(table.codes, schema)
    whole = Table.of(own, schema.marginal_cells(table.codes[inside], fact.view), table.counts[inside])
    if fact.intervals is None:
        return Published(label, whole, True)
    return Published(label, SuppressedTable(fact).published(whole), True, fact.intervals.cells, met=met)


def _where(fact: Fact, schema: Schema) -> dict[str, tuple[str, ...]]:
    where = dict[str, tuple[str, ...]]()
    for v, codes in fact.universe:
        axis, inside = schema.variables[schema.levels.axis_of[v]], np.isin(schema.levels.groups[v], codes)
        before = where.get(axis.name, axis.categories)
        where[axis.name] = tuple(c for c, is_in in zip(axis.categories, inside, strict=True) if is_in and c in before)
    return where


def _within(level: Variable, schema: Schema) -> RelatedVariableConfig:
    assert level.of is not None
    axis = schema.variables[schema.index(level.of.axis)].categories
    groups = {
        category: tuple(own for own, group in zip(axis, level.of.groups, strict=True) if group == place)
        for place, category in enumerate(level.categories)
    }
    return RelatedVariableConfig(of=level.of.axis, groups=groups)


def _variables(fact: Fact, schema: Schema) -> list[Variable]:
    return [schema.variables[v] for v in st.members(schema.levels.finest(fact.view))]
