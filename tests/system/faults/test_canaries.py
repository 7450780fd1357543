"""Canaries: values that must stay in confidential files, looked for in every byte that is published, logged or stored.

Each build goes through a real Prefect server with a database of its own, which keeps states, artifacts, events and the
logs of flows with the tracebacks of whatever failed.
"""

import gzip
import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sdc.executor import IN_PROCESS
from sdc.refusal import FILES, as_command
from sdc.stages.build import open_build
from sdc.stages.stages import run_all
from tests.helpers.builds import written
from tests.helpers.prefect_home import PrefectServer, running_server

CANARY = "kanarienvogel"
COUNT = 774_411_993
CONFIDENTIAL = {"table", "widths", "search", "assessment", "confidential"}
BUILD = """
import logging, sys
from flows.release_build import release_build
release_build(sys.argv[1])
"""
PLAIN = {"a": ["x", "y"] * 40, "b": ["p", "p", "q", "q"] * 20}


class Case(NamedTuple):
    """A source, the settings of its table, and what the build must say of it; nothing where it succeeds."""

    write: Callable[[Path], Path]
    settings: dict[str, Any]
    said: str = ""


def parquet(columns: dict[str, Any]) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        pq.write_table(pa.table(columns), folder / "people.parquet")
        return folder / "people.parquet"

    return write


