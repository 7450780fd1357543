"""PxWebApi 2 over HTTP: documents, selections of public tables, code lists, and the API's own problems."""

import csv
import io
from collections.abc import Iterator
from contextlib import closing
from itertools import product
from typing import Any

import numpy as np
import openpyxl
import pyarrow.parquet as pq
import pytest
from starlette.testclient import TestClient

from sdc.config.publication import PublicationConfig
from sdc.model import subtable as st
from sdc.model.labels import Labels, VariableLabels
from sdc.model.schema import Coarser, Schema, Variable
from sdc.model.table import Table
from sdc.publish.formats.table import Dimension
from sdc.publish.publication import Texts
from sdc.risk.criteria import Criteria
from sdc.server.web.px_selection import places_of
from tests.helpers.http import Server, server_of
from tests.helpers.services import open_service, released
from tests.helpers.small_service import SmallService

API = "/pxapi/v2"
ABOUT = PublicationConfig(title="Small", period="1981", published="2025-12-30", population="men", source="a study")
LABELS = Labels({"A": VariableLabels("smokes", categories={"no": "never"}), "B": VariableLabels("strain")})


@pytest.fixture(scope="module")
def small(czech: Table) -> SmallService:
    service = SmallService(czech, Criteria.of(2, 6))
    service.texts = Texts(ABOUT, LABELS)
    released(service, 0b11)
    return service


@pytest.fixture
def server(small: SmallService) -> Server:
    return server_of(small.copy())


@pytest.fixture
def client(server: Server) -> TestClient:
    return server.client()


def values(response: Any) -> dict[tuple[str, ...], int | None]:
    """The cells of a dataset, by codes, without contents and time."""
    assert response.status_code == 200, response.text
    content = response.json()
    own = [v for v in content["id"] if v not in ("ContentsCode", "Tid")]
    every = product(*(content["dimension"][v]["category"]["index"] for v in own))
    return dict(zip(every, content["value"], strict=True))


def problem(response: Any) -> tuple[int, str]:
    assert response.headers["content-type"] == "application/problem+json"
    content = response.json()
    assert {"type", "title", "status", "detail"} <= {*content}
    assert (content["status"], bool(content["detail"])) == (response.status_code, True)
    return response.status_code, content["title"]


def test_the_config_has_what_clients_ask_first(client: TestClient) -> None:
    found = client.get(f"{API}/config").json()
    assert (found["apiVersion"], found["defaultDataFormat"], found["maxDataCells"]) == ("2.0.0", "json-stat2", 100_000)
    assert found["dataFormats"] == ["json-stat2", "csv", "px", "xlsx", "parquet"]


def test_the_list_has_pages_and_is_searched(client: TestClient) -> None:
    found = client.get(f"{API}/tables").json()
    ids = [one["id"] for one in found["tables"]]
    assert ids == ["A-B", "C", "D", "E", "F", "B", "A"]
    assert (found["page"]["totalElements"], found["page"]["totalPages"]) == (7, 1)
    entry = found["tables"][0]
    assert (entry["label"], entry["variableNames"]) == (
        "Small: smokes, strain",
        ["smokes", "strain", "contents", "time"],
    )
    assert entry["links"][1]["href"] == f"http://127.0.0.1{API}/tables/A-B/metadata"
    assert client.get(f"{API}/tables/A-B").json() == {**entry, "language": "en"}
    second = client.get(f"{API}/tables?pageSize=3&pageNumber=3&lang=sv").json()
    assert ([one["id"] for one in second["tables"]], second["page"]["totalPages"]) == (["A"], 3)
    assert [one["id"] for one in client.get(f"{API}/tables?query=SMOKES%20strain").json()["tables"]] == ["A-B"]
    assert client.get(f"{API}/tables?query=nothing").json()["page"]["totalElements"] == 0
    assert client.get(f"{API}/tables?pastDays=3").json()["page"]["totalElements"] == 7
    assert client.get(f"{API}/tables?pastDays=1").json()["tables"] == []
    assert problem(client.get(f"{API}/tables?pageNumber=2")) == (404, "Non-existent page")
    assert problem(client.get(f"{API}/tables?pageSize=many")) == (400, "Bad Request")


