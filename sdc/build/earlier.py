"""What was published before: related to the table of a build, so that a new release is judged together with it.

A marginal of the same table joins what is released. One on coarser, overlapping or other categories is one over levels
of its variables: these are added to the schema. One of some of the records is a marginal over a variable that follows
from several of the table: it is added with the structural zeros that it implies. What is added is judged like all else,
and never published.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product, takewhile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sdc.composition.disjoint import looks_the_same
from sdc.composition.published import Published, read_published
from sdc.composition.relation import Related, is_renaming, related
from sdc.config import BuildConfig, EarlierConfig
from sdc.ingest.source import open_source
from sdc.model import subtable as st
from sdc.model.derived import free_name, with_derived
from sdc.model.errors import AbsentError, ConfigError, InputError
from sdc.model.release import Release
from sdc.model.schema import Coarser, Schema, Variable, with_refinements
from sdc.model.structural_zeros import StructuralZeros
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.run_format import DERIVED, METADATA, SHA256
from sdc.storage.ledger import Entry, Ledger, read_ledger

INSIDE, OUTSIDE = "among them", "not among them"
OUTER_CATEGORY = "elsewhere"  # categories of the table that a list of cells does not name


@dataclass(frozen=True)
class Derived:
    """A variable that follows from others of the table: `coding` has its code for each of their cells, in C order."""

    name: str
    of: tuple[str, ...]
    categories: tuple[str, ...]
    coding: tuple[int, ...]


@dataclass(frozen=True)
class Before:
    """What is public already, by names of the table's variables.

    known    sub-tables, largest only
    derived  variables that were added to the table for them, levels of one variable or what follows from several
    sources  what was published, for people
    declared what the config says of records and categories of each publication, which nothing but its word shows
    foreign  of what no ledger has: what it is, for people, and the digest of its table
    table    digest of the table without what was added
    """

    known: tuple[tuple[str, ...], ...] = ()
    derived: tuple[Derived, ...] = ()
    sources: tuple[str, ...] = ()
    declared: tuple[str, ...] = ()
    foreign: tuple[tuple[str, str], ...] = ()
    table: str = ""

    def release(self, schema: Schema) -> Release:
        """What is known."""
        return Release.of(st.named(names, schema) for names in self.known)

    def hidden(self, schema: Schema) -> SubTable:
        """The variables that are never published."""
        return st.of(schema.index(one.name) for one in self.derived)

    def levels(self, schema: Schema) -> tuple[tuple[SubTable, SubTable], ...]:
        """Of those that are levels each with the variables that tell it, without which no search asks about it."""
        hidden = st.members(self.hidden(schema))
        return tuple((1 << v, schema.finer(v)) for v in hidden if schema.variables[v].of is not None)

    def forbidden(self, schema: Schema) -> tuple[SubTable, ...]:
        """The smallest sub-tables with one that is no level that are not known, so that no search asks about one."""
        known, hidden = self.release(schema), self.hidden(schema) & st.of(schema.axes)
        faces = {s for element in known.frontier for s in st.submasks(element) if s & hidden}
        return st.minimal(s | 1 << v for s in faces for v in range(len(schema)) if s | 1 << v not in known)

    @property
    def facts(self) -> dict[str, Any]:
        """As a document has it."""
        derived = [asdict(one) for one in self.derived]
        return {
            "known": self.known,
            DERIVED: derived,
            "sources": self.sources,
            "declared": self.declared,
            "foreign": self.foreign,
            "table": self.table,
        }

    @staticmethod
    def of(facts: Mapping[str, Any]) -> Before:
        """From such a document."""
        known, foreign = (tuple(tuple(texts) for texts in facts[part]) for part in ("known", "foreign"))
        derived = (
            Derived(one["name"], tuple(one["of"]), tuple(one["categories"]), tuple(one["coding"]))
            for one in facts[DERIVED]
        )
        sources, declared = tuple(facts["sources"]), tuple(facts["declared"])
        return Before(known, tuple(derived), sources, declared, foreign, facts["table"])

    def entered(self, ledger: Ledger) -> dict[str, Any]:
        """As an entry of the ledger has it: all that counts for the next release of this table."""
        foreign = [[what, ledger.keyed(digest)] for what, digest in self.foreign]
        return {**self.facts, "foreign": foreign, "table": ledger.keyed(self.table)}


@dataclass(frozen=True)
class Publications:
    """What a config and its ledger say was published before.

    name       of the build's table, for messages
    relations  each publication that was read, and how its records relate to those of the table
    ledger     up to the last entry that counts for this build; None where the config names none
    """

    name: str
    relations: tuple[tuple[EarlierConfig, tuple[Published, ...]], ...]
    ledger: Ledger | None

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Those that count for this build."""
        return () if self.ledger is None else self.ledger.entries

    @property
    def digest(self) -> list[str]:
        """Of all of it."""
        told = [
            f"{relation.model_dump(mode='json', exclude=_ELSEWHERE)} {_key_digest(relation)} "
            f"{[one.table.digest for one in tables]}"
            for relation, tables in self.relations
        ]
        return [*(hashlib.sha256(text.encode()).hexdigest() for text in told), *(entry.hash for entry in self.entries)]


