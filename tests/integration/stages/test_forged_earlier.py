"""Run folders forged to ignore what was published before: neither verified nor published, whatever they say of it.

The forger has an honest table and an honest certificate: of a release that was judged as if nothing was known. What the
last check lets through is judged by enumeration, which shares no code with it.
"""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from sdc.api import find_release
from sdc.canonical import digest_of
from sdc.commands.cli import app
from sdc.executor import IN_PROCESS
from sdc.model import subtable as st
from sdc.model.errors import ReleaseError
from sdc.model.release import NOTHING, Release
from sdc.model.table import Table
from sdc.progress import MeasuringExecutor
from sdc.publish.gate import clear
from sdc.publish.publication import write_publication
from sdc.record.ledger import new_ledger, read_ledger
from sdc.stages.build import Build, Work, open_build
from sdc.stages.search import certificate_of
from sdc.stages.stages import run_all, stages_of
from sdc.stages.verified import verify_run
from sdc.storage import results
from sdc.storage.certificate import write_certificate
from sdc.storage.proofs import write_refutations
from sdc.storage.run_folder import Manifest, StageRecord, folder_digest, write_json
from sdc.verify.run_folder import verify
from tests import reference
from tests.helpers import builds
from tests.helpers.builds import write_counts
from tests.helpers.clearing import cleared_of
from tests.integration.public.test_check import Told, facts, marginal, part, recoded
from tests.profiles import scaled
from tests.strategies import dense, evaluator_of, knows, schema_of

SMALL_COUNT, MIN_WIDTH, CASES = 2, 2, scaled(200, fewest=20)
LACKING = "the prior knowledge has other sub-tables than table/known.json"
MOST_RECORDS = 10  # so that all tables can be listed
RISK = {"small_count": SMALL_COUNT, "min_width": MIN_WIDTH}


def case(random: np.random.Generator) -> tuple[Table, Told]:
    """A small table each of whose categories has a record, and a publication of it: as it is, coarser, or of a part."""
    while True:
        schema = schema_of([[2, 3], [3, 3], [2, 2, 2]][random.integers(3)])
        table = dense(schema, random.choice([0, 1, 2, 3], schema.cells, p=[0.2, 0.3, 0.3, 0.2]).tolist())
        small = table.total <= MOST_RECORDS and (table.counts <= SMALL_COUNT).any()
        if small and all(counts.all() for counts in table.one_way()):
            break
    kept, kind = int(random.integers(1, 1 << len(schema))), random.integers(3)
    if kind == 0:
        return table, marginal(table, kept, "before")
    if kind == 1:
        return table, recoded(table, kept, int(random.integers(1, schema.sizes[st.members(kept)[0]])), "before")
    return table, part(table, kept, int(random.integers(1, schema.sizes[-1])), "before")


def is_safe(table: Table, release: Release, told: Told) -> bool:
    """Whether every small count keeps its width over all tables with the total, the release and what was told."""
    counts = table.dense
    public = [st.members(element) for element in release.frontier]
    return reference.is_releasable(counts, public, SMALL_COUNT, MIN_WIDTH, facts(table.schema, told))


def config(folder: Path, earlier: list[dict[str, Any]], **more: Any) -> Path:
    # the forger writes what a proof needs, no sharp bounds
    sections = {"name": "t", "table": {"path": "table.csv"}, "risk": RISK, "earlier": earlier, "assessment": "proven"}
    return builds.written(folder, digest_of([earlier, more])[:8], **sections | more)


def written(folder: Path, table: Table, told: Told) -> Build:
    """The build of a table in a folder, beside what was told of it."""
    (folder / "before").mkdir(parents=True)
    write_counts(folder / "table.csv", table)
    write_counts(folder / "before" / "1.csv", told[0].table)
    relation = told[1].model_dump(mode="json", exclude_defaults=True) | {"folder": "before"}
    return open_build(config(folder, [relation]))


