"""The decision of [DFT] section 3 beside its example by hand, and beside a listing of all tables that agree."""

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as hs

from sdc import knowledge
from sdc.api import decide
from sdc.config.file import read_config
from sdc.intruder.decision import RatedRelease, choice
from sdc.model.errors import ConfigError, InputError
from sdc.model.structural_zeros import StructuralZeros
from sdc.model.table import Table
from tests import reference
from tests.papers.sources import DELAWARE, DELAWARE_RELEASE
from tests.reference import TooManyTablesError
from tests.strategies import arbitrary_releases, every_cell, knows, listed, small_tables

MEN = {income: f"gender=male, race=chinese, income={income}" for income in ("low", "middle", "high")}
THRESHOLDS = {0.6: 0.2, 0.5: 0.3, 0.45: 0.5}
LOW = [Fraction(197, 304), Fraction(107, 304)]
"""The one Chinese person of low income is one of 304, of whom 107 are men."""
HIGH = [Fraction(comb(169, k) * comb(54, 2 - k), comb(223, 2)) for k in range(3)]
"""Of the two of high income each is one of 223, of whom 169 are men."""


def rated(*, of: Any = DELAWARE_RELEASE, **users: Any) -> RatedRelease:
    """The users' only release, of the table of [DFT]."""
    return decide(DELAWARE, {"it": of}, **users)[0]


# [DFT]'s example by hand: race by income and income by gender are released


def test_the_risk_of_the_example_by_hand() -> None:
    """Four small cells: above .6 the intruder claims 0 of the 1 man of low income, with probability 197/304, wrongly.
    Above .5 also the 2 men of high income, rightly, and above .45 also the 1 man and 1 woman of middle income.
    """
    costs = {"agency": {"right": 1.0, "wrong": 0.25}}
    at = {0.6: 0.25 / 4, 0.5: 1.25 / 4, 0.45: 3.25 / 4}
    for threshold, expected in at.items():
        assert rated(intruders=[{"thresholds": {threshold: 1}, **costs}]).risk == pytest.approx(expected)
    mixed = rated(intruders=[{"thresholds": THRESHOLDS, **costs}]).risk
    assert mixed == pytest.approx(0.2 * 0.25 / 4 + 0.3 * 1.25 / 4 + 0.5 * 3.25 / 4)

    class_of_two = {"targets": {MEN["low"]: 0.4, MEN["high"]: 0.6}, **costs}
    found = rated(intruders=[{"thresholds": THRESHOLDS, **class_of_two}]).risk
    assert found == pytest.approx(0.4 * 0.25 + (0.3 + 0.5) * 0.6 * 1)
    two = [{"thresholds": {0.6: 1}, **class_of_two}, {"thresholds": {0.5: 1}, "weight": 3.0, **class_of_two}]
    assert rated(intruders=two).risk == pytest.approx((1 * 0.4 * 0.25 + 3 * (0.4 * 0.25 + 0.6)) / 4)


@pytest.mark.parametrize(
    ("loss", "at_truth", "expected"),
    [
        # means 107/304 and 2 * 169/223, of true counts 1 and 2
        ("squared", [(1 - LOW[1]) ** 2, (2 - 2 * Fraction(169, 223)) ** 2], [LOW[0] * LOW[1], None]),
        # medians 0 and 2
        ("absolute", [1, 0], [LOW[1], HIGH[1] + 2 * HIGH[0]]),
        # most likely 0 and 2
        ("wrong", [1, 0], [LOW[1], 1 - HIGH[2]]),
    ],
)
def test_the_utility_of_the_example_by_hand(loss: str, at_truth: list[Any], expected: list[Any]) -> None:
    if loss == "squared":  # the variance
        mean = sum(k * p for k, p in enumerate(HIGH))
        expected = [expected[0], sum((k - mean) ** 2 * p for k, p in enumerate(HIGH))]
    for income, own, believed in zip(("low", "high"), at_truth, expected, strict=True):
        found = rated(scientists=[{"targets": {MEN[income]: 1}, "loss": loss}])
        assert (found.utility, found.expected_loss) == pytest.approx((-float(own), float(believed)))
    both = {"targets": {MEN["low"]: 0.25, MEN["high"]: 0.75}, "loss": loss}
    weighed = rated(scientists=[both, {"targets": {MEN["low"]: 1}, "loss": loss, "weight": 2.0}])
    of_both = 0.25 * float(at_truth[0]) + 0.75 * float(at_truth[1])
    assert weighed.utility == pytest.approx(-(of_both + 2 * float(at_truth[0])) / 3)