_ELSEWHERE: dict[str, Any] = {"folder": True, "key": {"records"}}  # by what is in it


def _key_digest(relation: EarlierConfig) -> str:
    return "" if relation.key is None else open_source(relation.key.records).digest()


def read_publications(config: BuildConfig, base: str) -> Publications:
    """All that is named, read; `base` is the build's digest without it, by which it knows its own entry.

    InputError where something cannot be read or was changed, ConfigError where an entry is named that is not there.
    """
    ledger = None if config.ledger is None else read_ledger(Path(config.ledger))
    if ledger is not None:
        # a rerun of what was published is judged as it was: with what came before it
        before = takewhile(lambda entry: entry.build != base, ledger.entries)
        ledger = replace(ledger, entries=tuple(before))
    return _publications(config, ledger)


def publications_at(config: BuildConfig, head: str | None) -> Publications:
    """All that is named, read anew, of the ledger up to this head of its chain. Errors as `read_publications`."""
    ledger = None if config.ledger is None else read_ledger(Path(config.ledger)).up_to(head or "")
    return _publications(config, ledger)


def _publications(config: BuildConfig, ledger: Ledger | None) -> Publications:
    relations = tuple((one, _read(one, () if ledger is None else ledger.entries)) for one in config.earlier)
    return Publications(config.table.path, relations, ledger)


def check_publications(config: BuildConfig) -> None:
    """Errors as `read_publications`, of what can be read before any record is."""
    for one in config.earlier:
        if one.folder is not None:
            _read(one, ())
        if one.key is not None:
            open_source(one.key.records)
    if config.ledger is not None:
        read_ledger(Path(config.ledger))


def _read(relation: EarlierConfig, entries: Sequence[Entry]) -> tuple[Published, ...]:
    if relation.folder is not None:
        return tuple(read_published(Path(relation.folder), relation.total))
    entry = next((entry for entry in entries if entry.number == relation.entry), None)
    if entry is None:
        raise ConfigError(f"earlier has entry {relation.entry}, and the ledger has {len(entries)} before this build")
    if relation.disjoint and not entry.sub_tables:
        return ()  # its total alone, which is that of this table or tells nothing of it
    metadata = Path(entry.folder, METADATA)
    try:
        found = SHA256 + hashlib.sha256(metadata.read_bytes()).hexdigest()
    except OSError as error:
        raise AbsentError(
            f"entry {entry.number} was published in {entry.folder}, which cannot be read; put it back, or name its "
            "folder"
        ) from error
    if found != entry.metadata:
        raise InputError(f"{metadata} was changed after entry {entry.number} was published; take what was published")
    return tuple(read_published(Path(entry.folder), relation.total))


