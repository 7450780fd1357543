"""The ledger: every publication of an agency, in its own chain.

Tables are recorded by a keyed digest, so that nobody can test guesses of a table without the key. Hashes use the same
key: nobody can change or add entries without it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sdc.canonical import canonical
from sdc.model.errors import AbsentError, InputError
from sdc.model.named import Named
from sdc.paths import checked_path, require_own
from sdc.record.entry import Entry, broken_links
from sdc.run_format import BETWEEN, WITHHELD

if TYPE_CHECKING:
    from sdc.record.chain import Chain

LEDGER, FORMAT = "ledger", 6
UNSEALED = 5  # format of version 0.1, whose hashes have no key; formats up to 4 are not chains of `sdc.record.chain`
SEALED = "hmac-sha256 "  # prefix of a key file: every hash of its ledger uses the key
PUBLISHED, SUPPRESSED, ROUNDED = "published", "suppressed", "rounded"
MOST_NAMED = 3  # differences named in a message
KEY = ".key"  # suffix of the key file, after the name of the ledger


class MovedError(InputError):
    """The ledger has entries that this release was not judged with."""


@dataclass(frozen=True)
class Publication:
    """One publication.

    number      1, 2, 3, ..., by which configs name it
    published   time of the entry
    table       keyed digest of the table
    build       digest of config, data and code
    sub_tables  the published sub-tables, by names; all that they imply is public too
    known       the earlier publications that were considered, as `sdc.public.earlier.Provenance` lists them
    universe    population, period and other facts on the records
    folder      the published folder; metadata: SHA-256 of its metadata file
    hash        of the entry
    public      from the files: number of records, categories, levels, and for each table a keyed digest of its counts
                and suppressed cells; empty in entries of older versions
    proof       digest of the proof file beside the ledger; empty in older entries
    criterion   the section `risk` of the build; empty in older entries
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
    public: Mapping[str, Any] = field(default_factory=dict)
    proof: str = ""
    criterion: Mapping[str, Any] = field(default_factory=dict)

    @staticmethod
    def of(entry: Entry) -> Publication:
        """Read an entry; ValueError if it records no publication."""
        # the first entry identifies the chain
        empty = {"public": {}, "proof": "", "criterion": {}}
        facts = {**empty, **entry.body, "number": entry.seq - 1, "published": entry.at, "hash": entry.hash}
        try:
            facts["sub_tables"] = tuple(map(tuple, facts["sub_tables"]))
            return Publication(**{one.name: facts[one.name] for one in fields(Publication)})
        except (KeyError, TypeError) as error:
            raise ValueError(f"no publication: {error}") from error

    @property
    def facts(self) -> dict[str, Any]:
        """The fields of a document."""
        return {**vars(self)}

    @property
    def suppressed(self) -> dict[str, int]:
        """The number of suppressed cells of each sub-table that is published with some."""
        return {label: len(listed[WITHHELD]["cells"]) for label, listed in self._changed if WITHHELD in listed}

    @property
    def rounded(self) -> list[str]:
        """The sub-tables that are published with rounded counts."""
        return [label for label, listed in self._changed if BETWEEN in listed]

    @property
    def _changed(self) -> list[tuple[str, Mapping[str, Any]]]:
        """The facts on its own tables; older entries do not say which are their own, and list all.

        An earlier table that is published whole now, or that was of some records, is none of them.
        """
        own = self.public.get("tables")
        facts = [fact for fact in self.known["facts"] if not fact["universe"]]
        parts = [fact for fact in facts if not any({*fact["view"]} <= {*whole} for whole in self.sub_tables)]
        labels = ("*".join(fact["view"]) for fact in parts)
        return [(label, fact) for label, fact in zip(labels, parts, strict=True) if own is None or label in own]

    def stricter(self, risk: Mapping[str, Any]) -> str:
        """The parts of its criterion that a later section `risk` lowers, changes or lacks, in words; or nothing."""
        both = ((name, then, risk.get(name)) for name, then in self.criterion.items())
        return ", ".join(f"{name} {then}, now {now}" for name, then, now in both if _is_weaker(name, then, now))

    @property
    def called(self) -> str:
        """The name that messages use."""
        return f"it is entry {self.number} of the ledger, of {self.published[:10]}, in {self.folder}"


