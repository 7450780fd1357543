"""What is public of a table, as callers name it: sub-tables, or all that is known of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeAlias

from sdc.ingest.reading import zeros_of
from sdc.model import subtable as st
from sdc.model.errors import ReleaseError
from sdc.model.fact import NO_FACTS, Fact
from sdc.model.knowledge import Knowledge
from sdc.model.release import NOTHING, Release
from sdc.model.structural_zeros import NO_ZEROS, StructuralZeros
from sdc.model.table import Table

Public: TypeAlias = Knowledge | Release | Sequence[str]
"""What is public of a table: what is known of it, or sub-tables, beside which nothing is known."""


def release_of(table: Table, sub_tables: Release | Sequence[str]) -> Release:
    """The downward closure of sub-tables written `age*sex`; ReleaseError for an unknown variable or no sub-table."""
    if isinstance(sub_tables, Release):
        return sub_tables
    if isinstance(sub_tables, str) or not sub_tables:
        raise ReleaseError(f"release {sub_tables!r} is not a list of sub-tables; give one such as ['age*sex', 'race']")
    return Release.of(st.parse(text, table.schema) for text in sub_tables)


def knowledge(
    table: Table,
    release: Release | Sequence[str] = NOTHING,
    *,
    structural_zeros: str | Path | StructuralZeros | None = None,
    facts: Iterable[Fact] = NO_FACTS,
) -> Knowledge:
    """What everybody knows of a table: sub-tables that are public, cells that are impossible, and other facts.

    structural_zeros  these, or a YAML file of patterns, see `sdc.ingest.structural_zeros`
    facts             counts of some cells, or numbers that they lie between, see `sdc.model.fact`

    In which group of a level each category is is a part of the table's schema, see `read_table`, and known too.
    ReleaseError as `release_of`, InputError where a record is in an impossible cell, or a fact is not so.
    """
    given = structural_zeros
    zeros = given if isinstance(given, StructuralZeros) else zeros_of(table, given)
    return Knowledge.of(table, release_of(table, release), zeros, facts)


def known_of(table: Table, public: Public) -> Knowledge:
    """What is known; ReleaseError where it is of another table, and as `release_of`, InputError as `knowledge`."""
    if not isinstance(public, Knowledge):
        return Knowledge.of(table, release_of(table, public), NO_ZEROS, NO_FACTS)
    public.check_is_of(table)
    public.zeros.check(table.schema, table.codes, table.counts)
    for fact in public.facts:
        fact.check_true(table)
    return public
