"""The audit of a history: from it, the table and the criterion, that nothing was changed and every R(t) kept it.

The server's word is not taken: R(t) follows from the first frontier and the releases since, and is judged anew, by a
criterion that somebody else says.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count, islice, pairwise
from typing import Any

import numpy as np

from sdc.bounds.method import is_small
from sdc.canonical import canonical
from sdc.feasible.proof import Proof
from sdc.model import subtable as st
from sdc.model.errors import ConfigError, InputError
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.schema import MAX_VARIABLES, Schema, Variable
from sdc.model.subtable import SubTable
from sdc.model.suppressed_table import NO_SUPPRESSED_TABLES, SuppressedTables
from sdc.model.table import Table
from sdc.record.chain import Chain
from sdc.record.database import ChainError
from sdc.record.entry import FIRST, OPENED, Entry, broken_links
from sdc.risk.criteria import Criteria, Evaluation
from sdc.risk.effort import Effort
from sdc.risk.evaluator import RiskEvaluator
from sdc.risk.verdict import Verdict
from sdc.run_format import STRUCTURAL_ZEROS
from sdc.server.service.history import LEVELS, WITHHELD, part_at, require_places, schema_in
from sdc.server.service.outcome import PUBLIC_STATES
from sdc.server.service.rules import is_of_another_rule, reveals, with_lists_of

_NOT_AS_WRITTEN = (KeyError, TypeError, ValueError, AttributeError, InputError)


@dataclass(frozen=True, eq=False)
class Standard:
    """What a history is held against; `source` is who says so, such as the path of a config.

    known     what is known of the table beside what was released
    evidence  feasible tables that somebody kept: each is checked, and what they do not show is looked for
    """

    table: Table
    known: Knowledge
    criteria: Criteria
    source: str
    evidence: Proof | None = None


@dataclass(frozen=True)
class Audit:
    """What an audit found; failures name the number of the entry.

    head        hash of the last entry: an auditor who has it from an earlier audit sees that none after it is gone
    variables   names, by whose places `released`, the last R(t), and `in_part`, what was suppressed then, number them
    is_judged   whether the releases were held against the criterion; else only chain and versions were checked
    """

    entries: int
    decisions: int
    releases: int
    head: str
    variables: tuple[str, ...]
    released: Release
    in_part: tuple[SubTable, ...]
    is_judged: bool
    failures: tuple[str, ...]

    @property
    def verified(self) -> bool | None:
        """True, False, or None where nothing is wrong and no table was there to judge by."""
        return False if self.failures else self.is_judged or None


def audit(history: Chain, standard: Standard | None = None, effort: Effort | None = None) -> Audit:
    """Checks the chain and the versions, and against a standard that every R(t) satisfied its criterion.

    The criterion is monotone: where the last R(t) satisfies it, all before it did. Else the first that is not proven is
    found by bisection. What was public before a suppressed table is judged alone, as that brings small cells of its
    own. Of small tables, whose bounds are exact, each sub-table recorded as unreleasable is judged too.

    ChainError where entries cannot be read, or the history is of another criterion; ConfigError for a criterion with a
    limit on the posterior.
    """
    if standard is not None and not standard.criteria.monotone:
        raise ConfigError(
            f"{standard.source}: the criterion {standard.criteria} has a limit on the posterior, so that the last "
            "release does not tell of those before it; leave the limit out"
        )
    entries = history.entries()
    about = entries[0].body.get("about") if entries and entries[0].kind == OPENED else None
    replay = _Replay.of(about, standard)
    for entry in entries:
        replay.take(entry)
    replay.end()
    failures, is_judged = [*(broken for _, broken in broken_links(entries)), *replay.failures], False
    if not isinstance(about, dict):
        failures.append("entry 1 does not say of which table and criterion the history is")
    elif standard is not None:
        _require_criterion(standard, about, history.name)
        differences = _differences(standard, about, replay)
        is_judged = not differences
        replay.keeps = not reveals(about)
        known = with_lists_of(about, standard.known, standard.table)
        evaluator = RiskEvaluator(standard.table, known, standard.criteria, effort=effort or Effort())
        failures += differences or replay.unproven(evaluator, standard.evidence)
    return Audit(
        entries=len(entries),
        decisions=replay.decisions,
        releases=max(0, len(replay.versions) - 1),
        head=entries[-1].hash if entries else FIRST,
        variables=tuple(replay.numbers),
        released=replay.released,
        in_part=tuple(sorted(replay.in_part)),
        is_judged=is_judged,
        failures=tuple(failures),
    )


@dataclass(frozen=True)
class _Version:
    """R(t) from the entry of this number on, which released `added`, and the parts.

    begins  whether that had suppressed cells
    """

    seq: int
    added: SubTable
    released: Release
    suppressed_tables: SuppressedTables = NO_SUPPRESSED_TABLES
    begins: bool = False


@dataclass
class _Replay:
    """Replays a history entry by entry; an entry that does not follow from those before is a failure.

    schema        which levels imply which: of the table, else as the history says; with room for names of none
    numbers       of the variables by name, as the table has them or as they come
    records       N, where there is a table; else it is not known which cells are suppressed
    versions      R(0), R(1), ...
    in_part       what was answered with suppressed cells, and not released whole since
    version       the last number that an entry gave
    unreleasable  the frontier as recorded
    claims        each sub-table recorded as unreleasable, with R(t) at that time and the entry
    unrecorded    the last release, until its frontier is recorded
    """

    schema: Schema
    numbers: dict[str, int]
    records: int | None = None
    in_part: set[SubTable] = field(default_factory=set)
    versions: list[_Version] = field(default_factory=list)
    version: int = 0
    recorded: set[SubTable] = field(default_factory=set)
    unreleasable: set[SubTable] = field(default_factory=set)
    claims: list[_Version] = field(default_factory=list)
    unrecorded: Entry | None = None
    decisions: int = 0
    failures: list[str] = field(default_factory=list)
    keeps: bool = False

    @staticmethod
    def of(about: Any, standard: Standard | None) -> _Replay:
        """Of a history that is about this, against a standard where there is one."""
        try:
            schema = standard.table.schema if standard else schema_in(about) if isinstance(about, dict) else None
        except _NOT_AS_WRITTEN:
            return _Replay(_with_room(()), {}, failures=[f"entry 1 does not say its {LEVELS} as a server writes them"])
        variables = schema.variables if schema else ()
        numbers = {variable.name: v for v, variable in enumerate(variables)}
        return _Replay(_with_room(variables), numbers, standard.table.total if standard else None)

    @property
    def released(self) -> Release:
        """R(t) so far."""
        return self.versions[-1].released if self.versions else Release.of([])

    @property
    def parts(self) -> SuppressedTables:
        """What was answered with suppressed cells so far, as far as it is known."""
        return self.versions[-1].suppressed_tables if self.versions else NO_SUPPRESSED_TABLES

    def take(self, entry: Entry) -> None:
        """Goes on by one entry."""
        steps = {"decision": self._decide, "frontier": self._record}
        try:
            if entry.kind in steps:
                steps[entry.kind](entry)
        except _NOT_AS_WRITTEN:
            self._fail(entry, f"is no {entry.kind} as a server writes it")
        if entry.kind == OPENED and entry.seq != 1:
            self._fail(entry, "begins a history again")

    def end(self) -> None:
        """What must have come by now."""
        if self.unrecorded is not None:
            self._fail(self.unrecorded, "releases a sub-table, and no entry records the frontier after it")
        self.unrecorded = None

    def _decide(self, entry: Entry) -> None:
        self.decisions += 1
        body, outcome = entry.body, entry.body["outcome"]
        sub_table = self._sub_table(body["sub_table"])
        if set(entry.subject.split("*")) != (set(body["sub_table"]) or {"(total)"}):
            self._fail(entry, f"is about {entry.subject} and decides on {self._label(sub_table)}")
        if outcome not in tuple(PUBLIC_STATES):
            self._fail(entry, f"has the unknown outcome {outcome!r}")
        if not self.versions:
            self._fail(entry, "decides before the first frontier is recorded")
        self._require_version(entry, self.version + (outcome in ("released", "released_in_part")))
        rule = str(body.get("rule"))
        if outcome == "refused" and is_of_another_rule(rule, self.released, sub_table, self.schema):
            self._fail(entry, f"refuses {self._label(sub_table)} by the rule {rule}, which had nothing against it")
        if outcome == "answered" and sub_table not in self.released:
            self._fail(entry, f"answers {self._label(sub_table)}, which was not public")
        if outcome == "answered_in_part" and sub_table not in self.in_part:
            self._fail(entry, f"answers {self._label(sub_table)} with suppressed cells, which was not public so")
        if outcome == "released":
            self._release(entry, sub_table)
        if outcome == "released_in_part":
            self._answer(entry, sub_table)

    def _answer(self, entry: Entry, sub_table: SubTable) -> None:
        """Takes a suppressed table; its places follow from the table's categories."""
        self.end()
        places, parts = entry.body[WITHHELD], self.parts
        require_places(places)
        if sub_table in self.released or sub_table in self.in_part:
            how = "whole" if sub_table in self.released else "with suppressed cells"
            self._fail(entry, f"releases {self._label(sub_table)} with suppressed cells, which was public {how}")
        elif self.records is not None:
            part = part_at(sub_table, places, self.schema, self.records)
            parts = parts.then(SuppressedTables(self.released, (part,)))
        self.in_part |= {sub_table}
        self.versions.append(_Version(entry.seq, sub_table, self.released, parts, begins=True))

    def _release(self, entry: Entry, sub_table: SubTable) -> None:
        self.end()
        for element in sorted(self.unreleasable):
            if st.is_within(element, sub_table):
                within = f"which contains {self._label(element)}, recorded as unreleasable"
                self._fail(entry, f"releases {self._label(sub_table)}, {within}")
        larger = self.released.add(sub_table)
        self.in_part = {view for view in self.in_part if view not in larger}
        self.versions.append(_Version(entry.seq, sub_table, larger, self.parts.without(larger)))
        self.unrecorded = entry

    def _record(self, entry: Entry) -> None:
        """Takes the changes of both frontiers; the first entry of the kind has R(0)."""
        self._require_version(entry, self.version)
        self.recorded = self._changed(self.recorded, entry.body, "released")
        if not self.versions:
            first = Release.of(self._sub_tables(entry.body["released"]))
            self.versions.append(_Version(entry.seq, st.GRAND_TOTAL, first))
        self.unrecorded = None
        # the grand total is public anyway, written or not
        due = set(self.released.frontier) - {st.GRAND_TOTAL}
        if wrong := (self.recorded - {st.GRAND_TOTAL}) ^ due:
            some = self._label(min(wrong))
            self._fail(entry, f"does not record the released frontier of version {self.version}; {some} is wrong")
        self.recorded = due
        self._record_unreleasable(entry)

    def _record_unreleasable(self, entry: Entry) -> None:
        before = self.unreleasable
        self.unreleasable = self._changed(before, entry.body, "unreleasable")
        for element in sorted(self.unreleasable - before):
            self.claims.append(_Version(entry.seq, element, self.released.add(element), self.parts))
            if element in self.released:
                self._fail(entry, f"records {self._label(element)} as unreleasable, which is public")
        for element in sorted(before - self.unreleasable):
            # what breaks the criterion once does so for good, alone or within something smaller
            if not any(st.is_within(smaller, element) for smaller in self.unreleasable):
                self._fail(entry, f"records {self._label(element)} as unreleasable no more")

    def _changed(self, known: set[SubTable], body: Mapping[str, Any], name: str) -> set[SubTable]:
        """A frontier, written whole or by what is added and removed."""
        if name in body:
            return set(self._sub_tables(body[name]))
        added, removed = (self._sub_tables(body.get(f"{name}_{how}", [])) for how in ("added", "removed"))
        return known - set(removed) | set(added)

    def _require_version(self, entry: Entry, due: int) -> None:
        found = entry.body["version"]
        if type(found) is not int:  # True is 1, and no version
            raise TypeError(found)
        if found != due:
            self._fail(entry, f"has version {found}, and {due} was due")
        self.version = found

    def _sub_tables(self, lists: Any) -> list[SubTable]:
        return [self._sub_table(names) for names in _list_of(list, lists)]

    def _sub_table(self, names: Any) -> SubTable:
        found = [self.numbers.setdefault(name, len(self.numbers)) for name in _list_of(str, names)]
        if len(self.numbers) > MAX_VARIABLES:
            raise ValueError(names)
        return self.schema.levels.closed(st.of(found))

    def _label(self, sub_table: SubTable) -> str:
        names = list(self.numbers)
        return "*".join(names[v] for v in st.members(self.schema.levels.finest(sub_table))) or "(total)"

    def _fail(self, entry: Entry, what: str) -> None:
        self.failures.append(f"entry {entry.seq} {what}")

    # Against the table

    def unproven(self, evaluator: RiskEvaluator, evidence: Proof | None = None) -> Iterator[str]:
        """What reveals small cells, the first version not proven, and sub-tables wrongly called unreleasable."""

        def is_unsafe(version: _Version) -> bool:
            return _judged(evaluator, version, evidence).verdict is not Verdict.SAFE

        yield from self._telling_small_cells(evaluator)
        for before, version in pairwise(self.versions) if self.keeps else []:
            kept, known = _kept(evaluator, before.suppressed_tables), evaluator.knows(version.released)
            if (broken := kept.broken(evaluator.table, known)) is not None:
                yield f"entry {version.seq} is against the rule of entry 1: {broken.text}"
        for versions in self._stretches():
            if is_unsafe(versions[-1]):
                yield self._said(evaluator, versions[bisect_left(versions, True, key=is_unsafe)], evidence)
                break
        # of larger tables bounds may be too wide to tell, and what a server found by luck an audit may not find
        for claim in self.claims if is_small(evaluator.table.schema) else []:
            asked = replace(evaluator, criteria=_kept(evaluator, claim.suppressed_tables)) if self.keeps else evaluator
            if _judged(asked, claim, evidence).verdict is not Verdict.UNSAFE:
                yield f"entry {claim.seq} records {self._label(claim.added)} as unreleasable, which it is not"

    def _stretches(self) -> list[list[_Version]]:
        """The versions, each with those after it before the next suppressed table, which alone brings small cells."""
        found = list[list[_Version]]()
        for version in self.versions:
            if version.begins or not found:
                found.append([])
            found[-1].append(version)
        return found

    def _said(self, evaluator: RiskEvaluator, first: _Version, evidence: Proof | None) -> str:
        """Of a version that is not proven."""
        answer = _judged(evaluator, first, evidence).assessment
        does = "breaks the criterion" if answer.verdict is Verdict.UNSAFE else "is not proven to keep the criterion"
        (low, high), number = answer.min_width, self.versions.index(first)
        how = " with suppressed cells" if first.begins else ""
        done = f"releases {self._label(first.added)}{how}" if number else "begins"
        own = answer.in_part
        why = f"min width {low} to {high}, required {answer.min_width_required}"
        if answer.broken:
            why = answer.broken.text
        if own and own.unproven:
            why += f"; {own.unproven} of {own.cells} small cells of suppressed tables are open"
        return f"entry {first.seq} {done}, and what is public from then on (version {number}) {does}: {why}"

    def _telling_small_cells(self, evaluator: RiskEvaluator) -> Iterator[str]:
        """Of suppressed tables that show counts that must be suppressed whatever else is."""
        most = evaluator.criteria.primary_count
        for version in self.versions:
            if version.begins and (part := version.suppressed_tables.tables[-1:]) and part[0].view == version.added:
                counts = evaluator.table.marginal(version.added).dense.reshape(-1)
                small = np.flatnonzero((counts > 0) & (counts <= most))
                if shown := len(np.setdiff1d(small, part[0].places(evaluator.table.schema))):
                    releases = f"entry {version.seq} releases {self._label(version.added)} with suppressed cells"
                    yield f"{releases} and shows {shown} of its cells with counts of 1 to {most}"


