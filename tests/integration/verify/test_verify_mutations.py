"""Faults planted in the arithmetic of the search: whatever a build then claims, `verify` does not believe it.

Each fault makes a build claim something false. What the search itself checks is switched off where it would notice, and
the build is stopped before its own publication, which is then written all the same: what catches the fault is `verify`
alone. Without the fault the same build is verified.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import yaml

from sdc.bounds import decomposable, exact
from sdc.executor import IN_PROCESS
from sdc.feasible import bank, sparsest, walk
from sdc.feasible.differences import Differences, Flags
from sdc.model import graph
from sdc.model.cell_bounds import CellBounds, Intervals, combine
from sdc.model.fact import NO_FACTS, Between, Fact
from sdc.model.graph import Decomposition
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.structural_zeros import NO_ZEROS
from sdc.model.structure import Structure
from sdc.model.table import Counts, Table
from sdc.publish.publication import write_publication
from sdc.risk import support
from sdc.risk.inquiry import Inquiry
from sdc.stages.build import Build, open_build
from sdc.stages.stage import run_stage
from sdc.stages.stages import stages_of
from sdc.storage.parquet import table_columns, write_csv
from sdc.storage.run_folder import StageRecord, folder_digest
from sdc.verify.run_folder import verify
from tests.helpers.clearing import cleared_of
from tests.strategies import czech, dense, scattered, schema_of

Patch = pytest.MonkeyPatch


class Case(NamedTuple):
    """A build: its table, the width it requires, how it searches, codes that never occur together, and other facts."""

    table: Table
    min_width: int
    method: str = "ordered"
    impossible: tuple[tuple[int, int], ...] = ()
    undecided: str = "refuse"
    assessment: str = "proven"
    facts: tuple[Fact, ...] = ()
    forbid: tuple[str, ...] = ()


SHARP = Case(scattered(), 3, assessment="sharp")
LARGE, SMALL, EXPLICIT = Case(scattered(), 3), Case(czech(), 6), Case(scattered(), 1, "decomposable")
# not all of its sub-tables are releasable: the release grows, and with it what was found for a smaller one
GROWN = Case(scattered(), 1)
INFORMED = Case(czech(), 150, impossible=tuple(enumerate((1, 0, 0, 1, 1, 1))))
# a search looks for no sparsest difference, the assessment of what it found does
ASSESSED = Case(scattered(), 3, undecided="outer")
# under [A,B] [B,C] a cell of count 2 has the bounds [1, 2]: the lower one rests on the separator
HELD = Case(dense(schema_of([2, 2, 2]), [2, 0, 2, 0, 0, 1, 0, 1]), 1, "decomposable")
TOLD = HELD._replace(method="ordered", impossible=tuple(enumerate((0, 0, 1))))


def rounded(table: Table, view: int, base: int) -> Fact:
    """A marginal of which each count is known up to the rounding."""
    inside = table.marginal(view)
    least = (inside.counts + base // 2) // base * base - base // 2
    return Fact(view, (), Between(inside.codes, least, least + base - 1), "rounded tables")


SURVEY = Fact(0b00011, ((0, (0, 1)),), None, "survey")
FACTS = (SURVEY, rounded(scattered(), 0b01100, 3))
# A and B, and C and D, are told together by facts alone
PARTLY = LARGE._replace(min_width=6, facts=FACTS, forbid=("A*B", "A*C", "A*D", "B*C", "B*D", "C*D"))
# what leaves the views of facts whole is enough of a proof where one is searched for
WALKED = PARTLY._replace(undecided="outer")


@contextmanager
def beside(facts: tuple[Fact, ...]) -> Iterator[None]:
    """These are public before the build."""

    def told(found: Any) -> Any:
        table, known, origin = found
        return table, replace(known, facts=facts), origin

    with Patch.context() as patch:
        outcome(patch, Build, "with_earlier", told)
        yield


def built(case: Case, folder: Path) -> Path:
    """The run folder of a build of everything but its report, and its release made public whatever was decided."""
    write_csv(folder / "table.csv", table_columns(case.table))
    settings: dict[str, Any] = {
        "name": "mutation",
        "table": {"path": str(folder / "table.csv")},
        "risk": {"small_count": 2, "min_width": case.min_width, "undecided": case.undecided},
        "release": {
            "method": case.method,
            "forbid": [*case.forbid],
            "seconds": 5,
            "annealing": {"chains": 1, "steps": 200, "rounds": 1},
        },
        "assessment": case.assessment,
        "output": {"folder": str(folder / "runs")},
    }
    if case.impossible:
        named = ((case.table.schema.variables[v], code) for v, code in case.impossible)
        (folder / "zeros.yaml").write_text(yaml.safe_dump([{v.name: v.categories[code] for v, code in named}]))
        settings["table"]["structural_zeros"] = str(folder / "zeros.yaml")
    (folder / "build.yaml").write_text(yaml.safe_dump(settings))
    build = open_build(folder / "build.yaml")
    with beside(case.facts), build.started(["table", "widths", "search", "assessment", "release"]):
        for stage in stages_of(build.config):
            if stage.name in ("table", "widths", "search", "assessment"):
                run_stage(stage, build, IN_PROCESS, lambda text: None)
        with build.folder.writing("release") as into:
            cleared = cleared_of(build.made.table, build.made.found.release, build.subject)
            write_publication(cleared, build.subject, "mutation", into)
            build.folder.record(StageRecord("release", "", folder_digest(into), "done", 0.0, None, None))
    return build.folder.path


@pytest.mark.parametrize("case", [LARGE, SMALL, EXPLICIT, GROWN, INFORMED, HELD, TOLD, SHARP, PARTLY])
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


def perturbed(found: Differences) -> Differences:
    """One record too many in the first cell of each difference."""
    changes = found.changes.copy()
    changes[found.start[:-1]] += 1
    return Differences(found.start, found.cells, changes)


def preserves_everything(patch: Patch) -> None:
    """What was found for a release is taken to be feasible under every larger one."""
    patch.setattr(CellBounds, "__post_init__", lambda self: None)
    patch.setattr(Differences, "preserve", lambda self, *args, **options: np.ones(len(self), np.bool_))


def walk_corners_off_by_one(patch: Patch) -> None:
    unchecked(patch)
    outcome(patch, walk, "_checked", perturbed)


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


def largest_clique_count(patch: Patch) -> None:
    """The upper bound is the largest of the cliques' counts, not the smallest."""
    unchecked(patch)

    def explicit_bounds(marginals: Any, decomposition: Decomposition, floating: bool) -> Intervals:
        upper = np.max([marginals.at(clique) for clique in decomposition.cliques], axis=0)
        return np.stack([0 * upper, upper], axis=1)

    patch.setattr(decomposable, "explicit_bounds", explicit_bounds)


