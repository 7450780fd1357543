"""The gate: what it clears, what it refuses and by which name, and that nothing else makes what it makes."""

import copy
import json
import pickle
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from sdc.api import find_release, publish
from sdc.feasible.differences import Differences
from sdc.feasible.proof import ComponentProof, Proof
from sdc.model.errors import ConfigError, InputError, ReleaseError
from sdc.model.fact import CellIntervals, Fact
from sdc.model.knowledge import Knowledge
from sdc.model.release import NOTHING, Release
from sdc.model.structural_zeros import NO_ZEROS, StructuralZeros
from sdc.model.suppressed_table import SuppressedTable, SuppressedTables
from sdc.model.table import Table
from sdc.publish.gate import Cleared, GateSubject
from sdc.publish.gate import clear as cleared_by
from sdc.publish.publication import write_publication
from sdc.risk.criteria import Criteria, Evaluation
from sdc.risk.effort import Budget
from sdc.risk.verdict import Policy
from sdc.stages.resolved import release_of
from sdc.storage.certificate import Certificate
from tests.strategies import all_ways, dense, evaluator_of, every_cell, frontier, knows, scattered, schema_of, shown_by

PAIRS = all_ways(5, 2)


def certificate_of(table: Table, evaluation: Evaluation, min_width: int = 3) -> Certificate:
    return Certificate(table.digest, evaluation.known, evaluation.asked, 2, min_width, evaluation.proof)


def clear(
    table: Table, certificate: Certificate, criteria: Criteria, policy: Policy, known: Knowledge | None = None
) -> Cleared:
    """By the gate, where that is known before anything is released; nothing by default."""
    return cleared_by(table, known or knows(table, NOTHING), certificate, criteria, policy)


@pytest.fixture(scope="module")
def proven() -> Certificate:
    return certificate_of(scattered(), evaluator_of(scattered()).evaluate(PAIRS))


def test_what_is_proven_is_cleared(proven: Certificate) -> None:
    cleared = clear(scattered(), proven, Criteria.of(2, 3), Policy.REFUSE)
    assert (cleared.release, cleared.total, cleared.unproven_cells) == (PAIRS, scattered().total, 0)
    assert cleared.marginal(0b11) == scattered().marginal(0b11)
    with pytest.raises(KeyError):
        cleared.marginal(0b111)


def test_a_cleared_release_knows_the_published_variables_alone(czech: Table) -> None:
    evaluation = evaluator_of(czech, 6).evaluate(frontier("BD"))
    cleared = clear(czech, certificate_of(czech, evaluation, 6), Criteria.of(2, 6), Policy.REFUSE)
    assert cleared.schema.names == ("B", "D")
    assert cleared.release == frontier("AB")
    assert cleared.marginal(0b11).counts.tolist() == czech.marginal(0b1010).counts.tolist()


def test_nothing_else_makes_a_cleared_release(proven: Certificate) -> None:
    cleared = clear(scattered(), proven, Criteria.of(2, 3), Policy.REFUSE)
    with pytest.raises(TypeError, match=r"only the gate clears a release; call sdc\.publish\.gate\.clear"):
        Cleared(cleared.subject, cleared.schema, cleared.release, 1, 0, {})
    with pytest.raises((TypeError, ValueError)):
        replace(cleared, release=all_ways(5, 3))
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="a cleared release is not copied or stored"):
            copied(cleared)


def with_differences(found: Certificate, change: Callable[[Differences], Differences]) -> Certificate:
    parts = tuple(replace(part, differences=change(part.differences)) for part in found.proof.parts)
    return replace(found, proof=replace(found.proof, parts=parts))


@pytest.mark.parametrize(
    "change",
    [
        lambda found: with_differences(found, lambda own: Differences.none(5)),
        lambda found: with_differences(found, lambda own: replace(own, changes=2 * own.changes)),
        lambda found: replace(found, asked=all_ways(5, 3)),
    ],
    ids=["gone", "not feasible", "for a smaller release"],
)
def test_evidence_that_proves_less_clears_nothing(
    change: Callable[[Certificate], Certificate], proven: Certificate
) -> None:
    with pytest.raises(ReleaseError, match=r"not proven safe \(.*nothing is published"):
        clear(scattered(), change(proven), Criteria.of(2, 3), Policy.REFUSE)


def test_a_refuted_release_is_never_cleared(czech: Table) -> None:
    evaluation = evaluator_of(czech, 6).evaluate(all_ways(6, 5))
    for policy in Policy:
        with pytest.raises(ReleaseError, match=r"not proven safe \(refuted, min width between 0 and \d, required 6\)"):
            clear(czech, certificate_of(czech, evaluation, 6), Criteria.of(2, 6), policy)


