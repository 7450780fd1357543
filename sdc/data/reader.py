"""Child processes that read what may be damaged or hostile: that one dies is a message, and not the end of this one.

Whatever is parsed is parsed there, within a limit of memory that the system enforces. A child is started when it is
first needed, one for each thread that reads at a time; it reads one part after the other, and ends when it has had
nothing to do for a while, or when this process has ended, however that was. It opens the files of this machine; bytes
of a URL it gets from here, where the file system is set up.
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
from typing import IO, Any, TypeAlias, TypeVar

import pyarrow as pa

from sdc.data.child import BYTES, RECORDS, REFUSAL, RESULT, Part, heard, say, too_much
from sdc.data.source import SourcePart, is_url, readable
from sdc.model.errors import InputError

Result = TypeVar("Result")
Process: TypeAlias = subprocess.Popen[bytes]

LEAST, MOST = 80 << 20, 1 << 30  # bytes that a child gets beside its own, however little and much there is
SECONDS_TO_END = 1.0
_SERVE = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from sdc.data.child import serve; serve()"
# its memory is what it asks for: no pool that takes more in advance, no threads that wait
_PLAIN = {"ARROW_DEFAULT_MEMORY_POOL": "system", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def room_of(memory: int) -> int:
    """Bytes for what a child reads at a time where a worker has so many for what it counts."""
    return min(max(memory // 2, LEAST), MOST)


class Reader:
    """Runs functions of a part in a child."""

    def __init__(self) -> None:
        self._idle: list[Process] = []

    def run(self, function: Callable[..., Result], part: SourcePart, *arguments: Any, room: int = MOST) -> Result:
        """What `function(part, *arguments)` gives; the function is a module's, and all that travels is pickled.

        InputError where it raises anything but a refusal of its own, needs more memory than `room`, or the child dies.
        """
        *_, (_, result) = self.each(function, [(part, arguments)], room)
        found: Result = result
        return found

    def each(
        self, function: Callable[..., Any], pieces: Sequence[tuple[SourcePart, Sequence[Any]]], room: int = MOST
    ) -> Iterator[tuple[SourcePart, Any]]:
        """Parts with what it gives of each with the arguments, and before that the batches if it is a generator.

        The child makes the next one meanwhile. Errors as `run`, and where a part is no longer what it was.
        """
        if len(pieces) > 1 and any(is_url(part.url) for part, _ in pieces):
            for piece in pieces:  # its bytes go through this process
                yield from self.each(function, [piece], room)
            return
        asked = [(Part(part.url, part.size, part.suffix), arguments) for part, arguments in pieces]
        parts = iter(part for part, _ in pieces)
        part = next(parts)
        if is_url(part.url):
            part.require_unchanged()
        with part.opened() as source:
            lent = None if isinstance(source, str) else source
            request = pickle.dumps((function, asked, lent is not None, room, _here(asked)), pickle.HIGHEST_PROTOCOL)
            child, (kind, content) = self._asked(request, part, room)
            try:
                while True:
                    if kind == BYTES:
                        _say(child, _lent(lent, part, content))
                    elif kind == RECORDS:
                        yield part, pa.ipc.open_stream(content).read_next_batch()
                    else:
                        result, after = pickle.loads(content), next(parts, None)
                        if kind == REFUSAL or after is None:
                            break
                        part.require_unchanged()
                        yield part, result
                        part = after
                    kind, content = heard(_out(child))
            except (EOFError, OSError):
                kind, result = REFUSAL, _died(part, _ended(child), room)
            except BaseException:
                _ended(child)  # what it still says would be taken for the answer to the next request
                raise
            else:
                self._idle.append(child)
        part.require_unchanged(result if kind == REFUSAL else None)
        if kind == REFUSAL:
            raise result
        yield part, result

    def end(self) -> int:
        """Ends the children that have nothing to do; their exit status, negative for a signal."""
        statuses = [_ended(self._idle.pop()) for _ in range(len(self._idle))]
        return next(filter(None, statuses), 0)

    def forget(self) -> None:
        """What a fork of this process does with children that are its parent's."""
        self._idle = []

    def _asked(self, request: bytes, part: SourcePart, room: int) -> tuple[Process, tuple[bytes, bytes]]:
        """A child, and the first that it says."""
        while True:
            is_new = not self._idle
            child = _started(part) if is_new else self._idle.pop()
            try:
                _say(child, request)
                return child, heard(_out(child))
            except (EOFError, OSError):
                status = _ended(child)
                if status or is_new:  # else it had nothing to do for long, and has just left
                    refusal = _died(part, status, room)
                    part.require_unchanged(refusal)
                    raise refusal from None
            except BaseException:
                _ended(child)
                raise


def _here(pieces: Sequence[tuple[Part, Any]]) -> str:
    """From where paths of parts are, which may change while a child has nothing to do; empty where all are whole."""
    are_whole = all(is_url(part.url) or os.path.isabs(part.url) for part, _ in pieces)
    return "" if are_whole else os.getcwd()


def _started(part: SourcePart) -> Process:
    command = [sys.executable, "-c", _SERVE, json.dumps(sys.path)]
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    try:
        # in a group of its own: it ends when this process does, not when a signal is sent to the group. Not in a
        # session: Linux shares processors among sessions, and would part it from the one that waits for it
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=null, process_group=0, env=os.environ | _PLAIN)
    except OSError as error:
        what = f"no process to read it can be started ({error.strerror})"
        raise InputError(f"{part} cannot be read: {what}; is there memory for one?") from error


def _ended(child: Process) -> int:
    """Ends it; its exit status."""
    for pipe in (child.stdin, child.stdout):
        with suppress(OSError):  # of a request that nobody reads
            if pipe is not None:
                pipe.close()
    try:
        return child.wait(SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        child.kill()
        return child.wait()


def _say(child: Process, content: bytes) -> None:
    assert child.stdin is not None
    say(child.stdin, RESULT, content)


def _out(child: Process) -> IO[bytes]:
    assert child.stdout is not None
    return child.stdout


def _lent(lent: Any, part: SourcePart, asked: bytes) -> bytes:
    """What the child wants of a file that is open here."""
    name, arguments = pickle.loads(asked)
    with readable(part.url):
        return pickle.dumps(getattr(lent, name)(*arguments), pickle.HIGHEST_PROTOCOL)


def _died(part: SourcePart, status: int, room: int) -> InputError:
    how = signal.Signals(-status).name if status < 0 else f"exit status {status}"
    return InputError(f"{part}: the process that read it died ({how}): it {too_much(room)}")


READER = Reader()
"""That of this process."""

atexit.register(READER.end)
os.register_at_fork(after_in_child=READER.forget)
