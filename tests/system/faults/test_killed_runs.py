"""Builds with real Dask workers, killed at random moments, drivers and workers in turn, and resumed until done."""

import sys
from pathlib import Path

import pytest

from tests.helpers.builds import built, write_czech
from tests.helpers.killing import Made, killed, left_behind, made
from tests.profiles import scaled

WHOLE = {
    "release": {"method": "decomposable", "annealing": {"steps": 20_000, "rounds": 10, "patience": 0, "chains": 2}},
    "curve": {"min_width": [20], "methods": ["decomposable"]},
    "posterior": {"laws": ["released", "saturated"], "draws": 20, "chains": 2, "error": None},
}
BUILD = """
import sys
from pathlib import Path
from sdc.config.build import ExecutionConfig
from sdc.execution.cluster import open_executor
from sdc.stages.build import open_build
from sdc.stages.stages import run_all
if __name__ == "__main__":
    with open_executor(ExecutionConfig(workers=2)) as executor:
        run_all(open_build(Path("build.yaml")), executor)
"""
RUNS = scaled(6, fewest=1)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """What the build leaves that nobody disturbs."""
    folder = tmp_path_factory.mktemp("undisturbed")
    built(write_czech(folder, whole=WHOLE, table={"partitions": 2}))
    return made(folder / "runs")


@pytest.mark.slow
@pytest.mark.parametrize("number", range(RUNS))
def test_a_build_that_is_killed_ends_as_if_nothing_had_happened(
    number: int, expected: Made, tmp_path: Path, night: list[int]
) -> None:
    """One to three victims; `release/` is never seen before it is whole."""
    victims = [("worker", "driver")[(number + i) % 2] for i in range(2 if RUNS == 1 else 1 + number // 2 % 3)]
    seed = 100 * sum(night) + number
    write_czech(tmp_path, whole=WHOLE, table={"partitions": 2}, output={"folder": "runs"})
    found = killed([sys.executable, "-c", BUILD], tmp_path / "runs", victims, expected, seed)
    assert found.kills[0] == victims[0]
    assert found.restarts == found.kills.count("driver")
    assert found.digests == expected.digests
    assert left_behind(tmp_path) == []
