"""The end of a failed command: one message that anyone may read, and a file with the quoted data."""

from __future__ import annotations

import errno
import io
import json
import os
import resource
import signal
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sdc.model.errors import NotReleasableError, SdcError, TemporaryError

FILES = "refused-*.txt"
MOST_FILES = 50  # in a folder; older ones are removed
ERROR, NOT_RELEASABLE, TRY_AGAIN, INTERRUPTED = 1, 3, os.EX_TEMPFAIL, 130
"""Exit statuses of failed commands; 2 is wrong usage."""

_FULL = {errno.ENOSPC, errno.EDQUOT}
SECONDS_TO_END = 4.5
"""After a signal; the sender usually sends SIGKILL after five seconds or more."""

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def status_of(error: BaseException) -> int:
    """Return the exit status for an error.

    TRY_AGAIN if the error, or one of its causes, is temporary: something was unavailable, busy or full.
    """
    if isinstance(error, NotReleasableError):
        return NOT_RELEASABLE
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, TemporaryError) or (isinstance(cause, OSError) and cause.errno in _FULL):
            return TRY_AGAIN
        cause = cause.__cause__
    return ERROR


def file_detail(error: SdcError, folder: Path | None) -> None:
    """Move quoted data of an error to a private file, and name the file in the message.

    The file name is the time in UTC, `refused-20261124T215302.123456Z.txt`; the newest MOST_FILES stay.
    """
    if not error.detail:
        return
    detail, error.detail = error.detail, ""
    error.args = (f"{error}; the details are {_filed(detail, folder)}",)


def _filed(detail: str, folder: Path | None) -> str:
    """Write the file; return its place for the message."""
    if folder is None:
        return "not written, because this user has no home; set XDG_STATE_HOME to a folder"
    path = folder / FILES.replace("*", f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # a new file: an existing one may be a link or readable by others
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(f"{detail}\n")
    except OSError as os_error:
        return f"not written to {path}: {os_error.strerror}"
    for older in sorted(folder.glob(FILES))[:-MOST_FILES]:
        with suppress(OSError):
            older.unlink()
    return f"in {path}, which is confidential"


@contextmanager
def as_command(as_json: bool = False) -> Iterator[None]:
    """Run a block as a command: an exception ends the process with one message on standard error.

    The status is that of `status_of`, or INTERRUPTED after a signal. With `as_json`, a refusal is also a JSON document
    on standard output.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # category names may be in any alphabet
            stream.reconfigure(errors="backslashreplace")
    message = _LastMessage()
    try:
        with _interrupted_by_signals(message):
            yield
    except SystemExit as exit_:
        if exit_.code == INTERRUPTED:  # typer's reaction to an interrupt
            message.print_interrupted()
        raise
    except KeyboardInterrupt:
        message.print_interrupted()
        sys.exit(INTERRUPTED)
    except Exception as error:
        if message.is_interrupted and not isinstance(error, SdcError):  # a library's reaction to an interrupt
            message.print_interrupted()
            sys.exit(INTERRUPTED)
        refusal, status = error if isinstance(error, SdcError) else _unforeseen(error), status_of(error)
        file_detail(refusal, state_folder())
        if as_json:
            print(json.dumps({"error": str(refusal), "status": status}), flush=True)
        message.print(f"sdc: {refusal}", status)
        sys.exit(status)


class _First:
    """What the next interrupt does instead of ending the process.

    Signal handler and listening thread both see each interrupt, and either may be late; one of them decides.
    """

    def __init__(self) -> None:
        self.call: Callable[[], None] | None = None
        self._lock, self._decided = threading.RLock(), {who: deque[bool]() for who in (True, False)}

    def takes(self, number: int, is_handler: bool) -> bool:
        """Return whether the interrupt is handled here; its action runs once."""
        if number != signal.SIGINT:
            return False
        with self._lock:
            if self._decided[not is_handler]:
                return self._decided[not is_handler].popleft()
            call, self.call = self.call, None
            self._decided[is_handler].append(call is not None)
            if call is not None:
                call()
            return call is not None


_FIRST = _First()


@contextmanager
def first_interrupt(call: Callable[[], None], message: str) -> Iterator[None]:
    """Within the block, the first interrupt calls the function and prints the message; the second ends the process.

    Without effect in a process that is not a command.
    """

    def instead() -> None:
        call()
        os.write(2, f"sdc: {message}; interrupt again to stop at once\n".encode())  # print may be interrupted itself

    _FIRST.call = instead
    try:
        yield
    finally:
        _FIRST.call = None


class _LastMessage(threading.Event):
    """Set when the last message is printed, with its exit status; and whether a signal has come."""

    status = INTERRUPTED
    is_interrupted = False

    def print(self, text: str, status: int) -> None:
        print(text, file=sys.stderr, flush=True)
        self.status = status
        self.set()

    def print_interrupted(self) -> None:
        self.print("sdc: interrupted; nothing was published", INTERRUPTED)

    def interrupt(self, number: int, frame: Any) -> None:
        if _FIRST.takes(number, is_handler=True):
            return
        for other in _ENDING:
            signal.signal(other, signal.SIG_IGN)  # cleanup is not interrupted again
        self.is_interrupted = True
        raise KeyboardInterrupt


@contextmanager
def _interrupted_by_signals(message: _LastMessage) -> Iterator[None]:
    """Treat all signals that end a process as interrupts; cleanup gets some seconds."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in _ENDING}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:  # set by nohup
            signal.signal(number, message.interrupt)
    try:
        with _ended_at_last(message):
            yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _ended_at_last(message: _LastMessage) -> Iterator[None]:
    """End this process some seconds after a signal, if it has not ended by then.

    An interrupt can be lost in a library with its own handler, such as Prefect in a flow, and cleanup can wait for
    something that the signal has ended too. So this reads signals before all handlers.
    """
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    before = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)

    def listen() -> None:
        while number := os.read(read_end, 1):
            if number[0] in _ENDING and not _FIRST.takes(number[0], is_handler=False):
                deadline = time.monotonic() + SECONDS_TO_END
                if not message.wait(SECONDS_TO_END):
                    message.print_interrupted()
                time.sleep(max(0.0, deadline - time.monotonic()))  # an exit waits for threads
                os._exit(message.status)
        os.close(read_end)

    threading.Thread(target=listen, daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(write_end)


def _unforeseen(error: Exception) -> SdcError:
    """Return the message for an unexpected error; the traceback goes to the private file.

    Under a memory limit libraries fail in many ways: threads do not start, modules are missing.
    """
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if isinstance(error, MemoryError):
        what = "there is not enough memory; give more, or use fewer variables or workers"
    elif status_of(error) == TRY_AGAIN:
        what = f"{error}; free the disk, then run again"
    elif limit != resource.RLIM_INFINITY:
        what = f"unforeseen {type(error).__name__}: raise the limit of memory, {limit >> 20} MiB, or report it"
    else:
        what = f"unforeseen {type(error).__name__}, a bug in sdc: report it"
    return SdcError(what, "".join(traceback.format_exception(error)))


def state_folder() -> Path | None:
    """Return the folder for files of no build, by the XDG base directories; None for a user without a home."""
    try:
        return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "sdc"
    except RuntimeError:
        return None