def loosest_component(patch: Patch) -> None:
    """The upper bound is the largest of the components' bounds, not the smallest."""
    unchecked(patch)

    def combined(parts: list[Intervals], between: Counts) -> Intervals:
        return np.stack([combine(parts, between)[:, 0], np.max([part[:, 1] for part in parts], axis=0)], axis=1)

    patch.setattr(support, "combine", combined)


def fewer_at_risk(patch: Patch) -> None:
    patch.setattr(Table, "at_risk", lambda self, small_count: np.flatnonzero(self.counts < small_count))


def extremes_too_wide(patch: Patch) -> None:
    unchecked(patch)
    outcome(patch, bank, "extremes", lambda ends: ends + np.array([0, 1]) * (ends[:, 1:] > 0))


def forgotten(patch: Patch, **less: Any) -> None:
    """Every question is asked of less than is known."""
    unchecked(patch)
    original = Inquiry.__post_init__

    def begin(self: Inquiry) -> None:
        original(self)
        self.known = replace(self.known, **less)

    patch.setattr(Inquiry, "__post_init__", begin)


def uninformed(patch: Patch) -> None:
    """The structural zeros are no part of what is known."""
    forgotten(patch, zeros=NO_ZEROS)


def forgetful(patch: Patch) -> None:
    """The other facts are no part of what is known."""
    forgotten(patch, facts=NO_FACTS)


def facts_without_effect(patch: Patch) -> None:
    """Differences may move every cell that a fact has."""
    unchecked(patch)
    patch.setattr(Fact, "holds", lambda self, cells, schema: np.zeros(len(cells), np.bool_))


def intervals_too_wide(patch: Patch) -> None:
    """Intervals are taken for wider than they are."""
    unchecked(patch)
    outcome(patch, Fact, "room", lambda ends: (ends[0] - 2 * (ends[1] > ends[0]), ends[1] + 2 * (ends[1] > ends[0])))


