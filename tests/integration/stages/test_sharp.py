"""A build with `assessment: sharp`, and `sdc bounds --sharp`: the same bytes whoever works, however often one dies."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sdc.events import EventText, heard
from sdc.executor import IN_PROCESS
from sdc.model.cell_bounds import CellBounds
from sdc.model.errors import NotReleasableError
from sdc.model.release import Release
from sdc.model.structural_zeros import StructuralZeros
from sdc.refusal import NOT_RELEASABLE, status_of
from sdc.risk.evaluator import RiskEvaluator
from sdc.risk.sharp import METHODS
from sdc.stages.build import Build, open_build
from sdc.stages.resolved import ResolvedInput
from sdc.stages.stages import run_all
from sdc.storage.results import read_assessment, read_end_methods
from sdc.verify.run_folder import verify
from tests.helpers.builds import built, document_of, report_of
from tests.helpers.commands import invoked
from tests.helpers.sharp import SECONDS, WIDTH, build, large, proven

__all__ = ["build", "proven"]


def bounds_of(build: Build) -> CellBounds:
    return read_assessment(build.folder.stage("assessment"), build.made.table, 1)[1]


def test_bounds_of_a_sharp_assessment_are_narrower_and_verified(build: Build, proven: Build) -> None:
    sharp, before = bounds_of(build), bounds_of(proven)
    assert (sharp.outer[:, 0] >= before.outer[:, 0]).all()
    assert (sharp.outer[:, 1] <= before.outer[:, 1]).all()
    assert (sharp.inner[:, 0] <= before.inner[:, 0]).all()
    assert (sharp.inner[:, 1] >= before.inner[:, 1]).all()
    assert sharp.exact.sum() > before.exact.sum()
    found = verify(build.folder.path)
    assert found.failures == ()
    assert found.certified_cells == found.at_risk_cells == len(sharp) > 20


def test_the_assessment_counts_the_methods_of_its_ends(build: Build) -> None:
    told = document_of(build, "assessment", "assessment.json")["sharpness"]
    bounds, by = bounds_of(build), read_end_methods(build.folder.stage("assessment"))
    assert by is not None
    assert {*by.outer.flat, *by.inner.flat} <= {*METHODS}
    assert (told["cells"], told["sharp"]) == (len(bounds), bounds.exact.sum())
    meets = bounds.outer == bounds.inner
    for key, ends in (("met", meets), ("open", ~meets)):
        for kind, names in (("outer", by.outer), ("inner", by.inner)):
            counted = dict(zip(*np.unique(names[ends].astype(str), return_counts=True), strict=True))
            assert told[key][kind] == counted


def test_a_run_from_before_there_were_sharp_bounds_reads_on(proven: Build, tmp_path: Path) -> None:
    """Its manifest says nothing of an assessment, and has the number of partitions that was the default."""
    shutil.copytree(proven.folder.path, tmp_path / "run")
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    del manifest["config"]["assessment"], manifest["config"]["sharp_seconds"]
    manifest["config"]["table"]["partitions"] = 1
    (tmp_path / "run" / "manifest.json").write_text(json.dumps(manifest))
    assert verify(tmp_path / "run").failures == ()
    subject = ResolvedInput.open(str(tmp_path / "run"))
    assert subject.assessed(1) is None
    assert subject.released == proven.made.found.release


@pytest.mark.parametrize(
    "release",
    [
        {"method": "decomposable", "annealing": {"chains": 1, "steps": 200, "rounds": 2}},
        {"method": "simulatable", "simulatable": {"draws": 20, "share": 0.1}},
    ],
)
def test_bounds_of_decomposable_releases_are_sharp_without_a_search(release: dict[str, Any], tmp_path: Path) -> None:
    """So they change no decision, and those of a simulatable search still tell nothing of the table."""
    said: list[str] = []
    with heard(EventText(said.append)):
        found = built(large(tmp_path, release=release))
    assert bounds_of(found).exact.all()
    assert not [line for line in said if line.startswith("sharp bounds: round ")]
    number = len(bounds_of(found))
    start = f"assessment: {number} of {number} at-risk cells sharp, within a budget of {SECONDS:g} s; ends that meet: "
    assert [line for line in said if line.startswith(start)]


def test_without_an_at_risk_cell_nothing_is_to_be_sharp(tmp_path: Path) -> None:
    found = built(large(tmp_path, table={"path": str(tmp_path / "t.csv"), "variables": ["A", "B"]}))
    told = document_of(found, "assessment", "assessment.json")
    assert (told["at_risk_cells"], told["sharpness"]["cells"]) == (0, 0)
    assert verify(found.folder.path).failures == ()


def test_a_large_table_is_partitioned_without_a_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sdc.model.table.CELLS_PER_PARTITION", 60)
    found = built(large(tmp_path, sharp_seconds=0.05))
    cells = len(found.made.table)
    assert cells > 120
    assert len([*found.folder.stage("table").glob("part-*.parquet")]) == -(-cells // 60)
    assert verify(found.folder.path).failures == ()


def test_bounds_of_a_sharp_run_are_those_that_it_has(build: Build) -> None:
    answer = json.loads(invoked("bounds", build.folder.path, "--json").stdout)
    bounds = bounds_of(build)
    assert [row["outer"] for row in answer["cells"]] == bounds.outer.tolist()
    assert [row["inner"] for row in answer["cells"]] == bounds.inner.tolist()
    assert answer["sharpness"]["sharp"] == bounds.exact.sum()
    assert f"{bounds.exact.sum()} of {len(bounds)} cells sharp; " in invoked("bounds", build.folder.path).stdout


def test_sharp_bounds_of_a_run_go_on_from_what_it_has(proven: Build) -> None:
    before, answer = bounds_of(proven), invoked("bounds", proven.folder.path, "--sharp", "--seconds", 5, "--json")
    found = json.loads(answer.stdout)
    outer, inner = (np.array([row[kind] for row in found["cells"]]) for kind in ("outer", "inner"))
    assert ((outer[:, 0] >= before.outer[:, 0]) & (outer[:, 1] <= before.outer[:, 1])).all()
    assert ((inner[:, 0] <= before.inner[:, 0]) & (inner[:, 1] >= before.inner[:, 1])).all()
    assert "given" in {name for row in found["cells"] for name in row["inner_by"]}
    assert found["sharpness"]["sharp"] > before.exact.sum()
    assert not proven.folder.parts("bounds").exists()


def test_of_a_table_alone_nothing_is_kept_and_an_interrupt_says_so(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(build.folder.path.parents[2] / "t.csv", tmp_path)
    asked = "bounds", tmp_path / "t.csv", "--release", "A*B", "--small-count", 1, "--sharp"
    assert "nothing is kept" not in invoked(*asked).stderr

    def interrupted(*args: Any, **settings: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sdc.stages.answers.sharp_bounds", interrupted)
    assert "t.csv, interrupted" in invoked(*asked).stderr
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


@pytest.mark.parametrize("change", ["table", "release", "zeros", "seconds", "cells", "solver", "run"])
def test_parts_of_anything_else_are_never_gone_on_from(
    change: str, proven: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sdc.stages import answers

    subject = ResolvedInput.open(str(proven.folder.path))
    known, cells = subject.public(None), subject.table.codes[subject.table.at_risk(1)]
    asked: dict[str, Any] = {"known": known, "cells": cells, "seconds": 5.0, "source": subject, "say": print}
    before = answers.checkpoint_of(**asked)
    table = replace(subject.table, counts=subject.table.counts + (np.arange(len(subject.table)) == 0))
    others: dict[str, dict[str, Any]] = {
        "table": {"source": replace(subject, table=table)},
        "release": {"known": replace(known, release=Release.of([1]))},
        "zeros": {"known": replace(known, zeros=StructuralZeros((((0, (3,)), (1, (3,))),)))},
        "seconds": {"seconds": 6.0},
        "cells": {"cells": cells[::-1]},
    }
    asked |= others.get(change, {})
    if change == "solver":
        monkeypatch.setattr(answers, "deciding", lambda: {"ortools": "1"})
    if change == "run":
        copy = Path(shutil.copytree(proven.folder.path, tmp_path / "run"))
        manifest = json.loads((copy / "manifest.json").read_text())
        manifest["stages"][3]["output"] = "other"
        (copy / "manifest.json").write_text(json.dumps(manifest))
        asked["source"] = ResolvedInput.open(str(copy))
    after = answers.checkpoint_of(**asked)
    assert before.of != after.of


def narrow(found: Any) -> Any:
    """Outer ends of one cell at its count."""
    evaluation, bounds, by = found
    outer, inner = bounds.outer.copy(), bounds.inner.copy()
    outer[0] = inner[0] = bounds.counts[0]
    bounds = CellBounds(bounds.cells, bounds.counts, outer, inner, bounds.method)
    return evaluation.criteria.rejudged(evaluation, bounds, evaluation.pool), bounds, by


@pytest.mark.parametrize("accepted", [False, True])
def test_a_cell_that_sharp_bounds_prove_narrow_stops_the_release(
    accepted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = RiskEvaluator.sharpen
    monkeypatch.setattr(RiskEvaluator, "sharpen", lambda self, *args, **more: narrow(original(self, *args, **more)))
    risk = {"min_width": WIDTH, "small_count": 1, "accept_undecided": accepted}
    build = open_build(large(tmp_path, risk=risk, sharp_seconds=1.0))
    with pytest.raises(NotReleasableError, match=r"is refuted: by sharp bounds 1 of \d+ at-risk cells are too") as told:
        run_all(build, IN_PROCESS)
    assert status_of(told.value) == NOT_RELEASABLE
    assert not build.folder.stage("release").exists()
    page = report_of(build)
    assert "Not releasable: an at-risk cell is too narrow" in page
    (detail,) = build.folder.path.glob("refused-*.txt")
    assert all(f"{name}={name.lower()}" in detail.read_text() for name in "ABCDE")
