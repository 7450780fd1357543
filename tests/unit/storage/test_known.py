"""What is known of a table is read as it was written, byte for byte the same each time; what is damaged is named."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from sdc.model.errors import InputError, RunFolderError, SdcError
from sdc.model.fact import CellIntervals, Fact
from sdc.model.knowledge import Knowledge
from sdc.model.schema import Schema, Variable
from sdc.model.structural_zeros import NO_ZEROS, StructuralZeros
from sdc.model.table import Table
from sdc.public.earlier import LATER, Provenance, read_provenance
from sdc.storage.known import read_known, read_more, write_known
from sdc.storage.parquet import read_columns, write_columns
from tests.facts import FactCase, fact_cases
from tests.helpers.folders import contents
from tests.strategies import frontier, schema_of


def records() -> Table:
    return Table.of(schema_of([2, 2, 2]), np.array(list(np.ndindex(2, 2, 2)))[1:], np.arange(1, 8))


def known() -> Knowledge:
    """Of A*B three counts and one interval, of A*C those of A = 1."""
    zeros = StructuralZeros((((0, (0,)), (1, (0,)), (2, (0,))),))
    between = CellIntervals(np.array([[0, 1]], np.uint16), np.array([4]), np.array([6]))
    facts = (Fact(0b011, (), between, "rounded"), Fact(0b101, ((0, (1,)),), None, "survey"))
    return Knowledge.of(records(), frontier("A", "C"), zeros, facts)


@settings(max_examples=100)
@given(case=fact_cases())
def test_what_is_written_is_read(case: FactCase, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A fact without a cell in its interval tells what one without intervals does."""
    one, other, third = (tmp_path_factory.mktemp("known") for _ in range(3))
    facts = (
        f if f.intervals is not None and len(f.intervals.cells) else replace(f, intervals=None) for f in case.facts
    )
    told = replace(case.known, facts=tuple(facts))
    for folder, content in (one, case.known), (other, told), (third, told):
        write_known(content, folder, hidden=["x"])
        again = read_known(folder, case.table)
        assert again == told
        assert {fact.source for fact in again.published} <= {fact.source for fact in case.facts}
        assert read_more(folder) == {"hidden": ["x"]}
    assert contents(other) == contents(third)


def test_nothing_known(tmp_path: Path) -> None:
    nothing = Knowledge.of(records(), frontier(""), NO_ZEROS, ())
    write_known(nothing, tmp_path)
    assert read_known(tmp_path, records()) == nothing
    assert [*contents(tmp_path)] == ["known.json"]


def test_variables_may_have_the_names_of_columns(tmp_path: Path) -> None:
    schema = Schema((Variable("low", ("a", "b")), Variable("high", ("c", "d"))))
    table = Table.of(schema, np.array([[0, 0], [1, 1]]), np.array([3, 4]))
    fact = Fact(0b11, (), CellIntervals(np.array([[0, 0]], np.uint16), np.array([2]), np.array([5])), "rounded")
    told = Knowledge.of(table, frontier("A"), NO_ZEROS, (fact,))
    write_known(told, tmp_path)
    assert read_known(tmp_path, table) == told


def json_with(**changes: Any) -> Callable[[Path], None]:
    return json_by(lambda content: content.update(changes))


