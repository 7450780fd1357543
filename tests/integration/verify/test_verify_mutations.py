"""Faults planted in the arithmetic of the search: whatever a build then claims, `verify` does not believe it.

Each fault makes a build claim something false. What the search itself checks is switched off where it would notice, and
the build is stopped before its own publication, which is then written all the same: what catches the fault is `verify`
alone. Without the fault the same build is verified.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import yaml

from sdc.executor import IN_PROCESS
from sdc.feasible import walk
from sdc.feasible.differences import Differences
from sdc.model import graph
from sdc.model.cell_bounds import CellBounds, Intervals, combine
from sdc.model.knowledge import Knowledge, Structure
from sdc.model.release import Release
from sdc.model.structural_zeros import NO_ZEROS
from sdc.model.table import Counts, Table
from sdc.publish.publication import write_publication
from sdc.risk import support
from sdc.risk.evaluator import RiskEvaluator
from sdc.stages.build import open_build
from sdc.stages.stages import run_stage, stages_of
from sdc.storage.run_folder import StageRecord, folder_digest
from sdc.verify.run_folder import verify
from tests.helpers.builds import write_counts
from tests.helpers.clearing import cleared_of
from tests.strategies import czech, dense, scattered, schema_of

Patch = pytest.MonkeyPatch


class Case(NamedTuple):
    """A build: its table, the width it requires, how it searches, and codes that never occur together."""

    table: Table
    min_width: int
    method: str = "ordered"
    impossible: tuple[tuple[int, int], ...] = ()
    assessment: str = "proven"


SHARP = Case(scattered(), 3, assessment="sharp")
LARGE, SMALL, EXPLICIT = Case(scattered(), 3), Case(czech(), 6), Case(scattered(), 1, "decomposable")
INFORMED = Case(czech(), 150, impossible=tuple(enumerate((1, 0, 0, 1, 1, 1))))
# under [A,B] [B,C] a cell of count 2 has the bounds [1, 2]: the lower one rests on the separator
HELD = Case(dense(schema_of([2, 2, 2]), [2, 0, 2, 0, 0, 1, 0, 1]), 1, "decomposable")


def built(case: Case, folder: Path) -> Path:
    """The run folder of a build of everything but its report, and its release made public whatever was decided."""
    write_counts(folder / "table.csv", case.table)
    settings: dict[str, Any] = {
        "name": "mutation",
        "table": {"path": str(folder / "table.csv")},
        "risk": {"small_count": 2, "min_width": case.min_width},
        "release": {"method": case.method, "seconds": 5},
        "assessment": case.assessment,
        "output": {"folder": str(folder / "runs")},
    }
    if case.method == "decomposable":
        settings["release"]["annealing"] = {"chains": 1, "steps": 200, "rounds": 1}
    if case.impossible:
        named = ((case.table.schema.variables[v], code) for v, code in case.impossible)
        (folder / "zeros.yaml").write_text(yaml.safe_dump([{v.name: v.categories[code] for v, code in named}]))
        settings["table"]["structural_zeros"] = str(folder / "zeros.yaml")
    (folder / "build.yaml").write_text(yaml.safe_dump(settings))
    build = open_build(folder / "build.yaml")
    with build.started(["table", "widths", "search", "assessment", "release"]):
        for stage in stages_of(build.config):
            if stage.name in ("table", "widths", "search", "assessment"):
                run_stage(stage, build, IN_PROCESS, lambda text: None)
        with build.folder.writing("release") as into:
            cleared = cleared_of(build.made.table, build.made.found.release, build.gate_input)
            write_publication(cleared, build.gate_input, "mutation", into)
            build.folder.record(StageRecord("release", "", folder_digest(into), "done", 0.0, None, None))
    return build.folder.path


@pytest.mark.parametrize("case", [LARGE, SMALL, EXPLICIT, INFORMED, HELD, SHARP])
def test_without_a_fault_the_build_is_verified(case: Case, tmp_path: Path) -> None:
    found = verify(built(case, tmp_path))
    assert found.failures == ()
    assert found.certified_cells == found.at_risk_cells > 0


def outcome(patch: Patch, target: Any, name: str, change: Callable[[Any], Any]) -> None:
    """Changes what a function returns."""
    original = getattr(target, name)
    patch.setattr(target, name, lambda *args, **options: change(original(*args, **options)))


def unchecked(patch: Patch) -> None:
    """The search takes whatever it found for feasible, and any bounds for nested."""
    patch.setattr(Differences, "feasible", lambda self, table, knowledge: np.ones(len(self), np.bool_))
    patch.setattr(CellBounds, "__post_init__", lambda self: None)


def walks_forget_an_element(patch: Patch) -> None:
    unchecked(patch)
    original = walk.shift

    def shift(table: Table, knowledge: Knowledge, *args: Any, **options: Any) -> walk.Moved:
        known = knowledge.release.frontier
        return original(table, replace(knowledge, release=Release(known[1:] or known)), *args, **options)

    patch.setattr(walk, "shift", shift)


def separators_counted_twice(patch: Patch) -> None:
    """The lower bound is too low by what lies between the components."""
    unchecked(patch)
    patch.setattr(support, "combine", lambda parts, between: combine(parts, 2 * between))


def loosest_component(patch: Patch) -> None:
    """The upper bound is the largest of the components' bounds, not the smallest."""
    unchecked(patch)

    def combined(parts: list[Intervals], between: Counts) -> Intervals:
        return np.stack([combine(parts, between)[:, 0], np.max([part[:, 1] for part in parts], axis=0)], axis=1)

    patch.setattr(support, "combine", combined)


def uninformed(patch: Patch) -> None:
    """The structural zeros are not part of what is known: every question is asked of less."""
    unchecked(patch)
    original = RiskEvaluator.__post_init__

    def begin(self: RiskEvaluator) -> None:
        original(self)
        self.known = replace(self.known, zeros=NO_ZEROS)

    patch.setattr(RiskEvaluator, "__post_init__", begin)


def cover_without_fill(patch: Patch) -> None:
    """The released frontier itself in place of the cliques of a chordal graph around it."""
    unchecked(patch)
    patch.setattr(Structure, "cover", property(lambda self: graph.perfect_sequence(self.release.frontier)))


def sharp_by_other_methods(patch: Patch) -> None:
    """The methods of the ends are others than those that are counted."""
    outcome(patch, RiskEvaluator, "sharpen", lambda found: (*found[:2], replace(found[2], outer=found[2].inner)))


FAULTS: dict[str, tuple[Case, Callable[[Patch], None], str]] = {
    "walks forget a released marginal": (LARGE, walks_forget_an_element, r"differences give no feasible table"),
    "separators counted twice": (HELD, separators_counted_twice, r"claims a wider inner interval"),
    "the loosest component": (EXPLICIT, loosest_component, r"claims a wider inner interval"),
    "structural zeros forgotten": (INFORMED, uninformed, r"the structural zero .* is within no"),
    "sharp ends by other methods": (SHARP, sharp_by_other_methods, r"counts other methods or sharp cells than"),
    "a cover without its fill": (LARGE, cover_without_fill, r"clique .* is within none of them"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_the_search_is_caught(name: str, tmp_path: Path, monkeypatch: Patch) -> None:
    case, plant, message = FAULTS[name]
    with monkeypatch.context() as patch:
        plant(patch)
        run = built(case, tmp_path)
    found = verify(run)
    assert any(re.search(message, failure) for failure in found.failures), found.failures
