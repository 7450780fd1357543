"""Run folders put together from a table, a certificate and bounds; and corruptions of them that `sdc verify` must find.

After each corruption the manifest is made to say that the folder is as it was made: the check of the claims rejects
it, and not the check of the files.
"""

import json
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sdc.bounds.method import cell_bounds
from sdc.config.publication import PublicationConfig
from sdc.feasible import walk
from sdc.feasible.differences import Differences
from sdc.feasible.proof import ComponentProof, Proof
from sdc.model import graph
from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds
from sdc.model.fact import Fact
from sdc.model.graph import Decomposition
from sdc.model.knowledge import Knowledge
from sdc.model.labels import Labels
from sdc.model.release import NOTHING, Release
from sdc.model.structural_zeros import NO_ZEROS, StructuralZeros
from sdc.model.table import Table
from sdc.publish.publication import Texts, write_publication
from sdc.risk.assessment import OwnJudged
from sdc.risk.min_width import MinWidth
from sdc.risk.verdict import Verdict
from sdc.storage import results
from sdc.storage.certificate import Certificate, read_certificate, write_certificate
from sdc.storage.known import write_known
from sdc.storage.parquet import read_columns, read_written_table, write_columns, write_table
from sdc.storage.run_folder import folder_digest, write_json
from sdc.verify.run_folder import Verification, verify
from tests.helpers.clearing import SUBJECT, cleared_of
from tests.strategies import evaluator_of, knows

STAGES = ("table", "search", "assessment", "release")
Corruption = Callable[[Path], object]
Corruptions = dict[str, tuple[Corruption, str]]
"""By name: what corrupts a run folder, and the essential words of the failure."""
Honest = Callable[[str], Path]

NOT_FEASIBLE = r"\d+ differences give no feasible table"
BEYOND = "outer interval that feasible tables leave"


def before(table: Table, zeros: StructuralZeros = NO_ZEROS, facts: Sequence[Fact] = ()) -> Knowledge:
    """What was public before, without a look at the counts: of some it may not be so."""
    return Knowledge(table.schema, table.total, NOTHING, zeros, tuple(facts))


def alone(table: Table, cover: Decomposition | None, differences: Differences | None = None) -> Proof:
    none = Differences.none(len(table.schema.axes))
    return Proof((ComponentProof(st.full(len(table.schema)), cover, none if differences is None else differences),), ())


def certified(
    table: Table, release: Release, proof: Proof, min_width: int = 1, zeros: StructuralZeros = NO_ZEROS
) -> Certificate:
    return Certificate(table.digest, before(table, zeros), release, 2, min_width, proof)


def evidence(table: Table, release: Release, min_width: int = 1, zeros: StructuralZeros = NO_ZEROS) -> Certificate:
    """An honest certificate of one component: a chordal cover, and the tables that a search finds."""
    cells = table.codes[table.at_risk(2)]
    informed = Release.of([*release.frontier, *zeros.subtables])
    cover = graph.perfect_sequence(graph.chordal_cover(informed, len(table.schema)).frontier)
    found = walk.find(table, knows(table, release, zeros), cells, np.full(len(cells), table.total), nodes=10**5)
    return certified(table, release, alone(table, cover, found.differences), min_width, zeros)


def proven(
    table: Table, release: Release, min_width: int = 1, zeros: StructuralZeros = NO_ZEROS
) -> tuple[CellBounds, Certificate]:
    """An honest certificate of the components that a criterion proves the release by, and the bounds it claims."""
    evaluation, bounds = evaluator_of(table, min_width, small_count=2, zeros=zeros).examine(release)
    return bounds, certified(table, release, evaluation.proof, min_width, zeros)


def sharp_bounds(table: Table, release: Release, zeros: StructuralZeros = NO_ZEROS) -> CellBounds:
    """Of the at-risk cells, by listing the feasible tables."""
    return cell_bounds(table, knows(table, release, zeros), table.codes[table.at_risk(2)], "enumeration")


def only(certificate: Certificate) -> ComponentProof:
    (part,) = certificate.proof.parts
    return part


def with_part(certificate: Certificate, number: int = 0, **changes: Any) -> Certificate:
    parts = list(certificate.proof.parts)
    parts[number] = replace(parts[number], **changes)
    return replace(certificate, proof=replace(certificate.proof, parts=tuple(parts)))


def shared(parts: Sequence[int]) -> tuple[int, ...]:
    """What each but the first has of those before it."""
    return tuple(part & st.union(parts[:j]) for j, part in enumerate(parts) if j)


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
    results.write_assessment(answer, bounds, table.schema, folder / "assessment")
    write_certificate(certificate, table.schema, folder / "assessment")
    risk = {"small_count": certificate.small_count, "min_width": certificate.min_width, "undecided": undecided}
    stages = [{"name": name, "key": "", "output": "", "status": "done", "seconds": 0.0} for name in STAGES]
    content = {"format": 1, "name": "forged", "config": {"name": "forged", "risk": risk}}
    write_json(folder / "manifest.json", {**content, "planned": [*STAGES], "stages": stages})
    record(folder)
    return folder


