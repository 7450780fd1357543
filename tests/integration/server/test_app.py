"""The HTTP interface over a small service: requests, tables, frontiers, operators, labels, and what is down."""

import asyncio
import gc
import io
import os
import subprocess
import sys
import tempfile
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pyarrow.parquet as pq
import pytest
from starlette.testclient import TestClient

from sdc.config.publication import PublicationConfig
from sdc.model import subtable as st
from sdc.model.labels import Labels, VariableLabels
from sdc.model.release import Release
from sdc.model.table import Table
from sdc.publish.publication import Texts
from sdc.risk.criteria import Criteria
from sdc.server.service.outcome import Reply
from sdc.server.web import answers
from sdc.server.web.access import Role
from sdc.server.web.answers import FORMATS
from sdc.server.web.api import waited
from sdc.server.web.problems import LIVE, METRICS, READY
from tests.helpers.http import Server, server_of
from tests.helpers.small_service import SmallService

REFUSED, RELEASED = ["A", "B", "C", "D", "E", "F"], ["A", "B"]


@pytest.fixture(scope="module")
def small(czech: Table) -> SmallService:
    return SmallService(czech, Criteria.of(2, 6))


@pytest.fixture
def service(small: SmallService) -> SmallService:
    return small.copy()


@pytest.fixture
def server(service: SmallService) -> Server:
    return server_of(service)


@pytest.fixture
def client(server: Server) -> TestClient:
    return server.client()


@pytest.fixture
def operator(server: Server) -> TestClient:
    return server.client("operator")


def ask(client: TestClient, *names: str) -> Any:
    return client.post("/api/requests", json={"variables": names})


def problem(response: Any) -> tuple[int, str]:
    """What went wrong, told as JSON with a sentence and nothing of what is inside."""
    found = response.json()
    assert {"code", "message"} <= set(found)
    assert found["message"]
    assert "Traceback" not in response.text
    return response.status_code, found["code"]


# Asking


def test_asking(client: TestClient) -> None:
    first = ask(client, *RELEASED)
    assert first.status_code == 200
    assert first.json() == {
        "decision": "released",
        "code": "released",
        "message": "This table is public from now on.",
        "table": "/api/tables/A*B",
        "projection": [],
        "job": None,
        "version": 1,
    }
    again = ask(client, "B", "A").json()
    assert (again["decision"], again["table"], again["version"]) == ("answered", "/api/tables/A*B", 1)
    refused = ask(client, *REFUSED)
    assert refused.status_code == 200
    body = refused.json()
    assert (body["decision"], body["code"], body["table"], body["job"]) == ("refused", "not-released", None, None)
    assert ["A", "B"] in body["projection"]
    for part in body["projection"]:
        assert ask(client, *part).json()["decision"] == "answered"


def test_what_can_be_asked_for(client: TestClient) -> None:
    found = client.get("/api/variables").json()
    assert (found["title"], found["records"]) == ("Small", 1841)
    assert found["variables"][3] == {"name": "D", "categories": ["<140", ">=140"]}


def test_the_frontier_as_a_matrix(server: Server, client: TestClient, operator: TestClient) -> None:
    ask(client, *RELEASED)
    last = client.get("/api/frontier/matrix").json()
    assert set(last) == {"version", "last", "at", "cause", "variables", "released"}
    assert (last["version"], last["last"], last["cause"], last["variables"]) == (1, 1, ["A", "B"], [*"ABCDEF"])
    assert last["released"] == ["XX....", "..X...", "...X..", "....X.", ".....X"]
    first = client.get("/api/frontier/matrix?version=0").json()
    assert (first["version"], first["last"], first["cause"]) == (0, 1, None)
    assert first["released"] == ["X.....", ".X....", "..X...", "...X..", "....X.", ".....X"]
    both = [operator.get(f"/api/operator/frontier/matrix?version={t}").json() for t in (0, 1)]
    state = server.service.state
    assert both[1]["unreleasable"] == [st.marks(t, 6) for t in state.unreleasable]
    for moment, found in zip(server.service.moments(), both, strict=True):
        assert found["released"] == [st.marks(t, 6) for t in moment.released]
        assert found["unreleasable"] == [st.marks(t, 6) for t in moment.unreleasable]
    published = server_of(server.service, publish_unreleasable=True).client()
    assert published.get("/api/frontier/matrix").json() == published.get("/api/frontier/matrix?version=1").json()
    assert published.get("/api/frontier/matrix").json()["unreleasable"] == both[1]["unreleasable"]
    assert "unreleasable" not in published.get("/api/frontier/matrix?version=0").json()