def test_what_the_policy_outer_lets_through_says_so() -> None:
    known = knows(scattered(), NOTHING)
    nothing = evaluator_of(scattered()).evaluate(Release.of([])).pool
    answer = evaluator_of(scattered()).evaluate(PAIRS).assessment
    evaluation = Evaluation(Criteria.of(2, 3), known, PAIRS, answer, nothing)
    unproven = certificate_of(scattered(), evaluation)
    with pytest.raises(ReleaseError, match=r"\d+ cells are undecided"):
        clear(scattered(), unproven, Criteria.of(2, 3), Policy.REFUSE)
    cleared = clear(scattered(), unproven, Criteria.of(2, 3), Policy.OUTER)
    assert cleared.unproven_cells > 0


def test_evidence_of_another_table_or_criterion_is_refused_by_name(proven: Certificate) -> None:
    with pytest.raises(ReleaseError, match=r"certificate is of another table: [0-9a-f]{12}, asked is [0-9a-f]{12}"):
        clear(scattered(2), proven, Criteria.of(2, 3), Policy.REFUSE)
    with pytest.raises(ReleaseError, match="certificate is of another small_count: 2, asked is 1; nothing is publ"):
        clear(scattered(), proven, Criteria.of(1, 3), Policy.REFUSE)
    with pytest.raises(ReleaseError, match="certificate is of another min_width: 3, asked is 4; nothing is published"):
        clear(scattered(), proven, Criteria.of(2, 4), Policy.REFUSE)


def test_evidence_that_lacks_what_is_known_is_refused(proven: Certificate) -> None:
    """What was published before, whole or in part; a cell that has records is not impossible."""
    table = scattered()
    part = knows(table, NOTHING).with_facts((Fact(0b111, ((0, (0,)),), None, "a newspaper"),))
    for known, lacking in (
        (knows(table, all_ways(5, 3)), r"A\*B\*C"),
        (knows(table, all_ways(5, 1)), "A"),
        (part, r"B\*C where A = 0 by a newspaper"),
    ):
        with pytest.raises(ReleaseError, match=f"certificate lacks {lacking}, which is known of the table; nothing is"):
            clear(table, proven, Criteria.of(2, 3), Policy.REFUSE, known)
        beside = replace(proven, known=known)
        with pytest.raises(ReleaseError, match=f"certificate adds {lacking}, which is not known of the table; noth"):
            clear(table, beside, Criteria.of(2, 3), Policy.REFUSE)
    wrong = replace(knows(table, NOTHING), zeros=impossible(table.codes[0]))
    with pytest.raises(InputError, match="structural zeros contradict the data"):
        clear(table, replace(proven, known=wrong), Criteria.of(2, 3), Policy.REFUSE, wrong)


def test_evidence_beside_other_structural_zeros_is_refused(proven: Certificate) -> None:
    """Fewer, more, or others than are known: one that differs is named."""
    table, every = scattered(), every_cell(scattered().schema)
    one, other = (impossible(cell) for cell in every[table.count_at(every) == 0][:2])
    cases = (NO_ZEROS, one, "lacks", one), (one, NO_ZEROS, "adds", one), (one.join(other), one, "adds", other)
    for has, known, what, named in (*cases, (other, one, "lacks", one)):
        (zero,) = named.labels(table.schema)
        beside = replace(proven, known=knows(table, NOTHING, has))
        with pytest.raises(ReleaseError, match=f"certificate {what} the structural zero {zero}, which is (not )?known"):
            clear(table, beside, Criteria.of(2, 3), Policy.REFUSE, knows(table, NOTHING, known))


def test_what_goes_out_in_part_is_withheld_or_rounded_beside_what_is_released(proven: Certificate) -> None:
    """Neither is a count told to be 1 or 2; nor may a part have been chosen beside more than is released."""
    table, cells = scattered(), np.zeros((1, 3), np.uint16)
    near = SuppressedTable(Fact(0b111, (), CellIntervals(cells, np.array([1]), np.array([2])), "a newspaper"))
    hidden = SuppressedTable.at(0b111, np.array([0]), table.schema, table.total)
    for parts in (SuppressedTables(NOTHING, (near,)), SuppressedTables(all_ways(5, 3), (hidden,))):
        with pytest.raises(
            ReleaseError, match="neither suppression nor rounding gives, or a margin that is not released"
        ):
            clear(table, replace(proven, suppressed_tables=parts), Criteria.of(2, 3), Policy.REFUSE)


