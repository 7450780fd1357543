"""Table servers as processes, streams of clients, and what their history says, read without the server's code."""

import asyncio
import hashlib
import json
import random
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil
import yaml

from tests.helpers.builds import write_czech
from tests.helpers.http import SECONDS_TO_ASK
from tests.helpers.killing import WORKER, children_with

OPERATOR, PROXIED = "op", "x-user"
PROXY_SECRET = "s" * 40
SERVER = {
    "slot": 0.0,
    "url": "https://tables.example",
    "proxy_header": PROXIED,
    "proxy_secret": "proxy_secret",
    "users": [{"name": OPERATOR, "role": "operator"}],
    "limits": {"requests_a_minute": 1_000_000},
}
"""Clients ask under names of their own, as behind a proxy."""
SECONDS_TO_START, SECONDS_TO_DECIDE, SECONDS_OF_STREAMS = 300, 300, 900
WELL = {"status": "ok"}
TOLD = {"undecided": "refused"}
Frontier = set[frozenset[str]]


def named(who: str) -> dict[str, str]:
    """The headers of a proxy that has let somebody in."""
    return {PROXIED: who, "x-proxy-secret": PROXY_SECRET}


def write_secret(folder: Path) -> None:
    (folder / str(SERVER["proxy_secret"])).write_text(PROXY_SECRET)
    (folder / str(SERVER["proxy_secret"])).chmod(0o600)


def czech_config(folder: Path, **server: Any) -> Path:
    """Of a server of the Czech table, in a folder."""
    write_secret(folder)
    return write_czech(folder, "server.yaml", whole={"server": {**SERVER, **server}}, execution={"cluster": "local"})


def written(folder: Path, content: dict[str, Any], **server: Any) -> Path:
    content |= {"output": {"folder": str(folder / "runs")}, "server": {**SERVER, **server}}
    write_secret(folder)
    (folder / "server.yaml").write_text(yaml.safe_dump(content))
    return folder / "server.yaml"


def prepare(config: Path) -> None:
    """What `sdc serve --prepare` makes, without a flow."""
    from sdc.server.service.prepare import prepare as prepare_server
    from sdc.stages.build import open_build
    from tests.helpers.services import swept

    swept(build := open_build(config))
    prepare_server(build)


# Servers


class Server:
    """A process of `sdc serve`; `code` is run in it first."""

    def __init__(self, config: Path, history: str, code: str = "") -> None:
        start = f"{code}\nfrom sdc.commands.cli import main\nif __name__ == '__main__':\n    main()\n"
        words = ["serve", str(config), "--port", "0", "--json", "--history", history]
        script = config.parent / f"serve{hashlib.sha256(start.encode()).hexdigest()[:8]}.py"
        script.write_text(start)
        with (config.parent / "said.txt").open("a") as said:
            self.process = subprocess.Popen(
                [sys.executable, str(script), *words], cwd=config.parent, stdout=subprocess.PIPE, stderr=said, text=True
            )
        self.url, self._listens = "", threading.Event()
        threading.Thread(target=self._hear, daemon=True).start()

    def _hear(self) -> None:
        assert self.process.stdout is not None
        with suppress(ValueError):
            if line := self.process.stdout.readline():
                self.url = json.loads(line)["url"]
        self._listens.set()

    def wait(self) -> str:
        """Its URL, when it listens; "" where it ended before."""
        assert self._listens.wait(SECONDS_TO_START), "the server does not start"
        return self.url

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(timeout=300)

    def operator(self, path: str) -> Any:
        found = httpx.get(f"{self.url}/api/operator/{path}", headers=named(OPERATOR), timeout=SECONDS_TO_ASK)
        found.raise_for_status()
        return found.json()

    def health(self) -> httpx.Response:
        return httpx.get(f"{self.url}/api/health", timeout=SECONDS_TO_ASK)

    def wait_until_decided(self, history: str) -> None:
        """Until no request is without a decision, and the server has read that."""
        end = time.monotonic() + SECONDS_TO_DECIDE
        while True:
            found, told = replayed(history), self.health().json()
            if found.outcomes.keys() == found.asked.keys() and told == {**WELL, "version": found.version}:
                return
            assert time.monotonic() < end, (told, found.asked.keys() - found.outcomes.keys())
            time.sleep(0.2)


@contextmanager
def serving(config: Path, history: str, code: str = "") -> Iterator[Server]:
    """A server that has ended with the block."""
    server = Server(config, history, code)
    try:
        yield server
    finally:
        server.kill()
        if server.process.stdout is not None:
            server.process.stdout.close()


def workers_of(server: Server) -> list[psutil.Process]:
    """The processes that judge for a server."""
    return children_with(WORKER, psutil.Process(server.process.pid))


# Clients