def test_own_requests(server: Server, client: TestClient) -> None:
    """A user knows their requests by 1, 2, 3, ..., and not by what came between: others' requests, and decisions."""
    ada = server.client("user")
    for _ in range(2):
        ask(client, *REFUSED)
        ask(ada, *RELEASED)
    second, first = ada.get("/api/requests").json()["requests"]
    assert (first["number"], first["who"], first["sub_table"], first["decision"]) == (1, "user", ["A", "B"], "released")
    assert second["number"] == 2
    assert ada.get("/api/jobs/1").json()["decision"] == "released"
    listed = server.client("operator").get("/api/operator/requests").json()["requests"]
    assert len({request["number"] for request in listed}) == 4
    foreign, made_up = ada.get("/api/jobs/3"), client.get("/api/jobs/7")
    assert problem(foreign) == problem(made_up) == (404, "unknown-request")
    assert foreign.text.replace("3", "7") == made_up.text
    assert problem(client.get(f"/api/jobs/{'9' * 30}")) == (404, "unknown-request")
    for number in ("x", "1.5", "%00", "9" * 5000):
        assert problem(client.get(f"/api/jobs/{number}")) == (400, "bad-body")


# Tables


def test_every_format(client: TestClient) -> None:
    ask(client, *RELEASED)
    for suffix, format in FORMATS.items():
        found = client.get(f"/api/tables/A*B.{suffix}")
        assert (found.status_code, found.headers["content-type"]) == (200, format.media_type)
        assert found.headers["content-disposition"] == f'attachment; filename="A_B.{suffix}"'
        negotiated = client.get("/api/tables/A*B", headers={"accept": format.range})
        assert (negotiated.content, negotiated.headers["etag"]) == (found.content, found.headers["etag"])
        assert negotiated.headers["content-disposition"].startswith("inline")
    assert sum(cell["count"] for cell in client.get("/api/tables/A*B.json").json()["cells"]) == 1841
    read = pq.read_table(io.BytesIO(client.get("/api/tables/A*B.parquet").content))
    assert sum(read["count"].to_pylist()) == 1841
    assert 'HEADING="B"' in client.get("/api/tables/A*B.px").text
    sheets = ZipFile(io.BytesIO(client.get("/api/tables/A*B.xlsx").content)).read("xl/workbook.xml").decode()
    assert 'name="A_B"' in sheets


def test_the_grand_total(client: TestClient) -> None:
    assert "1841" in client.get("/api/tables/(total).csv").text
    assert "1841" in client.get("/api/tables/%28total%29").text


def test_what_is_released_never_changes(client: TestClient) -> None:
    ask(client, *RELEASED)
    tags = set()
    for path in ("A*B.csv", "A*B.json", "A*B.csv?zeros=1", "A*B.csv?totals=1", "A.csv", "B.csv"):
        found = client.get(f"/api/tables/{path}")
        tag = found.headers["etag"]
        tags.add(tag)
        assert found.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert found.headers["vary"] == "Accept, Origin"
        for header in (tag, f"W/{tag}", f'"x", {tag}', "*"):
            unchanged = client.get(f"/api/tables/{path}", headers={"if-none-match": header})
            assert (unchanged.status_code, unchanged.content) == (304, b"")
            assert (unchanged.headers["etag"], unchanged.headers["vary"]) == (tag, "Accept, Origin")
        assert client.get(f"/api/tables/{path}", headers={"if-none-match": '"x"'}).status_code == 200
    assert len(tags) == 6


def test_who_needs_a_key_gets_what_no_other_cache_keeps(service: SmallService) -> None:
    found = server_of(service, public=False).client("user").get("/api/tables/A.csv")
    assert found.headers["cache-control"].startswith("private")


def test_an_entity_tag_tells_nothing_of_what_is_not_released(client: TestClient) -> None:
    ask(client, *RELEASED)
    for tag in ("*", client.get("/api/tables/A*B.csv").headers["etag"]):
        found = client.get("/api/tables/A*B*C*D*E*F.csv", headers={"if-none-match": tag})
        assert problem(found) == (404, "not-released")
        assert "etag" not in found.headers
        assert found.headers["cache-control"] == "no-store"


