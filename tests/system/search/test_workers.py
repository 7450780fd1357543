"""Searches that run side by side in worker processes, and what they say of themselves: as one process finds it."""

import json
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import sdc
from sdc.api import risk_utility_curve
from sdc.events import STEP, EventText, heard
from sdc.executor import IN_PROCESS, Executor
from sdc.intruder.chains import Sampling, sampled
from sdc.intruder.laws import law_of
from sdc.model.release import NOTHING
from sdc.model.table import Table
from sdc.risk.critical_width import critical_widths
from sdc.risk.effort import Budget
from sdc.risk.verdict import Policy
from sdc.storage.certificate import Certificate, write_certificate
from sdc.storage.results import write_search
from tests.strategies import evaluator_of, every_cell, knows, scattered, shown_by
from tests.unit.intruder.test_exchanges import BRANCHED, branched
from tests.unit.search.test_annealing import random_table
from tests.unit.search.test_best import asked_by
from tests.unit.search.test_decomposable import annealed_search, cooled, same
from tests.wide import wide_table

__all__ = ["branched"]


@pytest.mark.parametrize("policy", Policy)
def test_side_by_side_is_found_what_is_found_in_turn(policy: Policy, two_workers: Executor) -> None:
    table, said = scattered(), []
    search = asked_by(IN_PROCESS, table, policy)
    prefix, ordered, annealed = search.prefix(), search.run("ordered"), search.run("decomposable")
    in_turn = search.best_of(prefix, annealed, ordered, search.extended(annealed))
    listened = replace(search, ordered=replace(search.ordered, on_step=said.append))
    for found in (listened.run("best"), asked_by(two_workers, table, policy).run("best")):
        assert (found.release, found.steps, found.reason) == (in_turn.release, in_turn.steps, in_turn.reason)
        assert found.assessment == in_turn.assessment
        shown = [
            shown_by(table, knows(table, found.release), table.codes, proof) for proof in (found.proof, in_turn.proof)
        ]
        assert (shown[0] == shown[1]).all()
    assert prefix is not None
    assert said == [*prefix.steps, *ordered.steps, *search.extended(annealed).steps]


def test_a_growth_beside_another_says_how_far_it_is(two_workers: Executor) -> None:
    """What is left at most, and what the last questions gained, while workers are at it; not of each question."""
    told = list[str]()
    with heard(EventText(told.append, STEP)):
        asked_by(two_workers, scattered(), Policy.REFUSE).run("best")
        deadline = time.monotonic() + 300
        while not told and time.monotonic() < deadline:
            time.sleep(0.05)  # events take their own way
    assert told
    for text in told:
        assert re.match(r"search: (growth|extension), \d+ asked, .*; at most \d+ questions? left, .* added \d+", text)


def test_the_same_floor_is_chosen_and_the_same_widths_are_listed(two_workers: Executor) -> None:
    table = wide_table(11, 4_000, 5)
    alone, both = (
        critical_widths(table, floor=2, most=200, executor=executor) for executor in (IN_PROCESS, two_workers)
    )
    assert (both.floor, both.visited) == (alone.floor, alone.visited)
    assert both.sub_tables.tolist() == alone.sub_tables.tolist()
    assert both.widths.tolist() == alone.widths.tolist()


@pytest.mark.parametrize(
    "more", [{"tempering": False}, {"tempering": True}, {"objective": "reconstruction", "steps": 1200}]
)
def test_chains_are_the_same(czech: Table, two_workers: Executor, more: dict[str, Any]) -> None:
    settings = {**cooled(400, 20.0, 1.0), "rounds": 4, "patience": 0, **more}
    alone, both = (
        annealed_search(evaluator_of(czech, 11, executor=executor), **settings).run()
        for executor in (IN_PROCESS, two_workers)
    )
    assert same(alone, both)
    assert len(alone.trace) == 4 * 4


def test_a_bisection_and_its_certificate_have_the_same_bytes(two_workers: Executor, tmp_path: Path) -> None:
    """Of a table beyond exact methods."""
    table, written = scattered(), []
    for executor in (IN_PROCESS, two_workers):
        found = sdc.find_release(table, "bisection", min_width=3, executor=executor, budget=Budget(0.3, 0.001))
        folder = tmp_path / str(len(written))
        folder.mkdir()
        write_search(found, table.schema, folder)
        certificate = Certificate(table.digest, knows(table, NOTHING), found.release, 2, 3, found.proof)
        write_certificate(certificate, table.schema, folder)
        written.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert written[0] == written[1]
    assert {step["answer"] for step in json.loads(written[0]["search.json"])["steps"]} > {True}


def test_rounds_of_a_neighbourhood_end_at_the_same_release(two_workers: Executor) -> None:
    alone, both = (
        sdc.find_release(
            scattered(), min_width=8, executor=executor, budget=Budget(0.3, 0.001), neighbourhood={"rounds": 2}
        )
        for executor in (IN_PROCESS, two_workers)
    )
    assert "10 sub-tables became 12" in (alone.reason or "")
    assert (alone.release, alone.steps, alone.reason) == (both.release, both.steps, both.reason)


def test_a_curve_has_the_same_points(two_workers: Executor) -> None:
    settings = {"min_widths": [2, 5], "methods": ["ordered", "decomposable", "best"], "chains": 3, "steps": 500}
    table = random_table(5, [3, 2, 3, 2], 200)
    alone = risk_utility_curve(table, NOTHING, **settings)  # type: ignore[arg-type]
    assert risk_utility_curve(table, NOTHING, executor=two_workers, **settings) == alone  # type: ignore[arg-type]


def test_an_intruders_chains_are_the_same(branched: Table, two_workers: Executor) -> None:
    law, cells = law_of("saturated", branched.schema), every_cell(branched.schema)
    known = knows(branched, BRANCHED)
    here, there, other = (
        sampled(branched, known, law, cells, Sampling(30, 3, seed), executor)
        for seed, executor in ((7, IN_PROCESS), (7, two_workers), (8, IN_PROCESS))
    )
    assert here.diagnostics == there.diagnostics != other.diagnostics
    assert here.laws.probabilities.tobytes() == there.laws.probabilities.tobytes()
    assert here.standard_errors.tobytes() == there.standard_errors.tobytes()
