"""An entry of a chain, which has the hash of the one before.

Users, keys, requests, decisions, releases and publications are kinds of entries; whoever needs them reads by kind. The
chain shows any entry that was changed, removed or put between. That the last ones are gone it cannot show: note the
last hash elsewhere, as `sdc audit` prints it.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from sdc.canonical import digest_of

OPENED = "opened"
FIRST = "0" * 64
"""What the first entry has for the hash of the one before."""


@dataclass(frozen=True)
class Entry:
    """One entry.

    seq       1, 2, 3, ... without gaps
    kind      what it tells: "opened", "key", "request", "decision", "frontier", "published", ...
    at        UTC, ISO 8601 with milliseconds
    who       the user's name
    subject   what it is about, such as a sub-table's label "A*B"; may be empty
    body      what it tells, as JSON has it
    previous  hash of the entry before
    hash      SHA-256 over the canonical JSON of all of the above; of a chain with a key HMAC-SHA-256 of that
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
        return digest_of({name: value for name, value in vars(self).items() if name != "hash"})

    def hash_by(self, key: bytes) -> str:
        """Its hash in a chain with this key, or with none."""
        return hmac.new(key, self.digest.encode(), hashlib.sha256).hexdigest() if key else self.digest


def broken_links(
    entries: Iterable[Entry], seq: int = 0, previous: str = FIRST, key: bytes = b""
) -> Iterator[tuple[int, str]]:
    """Of entries that were written after that of this number and hash, what shows that one is another; and its number.

    Nothing where none was changed, removed or put between. `key` as the chain has it.
    """
    for entry in entries:
        if entry.seq != seq + 1:
            yield entry.seq, f"entry {entry.seq} comes after entry {seq}: what was between is gone"
        if entry.previous != previous:
            yield entry.seq, f"entry {entry.seq} does not have the hash of the entry before it"
        try:
            is_its_own = entry.hash_by(key) == entry.hash
        except ValueError:  # what no canonical JSON has was not written by a server
            is_its_own = False
        if not is_its_own:
            yield entry.seq, f"entry {entry.seq} was changed: it does not have its hash"
        seq, previous = entry.seq, entry.hash
