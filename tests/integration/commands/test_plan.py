"""`sdc plan`, `sdc status` and `sdc list`: sizes, memory and times of a build, and what there is of it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sdc.executor import IN_PROCESS
from sdc.model.errors import SdcError
from sdc.protect.recoding import MOST_ASKED
from sdc.stages.build import open_build
from sdc.stages.stages import run_all
from tests.helpers.builds import NAMES, built, write_czech
from tests.helpers.commands import Sdc, tree
from tests.strategies import scattered


def test_a_plan_touches_nothing(sdc: Sdc, tmp_path: Path) -> None:
    found = sdc("plan", write_czech(tmp_path), "--json").document
    sizes = ("records", "full_table_cells", "cells", "at_risk_cells", "sub_tables", "floor")
    assert [found[size] for size in sizes] == [1841, 64, 63, 3, 64, 0]
    assert [stage["name"] for stage in found["stages"]] == NAMES
    assert {stage["status"] for stage in found["stages"]} == {"to do"}
    assert 0 < found["memory_needed_mib"] <= found["memory_allowed_mib"]
    assert 0 < found["disk_needed_mib"] < found["disk_free_mib"]
    assert tree(tmp_path) == {"build.yaml"}


def test_a_quick_plan_tries_nothing(sdc: Sdc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a trial nor a worker; the same sizes and keys, memory that is needed, and no times."""
    config = write_czech(tmp_path)
    tried = sdc("plan", config, "--json").document
    for name in ("sdc.stages.plan._tried", "sdc.execution.cluster.open_executor"):
        monkeypatch.setattr(name, lambda *given: pytest.fail("something was tried"))
    found = sdc("plan", config, "--quick", "--json").document
    assert list(found) == list(tried)
    assert {key: found[key] for key in list(found)[:7]} == {key: tried[key] for key in list(tried)[:7]}
    assert [stage["units"] for stage in found["stages"]] == [stage["units"] for stage in tried["stages"]]
    assert {found["seconds"], *(stage["seconds"] for stage in found["stages"])} == {None}
    assert all(0 < stage["memory_mib"] <= found["memory_needed_mib"] for stage in found["stages"])
    text = sdc("plan", config, "--quick").out
    assert "not measured; omit --quick" in text
    assert tree(tmp_path) == {"build.yaml"}


