"""A Prefect server that goes away and comes back, and processes of flow runs that do not."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from flows import absence
from flows.absence import AT_WORK, at_work, refusals_of_the_server
from flows.deployments import register
from sdc.events import EventLog, emit, heard
from sdc.model.errors import ConfigError, SdcError, TemporaryError
from sdc.refusal import TRY_AGAIN
from sdc.storage.run_folder import RunFolder
from tests.conftest import ROOT
from tests.helpers.builds import write_czech
from tests.helpers.folders import contents, released_here
from tests.helpers.prefect_home import PrefectServer, server
from tests.helpers.waiting import wait_until

__all__ = ["server"]
REQUEST = httpx.Request("GET", "http://127.0.0.1:9/api/flow_runs")


class Answering:
    """A client whose server answers so, one time after the other, and then well."""

    def __init__(self, *answers: Exception | None) -> None:
        self.left = list(answers)

    def api_healthcheck(self) -> Exception | None:
        return self.left.pop(0) if self.left else None


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Nobody sleeps, and what was given up is forgotten afterwards."""
    from prefect.settings import PREFECT_API_URL, temporary_settings

    monkeypatch.setattr(absence, "SECONDS_BETWEEN_TRIES", 0.0)
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}) as found:
        yield found


def test_a_server_that_is_away_is_waited_for_by_name(settings: Any, capsys: pytest.CaptureFixture[str]) -> None:
    refused = httpx.ConnectError("refused")
    client: Any = Answering(refused, httpx.ConnectError("no route"), refused, httpx.ReadTimeout(""))
    absence.await_server(client)
    server = "Prefect's server at http://127.0.0.1:9/api "
    assert re.sub("[0-9]+ s of", "N s of", capsys.readouterr().err).splitlines() == [
        f"{server}does not answer (no route); waiting, N s of 600 s",
        f"{server}does not answer (refused); waiting, N s of 600 s",
        f"{server}does not answer (ReadTimeout); waiting, N s of 600 s",
        f"{server}answers again",
    ]


def test_of_a_server_that_is_busy_for_a_moment_nobody_hears(settings: Any, capsys: pytest.CaptureFixture[str]) -> None:
    client: Any = Answering(httpx.ReadTimeout("busy"))
    absence.await_server(client)
    assert capsys.readouterr() == ("", "")


