"""The examples in configs/: each can be read, says how it is run, and is run as it says."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from flows.deployments import read_deployments
from sdc.config.file import read_config
from tests.helpers.console import Console
from tests.helpers.folders import contents
from tests.helpers.prefect_home import PrefectServer, made_home, server
from tests.helpers.waiting import wait_until

__all__ = ["server"]

ROOT = Path(__file__).parents[2]
CONFIGS = sorted((ROOT / "configs").glob("*.yaml"))
SECONDS = 900
WITHOUT_DATA = "cps_13"
"""Its file is not part of the project."""
NO_PRIVILEGE = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all"]
"""Before a command of root, who could write everywhere otherwise."""


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    """A checkout that cannot be written."""
    folder = tmp_path / "project"
    shutil.copytree(ROOT / "configs", folder / "configs")
    writable(folder, False)
    yield folder
    writable(folder, True)


def writable(folder: Path, may: bool) -> None:
    for path in (folder, *folder.rglob("*")):
        if path.is_dir():
            path.chmod(0o755 if may else 0o555)


def run(place: Path, *words: object) -> subprocess.Popen[str]:
    """`sdc` with these words, as a user without privileges."""
    home = place.parent / "prefect"
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "PREFECT_HOME": str(home if home.exists() else made_home(home)),
    }
    command = [*(NO_PRIVILEGE if os.geteuid() == 0 else []), sys.executable, "-m", "sdc.commands.cli", *map(str, words)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=place, env=environment, text=True, **pipes)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_each_can_be_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    if "deployments" in yaml.safe_load(path.read_text()):
        _, (nightly,) = read_deployments(path)
        assert (ROOT / nightly.parameters.config).is_file()
        return
    config = read_config(path)
    assert config.name == path.stem
    assert Path(config.table.path).exists() != (path.stem == WITHOUT_DATA)


def test_the_yearbook_has_what_is_required_and_nothing_else(console: Console, tmp_path: Path) -> None:
    config = ROOT / "configs" / "yearbook.yaml"
    built = console("run", config, "--workers", 1, "--json", place=tmp_path).document
    release = built["release"]
    whole = {"*".join(names) for names in release["frontier"]}
    suppressed = {"*".join(part["sub_table"]) for part in release["in_part"]}
    assert whole | suppressed == {*read_config(config).release.require}
    assert suppressed == {"district*age*work", "age*birth*work"}
    assert all(0 < part["withheld"] < part["cells"] / 5 for part in release["in_part"])
    verified = console("verify", built["run_folder"], "--json", place=tmp_path).document
    assert verified["verified"]
    assert verified["certified_cells"] == verified["at_risk_cells"] > 0


def test_the_sweep_lists_all_sub_tables(console: Console, tmp_path: Path) -> None:
    swept = console("sweep", ROOT / "configs" / "width_sweep.yaml", "--json", place=tmp_path).document
    assert swept["sub_tables"] == 3 * 2**8  # by region, by district or by neither, and eight other variables
    assert swept["narrowest"][0]["critical_width"] == 0


def test_a_checkout_that_cannot_be_written(project: Path) -> None:
    build = run(project, "run", "configs/czech_auto_workers.yaml")
    said = build.communicate(timeout=SECONDS)[1]
    assert build.returncode == 1, said
    assert re.match(r"sdc: run folder runs/\S+ cannot be written: .*set output\.folder", said.splitlines()[-1])
    assert "Traceback" not in said


@pytest.mark.slow
def test_the_yearbook_whatever_the_workers_and_twice_at_once(project: Path) -> None:
    """From a checkout that cannot be written, in a folder that can."""
    found = []
    for workers in (["--workers", 1], [], ["--workers", 3]):
        place = project.parent / f"by{len(found)}"
        place.mkdir()
        builds = [run(place, "run", project / "configs" / "yearbook.yaml", *workers) for _ in range(2)]
        said = [build.communicate(timeout=SECONDS)[1] for build in builds]
        assert {build.returncode for build in builds} == {0, 75}, said
        assert any("another run of the same build is using" in text.splitlines()[-1] for text in said)
        (release,) = place.glob("runs/yearbook/*/release")
        found.append(contents(release))
    assert found[0] == found[1] == found[2]


@pytest.mark.slow
def test_the_schedule_on_a_real_server(server: PrefectServer, tmp_path: Path) -> None:
    """It is registered as it is. Then it runs every minute: once by its schedule, in a worker."""
    from prefect.client.orchestration import SyncPrefectClient

    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    file, environment = tmp_path / "configs" / "schedule.yaml", os.environ | server.environment
    process = {"cwd": tmp_path, "env": environment, "text": True}

    def registered() -> str:
        return subprocess.check_output([sys.executable, "-m", "flows.deployments", "configs/schedule.yaml"], **process)

    assert registered() == "nightly-yearbook: 30 1 * * * Europe/Vienna: release_build configs/yearbook.yaml\n"
    file.write_text(file.read_text().replace("30 1 * * *", "* * * * *"))
    registered()
    worker = subprocess.Popen([sys.executable, "-m", "prefect", "worker", "start", "--pool", "sdc"], **process)
    try:
        with SyncPrefectClient(api=server.url) as client:
            wait_until(lambda: [run for run in client.read_flow_runs() if run.start_time])
            runs = wait_until(lambda: [run for run in client.read_flow_runs() if run.state.is_final()])
    finally:
        worker.terminate()
        worker.wait(timeout=300)
    assert {run.state.is_completed() for run in runs} == {True}
    assert all(run.auto_scheduled for run in runs)
    (release,) = tmp_path.glob("runs/yearbook/*/release")
    assert (release / "datapackage.json").exists()
