"""What `sdc verify` judges beside the width of at-risk cells: limits on the posterior, rules, sub-tables in part."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sdc.feasible.differences import Differences
from sdc.feasible.proof import ComponentProof, Proof
from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds
from sdc.model.errors import many
from sdc.model.structural_zeros import NO_ZEROS, StructuralZeros
from sdc.model.suppressed_table import SuppressedTable, SuppressedTables
from sdc.model.table import Table
from sdc.risk.assessment import OwnJudged
from sdc.storage.certificate import Certificate
from sdc.verify.run_folder import Verification, verify, verify_release
from tests import reference
from tests.facts import FactCase, own_widths
from tests.integration.verify.forging import (
    NOT_FEASIBLE,
    adding_difference,
    alone,
    before,
    certified,
    edited,
    forged,
    proven,
    published,
    record,
    rejected,
    sharp_bounds,
)
from tests.integration.verify.test_verify_random import sharp_of
from tests.strategies import dense, frontier, knows, listed, schema_of

AB = 0b11


def risk_with(run: Path, **more: Any) -> Path:
    """More that the config asks of a release; the manifest is no claim about the files."""
    edited("manifest.json", lambda content: content["config"]["risk"].update(more))(run)
    return run


# The limit on the posterior


CHAIN = dense(schema_of([2, 2, 2, 2]), [1, 0, 0, 3, 0, 0, 1, 0, 2, 0, 1, 2, 0, 0, 0, 0])
"""One record alone has the second of B, so that A and C are told of it."""
LIMIT = {"law": "released", "threshold": 0.4, "max_above": None, "max_probability": None}
COSTS = {"intruder": {"none": 0.8, "wrong": 1.0}, "agency": {"right": 1.0, "wrong": 0.0}}


def chain_run(folder: Path) -> Path:
    bounds, certificate = proven(CHAIN, frontier("AB", "BC", "CD"))
    return forged(folder, CHAIN, certificate, bounds, undecided="outer")


def laws() -> list[dict[int, float]]:
    """Of each at-risk cell, by all tables with the released marginals."""
    tables, rows = listed(CHAIN, knows(CHAIN, frontier("AB", "BC", "CD"))), CHAIN.at_risk(2)
    places = CHAIN.schema.keys.pack(CHAIN.codes[rows])
    return reference.posterior(tables[:, places], map(reference.log_weight, tables))


def test_what_is_likely_is_counted_by_all_tables(tmp_path: Path) -> None:
    """Under a chain of pairs; what is broken is a failure where the release is called safe, published or not."""
    run, counts = chain_run(tmp_path / "run"), CHAIN.counts[CHAIN.at_risk(2)].tolist()
    true = [law[count] for law, count in zip(laws(), counts, strict=True)]
    for threshold in (0.1, 0.4, 0.99):
        above = sum(probability > threshold for probability in true)
        found = verify(risk_with(run, posterior={**LIMIT, "threshold": threshold}))
        assert found.failures == ()
        assert f"{above} of {len(counts)} true counts have a probability above {threshold}" in found.notes
    found = verify(risk_with(run, posterior={**LIMIT, "max_above": 0.0}))
    above = many(sum(p > 0.4 for p in true), "true count")
    assert f"above 0.4: {above}, more than 0.0 of all" in found.failures


def test_what_an_intruder_claims_rightly_is_counted_by_all_tables(tmp_path: Path) -> None:
    """He claims the most probable count where that is above 0.2; of two as probable any."""
    counts = CHAIN.counts[CHAIN.at_risk(2)].tolist()
    right = sum(a == b for a, b in zip(reference.claims(laws(), counts, 0.8, 1.0), counts, strict=True))
    assert 0 < right < sum(law[count] > 0.2 for law, count in zip(laws(), counts, strict=True))
    found = verify(risk_with(chain_run(tmp_path / "run"), posterior={**LIMIT, "losses": COSTS, "max_loss": 0.0}))
    assert f"claims cost {right}, more than 0.0 a cell" in found.failures


def test_what_costs_as_much_as_silence_is_not_claimed(tmp_path: Path) -> None:
    """Of two records each is in either cell: 1 and 1 have the probability 1/2."""
    table = dense(schema_of([2]), [1, 1])
    bounds, certificate = proven(table, frontier())
    run = forged(tmp_path / "run", table, certificate, bounds)
    for none, right in ((0.5, 0), (0.6, 2)):
        losses = {**COSTS, "intruder": {"none": none, "wrong": 1.0}}
        found = verify(risk_with(run, posterior={**LIMIT, "losses": losses, "max_loss": 0.0}))
        assert [f for f in found.failures if "claims cost" in f] == [f"claims cost {right}, more than 0.0 a cell"] * (
            right > 0
        )


@pytest.mark.parametrize(("threshold", "above"), [(0.05, 1), (0.1, 0)])
def test_a_count_far_below_what_is_expected_may_be_likely_enough(threshold: float, above: int, tmp_path: Path) -> None:
    """Of six records each is in either cell: three are expected in it, and one has the probability 6/64."""
    table = dense(schema_of([2]), [1, 5])
    bounds, certificate = proven(table, frontier())
    run = forged(tmp_path / "run", table, certificate, bounds)
    found = verify(risk_with(run, posterior={**LIMIT, "threshold": threshold}))
    assert found.notes == (f"{above} of 1 true counts have a probability above {threshold}",)


# A release that is not public yet


def test_of_a_release_without_proof_no_cell_is_certified(tmp_path: Path) -> None:
    table, release = dense(schema_of([2, 2]), [1, 2, 2, 9]), frontier("A", "B")
    sharp = sharp_bounds(table, release)
    unmoved = CellBounds(sharp.cells, sharp.counts, sharp.outer, np.stack([sharp.counts, sharp.counts], axis=1), "none")
    run = published(forged(tmp_path / "run", table, certified(table, release, alone(table, None), 2), unmoved), release)
    assert verify_release(run, run / "release", 2, 2) == Verification(3, 0, 0)


# Sub-tables in part


def part_run(folder: Path, table: Table, public: tuple[str, ...], part: SuppressedTable, small_count: int = 2) -> Path:
    """Of one component, whose evidence is all tables that agree; `small_count` of what is withheld keeps its width."""
    release, parts = frontier(*public), SuppressedTables(tables=(part,))
    case = FactCase.of(table, release.frontier, NO_ZEROS, parts.facts, 10**5)
    found = ComponentProof(st.full(len(table.schema)), None, Differences.between(table, list(case.tables)))
    certificate = Certificate(table.digest, before(table), release, 2, 1, Proof((found,), ()), parts)
    widths = own_widths(case, small_count, 1)
    own = OwnJudged(len(widths), widths.count(0)) if widths else None
    run = forged(folder, table, certificate, sharp_of(case), in_part=own)
    for path in (run / "assessment").glob("withheld_*"):
        shutil.copy(path, run / "search")
    (told,) = json.loads((run / "assessment" / "certificate.json").read_text())["parts"]
    edited("search/search.json", lambda content: content.update(in_part=told))(run)
    record(run)
    return run


WITHHELD = dense(schema_of([2, 3]), [4, 2, 5, 7, 6, 1])
"""Its first column is told: 4 and 7."""


def withheld_run(folder: Path, small_count: int) -> Path:
    hidden = SuppressedTable.at(AB, np.array([1, 2, 4, 5]), WITHHELD.schema, WITHHELD.total)
    return part_run(folder, WITHHELD, ("A", "B"), hidden, small_count)


def test_counts_that_a_part_tells_keep_the_n_rule(tmp_path: Path) -> None:
    """And cells that are withheld for the rule, of 1 to n - 1, keep a width of their own."""
    run = withheld_run(tmp_path / "run", 3)
    assert verify(risk_with(run, n_rule=4)).failures == ()
    found = verify(risk_with(run, n_rule=5)).failures
    assert "A*B has a count from 1 to 4, which the minimum frequency excludes" in found


def test_a_part_tells_nothing_sensitive_of_a_group(tmp_path: Path) -> None:
    """All of the third of A have the first of B, where nobody of the second has it."""
    table = dense(schema_of([3, 2]), [3, 4, 0, 9, 8, 0])
    part = SuppressedTable.at(AB, np.array([0, 1, 2, 3]), table.schema, table.total)
    run = part_run(tmp_path / "run", table, ("A",), part)
    for most, words in ((7, []), (8, ["A*B reveals a sensitive category of a group of at most 8 records"])):
        rule = {"sensitive": ["B"], "most": most, "lacking": False}
        found = verify(risk_with(run, attributes=rule)).failures
        assert [f for f in found if "of a group" in f or "of suppressed tables" in f] == words


def test_what_a_sub_table_within_the_release_tells_of_a_group(tmp_path: Path) -> None:
    """Of the first of A all have the first of C: in the first of B they must, and nobody is in the second."""
    zeros = StructuralZeros((((0, (0,)), (1, (0,)), (2, (1,))),))
    table = dense(schema_of([2, 2, 2]), [5, 0, 0, 0, 6, 7, 8, 9])
    bounds, certificate = proven(table, frontier("ABC"), 1, zeros)
    run = forged(tmp_path / "run", table, certificate, bounds)
    found = verify(risk_with(run, attributes={"sensitive": ["C"], "most": 5, "lacking": False})).failures
    assert "A*C reveals a sensitive category of a group of at most 5 records" in found


@pytest.mark.parametrize(("end", "change"), [("high", -1), ("low", 1)])
def test_what_is_withheld_tells_no_count(end: str, change: int, tmp_path: Path) -> None:
    def tell(run: Path) -> None:
        for path in (run / stage / "withheld_0.parquet" for stage in ("assessment", "search")):
            columns = pq.read_table(path)
            numbers = columns[end].to_pylist()
            told = pa.array([numbers[0] + change, *numbers[1:]])
            pq.write_table(columns.set_column(columns.column_names.index(end), end, told), path)

    rejected(withheld_run(tmp_path / "run", 2), tell, "the suppressed cells have other bounds")


ROUNDED = dense(schema_of([2, 2]), [1, 3, 3, 3])


def rounded_run(folder: Path, base: int = 3) -> Path:
    """To multiples of 3, and its sums over B too: 6 and 6 of 4 and 6; of 2: 4 and 6."""
    part = SuppressedTable.rounded_to(
        AB, np.array({3: [3, 3, 3, 3], 2: [2, 2, 4, 2]}[base]), base, [0b01], ROUNDED.schema, "A*B rounded"
    )
    return part_run(folder, ROUNDED, (), part)


def moved(of: int, to: int) -> Differences:
    """A record of one cell is in the other."""
    cells = np.array(list(np.ndindex(2, 2)), np.uint16)[[of, to]]
    return Differences(np.array([0, 2]), cells, np.array([-1, 1]))


def test_margins_of_what_is_rounded_are_near_their_sums(tmp_path: Path) -> None:
    """With 3 in place of 4 records the first margin is no longer within 2 of 6, though each cell is near."""
    assert verify(rounded_run(tmp_path / "even", 2)).failures == ()
    run = rounded_run(tmp_path / "run")
    assert verify(run).failures == ()
    rejected(run, adding_difference(moved(1, 2)), f"1 of {NOT_FEASIBLE} .*beside a fact")


def test_a_margin_of_what_is_rounded_is_not_all_of_it(tmp_path: Path) -> None:
    more = edited("search/search.json", lambda content: content["in_part"]["rounded"][0]["margins"].append(["A", "B"]))
    rejected(rounded_run(tmp_path / "run"), more, "a margin of a rounded table is none")
