"""Events of a build: sent through `logging`, written as one JSON object a line."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

LOGGER = logging.getLogger("sdc")
LOGGER.propagate = False  # `Progress` prints for people; other handlers are added here
LOGGER.addHandler(logging.NullHandler())
STARTED, FINISHED, FAILED = "stage started", "stage finished", "stage failed"
STEP = "step"  # one of possibly thousands of steps of a search
WARNING = "warning"  # to be looked at before publication; nothing is refused
EXECUTION = LOGGER.getChild("execution")  # events of workers, also shown on standard error
WORKER_LOST, UNIT_LOST, SCHEDULER_LOST = LOST = "worker lost", "unit lost", "scheduler lost"
SERVER = LOGGER.getChild("server")  # requests without their sub-tables, and problems
PROBLEM = "fault"
QUESTION, OUTLOOK = "question", "outlook"
QUESTIONS = LOGGER.getChild("questions")  # progress of a search, not logged
QUESTIONS.propagate = False


def emit(event: str, text: str = "", logger: logging.Logger = LOGGER, **fields: Any) -> None:
    """Send an event; `fields` are JSON values."""
    logger.info(text or event, extra={"event": event, "text": text, "fields": fields})


class EventLog(logging.Handler):
    """A file with one line an event: `time` (UTC), `event`, current `stage`, `text` and the event's fields.

    A record of another library has its logger's name as the event. A log that cannot be written does not stop a build.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path, self._stage = path, ""

    def emit(self, record: logging.LogRecord) -> None:
        event, text, fields = _parts(record)
        if event == STARTED:
            self._stage = fields["stage"]
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        named = {"time": moment, "stage": self._stage, "event": event, "text": text}
        line = json.dumps({**{key: value for key, value in named.items() if value}, **fields}, ensure_ascii=False)
        try:
            # a line truncated by a crash must not spoil the next one
            with open(self.path, "ab+", opener=for_this_user) as file:
                cut_short = file.tell() > 0 and file.seek(-1, os.SEEK_END) >= 0 and file.read(1) != b"\n"
                file.write(b"\n" * cut_short + line.encode() + b"\n")
        except OSError:
            return
        if event in (FINISHED, FAILED):
            self._stage = ""


class EventText(logging.Handler):
    """Call a function with the text of each event, or of some kinds of events."""

    def __init__(self, say: Callable[[str], None], *only: str) -> None:
        super().__init__()
        self._say, self._only = say, only

    def emit(self, record: logging.LogRecord) -> None:
        if not self._only or _parts(record)[0] in self._only:
            self._say(record.getMessage())


def for_this_user(path: str, flags: int) -> int:
    """Open a file that only this user may read."""
    return os.open(path, flags, 0o600)


def _parts(record: logging.LogRecord) -> tuple[str, str, dict[str, Any]]:
    values = vars(record)
    return values.get("event", record.name), values.get("text", record.getMessage()), values.get("fields", {})


class _WarningText(EventText):
    """Call a function with each warning once, though a file is read several times."""

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__(say, WARNING)
        self._said = set[str]()

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if _parts(record)[0] == WARNING and text not in self._said:
            self._said.add(text)
            self._say(warning_line(text))


def warning_line(text: str) -> str:
    """The text of a warning, as a line that says so."""
    return f"warning: {text.removeprefix('warning: ')}"


@contextmanager
def warnings_shown(say: Callable[[str], None]) -> Iterator[None]:
    """Say each warning once within the block; blocks around it do not say them too."""
    handler, outer = _WarningText(say), [one for one in LOGGER.handlers if isinstance(one, _WarningText)]
    for one in outer:
        LOGGER.removeHandler(one)
        handler._said |= one._said
    try:
        with heard(handler):
            yield
    finally:
        for one in outer:
            one._said |= handler._said
            LOGGER.addHandler(one)


@contextmanager
def heard(handler: logging.Handler, logger: logging.Logger = LOGGER) -> Iterator[None]:
    """Attach a handler to a logger within the block."""
    LOGGER.setLevel(logging.INFO)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def read_events(path: Path) -> list[dict[str, Any]]:
    """Return the events of a log in order; truncated lines are skipped, and a missing log is empty."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    found = list[dict[str, Any]]()
    for line in lines:
        with suppress(ValueError, RecursionError):
            event = json.loads(line)
            if isinstance(event, dict) and {type(event.get("event")), type(event.get("time", ""))} == {str}:
                found.append(event)
    return found
