"""Certificates: the honest one is accepted, and none that was tampered with, whatever the manifest is made to say.

Every tampering is followed by an honest record of its bytes in the manifest, so that what rejects it is the check of
the claims and not that of the files.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as hs

from sdc.bounds.decomposable import covering_bounds
from sdc.bounds.method import cell_bounds
from sdc.commands import cli
from sdc.config.publication import PublicationConfig
from sdc.executor import IN_PROCESS
from sdc.feasible import walk
from sdc.feasible.differences import Differences
from sdc.feasible.proof import ComponentProof, Proof
from sdc.model import graph
from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds
from sdc.model.errors import InputError, RunFolderError
from sdc.model.fact import Fact
from sdc.model.graph import Decomposition
from sdc.model.knowledge import Knowledge
from sdc.model.labels import Labels
from sdc.model.marginal import CellMarginals
from sdc.model.release import NOTHING, Release
from sdc.model.schema import Schema, Variable
from sdc.model.structural_zeros import NO_ZEROS, StructuralZeros
from sdc.model.table import Table
from sdc.publish.formats import FORMATS
from sdc.publish.publication import Texts, write_publication
from sdc.risk.assessment import OwnJudged
from sdc.risk.min_width import MinWidth
from sdc.risk.verdict import Verdict
from sdc.run_format import is_read
from sdc.stages.build import open_build
from sdc.stages.stages import run_all
from sdc.storage import results
from sdc.storage.certificate import Certificate, read_certificate, write_certificate
from sdc.storage.known import write_known
from sdc.storage.parquet import read_columns, read_written_table, table_columns, write_columns, write_csv, write_table
from sdc.storage.run_folder import folder_digest, write_json
from sdc.verify.run_folder import UnreadableError, Verification, verify
from tests.helpers.clearing import SUBJECT, cleared_of
from tests.strategies import (
    components,
    czech,
    frontier,
    inquiry_of,
    knows,
    rewritten,
    scattered,
    schema_of,
    structural_zeros,
    tables_and_releases,
)

CONFIGS = Path(__file__).parents[3] / "configs"
CZECH_CSV, CZECH_YAML = CONFIGS / "czech_auto_workers.csv", CONFIGS / "czech_auto_workers.yaml"
STAGES = ("table", "search", "assessment", "release")
EMPTY = (1, 0, 0, 1, 1, 1)
"""The one cell of the Czech auto workers without a record."""
NEVER = StructuralZeros((tuple((v, (code,)) for v, code in enumerate(EMPTY)),))
KDSF = frontier("ABCDE", "ABDEF", "ACDEF", "ABCF", "BCDF", "BCEF")


# A run folder


def evidence(
    table: Table, release: Release, small_count: int, min_width: int, zeros: StructuralZeros = NO_ZEROS
) -> Certificate:
    """An honest certificate of one component: a chordal cover, and the tables that a search finds."""
    cells = table.codes[table.at_risk(small_count)]
    informed = Release.of([*release.frontier, *zeros.subtables])
    cover = graph.perfect_sequence(graph.chordal_cover(informed, len(table.schema)).frontier)
    widths = np.full(len(cells), table.total)
    found = walk.find(table, knows(table, release, zeros), cells, widths, nodes=10**5)
    whole = ComponentProof(st.full(len(table.schema)), cover, found.differences)
    return Certificate(table.digest, before(table, zeros), release, small_count, min_width, Proof((whole,), ()))


def before(table: Table, zeros: StructuralZeros = NO_ZEROS, facts: Sequence[Fact] = ()) -> Knowledge:
    """What was public before, without a look at the counts: of some it may not be so."""
    return Knowledge(table.schema, table.total, NOTHING, zeros, tuple(facts))


def alone(table: Table, cover: Decomposition | None, differences: Differences) -> Proof:
    """All variables in one component."""
    return Proof((ComponentProof(st.full(len(table.schema)), cover, differences),), ())


def only(certificate: Certificate) -> ComponentProof:
    """The part of a certificate that has one."""
    (part,) = certificate.proof.parts
    return part


def with_part(certificate: Certificate, number: int = 0, **changes: Any) -> Certificate:
    """The certificate with something else in one of its parts."""
    parts = list(certificate.proof.parts)
    parts[number] = replace(parts[number], **changes)
    return replace(certificate, proof=replace(certificate.proof, parts=tuple(parts)))


def proven(
    table: Table, release: Release, small_count: int, min_width: int, zeros: StructuralZeros = NO_ZEROS
) -> tuple[CellBounds, Certificate]:
    """An honest certificate of the components that a criterion proves the release by, and the bounds it claims."""
    judgement, bounds = inquiry_of(table, min_width, small_count=small_count, zeros=zeros).examine(release)
    return bounds, Certificate(table.digest, before(table, zeros), release, small_count, min_width, judgement.proof)


def record(run: Path) -> None:
    """Makes the manifest say that the folders are as they are now."""
    manifest = json.loads((run / "manifest.json").read_text())
    kept = [entry for entry in manifest["stages"] if (run / entry["name"]).is_dir()]
    stages = [{**entry, "output": folder_digest(run / entry["name"])} for entry in kept]
    write_json(run / "manifest.json", {**manifest, "stages": stages})


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder of the Czech auto workers that publishes the [KDSF] release, not to be touched."""
    table, certificate = czech(), evidence(czech(), KDSF, 2, 6)
    return published(forged(tmp_path_factory.mktemp("honest") / "run", table, certificate, sharp_bounds(table)))


@pytest.fixture
def run(honest: Path, tmp_path: Path) -> Path:
    """A copy of it to tamper with."""
    return Path(shutil.copytree(honest, tmp_path / "run"))


def forged(
    folder: Path,
    table: Table,
    certificate: Certificate,
    bounds: CellBounds,
    *,
    undecided: str = "refuse",
    in_part: OwnJudged | None = None,
) -> Path:
    """A run folder made of its parts, without release/; what was known before is what the certificate says."""
    for stage in ("table", "search", "assessment"):
        (folder / stage).mkdir(parents=True)
    write_table(table, folder / "table")
    write_known(certificate.known, folder / "table", hidden=[])
    write_json(folder / "table" / "bad_records.json", {"records": table.total, "set_aside": 0, "reasons": []})
    names = [st.names(element, table.schema) for element in certificate.asked.frontier]
    write_json(folder / "search" / "search.json", {"frontier": names})
    answer = replace(MinWidth(certificate.min_width).assess(bounds), in_part=in_part)
    if in_part is not None and in_part.unproven:
        answer = replace(answer, verdict=min(answer.verdict, Verdict.UNDECIDED))
    results.write_assessment(
        answer,
        bounds,
        table.schema,
        folder / "assessment",
    )
    write_certificate(certificate, table.schema, folder / "assessment")
    risk = {"small_count": certificate.small_count, "min_width": certificate.min_width, "undecided": undecided}
    stages = [
        {"name": name, "key": "", "output": "", "status": "done", "seconds": 0.0} for name in STAGES
    ]  # fmt: skip
    config = {"name": "forged", "risk": risk}
    content = {"format": 1, "name": "forged", "config": config, "planned": [*STAGES], "stages": stages}
    write_json(folder / "manifest.json", content)
    record(folder)
    return folder


def sharp_bounds(table: Table) -> CellBounds:
    """[0, 10], [0, 9] and [0, 9]: of the at-risk cells under the [KDSF] release."""
    return cell_bounds(table, knows(table, KDSF), table.codes[table.at_risk(2)], "enumeration")


def published(run: Path, **about: Any) -> Path:
    """The run folder with the [KDSF] release made public, and recorded."""
    (run / "release").mkdir()
    texts, cleared = Texts(PublicationConfig(**about), Labels()), cleared_of(read_written_table(run / "table"), KDSF)
    write_publication(cleared, SUBJECT, "czech", run / "release", texts=texts)
    manifest = json.loads((run / "manifest.json").read_text())
    entry = {**manifest["stages"][0], "name": "release"}
    write_json(run / "manifest.json", {**manifest, "stages": [*manifest["stages"], entry]})
    record(run)
    return run


