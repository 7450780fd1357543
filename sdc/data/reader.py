"""Child processes that read untrusted or corrupt files: if one dies, that is a message and not the end of this process.

All parsing happens there, within a memory limit that the system enforces. A child starts when it is needed, one for
each reading thread; it reads part after part, and ends after some idle time or with this process. It opens local files;
bytes of a URL come from this process, which has the file system.
"""

from __future__ import annotations

import atexit
import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeAlias, TypeVar

import pyarrow as pa

from sdc.data.child import BYTES, RECORDS, REFUSAL, RecordFile, say, too_much
from sdc.data.source import SourcePart, is_url, readable
from sdc.model.errors import InputError

Result = TypeVar("Result")
Process: TypeAlias = subprocess.Popen[bytes]

LEAST, MOST = 80 << 20, 1 << 30  # bytes for a child beside its own, at least and at most
SECONDS_TO_END = 1.0
_GONE = EOFError, OSError, pickle.UnpicklingError  # from the pipe of a child that died
_SERVE = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from sdc.data.child import serve; serve()"
# its memory is only what it requests: no pool that allocates more in advance, no waiting threads
_PLAIN = {"ARROW_DEFAULT_MEMORY_POOL": "system", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def room_of(memory: int) -> int:
    """Bytes for a child's reading, from the worker's bytes for counting."""
    return min(max(memory // 2, LEAST), MOST)


class Reader:
    """Runs functions of a part in a child."""

    def __init__(self) -> None:
        self._idle: list[Process] = []

    def run(self, function: Callable[..., Result], part: SourcePart, *arguments: Any, room: int = MOST) -> Result:
        """The result of `function(part, *arguments)`; the function is importable, and everything is pickled.

        Raises InputError if it raises an unexpected error, exceeds `room`, or the child dies.
        """
        *_, (_, result) = self.each(function, [(part, arguments)], room)
        found: Result = result
        return found

    def each(
        self, function: Callable[..., Any], pieces: Sequence[tuple[SourcePart, Sequence[Any]]], room: int = MOST
    ) -> Iterator[tuple[SourcePart, Any]]:
        """Parts with the results of `function`; for a generator with each batch before.

        The child works ahead. Errors as `run`, and InputError for a changed part.
        """
        if len(pieces) > 1 and any(is_url(part.url) for part, _ in pieces):
            for piece in pieces:  # its bytes go through this process
                yield from self.each(function, [piece], room)
            return
        pieces_for_child = [(RecordFile(part.url, part.size, part.suffix), arguments) for part, arguments in pieces]
        parts = iter(part for part, _ in pieces)
        part = next(parts)
        if is_url(part.url):
            part.require_unchanged()
        with part.opened() as source:
            lent = None if isinstance(source, str) else source
            # the child loads it when it is at work: it may import for longer than it may be idle
            request = pickle.dumps((function, pieces_for_child, lent is not None, room, _here(pieces_for_child)))
            child, (kind, content) = self._first_answer(request, part, room)
            try:
                while True:
                    if kind == BYTES:
                        name, arguments = content
                        with readable(part.url):
                            given = getattr(lent, name)(*arguments)
                        _say(child, given)
                    elif kind == RECORDS:
                        yield part, pa.ipc.open_stream(content).read_next_batch()
                    else:
                        result, after = content, next(parts, None)
                        if kind == REFUSAL or after is None:
                            break
                        part.require_unchanged()
                        yield part, result
                        part = after
                    kind, content = _heard(child)
            except _GONE:
                kind, result = REFUSAL, _died(part, _ended(child), room)
            except BaseException:
                _ended(child)  # its next frames would be taken for the answer to the next request
                raise
            else:
                self._idle.append(child)
        part.require_unchanged(result if kind == REFUSAL else None)
        if kind == REFUSAL:
            raise result
        yield part, result

    def end(self) -> int:
        """End the idle children; their exit status, negative for a signal."""
        statuses = [_ended(self._idle.pop()) for _ in range(len(self._idle))]
        return next(filter(None, statuses), 0)

    def forget(self) -> None:
        """Called in a fork: the children belong to the parent."""
        self._idle = []

    def _first_answer(self, request: bytes, part: SourcePart, room: int) -> tuple[Process, tuple[int, Any]]:
        while True:
            is_new = not self._idle
            child = _started(part) if is_new else self._idle.pop()
            try:
                _say(child, request)
                return child, _heard(child)
            except _GONE:
                status = _ended(child)
                if status or is_new:  # otherwise it has just ended after its idle time
                    refusal = _died(part, status, room)
                    part.require_unchanged(refusal)
                    raise refusal from None
            except BaseException:
                _ended(child)
                raise


def _here(pieces: Sequence[tuple[RecordFile, Any]]) -> str:
    """The folder that relative paths refer to, which may change while a child is idle; empty if all are absolute."""
    are_whole = all(is_url(part.url) or os.path.isabs(part.url) for part, _ in pieces)
    return "" if are_whole else os.getcwd()


def _started(part: SourcePart) -> Process:
    command = [sys.executable, "-c", _SERVE, json.dumps(sys.path)]
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    try:
        # in its own process group: it ends with this process, not by a signal to the group. Not in its own session:
        # Linux schedules by session, and would separate it from the waiting process
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=null, process_group=0, env=os.environ | _PLAIN)
    except OSError as error:
        what = f"no process to read it can be started ({error.strerror})"
        raise InputError(f"{part} cannot be read: {what}; is there memory for one?") from error


def _ended(child: Process) -> int:
    for pipe in (child.stdin, child.stdout):
        with suppress(OSError):  # a request without a reader
            if pipe is not None:
                pipe.close()
    try:
        return child.wait(SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        child.kill()
        return child.wait()


def _say(child: Process, content: Any) -> None:
    assert child.stdin is not None
    say(child.stdin, content)


def _heard(child: Process) -> tuple[int, Any]:
    assert child.stdout is not None
    found: tuple[int, Any] = pickle.load(child.stdout)
    return found


def _died(part: SourcePart, status: int, room: int) -> InputError:
    how = signal.Signals(-status).name if status < 0 else f"exit status {status}"
    return InputError(f"{part}: the process that read it died ({how}): it {too_much(room)}")


READER = Reader()
"""The reader of this process."""

atexit.register(READER.end)
os.register_at_fork(after_in_child=READER.forget)
