"""Refutations in a run folder: the honest ones hold, and none that is forged, whatever the manifest is made to say."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import yaml
from hypothesis import assume, given, settings

from sdc.executor import IN_PROCESS
from sdc.model import subtable as st
from sdc.model.errors import RunFolderError
from sdc.model.knowledge import Knowledge
from sdc.model.release import NOTHING
from sdc.model.structural_zeros import NO_ZEROS
from sdc.risk.certifying import Certifying
from sdc.risk.criteria import Criteria
from sdc.risk.effort import Effort
from sdc.risk.inquiry import Inquiry
from sdc.risk.refutation import Refutation, Refutations
from sdc.stages.build import Build, open_build
from sdc.stages.stages import run_all
from sdc.storage.known import write_known
from sdc.storage.parquet import read_written_table, write_table
from sdc.storage.refutations import read_refutations, write_refutations
from sdc.storage.run_folder import write_json
from sdc.verify.proof import EvidenceFolder
from sdc.verify.refutations import check_refutations
from sdc.verify.run_folder import verify
from tests import levels
from tests.integration.verify.forging import record
from tests.levels import Case, Rng, cases, generators
from tests.reference import TooManyTablesError
from tests.strategies import CZECH_CSV, all_ways, scattered

FILE, STEPS = "refutations.json", "search.json"
Told = dict[str, Any]


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """A build whose search was refused by the shuttle and by multipliers, not to be touched."""
    folder = tmp_path_factory.mktemp("refused")
    config = {
        "name": "refused",
        "table": {"path": str(CZECH_CSV)},
        "risk": {"min_width": 20},
        "release": {"require": ["A*B*C*E*F", "A*B*D*E*F", "B*C"], "conflicts": "best_subset"},
        "execution": {"cluster": "in-process"},
        "output": {"folder": str(folder)},
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    build = open_build(folder / "config.yaml")
    run_all(build, IN_PROCESS)
    return build


@pytest.fixture
def run(honest: Build, tmp_path: Path) -> Path:
    """A copy of it to tamper with."""
    return Path(shutil.copytree(honest.folder.path, tmp_path / "run"))


def test_what_extends_a_graph_is_asked_about_with_its_cliques(tmp_path: Path) -> None:
    config = {
        "name": "extended",
        "table": {"path": str(CZECH_CSV)},
        "risk": {"min_width": 40},
        "release": {"method": "best", "annealing": {"steps": 2000}},
        "execution": {"cluster": "in-process"},
        "output": {"folder": str(tmp_path)},
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    build = open_build(tmp_path / "config.yaml")
    run_all(build, IN_PROCESS)
    refused = [step["phase"] for step in told(build.folder.path, STEPS)["steps"] if step["refutation"] is not None]
    assert {*refused} == {"extension"}
    found = verify(build.folder.path)
    assert found.failures == ()
    assert found.refutations > 1


def told(run: Path, file: str = FILE) -> Told:
    found: Told = json.loads((run / "search" / file).read_text())
    return found


def rewritten(run: Path, change: Callable[[Told], Any], file: str = FILE) -> tuple[str, ...]:
    """What verify says once a file was changed, and honestly recorded."""
    content = told(run, file)
    change(content)
    write_json(run / "search" / file, content)
    record(run)
    return verify(run).failures


def by(content: Told, how: str) -> Told:
    """The first refutation by the shuttle, or by multipliers."""
    wanted = (one for one in content["refutations"] if (one["upper"] is None) == (how == "shuttle"))
    found: Told = next(wanted)
    return found


def test_the_honest_ones_are_accepted(honest: Build) -> None:
    said = list[str]()
    found = verify(honest.folder.path, said.append)
    content, steps = told(honest.folder.path), told(honest.folder.path, STEPS)
    assert found.failures == ()
    assert found.refutations == len(content["refutations"]) > 1
    assert f"verify: {found.refutations} refutations of what was refused are worked out again" in said
    assert by(content, "shuttle")["name"] != by(content, "multipliers")["name"]
    refuted = [step for step in steps["steps"] if step["answer"] is False]
    assert len(refuted) > found.refutations - 1
    assert all(step["refutation"] is not None for step in refuted)
    assert all(conflict["refutation"] is not None for conflict in steps["required"]["conflicts"])
    assert steps["required"]["conflicts"][0]["text"].endswith("(refused, proven)")
    read = read_refutations(honest.folder.path / "search", read_written_table(honest.folder.path / "table"))
    assert [*read] == [one["name"] for one in content["refutations"]]


def widened(content: Told, key: str, how: str, change: Callable[[Any], Any]) -> None:
    one = by(content, how)
    one[key] = change(one[key])


def multipliers(content: Told, change: Callable[[Told], Any]) -> None:
    change(by(content, "multipliers")["upper"])


def forget(content: Told) -> None:
    content["refutations"].remove(by(content, "shuttle"))


def twice(content: Told) -> None:
    content["refutations"].append(by(content, "shuttle"))


def unnamed(content: Told) -> None:
    content["refutations"].append({**by(content, "shuttle"), "name": "f" * 16})


ANOTHER = {"A": "no", "B": "no", "C": "no", "D": "<140", "E": "<3", "F": "neg"}
FORGED: dict[str, tuple[Callable[[Told], Any], str]] = {
    "a bound too low": (lambda c: widened(c, "bounds", "shuttle", lambda b: [b[0], b[1] - 1]), "claims at most"),
    "a bound too low by multipliers": (
        lambda c: widened(c, "bounds", "multipliers", lambda b: [b[0], b[1] - 1]),
        "claims at most",
    ),
    "a bound too high": (lambda c: widened(c, "bounds", "shuttle", lambda b: [1, b[1]]), "claims at least 1, its"),
    "a width that is enough": (
        lambda c: widened(c, "bounds", "shuttle", lambda b: [b[0], b[0] + 20]),
        "has the width 20, which is enough: 20 is required",
    ),
    "another count": (lambda c: widened(c, "count", "shuttle", lambda n: 3 - n), "says the count"),
    "a cell not at risk": (lambda c: widened(c, "cell", "shuttle", lambda _: ANOTHER), "a cell that is not at risk"),
    "an unknown category": (
        lambda c: widened(c, "cell", "shuttle", lambda cell: {**cell, "A": "perhaps"}),
        "a cell that is not at risk",
    ),
    "a cell of fewer variables": (
        lambda c: widened(c, "cell", "shuttle", lambda cell: {v: cell[v] for v in "ABCDE"}),
        "damaged",
    ),
    "a support too small": (lambda c: widened(c, "support", "shuttle", lambda s: s[1:]), "claims at most"),
    "a support that was not asked about": (
        lambda c: widened(c, "support", "shuttle", lambda s: [[*"ABCDEF"]]),
        r"rests on A\*B\*C\*D\*E\*F, which step \d+ of the search did not ask about",
    ),
    "an unknown variable": (lambda c: widened(c, "support", "shuttle", lambda s: [["G"]]), "unknown variable 'G'"),
    "a wrong multiplier": (
        lambda c: multipliers(c, lambda u: u["of"][0].__setitem__(2, u["of"][0][2] + 50)),
        "claims at most",
    ),
    "a multiplier left out": (lambda c: multipliers(c, lambda u: u["of"].pop()), "claims at most"),
    "no multiplier": (lambda c: multipliers(c, lambda u: u.update(of=[])), "claims at most"),
    "another scale": (lambda c: multipliers(c, lambda u: u.update(scale=2 * u["scale"])), "claims at most"),
    "no scale": (lambda c: multipliers(c, lambda u: u.update(scale=0)), "multipliers are too large"),
    "a fraction": (
        lambda c: multipliers(c, lambda u: u["of"][0].__setitem__(2, u["of"][0][2] + 0.5)),
        "multipliers are too large",
    ),
    "a multiplier that wraps around": (
        lambda c: multipliers(c, lambda u: u["of"][0].__setitem__(2, 1 << 63)),
        "multipliers are too large",
    ),
    "multipliers of other counts": (
        lambda c: multipliers(c, lambda u: u["of"].append([[*"ABCDEF"], [0, 1, 1, 0, 1, 1], 1])),
        "it uses other counts",
    ),
    "caps of other counts": (
        lambda c: multipliers(c, lambda u: u.update(caps=[[*"ABCDEF"]])),
        "it uses other counts",
    ),
    "a code that is none": (
        lambda c: multipliers(c, lambda u: u["of"][0][1].__setitem__(0, 2)),
        "a code is unknown",
    ),
    "the shuttle where it is multipliers": (
        lambda c: by(c, "multipliers").update(upper=None),
        "claims at most",
    ),
    "of another table": (lambda c: c.update(table="0" * 64), "is of another run: its table is 000000000000"),
    "of another width": (lambda c: c.update(min_width=6), "is of another run: its min_width is 6"),
    "of another small count": (lambda c: c.update(small_count=3), "is of another run: its small_count is 3"),
    "of another format": (lambda c: c.update(format=2), "it has format 2"),
    "one left out": (forget, r"names the refutation \w+, which search/refutations.json does not have"),
    "one twice": (twice, "two refutations have one name"),
    "one that nothing names": (unnamed, "nothing that was refused names ffffffffffffffff"),
    "no list": (lambda c: c.update(refutations=7), "damaged"),
}


@pytest.mark.parametrize("forgery", FORGED)
def test_what_is_forged_is_refused_by_name(forgery: str, run: Path) -> None:
    change, said = FORGED[forgery]
    failures = rewritten(run, change)
    assert failures
    assert any(_says(failure, said) for failure in failures), failures


def _says(failure: str, said: str) -> bool:
    return re.search(said, failure) is not None and "run the build again" in failure


def steps_of(content: Told) -> Iterator[Told]:
    return (step for step in content["steps"] if step["refutation"] is not None)


def test_a_step_that_is_open_has_no_refutation(run: Path) -> None:
    failures = rewritten(run, lambda c: next(steps_of(c)).update(answer=None), STEPS)
    assert any("and does not say refuted" in failure for failure in failures)


def test_a_step_whose_refutation_is_of_more_than_was_asked(run: Path) -> None:
    failures = rewritten(run, lambda c: [s for s in steps_of(c) if s["added"]][-1].update(added=[["A"]]), STEPS)
    assert any("of the search did not ask about" in failure for failure in failures)


def test_a_conflict_that_is_not_proven_has_none(run: Path) -> None:
    failures = rewritten(run, lambda c: c["required"]["conflicts"][0].update(proven=False), STEPS)
    assert any("conflict 1 of the search names the refutation" in failure for failure in failures)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"format": 1}', b"\xff"])
def test_a_damaged_file_is_refused(content: bytes, run: Path) -> None:
    (run / "search" / FILE).write_bytes(content)
    record(run)
    (failure,) = verify(run).failures
    assert f"{FILE} " in failure
    with pytest.raises(RunFolderError, match=FILE):
        read_refutations(run / "search", read_written_table(run / "table"))


def test_a_file_that_is_gone_is_refused(run: Path) -> None:
    (run / "search" / FILE).unlink()
    record(run)
    assert any("refutations.json is missing" in failure for failure in verify(run).failures)


def test_a_name_that_is_not_its_own_is_not_read(run: Path) -> None:
    content = told(run)
    by(content, "shuttle")["count"] = 7
    write_json(run / "search" / FILE, content)
    with pytest.raises(RunFolderError, match="is not the name of what it says"):
        read_refutations(run / "search", read_written_table(run / "table"))
    write_json(run / "search" / FILE, {**content, "table": "0" * 64})
    with pytest.raises(RunFolderError, match="of another table"):
        read_refutations(run / "search", read_written_table(run / "table"))


# Of any table


@given(cases(), generators())
@settings(max_examples=1000)
def test_what_a_search_keeps_verify_works_out_again(
    tmp_path_factory: pytest.TempPathFactory, case: Case, rng: Rng
) -> None:
    """With levels and structural zeros; and one record less is too few."""
    known, width = Knowledge.of(case.table, NOTHING, case.zeros, ()), int(rng.integers(1, 6))
    inquiry = Inquiry(case.table, known, Criteria.of(2, width), refutations=Refutations(known.zeros))
    assume(len(inquiry.bank.at_risk))
    refutation = inquiry.ask(case.known.release).refutation
    assume(refutation is not None)
    assert refutation is not None
    folder = tmp_path_factory.mktemp("refuted")
    write(folder, inquiry, refutation)
    risk = {"small_count": 2, "min_width": width, "undecided": "refuse"}
    assert faults(folder, risk) == []
    content = told(folder)
    low, high = content["refutations"][0]["bounds"]
    if (high - low) and _tight(case, refutation.support, refutation.cell, refutation.with_zeros) == (low, high):
        content["refutations"][0]["bounds"] = [low, high - 1]
        write_json(folder / "search" / FILE, content)
        assert faults(folder, risk) != []


@pytest.mark.parametrize("forged", [False, True])
def test_what_a_linear_program_shows_verify_works_out_without_one(tmp_path: Path, forged: bool) -> None:
    table = scattered()
    public = Knowledge.of(table, NOTHING, NO_ZEROS, ())
    inquiry = Inquiry(table, public, Criteria.of(2, 1), effort=Effort(refute_cells=0), refutations=Refutations())
    with patch.object(Certifying, "certify", lambda self, waiting: None):
        refutation = inquiry.ask(all_ways(5, 3)).refutation
    assert refutation is not None
    assert refutation.upper is not None
    assert refutation.lower is not None
    write(tmp_path, inquiry, replace(refutation, bounds=(2, 1)) if forged else refutation)
    found = faults(tmp_path, {"small_count": 2, "min_width": 1, "undecided": "refuse"})
    assert [*map(bool, found)] == [True] * forged


def write(folder: Path, inquiry: Inquiry, refutation: Refutation) -> None:
    """What a search writes whose one step was refused by it."""
    for stage in ("table", "search"):
        (folder / stage).mkdir()
    write_table(inquiry.table, folder / "table")
    write_known(inquiry.known, folder / "table", hidden=[])
    write_refutations([refutation], inquiry.table, inquiry.criteria, folder / "search")
    labels = [[*st.names(t, inquiry.table.schema)] for t in refutation.support]
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
