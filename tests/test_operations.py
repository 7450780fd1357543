"""The page of operations: its units are what systemd takes, and its restore drill is performed."""

from __future__ import annotations

import configparser
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
import yaml

from sdc.commands.cli import app
from sdc.executor import IN_PROCESS
from sdc.handbook import pages
from sdc.handbook.markdown import Snippet, snippets
from sdc.server.desk.serve import open_service
from sdc.server.desk.service import Service
from sdc.stages.build import open_build
from sdc.stages.stages import run_all
from tests.conftest import CZECH_CSV, CZECH_YAML, ROOT
from tests.faults.serving import prepare

PAGE = dict(pages())["19_operations.md"]
UNITS = {one.name: one for one in snippets(PAGE) if one.kind == "ini"}
SDC = "/opt/sdc/bin/sdc "


def settings(unit: Snippet) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(unit.text)
    return parser


def test_the_commands_of_units_are_commands() -> None:
    found = [
        value.removeprefix(SDC).split()
        for unit in UNITS.values()
        for section in settings(unit).values()
        for name, value in section.items()
        if name.startswith("ExecStart")
    ]
    assert [words[0] for words in found] == ["doctor", "serve", "run"]
    commands = typer.main.get_command(app)
    for name, *words in found:
        command = commands.commands[name]  # type: ignore[attr-defined]
        assert command.make_context(name, words, resilient_parsing=False).params["config"]


def test_units_restart_where_the_same_may_do_later() -> None:
    """Upon 75, deaths and signals; not upon what somebody has to mend, wrong usage, and a decision, nor for ever."""
    services = [settings(unit)["Service"] for name, unit in UNITS.items() if name.endswith(".service")]
    assert len(services) == 2
    for service in services:
        assert (service["Restart"], service["RestartPreventExitStatus"]) == ("on-failure", "1 2 3")
    build = settings(UNITS["sdc-build@.service"])
    seconds, tries = (int(build["Unit"][f"StartLimit{name}"]) for name in ("IntervalSec", "Burst"))
    assert tries * int(build["Service"]["RestartSec"]) < seconds, "it ends as a failure, of which somebody hears"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd on this machine")
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    for name, unit in UNITS.items():
        (tmp_path / name).write_text(unit.text.replace(SDC, "/bin/true ").replace("User=sdc", "User=root"))
    paths = [str(tmp_path / name) for name in UNITS]
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", *paths], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a build that has published, and a server's config of another name."""
    content = yaml.safe_load(CZECH_YAML.read_text())
    shutil.copy(CZECH_CSV, tmp_path)
    content |= {"execution": {"cluster": "in-process"}, "output": {"folder": "runs"}}
    content["table"]["path"] = CZECH_CSV.name
    for name in ("built", "served"):
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(content | {"name": name}))
    return tmp_path


@pytest.fixture
def service(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """At work, with something that is public."""
    monkeypatch.chdir(place)
    run_all(open_build(Path("built.yaml")), IN_PROCESS)
    prepare(Path("served.yaml"))
    with open_service(open_build(Path("served.yaml"))) as service:
        for subtable in (0b11, 0b111111):
            service.ask(subtable, "ada").result()
        yield service


def drilled(place: Path, meanwhile: str = "") -> subprocess.CompletedProcess[str]:
    """The page's lines in a shell; `meanwhile` comes between what is restored and what is checked."""
    (drill,) = (one.text for one in snippets(PAGE) if one.kind == "sh")
    restored, checks, rest = drill.partition("for manifest")
    (place / "bin").mkdir()
    (place / "bin" / "sdc").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m sdc.commands.cli "$@"\n')
    (place / "bin" / "sdc").chmod(0o755)
    environment = os.environ | {"PATH": f"{place}/bin:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    command = ["bash", "-ec", f"{restored}\n{meanwhile}\n{checks}{rest}"]
    return subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True)


def test_the_drill(place: Path, service: Service) -> None:
    """While the server is at work; what it answers after the copy is not in the restored history."""
    done = drilled(place)
    assert done.returncode == 0, done.stderr
    assert "certified" in done.stdout
    assert "decisions     2, of which 1 released something\n" in done.stdout
    assert "verified      every R(t) satisfies the criterion" in done.stdout
    assert service.ask(0b1100, "ada").result().decision == "released"
    content = yaml.safe_load((place / "served.yaml").read_text()) | {"output": {"folder": "restored"}}
    (place / "restored.yaml").write_text(yaml.safe_dump(content))
    with open_service(open_build(Path("restored.yaml"))) as restored:
        assert (restored.state.version, service.state.version) == (1, 2)
        assert restored.ask(0b11, "ada").result().code == "already-released"


def test_a_copy_that_was_changed_does_not_pass(place: Path, service: Service) -> None:
    done = drilled(place, "for file in restored/*/*/release/*.csv; do echo >> $file; done")
    assert done.returncode == 1
    assert "is not verified" in done.stderr