def _with_room(variables: Iterable[Variable]) -> Schema:
    """The variables, and as many others as a history may name at most."""
    given = tuple(variables)
    names = {variable.name for variable in given}
    others = (Variable(name, ("",)) for name in map(str, count()) if name not in names)
    return Schema((*given, *islice(others, MAX_VARIABLES - len(given))))


def _list_of(kind: type, found: Any) -> list[Any]:
    # a string is a sequence of strings too
    if not isinstance(found, list) or not all(isinstance(item, kind) for item in found):
        raise TypeError(found)
    return found


def _kept(evaluator: RiskEvaluator, parts: SuppressedTables) -> Criteria:
    """The criteria of releases that do not reveal suppressed tables."""
    told = parts.before(evaluator.known.plus_facts(parts.facts))
    return evaluator.criteria.beside(evaluator.table, told) if parts.tables else evaluator.criteria


def _judged(evaluator: RiskEvaluator, version: _Version, evidence: Proof | None) -> Evaluation:
    # each with a budget of its own, whatever was asked before
    asked, parts = evaluator.anew(), version.suppressed_tables
    if parts.tables:
        asked = asked.knowing(evaluator.known.plus_facts(parts.facts), parts.before(evaluator.known))
    if evidence is not None:
        asked.learn(evidence, version.released)
    return asked.evaluate(version.released)


def _require_criterion(standard: Standard, about: Mapping[str, Any], name: str) -> None:
    own, asked = (canonical(found) for found in (about.get("criterion"), standard.criteria.facts))
    if own != asked:
        raise ChainError(
            f"the history {name} records the criterion {own[:200]}, and that of {standard.source} is {asked}; a "
            "history is audited by its server's criterion: name the config of that server, or find out who changed it"
        )


def _differences(standard: Standard, about: Mapping[str, Any], replay: _Replay) -> list[str]:
    """Why the table cannot judge the history."""
    found, table = list[str](), standard.table
    if about.get("table") != table.digest:
        of, given = str(about.get("table"))[:12], table.digest[:12]
        found.append(f"entry 1 says that the history is of the table {of}, given is {given}")
    if canonical(about.get(STRUCTURAL_ZEROS, [])) != canonical(standard.known.zeros.labels(table.schema)):
        found.append("entry 1 says that the history is of other structural zeros than are given")
    if unknown := list(replay.numbers)[len(table.schema) :]:
        found.append(f"the history names the variable {unknown[0]}, which the table does not have")
    return found
