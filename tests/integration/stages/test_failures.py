"""A build that fails, whose files were changed or whose release is not proven publishes nothing."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sdc.executor import IN_PROCESS
from sdc.feasible.witness_pool import CellRows
from sdc.model.cell_bounds import Intervals
from sdc.model.errors import ReleaseError, RunFolderError, SdcError
from sdc.publish.gate import Cleared, GateSubject
from sdc.publish.publication import write_publication
from sdc.risk.support import Support
from sdc.risk.verdict import Policy
from sdc.search.ordered import OrderedRelease, OrderedSearch
from sdc.stages import stages
from sdc.stages.build import Build, Work, open_build
from sdc.stages.stages import STAGES, Stage, run_all
from sdc.verify.run_folder import Verification
from tests.helpers.builds import (
    NAMES,
    PUBLISHED,
    Config,
    assert_nothing_published,
    built,
    document_of,
    made,
    redone,
    report_of,
)
from tests.helpers.folders import contents


def failing(name: str, error: BaseException, *, after: bool) -> tuple[Stage, ...]:
    """The stages, one of them raising an error before or after it wrote its files."""

    def fail(work: Work, into: Path) -> None:
        if after:
            whole.make(work, into)
        (into / "half.txt").write_text("half")
        raise error

    whole = next(stage for stage in STAGES if stage.name == name)
    return tuple(replace(stage, make=fail) if stage is whole else stage for stage in STAGES)


@pytest.mark.parametrize(
    ("name", "after"), [*((name, False) for name in (NAMES[0], "assessment", "release")), ("release", True)]
)
def test_a_stage_that_fails_publishes_nothing(
    name: str, after: bool, config: Config, finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = open_build(config())
    with monkeypatch.context() as patch:
        patch.setattr(stages, "STAGES", failing(name, RuntimeError("struck"), after=after))
        with pytest.raises(RuntimeError, match="struck"):
            run_all(build, IN_PROCESS)
    assert_nothing_published(build)
    assert list(build.folder.records()) == NAMES[: NAMES.index(name)]
    again, statuses = made(config())
    assert redone(statuses) == NAMES[NAMES.index(name) :]
    assert contents(again.folder.stage("release")) == contents(finished)


def test_a_disk_that_fills_up_is_a_refusal(begun: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    full = OSError(28, "No space left on device")
    monkeypatch.setattr(stages, "STAGES", failing("release", full, after=True))
    begun.folder.discard("release")
    with pytest.raises(RunFolderError, match=r"stage release cannot be written in .*No space left.*free the disk"):
        run_all(begun, IN_PROCESS)
    assert_nothing_published(begun)


def one_count_more(folder: Path) -> None:
    """Adds one to a published count; an honest hash hides it from all but the comparison with the table."""
    path, file = next(folder.glob("001_*.csv")), folder / "datapackage.json"
    head, first, *rest = path.read_text().splitlines()
    cells, count = first.rsplit(",", 1)
    path.write_text("\n".join([head, f"{cells},{int(count) + 1}", *rest]) + "\n")
    metadata = json.loads(file.read_text())
    for resource in metadata["resources"]:
        if resource["path"] == path.name:
            resource["hash"] = "sha256:" + hashlib.sha256(path.read_bytes()).hexdigest()
    file.write_text(json.dumps(metadata))


@pytest.mark.parametrize(
    ("tamper", "message"),
    [
        (one_count_more, r"001_A-B-C-D-E\.csv is not as it was written"),
        (lambda folder: (folder / "007_A-B-C-E-F.csv").write_text("A,B,C,E,F,count\n"), r"007_A-B-C-E-F\.csv"),
    ],
    ids=["another count", "file more"],
)
def test_files_that_are_not_what_was_assessed_are_refused(
    tamper: Callable[[Path], object], message: str, config: Config, begun: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error between writing and checking: nothing gets the name release/."""

    def write(cleared: Cleared, subject: GateSubject, name: str, folder: Path, **settings: Any) -> None:
        write_publication(cleared, subject, name, folder)
        tamper(folder)

    with monkeypatch.context() as patch:
        patch.setattr("sdc.stages.release.write_publication", write)
        begun.folder.discard("release")
        with pytest.raises(SdcError, match=message):
            run_all(begun, IN_PROCESS)
    assert_nothing_published(begun)
    assert redone(made(config())[1]) == ["release"]


@pytest.fixture
def unproven(monkeypatch: pytest.MonkeyPatch) -> int:
    """Evidence for no release of more than 40 sub-tables: there the true table is all that is known."""
    evident, below = Support.inner_at, Support.below

    def is_large(support: Support) -> bool:
        return support.knowledge.release.sub_tables(support.knowledge.schema) > 40

    def inner_at(self: Support, rows: CellRows) -> Intervals:
        counts = self.pool.at_risk.counts[rows]
        return np.stack([counts, counts], axis=1) if is_large(self) else evident(self, rows)

    def all_below(self: Support, value: int) -> CellRows:
        return np.arange(len(self.pool.at_risk)) if is_large(self) else below(self, value)

    monkeypatch.setattr(Support, "inner_at", inner_at)
    monkeypatch.setattr(Support, "below", all_below)
    return 40


def test_undecided_is_not_released(unproven: int, config: Config) -> None:
    build = built(config())
    assert build.made.found.release.sub_tables(build.made.table.schema) <= unproven
    assert any(step.answer is None for step in build.made.found.steps)
    assert document_of(build, "assessment", "assessment.json")["releasable"] is True


def test_undecided_is_released_where_the_config_says_so(
    unproven: int, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = built(config(risk={"accept_undecided": True}))
    assert build.made.found.release.sub_tables(build.made.table.schema) == 59
    assessment = document_of(build, "assessment", "assessment.json")
    assert (assessment["releasable"], assessment["undecided_cells"], assessment["min_width"]) == (None, 3, [0, 9])
    assert {path.name for path in build.folder.stage("release").iterdir()} == PUBLISHED
    report = report_of(build)
    assert "undecided" in report.lower()
    # a rerun has the gate judge what is not proven, and ends
    monkeypatch.setattr("sdc.stages.release.verify_release", lambda *of: Verification(at_risk_cells=3))
    assert redone(made(config(risk={"accept_undecided": True}))[1]) == []
    monkeypatch.setattr("sdc.stages.release.clear", failing_gate)
    with pytest.raises(ReleaseError, match="release is not valid: struck"):
        made(config(risk={"accept_undecided": True}))


def failing_gate(*of: object, **more: object) -> None:
    raise ReleaseError("struck")


def test_an_undecided_release_is_not_published_whatever_the_search_says(
    unproven: int, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last gate does not trust the search: here it accepts what nothing proved."""
    accepting = OrderedSearch.run

    def run(self: OrderedSearch) -> OrderedRelease:
        return accepting(replace(self, evaluator=replace(self.evaluator, policy=Policy.OUTER)))

    monkeypatch.setattr(OrderedSearch, "run", run)
    build = open_build(config())
    refusal = (
        r"not proven safe \(3 cells are undecided, min width between 0 and 9, required 6\); .*, see .*report\.html"
    )
    with pytest.raises(ReleaseError, match=refusal):
        run_all(build, IN_PROCESS)
    assert_nothing_published(build)
    assert (build.folder.stage("confidential") / "report.html").is_file()