def cover_without_facts(patch: Patch) -> None:
    """The hulls of facts are in no clique that needs not have them."""
    without_facts(patch, "cover")


def components_without_facts(patch: Patch) -> None:
    """The hulls of facts are torn apart where the release is."""
    without_facts(patch, "components")


def without_facts(patch: Patch, name: str) -> None:
    """This of the structure of what is known is of the release and the structural zeros alone."""
    unchecked(patch)
    structure = vars(Knowledge)["structure"].func

    def found(known: Knowledge) -> Structure:
        told: Structure = structure(known)
        vars(told)[name] = getattr(structure(replace(known, facts=NO_FACTS)), name)
        return told

    patch.setattr(Knowledge, "structure", property(found))


def nothing(found: walk.Moved) -> Flags:
    return np.zeros(len(found.differences), np.bool_)


def sparsest_with_the_wrong_sign(patch: Patch) -> None:
    unchecked(patch)

    def negated(found: walk.Moved) -> walk.Moved:
        was = found.differences
        return replace(found, differences=Differences(was.start, was.cells, -was.changes))

    outcome(patch, sparsest, "find", negated)
    outcome(patch, walk, "shift", lambda found: replace(found, differences=found.differences.rows(nothing(found))))


def exact_tables_off_by_one(patch: Patch) -> None:
    unchecked(patch)
    outcome(patch, exact, "search", lambda found: (found[0], perturbed(found[1])))


def cover_without_fill(patch: Patch) -> None:
    """The released frontier itself in place of the cliques of a chordal graph around it."""
    unchecked(patch)
    patch.setattr(Structure, "cover", property(lambda self: graph.perfect_sequence(self.release.frontier)))


def sharp_beyond_its_tables(patch: Patch) -> None:
    """An inner end of a sharp bound that no table of the certificate reaches."""
    original = Inquiry.sharpen

    def sharpen(self: Inquiry, *args: Any, **options: Any) -> Any:
        judgement, bounds, by = original(self, *args, **options)
        inner = bounds.inner + np.array([0, 1])
        outer = np.stack([bounds.outer[:, 0], np.maximum(bounds.outer[:, 1], inner[:, 1])], axis=1)
        return judgement, replace(bounds, inner=inner, outer=outer), by

    patch.setattr(Inquiry, "sharpen", sharpen)


def sharp_by_other_methods(patch: Patch) -> None:
    """The methods of the ends are others than those that are counted."""
    outcome(patch, Inquiry, "sharpen", lambda found: (*found[:2], replace(found[2], outer=found[2].inner)))


FAULTS: dict[str, tuple[Case, Callable[[Patch], None], str]] = {
    "differences preserve everything": (GROWN, preserves_everything, r"differences give no feasible table"),
    "walk corners off by one": (LARGE, walk_corners_off_by_one, r"differences give no feasible table"),
    "walks forget a released marginal": (LARGE, walks_forget_an_element, r"differences give no feasible table"),
    "separators counted twice": (HELD, separators_counted_twice, r"claims a wider inner interval"),
    "the largest clique count": (LARGE, largest_clique_count, r"claims a wider inner interval"),
    "the loosest component": (EXPLICIT, loosest_component, r"claims a wider inner interval"),
    "at risk is less than the small count": (SMALL, fewer_at_risk, r"the table has 3 at risk"),
    "extremes too wide": (LARGE, extremes_too_wide, r"claims a wider inner interval"),
    "structural zeros forgotten": (INFORMED, uninformed, r"the structural zero .* is within no"),
    "facts forgotten": (PARTLY, forgetful, r"survey: A\*B is within no component"),
    "facts without effect": (WALKED, facts_without_effect, r"differences give no feasible table"),
    "intervals too wide": (WALKED, intervals_too_wide, r"differences give no feasible table"),
    "a cover without the facts": (PARTLY, cover_without_facts, r"survey: A\*B is within no clique"),
    "components without the facts": (PARTLY, components_without_facts, r"survey: A\*B is within no component"),
    "sparsest differences negated": (ASSESSED, sparsest_with_the_wrong_sign, r"differences give no feasible table"),
    "an exact method's table perturbed": (SMALL, exact_tables_off_by_one, r"differences give no feasible table"),
    "sharp ends beyond their tables": (SHARP, sharp_beyond_its_tables, r"claims a wider inner interval"),
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
