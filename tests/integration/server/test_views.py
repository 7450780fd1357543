"""The views of a history: what a replay of its entries says, and what the handbook asks of them."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from sdc.handbook import pages
from sdc.model import subtable as st
from sdc.model.table import Table
from sdc.record.chain import Chain
from sdc.record.entry import Entry
from sdc.server.service.history import FRONTIERS, HistoryProjection
from sdc.server.simulation.replay import recorded
from tests.helpers.services import open_service
from tests.helpers.streams import stream

VIEWS = ("users", "queries", "decisions", "frontiers")
Ask = Callable[[str], list[dict[str, Any]]]


@contextmanager
def asking(url: str) -> Iterator[Ask]:
    """What a statement selects, as whoever reads the database has it."""
    engine = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:") if ":" in url else f"sqlite:///{url}")

    def ask(statement: str) -> list[dict[str, Any]]:
        with engine.begin() as connection:
            result = connection.exec_driver_sql(statement)
            return [dict(row) for row in result.mappings()] if result.returns_rows else []

    yield ask
    engine.dispose()


@pytest.fixture(scope="module")
def served(czech: Table, tmp_path_factory: pytest.TempPathFactory, night: list[int]) -> str:
    """The URL of such a history, for tests that leave it as it was."""
    folder = tmp_path_factory.mktemp("served")
    return serve(czech, folder, str(folder / "history.db"), sum(night))


def serve(table: Table, folder: Path, url: str, seed: int) -> str:
    """A server answers some, refuses some, and gives and takes keys; the URL of its history."""
    rules = [{"rule": "one_step"}]
    service = open_service(table, folder, url, rules)
    service.log.store("started", "", "", {"rules": rules})
    for number, (user, role) in enumerate([("ada", "user"), ("root", "operator"), ("ada", "auditor")]):
        body = {"key": f"k{number}", "user": user, "role": role, "sha256": "0", "expires": "2030-01-01T00:00:00+00:00"}
        service.log.store("key", "", user, body)
    service.log.store("key_revoked", "root", "ada", {"key": "k0"})
    for subtable, who in stream(seed, 6, 40):
        service.ask(subtable, who).result(600)
    service.close()
    return url


def entries_of(url: str) -> list[Entry]:
    with closing(Chain.read(url)) as history:
        return history.entries()


def test_frontiers_are_those_of_a_replay_after_every_entry(served: str, czech: Table) -> None:
    with asking(served) as ask:
        spans = ask("SELECT * FROM history_frontiers")
    course = HistoryProjection(czech.schema, czech.total)
    for entry in (entries := entries_of(served)):
        course.apply(entry)
        if entry.kind != "frontier":
            continue
        frontiers = course.state.released.frontier, course.state.unreleasable, course.state.undecided
        for name, frontier in zip(FRONTIERS, frontiers, strict=True):
            held = [s["sub_table"] for s in spans if s["frontier"] == name and is_within(entry.seq, s, "entry")]
            assert sorted(held) == sorted(st.label(t, czech.schema) for t in frontier), entry.seq
    for moment in course.moments:
        for name, frontier in (("released", moment.released), ("unreleasable", moment.unreleasable)):
            held = [s["sub_table"] for s in spans if s["frontier"] == name and is_within(moment.version, s, "version")]
            assert sorted(held) == sorted(st.label(t, czech.schema) for t in frontier), moment.version
    assert len(course.moments) > 5
    last = recorded(entries, czech).states[-1]
    assert (last.released.frontier, last.unreleasable) == (course.state.released.frontier, course.state.unreleasable)


def is_within(at: int, span: dict[str, Any], unit: str) -> bool:
    """Whether a sub-table was there when the entry was written, or the version ended."""
    until = span[f"until_{unit}"]
    return span[unit] <= at and (until is None or at < until)


def test_users_queries_and_decisions_are_those_of_the_entries(served: str) -> None:
    entries = entries_of(served)
    asked = [entry for entry in entries if entry.kind == "request"]
    made = [entry for entry in entries if entry.kind == "decision"]
    with asking(served) as ask:
        users, queries, decisions = (ask(f"SELECT * FROM history_{name} ORDER BY 1") for name in VIEWS[:3])
    assert queries == [{"query": e.seq, "at": e.at, "who": e.who, "sub_table": e.subject} for e in asked]
    for found, entry in zip(decisions, made, strict=True):
        width = entry.body["min_width"] or [None, None]
        assert found == {
            **{"entry": entry.seq, "at": entry.at, "query": entry.body["request"], "sub_table": entry.subject},
            **{name: entry.body[name] for name in ("outcome", "rule", "why", "verdict", "version", "milliseconds")},
            **{"least_min_width": width[0], "most_min_width": width[1]},
        }
    assert {found["rule"] for found in decisions} >= {"myopic", "one_step"}
    assert {found["outcome"] for found in decisions} == {"answered", "released", "refused"}
    number = Counter(entry.who for entry in asked)
    keys = {"ada": ("auditor", 1), "root": ("operator", 1)}
    assert [(u["name"], u["role"], u["keys"], u["queries"]) for u in users] == [
        (name, *keys.get(name, (None, 0)), number[name]) for name in sorted({*number, *keys})
    ]
    assert [u["first_query_at"] for u in users] == [
        next((e.at for e in asked if e.who == u["name"]), None) for u in users
    ]
    assert [u["first_key_at"] is None for u in users] == [u["role"] is None for u in users]


def test_what_the_handbook_asks_of_them_is_answered(served: str) -> None:
    statements = re.findall(r"```sql\n(.*?)```", dict(pages())["server.md"], re.DOTALL)
    asked = [one.strip() for text in statements for one in text.split(";") if one.strip()]
    assert {view for view in VIEWS if f"history_{view}" in " ".join(asked)} == {*VIEWS}
    with asking(served) as ask:
        for statement in asked:
            assert ask(statement), statement
