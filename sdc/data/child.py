"""The child process that reads untrusted or corrupt files, see `sdc.data.reader`. It imports little, to start fast."""

from __future__ import annotations

import fcntl
import io
import os
import pickle
import queue
import resource
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sdc.model.errors import InputError, SdcError

# measured: 165 MiB with Arrow, NumPy and the text kernel, 78 MiB without the kernel, before it reads
OWN_BYTES = 176 << 20
_AHEAD = 1 << 20  # bytes it may be ahead of the reader
IDLE_SECONDS = 10.0  # its memory is not for a search that takes hours
_TEXTS, _SMALL = (".csv", ".tsv", ".txt"), 1 << 19
_NARROW = ((pa.int8(), np.int8), (pa.int16(), np.int16))
RECORDS, RESULT, REFUSAL, BYTES = range(4)
"""Kinds of answers: records, a result, a refusal, or a request for bytes of a file."""
FoundLayout: TypeAlias = tuple[tuple[tuple[str, pa.DataType], ...], tuple[int, ...], int | None]
"""The columns, the rows of each group, and the bytes of a divisible text, see `Layout` in `records`."""


@dataclass(frozen=True)
class RecordFile:
    """A file of records inside the child."""

    url: str
    size: int | None
    suffix: str

    def __str__(self) -> str:
        return self.url

    @contextmanager
    def opened(self) -> Iterator[str | IO[bytes]]:
        """What Arrow reads from."""
        yield self.url


def is_small(part: RecordFile) -> bool:
    """Whether a text file is small enough to be read without the compiled kernel."""
    return part.suffix in _TEXTS and part.size is not None and part.size < _SMALL


def serve() -> None:
    """Answer requests until none comes for some time, or the parent is gone."""
    with suppress(OSError, AttributeError):
        fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, _AHEAD)
    answers = os.fdopen(os.dup(1), "wb", _AHEAD)
    os.dup2(2, 1)  # output of libraries is no answer
    requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(requests,), daemon=True).start()
    while True:
        try:
            function, pieces, is_lent, memory, folder = pickle.loads(requests.get(timeout=IDLE_SECONDS))
        except queue.Empty:
            os._exit(0)
        if folder:
            os.chdir(folder)
        for part, arguments in pieces:
            own = _LentPart(part.url, part.size, part.suffix, requests, answers) if is_lent else part
            if not _answer(function, own, memory, arguments, answers):
                break


def say(pipe: IO[bytes], content: Any) -> None:
    """Send something to the other process, which loads it with pickle."""
    pipe.write(pickle.dumps(content, pickle.HIGHEST_PROTOCOL))
    pipe.flush()


def _listen(requests: queue.SimpleQueue[Any]) -> None:
    """Queue what the parent sends; if the parent is gone, end the process."""
    with suppress(EOFError, pickle.UnpicklingError):
        while True:
            requests.put(pickle.load(sys.stdin.buffer))
    os._exit(0)


def _answer(function: Callable[..., Any], part: RecordFile, memory: int, arguments: Any, answers: IO[bytes]) -> bool:
    """Send what the function returns for a part; whether it did."""
    if part.suffix.startswith(_TEXTS) and not is_small(part):
        from sdc.data.text_kernel import compiled

        compiled()  # compiling needs more memory than reading
    try:
        _limit(memory)
        result = function(part, *arguments)
        if isinstance(result, Iterator):
            for batch in result:
                say(answers, (RECORDS, _stream_of(batch)))
            result = None
        say(answers, (RESULT, result))
    except Exception as error:
        _limit(None)
        say(answers, (REFUSAL, _refusal(part, error, memory)))
        return False
    return True


def _limit(memory: int | None) -> None:
    """Limit the memory of this process beyond its initial size; None: no limit."""
    most = resource.getrlimit(resource.RLIMIT_DATA)[1]
    own = most if memory is None else _had_at_first() + memory
    resource.setrlimit(resource.RLIMIT_DATA, (own if most == resource.RLIM_INFINITY else min(own, most), most))


@cache
def _had_at_first() -> int:
    """Bytes of data before reading: `OWN_BYTES`, or more after compiling."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return max([OWN_BYTES, *(int(line.split()[1]) << 10 for line in lines if line.startswith("VmData"))])


def _refusal(part: RecordFile, error: Exception, memory: int) -> SdcError:
    if isinstance(error, MemoryError):
        return InputError(f"{part} {too_much(memory)}")
    from sdc.data.source import readable

    try:
        with readable(part.url):
            raise error
    except SdcError as refusal:
        return refusal


def limit_of(memory: int) -> int:
    """Bytes that a process may use that gets `memory` for its input."""
    return OWN_BYTES + memory


def too_much(memory: int) -> str:
    """The message for a part that needs more memory than this."""
    return (
        f"cannot be read with {limit_of(memory) >> 20} MiB, the limit of a process that reads; it is corrupt, or "
        "needs more: raise memory_per_worker, or write it again in smaller row groups"
    )


def _stream_of(batch: pa.RecordBatch) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return sink.getvalue()


def narrow(
    codes: npt.NDArray[np.int32], dictionary: pa.Array, known: npt.NDArray[np.bool_] | None = None
) -> pa.DictionaryArray:
    """Codes in as few bytes as possible, with flags of missing values."""
    kind, numbers = next((one for one in _NARROW if len(dictionary) <= np.iinfo(one[1]).max), (pa.int32(), np.int32))
    # by buffers: pyarrow imports pandas to convert NumPy arrays
    buffers = [None if known is None else pa.py_buffer(np.packbits(known, bitorder="little"))]
    indices = pa.Array.from_buffers(kind, len(codes), [*buffers, pa.py_buffer(codes.astype(numbers))])
    return pa.DictionaryArray.from_arrays(indices, dictionary, safe=False)


@dataclass(frozen=True)
class _LentPart(RecordFile):
    """A part that the parent has opened, and whose bytes it sends."""

    requests: queue.SimpleQueue[Any]
    answers: IO[bytes]

    @contextmanager
    def opened(self) -> Iterator[str | IO[bytes]]:
        yield io.BufferedReader(_LentFile(self.requests, self.answers))


class _LentFile(io.RawIOBase):
    def __init__(self, requests: queue.SimpleQueue[Any], answers: IO[bytes]) -> None:
        self._requests, self._answers = requests, answers

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        return int(self._request("seek", offset, whence))

    def tell(self) -> int:
        return int(self._request("tell"))

    def readinto(self, into: Any) -> int:
        content = self._request("read", len(into))
        into[: len(content)] = content
        return len(content)

    def _request(self, name: str, *arguments: int) -> Any:
        say(self._answers, (BYTES, (name, arguments)))
        return self._requests.get()
