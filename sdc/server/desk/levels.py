"""Levels as a server tells of them: in its history, so that an audit without the table knows them, and to users."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sdc.model import subtable as st
from sdc.model.schema import Coarser, Schema, Variable

LEVELS = "levels"


def levels_of(schema: Schema) -> dict[str, Any]:
    """What a history says of levels: of each its axis and the groups of that; nothing where there are none."""
    levels = {v.name: {"of": v.of.axis, "groups": list(v.of.groups)} for v in schema.variables if v.of is not None}
    return {LEVELS: levels} if levels else {}


def schema_told(about: Mapping[str, Any]) -> Schema | None:
    """Variables and levels as a history tells them, categories by number; None where it tells of no levels.

    KeyError, TypeError, ValueError, AttributeError or InputError for what no server wrote.
    """
    if LEVELS not in about:
        return None
    of = {name: Coarser(level["of"], tuple(level["groups"])) for name, level in about[LEVELS].items()}
    sizes = {level.axis: len(level.groups) for level in of.values()}
    sizes |= {name: len(set(level.groups)) for name, level in of.items()}
    return Schema(
        tuple(Variable(name, tuple(map(str, range(sizes.get(name, 1)))), of.get(name)) for name in about["variables"])
    )


def tells(schema: Schema) -> dict[str, list[str]]:
    """By name of each variable with coarser levels those, which whoever has it has."""
    told = zip(schema.names, schema.levels.coarser, strict=True)
    return {name: [schema.names[v] for v in st.members(coarser)] for name, coarser in told if coarser}
