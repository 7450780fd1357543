"""Attack: what a reconstruction from the tables that are public whole guesses of the at-risk cells."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sdc.config.earlier import EarlierConfig, RelatedVariableConfig
from sdc.executor import Executor
from sdc.intruder.guesses import Guesses
from sdc.model import subtable as st
from sdc.model.errors import InputError
from sdc.model.release import Release
from sdc.model.schema import Schema, Variable
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.public.attack import attack_on, guesses
from sdc.public.mixture import Mixture
from sdc.public.published import Published
from sdc.stages.build import Build
from sdc.stages.search import SEARCH
from sdc.stages.stage import Say, Stage, given, plain
from sdc.stages.table import TABLE
from sdc.storage.results import write_guesses


def _make(build: Build, into: Path, executor: Executor, say: Say) -> None:
    """What cannot be guessed is no fault of the release: it is said why."""
    try:
        found: Guesses | str = _found(build)
    except InputError as error:
        found = str(error)
    write_guesses(found, into)
    say(f"attack: {found if isinstance(found, str) else f'by {found.methods[0]}'}")


def _found(build: Build) -> Guesses:
    asked, made, method = given(build.config.attack, "attack"), build.made, Mixture()
    if asked.seeds:
        method.require()
    told = [*published_tables(made.table, made.beside.plus(made.found.release).release)]
    if not told:
        raise InputError("nothing but the total is public; there is nothing to guess from")
    return guesses(attack_on(told, range(asked.seeds), method), made.table, build.criteria.small_count)


def published_tables(table: Table, release: Release) -> Iterator[tuple[Published, EarlierConfig]]:
    """The largest tables that are public whole, as whoever reads them has them, and knows what is within each level."""
    for element in release.frontier:
        if element:
            label, schema = st.label(element, table.schema), _flat(table.schema, element)
            counts = Table.of(schema, table.schema.marginal_cells(table.codes, element), table.counts)
            levels = {name: _groups(table.schema, name) for name in schema.names}
            relation = {name: groups for name, groups in levels.items() if groups is not None}
            yield Published(label, counts, True), EarlierConfig(folder=label, variables=relation)


def _flat(schema: Schema, element: SubTable) -> Schema:
    own = (schema.variables[v] for v in st.members(schema.levels.telling(element)))
    return Schema(tuple(Variable(one.name, one.categories) for one in own))


def _groups(schema: Schema, name: str) -> RelatedVariableConfig | None:
    """Of a level which categories of its axis are in each of its own; None of an axis."""
    level = schema.variables[schema.index(name)]
    if level.of is None:
        return None
    axis = schema.variables[schema.index(level.of.axis)].categories
    within = {
        category: tuple(own for own, group in zip(axis, level.of.groups, strict=True) if group == place)
        for place, category in enumerate(level.categories)
    }
    return RelatedVariableConfig(of=level.of.axis, groups=within)


ATTACK = Stage(
    "attack",
    "guesses at-risk cells from the tables that are public whole",
    needs=(TABLE.name, SEARCH.name),
    sections=lambda build: plain(build.config.attack),
    make=_make,
    asked=lambda config: config.attack is not None,
)
