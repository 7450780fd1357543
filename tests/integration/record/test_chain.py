"""The chain: whole, chained, one writer at a time, and clear when its database is not there."""

import hashlib
import json
import os
import pwd
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from sdc.canonical import canonical
from sdc.model.errors import ConfigError
from sdc.record.chain import Chain, Turn
from sdc.record.database import ChainError, ChainUnavailableError, NoChainError
from sdc.record.entry import FIRST, OPENED
from tests.helpers.waiting import at_once, line_of

ABOUT = {"table": "0a" * 32, "criterion": {"small_count": 2, "min_width": 6}, "variables": ["A", "B", "C"]}
NOON = datetime(2001, 2, 3, 12, 0, 0, 123456, tzinfo=timezone(timedelta(hours=1)))


@pytest.fixture
def history(history_url: str) -> Iterator[Chain]:
    with closing(Chain.open(history_url, ABOUT, now=lambda: NOON)) as opened:
        yield opened


@contextmanager
def engine_of(url: str) -> Iterator[sa.Engine]:
    """The database without the history's care."""
    engine = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:") if ":" in url else f"sqlite:///{url}")
    yield engine
    engine.dispose()


def execute(url: str, *statements: str) -> None:
    with engine_of(url) as engine, engine.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def append(history: Chain, *bodies: dict[str, Any]) -> None:
    with history.turn() as turn:
        for body in bodies:
            turn.append("request", "ann", "A*B", body)


@contextmanager
def appended(history: Chain) -> Iterator[Turn]:
    """A turn that has appended something."""
    with history.turn() as turn:
        turn.append("request", "ann", "A", {})
        yield turn


def in_process(code: str, *words: str) -> subprocess.Popen[str]:
    """A process of its own that runs this code, with words as its arguments."""
    lines = "import json, os, sys\nfrom sdc.record.chain import Chain\nABOUT = json.loads(sys.argv[1])\n"
    return subprocess.Popen(
        [sys.executable, "-c", lines + code, json.dumps(ABOUT), *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


# What is written is read


def test_a_new_history_begins_with_what_it_is_about(history: Chain, history_url: str) -> None:
    (opened,) = history.entries()
    assert (opened.seq, opened.kind, opened.who, opened.subject) == (1, OPENED, "", "")
    assert opened.at == "2001-02-03T11:00:00.123+00:00"
    assert opened.previous == FIRST
    assert history.about == ABOUT == opened.body["about"]
    assert len(bytes.fromhex(history.public_id)) == 16
    history.close()
    with closing(Chain.open(history_url, ABOUT)) as again:
        assert again.entries() == [opened]


def test_the_chain_is_what_anybody_computes(history: Chain) -> None:
    append(history, {"b": [1, 2.5, None], "a": "žluťoučký \u2028 \0"}, {})
    previous = "0" * 64
    for entry in history.entries():
        content = {**vars(entry)}
        found = content.pop("hash")
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        assert content["previous"] == previous
        assert found == hashlib.sha256(text.encode()).hexdigest()
        previous = found


def test_entries_are_chosen_by_number_kind_and_subject(history: Chain) -> None:
    with history.turn() as turn:
        for number in range(12):
            turn.append("ab"[number % 2], ("ann", "bob", "cy")[number % 3], ("A", "A*B")[number // 6], {"n": number})
    whole = history.entries()
    assert [entry.seq for entry in whole] == list(range(1, 14))
    assert history.head() == 13
    assert history.entries(10) == whole[10:]
    assert history.entries(kinds=["a"]) == whole[1::2]
    assert history.entries(kinds={"a", "b"}) == whole[1:]
    assert history.entries(subject="A*B", kinds=["b"]) == whole[8::2]
    assert history.entries(limit=2) == whole[:2]
    assert history.entries(13) == []


def test_a_turn_knows_its_entries_at_once_and_others_after_it(history: Chain, history_url: str) -> None:
    with closing(Chain.read(history_url)) as reader, history.turn() as turn:
        first = turn.append("request", "ann", "A", {"variables": ("A",)})
        assert (first.seq, first.body) == (2, {"variables": ["A"]})
        assert turn.append("decision", "ann", "A", {"request": first.seq}).previous == first.hash
        assert [entry.seq for entry in turn.entries(1)] == [2, 3]
        assert reader.head() == history.head() == 1
    assert history.head() == 3
    assert history.entries(1)[0] == first


bodies = some.dictionaries(
    some.text(max_size=4),
    some.recursive(
        some.none()
        | some.booleans()
        | some.integers()
        | some.floats(allow_nan=False, allow_infinity=False)
        | some.text(),
        lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=4), inner, max_size=3),
        max_leaves=8,
    ),
    max_size=4,
)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(bodies)
def test_any_body_reads_back_and_keeps_its_hash(history: Chain, body: dict[str, Any]) -> None:
    with history.turn() as turn:
        entry = turn.append("note", "ann", "", body)
    (found,) = history.entries(entry.seq - 1)
    assert found == entry
    assert found.body == body
    assert found.digest == found.hash
    shuffled = dict(reversed(body.items()))
    assert canonical(shuffled) == canonical(body)


@pytest.mark.parametrize(
    ("words", "body", "message"),
    [
        (("note", "ann", ""), {"x": float("nan")}, "Out of range float"),
        (("note", "ann", ""), {"x": float("inf")}, "Out of range float"),
        (("note", "ann", ""), {"x": {1, 2}}, "this cannot be written as JSON: .*set"),
        (("note", "ann", ""), {"x": "\ud800"}, "surrogates not allowed"),
        (("note", "ann", "\ud800"), {}, "surrogates not allowed"),
        (("note", "an\0n", ""), {}, "an entry of kind 'note' has a NUL in its user or subject"),
    ],
)
def test_what_is_no_json_is_not_appended(
    words: tuple[str, str, str], body: dict[str, Any], message: str, history: Chain
) -> None:
    with history.turn() as turn:
        with pytest.raises(ValueError, match=message):
            turn.append(*words, body)
        turn.append("note", "ann", "", {"after": True})
    assert [entry.body for entry in history.entries(1)] == [{"after": True}]


# Nothing is changed, nothing is lost


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE entries SET who = 'eve' WHERE seq = 2", "append-only"),
        ("UPDATE entries SET seq = 9 WHERE seq = 2", "append-only"),
        ("DELETE FROM entries WHERE seq = 2", "append-only"),
        (
            "INSERT INTO entries SELECT 4, kind, at, who, subject, body, previous, hash FROM entries WHERE seq = 2",
            "gaps",
        ),
        (
            "INSERT INTO entries SELECT 2, kind, at, who, subject, body, previous, hash FROM entries WHERE seq = 2",
            "gaps",
        ),
        (
            "INSERT INTO entries SELECT 0, kind, at, who, subject, body, previous, hash FROM entries WHERE seq = 2",
            "gaps",
        ),
    ],
)
def test_triggers_refuse(statement: str, message: str, history: Chain, history_url: str) -> None:
    append(history, {})
    with pytest.raises(sa.exc.DBAPIError, match=message):
        execute(history_url, statement)
    assert history.head() == 2


