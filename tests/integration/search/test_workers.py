"""Searches, widths and chains by two workers: what one process finds, to the last bit."""

import json
from pathlib import Path
from typing import Any

import pytest

import sdc
from sdc.api import risk_utility_curve
from sdc.executor import IN_PROCESS, Executor
from sdc.intruder.chains import Sampling, sampled
from sdc.intruder.laws import law_of
from sdc.model.release import NOTHING
from sdc.model.table import Table
from sdc.risk.effort import Budget
from sdc.storage.certificate import Certificate, write_certificate
from sdc.storage.results import write_search
from tests.strategies import evaluator_of, every_cell, knows, scattered
from tests.unit.intruder.test_exchanges import BRANCHED, branched
from tests.unit.search.test_annealing import random_table
from tests.unit.search.test_decomposable import annealed_search, cooled, same

__all__ = ["branched"]


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