def test_small_cells_of_a_part_without_proof_add_to_those_of_the_table() -> None:
    """Two cells of 1 and 2 are withheld of A*B and at risk, and nothing is shown to move."""
    table = dense(schema_of([2, 3]), [4, 2, 5, 7, 6, 1])
    parts = SuppressedTables(tables=(SuppressedTable.at(0b11, np.array([1, 2, 4, 5]), table.schema, table.total),))
    proof = Proof((ComponentProof(0b11, None, Differences.none(2)),), ())
    unproven = Certificate(table.digest, knows(table, NOTHING), frontier("A", "B"), 2, 1, proof, parts)
    with pytest.raises(ReleaseError, match="not proven safe"):
        clear(table, unproven, Criteria.of(2, 1), Policy.REFUSE)


def impossible(cell: Iterable[int]) -> StructuralZeros:
    return StructuralZeros((tuple((v, (int(code),)) for v, code in enumerate(cell)),))


def test_what_is_impossible_is_known_to_whoever_sees_it(czech: Table) -> None:
    """The published release has a width of 9, and of 6 for whoever knows the cell."""
    zeros = impossible((1, 0, 0, 1, 1, 1))
    found = find_release(czech, "ordered", min_width=7)
    certificate = certificate_of(czech, found.evaluation, 7)
    clear(czech, certificate, Criteria.of(2, 7), Policy.REFUSE)
    known = knows(czech, NOTHING, zeros)
    with pytest.raises(ReleaseError, match="not proven safe"):
        clear(czech, replace(certificate, known=known), Criteria.of(2, 7), Policy.REFUSE, known)


def test_what_was_cleared_for_another_table_or_config_is_not_published(proven: Certificate, tmp_path: Path) -> None:
    cleared = clear(scattered(), proven, Criteria.of(2, 3), Policy.REFUSE)
    others = {
        "table": replace(cleared.subject, table_digest="0" * 64),
        "min_width: 3, asked is 2": replace(cleared.subject, criteria=Criteria.of(2, 2)),
        "policy: refuse, asked is outer": GateSubject(scattered().digest, Criteria.of(2, 3), Policy.OUTER),
    }
    for name, subject in others.items():
        with pytest.raises(ReleaseError, match=f"the cleared release is of another {name}"):
            write_publication(cleared, subject, "workers", tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_release_is_published_from_python(czech: Table, tmp_path: Path) -> None:
    found, labels = find_release(czech, "ordered", min_width=6), {"A": {"label": "Smokes"}}
    publish(found, tmp_path / "out", title="workers", about={"period": "1981"}, labels=labels)
    metadata = json.loads((tmp_path / "out" / "datapackage.json").read_text())
    assert (metadata["title"], metadata["period"], len(metadata["resources"])) == ("workers", "1981", 2 * 6 + 1)
    assert "A,1,no,no,Smokes,," in (tmp_path / "out" / "data_dictionary.csv").read_text()
    with pytest.raises(ConfigError, match=r"out exists already; name a folder that does not"):
        publish(found, tmp_path / "out", title="workers")
    for wrong, match in (
        ({"about": {"periode": "1981"}}, "periode is not a setting of a publication; did you mean period"),
        ({"labels": {"Z": {"label": "z"}}}, "unknown variable 'Z'"),
    ):
        with pytest.raises(InputError, match=match):
            publish(found, tmp_path / "other", title="workers", **wrong)
    assert not (tmp_path / "other").exists()


@given(some.floats(-4, 0.5), some.floats(-4, 0.5), some.integers(1, 9))
@settings(max_examples=15)
def test_whatever_the_budget_nothing_undecided_is_published(per_cell: float, all_cells: float, seed: int) -> None:
    """The gate sees the certificate alone: an evaluation of a release that no search accepted is refused there."""
    table, budget = scattered(seed), Budget(10**per_cell, 10**all_cells)
    for release in (PAIRS, all_ways(5, 3), release_of(table, ["A*B*C", "C*D*E"])):
        evaluation = evaluator_of(table, budget=budget).evaluate(release)
        certificate = certificate_of(table, evaluation)
        shown = shown_by(table, evaluation.knowledge, evaluation.pool.at_risk.cells, evaluation.proof)
        if (shown[:, 1] - shown[:, 0] >= 3).all():
            assert clear(table, certificate, Criteria.of(2, 3), Policy.REFUSE).unproven_cells == 0
        else:
            with pytest.raises(ReleaseError, match="not proven safe"):
                clear(table, certificate, Criteria.of(2, 3), Policy.REFUSE)
