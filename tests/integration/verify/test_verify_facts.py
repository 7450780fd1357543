"""Certificates beside facts: the honest one is accepted, and none that says what is not so of facts, or beside them.

The honest evidence is every table that agrees with all that is known, listed by the judge of `tests.facts`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as hs

from sdc.feasible.differences import Differences
from sdc.feasible.proof import ComponentProof, Proof
from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds
from sdc.model.fact import Between, Fact
from sdc.model.graph import Decomposition
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.structural_zeros import NO_ZEROS
from sdc.model.table import Table
from sdc.risk.assessment import OwnJudged
from sdc.storage.certificate import Certificate
from sdc.storage.known import write_known
from sdc.storage.parquet import read_columns, write_columns
from sdc.verify.run_folder import RECORDED, verify
from tests.facts import FactCase, agreeing, fact_cases, own_widths
from tests.integration.verify.test_verify import (
    Tampering,
    certificate_with,
    forged,
    json_with,
    proof_with,
    rejected,
    shared,
    with_part,
)
from tests.integration.verify.test_verify_levels import random_parts, random_tree, separators
from tests.reference import TooManyTablesError
from tests.strategies import frontier, schema_of

AB, BC = 0b011, 0b110
SURVEY = Fact(AB, ((0, (0,)),), None, "survey")
CELLS, LOW, HIGH = np.array(list(np.ndindex(2, 2)), np.uint16), np.array([2, 0, 2, 1]), np.array([4, 3, 4, 3])
ROUNDED = Fact(BC, (), Between(CELLS, LOW, HIGH), "rounded tables")
ASKED, KNOWN = frontier("B", "C"), frontier("A")
SMALL = OwnJudged(2, 0)  # counts of B*C that are rounded, of 2


def records() -> Table:
    """Of A, B and C: of B*C the counts are 3, 2, 3, 2; of A*B they are 2, 1 and 2, 1 and 1, 3."""
    cells = np.array(list(np.ndindex(3, 2, 2)))
    return Table.of(schema_of([3, 2, 2]), cells, np.array([1, 1, 1, 0, 2, 0, 0, 1, 0, 1, 2, 1]))


def before() -> Knowledge:
    return Knowledge.of(records(), KNOWN, NO_ZEROS, (SURVEY, ROUNDED))


def moved(*changes: tuple[int, int, int]) -> Differences:
    """One difference of a component of two variables."""
    cells = np.array([change[:2] for change in changes], np.uint16)
    return Differences(np.array([0, len(changes)]), cells, np.array([change[2] for change in changes]))


def honest_part(table: Table, known: Knowledge, variables: int) -> ComponentProof:
    """Every feasible table of a component, and no cover."""
    inside, part = table.marginal(variables), known.within(variables)
    tables = agreeing(inside, part.release.frontier, part.zeros, part.facts)
    return ComponentProof(variables, None, Differences.between(inside, list(tables)))


def bounds_of(case: FactCase) -> CellBounds:
    """Of the at-risk cells, by all tables that agree."""
    rows = case.table.at_risk(2)
    sharp = case.sharp_at(case.table.codes[rows])
    return CellBounds(case.table.codes[rows], case.table.counts[rows], sharp, sharp, "enumeration")


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder whose certificate has the components A*B and B*C, each with a fact; not to be touched."""
    table, known = records(), before()
    everything = known.plus(ASKED)
    proof = Proof(tuple(honest_part(table, everything, variables) for variables in (AB, BC)), (0b010,))
    case = FactCase.of(table, everything.release.frontier, NO_ZEROS, known.facts, 10**6)
    certificate = Certificate(table.digest, known, ASKED, 2, 1, proof)
    return forged(
        tmp_path_factory.mktemp("facts") / "run", table, certificate, bounds_of(case), undecided="outer", in_part=SMALL
    )


@pytest.fixture
def run(honest: Path, tmp_path: Path) -> Path:
    """A copy of it to tamper with."""
    return Path(shutil.copytree(honest, tmp_path / "run"))


def test_the_honest_certificate_is_accepted(honest: Path) -> None:
    found = verify(honest)
    assert found.failures == ()
    assert found.known == RECORDED
    assert found.certified_cells == found.at_risk_cells == 8
    assert found.differences == 3 + 2


# What is not right


def facts_with(change: Callable[[Knowledge], tuple[Fact, ...]]) -> Tampering:
    """Other facts in the certificate alone."""
    return certificate_with(lambda c, t: replace(c, known=replace(c.known, facts=change(c.known))))


