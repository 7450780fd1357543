"""The chain in PostgreSQL: all that holds in SQLite, sessions that end, servers that stop, and passwords."""

import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from sdc.record.chain import Chain
from sdc.record.database import ChainError, ChainUnavailableError
from sdc.refusal import ERROR, TRY_AGAIN, status_of
from tests.helpers.databases import WITH_PASSWORD, Cluster, of_histories, running_cluster
from tests.integration.record import test_chain as in_sqlite
from tests.integration.record.test_chain import (
    ABOUT,
    append,
    appended,
    assert_all_are_there,
    execute,
    history,
    in_process,
)

__all__ = ["history"]
globals().update(of_histories(in_sqlite))


@pytest.fixture
def history_url(postgres_url: str) -> str:
    return postgres_url


def test_postgresql_truncates_nothing(postgres_url: str) -> None:
    with closing(Chain.open(postgres_url, ABOUT)):
        with pytest.raises(sa.exc.DBAPIError, match="append-only"):
            execute(postgres_url, "TRUNCATE entries")
        with pytest.raises(sa.exc.DBAPIError, match="append-only"):
            execute(
                postgres_url, "INSERT INTO entries SELECT * FROM entries ON CONFLICT (seq) DO UPDATE SET who = 'eve'"
            )


APPENDING = """
history = Chain.open(sys.argv[2], ABOUT)
for number in range(200):
    with history.turn() as turn:
        turn.append("note", sys.argv[3], "", {"n": number})
"""


def test_processes_append_one_after_the_other(postgres_url: str) -> None:
    # both make it, if it is not there
    working = [in_process(APPENDING, postgres_url, who) for who in ("ann", "bob")]
    assert [process.wait(600) for process in working] == [0, 0]
    with closing(Chain.open(postgres_url, ABOUT)) as history:
        assert_all_are_there(history, "ann", "bob")


def terminate(url: str) -> None:
    """Ends all sessions of the database but this, and waits until they are."""
    execute(
        url,
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )


def terminate_and(url: str, call: Callable[[], object]) -> None:
    terminate(url)
    call()


def test_a_connection_that_is_ended_is_made_anew(postgres_url: str) -> None:
    with closing(Chain.open(postgres_url, ABOUT)) as history:
        with (
            pytest.raises(ChainUnavailableError, match=r"just now .*; nothing is half-done"),
            appended(history) as turn,
        ):
            terminate_and(postgres_url, lambda: turn.append("request", "ann", "B", {}))
        assert history.head() == 1
        with pytest.raises(ChainUnavailableError, match="cannot be reached just now"), appended(history):
            terminate(postgres_url)
        assert history.head() == 1
        # between turns nobody notices
        terminate(postgres_url)
        append(history, {})
        assert history.head() == 2


def test_a_server_that_stops_is_unavailable_until_it_is_back(postgres_cluster: Cluster) -> None:
    with running_cluster() as cluster, closing(Chain.open(cluster.new_url(), ABOUT)) as history:
        append(history, {})
        cluster.stop()
        calls: list[Callable[[], object]] = [history.head, history.entries, lambda: append(history, {})]
        try:
            for call in [*calls, lambda: Chain.open(cluster.url("history0"), ABOUT)]:
                with pytest.raises(ChainUnavailableError, match=r"the history postgresql://postgres@/.* cannot be rea"):
                    call()
        finally:
            cluster.start()
        append(history, {})
        assert history.head() == 3


def test_a_database_that_cannot_keep_every_name_is_refused(postgres_cluster: Cluster) -> None:
    postgres_cluster.execute("postgres", "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
    with pytest.raises(ChainError, match="the database is encoded in LATIN1; make one with ENCODING 'UTF8'"):
        Chain.open(postgres_cluster.url("latin"), ABOUT)


def test_no_message_shows_a_password(tmp_path: Path) -> None:
    for url in (
        f"postgresql://ann:secret@/x?host={tmp_path}",
        f"postgresql://ann@/x?host={tmp_path}&password=secret",
        "postgresql://ann:secret@127.0.0.1:1/x",
    ):
        with pytest.raises(
            ChainUnavailableError, match=r"the history postgresql://ann.*x cannot be reached"
        ) as refusal:
            Chain.open(url, ABOUT)
        assert status_of(refusal.value) == TRY_AGAIN
        assert "secret" not in str(refusal.value)


def test_a_user_or_a_database_that_is_not_there_is_not_waited_for(postgres_url: str) -> None:
    whole = r"does not let this user in, or is not there just now \(28000\); .*, correct the user or database of its"
    for url in (postgres_url.replace("postgres@", "nobody@", 1), re.sub(r"/history\d+", "/none", postgres_url)):
        with pytest.raises(ChainUnavailableError, match=whole) as refused:
            Chain.read(url)
        assert status_of(refused.value) == ERROR


def test_a_password_comes_from_pgpassfile_alone(
    postgres_cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To any command; what is wrong, or open to others, is refused in one line without it."""
    for statement in ("CREATE ROLE {} LOGIN PASSWORD 'right-secret'", "CREATE DATABASE {0} OWNER {0}"):
        postgres_cluster.execute("postgres", statement.format(WITH_PASSWORD))
    url, file = postgres_cluster.url(WITH_PASSWORD, WITH_PASSWORD), tmp_path / "passwords"
    monkeypatch.setenv("PGPASSFILE", str(file))
    for password, mode in (("wrong-secret", 0o600), ("right-secret", 0o644)):
        file.write_text(f"*:*:*:{WITH_PASSWORD}:{password}\n")
        file.chmod(mode)
        with pytest.raises(ChainUnavailableError, match=r"\(28000\); .* or the password, there or in PGPASSFILE$"):
            Chain.open(url, ABOUT)
    file.chmod(0o600)
    Chain.open(url, ABOUT).close()
    command = [sys.executable, "-m", "sdc.commands.cli", "migrate", url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert (done.returncode, done.stdout) == (0, f"postgresql://{WITH_PASSWORD}@/{WITH_PASSWORD} is at this version\n")
    file.write_text(f"*:*:*:{WITH_PASSWORD}:wrong-secret\n")
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (ERROR, "", 1)
    assert done.stderr.startswith(f"sdc: the history postgresql://{WITH_PASSWORD}@/{WITH_PASSWORD} does not let this")
    assert "secret" not in done.stderr