@dataclass
class Told:
    """What clients were told, by user, sub-table and decision; `statuses` are those of all answers."""

    decisions: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    jobs: set[tuple[str, int]] = field(default_factory=set)
    statuses: Counter[int] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, who: str, asked: list[str], answer: httpx.Response) -> None:
        with self.lock:
            self.statuses[answer.status_code] += 1
            if answer.status_code == 202:
                self.jobs.add((who, int(answer.json()["job"].rpartition("/")[2])))
            elif answer.status_code == 200:
                self.decisions[who, "*".join(sorted(asked)), answer.json()["decision"]] += 1


def ask(server: Server, who: str, asked: list[str], told: Told) -> httpx.Response | None:
    """One request; None where the server is gone."""
    with suppress(httpx.TransportError):
        url, headers = f"{server.url}/api/requests", named(who)
        answer = httpx.post(url, json={"variables": asked}, headers=headers, timeout=SECONDS_TO_ASK)
        told.note(who, asked, answer)
        return answer
    return None


def ask_until_it_ends(server: Server, who: str, variables: str, seed: int, told: Told) -> None:
    """One request after the other, until the server is gone."""
    rng = random.Random(seed)
    if url := server.wait():
        with httpx.Client(headers=named(who), timeout=SECONDS_TO_ASK) as client, suppress(httpx.TransportError):
            while True:
                asked = [name for name in variables if rng.random() < 0.5] or [rng.choice(variables)]
                told.note(who, asked, client.post(f"{url}/api/requests", json={"variables": asked}))


