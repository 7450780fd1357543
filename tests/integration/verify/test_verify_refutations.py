"""Refutations in a run folder: the honest ones hold, and none that is forged, whatever the manifest is made to say."""

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import assume, given, settings

from sdc.model import subtable as st
from sdc.model.errors import RunFolderError
from sdc.model.knowledge import Knowledge
from sdc.model.release import NOTHING
from sdc.model.structural_zeros import NO_ZEROS, StructuralZeros
from sdc.model.table import Table
from sdc.risk.certifying import Certifying
from sdc.risk.criteria import Criteria
from sdc.risk.effort import Effort
from sdc.risk.evaluator import RiskEvaluator
from sdc.risk.refutation import Refutation, Refutations, propagated
from sdc.storage.known import write_known
from sdc.storage.parquet import read_written_table, write_table
from sdc.storage.proofs import read_refutations, write_refutations
from sdc.storage.run_folder import write_json
from sdc.verify.core.proof import EvidenceFolder
from sdc.verify.refutations import check_refutations
from sdc.verify.run_folder import verify
from tests import levels
from tests.integration.verify.forging import Corruption, Corruptions, copy_of, edited, rejected, removing
from tests.integration.verify.signing import built
from tests.levels import Case, Rng, cases, generators
from tests.profiles import scaled
from tests.reference import TooManyTablesError
from tests.strategies import all_ways, dense, scattered, schema_of

