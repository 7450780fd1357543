"""Losses beside [DFT]'s example by hand, equation (5), and a listing of all tables that agree."""

import math
from math import prod

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as hs

from sdc.intruder import hypergeometric
from sdc.intruder.laws import law_of
from sdc.intruder.losses import Claims, Losses
from sdc.intruder.measures import identified
from sdc.intruder.posterior import posterior
from sdc.model import subtable as st
from sdc.model.errors import InputError
from sdc.model.knowledge import Knowledge
from sdc.model.losses import AgencyLosses, IntruderLosses
from sdc.model.marginal import CellMarginals
from sdc.model.table import Table
from sdc.risk.posterior_limit import PosteriorLimit
from sdc.verify import likely
from tests import reference
from tests.papers.sources import DELAWARE
from tests.reference import TooManyTablesError
from tests.strategies import frontier, knows, listed, small_tables
from tests.unit.intruder.test_moments import treatable

MOST_TABLES = 2_000
ROWS = DELAWARE.at_risk(2)
RELEASED = knows(DELAWARE, frontier("AC", "BC"))
"""[DFT] table 1: gender by income and race by income."""


def losses(none: float, wrong: float = 1.0, right: float = 1.0, harm: float = 0.0) -> Losses:
    return Losses(IntruderLosses(none, wrong), AgencyLosses(right, harm))


def risk(table: Table, known: Knowledge, of: Losses) -> float | None:
    """By the limit, of any release that has a law."""
    most = np.nextafter(max(of.agency.right, of.agency.wrong), 0)
    return PosteriorLimit(losses=of, max_loss=float(most)).judge(table, known, table.at_risk(2)).loss


# [DFT]'s example by hand


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        # he claims what is more probable than 0.9, and nothing is
        ((0.1,), 0),
        # above 0.5: of (0, 2, 0), which is 1, the 0 with 0.65; of (0, 2, 2), which is 2, the 2 with 0.57
        ((0.5,), 1),
        ((0.5, 1, 1, 0.25), 1 + 0.25),
        # above 0.56 the same two; above 0.6 the wrong one alone
        ((0.44, 1, 1, 0.25), 1 + 0.25),
        ((0.4, 1, 1, 0.25), 0.25),
        ((0.4,), 0),
        # above 0.4 and 0.2 also the 1 with 0.46 of both of middle income, which are 1
        ((0.6, 1, 1, 0.25), 3 + 0.25),
        ((4, 5, 3, 0.5), 3 * 3 + 0.5),
        # always
        ((2, 1, 1, 1), 4),
        ((1, 1, 0, 1), 1),
    ],
)
def test_the_example_by_hand(given: tuple[float, ...], expected: float) -> None:
    assert risk(DELAWARE, RELEASED, losses(*given)) == pytest.approx(expected / 4)


def test_other_releases_of_the_example_by_hand() -> None:
    """By the total alone each record is in one of 18 cells: all four counts are most likely 53 or so, and none is."""
    nothing = knows(DELAWARE, frontier())
    assert risk(DELAWARE, nothing, losses(0.5, 1, 1, 1)) == 0
    assert risk(DELAWARE, nothing, losses(1, 1, 1, 1)) == 1  # he always claims, and is always wrong
    assert risk(DELAWARE, nothing, losses(1)) == 0
    everything = knows(DELAWARE, frontier("ABC"))
    assert risk(DELAWARE, everything, losses(1e-6, 1, 0.7, 1)) == pytest.approx(0.7)


def test_a_limit_chooses_between_releases_of_the_example() -> None:
    limit = PosteriorLimit(losses=losses(0.5, 1, 1, 0.25), max_loss=0.3)
    kept = {names: limit.judge(DELAWARE, knows(DELAWARE, frontier(*names)), ROWS) for names in (("AC", "BC"), ("A",))}
    assert [one.is_kept for one in kept.values()] == [False, True]
    assert kept["AC", "BC"].claims == Claims(1, 1, 4)
    assert kept["AC", "BC"].text.endswith(
        ", and an intruder's 1 right and 1 wrong claims cost 0.3125 a cell (at most 0.3 allowed)"
    )
    of_right = PosteriorLimit(losses=losses(0.5), max_loss=0.25).judge(DELAWARE, RELEASED, ROWS)
    assert of_right.is_kept
    assert of_right.claims == Claims(1, None, 4)  # wrong ones cost nothing, and are not looked for
    assert of_right.text.endswith("an intruder's 1 right claims cost 0.2500 a cell (at most 0.25 allowed)")


# Beside other computations


@given(hs.data(), hs.integers(1, 12), hs.floats(0.0, 0.99))
def test_where_only_right_claims_count_it_is_equation_5(data: hs.DataObject, cells: int, threshold: float) -> None:
    """0 for a right claim, 1 for a wrong one, 1 - t for none: he claims what is more probable than t."""
    highest = np.array(data.draw(hs.lists(hs.floats(0.001, 1.0), min_size=cells, max_size=cells)))
    shares = np.array(data.draw(hs.lists(hs.sampled_from([0.0, 0.3, 1.0]), min_size=cells, max_size=cells)))
    own = losses(1 - threshold)
    assume((np.abs(highest[:, None] - [threshold, own.intruder.threshold]) > 2e-9).all())
    found = own.claims(highest * shares, highest)
    assert own.risk(found) == pytest.approx(identified(highest * shares, highest, threshold))