def test_heads(client: TestClient, operator: TestClient) -> None:
    """As GET, without the body."""
    operator.get("/nowhere")  # has a cookie from then on
    tables = [f"/api/tables/A.{suffix}" for suffix in FORMATS]
    for path in (*tables, "/api/tables/A*B*C", "/api/frontier", "/api", "/nowhere"):
        head, get = operator.head(path), operator.get(path)
        assert (head.status_code, head.content) == (get.status_code, b"")
        assert dict(head.headers) == dict(get.headers)
    assert client.head("/api/operator/frontier").status_code == 403


def test_a_part_of_a_file_is_had(client: TestClient) -> None:
    """As Polars and DuckDB read Parquet by address."""
    ask(client, *RELEASED)
    path = "/api/tables/A,B.parquet"
    whole = client.get(path)
    size, tag = len(whole.content), whole.headers["etag"]
    assert (whole.status_code, whole.headers["accept-ranges"]) == (200, "bytes")
    for text, first, end in (("0-3", 0, 4), ("4-", 4, size), ("-8", size - 8, size), (f"8-{size + 99}", 8, size)):
        part = client.get(path, headers={"range": f"bytes={text}"})
        assert (part.status_code, part.content) == (206, whole.content[first:end])
        assert part.headers["content-range"] == f"bytes {first}-{end - 1}/{size}"
        assert part.headers["etag"] == tag
    outside = client.get(path, headers={"range": f"bytes={size}-"})
    assert (outside.status_code, outside.headers["content-range"]) == (416, f"bytes */{size}")
    assert client.get(path, headers={"range": "bytes=x-"}).status_code == 400
    for condition, status in ((tag, 206), ('"another"', 200)):
        headers = {"range": "bytes=0-3", "if-range": condition}
        assert client.get(path, headers=headers).status_code == status


def test_large_answers_are_streamed_without_ranges(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    ask(client, *RELEASED)
    whole = client.get("/api/tables/A*B.csv").content
    monkeypatch.setattr(answers, "MOST_KEPT", 5)
    found = client.get("/api/tables/A*B.csv?zeros=1", headers={"range": "bytes=0-3"})
    assert (found.status_code, found.content, found.headers["accept-ranges"]) == (200, whole, "none")

    def full(**_: Any) -> Any:
        raise OSError("no space left")

    monkeypatch.setattr(answers, "NamedTemporaryFile", full)
    assert client.get("/api/tables/B*A.csv?zeros=true").content == whole


def test_answers_in_files_go_away(client: TestClient) -> None:
    there = set(Path(tempfile.gettempdir()).glob("sdc-answer-*"))
    kept = answers.AnswerFile(str(Path(tempfile.gettempdir()) / "sdc-answer-of-a-test"), 0)
    Path(kept.path).touch()
    del kept
    gc.collect()
    assert set(Path(tempfile.gettempdir()).glob("sdc-answer-of-*")) - there == set()


def test_files_of_killed_servers_go_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "gettempdir", lambda: str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    left, own = (tmp_path / f"{answers.TEMPORARY}{number}-x" for number in (ended.pid, os.getpid()))
    others = [tmp_path / f"sdc-answer-{name}" for name in ("another-host-1-x", "x", f"another-{ended.pid}-x")]
    for path in (left, own, *others):
        path.touch()
    (folder := tmp_path / f"{answers.TEMPORARY}{ended.pid}-folder").mkdir()
    answers.remove_left_files()
    assert {*tmp_path.iterdir()} == {own, *others, folder}


def test_addresses_without_a_star(client: TestClient) -> None:
    ask(client, *RELEASED)
    for comma, star in (("A,B.csv", "A*B.csv"), ("B,A.json", "A*B.json"), ("A.csv", "A.csv")):
        assert client.get(f"/api/tables/{comma}").text == client.get(f"/api/tables/{star}").text
    assert client.get("/tables/A,B").status_code == 200
    assert problem(client.get("/api/tables/A,.csv")) == (400, "unknown-variable")


def test_pages_of_other_sites_read_what_is_public_to_everybody(service: SmallService, client: TestClient) -> None:
    origin, shares = {"origin": "https://evil.example"}, "access-control-allow-origin"
    for path in ("tables/A.csv", "tables/A*B*C*D*E*F", "variables", "frontier", "frontier/matrix"):
        for headers in ({}, origin):
            found = client.get(f"/api/{path}", headers=headers)
            assert (found.headers[shares], found.headers["cross-origin-resource-policy"]) == ("*", "cross-origin")
        assert "access-control-allow-credentials" not in found.headers
    asked = {**origin, "access-control-request-method": "GET", "access-control-request-headers": "range"}
    assert client.options("/api/tables/A.csv", headers=asked).status_code == 200
    for method, header in (("POST", "range"), ("GET", "authorization")):
        asked |= {"access-control-request-method": method, "access-control-request-headers": header}
        assert client.options("/api/tables/A.csv", headers=asked).status_code == 400
    closed = server_of(service, public=False).client("user")
    others = [client.get("/api/requests", headers=origin), client.get("/", headers=origin)]
    for found in (*others, closed.get("/api/tables/A.csv", headers=origin)):
        assert (shares in found.headers, found.headers["cross-origin-resource-policy"]) == (False, "same-origin")


# What is down


def test_what_is_wrong_with_the_server(service: SmallService, monkeypatch: pytest.MonkeyPatch) -> None:
    client = server_of(service, public=False).client()
    assert client.get("/api/health").json() == {"status": "ok", "version": 0}
    gone = {"status": "postgresql://secret@host is gone", "version": 0, "pending": 0}
    monkeypatch.setattr(service, "health", lambda: gone)
    for path in ("/readyz", "/api/health"):
        found = client.get(path)
        assert found.status_code == 503
        assert "secret" not in found.text
        assert not found.headers.get("set-cookie")
    assert client.get("/livez").json() == {"alive": True}


def test_a_pending_request(czech: Table) -> None:
    class Slow(SmallService):
        def ask(self, subtable: int, who: str, *, in_part: bool = False) -> Future[Reply]:
            reply = super().ask(subtable, who).result()
            future = Future[Reply]()
            future.set_result(Reply("pending", "in-progress", "Ask again later.", subtable, reply.version, job=1))
            return future

    client = server_of(Slow(czech, Criteria.of(2, 6))).client()
    found = ask(client, *RELEASED)
    assert (found.status_code, found.json()["table"]) == (202, None)
    assert found.json()["decision"] == "pending"
    path, _, query = found.json()["job"].partition("?")
    assert (path, query[:8]) == ("/api/jobs/1", "visitor=")
    client.cookies.clear()
    assert problem(client.get(path)) == (404, "unknown-request")
    done = client.get(found.json()["job"])
    assert (done.status_code, done.json()["decision"], done.json()["table"]) == (200, "released", "/api/tables/A*B")


def test_who_goes_away_stops_no_decision() -> None:
    """The service still tells what it decided, to nobody."""
    future = Future[int]()

    async def go_away() -> None:
        waiting = asyncio.ensure_future(waited(future))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)

    asyncio.run(go_away())
    assert not future.cancelled()
    future.set_result(1)


