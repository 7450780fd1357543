"""Sub-tables that a server answers in part: judged by every table that agrees with what it tells, in its own files."""

import csv
import io
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sdc.config.server import ServerConfig
from sdc.executor import IN_PROCESS
from sdc.model import subtable as st
from sdc.model.errors import ConfigError
from sdc.model.release import NOTHING, Release
from sdc.model.state import State
from sdc.model.structural_zeros import StructuralZeros
from sdc.model.subtable import SubTable
from sdc.model.suppressed_table import SuppressedTable
from sdc.model.table import Table
from sdc.record.chain import Chain
from sdc.risk.criteria import Criteria
from sdc.server.service.audit import Audit, Standard, audit
from sdc.server.service.judge import Judge, surveyed
from sdc.server.service.outcome import Reply
from sdc.server.service.prepare import EVIDENCE, first_release, folder_of, prepare
from sdc.server.service.service import Service
from sdc.server.service.service import open_service as open_prepared
from sdc.server.simulation.replay import HistoryInput, recorded, replays
from sdc.server.web.answers import FORMATS, Answer
from sdc.stages.build import open_build
from sdc.stages.stages import run_all
from sdc.storage.certificate import read_certificate
from sdc.utility.measures import Weights
from tests import levels, reference
from tests.facts import agreeing
from tests.helpers.builds import written
from tests.helpers.commands import Sdc, sdc
from tests.helpers.services import CRITERIA, czech_build, open_service, services_of, swept
from tests.helpers.waiting import wait_until
from tests.integration.server import test_levels as levelled
from tests.reference import Fact, TooManyTablesError, every_cell, exact, feasible, impossible
from tests.strategies import knows, schema_of
from tests.suppressed import Case, cases

__all__ = ["sdc"]

EVERYTHING = 0b111111
RULES: Sequence[list[dict[str, Any]]] = (
    [],
    [{"rule": "one_step"}],
    [{"rule": "limit_unreleasable", "share": 0.5}],
    [{"rule": "value", "least": 0.1}],
    [{"rule": "share", "most": 0.5}],
    [{"rule": "batch"}],
)


@dataclass(frozen=True, eq=False)
class Desk:
    """A table with what is known and public at first, and where its history is."""

    case: Case
    first: State
    folder: Path
    rules: list[dict[str, Any]]

    @staticmethod
    def of(case: Case, folder: Path, rules: list[dict[str, Any]]) -> "Desk":
        known, schema = replace(case.known, release=NOTHING), case.table.schema
        judge, public = Judge(case.table, known, case.evaluator.criteria), case.known.release
        first = State.first(schema, public)
        return Desk(replace(case, known=known), surveyed(judge, first), folder, rules)

    @property
    def standard(self) -> Standard:
        return Standard(self.case.table, self.case.known, self.case.evaluator.criteria, "a test")

    def open(self) -> closing[Service]:
        given = {"rules": self.rules, "standard": self.standard, "first": self.first}
        return closing(open_service(self.case.table, self.folder, **given))

    def audited(self) -> Audit:
        with closing(Chain.read(str(self.folder / "history.db"))) as history:
            return audit(history, self.standard)


