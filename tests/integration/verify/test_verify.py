"""Certificates: the honest one is accepted, and none that is corrupt, whatever the manifest is made to say."""

import json
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sdc.bounds.method import cell_bounds
from sdc.commands import cli
from sdc.feasible.differences import Differences
from sdc.feasible.proof import ComponentProof, Proof
from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds
from sdc.model.graph import Decomposition
from sdc.model.release import Release
from sdc.model.schema import Schema, Variable
from sdc.model.structural_zeros import StructuralZeros
from sdc.model.table import Table
from sdc.publish.formats import FORMATS
from sdc.run_format import is_read
from sdc.storage.certificate import Certificate, read_certificate, write_certificate
from sdc.storage.known import write_known
from sdc.storage.parquet import read_written_table, write_table
from sdc.storage.run_folder import write_json
from sdc.verify.run_folder import UnreadableError, Verification, verify
from tests.integration.verify.forging import (
    BEYOND,
    NOT_FEASIBLE,
    STAGES,
    Corruption,
    Corruptions,
    Honest,
    adding,
    alone,
    asking,
    before,
    cells_with,
    certificate_with,
    certified,
    claiming,
    component_with,
    copy_of,
    cover_of,
    differences_with,
    edited,
    evidence,
    forged,
    in_turn,
    json_with,
    made_once,
    one_change_more,
    only,
    part_with,
    proof_with,
    proven,
    published,
    rejected,
    removing,
    replacing,
    shared,
    sharp_bounds,
    with_part,
)
from tests.strategies import TWO_CYCLES, czech, every_cell, frontier, schema_of

EMPTY = (1, 0, 0, 1, 1, 1)
"""The one cell of the Czech auto workers without a record."""
NEVER = StructuralZeros((tuple((v, (code,)) for v, code in enumerate(EMPTY)),))
KDSF = frontier("ABCDE", "ABDEF", "ACDEF", "ABCF", "BCDF", "BCEF")
A, B, C, F, ADEF, FULL = 0b1, 0b10, 0b100, 0b100000, 0b111001, 0b111111
ABCD, CDEF, CD = 0b001111, 0b111100, 0b001100


# The honest ones


def czech_run(folder: Path) -> Path:
    """The Czech auto workers; their [KDSF] release is public, whose bounds are [0, 10], [0, 9] and [0, 9]."""
    certificate = evidence(czech(), KDSF, 6)
    return published(forged(folder, czech(), certificate, sharp_bounds(czech(), KDSF)), KDSF)


def formats_run(folder: Path) -> Path:
    """In every format, with zeros, totals and a sub-table below the frontier; nobody has the first of A and of B."""
    whole = czech()
    kept = whole.codes[:, :2].any(axis=1)
    table, release = Table.of(whole.schema, whole.codes[kept], whole.counts[kept]), frontier("ABCF", "CDE")
    bounds, certificate = proven(table, release)
    about = {"formats": tuple(FORMATS), "children": ("A*F",), "zeros": True, "totals": True}
    return published(forged(folder, table, certificate, bounds), release, **about)


def explicit_run(folder: Path) -> Path:
    """A decomposable release; its cover alone proves width 10, and there is no difference."""
    release = frontier("ABDEF", "ACDEF")
    certificate = with_part(evidence(czech(), release, 10), differences=Differences.none(6))
    return forged(folder, czech(), certificate, explicit_bounds(release))


def explicit_bounds(release: Release) -> CellBounds:
    table = czech()
    return cell_bounds(table, before(table).plus(release), table.codes[table.at_risk(2)], "decomposable")


def two_cycles() -> Table:
    """Some 14 records in 2^6 cells; every end of its at-risk cells is known by enumeration."""
    return Table.of(schema_of([2] * 6), np.random.default_rng(2).integers(0, 2, (16, 6)))