# Operators and auditors


def test_effects(operator: TestClient) -> None:
    found = operator.get("/api/operator/effect?variables=A,B").json()
    assert (found["sub_table"], found["status"], found["is_safe"]) == (["A", "B"], "open", True)
    assert (found["released"], found["newly"]["released"]) == ([["A", "B"]], 1)
    assert operator.get("/api/operator/frontier").json()["version"] == found["version"] == 0
    assert problem(operator.get("/api/operator/effect?variables=")) == (400, "empty-request")
    assert problem(operator.get("/api/operator/effect")) == (400, "bad-body")
    assert problem(operator.get("/api/operator/effect?variables=A,A")) == (400, "repeated-variable")


def test_why(client: TestClient, operator: TestClient) -> None:
    ask(client, *REFUSED)
    (asked,) = operator.get("/api/operator/requests").json()["requests"]
    found = operator.get(f"/api/operator/requests/{asked['number']}").json()
    assert (found["request"], found["rule"], found["verdict"]) == (asked, "myopic", "unsafe")
    assert set(found["witness"]) == {"cell", "count", "outer", "inner"}
    assert problem(operator.get("/api/operator/requests/7")) == (404, "unknown-request")


def test_a_key_over_the_api(server: Server, operator: TestClient) -> None:
    made = operator.post("/api/operator/keys", json={"user": "auditor", "role": "auditor", "days": 1})
    assert (made.status_code, set(made.json())) == (201, {"user", "role", "key"})
    assert server.stored[-1][:3] == ("key", "operator", "auditor")
    key = made.json()["key"]
    ada = server.client()
    ada.headers["authorization"] = f"Bearer {key}"
    assert ada.get("/api/operator/frontier").status_code == 200
    number = key.split("_")[1]
    assert operator.delete(f"/api/operator/keys/{number}").json() == {"revoked": number}
    assert problem(operator.delete(f"/api/operator/keys/{number}")) == (404, "unknown-key")
    assert problem(ada.get("/api/operator/frontier")) == (401, "unauthorised")
    other = operator.post("/api/operator/keys", json={"user": "auditor", "role": "operator"})
    assert problem(other) == (400, "bad-body")
    assert "server.users gives auditor the role auditor" in other.json()["message"]
    for wrong in ({}, {"user": ""}, {"user": "a b"}, {"user": "user", "role": "root"}, {"user": "user", "days": 0}):
        assert problem(operator.post("/api/operator/keys", json=wrong)) == (400, "bad-body")


