"""Prior knowledge: earlier publications, related to the table of a build and evaluated together with the new release.

A marginal of the same table joins the release. A table on coarser, overlapping or other categories becomes a marginal
over levels, which are added to the schema. A table of some records becomes a fact: all cells of a universe are known.
Added levels are evaluated like all others and never published.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sdc.config.build import BuildConfig
from sdc.config.earlier import EarlierConfig
from sdc.config.table import CsvConfig
from sdc.data.columns import require_disjoint
from sdc.data.source import Source, open_source
from sdc.events import WARNING, emit
from sdc.model import subtable as st
from sdc.model.documents import typed
from sdc.model.errors import AbsentError, ConfigError, InputError, many, nearest
from sdc.model.fact import CellIntervals, Fact, suppressed_fact
from sdc.model.knowledge import Knowledge, united
from sdc.model.levels import numbered
from sdc.model.release import NOTHING, Release
from sdc.model.schema import Coarser, Schema, Variable, with_refinements
from sdc.model.structural_zeros import Pattern, StructuralZeros
from sdc.model.subtable import SubTable
from sdc.model.suppressed_table import SuppressedTable
from sdc.model.table import Codes, Counts, Table
from sdc.protect.recoding import known_at
from sdc.public.published import Published, read_published
from sdc.public.relation import Related, is_renaming, looks_the_same, related, with_levels
from sdc.record.ledger import Ledger, Publication, read_ledger, require_sealed
from sdc.run_format import BETWEEN, HIGH, KNOWN, LOW, METADATA, OF_RECORDS, SHA256, STRUCTURAL_ZEROS, WITHHELD
from sdc.storage.known import read_more

Names: TypeAlias = tuple[str, ...]
Relations: TypeAlias = tuple[tuple[EarlierConfig, tuple[Published, ...]], ...]
NO_LISTS: Mapping[str, Sequence[str]] = {}
OUTER_CATEGORY = "elsewhere"  # categories of the table that a list of cells lacks


LATER = ("left", "planned")
"""Fields of a provenance that earlier versions do not have."""


@dataclass(frozen=True)
class Provenance:
    """The earlier publications from which the prior knowledge of a run comes. `Knowledge` has its content.

    hidden   levels added to the table, by name; never published
    sources  the publications, in words
    declared claims of the config on records and categories of each publication, which nothing else confirms
    foreign  publications outside the ledger: description and digest of the table
    table    digest of the table without the hidden levels
    merged   hidden levels added for recoding, the last of them
    tried    by sub-table `a*b`, the levels that may replace an axis, in order of the cells they leave, most first;
             published where a released sub-table uses them
    left     sub-tables without a level by the deadline; planned  the number of others considered
    """

    hidden: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    declared: tuple[str, ...] = ()
    foreign: tuple[tuple[str, str], ...] = ()
    table: str = ""
    merged: tuple[str, ...] = ()
    tried: tuple[tuple[str, str], ...] = ()
    left: tuple[str, ...] = ()
    planned: int | None = None

    @property
    def without_merged(self) -> Provenance:
        """The provenance without the levels for recoding."""
        hidden = self.hidden[: len(self.hidden) - len(self.merged)]
        return replace(self, hidden=hidden, merged=(), tried=(), left=(), planned=None)

    def hides(self, schema: Schema, release: Release = NOTHING, required: Iterable[SubTable] = ()) -> SubTable:
        """The hidden levels as bits, without the tried levels that a released sub-table uses.

        A tried level that replaces an axis of a required sub-table is not hidden, even if an earlier publication has
        it.
        """
        coarser = self.coarsened(required, release, schema).values()
        named = st.union(map(schema.levels.finest, [*release.frontier, *coarser]))
        tried = named & st.of(schema.index(level) for _, level in self.tried)
        return st.of(map(schema.index, self.hidden)) & ~tried

    def coarsened(self, required: Iterable[SubTable], release: Release, schema: Schema) -> dict[SubTable, SubTable]:
        """The required sub-tables that are released with recoded categories, and their recoded sub-tables."""
        found = dict[SubTable, SubTable]()
        for view in required:
            levels = (schema.index(level) for label, level in self.tried if label == st.label(view, schema))
            coarser = (st.with_level(view, level, schema) for level in levels)
            if (public := next((one for one in coarser if one in release), None)) is not None:
                found[view] = public
        return found

    @property
    def facts(self) -> dict[str, Any]:
        """The fields of a document."""
        return asdict(self)

    def entered(self, known: Knowledge, public: Release, ledger: Ledger) -> dict[str, Any]:
        """The entry of the ledger, by names: everything that the next release of this table depends on.

        public  what is released with it
        """
        schema = known.schema
        used = st.union(map(schema.levels.finest, [*public.frontier, *known.release.frontier]))
        shown = [name for name in self.hidden if name not in self.merged or used >> schema.index(name) & 1]
        hidden = [schema.variables[schema.index(name)] for name in shown]
        return {
            "release": [st.names(element, schema) for element in known.release.frontier if element],
            "hidden": [{"name": v.name, "categories": v.categories, **asdict(v.of)} for v in hidden if v.of],
            "facts": [_named(fact, known) for fact in known.published],
            "code_lists": [schema.names[v] for v, _ in known.listed],
            STRUCTURAL_ZEROS: known.zeros.labels(schema),
            "sources": self.sources,
            "declared": self.declared,
            "foreign": [[what, ledger.keyed(digest)] for what, digest in self.foreign],
            "table": ledger.keyed(self.table),
        }


def read_provenance(folder: Path) -> Provenance:
    """Read the provenance of the table stage; RunFolderError if it is missing."""
    # None means no field; fields of later versions get their defaults
    lacking = dict.fromkeys(field.name for field in fields(Provenance) if field.name not in LATER)
    return typed(Provenance, {**lacking, **read_more(folder)}, folder / KNOWN)


def _named(fact: Fact, known: Knowledge) -> dict[str, Any]:
    schema = known.schema
    chosen = ((schema.variables[v], codes) for v, codes in fact.universe)
    universe = {variable.name: [variable.categories[code] for code in codes] for variable, codes in chosen}
    content = {"view": st.names(fact.view, schema), "universe": universe, "source": fact.source}
    if fact.intervals is None:
        return content
    own = schema.restrict(st.members(fact.view))
    categories = [own.variables[axis].categories for axis in own.axes]
    cells = [
        [names[code] for names, code in zip(categories, cell, strict=True)] for cell in fact.intervals.cells.tolist()
    ]
    listed = {"variables": [own.names[axis] for axis in own.axes], "cells": cells}
    if fact.intervals.suppressed(known.total).all():
        return {**content, WITHHELD: listed}
    return {**content, BETWEEN: {**listed, LOW: fact.intervals.low.tolist(), HIGH: fact.intervals.high.tolist()}}


@dataclass(frozen=True)
class Publications:
    """The earlier publications of a config and its ledger.

    name       of the build's table, for messages
    relations  each publication read, with the relation of its records to the table
    ledger     up to the last entry that counts for this build; None if the config names none
    own        the entry of this build, if the ledger has one
    """

    name: str
    relations: Relations
    ledger: Ledger | None
    own: Publication | None = None

    @property
    def entries(self) -> tuple[Publication, ...]:
        """The entries that count for this build."""
        return () if self.ledger is None else self.ledger.entries

    @property
    def digest(self) -> list[str]:
        """The digests of everything."""
        return [*(relation_digest(*one) for one in self.relations), *(entry.hash for entry in self.entries)]


_ELSEWHERE: dict[str, Any] = {"folder": True, "key": {"records"}}  # identified by content


def relation_digest(relation: EarlierConfig, tables: Sequence[Published]) -> str:
    """A digest of a publication and of its relation, independent of its place."""
    key = "" if relation.key is None else open_source(relation.key.records).digest()
    text = f"{relation.model_dump(mode='json', exclude=_ELSEWHERE)} {key} {[one.digest for one in tables]}"
    return hashlib.sha256(text.encode()).hexdigest()


def read_folders(config: BuildConfig) -> Relations:
    """The publications that a config names by folder. Errors as `read_publications`."""
    return tuple((one, _read(one, ())) for one in config.earlier if one.folder is not None)


def read_publications(config: BuildConfig, folders: Relations, base: str) -> Publications:
    """All named publications, with `folders` already read. `base` is the digest of the build in its own entry.

    Raises InputError if a publication cannot be read or was changed, ConfigError for a missing entry.
    """
    ledger = None if config.ledger is None else read_ledger(Path(config.ledger))
    if ledger is not None:
        require_sealed(ledger)
    if ledger is None or (own := next((entry for entry in ledger.entries if entry.build == base), None)) is None:
        return _publications(config, folders, ledger)
    # a rerun of a published build is evaluated as before: with the entries before its own
    before = replace(ledger, entries=ledger.entries[: own.number - 1])
    return replace(_publications(config, folders, before), own=own)


def publications_at(config: BuildConfig, head: str | None) -> Publications:
    """All named publications, read anew, with the ledger up to this head. Errors as `read_publications`."""
    ledger = None if config.ledger is None else read_ledger(Path(config.ledger)).up_to(head or "")
    return _publications(config, read_folders(config), ledger)


def _publications(config: BuildConfig, folders: Relations, ledger: Ledger | None) -> Publications:
    read, entries = iter(folders), () if ledger is None else ledger.entries
    relations = tuple(next(read) if one.folder is not None else (one, _read(one, entries)) for one in config.earlier)
    return Publications(config.table.path, relations, ledger)


def check_publications(config: BuildConfig) -> None:
    """Check what can be read before the records. Errors as `read_publications`."""
    for one in config.earlier:
        if one.folder is not None:
            _read(one, ())
        if one.key is not None:
            open_source(one.key.records)
    if config.ledger is not None:
        require_sealed(read_ledger(Path(config.ledger)))


def _read(relation: EarlierConfig, entries: Sequence[Publication]) -> tuple[Published, ...]:
    if relation.folder is not None:
        return _consistent(relation.folder, relation)
    entry = next((entry for entry in entries if entry.number == relation.entry), None)
    if entry is None:
        raise ConfigError(
            f"earlier names entry {relation.entry}, and the ledger has {many(len(entries), 'entry')} "
            "before this build; correct the number"
        )
    if relation.disjoint and not entry.sub_tables:
        return ()  # the total alone, which is the table's or adds nothing
    if relation.lists_alone:
        return ()  # an entry of this table contains all that it published
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
    return _consistent(entry.folder, relation)


def _consistent(folder: str, relation: EarlierConfig) -> tuple[Published, ...]:
    read = read_published(Path(folder), relation.total, relation.not_totals)
    # a single file does not state its categories with records, and its readers may know them
    is_release = Path(folder, METADATA).is_file()
    _require_variables(relation, folder, {name for one in read for name in one.table.schema.names})
    met = [one.met if is_release else frozenset(one.table.schema.names) for one in read]
    found = tuple(replace(one, met=own.difference(relation.code_lists)) for one, own in zip(read, met, strict=True))
    if problem := next((one.contradiction for one in found if one.contradiction), ""):
        raise InputError(f"{problem}; correct it, or take what was published")
    return found


def _require_variables(relation: EarlierConfig, what: str, names: Collection[str]) -> None:
    if unknown := next((name for name in relation.code_lists if name not in names), None):
        raise InputError(
            f"earlier: code_lists names {unknown!r}, which is not a variable of {what}; "
            f"{nearest(unknown, sorted(names))}"
        )


def with_earlier(
    table: Table,
    zeros: StructuralZeros,
    publications: Publications,
    code_lists: Mapping[str, Sequence[str]] = NO_LISTS,
    risk: Mapping[str, Any] = NO_LISTS,
) -> tuple[Table, Knowledge, Provenance]:
    """The table with the levels of the publications, the prior knowledge with structural zeros, and the provenance.

    code_lists  by variable, the categories that are published with or without records
    risk        the criterion of the new release: an entry of the ledger with a stricter one is named in a warning

    Raises InputError, with the reason, if a publication is not of these records as declared, or cannot be expressed.
    """
    sources, foreign = list[str](), dict[tuple[str, str], None]()
    _require_related(table, publications)
    _require_others(table, publications)
    before = NamedBefore(table)
    for relation, _ in publications.relations:
        if relation.entry is not None:
            _require_variables(relation, relation.label, table.schema.names)
    lists = {relation.entry: relation.code_lists for relation, _ in publications.relations}
    for entry in _of_this_table(table, publications):
        # older versions recorded none
        lacking = {*entry.known.get(STRUCTURAL_ZEROS, ())}.difference(zeros.labels(table.schema))
        if lacking:
            raise InputError(
                f"entry {entry.number} of the ledger was judged with {many(len(lacking), 'structural zero')} that "
                "the config lacks; list them in table.structural_zeros: readers know them from then on",
                f"structural zeros {sorted(lacking)}",
            )
        before.again(entry, lists.get(entry.number, ()))
        sources.append(f"entry {entry.number} of the ledger, {entry.name}, {entry.published}")
        if risk and (limits := entry.stricter(risk)):
            sources[-1] += f", which had a stricter criterion ({limits}): counts that it protected may be found now"
            emit(WARNING, f"{sources[-1]}; set risk as that build had it to keep them protected")
        sources += [f"{what}, with which that entry was judged" for what, _ in entry.known["foreign"]]
    for relation, tables in publications.relations:
        for published in () if relation.disjoint else tables:
            one = related(published, with_levels(relation, published, table.schema.names), table.schema)
            _require_counts(table, one)
            what = f"{published.label} of {Path(relation.label).name}"
            before.add(one, what)
            sources.append(what)
            if relation.entry is None:
                foreign[what, published.digest] = None
    declared = tuple(relation.words for relation, _ in publications.relations if relation.words)
    hidden = before.table.schema.names[len(table.schema) :]
    return (
        before.table,
        before.known(zeros, listed_codes(code_lists, table.schema)),
        Provenance(hidden, tuple(sources), declared, tuple(foreign), table.digest),
    )


def listed_codes(code_lists: Mapping[str, Sequence[str]], schema: Schema) -> Pattern:
    """The code lists by numbers."""
    own = {v: code_lists.get(schema.names[v], ()) for v in schema.axes}
    return tuple(
        (v, tuple(code for code, name in enumerate(schema.variables[v].categories) if name in names))
        for v, names in own.items()
        if names
    )


def require_keys_apart(publications: Publications, own: Source, csv: CsvConfig) -> None:
    """InputError if a record of this source has a key of the records that should be others.

    AbsentError if a source is missing.
    """
    for relation, tables in publications.relations:
        if relation.key is not None:
            others, most = open_source(relation.key.records), max((one.table.total for one in tables), default=0)
            require_disjoint(own, others, relation.key.column, most, csv)


def known_anew(known: Knowledge, table: Table, noted: Provenance, config: BuildConfig, head: str | None) -> None:
    """Read the prior knowledge of a run's table again from the sources of its config, up to this head of the ledger.

    A run folder can be edited to hide earlier publications. Raises InputError if its notes or the levels of its table
    differ, and as `require_keys_apart`.
    """
    shown = st.full(len(table.schema)) & ~noted.hides(table.schema)
    own = table.marginal(shown) if noted.hidden else table
    publications = publications_at(config, head)
    found, anew, provenance = with_earlier(own, known.zeros.within(shown), publications, config.table.code_lists)
    hidden = (*provenance.hidden, *noted.merged)
    if noted.merged and table.schema.variables[: len(found.schema)] == found.schema.variables:
        # the table's own levels are independent of earlier publications
        found, anew = Table(table.schema, found.codes, found.counts), known_at(anew, table.schema)
    # it may list no more code lists
    more = united(anew.listed, known.listed) != anew.listed
    if more or (found.digest, anew, hidden, provenance.table) != (table.digest, known, noted.hidden, noted.table):
        raise InputError(
            "the table's stage has other earlier publications than the config names now; "
            "remove the run folder and run again"
        )
    # last, because a missing file raises
    if any(relation.key is not None for relation, _ in publications.relations):
        require_keys_apart(publications, open_source(config.table.path, ignore=config.table.ignore), config.table.csv)


def _of_this_table(table: Table, publications: Publications) -> Iterable[Publication]:
    ledger = publications.ledger
    return [] if ledger is None else [e for e in ledger.entries if e.table == ledger.keyed(table.digest)]


def _require_others(table: Table, publications: Publications) -> None:
    """InputError if records declared disjoint look like the same ones, without a key."""
    for relation, tables in publications.relations:
        if not relation.disjoint or relation.key is not None:
            continue
        if part := [one for one in tables if not one.is_exact]:
            raise InputError(
                f"earlier declares that {relation.label} is of other records than {publications.name}, and its "
                f"{part[0].label} {_how(part[0])}, so totals decide nothing; show by key that no record is in both"
            )
        if same := [one for one in tables if looks_the_same(table, one.table)]:
            raise InputError(
                f"earlier declares that {relation.label} is of other records than {publications.name}, and its "
                f"{same[0].label} has the total of all records there, or the margins of those of one category; take "
                "disjoint out, or show by key that no record is in both"
            )


def _require_related(table: Table, publications: Publications) -> None:
    """InputError for an entry of another table without a relation, or with a false one."""
    own = {entry.number for entry in _of_this_table(table, publications)}
    named = {relation.entry: relation for relation, _ in publications.relations if relation.entry is not None}
    for entry in publications.entries:
        relation = named.get(entry.number)
        if entry.number in own and relation is not None and relation.disjoint:
            raise InputError(
                f"earlier declares that entry {entry.number} is of other records, but it is of this table; take it out"
            )
        if entry.number not in own and (relation is None or relation.lists_alone):
            universe = ", ".join(f"{key} {value}" for key, value in entry.universe.items()) or "not described"
            raise InputError(
                f"entry {entry.number} of the ledger, {entry.name}, is of another table ({universe}); describe in "
                f"earlier how its records relate: {{entry: {entry.number}, disjoint: true}} where none of them is "
                "in this table, or where and variables where some are. A corrected table cannot be published beside "
                "its first version: their difference reveals the corrected records. If it is of this table, whose "
                "categories version 0.1 named otherwise (1 for 1.0, true for True), list its names under "
                "table.categories, with table.alike: merge; names of numbers with a decimal comma (1.5 for 1,5) "
                "as groups of table.recodes"
            )
        if entry.number not in own and relation is not None and not relation.disjoint:
            _require_named(entry, publications)


def _require_named(entry: Publication, publications: Publications) -> None:
    """InputError if an entry on these records was judged with publications that the config does not name."""
    ledger = publications.ledger
    assert ledger is not None  # it has the entry
    tables = (one for relation, tables in publications.relations if relation.folder is not None for one in tables)
    named = {ledger.keyed(one.digest) for one in tables}
    lacking = [what for what, digest in entry.known["foreign"] if digest not in named]
    if lacking:
        raise InputError(
            f"entry {entry.number} of the ledger, {entry.name}, was judged together with {'; '.join(lacking)}, which "
            "earlier does not name; name it there too, with how its records relate, or as disjoint"
        )


def _require_counts(table: Table, one: Related) -> None:
    """InputError if the table's counts differ from the published ones, or have sums outside of published bounds."""
    inside = one.holds(table.all_codes)
    if not inside.any():
        raise InputError(f"{one.published.source}: no record of the table matches where; correct its categories")
    codes, counts, own, base = (
        one.codes(table.all_codes[inside]),
        table.counts[inside],
        one.published.table,
        one.published.base,
    )
    within = (codes < np.array(own.schema.sizes)).all(axis=1)
    shown = ~one.published.suppresses(codes[within])
    if not base and (not within.all() or Table.of(own.schema, codes[within][shown], counts[within][shown]) != own):
        raise InputError(
            f"{one.published.source} is not of these records: the table has other counts of {one.published.label}. "
            "Name by where which records it is of, by disjoint that it is of others, or build from its own table; "
            "beside a table that was corrected since, nothing more can be published"
        )
    for sums in one.published.bounded(codes):
        found, _ = sums.added(own.schema.names, codes, counts)
        if wrong := int(((found < sums.low) | (found > sums.high)).sum()):
            how = (
                f"differ by {base} or more from those of the table, and it is rounded to multiples of {base}. State "
                "by where which "
                "records it is of, by disjoint that it is of others, or build from the table that it is of"
                if base
                else "differ from those of the table; take what was published of these records"
            )
            raise InputError(
                f"{one.published.source} is not of these records: {many(wrong, 'total')} of {sums.of} {how}"
            )