def test_the_choice_of_the_example_by_hand() -> None:
    """The whole table has most utility, and most risk; less than it is worth as much where a loss is accepted."""
    releases = {"whole": ["gender*race*income"], "pairs": DELAWARE_RELEASE, "one": ["race*income", "gender"]}
    users: dict[str, Any] = {
        "intruders": [{"thresholds": {0.5: 1}}],
        "scientists": [{"targets": {MEN["high"]: 1}, "loss": "wrong"}],
    }
    found = decide(DELAWARE, releases, **users)
    # by the third each of the two is a man with 356/742: 1 is most likely, with .4999, and nothing is claimed rightly
    assert [one.risk for one in found] == pytest.approx([1, 0.25, 0])
    assert [one.utility for one in found] == [0, 0, -1]
    assert [one.is_of_most_utility for one in found] == [True, True, False]
    assert found.chosen == found[1]
    squared = {**users, "scientists": [{"targets": {MEN["high"]: 1}}]}
    assert decide(DELAWARE, releases, **squared).chosen == decide(DELAWARE, releases, **squared)[0]
    near = decide(DELAWARE, releases, within=0.24, **squared)  # (108/223)^2 is .23455
    assert near.chosen == near[1]
    assert repr(near) == "pairs of 3 releases, risk 0.25, utility -0.234551; small_count=2"


def test_ties_and_reasons() -> None:
    one, other = RatedRelease("a", 1, 0.5, -2.0, 0.0), RatedRelease("b", 1, 0.5 + 1e-12, -1.0, 0.0)
    worse = RatedRelease("c", 1, 0.1, -9.0, 0.0)
    unknown = RatedRelease("d", 1, reason="no engine")
    found = choice([one, other, worse, unknown], within=1)
    assert [(own.is_of_most_utility, own.is_chosen) for own in found] == [
        (True, False),
        (True, True),  # the larger utility
        (False, False),
        (False, False),
    ]
    assert choice([unknown]).chosen is None
    assert repr(choice([unknown])) == "none of 1 release can be chosen"


# Beside the listing

MOST_TABLES = 400
PROBABILITIES = hs.lists(hs.integers(1, 5), min_size=1, max_size=3).map(lambda own: [n / sum(own) for n in own])


@hs.composite
def users(draw: hs.DrawFn, table: Table) -> tuple[dict[str, Any], dict[str, Any]]:
    """An intruder and a scientist, each with a law and targets of the whole table."""
    found = list[dict[str, Any]]()
    for _ in range(2):
        probabilities = draw(PROBABILITIES)
        rows = draw(hs.permutations(range(table.schema.cells)))[: len(probabilities)]
        cells = every_cell(table.schema)[rows].tolist()
        names = [", ".join(f"{v}={c}" for v, c in table.schema.named(cell).items()) for cell in cells]
        law = draw(hs.sampled_from(["released", "uniform", "saturated"]))
        weight = draw(hs.sampled_from([0.5, 1.0, 4.0]))
        found.append({"targets": dict(zip(names, probabilities, strict=False)), "law": law, "weight": weight})
    chances = draw(PROBABILITIES)
    thresholds = draw(hs.permutations([0.0, 0.15, 0.35, 0.47, 0.62, 0.9]))
    agency = draw(hs.sampled_from([(1.0, 0.0), (1.0, 0.5), (0.0, 2.0)]))
    found[0] |= {
        "thresholds": dict(zip(thresholds, chances, strict=False)),
        "agency": dict(zip(("right", "wrong"), agency, strict=True)),
    }
    found[1] |= {"loss": draw(hs.sampled_from(["squared", "absolute", "wrong"]))}
    return found[0], found[1]


