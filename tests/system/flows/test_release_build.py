"""The flows on a real Prefect server and two Dask workers: stages, artifacts, reuse, and nothing sent outside."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import fsspec
import psutil
import pytest

from flows import embedded
from flows.embedded import embedded_server, use_embedded_server
from sdc.config.build import ExecutionConfig
from sdc.execution.doctor import examined
from sdc.executor import IN_PROCESS, Executor
from sdc.model.errors import ConfigError, ReleaseError, SdcError, TemporaryError
from sdc.model.schema import Schema
from sdc.stages.build import open_build
from sdc.stages.stages import SWEEP, run_all
from sdc.storage.run_folder import RunFolder
from tests.helpers.builds import FRONTIER, NAMES, write_czech
from tests.helpers.folders import contents
from tests.helpers.killing import children_with
from tests.helpers.prefect_home import made_home
from tests.helpers.waiting import line_of
from tests.system.faults.test_strangers import assert_closed

UPLOAD = "memory://flows/czech"

MARK = "# stands for Prefect's server"  # in the command of a child that does
QUIET = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_CLOUD_ENABLE_ORCHESTRATION_TELEMETRY": "false",
}


def write_config(folder: Path, **sections: dict[str, Any]) -> str:
    return str(write_czech(folder, whole={"execution": {"cluster": "local", "workers": 2}} | sections))


@pytest.fixture(scope="module")
def flow_runs(prefect_server: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The sweep, the build after it with the same two workers, and the build once more, with what Prefect keeps."""
    from prefect import tags
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import FlowRunFilter, LogFilter

    from flows import release_build as flow
    from flows import tasks
    from flows.width_sweep import width_sweep

    folder, asked = tmp_path_factory.mktemp("flow"), list[ExecutionConfig]()
    config = write_config(folder)
    told_of = list[Schema]()
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        cluster = cache(lambda opened=tasks.open_executor: stack.enter_context(opened(asked[0])))

        @contextmanager
        def once(execution: ExecutionConfig) -> Iterator[Executor]:
            asked.append(execution)
            yield cluster()

        @contextmanager
        def noted(*_: object) -> Iterator[Callable[[Schema], None]]:
            yield told_of.append

        patch.setattr(tasks, "open_executor", once)
        patch.setattr(tasks, "warming", noted)
        with tags("these"):  # the server may have those of other tests
            found = {"sweep": width_sweep(config), "build": flow.release_build(config)}
    with get_client(sync_client=True) as client:
        these = FlowRunFilter(tags={"all_": ["these"]})
        found["artifacts"] = {artifact.key: artifact for artifact in client.read_latest_artifacts()}
        flows = client.read_flow_runs(flow_run_filter=these)
        found["flows"] = {(run.name, run.state_name) for run in flows}
        found["logs"] = client.read_logs(LogFilter(flow_run_id={"any_": [run.id for run in flows]}))
        runs = client.read_task_runs(flow_run_filter=these)
        names = {run.id: run.name.rsplit("-", 1)[0] for run in runs}
        taken = {run.id: {one.id for some in run.task_inputs.values() for one in some} for run in runs}
        found["needs"] = {
            names[run.id]: {names[one] for one in taken[run.id]} for run in runs if names[run.id] in NEEDS
        }
        found["tasks"] = [(run.name.rsplit("-", 1)[0], run.state_name) for run in runs]
    found["asked"] = [(execution.cluster, execution.workers) for execution in asked]
    found["told_of"] = [schema.cells for schema in told_of]
    # where it goes is not a part of what is built
    config = write_config(folder, output={"folder": str(folder / "runs"), "upload": UPLOAD})
    found["again"] = flow.release_build(config, workers=3)
    return found


def statuses(result: dict[str, Any]) -> dict[str, str]:
    return {stage["name"]: stage["status"] for stage in result["stages"]}


def test_the_last_step_puts_the_release_where_readers_are(flow_runs: dict[str, Any]) -> None:
    assert "uploaded" not in flow_runs["build"]
    assert flow_runs["again"]["uploaded"] == UPLOAD
    files, release = fsspec.filesystem("memory"), contents(Path(flow_runs["again"]["run_folder"]) / "release")
    assert {path.removeprefix("/flows/czech/"): files.cat_file(path) for path in files.find("/flows/czech")} == release


def test_the_sweep_makes_table_and_widths(flow_runs: dict[str, Any]) -> None:
    sweep = flow_runs["sweep"]
    assert (sweep["sub_tables"], sweep["visited"], sweep["at_risk_cells"]) == (64, 64, 3)
    assert sweep["narrowest"][0] == {"sub_table": list("ABCDEF"), "critical_width": 0}
    assert statuses(sweep) == dict.fromkeys([stage.name for stage in SWEEP], "done")


