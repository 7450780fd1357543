"""Decisions that tell nothing: alike for every table that agrees with the release, and the true one at the end."""

from collections.abc import Sequence
from contextlib import suppress

import numpy as np
import pytest

import sdc
from sdc.api import find_release
from sdc.config.given import with_given
from sdc.config.release import ReleaseConfig, SimulatableConfig
from sdc.model import subtable as st
from sdc.model.errors import ConfigError, InputError, NothingReleasableError, ReleaseError
from sdc.model.graph import decompose
from sdc.model.release import NOTHING, Release
from sdc.model.structural_zeros import StructuralZeros
from sdc.model.table import Table
from sdc.risk.criteria import Criteria
from sdc.risk.posterior_limit import PosteriorLimit
from sdc.risk.verdict import Verdict
from sdc.search.ordered import OrderedSearch
from sdc.search.simulatable import SimulatableSearch, SimulatedStep
from sdc.stages.assemble import Watch
from sdc.utility.measures import Weights
from tests import reference
from tests.profiles import scaled
from tests.strategies import dense, evaluator_of, schema_of, unknowing

FEW = SimulatableConfig(draws=12, share=0.1)


def decisions_of(table: Table, criteria: Criteria, simulation: SimulatableConfig = FEW) -> list[SimulatedStep]:
    """All decisions, whether or not the true table breaks the criterion in the end."""
    steps: list[SimulatedStep] = []
    with suppress(ReleaseError):
        SimulatableSearch(unknowing(table, criteria), simulation, on_step=steps.append).run()
    return steps


@pytest.fixture(scope="module")
def czech_steps(czech: Table) -> tuple[SimulatedStep, ...]:
    """Of the Czech table at the width 6, by few draws."""
    return tuple(decisions_of(czech, Criteria.of(2, 6)))


def released_after(steps: Sequence[SimulatedStep]) -> Release:
    return Release.of([st.GRAND_TOTAL, *(step.added for step in steps if step.accepted)])


Course = tuple[tuple[SimulatedStep, ...], Release | None]


def course_of(table: Table, criteria: Criteria, simulation: SimulatableConfig) -> Course:
    """All decisions of a build's search, and what it releases: nothing where the table breaks the criterion."""
    steps: list[SimulatedStep] = []
    width, small = criteria.width.min_width, criteria.small_count
    try:
        found = find_release(
            table,
            "simulatable",
            min_width=width,
            small_count=small,
            simulatable=simulation,
            watch=Watch(on_simulated=steps.append),
        )
    except NothingReleasableError:
        return tuple(steps), None
    return tuple(steps), found.release


def test_every_table_that_agrees_gets_the_same_decisions(night: list[int]) -> None:
    """Tables, and of each some of those that agree with its release, with and without at-risk cells; enumerated."""
    without = 0
    for number in range(tables := scaled(200, fewest=20)):
        rng = np.random.default_rng([16, number, *night])
        sizes = [2, 3] if number % 10 else [2, 2, 2]
        counts = rng.choice([0, 0, 1, 2, 3, 4], sizes)
        table = dense(schema_of(sizes), counts.reshape(-1).tolist())
        if not table.total:
            continue
        criteria, simulation = (
            Criteria.of(int(rng.integers(1, 3)), int(rng.integers(1, 4))),
            SimulatableConfig(draws=3, share=0.4, seed=number),
        )
        steps, released = course_of(table, criteria, simulation)
        grown = released_after(steps)
        assert released in (None, grown)
        agreeing = reference.feasible(sizes, reference.released(counts, map(st.members, grown.frontier)))
        is_clear = ~((agreeing > 0) & (agreeing <= criteria.small_count)).any(axis=1)
        chosen = [*agreeing[is_clear][:1], *rng.permutation(agreeing)[:1]]
        without += int(is_clear.any())
        for other in chosen:
            own, left = course_of(dense(table.schema, other.tolist()), criteria, simulation)
            assert own == steps
            assert left in (None, grown)
    assert without > tables // 4