def test_metadata_are_the_dataset_without_values(client: TestClient) -> None:
    found = client.get(f"{API}/tables/A-B/metadata").json()
    assert (found["id"], found["size"], found["value"]) == (["A", "B", "ContentsCode", "Tid"], [2, 2, 1, 1], [])
    one = found["dimension"]["A"]
    assert one["category"] == {"index": {"no": 0, "yes": 1}, "label": {"no": "never", "yes": "yes"}}
    assert one["extension"]["elimination"] is True
    assert found["dimension"]["Tid"]["category"]["label"] == {"1981": "1981"}


def expected(table: Table, *names: str) -> dict[tuple[str, ...], int]:
    marginal = table.marginal(st.named(names, table.schema))
    variables = marginal.schema.variables
    every = dict.fromkeys(product(*(v.categories for v in variables)), 0)
    cells = zip(marginal.codes.tolist(), marginal.counts.tolist(), strict=True)
    return every | {tuple(v.categories[c] for v, c in zip(variables, cell, strict=True)): n for cell, n in cells}


def test_selections_are_views_of_the_table(client: TestClient, server: Server, czech: Table) -> None:
    whole = expected(czech, "A", "B")
    before = server.service.state, len(server.service.requests())
    assert values(client.get(f"{API}/tables/A-B/data")) == whole
    part = {cell: n for cell, n in whole.items() if cell[0] == "yes"}
    assert values(client.get(f"{API}/tables/A-B/data?valuecodes[A]=yes&valuecodes[B]=*")) == part
    body = {"selection": [{"variableCode": "a", "valueCodes": ["YES"]}, {"variableCode": "B", "valueCodes": ["*"]}]}
    assert values(client.post(f"{API}/tables/A-B/data?outputFormat=json-stat2", json=body)) == part
    body["selection"] += [{"variableCode": "time", "valueCodes": ["1981"]}]
    assert values(client.post(f"{API}/tables/A-B/data", json=body)) == part
    # what is left out is summed
    assert values(client.get(f"{API}/tables/A-B/data?valuecodes[B]=*")) == expected(czech, "B")
    assert values(client.get(f"{API}/tables/A-B/data?valuecodes[Tid]=*")) == {(): czech.total}
    assert (server.service.state, len(server.service.requests())) == before


EXPRESSIONS = {
    "*": ["01", "02", "10", "a,b", "é"],
    "01": ["01"],
    "01,10": ["01", "10"],
    "10,01": ["01", "10"],
    "[a,b],É": ["a,b", "é"],
    "0*": ["01", "02"],
    "*0": ["10"],
    "[?,?]": ["a,b"],
    "?0": ["10"],
    "??": ["01", "02", "10"],
    "TOP(2)": ["01", "02"],
    "top(2,1)": ["02", "10"],
    "BOTTOM(1)": ["é"],
    "BOTTOM(2,1)": ["10", "a,b"],
    "FROM(10)": ["10", "a,b", "é"],
    "TO(02)": ["01", "02"],
    "RANGE(02,10)": ["02", "10"],
    "RANGE(10,02)": ["02", "10"],
    "RANGE(a,b,É)": ["a,b", "é"],
    "TOP(1),BOTTOM(1)": ["01", "é"],
}


