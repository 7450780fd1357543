"""What is public of a table, as callers name it: sub-tables, or all that is known of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from sdc.data.reading import zeros_of
from sdc.model import subtable as st
from sdc.model.errors import ReleaseError
from sdc.model.fact import NO_FACTS, Fact
from sdc.model.knowledge import Knowledge
from sdc.model.release import NOTHING, Release
from sdc.model.structural_zeros import NO_ZEROS, StructuralZeros
from sdc.model.table import Table


class Known(Protocol):
    """A release that was found, with all that it was found beside and what goes out in part; or a build."""

    @property
    def knowledge(self) -> Knowledge:
        """What everybody knows once it is out."""


Public: TypeAlias = Knowledge | Known | Release | Sequence[str]
"""What is public of a table: what is known of it; a release that was found, or a build; or sub-tables, beside which
nothing is known."""


def release_of(table: Table, sub_tables: Release | Sequence[str]) -> Release:
    """The downward closure of sub-tables written `age*sex`; ReleaseError for an unknown variable or no sub-table."""
    if isinstance(sub_tables, Release):
        return sub_tables
    is_list = isinstance(sub_tables, Sequence | Set) and not isinstance(sub_tables, str)
    if not (is_list and sub_tables and all(isinstance(one, str) for one in sub_tables)):
        given = repr(sub_tables) if isinstance(sub_tables, str) else f"of the type {type(sub_tables).__name__}"
        raise ReleaseError(
            f"release {given} is not a list of sub-tables; give one such as ['age*sex', 'race'], a release that was "
            "found, or what sdc.knowledge gives"
        )
    return Release.of(st.parse(text, table.schema) for text in sub_tables)


def knowledge(
    table: Table,
    release: Public = NOTHING,
    *,
    structural_zeros: str | Path | StructuralZeros | None = None,
    facts: Iterable[Fact] = NO_FACTS,
) -> Knowledge:
    """What everybody knows of a table: sub-tables that are public, cells that are impossible, and other facts.

    structural_zeros  these, or a YAML file of patterns, see `sdc.data.structural_zeros`
    facts             counts of some cells, or numbers that they lie between, see `sdc.model.fact`

    In which group of a level each category is is a part of the table's schema, see `read_table`, and known too. Of a
    release that was found all is known that it was found beside, and what goes out of it in part. Errors as `known_of`,
    and InputError where a record is in an impossible cell, or a fact is not so.
    """
    given = structural_zeros
    zeros = given if isinstance(given, StructuralZeros) else zeros_of(table, given)
    return known_of(table, release) | Knowledge.of(table, NOTHING, zeros, facts)


def known_of(table: Table, public: Public) -> Knowledge:
    """What is known, of a release that was found once it is out.

    ReleaseError for what is no release, for an unknown variable, and where what is known is of another table;
    InputError as of `knowledge`.
    """
    known: Any = getattr(public, "knowledge", public)
    if not isinstance(known, Knowledge):
        return Knowledge.of(table, release_of(table, known), NO_ZEROS, NO_FACTS)
    known.check_is_of(table)
    known.zeros.check(table.schema, table.codes, table.counts)
    for fact in known.facts:
        fact.check_true(table)
    return known