def published(run: Path, release: Release, **about: Any) -> Path:
    (run / "release").mkdir()
    cleared, texts = cleared_of(read_written_table(run / "table"), release), Texts(PublicationConfig(**about), Labels())
    write_publication(cleared, SUBJECT, "forged", run / "release", texts=texts)
    manifest = json.loads((run / "manifest.json").read_text())
    entry = {**manifest["stages"][0], "name": "release"}
    write_json(run / "manifest.json", {**manifest, "stages": [*manifest["stages"], entry]})
    record(run)
    return run


def record(run: Path) -> None:
    manifest = json.loads((run / "manifest.json").read_text())
    kept = [entry for entry in manifest["stages"] if (run / entry["name"]).is_dir()]
    stages = [{**entry, "output": folder_digest(run / entry["name"])} for entry in kept]
    write_json(run / "manifest.json", {**manifest, "stages": stages})


def made_once(factory: pytest.TempPathFactory, of: dict[str, Callable[[Path], Path]]) -> Honest:
    """Run folders by name, made when first asked for; they are copied before they are corrupted."""
    return cache(lambda name: of[name](factory.mktemp(name) / "run"))


def copy_of(run: Path, folder: Path) -> Path:
    return Path(shutil.copytree(run, folder / "copy"))


def rejected(run: Path, corrupt: Corruption, words: str) -> Verification:
    """A corrupt run folder, recorded as if it were as made, is not verified, and a failure has these words."""
    corrupt(run)
    record(run)
    found = verify(run)
    assert not found.verified
    assert re.search(words, "\n".join(found.failures)), found.failures
    return found


def certificate_with(change: Callable[[Certificate, Table], Certificate]) -> Corruption:
    """Writes another certificate in the place of the honest one."""

    def corrupt(run: Path) -> None:
        table = read_written_table(run / "table")
        certificate = read_certificate(run / "assessment", table.schema)
        write_certificate(change(certificate, table), table.schema, run / "assessment")

    return corrupt


def claiming(**changes: Any) -> Corruption:
    return certificate_with(lambda c, t: replace(c, **changes))


def asking(change: Callable[[Release], Release]) -> Corruption:
    return certificate_with(lambda c, t: replace(c, asked=change(c.asked)))


def proof_with(change: Callable[[Proof], Proof]) -> Corruption:
    return certificate_with(lambda c, t: replace(c, proof=change(c.proof)))


def part_with(number: int = 0, **changes: Any) -> Corruption:
    return certificate_with(lambda c, t: with_part(c, number, **changes))


def cover_of(number: int, *cliques: int) -> Corruption:
    return part_with(number, cover=Decomposition(cliques, shared(cliques)))


def differences_with(change: Callable[[Differences, Table], Differences], number: int = 0) -> Corruption:
    return certificate_with(lambda c, t: with_part(c, number, differences=change(c.proof.parts[number].differences, t)))


def adding_difference(more: Differences, number: int = 0) -> Corruption:
    return differences_with(lambda found, table: Differences.concatenated([found, more]), number)


def one_change_more(found: Differences, table: Table) -> Differences:
    changes = found.changes.copy()
    changes[0] += 1
    return Differences(found.start, found.cells, changes)


def edited(name: str, change: Callable[[Any], object]) -> Corruption:
    """A JSON document of the run folder, changed in place."""

    def corrupt(run: Path) -> None:
        content = json.loads((run / name).read_text())
        change(content)
        write_json(run / name, content)

    return corrupt


def json_with(name: str, **changes: Any) -> Corruption:
    return edited(name, lambda content: content.update(changes))


def component_with(number: int, **changes: Any) -> Corruption:
    return edited("assessment/certificate.json", lambda content: content["components"][number].update(changes))


def cells_with(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Corruption:
    def corrupt(run: Path) -> None:
        columns, metadata = read_columns(run / "assessment" / "cells.parquet")
        columns = {name: column.copy() for name, column in columns.items()}
        write_columns(run / "assessment" / "cells.parquet", change(columns), metadata)

    return corrupt


def adding(name: str, number: int) -> Corruption:
    def changed(columns: dict[str, Any]) -> dict[str, Any]:
        columns[name][0] += number
        return columns

    return cells_with(changed)


def removing(name: str) -> Corruption:
    return lambda run: (run / name).unlink()


def replacing(name: str, pattern: str, by: str) -> Corruption:
    """Another text at the first place of the file that is so."""

    def corrupt(run: Path) -> None:
        (path,) = run.glob(name)
        text = path.read_text()
        assert re.search(pattern, text)
        path.write_text(re.sub(pattern, by, text, count=1))

    return corrupt


def in_turn(*corruptions: Corruption) -> Corruption:
    return lambda run: [corrupt(run) for corrupt in corruptions]
