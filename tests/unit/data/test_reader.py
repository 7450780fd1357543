"""The child that reads what may be damaged: its death, and all that it says or raises, come to one message."""

import gzip
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from sdc.data import reader, text
from sdc.data.reader import READER, Reader
from sdc.data.reading import read_table
from sdc.data.source import SourcePart, open_source
from sdc.model.errors import InputError, SdcError
from tests.helpers.reading import each_here


@pytest.fixture
def own() -> Iterator[Reader]:
    own = Reader()
    yield own
    own.end()


@pytest.fixture
def part(tmp_path: Path) -> SourcePart:
    (tmp_path / "t.csv").write_bytes(b"a\nx\ny\n")
    return open_source(tmp_path / "t.csv").parts[0]


def process_of(part: SourcePart) -> int:
    return os.getpid()


def content_of(part: SourcePart, start: int) -> bytes:
    with part.opened() as source:
        if isinstance(source, str):
            return Path(source).read_bytes()[start:]
        source.seek(start)
        return source.read()


def abort(part: SourcePart) -> None:
    os.abort()


def leave(part: SourcePart) -> None:
    os._exit(3)


def want_memory(part: SourcePart) -> bytes:
    return b"x" * (1 << 60)


def refuse(part: SourcePart) -> None:
    raise SdcError("scratch is full", "detail")


def quote(part: SourcePart) -> None:
    raise KeyError("secret")


def give_what_does_not_travel(part: SourcePart) -> Any:
    return threading.Lock()


def print_and_answer(part: SourcePart) -> str:
    print("noise")
    os.write(1, b"more noise")
    return "answer"


def sleep(part: SourcePart) -> None:
    time.sleep(600)


def test_one_child_reads_one_part_after_the_other(own: Reader, part: SourcePart) -> None:
    other = READER.run(process_of, part)
    first = own.run(process_of, part)
    assert own.run(process_of, part) == first
    assert first not in (os.getpid(), other)
    assert own.run(content_of, part, 2) == b"x\ny\n"


@pytest.mark.parametrize(("function", "how"), [(abort, "SIGABRT"), (leave, "exit status 3")], ids=["aborts", "leaves"])
def test_its_death_is_a_message_and_the_next_one_reads_on(
    function: Any, how: str, own: Reader, part: SourcePart
) -> None:
    before = own.run(process_of, part)
    with pytest.raises(InputError, match=r"t\.csv: the process that read it died") as caught:
        own.run(function, part)
    assert f"died ({how}): it cannot be read with 1200 MiB" in str(caught.value)
    assert own.run(process_of, part) != before


def test_what_it_raises_comes_back_without_the_data(own: Reader, part: SourcePart) -> None:
    before = own.run(process_of, part)
    with pytest.raises(
        InputError, match=r"t\.csv cannot be read: it is damaged, or not what its name says; check that it is whole"
    ) as caught:
        own.run(quote, part)
    assert "secret" not in str(caught.value)
    assert "secret" in caught.value.detail
    with pytest.raises(SdcError, match="scratch is full") as refused:
        own.run(refuse, part)
    assert refused.value.detail == "detail"
    with pytest.raises(InputError, match=r"t\.csv cannot be read with 1200 MiB, the limit of a process that reads"):
        own.run(want_memory, part)
    with pytest.raises(InputError, match=r"t\.csv cannot be read: it is damaged, or not"):
        own.run(give_what_does_not_travel, part)
    assert own.run(process_of, part) == before


def test_what_it_prints_is_no_answer(part: SourcePart) -> None:
    assert READER.run(print_and_answer, part) == "answer"


def test_it_leaves_when_it_has_nothing_to_do(own: Reader, part: SourcePart, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        reader,
        "_SERVE",
        reader._SERVE.replace("serve; serve()", "serve; import sdc.data.child as r; r.IDLE_SECONDS = 0.2; serve()"),
    )
    first = own.run(process_of, part)
    psutil.Process(first).wait(30)
    assert own.run(process_of, part) != first