@dataclass(frozen=True, repr=False)
class Ledger(Named):
    """A ledger whose chain has been checked.

    first   hash of the opening entry
    key     of the digests of tables; secret, never in a text or frame
    sealed  whether the hashes of entries use the key; not so in version 0.1
    """

    path: Path
    first: str
    entries: tuple[Publication, ...]
    key: bytes
    sealed: bool

    @property
    def headline(self) -> str:
        number = len(self.entries)
        return f"{self.path}: {number} publication{'s' * (number != 1)}, the chain holds"

    def by_name(self) -> dict[str, Sequence[Any]]:
        """Columns: number, time, build, table, folder, and the sub-tables of each publication by kind."""
        rows = [entry.facts for entry in self.entries]
        columns = {name: [row[name] for row in rows] for name in ("number", "published", "name", "table", "folder")}
        whole = [["*".join(names) for names in row["sub_tables"]] for row in rows]
        suppressed = [[*entry.suppressed] for entry in self.entries]
        return {**columns, "sub_tables": whole, SUPPRESSED: suppressed, ROUNDED: [one.rounded for one in self.entries]}

    @property
    def heads(self) -> list[str]:
        """The last hash after 0, 1, 2, ... publications."""
        return [self.first, *(entry.hash for entry in self.entries)]

    @property
    def head(self) -> str:
        """The last hash."""
        return self.heads[-1]

    def up_to(self, head: str) -> Ledger:
        """The ledger when `head` was its last hash; InputError if it never was."""
        if head not in self.heads:
            raise InputError(
                f"the ledger {self.path} never had the head {head[:12]}; take its last good copy, and find out what "
                "was published"
            )
        return replace(self, entries=self.entries[: self.heads.index(head)])

    def keyed(self, digest: str) -> str:
        """The keyed digest of a table, as entries have it."""
        return hmac.new(self.key, digest.encode(), hashlib.sha256).hexdigest()


def _is_weaker(name: str, then: Any, now: Any) -> bool:
    """Whether a setting of `risk` may protect less than it did; sections are weaker where they are others."""
    if isinstance(then, Mapping):
        return bool(now != then)
    return bool(now and not then) if name == "accept_undecided" else (then or 0) > (now or 0)


def ledger(file: str | Path, *, new: bool = False, old: str | Path | None = None) -> Ledger:
    """Read a ledger of publications, or make one.

    Parameters
    ----------
    file : str or path
        The ledger.
    new : bool, default False
        Make it, with its key beside it. Keep both safe.
    old : str or path, optional
        A ledger of version 0.1 with whose entries a new one begins.

    Returns
    -------
    Ledger
        One entry a publication.

    Raises
    ------
    InputError
        Where it does not exist, is none, or its chain is broken; with `new` where it exists already, or cannot be made.

    Notes
    -----
    The hash of each entry is made with the key, so that nobody without it can change an entry.

    Examples
    --------
    >>> sdc.ledger("publications.ledger", new=True)
    publications.ledger: 0 publications, the chain holds
    """
    path = checked_path(file)
    if old is not None and not new:
        raise InputError(f"{old} is copied into a new ledger; add --new for {path}")
    if new:
        new_ledger(path, None if old is None else checked_path(old))
    return read_ledger(path)