def test_levels_are_told_in_part_at_their_own_categories(tmp_path: Path) -> None:
    """Of axes with levels, some overlapping; the files have all that is public, by the categories of what they tell."""
    table, schema = levelled.table_of(levelled.SEED), levelled.SCHEMA
    counts = np.array([*levels.counts_of(table).values()])
    axes = levels.cells_of(schema)
    standard = Standard(table, knows(table, NOTHING), levelled.CRITERIA, "a test")
    with closing(open_service(table, tmp_path, standard=standard)) as service:
        for number in np.random.default_rng(2).integers(1, 1 << len(schema), 12).tolist():
            told(service, number, "ann", True)
        state = service.state
        facts = [Fact(frozenset(axes), table.total, table.total)]
        for view in (*filter(None, state.released.frontier), *state.suppressed_tables.views):
            listed, given = file_of(service, view), st.members(schema.levels.finest(view))
            by_cell = {cell: levels.categories(schema, given, cell) for cell in axes}
            for codes in {*by_cell.values()}:
                if (count := listed.get(codes, 0)) is not None:
                    facts.append(Fact(frozenset(c for c, own in by_cell.items() if own == codes), count, count))
    assert state.suppressed_tables.views
    tables = feasible([len(schema.variables[axis].categories) for axis in schema.axes], facts, 3_000_000)
    small = counts == levelled.CRITERIA.small_count
    assert (np.ptp(tables, axis=0)[small] >= levelled.CRITERIA.width.min_width).all()
    for part in state.suppressed_tables.tables:
        given = st.members(schema.levels.finest(part.view))
        of_cell = [levels.categories(schema, given, cell) for cell in axes]
        for codes in {*of_cell}:
            own = tables[:, [one == codes for one in of_cell]].sum(axis=1)
            true = counts[[one == codes for one in of_cell]].sum()
            assert true != 1 or np.ptp(own) >= levelled.CRITERIA.width.min_width
    with closing(Chain.read(str(tmp_path / "history.db"))) as history:
        assert audit(history, standard).failures == ()
        assert audit(history).failures == ()


def told(service: Service, subtable: SubTable, who: str, in_part: bool) -> Reply:
    """What becomes of a request in the end; of one that waits for a round that it does."""
    reply = service.ask(subtable, who, in_part=in_part).result(600)
    if reply.code == "in-progress":
        assert reply.job is not None
        wait_until(lambda: bool(service.reply_to(reply.job, who).code != "in-progress"))  # type: ignore[arg-type,union-attr]
        found = service.reply_to(reply.job, who)
        assert found is not None
        return found
    return reply


def file_of(service: Service, subtable: SubTable) -> dict[tuple[int, ...], int | None]:
    """Counts by codes as the CSV file has them, None of what is withheld; what is not listed is 0."""
    public = service.marginal(subtable) or service.in_part(subtable)
    assert public is not None
    answer = Answer("Tables", public)
    content = b"".join(FORMATS["csv"].write(answer)).decode()
    found = {}
    for row in csv.DictReader(io.StringIO(content)):
        codes = tuple(v.categories.index(row[v.name]) for v in answer.table.dimensions)
        assert (row["count"] == "") == (row.get("count_status", "") == "withheld")
        found[codes] = int(row["count"]) if row["count"] else None
    return found


def read_back(service: Service, case: Case) -> Iterator[Fact]:
    """All that the server tells, from its files alone, with what everybody knows."""
    sizes, zeros = case.table.schema.sizes, np.array(every_cell(case.table.schema.sizes))
    yield from impossible(map(tuple, zeros[case.known.zeros.contains(zeros, case.table.schema)].tolist()))
    yield Fact(frozenset(every_cell(sizes)), case.table.total, case.table.total)
    for view in (*filter(None, service.state.released.frontier), *service.state.suppressed_tables.views):
        counts, kept = file_of(service, view), st.members(view)
        for cell in every_cell([sizes[v] for v in kept]):
            count = counts.get(cell, 0)
            inside = (one for one in every_cell(sizes) if tuple(one[v] for v in kept) == cell)
            if count is not None:
                yield Fact(frozenset(inside), count, count)


def widths(case: Case, facts: Sequence[Fact], view: SubTable) -> np.ndarray:
    """(cells of the view,) between how many counts each lies in all tables that agree."""
    tables = feasible(case.table.schema.sizes, facts, 300_000)
    return np.asarray(np.ptp(case.of(view, tables), axis=0))


@pytest.mark.parametrize("rules", [RULES[0], RULES[-1]], ids=["myopic", "batch"])
def test_nobody_pins_a_small_count_whatever_is_asked_in_which_order(
    rules: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory, night: list[int]
) -> None:
    require_that_nobody_pins(rules, tmp_path_factory, night, 3)