def split_run(folder: Path) -> Path:
    """Two four-cycles that share a released edge: two components, and differences of both are needed."""
    bounds, certificate = proven(two_cycles(), TWO_CYCLES)
    first, second = certificate.proof.parts
    assert (first.variables, second.variables, certificate.proof.separators) == (ABCD, CDEF, (CD,))
    assert len(first.differences)
    assert len(second.differences)
    assert np.array_equal(bounds.inner, sharp_bounds(two_cycles(), TWO_CYCLES).outer)
    return forged(folder, two_cycles(), certificate, bounds)


HONEST = {"czech": czech_run, "formats": formats_run, "explicit": explicit_run, "split": split_run}


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Honest:
    return made_once(tmp_path_factory, HONEST)


@pytest.fixture
def run(honest: Honest, tmp_path: Path) -> Path:
    return copy_of(honest("czech"), tmp_path)


@pytest.mark.parametrize("name", HONEST)
def test_the_honest_one_is_accepted(name: str, honest: Honest) -> None:
    said: list[str] = []
    found = verify(honest(name), said.append)
    assert found.failures == ()
    assert any(f"{found.at_risk_cells} at-risk cells" in line for line in said)
    if name == "czech":
        assert found == Verification(3, 3, found.differences)
        assert found.differences >= 3
    elif name == "explicit":
        assert found == Verification(3, 3, 0)
    assert 0 < found.certified_cells <= found.at_risk_cells


# Corrupted


def one_entry_less(found: Differences, table: Table) -> Differences:
    start = found.start.copy()
    start[1:] -= 1
    return Differences(start, found.cells[1:], found.changes[1:])


def one_code_changed(found: Differences, table: Table) -> Differences:
    cells = found.cells.copy()
    cells[0, 0] = 1 - cells[0, 0]
    return Differences(found.start, cells, found.changes)


def one_cell_left_out(found: Differences, table: Table) -> Differences:
    """No difference that moves the first at-risk cell is left."""
    cell = table.codes[table.at_risk(2)[0]]
    moving = found.of[(found.cells == cell).all(axis=1)]
    return found.rows(~np.isin(np.arange(len(found)), moving))


def below_zero_in_two_pieces(found: Differences, table: Table) -> Differences:
    """One cell twice in a difference: neither piece takes more than is there, both together do."""
    first = found.at(np.array([0]))
    cells, changes = np.concatenate([first.cells] * 2), np.concatenate([first.changes] * 2)
    return Differences.concatenated([found, Differences(np.array([0, len(changes)]), cells, changes)])


def one_below_zero(found: Differences, table: Table) -> Differences:
    """One difference the other way, which keeps what is released, and leaves a cell one record short."""
    ways = (Differences(np.array([0, len(changes)]), cells, -changes) for cells, changes in found)
    short = next(way for way in ways if (table.count_at(way.cells) + way.changes).min() == -1)
    return Differences.concatenated([found, short])


def another_table(certificate: Certificate, table: Table) -> Certificate:
    counts = table.counts.copy()
    counts[np.argmax(counts)] += 1
    return evidence(Table.of(table.schema, table.codes, counts), certificate.asked, 6)


def of_other_variables(run: Path) -> None:
    schema = Schema(tuple(Variable(name, ("no", "yes")) for name in "UVWXYZ"))
    table = Table.of(schema, czech().codes, czech().counts)
    write_certificate(evidence(table, frontier("ABC"), 6), schema, run / "assessment")


def other_rows(columns: dict[str, Any]) -> dict[str, Any]:
    return {**columns, **{name: columns[name][::-1] for name in "ACE"}}


def moved_in_the_table(run: Path) -> None:
    """Two persons change their cells, and the folder is whole again."""
    table = read_written_table(run / "table")
    counts = table.counts.copy()
    counts[:2] += [1, -1]
    write_table(Table.of(table.schema, table.codes, counts), run / "table")


