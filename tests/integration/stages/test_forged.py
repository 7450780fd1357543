"""Forged run folders: whoever may write what a build has stored may stop it, but not make it publish too much.

A forger replaces a release by a wider one, in any of the stages, with evidence of several kinds, and recomputes every
digest and every key as the program would. What is public after a rerun is judged by enumeration, which shares no code
with the search and its proofs.
"""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

from sdc.bounds.method import cell_bounds
from sdc.executor import IN_PROCESS
from sdc.feasible.differences import Differences
from sdc.feasible.proof import ComponentProof, Proof
from sdc.model import subtable as st
from sdc.model.errors import ReleaseError, SdcError
from sdc.model.graph import Decomposition
from sdc.model.release import Release
from sdc.model.table import Table
from sdc.publish.publication import write_publication
from sdc.risk.criteria import Criteria
from sdc.stages.build import Build, open_build
from sdc.stages.stages import run_all, stages_of
from sdc.storage.certificate import read_certificate, write_certificate
from sdc.storage.run_folder import StageRecord, folder_digest, write_json
from tests.helpers import builds
from tests.helpers.builds import write_counts
from tests.helpers.clearing import cleared_of
from tests.profiles import scaled
from tests.strategies import dense, knows, schema_of

SMALL_COUNT, MIN_WIDTH = 2, 6
TABLE = dense(schema_of([2, 2, 2, 2]), [4, 0, 7, 5, 1, 6, 0, 3, 2, 8, 9, 0, 5, 1, 6, 4])
FULL = 0b1111
WIDER = [
    Release.of([FULL]),
    Release.of([0b0111, 0b1011, 0b1101, 0b1110]),
    Release.of([0b0111, 0b1110, 0b1001]),
    Release.of([0b0111, 0b1101]),
    Release.of([0b1011, 0b1110, 0b0101]),
]


def built(folder: Path) -> Path:
    """An honest build; everything that it stores is in one run folder."""
    write_counts(folder / "table.csv", TABLE)
    risk = {"small_count": SMALL_COUNT, "min_width": MIN_WIDTH}
    builds.built(builds.written(folder, "honest", table={"path": str(folder / "table.csv")}, risk=risk))
    return folder


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a build, not to be touched."""
    return built(tmp_path_factory.mktemp("forged"))


def copied(honest: Path, folder: Path) -> Build:
    """A copy of the build to forge."""
    shutil.copytree(honest, folder)
    settings = yaml.safe_load((folder / "honest.yaml").read_text())
    settings["output"]["folder"] = str(folder / "runs")
    (folder / "honest.yaml").write_text(yaml.safe_dump(settings))
    return open_build(folder / "honest.yaml")


# Evidence that a forger makes


def kept(table: Table, release: Release, honest: Proof) -> Proof:
    """That of the release that was found."""
    return honest


def nothing(table: Table, release: Release, honest: Proof) -> Proof:
    return Proof((ComponentProof(FULL, None, Differences.none(4)),), ())


def invented(table: Table, release: Release, honest: Proof) -> Proof:
    """Differences that give every at-risk cell ten records more, out of nowhere."""
    cells = table.codes[table.at_risk(SMALL_COUNT)]
    differences = Differences(np.arange(len(cells) + 1), cells, np.full(len(cells), 10))
    return Proof((ComponentProof(FULL, None, differences),), ())


def apart(table: Table, release: Release, honest: Proof) -> Proof:
    """A cover that says that the variables have nothing to do with each other."""
    cover = Decomposition((0b0001, 0b0010, 0b0100, 0b1000), (0, 0, 0))
    return Proof((ComponentProof(FULL, cover, Differences.none(4)),), ())


def components_apart(table: Table, release: Release, honest: Proof) -> Proof:
    """The same of components."""
    parts = (ComponentProof(1 << v, Decomposition((1,), ()), Differences.none(1)) for v in range(4))
    return Proof(tuple(parts), (0, 0, 0))


EVIDENCE = [kept, nothing, invented, apart, components_apart]
FORGED = [("assessment",), ("search", "assessment"), ("assessment", "release"), ("search", "assessment", "release")]


# What a forger writes


def forge(build: Build, release: Release, evidence: Callable[..., Proof], stages: tuple[str, ...]) -> None:
    """Puts the wider release into these stages, and makes the manifest agree with it."""
    folder, schema = build.folder, build.made.table.schema
    frontier = [st.names(element, schema) for element in release.frontier]
    for stage in stages:
        path = folder.stage(stage)
        if stage == "search":
            changed(path / "search.json", frontier=frontier)
        if stage in ("search", "assessment"):
            certificate = read_certificate(path, schema)
            proof = evidence(build.made.table, release, certificate.proof)
            for old in path.glob("differences_*.parquet"):
                old.unlink()
            write_certificate(replace(certificate, asked=release, proof=proof), schema, path)
        if stage == "assessment":
            changed(path / "assessment.json", releasable=True, verdict="safe", min_width=[99, 99], undecided_cells=0)
        if stage == "release":
            shutil.rmtree(path)
            path.mkdir()
            write_publication(
                cleared_of(build.made.table, release, build.gate_input), build.gate_input, build.config.name, path
            )
    recomputed(build)


def changed(path: Path, **facts: object) -> None:
    write_json(path, {**json.loads(path.read_text()), **facts})


def recomputed(build: Build) -> None:
    """The manifest that an honest build would have with these files: every output's digest, and every key."""
    outputs: dict[str, str] = {}
    records: list[StageRecord] = []
    for stage in stages_of(build.config):
        record = build.folder.records()[stage.name]
        outputs[stage.name] = folder_digest(build.folder.stage(stage.name))
        key = stage.key(build, outputs)
        records.append(replace(record, key=key, output=outputs[stage.name]))
    build.folder.write_manifest(replace(build.folder.manifest(), stages=tuple(records)))


