"""PxWebApi 2 as files: every document is that of the table, whatever its names, and the verifier reads the same."""

import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as hs

from sdc.config.publication import PublicationConfig
from sdc.model.errors import ReleaseError
from sdc.publish.formats import FORMATS
from sdc.publish.formats.pxapi import file_id, names_in, table_id
from sdc.publish.formats.table import CountTable, Dimension
from sdc.verify.published.formats import check_formats
from tests.helpers.count_tables import ABOUT, ANY, expected, small, tables, written

ROOT = "pxapi/v2"


def documents(*these: CountTable) -> dict[str, Any]:
    """By path below the address of the API."""
    found = FORMATS["pxapi"].files(these)
    return {path.removeprefix(f"{ROOT}/"): json.loads(written(pieces())) for path, pieces in found.items()}


@given(tables())
def test_every_cell_is_there_in_order(table: CountTable) -> None:
    """All of them, as clients pair the values with the product of the categories."""
    own = file_id([v.name for v in table.variables])
    data = documents(table)[f"tables/{own}/data"]
    variables = data["id"][: len(table.variables)]
    assert variables == [v.name for v in table.variables]
    index = [data["dimension"][v]["category"]["index"] for v in variables]
    assert [[*one.values()] for one in index] == [[*range(size)] for size in data["size"][: len(variables)]]
    assert data["size"][len(variables) :] == [1] * (1 + (table.about.period is not None))
    values, suppressed = (
        dict(zip(product(*index), data["value"], strict=True)),
        {int(k) for k in data.get("status", ())},
    )
    assert {place for place, one in enumerate(data["value"]) if one is None} == suppressed
    assert values == {row[:-1]: row[-1] for row in expected(replace(table, zeros=True))}


@given(tables())
def test_the_verifier_reads_the_same(table: CountTable) -> None:
    variables, rows = [v.name for v in table.variables], expected(replace(table, zeros=True))
    path = f"{ROOT}/tables/{file_id(variables)}/data"
    cells = {row[:-1]: row[-1] for row in rows}
    with TemporaryDirectory() as folder:
        Path(folder, path).parent.mkdir(parents=True)
        Path(folder, path).write_bytes(written(FORMATS["pxapi"].files([table])[path]()))
        files = [{"path": path, "format": "pxapi"}]
        check_formats(Path(folder).joinpath, files, {"001_t": (variables, cells)})
        other = {**cells, rows[0][:-1]: 7 if rows[0][-1] != 7 else None}
        with pytest.raises(ValueError, match="has other cells than the table has as CSV or Parquet"):
            check_formats(Path(folder).joinpath, files, {"001_t": (variables, other)})
        with pytest.raises(ValueError, match="is of no table that is there as CSV or Parquet"):
            check_formats(Path(folder).joinpath, files, {"002_t": (variables, cells)})


@given(hs.lists(ANY, min_size=1, max_size=4))
def test_an_id_holds_any_names(names: list[str]) -> None:
    """In characters that no address or folder has to escape."""
    own = table_id(names)
    assert names_in(own) == names
    assert {*own} <= {*"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_~-"}
    assert len(file_id(names)) <= 200


def test_an_id_has_one_spelling() -> None:
    for other in ("a~62", "a~6f", "a~", "a b", "~C3", "a~~00", "ä"):
        assert names_in(other) is None
    assert file_id(["x" * 300]) != file_id(["x" * 301])


def test_the_list_says_what_the_tables_are_of() -> None:
    about = ABOUT.model_copy(update={"published": "2024-05-01"})
    found = documents(small("a", "<b>", about=about))
    assert found["config"]["apiVersion"] == "2.0.0"
    assert (found["config"]["license"], found["config"]["dataFormats"]) == ("CC-BY-4.0", ["json-stat2"])
    (entry,) = found["tables/index.html"]["tables"]
    assert found["tables/index.html"]["page"]["totalElements"] == 1
    assert found["tables/A/index.html"] == {**entry, "language": "en"}
    shown = {key: entry[key] for key in ("id", "updated", "firstPeriod", "lastPeriod", "timeUnit", "variableNames")}
    assert shown == {
        "id": "A",
        "updated": "2024-05-01T00:00:00Z",
        "firstPeriod": "1981",
        "lastPeriod": "1981",
        "timeUnit": "Annual",
        "variableNames": ["A", "contents", "time"],
    }
    metadata, data = found["tables/A/metadata"], found["tables/A/data"]
    assert metadata == {**data, "value": []}
    assert data["role"] == {"metric": ["ContentsCode"], "time": ["Tid"]}
    assert (data["source"], data["extension"]["population"]) == ("a study", "men")
    # hosts send the list as a page, whose encoding clients guess
    for path, pieces in FORMATS["pxapi"].files([small("é", "<b>", about=about)]).items():
        text = written(pieces())
        assert (text.isascii(), b"<" in text) == (True, False), path


def test_a_table_without_a_period_has_no_time() -> None:
    found = documents(small("a"))
    assert (found["tables/A/data"]["role"], found["tables/A/data"]["id"]) == (
        {"metric": ["ContentsCode"]},
        ["A", "ContentsCode"],
    )
    assert found["tables/index.html"]["tables"][0]["firstPeriod"] is None


def test_names_and_labels_of_clients_are_left_to_variables() -> None:
    one = Dimension("Tid", ("a",), "time", ("a",))
    other, same = replace(one, name="ContentsCode", label="contents"), replace(one, name="B", label="time")
    table = replace(small("a", about=PublicationConfig(period="1981")), dimensions=(one, other, same))
    table = replace(table, codes=np.zeros((1, 3), np.uint16), counts=np.array([5]))
    data = documents(table)["tables/Tid-ContentsCode-B/data"]
    assert data["id"] == ["Tid", "ContentsCode", "B", "ContentsCode_", "Tid_"]
    labels = [data["dimension"][v]["label"] for v in data["id"]]
    assert labels == ["time (Tid)", "contents", "time (B)", "contents_", "time_"]


@pytest.mark.parametrize(
    ("period", "unit"),
    [("1981", "Annual"), ("2024-03", "Monthly"), ("2024K1", "Quarterly"), ("2024W07", "Weekly"), ("spring", "Other")],
)
def test_the_unit_of_time_is_read_from_the_period(period: str, unit: str) -> None:
    found = documents(small("a", about=PublicationConfig(period=period)))
    assert found["tables/index.html"]["tables"][0]["timeUnit"] == unit


def test_what_clients_cannot_read_is_refused() -> None:
    square = tuple(Dimension(v, (c := tuple(map(str, range(2300)))), v, c) for v in "AB")
    wide = CountTable("001_t", "", square, np.zeros((1, 2), np.uint16), np.array([1]))
    with pytest.raises(ReleaseError, match="has 5290000 cells, and clients of PxWebApi list every one"):
        FORMATS["pxapi"].files([wide])
    with pytest.raises(ReleaseError, match="differ in upper and lower case alone"):
        FORMATS["pxapi"].files([small("a"), replace(small("a", name="a"), name="002_t")])
