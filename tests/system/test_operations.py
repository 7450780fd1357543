"""The pages of operations: units are what systemd takes, and the restore drill and the night are performed."""

import configparser
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
import typer
import yaml

from sdc.commands.cli import app
from sdc.executor import IN_PROCESS
from sdc.handbook import pages
from sdc.handbook.markdown import Snippet, snippets
from sdc.server.service.service import Service, open_service
from sdc.stages.build import open_build
from sdc.stages.stages import run_all
from tests.conftest import CZECH_CSV, CZECH_YAML, ROOT
from tests.helpers.prefect_home import made_home
from tests.helpers.serving import prepare
from tests.helpers.waiting import wait_until
from tests.integration.test_handbook import matches

UNITS = {one.name: one for one in snippets(dict(pages())["operations.md"]) if one.kind == "ini"}
SDC = "/opt/sdc/bin/sdc "
STATUS = "status:"


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
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *paths], capture_output=True, text=True, timeout=900
    )
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
            service.ask(subtable, "ada").result(600)
        wait_until(lambda: not service.log.projection.pending)
        yield service


def with_command(place: Path) -> dict[str, str]:
    """The environment of a shell in which `sdc`, `prefect` and `python3` are those of the tests."""
    (place / "bin").mkdir()
    (place / "bin" / "sdc").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m sdc.commands.cli "$@"\n')
    (place / "bin" / "sdc").chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    path = os.pathsep.join([f"{place}/bin", str(Path(sys.executable).parent), os.environ["PATH"]])
    return kept | {"PATH": path, "PYTHONPATH": str(ROOT)}


def drilled(place: Path, meanwhile: str = "") -> subprocess.CompletedProcess[str]:
    """The page's lines in a shell; `meanwhile` comes between what is restored and what is checked."""
    (drill,) = (one.text for one in snippets(dict(pages())["backup.md"]) if one.kind == "sh")
    restored, checks, rest = drill.partition("for manifest")
    command = ["bash", "-ec", f"{restored}\n{meanwhile}\n{checks}{rest}"]
    return subprocess.run(command, cwd=place, env=with_command(place), capture_output=True, text=True, timeout=900)


def test_the_drill(place: Path, service: Service) -> None:
    """While the server is at work; what it answers after the copy is not in the restored history."""
    done = drilled(place)
    assert done.returncode == 0, done.stderr
    assert "certified" in done.stdout
    assert "decisions     2, of which 1 released something\n" in done.stdout
    assert "verified      every R(t) satisfies the criterion" in done.stdout
    service.ask(0b1100, "ada").result(600)
    wait_until(lambda: service.requests()[0].decision == "released")
    content = yaml.safe_load((place / "served.yaml").read_text()) | {"output": {"folder": "restored"}}
    (place / "restored.yaml").write_text(yaml.safe_dump(content))
    with open_service(open_build(Path("restored.yaml"))) as restored:
        assert (restored.state.version, service.state.version) == (1, 2)
        assert restored.ask(0b11, "ada").result(600).code == "already-released"


def test_a_copy_that_was_changed_does_not_pass(place: Path, service: Service) -> None:
    done = drilled(place, "for file in restored/*/*/release/*.csv; do echo >> $file; done")
    assert done.returncode == 1
    assert "is not verified" in done.stderr


def with_free_ports(text: str) -> str:
    """As the page has it, but for the ports, which others may have here."""
    with ExitStack() as stack:
        free = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)]
        ports = dict(zip(("4200", "9000"), (str(one.getsockname()[1]) for one in free), strict=True))
    return re.sub("|".join(ports), lambda port: ports[port[0]], text)


def played(script: str, place: Path) -> tuple[str, str]:
    """What one shell prints, with whose end all that it has begun ends; Prefect's home is new."""
    environment = with_command(place) | {"PREFECT_HOME": str(made_home(place / "prefect"))}
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    shell = subprocess.Popen(
        ["bash", "-c", script], cwd=place, env=environment, text=True, start_new_session=True, **pipes
    )
    with shell:
        try:
            return shell.communicate(timeout=900)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)


@pytest.mark.slow
def test_a_strangers_night(tmp_path: Path) -> None:
    """Each command of the transcript ends with the status that it has there, and prints what follows it."""
    shutil.copy(CZECH_CSV, tmp_path)
    parts = list(snippets(with_free_ports(dict(pages())["night.md"])))
    for one in parts:
        if one.name:
            (tmp_path / one.name).write_text(one.text)
    shown = "".join(one.text for one in parts if one.kind == "console")
    commands = [part.partition("\n")[::2] for part in re.split(r"^\$ ", shown, flags=re.MULTILINE)[1:]]
    out, err = played("".join(f'{command}\necho "{STATUS} $?"\n' for command, _ in commands), tmp_path)
    *said, rest = re.split(rf"^{STATUS} (\d+)\n", out, flags=re.MULTILINE)
    assert (len(said), rest) == (2 * len(commands), ""), (out, err)
    for (command, expected), printed, status in zip(commands, said[::2], said[1::2], strict=True):
        wanted = re.search(r"# status (\d)$", command)
        assert status == (wanted[1] if wanted else "0"), (command, printed, err)
        assert matches(expected, printed), (command, printed, err)