def public_release(folder: Path) -> Release | None:
    """What release/ makes public; None where there is none."""
    if not (folder / "release").exists():
        return None
    resources = json.loads((folder / "release" / "datapackage.json").read_text())["resources"]
    names = [resource["sub_table"] for resource in resources if "sub_table" in resource]
    return Release.of([st.of(map(TABLE.schema.index, subtable)) for subtable in names])


def is_safe(release: Release) -> bool:
    bounds = cell_bounds(TABLE, knows(TABLE, release), TABLE.codes[TABLE.at_risk(SMALL_COUNT)], "enumeration")
    return bool((bounds.outer_width >= MIN_WIDTH).all())


CASES = [
    (release, evidence, stages, elsewhere)
    for release in WIDER
    for evidence in EVIDENCE
    for stages in FORGED
    for elsewhere in (False, True)
]


def test_the_wider_releases_are_unsafe_and_the_honest_one_is_not(honest: Path) -> None:
    assert not any(map(is_safe, WIDER))
    found = public_release(open_build(honest / "honest.yaml").folder.path)
    assert found is not None
    assert len(found.frontier) > 1
    assert is_safe(found)


def test_nothing_unsafe_is_published_whatever_was_forged(honest: Path, tmp_path: Path) -> None:
    """In the run folder itself, or in one that the run takes over from."""
    ended = list[bool]()
    for number in range(0, len(CASES), len(CASES) // min(len(CASES), scaled(len(CASES) // 2))):
        release, evidence, stages, elsewhere = CASES[number]
        folder = tmp_path / str(number)
        build = copied(honest, folder)
        forge(build, release, evidence, stages)
        run = build.folder.path
        if elsewhere:
            run.rename(run.with_name("0123456789abcdef"))
        before, refused = public_release(run), False
        try:
            run_all(open_build(folder / "honest.yaml"), IN_PROCESS)
        except SdcError:
            refused = True
        public = public_release(run)
        # what was there before stays there, and the run fails
        is_left = refused and not elsewhere and public == before
        assert public is None or is_safe(public) or is_left, (number, stages, evidence.__name__)
        ended.append(refused)
        shutil.rmtree(folder)
    assert any(ended)


def test_a_forged_release_is_refused_and_not_made_again(honest: Path, tmp_path: Path) -> None:
    build = copied(honest, tmp_path / "copy")
    forge(build, WIDER[0], invented, ("search", "assessment", "release"))
    with pytest.raises(ReleaseError, match=r"release is not valid: .* It is never replaced"):
        run_all(build, IN_PROCESS)
    assert public_release(build.folder.path) == WIDER[0]  # who finds it sees what somebody wrote


def test_what_the_gate_lets_through_is_verified_before_it_has_its_name(
    honest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gate shares its arithmetic with the search; what is public is judged by other code too."""
    build = copied(honest, tmp_path / "copy")
    forge(build, WIDER[0], invented, ("search", "assessment"))
    monkeypatch.setattr(Criteria, "unproven", lambda *arguments: 0)
    shutil.rmtree(build.folder.stage("release"))
    with pytest.raises(ReleaseError, match=r"differences give no feasible table.*nothing is released"):
        run_all(build, IN_PROCESS)
    assert not build.folder.stage("release").exists()
