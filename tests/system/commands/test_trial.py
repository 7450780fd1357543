"""A trial of a build whose stages take too long."""

import multiprocessing
import re
from pathlib import Path

from sdc.stages.build import open_build
from sdc.stages.trial import Tried, run_trial
from tests.helpers.builds import write_czech
from tests.helpers.commands import tree

SECONDS = 10.0  # for stages that take one, and for some that take hours


def test_a_search_that_takes_too_long_ends_and_any_other_stage_ends_the_trial(tmp_path: Path) -> None:
    """The assessment is of what the search had proven by then."""
    annealing = {"steps": 10**9, "rounds": 10**6, "patience": 0}
    curve = {"min_width": [1, 3], "methods": ["decomposable"]}
    release = {"method": "decomposable", "annealing": annealing}
    said = list[str]()
    trial = run_trial(open_build(write_czech(tmp_path, curve=curve, release=release)), SECONDS, said.append)
    assert list(trial.stages) == ["table", "widths", "search", "assessment", "curve"]
    assert trial.stages["search"] == Tried(2 * SECONDS, None)
    assert trial.stages["curve"] == Tried(SECONDS, None)
    assert trial.stages["assessment"].left == 0.0
    assert trial.refused == ""
    assert said[-1] == "trial: curve"
    assert tree(tmp_path) == {"build.yaml"}


def test_a_trial_that_fails_says_why(tmp_path: Path) -> None:
    """So that a plan without times is no silence."""
    build = open_build(write_czech(tmp_path))

    def kill(line: str) -> None:
        if line == "trial: widths":
            (process,) = multiprocessing.active_children()
            process.kill()

    trial = run_trial(build, 10 * SECONDS, kill)
    assert (trial.refused, list(trial.stages)) == ("its process ended in the stage widths", ["table", "widths"])
    assert trial.stages["widths"].left is None
    assert tree(tmp_path) == {"build.yaml"}


def test_a_trial_of_a_refused_build_says_what_the_build_would(tmp_path: Path) -> None:
    build = open_build(write_czech(tmp_path, release={"require": ["A*B*C*D*E*F"]}))
    trial = run_trial(build, 10 * SECONDS, lambda line: None)
    assert re.search(r"A\*B\*C\*D\*E\*F is not releasable", trial.refused)
    assert "assessment" not in trial.stages