def fact_with(number: int, **changes: Any) -> Tampering:
    """Something else in one of the two facts."""
    facts = (SURVEY, ROUNDED)
    return facts_with(lambda known: (replace(facts[number], **changes), facts[1 - number]))


def put(numbers: npt.NDArray[Any], place: int, number: int) -> npt.NDArray[Any]:
    """Another number in one place."""
    found = numbers.copy()
    found[place] = number
    return found


def everywhere(known: Knowledge) -> Tampering:
    """Something else was known before, as the table's stage and the certificate say."""

    def tamper(run: Path) -> None:
        write_known(known, run / "table", hidden=[])
        certificate_with(lambda c, t: replace(c, known=known))(run)

    return tamper


def file_with(stage: str, **columns: Any) -> Tampering:
    """Something else in the file of the second fact."""

    def tamper(run: Path) -> None:
        path = run / stage / "known_1.parquet"
        found, _ = read_columns(path)
        write_columns(path, {**found, **columns})

    return tamper


def document_with(change: Callable[[dict[str, Any]], None]) -> Tampering:
    """Something else in what known.json says."""

    def tamper(run: Path) -> None:
        content = json.loads((run / "table" / "known.json").read_text())
        change(content)
        (run / "table" / "known.json").write_text(json.dumps(content))

    return tamper


def in_turn(*tamperings: Tampering) -> Tampering:
    def tamper(run: Path) -> None:
        for one in tamperings:
            one(run)

    return tamper


def with_difference(number: int, difference: Differences) -> Tampering:
    def changed(certificate: Certificate, table: Table) -> Certificate:
        own = certificate.proof.parts[number].differences
        return with_part(certificate, number, differences=Differences.concatenated([own, difference]))

    return certificate_with(changed)


def of_components(*parts: int) -> Tampering:
    empty = tuple(ComponentProof(part, None, Differences.none(st.dimension(part))) for part in parts)
    return proof_with(lambda proof: Proof(empty, shared(parts)))


def with_cover(number: int, *cliques: int) -> Tampering:
    return certificate_with(lambda c, t: with_part(c, number, cover=Decomposition(cliques, shared(cliques))))


def without_the_separator(run: Path) -> None:
    certificate_with(lambda c, t: replace(c, asked=frontier("C")))(run)
    json_with("search/search.json", frontier=[["C"]])(run)


def narrowed(low: int, high: int) -> Tampering:
    """An interval of the second fact, of whose cell there are 2, where that is read from."""

    def tamper(run: Path) -> None:
        for stage in ("table", "assessment"):
            file_with(stage, low=put(LOW, 1, low), high=put(HIGH, 1, high))(run)

    return tamper


