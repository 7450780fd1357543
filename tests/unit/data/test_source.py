"""Parts from paths, globs and URLs; what cannot be reached, and what changes while it is read, is refused."""

import gzip
import os
import socket
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from sdc.config.table import TableConfig
from sdc.data import reading, records, source
from sdc.data.reading import count_records, read_table
from sdc.data.source import Source, open_source
from sdc.events import STEP, WARNING, EventLog, heard, read_events
from sdc.model.errors import InputError
from sdc.model.table import Table


def refused(path: str | Path, match: str) -> None:
    with pytest.raises(InputError, match=match) as caught:
        read_table(path)
    assert "\n" not in str(caught.value)


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    folder = tmp_path / "parts"
    folder.mkdir()
    for part in range(3):
        (folder / f"{part}.csv").write_text(f"a,b\nx,{part}\ny,{part}\n")
    return folder


@pytest.fixture
def memory() -> Iterator[MemoryFileSystem]:
    files = fsspec.filesystem("memory")
    files.store.clear()
    yield files
    files.store.clear()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *arguments: Any) -> None:
        pass


class Refusing(Quiet):
    """Answers 403 to everything."""

    def send_head(self) -> None:
        self.send_error(403)


@pytest.fixture
def served() -> Iterator[Callable[[Callable[..., BaseHTTPRequestHandler]], str]]:
    servers = []

    def serve(handler: Callable[..., BaseHTTPRequestHandler]) -> str:
        servers.append(ThreadingHTTPServer(("127.0.0.1", 0), handler))
        threading.Thread(target=servers[-1].serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{servers[-1].server_port}"

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


def test_a_glob_chooses_parts(parts: Path) -> None:
    assert [part.name for part in open_source(parts / "[01].csv").parts] == ["0.csv", "1.csv"]
    assert read_table(parts / "*.csv") == read_table(parts)
    refused(parts / "7*.csv", r"glob .*7\*.csv has no parts; give parts of one kind")


def test_a_name_with_a_star_is_no_glob(tmp_path: Path) -> None:
    (tmp_path / "[a].csv").write_text("a\nx\n")
    assert read_table(tmp_path / "[a].csv").total == 1
    (tmp_path / "data [2024]").mkdir()
    (tmp_path / "data [2024]" / "1.csv").write_text("a,b\nx,y\n")
    assert read_table(tmp_path / "data [2024]" / "*.csv").total == 1


@pytest.mark.parametrize("link", ["symlink_to", "hardlink_to"])
def test_a_file_under_two_names(link: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\nx,y\n")
    getattr(tmp_path / "b.csv", link)(tmp_path / "a.csv")
    with pytest.raises(InputError, match=r"b\.csv and a\.csv are one file under two names, whose records would"):
        open_source(tmp_path)
    assert read_table(tmp_path, ignore=["b*"]).total == 1


@pytest.mark.parametrize(("target", "match"), [("nowhere", "does not exist"), ("l.csv", "Too many levels of symb")])
def test_a_link_to_nothing_is_named(target: str, match: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\nx,y\n")
    (tmp_path / "l.csv").symlink_to(target)
    with pytest.raises(InputError, match=rf"l\.csv .*{match}"):
        open_source(tmp_path)


def test_a_url_is_the_same_as_a_path(parts: Path, memory: MemoryFileSystem) -> None:
    memory.put(f"{parts}/", "/there/", recursive=True)
    pq.write_table(pa.table({"a": ["x"]}), parts / "t.parquet")
    memory.put(str(parts / "t.parquet"), "/t.parquet")
    (parts / "t.parquet").unlink()
    for url in (f"file://{parts}", "memory://there", "memory://there/*.csv"):
        assert read_table(url) == read_table(parts)
        assert open_source(url).digest() == open_source(parts).digest()
    assert read_table("memory://t.parquet").total == 1
    memory.pipe("/t.csv.gz", gzip.compress(b"a,b\n1,2\n1,2\n"))
    assert read_table("memory://t.csv.gz").counts.tolist() == [2]
    refused("memory://none.csv", "memory://none.csv does not exist; give a Parquet or CSV file, or a folder of parts")


def test_http(parts: Path, served: Callable[..., str]) -> None:
    address = served(partial(Quiet, directory=str(parts)))
    assert read_table(f"{address}/1.csv") == read_table(parts / "1.csv")
    assert open_source(f"{address}/1.csv").digest() == open_source(parts / "1.csv").digest()
    refused(f"{address}/7.csv", r"7\.csv does not exist; give a Parquet or CSV file")


def test_parquet_from_a_host_without_range(served: Callable[..., str], tmp_path: Path) -> None:
    noise = np.random.default_rng(1).integers(0, 1 << 62, 1 << 20)  # more than fsspec fetches at once
    pq.write_table(pa.table({"a": noise % 2, "noise": noise}), tmp_path / "t.parquet")
    refused(
        f"{served(partial(Quiet, directory=str(tmp_path)))}/t.parquet",
        r"t\.parquet cannot be read: its host gives no part of a file \(HTTP Range\), as Parquet needs; copy it",
    )


def test_http_without_permission(served: Callable[..., str]) -> None:
    refused(f"{served(Refusing)}/t.csv", r"http://.*/t\.csv may not be read: permission denied; fix its permissions")


def test_a_host_that_refuses() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    refused(f"http://127.0.0.1:{port}/t.csv", "cannot be reached: .*; check the address and the network")


def test_a_host_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "SECONDS_TO_ANSWER", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        refused(f"http://127.0.0.1:{silent.getsockname()[1]}/t.csv", "no answer within 0.2 s; check the address")


@pytest.mark.parametrize("url", ["ftps3://x/t.csv", "nowhere://t.csv"])
def test_a_protocol_that_is_unknown(url: str) -> None:
    refused(url, f"{url} has a protocol that cannot be used: Protocol not known")


def test_a_password_stays_out_of_configs_and_messages() -> None:
    with pytest.raises(
        InputError, match=r"the URL of host/t\.csv has a password in it; put the password into fsspec"
    ) as caught:
        open_source("http://me:secret@host/t.csv")
    assert "secret" not in str(caught.value)


class EndpointConnectionError(Exception):
    """As botocore has it."""


@pytest.mark.parametrize("call", ["info", "open"])
@pytest.mark.parametrize(
    ("error", "match"),
    [
        (PermissionError(13, "Permission denied"), "may not be read: permission denied; fix its permissions"),
        (EndpointConnectionError(), "cannot be reached: EndpointConnectionError; check the address and the network"),
        (TimeoutError(), "cannot be reached: TimeoutError; check the address and the network"),
    ],
)
def test_files_that_are_not_given(
    memory: MemoryFileSystem, call: str, error: Exception, match: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Guarded(MemoryFileSystem):
        protocol = "guarded"

    def deny(*arguments: Any, **more: Any) -> Any:
        raise error

    fsspec.register_implementation("guarded", Guarded, clobber=True)
    files = fsspec.filesystem("guarded")
    files.pipe("guarded://t.csv", b"a\n1\n")
    monkeypatch.setattr(Guarded, call, deny)
    refused("guarded://t.csv", f"guarded://t.csv {match}")


def test_a_part_rewritten_between_digest_and_count(parts: Path, memory: MemoryFileSystem) -> None:
    memory.put(f"{parts}/", "/there/", recursive=True)
    local, remote = open_source(parts), open_source("memory://there")
    assert counted(remote) == read_table(parts)
    local.digest()
    (parts / "1.csv").write_text("a,b\nx,1\ny,8\n")
    os.utime(parts / "1.csv", ns=(1, 1))
    memory.pipe("/there/1.csv", b"a,b\nx,1\ny,1\n")
    for opened in (local, remote):
        with pytest.raises(InputError, match=r"1\.csv was rewritten while it was read; run again when it is at rest"):
            counted(opened)


@pytest.mark.parametrize("content", [b"a,b\nz,1\nz,1\nz,1\n", b"a,b\n1\n", b""])
def test_a_part_rewritten_between_its_batches(parts: Path, content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    read = records.batches

    def rewriting(pieces: Any, *arguments: Any) -> Iterator[Any]:
        for part, batch in read(pieces, *arguments):
            (parts / "2.csv").write_bytes(content)
            yield part, batch

    monkeypatch.setattr(reading, "batches", rewriting)
    refused(parts, r"2\.csv was rewritten while it was read; run again when it is at rest")


def test_a_part_that_is_gone(parts: Path, memory: MemoryFileSystem) -> None:
    memory.put(f"{parts}/", "/there/", recursive=True)
    for url, remove in (
        (str(parts), lambda: (parts / "1.csv").unlink()),
        ("memory://there", lambda: memory.rm("/there/1.csv")),
    ):
        opened = open_source(url)
        remove()
        with pytest.raises(InputError, match=r"1\.csv disappeared during the run; run again when all"):
            counted(opened)


def counted(opened: Source) -> Table:
    return count_records(opened, TableConfig(path=opened.path)).table


def test_a_part_cut_short_is_named(tmp_path: Path) -> None:
    for part in range(3):
        pq.write_table(pa.table({"a": [f"{n % 50}" for n in range(5000)]}), tmp_path / f"{part}.parquet")
    whole = (tmp_path / "1.parquet").read_bytes()
    (tmp_path / "1.parquet").write_bytes(whole[: len(whole) // 2])
    refused(tmp_path, r"1\.parquet cannot be read: .*; check that it is whole")
    (tmp_path / "1.parquet").write_bytes(b"PAR1" + bytes(len(whole) // 2) + whole[4 + len(whole) // 2 :])
    refused(tmp_path, r"1\.parquet cannot be read: .*; check that it is whole")


@pytest.mark.parametrize(
    ("first", "second", "types"),
    [
        (pa.array([1]), pa.array(["1"]), r"string in .*/2.parquet but int64 in 1.parquet"),
        (pa.array([True]), pa.array([1]), r"int64 in .*/2.parquet but bool in 1.parquet"),
        (pa.array(["1"]).dictionary_encode(), pa.array([1.0]), r"double in .*/2.parquet but dictionary<"),
    ],
)
def test_parts_of_different_kinds(tmp_path: Path, first: pa.Array, second: pa.Array, types: str) -> None:
    for part, column in enumerate([pa.nulls(1), first, second]):
        pq.write_table(pa.table({"a": column, "b": [1]}), tmp_path / f"{part}.parquet")
    refused(tmp_path, f"column 'a' has the type {types}.*; give it one type in every part")
    assert read_table(tmp_path, variables=["b"]).total == 3


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (pa.array(["1"]), pa.array(["1"]).dictionary_encode()),
        (pa.array(["1"]), pa.array(["1"], pa.large_string())),
        (pa.array([1], pa.int8()), pa.array([1], pa.uint64())),
        (pa.array([1], pa.int8()), pa.array([1.0])),
    ],
)
def test_parts_of_one_kind(tmp_path: Path, first: pa.Array, second: pa.Array) -> None:
    for part, column in enumerate([first, second]):
        pq.write_table(pa.table({"a": column}), tmp_path / f"{part}.parquet")
    assert read_table(tmp_path).counts.tolist() == [2]


def test_who_waits_hears_how_many_parts_are_done(parts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "SECONDS_BETWEEN_STEPS", 0.0)
    log = EventLog(parts.parent / "log.jsonl")
    with heard(log):
        open_source(parts).digest()
        read_table(parts)
        (parts / "copy.csv").write_bytes(min(parts.glob("*.csv")).read_bytes())
        open_source(parts).digest()
    (copy,) = (event["text"] for event in read_events(log.path) if event["event"] == WARNING)
    assert "have the same content, and their records count twice; leave one out, by table.ignore" in copy
    told = [event["text"] for event in read_events(log.path) if event["event"] == STEP]
    assert {f"digesting the data: {n} of 3 parts" for n in range(3)} <= set(told)
    assert {f"looking at the columns: {n} of 3 parts" for n in range(3)} <= set(told)