def twice_in_the_table(at_once: bool) -> Corruption:
    """One cell in two rows, at once or at the end: the same counts, but neither row is the cell's."""

    def corrupt(run: Path) -> None:
        table = read_written_table(run / "table")
        row = int(np.argmax(table.counts))
        place = row if at_once else len(table)
        counts = np.insert(table.counts - 2 * (np.arange(len(table)) == row), place, 2)
        codes = np.insert(table.codes, place, table.codes[row], axis=0)
        write_table(Table(table.schema, codes, counts), run / "table")

    return corrupt


def with_a_zero_in_the_table(run: Path) -> None:
    """Every cell is listed once and in order, the empty one too."""
    table = czech()
    codes = every_cell(table.schema)
    write_table(Table(table.schema, codes, table.count_at(codes)), run / "table")


def of_no_category_in_the_table(run: Path) -> None:
    """One record has a text of one variable that the schema has not."""
    path = next((run / "table").glob("part*.parquet"))
    columns = pq.read_table(path)
    texts = ["other", *columns["A"].cast(pa.string()).to_pylist()[1:]]
    pq.write_table(columns.set_column(columns.column_names.index("A"), "A", pa.array(texts)), path)


def in_no_format_that_is_read(run: Path) -> None:
    """A*F is there in other formats alone."""
    for path in (run / "release").glob("*_A-F.*"):
        if is_read(path.name):
            path.unlink()

    def less(content: Any) -> None:
        own = ("csv", "parquet")
        content["resources"] = [r for r in content["resources"] if "A-F" not in r["path"] or r["format"] not in own]

    edited("release/datapackage.json", less)(run)


def of_parts(*variables: str, separators: tuple[int, ...] | None = None) -> Corruption:
    """Components that claim to be known, which gives the widest bounds that there are."""
    parts = tuple(st.of(map("ABCDEF".index, names)) for names in variables)
    empty = tuple(ComponentProof(part, None, Differences.none(st.dimension(part))) for part in parts)
    return proof_with(lambda proof: Proof(empty, shared(parts) if separators is None else separators))


def parts_of(change: Callable[[tuple[ComponentProof, ...]], tuple[ComponentProof, ...]], *between: int) -> Corruption:
    return proof_with(lambda proof: Proof(change(proof.parts), between))


def swapped(parts: tuple[ComponentProof, ...]) -> tuple[ComponentProof, ...]:
    """The differences of the first two under each other's name."""
    one, other, *rest = parts
    return replace(one, differences=other.differences), replace(other, differences=one.differences), *rest


def files_exchanged(run: Path) -> None:
    one, other = (run / "assessment" / f"differences_{number}.parquet" for number in (0, 1))
    contents = one.read_bytes(), other.read_bytes()
    other.write_bytes(contents[0])
    one.write_bytes(contents[1])


def counting(number: int, more: int) -> Corruption:
    file = "assessment/certificate.json"
    return edited(
        file, lambda c: c["components"][number].update(differences=c["components"][number]["differences"] + more)
    )


