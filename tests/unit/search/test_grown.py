"""Growths that go on from a checkpoint: what they end with is proven, and not smaller than what was kept."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from sdc.checkpoint import Arrays, Checkpoint
from sdc.model.release import Release
from sdc.model.table import Table
from sdc.risk.critical_width import critical_widths
from sdc.risk.effort import Budget, Depth
from sdc.risk.refutation import Refutations
from sdc.risk.verdict import Verdict
from sdc.search.constraints import Constraints
from sdc.search.grown import Grown
from sdc.search.ordered import OrderedRelease, OrderedSearch
from tests.strategies import czech, evaluator_of, scattered, schema_of
from tests.unit.search.test_ordered import FEW_NODES


@dataclass(frozen=True)
class Remembered(Checkpoint):
    """Keeps all that is written, in this process."""

    above: Any = "here"
    written: list[Arrays] = field(default_factory=list)

    def write(self, name: str, arrays: Arrays) -> None:
        self.written.append(arrays)


CONSTRAINTS = {
    "breadth 2": Constraints(),
    "breadth 1": Constraints(breadth=1),
    "required": Constraints(require=(0b11,)),
}


def grown(table: Table, checkpoint: Checkpoint, constraints: Constraints = CONSTRAINTS["breadth 2"]) -> OrderedRelease:
    evaluator = replace(evaluator_of(table, 3, budget=FEW_NODES), refutations=Refutations())
    return OrderedSearch(evaluator, critical_widths(table), constraints=constraints, checkpoint=checkpoint).run()


def going_on(arrays: Arrays) -> Remembered:
    return Remembered(found={"growth": arrays, "extension": arrays})


def assert_safe(table: Table, found: OrderedRelease) -> None:
    evaluator = evaluator_of(table, 3)
    evaluator.learn(found.proof, found.release)
    assert evaluator.evaluate(found.release, Depth.REFUTE).verdict is Verdict.SAFE


@pytest.mark.parametrize("constraints", CONSTRAINTS)
@pytest.mark.parametrize("seed", [1, 2])
def test_from_whatever_was_kept_it_comes_to_a_proven_release_that_has_it(
    constraints: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sdc.search.ordered.SECONDS_UNKEPT", 0.0)
    table, checkpoint = scattered(seed), Remembered()
    whole = grown(table, checkpoint, CONSTRAINTS[constraints])
    assert whole.resumed is None
    assert len(checkpoint.written) > 5
    for arrays in checkpoint.written:
        kept = Grown.read(arrays, table.schema)
        found = grown(table, going_on(arrays), CONSTRAINTS[constraints])
        assert found.resumed
        assert_safe(table, found)
        assert found.release.contains(kept.release)
        asked_before = [step for step in found.steps if step.phase == "required"]
        assert found.steps[len(asked_before) :][: len(kept.steps)] == kept.steps
        # what was refused alone is not asked again alone, but once where all means are taken
        refused = [step.added for step in kept.steps if len(step.added) == 1 and not step.answer]
        again = [step.added for step in found.steps[len(asked_before) + len(kept.steps) :]]
        assert all(refused.count(added) + again.count(added) <= 2 for added in refused)
    assert found.release == whole.release


def changed(arrays: Arrays, name: str, change: Any) -> dict[str, Any]:
    return {**arrays, name: change(arrays[name])}


FORGED: Mapping[str, Any] = {
    "no evidence": lambda arrays: {name: array for name, array in arrays.items() if ":" not in name},
    "other differences": lambda arrays: {
        name: -array if name.endswith(":changes") else array for name, array in arrays.items()
    },
    "a larger release": lambda arrays: changed(arrays, "release", lambda _: np.array([0b11111])),
    "no steps": lambda arrays: {name: array for name, array in arrays.items() if name != "steps"},
    "other steps": lambda arrays: changed(arrays, "steps", lambda _: np.frombuffer(json.dumps([1]).encode(), np.uint8)),
}


@pytest.mark.parametrize("forgery", FORGED)
def test_what_does_not_hold_proves_nothing(forgery: str) -> None:
    table, checkpoint = scattered(), Remembered()
    whole = grown(table, checkpoint)
    found = grown(table, going_on(FORGED[forgery](checkpoint.written[-1])))
    assert_safe(table, found)
    if found.resumed:  # what else is known shows that the release is safe
        assert forgery in ("no evidence", "other differences")
    else:
        assert (found.release, found.steps) == (whole.release, whole.steps)


def test_what_does_not_have_the_start_is_passed_over() -> None:
    """As where chains ended by the clock, were killed, and came to another graph when they went on."""
    table, checkpoint = scattered(), Remembered()
    grown(table, checkpoint)
    evaluator, start = evaluator_of(table, 3, budget=FEW_NODES), Release.of([0b11, 0b1100])
    kept = going_on(checkpoint.written[0])
    assert not Grown.read(checkpoint.written[0], table.schema).release.contains(start)
    found = OrderedSearch(evaluator, critical_widths(table), checkpoint=kept).extended(evaluator.evaluate(start))
    assert found.resumed is False
    assert found.release.contains(start)


def refuting(checkpoint: Checkpoint) -> tuple[Table, OrderedRelease]:
    """288 cells, too many for exact methods, and a growth that bounds refute now and then."""
    rng, sizes = np.random.default_rng(1), [3, 3, 2, 2, 2, 2, 2]
    counts = rng.multinomial(8 * 288, rng.dirichlet(np.ones(288)))
    table = Table.of(schema_of(sizes), np.array(list(np.ndindex(*sizes))), counts)
    evaluator = replace(evaluator_of(table, 8, budget=Budget(0.02, 5)), refutations=Refutations())
    return table, OrderedSearch(evaluator, critical_widths(table), checkpoint=checkpoint).run()


def test_what_was_refuted_is_kept_and_one_that_does_not_hold_is_not_gone_on_from() -> None:
    checkpoint = Remembered()
    table, whole = refuting(checkpoint)
    kept = Grown.read(checkpoint.written[-1], table.schema)
    assert len(kept.refutations) > 0
    _, again = refuting(going_on(kept.kept(table.schema)))
    assert again.resumed
    assert {one.name for one in kept.refutations} <= {one.name for one in again.refutations}
    first, *others = kept.refutations
    forged = replace(kept, refutations=(replace(first, bounds=(0, first.bounds[1] - 1)), *others))
    _, found = refuting(going_on(forged.kept(table.schema)))
    assert found.resumed is False
    assert (found.release, found.steps) == (whole.release, whole.steps)


def test_small_tables_are_not_kept() -> None:
    checkpoint = Remembered()
    assert grown(czech(), checkpoint).evaluation.verdict is Verdict.SAFE
    assert checkpoint.written == []