def test_what_the_ordered_search_finds_decides_nothing(
    czech: Table, czech_steps: tuple[SimulatedStep, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It only says what the decisions cost; where it ends without a release there is nothing to say."""

    def refuses(search: OrderedSearch) -> None:
        raise NothingReleasableError("nothing")

    monkeypatch.setattr(OrderedSearch, "run", refuses)
    found = find_release(czech, "simulatable", min_width=6, simulatable=FEW)
    assert (found.simulated, found.reason) == (czech_steps, None)
    assert found.release == released_after(czech_steps)


def test_the_czech_release(czech: Table) -> None:
    """Beside the 59 of the ordered search and the 47 of annealing, which both look at the table."""
    steps: list[SimulatedStep] = []
    watch = Watch(on_simulated=steps.append)
    found = find_release(czech, "simulatable", min_width=6, simulatable=FEW, watch=watch)
    assert found.sub_tables == 39
    assert found.evaluation.verdict is Verdict.SAFE
    assert decompose(found.release, 6) is not None
    assert found.reason is not None
    assert found.reason.startswith("Decisions that tell nothing of the table cost 20 sub-tables: the ordered search")
    assert found.simulated == tuple(steps)


def test_candidates_come_in_a_public_order(czech: Table, czech_steps: tuple[SimulatedStep, ...]) -> None:
    """By dimension, then by what they are worth; nothing is asked that contains what was refused, or is no clique."""
    steps = czech_steps
    refused = [step.added for step in steps if not step.accepted]
    one_way = [step.added for step in steps[:6]]
    assert one_way == [1, 2, 4, 8, 16, 32]
    for number, step in enumerate(steps):
        earlier = [other.added for other in steps[:number] if not other.accepted]
        assert not any(step.added & smaller == smaller for smaller in earlier)
        released = released_after(steps[:number])
        assert (step.added not in released, step.length) == (True, released.sub_tables(czech.schema))
        assert decompose(Release.of([*released.frontier, step.added]), 6) is not None
        assert step.accepted == (step.breaking <= FEW.most)
    assert refused
    weights = Weights.of(czech.schema, {"F": 3.0}, {})
    search = SimulatableSearch(evaluator_of(czech, 6), SimulatableConfig(draws=1, share=0.0), weights)
    assert search.run().steps[0].added == 32


def test_the_true_table_has_the_last_word() -> None:
    """Drawn ones hardly ever have the one cell that stands alone: what grew is refused, and nothing of it is said."""
    table = dense(schema_of([2, 2, 2]), [400, 0, 0, 0, 0, 0, 0, 1])
    asked = unknowing(table, Criteria.of(2, 2))
    with pytest.raises(ReleaseError, match=r"breaks the criterion in the true table \(min width 1 to 1, required 2\)"):
        SimulatableSearch(asked, SimulatableConfig(draws=20, share=0.95)).run()


def test_a_limit_that_the_true_table_breaks_is_named(czech: Table) -> None:
    """Its cells are wide enough: what is said is what is not."""
    asked = unknowing(czech, Criteria.of(2, 6, PosteriorLimit(max_probability=0.01)))
    with pytest.raises(ReleaseError, match=r"required 6; under the law released .*0\.0314 \(at most 0\.01 allowed"):
        SimulatableSearch(asked, SimulatableConfig(draws=10, share=0.4)).run()


def test_a_limit_on_the_posterior_is_asked_of_the_draws_too(
    czech: Table, czech_steps: tuple[SimulatedStep, ...]
) -> None:
    limit = PosteriorLimit(threshold=0.01, max_above=0.0)
    limited = decisions_of(czech, Criteria.of(2, 6, limit))
    plain = released_after(czech_steps)
    assert released_after(limited).sub_tables(czech.schema) < plain.sub_tables(czech.schema)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"draws": 0}, "draws = 0: .*greater than or equal to 1"),
        ({"seed": -1}, "seed = -1: .*greater than or equal to 0"),
        ({"share": 1.0}, "share = 1.0: .*less than 1"),
        ({"share": -0.1}, "share = -0.1: .*greater than or equal to 0"),
    ],
)
def test_faulty_simulations(values: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=rf"release\.simulatable\.{message}"):
        with_given(ReleaseConfig(), {"simulatable": values})


def test_what_it_does_not_take(czech: Table) -> None:
    zeros = StructuralZeros((tuple((v, (code,)) for v, code in enumerate((1, 0, 0, 1, 1, 1))),))
    with pytest.raises(ConfigError, match=r"simulatable with table\.structural_zeros: a draw may have records where"):
        SimulatableSearch(evaluator_of(czech, 6, zeros=zeros)).run()
    wide = Table.of(schema_of([2] * 17), np.zeros((5, 17), np.uint16), np.array([1, 2, 3, 4, 5]))
    with pytest.raises(InputError, match="the table has 17 variables, and the method simulatable evaluates all"):
        SimulatableSearch(unknowing(wide, Criteria.of(20, 1))).run()
    for method in ("simulatable", "optimum"):
        with pytest.raises(ConfigError, match=f"the curve has no method {method}; choose ordered or bisection"):
            sdc.risk_utility_curve(czech, NOTHING, min_widths=[3], methods=[method])