def with_earlier(
    table: Table, zeros: StructuralZeros, publications: Publications
) -> tuple[Table, StructuralZeros, Before]:
    """The table with the variables that follow from what was published, and what is known of it.

    zeros  cells that are known to be impossible; with them come those that say what the variables follow from

    InputError, with the reason, for a publication that is not of these records as is declared, or cannot be expressed.
    """
    known, sources, foreign = list[tuple[str, ...]](), list[str](), dict[tuple[str, str], None]()
    _require_related(table, publications)
    _require_others(table, publications)
    grown = _Grown(table, zeros)
    for entry in _of_this_table(table, publications):
        judged = Before.of(entry.before)
        known += [*entry.sub_tables, *grown.again(judged)]
        sources.append(f"entry {entry.number} of the ledger, {entry.name}, {entry.published}")
        sources += [f"{what}, with which that entry was judged" for what, _ in judged.foreign]
    for relation, tables in publications.relations:
        for published in () if relation.disjoint else tables:
            one = related(published, relation, table.schema)
            _require_counts(table, one)
            known.append(grown.names_of(one))
            what = f"{published.label} of {Path(relation.label).name}"
            sources.append(what)
            if relation.entry is None:
                foreign[what, published.table.digest] = None
    found = grown.table
    largest = Release.of(st.named(names, found.schema) for names in known)
    labels = tuple(tuple(st.names(element, found.schema)) for element in largest.frontier if element)
    declared = tuple(relation.words for relation, _ in publications.relations if relation.words)
    before = Before(labels, tuple(grown.derived), tuple(sources), declared, tuple(foreign), table.digest)
    return found, grown.zeros, before


def known_anew(table: Table, zeros: StructuralZeros, noted: Before, config: BuildConfig, head: str | None) -> Before:
    """What is known of a run's table, from all that its config names, read again up to this head of the ledger.

    Whoever may write a run folder may write there that nothing was published before. InputError where what it has
    noted, or what it has added to the table, is not so.
    """
    kept = st.full(len(table.schema)) & ~noted.hidden(table.schema)
    publications = publications_at(config, head)
    grown, implied, before = with_earlier(table.marginal(kept), zeros.within(kept), publications)
    if (grown.digest, implied, before.known, before.derived, before.table) != (
        table.digest,
        zeros,
        noted.known,
        noted.derived,
        noted.table,
    ):
        raise InputError(
            "the table's stage says something else of what was published before than what the config names says now; "
            "remove the run folder and run again"
        )
    return before


def _of_this_table(table: Table, publications: Publications) -> Iterable[Entry]:
    ledger = publications.ledger
    return [] if ledger is None else [e for e in ledger.entries if e.table == ledger.keyed(table.digest)]


def _require_others(table: Table, publications: Publications) -> None:
    """InputError where what is called disjoint looks like the same records, and no key says otherwise."""
    for relation, tables in publications.relations:
        if not relation.disjoint or relation.key is not None:
            continue
        if same := [one for one in tables if looks_the_same(table, one.table)]:
            raise InputError(
                f"earlier says that {relation.label} is of other records than {publications.name}, and its "
                f"{same[0].label} has the total of all records there, or the margins of those of one category; take "
                "disjoint out, or show by key that no record is in both"
            )


def _require_related(table: Table, publications: Publications) -> None:
    """InputError for an entry of another table of which nothing says how its records relate, or what is not so."""
    own = {entry.number for entry in _of_this_table(table, publications)}
    named = {relation.entry: relation for relation, _ in publications.relations if relation.entry is not None}
    for entry in publications.entries:
        relation = named.get(entry.number)
        if entry.number in own and relation is not None and relation.disjoint:
            raise InputError(
                f"earlier says that entry {entry.number} is of other records, and it is of this very table; take it out"
            )
        if entry.number not in own and relation is None:
            universe = ", ".join(f"{key} {value}" for key, value in entry.universe.items()) or "nothing said of it"
            raise InputError(
                f"entry {entry.number} of the ledger, {entry.name}, is of another table ({universe}); say in earlier "
                f"how its records relate: {{entry: {entry.number}, disjoint: true}} where none of them is in this "
                "table, or where and variables where some are. A corrected table cannot be published beside the one it "
                "corrects: their difference tells who was corrected"
            )
        if entry.number not in own and relation is not None and not relation.disjoint:
            _require_named(entry, publications)


def _require_named(entry: Entry, publications: Publications) -> None:
    """InputError where an entry that tells of these records was judged with what the config does not name."""
    ledger = publications.ledger
    assert ledger is not None  # it has the entry
    tables = (one for relation, tables in publications.relations if relation.folder is not None for one in tables)
    named = {ledger.keyed(one.table.digest) for one in tables}
    lacking = [what for what, digest in Before.of(entry.before).foreign if digest not in named]
    if lacking:
        raise InputError(
            f"entry {entry.number} of the ledger, {entry.name}, was judged together with {'; '.join(lacking)}, which "
            "earlier does not name; name it there too, with how its records relate, or as disjoint"
        )


