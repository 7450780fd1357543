"""What Dask and the libraries below it log: kept in the log of the run, and off the console."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from sdc.events import LOGGER, SERVER, EventLog

LIBRARIES = (
    *("distributed", "distributed.client", "distributed.gc"),  # Dask may give each of them a handler of its own
    *("asyncio", "bokeh", "tornado", "tornado.application"),
)


class _ToRunLog(logging.Handler):
    """Passes a record to the log of the run or server that is open; nowhere where none is."""

    def emit(self, record: logging.LogRecord) -> None:
        for log in _open_logs():
            log.handle(record)


def _open_logs() -> list[EventLog]:
    return [handler for handler in (*LOGGER.handlers, *SERVER.handlers) if isinstance(handler, EventLog)]


@contextmanager
def quiet_here() -> Iterator[None]:
    """Until the block ends, warnings and errors of these libraries go to the log of the run.

    A lost worker is one line of our own, and what stops a build is raised: the rest is for whoever looks for a cause.
    """
    import distributed  # noqa: F401  # it sets its loggers up when it is imported

    before = [(logger, logger.handlers, logger.level, logger.propagate) for logger in _loggers()]
    _send_to([_ToRunLog()])
    try:
        yield
    finally:
        for logger, handlers, level, propagate in before:
            logger.handlers, logger.propagate = handlers, propagate
            logger.setLevel(level)


def quiet_worker() -> Callable[[], None]:
    """What does the same in a worker process of this machine, until that ends."""
    return partial(_log_to_files, [log.path.absolute() for log in _open_logs()])


def _log_to_files(paths: Sequence[Path]) -> None:
    _send_to([*map(EventLog, paths)])


def _tells_no_data(record: logging.LogRecord) -> bool:
    """Dask writes of a task that failed what it was given, which may be counts; its error is raised, and said, anyway.

    So it does of what could not be sent.
    """
    return not str(record.msg).startswith("Compute Failed") and not record.name.startswith("distributed.protocol")


def _send_to(handlers: list[logging.Handler]) -> None:
    for handler in handlers:
        handler.addFilter(_tells_no_data)
    for logger in _loggers():
        # without any, Python itself would write to standard error
        logger.handlers, logger.propagate = [*handlers] or [logging.NullHandler()], False
        logger.setLevel(max(logger.level, logging.WARNING))


def _loggers() -> list[logging.Logger]:
    return [logging.getLogger(name) for name in LIBRARIES]
