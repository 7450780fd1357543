"""Certificates as files: what is written is read, twice the same, and what is damaged is refused by what is wrong."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from sdc.feasible.differences import Differences
from sdc.feasible.proof import ComponentProof, Proof
from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds
from sdc.model.errors import InputError, RunFolderError
from sdc.model.knowledge import Knowledge
from sdc.model.release import NOTHING
from sdc.model.schema import Schema, Variable
from sdc.model.table import Table
from sdc.storage.certificate import Certificate, read_certificate, write_certificate
from sdc.storage.parquet import read_columns, write_columns
from sdc.storage.run_folder import write_json
from tests import levels
from tests.levels import Case
from tests.strategies import czech, evaluator_of, frontier, knows


def written(folder: Path, *, differences: Differences | None = None) -> Schema:
    """A certificate of the Czech auto workers with one component and no cover; the schema it is read by."""
    table, none = czech(), Differences.none(6)
    part = ComponentProof(st.full(6), None, none if differences is None else differences)
    certificate = Certificate("", knows(table, NOTHING), frontier("A"), 2, 6, Proof((part,), ()))
    write_certificate(certificate, table.schema, folder)
    return table.schema


def proven(table: Table, case: Case, min_width: int = 3) -> tuple[Certificate, CellBounds]:
    evaluation, bounds = evaluator_of(table, min_width, small_count=2, zeros=case.zeros).examine(case.known.release)
    known = Knowledge(table.schema, table.total, NOTHING, case.zeros, ())
    return Certificate(table.digest, known, case.known.release, 2, min_width, evaluation.proof), bounds


@settings(max_examples=200)
@given(case=levels.cases())
def test_what_is_written_is_read(case: Case, tmp_path_factory: pytest.TempPathFactory) -> None:
    """And written again it has the same bytes."""
    folder, again = tmp_path_factory.mktemp("written"), tmp_path_factory.mktemp("again")
    certificate, _ = proven(case.table, case)
    write_certificate(certificate, case.schema, folder)
    read = read_certificate(folder, case.schema)
    for name in ("table_digest", "known", "asked", "small_count", "min_width"):
        assert getattr(read, name) == getattr(certificate, name)
    assert read.proof.separators == certificate.proof.separators
    for part, other in zip(read.proof.parts, certificate.proof.parts, strict=True):
        assert (part.variables, part.cover) == (other.variables, other.cover)
        for name in ("start", "cells", "changes"):
            assert np.array_equal(getattr(part.differences, name), getattr(other.differences, name))
    write_certificate(read, case.schema, again)
    assert all((again / path.name).read_bytes() == path.read_bytes() for path in folder.iterdir())


def test_variables_may_have_the_names_of_columns(tmp_path: Path) -> None:
    schema = Schema((Variable("difference", ("a", "b")), Variable("change", ("c", "d")), Variable("exact", ("e", "f"))))
    table = Table.of(schema, np.array(list(np.ndindex(2, 2, 2))), np.array([1, 9, 9, 9, 9, 9, 9, 9]))
    public = (0b011, 0b110, 0b101)
    case = Case(table, public, knows(table, NOTHING).zeros, levels.agreeing(table, public))
    certificate, _ = proven(table, case, 1)
    assert certificate.proof.differences
    write_certificate(certificate, schema, tmp_path)
    assert read_certificate(tmp_path, schema).proof.differences == certificate.proof.differences


def test_empty_differences_are_left_out(tmp_path: Path) -> None:
    found = Differences(np.array([0, 0, 1, 1, 2, 2]), np.zeros((2, 6), np.uint16), np.array([1, -1]))
    schema = written(tmp_path, differences=found)
    (part,) = read_certificate(tmp_path, schema).proof.parts
    assert (part.differences.start.tolist(), part.differences.changes.tolist()) == ([0, 1, 2], [1, -1])


NUMBERS, COLUMNS = r"not numbered 0, 1, \.\.\. in order", "its columns are not A, B, C, D, E, F, difference, change"


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"difference": np.array([-1, 0])}, NUMBERS),
        ({"difference": np.array([0, 2])}, NUMBERS),
        ({"difference": np.array([1, 0])}, NUMBERS),
        ({"change": np.array([1.0, -1.0])}, COLUMNS),
        ({"more": np.array([1, 1])}, COLUMNS),
        ({"C": np.array([0, 2], np.uint16)}, "column 'C' has the code 2, the variable has 2 categories"),
    ],
)
def test_differences_that_are_damaged_are_refused(columns: dict[str, Any], message: str, tmp_path: Path) -> None:
    found = Differences(np.array([0, 1, 2]), np.zeros((2, 6), np.uint16), np.array([1, -1]))
    schema = written(tmp_path, differences=found)
    good, _ = read_columns(tmp_path / "differences_0.parquet")
    write_columns(tmp_path / "differences_0.parquet", {**good, **columns})
    with pytest.raises(InputError, match=rf"differences_0\.parquet is corrupt: .*{message}"):
        read_certificate(tmp_path, schema)


OF_A: dict[str, Any] = {"variables": ["A"], "cover": None, "differences": 0}
UNKNOWN, NO_COMPONENT = "unknown variable 'Q'; the table has A, B, C, D, E, F", "there is no component, or one without"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"min_width": True}, "min_width: .* valid integer"),
        ({"asked": "AB"}, "asked: .* valid array"),
        ({"asked": [["A", "Q"]]}, UNKNOWN),
        ({"known": {}}, "known: release: Field required"),
        ({"more": 1}, "more: Unexpected"),
        ({"parts": [{}]}, "parts: 0: beside: Field required"),
        ({"parts": [{"beside": [], "facts": []}] * 2}, "suppressed tables are listed twice"),
        ({"components": []}, NO_COMPONENT),
        ({"components": [{**OF_A, "variables": []}]}, NO_COMPONENT),
        ({"components": [{"variables": ["A"], "differences": 0}]}, "components: 0: cover: Field required"),
        ({"components": [{**OF_A, "variables": ["Q"]}]}, UNKNOWN),
        ({"components": [{**OF_A, "differences": True}]}, "components: 0: differences: .* valid integer"),
        ({"components": [{**OF_A, "more": 1}]}, "components: 0: more: Unexpected"),
        ({"components": [{**OF_A, "cover": {"cliques": [["A"]]}}]}, "separators: Field required"),
        ({"components": [{**OF_A, "cover": {"cliques": [["B"]], "separators": []}}]}, r"'B'; the table has A\W"),
        ({"format": 2}, "has format 2, this version reads 3"),
    ],
)
def test_a_certificate_that_is_damaged_is_refused(content: dict[str, Any], message: str, tmp_path: Path) -> None:
    schema, file = written(tmp_path), tmp_path / "certificate.json"
    write_json(file, {**json.loads(file.read_text()), **content})
    with pytest.raises(RunFolderError, match=rf"certificate\.json .*{message}"):
        read_certificate(tmp_path, schema)
