"""`sdc plan`, `sdc status` and `sdc list`: sizes, memory and times of a build, and what there is of it."""

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
from sdc.stages.build import Build, open_build
from sdc.stages.plan import plan_build
from sdc.stages.stages import run_all
from sdc.stages.trial import Trial, Tried
from tests.helpers.builds import NAMES, built, write_czech
from tests.helpers.commands import Sdc, tree
from tests.strategies import scattered


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A config and its plan with a trial, which runs in another process."""
    config = write_czech(tmp_path_factory.mktemp("planned"), posterior={})
    return config, plan_build(open_build(config), lambda text: None)


def test_a_plan_touches_nothing(planned: tuple[Path, dict[str, Any]]) -> None:
    config, found = planned
    sizes = ("records", "full_table_cells", "cells", "at_risk_cells", "sub_tables", "floor")
    assert [found[size] for size in sizes] == [1841, 64, 63, 3, 64, 0]
    assert {*NAMES} < {stage["name"] for stage in found["stages"]}
    assert {stage["status"] for stage in found["stages"]} == {"to do"}
    assert 0 < found["memory_needed_mib"] <= found["memory_allowed_mib"]
    assert 0 < found["disk_needed_mib"] < found["disk_free_mib"]
    assert tree(config.parent) == {"build.yaml"}


def test_a_plan_measures_every_stage_of_a_short_build(planned: tuple[Path, dict[str, Any]]) -> None:
    """The trial runs it to its end but for the publication, so the ranges are narrow and add up."""
    found = planned[1]
    assert found["refused"] is None
    ranges = seconds_of(found)
    for name in ("table", "widths", "search", "assessment", "posterior", "confidential"):
        least, most = ranges[name]
        assert 0 <= least <= (most or 0) <= 3 * least + 0.5, name
    assert found["seconds"] <= found["seconds_at_most"] <= 3 * found["seconds"]
    assert found["seconds"] >= sum(least for least, _ in ranges.values())


def test_a_quick_plan_tries_nothing(
    sdc: Sdc, planned: tuple[Path, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a trial nor a worker; the same sizes and keys, memory that is needed, and no times."""
    config, tried = planned
    for name in ("sdc.stages.plan.run_trial", "sdc.stages.plan.open_executor"):
        monkeypatch.setattr(name, lambda *given: pytest.fail("something was tried"))
    found = sdc("plan", config, "--quick", "--json").document
    assert list(found) == list(tried)
    assert {key: found[key] for key in list(found)[:4]} == {key: tried[key] for key in list(tried)[:4]}
    assert [stage["units"] for stage in found["stages"]] == [stage["units"] for stage in tried["stages"]]
    assert {found["seconds"], *(stage["seconds"] for stage in found["stages"])} == {None}
    assert all(0 < stage["memory_mib"] <= found["memory_needed_mib"] for stage in found["stages"])
    text = sdc("plan", config, "--quick").out
    assert "not measured; omit --quick" in text
    assert tree(config.parent) == {"build.yaml"}


def seconds_of(document: dict[str, Any]) -> dict[str, tuple[float, float | None]]:
    return {stage["name"]: (stage["seconds"], stage["seconds_at_most"]) for stage in document["stages"]}


def test_a_plan_of_a_refused_build_says_so(sdc: Sdc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By what the trial says; tests/system/commands/test_trial.py has one whose process ends."""
    trial = Trial({"table": Tried(1.0), "widths": Tried(1.0), "search": Tried(1.0, None)}, "A*B is not releasable")
    monkeypatch.setattr("sdc.stages.plan.run_trial", lambda *given: trial)
    found = sdc("plan", write_czech(tmp_path))
    assert "the trial ended, as the build would: A*B is not releasable" in found.err
    assert "or more s" in found.out


class Slow:
    """A trial in which a search takes long, which has said how much is left, or not."""

    def __init__(self, left: float | None) -> None:
        self.left = left

    def __call__(self, build: Build, seconds: float, say: Any) -> Trial:
        short = dict.fromkeys(("table", "widths", "assessment", "confidential"), Tried(1.0))
        return Trial({**short, "search": Tried(seconds, self.left)})


def test_a_plan_goes_by_what_a_long_search_says_and_by_earlier_runs(
    sdc: Sdc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quarter of what a search calls its most at least; without any of these there is no most."""
    config = write_czech(tmp_path)
    monkeypatch.setattr("sdc.stages.plan.run_trial", Slow(400.0))
    assert seconds_of(sdc("plan", config, "--seconds", "20", "--json").document)["search"] == (120.0, 420.0)
    limited = write_czech(tmp_path, release={"minutes": 5})
    assert seconds_of(sdc("plan", limited, "--seconds", "20", "--json").document)["search"] == (120.0, 300.0)
    monkeypatch.setattr("sdc.stages.plan.run_trial", Slow(None))
    found = sdc("plan", write_czech(tmp_path), "--json").document
    assert (seconds_of(found)["search"], found["seconds_at_most"]) == ((30.0, None), None)
    built(write_czech(tmp_path))
    _, most = seconds_of(sdc("plan", write_czech(tmp_path, risk={"min_width": 5}), "--json").document)["search"]
    assert (most or 30) < 30


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
    stages = sdc("plan", config, "--quick", "--json").document["stages"]
    ways = {"widths": "whole", "search": way, "assessment": way}
    assert {stage["name"]: stage["way"] for stage in stages if stage["way"]} == ways


def test_a_plan_counts_the_chains_of_laws_that_may_be_sampled(sdc: Sdc, tmp_path: Path) -> None:
    asked = {"draws": 100_000, "chains": 2, "laws": ["released", "saturated"]}
    for posterior, method, chains in (({}, "decomposable", 0), (asked, "ordered", 2)):
        config = write_czech(tmp_path, posterior=posterior, release={"method": method})
        stages = sdc("plan", config, "--quick", "--json").document["stages"]
        assert [stage["units"] for stage in stages if stage["name"] == "posterior"] == [chains]


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
