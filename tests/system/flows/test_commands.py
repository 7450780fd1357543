"""Each flow by `python -m`: it does what the flow does, or says why not, and never ends well without a word."""

import json
import runpy
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sdc.commands.cli import app
from tests.system.flows.test_release_build import write_config

FLOWS = Path(__file__).parents[3] / "flows"
MODULES = sorted(file.stem for file in FLOWS.glob("*.py") if "\n@flow(" in file.read_text())


def status_of(module: str, *arguments: str, monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setattr(sys, "argv", [module, *arguments])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(FLOWS / f"{module}.py"), run_name="__main__")
    return ended.value.code


@pytest.mark.parametrize("module", MODULES)
def test_a_flow_by_its_module_asks_for_its_arguments(
    module: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert status_of(module, monkeypatch=monkeypatch) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "Missing argument" in said.err


def test_a_flow_by_its_module_refuses_as_the_commands_do(
    prefect_server: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in sorted({*MODULES} - {"request_round"}):
        assert status_of(module, "none.yaml", monkeypatch=monkeypatch) == 1
        assert capsys.readouterr() == ("", "sdc: config none.yaml does not exist; give a YAML file\n")
    monkeypatch.delenv("SDC_SERVER_KEY", raising=False)
    assert status_of("request_round", "http://127.0.0.1:1", monkeypatch=monkeypatch) == 1
    assert capsys.readouterr().err.startswith("sdc: SDC_SERVER_KEY is not set; ")


def test_a_flow_by_its_module_prints_its_result(
    prefect_server: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = write_config(tmp_path, execution={"cluster": "in-process"})
    assert status_of("width_sweep", config, monkeypatch=monkeypatch) == 0
    assert json.loads(capsys.readouterr().out)["sub_tables"] == 64
    config = write_config(tmp_path, execution={"cluster": "in-process"}, risk={"min_width": 1800})
    assert status_of("release_build", config, monkeypatch=monkeypatch) == 3
    assert json.loads(capsys.readouterr().out)["release"]["sub_tables"] == 0


def test_a_sweep_from_a_shell_is_that_of_its_module(
    prefect_server: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second takes over what the first has made, in the same folder; what is told is the same."""
    config = write_config(tmp_path, execution={"cluster": "in-process"})
    told = CliRunner().invoke(app, ["sweep", config])
    assert told.exit_code == 0
    assert "sub-tables    64 of 64 listed; 64 visited\nmin width     61 of them reach" in told.stdout
    assert status_of("width_sweep", config, monkeypatch=monkeypatch) == 0
    by_module = json.loads(capsys.readouterr().out)
    by_shell = json.loads(CliRunner().invoke(app, ["sweep", config, "--json"]).stdout)
    assert f"run folder    {by_module['run_folder']}\n" in told.stdout
    assert {stage["status"] for stage in [*by_module.pop("stages"), *by_shell.pop("stages")]} == {"reused"}
    assert by_shell == by_module
