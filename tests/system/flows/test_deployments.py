"""Deployments: refused before any work, and run by a Prefect server and a worker that are processes of their own."""

import inspect
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import yaml

from flows.deployments import Parameters, main, read_deployments, register
from sdc.model.errors import ConfigError, RunFolderError, TemporaryError
from sdc.stages.build import open_build
from tests.helpers.prefect_home import PrefectServer, server
from tests.helpers.waiting import line_of, wait_until

ROOT = Path(__file__).parents[3]
SHIPPED = ROOT / "cluster" / "prefect.yaml"
__all__ = ["server"]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a build and the deployments that ship with the project, of that build."""
    build = yaml.safe_load((ROOT / "configs" / "czech_auto_workers.yaml").read_text())
    shutil.copy(ROOT / "configs" / "czech_auto_workers.csv", tmp_path)
    (tmp_path / "build.yaml").write_text(yaml.safe_dump(build | {"execution": {"cluster": "in-process"}}))
    text = SHIPPED.read_text().replace("configs/czech_auto_workers.yaml", "build.yaml")
    (tmp_path / "prefect.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def edited(project: Path, change: Callable[[dict[str, Any]], Any]) -> Path:
    """The deployments with a change to the first of them, or to what is around them."""
    file = project / "prefect.yaml"
    content = yaml.safe_load(file.read_text())
    change(content)
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    return file


def test_the_file_of_the_project_is_valid_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    file, deployments = read_deployments(SHIPPED)
    assert [(d.name, d.schedules[0].cron, d.schedules[0].timezone) for d in deployments] == [
        ("nightly-release", "0 2 * * *", "Europe/Vienna"),
        ("weekly-widths", "0 22 * * 6", "Europe/Vienna"),
    ]
    assert {d.concurrency_limit.limit for d in deployments} == {1}
    assert [(pool.name, pool.concurrency_limit) for pool in file.work_pools] == [("sdc", 2)]
    assert file.alerts is None


def test_both_flows_have_the_parameters_of_a_deployment() -> None:
    from flows.release_build import release_build
    from flows.width_sweep import width_sweep

    for flow, not_scheduled in ((release_build, ["again", "settings"]), (width_sweep, ["settings"])):
        assert list(inspect.signature(flow.fn).parameters) == [*Parameters.model_fields, *not_scheduled]


def first(content: dict[str, Any]) -> dict[str, Any]:
    deployment: dict[str, Any] = content["deployments"][0]
    return deployment


def schedule(content: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = first(content)["schedules"][0]
    return found


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda c: schedule(c).update(cron="0 2 * *"),
            r"prefect\.yaml, line 6, deployment 'nightly-release': schedules\.0\.cron = '0 2 \* \*': it is not a cron "
            r"line \(minute, hour, day, month and weekday",
        ),
        (lambda c: schedule(c).update(cron="H 2 * * *"), r"schedules\.0\.cron = 'H 2 \* \* \*': it is not a cron line"),
        (lambda c: schedule(c).update(timezone="Europe/Wien"), r"timezone = 'Europe/Wien': there is no such time zone"),
        (lambda c: schedule(c).pop("timezone"), r"schedules\.0\.timezone is missing; add it \(of the cron line"),
        (lambda c: schedule(c).update(corn="x"), r"schedules\.0\.corn is an unknown key; did you mean cron\?"),
        (lambda c: first(c).update(schedules=["daily"]), r"schedules\.0 = 'daily'.*a list of sections with cron"),
        (lambda c: first(c).update(schedule={}), r"'nightly-release': schedule is an unknown key; did you mean sch"),
        (lambda c: first(c).update(entrypoint="flows.x.y"), r"entrypoint = 'flows\.x\.y': .*flows\.width_sweep"),
        (lambda c: first(c)["parameters"].pop("config"), r"parameters\.config is missing; add it"),
        (lambda c: first(c)["parameters"].update(seed=1), r"parameters\.seed is an unknown key; allowed: config, data"),
        (
            lambda c: first(c)["parameters"].update(config="none.yaml"),
            r"parameters\.config = 'none\.yaml': config none\.yaml does not exist; give a YAML file",
        ),
        (lambda c: first(c)["parameters"].update(data="none.csv"), r"parameters\.config = 'build\.yaml': .*none\.csv"),
        (lambda c: first(c)["concurrency_limit"].update(limit=0), r"concurrency_limit\.limit = 0: .*at least 1"),
        (lambda c: first(c)["work_pool"].update(name="x"), r"work_pool\.name = 'x' is not one of work_pools"),
        (lambda c: first(c).update(name="weekly-widths"), r"deployment 'weekly-widths': two deployments have "
                                                          r"this name;"),
        (lambda c: c.update(deployments=[]), r"deployments = \[\]: .*a list of deployments, at least one"),
        (lambda c: c.update(deployments=["nightly"]), r"line 6, deployment None is a str, not a mapping; it has the"),
        (lambda c: c.update(deployment=[]), r"deployment is an unknown key; did you mean deployments\?"),
        (lambda c: c["work_pools"][0].update(limit=1), r"work_pools\.0\.limit is an unknown key"),
        (lambda c: c.update(alerts={}), r"alerts\.webhook is missing; add it \(http://127\.0\.0\.1, a port and a pa"),
    ],
)  # fmt: skip
def test_faulty_deployments(project: Path, change: Callable[[dict[str, Any]], Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_deployments(edited(project, change))


@pytest.mark.parametrize(
    "url",
    [
        "http://hooks.example:80/x",
        "http://127.0.0.1@hooks.example:80/x",
        "https://127.0.0.1:1/",
        "http://127.0.0.1/",
        "http://127.0.0.1:port/",
        "http://[::1",
        "mailto:ann",
    ],
)
def test_alerts_go_to_no_other_machine(url: str, project: Path) -> None:
    message = (
        r"alerts\.webhook = '\S+': not an address of this machine; a program here must listen and notify others itself"
    )
    with pytest.raises(ConfigError, match=message):
        read_deployments(edited(project, lambda content: content.update(alerts={"webhook": url})))


def test_a_config_that_is_refused(project: Path) -> None:
    build = project / "build.yaml"
    build.write_text(build.read_text().replace("min_width: 6", "min_width: six"))
    with pytest.raises(ConfigError, match=r"'nightly-release': .* build\.yaml: risk\.min_width = 'six'"):
        read_deployments(project / "prefect.yaml")
    (project / "none.yaml").write_text("kind: cloud")
    build.write_text(build.read_text().replace("six", "6").replace("in-process", "none.yaml"))
    with pytest.raises(ConfigError, match=r"'nightly-release': .*kind = 'cloud' is not one of local"):
        read_deployments(project / "prefect.yaml")


def test_workers_that_the_cluster_of_the_config_has_already(project: Path) -> None:
    build = project / "build.yaml"
    build.write_text(build.read_text().replace("in-process", "cluster.yaml"))
    (project / "cluster.yaml").write_text("{kind: local, workers: 2}")
    with pytest.raises(ConfigError, match=r"'nightly-release': .*execution\.workers = 4 is for the embedded cluster"):
        read_deployments(edited(project, lambda c: first(c)["parameters"].update(workers=4)))


def worked_once() -> subprocess.CompletedProcess[str]:
    """A worker that has taken up what was due."""
    words = [sys.executable, "-m", "prefect", "worker", "start", "--pool", "sdc", "--run-once"]
    return subprocess.run(words, capture_output=True, text=True, timeout=900)


def test_the_command_only_checks_where_asked(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(project / "prefect.yaml", check=True)
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "nightly-release: 0 2 * * * Europe/Vienna: release_build build.yaml"


def test_the_command_refuses_in_one_sentence(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    edited(project, lambda c: schedule(c).update(cron="whenever"))
    monkeypatch.setattr(sys, "argv", ["deployments", "prefect.yaml"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "flows" / "deployments.py"), run_name="__main__")
    said = capsys.readouterr()
    assert (ended.value.code, said.out, said.err.count("\n")) == (1, "", 1)
    assert said.err.startswith("sdc: prefect.yaml, line 6, deployment 'nightly-release': schedules.0.cron = 'whenever'")


def test_an_embedded_server_gets_no_deployments(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from prefect.settings import PREFECT_API_URL, temporary_settings

    with (
        temporary_settings(restore_defaults={PREFECT_API_URL}),
        pytest.raises(ConfigError, match="PREFECT_API_URL is not set: an embedded server runs no schedules"),
    ):
        register(project / "prefect.yaml")
    with (
        temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}),
        pytest.raises(
            TemporaryError, match=r"no Prefect server answers at PREFECT_API_URL = http://127\.0\.0\.1:9/api"
        ),
    ):
        register(project / "prefect.yaml")


@pytest.mark.slow
def test_a_nightly_release_on_a_real_server(project: Path, server: PrefectServer) -> None:
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.filters import FlowRunFilter
    from prefect.settings import PREFECT_API_URL, temporary_settings

    with temporary_settings({PREFECT_API_URL: server.url}):
        register(project / "prefect.yaml")
    with SyncPrefectClient(api=server.url) as client:
        deployment = client.read_deployment_by_name("release-build/nightly-release")
        assert deployment.global_concurrency_limit.limit == 1
        assert deployment.concurrency_options.collision_strategy == "ENQUEUE"
        assert client.read_work_pool("sdc").concurrency_limit == 2
        planned = wait_until(client.read_flow_runs)
        local = [run.expected_start_time.astimezone(ZoneInfo("Europe/Vienna")) for run in planned]
        assert {(time.hour, time.minute) for time in local} <= {(2, 0), (22, 0)}
        assert max(local) - min(local) > timedelta(days=1)

        widths = client.read_deployment_by_name("width-sweep/weekly-widths")
        for asked in (widths, deployment):
            run = client.create_flow_run_from_deployment(asked.id)
            worker = worked_once()
            assert worker.returncode == 0, worker.stderr
            ended = client.read_flow_runs(flow_run_filter=FlowRunFilter(id={"any_": [run.id]}))[0]
            assert ended.state.is_completed(), worker.stderr
            records = open_build(Path("build.yaml")).folder.records()
            assert "search" not in records or asked is deployment
    assert {name: record.status for name, record in records.items() if name in ("table", "widths")} == {
        "table": "reused",
        "widths": "reused",
    }
    assert (open_build(Path("build.yaml")).folder.stage("release") / "datapackage.json").exists()


def unscheduled(content: dict[str, Any]) -> list[dict[str, Any]]:
    """The deployments, of which none runs at an hour of its own, whenever the test does."""
    deployments = content["deployments"]
    return [{**one, "schedules": [{**time, "active": False} for time in one["schedules"]]} for one in deployments]


@pytest.fixture
def late_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has not begun a second after it was due is late, to a server that starts from now on."""
    monkeypatch.setenv("PREFECT_SERVER_SERVICES_LATE_RUNS_AFTER_SECONDS", "1")