@contextmanager
def asking(server: Server, variables: str, clients: int, seed: int, told: Told) -> Iterator[None]:
    """Clients who ask meanwhile; at the end of the block the server is to be gone."""
    threads = [
        threading.Thread(target=ask_until_it_ends, args=(server, f"user{n}", variables, 100 * seed + n, told))
        for n in range(clients)
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        server.kill()
        for thread in threads:
            thread.join(2 * SECONDS_TO_ASK)
            assert not thread.is_alive(), "a client waits for a server that is gone"


@dataclass
class Streams:
    """Many clients at once, each at any of the servers in turn; one that does not reach its server asks again."""

    servers: list[Server]
    variables: str
    requests: int
    seed: int
    told: Told = field(default_factory=Told)
    end: float = 0.0
    versions: list[tuple[int, float, float, int]] = field(default_factory=list)

    def run(self, clients: int, strikes: Mapping[int, Callable[[], None]] = {}) -> Told:
        """What they were told; each strike happens when so many requests have been made."""
        for server in self.servers:
            assert server.wait()
        self.end = time.monotonic() + SECONDS_OF_STREAMS
        asyncio.run(self._run(clients, dict(strikes)))
        return self.told

    async def _run(self, clients: int, strikes: dict[int, Callable[[], None]]) -> None:
        rng, numbers = random.Random(self.seed), iter(range(self.requests))
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(timeout=SECONDS_TO_ASK, limits=limits) as client:

            async def asking(who: str) -> None:
                for number in numbers:
                    if strike := strikes.pop(number, None):
                        await asyncio.to_thread(strike)
                    asked = [name for name in self.variables if rng.random() < 0.5] or [rng.choice(self.variables)]
                    await self._ask(client, number, who, asked)

            await asyncio.gather(*(asking(f"user{n}") for n in range(clients)))

    async def _ask(self, client: httpx.AsyncClient, number: int, who: str, asked: list[str]) -> None:
        while True:
            assert time.monotonic() < self.end, "the servers do not answer any more"
            which = number % len(self.servers)
            server, begun, headers = self.servers[which], time.monotonic(), named(who)
            try:
                if not server.url:
                    raise httpx.ConnectError("the server does not listen yet")
                url = f"{server.url}/api/requests"
                answer = await client.post(url, json={"variables": asked}, headers=headers)
            except httpx.TransportError:
                await asyncio.sleep(0.2)
                continue
            self.told.note(who, asked, answer)
            if answer.status_code == 503:
                await asyncio.sleep(0.2)
                continue
            if answer.status_code == 200:
                self.versions.append((which, begun, time.monotonic(), answer.json()["version"]))
            return

    def assert_versions_grow(self) -> None:
        """Who asks a server after somebody was answered by it is told of no earlier version."""
        for which in range(len(self.servers)):
            answers = [answer[1:] for answer in self.versions if answer[0] == which]
            ended, before, known = sorted(answers, key=lambda answer: answer[1]), 0, 0
            for begun, _, version in sorted(answers):
                while ended[before][1] < begun:
                    known = max(known, ended[before][2])
                    before += 1
                assert version >= known


# The history, without the server's code


@dataclass
class Replayed:
    """What a history comes to; frontiers as sets of sub-tables."""

    asked: dict[int, tuple[str, str]] = field(default_factory=dict)
    outcomes: dict[int, str] = field(default_factory=dict)
    released: Frontier = field(default_factory=set)
    unreleasable: Frontier = field(default_factory=set)
    undecided: Frontier = field(default_factory=set)
    version: int = 0
    causes: list[frozenset[str] | None] = field(default_factory=list)

    @property
    def decisions(self) -> Counter[tuple[str, str, str]]:
        """As users are told of them."""
        return Counter((*self.asked[number], TOLD.get(outcome, outcome)) for number, outcome in self.outcomes.items())


def entries_of(url: str) -> list[dict[str, Any]]:
    """All entries, from the database itself."""
    columns = "seq", "kind", "at", "who", "subject", "body", "previous", "hash"
    query = f"SELECT {', '.join(columns)} FROM entries ORDER BY seq"
    if url.startswith("postgresql:"):
        import psycopg

        with psycopg.connect(url) as postgres:
            rows = postgres.execute(query.encode()).fetchall()
    else:
        with closing(sqlite3.connect(f"file:{url}?mode=ro", uri=True)) as sqlite:
            rows = sqlite.execute(query).fetchall()
    return [{**dict(zip(columns, row, strict=True)), "body": json.loads(row[5])} for row in rows]


def replayed(url: str) -> Replayed:
    """AssertionError where the chain is broken, or an entry does not follow from those before it."""
    found, previous, has_begun = Replayed(), "0" * 64, False
    for number, entry in enumerate(entries_of(url), 1):
        hashed = {name: value for name, value in entry.items() if name != "hash"}
        text = json.dumps(hashed, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        assert (entry["seq"], entry["previous"]) == (number, previous)
        assert entry["hash"] == hashlib.sha256(text.encode()).hexdigest()
        previous = entry["hash"]
        if entry["kind"] == "request":
            found.asked[number] = entry["who"], "*".join(sorted(entry["body"]["sub_table"]))
        elif entry["kind"] == "decision":
            _decide(found, entry["body"])
        elif entry["kind"] == "frontier" and not has_begun:
            has_begun = True
            found.released = _sets(entry["body"]["released"])
            found.unreleasable = _sets(entry["body"]["unreleasable"])
            found.causes.append(None)
        elif entry["kind"] == "frontier":
            _move(found, entry["body"])
    return found


def _decide(found: Replayed, body: dict[str, Any]) -> None:
    number, outcome, subtable = body["request"], body["outcome"], frozenset(body["sub_table"])
    assert found.asked[number][1] == "*".join(sorted(subtable))
    assert number not in found.outcomes, "a request is decided twice"
    is_public = any(subtable <= element for element in found.released)
    assert is_public == (outcome == "answered"), (outcome, subtable)
    if outcome == "released":
        found.version += 1
        found.causes.append(subtable)
        found.released = {element for element in found.released if not element <= subtable} | {subtable}
    found.outcomes[number] = outcome
    assert body["version"] == found.version


def _move(found: Replayed, body: dict[str, Any]) -> None:
    assert body["version"] == found.version
    assert _sets(body["released_added"]) <= found.released
    assert not _sets(body["released_removed"]) & found.released
    for name in "unreleasable", "undecided":
        added, removed = _sets(body[f"{name}_added"]), _sets(body[f"{name}_removed"])
        setattr(found, name, (getattr(found, name) - removed) | added)


def _sets(named: list[list[str]]) -> Frontier:
    return {frozenset(names) for names in named}


# What has to be


def assert_as_the_history_says(server: Server, url: str, told: Told) -> Replayed:
    """The state of a server, when it has decided all, is what is stored; what was told is stored, and none twice."""
    server.wait_until_decided(url)
    found, frontier, history = replayed(url), server.operator("frontier"), server.operator("history")
    assert frontier["version"] == found.version
    for name in "released", "unreleasable", "undecided":
        assert _sets(frontier[name]) == getattr(found, name), name
    causes = [moment["cause"] and frozenset(moment["cause"]) for moment in history["moments"]]
    assert causes == found.causes
    assert [moment["version"] for moment in history["moments"]] == list(range(found.version + 1))
    assert _sets(history["moments"][-1]["released"]) == found.released
    assert_nothing_lost(found, told)
    return found


def assert_nothing_lost(found: Replayed, told: Told) -> None:
    assert found.outcomes.keys() == found.asked.keys(), "a request has no decision"
    assert told.decisions <= found.decisions, told.decisions - found.decisions
    asked = Counter(who for who, *_ in found.asked.values())  # each user's own requests are numbered from 1
    assert all(number <= asked[who] for who, number in told.jobs)


def audited(config: Path, history: str) -> dict[str, Any]:
    """What `sdc audit` says."""
    words = ["audit", history, "--table", str(config), "--json"]
    run = subprocess.run(
        [sys.executable, "-m", "sdc.commands.cli", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS_TO_DECIDE,
    )
    assert run.returncode == 0, run.stderr
    found: dict[str, Any] = json.loads(run.stdout)
    return found