def test_what_compiles_meanwhile_is_told_of_the_table(flow_runs: dict[str, Any]) -> None:
    assert flow_runs["told_of"] == [64, 64]


def test_the_build_takes_them_over_and_makes_the_rest(flow_runs: dict[str, Any]) -> None:
    build = flow_runs["build"]
    assert list(build) == ["run_folder", "release", "stages"]
    assert build["run_folder"] == flow_runs["sweep"]["run_folder"]
    assert build["release"] == {"frontier": [*map(list, FRONTIER)], "sub_tables": 59, "sub_tables_with_total": 60}
    assert statuses(build) == {**dict.fromkeys(NAMES, "done"), "table": "reused", "widths": "reused"}
    assert json.loads(json.dumps(build)) == build
    assert len(list((Path(build["run_folder"]) / "release").iterdir())) == 20


def test_a_third_run_reuses_everything_whatever_the_workers(flow_runs: dict[str, Any]) -> None:
    again = flow_runs["again"]
    assert again["run_folder"] == flow_runs["build"]["run_folder"]
    assert again["release"] == flow_runs["build"]["release"]
    assert statuses(again) == dict.fromkeys(NAMES, "reused")


def test_prefect_holds_the_frontier_and_the_stages(flow_runs: dict[str, Any]) -> None:
    """And of each stage a page with what became of it, its log and its resources."""
    artifacts = flow_runs["artifacts"]
    listed = re.findall(r"^- (.*)$", artifacts["released-frontier"].data, re.MULTILINE)
    assert listed == [" * ".join(names) for names in FRONTIER]
    rows = json.loads(artifacts["stages"].data)
    assert [(row["name"], row["status"]) for row in rows] == list(statuses(flow_runs["build"]).items())
    assert {"key", "output", "seconds", "driver_mib", "worker_mib"} <= {*rows[0]}
    pages = {name: artifacts[f"stage-{name}"].data for name in NAMES}
    for fact in ("| status | done |", "| seconds |", "| driver_mib |", "| worker_mib |", "59 sub-tables"):
        assert fact in pages["search"]
    assert "| status | reused |" in pages["table"]


def test_the_log_tells_what_happened(flow_runs: dict[str, Any]) -> None:
    """Of the sweep, the build and the build once more; the cluster of the first two has no dashboard to look at."""
    assert flow_runs["asked"] == [("local", 2)] * 2
    events = RunFolder(Path(flow_runs["build"]["run_folder"])).events()
    assert [event["outcome"] for event in events if event["event"] == "run ended"] == ["finished"] * 3
    finished = [(event["stage"], event["status"]) for event in events if event["event"] == "stage finished"]
    done = [(name, "done" if name in NAMES[2:] else "reused") for name in NAMES]
    assert finished == [("table", "done"), ("widths", "done"), *done, *((name, "reused") for name in NAMES)]
    opened = [event for event in events if event["event"] == "cluster opened"]
    assert [event["stage"] for event in opened] == ["widths"]
    assert all(event["dashboard"] is None for event in opened)
    assert [event["units"] > 0 for event in events if event["event"] == "stage finished"][:2] == [False, True]


def test_prefect_logs_each_stage_as_the_run_folder_does(flow_runs: dict[str, Any]) -> None:
    """In the log of the run and of the task, there when the flow ends; of a stage that is reused as well."""
    events = RunFolder(Path(flow_runs["build"]["run_folder"])).events()
    lines = [event["text"] for event in events if event["event"] in ("stage started", "stage finished")]
    logs = flow_runs["logs"]
    logged = [log.message for log in logs if log.name == "sdc"]
    assert logged == lines[: 2 * len(["table", "widths", *NAMES])]
    assert (len({log.flow_run_id for log in logs}), len({log.task_run_id for log in logs})) == (2, 2 + len(NEEDS) - 1)
    begun = logged.index("search: finds a release")
    assert re.fullmatch(r"search: done in \d+\.\d s", logged[begun + 1])
    assert any(line.startswith("widths: reused in ") for line in logged)


NEEDS = {
    "count table": set(),
    "critical widths": {"count table"},
    "greedy search": {"choose release"},
    "choose release": {"count table", "critical widths"},
    "sharp bounds": {"count table", "choose release"},
    "report": {"count table", "critical widths", "choose release", "sharp bounds"},
    "publish": {"count table", "choose release", "sharp bounds"},
}
"""The tasks of a build, and those whose results each takes; a part of the search has it above itself."""