def forged(build: Build, how: str) -> Release | None:
    """Writes the stages of a run that ignores what was before; None where nothing is released even so.

    how  what table/ says of it then: the truth, that nothing was, or no word; or, as the certificate too, the truth
    """
    folder, every = build.folder, stages_of(build.config)
    for stage in every:
        folder.stage(stage.name).mkdir(parents=True)
    for stage in every[:2]:  # the table and its widths, by which verify tells what was asked about
        work = Work(build, stage.name, "", MeasuringExecutor(IN_PROCESS), lambda text: None)
        stage.make(work, folder.stage(stage.name))
    table, hidden = build.made.table, build.origin.hidden
    ignorant = knows(table, NOTHING, build.made.known.zeros)
    try:
        found = find_release(table, "ordered", ignorant, **RISK, forbid=hidden)
    except ReleaseError:
        return None
    note = folder.stage("table") / "known.json"
    if how == "nothing":
        write_json(note, {**json.loads(note.read_text()), "release": [], "facts": [], "hidden": []})
    elif how == "no word":
        note.unlink()
    assessed, release = folder.stage("assessment"), found.release
    results.write_search(found, table.schema, folder.stage("search"))
    write_refutations(found.refutations, table, build.criteria, folder.stage("search"))
    claimed = certificate_of(build, release, found.proof)
    if how != "truth in both":
        claimed = replace(claimed, known=ignorant)
    write_certificate(claimed, table.schema, folder.stage("search"))
    evaluator = evaluator_of(table, MIN_WIDTH, small_count=SMALL_COUNT, zeros=build.made.known.zeros)
    evaluation, bounds = evaluator.examine(release)
    results.write_assessment(evaluation.assessment, bounds, table.schema, assessed)
    write_certificate(replace(claimed, proof=evaluation.proof), table.schema, assessed)
    write_publication(cleared_of(table, release, build.gate_input), build.gate_input, "t", folder.stage("release"))
    outputs, records = dict[str, str](), list[StageRecord]()
    for stage in every:
        outputs[stage.name] = folder_digest(folder.stage(stage.name))
        key = stage.key(build, outputs)
        records.append(StageRecord(stage.name, key, outputs[stage.name], "done", 0.0, None, None))
    content = build.config.recorded(), build.digests, build.head
    folder.write_manifest(Manifest("t", *content, tuple(outputs), tuple(records)))
    return release


def test_what_ignores_earlier_is_neither_verified_nor_let_through(tmp_path: Path, night: list[int]) -> None:
    random = np.random.default_rng([39, 3, *night])
    refused, passed, unsafe = 0, 0, 0
    for number in range(CASES):
        table, told = case(random)
        build = written(tmp_path / str(number), table, told)
        how = ("truth in both", "truth", "nothing", "no word")[number % 4]
        if (release := forged(build, how)) is None:
            continue
        fault = stages_of(build.config)[-1].error(build, build.folder.stage("release"), False)
        found = verify_run(build.folder.path)
        assert found.verified == (not fault), (number, fault, found.failures)
        safe = is_safe(table, release, told)
        unsafe += not safe
        refused, passed = refused + bool(fault), passed + (not fault)
        # a proof that holds beside what was before is no forgery: it is what an honest build may find
        assert fault or (safe and how == "truth in both"), number
        assert found.known == "read again from all that the config names" or fault
        shutil.rmtree(tmp_path / str(number))
    assert min(passed, unsafe) > CASES // 40
    assert refused > CASES / 2


@pytest.fixture
def forgery(tmp_path: Path) -> Build:
    """A*B and C may go out, and so could B*C before, but not both: a run that ignores the latter."""
    table = dense(schema_of([2, 2, 2]), [3, 1, 0, 0, 0, 3, 2, 0])
    told = marginal(table, 0b110, "before")
    build = written(tmp_path, table, told)
    release = forged(build, "truth")
    assert release == Release.of([0b011, 0b100])
    assert [is_safe(table, one, told) for one in (Release.of([]), release)] == [True, False]
    return build


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_forged_run_is_not_published_by_a_rerun(forgery: Build, elsewhere: bool) -> None:
    """From another folder its stages are taken over, and the release is not; in the run folder itself it is refused."""
    folder = forgery.folder.path
    if elsewhere:
        folder.rename(folder.with_name("0123456789abcdef"))
        said = list[str]()
        with pytest.raises(
            ReleaseError, match=r"the certificate lacks B\*C, which is known of the table; nothing is publ"
        ):
            run_all(Build(forgery.config), IN_PROCESS, said.append)
        assert any("release: existing outputs are not reused: " in line and LACKING in line for line in said)
        assert not (folder / "release").exists()
    else:
        with pytest.raises(ReleaseError, match=f"release is not valid: .*{LACKING}"):
            run_all(Build(forgery.config), IN_PROCESS)


