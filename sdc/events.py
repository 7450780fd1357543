"""What happens in a build, one event at a time: told through `logging`, kept as one JSON object a line."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

LOGGER = logging.getLogger("sdc")
LOGGER.propagate = False  # a progress says what is for people; others ask this logger
LOGGER.addHandler(logging.NullHandler())
STARTED, FINISHED, FAILED = "stage started", "stage finished", "stage failed"
STEP = "step"  # the event of one step of a search, of which there may be thousands
WARNING = "warning"  # the event of what whoever decides must look at, though nothing is refused for it
EXECUTION = LOGGER.getChild("execution")  # what happens to workers: shown on standard error too
WORKER_LOST, UNIT_LOST, SCHEDULER_LOST = FAULTS = "worker lost", "unit lost", "scheduler lost"
SERVER = LOGGER.getChild("server")  # its requests, without what was asked for; and by FAULTY what is wrong, or no more
FAULTY = "fault"
QUESTION, OUTLOOK = "question", "outlook"
QUESTIONS = LOGGER.getChild("questions")  # what a search has asked, each one a QUESTION, and what is left: kept nowhere
QUESTIONS.propagate = False


def tell(event: str, text: str = "", logger: logging.Logger = LOGGER, **fields: Any) -> None:
    """Tells of an event; `fields` are JSON values."""
    logger.info(text or event, extra={"event": event, "text": text, "fields": fields})


class EventLog(logging.Handler):
    """Appends each event to a file: `time` (UTC), `event`, the `stage` at work, `text`, and the event's fields.

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
            # a line that a death cut short must not spoil the next one
            with open(self.path, "ab+", opener=for_this_user) as file:
                cut_short = file.tell() > 0 and file.seek(-1, os.SEEK_END) >= 0 and file.read(1) != b"\n"
                file.write(b"\n" * cut_short + line.encode() + b"\n")
        except OSError:
            return
        if event in (FINISHED, FAILED):
            self._stage = ""


class EventText(logging.Handler):
    """Calls a function with the text of each event, or of those of some kinds."""

    def __init__(self, say: Callable[[str], None], *only: str) -> None:
        super().__init__()
        self._say, self._only = say, only

    def emit(self, record: logging.LogRecord) -> None:
        if not self._only or _parts(record)[0] in self._only:
            self._say(record.getMessage())


def for_this_user(path: str, flags: int) -> int:
    """Opens what nobody else may read."""
    return os.open(path, flags, 0o600)


def _parts(record: logging.LogRecord) -> tuple[str, str, dict[str, Any]]:
    told = vars(record)
    return told.get("event", record.name), told.get("text", record.getMessage()), told.get("fields", {})


@contextmanager
def heard(handler: logging.Handler, logger: logging.Logger = LOGGER) -> Iterator[None]:
    """The handler hears the logger's events until the block ends."""
    LOGGER.setLevel(logging.INFO)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def read_events(path: Path) -> list[dict[str, Any]]:
    """The events of a log in order, none where there is no log; a line that a death cut short is left out."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    return [event for line in lines if (event := _event(line)) is not None]


def _event(line: str) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    told = isinstance(found, dict) and isinstance(found.get("event"), str) and isinstance(found.get("time", ""), str)
    return found if told else None
