"""What was published with totals of weights is not read as counts alone: the totals tell of the counts too."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from sdc.executor import IN_PROCESS
from sdc.model.errors import InputError
from sdc.stages.build import open_build
from sdc.stages.checks import check_before
from sdc.stages.stages import run_all
from sdc.storage.parquet import write_csv

REFUSAL = "publishes totals of weights, which cannot be judged together with counts"


@pytest.mark.parametrize("publish", ["beside", "instead"])
def test_a_release_with_totals_is_refused_before_any_work(tmp_path: Path, publish: str) -> None:
    counts = {"a0": [2, 6, 1, 4], "a1": [6, 3, 4, 5]}
    rows = [
        (a, f"b{place // 2}", f"c{place % 2}", {"a0": 1.0, "a1": 100.0}[a] + 0.1 * (number % 2))
        for a, cells in counts.items()
        for place, count in enumerate(cells)
        for number in range(count)
    ]
    columns = dict(zip("ABCw", map(list, zip(*rows, strict=True)), strict=True))
    write_csv(tmp_path / "t.csv", columns)
    risk = {"small_count": 1, "min_width": 2}

    def config(name: str, **more: object) -> Path:
        content = {"name": name, "risk": risk, "execution": {"cluster": "in-process"}, **more}
        content["output"] = {"folder": str(tmp_path / "runs")}
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(content))
        return tmp_path / f"{name}.yaml"

    weighted = {"path": "t.csv", "variables": ["A", "B", "C"], "weight": "w"}
    release = {"require": ["B*C"], "method": "bisection", "forbid": ["A*B", "A*C"]}
    first = open_build(config("first", table=weighted, weighted={"round": 500, "publish": publish}, release=release))
    run_all(first, IN_PROCESS)
    assert "weighted_total" in next(first.folder.stage("release").glob("*_B-C.csv")).read_text()
    plain = {"path": "t.csv", "variables": ["A", "B", "C"]}
    second = open_build(config("second", table=plain, earlier=[{"folder": str(first.folder.stage("release"))}]))
    with pytest.raises(InputError, match=f"release {REFUSAL}; publish what is still to go out in one build with them"):
        check_before(second)
    with pytest.raises(InputError, match=REFUSAL):
        run_all(second, IN_PROCESS)
    assert not (tmp_path / "runs" / "second").exists()