def test_the_honest_certificate_is_accepted(honest: Path) -> None:
    said: list[str] = []
    found = verify(honest, said.append)
    assert found.verified
    assert found == Verification(3, 3, found.differences)
    assert found.differences >= 3
    assert any("3 at-risk cells" in line for line in said)


@pytest.fixture(scope="module")
def honest_formats(honest: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same in every format, with zeros, totals and a sub-table below the frontier; not to be touched."""
    run = Path(shutil.copytree(honest, tmp_path_factory.mktemp("formats") / "run"))
    shutil.rmtree(run / "release")
    record(run)
    return published(run, formats=tuple(FORMATS), children=("A*F",), zeros=True, totals=True)


@pytest.fixture
def in_all_formats(honest_formats: Path, tmp_path: Path) -> Path:
    """A copy of it to tamper with."""
    return Path(shutil.copytree(honest_formats, tmp_path / "all"))


def test_every_format_with_zeros_and_totals_is_accepted(in_all_formats: Path) -> None:
    assert verify(in_all_formats).failures == ()


@pytest.mark.parametrize(
    ("file", "old", "new", "match"),
    [
        ("001_*.px", "UNITS", "UNIT5", r"001_.*\.px is not the exact marginal of the table"),
        ("tables.xsd", "exact", "inexact", r"tables\.xsd is not the exact marginal of the table"),
        (
            "*_A-F.csv",
            "(total),(total),1841",
            "(total),(total),1842",
            r"A-F\.csv is not the exact marginal of the table",
        ),
        ("datapackage.json", '"totals": true', '"totals": false', r"is not the exact marginal of the table"),
    ],
)
def test_a_changed_file_of_any_format_is_rejected(
    file: str, old: str, new: str, match: str, in_all_formats: Path
) -> None:
    path = next((in_all_formats / "release").glob(file))
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    record(in_all_formats)
    assert re.search(match, "\n".join(verify(in_all_formats).failures))


def test_a_sub_table_in_formats_that_are_not_read_is_rejected(in_all_formats: Path) -> None:
    metadata = in_all_formats / "release" / "datapackage.json"
    content = json.loads(metadata.read_text())
    unread = [r for r in content["resources"] if "A-F" not in r["path"] or r["format"] not in ("csv", "parquet")]
    write_json(metadata, {**content, "resources": unread})
    for path in (in_all_formats / "release").glob("*_A-F.*"):
        if is_read(path.name):
            path.unlink()
    record(in_all_formats)
    assert re.search(r"no CSV or Parquet file is of A\*F, so that", "\n".join(verify(in_all_formats).failures))


def test_a_build_is_verified(tmp_path: Path) -> None:
    content = yaml.safe_load(CZECH_YAML.read_text())
    content["table"]["path"], content["output"] = str(CZECH_CSV), {"folder": str(tmp_path / "runs")}
    (tmp_path / "build.yaml").write_text(yaml.safe_dump(content))
    build = open_build(tmp_path / "build.yaml")
    run_all(build, IN_PROCESS)
    found = verify(build.folder.path)
    assert (found.failures, found.at_risk_cells, found.certified_cells) == ((), 3, 3)


def test_a_build_with_zeros_in_all_formats_is_verified(tmp_path: Path) -> None:
    """Nobody has the first category of both A and B, which the release tells."""
    whole = scattered(6)
    kept = whole.codes[:, :2].any(axis=1)
    write_csv(tmp_path / "table.csv", table_columns(Table.of(whole.schema, whole.codes[kept], whole.counts[kept])))
    content = {
        "name": "sparse",
        "table": {"path": "table.csv", "variables": list("ABCDE")},
        "risk": {"min_width": 3},
        "release": {"require": ["A*B"]},
        "publication": {"formats": list(FORMATS), "zeros": True, "totals": True, "children": ["A", "B"]},
        "output": {"folder": str(tmp_path / "runs")},
    }
    (tmp_path / "build.yaml").write_text(yaml.safe_dump(content))
    build = open_build(tmp_path / "build.yaml")
    run_all(build, IN_PROCESS)
    assert verify(build.folder.path).failures == ()
    metadata = build.folder.path / "release" / "datapackage.json"
    metadata.write_text(metadata.read_text().replace('"zeros": true', '"zeros": false'))
    record(build.folder.path)
    assert "is not the exact marginal of the table" in verify(build.folder.path).failures[0]


def test_nothing_of_ours_is_imported_but_the_names() -> None:
    code = (
        "import sys, sdc.verify.run_folder\n"
        "print(sorted(m for m in sys.modules if m.split('.')[0] in ('sdc', 'flows', 'numba', 'scipy', 'ortools')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    ours = ["sdc", "sdc.run_format", "sdc.verify", "sdc.verify.attributes", "sdc.verify.formats", "sdc.verify.levels"]
    ours += ["sdc.verify.likely", "sdc.verify.n_rule", "sdc.verify.own_cells", "sdc.verify.page", "sdc.verify.proof"]
    # the last is a number, which the package itself tells
    ours += [
        "sdc.verify.refutations",
        "sdc.verify.run_folder",
        "sdc.verify.signed",
        "sdc.verify.weighted",
        "sdc.version",
    ]
    assert done.stdout.strip() == repr(ours), done.stderr


# Tampering


Tampering = Callable[[Path], None]


def certificate_with(change: Callable[[Certificate, Table], Certificate]) -> Tampering:
    """Writes another certificate in the place of the honest one."""

    def tamper(run: Path) -> None:
        table = read_written_table(run / "table")
        certificate = read_certificate(run / "assessment", table.schema)
        write_certificate(change(certificate, table), table.schema, run / "assessment")

    return tamper


def differences_with(change: Callable[[Differences, Table], Differences]) -> Tampering:
    return certificate_with(lambda c, table: with_part(c, differences=change(only(c).differences, table)))


def cover_with(change: Callable[[Decomposition], Decomposition]) -> Tampering:
    def changed(certificate: Certificate, table: Table) -> Certificate:
        cover = only(certificate).cover
        assert cover is not None
        return with_part(certificate, cover=change(cover))

    return certificate_with(changed)


def json_with(name: str, **changes: Any) -> Tampering:
    def tamper(run: Path) -> None:
        write_json(run / name, {**json.loads((run / name).read_text()), **changes})

    return tamper


def cells_with(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Tampering:
    def tamper(run: Path) -> None:
        columns, metadata = read_columns(run / "assessment" / "cells.parquet")
        columns = {name: column.copy() for name, column in columns.items()}
        write_columns(run / "assessment" / "cells.parquet", change(columns), metadata)

    return tamper


def one_change_more(found: Differences, table: Table) -> Differences:
    changes = found.changes.copy()
    changes[0] += 1
    return Differences(found.start, found.cells, changes)


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
    double = Differences(
        np.array([0, 2 * len(found.at(np.array([0])).changes)]),
        np.concatenate([found.at(np.array([0])).cells] * 2),
        np.concatenate([found.at(np.array([0])).changes] * 2),
    )
    return Differences.concatenated([found, double])


def another_table(certificate: Certificate, table: Table) -> Certificate:
    counts = table.counts.copy()
    counts[np.argmax(counts)] += 1
    other = Table.of(table.schema, table.codes, counts)
    return evidence(other, certificate.asked, 2, 6)


def of_other_variables(run: Path) -> None:
    schema = Schema(tuple(Variable(name, ("no", "yes")) for name in "UVWXYZ"))
    table = Table.of(schema, czech().codes, czech().counts)
    write_certificate(evidence(table, frontier("ABC"), 2, 6), schema, run / "assessment")


def without_first_row(columns: dict[str, Any]) -> dict[str, Any]:
    return {name: column[1:] for name, column in columns.items()}


def other_rows(columns: dict[str, Any]) -> dict[str, Any]:
    return {**columns, "A": columns["A"][::-1], "C": columns["C"][::-1], "E": columns["E"][::-1]}


def adding(name: str, number: int) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def changed(columns: dict[str, Any]) -> dict[str, Any]:
        column = columns[name]
        column[0] += number
        return {**columns, name: column}

    return changed


def moved_in_the_table(run: Path) -> None:
    """Two persons change their cells, and the folder is whole again."""
    table = read_written_table(run / "table")
    counts = table.counts.copy()
    counts[:2] += [1, -1]
    write_table(Table.of(table.schema, table.codes, counts), run / "table")


def twice_in_the_table(run: Path) -> None:
    """One cell in two rows: the same counts, but neither row is the cell's."""
    table = read_written_table(run / "table")
    row = int(np.argmax(table.counts))
    counts = np.append(table.counts, 2)
    counts[row] -= 2
    write_table(Table(table.schema, np.concatenate([table.codes, table.codes[[row]]]), counts), run / "table")


FULL = 0b111111

TAMPERINGS: dict[str, tuple[Tampering, str]] = {
    "a change": (differences_with(one_change_more), r"1 of \d+ differences give no feasible table .*number 0"),
    "an entry": (differences_with(one_entry_less), r"1 of \d+ differences give no feasible table"),
    "a code": (differences_with(one_code_changed), r"1 of \d+ differences give no feasible table"),
    "a cell twice": (differences_with(below_zero_in_two_pieces), r"1 of \d+ differences give no feasible table"),
    "a cell left out": (differences_with(one_cell_left_out), r"says releasable, but \d of 3 cells are not proven"),
    "no differences": (differences_with(lambda d, t: Differences.none(6)), r"says releasable, but \d of 3 cells"),
    "a marginal less": (
        certificate_with(lambda c, t: replace(c, asked=Release.of(c.asked.frontier[1:]))),
        r"the certificate's release is not search/search\.json: it lacks A\*B\*C\*D\*E",
    ),
    "a marginal more": (
        certificate_with(lambda c, t: replace(c, asked=c.asked.add(0b110111))),
        r"the certificate's release is not search/search\.json: it adds A\*B\*C\*E\*F",
    ),
    "a marginal less everywhere but in release/": (
        lambda run: [
            certificate_with(lambda c, t: replace(c, asked=frontier("AB", "C")))(run),
            json_with("search/search.json", frontier=[["A", "B"], ["C"]])(run),
        ][0],
        r"is not what release/ publishes: it lacks A\*B\*C\*D\*E",
    ),
    "another table's certificate": (
        certificate_with(another_table),
        r"of another run: its table is [0-9a-f]{12}, this run's [0-9a-f]{12}; nothing is proven",
    ),
    "structural zeros": (
        certificate_with(lambda c, t: replace(c, known=before(t, NEVER))),
        r"what was known before is of other structural zeros",
    ),
    "the table's structural zeros": (
        lambda run: write_known(before(czech(), NEVER), run / "table", hidden=[]),
        r"what was known before is of other structural zeros",
    ),
    "what was known before": (lambda run: (run / "table" / "known.json").unlink(), r"known\.json is missing"),
    "its format": (json_with("table/known.json", format=2), r"has format 2, this version reads 1"),
    "its records": (json_with("assessment/certificate.json", records=1842), r"its records is 1842, this run's 1841"),
    "evidence of an unknown kind": (
        json_with("assessment/certificate.json", brackets=[{}]),
        r"certificate\.json is damaged .* it has evidence of an unknown kind",
    ),
    "a certificate of other variables": (of_other_variables, r"or of another table: .*unknown variable 'U'"),
    "min_width raised": (
        certificate_with(lambda c, t: replace(c, min_width=9)),
        r"of another run: its min_width is 9, this run's 6",
    ),
    "min_width lowered": (
        certificate_with(lambda c, t: replace(c, min_width=1)),
        r"of another run: its min_width is 1, this run's 6",
    ),
    "small_count": (
        certificate_with(lambda c, t: replace(c, small_count=1)),
        r"of another run: its small_count is 1, this run's 2",
    ),
    "a cell removed": (cells_with(without_first_row), r"cells\.parquet lists 2 cells, the table has 3 at risk"),
    "another cell": (cells_with(other_rows), r"cells\.parquet: row \d is not the cell in that row; so \d of 3"),
    "a count": (cells_with(adding("count", 1)), r"cells\.parquet: row 0 has another count"),
    "a claim too high": (cells_with(adding("inner_upper", 1)), r"claims a wider inner interval; so 1 of 3"),
    "a claim too low": (cells_with(adding("inner_lower", -1)), r"claims a wider inner interval; so 1 of 3"),
    "a claim beside the count": (cells_with(adding("inner_lower", 9)), r"has a count outside its inner interval"),
    "an outer bound": (cells_with(adding("outer_upper", -1)), r"outer interval that feasible tables leave"),
    "a column less": (
        cells_with(lambda columns: {name: c for name, c in columns.items() if name != "inner_lower"}),
        r"cells\.parquet is damaged: KeyError: 'inner_lower'",
    ),
    "a clique without its separator": (
        cover_with(lambda c: Decomposition((*c.cliques, 0b11), c.separators)),
        r"there are \d cliques and \d separators, not one fewer",
    ),
    "cliques in a cycle": (
        cover_with(lambda c: Decomposition((0b011, 0b110, 0b101, FULL), (0b010, 0b101, 0b111))),
        r"clique A\*C shares A\*C with earlier ones, which is within none of them",
    ),
    "the table": (moved_in_the_table, r"another run: its table is|is not the exact marginal"),
    "the table's rows": (twice_in_the_table, r"table does not list every non-zero cell once and in order"),
    "the assessed cells": (json_with("assessment/assessment.json", at_risk_cells=2), r"at_risk_cells = 2, it is 3"),
    "the assessed width": (
        json_with("assessment/assessment.json", min_width=[10, 10]),
        r"claims min_width = \[10, 10\], it is \[9, 9\]",
    ),
    "the width required": (json_with("assessment/assessment.json", min_width_required=9), r"required = 9, it is 6"),
    "the format": (json_with("assessment/certificate.json", format=1), r"has format 1, this version reads 3"),
    "a certificate half written": (
        lambda run: (run / "assessment" / "certificate.json").write_text("{") and None,
        r"certificate\.json cannot be read",
    ),
    "a key less": (
        lambda run: write_json(run / "assessment" / "certificate.json", {"format": 3}),
        r"certificate\.json is damaged .*KeyError: 'refutations'",
    ),
    "no differences file": (
        lambda run: (run / "assessment" / "differences_0.parquet").unlink(),
        r"differences_0\.parquet is missing",
    ),
    "the search": (json_with("search/search.json", frontier=[["A", "Q"]]), r"unknown variable 'Q'"),
    "the metadata published": (json_with("release/datapackage.json", resources=[{"sub_table": 1}]), r"damaged"),
}  # fmt: skip


def rejected(run: Path, tamper: Tampering, message: str) -> None:
    """What was tampered with, and recorded as if it were as made, is not verified, and a failure says so."""
    tamper(run)
    record(run)
    found = verify(run)
    assert not found.verified
    assert re.search(message, "\n".join(found.failures)), found.failures


@pytest.mark.parametrize("name", TAMPERINGS)
def test_whatever_was_tampered_with_is_rejected(name: str, run: Path) -> None:
    rejected(run, *TAMPERINGS[name])


@pytest.fixture(scope="module")
def honest_explicit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A decomposable release of the Czech auto workers; its cover alone proves width 10, and there is no difference."""
    table, release = czech(), frontier("ABDEF", "ACDEF")
    certificate = with_part(evidence(table, release, 2, 10), differences=Differences.none(6))
    bounds = cell_bounds(table, knows(table, release), table.codes[table.at_risk(2)], "decomposable")
    run = forged(tmp_path_factory.mktemp("explicit") / "run", table, certificate, bounds)
    assert verify(run) == Verification(3, 3, 0)
    return run


@pytest.fixture
def explicit(honest_explicit: Path, tmp_path: Path) -> Path:
    """A copy of it to tamper with."""
    return Path(shutil.copytree(honest_explicit, tmp_path / "explicit"))


A, B, C, F, ADEF = 0b1, 0b10, 0b100, 0b100000, 0b111001
COVER_FAULTS: dict[str, tuple[Decomposition | None, str]] = {
    "no cover": (None, r"says releasable, but 3 of 3 cells are not proven"),
    "a separator less a variable": (
        Decomposition((ADEF | B, ADEF | C), (ADEF & ~F,)),
        r"clique A\*C\*D\*E\*F shares A\*D\*E\*F with earlier ones, not A\*D\*E",
    ),
    "a clique less a variable": (
        Decomposition((ADEF | B, (ADEF | C) & ~F), (ADEF & ~F,)),
        r"the released A\*C\*D\*E\*F is within no clique",
    ),
    "a clique less": (Decomposition((ADEF | B,), ()), r"the released A\*C\*D\*E\*F is within no clique"),
    "no clique": (Decomposition((), ()), r"there are 0 cliques and 0 separators"),
    "a separator more": (
        Decomposition((ADEF | B, ADEF | C), (ADEF, A)),
        r"there are 2 cliques and 2 separators",
    ),
    "a larger clique": (Decomposition((FULL,), ()), r"says releasable, but 3 of 3 cells are not proven"),
}


@pytest.mark.parametrize("name", COVER_FAULTS)
def test_a_cover_that_was_tampered_with_is_rejected(name: str, explicit: Path) -> None:
    cover, message = COVER_FAULTS[name]
    certificate_with(lambda c, t: with_part(c, cover=cover))(explicit)
    record(explicit)
    found = verify(explicit)
    assert found.certified_cells == 0
    assert re.search(message, "\n".join(found.failures))


def test_changes_that_add_up_to_nothing_only_in_64_bits(explicit: Path) -> None:
    """Each cell gains 2^60, and the 16 cells of a released marginal cell 2^64: in 64 bits that is nothing."""
    table, release = czech(), frontier("AB", "BC")
    cells = np.array(list(np.ndindex(*table.schema.sizes)), np.uint16)
    huge = Differences(np.array([0, len(cells)]), cells, np.full(len(cells), 1 << 60, np.int64))
    assert not huge.feasible(table, knows(table, release)).any()
    certificate = Certificate(table.digest, before(table), release, 2, 10, alone(table, None, huge))
    bounds = cell_bounds(table, knows(table, release), table.codes[table.at_risk(2)], "decomposable")
    found = verify(forged(explicit.parent / "huge", table, certificate, bounds))
    assert found.certified_cells == 0
    assert any("1 of 1 differences give no feasible table" in failure for failure in found.failures)


def test_changes_within_the_total_that_add_up_to_nothing_only_in_64_bits(tmp_path: Path) -> None:
    """2^53 records; each of the 2,048 cells of a released marginal cell gains 2^53, in all 2^64."""
    table = Table.of(many(12, 2), np.array([[0] * 12, [1] * 12]), np.array([(1 << 53) - 1, 1]))
    cells = np.array([(0, *rest) for rest in np.ndindex(*[2] * 11)], np.uint16)
    huge = Differences(np.array([0, len(cells)]), cells, np.full(len(cells), 1 << 53, np.int64))
    certificate = Certificate(table.digest, before(table), Release.of([1]), 2, 1, alone(table, None, huge))
    found = verify(forged(tmp_path / "run", table, certificate, unmoved_bounds(table)))
    assert found.certified_cells == 0
    assert any("1 of 1 differences give no feasible table" in failure for failure in found.failures)


def many(variables: int, categories: int) -> Schema:
    return Schema(tuple(Variable(f"v{v:02}", tuple(map(str, range(categories)))) for v in range(variables)))


def unmoved_bounds(table: Table) -> CellBounds:
    """What is claimed of at-risk cells of which nothing is known."""
    cells = table.codes[table.at_risk(2)]
    counts = table.count_at(cells)
    outer = np.stack([0 * counts, 0 * counts + table.total], axis=1)
    return CellBounds(cells, counts, outer, np.stack([counts, counts], axis=1), "none")


@pytest.mark.parametrize("changed", [False, True])
def test_a_cell_space_far_beyond_64_bits(changed: bool, tmp_path: Path) -> None:
    """63 variables of 4 categories: every cell is told from every other, and exchanges are feasible or are not."""
    table = Table.of(many(63, 4), np.random.default_rng(3).integers(0, 4, (40, 63)))
    one, other = table.codes[:2].copy()
    one_crossed, other_crossed = one.copy(), other.copy()
    one_crossed[:30], other_crossed[:30] = other[:30], one[:30]
    cells = np.stack([one, other, one_crossed, other_crossed])
    cells[3, 62] = (cells[3, 62] + 1) % 4 if changed else cells[3, 62]
    exchange = Differences(np.array([0, 4]), cells, np.array([-1, -1, 1, 1]))
    release = Release.of([(1 << 30) - 1, (1 << 63) - (1 << 30)])
    certificate = Certificate(table.digest, before(table), release, 2, 1, alone(table, None, exchange))
    found = verify(forged(tmp_path / "run", table, certificate, unmoved_bounds(table)))
    assert (found.at_risk_cells, found.certified_cells) == (40, 0 if changed else 2)
    assert any("1 of 1 differences give no feasible" in failure for failure in found.failures) is changed


@pytest.mark.parametrize(("cover", "certified"), [(0b01, 1), (0b11, 1), (0b00, 0), (0b10, 0), (0b101, 0)])
def test_what_no_clique_has_is_free(cover: int, certified: int, tmp_path: Path) -> None:
    """A = a is released with B, which has one category; C is in no clique, so a cell may take all of A = a or nothing.

    C        no yes
    A = a     2   9
    A = b     9   9
    """
    schema = Schema((Variable("A", ("a", "b")), Variable("B", ("all",)), Variable("C", ("no", "yes"))))
    table = Table.of(schema, np.array([[0, 0, 0], [0, 0, 1], [1, 0, 0], [1, 0, 1]]), np.array([2, 9, 9, 9]))
    release = frontier("AB")
    proof = alone(table, Decomposition((cover,), ()), Differences.none(3))
    certificate = Certificate(table.digest, before(table), release, 2, 11, proof)
    sharp = cell_bounds(table, knows(table, release), table.codes[:1], "enumeration")
    assert sharp.outer.tolist() == [[0, 11]]
    found = verify(forged(tmp_path / "run", table, certificate, sharp))
    assert (found.certified_cells, found.verified) == (certified, bool(certified))


def test_a_cover_that_forgets_a_structural_zero(tmp_path: Path) -> None:
    """The explicit bounds are reached only by tables that fill the cell known to be impossible."""
    table, release = czech(), frontier("ABDEF", "ACDEF")
    honest = evidence(table, release, 2, 10)
    certificate = replace(with_part(honest, differences=Differences.none(6)), known=before(table, NEVER))
    bounds = cell_bounds(table, knows(table, release), table.codes[table.at_risk(2)], "decomposable")
    failures = verify(forged(tmp_path / "run", table, certificate, bounds)).failures
    assert any("the structural zero A = yes and B = no and" in failure for failure in failures)
    assert any("says releasable, but 3 of 3 cells are not proven" in failure for failure in failures)


@pytest.mark.parametrize("stage", STAGES)
def test_a_changed_file_is_found_by_the_manifest(stage: str, run: Path) -> None:
    file = sorted(path for path in (run / stage).iterdir())[0]
    file.write_bytes(file.read_bytes() + b"1")
    found = verify(run)
    assert not found.verified
    assert f"{stage}/ is not what the manifest recorded" in found.failures[0]
    assert file.name in found.failures[0]


def test_a_stage_that_the_manifest_does_not_record(run: Path) -> None:
    manifest = json.loads((run / "manifest.json").read_text())
    kept = [entry for entry in manifest["stages"] if entry["name"] not in ("search", "release")]
    write_json(run / "manifest.json", {**manifest, "stages": kept})
    failures = verify(run).failures
    assert failures[:2] == tuple(
        f"the manifest does not record the stage {name}; run the build again" for name in ("search", "release")
    )


def test_cells_without_proof_are_listed(run: Path) -> None:
    TAMPERINGS["no differences"][0](run)
    found = verify(run)
    assert len(found.uncertified) == found.at_risk_cells - found.certified_cells > 0
    assert all("needed 6" in line and line.startswith("A=") for line in found.uncertified)


@pytest.mark.parametrize("what", ["nothing", "folder", "empty manifest", "no certificate"])
def test_what_is_no_run_folder_is_refused(what: str, run: Path) -> None:
    folder, message = run, r"is no run folder: it has no manifest\.json"
    if what == "nothing":
        folder = run / "nowhere"
    elif what == "folder":
        (run / "manifest.json").unlink()
    elif what == "empty manifest":
        (run / "manifest.json").write_text('{"format": 1}')
        message = r"manifest\.json is damaged: KeyError: 'config'"
    else:
        (run / "assessment" / "certificate.json").unlink()
        message = r"has no assessment/certificate\.json: nothing proves"
    with pytest.raises(UnreadableError, match=message):
        verify(folder)


# Components


TWO_CYCLES = frontier("AB", "AC", "BD", "CD", "CE", "DF", "EF")
"""Two four-cycles that share the released edge CD: the components are ABCD and CDEF."""
ABCD, CDEF, CD = 0b001111, 0b111100, 0b001100


def two_cycles() -> Table:
    """Some 14 records in 2^6 cells; every end of its at-risk cells is known by enumeration."""
    return Table.of(schema_of([2] * 6), np.random.default_rng(2).integers(0, 2, (16, 6)))


@pytest.fixture(scope="module")
def honest_split(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder whose certificate has two components and needs differences of both; not to be touched."""
    bounds, certificate = proven(two_cycles(), TWO_CYCLES, 2, 1)
    first, second = certificate.proof.parts
    assert (first.variables, second.variables, certificate.proof.separators) == (ABCD, CDEF, (CD,))
    assert len(first.differences)
    assert len(second.differences)
    assert np.array_equal(
        bounds.inner, cell_bounds(two_cycles(), knows(two_cycles(), TWO_CYCLES), bounds.cells, "enumeration").outer
    )
    return forged(tmp_path_factory.mktemp("split") / "run", two_cycles(), certificate, bounds)


@pytest.fixture
def split(honest_split: Path, tmp_path: Path) -> Path:
    """A copy of it to tamper with."""
    return Path(shutil.copytree(honest_split, tmp_path / "split"))


def test_the_honest_certificate_of_components_is_accepted(honest_split: Path) -> None:
    found = verify(honest_split)
    assert found.failures == ()
    assert 0 < found.certified_cells <= found.at_risk_cells
    assert {path.name for path in (honest_split / "assessment").iterdir()} >= {
        "differences_0.parquet", "differences_1.parquet",
    }  # fmt: skip


def swapped(parts: Sequence[ComponentProof]) -> tuple[ComponentProof, ...]:
    """The differences of the first two under each other's name."""
    one, other, *rest = parts
    return replace(one, differences=other.differences), replace(other, differences=one.differences), *rest


def proof_with(change: Callable[[Proof], Proof]) -> Tampering:
    return certificate_with(lambda c, t: replace(c, proof=change(c.proof)))


def of_parts(*variables: str, separators: tuple[str, ...] | None = None) -> Tampering:
    """Components that claim to be known, which gives the widest bounds that there are."""

    def tamper(proof: Proof) -> Proof:
        parts = tuple(st.of(map("ABCDEF".index, names)) for names in variables)
        between = None if separators is None else tuple(st.of(map("ABCDEF".index, names)) for names in separators)
        empty = (ComponentProof(part, None, Differences.none(st.dimension(part))) for part in parts)
        return Proof(tuple(empty), shared(parts) if between is None else between)

    return proof_with(tamper)


def components_with(number: int, **changes: Any) -> Tampering:
    """Something else in what certificate.json says of a component."""

    def tamper(run: Path) -> None:
        content = json.loads((run / "assessment" / "certificate.json").read_text())
        content["components"][number].update(changes)
        write_json(run / "assessment" / "certificate.json", content)

    return tamper


def without_the_released_separator(run: Path) -> None:
    """CD is not released; all else is, in the certificate and in the search."""
    release = frontier("AB", "AC", "BD", "CE", "DF", "EF")
    certificate_with(lambda c, t: replace(c, asked=release))(run)
    names = [["A", "B"], ["A", "C"], ["B", "D"], ["C", "E"], ["D", "F"], ["E", "F"]]
    json_with("search/search.json", frontier=names)(run)


def files_exchanged(run: Path) -> None:
    one, other = (run / "assessment" / f"differences_{number}.parquet" for number in (0, 1))
    contents = one.read_bytes(), other.read_bytes()
    other.write_bytes(contents[0])
    one.write_bytes(contents[1])


SPLIT_FAULTS: dict[str, tuple[Tampering, str]] = {
    "a separator that is not released": (without_the_released_separator, r"the separator C\*D is not released"),
    "a part missing": (proof_with(lambda p: Proof(p.parts[:1], ())), r"do not have every variable"),
    "a part missing, its separator there": (
        proof_with(lambda p: Proof(p.parts[:1], p.separators)),
        r"there are 1 components and 1 separators, not one fewer",
    ),
    "a released marginal in no part": (
        proof_with(lambda p: Proof(p.parts[:1], ())),
        r"the released E\*F is within no component",
    ),
    "a separator missing": (
        proof_with(lambda p: Proof(p.parts, ())),
        r"there are 2 components and 0 separators, not one fewer",
    ),
    "a separator less a variable": (
        proof_with(lambda p: Proof(p.parts, (0b000100,))),
        r"the component C\*D\*E\*F shares C\*D with earlier ones, not C",
    ),
    "a separator more": (proof_with(lambda p: Proof(p.parts, (CD, 0))), r"2 components and 2 separators"),
    "a part twice": (
        proof_with(lambda p: Proof((*p.parts, p.parts[0]), (CD, CD))),
        r"the component A\*B\*C\*D shares A\*B\*C\*D with earlier ones, not C\*D",
    ),
    "a part twice, itself between": (
        proof_with(lambda p: Proof((*p.parts, p.parts[0]), (CD, ABCD))),
        r"the separator A\*B\*C\*D is not released",
    ),
    "a cycle of parts": (
        of_parts("AB", "BD", "DF", "EF", "CE", "AC"),
        r"the component A\*C shares A\*C with earlier ones, which is within none of them",
    ),
    "a variable in no part": (
        of_parts("ABCD", "CDE"),
        r"the components do not have every variable, or one of them has none",
    ),
    "a part without variables": (components_with(1, variables=[]), r"damaged .*a component has no variables"),
    "no two variables of a cycle apart": (of_parts("ABC", "BCD", "CDEF"), r"the separator B\*C is not released"),
    "a released pair apart": (of_parts("AB", "CDEF", separators=("",)), r"the released A\*C is within no component"),
    "differences of the other part": (
        proof_with(lambda p: replace(p, parts=swapped(p.parts))),
        r"differences give no feasible table",
    ),
    "files exchanged": (files_exchanged, r"certificate\.json is damaged|differences_0\.parquet is damaged"),
    "another part's name": (components_with(0, variables=["C", "D", "E", "F"]), r"damaged"),
    "a difference claimed that is not there": (
        lambda run: components_with(0, differences=1 + number_of(run, 0))(run),
        r"differences_0\.parquet has \d+ differences, \d+ are claimed",
    ),
    "a difference there that is not claimed": (
        lambda run: components_with(1, differences=number_of(run, 1) - 1)(run),
        r"differences_1\.parquet has \d+ differences, \d+ are claimed|not all of its cells have the proven width",
    ),
    "none claimed": (components_with(0, differences=0), r"claims a wider inner interval"),
    "fewer than none claimed": (components_with(0, differences=-1), r"has \d+ differences, -1 are claimed"),
    "no file of a part": (
        lambda run: (run / "assessment" / "differences_1.parquet").unlink(),
        r"differences_1\.parquet is missing",
    ),
    "a cover that splits what is released": (
        certificate_with(lambda c, t: with_part(c, 0, cover=Decomposition((0b0011, 0b1110), (0b0010,)))),
        r"the released A\*C is within no clique",
    ),
}


def number_of(run: Path, part: int) -> int:
    return len(read_certificate(run / "assessment", two_cycles().schema).proof.parts[part].differences)


@pytest.mark.parametrize("name", SPLIT_FAULTS)
def test_components_that_were_tampered_with_are_rejected(name: str, split: Path) -> None:
    """And nothing is certified beyond the enumeration of the release that is claimed."""
    tamper, message = SPLIT_FAULTS[name]
    before = verify(split).certified_cells
    tamper(split)
    record(split)
    found = verify(split)
    assert not found.verified
    assert re.search(message, "\n".join(found.failures)), found.failures
    assert not [failure for failure in found.failures if "outer interval that feasible tables leave" in failure]
    assert found.certified_cells <= before
    if "component" in message or "separator" in message:
        assert found.certified_cells == 0


def test_each_part_is_checked_for_itself(split: Path) -> None:
    """What is wrong with one part takes nothing from what the other one proves."""
    certificate_with(lambda c, t: with_part(c, 1, differences=one_change_more(c.proof.parts[1].differences, t)))(split)
    record(split)
    failures = verify(split).failures
    number = number_of(split, 1)
    assert len([failure for failure in failures if "give no feasible table" in failure]) == 1
    assert failures[0].startswith(f"1 of {number} differences give no feasible table (the first is number 0)")


@pytest.mark.parametrize("release", [("ABCD", "CE"), ("AB", "CE"), ("AB", "AC", "BD", "CD", "CE"), ("A",), ("",)])
def test_variables_that_are_not_released_are_components(release: tuple[str, ...], tmp_path: Path) -> None:
    """Left out of the certificate, what they say of a cell is missing, and nothing is proven."""
    table, public = two_cycles(), frontier(*release)
    bounds, certificate = proven(table, public, 2, 1)
    assert 0b100000 in [part.variables for part in certificate.proof.parts]
    run = forged(tmp_path / "run", table, certificate, bounds)
    assert verify(run).failures == ()
    kept = tuple(part for part in certificate.proof.parts if part.variables != 0b100000)
    proof = Proof(kept, shared([part.variables for part in kept]))
    certificate_with(lambda c, t: replace(c, proof=proof))(run)
    record(run)
    found = verify(run)
    assert found.certified_cells == 0
    assert any("the components do not have every variable" in failure for failure in found.failures)


def test_a_cycle_split_where_it_must_not_be(tmp_path: Path) -> None:
    """Two records at nnnn and yyyn pin each other; BC is not released, and apart from A, BCD could move.

    A - B
    |   |
    C - D
    """
    table = Table.of(schema_of([2, 2, 2, 2]), np.array([[0, 0, 0, 0], [1, 1, 1, 0]]))
    release = frontier("AB", "AC", "BD", "CD")
    sharp = cell_bounds(table, knows(table, release), table.codes, "enumeration")
    assert (sharp.outer == 1).all()
    halves = []
    for half in (0b0111, 0b1110):
        inside, public = table.marginal(half), rewritten(release.frontier, half)
        halves.append(replace(only(evidence(inside, public, 2, 1)), variables=half))
    assert len(halves[1].differences)
    certificate = Certificate(table.digest, before(table), release, 2, 1, Proof(tuple(halves), (0b0110,)))
    found = assert_nothing_beyond(sharp, certificate, table, tmp_path)
    assert found.certified_cells == 0
    assert found.failures == ("the separator B*C is not released",)


def test_components_that_forget_a_structural_zero(tmp_path: Path) -> None:
    """Two components, and a combination of variables of both that cannot occur."""
    table, release = two_cycles(), frontier("AB", "CDEF")
    bounds, certificate = proven(table, release, 2, 1)
    pattern = next(
        p for a in (0, 1) for c in (0, 1) for f in (0, 1)
        if not StructuralZeros((p := ((0, (a,)), (2, (c,)), (5, (f,))),)).contains(table.codes, table.schema).any()
    )  # fmt: skip
    zeros = StructuralZeros((pattern,))
    found = verify(forged(tmp_path / "run", table, replace(certificate, known=before(table, zeros)), bounds))
    assert found.certified_cells == 0
    assert any("the structural zero A = " in f and f.endswith("within no component") for f in found.failures)
    honest, certificate = proven(table, release, 2, 1, zeros)
    assert 0b100101 in [part.variables for part in certificate.proof.parts]
    assert verify(forged(tmp_path / "honest", table, certificate, honest)).failures == ()


@pytest.mark.parametrize("as_difference", [True, False])
def test_a_structural_zero_that_names_a_variable_of_one_category(as_difference: bool, tmp_path: Path) -> None:
    """A = a and C = yes cannot occur. The zero names B too, which all have, and a part without B does not know it.

    C        no yes
    A = a     2   -
    A = b     1   1
    """
    schema = Schema((Variable("A", ("a", "b")), Variable("B", ("all",)), Variable("C", ("no", "yes"))))
    zeros = StructuralZeros((((0, (0,)), (1, (0,)), (2, (1,))),))
    table = Table.of(schema, np.array([[0, 0, 0], [1, 0, 0], [1, 0, 1]]), np.array([2, 1, 1]))
    release = frontier("A", "C")
    sharp = cell_bounds(table, knows(table, release, zeros), table.codes, "enumeration")
    assert (sharp.outer == sharp.counts[:, None]).all()
    cells = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], np.uint16)
    exchange = Differences(np.array([0, 4]), cells, np.array([-1, 1, 1, -1]))
    apart = Decomposition((0b01, 0b10), (0,))
    part = ComponentProof(0b101, None, exchange) if as_difference else ComponentProof(0b101, apart, Differences.none(2))
    proof = Proof((part, ComponentProof(0b010, None, Differences.none(1))), (0,))
    certificate = Certificate(table.digest, before(table, zeros), release, 2, 1, proof)
    found = verify(forged(tmp_path / "run", table, certificate, sharp))
    assert found.certified_cells == 0
    assert not [failure for failure in found.failures if "outer interval that feasible tables leave" in failure]
    assert not found.verified


