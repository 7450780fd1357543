"""Table servers that are killed, and databases that end, under load: nothing told is lost, and nothing done twice."""

import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Timer

import pytest

from sdc.model import subtable as st
from sdc.model.release import Release
from sdc.model.table import Table
from sdc.risk.criteria import Criteria
from sdc.stages.build import open_build
from tests.helpers.databases import running_cluster
from tests.helpers.http import SECONDS_TO_ASK
from tests.helpers.killing import left_behind
from tests.helpers.serving import (
    Replayed,
    Streams,
    Told,
    ask,
    ask_until_it_ends,
    asking,
    assert_as_the_history_says,
    audited,
    czech_config,
    prepare,
    serving,
    workers_of,
    written,
)
from tests.helpers.streams import BruteForce
from tests.profiles import scaled

HISTORIES, KILLS, CLIENTS, VARIABLES = scaled(5, fewest=1), 4, 4, "ABCDEF"  # so many kills of each history
MOST_SECONDS = 4.0
SEED = 18


@pytest.mark.slow
def test_a_server_killed_at_any_moment(tmp_path: Path) -> None:
    """Within its start, its first decisions and its commits, with several clients; each history is taken up again."""
    config, rng = czech_config(tmp_path), random.Random(SEED)
    prepare(config)
    for number in range(HISTORIES):
        history, told = str(tmp_path / f"history{number}.db"), Told()
        for kill in range(KILLS):
            with serving(config, history) as server, asking(server, VARIABLES, CLIENTS, rng.randrange(1 << 30), told):
                if kill:
                    server.wait()
                time.sleep(rng.uniform(0, MOST_SECONDS))
            with serving(config, history) as again:
                again.wait()
                assert_as_the_history_says(again, history, told)
        assert audited(config, history)["verified"]


KILLED_AT = """
import os, signal
from contextlib import contextmanager
from sdc.record.database import Database
from sdc.record.chain import Turn
original, append, kinds = Database.writing, Turn.append, []
def end(moment):
    if moment == {moment!r} and {kind!r} in kinds:
        os.kill(os.getpid(), signal.SIGKILL)
def noted(self, kind, *others):
    kinds.append(kind)
    return append(self, kind, *others)
@contextmanager
def writing(self):
    kinds.clear()
    with original(self) as connection:
        yield connection
        end("before")
    end("after")
Database.writing, Turn.append = writing, noted
"""
MOMENTS = [("before", "request"), ("after", "request"), ("before", "decision"), ("after", "decision")]