EXCHANGE = moved((0, 0, -1), (0, 1, 1), (1, 0, 1), (1, 1, -1))
OTHER_FACTS = r"certificate\.json is damaged .* what was known before is of other facts than table/known\.json says"
NOT_FEASIBLE = r"1 of \d+ differences give no feasible table .*or one beside a fact"
FAULTS: dict[str, tuple[Tampering, str]] = {
    # the certificate, and not the table's stage
    "a fact removed": (facts_with(lambda known: known.facts[1:]), OTHER_FACTS),
    "no fact": (facts_with(lambda known: ()), OTHER_FACTS),
    "a fact added": (facts_with(lambda known: (*known.facts, Fact(0b101, (), None, "more"))), OTHER_FACTS),
    "a smaller view": (fact_with(1, view=0b010, between=None), OTHER_FACTS),
    "a larger view": (fact_with(0, view=0b111), OTHER_FACTS),
    "another universe": (fact_with(0, universe=((0, (1,)),)), OTHER_FACTS),
    "a larger universe": (fact_with(0, universe=((0, (0, 1)),)), OTHER_FACTS),
    "the universe of all cells": (fact_with(0, universe=()), OTHER_FACTS),
    "an interval wider below": (fact_with(1, between=Between(CELLS, put(LOW, 3, 0), HIGH)), OTHER_FACTS),
    "an interval wider above": (fact_with(1, between=Between(CELLS, LOW, put(HIGH, 1, 4))), OTHER_FACTS),
    "an interval narrower": (fact_with(1, between=Between(CELLS, put(LOW, 1, 1), HIGH)), OTHER_FACTS),
    "an interval below the truth": (fact_with(1, between=Between(CELLS, LOW, put(HIGH, 1, 1))), OTHER_FACTS),
    "an interval above the truth": (fact_with(1, between=Between(CELLS, put(LOW, 1, 3), HIGH)), OTHER_FACTS),
    "a cell told exactly": (fact_with(1, between=Between(CELLS[1:], LOW[1:], HIGH[1:])), OTHER_FACTS),
    "all cells told exactly": (fact_with(1, between=None), OTHER_FACTS),
    "a cell more told in part": (
        fact_with(0, between=Between(np.array([[0, 0]]), np.array([0]), np.array([9]))),
        OTHER_FACTS,
    ),
    "more known to be released": (
        certificate_with(lambda c, t: replace(c, known=c.known.plus(frontier("C")))),
        r"what was known before is of other sub-tables than table/known\.json says",
    ),
    "less known to be released": (
        certificate_with(lambda c, t: replace(c, known=replace(c.known, release=Release.of([])))),
        r"what was known before is of other sub-tables than table/known\.json says",
    ),
    "more asked": (
        certificate_with(lambda c, t: replace(c, asked=c.asked.add(0b101))),
        r"the certificate's release is not search/search\.json: it adds A\*C",
    ),
    "what was known before asked too": (
        certificate_with(lambda c, t: replace(c, asked=c.asked.join(KNOWN))),
        r"the certificate's release is not search/search\.json: it adds A",
    ),
    # both
    "a fact removed everywhere, and what it forbids done": (
        in_turn(everywhere(replace(before(), facts=(ROUNDED,))), with_difference(0, EXCHANGE)),
        r"claims a narrower inner interval",
    ),
    "a fact of all cells everywhere": (
        everywhere(replace(before(), facts=(replace(SURVEY, universe=()), ROUNDED))),
        r"\d+ of \d+ differences give no feasible table",
    ),
    "an interval below the truth everywhere": (
        narrowed(0, 1), r"rounded tables: 1 cells of B\*C have other counts in the table",
    ),
    "an interval above the truth everywhere": (
        narrowed(3, 3), r"rounded tables: 1 cells of B\*C have other counts in the table",
    ),
    "an empty interval everywhere": (narrowed(3, 1), r"rounded tables: 1 cells of B\*C have other counts"),
    "an interval narrower everywhere": (narrowed(2, 2), r"\d+ of \d+ differences give no feasible table"),
    # the table's stage
    "no file": (lambda run: (run / "table" / "known_1.parquet").unlink(), r"known_1\.parquet is missing"),
    "no file of the certificate": (
        lambda run: (run / "assessment" / "known_1.parquet").unlink(),
        r"known_1\.parquet is missing",
    ),
    "a cell twice": (
        file_with("table", B=put(CELLS[:, 0], 0, 1), C=put(CELLS[:, 1], 0, 1)),
        r"known_1\.parquet .*a cell occurs twice",
    ),
    "an unknown cell": (file_with("table", B=put(CELLS[:, 0], 0, 2)), r"known_1\.parquet .*a code is unknown"),
    "codes of another kind": (file_with("table", B=CELLS[:, 0].astype(int)), r"known_1\.parquet .*is not of"),
    "a column more": (file_with("table", A=CELLS[:, 0]), r"a column is unknown or missing"),
    "another interval": (file_with("table", high=put(HIGH, 1, 4)), OTHER_FACTS),
    "fewer cells claimed": (document_with(lambda d: d["facts"][1].update(between=1)), r"it has 4 cells, 1 are claimed"),
    "no cell claimed": (document_with(lambda d: d["facts"][1].update(between=0)), OTHER_FACTS),
    "a cell outside the universe": (
        document_with(lambda d: d["facts"][1].update(universe=[[1, [0]]])),
        r"a cell is outside the universe",
    ),
    "a universe that the view has not": (
        document_with(lambda d: d["facts"][0].update(universe=[[2, [0]]])),
        r"survey: its universe has variables that its view has not",
    ),
    "an unknown category": (
        document_with(lambda d: d["facts"][0].update(universe=[[0, [3]]])),
        r"a pattern names an unknown category",
    ),
    "an unknown variable": (
        document_with(lambda d: d["facts"][0].update(universe=[[3, [0]]])),
        r"a pattern names an unknown variable",
    ),
    "a variable twice": (
        document_with(lambda d: d["facts"][0].update(universe=[[0, [0]], [0, [0]]])),
        r"a pattern names an unknown category, or a variable twice",
    ),
    "a view of no variable": (document_with(lambda d: d["facts"][0].update(view=["Q"])), r"unknown variable 'Q'"),
    "a fact less in the table's stage": (document_with(lambda d: d["facts"].pop()), OTHER_FACTS),
    "less released in the table's stage": (document_with(lambda d: d.update(release=[[]])), r"of other sub-tables"),
    "an unknown variable hidden": (document_with(lambda d: d.update(hidden=["Q"])), r"a hidden variable is unknown"),
    # components and covers
    "a fact over two components": (of_components(0b001, 0b110), r"survey: A\*B is within no component"),
    "facts over three components": (of_components(0b001, 0b010, 0b100), r"rounded tables: B\*C is within no component"),
    "a fact over two cliques": (with_cover(0, 0b01, 0b10), r"survey: A\*B is within no clique"),
    "a fact between two numbers over two cliques": (
        with_cover(1, 0b01, 0b10), r"rounded tables: B\*C is within no clique",
    ),
    "a separator that a fact has": (without_the_separator, r"the separator B is not released"),
    # differences
    "a cell of the universe moved": (
        with_difference(0, EXCHANGE), NOT_FEASIBLE,
    ),
    "beyond an interval": (
        with_difference(1, moved((0, 0, -2), (0, 1, 2), (1, 0, 2), (1, 1, -2))), NOT_FEASIBLE,
    ),
    "beyond an interval the other way": (
        with_difference(1, moved((0, 0, 2), (0, 1, -2), (1, 0, -2), (1, 1, 2))), NOT_FEASIBLE,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_whatever_was_tampered_with_is_rejected(name: str, run: Path) -> None:
    rejected(run, *FAULTS[name])


# Any facts


def evidence(case: FactCase) -> ComponentProof:
    """All tables that agree, as one component."""
    return ComponentProof(st.full(len(case.schema)), None, Differences.between(case.table, list(case.tables)))


@settings(max_examples=200)
@given(case=fact_cases(), min_width=hs.integers(1, 3))
def test_every_table_that_agrees_is_accepted(
    case: FactCase, min_width: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Facts of every kind, with levels or without; and not one cell is wider."""
    assume(len(case.table.at_risk(2)))
    bounds = bounds_of(case)
    known = replace(case.known, release=Release.of([]))
    certificate = Certificate(case.table.digest, known, case.known.release, 2, min_width, Proof((evidence(case),), ()))
    own = own_widths(case, 2, min_width)
    told = OwnJudged(len(own), sum(width < min_width for width in own)) if own else None
    found = verify(forged(tmp_path_factory.mktemp("case") / "run", case.table, certificate, bounds, in_part=told))
    assert found.failures == ()
    assert found.certified_cells == int((bounds.inner_width >= min_width).sum())


@settings(max_examples=300)
@given(case=fact_cases(), seed=hs.integers(0, 2**32 - 1))
def test_no_random_evidence_certifies_beyond_the_sharp_bounds(
    case: FactCase, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Trees of components and of cliques at random, true differences of some other knowledge, and any others."""
    assume(len(case.table.at_risk(2)))
    rng, bounds = np.random.default_rng(seed), bounds_of(case)
    parts = drawn_parts(rng, case)
    known = replace(case.known, release=Release.of([]))
    proof = Proof(tuple(random_part(rng, case, part) for part in parts), separators(parts))
    certificate = Certificate(case.table.digest, known, case.known.release, 2, 1, proof)
    found = verify(forged(tmp_path_factory.mktemp("random") / "run", case.table, certificate, bounds))
    assert found.certified_cells <= int((bounds.outer_width >= 1).sum())
    assert not [failure for failure in found.failures if "outer interval that feasible tables leave" in failure]


def drawn_parts(rng: np.random.Generator, case: FactCase) -> list[int]:
    """The components that are right, any tree, or one component."""
    kind = rng.random()
    if kind < 0.3:
        return list(case.known.structure.components.cliques)
    return random_parts(rng, case.schema) if kind < 0.7 else [st.full(len(case.schema))]


def random_part(rng: np.random.Generator, case: FactCase, part: int) -> ComponentProof:
    """Tables that agree with some of what is known of a component, and a cover of that or any."""
    inside, known = case.table.marginal(part), case.known.within(part)
    known = replace(known, facts=tuple(fact for fact in known.facts if rng.random() < 0.8))
    tree = random_tree(rng, known.schema, st.full(len(known.schema)))
    cover = known.structure.cover if rng.random() < 0.5 else Decomposition(tuple(tree), separators(tree))
    try:
        tables = list(agreeing(inside, known.release.frontier, known.zeros, known.facts))
    except TooManyTablesError:
        tables = []
    return ComponentProof(part, cover if rng.random() < 0.7 else None, Differences.between(inside, tables))