SEARCH, ASSESSMENT, CERTIFICATE = "search/search.json", "assessment/assessment.json", "assessment/certificate.json"
NOT_SEARCHED, OF_ANOTHER = r"the certificate's release is not search/search\.json: it ", "of another run: its "
NOT_EXACT, NOT_COVERED = "is not the exact marginal of the table", r"the released A\*C\*D\*E\*F is within no clique"
UNPROVEN = r"claims releasable, but \d of 3 cells are not proven"
OTHER_ZEROS = "the prior knowledge has other structural zeros"
CORRUPTED: dict[str, Corruptions] = {
    "czech": {
        "a change": (differences_with(one_change_more), rf"1 of {NOT_FEASIBLE} .*number 0"),
        "an entry": (differences_with(one_entry_less), f"1 of {NOT_FEASIBLE}"),
        "a code": (differences_with(one_code_changed), f"1 of {NOT_FEASIBLE}"),
        "a cell twice": (differences_with(below_zero_in_two_pieces), f"1 of {NOT_FEASIBLE}"),
        "a count of -1": (differences_with(one_below_zero), f"1 of {NOT_FEASIBLE}"),
        "a cell left out": (differences_with(one_cell_left_out), UNPROVEN),
        "no differences": (part_with(differences=Differences.none(6)), UNPROVEN),
        "a marginal less": (asking(lambda r: Release.of(r.frontier[1:])), rf"{NOT_SEARCHED}lacks A\*B\*C\*D\*E"),
        "a marginal more": (asking(lambda r: r.add(0b110111)), rf"{NOT_SEARCHED}adds A\*B\*C\*E\*F"),
        "a marginal less everywhere but in release/": (
            in_turn(asking(lambda r: frontier("AB", "C")), json_with(SEARCH, frontier=[["A", "B"], ["C"]])),
            r"is not what release/ publishes: it lacks A\*B\*C\*D\*E",
        ),
        "another table": (certificate_with(another_table), rf"{OF_ANOTHER}table is \w+, this run's \w+; nothing is"),
        "structural zeros": (claiming(known=before(czech(), NEVER)), OTHER_ZEROS),
        "the table's structural zeros": (
            lambda run: write_known(before(czech(), NEVER), run / "table", hidden=[]),
            OTHER_ZEROS,
        ),
        "what was known before": (removing("table/known.json"), r"known\.json is missing"),
        "its format": (json_with("table/known.json", format=2), r"has format 2, this version reads 1"),
        "its records": (json_with(CERTIFICATE, records=1842), r"its records is 1842, this run's 1841"),
        "an unknown kind": (json_with(CERTIFICATE, brackets=[{}]), r"corrupt .* it has evidence of an unknown kind"),
        "other variables": (of_other_variables, r"or of another table: .*unknown variable 'U'"),
        "min_width raised": (claiming(min_width=9), f"{OF_ANOTHER}min_width is 9, this run's 6"),
        "min_width lowered": (claiming(min_width=1), f"{OF_ANOTHER}min_width is 1, this run's 6"),
        "small_count": (claiming(small_count=1), f"{OF_ANOTHER}small_count is 1, this run's 2"),
        "a cell removed": (
            cells_with(lambda columns: {name: column[1:] for name, column in columns.items()}),
            r"cells\.parquet lists 2 cells, the table has 3 at risk",
        ),
        "another cell": (cells_with(other_rows), r"cells\.parquet: row \d is not the cell in that row; so \d of 3"),
        "a count": (adding("count", 1), r"cells\.parquet: row 0 has another count"),
        "a claim too high": (adding("inner_upper", 1), "claims a wider inner interval; so 1 of 3"),
        "a claim too low": (adding("inner_lower", -1), "claims a wider inner interval; so 1 of 3"),
        "a claim beside the count": (adding("inner_lower", 9), "has a count outside its inner interval"),
        "an outer bound": (adding("outer_upper", -1), BEYOND),
        "a column less": (
            cells_with(lambda columns: {name: c for name, c in columns.items() if name != "inner_lower"}),
            r"cells\.parquet is corrupt: KeyError: 'inner_lower'",
        ),
        "a clique without its separator": (
            certificate_with(lambda c, t: with_part(c, cover=one_clique_more(only(c).cover))),
            r"there are \d cliques and \d separators, not one fewer",
        ),
        "cliques in a cycle": (
            part_with(cover=Decomposition((0b011, 0b110, 0b101, FULL), (0b010, 0b101, 0b111))),
            r"clique A\*C shares A\*C with earlier ones, which is within none of them",
        ),
        "the table": (moved_in_the_table, r"another run: its table is|is not the exact marginal"),
        "the table's rows": (twice_in_the_table(False), "table does not list every non-zero cell once and in order"),
        "a row twice": (twice_in_the_table(True), "table does not list every non-zero cell once and in order"),
        "a zero in the table": (with_a_zero_in_the_table, "table does not list every non-zero cell once and in order"),
        "a category of no variable": (of_no_category_in_the_table, "a category is unknown"),
        "a structural zero with records": (
            lambda run: write_known(before(czech(), StructuralZeros((((0, (0,)),),))), run / "table", hidden=[]),
            "a structural zero is of no cell or has records",
        ),
        "the assessed cells": (json_with(ASSESSMENT, at_risk_cells=2), "at_risk_cells = 2, it is 3"),
        "the assessed width": (json_with(ASSESSMENT, min_width=[10, 10]), r"min_width = \[10, 10\], it is \[9, 9\]"),
        "the width required": (json_with(ASSESSMENT, min_width_required=9), "required = 9, it is 6"),
        "the format": (json_with(CERTIFICATE, format=1), "has format 1, this version reads 3"),
        "half written": (lambda run: (run / CERTIFICATE).write_text("{"), r"certificate\.json cannot be read"),
        "a key less": (lambda run: write_json(run / CERTIFICATE, {"format": 3}), r"certificate\.json is corrupt"),
        "no file": (removing("assessment/differences_0.parquet"), r"differences_0\.parquet is missing"),
        "the search": (json_with(SEARCH, frontier=[["A", "Q"]]), "unknown variable 'Q'"),
        "the metadata": (json_with("release/datapackage.json", resources=[{"sub_table": 1}]), "corrupt"),
    },
    "formats": {
        "px": (replacing("release/001_*.px", "UNITS", "UNIT5"), rf"001_.*\.px {NOT_EXACT}"),
        "the schema of xml": (replacing("release/tables.xsd", "exact", "inexact"), rf"tables\.xsd {NOT_EXACT}"),
        "a total": (replacing("release/*_A-F.csv", r"(\(total\),){2}", r"\g<0>1"), rf"A-F\.csv {NOT_EXACT}"),
        "no totals": (replacing("release/datapackage.json", '"totals": true', '"totals": false'), NOT_EXACT),
        "no zeros": (replacing("release/datapackage.json", '"zeros": true', '"zeros": false'), NOT_EXACT),
        "nothing that is read": (in_no_format_that_is_read, r"no CSV or Parquet file is of A\*F, so that"),
    },
    "explicit": {
        "no cover": (part_with(cover=None), UNPROVEN),
        "a separator less a variable": (
            part_with(cover=Decomposition((ADEF | B, ADEF | C), (ADEF & ~F,))),
            r"clique A\*C\*D\*E\*F shares A\*D\*E\*F with earlier ones, not A\*D\*E",
        ),
        "a clique less a variable": (cover_of(0, ADEF | B, (ADEF | C) & ~F), NOT_COVERED),
        "a clique less": (cover_of(0, ADEF | B), NOT_COVERED),
        "no clique": (part_with(cover=Decomposition((), ())), "there are 0 cliques and 0 separators"),
        "a separator more": (
            part_with(cover=Decomposition((ADEF | B, ADEF | C), (ADEF, A))),
            "there are 2 cliques and 2 separators",
        ),
        "a larger clique": (cover_of(0, FULL), UNPROVEN),
    },
    "split": {
        "a separator that is not released": (
            in_turn(
                asking(lambda r: frontier("AB", "AC", "BD", "CE", "DF", "EF")),
                json_with(SEARCH, frontier=[[*pair] for pair in ("AB", "AC", "BD", "CE", "DF", "EF")]),
            ),
            r"the separator C\*D is not released",
        ),
        "a part missing": (parts_of(lambda p: p[:1]), "do not have every variable"),
        "a released marginal in no part": (parts_of(lambda p: p[:1]), r"the released E\*F is within no component"),
        "a part missing, its separator there": (parts_of(lambda p: p[:1], CD), "there are 1 components and 1"),
        "a separator missing": (parts_of(lambda p: p), "there are 2 components and 0 separators, not one fewer"),
        "a separator less a variable": (parts_of(lambda p: p, C), r"\*F shares C\*D with earlier ones, not C"),
        "a separator more": (parts_of(lambda p: p, CD, 0), "2 components and 2 separators"),
        "a part twice": (parts_of(lambda p: (*p, p[0]), CD, CD), r"\*D shares A\*B\*C\*D with earlier ones, not C\*D"),
        "a part twice, itself between": (
            parts_of(lambda p: (*p, p[0]), CD, ABCD),
            r"separator A\*B\*C\*D is not released",
        ),
        "a cycle of parts": (of_parts("AB", "BD", "DF", "EF", "CE", "AC"), r"A\*C with earlier ones, which is within"),
        "a variable in no part": (of_parts("ABCD", "CDE"), "the components do not have every variable, or one of them"),
        "a part without variables": (component_with(1, variables=[]), "corrupt .*a component has no variables"),
        "two variables of a cycle apart": (of_parts("ABC", "BCD", "CDEF"), r"the separator B\*C is not released"),
        "a released pair apart": (of_parts("AB", "CDEF", separators=(0,)), r"the released A\*C is within no component"),
        "differences of the other part": (parts_of(swapped, CD), NOT_FEASIBLE),
        "files exchanged": (files_exchanged, r"certificate\.json is corrupt|differences_0\.parquet is corrupt"),
        "another part's name": (component_with(0, variables=["C", "D", "E", "F"]), "corrupt"),
        "a difference claimed that is not there": (
            counting(0, 1),
            r"differences_0\.parquet: \d+ of \d+ differences",
        ),
        "a difference there that is not claimed": (
            counting(1, -1),
            r"differences_1\.parquet: \d+ of \d+ differences",
        ),
        "none claimed": (component_with(0, differences=0), "claims a wider inner interval"),
        "fewer than none claimed": (component_with(0, differences=-1), r"\d+ of -1 differences that are claimed"),
        "no file of a part": (removing("assessment/differences_1.parquet"), r"differences_1\.parquet is missing"),
        "a cover that splits what is released": (cover_of(0, 0b0011, 0b1110), r"the released A\*C is within no clique"),
    },
}


