"""The database of a chain: access, locks, and clear errors."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum

import sqlalchemy as sa
from filelock import FileLock, Timeout
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.pool import QueuePool

from sdc.model.errors import ConfigError, InputError, TemporaryError
from sdc.model.extras import require_packages
from sdc.ownership import written_by_others
from sdc.paths import checked_path

BUSY_SECONDS = 5
CONNECT_SECONDS = 5
LOCK_SECONDS = 60  # longer than any decision takes: a holder beyond it is stuck
ADVISORY_LOCK = 18_0218  # arbitrary; other programs in the same database should not use it

_TURNED_DOWN = ("authentication failed", "no password supplied", "does not exist", "pg_hba.conf")
"""Texts by which PostgreSQL refuses a connection. Its driver gives no code for them: 28000 in the standard."""
_CORRUPT = ("SQLITE_NOTADB", "SQLITE_CORRUPT")
_REASONS = {
    "SQLITE_BUSY": "is locked by another process",
    "SQLITE_LOCKED": "is locked by another process",
    "55P03": "is locked by another process",
    "SQLITE_READONLY": "is read-only",
    "25006": "is read-only",
    "SQLITE_FULL": "has no room left on its disk",
    "53100": "has no room left on its disk",
    "28": "does not let this user in, or is not there",
}
"""By the beginning of the database's error code; other codes mean that it cannot be reached."""


class ChainError(InputError):
    """A history or ledger that cannot be used as it is: of another table or version, in use, or corrupt."""


class NoChainError(ChainError):
    """A history or ledger that nothing has been written to yet."""


class ChainUnavailableError(ChainError):
    """A database that is down, locked, read-only or closed to this user. Nothing is half-done."""


class ChainAwayError(ChainUnavailableError, TemporaryError):
    """A temporary failure: nothing here needs a fix."""


class Use(Enum):
    """How a process uses a database. HOLD and SHARE create a missing SQLite file.

    HOLD   a server: exclusive use of an SQLite file until it ends; PostgreSQL allows several servers
    SHARE  several processes write now and then, and wait for each other
    READ   nothing is changed
    """

    HOLD, SHARE, READ = "hold", "share", "read"