@pytest.fixture
def hook() -> Iterator[tuple[str, list[dict[str, str]]]]:
    """A program of this machine that listens: its address, and what was posted to it."""
    posted = list[dict[str, str]]()

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Hook) as listening:
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{listening.server_port}/sdc", posted
        listening.shutdown()


@pytest.mark.slow
def test_a_program_of_this_machine_hears_of_late_and_failed_runs(
    project: Path, late_soon: None, server: PrefectServer, hook: tuple[str, list[dict[str, str]]]
) -> None:
    """Of each once, by names alone, and of no other deployment. What is no longer in the file is no longer told."""
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.settings import PREFECT_API_URL, temporary_settings
    from prefect.states import Crashed, Failed, Pending, Scheduled

    url, posted = hook
    source, build = project / "czech_auto_workers.csv", project / "build.yaml"
    build.write_text(build.read_text().replace(source.name, "kanarienvogel.csv"))
    source.rename(project / "kanarienvogel.csv")
    edited(project, lambda content: content.update(alerts={"webhook": url}, deployments=unscheduled(content)))
    with temporary_settings({PREFECT_API_URL: server.url}), SyncPrefectClient(api=server.url) as client:
        for _ in range(2):  # the second time it is there
            register(project / "prefect.yaml")
        nightly = client.read_deployment_by_name("release-build/nightly-release")
        (automation,) = client.read_automations_by_name(f"alerts-of-{nightly.id}")
        assert automation.enabled
        other = client.create_deployment(flow_id=nightly.flow_id, name="of others")
        client.set_flow_run_state(client.create_flow_run_from_deployment(other).id, Failed(), force=True)

        late = client.create_flow_run_from_deployment(nightly.id)
        wait_until(lambda: posted)
        (project / "kanarienvogel.csv").unlink()
        worker = worked_once()
        assert worker.returncode == 0, worker.stderr
        assert "kanarienvogel" in str(client.read_flow_run(late.id).state.message)

        later = Scheduled(scheduled_time=datetime.now(UTC) + timedelta(hours=1))
        first, second = (client.create_flow_run_from_deployment(nightly.id, state=later) for _ in range(2))
        for run in (first, second, second):
            client.set_flow_run_state(run.id, Pending())
        client.set_flow_run_state(first.id, Crashed(message="kanarienvogel"), force=True)
        wait_until(lambda: len(posted) > 3)
        states = [(late, "Late"), (late, "Failed"), (second, "AwaitingConcurrencySlot"), (first, "Crashed")]
        assert sorted((told["id"], told["run"], told["event"]) for told in posted) == sorted(
            (str(run.id), run.name, f"prefect.flow-run.{state}") for run, state in states
        )
        assert {told["deployment"] for told in posted} == {"nightly-release"}
        assert {name for told in posted for name in told} == {"deployment", "run", "id", "event", "at"}
        assert "kanarienvogel" not in str(posted)

        shutil.copy(ROOT / "configs" / source.name, project / "kanarienvogel.csv")
        file = edited(project, lambda content: content.pop("alerts"))
        text = file.read_text()
        file.write_text(text.replace("name: nightly-release", "name: another"))
        register(file)  # which does not have this one
        assert len(client.read_automations_by_name(f"alerts-of-{nightly.id}")) == 1
        file.write_text(text)
        register(file)
        assert client.read_automations_by_name(f"alerts-of-{nightly.id}") == []


HOLD = """
import sys
from pathlib import Path
from sdc.stages.build import open_build
with open_build(Path("build.yaml")).started([]):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_two_builds_of_the_same_cannot_run_at_once(project: Path) -> None:
    """The other is a process that ends when its input does."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", HOLD], env=environment, text=True, **pipes) as other:
        assert line_of(other) == "held\n"
        build = open_build(Path("build.yaml"))
        where = re.escape(str(build.folder.path))
        message = rf"another run of the same build is using {where} \(process {other.pid} on .*\); wait until it ends"
        with pytest.raises(RunFolderError, match=message), build.started([]):
            pass
        other.stdin.close()
    with build.started([]):
        pass