@cache
def certified_of(run: Path) -> int:
    return verify(run).certified_cells


def one_clique_more(cover: Decomposition | None) -> Decomposition:
    assert cover is not None
    return Decomposition((*cover.cliques, 0b11), cover.separators)


@pytest.mark.parametrize(("build", "name"), [(build, name) for build, rows in CORRUPTED.items() for name in rows])
def test_whatever_is_corrupt_is_rejected(build: str, name: str, honest: Honest, tmp_path: Path) -> None:
    """And nothing is certified by what is no cover or no components, and no bound called wrong that is right."""
    corrupt, words = CORRUPTED[build][name]
    found = rejected(copy_of(honest(build), tmp_path), corrupt, words)
    assert found.certified_cells <= certified_of(honest(build))
    assert BEYOND in words or not any(BEYOND in failure for failure in found.failures)
    if build == "explicit" or (build == "split" and re.search("component|separator", words)):
        assert found.certified_cells == 0


def test_each_part_is_checked_for_itself(honest: Honest, tmp_path: Path) -> None:
    """What is wrong with one part takes nothing from what the other one proves."""
    run = copy_of(honest("split"), tmp_path)
    rejected(run, differences_with(one_change_more, 1), NOT_FEASIBLE)
    number = len(read_certificate(run / "assessment", two_cycles().schema).proof.parts[1].differences)
    (failure,) = [failure for failure in verify(run).failures if "give no feasible table" in failure]
    assert failure.startswith(f"1 of {number} differences give no feasible table (the first is number 0)")