class Database:
    """One SQLite file or PostgreSQL database, safe for several threads.

    name    its place, without a password
    called  the noun and name that messages use
    """

    def __init__(self, url: str, use: Use, noun: str) -> None:
        self._use, self._thread_lock = use, threading.Lock()
        parsed = _parsed(url)
        self._file = (
            None if parsed.get_backend_name() == "postgresql" else _SqliteFile(parsed.database or "", use, noun)
        )
        self.name = self._file.name if self._file else _shown(parsed)
        self.called = f"the {noun} {self.name}"
        self._engine = self._file.engine() if self._file else _postgresql_engine(parsed)
        self._reader = self._engine.execution_options(postgresql_readonly=True)
        self._writer = self._engine.execution_options(writes=True)

    def close(self) -> None:
        self._engine.dispose()
        if self._file:
            self._file.release()

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A connection that sees all committed data."""
        if self._file:
            self._file.check_is_there()
        with self.reached(), self._reader.connect() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """An exclusive transaction, across threads and processes; it commits if the block ends without an error.

        After ChainUnavailableError the outcome may be unknown: read what is there before trying again.
        """
        if self._use is Use.READ:
            raise ChainError(f"{self.called} was opened to be read; open it as a server does to write")
        # wait here: a waiting thread must not occupy one of the few connections
        with self._thread_lock, self.reached():
            if self._file:
                self._file.check_is_there()
            with self._writer.begin() as connection:
                if connection.dialect.name == "postgresql":
                    _take_advisory_lock(connection)
                yield connection

    @contextmanager
    def reached(self) -> Iterator[None]:
        """Turn each database error into a ChainError without statements or values."""
        try:
            yield
        except SQLAlchemyError as error:
            # not chained: the original may quote what must not be logged
            raise error_for(self.called, _code_of(getattr(error, "orig", None) or error)) from None
        except UnicodeDecodeError:  # SQLite's message quotes the corrupt bytes
            raise error_for(self.called, _CORRUPT[0]) from None


def error_for(called: str, code: str) -> ChainError:
    """The error for a code of the database; ChainAwayError for a temporary one."""
    if code in _CORRUPT:
        return ChainError(f"{called} is not an SQLite database, or corrupt; take its last good copy, or name another")
    why = next((text for begin, text in _REASONS.items() if code.startswith(begin)), "cannot be reached")
    is_wrong = code.startswith("28")
    remedy = (
        "correct the user or database of its URL, or the password, there or in PGPASSFILE"
        if is_wrong
        else "try again when the database is back"
    )
    kind = ChainUnavailableError if is_wrong else ChainAwayError
    return kind(f"{called} {why} just now ({code}); nothing is half-done, {remedy}")


def _code_of(error: BaseException) -> str:
    code = getattr(error, "sqlite_errorname", None) or getattr(error, "sqlstate", None)
    turned_down = any(words in str(error) for words in _TURNED_DOWN)
    return code or ("28000" if turned_down else type(error).__name__)


def _parsed(url: str) -> sa.URL:
    """Parse a database URL; the ConfigError for any other shows no password."""
    if "://" not in url:
        return sa.URL.create("sqlite", database=url)
    scheme = url.partition("://")[0]
    try:
        parsed = sa.make_url(url)
    except (ArgumentError, ValueError):
        # not chained: the original quotes the password
        raise ConfigError(
            f"the history's URL {scheme}://... cannot be read; write postgresql://user@host/database"
        ) from None
    if parsed.drivername in ("postgresql", "postgresql+psycopg"):
        return parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername == "sqlite" and parsed.database and not parsed.host and not parsed.query:
        return parsed
    raise ConfigError(
        f"the history {_shown(parsed)} is neither an SQLite file nor a "
        "PostgreSQL database; give a path, sqlite:///path or postgresql://user@host/database"
    )


def _shown(url: sa.URL) -> str:
    name = url.get_backend_name() if url.drivername == "postgresql+psycopg" else url.drivername
    return url.set(drivername=name, query={}).render_as_string(hide_password=True)


class _SqliteFile:
    """An SQLite file and the lock file beside it, which one server holds at a time."""

    def __init__(self, path: str, use: Use, noun: str) -> None:
        # resolved, so that every name of the file has the same lock
        self._path, self._use = checked_path(path).resolve(), use
        self.name = str(self._path)
        self._called = f"the {noun} {self.name}"
        # opened and closed by different threads
        self._lock = FileLock(f"{self._path}.lock", mode=0o600, thread_local=False)
        try:
            self._check_kind()
            if use is Use.HOLD:
                self._hold()
            # do not open an existing file: closing it would drop SQLite's locks of this process
            if not self._path.exists():
                os.close(os.open(self._path, os.O_RDONLY | os.O_CREAT, 0o600))
            self._inode = self._path.stat().st_ino
        except OSError as error:
            self.release()
            raise ChainUnavailableError(
                f"{self._called} cannot be opened: {error.strerror}; let this user write it, or name another"
            ) from error
        except ChainError:
            self.release()
            raise

    def _check_kind(self) -> None:
        if self._use is Use.READ and not self._path.exists():
            raise NoChainError(f"there is no history {self.name}; name the file of one that a server has begun")
        if self._path.exists() and not self._path.is_file():
            raise ChainError(f"{self._called} is not a plain file; name another")
        if not self._path.parent.is_dir():
            raise ChainError(f"{self._called} cannot be made, its folder is not there; make that first")
        if self._use is not Use.READ and (problem := written_by_others(self._path)):
            raise ChainError(f"{self._called}: {problem}; make it your own (chown, chmod go-w)")

    def _hold(self) -> None:
        try:
            self._lock.acquire(timeout=0)
        except Timeout as error:
            raise ChainError(
                f"another server is using {self._called}; stop that one, or use PostgreSQL for several"
            ) from error

    def check_is_there(self) -> None:
        """ChainUnavailableError if the file was moved or replaced: entries would be lost."""
        try:
            found = self._path.stat().st_ino
        except OSError:
            found = None
        if found != self._inode:
            raise ChainUnavailableError(
                f"{self._called} was moved or replaced while it is used; put it back, or start again"
            )

    def release(self) -> None:
        self._lock.release()

    def engine(self) -> sa.Engine:
        engine = sa.create_engine("sqlite://", creator=self._connect, poolclass=QueuePool, hide_parameters=True)
        sa.event.listen(engine, "begin", _begin_sqlite)
        return engine

    def _connect(self) -> sqlite3.Connection:
        # mode=rw creates no file: a missing one must not come back empty
        connection = sqlite3.connect(
            f"{self._path.as_uri()}?mode={'ro' if self._use is Use.READ else 'rw'}",
            uri=True,
            timeout=LOCK_SECONDS if self._use is Use.SHARE else BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )
        if self._use is Use.HOLD:
            connection.execute("PRAGMA journal_mode=WAL")  # not for SHARE: those processes may not share memory
        connection.execute("PRAGMA synchronous=EXTRA")  # without WAL: sync the removal of the journal too
        return connection


def _begin_sqlite(connection: sa.Connection) -> None:
    # a plain BEGIN takes the lock at the first write, after the data have been read
    connection.exec_driver_sql("BEGIN IMMEDIATE" if connection.get_execution_options().get("writes") else "BEGIN")


def _postgresql_engine(url: sa.URL) -> sa.Engine:
    require_packages("a history in PostgreSQL", "psycopg")
    return sa.create_engine(
        url,
        isolation_level="READ COMMITTED",  # after the lock, each statement sees what others committed
        pool_pre_ping=True,
        hide_parameters=True,
        connect_args={"connect_timeout": CONNECT_SECONDS, "client_encoding": "utf8"},
    )


def _take_advisory_lock(connection: sa.Connection) -> None:
    connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'")
    connection.exec_driver_sql("SET LOCAL synchronous_commit = on")
    # one history for each schema of the database
    connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({ADVISORY_LOCK}, hashtext(current_schema()))")
