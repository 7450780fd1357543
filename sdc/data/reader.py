"""A child process that reads what may be damaged: that it dies is a message, and not the end of this process.

Arrow believes what a Parquet file says of itself, and where that is wrong it may abort. The child is started when it is
first needed, reads one part after the other, and ends when it has had nothing to do for a while, or when this process
has ended, however that was. It opens the files of this machine; bytes of a URL it gets from here, where the file
system is set up.
"""

from __future__ import annotations

import atexit
import io
import json
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO, Any, TypeAlias, TypeVar

from sdc.data.source import SourcePart, readable
from sdc.model.errors import InputError, SdcError

Result = TypeVar("Result")
Process: TypeAlias = subprocess.Popen[bytes]
_NONE: Process | None = None

IDLE_SECONDS = 10.0  # its memory is not for a search that takes hours
SECONDS_TO_END = 1.0
_SERVE = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from sdc.data.reader import serve; serve()"


class Reader:
    """Runs functions of a part in its child, one at a time, whichever thread asks."""

    def __init__(self) -> None:
        self._lock, self._child = threading.Lock(), _NONE

    def run(self, function: Callable[..., Result], part: SourcePart, *arguments: Any) -> Result:
        """What `function(part, *arguments)` gives; the function is a module's, and all that travels is pickled.

        InputError where it raises anything but a refusal of its own, or the child dies.
        """
        with self._lock, part.opened() as source:
            lent = None if isinstance(source, str) else source
            is_done, answer = self._asked((function, part, lent is not None, arguments), part, lent)
        if not is_done:
            raise answer
        result: Result = answer
        return result

    def end(self) -> int:
        """Ends the child where there is one; its exit status, negative for a signal."""
        child, self._child = self._child, _NONE
        if child is None:
            return 0
        for pipe in (child.stdin, child.stdout):
            with suppress(OSError):  # of a request that nobody reads
                if pipe is not None:
                    pipe.close()
        try:
            return child.wait(SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            child.kill()
            return child.wait()

    def forget(self) -> None:
        """What a fork of this process does with a child that is its parent's."""
        self._lock, self._child = threading.Lock(), _NONE

    def _asked(self, request: Any, part: SourcePart, lent: IO[bytes] | None) -> tuple[bool, Any]:
        while True:
            is_new = self._child is None
            try:
                return _exchange(self._started(part), request, part, lent)
            except _NoAnswerError:
                status = self.end()
                if status or is_new:  # else it had nothing to do for long, and has just left
                    raise _died(part, status) from None
            except BaseException:
                self.end()  # what it still says would be taken for the answer to the next request
                raise

    def _started(self, part: SourcePart) -> Process:
        if self._child is None:
            command = [sys.executable, "-c", _SERVE, json.dumps(sys.path)]
            pipe, null = subprocess.PIPE, subprocess.DEVNULL
            try:
                # in a session of its own: it ends when this process does, not when a signal is sent to the group
                self._child = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=null, start_new_session=True)
            except OSError as error:
                what = f"no process to read it can be started ({error.strerror})"
                raise InputError(f"{part} cannot be read: {what}; is there memory for one?") from error
        return self._child


class _NoAnswerError(Exception):
    """The child ends, or what it says is no answer."""


def _exchange(child: Process, request: Any, part: SourcePart, lent: IO[bytes] | None) -> tuple[bool, Any]:
    """Whether it is done and the result, or the refusal; on the way the child may ask for bytes of what is lent."""
    _say(child, request)
    while True:
        name, content = _heard(child)
        if name == "answer":
            is_done, answer = content
            return is_done, answer
        with readable(part.url):
            found = getattr(lent, name)(*content)
        _say(child, found)


def _say(child: Process, content: Any) -> None:
    assert child.stdin is not None
    try:
        # twice: the thread that listens takes bytes, and imports nothing
        pickle.dump(pickle.dumps(content, pickle.HIGHEST_PROTOCOL), child.stdin, pickle.HIGHEST_PROTOCOL)
        child.stdin.flush()
    except OSError as error:
        raise _NoAnswerError from error


def _heard(child: Process) -> tuple[str, Any]:
    try:
        name, content = pickle.load(child.stdout)  # type: ignore[arg-type]
    except Exception as error:  # the end of the pipe, or what a process wrote whose memory is no longer its own
        raise _NoAnswerError from error
    return name, content


def _died(part: SourcePart, status: int) -> InputError:
    how = signal.Signals(-status).name if status < 0 else f"exit status {status}"
    return InputError(
        f"{part} cannot be read: the process that read it died ({how}); it is damaged, or there is no memory: write it "
        "again"
    )


READER = Reader()
"""That of this process."""

atexit.register(READER.end)
os.register_at_fork(after_in_child=READER.forget)


# The child


def serve() -> None:
    """Answers requests until there is none for long, or nobody to ask."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print is no answer
    asked: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(asked,), daemon=True).start()
    while True:
        try:
            function, part, is_lent, arguments = pickle.loads(asked.get(timeout=IDLE_SECONDS))
        except queue.Empty:
            os._exit(0)
        part = _LentPart(part.url, part.size, part.fingerprint, asked, answers) if is_lent else part
        answers.write(_answer(function, part, arguments))
        answers.flush()


def _listen(asked: queue.SimpleQueue[bytes]) -> None:
    """Hands on what the parent says; where it says no more it is gone, and nobody wants what is being done."""
    with suppress(EOFError):
        while True:
            asked.put(pickle.load(sys.stdin.buffer))
    os._exit(0)


def _answer(function: Callable[..., Any], part: SourcePart, arguments: Any) -> bytes:
    try:
        with readable(part.url):
            return _pickled("answer", (True, function(part, *arguments)))
    except SdcError as error:
        return _pickled("answer", (False, error))


def _pickled(name: str, content: Any) -> bytes:
    return pickle.dumps((name, content), pickle.HIGHEST_PROTOCOL)


@dataclass(frozen=True)
class _LentPart(SourcePart):
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
        self._answers.write(_pickled(name, arguments))
        self._answers.flush()
        return pickle.loads(self._asked.get())