def test_prefects_graph_has_the_steps_and_what_each_takes(flow_runs: dict[str, Any]) -> None:
    assert {state for _, state in flow_runs["flows"]} == {"Completed"}
    assert sorted(flow_runs["tasks"]) == sorted((name, "Completed") for name in [*NEEDS, "table", "widths"])
    assert flow_runs["needs"] == NEEDS


@pytest.mark.slow
def test_the_best_of_both_with_a_curve(prefect_server: None, tmp_path: Path) -> None:
    """Chains are units of two Dask workers; the curve is one task more, before the report."""
    from flows.release_build import release_build

    release = {"method": "best", "annealing": {"steps": 2000, "chains": 2}}
    config = write_config(tmp_path, release=release, curve={"min_width": [6, 11]})
    build = release_build(config)
    assert build["release"] == {"frontier": [*map(list, FRONTIER)], "sub_tables": 59, "sub_tables_with_total": 60}
    assert list(statuses(build).items()) == [(name, "done") for name in [*NAMES[:4], "curve", *NAMES[4:]]]
    alone = open_build(Path(write_config(tmp_path, release=release, curve={"min_width": [6, 11]})))
    trace = (alone.folder.stage("search") / "trace.parquet").read_bytes()
    shutil.rmtree(alone.folder.path)
    run_all(alone, IN_PROCESS)
    assert (alone.folder.stage("search") / "trace.parquet").read_bytes() == trace
    assert statuses(release_build(config)) == dict.fromkeys(statuses(build), "reused")


def test_a_refusal_passes_through_the_flow_unchanged(prefect_server: None, tmp_path: Path) -> None:
    """And is the last line of the run's log at Prefect."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.sorting import LogSort

    from flows.release_build import release_build

    config = write_config(
        tmp_path, risk={"min_width": 2000}, execution={"cluster": "in-process"}, release={"method": "bisection"}
    )
    with pytest.raises(ReleaseError, match="minimum width 2000 is not reached even when only the grand total 1841"):
        release_build(config)
    assert not list(tmp_path.rglob("release"))
    assert list(open_build(Path(config)).folder.records()) == ["table", "widths"]
    with get_client(sync_client=True) as client:
        (last,) = client.read_logs(limit=1, sort=LogSort.TIMESTAMP_DESC)
    assert last.message.startswith("the minimum width 2000 is not reached even when only the grand total")


def test_a_faulty_config_is_refused_before_prefect_is_loaded(tmp_path: Path) -> None:
    config = write_config(tmp_path, risk={"min_width": "six"})
    with pytest.raises(ConfigError, match=r"risk\.min_width = 'six'"):
        open_build(Path(config))
    code = (
        "import sys; sys.argv = ['sdc', 'run', sys.argv[1]]\n"
        "from sdc.commands.cli import main\n"
        "try: main()\n"
        "finally: print('prefect' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, config], capture_output=True, text=True, timeout=900)
    assert (done.returncode, done.stdout) == (1, "False\n")
    assert done.stderr.splitlines()[-1].startswith("sdc: ")
    assert {path.name for path in tmp_path.iterdir()} == {"build.yaml"}


def test_nothing_is_sent_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in QUIET:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PREFECT_LOGGING_LEVEL", "DEBUG")
    use_embedded_server()
    assert {name: os.environ.get(name) for name in QUIET} == QUIET
    assert os.environ["PREFECT_LOGGING_LEVEL"] == "DEBUG"  # what the environment says stays


def test_the_embedded_server_answers_nobody_without_the_token(
    prefect_server: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from prefect.settings import PREFECT_API_URL, PREFECT_HOME

    assert_closed(PREFECT_API_URL.value(), PREFECT_HOME.value())
    monkeypatch.setenv("PREFECT_API_URL", PREFECT_API_URL.value())
    assert "requires a key" in next(one.message for one in examined(None) if one.name == "prefect")


STARTED = """
import sys
from flows.embedded import embedded_server
with embedded_server() as await_server:
    await_server()
    print("up", flush=True)
    sys.stdin.readline()
"""


SPOKEN_TO = """
from flows.embedded import embedded_server
with embedded_server() as await_server:
    await_server()
    from prefect.client.orchestration import get_client
    with get_client(sync_client=True) as client:
        print(client.read_flow_runs())