def test_a_plan_counts_what_is_asked_for_instead_of_what_is_refused(
    sdc: Sdc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three sub-tables with merged categories at most, each as long as the most questions of a second."""
    config, most = write_czech(tmp_path, remedies={"variables": 1}), list[float]()
    monkeypatch.setattr("sdc.stages.plan._tried", lambda *of: {"questions": 1.0})
    for merged in (0, 3):
        monkeypatch.setattr("sdc.stages.plan.MOST_MERGED", merged)
        stages = sdc("plan", config, "--json").document["stages"]
        most += (stage["seconds_at_most"] for stage in stages if stage["name"] == "remedies")
    assert most[1] - most[0] == 3 * MOST_ASKED


def test_a_plan_says_which_floor_to_set(sdc: Sdc, tmp_path: Path) -> None:
    columns = {f"v{k:02d}": [0, 1, 1, 0] for k in range(27)}
    pq.write_table(pa.table(columns), tmp_path / "records.parquet")
    table = {"path": str(tmp_path / "records.parquet")}
    config = write_czech(tmp_path, whole={"table": table, "widths": {"threshold": 0}}, risk={"min_width": 7})
    refusal = r"widths.threshold = 0: 27 variables have 2\^27 sub-tables, at most 2\^26 are listed; set widths.thr"
    sdc("plan", config, "--quick", "--json").assert_refused(refusal)
    listed = write_czech(tmp_path, whole={"table": table}, risk={"min_width": 7})
    assert "only sub-tables of critical width 7 or more are listed" in sdc("plan", listed, "--quick").out
    assert "are listed, at most the widest 20,000" in sdc("plan", listed, "--quick").out


@pytest.mark.parametrize(("cells", "way"), [(40, "slices"), (1000, "whole")])
def test_a_plan_says_when_a_table_is_searched_in_slices(sdc: Sdc, tmp_path: Path, cells: int, way: str) -> None:
    table = scattered()
    records = np.repeat(table.codes, table.counts, axis=0).T.tolist()
    path = tmp_path / "records.parquet"
    pq.write_table(pa.table(dict(zip(table.schema.names, records, strict=True))), path)
    config = write_czech(tmp_path, whole={"table": {"path": str(path)}}, release={"cells_per_slice": cells})
    stages = sdc("plan", config, "--json").document["stages"]
    ways = {"widths": "whole", "search": way, "assessment": way}
    assert {stage["name"]: stage["way"] for stage in stages if stage["way"]} == ways


def test_a_plan_counts_the_budget_of_sharp_bounds(sdc: Sdc, tmp_path: Path) -> None:
    """As the most that they may take; they may be sharp at once."""
    most = {}
    for settings in ({}, {"assessment": "sharp", "sharp_seconds": 10_000.0}):
        stages = sdc("plan", write_czech(tmp_path, whole=settings), "--json").document["stages"]
        (planned,) = (stage for stage in stages if stage["name"] == "assessment")
        assert planned["units"] == 1
        most[len(settings)] = planned["seconds_at_most"]
    assert most[2] > most[0] + 10


def planned_posterior(sdc: Sdc, folder: Path, asked: dict[str, Any], **release: Any) -> dict[str, Any]:
    stages = sdc("plan", write_czech(folder, posterior=asked, release=release), "--json").document["stages"]
    return next(stage for stage in stages if stage["name"] == "posterior")


def test_a_plan_counts_what_is_sampled_and_what_is_built_again(sdc: Sdc, tmp_path: Path) -> None:
    """The most that it may take, as which release is found is not known; exact laws take seconds and no worker."""
    exact = planned_posterior(sdc, tmp_path, {}, method="decomposable")
    assert (exact["units"], exact["seconds"], exact["seconds_at_most"]) == (0, 5.0, 5.0)
    sampled = planned_posterior(sdc, tmp_path, {"draws": 100_000, "chains": 2, "laws": ["released", "saturated"]})
    assert sampled["units"] == 2
    assert sampled["seconds_at_most"] > 60 > sampled["seconds"]
    again = planned_posterior(sdc, tmp_path, {"refusals": 10_000}, method="decomposable")
    assert again["seconds_at_most"] > 60 > again["seconds"]


def test_a_build_that_does_not_fit_in_memory(sdc: Sdc, tmp_path: Path) -> None:
    config = write_czech(tmp_path, execution={"memory_per_worker": "256MiB"})
    refusal = r"does not fit: this process needs \d+ MiB, 256 MiB are allowed; use fewer workers beside it"
    sdc("plan", config, "--json").assert_refused(refusal)
    build = open_build(config)
    with pytest.raises(SdcError, match=refusal):
        run_all(build, IN_PROCESS)
    assert [path.name for path in build.folder.path.iterdir() if path.is_dir()] == ["table"]


def test_a_release_that_grows_on_a_worker_is_planned_for(tmp_path: Path) -> None:
    table, workers = scattered(1), {"cluster": "local", "workers": 1, "memory_per_worker": "512MiB"}
    open_build(write_czech(tmp_path, execution=workers, release={"method": "ordered"})).needs.require(table)
    best = open_build(write_czech(tmp_path, execution=workers, release={"method": "best"}))
    with pytest.raises(SdcError, match=r"a worker needs \d+ MiB, 409 MiB are allowed; raise its memory_per_worker"):
        best.needs.require(table)


def test_a_rerun_with_less_memory_is_refused_before_its_first_new_stage(tmp_path: Path) -> None:
    built(write_czech(tmp_path))
    less = open_build(write_czech(tmp_path, execution={"memory_per_worker": "256MiB"}, risk={"min_width": 7}))
    with pytest.raises(SdcError, match=r"does not fit: this process needs \d+ MiB, 256 MiB are allowed"):
        run_all(less, IN_PROCESS)
    statuses = {name: record.status for name, record in less.folder.records().items()}
    assert statuses == {"table": "reused", "widths": "reused"}


def test_a_build_that_does_not_fit_on_the_disk(sdc: Sdc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = shutil.disk_usage(tmp_path)._replace(free=1 << 10)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: full)
    sdc("plan", write_czech(tmp_path)).assert_refused(r"does not fit: it needs [\d.]+ MiB of disk, 0 MiB are free in")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with a config of which there is a run that is finished."""
    folder = tmp_path_factory.mktemp("run")
    for _ in range(2):
        build = built(write_czech(folder))
    return build.folder.path


def test_a_plan_after_a_run_reuses_every_stage(run: Path, sdc: Sdc) -> None:
    stages = sdc("plan", run.parents[2] / "build.yaml", "--json").document["stages"]
    assert [(stage["name"], stage["status"]) for stage in stages] == [(name, "to reuse") for name in NAMES]


def test_the_status_of_a_run(run: Path, sdc: Sdc) -> None:
    status = sdc("status", run, "--json").document
    assert (status["state"], status["stages_done"], status["running"], status["error"]) == ("finished", 6, None, None)
    assert [(stage["name"], stage["status"]) for stage in status["stages"]] == [(name, "reused") for name in NAMES]
    text = sdc("status", run).out
    assert text.startswith(f"czech_auto_workers {run.name}: finished, started 20")
    assert re.search(r"^release +reused +\d+\.\d +\d+ MiB", text, re.MULTILINE)


def test_a_list_of_runs(run: Path, sdc: Sdc) -> None:
    (found,) = sdc("list", run.parents[1], "--json").document["runs"]
    assert (found["run_folder"], found["state"]) == (str(run), "finished")
    text = sdc("list", run.parents[1]).out.splitlines()
    assert text[1].split()[:6] == ["czech_auto_workers", found["digest"], "finished", "6", "of", "6"]
