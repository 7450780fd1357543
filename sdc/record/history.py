"""The query history database: one append-only table of entries, each with the hash of the one before.

Users, keys, requests, decisions, releases and the trajectories of both frontiers are kinds of entries; whoever needs
them reads by kind. The chain shows any entry that was changed, removed or put between. That the last ones are gone it
cannot show: note the last hash elsewhere, as `sdc audit` prints it.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from hashlib import sha256
from typing import Any

import sqlalchemy as sa

from sdc.record import migrations
from sdc.record.database import Database, HistoryError, HistoryUnavailableError

__all__ = ["FILE", "FIRST", "OPENED", "Entry", "History", "HistoryError", "HistoryUnavailableError", "Turn"]

FILE = "history.db"  # in a server's folder
OPENED = "opened"
FIRST = "0" * 64
"""What the first entry has for the hash of the one before."""

_ENTRIES = sa.table("entries", *map(sa.column, ("seq", "kind", "at", "who", "subject", "body", "previous", "hash")))


@dataclass(frozen=True)
class Entry:
    """One entry.

    seq       1, 2, 3, ... without gaps
    kind      what it tells: "opened", "user", "key", "request", "decision", "frontier", ...
    at        UTC, ISO 8601 with milliseconds
    who       the user's name
    subject   what it is about, such as a sub-table's label "A*B"; may be empty
    body      what it tells, as JSON has it
    previous  hash of the entry before
    hash      SHA-256 over the canonical JSON of all of the above
    """

    seq: int
    kind: str
    at: str
    who: str
    subject: str
    body: dict[str, Any]
    previous: str
    hash: str = ""

    @property
    def digest(self) -> str:
        """What its hash has to be; ValueError where it has what no canonical JSON has."""
        hashed = {name: value for name, value in vars(self).items() if name != "hash"}
        return sha256(canonical(hashed).encode()).hexdigest()


def broken_links(entry: Entry, seq: int, previous: str) -> Iterator[str]:
    """What shows that the entry is not the one that was written after that of this number and hash."""
    if entry.seq != seq + 1:
        yield f"entry {entry.seq} comes after entry {seq}: what was between is gone"
    if entry.previous != previous:
        yield f"entry {entry.seq} does not have the hash of the entry before it"
    try:
        is_its_own = entry.digest == entry.hash
    except ValueError:  # what no canonical JSON has was not written by a server
        is_its_own = False
    if not is_its_own:
        yield f"entry {entry.seq} was changed: it does not have its hash"


def canonical(value: object) -> str:
    """JSON with sorted keys and no spaces, the same for equal values; ValueError where it would not read back."""
    try:
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except (TypeError, RecursionError) as error:
        raise ValueError(f"an entry cannot be kept as JSON: {error}") from error
    text.encode()  # halves of characters are no UTF-8
    return text


def _utc_now() -> datetime:
    return datetime.now(UTC)


class History:
    """The history of one table, open. It can be used from several threads; `open` or `read` makes one."""

    def __init__(self, database: Database, now: Callable[[], datetime]) -> None:
        self._database, self._now = database, now

    @staticmethod
    def open(url: str, about: Mapping[str, Any], *, now: Callable[[], datetime] = _utc_now) -> History:
        """The history of what `about` names, to be written to; made where the database is new.

        url    a path or sqlite:///path, held until it is closed, or postgresql://..., which servers share
        about  what makes it the history of this table and no other: its digest, the criterion, the variables

        ConfigError for another kind of URL. HistoryError where it is of another table or version, is held by another
        server, or is damaged; HistoryUnavailableError where it cannot be reached.
        """
        database = Database(url)
        try:
            history = History(database, now)
            history._make()
            history._check()
            history._check_about(about)
            return history
        except BaseException:
            database.close()
            raise

    @staticmethod
    def read(url: str) -> History:
        """An existing history, only to be read: nothing is locked or changed. Errors as of `open`."""
        database = Database(url, reads_only=True)
        try:
            history = History(database, _utc_now)
            history._check()
            return history
        except BaseException:
            database.close()
            raise

    @staticmethod
    def migrate(url: str) -> None:
        """Brings a history that an older version made to this one; what is at this version is left as it is."""
        Database(url, reads_only=True).close()  # which makes no file
        database = Database(url)
        try:
            with database.writing() as connection:
                migrations.upgrade(connection)
        finally:
            database.close()

    def _make(self) -> None:
        with self._database.reading() as connection:
            is_new = migrations.is_new(connection)
        if is_new:
            with self._database.writing() as connection:
                # asked again: another server may have made it meanwhile
                if migrations.is_new(connection):
                    migrations.upgrade(connection)

    def _check(self) -> None:
        with self._database.reading() as connection:
            migrations.check(connection, self.name)

    def _check_about(self, about: Mapping[str, Any]) -> None:
        if not self.head():
            with self.turn() as turn:
                if not turn.entries(0):
                    turn.append(OPENED, "", "", {"about": dict(about), "public_id": secrets.token_hex(16)})
        found, asked = ({key: canonical(value) for key, value in facts.items()} for facts in (self.about, about))
        if differing := [key for key in {**asked, **found} if asked.get(key) != found.get(key)]:
            there = "; ".join(f"{key} is {_short(found.get(key))}, not {_short(asked.get(key))}" for key in differing)
            raise HistoryError(
                f"the history {self.name} is of another {differing[0]}: {there}; name the history of this one, or a "
                "new one"
            )

    @property
    def name(self) -> str:
        """How messages call it, without a password."""
        return self._database.name

    @property
    def about(self) -> dict[str, Any]:
        """What it is the history of."""
        return dict(self._opened["about"])

    @property
    def public_id(self) -> str:
        """Drawn at random when it was made; tells nothing."""
        return str(self._opened["public_id"])

    @cached_property
    def _opened(self) -> dict[str, Any]:
        first = self.entries(limit=1)
        if not first or first[0].kind != OPENED or not isinstance(first[0].body.get("about"), dict):
            raise HistoryError(f"the history {self.name} does not begin by saying of which table it is; name another")
        return first[0].body

    def head(self) -> int:
        """The number of the last entry, 0 where there is none."""
        with self._database.reading() as connection:
            return connection.execute(sa.select(sa.func.max(_ENTRIES.c.seq))).scalar() or 0

    def entries(
        self,
        after: int = 0,
        *,
        kinds: Collection[str] = (),
        who: str | None = None,
        subject: str | None = None,
        limit: int | None = None,
        newest_first: bool = False,
    ) -> list[Entry]:
        """The entries behind number `after`, of these kinds or of all, in their order or the newest first."""
        column = _ENTRIES.c
        query = sa.select(_ENTRIES).where(column.seq > after).limit(limit)
        if kinds:
            query = query.where(column.kind.in_(sorted(kinds)))
        for one, wanted in (column.who, who), (column.subject, subject):
            query = query if wanted is None else query.where(one == wanted)
        with self._database.reading() as connection:
            return self._read(connection, query.order_by(column.seq.desc() if newest_first else column.seq))

    def _read(self, connection: sa.Connection, query: sa.Select[Any]) -> list[Entry]:
        return [self._entry(*row) for row in connection.execute(query)]

    def _entry(self, seq: int, kind: str, at: str, who: str, subject: str, body: str, *hashes: str) -> Entry:
        try:
            content = json.loads(body)
        except ValueError:
            content = None
        if not isinstance(content, dict):
            raise HistoryError(f"entry {seq} of the history {self.name} is damaged: its body is no JSON object")
        return Entry(seq, kind, at, who, subject, content, *hashes)

    @contextmanager
    def turn(self) -> Iterator[Turn]:
        """The lock of the table: one turn at a time, whatever the number of threads, processes and machines.

        What is appended is there for others, and durable, when the block ends without an exception; else nothing of it
        is. HistoryUnavailableError where the database does not do it, at any point of the block. Turns do not nest.
        """
        with self._database.writing() as connection:
            turn = Turn(self, connection)
            yield turn
            # the database takes back what comes before an error, whoever caught it
            turn.write()

    def close(self) -> None:
        """Gives back connections and file; twice does no harm."""
        self._database.close()


class Turn:
    """One holder of the lock, who sees all that was written before and alone writes now.

    last  number and hash of the last entry
    """

    def __init__(self, history: History, connection: sa.Connection) -> None:
        self._history, self._connection = history, connection
        self._failed: HistoryError | None = None
        self._rows = list[dict[str, Any]]()  # appended, and not yet sent
        column = _ENTRIES.c
        last = connection.execute(sa.select(column.seq, column.hash).order_by(column.seq.desc()).limit(1)).first()
        self.last: tuple[int, str] = (last.seq, last.hash) if last else (0, FIRST)

    def entries(self, after: int) -> list[Entry]:
        """The entries behind number `after`: what others wrote since, and what this turn did."""
        self.write()
        query = sa.select(_ENTRIES).where(_ENTRIES.c.seq > after).order_by(_ENTRIES.c.seq)
        with self._reached():
            return self._history._read(self._connection, query)

    def append(self, kind: str, who: str, subject: str, body: Mapping[str, Any]) -> Entry:
        """The next entry, its number and hash known at once; ValueError where it cannot be kept as JSON."""
        self._check()
        text = canonical(dict(body))
        # as it will be read: tuples are lists, and keys are strings
        content = json.loads(text)
        if "\0" in kind + who + subject:
            raise ValueError(f"an entry of kind {kind!r} has a NUL in its user or subject, which no database keeps")
        (seq, previous), at = self.last, self._history._now().astimezone(UTC).isoformat(timespec="milliseconds")
        entry = Entry(seq + 1, kind, at, who, subject, content, previous)
        entry = replace(entry, hash=entry.digest)
        self._rows.append({**vars(entry), "body": text})
        self.last = entry.seq, entry.hash
        return entry

    def write(self) -> None:
        """Sends what was appended, all at once; raises again what the database did not do."""
        self._check()
        if self._rows:
            with self._reached():
                self._connection.execute(sa.insert(_ENTRIES), self._rows)
            self._rows = []

    def _check(self) -> None:
        if self._failed is not None:
            raise self._failed

    @contextmanager
    def _reached(self) -> Iterator[None]:
        self._check()
        try:
            with self._history._database.reached():
                yield
        except HistoryUnavailableError as error:
            self._failed = error
            raise


def _short(text: str | None) -> str:
    if text is None:
        return "missing"
    return text if len(text) <= 60 else f"{text[:57]}..."
