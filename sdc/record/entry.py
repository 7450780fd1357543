"""An entry of a chain, with the hash of its predecessor.

Users, keys, requests, decisions, releases and publications are kinds of entries. The chain shows any entry that was
changed, removed or inserted, but not that the last ones are missing: note the last hash elsewhere (`sdc audit`).
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
"""The predecessor's hash in the first entry."""


@dataclass(frozen=True)
class Entry:
    """One entry of a chain.

    seq       1, 2, 3, ... without gaps
    kind      "opened", "key", "request", "decision", "frontier", "published", ...
    at        UTC, ISO 8601 with milliseconds
    who       the user's name
    subject   the topic, such as a sub-table's label "A*B"; may be empty
    body      the content, a JSON object
    previous  hash of the entry before
    hash      SHA-256 over the canonical JSON of all of the above; in a chain with a key the HMAC-SHA-256 of that
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
        """The unkeyed hash; ValueError if the content has no canonical JSON."""
        return digest_of({name: value for name, value in vars(self).items() if name != "hash"})

    def hash_by(self, key: bytes) -> str:
        """The hash in a chain with this key, or without one."""
        return hmac.new(key, self.digest.encode(), hashlib.sha256).hexdigest() if key else self.digest


def broken_links(
    entries: Iterable[Entry], seq: int = 0, previous: str = FIRST, key: bytes = b""
) -> Iterator[tuple[int, str]]:
    """Yield number and problem of each entry that was changed, removed or inserted after entry `seq`."""
    for entry in entries:
        if entry.seq != seq + 1:
            yield entry.seq, f"entry {entry.seq} comes after entry {seq}: what was between is gone"
        if entry.previous != previous:
            yield entry.seq, f"entry {entry.seq} does not have the hash of the entry before it"
        try:
            is_its_own = entry.hash_by(key) == entry.hash
        except ValueError:  # a server writes canonical JSON only
            is_its_own = False
        if not is_its_own:
            yield entry.seq, f"entry {entry.seq} was changed: it does not have its hash"
        seq, previous = entry.seq, entry.hash