@pytest.fixture(scope="module")
def strange() -> TestClient:
    """A table of one public variable with codes of any kind, under a name of any kind."""
    codes = np.arange(5)[:, None].repeat(3, axis=0)
    schema = Schema((Variable("a b/ä", ("01", "02", "10", "a,b", "é")),))
    return server_of(SmallService(Table.of(schema, codes), Criteria.of(1, 1))).client()


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_expressions_are_those_of_the_api(text: str, strange: TestClient) -> None:
    own = "a~20b~2F~C3~A4"
    found = strange.get(f"{API}/tables/{own}/data", params={"valuecodes[a b/ä]": text})
    assert [*values(found)] == [(one,) for one in EXPRESSIONS[text]]


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("11", "Non-existent value"),
        ("TOP(0)", "Illegal selection expression"),
        ("TOP(x)", "Illegal selection expression"),
        ("FROM(11)", "Illegal selection expression"),
        ("RANGE(01)", "Illegal selection expression"),
        ("0*1", "Illegal selection expression"),
        ("*0*1*", "Illegal selection expression"),
        (",".join(f"?{number}" for number in range(21)), "Illegal selection expression"),
        ("x*", "Missing selection for mandantory variable"),
    ],
)
def test_values_that_do_not_exist_are_problems(text: str, title: str, strange: TestClient) -> None:
    own = "a~20b~2F~C3~A4"
    body = {"selection": [{"variableCode": "a b/ä", "valueCodes": text.split(",")}]}
    assert problem(strange.post(f"{API}/tables/{own}/data", json=body)) == (400, title)


@pytest.mark.parametrize(
    ("query", "status", "title"),
    [
        ("valuecodes[X]=1", 400, "Non-existent variable"),
        ("valuecodes=1", 400, "Bad Request"),
        ("valuecodes[A]=yes&valuecodes[a]=no", 400, "Bad Request"),
        ("valuecodes[A]=yes&codelist[A]=agg_A-X", 400, "Non-existent codelist"),
        ("outputFormat=html", 400, "Unsupported output format"),
        ("outputFormat=csv&outputFormatParams=UseTexts", 400, "Unsupported output format"),
        ("outputFormat=px&valuecodes[Tid]=*", 400, "Unsupported output format"),
    ],
)
def test_selections_that_cannot_be_answered(query: str, status: int, title: str, client: TestClient) -> None:
    assert problem(client.get(f"{API}/tables/A-B/data?{query}")) == (status, title)


TWICE = b'{"selection": [{"variableCode": "A", "valueCodes": ["yes"]}, {"variableCode": "A", "valueCodes": ["no"]}]}'


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b'{"selection": 1}',
        b'{"selection": [{"variableCode": 1}]}',
        b"[" * 9999,
        TWICE,
        b'{"selection": [{"variableCode": "A", "valueCodes": "yes"}]}',
    ],
)
def test_a_body_that_is_no_selection(body: bytes, client: TestClient) -> None:
    assert problem(client.post(f"{API}/tables/A-B/data", content=body)) == (400, "Bad Request")