# Tables of all kinds


def proven_bounds(table: Table, certificate: Certificate) -> CellBounds:
    """What the certificate supports, by the modules of the search, within the exact bounds."""
    cells = table.codes[table.at_risk(certificate.small_count)]
    exact = cell_bounds(table, certificate.knowledge, cells, "enumeration")
    counts = table.count_at(cells)
    moved = walk.reached(only(certificate).differences, cells, counts, table)
    covered = covering_bounds(CellMarginals(table, cells), certificate.knowledge)
    inner = np.stack([np.minimum(moved[:, 0], covered[:, 0]), np.maximum(moved[:, 1], covered[:, 1])], axis=1)
    return CellBounds(cells, counts, exact.outer, inner, "moves")


@hs.composite
def at_risk_cases(draw: hs.DrawFn, min_size: int = 2) -> tuple[Table, Knowledge]:
    cases = tables_and_releases(max_records=6, min_size=min_size)
    table, release = draw(cases.filter(lambda case: (case[0].counts <= 2).any()))
    return table, knows(table, release, draw(structural_zeros(table)))


@settings(max_examples=60)
@given(case=at_risk_cases(), min_width=hs.integers(1, 4))
def test_exactly_what_the_evidence_supports_is_accepted(
    case: tuple[Table, Knowledge], min_width: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    table, known = case
    certificate = evidence(table, known.release, 2, min_width, known.zeros)
    bounds = proven_bounds(table, certificate)
    run = forged(tmp_path_factory.mktemp("case") / "run", table, certificate, bounds)
    found = verify(run)
    assert found.failures == ()
    assert found.at_risk_cells == len(bounds)
    assert found.certified_cells == int((bounds.inner_width >= min_width).sum())
    cells_with(adding("inner_upper", 1))(run)
    record(run)
    assert [failure for failure in verify(run).failures if "claims a wider inner interval; so 1 of" in failure]


def assert_nothing_beyond(sharp: CellBounds, certificate: Certificate, table: Table, folder: Path) -> Verification:
    """Whatever is called proven, the enumeration of all feasible tables has."""
    found = verify(forged(folder / "run", table, certificate, sharp))
    assert found.certified_cells <= int((sharp.outer_width >= certificate.min_width).sum())
    assert not [failure for failure in found.failures if "outer interval that feasible tables leave" in failure]
    return found


@settings(max_examples=200)
@given(case=at_risk_cases(), seed=hs.integers(0, 2**32 - 1))
def test_no_random_evidence_certifies_beyond_the_sharp_bounds(
    case: tuple[Table, Knowledge], seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Covers and differences at random: whatever is called proven, the enumeration of all feasible tables has."""
    table, known = case
    rng = np.random.default_rng(seed)
    cover, differences = random_cover(rng, len(table.schema)), random_differences(rng, table)
    if rng.random() < 0.7:
        public = [c & int(rng.integers(0, 1 << len(table.schema))) for c in cover.cliques]
        known = replace(known, release=Release.of(public))
    certificate = Certificate(
        table.digest, before(table, known.zeros), known.release, 2, 1, alone(table, cover, differences)
    )
    sharp = cell_bounds(table, known, table.codes[table.at_risk(2)], "enumeration")
    assert_nothing_beyond(sharp, certificate, table, tmp_path_factory.mktemp("random"))


def random_cover(rng: np.random.Generator, variables: int) -> Decomposition:
    """Any cliques, mostly with what they share with earlier ones as separators."""
    cliques = tuple(int(c) for c in rng.integers(0, 1 << variables, rng.integers(1, 5)))
    separators = tuple(int(s) for s in rng.integers(0, 1 << variables, len(cliques) - 1))
    return Decomposition(cliques, shared(cliques) if rng.random() < 0.9 else separators)


def shared(parts: Sequence[int]) -> tuple[int, ...]:
    """What each but the first has of those before it."""
    return tuple(part & Release.of(parts[:j]).variables for j, part in enumerate(parts) if j)


def random_differences(rng: np.random.Generator, table: Table) -> Differences:
    number = int(rng.integers(1, 8))
    of = np.sort(rng.integers(0, number, 12))
    cells = rng.integers(0, table.schema.sizes, (12, len(table.schema))).astype(np.uint16)
    return Differences.summed(number, of, cells, rng.integers(-2, 3, 12), table.schema)


def random_parts(rng: np.random.Generator, variables: int, release: Release) -> list[int]:
    """Components of a random junction tree, or the finest of the release, and often one thing wrong with them."""
    parts: list[int] = []
    for v in rng.permutation(variables).tolist():
        host = parts[rng.integers(len(parts))] if parts else 0
        keep = st.of(u for u in st.members(host) if rng.random() < 0.6)
        if parts and rng.random() < 0.4:
            parts[-1] |= 1 << v
        else:
            parts.append(keep | 1 << v)
    kind = rng.random()
    if kind < 0.3:
        parts = list(components(release, variables).cliques)
    elif kind < 0.7:  # a junction tree that has all that is released, and separators that are not
        filled = graph.chordal_cover(Release.of([*release.frontier, *(1 << v for v in range(variables))]), variables)
        parts = list(graph.perfect_sequence(filled.frontier).cliques)
    place = int(rng.integers(len(parts)))
    if rng.random() < 0.3:
        kind = rng.integers(4)
        if kind == 0:
            parts[place] ^= 1 << int(rng.integers(variables))
        elif kind == 1:
            parts.pop(place)
        elif kind == 2:
            parts.append(int(rng.integers(0, 1 << variables)))
        else:
            parts = [parts[k] for k in rng.permutation(len(parts))]
    return [part for part in parts if part]


def random_part(rng: np.random.Generator, table: Table, known: Knowledge, variables: int) -> ComponentProof:
    """Of a component, mostly with a true cover and true differences among any others."""
    inside, public = table.marginal(variables), rewritten(known.release.frontier, variables)
    zeros = known.zeros.within(variables)
    honest = only(evidence(inside, public, 2, 1, zeros)) if len(inside.at_risk(2)) else alone_in(inside)
    cover = honest.cover if rng.random() < 0.7 else random_cover(rng, len(inside.schema))
    kinds = [honest.differences, random_differences(rng, inside)]
    return ComponentProof(variables, cover, Differences.concatenated(kinds if rng.random() < 0.5 else kinds[:1]))


def alone_in(table: Table) -> ComponentProof:
    return ComponentProof(0, None, Differences.none(len(table.schema)))


@settings(max_examples=300)
@given(case=at_risk_cases(min_size=1), seed=hs.integers(0, 2**32 - 1))
def test_no_random_components_certify_beyond_the_sharp_bounds(
    case: tuple[Table, Knowledge], seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Junction trees that fit the release or do not, and true and false evidence of each of their components."""
    table, known = case
    rng = np.random.default_rng(seed)
    variables = len(table.schema)
    parts = random_parts(rng, variables, known.release)
    separators = [s if rng.random() < 0.85 else s & int(rng.integers(1 << variables)) for s in shared(parts)]
    if rng.random() < 0.3:
        public = [p & int(rng.integers(1 << variables)) for p in parts for _ in range(2)]
        known = replace(known, release=Release.of([*public, *(s for s in separators if rng.random() < 0.95)]))
    if not parts:
        return
    proof = Proof(tuple(random_part(rng, table, known, part) for part in parts), tuple(separators))
    if len({st.dimension(part) for part in parts[:2]}) < len(parts[:2]) and rng.random() < 0.3:
        proof = replace(proof, parts=swapped(proof.parts))
    certificate = Certificate(table.digest, before(table, known.zeros), known.release, 2, 1, proof)
    sharp = cell_bounds(table, known, table.codes[table.at_risk(2)], "enumeration")
    assert_nothing_beyond(sharp, certificate, table, tmp_path_factory.mktemp("random"))


@settings(max_examples=80)
@given(case=at_risk_cases(), min_width=hs.integers(1, 4))
def test_what_a_criterion_proves_by_components_is_accepted(
    case: tuple[Table, Knowledge], min_width: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """All of its claims, which for tables so small are the sharp bounds, and not one more."""
    table, known = case
    bounds, certificate = proven(table, known.release, 2, min_width, known.zeros)
    sharp = cell_bounds(table, known, bounds.cells, "enumeration")
    assert np.array_equal(bounds.inner, sharp.outer)
    run = forged(tmp_path_factory.mktemp("case") / "run", table, certificate, bounds)
    certified = int((bounds.inner_width >= min_width).sum())
    assert verify(run) == Verification(len(bounds), certified, certificate.proof.differences, (), ANY, ANY)
    cells_with(adding("inner_upper", 1))(run)
    record(run)
    assert [failure for failure in verify(run).failures if "claims a wider inner interval; so 1 of" in failure]


def test_a_difference_that_fills_an_impossible_cell(tmp_path: Path) -> None:
    """What is feasible without the structural zero fills its cell; with it the evidence is none."""
    table = czech()
    certificate = replace(evidence(table, KDSF, 2, 6), known=before(table, NEVER))
    found = only(certificate).differences
    filling = {d for d, (cells, _) in enumerate(found) if (cells == EMPTY).all(axis=1).any()}
    assert filling
    failures = verify(forged(tmp_path / "run", table, certificate, sharp_bounds(table))).failures
    assert any(f"{len(filling)} of {len(found)} differences" in failure for failure in failures)
    assert any("says releasable, but" in failure for failure in failures)


def unproven_run(folder: Path, undecided: str) -> Path:
    """Published though nothing proves it, and not called safe."""
    table = czech()
    nothing, sharp = alone(table, None, Differences.none(6)), sharp_bounds(table)
    certificate = Certificate(table.digest, before(table), KDSF, 2, 6, nothing)
    unmoved = np.stack([sharp.counts, sharp.counts], axis=1)
    bounds = CellBounds(sharp.cells, sharp.counts, sharp.outer, unmoved, "none")
    return published(forged(folder, table, certificate, bounds, undecided=undecided))


def test_released_without_proof_is_said_where_the_config_allows_it(tmp_path: Path) -> None:
    found = verify(unproven_run(tmp_path / "run", "outer"))
    assert (found.verified, found.certified_cells, len(found.uncertified)) == (True, 0, 3)
    assert found.notes == ("released without proof for 3 cells (policy outer)",)


def test_released_without_proof_fails_otherwise(tmp_path: Path) -> None:
    found = verify(unproven_run(tmp_path / "run", "refuse"))
    assert found.failures == ("released without proof for 3 cells (policy refuse)",)


def test_undecided_and_not_released_holds(tmp_path: Path) -> None:
    run = unproven_run(tmp_path / "run", "refuse")
    shutil.rmtree(run / "release")
    record(run)
    found = verify(run)
    assert (found.failures, found.certified_cells) == ((), 0)
    assert found.notes == ("3 cells are not proven, and nothing is released",)


# The files


def test_the_same_certificate_gives_the_same_bytes(honest: Path, tmp_path: Path) -> None:
    schema = czech().schema
    certificate = read_certificate(honest / "assessment", schema)
    write_certificate(certificate, schema, tmp_path)
    for name in ("certificate.json", "differences_0.parquet"):
        assert (tmp_path / name).read_bytes() == (honest / "assessment" / name).read_bytes()


def test_variables_may_have_the_names_of_columns(tmp_path: Path) -> None:
    schema = Schema((Variable("difference", ("a", "b")), Variable("change", ("c", "d")), Variable("exact", ("e", "f"))))
    table = Table.of(schema, np.array(list(np.ndindex(2, 2, 2))), np.array([1, 9, 9, 9, 9, 9, 9, 9]))
    certificate = evidence(table, frontier("AB", "BC", "AC"), 2, 1)
    run = forged(tmp_path / "run", table, certificate, proven_bounds(table, certificate))
    assert verify(run) == Verification(1, 1, certificate.proof.differences)


def test_empty_differences_are_left_out(tmp_path: Path) -> None:
    schema = czech().schema
    cells, changes = np.zeros((2, 6), np.uint16), np.array([1, -1])
    found = Differences(np.array([0, 0, 1, 1, 2, 2]), cells, changes)
    write_certificate(
        Certificate("", before(czech()), frontier("A"), 2, 6, alone(czech(), None, found)), schema, tmp_path
    )
    again = only(read_certificate(tmp_path, schema)).differences
    assert again.start.tolist() == [0, 1, 2]
    assert again.changes.tolist() == [1, -1]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"difference": np.array([-1, 0])}, r"not numbered 0, 1, \.\.\. in order"),
        ({"difference": np.array([0, 2])}, r"not numbered 0, 1, \.\.\. in order"),
        ({"difference": np.array([1, 0])}, r"not numbered 0, 1, \.\.\. in order"),
        ({"change": np.array([1.0, -1.0])}, r"its columns are not A, B, C, D, E, F, difference, change"),
        ({"more": np.array([1, 1])}, r"its columns are not A, B, C, D, E, F, difference, change"),
        ({"C": np.array([0, 2], np.uint16)}, r"column 'C' has the code 2, the variable has 2 categories"),
    ],
)
def test_differences_that_are_damaged_are_refused(columns: dict[str, Any], message: str, tmp_path: Path) -> None:
    schema = czech().schema
    found = Differences(np.array([0, 1, 2]), np.zeros((2, 6), np.uint16), np.array([1, -1]))
    write_certificate(
        Certificate("", before(czech()), frontier("A"), 2, 6, alone(czech(), None, found)), schema, tmp_path
    )
    good, _ = read_columns(tmp_path / "differences_0.parquet")
    write_columns(tmp_path / "differences_0.parquet", {**good, **columns})
    with pytest.raises(InputError, match=rf"differences_0\.parquet is damaged: .*{message}"):
        read_certificate(tmp_path, schema)


