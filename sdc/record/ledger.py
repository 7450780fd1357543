"""The ledger: every publication of an agency, in a file of its own, each entry chained to the one before by its hash.

What a table was is kept as a keyed digest: who has the ledger without its key cannot try tables until one fits.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sdc.model.errors import AbsentError, InputError

FORMAT = 4  # 3 had variables with structural zeros for what was published of some records
KEY = ".key"  # after the name of the ledger: the file of its key
_FIRST = "0" * 64
_TABLES = """
CREATE TABLE ledger (format INTEGER NOT NULL);
CREATE TABLE entry (number INTEGER PRIMARY KEY, content TEXT NOT NULL, hash TEXT NOT NULL);
CREATE TRIGGER entry_stays BEFORE UPDATE ON entry BEGIN SELECT RAISE(ABORT, 'entries are not changed'); END;
CREATE TRIGGER entry_is_kept BEFORE DELETE ON entry BEGIN SELECT RAISE(ABORT, 'entries are not removed'); END;
"""


class MovedError(InputError):
    """A ledger that has entries which a release was not judged together with."""


@dataclass(frozen=True)
class Entry:
    """One publication.

    table       keyed digest of the table it is of
    build       digest of config, data and code that made it
    sub_tables  what was published, by names; all that is within them is public too
    known       what was public before and was judged with it, as `sdc.public.earlier.Origin` has it
    universe    population, period and what else was said of whose records they are
    folder      where it was published; metadata, the SHA-256 of what that folder says of itself
    """

    number: int
    name: str
    published: str
    table: str
    build: str
    sub_tables: tuple[tuple[str, ...], ...]
    known: Mapping[str, Any]
    universe: Mapping[str, Any]
    folder: str
    metadata: str
    hash: str

    @property
    def facts(self) -> dict[str, Any]:
        """As a document has it."""
        return {
            "number": self.number,
            **_content(self),
            "hash": self.hash,
        }


_FIELDS = ("name", "published", "table", "build", "sub_tables", "known", "universe", "folder", "metadata")


def _content(entry: Entry) -> dict[str, Any]:
    return {field: getattr(entry, field) for field in _FIELDS}


@dataclass(frozen=True)
class Ledger:
    """A ledger that is there, whole, and whose chain holds."""

    path: Path
    entries: tuple[Entry, ...]
    key: bytes

    @property
    def head(self) -> str:
        """Hash of the last entry, which stands for all before it."""
        return self.entries[-1].hash if self.entries else _FIRST

    def up_to(self, head: str) -> Ledger:
        """As it was when this was its head; InputError where it never was."""
        heads = [_FIRST, *(entry.hash for entry in self.entries)]
        if head not in heads:
            raise InputError(
                f"the ledger {self.path} never had the head {head[:12]}; take its last good copy, and find out what "
                "was published"
            )
        return replace(self, entries=self.entries[: heads.index(head)])

    def keyed(self, digest: str) -> str:
        """The digest of a table as entries have it."""
        return hmac.new(self.key, digest.encode(), hashlib.sha256).hexdigest()


def new_ledger(path: Path) -> None:
    """An empty ledger and its key; InputError where either is there already, or cannot be made."""
    key = _key_file(path)
    for file in (path, key):
        if file.exists():
            raise InputError(f"{file} is there already; name another ledger, or go on with it")
    try:
        with os.fdopen(os.open(key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as into:
            into.write(secrets.token_hex(32) + "\n")
        with closing(sqlite3.connect(path)) as database, database:
            database.executescript(_TABLES)
            database.execute("INSERT INTO ledger VALUES (?)", (FORMAT,))
    except (OSError, sqlite3.Error) as error:
        raise InputError(f"the ledger {path} cannot be made: {error}; name a folder that can be written") from error


def read_ledger(path: Path) -> Ledger:
    """InputError where it is not there, is none, has another format, or where its chain is broken."""
    with _opened(path) as database:
        return Ledger(path, _entries(path, database), _key(path))


def record(content: Mapping[str, Any], judged: Ledger) -> Entry:
    """Adds a publication, or finds that of the same build and table; it is there before this returns.

    judged  the ledger up to the last entry that it was judged together with

    InputError as `read_ledger`, MovedError where others were recorded since.
    """
    path = judged.path
    with _opened(path) as database:
        try:
            database.execute("PRAGMA synchronous = FULL")
            database.execute("BEGIN IMMEDIATE")
            entries = _entries(path, database)
            head = Ledger(path, entries, judged.key).head
            known = [e for e in entries if (e.table, e.build) == (content["table"], content["build"])]
            if known:
                _require_same(path, known[-1], content)
                return known[-1]
            if head != judged.head:
                raise MovedError(
                    f"the ledger {path} has {len(entries)} entries, and this release was judged together with "
                    f"{len(judged.entries)}, up to the head {judged.head[:12]}; run again, and it is judged with all"
                )
            told = {**content, "published": datetime.now(UTC).isoformat(timespec="seconds")}
            text = _canonical(told)
            hash_ = _chained(head, text)
            database.execute("INSERT INTO entry VALUES (?, ?, ?)", (len(entries) + 1, text, hash_))
            database.commit()
        except sqlite3.Error as error:
            raise InputError(
                f"the ledger {path} cannot be written: {error}; nothing is published before it can"
            ) from error
        return _entry(len(entries) + 1, json.loads(text), hash_)


def _require_same(path: Path, entry: Entry, content: Mapping[str, Any]) -> None:
    told = json.loads(_canonical(content))
    if [told["sub_tables"], _public(told["known"])] != [[*map(list, entry.sub_tables)], _public(entry.known)]:
        raise InputError(f"entry {entry.number} of {path} is of this build and of another release; find out why first")


def _public(known: Mapping[str, Any]) -> list[Any]:
    """What is known, wherever it is said to be from: that may have been moved since."""
    return [known["release"], known["hidden"], [(fact["view"], fact["universe"]) for fact in known["facts"]]]


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    if not path.is_file():
        raise AbsentError(f"there is no ledger {path}; make one with sdc ledger {path} --new")
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=30)) as database:
            yield database
    except sqlite3.Error as error:
        raise InputError(f"{path} is no ledger, or is damaged: {error}; take its last good copy") from error


def _entries(path: Path, database: sqlite3.Connection) -> tuple[Entry, ...]:
    found = database.execute("SELECT format FROM ledger").fetchall()
    if found != [(FORMAT,)]:
        raise InputError(
            f"the ledger {path} has the format {found}, this version reads {FORMAT}; use the one that wrote it"
        )
    entries, last = list[Entry](), _FIRST
    for number, text, hash_ in database.execute("SELECT number, content, hash FROM entry ORDER BY number"):
        if number != len(entries) + 1 or _chained(last, text) != hash_:
            raise InputError(
                f"the chain of the ledger {path} is broken at entry {number}: it was changed or one was removed; take "
                "its last good copy, and find out what was published"
            )
        try:
            entries.append(_entry(number, json.loads(text), hash_))
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"entry {number} of the ledger {path} cannot be read; take its last good copy") from error
        last = hash_
    _require_once(path, entries)
    return tuple(entries)


def _require_once(path: Path, entries: Sequence[Entry]) -> None:
    """InputError where a build of a table is there twice: `record` never makes such a ledger."""
    first: dict[tuple[str, str], int] = {}
    for entry in entries:
        if first.setdefault((entry.table, entry.build), entry.number) != entry.number:
            raise InputError(
                f"the ledger {path} names one publication twice, as entries {first[entry.table, entry.build]} and "
                f"{entry.number}; take its last good copy"
            )


def _entry(number: int, content: Mapping[str, Any], hash_: str) -> Entry:
    told = {field: content[field] for field in _FIELDS}
    told["sub_tables"] = tuple(map(tuple, told["sub_tables"]))
    return Entry(number, **told, hash=hash_)


def _chained(last: str, text: str) -> str:
    return hashlib.sha256(f"{last}\n{text}".encode()).hexdigest()


def _canonical(content: Mapping[str, Any]) -> str:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _key_file(path: Path) -> Path:
    return path.with_name(path.name + KEY)


def _key(path: Path) -> bytes:
    file = _key_file(path)
    try:
        key = bytes.fromhex(file.read_text(encoding="ascii").strip())
    except OSError as error:
        raise AbsentError(f"the key {file} of the ledger cannot be read: {error}; put it back") from error
    except ValueError as error:
        raise InputError(f"the key {file} of the ledger is none: {error}; put it back") from error
    if len(key) != 32:
        raise InputError(f"the key {file} of the ledger has {len(key)} bytes, not 32; put it back")
    return key