def test_sqlite_replaces_no_entry(sqlite_url: str) -> None:
    with closing(Chain.open(sqlite_url, ABOUT)) as history:
        with pytest.raises(sa.exc.DBAPIError, match="gaps"):
            execute(sqlite_url, "REPLACE INTO entries SELECT * FROM entries")
        assert history.about == ABOUT


def test_a_turn_that_raises_leaves_nothing(history: Chain) -> None:
    for error in ValueError("no"), KeyboardInterrupt():
        with pytest.raises(type(error)), appended(history):
            raise error
        assert history.head() == 1
    append(history, {})
    assert history.head() == 2


def test_threads_append_one_after_the_other(history: Chain) -> None:
    def work(who: str) -> None:
        for number in range(200):
            with history.turn() as turn:
                turn.append("note", who, "", {"n": number})

    at_once(work, ("ann", "bob"))
    assert_all_are_there(history, "ann", "bob")


def assert_all_are_there(history: Chain, *users: str) -> None:
    """200 entries of each, in their order, without a gap, and chained."""
    entries = history.entries()
    assert [entry.seq for entry in entries] == list(range(1, 2 + 200 * len(users)))
    assert [entry.previous for entry in entries[1:]] == [entry.hash for entry in entries[:-1]]
    for who in users:
        assert [entry.body["n"] for entry in entries if entry.who == who] == list(range(200))


KILLED = """
history = Chain.open(sys.argv[2], ABOUT)
with history.turn() as turn:
    turn.append("request", "ann", "A", {})
with history.turn() as turn:
    turn.append("request", "ann", "B", {})
    print("half", flush=True)
    sys.stdin.read()
"""


def test_a_process_killed_within_a_turn_leaves_whole_turns(history_url: str) -> None:
    process = in_process(KILLED, history_url)
    assert line_of(process) == "half\n"
    process.send_signal(signal.SIGKILL)
    process.wait(600)
    with closing(Chain.open(history_url, ABOUT)) as history:
        append(history, {})
        assert [entry.subject for entry in history.entries()] == ["", "A", "A*B"]
        assert [entry.seq for entry in history.entries()] == [1, 2, 3]


# Whose history it is