def _how(published: Published) -> str:
    return f"is rounded to multiples of {published.base}" if published.base else "has cells without a count"


@dataclass(frozen=True, eq=False)
class _NamedFact:
    """A fact by the names of its variables; without `low` and `high` its cells are suppressed, without cells exact."""

    names: Names
    source: str
    universe: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    cells: Mapping[str, npt.NDArray[np.int64]] | None = None
    low: Counts | None = None
    high: Counts | None = None

    def of(self, table: Table) -> Fact:
        schema = table.schema
        view = st.named((*self.names, *self.universe), schema)
        pattern = tuple((schema.index(name), codes) for name, codes in self.universe.items())
        if self.cells is None:
            return Fact(view, pattern, None, self.source)
        codes = _cells_of(view, self.cells, schema, self.source)
        if self.low is None or self.high is None:
            return suppressed_fact(view, np.unique(codes, axis=0), table.total, self.source)
        return Fact(view, pattern, CellIntervals(codes, self.low, self.high), self.source)


class NamedBefore:
    """The earlier publications by names, and the table with their levels, each added once.

    The table's own variables come first and keep their numbers.
    """

    def __init__(self, table: Table) -> None:
        self.table, self._labels = table, set[str]()  # axes whose labels imply that each category has records
        self._lists = set[str]()  # axes whose labels are from a code list
        self._marginals = list[Names]()
        self._facts = list[_NamedFact]()
        self._rounded = list[tuple[Names, Related, Sequence[str], str]]()

    def known(self, zeros: StructuralZeros, listed: Pattern) -> Knowledge:
        """The prior knowledge; errors as `Knowledge.of`, and InputError without a code list that was published."""
        schema = self.table.schema
        facts = [fact.of(self.table) for fact in self._facts]
        for rounding in self._rounded:
            facts += _rounded(schema, *rounding)
        release = Release.of(st.named(one, schema) for one in self._marginals)
        listed = tuple((v, codes) for v, codes in listed if schema.names[v] not in self._labels)
        found = Knowledge.of(self.table, release, zeros, facts, listed)
        without = self._lists.difference(self._labels, (schema.names[v] for v, _ in listed))
        new = (v for fact in found.facts if fact.of_labels for v in st.members(fact.view))
        if name := next((schema.names[v] for v in new if schema.names[v] in without), None):
            # by a release with other labels, not by what was known before
            raise InputError(
                f"what was published before has the categories of {name!r} from a code list, and the config has none: "
                f"labels would now reveal that each has a record; list them in table.categories.{name}"
            )
        return found

    def add(self, one: Related, source: str) -> None:
        """Add a publication that was related to the table's own variables.

        Raises InputError if it has suppressed cells and is of some records only.
        """
        all_names = [self._name_of(one, place) for place in range(len(one.variables))]
        names, universe = tuple(filter(None, all_names)), dict[str, tuple[int, ...]]()
        own_variables = () if one.published.is_total else one.published.table.schema.variables
        for variable, v in zip(own_variables, one.variables, strict=True):
            if not one.published.is_exact or variable.is_merged:
                axis = self.table.schema.names[self.table.schema.levels.axis_of[v]]
                (self._labels if variable.name in one.published.met else self._lists).add(axis)
        if not one.published.is_exact and one.where:
            raise InputError(
                f"{one.published.source} {_how(one.published)} and is of some of the records alone, which cannot be "
                "expressed yet; leave it out, and publish nothing beside it"
            )
        if one.published.is_total and not one.where:
            return  # the number of records is known
        if one.published.base:
            self._rounded.append((names, one, all_names, source))
            return
        if len(one.published.suppressed) and not one.published.sums:
            cells, _ = self._cells(one, all_names, one.published.suppressed)
            self._facts.append(_NamedFact(names, source, cells=cells))
            return
        if len(one.published.suppressed):
            called = dict(zip(one.published.table.schema.names, all_names, strict=True))
            for sums in one.published.in_part(self.table.total):
                # margins over other variables have all categories
                of = [called[name] if name in sums.names else None for name in called]
                cells, inside = self._cells(one, of, sums.cells)
                view = tuple(name for name in of if name)
                self._facts.append(_NamedFact(view, source, {}, cells, sums.low[inside], sums.high[inside]))
            return
        for v, flags in one.where.items():
            own = self.table.schema
            if flags.all():
                continue
            inside, name = flags[own.levels.groups[v]], own.names[v]
            # by a level, if the sub-table does not have the variable itself
            if not st.has(st.named(names, own), v):
                label = f"{name} of records published before"
                name = self._level(own.levels.axis_of[v], 1 - inside.astype(np.int64), OF_RECORDS, label)
            universe[name] = self._codes(name, inside)
        self._note(names, universe, source)

    def _cells(
        self, one: Related, names: Sequence[str | None], cells: Codes
    ) -> tuple[dict[str, npt.NDArray[np.int64]], npt.NDArray[np.bool_]]:
        """Cells of a publication by the names of the variables that imply its own, and (cells,) flags of the existing
        ones.

        `names` has None for variables to skip, and an empty name for a variable without information.
        """
        schema, given = self.table.schema, iter(cells.astype(np.int64).T)
        found, inside = dict[str, npt.NDArray[np.int64]](), np.ones(len(cells), np.bool_)
        for place, name in enumerate(names):
            if name is None:
                continue
            codes = next(given)
            by = one.codings[place][schema.levels.groups[one.variables[place]]]
            place_of = np.full(max(int(by.max()), int(codes.max(initial=0))) + 1, -1)
            place_of[by] = schema.levels.groups[schema.index(name)] if name else 0
            # a category outside the table has no records
            own = place_of[codes]
            inside &= own >= 0
            if name:
                found[name] = own
        return {name: own[inside] for name, own in found.items()}, inside

    def again(self, entry: Publication, lists: Names) -> None:
        """Add an earlier release of this table and its prior knowledge.

        lists  variables of code lists, for entries of a version that did not evaluate labels
        """
        own, known = self.table.schema, entry.known
        variables, same = {v.name: v for v in own.variables}, dict[str, str]()
        if known["facts"] or known["hidden"]:
            self._lists |= {*known.get("code_lists", lists)}
            self._labels |= {v.name for v in own.variables}.difference(known.get("code_lists", lists))
        for level in known["hidden"]:
            name, of = level["name"], Coarser(level["axis"], tuple(level["groups"]))
            variables[name] = Variable(name, tuple(level["categories"]), of)
            same[name] = self._level(own.index(of.axis), np.array(of.groups), variables[name].categories, name)
        self._marginals += [_renamed(names, same) for names in (*entry.sub_tables, *known["release"])]
        for fact in known["facts"]:
            universe = {}
            for name, categories in fact["universe"].items():
                chosen = np.isin(np.array(variables[name].categories, object), categories)
                level = variables[name].of
                inside = chosen if level is None else chosen[np.array(level.groups)]
                universe[same.get(name, name)] = self._codes(same.get(name, name), inside)
            if (listed := fact.get(WITHHELD) or fact.get(BETWEEN)) is not None:
                codes = [[*variables[name].categories].index for name in listed["variables"]]
                cells = np.array([[c(text) for c, text in zip(codes, cell, strict=True)] for cell in listed["cells"]])
                columns = zip(listed["variables"], cells.T, strict=True)
                by_name = {
                    name: self._as_now(column, variables[old], name)
                    for old, column in columns
                    if (name := same.get(old, old))
                }
                view = _renamed(fact["view"], same)
                ends = () if WITHHELD in fact else (np.array(listed[end], np.int64) for end in (LOW, HIGH))
                self._facts.append(_NamedFact(view, fact["source"], {}, by_name, *ends))
                continue
            self._note(_renamed(fact["view"], same), universe, fact["source"])

    def _as_now(self, codes: npt.NDArray[np.int64], old: Variable, name: str) -> npt.NDArray[np.int64]:
        """Codes of an earlier variable, in the order of the variable that equals it now."""
        if old.of is None:
            return codes
        place = np.zeros(len(old.categories), np.int64)
        place[np.array(old.of.groups)] = self.table.schema.levels.groups[self.table.schema.index(name)]
        return place[codes]

    def _note(self, names: Names, universe: dict[str, tuple[int, ...]], source: str) -> None:
        if universe:
            self._facts.append(_NamedFact(names, source, universe))
        else:
            self._marginals.append(names)

    def _name_of(self, one: Related, place: int) -> str:
        """The name of the variable that equals one of a published table's; empty if that has no information."""
        v, coding, schema = one.variables[place], one.codings[place], self.table.schema
        if is_renaming(coding):
            return schema.names[v]
        own = one.published.table.schema.variables[place]
        labels = [*own.categories]
        while len(labels) <= coding.max():
            labels.append(_free(OUTER_CATEGORY, labels))
        name = f"{own.name}, published before"
        axis, groups = schema.levels.axis_of[v], coding[schema.levels.groups[v]]
        return self._level(axis, groups, tuple(labels), name)

    def _codes(self, name: str, inside: npt.NDArray[np.bool_]) -> tuple[int, ...]:
        """The codes of a variable that lie inside, of a variable that identifies the categories inside."""
        groups = self.table.schema.levels.groups[self.table.schema.index(name)]
        return tuple(np.unique(groups[inside]).tolist())

    def _level(self, axis: int, coding: npt.NDArray[np.integer], labels: Names, name: str) -> str:
        """The name of a level with this coding, added if no variable has it; empty for a single group."""
        schema, used = self.table.schema, np.unique(coding)
        if len(used) == 1:
            return ""
        groups = np.searchsorted(used, coding)
        for v in st.members(schema.levels.of_axis[axis]):
            if np.array_equal(numbered(schema.levels.groups[v]), numbered(groups)):
                return schema.names[v]
        of = Coarser(schema.names[axis], tuple(groups.tolist()))
        level = Variable(_free(name, schema.names), tuple(labels[code] for code in used), of)
        self.table = Table(with_refinements([*schema.variables, level]), self.table.codes, self.table.counts)
        return level.name


