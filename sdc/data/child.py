"""The process that reads what may be damaged or hostile, see `sdc.data.reader`; it imports little, to start at once."""

from __future__ import annotations

import fcntl
import io
import os
import pickle
import queue
import resource
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sdc.model.errors import InputError, SdcError

OWN_BYTES = 176 << 20  # measured: 165 MiB with Arrow, NumPy and the kernel of text, 78 without it, before it reads
_AHEAD = 1 << 20  # bytes that it is ahead of who asks
IDLE_SECONDS = 10.0  # its memory is not for a search that takes hours
FRAME = struct.Struct("<cQ")
_TEXTS, _SMALL = (".csv", ".tsv", ".txt"), 1 << 19
_NARROW = ((pa.int8(), np.int8), (pa.int16(), np.int16))
RECORDS, RESULT, REFUSAL, BYTES = b"r", b"=", b"!", b"?"
"""What it says: some records, its answer, why there is none, or which bytes of a file it needs."""


@dataclass(frozen=True)
class Part:
    """A file of records for those who look at its bytes."""

    url: str
    size: int | None
    suffix: str

    def __str__(self) -> str:
        return self.url

    @contextmanager
    def opened(self) -> Iterator[str | IO[bytes]]:
        """What Arrow reads it from."""
        yield self.url


def is_small(part: Part) -> bool:
    """Whether a text file is read before a compiled kernel is loaded."""
    return part.suffix in _TEXTS and part.size is not None and part.size < _SMALL


def serve() -> None:
    """Answers requests until there is none for long, or nobody to ask."""
    with suppress(OSError, AttributeError):
        fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, _AHEAD)
    answers = os.fdopen(os.dup(1), "wb", _AHEAD)
    os.dup2(2, 1)  # what libraries print is no answer
    asked: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(asked,), daemon=True).start()
    while True:
        try:
            function, pieces, is_lent, memory, folder = pickle.loads(asked.get(timeout=IDLE_SECONDS))
        except queue.Empty:
            os._exit(0)
        if folder:
            os.chdir(folder)
        for part, arguments in pieces:
            own = _LentPart(part.url, part.size, part.suffix, asked, answers) if is_lent else part
            for kind, content in _answers(function, own, memory, arguments):
                say(answers, kind, content)
            if kind == REFUSAL:
                break


def say(pipe: IO[bytes], kind: bytes, content: Any) -> None:
    """One frame."""
    pipe.write(FRAME.pack(kind, len(content)))
    pipe.write(content)
    pipe.flush()


def heard(pipe: IO[bytes]) -> tuple[bytes, bytes]:
    """One frame; EOFError where there is none."""
    head = pipe.read(FRAME.size)
    if len(head) < FRAME.size:
        raise EOFError
    kind, size = FRAME.unpack(head)
    content = pipe.read(size)
    if len(content) < size:
        raise EOFError
    return kind, content


def _listen(asked: queue.SimpleQueue[bytes]) -> None:
    """Hands on what the parent says; where it says no more it is gone, and nobody wants what is being done."""
    with suppress(EOFError):
        while True:
            asked.put(heard(sys.stdin.buffer)[1])
    os._exit(0)


def _answers(function: Callable[..., Any], part: Part, memory: int, arguments: Any) -> Iterator[tuple[bytes, Any]]:
    if part.suffix.startswith(_TEXTS) and not is_small(part):
        from sdc.data.text_kernel import compiled

        compiled()  # what compiles needs more memory than what reads
    try:
        _limit(memory)
        result = function(part, *arguments)
        if isinstance(result, Iterator):
            for batch in result:
                yield RECORDS, _stream_of(batch)
            result = None
        yield RESULT, pickle.dumps(result, pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        _limit(None)
        yield REFUSAL, pickle.dumps(_refusal(part, error, memory), pickle.HIGHEST_PROTOCOL)


def _limit(memory: int | None) -> None:
    """What this process may take beside what it had at first; None for as much as the system gives."""
    most = resource.getrlimit(resource.RLIMIT_DATA)[1]
    own = most if memory is None else _had_at_first() + memory
    resource.setrlimit(resource.RLIMIT_DATA, (own if most == resource.RLIM_INFINITY else min(own, most), most))


@cache
def _had_at_first() -> int:
    """Bytes of data when it begins to read: `OWN_BYTES`, or more where it had to compile."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return max([OWN_BYTES, *(int(line.split()[1]) << 10 for line in lines if line.startswith("VmData"))])


def _refusal(part: Part, error: Exception, memory: int) -> SdcError:
    if isinstance(error, MemoryError):
        return InputError(f"{part} {too_much(memory)}")
    from sdc.data.source import readable

    try:
        with readable(part.url):
            raise error
    except SdcError as refusal:
        return refusal


def limit_of(memory: int) -> int:
    """Bytes that a process may take which gets so many for what it reads at a time."""
    return OWN_BYTES + memory


def too_much(memory: int) -> str:
    """What is wrong with a part that needs more than this, beside what a process has anyway."""
    return (
        f"cannot be read with {limit_of(memory) >> 20} MiB, the limit of a process that reads; it is damaged, or "
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
    """Of codes, and which of them are of no missing value, in as few bytes as they need."""
    kind, numbers = next((one for one in _NARROW if len(dictionary) <= np.iinfo(one[1]).max), (pa.int32(), np.int32))
    # by buffers: pyarrow imports pandas for whatever it makes of NumPy
    buffers = [None if known is None else pa.py_buffer(np.packbits(known, bitorder="little"))]
    indices = pa.Array.from_buffers(kind, len(codes), [*buffers, pa.py_buffer(codes.astype(numbers))])
    return pa.DictionaryArray.from_arrays(indices, dictionary, safe=False)


@dataclass(frozen=True)
class _LentPart(Part):
    """A part that the parent has opened, and whose bytes it gives."""

    asked: queue.SimpleQueue[bytes]
    answers: IO[bytes]

    @contextmanager
    def opened(self) -> Iterator[str | IO[bytes]]:
        yield io.BufferedReader(_LentFile(self.asked, self.answers))


class _LentFile(io.RawIOBase):
    def __init__(self, asked: queue.SimpleQueue[bytes], answers: IO[bytes]) -> None:
        self._asked, self._answers = asked, answers

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        return int(self._ask("seek", offset, whence))

    def tell(self) -> int:
        return int(self._ask("tell"))

    def readinto(self, into: Any) -> int:
        content = self._ask("read", len(into))
        into[: len(content)] = content
        return len(content)

    def _ask(self, name: str, *arguments: int) -> Any:
        say(self._answers, BYTES, pickle.dumps((name, arguments)))
        return pickle.loads(self._asked.get())
