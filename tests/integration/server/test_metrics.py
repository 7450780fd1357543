"""What a server counts, as Prometheus' own parser reads it, and what is not among it."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from sdc import __version__
from sdc.model.schema import Schema, Variable
from sdc.model.table import Table
from sdc.record.database import ChainUnavailableError
from sdc.risk.criteria import Criteria
from sdc.server.service.deciding import fault_of
from sdc.storage.run_folder import RunFolder
from tests.helpers.http import NOW, Server, server_of
from tests.helpers.services import open_service
from tests.helpers.small_service import SmallService
from tests.unit.storage.test_runs import STAGES, make

Samples = dict[tuple[str, tuple[str, ...]], float]


def scraped(client: TestClient) -> Samples:
    """By name and values of labels."""
    answer = client.get("/metrics")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/plain; version=1.0.0; charset=utf-8")
    families = list(text_string_to_metric_families(answer.text))
    assert {family.name.split("_")[0] for family in families} == {"sdc"}
    assert all(family.documentation and family.type in ("counter", "gauge") for family in families)
    return {(one.name, tuple(one.labels.values())): one.value for family in families for one in family.samples}


def ask(client: TestClient, *names: str) -> str:
    return str(client.post("/api/requests", json={"variables": names}).json()["decision"])


def test_requests_decisions_and_outages(czech: Table, tmp_path: Path) -> None:
    service = open_service(czech, tmp_path)
    try:
        server = server_of(service)
        client, operator = server.client("user"), server.client("operator")
        assert [ask(client, *names) for names in ("AB", "AB", "ABCDEF")] == ["released", "answered", "refused"]
        assert client.get("/api/tables/A*B.csv").status_code == 200
        assert client.get("/nothing/A*B*C").status_code == 404
        found = scraped(operator)
        assert found["sdc_http_requests_total", ("/api/requests", "200")] == 3
        assert found["sdc_http_requests_total", ("/api/tables/{name:path}", "200")] == 1
        assert found["sdc_http_requests_total", ("", "404")] == 1
        outcomes = {labels[0]: value for (name, labels), value in found.items() if name == "sdc_decisions_total"}
        assert outcomes == {"released": 1, "answered": 1, "refused": 1}
        assert (found["sdc_ready", ()], found["sdc_version", ()], found["sdc_pending_requests", ()]) == (1, 1, 0)
        assert found["sdc_released_sub_tables", ()] == service.state.released.sub_tables(czech.schema)
        assert [labels[1] for name, labels in found if name == "sdc_info"] == [__version__]
        error = ChainUnavailableError("at postgresql://user@host")
        for _ in range(2):
            service.deciding.say(fault_of(error), error)
            service.deciding.say("")
        found = scraped(operator)
        assert found["sdc_outages_total", ("the history cannot be read or written",)] == 2
    finally:
        service.close()


@pytest.fixture
def server(czech: Table, tmp_path: Path) -> Server:
    found = server_of(SmallService(czech, Criteria.of(2, 6)))
    return Server(found.service, found.settings, runs=tmp_path / "runs")


def test_the_last_build_of_each_name(server: Server) -> None:
    operator = server.client("operator")
    assert not [name for name, _ in scraped(operator) if name.startswith("sdc_build")]
    make(server.runs, "births", "a", *STAGES)
    last = make(server.runs, "births", "b", "table", outcome="failed")
    make(server.runs, "deaths", "a", *STAGES)
    found = scraped(operator)
    states = {labels: value for (name, labels), value in found.items() if name == "sdc_build_state"}
    assert [labels for labels, value in states.items() if value] == [("births", "failed"), ("deaths", "finished")]
    assert len(states) == 16
    stages = {labels: value for (name, labels), value in found.items() if name == "sdc_build_stage_seconds"}
    assert stages == {("births", "table"): 1.0, **{("deaths", stage): 1.0 for stage in STAGES}}
    ended = last.events()[-1]["time"]
    assert (
        f"{found['sdc_build_end_timestamp_seconds', ('births',)]:.3f}"
        == f"{datetime.fromisoformat(ended).timestamp():.3f}"
    )
    with RunFolder(last.path).alone():
        assert scraped(operator)["sdc_build_state", ("births", "running")] == 1


def test_when_the_last_key_of_each_user_expires(server: Server) -> None:
    operator = server.client("operator")
    found = {labels: value for (name, labels), value in scraped(operator).items() if name.startswith("sdc_key")}
    assert found == {("operator",): (NOW + timedelta(days=30)).timestamp()}


def test_a_stranger_gets_one_message(server: Server) -> None:
    for client in (server.client(), server.client("user")):
        answer = client.get("/metrics")
        assert (answer.status_code, answer.json()) == (
            403,
            {"code": "forbidden", "message": "this is for operators of this server; use an operator's key"},
        )
    assert server.client("auditor").get("/metrics").status_code == 200
    closed = server_of(server.service, public=False)
    assert closed.client().get("/metrics").json()["code"] == "unauthorised"
    assert closed.client().get("/readyz").status_code == 200


def test_metrics_name_nothing_that_was_asked_for(czech: Table, tmp_path: Path) -> None:
    """Whether it was released, refused or never there."""
    variables = [Variable(f"canary{one.name}", one.categories) for one in czech.schema.variables]
    service = open_service(Table.of(Schema(tuple(variables)), czech.codes, czech.counts), tmp_path)
    try:
        server = server_of(service)
        client, operator = server.client("user"), server.client("operator")
        assert ask(client, "canaryA", "canaryB") == "released"
        assert ask(client, *(variable.name for variable in variables)) == "refused"
        assert client.get("/api/tables/canaryA*canaryB.csv").status_code == 200
        assert client.get("/canary").status_code == 404
        assert client.request("CANARY", "/api/tables/canaryA").status_code == 405
        assert "canary" not in operator.get("/metrics").text.lower()
    finally:
        service.close()
