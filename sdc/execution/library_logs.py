"""Logs of Dask and its libraries: written to the log of the run instead of the console."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from sdc.events import LOGGER, SERVER, EventLog

LIBRARIES = (
    *("distributed", "distributed.client", "distributed.gc"),  # each may have its own handler
    *("asyncio", "bokeh", "tornado", "tornado.application"),
)


class _ToRunLog(logging.Handler):
    """Passes records to the open log of a run or server, if any."""

    def emit(self, record: logging.LogRecord) -> None:
        for log in _open_logs():
            log.handle(record)


def _open_logs() -> list[EventLog]:
    return [handler for handler in (*LOGGER.handlers, *SERVER.handlers) if isinstance(handler, EventLog)]


@contextmanager
def quiet_here() -> Iterator[None]:
    """Send warnings and errors of these libraries to the log of the run, within the block.

    A lost worker is one line of our own, and errors are raised; these records are for diagnosis.
    """
    import distributed  # noqa: F401  # its import sets up the loggers

    before = [(logger, logger.handlers, logger.level, logger.propagate) for logger in _loggers()]
    _send_to([_ToRunLog()])
    try:
        yield
    finally:
        for logger, handlers, level, propagate in before:
            logger.handlers, logger.propagate = handlers, propagate
            logger.setLevel(level)


def quiet_worker() -> Callable[[], None]:
    """Do the same in a local worker process, until it ends."""
    return partial(_log_to_files, [log.path.absolute() for log in _open_logs()])


def _log_to_files(paths: Sequence[Path]) -> None:
    _send_to([*map(EventLog, paths)])


def _has_no_data(record: logging.LogRecord) -> bool:
    """Drop Dask's records of failed or unsendable tasks: they contain inputs, which may be counts.

    The error itself is raised anyway.
    """
    return not str(record.msg).startswith("Compute Failed") and not record.name.startswith("distributed.protocol")


def _send_to(handlers: list[logging.Handler]) -> None:
    for handler in handlers:
        handler.addFilter(_has_no_data)
    for logger in _loggers():
        # otherwise Python writes to standard error
        logger.handlers, logger.propagate = [*handlers] or [logging.NullHandler()], False
        logger.setLevel(max(logger.level, logging.WARNING))


def _loggers() -> list[logging.Logger]:
    return [logging.getLogger(name) for name in LIBRARIES]