def csv(text: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        (folder / "people.csv").write_text(text)
        return folder / "people.csv"

    return write


def with_unused_entries() -> dict[str, Any]:
    """A dictionary entry that no record has, a row that counts nobody, and a record that is set aside."""
    codes = pa.array([0, 1, 0, 1, 3, 0], pa.int32())
    names = pa.array(["x", "y", f"{CANARY}-entry", f"{CANARY}-nobody"])
    return {
        "a": pa.DictionaryArray.from_arrays(codes, names),
        "b": ["p", "p", "q", "q", "p", f"{CANARY}-aside"],
        "count": [5, 2, 7, 1, 0, 1],
    }


LISTED = {"categories": {"b": ["p", "q"]}}
CASES = {
    "published": Case(parquet(with_unused_entries()), {**LISTED, "invalid_records": "exclude"}),
    "a bad value": Case(
        parquet({**PLAIN, "b": [*PLAIN["b"][1:], CANARY]}), LISTED, "column 'b' has values outside its categories"
    ),
    "a count": Case(
        csv("a,b,count\n" + "x,p,2\ny,q,3\n" * 20 + f"x,q,{COUNT}.5\n"), {}, "has a value that is not a count"
    ),
    "a row that does not parse": Case(
        csv("a,b\n" + "x,p\ny,q\n" * 40 + f"x,{CANARY},7\n"), {}, "line 82: it has 3 fields"
    ),
    "a value of several lines": Case(
        csv("a,b\n" + "x,p\ny,q\n" * 40 + f'x,"{CANARY}\nq"\n'), {}, "not closed in its line"
    ),
    "a structural zero that has records": Case(
        csv("a,b,count\n" + "x,p,2\ny,q,3\n" * 20 + f"x,{CANARY},{COUNT}\n"),
        {"structural_zeros": "- {a: x}"},
        "structural zeros contradict the data",
    ),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrefectServer]:
    """As it runs elsewhere: what it logs, and its database, are in a folder of its own."""
    with running_server(tmp_path_factory.mktemp("server")) as server:
        yield server


def config_of(case: Case, folder: Path) -> Path:
    """The config of a build in a folder where nothing else is."""
    source = folder / "source"
    source.mkdir()
    settings = {"path": str(case.write(source)), **case.settings}
    if zeros := settings.get("structural_zeros"):
        (source / "zeros.yaml").write_text(zeros)
        settings["structural_zeros"] = str(source / "zeros.yaml")
    return written(folder, table=settings, risk={"small_count": 2, "min_width": 1})


def built(case: Case, folder: Path, server: PrefectServer) -> subprocess.CompletedProcess[str]:
    """The flow in a process of its own, at a server that keeps its logs."""
    environment = {
        **os.environ,
        "PREFECT_API_URL": server.url,
        "PREFECT_HOME": str(folder / "prefect"),
        "PREFECT_LOGGING_LEVEL": "DEBUG",
        "XDG_STATE_HOME": str(folder / "state"),
        "TMPDIR": str(folder),
    }
    command = [sys.executable, "-c", BUILD, str(config_of(case, folder))]
    return subprocess.run(
        command, env=environment, cwd=Path(__file__).parents[3], capture_output=True, text=True, timeout=900
    )


# Every byte


def found_in(folder: Path) -> list[str]:
    """Files that are not confidential and have a canary, as they are or decoded."""
    places = []
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        parts = set(path.relative_to(folder).parts)
        if not parts & (CONFIDENTIAL | {"source"}) and not path.match(FILES) and has_canary(decoded(path)):
            places.append(str(path.relative_to(folder)))
    return places


def decoded(path: Path) -> str:
    """Its bytes, and what they are of a table, a database or a compressed file."""
    data = path.read_bytes()
    text = data.decode("utf-8", "replace")
    if path.suffix == ".parquet":
        table = pq.read_table(path)
        text += str(table.schema) + json.dumps(table.to_pydict(), default=str)
        text += str([column.chunk(0) for column in table.columns if table.num_rows])
    if data.startswith(b"SQLite format 3"):
        text += rows_of(path)
    if data.startswith(b"\x1f\x8b"):
        text += gzip.decompress(data).decode("utf-8", "replace")
    return text


def rows_of(path: Path) -> str:
    """All tables of a database, those in its write-ahead log too."""
    with closing(sqlite3.connect(path)) as database:
        names = [name for (name,) in database.execute("select name from sqlite_master where type = 'table'")]
        return "\n".join(repr(row) for name in names for row in database.execute(f'select * from "{name}"'))


def has_canary(text: str) -> bool:
    return CANARY in text or str(COUNT) in text or f"{COUNT:,}" in text


def test_what_is_looked_for_is_found(tmp_path: Path) -> None:
    """A search that finds nothing anywhere would prove nothing."""
    (tmp_path / "plain").write_text(CANARY)
    (tmp_path / "small.gz").write_bytes(gzip.compress(f"{COUNT:,}".encode()))
    pq.write_table(pa.table({"a": pa.array([CANARY] * 3).dictionary_encode()}), tmp_path / "t.parquet")
    with closing(sqlite3.connect(tmp_path / "one.db")) as database:
        database.execute("create table t (a text)")
        database.execute("insert into t values (?)", (CANARY,))
        database.commit()
    (tmp_path / "table").mkdir()
    (tmp_path / "table" / "part").write_text(CANARY)
    assert found_in(tmp_path) == ["one.db", "plain", "small.gz", "t.parquet"]


@pytest.mark.parametrize("name", CASES)
def test_nothing_confidential_is_in_other_files(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Of a build in this process, without Prefect."""
    case, heard = CASES[name], list[str]()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    file = config_of(case, tmp_path)
    with pytest.raises(SystemExit) if case.said else nullcontext(), as_command():
        run_all(open_build(file), IN_PROCESS, heard.append)
    said = "".join([*capfd.readouterr(), *heard])
    assert case.said in said
    assert not has_canary(said)
    assert_kept_apart(case, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_nothing_confidential_is_anywhere_else(name: str, tmp_path: Path, server: PrefectServer) -> None:
    case = CASES[name]
    ended = built(case, tmp_path, server)
    assert (ended.returncode == 0) == (not case.said), ended.stderr
    assert case.said in ended.stderr
    assert not has_canary(ended.stdout + ended.stderr)
    time.sleep(1.0)  # the server writes logs and events a little after the build has ended
    assert found_in(server.home.parent) == []
    assert_kept_apart(case, tmp_path)


def assert_kept_apart(case: Case, folder: Path) -> None:
    """No file has a canary but those that are confidential, and of a refusal that with its detail has one."""
    assert found_in(folder) == []
    if case.said:
        assert not list(folder.rglob("release"))
        (detail,) = folder.rglob(FILES)
        assert has_canary(detail.read_text())
    else:
        assert list(folder.rglob("release/datapackage.json"))