@given(
    small_tables(max_records=6),
    hs.data(),
    hs.sampled_from([0.1, 0.3, 0.45, 0.5, 0.6, 0.8, 1.0, 3.0]),
    hs.sampled_from([(1.0, 0.0), (1.0, 0.5), (0.0, 1.0), (2.0, 2.0), (0.5, 3.0)]),
)
def test_random_tables_beside_a_listing_of_all_that_agree(
    table: Table, data: hs.DataObject, none: float, agency: tuple[float, float]
) -> None:
    """The limit and verification, each its own way."""
    known, rows = knows(table, data.draw(treatable(table))), table.at_risk(2)
    assume(hypergeometric.is_treatable(known) and len(rows))
    try:
        tables = listed(table, known, MOST_TABLES)
    except TooManyTablesError:
        assume(False)
    logs = [reference.log_weight(counts) for counts in tables]
    laws = reference.posterior(tables[:, table.schema.keys.pack(table.codes[rows])], logs)
    shares = np.exp(np.array(logs) - np.logaddexp.reduce(logs))
    whole = posterior(table, known, law_of("released", table.schema, 0.5), table.codes[rows])
    entropy = -math.fsum(shares * np.log(shares))
    assert [whole.entropy, hypergeometric.entropy(table, known)] == pytest.approx([entropy] * 2, abs=1e-9)
    own = losses(none, 1.0, *agency)
    assume(not any(abs(p - own.intruder.threshold) < 1e-7 for law in laws for p in law.values()))
    counts = table.counts[rows].tolist()
    claims = reference.claims(laws, counts, none, 1.0)
    right = sum(claim == count for claim, count in zip(claims, counts, strict=True))
    wrong = len(claims) - claims.count(None) - right
    expected = (right * agency[0] + wrong * agency[1]) / len(counts)
    assert risk(table, known, own) == pytest.approx(expected)
    assert own.risk(own.claims(whole.cells.at_truth, whole.cells.most_likely[1])) == pytest.approx(expected)

    tree, marginals = hypergeometric.junction_tree(known), CellMarginals(table, table.codes[rows])
    uncovered = prod(table.schema.sizes[v] for v in st.members(known.structure.varying & ~tree.variables))
    counts_at = ([marginals.at(s) for s in sets] for sets in (tree.cliques, tree.separators))
    facts = {"intruder": {"none": none, "wrong": 1.0}, "agency": {"right": agency[0], "wrong": agency[1]}}
    found = likely._claims(table.counts[rows], likely._Tree(*counts_at, [uncovered] * len(rows)), facts)
    assert found == {"right": right, "wrong": wrong if agency[1] else None, "cells": len(rows)}


# Bad input


@pytest.mark.parametrize(
    ("of_intruder", "of_agency", "message"),
    [
        ((-0.1,), (), "none = -0.1 of an intruder's losses; give a number above 0"),
        ((0.0,), (), "none = 0.0 of an intruder's losses"),
        ((math.nan,), (), "none = nan of an intruder's losses"),
        ((0.1, -1.0), (), "wrong = -1.0 of an intruder's losses"),
        ((0.1, math.inf), (), "wrong = inf of an intruder's losses"),
        (
            (1e-9,),
            (),
            "none = 1e-09 of an intruder's losses is negligible beside wrong = 1.0, so no claim would be made",
        ),
        ((0.1,), (-1.0,), "right = -1.0 of the agency's losses; give a number of at least 0"),
        ((0.1,), (1.0, math.nan), "wrong = nan of the agency's losses"),
        ((0.1,), (0.0, 0.0), "the agency's losses are all 0; give the loss that a correct claim causes"),
    ],
)
def test_faulty_losses(of_intruder: tuple[float, ...], of_agency: tuple[float, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Losses(IntruderLosses(*of_intruder), AgencyLosses(*of_agency))


@pytest.mark.parametrize(
    ("of", "most", "message"),
    [
        (None, 0.1, "max_loss needs losses; give both or neither"),
        (losses(0.1), None, "max_loss needs losses; give both or neither"),
        (losses(0.1), -0.1, "max_loss = -0.1; give at least 0, and less than the 1 that a claim may cost the agency"),
        (losses(0.1, 1, 1, 2), 2.0, "max_loss = 2.0; give at least 0, and less than the 2 that a claim"),
        (losses(0.1), math.nan, "max_loss = nan; give at least 0"),
    ],
)
def test_faulty_limits_on_losses(of: Losses | None, most: float | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        PosteriorLimit(losses=of, max_loss=most)


def test_who_loses_no_less_by_silence_always_claims() -> None:
    assert [losses(none, 2.0).intruder.threshold for none in (0.5, 2.0, 5.0)] == [0.75, 0.0, 0.0]
