"""The database of a chain: how it is reached, who may write to it, and what is said when it is not there."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import NoReturn

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
LOCK_SECONDS = 60  # who holds the lock longer than every decision takes is stuck
ADVISORY_LOCK = 18_0218  # any number that other programs in the same database do not take

_TURNED_DOWN = ("authentication failed", "no password supplied", "does not exist", "pg_hba.conf")
"""What PostgreSQL says where it turns a connection down, for which its driver has no code: 28000 by the standard."""
_DAMAGED = ("SQLITE_NOTADB", "SQLITE_CORRUPT")
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
"""By the beginning of the code that a database gives; for all others it cannot be reached."""


class ChainError(InputError):
    """A history or ledger that cannot be used as it is: of another table, of another version, in use, or damaged."""


class ChainUnavailableError(ChainError):
    """A database that is down, locked or read-only right now, or not for this user; nothing is half-done."""


class ChainAwayError(ChainUnavailableError, TemporaryError):
    """One for which nothing is to be mended here."""


class Use(Enum):
    """How a process uses a database; an SQLite file that is not there is made, unless it is only read.

    HOLD   a server has the file until it ends; a PostgreSQL database has many of them
    SHARE  several processes write now and then, and each waits for the others
    READ   nothing is changed
    """

    HOLD, SHARE, READ = "hold", "share", "read"


class Database:
    """One SQLite file or PostgreSQL database. It can be used from several threads.

    name    where it is, without a password
    called  how messages call it: the history or the ledger of that name
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
        """Gives back connections and the file; twice does no harm."""
        self._engine.dispose()
        if self._file:
            self._file.release()

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A connection that sees what is committed."""
        if self._file:
            self._file.check_is_there()
        with self.reached(), self._reader.connect() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """A transaction that no other runs beside, in whatever thread or process; it commits where the block ends well.

        ChainUnavailableError where that is not known to be done: read what is there before trying again.
        """
        if self._use is Use.READ:
            raise ChainError(f"{self.called} was opened to be read; open it as a server does to write")
        # threads wait here and not each with a connection of its own, of which there are few
        with self._thread_lock, self.reached():
            if self._file:
                self._file.check_is_there()
            with self._writer.begin() as connection:
                if connection.dialect.name == "postgresql":
                    _take_advisory_lock(connection)
                yield connection

    @contextmanager
    def reached(self) -> Iterator[None]:
        """ChainError for whatever the database does not do, without a statement or a value."""
        try:
            yield
        except SQLAlchemyError as error:
            # not from it: what it quotes goes to no log
            raise fault(self.called, _code_of(getattr(error, "orig", None) or error)) from None
        except UnicodeDecodeError:  # what SQLite says quotes what is damaged
            raise fault(self.called, _DAMAGED[0]) from None


def fault(called: str, code: str) -> ChainError:
    """What is said where a database gives this code; ChainAwayError where it may give none later."""
    if code in _DAMAGED:
        return ChainError(f"{called} is no SQLite database, or damaged; take its last good copy, or name another")
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
    """A URL of one of the two databases; ConfigError for anything else, without its password."""
    if "://" not in url:
        return sa.URL.create("sqlite", database=url)
    scheme = url.partition("://")[0]
    try:
        parsed = sa.make_url(url)
    except (ArgumentError, ValueError):
        # not from it: it quotes the URL with its password
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
    """Without the password, which may be among the options too."""
    name = url.get_backend_name() if url.drivername == "postgresql+psycopg" else url.drivername
    return url.set(drivername=name, query={}).render_as_string(hide_password=True)


class _SqliteFile:
    """A plain file with an SQLite database, and the lock beside it that one server has at a time."""

    def __init__(self, path: str, use: Use, noun: str) -> None:
        # resolved: by whatever name it is called, its lock is the same
        self._path, self._use = checked_path(path).resolve(), use
        self.name = str(self._path)
        self._called = f"the {noun} {self.name}"
        # another thread may close it than opened it
        self._lock = FileLock(f"{self._path}.lock", mode=0o600, thread_local=False)
        try:
            self._check_kind()
            if use is Use.HOLD:
                self._hold()
            # one that is there is not opened here: its close would end the locks that SQLite has of it in this process
            if not self._path.exists():
                os.close(os.open(self._path, os.O_RDONLY | os.O_CREAT, 0o600))
            self._inode = self._path.stat().st_ino
        except OSError as error:
            self._refuse(error)
        except ChainError:
            self.release()
            raise

    def _refuse(self, error: OSError) -> NoReturn:
        self.release()
        raise ChainUnavailableError(
            f"{self._called} cannot be opened: {error.strerror}; let this user write it, or name another"
        ) from error

    def _check_kind(self) -> None:
        if self._path.exists() and not self._path.is_file():
            raise ChainError(f"{self._called} is no plain file; name another")
        if not self._path.parent.is_dir():
            raise ChainError(f"{self._called} cannot be made, its folder is not there; make that first")
        if self._use is not Use.READ and (said := written_by_others(self._path)):
            raise ChainError(f"{self._called}: {said}; make it your own (chown, chmod go-w)")
        if self._use is Use.READ and not self._path.exists():
            raise ChainError(f"there is no history {self.name}; name the file of one that a server has begun")

    def _hold(self) -> None:
        try:
            self._lock.acquire(timeout=0)
        except Timeout as error:
            raise ChainError(
                f"another server is using {self._called}; stop that one, or use PostgreSQL for several"
            ) from error

    def check_is_there(self) -> None:
        """ChainUnavailableError where the file was moved or replaced: what is written to it would be lost."""
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
        # mode=rw makes no file: one that went missing must not come back empty
        connection = sqlite3.connect(
            f"{self._path.as_uri()}?mode={'ro' if self._use is Use.READ else 'rw'}",
            uri=True,
            timeout=LOCK_SECONDS if self._use is Use.SHARE else BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )
        if self._use is Use.HOLD:
            connection.execute("PRAGMA journal_mode=WAL")  # what is shared may lie where processes share no memory
        connection.execute("PRAGMA synchronous=EXTRA")  # without WAL, that its journal is gone is on disk too
        return connection


def _begin_sqlite(connection: sa.Connection) -> None:
    # a plain BEGIN takes the lock at the first write, and then what was read before may be out of date
    connection.exec_driver_sql("BEGIN IMMEDIATE" if connection.get_execution_options().get("writes") else "BEGIN")


def _postgresql_engine(url: sa.URL) -> sa.Engine:
    require_packages("a history in PostgreSQL", "psycopg")
    return sa.create_engine(
        url,
        isolation_level="READ COMMITTED",  # after the lock each statement sees what others committed before
        pool_pre_ping=True,
        hide_parameters=True,
        connect_args={"connect_timeout": CONNECT_SECONDS, "client_encoding": "utf8"},
    )


def _take_advisory_lock(connection: sa.Connection) -> None:
    connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'")
    connection.exec_driver_sql("SET LOCAL synchronous_commit = on")
    # a database has a history in each of its schemas
    connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({ADVISORY_LOCK}, hashtext(current_schema()))")