def require_that_nobody_pins(
    rules: list[dict[str, Any]], folders: pytest.TempPathFactory, night: list[int], number: int
) -> None:
    """Whole and in part, with a new start between; the history is audited, and tells the same again."""
    seen, rng = Counter[str](), np.random.default_rng([13, RULES.index(rules), *night])
    for case in (case for case in cases(rng) if not case.known.facts):
        if seen["audited"] == number:
            break
        desk, free = Desk.of(case, folders.mktemp("desk"), rules), dict[SubTable, np.ndarray]()
        full, small = st.full(len(case.table.schema)), case.small_count
        try:
            for _ in range(2):
                with desk.open() as service:
                    for _ in range(5):
                        ask_one(service, desk, rng, seen, free)
                    if rules and rules[0]["rule"] == "batch":
                        hold_one(service, desk, seen, free)
                    facts, state = [*read_back(service, case)], service.state
                    at_risk = (flat := case.table.dense.reshape(-1)) * (flat <= small) > 0
                    assert (widths(case, facts, full)[at_risk] >= case.min_width).all()
                    for view in state.suppressed_tables.views:
                        counts = case.of(view, case.table.dense)[0]
                        own = (counts > 0) & (counts <= small)
                        assert {*np.flatnonzero(own)} <= {*state.part(view).places(case.table.schema)}  # type: ignore[union-attr]
                        wide = widths(case, facts, view) >= case.min_width
                        assert wide[own & free[view]].all()
                with desk.open() as again:
                    assert (again.state, again.state.suppressed_tables) == (state, state.suppressed_tables)
        except TooManyTablesError:
            continue
        found = desk.audited()
        assert (found.verified, found.failures) == (True, ())
        assert (found.released, {*found.in_part}) == (state.released, {*state.suppressed_tables.views})
        seen["audited"] += 1
        seen["parts"] += len(state.suppressed_tables.views)
    assert {"released-in-part", "already-released"} <= {*seen}


def ask_one(
    service: Service, desk: Desk, rng: np.random.Generator, seen: Counter[str], free: dict[SubTable, np.ndarray]
) -> None:
    """A request, whose answer is right by what was public before; of a part which cells were free until then."""
    case, subtable = desk.case, int(rng.integers(1, 1 << len(desk.case.table.schema)))
    before, state = [*read_back(service, case)], service.state
    reply = told(service, subtable, "ann", bool(rng.random() < 0.7))
    seen[reply.code] += 1
    if reply.code == "released-in-part":
        free[subtable] = widths(case, before, subtable) >= case.min_width
        assert (service.state.released, service.state.version) == (state.released, state.version + 1)
    if reply.decision == "released" and reply.code == "released":
        assert subtable in service.state.released
    if reply.code == "already-released-in-part":
        assert service.state.part(subtable) == state.part(subtable) is not None


def hold_one(service: Service, desk: Desk, seen: Counter[str], free: dict[SubTable, np.ndarray]) -> None:
    """A round: of its parts all cells are taken for free that what was public before leaves so."""
    before = [*read_back(service, desk.case)]
    service.round().result(600)
    beside = [*before, *(fact for fact in read_back_whole(service, desk.case))]
    for view in service.state.suppressed_tables.views:
        if view not in free:
            seen["released-in-part"] += 1
            free[view] = widths(desk.case, beside, view) >= desk.case.min_width


def read_back_whole(service: Service, case: Case) -> Iterator[Fact]:
    for view in filter(None, service.state.released.frontier):
        yield from exact(case.table.dense, st.members(view))


@pytest.fixture
def opened(czech: Table, tmp_path: Path) -> Iterator[Callable[..., Service]]:
    with services_of(czech, tmp_path) as opening:
        yield opening


