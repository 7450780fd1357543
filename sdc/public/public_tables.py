"""All public tables of a build's table, with their relations: the input of an attack."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from sdc.config.earlier import EarlierConfig, RelatedVariableConfig
from sdc.model import subtable as st
from sdc.model.fact import Fact
from sdc.model.knowledge import Knowledge
from sdc.model.schema import Schema, Variable
from sdc.model.suppressed_table import SuppressedTable, base_of
from sdc.model.table import Table
from sdc.public.published import Published


def public_tables(table: Table, known: Knowledge) -> Iterator[tuple[Published, EarlierConfig]]:
    """The maximal public tables: exact, suppressed and rounded ones.

    Together they imply the tables over coarser levels. Bounds of cells and structural zeros are left out.
    """
    whole = [Fact(element) for element in known.release.frontier if element]
    margins = {fact: _margins(fact, known) for fact in known.published}
    implied = {margin for own in margins.values() for margin in own}
    for fact in (*whole, *known.published):
        where = _where(fact, table.schema)
        if fact not in implied and all(where.values()):  # a fact on no records is empty
            yield _published(fact, margins.get(fact, ()), table, known), _relation(fact, where, table.schema)


def _margins(fact: Fact, known: Knowledge) -> Sequence[Fact]:
    schema, base = known.schema, base_of(fact, known)
    own = schema.levels.finest(fact.view)
    views = [one.view for one in known.published if st.is_within(schema.levels.finest(one.view), own) and one != fact]
    if not base or not views:
        return ()
    counts = SuppressedTable(fact, base).rounded(schema)
    whole = SuppressedTable.rounded_to(fact.view, counts, base, views, schema, fact.source)
    return [one for one in whole.margins if one in known.facts]


def _published(fact: Fact, margins: Sequence[Fact], table: Table, known: Knowledge) -> Published:
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


def _relation(fact: Fact, where: dict[str, tuple[str, ...]], schema: Schema) -> EarlierConfig:
    """The records concerned, and by level, its categories as groups of its axis."""
    levels = {one.name: _within(one, schema) for one in _variables(fact, schema) if one.of is not None}
    return EarlierConfig(folder=fact.label(schema), variables=levels, where=where)


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