def json_by(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        content = json.loads((folder / "known.json").read_text())
        change(content)
        (folder / "known.json").write_text(json.dumps(content))

    return damage


def test_an_origin_of_a_run_of_before_is_read(tmp_path: Path) -> None:
    told = Provenance(tried=(("A*B", "A_merged"),))
    write_known(Knowledge.of(records(), frontier(""), NO_ZEROS, ()), tmp_path, **told.facts)
    json_by(lambda content: [content.pop(name) for name in LATER])(tmp_path)
    assert read_provenance(tmp_path) == told


def columns_with(**changes: Any) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        path = folder / "known_0.parquet"
        columns, _ = read_columns(path)
        write_columns(path, {**columns, **changes})

    return damage


def fact_with(number: int, **changes: Any) -> Callable[[Path], None]:
    return json_by(lambda content: content["facts"][number].update(changes))


DAMAGED = r"known\.json is corrupt: "
DAMAGE: dict[str, tuple[Callable[[Path], Any], type[SdcError], str]] = {
    "nothing": (lambda folder: (folder / "known.json").unlink(), RunFolderError, r"known\.json is missing: it has"),
    "no JSON": (lambda folder: (folder / "known.json").write_text("{"), RunFolderError, r"known\.json cannot be read"),
    "a list": (lambda folder: (folder / "known.json").write_text("[]"), RunFolderError, r"known\.json has format None"),
    "the format": (json_with(format=7), RunFolderError, r"known\.json has format 7, this version reads 1"),
    "no facts": (json_by(lambda content: content.pop("facts")), RunFolderError, DAMAGED + "facts: Field required"),
    "the release": (json_with(release="AB"), RunFolderError, DAMAGED + "release: Input should be a valid array"),
    "a variable": (json_with(release=[["Q"]]), RunFolderError, DAMAGED + "unknown variable 'Q'; the table has A, B, C"),
    "a zero's number": (
        json_with(structural_zeros=[[[6, [0]]]]),
        RunFolderError,
        DAMAGED + ".*names variable number 6; the table has 3",
    ),
    "a zero's codes": (json_with(structural_zeros=[[[0, [2]]]]), RunFolderError, DAMAGED + r".*names 'A' 1 times"),
    "a zero with records": (json_with(structural_zeros=[[[0, [1]]]]), InputError, "structural zeros contradict the"),
    "a view": (fact_with(0, view=["A", "Q"]), RunFolderError, DAMAGED + "unknown variable 'Q'"),
    "a universe": (
        fact_with(1, universe=[[1, [0]]]),
        RunFolderError,
        DAMAGED + ".*its universe names B, which its view",
    ),
    "a universe's codes": (fact_with(1, universe=[[0, [2]]]), RunFolderError, DAMAGED + ".*names the codes"),
    "an unknown part of a fact": (fact_with(0, more=1), RunFolderError, DAMAGED + "facts: 0: more: Unexpected"),
    "more cells": (fact_with(0, between=2), RunFolderError, DAMAGED + r".*known_0\.parquet has 1 cell, and its"),
    "no file": (lambda folder: (folder / "known_0.parquet").unlink(), InputError, r"known_0\.parquet is missing"),
    "a code": (columns_with(A=np.array([2], np.uint16)), InputError, r"known_0\.parquet is corrupt: column 'A' has"),
    "floats": (columns_with(low=np.array([4.0])), InputError, r"known_0\.parquet is corrupt: its columns are not A"),
    "an interval that is not so": (
        columns_with(low=np.array([6])),
        InputError,
        "rounded is not of these records: the counts of 1 cell",
    ),
    "an empty interval": (columns_with(low=np.array([7])), RunFolderError, DAMAGED + ".*the interval is empty"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_what_is_damaged_is_refused(name: str, tmp_path: Path) -> None:
    damage, kind, message = DAMAGE[name]
    write_known(known(), tmp_path)
    assert read_known(tmp_path, records()) == known()
    damage(tmp_path)
    with pytest.raises(kind, match=message):
        read_known(tmp_path, records())


def test_another_table_is_refused(tmp_path: Path) -> None:
    """A count is lower there, and its interval does not have it."""
    write_known(known(), tmp_path)
    table = records()
    counts = table.counts - (np.arange(len(table)) == 1) * 2
    with pytest.raises(InputError, match="rounded is not of these records"):
        read_known(tmp_path, Table.of(table.schema, table.codes, counts))


NOTED = Provenance(("region",), ("2019",), ("of these records alone",), (("a file", "digest"),), "digest")


@pytest.mark.parametrize(
    ("note", "fault"),
    [
        ({}, "hidden: "),
        ({**NOTED.facts, "more": 1}, "more: Unexpected"),
        ({**NOTED.facts, "foreign": [["a file"]]}, "foreign: 0: 1: Field required"),
    ],
)
def test_what_is_noted_beside_is_read_and_refused_where_it_is_damaged(
    note: dict[str, Any], fault: str, tmp_path: Path
) -> None:
    write_known(known(), tmp_path, **NOTED.facts)
    assert read_provenance(tmp_path) == NOTED
    write_known(known(), tmp_path, **note)
    with pytest.raises(RunFolderError, match=DAMAGED + fault):
        read_provenance(tmp_path)
