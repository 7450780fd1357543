"""How a command ends that does not end well: a message that anybody may read, and a file with what it is about."""

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
MOST_KEPT = 50  # the newest of a folder
MEND, NOT_RELEASABLE, TRY_AGAIN, INTERRUPTED = 1, 3, os.EX_TEMPFAIL, 130
"""With what a command ends that does not end well; 2 is wrong usage."""

_FULL = {errno.ENOSPC, errno.EDQUOT}
SECONDS_TO_END = 4.5
"""After a signal; whoever sent it sends the next one, SIGKILL, after five or more."""

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def status_of(error: BaseException) -> int:
    """With what a command ends that an error ends.

    TRY_AGAIN where something was away, busy or full, of which the error is, or comes from: the same may do later.
    """
    if isinstance(error, NotReleasableError):
        return NOT_RELEASABLE
    return TRY_AGAIN if any(map(_is_temporary, _causes(error))) else MEND


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _is_temporary(error: BaseException) -> bool:
    return isinstance(error, TemporaryError) or (isinstance(error, OSError) and error.errno in _FULL)


def file_detail(error: SdcError, folder: Path | None) -> None:
    """Puts what an error quotes of the data into a file of its own, for the eyes of this user, named in the message.

    It is called by its moment in UTC, `refused-20261124T215302.123456Z.txt`; older ones stay, the newest MOST_KEPT.
    Nothing is done where it quotes nothing, or where it is filed already.
    """
    if not error.detail:
        return
    detail, error.detail = error.detail, ""
    error.args = (f"{error}; what it is about {_filed(detail, folder)}",)


def _filed(detail: str, folder: Path | None) -> str:
    """Where it is now, as the message says it."""
    if folder is None:
        return "is kept nowhere, as this user has no home; set XDG_STATE_HOME to a folder, and it will be"
    path = folder / FILES.replace("*", f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # a new one: what is there already may be open to others, or a link
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(f"{detail}\n")
    except OSError as fault:
        return f"cannot be written to {path}: {fault.strerror}"
    for older in sorted(folder.glob(FILES))[:-MOST_KEPT]:
        with suppress(OSError):
            older.unlink()
    return f"is in {path}, which is confidential"


@contextmanager
def as_command(as_json: bool = False) -> Iterator[None]:
    """A process that is a command: what is raised ends it with one message on standard error.

    Its status is that of `status_of`, and INTERRUPTED where a signal has interrupted it. With `as_json` what refuses
    is a document on standard output too.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # names of categories are in any alphabet, whatever a terminal shows
            stream.reconfigure(errors="backslashreplace")
    said = _Said()
    try:
        with _interrupted_by_signals(said):
            yield
    except SystemExit as exit_:
        if exit_.code == INTERRUPTED:  # what typer makes of an interrupt, without a word
            said.say_interrupted()
        raise
    except KeyboardInterrupt:
        said.say_interrupted()
        sys.exit(INTERRUPTED)
    except Exception as error:
        if said.is_interrupted and not isinstance(
            error, SdcError
        ):  # what a library makes of an interrupt that meets it at work
            said.say_interrupted()
            sys.exit(INTERRUPTED)
        refusal, status = error if isinstance(error, SdcError) else _unforeseen(error), status_of(error)
        file_detail(refusal, state_folder())
        if as_json:
            print(json.dumps({"error": str(refusal), "status": status}), flush=True)
        said.say(f"sdc: {refusal}", status)
        sys.exit(status)


class _First:
    """What the next interrupt from the keyboard is for, in place of an end; two hear of each, and one of them decides.

    The handler may be late where a library is at work, and whoever listens may be late where the handler is not.
    """

    def __init__(self) -> None:
        self.call: Callable[[], None] | None = None
        self._lock, self._decided = threading.RLock(), {who: deque[bool]() for who in (True, False)}

    def takes(self, number: int, is_handler: bool) -> bool:
        """Whether it is no end; what is to be done instead is done, once."""
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
def first_interrupt(call: Callable[[], None], said: str) -> Iterator[None]:
    """Within it the first interrupt from the keyboard calls this and says so, and ends nothing; the second is as ever.

    In a process that is no command, where nobody listens, an interrupt is as ever.
    """

    def instead() -> None:
        call()
        os.write(2, f"sdc: {said}; interrupt again to stop at once\n".encode())  # print may be what was interrupted

    _FIRST.call = instead
    try:
        yield
    finally:
        _FIRST.call = None


class _Said(threading.Event):
    """Whether the last message has been said, and the status that goes with it; and whether a signal has come."""

    status = INTERRUPTED
    is_interrupted = False

    def say(self, text: str, status: int) -> None:
        print(text, file=sys.stderr, flush=True)
        self.status = status
        self.set()

    def say_interrupted(self) -> None:
        self.say("sdc: interrupted; nothing was published", INTERRUPTED)

    def interrupt(self, number: int, frame: Any) -> None:
        if _FIRST.takes(number, is_handler=True):
            return
        for other in _ENDING:
            signal.signal(other, signal.SIG_IGN)  # the blocks that are being left are not interrupted again
        self.is_interrupted = True
        raise KeyboardInterrupt


@contextmanager
def _interrupted_by_signals(said: _Said) -> Iterator[None]:
    """Whatever asks this process to end is an interrupt, upon which blocks are left in order, within some seconds."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in _ENDING}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:  # as nohup has it
            signal.signal(number, said.interrupt)
    try:
        with _ended_at_last(said):
            yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _ended_at_last(said: _Said) -> Iterator[None]:
    """Ends this process some seconds after a signal that asks it to, where it has not ended by then.

    An interrupt is lost where a library swallows it, or has a handler of its own, as Prefect has in a flow; and what is
    to be closed may wait for what the signal has ended too. So this hears of signals before all handlers.
    """
    heard, tells = os.pipe()
    os.set_blocking(tells, False)
    before = signal.set_wakeup_fd(tells, warn_on_full_buffer=False)

    def listen() -> None:
        while number := os.read(heard, 1):
            if number[0] in _ENDING and not _FIRST.takes(number[0], is_handler=False):
                deadline = time.monotonic() + SECONDS_TO_END
                if not said.wait(SECONDS_TO_END):
                    said.say_interrupted()
                time.sleep(max(0.0, deadline - time.monotonic()))  # whoever leaves a process waits for its threads
                os._exit(said.status)
        os.close(heard)

    threading.Thread(target=listen, daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(tells)


def _unforeseen(error: Exception) -> SdcError:
    """A fault of the program, or of its surroundings; where it came from, and what it quotes, is for this user.

    Where memory is limited, libraries fail in many ways: threads do not start, modules are not there.
    """
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if isinstance(error, MemoryError):
        what = "there is not enough memory; give more, or use fewer variables or workers"
    elif status_of(error) == TRY_AGAIN:
        what = f"{error}; free the disk, then run again"
    elif limit != resource.RLIM_INFINITY:
        what = f"unforeseen {type(error).__name__}: raise the limit of memory, {limit >> 20} MiB, or report it"
    else:
        what = f"unforeseen {type(error).__name__}, a fault of sdc: report it"
    return SdcError(what, "".join(traceback.format_exception(error)))


def state_folder() -> Path | None:
    """Where what belongs to no build is kept, as the XDG base directories have it; None for a user without a home."""
    try:
        return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "sdc"
    except RuntimeError:
        return None