def test_a_history_of_another_table_is_refused(history: Chain, history_url: str) -> None:
    history.close()
    for about, message in [
        (
            {**ABOUT, "table": "ff"},
            r'is of another table: table is "(0a)+\.\.\., not "ff"; name the history of this one',
        ),
        (
            {**ABOUT, "criterion": {"small_count": 2, "min_width": 5}},
            r'another criterion: criterion is {"min_width":6,"small_count":2}, not {"min_width":5,"small_count":2}',
        ),
        ({**ABOUT, "zeros": 1}, "another zeros: zeros is missing, not 1"),
        ({"table": ABOUT["table"]}, "another criterion: .*, not missing; variables is "),
    ]:
        with pytest.raises(ChainError, match=message):
            Chain.open(history_url, about)
    Chain.open(history_url, ABOUT).close()


def test_migrations_are_what_this_version_knows(history: Chain, history_url: str) -> None:
    history.close()
    for statement, message in [
        ("UPDATE alembic_version SET version_num = '9999'", r"another version of sdc .*migration 9999.*use that"),
        ("DELETE FROM alembic_version", "has no mark of a migration"),
    ]:
        execute(history_url, statement)
        for opened in (lambda: Chain.open(history_url, ABOUT)), (lambda: Chain.read(history_url)):
            with pytest.raises(ChainError, match=message):
                opened()


def test_what_was_migrated_and_not_begun_is_begun(history_url: str) -> None:
    with pytest.raises(NoChainError):
        Chain.read(history_url)
    if ":" not in history_url:
        with pytest.raises(ChainError, match="there is no history"):
            Chain.migrate(history_url)
        Path(history_url).touch()
    Chain.migrate(history_url)
    with closing(Chain.read(history_url)) as history, pytest.raises(ChainError, match="does not begin with the table"):
        history.about  # noqa: B018
    with closing(Chain.open(history_url, ABOUT)) as history:
        assert history.about == ABOUT


def test_a_history_that_is_read_is_not_written_and_does_not_lock(history: Chain, history_url: str) -> None:
    with closing(Chain.read(history_url)) as reader:
        append(history, {})
        assert reader.entries() == history.entries()
        assert reader.about == ABOUT
        with pytest.raises(ChainError, match="was opened to be read"), reader.turn():
            pass


def test_tables_of_others_are_left_alone(history_url: str) -> None:
    execute(history_url, "CREATE TABLE theirs (x INTEGER)", "INSERT INTO theirs VALUES (1), (2)")
    Chain.open(history_url, ABOUT).close()
    with engine_of(history_url) as engine, engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT x FROM theirs ORDER BY x").scalars().all() == [1, 2]


def test_a_body_that_is_damaged_is_named(history: Chain, history_url: str) -> None:
    append(history, {})
    disarm(history_url)
    execute(history_url, "UPDATE entries SET body = '[]' WHERE seq = 2")
    with pytest.raises(ChainError, match=r"entry 2 of the history .* is corrupt: its body is not a JSON object"):
        history.entries()


def disarm(url: str) -> None:
    """Drops the triggers, as somebody may who owns the database."""
    if url.startswith("postgresql"):
        execute(url, *(f"DROP TRIGGER {name} ON entries" for name in ("entries_append_only", "entries_in_order")))
    else:
        execute(url, *(f"DROP TRIGGER entries_{name}" for name in ("not_changed", "not_removed", "in_order")))


# SQLite files


def test_one_server_has_a_file(sqlite_url: str) -> None:
    link = Path(sqlite_url).with_name("link")
    link.symlink_to(sqlite_url)
    with closing(Chain.open(sqlite_url, ABOUT)):
        for name in sqlite_url, f"sqlite:///{sqlite_url}", str(link):
            with pytest.raises(ChainError, match=r"another server is using the history .*history.db; stop that one"):
                Chain.open(name, ABOUT)
    with closing(Chain.open(sqlite_url, ABOUT)) as history:
        process = in_process("Chain.open(sys.argv[2], ABOUT)", sqlite_url)
        assert process.wait(600) == 1
        at_once(lambda _: history.close(), [None])
    Chain.open(sqlite_url, ABOUT).close()


def test_its_files_are_for_this_user(sqlite_url: str) -> None:
    with closing(Chain.open(sqlite_url, ABOUT)) as history:
        append(history, {})
        files = list(Path(sqlite_url).parent.iterdir())
        assert len(files) == 4
        assert {file.stat().st_mode & 0o777 for file in files} == {0o600}


def test_every_name_of_a_file_will_do(tmp_path: Path) -> None:
    Chain.open(str(tmp_path / "a b%20?mode=memory#ž.db"), ABOUT).close()
    assert (tmp_path / "a b%20?mode=memory#ž.db").stat().st_size > 0


