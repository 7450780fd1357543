"""Relations of published tables: equal variables, categories within others, and records."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from pydantic import TypeAdapter, ValidationError

from sdc.config.earlier import EarlierConfig, RelatedVariableConfig
from sdc.config.file import faults_of, load_yaml
from sdc.config.values import OTHERS
from sdc.model.errors import ConfigError, InputError, many
from sdc.model.schema import Schema, Variable
from sdc.model.table import Table
from sdc.paths import checked_path
from sdc.public.published import Published

Coding: TypeAlias = npt.NDArray[np.int64]
"""(categories of the refinement,) the code of each in a published table."""
SAME = RelatedVariableConfig()


@dataclass(frozen=True, eq=False)
class Related:
    """A published table on the variables of the common refinement.

    variables  the variable of the refinement, for each of its own
    codings    for each, the category that contains each category of the refinement
    where      by variable of the refinement, (categories,) flags: the table counts records with all of these
    """

    published: Published
    variables: tuple[int, ...]
    codings: tuple[Coding, ...]
    where: Mapping[int, npt.NDArray[np.bool_]]

    @property
    def is_exact(self) -> bool:
        """Whether it is a marginal of the refinement: of all records, with the same categories in any order."""
        pairs = zip(self.codings, self.published.table.schema.sizes, strict=not self.published.is_total)
        return self.is_coarser and all(size <= len(c) and is_renaming(c) for c, size in pairs)

    @property
    def is_coarser(self) -> bool:
        """Whether it is a marginal of the refinement, possibly with merged categories."""
        return not self.where and self.published.is_exact

    def codes(self, cells: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
        """(n, variables) its codes of cells of the refinement."""
        if self.published.is_total:
            return np.zeros((len(cells), 1), np.int64)
        pairs = zip(self.variables, self.codings, strict=True)
        return np.stack([coding[cells[:, v]] for v, coding in pairs], axis=1)

    def holds(self, cells: npt.NDArray[np.integer]) -> npt.NDArray[np.bool_]:
        """(n,) whether it counts the records of the cell."""
        inside = np.ones(len(cells), np.bool_)
        for v, flags in self.where.items():
            inside &= flags[cells[:, v]]
        return inside


def is_renaming(coding: Coding) -> bool:
    """Whether each category of the refinement is one of its own."""
    return np.array_equal(np.sort(coding), np.arange(len(coding)))


def read_relations(path: Path) -> tuple[EarlierConfig, ...]:
    """Read a list of sections like `earlier` of a config; errors as for a config."""
    return relations_of(load_yaml(path, "relations", ConfigError), str(path))


def relations_given(given: str | Path | Sequence[Mapping[str, Any]] | None) -> tuple[EarlierConfig, ...]:
    """The relations in a list of sections, in a file, or none."""
    if isinstance(given, str | Path):
        return read_relations(checked_path(given))
    return relations_of(given or [], "relations")


def relations_of(content: Any, source: str) -> tuple[EarlierConfig, ...]:
    """Parse the sections of `source`; ConfigError if they are invalid."""
    try:
        found = TypeAdapter(tuple[EarlierConfig, ...]).validate_python(content)
    except ValidationError as error:
        raise ConfigError(f"{source}: {faults_of(error, EarlierConfig)}") from error
    if any(one.key is not None for one in found):
        raise ConfigError(f"{source}: key is compared with the records, which only a build reads; leave key out")
    return found


def with_levels(relation: EarlierConfig, published: Published, names: Collection[str] = ()) -> EarlierConfig:
    """The relation with the levels that the publication states, unless the relation has others.

    names  variables known elsewhere, which need none
    """
    given = dict(relation.variables)
    for level, (of, within) in published.levels.items():
        finer = relation.variables.get(of, SAME)
        if level in published.table.schema.names and level not in {*given, *names} and finer.groups is None:
            groups = {
                label: tuple(own for own, label_ in within.items() if label_ == label)
                for label in dict.fromkeys(within.values())
            }
            given[level] = RelatedVariableConfig(of=finer.of or of, groups=groups)
    return relation.model_copy(update={"variables": given})


def related(published: Published, relation: EarlierConfig, schema: Schema) -> Related:
    """A table on the variables of a schema; InputError, with the reason, if it cannot be expressed there."""
    names = published.table.schema.names
    variables, codings = list[int](), list[Coding]()
    for own in () if published.is_total else published.table.schema.variables:
        given = relation.variables.get(own.name, SAME)
        name = given.of or own.name
        if name not in schema.names:
            raise InputError(
                f"{published.source} has the variable {own.name!r}, which the table has not; give its variable by "
                f"variables: {{{own.name}: {{of: ...}}}}, or take it into the table ({', '.join(schema.names)})"
            )
        variables.append(schema.index(name))
        if relation.total in schema.variables[variables[-1]].categories:
            raise InputError(
                f"{published.source}: its rows of totals are marked by {relation.total!r}, which is a category of "
                f"{name!r} elsewhere; rename one of the two"
            )
        is_part = bool(relation.where)
        codings.append(_coding(published, own, given, schema.variables[variables[-1]], is_part=is_part))
    if len(set(variables)) < len(variables):
        raise InputError(
            f"{published.source}: two of its variables {', '.join(names)} are the same variable of the table; map "
            "each to its own"
        )
    where = {schema.index(name): _flags(published, schema, name, chosen) for name, chosen in relation.where.items()}
    return Related(published, tuple(variables), tuple(codings), where)


def _flags(published: Published, schema: Schema, name: str, chosen: Sequence[str]) -> npt.NDArray[np.bool_]:
    categories = schema.variables[schema.index(name)].categories
    if unknown := set(chosen) - set(categories):
        raise InputError(
            f"{published.source}: where names {many(len(unknown), 'category')} that {name!r} does not have; choose "
            "from its own",
            f"categories {sorted(unknown)}",
        )
    return np.isin(np.array(categories, object), list(chosen))


def _coding(
    published: Published, own: Variable, given: RelatedVariableConfig, finer: Variable, *, is_part: bool
) -> Coding:
    place = {category: code for code, category in enumerate(own.categories)}
    if given.groups is None:
        return _same(published, own, finer, place, is_whole=published.is_whole and not is_part)
    groups, found = given.groups, np.full(len(finer.categories), -1, np.int64)
    codes = {category: code for code, category in enumerate(finer.categories)}
    places = dict(place)
    for label, values in groups.items():
        if values == OTHERS:
            continue
        if unknown := set(values) - set(codes):
            raise InputError(
                f"{published.source}: groups of {own.name!r} name {many(len(unknown), 'category')} that "
                f"{finer.name!r} does not have; choose from those of the table",
                f"categories {sorted(unknown)}",
            )
        # a group outside the table has no records
        found[[codes[value] for value in values]] = places.setdefault(label, len(places))
    rest = next((label for label, values in groups.items() if values == OTHERS), None)
    if rest is not None:
        found[found < 0] = places.setdefault(rest, len(places))
    if unplaced := int((found < 0).sum()):
        raise InputError(
            f"{published.source}: {many(unplaced, 'category')} of {finer.name!r} in no group of {own.name!r}; list "
            'each in one, or give a group "*"'
        )
    if unknown := set(place) - set(groups):
        raise InputError(
            f"{published.source}: {many(len(unknown), 'category')} of {own.name!r} without a group; list the "
            "categories of each group"
        )
    return found


def _same(published: Published, own: Variable, finer: Variable, place: Mapping[str, int], *, is_whole: bool) -> Coding:
    """The coding by equal names; a list of cells, and a table of some records, may lack categories without records."""
    others = set(own.categories) - set(finer.categories)
    lacking = set(finer.categories) - set(own.categories)
    if len(others) == len(lacking) and {*map(_folded, others)} == {*map(_folded, lacking)} and others:
        raise InputError(
            f"{published.source}: {many(len(others), 'category')} of {own.name!r} written in another case or with "
            "other spaces than elsewhere; write them the same, or give by groups those within each",
            f"categories {sorted(others)}",
        )
    if others or (lacking and is_whole):
        raise InputError(
            f"{published.source}: {own.name!r} has other categories than {finer.name!r} elsewhere; give by groups "
            f"those within each: variables: {{{own.name}: {{of: {finer.name}, groups: {{...}}}}}}",
            f"categories {sorted(others or lacking)}",
        )
    places = dict(place)
    return np.array([places.setdefault(category, len(places)) for category in finer.categories], np.int64)


def _folded(category: str) -> str:
    return " ".join(category.casefold().split())


def refinement(tables: Sequence[tuple[Published, EarlierConfig]]) -> Schema:
    """The variables of all tables, each with its finest categories."""
    found: dict[str, Variable] = {}
    whole: set[str] = set()
    tables = [one for one in tables if not one[0].is_total]
    if not tables:
        raise InputError("nothing but numbers of records is named; name a table with a variable too")
    for published, relation in sorted(tables, key=lambda one: (bool(one[1].where), not one[0].is_whole)):
        for own in published.table.schema.variables:
            given = relation.variables.get(own.name, SAME)
            if given.groups is not None:
                continue
            name = given.of or own.name
            known = found.get(name)
            if known is None or (name not in whole and set(own.categories) > set(known.categories)):
                found[name] = Variable(name, own.categories)
            if published.is_whole and not relation.where:
                whole.add(name)
    # a variable that no table has as such has the categories in its groups
    atoms: dict[str, dict[str, None]] = {}
    for _, relation in tables:
        for own_name, given in relation.variables.items():
            values = (value for group in (given.groups or {}).values() if group != OTHERS for value in group)
            atoms.setdefault(given.of or own_name, {}).update(dict.fromkeys(values))
    for published, relation in tables:
        for own in published.table.schema.variables:
            given = relation.variables.get(own.name, SAME)
            name = given.of or own.name
            if given.groups is not None and name not in found:
                found[name] = Variable(name, tuple(atoms[name]))
    return Schema(tuple(found.values()))


def looks_the_same(table: Table, published: Table) -> bool:
    """Whether the totals are equal, or a category of one has the margins of the other.

    With few records, equal totals may be chance: then a key must decide.
    """
    return table.total == published.total or _is_part(published, table) or _is_part(table, published)


def _is_part(part: Table, whole: Table) -> bool:
    """Whether the records of one category have the total and the shared margins."""
    for v, counts in enumerate(whole.one_way()):
        shared = {*whole.schema.names} & {*part.schema.names} - {whole.schema.names[v]}
        for code in np.flatnonzero(counts == part.total) if shared and part.total else ():
            rows = whole.codes[:, v] == code
            own = Table.of(whole.schema, whole.codes[rows], whole.counts[rows])
            if all(_margin(own, name) == _margin(part, name) for name in shared):
                return True
    return False


def _margin(table: Table, name: str) -> dict[str, int]:
    v = table.schema.index(name)
    pairs = zip(table.schema.variables[v].categories, table.one_way()[v].tolist(), strict=True)
    return {category: count for category, count in pairs if count}