def test_what_is_taken_in_part_again_has_the_same_cells_and_is_not_judged(
    opened: Callable[..., Service], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a new start too; and whole it is judged as ever."""
    service = opened()
    assert told(service, EVERYTHING, "ann", True).code == "released-in-part"
    cells = file_of(service, EVERYTHING)
    assert 0 < sum(count is None for count in cells.values()) < 64
    service.close()
    again = opened()
    with monkeypatch.context() as patched:
        patched.setattr(Judge, "_judged", None)
        assert told(again, EVERYTHING, "bob", True).code == "already-released-in-part"
    assert file_of(again, EVERYTHING) == cells
    assert told(again, EVERYTHING, "bob", False).code == "not-released"
    assert again.marginal(EVERYTHING) is None


def test_beside_parts_no_tables_are_drawn(opened: Callable[..., Service], czech: Table) -> None:
    service = opened()
    told(service, EVERYTHING, "ann", True)
    service.close()
    drawing = opened({"rule": "simulatable", "draws": 8, "share": 0.9})
    assert told(drawing, 0b11, "ann", False).decision == "refused"
    explained = drawing.explained(drawing.requests()[0].number)
    assert explained is not None
    assert explained.why == "some public tables have suppressed cells, and beside these tables are not drawn"


def test_a_replay_takes_in_part_what_was_taken_so(opened: Callable[..., Service], czech: Table) -> None:
    service = opened()
    for subtable, in_part in ((EVERYTHING, True), (0b11, True), (0b11111, False)):
        told(service, subtable, "ann", in_part)
    entries = service.log.history.entries()
    past = recorded(entries, czech)
    assert (past.in_part, past.got_part) == ({0, 1}, (EVERYTHING,))
    assert past.outcomes == ("released_in_part", "released", "refused")
    known, weights = knows(czech, NOTHING), Weights.equal(6)
    subject = HistoryInput(czech, known, CRITERIA, ServerConfig(), weights)
    facts = replays(subject, "myopic,batch,simulatable", entries)
    would = facts["as_it_would_have_been"]
    assert facts["as_it_was"]["in_part"] == would["myopic"]["in_part"] == would["batch"]["in_part"] == [[*"ABCDEF"]]
    assert would["myopic"]["outcomes"] == facts["as_it_was"]["outcomes"]
    assert would["simulatable"]["in_part"] == []


def test_a_server_starts_again_with_its_parts_and_its_folder_is_audited(tmp_path: Path, sdc: Sdc) -> None:
    """By the command too: with what the server kept, and with the options."""
    build = czech_build(tmp_path)
    swept(build)
    prepare(build)
    with open_prepared(build) as service:
        assert told(service, EVERYTHING, "ann", True).code == "released-in-part"
        state, cells = service.state, file_of(service, EVERYTHING)
    kept = read_certificate(folder_of(build).stage(EVIDENCE), service.schema)
    assert (kept.suppressed_tables, kept.asked) == (state.suppressed_tables, state.released)
    with open_prepared(build) as service:
        assert (service.state, file_of(service, EVERYTHING)) == (state, cells)
        assert told(service, EVERYTHING, "bob", True).code == "already-released-in-part"
    folder = str(folder_of(build).path)
    for given in (["--table", str(tmp_path / "czech.yaml")], ["--small-count", "2", "--min-width", "6"]):
        facts = json.loads(sdc("audit", folder, *given, "--json").out)
        assert (facts["verified"], facts["in_part"], facts["failures"]) == (True, 1, [])


def test_labels_that_were_told_without_a_code_list_stay_so(tmp_path: Path) -> None:
    """Whoever has them knows of each category that it has a record, and a later config does not take that back."""
    counts = np.array([[1, 0], [1, 1], [3, 1]])
    rows = (f"a{a},b{b},{counts[a, b]}\n" for a, b in np.argwhere(counts).tolist())
    (tmp_path / "t.csv").write_text("A,B,count\n" + "".join(rows))
    server, risk = {"slot": 0, "start": "total"}, {"min_width": 3, "small_count": 1}
    lists = {"A": ["a0", "a1", "a2"], "B": ["b0", "b1"]}
    for code_lists, asked in (({}, [0b11]), (lists, [0b01, 0b10])):
        build = open_build(
            written(tmp_path, table={"path": "t.csv", "categories": code_lists}, risk=risk, server=server)
        )
        swept(build)
        prepare(build)
        with open_prepared(build) as service:
            for subtable in asked:
                told(service, subtable, "ann", True)
            parts = service.state.suppressed_tables.tables
    facts = [*exact(counts, ()), *reference.listed(counts, 0), *reference.listed(counts, 1)]
    for part in parts:
        facts += reference.suppressed(counts, st.members(part.view), [*part.places(service.schema)])
    assert [part.view for part in parts] == [0b11, 0b01, 0b10]
    assert (reference.widths(feasible(counts.shape, facts))[reference.at_risk(counts, 1)] >= 3).all()


def test_a_server_does_not_begin_with_parts_that_a_build_has_published(tmp_path: Path) -> None:
    build = czech_build(tmp_path, release={"require": ["A*B*C*D*E*F"], "protect": "suppression", "max_evaluations": 1})
    run_all(build, IN_PROCESS)
    begun = str(build.folder.path)
    with pytest.raises(ConfigError, match="has suppressed or rounded cells, and a server begins with whole"):
        first_release(begun, build.made.table, build.made.known)


def test_what_goes_out_beside_parts_of_before_leaves_their_small_cells_wide() -> None:
    """But one, which is told by what was released before. Without the others fewer cells would be withheld."""
    schema = schema_of([2] * 4)
    codes = np.array([[0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0], [0, 1, 0, 0], [0, 1, 0, 1], [1, 1, 0, 1], [1, 1, 1, 1]])
    table = Table.of(schema, codes.astype(np.uint16), np.array([2, 1, 1, 1, 4, 2, 1]))
    zeros = StructuralZeros((((0, (1,)), (1, (0,)), (2, (1,)), (3, (0,))), ((1, (0,)), (2, (1,)), (3, (1,)))))
    public = Release.of([0b1100, 0b0010])
    state, before = State.first(schema, public), dict[int, Any]()
    for view, places in ((0b0110, range(4)), (0b1010, range(4)), (0b1110, [0, 1, 2, 4, 5, 6, 7])):
        before[view] = SuppressedTable.at(view, np.array(places), schema, table.total)
        state = state.answering(before[view])
    judge = Judge(table, knows(table, NOTHING, zeros), Criteria.of(2, 1))
    found, _ = judge.in_part(state, 0b1011, 0.5)
    assert found is not None
    facts = [part.fact for part in (*before.values(), found)]
    told, tables = (agreeing(table, public.frontier, zeros, facts[:n], 100_000) for n in (3, 4))
    for view in (*before, 0b1011, 0b1111):
        true = table.marginal(view).dense.reshape(-1)
        before_it, after = (
            np.ptp(reference.sums(some, schema.sizes, st.members(view)), axis=0) < 1 for some in (told, tables)
        )
        assert not (after & ~before_it)[(true > 0) & (true <= 2)].any()


def test_a_small_cell_that_what_is_released_tells_is_told_anyway() -> None:
    """By the number of A with a structural zero; it keeps no sub-table from going out in part, and its cells move."""
    schema = schema_of([2] * 3)
    counts = np.array([1, 1, 0, 0, 5, 1, 2, 7])
    table = Table.of(schema, np.array(every_cell([2] * 3), np.uint16), counts)
    zeros = StructuralZeros((((0, (0,)), (1, (1,))),))
    judge = Judge(table, knows(table, NOTHING, zeros), Criteria.of(2, 2))
    found, _ = judge.in_part(State.first(schema, Release.of([0b001])), 0b011, 0.5)
    assert found is not None
    assert 0 in found.places(schema)