def test_what_is_no_plain_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no database at all")
    os.mkfifo(tmp_path / "pipe")
    for name, message in [
        ("text", "text is not an SQLite database, or corrupt"),
        ("pipe", "pipe is not a plain file"),
        (".", "is not a plain file"),
        ("none/history.db", "cannot be made, its folder is not there; make that first"),
        ("\0", "is no path here"),
    ]:
        for _ in range(2):
            with pytest.raises((ChainError, ConfigError), match=message):
                Chain.open(f"{tmp_path}/{name}", ABOUT)
    with pytest.raises(ChainError, match=r"there is no history .*missing"):
        Chain.read(str(tmp_path / "missing"))
    assert not (tmp_path / "missing").exists()


def test_a_file_that_is_moved_is_missed(sqlite_url: str) -> None:
    with closing(Chain.open(sqlite_url, ABOUT)) as history:
        moved = Path(sqlite_url).rename(f"{sqlite_url}.moved")
        with pytest.raises(ChainUnavailableError, match="was moved or replaced while it is used"):
            append(history, {})
        moved.rename(sqlite_url)
        append(history, {})
        assert history.head() == 2


def test_a_file_that_another_program_locks_is_waited_for_and_then_unavailable(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sdc.record.database.BUSY_SECONDS", 0.1)
    with closing(Chain.open(sqlite_url, ABOUT)) as history, engine_of(sqlite_url) as engine:
        with engine.connect() as other:
            other.exec_driver_sql("BEGIN IMMEDIATE")
            with pytest.raises(ChainUnavailableError, match=r"is locked by another process just now \(SQLITE_BUSY\)"):
                append(history, {})
            assert history.head() == 1
            other.exec_driver_sql("ROLLBACK")
        append(history, {})
        assert history.head() == 2


def test_a_full_disk_leaves_whole_turns(sqlite_url: str) -> None:
    with closing(Chain.open(sqlite_url, ABOUT)) as history:
        pages = [1]
        sa.event.listen(
            history._database._engine, "checkout", lambda c, *_: c.execute(f"PRAGMA max_page_count={pages[0]}")
        )
        with pytest.raises(ChainUnavailableError, match=r"has no room left on its disk just now \(SQLITE_FULL\)"):
            append(history, {}, {"long": "x" * 100_000})
        pages[0] = 1 << 30
        assert history.head() == 1
        append(history, {})
        assert history.head() == 2


@contextmanager
def as_somebody() -> Iterator[Path]:
    """A folder of a user who is not root: to root nothing is read-only."""
    with tempfile.TemporaryDirectory() as name:
        if os.geteuid() != 0:
            yield Path(name)
            return
        user = pwd.getpwnam("nobody").pw_uid
        os.chown(name, user, -1)
        os.seteuid(user)
        try:
            yield Path(name)
        finally:
            os.seteuid(0)


def test_a_read_only_file_is_read_and_not_written() -> None:
    with as_somebody() as folder:
        path = folder / "history.db"
        Chain.open(str(path), ABOUT).close()
        path.chmod(0o400)
        with closing(Chain.open(str(path), ABOUT)) as history:
            with pytest.raises(ChainUnavailableError, match=r"is read-only just now .*READONLY"):
                append(history, {})
            assert history.about == ABOUT
        for file in folder.iterdir():  # SQLite makes others beside it, as open as it is
            file.chmod(0o600)
        with closing(Chain.open(str(path), ABOUT)) as history:
            append(history, {})
            assert history.head() == 2
        folder.chmod(0o500)
        with pytest.raises(ChainUnavailableError, match="Permission denied"):
            Chain.open(str(folder / "other.db"), ABOUT)
        folder.chmod(0o700)


# URLs


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("mysql://ann:secret@here/x", r"the history mysql://ann:\*\*\*@here/x is neither"),
        ("sqlite://", "the history sqlite:// is neither"),
        ("sqlite:///x?mode=memory&uri=true", "the history sqlite:///x is neither"),
        ("sqlite+aiosqlite:///x", "is neither an SQLite file nor a PostgreSQL database"),
        ("postgresql+asyncpg://ann:secret@here/x", "is neither"),
        ("postgresql://ann:secret@here:port/x", "the history's URL postgresql://... cannot be read"),
        ("://", "the history's URL ://... cannot be read"),
    ],
)
def test_other_urls_are_refused_without_their_password(url: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refusal:
        Chain.open(url, ABOUT)
    assert "secret" not in str(refusal.value)


def test_postgresql_needs_its_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ConfigError, match="a history in PostgreSQL needs the package psycopg"):
        Chain.open("postgresql://ann@here/x", ABOUT)