def _cells_of(
    view: SubTable, cells: Mapping[str, npt.NDArray[np.int64]], schema: Schema, source: str
) -> npt.NDArray[np.uint16]:
    """(n, axes of the view) codes; InputError if an axis has none."""
    own = schema.restrict(st.members(view))
    if lacking := [own.names[axis] for axis in own.axes if own.names[axis] not in cells]:
        raise InputError(
            f"{source} has cells without a count by several codings of {lacking[0]}, none of which implies the others; "
            "that cannot be expressed yet: leave it out, and publish nothing beside it"
        )
    return np.stack([cells[own.names[axis]] for axis in own.axes], axis=1).astype(np.uint16)


def _rounded(schema: Schema, names: Names, one: Related, all_names: Sequence[str], source: str) -> tuple[Fact, ...]:
    """The facts of a rounded table on the table's variables, with its margins.

    Raises InputError if one variable stands for several of its variables, or one of these has several codings.
    """
    view, own = st.named(names, schema), one.published.table
    inside = schema.restrict(st.members(view))
    axes = [inside.names[axis] for axis in inside.axes]
    if sorted(axes) != sorted(names) or "" in all_names:
        raise InputError(
            f"{source} is rounded, by codings of its variables that cannot be expressed yet; leave it out, and publish "
            "nothing beside it"
        )
    cells = inside.keys.unpack(np.arange(inside.cells))
    codes = np.zeros((len(cells), len(all_names)), np.int64)
    for place, name in enumerate(all_names):
        groups = schema.levels.groups[schema.index(name)]
        of_group = np.zeros(int(groups.max()) + 1, np.int64)
        of_group[groups] = one.codings[place][schema.levels.groups[one.variables[place]]]
        codes[:, place] = of_group[cells[:, axes.index(name)]]
    known = (codes < np.array(own.schema.sizes)).all(axis=1)
    counts = np.zeros(len(cells), np.int64)
    counts[known] = own.count_at(codes[known].astype(np.uint16))
    called = dict(zip(own.schema.names, all_names, strict=True))
    margins = (st.named([called[name] for name in margin], schema) for margin in one.published.margins)
    return SuppressedTable.rounded_to(view, counts, one.published.base, margins, schema, source).facts


def _renamed(names: Sequence[str], same: Mapping[str, str]) -> Names:
    return tuple(filter(None, (same.get(name, name) for name in names)))


def _free(name: str, taken: Sequence[str]) -> str:
    name = name.translate({ord("*"): "-", ord(","): ";"})
    numbered = (name if number == 1 else f"{name} {number}" for number in range(1, len(taken) + 2))
    return next(one for one in numbered if one not in taken)
