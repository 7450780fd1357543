"""`sdc run` with Prefect's server: one document, progress, reuse, and one message for bad input."""

import re
from pathlib import Path

from sdc.stages.stages import STAGES
from tests.helpers.bad_input import FAULTS
from tests.helpers.builds import BY_NAME, write_czech
from tests.helpers.commands import Answer, process, tree
from tests.helpers.console import Console

WIDE = next(fault for fault in FAULTS if fault.name == "too wide a width")


def test_a_build_that_is_refused_in_its_search_is_one_message(tmp_path: Path, console: Console) -> None:
    """All other bad input is in tests/integration/commands/test_bad_input.py; a flow passes each on unchanged."""
    WIDE.write(tmp_path / "in")
    said = console(*WIDE.words("run", tmp_path / "in"), place=tmp_path)
    Answer(said.status, said.out, said.err).assert_refused(WIDE.message, WIDE.status)
    assert not [*tmp_path.rglob("release")]


def test_a_run_answers_with_one_document(tmp_path: Path, console: Console) -> None:
    said = console("run", str(write_czech(tmp_path)), "--json", place=tmp_path)
    found = Answer(said.status, said.out, said.err).document
    assert list(found) == ["run_folder", "release", "stages"]
    assert Path(found["run_folder"]).parent == tmp_path / "runs" / "czech_auto_workers"
    assert list(found["release"]) == ["frontier", "sub_tables", "sub_tables_with_total"]
    assert found["release"]["frontier"] == [name.split("*") for name in BY_NAME]
    assert (found["release"]["sub_tables"], found["release"]["sub_tables_with_total"]) == (59, 60)
    assert [(s["name"], s["status"]) for s in found["stages"]] == [(stage.name, "done") for stage in STAGES]
    assert (Path(found["run_folder"]) / "release" / "datapackage.json").is_file()
    for stage in STAGES:  # progress
        assert re.search(rf"^{stage.name}: done in", said.err, re.MULTILINE)


def test_a_process_refuses_with_one_line(tmp_path: Path) -> None:
    (tmp_path / "table.csv").touch()
    answer = process("release", "table.csv", "--method", "ordered", "--min-width", "2", "--out", "new", cwd=tmp_path)
    answer.assert_refused(r"^sdc: table\.csv is empty; give")
    assert answer.err.count("\n") == 1
    assert tree(tmp_path) == {"table.csv"}
    assert process("widths").status == 2