def log_weight(law: str, counts: Any) -> float:
    everything = [range(counts.ndim)]
    alphas = {"uniform": 1.0, "saturated": 0.5}
    return reference.log_weight(counts, alphas[law], everything) if law in alphas else reference.log_weight(counts)


Laws = tuple[list[dict[int, float]], list[int], list[float]]


def laws_beside(table: Table, tables: Any) -> Callable[[Mapping[str, Any]], Laws]:
    """Of a user the law, the true count and the probability of each target."""
    names = [", ".join(f"{v}={c}" for v, c in table.schema.named(cell).items()) for cell in every_cell(table.schema)]
    dense = table.dense.reshape(-1)

    @cache
    def logs(law: str) -> list[float]:
        return [log_weight(law, counts.reshape(table.schema.sizes)) for counts in tables]

    def laws_of(user: Mapping[str, Any]) -> Laws:
        places = [names.index(target) for target in user["targets"]]
        laws = reference.posterior(tables[:, places], logs(user["law"]))
        return laws, dense[places].tolist(), [*user["targets"].values()]

    return laws_of


def risk_of(of: Laws, user: Mapping[str, Any]) -> float:
    laws, truth, probabilities = of
    right, wrong, total = user["agency"]["right"], user["agency"]["wrong"], 0.0
    for threshold, chance in user["thresholds"].items():
        assume(not any(abs(p - threshold) < 1e-7 for law in laws for p in law.values()))
        claims = reference.claims(laws, truth, 1 - threshold, 1.0)
        costs = [
            0.0 if claim is None else right if claim == count else wrong
            for claim, count in zip(claims, truth, strict=True)
        ]
        total += chance * sum(p * cost for p, cost in zip(probabilities, costs, strict=True))
    return total


LOSSES = {"squared": lambda error: error**2, "absolute": abs, "wrong": lambda error: float(abs(error) > 1e-9)}


def utility_of(of: Laws, user: Mapping[str, Any]) -> tuple[float, float]:
    """The estimate of least expected loss, by trying all of them, and of equal ones the least."""
    laws, truth, probabilities = of
    loss, utility, expected = LOSSES[user["loss"]], 0.0, 0.0
    for law, count, probability in zip(laws, truth, probabilities, strict=True):
        mean = sum(k * p for k, p in law.items())
        tried = {
            a: sum(p * loss(k - a) for k, p in law.items()) for a in ([mean] if user["loss"] == "squared" else law)
        }
        least = min(tried.values())
        best = min(a for a, own in tried.items() if own < least + 1e-9)
        utility -= probability * loss(count - best)
        expected += probability * least
    return utility, expected


@given(small_tables(max_records=6, max_cells=12), hs.data())
def test_random_tables_beside_a_listing_of_all_that_agree(table: Table, data: hs.DataObject) -> None:
    """Risk and utility of two releases, and the choice."""
    releases = {name: data.draw(arbitrary_releases(len(table.schema))) for name in ("first", "second")}
    (intruder, scientist), (other, another) = data.draw(users(table)), data.draw(users(table))
    try:
        agreeing = [listed(table, knows(table, release), MOST_TABLES) for release in releases.values()]
    except TooManyTablesError:
        assume(False)
    found = decide(table, releases, intruders=[intruder, other], scientists=[scientist, another])
    for one, tables in zip(found, agreeing, strict=True):
        laws_of = laws_beside(table, tables)
        weights = np.array([intruder["weight"], other["weight"]])
        risks = [risk_of(laws_of(user), user) for user in (intruder, other)]
        assert one.risk == pytest.approx(weights @ risks / weights.sum())
        losses = [utility_of(laws_of(user), user) for user in (scientist, another)]
        weights = np.array([scientist["weight"], another["weight"]])
        assert (one.utility, one.expected_loss) == pytest.approx(tuple(weights @ losses / weights.sum()), abs=1e-9)
    order = [(round(one.utility or 0.0, 7), -round(one.risk or 0.0, 7)) for one in found]
    assert [one.is_chosen for one in found] == ([True, False] if order[0] >= order[1] else [False, True])