FILE, STEPS = "refutations.json", "search.json"
Told = dict[str, Any]


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build whose search was refused by the shuttle and by multipliers, not to be touched."""
    required = {"require": ["A*B*C*E*F", "A*B*D*E*F", "B*C"], "on_conflict": "drop"}
    return built(tmp_path_factory.mktemp("refused"), risk={"min_width": 20}, release=required)


def test_what_extends_a_graph_is_asked_about_with_its_cliques(tmp_path: Path) -> None:
    run = built(tmp_path, risk={"min_width": 40}, release={"method": "best", "annealing": {"steps": 400}})
    refused = [step["phase"] for step in told(run, STEPS)["steps"] if step["refutation"] is not None]
    assert {*refused} == {"extension"}
    found = verify(run)
    assert found.failures == ()
    assert found.refutations > 1


def told(run: Path, file: str = FILE) -> Told:
    found: Told = json.loads((run / "search" / file).read_text())
    return found


def first(content: Told, how: str) -> Told:
    """The first refutation by the shuttle, or by multipliers."""
    wanted = (one for one in content["refutations"] if (one["upper"] is None) == (how == "shuttle"))
    found: Told = next(wanted)
    return found


def test_the_honest_ones_are_accepted(honest: Path) -> None:
    said = list[str]()
    found = verify(honest, said.append)
    content, steps = told(honest), told(honest, STEPS)
    assert found.failures == ()
    assert found.refutations == len(content["refutations"]) > 1
    assert any(f"{found.refutations} refutations" in line for line in said)
    assert first(content, "shuttle")["name"] != first(content, "multipliers")["name"]
    refuted = [step for step in steps["steps"] if step["answer"] is False]
    assert len(refuted) > found.refutations - 1
    assert all(step["refutation"] is not None for step in refuted)
    assert all(conflict["refutation"] is not None for conflict in steps["required"]["conflicts"])
    assert steps["required"]["conflicts"][0]["text"].endswith("(refused, proven)")
    read = read_refutations(honest / "search", read_written_table(honest / "table"))
    assert [*read] == [one["name"] for one in content["refutations"]]


def with_all(change: Callable[[Told], object]) -> Corruption:
    return edited(f"search/{FILE}", change)


def of(how: str, **changes: Callable[[Any], Any]) -> Corruption:
    """Something else in the first refutation by the shuttle, or by multipliers."""

    def changed(content: Told) -> None:
        one = first(content, how)
        one.update({key: change(one[key]) for key, change in changes.items()})

    return with_all(changed)


def upper(change: Callable[[Told], object]) -> Corruption:
    """Something else in the first multipliers."""
    return with_all(lambda content: change(first(content, "multipliers")["upper"]))


def multiplier(change: Callable[[Any], Any]) -> Corruption:
    return upper(lambda u: u["of"][0].__setitem__(2, change(u["of"][0][2])))


def steps(change: Callable[[Told], object]) -> Corruption:
    return edited(f"search/{STEPS}", change)


def refuted(content: Told) -> list[Told]:
    return [step for step in content["steps"] if step["refutation"] is not None]


ANOTHER = {"A": "no", "B": "no", "C": "no", "D": "<140", "E": "<3", "F": "neg"}
FULL = [*"ABCDEF"]
CORRUPTED: Corruptions = {
    "a bound too low": (of("shuttle", bounds=lambda b: [b[0], b[1] - 1]), "claims at most"),
    "a bound too low by multipliers": (of("multipliers", bounds=lambda b: [b[0], b[1] - 1]), "claims at most"),
    "a bound too high": (of("shuttle", bounds=lambda b: [1, b[1]]), "claims at least 1, its"),
    "a width that is enough": (of("shuttle", bounds=lambda b: [b[0], b[0] + 20]), "has the width 20, which is enough"),
    "another count": (of("shuttle", count=lambda n: 3 - n), "has the count"),
    "a cell not at risk": (of("shuttle", cell=lambda _: ANOTHER), "a cell that is not at risk"),
    "an unknown category": (of("shuttle", cell=lambda c: {**c, "A": "perhaps"}), "a cell that is not at risk"),
    "a cell of fewer variables": (of("shuttle", cell=lambda c: {v: c[v] for v in "ABCDE"}), "corrupt"),
    "a support too small": (of("shuttle", support=lambda s: s[1:]), "claims at most"),
    "a support that was not asked about": (
        of("shuttle", support=lambda s: [FULL]),
        r"rests on A\*B\*C\*D\*E\*F, which step \d+ of the search did not evaluate",
    ),
    "an unknown variable": (of("shuttle", support=lambda s: [["G"]]), "unknown variable 'G'"),
    "a wrong multiplier": (multiplier(lambda n: n + 50), "claims at most"),
    "a multiplier left out": (upper(lambda u: u["of"].pop()), "claims at most"),
    "no multiplier": (upper(lambda u: u.update(of=[])), "claims at most"),
    "another scale": (upper(lambda u: u.update(scale=2 * u["scale"])), "claims at most"),
    "no scale": (upper(lambda u: u.update(scale=0)), "multipliers are too large"),
    "a fraction": (multiplier(lambda n: n + 0.5), "multipliers are too large"),
    "a multiplier that wraps around": (multiplier(lambda n: 1 << 63), "multipliers are too large"),
    "multipliers of other counts": (
        upper(lambda u: u["of"].append([FULL, [0, 1, 1, 0, 1, 1], 1])),
        "uses other counts",
    ),
    "caps of other counts": (upper(lambda u: u.update(caps=[FULL])), "it uses other counts"),
    "a code that is none": (upper(lambda u: u["of"][0][1].__setitem__(0, 2)), "a code is unknown"),
    "the shuttle where it is multipliers": (of("multipliers", upper=lambda u: None), "claims at most"),
    "of another table": (with_all(lambda c: c.update(table="0" * 64)), "of another run: its table is 000000000000"),
    "of another width": (with_all(lambda c: c.update(min_width=6)), "is of another run: its min_width is 6"),
    "of another small count": (with_all(lambda c: c.update(small_count=3)), "is of another run: its small_count is 3"),
    "of another format": (with_all(lambda c: c.update(format=2)), "it has format 2"),
    "one left out": (
        with_all(lambda c: c["refutations"].remove(first(c, "shuttle"))),
        r"names the refutation \w+, which search/refutations.json does not have",
    ),
    "one twice": (with_all(lambda c: c["refutations"].append(first(c, "shuttle"))), "two refutations have one name"),
    "one that nothing names": (
        with_all(lambda c: c["refutations"].append({**first(c, "shuttle"), "name": "f" * 16})),
        "nothing that was refused names ffffffffffffffff",
    ),
    "no list": (with_all(lambda c: c.update(refutations=7)), "corrupt"),
    "no file": (removing(f"search/{FILE}"), "refutations.json is missing"),
    "of a step that is open": (steps(lambda c: refuted(c)[0].update(answer=None)), "which is not marked as refuted"),
    "of more than was asked": (
        steps(lambda c: [s for s in refuted(c) if s["added"]][-1].update(added=[["A"]])),
        "of the search did not evaluate",
    ),
    "of a conflict that is not proven": (
        steps(lambda c: c["required"]["conflicts"][0].update(proven=False)),
        "conflict 1 of the search names the refutation",
    ),
}


@pytest.mark.parametrize("name", CORRUPTED)
def test_whatever_is_corrupt_is_rejected(name: str, honest: Path, tmp_path: Path) -> None:
    corrupt, words = CORRUPTED[name]
    rejected(copy_of(honest, tmp_path), corrupt, f"{words}.*run the build again")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"format": 1}', b"\xff"])
def test_a_corrupt_file_is_refused(content: bytes, honest: Path, tmp_path: Path) -> None:
    run = copy_of(honest, tmp_path)
    found = rejected(run, lambda run: (run / "search" / FILE).write_bytes(content), f"{FILE} ")
    assert len(found.failures) == 1
    with pytest.raises(RunFolderError, match=FILE):
        read_refutations(run / "search", read_written_table(run / "table"))


def test_a_name_that_is_not_its_own_is_not_read(honest: Path, tmp_path: Path) -> None:
    run = copy_of(honest, tmp_path)
    for corrupt, words in (
        (of("shuttle", count=lambda n: 7), "does not match its content"),
        (with_all(lambda c: c.update(table="0" * 64)), "of another table"),
    ):
        corrupt(run)
        with pytest.raises(RunFolderError, match=words):
            read_refutations(run / "search", read_written_table(run / "table"))


@given(cases(), generators())
@settings(max_examples=1000)
def test_what_a_search_keeps_verify_works_out_again(
    tmp_path_factory: pytest.TempPathFactory, case: Case, rng: Rng
) -> None:
    """With levels and structural zeros; and one record less is too few."""
    known, width = Knowledge.of(case.table, NOTHING, case.zeros, ()), int(rng.integers(1, 6))
    evaluator = RiskEvaluator(case.table, known, Criteria.of(2, width), refutations=Refutations(known.zeros))
    assume(len(evaluator.pool.at_risk))
    refutation = evaluator.evaluate(case.known.release).refutation
    assume(refutation is not None)
    assert refutation is not None
    folder = tmp_path_factory.mktemp("refuted")
    write(folder, evaluator, refutation)
    risk = {"small_count": 2, "min_width": width, "undecided": "refuse"}
    assert faults(folder, risk) == []
    content = told(folder)
    low, high = content["refutations"][0]["bounds"]
    if (high - low) and _tight(case, refutation.support, refutation.cell, refutation.with_zeros) == (low, high):
        content["refutations"][0]["bounds"] = [low, high - 1]
        write_json(folder / "search" / FILE, content)
        assert faults(folder, risk) != []


def test_the_shuttle_shows_verify_what_it_shows_the_search(night: list[int], tmp_path: Path) -> None:
    """Of random supports, with levels and structural zeros; and no end that is one record nearer."""
    rng = np.random.default_rng([74, *night])
    for number in range(scaled(400, fewest=8)):
        table = levels.random_table(rng, levels.random_schema(rng, most_cells=24))
        zeros, support = levels.random_zeros(rng, table), rng.choice(levels.closed_sets(table.schema), 3).tolist()
        for row in table.at_risk(2)[:1]:
            shown_alike(tmp_path / str(number), table, zeros, table.codes[row].tolist(), support)


@pytest.mark.parametrize(
    ("table", "zeros", "cell", "support"),
    [
        # of B the cell has one of three that are impossible with the second of A, and all others are not
        (dense(schema_of([2, 5]), [0, 0, 1, 1, 1, 2, 0, 1, 0, 0]), [{0: [1], 1: [1, 3, 4]}], (0, 3), [0b01, 0b10]),
        # of A neither zero has all but one, of B each has one of two
        (dense(schema_of([3, 2]), [0, 0, 0, 1, 3, 0]), [{0: [1], 1: [0]}, {0: [2], 1: [1]}], (1, 1), [0b01]),
    ],
)
def test_structural_zeros_of_a_few_categories(
    table: Table, zeros: list[dict[int, list[int]]], cell: tuple[int, int], support: list[int], tmp_path: Path
) -> None:
    patterns = tuple(tuple((v, tuple(codes)) for v, codes in zero.items()) for zero in zeros)
    shown_alike(tmp_path, table, StructuralZeros(patterns), cell, support)


def shown_alike(
    folder: Path, table: Table, zeros: StructuralZeros, of: Iterable[int], subtables: Iterable[int]
) -> None:
    cell, support = tuple(of), st.maximal(subtables)
    count = int(table.count_at(np.array([cell], np.uint16))[0])
    for with_zeros in (True, False):
        low, high = propagated(table, zeros if with_zeros else NO_ZEROS, cell, support)
        width = high - low + 1
        evaluator = RiskEvaluator(table, Knowledge.of(table, NOTHING, zeros, ()), Criteria.of(2, width))
        for ends in ((low, high), (low + 1, high), (low, high - 1)):
            own = folder / f"{with_zeros}-{ends}"
            write(own, evaluator, Refutation(cell, count, ends, support, with_zeros))
            found = faults(own, {"small_count": 2, "min_width": width, "undecided": "refuse"})
            assert (found == []) == (ends == (low, high)), (ends, found)


@pytest.mark.parametrize("forged", [False, True])
def test_what_a_linear_program_shows_verify_works_out_without_one(tmp_path: Path, forged: bool) -> None:
    table = scattered()
    public = Knowledge.of(table, NOTHING, NO_ZEROS, ())
    evaluator = RiskEvaluator(
        table, public, Criteria.of(2, 1), effort=Effort(refute_cells=0), refutations=Refutations()
    )
    with patch.object(Certifying, "certify", lambda self, waiting: None):
        refutation = evaluator.evaluate(all_ways(5, 3)).refutation
    assert refutation is not None
    assert refutation.upper is not None
    assert refutation.lower is not None
    write(tmp_path, evaluator, replace(refutation, bounds=(2, 1)) if forged else refutation)
    found = faults(tmp_path, {"small_count": 2, "min_width": 1, "undecided": "refuse"})
    assert [*map(bool, found)] == [True] * forged


def write(folder: Path, evaluator: RiskEvaluator, refutation: Refutation) -> None:
    """What a search writes whose one step was refused by it."""
    for stage in ("table", "search"):
        (folder / stage).mkdir(parents=True)
    write_table(evaluator.table, folder / "table")
    write_known(evaluator.known, folder / "table", hidden=[])
    write_refutations([refutation], evaluator.table, evaluator.criteria, folder / "search")
    labels = [[*st.names(t, evaluator.table.schema)] for t in refutation.support]
    step = {"phase": "growth", "added": labels, "answer": False, "refutation": refutation.name}
    write_json(folder / "search" / STEPS, {"steps": [step]})


def faults(folder: Path, risk: Told) -> list[str]:
    evidence = EvidenceFolder(folder)
    evidence.read_table(risk["small_count"])
    assert check_refutations(evidence, risk) == 1
    return evidence.failures


def _tight(case: Case, support: tuple[int, ...], cell: tuple[int, ...], with_zeros: bool) -> tuple[int, int] | None:
    try:
        tables = levels.agreeing(case.table, support, case.zeros if with_zeros else NO_ZEROS)
    except TooManyTablesError:
        return None
    values: np.ndarray = tables[:, levels.cells_of(case.schema).index(tuple(cell))]
    return int(values.min()), int(values.max())