def test_too_many_cells_are_refused_and_the_default_fits(
    small: SmallService, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = server_of(small, limits={"cells": 3}).client()
    assert few.get(f"{API}/config").json()["maxDataCells"] == 3
    assert problem(few.get(f"{API}/tables/A-B/metadata")) == (403, "Too many cells selected")
    assert problem(few.get(f"{API}/tables/A-C/metadata")) == (404, "Non-existent table")
    with monkeypatch.context() as patch:
        patch.setattr("sdc.server.web.pxapi.MOST_SELECTED", 3)
        found = client.get(f"{API}/tables/A-B/data?valuecodes[A]=*&valuecodes[B]=*")
        assert problem(found) == (403, "Too many cells selected")
        assert [*values(client.get(f"{API}/tables/A-B/data"))] == [("no", "no"), ("no", "yes")]
    found = client.get(f"{API}/tables/A-B/defaultselection").json()
    assert [one["valueCodes"] for one in found["selection"]] == [["no", "yes"], ["no", "yes"], ["count"], ["1981"]]
    assert found["placement"] == {"heading": ["ContentsCode", "Tid"], "stub": ["A", "B"]}


def test_what_is_not_released_is_as_what_is_not_there(client: TestClient) -> None:
    for end in ("", "/metadata", "/defaultselection", "/data", "/data?valuecodes[A]=*"):
        found = [
            client.get(f"{API}/tables/{own}{end}") for own in ("A-C", "X", "A-X", "B-A", "A-A", "a-b", "~", "count")
        ]
        assert {(one.status_code, one.text, str(one.headers)) for one in found} == {
            (404, found[0].text, str(found[0].headers))
        }
        assert problem(found[0]) == (404, "Non-existent table")
    body = {"selection": [{"variableCode": "A", "valueCodes": ["no such"]}]}
    found = [client.post(f"{API}/tables/{own}/data", json=body) for own in ("A-C", "A-X")]
    assert found[0].text == found[1].text
    assert problem(client.get(f"{API}/codelists/agg_A-C")) == (404, "Non-existent codelist")


def test_other_formats_have_the_same_cells(client: TestClient, czech: Table) -> None:
    query = "valuecodes[A]=yes&valuecodes[B]=*"
    rows = [(*cell, n) for cell, n in expected(czech, "A", "B").items() if cell[0] == "yes"]
    found = {name: client.get(f"{API}/tables/A-B/data?{query}&outputFormat={name}") for name in ("csv", "px", "xlsx")}
    header, *lines = csv.reader(io.StringIO(found["csv"].text))
    assert (header, [(*row[:2], int(row[2])) for row in lines]) == (["A", "B", "count"], rows)
    assert found["csv"].headers["content-disposition"] == 'attachment; filename="A-B.csv"'
    assert found["px"].text.endswith("DATA=\n" + "".join(f"{row[2]} " for row in rows) + "\n;\n")
    sheet = openpyxl.load_workbook(io.BytesIO(found["xlsx"].content))["A_B"]
    assert [tuple(row) for row in sheet.values][1:] == rows
    read = pq.read_table(io.BytesIO(client.get(f"{API}/tables/A-B/data?{query}&outputFormat=parquet").content))
    assert [tuple(row.values()) for row in read.to_pylist()] == rows


def test_answers_have_tags(client: TestClient) -> None:
    first = client.get(f"{API}/tables/A-B/data")
    again = client.get(f"{API}/tables/A-B/data", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content, first.headers["cache-control"]) == (304, b"", "no-cache")
    assert client.head(f"{API}/config").content == b""


def test_pages_of_other_sites_read_a_public_server_alone(small: SmallService) -> None:
    origin = {"origin": "https://elsewhere.example", "sec-fetch-site": "cross-site"}
    client = server_of(small).client()
    asks = {**origin, "access-control-request-method": "POST", "access-control-request-headers": "content-type"}
    assert client.options(f"{API}/tables/A-B/data", headers=asks).status_code == 200
    body = {"selection": [{"variableCode": "A", "valueCodes": ["*"]}, {"variableCode": "B", "valueCodes": ["*"]}]}
    found = client.post(f"{API}/tables/A-B/data", json=body, headers=origin)
    assert (found.status_code, found.headers["access-control-allow-origin"]) == (200, "*")
    assert "set-cookie" not in found.headers
    closed = server_of(small, public=False)
    assert problem(closed.client().get(f"{API}/config")) == (401, "Unauthorized")
    assert "access-control-allow-origin" not in closed.client("user").get(f"{API}/config", headers=origin).headers
    assert closed.client("user").get(f"{API}/tables/A-B/data").status_code == 200


def test_selections_have_the_limits_of_reading(small: SmallService) -> None:
    server = server_of(small, limits={"requests_a_minute": 1})
    client, body = server.client(), {"selection": []}
    found = [client.post(f"{API}/tables/A-B/data", json=body).status_code for _ in range(51)]
    assert found == [200] * 50 + [429]
    assert problem(client.get(f"{API}/config")) == (429, "Too Many Requests")
    assert client.get("/api/operator/requests").status_code == 429


def test_addresses_that_are_none_are_problems(client: TestClient) -> None:
    assert problem(client.get(f"{API}/savedqueries/1")) == (404, "Not Found")
    assert problem(client.delete(f"{API}/config")) == (405, "Method Not Allowed")


# Levels


LEVELLED = Schema(
    (
        Variable("region", ("north", "south"), Coarser("area", (0, 0, 1, 1))),
        Variable("sex", ("f", "m")),
        Variable("area", ("a", "b", "c", "d")),
    )
)


@pytest.fixture(scope="module")
def levelled() -> Server:
    rng = np.random.default_rng(1)
    codes = np.stack([rng.integers(0, len(LEVELLED.variables[axis].categories), 90) for axis in LEVELLED.axes], axis=1)
    service = SmallService(Table.of(LEVELLED, codes), Criteria.of(1, 1))
    released(service, st.named(["sex", "area"], LEVELLED))
    service.texts = Texts(PublicationConfig(), Labels({"region": VariableLabels("Region")}))
    return server_of(service)


def test_levels_are_code_lists(levelled: Server) -> None:
    client, service = levelled.client(), levelled.service
    metadata = client.get(f"{API}/tables/sex-area/metadata").json()
    (listed,) = metadata["dimension"]["area"]["extension"]["codelists"]
    assert (listed["id"], listed["label"], listed["type"]) == ("agg_area-region", "Region", "Aggregation")
    found = client.get(f"{API}/codelists/agg_area-region").json()
    assert found["values"] == [
        {"code": "north", "label": "north", "valueMap": ["a", "b"]},
        {"code": "south", "label": "south", "valueMap": ["c", "d"]},
    ]
    query = "codelist[area]=agg_area-region&valuecodes[area]=*&valuecodes[sex]=f"
    content = client.get(f"{API}/tables/sex-area/data?{query}").json()
    table = service.marginal(st.named(["sex", "region"], LEVELLED))
    assert table is not None
    own = content["id"].index("area"), content["dimension"]["area"]
    assert (own[0] < 2, [*own[1]["category"]["index"]], own[1]["label"]) == (True, ["north", "south"], "area")
    by_region = client.get(f"{API}/tables/{'-'.join(st.names(st.named(['sex', 'region'], LEVELLED), LEVELLED))}/data")
    whole = values(by_region)
    assert content["value"] == [n for cell, n in sorted(whole.items()) if "f" in cell]
    for other in ("agg_region-area", "agg_sex-region", "agg_area", "area-region", "agg_area-other"):
        assert problem(client.get(f"{API}/codelists/{other}")) == (404, "Non-existent codelist")


# Suppressed tables


@pytest.fixture(scope="module")
def suppressed(czech: Table, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with closing(open_service(czech, tmp_path_factory.mktemp("suppressed"))) as service:
        released(service, 0b111111, in_part=True)
        yield server_of(service)


def test_suppressed_cells_have_their_status(suppressed: Server, czech: Table) -> None:
    client, service = suppressed.client(), suppressed.service
    answer = service.in_part(0b111111)
    assert answer is not None
    names, variables = czech.schema.names, czech.schema.variables
    hidden = {
        tuple(v.categories[c] for v, c in zip(variables, cell, strict=True)) for cell in answer.suppressed.tolist()
    }
    own = "-".join(names)
    assert own in [one["id"] for one in client.get(f"{API}/tables?pageSize=99").json()["tables"]]
    found = client.get(f"{API}/tables/{own}/data")
    whole = {cell: None if cell in hidden else n for cell, n in expected(czech, *names).items()}
    assert values(found) == whole
    assert {*found.json()["status"].values()} == {"c"}
    one = next(iter(hidden))
    cell = [(f"valuecodes[{v}]", category) for v, category in zip(names, one, strict=True)]
    found = client.get(f"{API}/tables/{own}/data", params=cell)
    assert (found.json()["value"], found.json()["status"]) == ([None], {"0": "c"})
    # sums over what is suppressed are not public
    metadata = client.get(f"{API}/tables/{own}/metadata").json()
    assert {metadata["dimension"][v]["extension"]["elimination"] for v in names} == {False}
    assert problem(client.get(f"{API}/tables/{own}/data?valuecodes[A]=*")) == (
        400,
        "Missing selection for mandantory variable",
    )
    lines = client.get(f"{API}/tables/{own}/data?outputFormat=csv").text.splitlines()
    assert sum(line.endswith(",,withheld") for line in lines) == len(hidden)


def test_codes_that_differ_in_case_alone_are_told_apart() -> None:
    own = Dimension("v", ("A", "a", "b", "c"), "v", ("A", "a", "b", "c"))
    wanted = {"A": [0], "a": [1], "B": [2], "FROM(a)": [1, 2, 3], "TO(A)": [0], "RANGE(a,B)": [1, 2]}
    assert {text: places_of(own, [text]).tolist() for text in wanted} == wanted
