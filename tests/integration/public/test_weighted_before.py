"""What was published with totals of weights is not read as counts alone: the totals tell of the counts too."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml

from sdc.executor import IN_PROCESS
from sdc.model.errors import InputError
from sdc.public.published import read_published
from sdc.stages.build import open_build
from sdc.stages.checks import check_before
from sdc.stages.stages import run_all
from sdc.storage.parquet import write_csv
from tests import reference
from tests.profiles import scaled

CASES, BASE, MIN_WIDTH = scaled(200, fewest=40), 300, 2
LEAST, LARGEST = np.array([1.0, 100.0]), np.array([1.1, 100.1])  # weights of the records of each category of A
REFUSAL = "publishes totals of weights, which cannot be judged together with counts"


def narrowest(counts: np.ndarray, tables: np.ndarray) -> int:
    """The least width of a cell with one record over these tables."""
    widths = np.ptp(tables, axis=0)
    return int(widths[counts.ravel() == 1].min())


def agreeing_in_weight(tables: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """Those whose records can have weights that round to these totals of B*C."""
    cells = tables.reshape(-1, 2, 2, 2)
    least, largest = (np.tensordot(cells, ends, axes=(1, 0)) for ends in (LEAST, LARGEST))
    return tables[((least <= totals + BASE / 2) & (largest >= totals - BASE / 2)).all(axis=(1, 2))]


def test_each_safe_alone_and_together_not_is_refused(tmp_path: Path, night: list[int]) -> None:
    """B*C with totals, and then the two-way tables: totals tell how many of a cell are of the heavy category."""
    random = np.random.default_rng([39, 4, *night])
    unsafe = 0
    for number in range(CASES):
        counts = random.choice([1, 2, 3, 4], (2, 2, 2), p=[0.25, 0.25, 0.25, 0.25])
        if not (counts == 1).any():
            counts[0, 0, 0] = 1
        exact_totals = np.tensordot(counts, (LEAST + LARGEST) / 2, axes=(0, 0))
        totals = np.round(exact_totals / BASE) * BASE
        folder = tmp_path / str(number)
        folder.mkdir()
        own = {"B": ["0", "0", "1", "1"], "C": ["0", "1", "0", "1"], "count": counts.sum(axis=0).ravel().tolist()}
        write_csv(folder / "1.csv", {**own, "weighted_total": totals.ravel().astype(int).tolist()})
        with pytest.raises(InputError, match=REFUSAL):
            read_published(folder)
        first = reference.feasible((2, 2, 2), reference.exact(counts, (1, 2)))
        second = reference.feasible(
            (2, 2, 2), [f for axes in ((0, 1), (0, 2), (1, 2)) for f in reference.exact(counts, axes)]
        )
        alone = min(narrowest(counts, agreeing_in_weight(first, totals)), narrowest(counts, second))
        unsafe += alone >= MIN_WIDTH > narrowest(counts, agreeing_in_weight(second, totals))
    assert unsafe > 0


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
