"""Each verb on one config with recodes, labels, constraints and a criterion: all of them speak of the same table."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from sdc.executor import IN_PROCESS
from sdc.stages.build import open_build
from sdc.stages.stages import run_all
from tests.helpers.commands import Sdc, sdc

CONFIG = {
    "name": "transcript",
    "table": {
        "path": "records.parquet",
        "variables": ["age", "sex", "region", "work"],
        "recodes": {
            "age": {"bins": {"under 30": [None, 30], "30 to 59": [30, 60], "60 and over": [60, None]}},
            "region": {"groups": {"north": ["1", "2"], "south": ["3", "4", "5"]}},
        },
        "missing": {"work": "not said"},
    },
    "risk": {"min_width": 4, "small_count": 2},
    "release": {"require": ["age*sex"], "forbid": ["region*work"], "max_evaluations": 50},
    "labels": {"variables": {"sex": {"label": "Sex", "categories": {"1": "male", "2": "female"}}}},
    "publication": {"title": "A transcript", "population": "nobody"},
    "execution": {"cluster": "in-process"},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data file, a config, and the run folder of its build as `run`."""
    folder, generator = tmp_path_factory.mktemp("transcript"), np.random.default_rng(5)
    age, region, sex = generator.integers(15, 90, 400), generator.integers(1, 6, 400), generator.integers(1, 3, 400)
    own = np.where(generator.random(400) < 0.15, generator.integers(0, 3, 400), np.minimum(age // 45, 1))
    work = [None if k % 17 == 0 else ["employed", "neither", "self-employed"][int(one)] for k, one in enumerate(own)]
    pq.write_table(pa.table({"age": age, "sex": sex, "region": region, "work": work}), folder / "records.parquet")
    content = {**CONFIG, "output": {"folder": str(folder / "runs")}}
    (folder / "build.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    build = open_build(folder / "build.yaml")
    run_all(build, IN_PROCESS)
    (folder / "run").symlink_to(build.folder.path)
    return folder


Say = Callable[..., Any]
__all__ = ["sdc"]


@pytest.fixture
def said(sdc: Sdc) -> Say:
    """The JSON document of a command that ends with the status."""

    def command(*words: object, status: int = 0) -> Any:
        answer = sdc(*words, "--json")
        assert answer.status == status, answer.err
        return json.loads(answer.out)

    return command


@pytest.mark.parametrize("subject", ["build.yaml", "run"])
def test_release_is_that_of_the_build(folder: Path, said: Say, subject: str) -> None:
    found, built = said("release", folder / subject), search_of(folder)
    assert found["frontier"] == built["frontier"]
    assert any({"age", "sex"} <= {*names} for names in built["frontier"])
    assert not any({"region", "work"} <= {*names} for names in built["frontier"])


def test_assess_and_bounds(folder: Path, said: Say) -> None:
    built = json.loads((folder / "run" / "assessment" / "assessment.json").read_text())
    of_run = said("assess", folder / "run")
    assert of_run["releasable"] is True
    assert (of_run["at_risk_cells"], of_run["min_width_required"]) == (built["at_risk_cells"], 4)
    words = [word for names in search_of(folder)["frontier"] for word in ("--release", "*".join(names))]
    del of_run["sharpness"]  # of the build alone: `sdc assess` looks for no sharp bounds
    assert said("assess", folder / "build.yaml", *words) == of_run
    cells = said("bounds", folder / "run")["cells"]
    assert len(cells) == built["at_risk_cells"]
    assert min(cell["outer"][1] - cell["outer"][0] for cell in cells) >= 4
    assert said("assess", folder / "build.yaml", "--release", "age*sex*region*work", status=3)["releasable"] is False


def search_of(folder: Path) -> Any:
    return json.loads((folder / "run" / "search" / "search.json").read_text())
