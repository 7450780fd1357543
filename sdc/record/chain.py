"""A chain: an append-only table of hashed entries in a database. Server histories and ledgers are chains."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from types import MappingProxyType
from typing import Any

import sqlalchemy as sa

from sdc.canonical import canonical
from sdc.record import tables
from sdc.record.database import ChainError, Database, Use
from sdc.record.entry import FIRST, OPENED, Entry
from sdc.record.tables import TABLE

HISTORY = "history"  # the noun for a server's chain in messages


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Chain:
    """An open chain, created by `open` or `read`. Several threads can use it.

    name    the place of its database, without a password
    called  the noun and name that messages use
    """

    def __init__(self, database: Database, now: Callable[[], datetime], key: bytes = b"") -> None:
        self._database, self._now, self.key = database, now, key
        self.name, self.called = database.name, database.called

    @staticmethod
    def open(
        url: str,
        about: Mapping[str, Any],
        use: Use = Use.HOLD,
        noun: str = HISTORY,
        *,
        begins: Mapping[str, Any] | None = None,
        now: Callable[[], datetime] = _utc_now,
        key: bytes = b"",
    ) -> Chain:
        """Open a chain for writing; create it in a new database.

        url    a path or sqlite:///path, or postgresql://..., which servers share
        about  what identifies the table: its digest, the criterion, the variables
        begins further facts that a new chain records about itself; an existing chain keeps its own
        key    keys the hashes of the entries; without one, anyone with write access can forge entries

        Raises ConfigError for another kind of URL. Raises ChainError if the chain belongs to another table or version,
        is used by another server, or is corrupt; ChainUnavailableError if the database cannot be reached.
        """
        return Chain._checked(Database(url, use, noun), now, key, about, begins or {})

    @staticmethod
    def read(url: str, use: Use = Use.READ, noun: str = HISTORY, key: bytes = b"") -> Chain:
        """Open an existing chain. Use.READ neither locks nor changes anything. Errors as `open`."""
        return Chain._checked(Database(url, use, noun), _utc_now, key)

    @staticmethod
    def _checked(
        database: Database,
        now: Callable[[], datetime],
        key: bytes,
        about: Mapping[str, Any] | None = None,
        begins: Mapping[str, Any] = MappingProxyType({}),
    ) -> Chain:
        try:
            chain = Chain(database, now, key)
            if about is not None:
                chain._make()
            chain._check()
            if about is not None:
                chain._check_about(about, begins)
            return chain
        except BaseException:
            database.close()
            raise

    @staticmethod
    def migrate(url: str) -> str:
        """Make the tables of an empty database; a chain of this version is left unchanged. Return its name."""
        Database(url, Use.READ, HISTORY).close()  # checks the URL without creating a file
        with closing(Chain(Database(url, Use.HOLD, HISTORY), _utc_now)) as chain:
            chain._make()
            chain._check()
            return chain.name

    def _make(self) -> None:
        with self._database.reading() as connection:
            is_new = tables.is_new(connection)
        if is_new:
            with self._database.writing() as connection:
                # check again: another server may have created it meanwhile
                if tables.is_new(connection):
                    tables.create(connection)

    def _check(self) -> None:
        with self._database.reading() as connection:
            tables.check(connection, self.called)

    def _check_about(self, about: Mapping[str, Any], begins: Mapping[str, Any]) -> None:
        if not self.head():
            with self.turn() as turn:
                if not turn.entries(0):
                    turn.append(OPENED, "", "", {"about": {**about, **begins}, "public_id": secrets.token_hex(16)})
        own = {key: value for key, value in self.about.items() if key not in begins}
        found, wanted = ({key: canonical(value) for key, value in facts.items()} for facts in (own, about))
        if differing := [key for key in {**wanted, **found} if wanted.get(key) != found.get(key)]:
            there = "; ".join(f"{key} is {_short(found.get(key))}, not {_short(wanted.get(key))}" for key in differing)
            raise ChainError(
                f"{self.called} is of another {differing[0]}: {there}; name the history of this one, or a new one"
            )

    @property
    def about(self) -> dict[str, Any]:
        """What the chain records: see `open`."""
        return dict(self._opened["about"])

    @property
    def public_id(self) -> str:
        """A random identifier; it reveals nothing."""
        return str(self._opened["public_id"])

    @cached_property
    def _opened(self) -> dict[str, Any]:
        first = self.entries(limit=1)
        if not first or first[0].kind != OPENED or not isinstance(first[0].body.get("about"), dict):
            raise ChainError(f"{self.called} does not begin with the table that it records; name another history")
        return first[0].body

    def head(self) -> int:
        """The number of the last entry, 0 for an empty chain."""
        with self._database.reading() as connection:
            return connection.execute(sa.select(sa.func.max(TABLE.c.seq))).scalar() or 0

    def entries(
        self,
        after: int = 0,
        *,
        kinds: Collection[str] = (),
        subject: str | None = None,
        limit: int | None = None,
    ) -> list[Entry]:
        """The entries after number `after`, oldest first, filtered by kind and subject."""
        column = TABLE.c
        query = sa.select(TABLE).where(column.seq > after).order_by(column.seq).limit(limit)
        if kinds:
            query = query.where(column.kind.in_(sorted(kinds)))
        if subject is not None:
            query = query.where(column.subject == subject)
        with self._database.reading() as connection:
            return self._read(connection, query)

    def _read(self, connection: sa.Connection, query: sa.Select[Any]) -> list[Entry]:
        return [self._entry(*row) for row in connection.execute(query)]

    def _entry(self, seq: int, kind: str, at: str, who: str, subject: str, body: str, *hashes: str) -> Entry:
        try:
            content = json.loads(body)
        except ValueError:
            content = None
        if not isinstance(content, dict):
            raise ChainError(f"entry {seq} of {self.called} is corrupt: its body is not a JSON object")
        return Entry(seq, kind, at, who, subject, content, *hashes)

    @contextmanager
    def turn(self) -> Iterator[Turn]:
        """Hold the lock of the chain: one turn at a time across threads, processes and machines.

        Appended entries are durable and visible when the block ends without an exception; otherwise none is written.
        Raises ChainUnavailableError if the database fails at any point of the block. Turns do not nest.
        """
        with self._database.writing() as connection:
            turn = Turn(self, connection)
            yield turn
            # the database rolls back after an error, even one that was caught
            turn.write()

    def close(self) -> None:
        self._database.close()


class Turn:
    """The holder of the lock, who sees all earlier entries and is the only writer.

    last  number and hash of the last entry
    """

    def __init__(self, chain: Chain, connection: sa.Connection) -> None:
        self._chain, self._connection = chain, connection
        self._failed: ChainError | None = None
        self._rows = list[dict[str, Any]]()  # appended, not yet sent
        column = TABLE.c
        last = connection.execute(sa.select(column.seq, column.hash).order_by(column.seq.desc()).limit(1)).first()
        self.last: tuple[int, str] = (last.seq, last.hash) if last else (0, FIRST)

    def entries(self, after: int) -> list[Entry]:
        """The entries after number `after`, including those of this turn."""
        self.write()
        query = sa.select(TABLE).where(TABLE.c.seq > after).order_by(TABLE.c.seq)
        with self._reached():
            return self._chain._read(self._connection, query)

    def append(self, kind: str, who: str, subject: str, body: Mapping[str, Any], at: str = "") -> Entry:
        """Append an entry and return it with its number and hash; ValueError if it does not fit into JSON.

        at  its original time, when a chain is copied
        """
        self._check()
        text = canonical(dict(body))
        # as a reader gets it: tuples become lists, keys become strings
        content = json.loads(text)
        if "\0" in kind + who + subject:
            raise ValueError(f"an entry of kind {kind!r} has a NUL in its user or subject, which no database stores")
        (seq, previous), at = self.last, at or self._chain._now().astimezone(UTC).isoformat(timespec="milliseconds")
        entry = Entry(seq + 1, kind, at, who, subject, content, previous)
        entry = replace(entry, hash=entry.hash_by(self._chain.key))
        self._rows.append({**vars(entry), "body": text})
        self.last = entry.seq, entry.hash
        return entry

    def write(self) -> None:
        """Send all appended entries at once; raise again an earlier error of the database."""
        self._check()
        if self._rows:
            with self._reached():
                self._connection.execute(sa.insert(TABLE), self._rows)
            self._rows = []

    def _check(self) -> None:
        if self._failed is not None:
            raise self._failed

    @contextmanager
    def _reached(self) -> Iterator[None]:
        self._check()
        try:
            with self._chain._database.reached():
                yield
        except ChainError as error:
            self._failed = error
            raise


def _short(text: str | None) -> str:
    if text is None:
        return "missing"
    return text if len(text) <= 60 else f"{text[:57]}..."
