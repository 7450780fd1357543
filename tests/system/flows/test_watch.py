"""Watching a run: Prefect's page and Dask's dashboard in a real browser, for whoever has the key, and nobody else."""

import shutil
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import ConsoleMessage, Page, WebSocket, sync_playwright

from sdc.commands import cli
from sdc.config.build import ExecutionConfig
from sdc.execution.cluster import open_executor
from sdc.execution.watch import WatchAddress, require_own_scheduler, watched
from sdc.executor import Executor
from sdc.model.errors import ConfigError
from tests.helpers.listening import status_of
from tests.system.flows.test_release_build import write_config

CHROMIUM = shutil.which("chromium")
UNIT = "unit_of_the_test"

pytestmark = pytest.mark.slow


def unit_of_the_test(table: None, unit: int) -> int:
    return unit


@pytest.fixture(scope="module")
def run(prefect_server: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[WatchAddress, Executor]]:
    """One that can be seen: a sweep that Prefect knows, and a worker."""
    from flows.watch import prefect_page
    from flows.width_sweep import width_sweep

    with watched() as watch:
        assert prefect_page(watch) == f"{watch.address}/prefect/runs"
        assert status_of(f"{watch.address}/status") == 404
        width_sweep(write_config(tmp_path_factory.mktemp("watched"), execution={"cluster": "in-process"}))
        with open_executor(ExecutionConfig(cluster="local", workers=1)) as executor:
            yield watch, executor
        assert status_of(f"{watch.address}/status") == 404
    assert status_of(f"{watch.address}/status") == 0


@pytest.fixture
def watch(run: tuple[WatchAddress, Executor]) -> WatchAddress:
    return run[0]


PAGES = (
    "/status",
    "/workers",
    "/sitemap.json",
    "/statics/css/base.css",
    "/prefect/runs",
    "/prefect/ui-settings",
    "/api/health",
    "/api/admin/version",
)


def test_whoever_has_no_key_is_told_nothing(watch: WatchAddress) -> None:
    """Whatever is asked for, at the path of the key but for its last letter, and at the root."""
    site, key = watch.address.removesuffix(watch.root), watch.root
    assert len(key) > 32
    for page in ("", "/", *PAGES):
        for path in (page, f"{key[:-1]}{page}", f"{key}x{page}", f"/x{key}{page}", f"/{key}{page}"):
            assert status_of(f"{site}{path}") == 403, path
    for page in set(PAGES) - {"/sitemap.json"}:
        assert status_of(f"{watch.address}{page}") == 200, page


def test_a_file_that_is_not_of_the_page_is_not_shown(watch: WatchAddress) -> None:
    host, port = watch.address.split("/")[2].split(":")
    with closing(socket.create_connection((host, int(port)), timeout=10)) as connection:
        asked = f"{watch.root}/prefect/../../../../../../../../etc/hostname"
        connection.sendall(f"GET {asked} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        told = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    assert b"<title>Prefect Server</title>" in told
    assert socket.gethostname().encode() not in told


@pytest.fixture
def page(watch: WatchAddress) -> Iterator[Page]:
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser.new_page(viewport={"width": 1280, "height": 900})
        browser.close()


NAMED = """name => [...Bokeh.documents[0]._all_models.values()].some(
    model => model.type == "ColumnDataSource" && [...(model.data.name || [])].includes(name))"""


def test_the_pages_in_a_browser(page: Page, run: tuple[WatchAddress, Executor]) -> None:
    """Prefect's tells what was done, and Dask's what is; all that they ask for is below the key, by sockets too."""
    watch, executor = run
    asked, told, complaints = list[str](), list[str](), list[str]()

    def hear(message: ConsoleMessage) -> None:
        if message.type == "error" and not message.location["url"].endswith("/favicon.ico"):
            complaints.append(message.text)

    def listen(opened: WebSocket) -> None:
        asked.append(opened.url.replace("ws:", "http:"))
        opened.on("framereceived", lambda frame: told.append(str(frame)))

    page.on("request", lambda request: asked.append(request.url))
    page.on("websocket", listen)
    page.on("console", hear)
    page.goto(f"{watch.address}/prefect/runs")
    page.get_by_text("width-sweep").first.wait_for()
    page.goto(f"{watch.address}/status")
    page.wait_for_function("() => window.Bokeh && Bokeh.documents.length")
    assert list(executor.run(unit_of_the_test, None, [1, 2, 3])) == [1, 2, 3]
    page.wait_for_function(NAMED, arg=UNIT)
    assert [url for url in asked if not url.startswith((watch.address, "data:", "blob:"))] == []
    assert f"{watch.address}/status/ws" in asked
    assert told
    assert complaints == []


def test_a_port_that_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is written."""
    config = write_config(tmp_path)
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = str(taken.getsockname()[1])
        monkeypatch.setattr("sys.argv", ["sdc", "run", config, "--watch-port", port])
        with pytest.raises(SystemExit) as ended:
            cli.main()
    assert ended.value.code == 1
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("sdc: ")]
    assert line.startswith(f"sdc: --watch-port {port}: Address already in use")
    assert [path.name for path in tmp_path.iterdir()] == ["build.yaml"]


def test_what_is_said_of_a_server_and_workers_that_are_not_of_the_run(
    prefect_server: None, capsys: pytest.CaptureFixture[str]
) -> None:
    from prefect.settings import PREFECT_API_URL

    from flows.embedded import embedded_server
    from flows.watch import watched_server

    alone = ExecutionConfig(cluster="in-process")
    with embedded_server() as server, watched_server(server, alone, 0) as await_server:
        await_server()
    said = capsys.readouterr().err.splitlines()
    url = str(PREFECT_API_URL.value()).removesuffix("/api")
    assert said == [
        "see the run until it ends (keep the addresses secret):",
        f"  Prefect  its own server's page, {url}",
        "  Dask     no workers: this process computes all",
    ]


def test_whose_workers_can_be_seen(tmp_path: Path) -> None:
    (tmp_path / "at.yaml").write_text("{kind: address, address: 'tcp://127.0.0.1:8786', scratch: .}")
    (tmp_path / "pods.yaml").write_text(
        "{kind: kubernetes, workers: 1, image: i, memory_per_worker: 1GiB, scratch: ., volume_claim: c}"
    )
    assert require_own_scheduler(ExecutionConfig(cluster="local"))
    assert not require_own_scheduler(ExecutionConfig(cluster="in-process"))
    for name, where in ("at", "runs at tcp://127.0.0.1:8786"), ("pods", "is a pod"):
        with pytest.raises(ConfigError, match=rf"--watch: the scheduler of .*/{name}\.yaml {where}, and only a"):
            require_own_scheduler(ExecutionConfig(cluster=str(tmp_path / f"{name}.yaml")))
