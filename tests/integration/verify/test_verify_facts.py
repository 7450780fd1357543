"""Certificates beside facts: the honest one is accepted, and none that says what is not so of facts, or beside them.

The honest evidence is every table that agrees with all that is known, listed by the judge of `tests.facts`.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from sdc.feasible.differences import Differences
from sdc.feasible.proof import ComponentProof, Proof
from sdc.model import subtable as st
from sdc.model.fact import CellIntervals, Fact
from sdc.model.knowledge import Knowledge
from sdc.model.release import NOTHING, Release
from sdc.model.structural_zeros import NO_ZEROS
from sdc.model.table import Table
from sdc.risk.assessment import OwnJudged
from sdc.storage.certificate import Certificate
from sdc.storage.known import write_known
from sdc.storage.parquet import read_columns, write_columns
from sdc.verify.run_folder import RECORDED, verify
from tests.facts import FactCase, agreeing
from tests.integration.verify.forging import (
    NOT_FEASIBLE,
    Corruption,
    Corruptions,
    Honest,
    adding_difference,
    asking,
    certificate_with,
    claiming,
    copy_of,
    cover_of,
    edited,
    forged,
    in_turn,
    json_with,
    made_once,
    proof_with,
    rejected,
    removing,
    shared,
    sharp_bounds,
)
from tests.integration.verify.test_verify_random import sharp_of
from tests.strategies import frontier, schema_of

AB, BC = 0b011, 0b110
SURVEY = Fact(AB, ((0, (0,)),), None, "survey")
CELLS, LOW, HIGH = np.array(list(np.ndindex(2, 2)), np.uint16), np.array([2, 0, 2, 1]), np.array([4, 3, 4, 3])
ROUNDED = Fact(BC, (), CellIntervals(CELLS, LOW, HIGH), "rounded tables")
FACTS, ASKED, KNOWN = (SURVEY, ROUNDED), frontier("B", "C"), frontier("A")


def records() -> Table:
    """Of A, B and C: of B*C the counts are 3, 2, 3, 2; of A*B they are 2, 1 and 2, 1 and 1, 3."""
    cells = np.array(list(np.ndindex(3, 2, 2)))
    return Table.of(schema_of([3, 2, 2]), cells, np.array([1, 1, 1, 0, 2, 0, 0, 1, 0, 1, 2, 1]))


def before(*facts: Fact) -> Knowledge:
    return Knowledge.of(records(), KNOWN, NO_ZEROS, facts)


def honest_part(table: Table, known: Knowledge, variables: int) -> ComponentProof:
    """Every feasible table of a component, and no cover."""
    inside, part = table.marginal(variables), known.within(variables)
    tables = agreeing(inside, part.release.frontier, part.zeros, part.facts)
    return ComponentProof(variables, None, Differences.between(inside, list(tables)))


def honest_run(folder: Path) -> Path:
    """The certificate has the components A*B and B*C, each with a fact."""
    table, known = records(), before(*FACTS)
    everything = known.plus(ASKED)
    proof = Proof(tuple(honest_part(table, everything, variables) for variables in (AB, BC)), (0b010,))
    bounds = sharp_of(FactCase.of(table, everything.release.frontier, NO_ZEROS, known.facts, 10**6))
    certificate = Certificate(table.digest, known, ASKED, 2, 1, proof)
    small = OwnJudged(2, 0)  # counts of B*C that are rounded, of 2
    return forged(folder, table, certificate, bounds, undecided="outer", in_part=small)


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Honest:
    return made_once(tmp_path_factory, {"facts": honest_run})


def test_the_honest_certificate_is_accepted(honest: Honest) -> None:
    found = verify(honest("facts"))
    assert (found.failures, found.known) == ((), RECORDED)
    assert found.certified_cells == found.at_risk_cells == 8
    assert found.differences == 3 + 2


def facts_of(*facts: Fact) -> Corruption:
    return certificate_with(lambda c, t: replace(c, known=replace(c.known, facts=facts)))


def survey_with(**changes: Any) -> Corruption:
    return facts_of(replace(SURVEY, **changes), ROUNDED)


def rounded_with(cells: Any = CELLS, low: Any = LOW, high: Any = HIGH) -> Corruption:
    return facts_of(SURVEY, replace(ROUNDED, intervals=CellIntervals(cells, low, high)))


def told_between(low: Any, high: Any) -> Knowledge:
    return before(SURVEY, replace(ROUNDED, intervals=CellIntervals(CELLS, low, high)))


def put(numbers: npt.NDArray[Any], place: int, number: int) -> npt.NDArray[Any]:
    found = numbers.copy()
    found[place] = number
    return found


def everywhere(known: Knowledge) -> Corruption:
    return in_turn(lambda run: write_known(known, run / "table", hidden=[]), claiming(known=known))


def file_with(*stages: str, **columns: Any) -> Corruption:
    def corrupt(run: Path) -> None:
        for path in (run / stage / "known_1.parquet" for stage in stages):
            found, _ = read_columns(path)
            write_columns(path, {**found, **columns})

    return corrupt


def narrowed(low: int, high: int) -> Corruption:
    """An interval of the second fact, of whose cell there are 2, wherever that is read from."""
    return file_with("table", "assessment", low=put(LOW, 1, low), high=put(HIGH, 1, high))


def told_with(change: Callable[[Any], object]) -> Corruption:
    return edited("table/known.json", change)


def told_of(number: int, **changes: Any) -> Corruption:
    return told_with(lambda content: content["facts"][number].update(changes))


def of_components(*parts: int) -> Corruption:
    empty = tuple(ComponentProof(part, None, Differences.none(st.dimension(part))) for part in parts)
    return proof_with(lambda proof: Proof(empty, shared(parts)))


def exchange(change: int) -> Differences:
    """Of a component of two variables; so many move between its first four cells."""
    return Differences(np.array([0, 4]), CELLS, change * np.array([-1, 1, 1, -1]))


OTHER_FACTS = "the prior knowledge has other facts than table/known.json"
OTHER_TABLES = "the prior knowledge has other sub-tables than table/known.json"
NOT_SEARCHED = r"the certificate's release is not search/search\.json: it adds "
OTHER_COUNTS = r"rounded tables: in 1 of the cells of B\*C the table has other counts"
BESIDE_A_FACT = rf"{NOT_FEASIBLE} .*or one beside a fact"
CORRUPTED: Corruptions = {
    # the certificate, and not the table's stage
    "no fact": (facts_of(), OTHER_FACTS),
    "a fact added": (facts_of(*FACTS, Fact(0b101, (), None, "more")), OTHER_FACTS),
    "a smaller view": (facts_of(SURVEY, replace(ROUNDED, view=0b010, intervals=None)), OTHER_FACTS),
    "another universe": (survey_with(universe=((0, (1,)),)), OTHER_FACTS),
    "an interval wider below": (rounded_with(low=put(LOW, 3, 0)), OTHER_FACTS),
    "an interval wider above": (rounded_with(high=put(HIGH, 1, 4)), OTHER_FACTS),
    "a cell told exactly": (rounded_with(CELLS[1:], LOW[1:], HIGH[1:]), OTHER_FACTS),
    "more known to be released": (claiming(known=before(*FACTS).plus(frontier("C"))), OTHER_TABLES),
    "less known to be released": (claiming(known=replace(before(*FACTS), release=Release.of([]))), OTHER_TABLES),
    "more asked": (asking(lambda r: r.add(0b101)), rf"{NOT_SEARCHED}A\*C"),
    "what was known before asked too": (asking(lambda r: r.join(KNOWN)), f"{NOT_SEARCHED}A"),
    # both
    "a fact removed everywhere, and what it forbids done": (
        in_turn(everywhere(before(ROUNDED)), adding_difference(exchange(1))),
        "claims a narrower inner interval",
    ),
    "a fact of all cells everywhere": (everywhere(before(replace(SURVEY, universe=()), ROUNDED)), NOT_FEASIBLE),
    "an interval below the truth everywhere": (narrowed(0, 1), OTHER_COUNTS),
    "an interval above the truth everywhere": (narrowed(3, 3), OTHER_COUNTS),
    "an empty interval everywhere": (narrowed(3, 1), OTHER_COUNTS),
    "an interval narrower everywhere": (narrowed(2, 2), NOT_FEASIBLE),
    # the table's stage
    "no file": (removing("table/known_1.parquet"), r"known_1\.parquet is missing"),
    "no file of the certificate": (removing("assessment/known_1.parquet"), r"known_1\.parquet is missing"),
    "a cell twice": (file_with("table", B=put(CELLS[:, 0], 0, 1), C=put(CELLS[:, 1], 0, 1)), "a cell occurs twice"),
    "an unknown cell": (file_with("table", B=put(CELLS[:, 0], 0, 2)), r"known_1\.parquet .*a code is unknown"),
    "codes of another kind": (file_with("table", B=CELLS[:, 0].astype(int)), r"known_1\.parquet .*is not of"),
    "a column more": (file_with("table", A=CELLS[:, 0]), "a column is unknown or missing"),
    "another interval": (file_with("table", high=put(HIGH, 1, 4)), OTHER_FACTS),
    "fewer cells claimed": (told_of(1, between=1), "number of cells is 4, and 1 are claimed"),
    "no cell claimed": (told_of(1, between=0), OTHER_FACTS),
    "a cell outside the universe": (told_of(1, universe=[[1, [0]]]), "a cell is outside the universe"),
    "a universe beside the view": (told_of(0, universe=[[2, [0]]]), "survey: its universe has variables that its view"),
    "an unknown category": (told_of(0, universe=[[0, [3]]]), "a pattern names an unknown category"),
    "an unknown variable": (told_of(0, universe=[[3, [0]]]), "a pattern names an unknown variable"),
    "a variable twice": (told_of(0, universe=[[0, [0]], [0, [0]]]), "an unknown category, or a variable twice"),
    "a view of no variable": (told_of(0, view=["Q"]), "unknown variable 'Q'"),
    "a fact less in the table's stage": (told_with(lambda content: content["facts"].pop()), OTHER_FACTS),
    "less released in the table's stage": (json_with("table/known.json", release=[[]]), "has other sub-tables"),
    "an unknown variable hidden": (json_with("table/known.json", hidden=["Q"]), "a hidden variable is unknown"),
    # components and covers
    "a fact over two components": (of_components(0b001, 0b110), r"survey: A\*B is within no component"),
    "facts over three components": (of_components(0b001, 0b010, 0b100), r"rounded tables: B\*C is within no component"),
    "a fact over two cliques": (cover_of(0, 0b01, 0b10), r"survey: A\*B is within no clique"),
    "an interval over two cliques": (cover_of(1, 0b01, 0b10), r"rounded tables: B\*C is within no clique"),
    "a separator that a fact has": (
        in_turn(asking(lambda r: frontier("C")), json_with("search/search.json", frontier=[["C"]])),
        "the separator B is not released",
    ),
    # differences
    "a cell of the universe moved": (adding_difference(exchange(1)), f"1 of {BESIDE_A_FACT}"),
    "beyond an interval": (adding_difference(exchange(2), 1), f"1 of {BESIDE_A_FACT}"),
    "beyond an interval the other way": (adding_difference(exchange(-2), 1), f"1 of {BESIDE_A_FACT}"),
    "one below the lowest alone": (
        in_turn(everywhere(told_between(LOW, HIGH + 9)), adding_difference(exchange(2), 1)),
        f"1 of {BESIDE_A_FACT}",
    ),
    "one above the largest alone": (
        in_turn(everywhere(told_between(LOW - 9, HIGH)), adding_difference(exchange(2), 1)),
        f"1 of {BESIDE_A_FACT}",
    ),
}


@pytest.mark.parametrize("name", CORRUPTED)
def test_whatever_is_corrupt_is_rejected(name: str, honest: Honest, tmp_path: Path) -> None:
    rejected(copy_of(honest("facts"), tmp_path), *CORRUPTED[name])


def test_a_count_that_is_told_to_be_0_stays_0(tmp_path: Path) -> None:
    table, release = Table.of(schema_of([2, 2]), CELLS, np.array([0, 2, 2, 2])), frontier("A", "B")
    none = Fact(AB, (), CellIntervals(CELLS, np.zeros(4, np.int64), np.array([0, 4, 4, 4])), "survey")
    proof = Proof((ComponentProof(AB, None, exchange(-1)),), ())
    certificate = Certificate(table.digest, Knowledge.of(table, NOTHING, NO_ZEROS, (none,)), release, 2, 1, proof)
    run = forged(tmp_path / "run", table, certificate, sharp_bounds(table, release), undecided="outer")
    assert any(re.search(f"1 of {BESIDE_A_FACT}", failure) for failure in verify(run).failures)