def test_what_the_gate_lets_through_is_verified_beside_what_was_before(
    forgery: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    ignorant = knows(forgery.made.table, NOTHING, forgery.made.known.zeros)
    forgery.folder.discard("release")
    monkeypatch.setattr(
        "sdc.stages.release.clear", lambda table, known, *of, **more: clear(table, ignorant, *of, **more)
    )
    with pytest.raises(ReleaseError, match=f"{LACKING}.*nothing is released"):
        run_all(Build(forgery.config), IN_PROCESS)
    assert not (forgery.folder.path / "release").exists()


def test_verify_says_where_what_was_known_is_from(forgery: Build, tmp_path: Path) -> None:
    """Where the publication is gone, what the run folder says of it must do; what that lists is never left out."""
    folder = forgery.folder.path
    shutil.rmtree(folder)
    honest = Build(forgery.config)
    run_all(honest, IN_PROCESS)
    assert known_of(folder) == "read again from all that the config names"
    (tmp_path / "before").rename(tmp_path / "away")
    assert str(known_of(folder)).startswith("as recorded in the run folder alone: ")
    shutil.rmtree(folder)
    (tmp_path / "away").rename(tmp_path / "before")
    forged(Build(forgery.config), "truth")
    shutil.rmtree(tmp_path / "before")
    assert LACKING in verify_run(folder).failures[0]
    assert LACKING in verify(folder).failures[0]


def known_of(folder: Path) -> Any:
    """What the command says, in both ways."""
    told = CliRunner().invoke(app, ["verify", str(folder), "--json"])
    known = json.loads(told.stdout)["known"]
    assert f"known before  {known}" in CliRunner().invoke(app, ["verify", str(folder)]).stdout
    return known


def test_verify_asks_the_ledger_what_came_before(tmp_path: Path) -> None:
    """Another head than the one it was judged with, one that never was, and a ledger that has no such entry."""
    table, _ = case(np.random.default_rng(39))
    write_counts(tmp_path / "table.csv", table)
    new_ledger(tmp_path / "led")
    shutil.copy(tmp_path / "led", tmp_path / "copy")
    first, second = (entered(tmp_path, breadth) for breadth in (1, 2))
    ledger = read_ledger(tmp_path / "led")
    assert [len(ledger.up_to(build.head or "").entries) for build in (first, second)] == [0, 1]
    assert verify_run(first.folder.path).verified
    assert verify_run(second.folder.path).verified
    failing(second, first.head, "has other earlier publications")
    failing(second, "1" * 64, "never had the head 111111111111")
    shutil.copy(tmp_path / "copy", tmp_path / "led")
    failing(first, first.head, r"does not have .*/release as entry 1")


def test_verify_asks_the_ledger_that_a_given_config_names(tmp_path: Path) -> None:
    """Of two copies one has the entry."""
    table, _ = case(np.random.default_rng(39))
    write_counts(tmp_path / "table.csv", table)
    new_ledger(tmp_path / "led")
    for suffix in ("", ".key"):
        shutil.copy(tmp_path / f"led{suffix}", tmp_path / f"copy{suffix}")
    first = entered(tmp_path, 1)
    assert verify_run(first.folder.path, config=entering(tmp_path, 1)).verified
    (failure,) = verify_run(first.folder.path, config=entering(tmp_path, 1, "copy")).failures
    assert re.search(r"the ledger .*copy does not have .*/release as entry 1", failure)


def entering(folder: Path, breadth: int, ledger: str = "led") -> Path:
    return config(folder, [], ledger=ledger, risk={"min_width": 1}, release={"first_dimension": breadth})


def entered(folder: Path, breadth: int) -> Build:
    build = open_build(entering(folder, breadth))
    run_all(build, IN_PROCESS)
    return build


def failing(build: Build, head: str | None, message: str) -> None:
    build.folder.write_manifest(replace(build.folder.manifest(), ledger_head=head))
    (failure,) = verify_run(build.folder.path).failures
    assert re.search(message, failure), failure
