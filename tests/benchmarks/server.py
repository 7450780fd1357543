"""The table server over loopback: answers, fresh decisions, effects, restarts, and a million cells.

    python tests/benchmarks/server.py [table.parquet] [min_width]

Without a table cps14 of the public data, width 10. Each figure is printed beside what is asked of it.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("SDC_DATA_DIR", ROOT / "../shared/data"))
USERS, EACH, FRESH, EFFECTS, DECISIONS = 50, 40, 80, 80, 10_000
LONG, WAIT = 300.0, 60.0
CONFIG = """
name: bench
table: {{path: {path}, max_categories: 2000}}
risk: {{min_width: {width}}}
execution: {{cluster: in-process}}
output: {{folder: {folder}}}
server: {{limits: {{requests_a_minute: 1000000}}}}
"""


@contextmanager
def serving(config: Path) -> Iterator[tuple[str, str, float, psutil.Process]]:
    """URL, operator's key (of the first start), seconds until it listened, and the process."""
    begun = time.perf_counter()
    command = [sys.executable, "-m", "sdc.commands.cli", "serve", str(config), "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, text=True) as process:
        assert process.stdout is not None
        try:
            ready = json.loads(process.stdout.readline())
            key = Path(ready["keys"]).read_text().split()[1] if ready["keys"] else ""
            yield ready["url"], key, time.perf_counter() - begun, psutil.Process(process.pid)
        finally:
            process.terminate()
            process.wait(60)


def said(what: str, seconds: list[float], asked: str) -> None:
    p50, p95, most = (1000 * float(np.quantile(seconds, q)) for q in (0.5, 0.95, 1.0))
    print(f"{what:44} median {p50:7.1f} ms, p95 {p95:7.1f}, most {most:7.1f} of {len(seconds)}; {asked}", flush=True)


async def timed(call: Callable[[], Awaitable[httpx.Response]]) -> tuple[float, httpx.Response]:
    begun = time.perf_counter()
    answer = await call()
    return time.perf_counter() - begun, answer


async def fresh(client: httpx.AsyncClient, names: list[str], generator: random.Random) -> list[list[str]]:
    """Requests one after the other, of two to four variables; what was released of them in the end."""
    seconds, told, asked = list[float](), Counter[str](), list[list[str]]()
    while len(seconds) < FRESH:
        chosen = sorted(generator.sample(names, generator.choice((2, 2, 3, 4))), key=names.index)
        took, answer = await timed(lambda chosen=chosen: client.post("/api/requests", json={"variables": chosen}))
        decision = answer.json()["decision"]
        asked.append(chosen)
        if decision != "answered":
            seconds.append(took)
            told[decision] += 1
    said(f"fresh decisions ({dict(told)})", seconds, "asked: median 250, p95 1,000, the rest as jobs")
    deadline = time.monotonic() + WAIT
    while (health := (await client.get("/api/health")).json()).get("pending") and time.monotonic() < deadline:
        await asyncio.sleep(1.0)
    print(f"{'':44} {health.get('pending')} of them still looked into after the wait", flush=True)
    frontier = (await client.get("/api/frontier")).json()["released"]
    return [names for names in frontier if len(names) <= 3]


class Lean:
    """One connection that stays open, and nothing else: a client that takes longer than the server measures itself."""

    def __init__(self, url: str) -> None:
        self._host, self._port = url.removeprefix("http://").split(":")

    async def __aenter__(self) -> Lean:
        self._reader, self._writer = await asyncio.open_connection(self._host, int(self._port))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    async def get(self, path: str) -> float:
        return await self._call(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())

    async def post(self, names: list[str]) -> float:
        body = json.dumps({"variables": names}).encode()
        head = "POST /api/requests HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        return await self._call(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)

    async def _call(self, request: bytes) -> float:
        begun = time.perf_counter()
        self._writer.write(request)
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        assert b" 200 " in head[:16], head
        await self._reader.readexactly(int(head.split(b"content-length:")[1].split(b"\r\n")[0]))
        return time.perf_counter() - begun


async def released(url: str, tables: list[list[str]]) -> None:
    await course_of_users(url, tables, "get", EACH, 0.0)
    await course_of_users(url, tables, "post", EACH, 0.0)
    await course_of_users(url, tables, "get", 10, 1.0)
    await course_of_users(url, tables, "post", 10, 1.0)


async def course_of_users(url: str, tables: list[list[str]], what: str, times: int, pause: float) -> None:
    """Users at once, who think for a while between two answers, or do not."""

    async def user(number: int) -> list[float]:
        generator, found = random.Random(number), list[float]()
        await asyncio.sleep(generator.random() * pause)
        async with Lean(url) as client:
            for _ in range(times):
                names = generator.choice(tables)
                found.append(
                    await (client.get(f"/api/tables/{'*'.join(names)}.json") if what == "get" else client.post(names))
                )
                await asyncio.sleep(pause)
        return found

    begun = time.perf_counter()
    seconds = [took for found in await asyncio.gather(*map(user, range(USERS))) for took in found]
    rate = len(seconds) / (time.perf_counter() - begun)
    how = f"{what} what is public, {USERS} users, {pause:g} s pauses, {rate:.0f}/s"
    said(how, seconds, "asked: p95 30")


async def effects(client: httpx.AsyncClient, names: list[str], key: str, generator: random.Random) -> None:
    seconds = list[float]()
    for _ in range(EFFECTS):
        chosen = generator.sample(names, generator.choice((2, 2, 3)))
        took, answer = await timed(
            lambda chosen=chosen: client.get(
                "/api/operator/effect",
                params={"variables": ",".join(chosen)},
                headers={"Authorization": f"Bearer {key}"},
            )
        )
        assert answer.status_code == 200, answer.text
        if answer.json()["status"] == "open":
            seconds.append(took)
    said("effects of open sub-tables", seconds, "asked: p95 100")


async def many(client: httpx.AsyncClient, tables: list[list[str]]) -> None:
    async def user(number: int) -> None:
        for k in range(DECISIONS // USERS):
            names = tables[(number + k) % len(tables)]
            assert (await client.post("/api/requests", json={"variables": names})).status_code == 200

    await asyncio.gather(*map(user, range(USERS)))


async def course(url: str, key: str) -> None:
    limits = httpx.Limits(max_connections=USERS, max_keepalive_connections=USERS)
    async with httpx.AsyncClient(base_url=url, timeout=LONG, limits=limits) as client:
        names = [v["name"] for v in (await client.get("/api/variables")).json()["variables"]]
        generator = random.Random(7)
        tables = await fresh(client, names, generator)
        await released(url, tables)
        await effects(client, names, key, generator)
        await many(client, tables)


def large(folder: Path) -> None:
    """A released sub-table of a million cells, streamed."""
    rows = np.arange(1_000_000)
    counts = 3 + rows % 5
    columns = {"a": rows // 1000, "b": rows % 1000, "c": rows * 0, "count": counts}
    few = {name: column[:1000] for name, column in columns.items()} | {
        "c": np.ones(1000, int),
        "count": np.ones(1000, int),
    }
    path = folder / "large.parquet"
    pq.write_table(pa.concat_tables([pa.table(columns), pa.table(few)]), path)
    config = folder / "large.yaml"
    config.write_text(CONFIG.format(path=path, width=3, folder=folder / "large"))
    with serving(config) as (url, _, _, process), httpx.Client(base_url=url, timeout=LONG) as client:
        answer = client.post("/api/requests", json={"variables": ["a", "b"]}).json()
        while answer["decision"] == "pending":
            time.sleep(0.5)
            answer = client.get(answer["job"]).json()
        before = process.memory_info().rss
        for suffix in ("csv", "json", "parquet", "xml"):
            begun, size, most = time.perf_counter(), 0, 0
            with client.stream("GET", f"/api/tables/a*b.{suffix}") as stream:
                assert stream.status_code == 200
                for piece in stream.iter_raw():
                    size, most = size + len(piece), max(most, process.memory_info().rss)
            grown = (most - before) >> 20
            print(f"a million cells as {suffix:8} {time.perf_counter() - begun:6.2f} s, {size >> 20} MiB sent, "
                  f"{grown} MiB more memory; asked: 3 s, 300 MiB", flush=True)  # fmt: skip


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else DATA / "cps14.parquet"
    width = sys.argv[2] if len(sys.argv) > 2 else "10"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = folder / "bench.yaml"
        config.write_text(CONFIG.format(path=path.resolve(), width=width, folder=folder / "runs"))
        with serving(config) as (url, key, seconds, _):
            print(f"first start {seconds:.1f} s", flush=True)
            asyncio.run(course(url, key))
        with serving(config) as (url, _, seconds, process):
            health: dict[str, Any] = httpx.get(f"{url}/api/health").json()
            memory = sum(p.memory_info().rss for p in (process, *process.children(recursive=True))) >> 20
            print(f"restart from {DECISIONS:,} decisions and more {seconds:.2f} s, {memory} MiB; asked: 5 s; {health}")
        large(folder)


if __name__ == "__main__":
    main()