OF_A: dict[str, Any] = {"variables": ["A"], "cover": None, "differences": 0}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"min_width": "6"}, r"min_width: .* valid integer"),
        ({"min_width": True}, r"min_width: .* valid integer"),
        ({"asked": "AB"}, r"asked: .* valid array"),
        ({"asked": [["A", "Q"]]}, r"unknown variable 'Q'; the table has A, B, C, D, E, F"),
        ({"separators": [["A", "Q"]]}, r"unknown variable 'Q'; the table has A, B, C, D, E, F"),
        ({"records": "all"}, r"records: .* valid integer"),
        ({"known": {}}, r"known: release: Field required"),
        ({"more": 1}, r"more: Unexpected"),
        ({"parts": [{}]}, r"parts: 0: beside: Field required"),
        ({"parts": [{"beside": [], "facts": []}] * 2}, r"it says twice what goes out in part"),
        ({"refutations": 0}, r"refutations: .* valid array"),
        ({"components": []}, r"there is no component, or one without variables"),
        ({"components": {"variables": ["A"]}}, r"components: .* valid array"),
        ({"components": [{**OF_A, "variables": []}]}, r"there is no component, or one without variables"),
        ({"components": ["A"]}, r"components: 0: .* an object"),
        ({"components": [{"variables": ["A"], "differences": 0}]}, r"components: 0: cover: Field required"),
        (
            {"components": [{**OF_A, "variables": "A"}]},
            r"components: 0: variables: .* valid array",
        ),
        ({"components": [{**OF_A, "variables": ["Q"]}]}, r"unknown variable 'Q'; the table has A, B, C, D, E, F"),
        ({"components": [{**OF_A, "differences": True}]}, r"components: 0: differences: .* valid integer"),
        ({"components": [{**OF_A, "more": 1}]}, r"components: 0: more: Unexpected"),
        ({"components": [{**OF_A, "cover": {"cliques": [["A"]]}}]}, r"separators: Field required"),
        (
            {"components": [{**OF_A, "cover": {"cliques": [["B"]], "separators": []}}]},
            r"unknown variable 'B'; the table has A\W",
        ),
        ({"format": 2}, r"has format 2, this version reads 3"),
        ({"format": 7}, r"has format 7, this version reads 3"),
    ],
)
def test_a_certificate_that_is_damaged_is_refused(content: dict[str, Any], message: str, tmp_path: Path) -> None:
    schema = czech().schema
    proof = alone(czech(), None, Differences.none(6))
    write_certificate(Certificate("", before(czech()), frontier("A"), 2, 6, proof), schema, tmp_path)
    json_with("certificate.json", **content)(tmp_path)
    with pytest.raises(RunFolderError, match=rf"certificate\.json .*{message}"):
        read_certificate(tmp_path, schema)