"""


def test_no_proxy_is_asked_about_this_machine(tmp_path: Path) -> None:
    """Nor gets the key of its server; where this one would be asked, nobody answers."""
    proxy = {"http_proxy": "http://127.0.0.1:9", "no_proxy": "tables.example"}
    own = {"PREFECT_HOME": str(made_home(tmp_path)), "PREFECT_PROFILES_PATH": str(tmp_path / "none")}
    environment = {name: value for name, value in os.environ.items() if name not in ("PREFECT_API_URL", "NO_PROXY")}
    command = [sys.executable, "-c", SPOKEN_TO]
    done = subprocess.run(command, capture_output=True, text=True, env=environment | own | proxy, timeout=900)
    assert done.stdout == "[]\n", done.stderr


@pytest.mark.parametrize("killed", [pytest.param(False, marks=pytest.mark.slow), True])
def test_no_server_outlives_its_build(killed: bool, tmp_path: Path) -> None:
    home = {
        "PREFECT_HOME": str(made_home(tmp_path)),
        "PREFECT_API_URL": "",
        "PREFECT_PROFILES_PATH": str(tmp_path / "none"),
    }
    command, pipe = [sys.executable, "-c", STARTED], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=os.environ | home) as build:
        assert line_of(build) == "up\n"
        servers = psutil.Process(build.pid).children(recursive=True)
        assert [Path(server.cmdline()[2]).name for server in servers] == ["prefect_process.py"]
        if killed:
            build.kill()
        build.communicate("\n", timeout=300)
    assert build.returncode == (-signal.SIGKILL if killed else 0)
    assert_gone(servers)


def assert_gone(processes: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(processes, timeout=300)
    assert [process for process in alive if process.status() != psutil.STATUS_ZOMBIE] == []


INTERRUPTED = """
import sys
from flows import embedded
from sdc.refusal import as_command
embedded._SERVER = ["-c", "import sys; sys.stdin.read()"]  # never answers, and ends with its input
with as_command(), embedded.embedded_server() as await_server:
    import prefect
    print("waits", flush=True)
    await_server()
"""


def test_an_interrupt_of_a_start_leaves_nothing_behind(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PREFECT_API_URL"}
    command, pipe = [sys.executable, "-c", INTERRUPTED], subprocess.PIPE
    own = {"PREFECT_HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment | own) as build:
        assert line_of(build) == "waits\n"
        servers = psutil.Process(build.pid).children(recursive=True)
        build.send_signal(signal.SIGINT)
        _, said = build.communicate(timeout=300)
    assert (build.returncode, said) == (130, "sdc: interrupted; nothing was published\n")
    assert len(servers) == 1
    assert_gone(servers)
    assert [path for path in tmp_path.iterdir() if path.name != "home"] == []


def test_a_server_that_is_named_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    from prefect.settings import PREFECT_API_URL, temporary_settings

    monkeypatch.delattr(subprocess, "Popen")
    url = "http://127.0.0.1:9/api"
    with temporary_settings({PREFECT_API_URL: url}), embedded_server() as await_server:
        assert PREFECT_API_URL.value() == url
        with pytest.raises(TemporaryError, match=f"no Prefect server answers at PREFECT_API_URL = {url}"):
            await_server()


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("raise SystemExit('no place')", r"ended at its start \(no place\)"),
        ("", "ended at its start"),
        ("import time; time.sleep(60)", "does not answer"),
    ],
)
def test_a_server_that_does_not_come_up(code: str, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends with the block, and without being waited for."""
    from prefect.settings import PREFECT_API_URL, temporary_settings

    monkeypatch.setattr(embedded, "_SERVER", ["-c", f"{code}  {MARK}"])
    monkeypatch.setattr(embedded, "PATIENCE", 5.0)
    url = r"http://127\.0\.0\.1:\d+/api"
    with (
        temporary_settings(restore_defaults={PREFECT_API_URL}),
        pytest.raises(SdcError, match=rf"Prefect's server at {url} {what}; run again, or start one with `prefect"),
        embedded_server() as await_server,
    ):
        await_server()
    assert children_with(MARK, psutil.Process()) == []


def test_a_server_that_comes_up_for_a_config_that_is_refused_ends_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from prefect.settings import PREFECT_API_URL, temporary_settings

    monkeypatch.setattr(embedded, "_SERVER", ["-c", f"import time; time.sleep(600)  {MARK}"])
    with (  # noqa: PT012  # what is refused, and what it ends
        temporary_settings(restore_defaults={PREFECT_API_URL}),
        pytest.raises(ConfigError),
        embedded_server(),
    ):
        assert len(children_with(MARK, psutil.Process())) == 1
        raise ConfigError("a fault of the config")
    assert children_with(MARK, psutil.Process()) == []