def test_bytes_of_a_url_come_from_this_process() -> None:
    """The file system in memory is nowhere else."""
    MemoryFileSystem().pipe("/lent.bin.csv", bytes(range(256)) * 1000)
    (lent,) = open_source("memory://lent.bin.csv").parts
    assert READER.run(content_of, lent, 1000) == (bytes(range(256)) * 1000)[1000:]
    MemoryFileSystem().rm("/lent.bin.csv")


def test_several_threads_may_ask(part: SourcePart) -> None:
    found: list[bytes] = []
    threads = [threading.Thread(target=lambda: found.append(READER.run(content_of, part, 0))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [b"a\nx\ny\n"] * 3


def test_an_interrupted_request_leaves_no_answer_behind(own: Reader, part: SourcePart) -> None:
    before = own.run(process_of, part)
    # a library that another test has imported may have a handler of its own
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.5, signal.pthread_kill, [threading.get_ident(), signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        own.run(sleep, part)
    timer.join()
    signal.signal(signal.SIGINT, handler)
    psutil.wait_procs([psutil.Process(before)] if psutil.pid_exists(before) else [], 10)
    assert not psutil.pid_exists(before)
    assert own.run(content_of, part, 0) == b"a\nx\ny\n"


def test_a_fork_has_a_child_of_its_own(own: Reader, part: SourcePart) -> None:
    ours = READER.run(process_of, part)
    forked = os.fork()
    if forked == 0:
        os._exit(0 if READER.run(process_of, part) != ours and READER.end() == 0 else 1)
    assert os.waitpid(forked, 0)[1] == 0
    assert READER.run(process_of, part) == ours


def refused(path: Path, match: str, **settings: Any) -> None:
    with pytest.raises(InputError, match=match):
        read_table(path, **settings)


def test_what_needs_more_memory_than_there_is(tmp_path: Path) -> None:
    """A text of 120 MB in a file of a few kB; with more memory it is what it is."""
    large = tmp_path / "large.parquet"
    pq.write_table(pa.table({"a": ["x" * 120_000_000]}), large, compression="zstd")
    assert large.stat().st_size < 1 << 16
    refused(large, r"large\.parquet.* cannot be read with 256 MiB, the limit of a process that reads", memory=1)


def test_a_parquet_file_that_lies_about_its_sizes(tmp_path: Path) -> None:
    """Whatever number of its footer is another: it is refused, or the table is the same."""
    path, seen = tmp_path / "t.parquet", 0
    frame = pa.table({"a": ["x", "y", "z"] * 400, "b": ["u", "v"] * 600})
    pq.write_table(frame, path, row_group_size=600, store_schema=False, compression="none")
    expected, content = read_table(path), path.read_bytes()
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    for place in range(footer, len(content) - 8, 3):
        path.write_bytes(content[:place] + b"\x7f" + content[place + 1 :])
        try:
            assert read_table(path) == expected
        except InputError:
            seen += 1
    assert seen > 50


def test_a_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """1 MB that is 1 GB of one line, or of records."""
    line, rows = gzip.compress(bytes(1 << 20)), gzip.compress(b"x,y\n" * (1 << 18))
    (tmp_path / "line.csv.gz").write_bytes(gzip.compress(b"a,b\n") + line * 1024)
    refused(tmp_path / "line.csv.gz", r"line 2: it has more than 16 MiB")
    bomb = tmp_path / "rows.csv.gz"
    bomb.write_bytes(gzip.compress(b"a,b\n") + rows * 8)
    assert read_table(bomb).total == 8 << 18
    monkeypatch.setattr(text, "_UNPACKED", 1 << 22)
    monkeypatch.setattr(READER, "each", each_here)
    refused(bomb, r"rows\.csv\.gz unpacks to more than 250 times its size, [0-9]+ MiB by now; unpack it and look")