OPERATORS = [
    ("GET", "frontier"),
    ("GET", "frontier/matrix"),
    ("GET", "effect?variables=A"),
    ("GET", "statuses"),
    ("GET", "requests"),
    ("GET", "requests/1"),
    ("GET", "history"),
]
CHANGES = [("POST", "round", None), ("POST", "keys", {"user": "eve"}), ("DELETE", "keys/000000000000", None)]


@pytest.mark.parametrize(("role", "status"), [(None, 403), ("user", 403), ("auditor", 200)])
def test_auditors_look_and_operators_alone_change(
    role: Role | None, status: int, server: Server, client: TestClient
) -> None:
    ask(client, *REFUSED)
    whoever, stored = server.client(role), [*server.stored]
    for method, path in OPERATORS:
        assert whoever.request(method, f"/api/operator/{path}").status_code == status
    for method, path, body in CHANGES:
        assert problem(whoever.request(method, f"/api/operator/{path}", json=body)) == (403, "forbidden")
    assert server.stored == stored


def test_the_documentation(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    described = client.get("/api/openapi.json").json()
    monkeypatch.setattr("sdc.server.web.app.openapi_of", None)  # it is made once
    page = client.get("/api")
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    for path, operations in described["paths"].items():
        assert path.startswith("/api/") or path in (LIVE, READY, METRICS)
        for method, operation in operations.items():
            assert f"{method.upper()} {path}" in page.text
            assert operation["summary"] in page.text
            assert "422" not in operation["responses"]
    for word in ("<script", "style=", "http://", "https://"):
        assert word not in page.text
    assert "<h1>" in page.text
    table = described["paths"]["/api/tables/{name}"]["get"]["responses"]["200"]["content"]
    assert set(table) == {format.range for format in FORMATS.values()}


def test_no_category_is_listed_before_a_table_of_its_variable_is_public(service: SmallService) -> None:
    """That a category is listed tells that it has a record. How many there are decides no answer before that either."""
    service.texts = Texts(PublicationConfig(), Labels({"A": VariableLabels(categories={"no": "never"})}))
    service._state = replace(service.state, released=Release.of([0b110]))
    client = server_of(service, limits={"cells": 2}).client()
    found = client.get("/api/variables").json()
    assert [v["name"] for v in found["variables"] if v.get("categories")] == ["B", "C"]
    assert not found["labels"]["A"].get("categories")
    form = client.get("/").text
    assert form.count("Its categories are listed once a table of it is public.") == len(service.schema) - 2
    assert 'value="A" data-cells="1"' in form
    assert "never" not in form
    assert ask(client, "A", "D").json()["decision"] == "released"
    assert problem(ask(client, "A", "D", "B")) == (413, "too-large")


def test_labels_are_on_the_pages_and_in_the_interface(service: SmallService) -> None:
    plain = server_of(service).client().get("/api/tables/A.json").headers["etag"]
    smokes = VariableLabels("Smokes <often>", "asked at work", "habit", {"no": "never"})
    service.texts = Texts(PublicationConfig(period="1981", notes=("Men.",)), Labels({"A": smokes}))
    client = server_of(service).client()
    form, about = client.get("/").text, client.get("/about").text
    assert 'value="A" data-cells="2"> Smokes &lt;often&gt; <span class="soft">A</span>' in form
    assert all(text in form for text in ("<li>never</li>", "asked at work", "Unit: habit"))
    assert "<li>Reference period: 1981</li>" in about
    assert "<li>Men.</li>" in about
    table = client.get("/tables/A").text
    assert "<h1>Smokes &lt;often&gt;</h1>" in table
    found = client.get("/api/variables").json()
    assert found["variables"][0] == {"name": "A", "categories": ["no", "yes"]}
    assert found["about"] == {"period": "1981", "notes": ["Men."]}
    assert found["labels"]["A"]["categories"] == {"no": "never"}
    answer = client.get("/api/tables/A.json")
    assert (answer.json()["labels"], answer.json()["about"]) == (found["labels"], found["about"])
    assert answer.headers["etag"] != plain
