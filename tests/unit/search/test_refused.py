"""What stopped a release: the cells, the refutations, and how many questions had no proof."""

import re
from typing import Any

import numpy as np
import pytest

from sdc.api import cell_bounds, find_release, why
from sdc.model.release import Release
from sdc.model.table import Table
from sdc.risk.critical_width import critical_widths
from sdc.risk.effort import Budget
from sdc.risk.verdict import Verdict
from sdc.search.blockers import blockers
from sdc.search.step import Refused, SearchStep
from sdc.search.why import reason_facts
from tests.profiles import scaled
from tests.strategies import all_ways, czech, dks_2x2x2x2, evaluator_of, scattered


def step(answer: bool | None, refutation: str | None = None, spent: int = 0) -> SearchStep:
    return SearchStep("growth", 1, (1,), answer, (0, 2), 0, (), refutation, spent)


STEPS = (
    step(True, spent=5),
    step(False, "one"),
    step(False, "one"),
    step(False, "other"),
    step(False),
    step(None, spent=1000),
    step(None, spent=234),
)


def test_each_kind_is_counted_and_told() -> None:
    told = Refused.of(STEPS)
    assert told.facts == {"proven": 3, "refutations": 2, "refuted": 1, "unproven": 2, "spent": 1234}
    assert told.questions == 6
    for words in ("3 are refused, proven: by 2 refutations", "1 is refuted", "no proof was found in 1,234 steps"):
        assert words in told.text


def test_where_what_is_open_goes_out_it_is_not_refused() -> None:
    told = Refused.of(STEPS, lets_open_out=True)
    assert (told.unproven, told.spent, told.questions) == (0, 0, 4)


def test_of_nothing_nothing_is_said() -> None:
    assert (Refused.of([]).questions, Refused.of([step(True)]).text) == (0, "")


@pytest.mark.parametrize("method", ["ordered", "bisection", "best"])
def test_a_release_has_what_its_steps_name(method: str) -> None:
    found = find_release(czech(), method, min_width=20)
    named = {one.refutation for one in found.steps if one.refutation is not None}
    assert {one.name for one in found.refutations} == named
    assert len(named) == found.refused().refutations > 1
    assert found.refused().refuted == 0


def test_conflicts_of_what_is_required_have_theirs() -> None:
    wanted = ["A*B*C*E*F", "A*B*D*E*F", "A*C*D*E*F"]
    found = find_release(czech(), "ordered", min_width=6, require=wanted, on_conflict="drop")
    assert found.required is not None
    (conflict,) = found.required.conflicts
    assert conflict.refutation is not None
    assert conflict.refutation.name in {one.name for one in found.refutations}
    assert conflict.text(czech().schema).endswith("are not releasable together (refused, proven)")


def test_why_says_how_a_refusal_is_proven() -> None:
    table = czech()
    reason = why(table, ["A*B*D*E*F", "A*C*D*E*F"], "A*B*C*E*F", min_width=6)
    assert reason.refutation is not None
    proof = reason.proof(table.schema)
    assert re.search(r"refused, proven: .* width of 5 at most .* A\*B\*C\*E\*F, A\*B\*D\*E\*F, A\*C\*D\*E\*F", proof)
    facts = reason_facts(reason, table.schema)
    assert facts["refutation"]["name"] == reason.refutation.name
    assert facts["proof"] == reason.proof(table.schema)
    safe = why(table, ["A*B*D*E*F"], "A*B*C", min_width=6)
    assert (safe.refutation, safe.proof(table.schema)) == (None, "")


def test_why_says_where_none_is_kept() -> None:
    """[DKS] section 4: an exhaustive search refutes, and no multipliers do."""
    table, schema = dks_2x2x2x2(), dks_2x2x2x2().schema
    pairs = [[schema.names[v] for v in range(4) if t >> v & 1] for t in all_ways(4, 2).frontier]
    reason = why(table, ["*".join(names) for names in pairs[1:]], "*".join(pairs[0]), min_width=1)
    assert (reason.together.verdict, reason.refutation) == (Verdict.UNSAFE, None)
    assert reason.proof(schema) == "refused by bounds or a limit alone, no proof of which is kept"


@pytest.mark.parametrize("min_width", [6, 10, 30, 53])
def test_an_unsafe_release_names_cells_that_refute_it(min_width: int, czech: Table) -> None:
    """Judged by the sharp bounds under the release asked about: the critical widths down, in CI at some fifteen."""
    listed = critical_widths(czech).reaching(min_width)
    taken = np.linspace(1, len(listed), scaled(len(listed))).round().astype(int)
    for number in sorted(set(taken.tolist())):
        release = Release.of(listed[:number])
        evaluation = evaluator_of(czech, min_width).evaluate(release)
        sharp = cell_bounds(czech, release)
        assert sharp.exact.all()
        narrow = {tuple(cell) for cell in sharp.cells[sharp.outer_width < min_width].tolist()}
        assert set(evaluation.blockers) <= narrow
        assert bool(evaluation.blockers) == bool(narrow)


def test_an_undecided_question_names_cells_that_were_given_up() -> None:
    table = scattered()
    budget = Budget(1e-4, 60.0)  # enough, but little for a cell
    steps = find_release(table, "ordered", min_width=3, budget=budget).steps
    at_risk = set(map(tuple, table.codes[table.at_risk(2)].tolist()))
    assert any(step.answer is None for step in steps)
    assert all(bool(step.blockers) is (step.answer is None) for step in steps)
    assert all(set(step.blockers) <= at_risk for step in steps)


def test_cells_that_nothing_was_tried_for_are_not_named() -> None:
    steps = find_release(scattered(), "ordered", min_width=3, budget=Budget(0.3, 0.001)).steps
    assert steps[0].answer is None  # all that were tried have their width, then the budget was spent
    assert not any(step.blockers for step in steps)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([], []),
        ([("growth", (1,), False, ((0, 0),))], [((0, 0), (1,))]),
        ([("growth", (1, 2), False, ((0, 0),))], []),  # several together: it may be any of them
        ([("growth", (1,), None, ((0, 0),)), ("growth", (1,), True, ())], []),  # the last question counts
        ([("growth", (1,), False, ((0, 0),)), ("extension", (2,), False, ((1, 1),))], [((1, 1), (2,))]),
        (
            [("growth", (1,), False, ((0, 0), (1, 0))), ("growth", (2,), None, ((1, 0),))],
            [((1, 0), (1, 2)), ((0, 0), (1,))],
        ),
    ],
)
def test_what_is_counted(steps: list[Any], expected: list[Any]) -> None:
    asked = [SearchStep(phase, 1, added, answer, (0, 9), 1, cells) for phase, added, answer, cells in steps]
    assert blockers(asked) == expected