# The files


@pytest.mark.parametrize("stage", STAGES)
def test_a_changed_file_is_found_by_the_manifest(stage: str, run: Path) -> None:
    file = min((run / stage).iterdir())
    file.write_bytes(file.read_bytes() + b"1")
    found = verify(run)
    assert not found.verified
    assert f"{stage}/ is not what the manifest recorded" in found.failures[0]
    assert file.name in found.failures[0]


def test_a_stage_that_the_manifest_does_not_record(run: Path) -> None:
    edited("manifest.json", lambda m: m.update(stages=[s for s in m["stages"] if s["name"] not in STAGES[1::2]]))(run)
    told = [f for f in verify(run).failures if "the manifest does not record the stage" in f]
    assert [re.findall("stage ([a-z]+);", one) for one in told] == [["search"], ["release"]]


def test_cells_without_proof_are_listed(run: Path) -> None:
    found = rejected(run, *CORRUPTED["czech"]["no differences"])
    assert len(found.uncertified) == found.at_risk_cells - found.certified_cells > 0
    assert all("needed 6" in line and line.startswith("A=") for line in found.uncertified)


NO_RUN_FOLDER: dict[str, tuple[Corruption, str]] = {
    "nothing": (shutil.rmtree, r"is not a run folder: it has no manifest\.json"),
    "no manifest": (removing("manifest.json"), r"is not a run folder: it has no manifest\.json"),
    "an empty one": (lambda run: write_json(run / "manifest.json", {"format": 1}), "corrupt: KeyError: 'config'"),
    "no certificate": (removing(CERTIFICATE), r"has no assessment/certificate\.json: nothing proves"),
}