@pytest.mark.slow
@pytest.mark.parametrize(("moment", "kind"), MOMENTS)
@pytest.mark.parametrize("next_one", ["another", "a new start"])
def test_a_server_killed_beside_a_commit(
    moment: str, kind: str, next_one: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Of a request or of its decision: what is stored is decided once, by another server or after the next start."""
    config, told = czech_config(tmp_path), Told()
    prepare(config)
    code = KILLED_AT.format(moment=moment, kind=kind)
    history = str(request.getfixturevalue("postgres_url")) if next_one == "another" else str(tmp_path / "history.db")
    with ExitStack() as servers:
        if next_one == "another":
            survivor = servers.enter_context(serving(config, history))
            survivor.wait()
        dying = servers.enter_context(serving(config, history, code))
        ask_until_it_ends(dying, "user", VARIABLES, SEED, told)
        assert dying.process.wait(600) == -signal.SIGKILL
        if next_one != "another":
            survivor = servers.enter_context(serving(config, history))
            survivor.wait()
        found = assert_as_the_history_says(survivor, history, told)
    if next_one != "another":
        assert len(found.asked) == ((moment, kind) != ("before", "request"))


KILLS_OF_WORKERS = 6
FEW_REQUESTS, SECONDS_AWAY = 600, 4.0
REQUESTS, ASKERS = scaled(5_000, fewest=300), 32


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 2])
def test_many_requests(number: int, tmp_path: Path, czech: Table, request: pytest.FixtureRequest) -> None:
    """To one server on a file; and to two on a database, one of which is killed in the middle and started again."""
    config = czech_config(tmp_path)
    history = str(tmp_path / "history.db" if number == 1 else request.getfixturevalue("postgres_url"))
    prepare(config)
    with ExitStack() as running:
        servers = [running.enter_context(serving(config, history)) for _ in range(number)]
        streams = Streams(servers, VARIABLES, REQUESTS, SEED)

        def strike() -> None:
            servers[0].kill()
            servers[0] = running.enter_context(serving(config, history))

        told = streams.run(ASKERS, {REQUESTS * 2 // 5: strike} if number > 1 else {})
        for server in servers:
            found = assert_as_the_history_says(server, history, told)
    assert len(found.asked) >= told.statuses.total() == REQUESTS
    assert number > 1 or len(found.asked) == told.statuses[200]
    streams.assert_versions_grow()
    assert_never_a_breach(found, czech)
    assert audited(config, history)["verified"]


def assert_never_a_breach(found: Replayed, table: Table) -> None:
    """Of what is public in the end, and so of all before."""
    released = Release.of(st.of(table.schema.index(name) for name in element) for element in found.released)
    assert BruteForce(table, Criteria.of(2, 6)).is_safe(released)


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["worker", "server"])
def test_a_worker_killed_while_it_decides(victim: str, tmp_path: Path, public_data: Callable[[str], Path]) -> None:
    """Of a table of more than 256 cells, which is judged by processes; none is left when the server is gone."""
    content = {"name": "cps", "table": {"path": str(public_data("cps8.parquet"))}, "risk": {"min_width": 6}}
    config, history, told = written(tmp_path, content, slot=1.0), str(tmp_path / "history.db"), Told()
    prepare(config)
    variables = open_build(config).made.table.schema.names
    with serving(config, history) as server:
        server.wait()
        rng = random.Random(SEED)
        for _ in range(KILLS_OF_WORKERS):
            asked = rng.sample(variables, rng.randrange(2, 5))
            with ThreadPoolExecutor(1) as client:
                answer = client.submit(ask, server, "user", asked, told)
                time.sleep(rng.uniform(0, 0.5))
                workers = workers_of(server)
                assert workers
                if victim == "server":
                    server.kill()
                    break
                rng.choice(workers).kill()
            answered = answer.result(SECONDS_TO_ASK)
            assert answered.status_code in (200, 202), answered.text
            assert server.process.poll() is None
        if victim == "worker":
            found = assert_as_the_history_says(server, history, told)
            assert len(found.asked) == KILLS_OF_WORKERS
    assert left_behind(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("fate", ["crashed", "read-only", "moved"])
def test_a_database_that_ends_for_a_while(fate: str, tmp_path: Path, czech: Table) -> None:
    """Who asks meanwhile is told 503; nothing is half-done, and afterwards all is well."""
    config = czech_config(tmp_path)
    prepare(config)
    with away(fate, tmp_path) as (history, end, begin), serving(config, history) as server:
        timers = list[Timer]()

        def strike() -> None:
            end()
            timers.append(Timer(SECONDS_AWAY, begin))
            timers[-1].start()

        streams = Streams([server], VARIABLES, FEW_REQUESTS, SEED)
        told = streams.run(ASKERS, {20: strike, FEW_REQUESTS // 2: strike})
        for timer in timers:
            timer.join(SECONDS_TO_ASK)
        found = assert_as_the_history_says(server, history, told)
        assert audited(config, history)["verified"]
    assert told.statuses[503] > 0
    assert told.statuses.keys() <= {200, 202, 503}
    assert FEW_REQUESTS == told.statuses[200] + told.statuses[202] <= len(found.asked)
    streams.assert_versions_grow()
    assert_never_a_breach(found, czech)


Away = tuple[str, Callable[[], None], Callable[[], None]]


@contextmanager
def away(fate: str, folder: Path) -> Iterator[Away]:
    """A database, what takes it away, and what brings it back."""
    if fate == "crashed":
        pytest.importorskip("psycopg")
        with running_cluster() as cluster:
            yield cluster.new_url(), cluster.crash, cluster.start
        return
    place, elsewhere = folder / "database", folder / "elsewhere"
    place.mkdir()
    if fate == "moved":
        yield str(place / "history.db"), lambda: move(place, elsewhere), lambda: move(elsewhere, place)
        return
    freeze(place, False)
    try:
        yield str(place / "history.db"), lambda: freeze(place, True), lambda: freeze(place, False)
    finally:
        freeze(place, False)


def move(place: Path, to: Path) -> None:
    place.rename(to)


def freeze(folder: Path, is_frozen: bool) -> None:
    """Makes a folder and its files such that nobody writes them, root and who has them open neither."""
    sign = "+i" if is_frozen else "-i"
    # what lies in memory stays as it is: a process that writes to it would be ended by the system
    paths = [folder, *(path for path in folder.iterdir() if not path.name.endswith("-shm"))]
    if subprocess.run(["chattr", sign, *map(str, paths)], check=False, capture_output=True, timeout=300).returncode:
        pytest.skip("this user or this disk makes no file immutable (chattr +i)")