def test_a_server_that_stays_away_is_given_up(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the bound, and from then on at once: what ends in its absence has more to say to it."""
    monkeypatch.setenv(absence.VARIABLE, "0")
    assert settings.client.max_retries
    for _ in range(2):
        client: Any = Answering(*[httpx.ConnectError("refused")] * 3)
        with pytest.raises(TemporaryError, match=r"has not answered \(refused\); start it, then run again"):
            absence.await_server(client)
        assert settings.client.max_retries == 0


def test_what_prefect_itself_says_to_a_server_that_is_away() -> None:
    with pytest.raises(TemporaryError, match=r"has not answered \(refused\); start it"), refusals_of_the_server():
        raise httpx.ConnectError("refused")


@pytest.mark.parametrize("given", ["six", "-1", "inf", "nan"])
def test_a_bound_that_is_none(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(absence.VARIABLE, given)
    with pytest.raises(ConfigError, match=f"SDC_PREFECT_SECONDS = '{given}' is not a number of seconds, such as 600"):
        absence.patience()


def test_what_a_server_refuses_is_no_fault_of_the_build() -> None:
    from prefect.exceptions import PrefectHTTPStatusError

    answer = httpx.Response(401, request=REQUEST)
    with (
        pytest.raises(SdcError, match=r"answers with status 401; check its log, and the key or password that Prefect"),
        refusals_of_the_server(),
    ):
        raise PrefectHTTPStatusError("401", request=REQUEST, response=answer)


# Processes that are gone


def of_a_run(folder: Path, process: int) -> RunFolder:
    """A run folder with the event of a process that has begun in it."""
    folder.mkdir()
    with heard(EventLog(folder / "log.jsonl")):
        emit("run started", pid=process, host=socket.gethostname())
    return RunFolder(folder)


@pytest.mark.slow
def test_runs_whose_process_is_gone_have_crashed(prefect_server: None, tmp_path: Path) -> None:
    """Those that hold their folder run, and so may those whose folder is another machine's; ours had another holder."""
    from prefect import flow
    from prefect.client.orchestration import get_client
    from prefect.states import Running

    dead, alive, ours = (of_a_run(tmp_path / name, process) for process, name in enumerate(("dead", "alive", "ours")))
    tags = {
        "dead": f"{AT_WORK}:{socket.gethostname()}/0{dead.path}",
        "alive": f"{AT_WORK}:{socket.gethostname()}/1{alive.path}",
        "ours": f"{AT_WORK}:{socket.gethostname()}/2{ours.path}",
        "elsewhere": f"{AT_WORK}:{socket.gethostname()}/9{dead.path}",
    }

    @flow
    def build() -> list[str]:
        with get_client(sync_client=True) as client, alive.alone(), ours.alone(), at_work(ours):
            return [tag for run in client.read_flow_runs() for tag in run.tags if f"/{os.getpid()}{ours.path}" in tag]

    with get_client(sync_client=True) as client:
        runs = {
            name: client.create_flow_run(build, tags=[AT_WORK, tag], state=Running()).id for name, tag in tags.items()
        }
        assert len(build()) == 1
        states = {name: client.read_flow_run(run).state_name for name, run in runs.items()}
        for run in runs.values():
            client.delete_flow_run(run)
        assert not [tag for run in client.read_flow_runs() for tag in run.tags if tag.startswith(AT_WORK)]
    assert states == {"dead": "Crashed", "alive": "Running", "ours": "Crashed", "elsewhere": "Running"}


# Real servers


LONG = {"method": "decomposable", "annealing": {"steps": 50_000, "rounds": 20, "patience": 0, "chains": 2}}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a build of some seconds."""
    write_czech(tmp_path, whole={"release": LONG, "output": {"folder": "runs"}})
    monkeypatch.chdir(tmp_path)
    return tmp_path


def states(server: PrefectServer) -> dict[str, str]:
    from prefect.client.orchestration import SyncPrefectClient

    with SyncPrefectClient(api=server.url) as client:
        return {str(run.id): str(run.state_name) for run in client.read_flow_runs()}


def events(project: Path) -> list[dict[str, Any]]:
    return [event for log in project.glob("runs/*/*/log.jsonl") for event in RunFolder(log.parent).events()]


@pytest.mark.slow
@pytest.mark.parametrize("seconds", ["120", "3"])
def test_a_server_that_dies_at_a_stage_boundary(project: Path, server: PrefectServer, seconds: str) -> None:
    """The build goes on with it, to the same bytes; or ends with one sentence, and the next takes its stages over."""
    command = [sys.executable, "-m", "sdc.commands.cli", "run", "build.yaml"]
    environment = os.environ | {absence.VARIABLE: seconds}
    with (project / "said").open("w") as said:
        build = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=said)
    wait_until(lambda: [e for e in events(project) if e["event"] == "stage started" and e["stage"] == "search"])
    server.end(signal.SIGKILL)
    wait_until(lambda: f"Prefect's server at {server.url} does not answer" in (project / "said").read_text())
    if seconds == "3":
        assert build.wait(timeout=300) == TRY_AGAIN
        server.start()
        assert (
            (project / "said").read_text().splitlines()[-1].startswith(f"sdc: Prefect's server at {server.url} has not")
        )
        subprocess.run(command, env=environment, check=True, capture_output=True, timeout=900)
        assert sorted(states(server).values()) == ["Completed", "Crashed"]
    else:
        server.start()
        assert build.wait(timeout=900) == 0
        assert f"Prefect's server at {server.url} answers again" in (project / "said").read_text()
        assert list(states(server).values()) == ["Completed"]
    (release,) = Path("runs").glob("*/*/release")
    assert contents(release) == released_here(project / "build.yaml")


@pytest.mark.slow
@pytest.mark.parametrize("with_its_run", [True, False])
def test_a_worker_that_is_killed(project: Path, server: PrefectServer, with_its_run: bool) -> None:
    """A run goes on without it. Where that is killed too, the next run of the deployment says so, and takes it up."""
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.settings import PREFECT_API_URL, temporary_settings

    shipped = (ROOT / "cluster" / "prefect.yaml").read_text()
    # the one place of a deployment is Prefect's to give away, five minutes after its run died: too long for a test
    two = shipped.replace("limit: 1,", "limit: 2,").replace("configs/czech_auto_workers.yaml", "build.yaml")
    Path("prefect.yaml").write_text(two)
    with temporary_settings({PREFECT_API_URL: server.url}):
        register(Path("prefect.yaml"))
    start = [sys.executable, "-m", "prefect", "worker", "start", "--pool", "sdc"]
    with SyncPrefectClient(api=server.url) as client:
        deployment = client.read_deployment_by_name("release-build/nightly-release")
        first = str(client.create_flow_run_from_deployment(deployment.id).id)
        with subprocess.Popen(start, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as worker:
            wait_until(lambda: [e for e in events(project) if e["event"] == "stage started" and e["stage"] == "search"])
            runs = psutil.Process(worker.pid).children(recursive=True)
            worker.kill()
            for run in runs if with_its_run else ():
                run.kill()
        if with_its_run:
            assert states(server)[first] == "Running"
            second = str(client.create_flow_run_from_deployment(deployment.id).id)
            with subprocess.Popen(start, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as worker:
                wait_until(lambda: states(server)[second] == "Completed")
                worker.terminate()
            assert states(server)[first] == "Crashed"
        else:
            wait_until(lambda: states(server)[first] != "Running")
            assert states(server)[first] == "Completed"
    (release,) = Path("runs").glob("*/*/release")
    assert contents(release) == released_here(project / "build.yaml")