@pytest.mark.parametrize("name", NO_RUN_FOLDER)
def test_what_is_no_run_folder_is_refused(name: str, run: Path) -> None:
    corrupt, message = NO_RUN_FOLDER[name]
    corrupt(run)
    with pytest.raises(UnreadableError, match=message):
        verify(run)


@pytest.mark.parametrize(
    ("undecided", "is_public", "failures", "notes"),
    [
        ("outer", True, (), ("released without proof for 3 cells (policy outer)",)),
        ("refuse", True, ("released without proof for 3 cells (policy refuse)",), ()),
        ("refuse", False, (), ("not proven: 3 cells; nothing is released",)),
    ],
)
def test_what_is_released_without_proof_is_said(
    undecided: str, is_public: bool, failures: tuple[str, ...], notes: tuple[str, ...], tmp_path: Path
) -> None:
    """Nothing proves the release, and it is not called safe; only the policy `outer` lets it out."""
    sharp = sharp_bounds(czech(), KDSF)
    unmoved = np.stack([sharp.counts, sharp.counts], axis=1)
    bounds = CellBounds(sharp.cells, sharp.counts, sharp.outer, unmoved, "none")
    run = forged(
        tmp_path / "run", czech(), certified(czech(), KDSF, alone(czech(), None), 6), bounds, undecided=undecided
    )
    if is_public:
        published(run, KDSF)
    found = verify(run)
    assert (found.failures, found.notes) == (failures, notes)
    assert (found.certified_cells, len(found.uncertified)) == (0, 3)


# The command


def command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: object
) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["sdc", "verify", *map(str, words)])
    capsys.readouterr()
    with pytest.raises(SystemExit) as exit_:
        cli.main()
    code = exit_.value.code
    return (code if isinstance(code, int) else 0, *capsys.readouterr())


def test_the_command_says_what_is_proven_and_what_fails(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    status, out, err = command(monkeypatch, capsys, run, "--json")
    document = json.loads(out)
    assert (status, document["verified"], document["run_folder"]) == (0, True, str(run))
    assert (document["at_risk_cells"], document["certified_cells"], document["failures"]) == (3, 3, [])
    assert {*document} == {"run_folder", "verified", "at_risk_cells", "certified_cells", "differences"} | {
        "refutations", "failures", "uncertified", "notes", "known", "bytes",
    }  # fmt: skip
    assert "3 at-risk cells" in err
    assert command(monkeypatch, capsys, run)[1].startswith("at-risk cells 3, certified 3\n")
    CORRUPTED["czech"]["a change"][0](run)
    status, out, err = command(monkeypatch, capsys, run, "--json")
    assert (status, json.loads(out)["verified"]) == (1, False)
    assert len(json.loads(out)["failures"]) >= 2
    (message,) = [line for line in err.splitlines() if line.startswith("sdc: ")]
    assert "is not verified: " in message
    assert "give no feasible table" in message
    status, out, err = command(monkeypatch, capsys, tmp_path, "--json")
    assert (status, json.loads(out)["status"]) == (1, 1)
    assert "is not a run folder" in err