@given(case=at_risk_cases(), in_components=hs.booleans())
def test_what_is_written_is_read(
    case: tuple[Table, Knowledge], in_components: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder, (table, known) = tmp_path_factory.mktemp("written"), case
    if in_components:
        _, certificate = proven(table, known.release, 2, 3, known.zeros)
    else:
        certificate = evidence(table, known.release, 2, 3, known.zeros)
    write_certificate(certificate, table.schema, folder)
    again = read_certificate(folder, table.schema)
    for name in ("table_digest", "known", "asked", "small_count", "min_width"):
        assert getattr(again, name) == getattr(certificate, name)
    assert again.proof.separators == certificate.proof.separators
    for part, other in zip(again.proof.parts, certificate.proof.parts, strict=True):
        assert (part.variables, part.cover) == (other.variables, other.cover)
        for name in ("start", "cells", "changes"):
            assert np.array_equal(getattr(part.differences, name), getattr(other.differences, name))


# The command


def command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: object
) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["sdc", *map(str, words)])
    capsys.readouterr()
    with pytest.raises(SystemExit) as exit_:
        cli.main()
    code = exit_.value.code
    return (code if isinstance(code, int) else 0, *capsys.readouterr())


def test_the_command_accepts(honest: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = command(monkeypatch, capsys, "verify", honest, "--json")
    document = json.loads(out)
    assert status == 0
    assert "3 at-risk cells" in err
    assert document == {
        "run_folder": str(honest),
        "verified": True,
        "at_risk_cells": 3,
        "certified_cells": 3,
        "differences": document["differences"],
        "refutations": 0,
        "failures": [],
        "uncertified": [],
        "notes": [],
        "known": None,
    }
    assert command(monkeypatch, capsys, "verify", honest)[1].startswith("at-risk cells 3, certified 3\n")


def test_the_command_says_what_fails(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    TAMPERINGS["a change"][0](run)
    status, out, err = command(monkeypatch, capsys, "verify", run, "--json")
    assert status == 1
    assert json.loads(out)["verified"] is False
    assert len(json.loads(out)["failures"]) >= 2
    (message,) = [line for line in err.splitlines() if line.startswith("sdc: ")]
    assert "is not verified: " in message
    assert "give no feasible table" in message


def test_the_command_refuses_what_is_no_run_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = command(monkeypatch, capsys, "verify", tmp_path, "--json")
    assert (status, json.loads(out)["status"]) == (1, 1)
    assert "is no run folder" in err
