"""A build with `assessment: sharp` of a table that is large for the methods that bound all of it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sdc.executor import IN_PROCESS, Executor
from sdc.stages.build import Build, open_build
from sdc.stages.stages import run_stage, stages_of
from tests.helpers.builds import built, written
from tests.helpers.folders import contents

WIDTH, SECONDS = 2, 0.5


def large(folder: Path, **sections: Any) -> Path:
    """Its config, with too little time for any other proof."""
    generator = np.random.default_rng(1)
    sizes = np.array([4, 4, 3, 3, 2])
    codes = np.minimum(generator.exponential(0.9, (2_000, 5)).astype(int), sizes - 1)
    rows = [",".join(f"{name}{code}" for name, code in zip("abcde", row, strict=True)) for row in codes.tolist()]
    folder.mkdir(exist_ok=True)
    (folder / "t.csv").write_text("\n".join(["A,B,C,D,E", *rows]))
    content: dict[str, Any] = {
        "table": {"path": str(folder / "t.csv")},
        "risk": {"min_width": WIDTH, "small_count": 1},
        "release": {"max_evaluations": 3, "require": [{"all": 2}], "seconds": 0.2},
        "assessment": "sharp",
        "sharp_seconds": SECONDS,
    }
    return written(folder, "large", **content | sections)


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """One that is finished."""
    return built(large(tmp_path_factory.mktemp("sharp")))


@pytest.fixture(scope="module")
def proven(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """The same without sharp bounds."""
    return built(large(tmp_path_factory.mktemp("proven"), assessment="proven", sharp_seconds=None))


def file_of(build: Build) -> Path:
    """Its config."""
    return build.folder.path.parents[2] / "large.yaml"


def assessed_anew(build: Build, executor: Executor = IN_PROCESS) -> dict[str, bytes]:
    """The stage's files, made once more from those before it."""
    fresh = open_build(file_of(build))
    fresh.folder.discard("assessment")
    stages = stages_of(fresh.config)
    with fresh.started([stage.name for stage in stages]):
        for stage in stages[: [stage.name for stage in stages].index("assessment") + 1]:
            run_stage(stage, fresh, executor, lambda text: None)
    return contents(fresh.folder.stage("assessment"))
