"""Nothing confidential leaves: distinctive counts, asked for in every way there is, are in no byte that a user gets."""

import io
import logging
import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pyarrow.parquet as pq
import pytest
from starlette.testclient import TestClient

from sdc.events import SERVER, EventLog, heard
from sdc.model import subtable as st
from sdc.model.schema import Schema, Variable
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.server.service.service import Service
from sdc.server.web.answers import FORMATS
from tests.helpers.http import Server, server_of
from tests.helpers.services import open_service

NAMES = ("Quokka", "Wombat", "Numbat", "Possum")  # of one length, so that answers differ in nothing else
EVERY = range(1, 1 << len(NAMES))
PAGES = (
    *("/", "/about", "/login", "/requests", "/frontier", "/nowhere", "/static/server.css", "/api", "/api/openapi.json"),
    *("/operator", "/operator/space", "/operator/requests", "/operator/requests/1"),
)
SUFFIXES = ("", *(f".{suffix}" for suffix in FORMATS))
QUERIES = ("", "?totals=1&zeros=1")


@pytest.fixture(scope="module")
def table() -> Table:
    """Four variables of two categories; counts of six digits, none the sum of others, and some cells at risk."""
    schema = Schema(tuple(Variable(name, (f"{name}-no", f"{name}-yes")) for name in NAMES))
    cells = np.array(list(np.ndindex(2, 2, 2, 2)))
    counts = np.arange(16) % 4
    large = [3, 4, 6, 7, 11, 13, 14, 15]
    counts[large] = 777_001 + 7_919 * np.arange(len(large)) ** 2
    return Table.of(schema, cells, counts)


@pytest.fixture
def desk(table: Table, tmp_path: Path) -> Iterator[Service]:
    with closing(open_service(table, tmp_path)) as service:
        yield service


def counts_of(table: Table, subtables: Any) -> set[int]:
    found = {int(count) for subtable in subtables for count in table.marginal(subtable).counts}
    return {count for count in found if count > 1000}


def walk(server: Server, client: TestClient) -> Iterator[Any]:
    """Asks for everything, and goes everywhere; in the end the answers of all addresses."""
    schema = server.service.schema
    for subtable in sorted(EVERY, key=lambda t: (-st.dimension(t), t)):
        yield client.post("/api/requests", json={"variables": st.names(subtable, schema)})
    paths = [*PAGES, *(f"/api/{name}" for name in ("variables", "frontier", "requests", "health"))]
    paths += [f"/api/operator/{name}" for name in ("frontier", "statuses", "requests", "requests/1", "history")]
    paths += ["/livez", "/readyz", "/metrics", "/pxapi/v2/config", "/pxapi/v2/tables?pageSize=99"]
    for subtable in EVERY:
        names = st.names(subtable, schema)
        paths.append(f"/api/operator/effect?variables={','.join(names)}")
        address = f"tables/{'*'.join(names)}"
        paths += [f"/{address}{query}" for query in QUERIES]
        paths += [f"/api/{address}{suffix}{query}" for suffix in SUFFIXES for query in QUERIES]
        summed = f"/data?valuecodes[{names[0]}]=*"
        views = ("", "/metadata", "/defaultselection", "/data", "/data?outputFormat=csv", summed)
        paths += [f"/pxapi/v2/tables/{'-'.join(names)}{view}" for view in views]
    paths += [f"{prefix}/jobs/{number}" for prefix in ("", "/api") for number in range(1, 2 * len(EVERY))]
    for path in paths:
        yield client.get(path)


def numbers_in(response: Any) -> set[int]:
    """Every number of five digits or more in headers and body, however grouped; of Parquet the counts."""
    text = "\n".join(f"{name}: {value}" for name, value in response.headers.items())
    if response.headers.get("content-type") == FORMATS["parquet"].media_type:
        read = pq.read_table(io.BytesIO(response.content))
        return {*digits_in(text), *read["count"].to_pylist()}
    if response.headers.get("content-type") == FORMATS["xlsx"].media_type:
        book = ZipFile(io.BytesIO(response.content))
        return digits_in("\n".join([text, *(book.read(name).decode() for name in book.namelist())]))
    return digits_in(text + response.content.decode())


def digits_in(text: str) -> set[int]:
    grouped = re.findall(r"(?<![0-9])[0-9]{1,3}(?:[,'.\u00a0\u202f _][0-9]{3})+(?![0-9])", text)
    return {int(re.sub("[^0-9]", "", found)) for found in (*re.findall("[0-9]{5,40}", text), *grouped)}


def test_no_count_leaves_that_was_not_released(
    desk: Service, table: Table, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    server, log = server_of(desk), tmp_path / "log.jsonl"
    with server.client("user") as client, caplog.at_level(logging.DEBUG), heard(EventLog(log), SERVER):
        answers = list(walk(server, client))
    released = [t for t in EVERY if t in desk.state.released]
    refused = [t for t in EVERY if t not in desk.state.released]
    assert min(len(released), len(refused)) > 5, "both are tried"
    public, everything = counts_of(table, released) | {table.total}, counts_of(table, EVERY)
    secret = everything - public
    assert len(secret) > 20
    seen = set().union(*map(numbers_in, answers))
    assert not seen & secret
    assert seen & everything == public & everything, "what is public is had"
    # of the client in this test, and no part of the server
    said = "\n".join(r.getMessage() for r in caplog.records if r.name.partition(".")[0] not in ("httpx", "httpcore"))
    lines = log.read_text()
    assert '"method": "POST", "route": "/api/requests", "status": 200' in lines
    # the time of a line and what it took are the clock's
    said += re.sub('"time": "[^"]*"|"milliseconds": [0-9.]*', "", lines)
    assert not digits_in(said) & everything
    for word in NAMES:
        assert word.lower() not in said.lower()


def test_refusals_of_one_shape_are_the_same(desk: Service) -> None:
    """Whatever the reason: apart from names and the version they are the same bytes."""
    server = server_of(desk)
    client = server.client("user")
    shapes = defaultdict[Any, set[Any]](set)
    for _ in range(2):
        for subtable in sorted(EVERY, key=lambda t: (-st.dimension(t), t)):
            names = st.names(subtable, desk.schema)
            response = client.post("/api/requests", json={"variables": names})
            if response.json()["decision"] == "refused":
                body = response.json()
                shape = shape_of(body, subtable, desk)
                shapes["asked", shape].add(said_of(response, names, body["version"]))
    for subtable in EVERY:
        if subtable not in desk.state.released:
            names = st.names(subtable, desk.schema)
            for suffix in SUFFIXES:
                response = client.get(f"/api/tables/{'*'.join(names)}{suffix}")
                assert response.status_code == 404
                shape = shape_of(response.json(), subtable, desk)
                shapes["table", shape].add(said_of(response, names, response.json()["version"]))
    assert sum(len(said) for said in shapes.values()) == len(shapes) > 4


def shape_of(body: dict[str, Any], subtable: SubTable, desk: Service) -> Any:
    """What is told of the public parts, by the position of each name in the request."""
    names = st.names(subtable, desk.schema)
    parts = [[names.index(name) for name in part] for part in body["projection"]]
    return len(names), str(parts), len(str(body["version"]))


def said_of(response: Any, names: list[str], version: int) -> Any:
    """Status, headers but the date, and body, with names replaced by their position."""
    body = re.sub(f'"version":{version}\\b', '"version":0', response.text)
    for position, name in enumerate(names):
        body = body.replace(name, str(position))
    headers = sorted((name, value) for name, value in response.headers.items() if name != "date")
    return response.status_code, str(headers), body