def new_ledger(path: Path, old: Path | None = None) -> None:
    """Create an empty ledger and its key, or copy the entries of an `old` one of version 0.1.

    Raises InputError if either file exists or cannot be created, and as `read_ledger` for the old one.
    """
    from sdc.record.chain import Chain  # slow to import, and most builds have no ledger
    from sdc.record.database import Use

    key, unfinished = _key_file(path), path.with_name(f".{path.name}.unfinished")
    if path.exists():
        raise InputError(f"{path} exists already; name another ledger, or use this one")
    if key.exists():
        raise InputError(
            f"{key} exists already, and its ledger {path} does not; bring the ledger back, or remove the key if the "
            "ledger was never finished"
        )
    entries, secret = list[Entry](), secrets.token_bytes(32)
    if old is not None:
        with _opened(old) as chain:
            entries, secret = chain.entries(), _key(old)[0]
            if _ledger(old, entries, chain.key, secret).sealed:
                # two copies that both continue would not see each other's entries
                raise InputError(f"the ledger {old} already has this version's format; use it as it is")
    try:
        with os.fdopen(os.open(key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as into:
            into.write(f"{SEALED}{secret.hex()}\n")
        unfinished.unlink(missing_ok=True)
        made = Chain.open(str(unfinished), {LEDGER: FORMAT}, Use.SHARE, LEDGER, key=secret)
        with closing(made), made.turn() as turn:
            for entry in entries[1:]:
                turn.append(entry.kind, entry.who, entry.subject, entry.body, entry.at)
        unfinished.rename(path)
    except OSError as error:
        raise InputError(f"the ledger {path} cannot be made: {error}; name a folder that can be written") from error


def read_ledger(path: Path) -> Ledger:
    """Read a ledger; InputError if it is missing, no ledger, of another format, or broken."""
    with _opened(path) as chain:
        return _ledger(path, chain.entries(), chain.key, _key(path)[0])


def record(content: Mapping[str, Any], judged: Ledger) -> Publication:
    """Add a publication durably, or return the existing entry of the same build.

    judged  the ledger up to the last entry that the release was judged with

    Raises InputError as `read_ledger`, or if the existing entry differs; MovedError if others were added since.
    """
    require_sealed(judged)
    with _opened(judged.path) as chain, chain.turn() as turn:
        ledger = _ledger(judged.path, turn.entries(0), chain.key, judged.key)
        if own := next((entry for entry in ledger.entries if entry.build == content["build"]), None):
            _require_same(ledger.path, own, content)
            return own
        if ledger.head != judged.head:
            raise MovedError(
                f"the ledger {ledger.path} has {len(ledger.entries)} entries, and this release was judged together "
                f"with {len(judged.entries)}, up to the head {judged.head[:12]}; run again, and it is judged with all"
            )
        return Publication.of(turn.append(PUBLISHED, "", "", content))


def require_sealed(ledger: Ledger) -> None:
    """InputError for a ledger of version 0.1, whose entries anyone with write access could have changed."""
    if not ledger.sealed:
        raise InputError(
            f"the ledger {ledger.path} is of version 0.1: anyone who can write it can change its entries. Read what it "
            f"lists, copy it with sdc ledger NEW --new --from {ledger.path}, and name the new one in ledger"
        )


def _require_same(path: Path, entry: Publication, content: Mapping[str, Any]) -> None:
    before, now = _compared(entry.facts), _compared(content)
    differing = [what for what in {**before, **now} if before.get(what) != now.get(what)]
    if differing:
        others = f" and {len(differing) - MOST_NAMED} more" if len(differing) > MOST_NAMED else ""
        raise InputError(
            f"entry {entry.number} of the ledger {path} is of this build, and differs in "
            f"{', '.join(differing[:MOST_NAMED])}{others}. The entry stands, and this release is not published; make a "
            "new build with sdc run --again, which is judged beside the entry"
        )


def _compared(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The compared facts of a publication, by the names in messages; the place does not count."""
    compared: dict[str, Any] = json.loads(canonical({what: facts[what] for what in ("table", "sub_tables", "known")}))
    known, public = compared["known"], json.loads(canonical(facts.get("public", {})))
    other_facts = [{what: value for what, value in fact.items() if what != "source"} for fact in known["facts"]]
    return {
        "the table": compared["table"],
        "the sub-tables": compared["sub_tables"],
        "what is suppressed, rounded or known": [known["release"], known["hidden"], other_facts],
        "the number of records": public.get("records"),
        "levels": public.get("levels"),
        **{f"the counts of {label}": digest for label, digest in public.get("tables", {}).items()},
        **{f"the categories of {name}": own for name, own in public.get("categories", {}).items()},
        "the bytes of the files": facts["metadata"],
    }


@contextmanager
def _opened(path: Path) -> Iterator[Chain]:
    from sdc.record.chain import Chain
    from sdc.record.database import Use

    if not path.is_file():
        raise AbsentError(
            f"there is no ledger {path}; if it was moved, name its place: a new one knows of no publication. Make a "
            f"first one with sdc ledger {path} --new"
        )
    # shared even to be read: what another process left half-written is taken back first
    with closing(Chain.read(str(path), Use.SHARE, LEDGER)) as chain:
        if chain.about not in ({LEDGER: FORMAT}, {LEDGER: UNSEALED}):
            raise InputError(
                f"the ledger {path} has the format {chain.about.get(LEDGER)}, this version reads {FORMAT}; use the one "
                "that wrote it"
            )
        key, is_sealed = _key(path)
        if is_sealed != (chain.about[LEDGER] == FORMAT):
            raise InputError(
                f"{_key_file(path)} is the key of a ledger of another format than {path}; take the last good copies of "
                "both"
            )
        chain.key = key if is_sealed else b""
        yield chain


def _ledger(path: Path, entries: Sequence[Entry], seal: bytes, key: bytes) -> Ledger:
    for seq, _ in broken_links(entries, key=seal):
        if seq == 1:
            raise InputError(
                f"{_key_file(path)} is not the key of the ledger {path}, or the first entry was changed; take the last "
                "good copies of both"
            )
        raise InputError(
            f"the chain of the ledger {path} is broken at entry {seq - 1}: it was changed or one was removed; take its "
            "last good copy, and find out what was published"
        )
    try:
        publications = tuple(map(Publication.of, entries[1:]))
    except ValueError as error:
        raise InputError(f"the ledger {path} cannot be read: {error}; take its last good copy") from error
    _require_once(path, publications)
    return Ledger(path, entries[0].hash, publications, key, bool(seal))


def _require_once(path: Path, entries: Sequence[Publication]) -> None:
    """InputError where a build of a table is there twice: `record` never makes such a ledger."""
    first: dict[tuple[str, str], int] = {}
    for entry in entries:
        if first.setdefault((entry.table, entry.build), entry.number) != entry.number:
            raise InputError(
                f"the ledger {path} lists one publication twice, as entries {first[entry.table, entry.build]} and "
                f"{entry.number}; take its last good copy"
            )


def _key_file(path: Path) -> Path:
    return path.with_name(path.name + KEY)


def _key(path: Path) -> tuple[bytes, bool]:
    file = _key_file(path)
    require_own(file)
    try:
        text = file.read_text(encoding="ascii").strip()
        key = bytes.fromhex(text.removeprefix(SEALED))
    except OSError as error:
        raise AbsentError(f"the key {file} of the ledger cannot be read: {error}; put it back") from error
    except ValueError as error:
        raise InputError(f"the key {file} of the ledger is not a key: {error}; restore it") from error
    if len(key) != 32:
        raise InputError(f"the key {file} of the ledger has {len(key)} bytes, not 32; put it back")
    return key, text.startswith(SEALED)
