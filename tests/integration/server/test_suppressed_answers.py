"""What is told of sub-tables in part: by a history, which may be forged, and over HTTP in every format."""

import csv
import io
import json
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pyarrow.parquet as pq
import pytest
from starlette.testclient import TestClient

from sdc.feasible.proof import Proof
from sdc.model.release import NOTHING
from sdc.model.state import State
from sdc.model.table import Table
from sdc.record.database import ChainError
from sdc.server.service.audit import Standard, audit
from sdc.server.service.history import DECISION, NO_PARTS_HERE, HistoryProjection
from sdc.server.service.judge import Judge, one_way
from sdc.server.service.service import Service
from sdc.server.web.answers import FORMATS
from tests.helpers.http import Server, server_of
from tests.helpers.services import CRITERIA, open_service
from tests.helpers.waiting import wait_until
from tests.integration.server.test_audit import Kept
from tests.integration.server.test_in_part import opened, told
from tests.strategies import knows

EVERYTHING = 0b111111
__all__ = ["opened"]


# Forged histories


Forge = Callable[[dict[str, Any]], None]


@pytest.fixture(scope="module")
def kept(czech: Table, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The entries of a right history: a part, the same again, something whole, and another part."""
    with closing(open_service(czech, tmp_path_factory.mktemp("right"))) as service:
        for subtable in (EVERYTHING, EVERYTHING, 0b000111, 0b11111):
            told(service, subtable, "ann", True)
        assert len(service.state.suppressed_tables.tables) == 2
        return [vars(entry) for entry in service.log.history.entries()]


def forged(entries: list[dict[str, Any]], forge: Forge = lambda body: None, number: int = -1) -> Kept:
    """Told again as a right chain, with another body of one decision, or without it where it is emptied."""
    decisions = [entry["seq"] for entry in entries if entry["kind"] == DECISION]
    found = Kept(entries[0]["body"]["about"])
    for entry in entries[1:]:
        body = json.loads(json.dumps(entry["body"]))
        if number >= 0 and entry["seq"] == decisions[number]:
            forge(body)
        if body:
            found.append(entry["kind"], entry["who"], entry["subject"], body)
    return found


def audited(history: Kept, table: Table, evidence: Proof | None = None) -> tuple[str, ...]:
    return audit(history, Standard(table, knows(table, NOTHING), CRITERIA, "a test", evidence)).failures  # type: ignore[arg-type]


def small_place(table: Table, body: dict[str, Any]) -> int:
    counts = table.dense.reshape(-1)
    return next(place for place in body["withheld"] if 0 < counts[place] <= CRITERIA.small_count)


def large_place(table: Table, body: dict[str, Any]) -> int:
    counts = table.dense.reshape(-1)
    return next(place for place in body["withheld"] if counts[place] > CRITERIA.small_count)


def test_a_history_with_parts_is_right_with_and_without_its_table(kept: list[dict[str, Any]], czech: Table) -> None:
    history = forged(kept)
    assert audited(history, czech) == ()
    found = audit(history)  # type: ignore[arg-type]
    assert (found.failures, found.verified, found.in_part) == ((), None, (0b11111, EVERYTHING))


def test_a_shown_cell_that_was_withheld_is_found(kept: list[dict[str, Any]], czech: Table) -> None:
    small = forged(kept, lambda body: body["withheld"].remove(small_place(czech, body)), 0)
    failures = audited(small, czech)
    assert "releases A*B*C*D*E*F with suppressed cells and shows 1 of its cells with counts of 1 to 2" in failures[0]
    large = audited(forged(kept, lambda body: body["withheld"].remove(large_place(czech, body)), 0), czech)
    assert "min width" in large[0]
    assert "of 3 small cells of suppressed tables are open" in large[0]


@pytest.mark.parametrize(
    ("forge", "number", "message"),
    [
        (lambda body: body.clear(), 0, "answers A*B*C*D*E*F with suppressed cells, which was not public so"),
        (lambda body: body.pop("withheld"), 0, "entry 4 is no decision as a server writes it"),
        (lambda body: body.update(withheld=[]), 0, "entry 4 is no decision as a server writes it"),
        (lambda body: body["withheld"].append(64), 0, "entry 4 is no decision as a server writes it"),
        (lambda body: body["withheld"].reverse(), 0, "entry 4 is no decision as a server writes it"),
        (lambda body: body.update(withheld=["3"]), 0, "entry 4 is no decision as a server writes it"),
        (lambda body: body.update(version=0), 0, "entry 4 has version 0, and 1 was due"),
        (
            lambda body: body.update(outcome="released_in_part", withheld=[0], version=2),
            1,
            "releases A*B*C*D*E*F with suppressed cells, which was public with",
        ),
    ],
)
def test_a_history_that_does_not_follow_is_found(
    forge: Forge, number: int, message: str, kept: list[dict[str, Any]], czech: Table
) -> None:
    assert message in "; ".join(audited(forged(kept, forge, number), czech))


def test_a_projection_does_not_go_on_from_places_that_are_none(kept: list[dict[str, Any]], czech: Table) -> None:
    history, projection = (
        forged(kept, lambda body: body["withheld"].append(64), 0),
        HistoryProjection(czech.schema, czech.total),
    )
    *before, wrong = history.entries()[:4]
    for entry in before:
        projection.apply(entry)
    with pytest.raises(
        ChainError, match="entry 4 of the history is corrupt: ValueError it has no cell at the place 64"
    ):
        projection.apply(wrong)


def test_evidence_of_other_cells_proves_nothing(kept: list[dict[str, Any]], czech: Table) -> None:
    """What the server kept is a help where it holds, and no more."""
    state = State.first(czech.schema, one_way(czech.schema))
    judge = Judge(czech, knows(czech, NOTHING), CRITERIA)
    found, proof = judge.in_part(state, EVERYTHING, 1.0)
    assert found is not None
    history = forged(kept)
    assert audited(history, czech, proof) == ()
    wrong = forged(kept, lambda body: body["withheld"].remove(large_place(czech, body)), 0)
    assert audited(wrong, czech, proof)


# Over HTTP


@pytest.fixture
def server(opened: Callable[..., Service]) -> Server:
    return server_of(opened())


def ask(client: TestClient, *names: str, in_part: Any = True) -> Any:
    return client.post("/api/requests", json={"variables": names, "in_part": in_part})


def settled(client: TestClient, found: Any) -> Any:
    if found.status_code == 202:
        job = found.json()["job"]
        wait_until(lambda: client.get(job).status_code != 202)
        found = client.get(job)
    return found.json()


def test_every_format_marks_what_is_withheld(server: Server) -> None:
    client = server.client()
    found = settled(client, ask(client, *"ABCDEF"))
    assert (found["decision"], found["code"]) == ("released", "released-in-part")
    assert found["table"] == "/api/tables/A*B*C*D*E*F"
    assert client.get("/api/frontier").json()["in_part"] == [[*"ABCDEF"]]
    counts = {s: client.get(f"{found['table']}.{s}") for s in FORMATS}
    assert {answer.status_code for answer in counts.values()} == {200}
    rows = [*csv.DictReader(io.StringIO(counts["csv"].text))]
    hidden = [row for row in rows if row["count_status"] == "withheld"]
    assert hidden
    assert {row["count"] for row in hidden} == {""}
    cells = counts["json"].json()["cells"]
    assert [cell for cell in cells if cell["count"] is None] == [
        {**{name: row[name] for name in "ABCDEF"}, "count": None, "count_status": "withheld"} for row in hidden
    ]
    assert counts["json"].json()["records"] == 1841
    assert counts["xml"].text.count("<withheld/>") == counts["txt"].text.count("  ..\n") == len(hidden)
    assert counts["html"].text.count("<td>..</td>") == len(hidden)
    assert "Other public tables limit it" in counts["html"].text
    assert len(counts["jsonstat"].json()["status"]) == len(hidden)
    assert counts["px"].text.partition("DATA=")[2].count('".."') == len(hidden)
    table = pq.read_table(io.BytesIO(counts["parquet"].content))
    assert table["count"].null_count == table["count_status"].to_pylist().count("withheld") == len(hidden)
    # what is shown is the same in all of them
    shown = [int(row["count"]) for row in rows if row["count"]]
    assert [cell["count"] for cell in cells if cell["count"] is not None] == shown
    assert [count for count in table["count"].to_pylist() if count is not None] == shown


def test_totals_of_withheld_cells_are_told_as_far_as_a_public_table_does(server: Server) -> None:
    """And become more: the answer is not kept for ever."""
    client = server.client()
    settled(client, ask(client, *"ABCDEF"))
    url = "/api/tables/A*B*C*D*E*F.csv?totals=true"

    def told_of(answer: Any) -> dict[tuple[str, ...], str]:
        return {tuple(row[n] for n in "ABCDEF"): row["count"] for row in csv.DictReader(io.StringIO(answer.text))}

    first = client.get(url)
    assert first.headers["cache-control"].endswith("no-cache")
    everything = ("(total)",) * 6
    assert told_of(first)[everything] == "1841"
    assert told_of(first)[("no", *everything[1:])]
    settled(client, ask(client, "A", "B"))
    later = client.get(url, headers={"if-none-match": first.headers["etag"]})
    assert later.status_code == 200
    more = {cell for cell, count in told_of(later).items() if count and not told_of(first)[cell]}
    assert all(cell[2:] == everything[2:] for cell in more)
    assert client.get(url, headers={"if-none-match": later.headers["etag"]}).status_code == 304
    whole = client.get("/api/tables/A*B.csv")
    assert "immutable" in whole.headers["cache-control"]


def test_with_draws_nothing_is_answered_in_part(opened: Callable[..., Service]) -> None:
    server = server_of(opened({"rule": "simulatable", "draws": 8, "share": 0.9}))
    found = ask(server.client(), "A", "B")
    assert (found.status_code, found.json()) == (400, {"code": "not-possible", "message": NO_PARTS_HERE})
    assert not server.service.requests()
    assert " with suppressed cells</button>" not in server.client().get("/tables/A*B*C*D*E*F").text


def test_the_page_of_a_refusal_has_a_button_that_takes_it_in_part(server: Server) -> None:
    client = server.client()
    refusal = client.get("/tables/A*B*C*D*E*F")
    assert "Ask for A*<wbr>B*<wbr>C*<wbr>D*<wbr>E*<wbr>F with suppressed cells</button>" in refusal.text
    csrf = refusal.text.partition('name="csrf" value="')[2].partition('"')[0]
    found = client.post("/requests", data={"csrf": csrf, "variable": [*"ABCDEF"], "in_part": "true"})
    assert found.status_code == 303
    wait_until(lambda: not server.service.health()["pending"])
    if found.headers["location"].startswith("/jobs"):
        found = client.get(found.headers["location"])
    assert found.headers["location"] == "/tables/A*B*C*D*E*F"
    page = client.get(found.headers["location"]).text
    assert "of the cells of this table are suppressed" in page
    assert "<td>..</td>" in page
    frontier = client.get("/frontier").text
    assert "is public with suppressed cells from then on" in frontier
    assert "<h2>Suppressed tables</h2>" in frontier
