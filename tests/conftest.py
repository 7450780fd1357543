"""What all tests share: public data, a published table, two workers; and how a run of the tests is arranged."""

import os
import re
import secrets
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from xdist.remote import Producer

from sdc.config.build import ExecutionConfig
from sdc.data.reader import READER
from sdc.data.reading import read_table
from sdc.executor import Executor
from sdc.model.table import Table
from sdc.storage import run_folder
from tests.helpers.console import Console
from tests.helpers.kept import cache_folder
from tests.helpers.processes import Together, processes
from tests.helpers.reading import BY_CHILDREN, each_here
from tests.profiles import register_profiles, scale_examples

ROOT = Path(__file__).parents[1]
CZECH_CSV = ROOT / "configs" / "czech_auto_workers.csv"
CZECH_YAML = ROOT / "configs" / "czech_auto_workers.yaml"

SELDOM = {
    "distributed.admin.system-monitor.interval": "10s",
    "distributed.admin.tick.interval": "2s",
    "distributed.worker.memory.monitor-interval": "1s",
    "distributed.worker.profile.enabled": False,
}
"""Dask's settings of a cluster that waits: with its own ones waiting takes a tenth of a processor."""

for number in (signal.SIGINT, signal.SIGHUP):
    # under `nohup` or in the background of a script they are ignored, and commands that tests start would inherit that;
    # a handler is not inherited
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, lambda *_: None)
# processes of tests may be killed, their machine is not: its disk need not follow. Programs that tests start do sync
run_folder.sync = lambda *paths: None
# before any of them is imported; commands in homes of their own find them too
os.environ.setdefault("NUMBA_CACHE_DIR", str(cache_folder("kernels", [])))
register_profiles()

pytest_xdist_auto_num_workers = processes


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Together:
    return Together(config, log)


MAY_SKIP = re.compile(r"public data file|sdc-tables\[attack\]|only root|LattE|\.\[bench\]|the extra lab")
"""Reasons to skip a test where `--no-skips` is given: what no program or package of the extra `system` changes."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="also run the tests marked `slow`, as the nightly run does")
    parser.addoption("--no-skips", action="store_true", help="fail if a test skips for a program that can be installed")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Cases of Hypothesis are new in each run, and the same in all its processes."""
    if not hasattr(config.option, "night"):  # processes of pytest-xdist receive both
        config.option.night = config.option.hypothesis_seed
        config.option.hypothesis_seed = config.option.night or str(secrets.randbelow(1 << 31))


def pytest_report_header(config: pytest.Config) -> str:
    return f"random cases: --hypothesis-seed={config.option.hypothesis_seed} draws the same again"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    terminalreporter.write_line(pytest_report_header(config))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """With `--no-skips` a run with other skips than `MAY_SKIP` has failed."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or not session.config.option.no_skips:
        return
    reasons = {report.longrepr[2] for report in reporter.stats.get("skipped", [])}
    if wrong := sorted(reason for reason in reasons if not MAY_SKIP.search(reason)):
        reporter.write_line("\nskipped, though --no-skips was given:\n" + "\n".join(wrong), red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_collection_modifyitems(items: list[pytest.Item], config: pytest.Config) -> None:
    deselect_slow(items, config)
    scale_examples([getattr(item, "obj", None) for item in items])


def deselect_slow(items: list[pytest.Item], config: pytest.Config) -> None:
    """Leave out slow tests, unless `--slow` is given or only files are named, which are tested with all of theirs."""
    if config.getoption("slow") or not any(Path(argument).is_dir() for argument in config.args):
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    config.hook.pytest_deselected(items=slow)
    items[:] = [item for item in items if item not in slow]


@pytest.fixture(scope="session", autouse=True)
def state_folder(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What commands file of refusals goes with the tests."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture(scope="module", autouse=True)
def reads_here(request: pytest.FixtureRequest) -> Iterator[None]:
    """No child of this process reads but where `BY_CHILDREN` says so."""
    with pytest.MonkeyPatch.context() as patch:
        if not request.path.relative_to(ROOT).as_posix().startswith(BY_CHILDREN):
            patch.setattr(READER, "each", each_here)
        yield


@pytest.fixture(scope="session")
def night(pytestconfig: pytest.Config) -> list[int]:
    """What seeds of other random cases end with: nothing, so that they stay the same, or a seed that was given."""
    return [] if pytestconfig.option.night is None else [int(pytestconfig.option.night)]


@pytest.fixture(scope="session")
def public_data() -> Callable[[str], Path]:
    """Path of a public data file; the test is skipped with the reason where it is absent."""
    folder = Path(os.environ.get("SDC_DATA_DIR", ROOT / "../shared/data"))

    def path(name: str) -> Path:
        if not (folder / name).exists():
            pytest.skip(f"public data file {name} is not in {folder}; set SDC_DATA_DIR")
        return folder / name

    return path


@pytest.fixture(scope="session")
def czech() -> Table:
    """Czech auto workers, 2^6 cells, N = 1841 ([KDSF] section 5.2)."""
    categories = {"D": ("<140", ">=140"), "E": ("<3", ">=3"), "F": ("neg", "pos")}
    return read_table(CZECH_CSV, categories={**dict.fromkeys("ABC", ("no", "yes")), **categories})


@pytest.fixture(scope="session")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """Commands in one process that lasts, for tests that leave it as it was."""
    console = Console(tmp_path_factory.mktemp("console") / "own")
    yield console
    console.close()


@pytest.fixture(scope="session")
def two_workers() -> Iterator[Executor]:
    """A cluster for tests that leave it as it was; it waits for most of the time, and looks at itself seldom then."""
    import dask
    import distributed  # noqa: F401  # which brings the settings that are changed

    from sdc.execution.cluster import open_executor

    with ExitStack() as stack:
        with dask.config.set(SELDOM):  # what is opened meanwhile by others is as it would be
            executor = stack.enter_context(open_executor(ExecutionConfig(workers=2, memory_per_worker="2GiB")))
        yield executor


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """An S3 server on this machine."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()