def _require_counts(table: Table, one: Related) -> None:
    """InputError where the table has other counts than were published."""
    inside = one.holds(table.columns)
    if not inside.any():
        raise InputError(f"{one.published.source}: no record of the table is where earlier says; name what some have")
    codes, own = one.codes(table.columns[inside]), one.published.table
    within = (codes < np.array(own.schema.sizes)).all(axis=1)
    counts = Table.of(own.schema, codes[within], table.counts[inside][within])
    same = bool(within.all()) and np.array_equal(counts.codes, own.codes) and np.array_equal(counts.counts, own.counts)
    if not same:
        raise InputError(
            f"{one.published.source} is not of these records: the table has other counts of {one.published.label}. Say "
            "by where which records it is of, by disjoint that it is of others, or build from the table that it is of; "
            "of a table that was corrected since, nothing more can be published beside it"
        )


class _Grown:
    """The table with variables added one by one, each once."""

    def __init__(self, table: Table, zeros: StructuralZeros) -> None:
        self.table, self.zeros, self.derived = table, zeros, list[Derived]()
        self._kept: dict[tuple[Any, ...], str] = {}

    def again(self, before: Before) -> list[tuple[str, ...]]:
        """What was known to a release of this table, by names."""
        schema, same = self.table.schema, dict[str, str]()
        for one in before.derived:
            of = tuple(map(schema.index, one.of))
            same[one.name] = self._added(of, np.array(one.coding, np.int64), one.categories, one.name)
        return [tuple(filter(None, (same.get(name, name) for name in names))) for names in before.known]

    def names_of(self, one: Related) -> tuple[str, ...]:
        """The sub-table that tells all that was published, by names."""
        names = []
        for place, (v, coding) in enumerate(zip(one.variables, one.codings, strict=True)):
            own = one.published.table.schema.variables[place]
            if is_renaming(coding):
                names.append(self.table.schema.names[v])
                continue
            labels = [*own.categories, *[OUTER_CATEGORY] * (int(coding.max()) + 1 - len(own.categories))]
            names.append(self._added((v,), coding, tuple(dict.fromkeys(labels)), f"{own.name}, published before"))
        if one.where:
            names.append(self._universe(one))
        return tuple(filter(None, names))

    def _universe(self, one: Related) -> str:
        """A variable that says whose records are among the published ones; those outside are judged too."""
        variables = tuple(sorted(one.where))
        flags = [one.where[v] for v in variables]
        inside = np.array([all(flag) for flag in product(*flags)], np.int64)
        return self._added(variables, 1 - inside, (INSIDE, OUTSIDE), "records published before")

    def _added(self, of: tuple[int, ...], coding: Any, labels: tuple[str, ...], name: str) -> str:
        """A variable that follows from others: `coding` has its code for each of their cells, in C order.

        Of one variable a level of its axis, or what tells the same already; no name where it tells nothing.
        """
        schema = self.table.schema
        name = free_name(name.translate({ord("*"): "-", ord(","): ";"}), schema.names)
        if len(of) == 1:
            return self._level(schema.axis_of[of[0]], coding[schema.groups(of[0])], labels, name)
        key = (of, tuple(coding.tolist()))
        if key not in self._kept:
            self.table, implied = with_derived(self.table, of, coding, Variable(name, labels))
            self.zeros = self.zeros.join(implied)
            self.derived.append(Derived(name, tuple(schema.names[v] for v in of), labels, key[1]))
            self._kept[key] = name
        return self._kept[key]

    def _level(self, axis: int, coding: npt.NDArray[np.integer], labels: tuple[str, ...], name: str) -> str:
        """A level of an axis by the group of each of its categories, with what it and others tell together."""
        schema, used = self.table.schema, np.unique(coding)
        if len(used) == 1:
            return ""
        groups = np.searchsorted(used, coding)
        for v in st.members(schema.of_axis[axis]):
            if schema.is_same_level(v, groups):
                return schema.names[v]
        level = Variable(
            name, tuple(labels[code] for code in used), Coarser(schema.names[axis], tuple(groups.tolist()))
        )
        grown = with_refinements([*schema.variables, level])
        self.table = Table(grown, self.table.codes, self.table.counts)
        for added in grown.variables[len(schema) :]:
            assert added.of is not None  # nothing but levels was added
            self.derived.append(Derived(added.name, (added.of.axis,), added.categories, added.of.groups))
        return name
