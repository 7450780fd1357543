"""`sdc run` with Prefect's server: one document, progress, reuse, and one message for bad input."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path

import pytest

from sdc.stages.build import open_build
from sdc.stages.stages import STAGES
from tests.helpers.bad_input import FAULTS, Fault
from tests.helpers.builds import BY_NAME, write_czech
from tests.helpers.commands import Answer, process, tree
from tests.helpers.console import Console

RUN = [fault for fault in FAULTS if fault.name in ("a missing column", "too wide a width", "a second run")]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, console: Console) -> tuple[Path, dict[str, Answer]]:
    """Every `sdc run` of this file."""
    folder = tmp_path_factory.mktemp("runs")
    cases = {}
    with ExitStack() as held:
        for fault in RUN:
            fault.write(folder / fault.name)
            cases[fault.name] = fault.words("run", folder / fault.name)
            if fault.name == "a second run":
                held.enter_context(open_build(folder / fault.name / "build.yaml").folder.locked())
        (folder / "good").mkdir()
        config = str(write_czech(folder / "good"))
        cases |= {"good": ["run", config, "--json"]}
        answers = {name: console(*words, place=folder) for name, words in cases.items()}
    return folder, {name: Answer(said.status, said.out, said.err) for name, said in answers.items()}


@pytest.mark.parametrize("fault", RUN, ids=lambda fault: fault.name or "no name")
def test_bad_input_of_a_build_is_one_message(fault: Fault, runs: tuple[Path, dict[str, Answer]]) -> None:
    folder, answers = runs
    assert not [*(folder / fault.name).rglob("release")]
    answers[fault.name].assert_refused(fault.message, fault.status)


def test_a_run_answers_with_one_document(runs: tuple[Path, dict[str, Answer]]) -> None:
    folder, answers = runs
    found = answers["good"].document
    assert list(found) == ["run_folder", "release", "stages"]
    assert Path(found["run_folder"]).parent == folder / "good" / "runs" / "czech_auto_workers"
    assert list(found["release"]) == ["frontier", "sub_tables", "sub_tables_with_total"]
    assert found["release"]["frontier"] == [name.split("*") for name in BY_NAME]
    assert (found["release"]["sub_tables"], found["release"]["sub_tables_with_total"]) == (59, 60)
    assert [(s["name"], s["status"]) for s in found["stages"]] == [(stage.name, "done") for stage in STAGES]
    assert (Path(found["run_folder"]) / "release" / "datapackage.json").is_file()
    for stage in STAGES:  # progress
        assert re.search(rf"^{stage.name}: done in", answers["good"].err, re.MULTILINE)


def test_a_process_refuses_with_one_line(tmp_path: Path) -> None:
    (tmp_path / "table.csv").touch()
    answer = process("release", "table.csv", "--method", "ordered", "--min-width", "2", "--out", "new", cwd=tmp_path)
    answer.assert_refused(r"^sdc: table\.csv is empty; give")
    assert answer.err.count("\n") == 1
    assert tree(tmp_path) == {"table.csv"}
    assert process("widths").status == 2