# What is refused


@pytest.mark.parametrize(
    ("users", "message"),
    [
        (
            {"intruders": [{"thresholds": {0.5: 0.5, 0.9: 0.4}}]},
            r"intruders\.0\.thresholds = .*sum to 0\.9; they must sum to 1",
        ),
        ({"intruders": [{"thresholds": {1.5: 1.0}}]}, r"intruders\.0\.thresholds.* less than 1"),
        (
            {"intruders": [{"targets": {"gender=male": 1}}]},
            r"intruders\.0\.targets: 'gender=male' is not a cell of the table",
        ),
        (
            {"scientists": [{"targets": {"sex=male": 1}}]},
            r"scientists\.0\.targets: 'sex=male' is not a cell .*unknown variable",
        ),
        ({"scientists": [{"targets": {MEN["low"]: 0.5}}]}, r"scientists\.0\.targets.*sum to 0\.5; they must sum to 1"),
        ({"scientists": [{"targets": "some"}]}, r"scientists\.0\.targets = 'some'"),
        ({"intruders": [{}, {"weight": -1.0}]}, r"intruders\.1\.weight = -1\.0.*greater than 0"),
        ({"intruders": [{"loss": "wrong"}]}, r"intruders\.0\.loss is an unknown key"),
        ({"scientists": [{"law": "certain"}]}, r"scientists\.0\.law: law 'certain' is unknown; choose"),
        ({"within": -1.0}, r"within = -1\.0"),
    ],
)
def test_bad_input(users: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        decide(DELAWARE, {"it": DELAWARE_RELEASE}, **users)
    assert "\n" not in str(caught.value)


def test_nothing_to_choose_from() -> None:
    with pytest.raises(InputError, match="releases is empty; give at least one"):
        decide(DELAWARE, {})


def test_what_no_engine_gives_is_not_chosen() -> None:
    impossible = StructuralZeros((((0, (1,)), (1, (2,)), (2, (0,))),))
    informed = knowledge(DELAWARE, DELAWARE_RELEASE, structural_zeros=impossible)
    found = decide(DELAWARE, {"it": informed, "less": DELAWARE_RELEASE}, scientists=[{"law": "[race][gender][income]"}])
    assert "structural zeros" in str(found[0].reason)
    assert (found[0].risk, found.chosen) == (None, found[1])


@pytest.mark.parametrize(
    ("decision", "message"),
    [
        (
            "{intruders: [{thresholds: {0.5: 0.7, 0.9: 0.7}}]}",
            r"curve\.decision\.intruders\.0\.thresholds.*sum to 1\.4",
        ),
        ("{scientist: []}", r"curve\.decision\.scientist is an unknown key; did you mean scientists"),
    ],
)
def test_bad_config(tmp_path: Path, decision: str, message: str) -> None:
    file = tmp_path / "build.yaml"
    curve = f"curve: {{min_width: [3], decision: {decision}}}"
    file.write_text(f"name: small\ntable: {{path: t.csv}}\nrisk: {{min_width: 3}}\n{curve}\n")
    with pytest.raises(ConfigError) as caught:
        read_config(file)
    assert re.search(message, str(caught.value))


def test_a_config_with_a_decision_asks_for_a_posterior(tmp_path: Path) -> None:
    file = tmp_path / "build.yaml"
    table = "table: {path: t.csv, weight: w}"
    file.write_text(f"name: small\n{table}\nrisk: {{min_width: 3}}\ncurve: {{min_width: [3], decision: {{}}}}\n")
    with pytest.raises(ConfigError, match="posterior laws use counts alone"):
        read_config(file)
