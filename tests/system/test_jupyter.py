"""A real kernel, and a real notebook in a real browser: how far a verb is, and the explorer under the cursor."""

import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import start_new_kernel
from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parents[2]
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
READ = f"import sdc\ntable = sdc.read_table({str(ROOT / 'configs' / 'czech_auto_workers.csv')!r})"
WIDE = """from tests.wide import wide_table
wide = wide_table(8, 700, 1)
from sdc import progress
progress.SECONDS_UNSHOWN, progress.SECONDS_BETWEEN_PULSES = 0.0, 0.05
"""
SEARCH = "found = sdc.find_release(wide, min_width=3, max_evaluations=8)"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Of kernels and servers: this house, and nothing of the user's own Jupyter."""
    own = tmp_path_factory.mktemp("jupyter")
    places = {f"JUPYTER_{what}_DIR": str(own / what.lower()) for what in ("CONFIG", "DATA", "RUNTIME")}
    return {**os.environ, **places, "IPYTHONDIR": str(own / "ipython"), "PYTHONPATH": str(ROOT)}


# In a kernel


@pytest.fixture(scope="module")
def kernel(environment: dict[str, str]) -> Iterator[BlockingKernelClient]:
    manager, client = start_new_kernel(kernel_name="python3", env=environment, cwd=str(ROOT))
    yield client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def outputs(kernel: BlockingKernelClient, code: str) -> list[tuple[str, dict[str, Any]]]:
    """What a cell sends, in its order."""
    found: list[tuple[str, dict[str, Any]]] = []
    reply = kernel.execute_interactive(
        code, timeout=900, output_hook=lambda message: found.append((message["msg_type"], message["content"]))
    )
    assert reply["content"]["status"] == "ok", reply["content"]
    return [(kind, content) for kind, content in found if kind not in ("status", "execute_input")]


def test_what_is_done_at_once_says_nothing(kernel: BlockingKernelClient) -> None:
    """At once is within `progress.SECONDS_UNSHOWN`, which is made long for slow machines."""
    patience = "from sdc import progress\nprogress.SECONDS_UNSHOWN = 600.0"
    assert outputs(kernel, f"{patience}\n{READ}\nwidths = sdc.widths(table)") == []


def test_a_long_verb_has_one_line_whose_work_that_is_left_goes_to_nothing(kernel: BlockingKernelClient) -> None:
    outputs(kernel, f"{READ}\n{WIDE}")
    (first, *others) = outputs(kernel, SEARCH)
    (_, asked) = outputs(kernel, "print(len(found.steps))")[0]
    assert first[0] == "display_data"
    assert {kind for kind, _ in others} == {"update_display_data"}
    assert len({content["transient"]["display_id"] for _, content in (first, *others)}) == 1
    lines = [content["data"]["text/plain"] for _, content in (first, *others)]
    assert all(line.startswith("sdc.find_release: ") for line in lines)
    left = [int(number) for line in lines for number in re.findall(r"at most (\d+) questions? left", line)]
    assert left == sorted(left, reverse=True)
    assert len({*left}) >= 3
    assert any(re.search(r"at most \d+ s if each takes as long as these$", line) for line in lines)
    *before, last = lines
    assert all(" s so far" in line for line in before)
    assert re.fullmatch(rf"sdc\.find_release: \d+ s, {asked['text'].strip()} questions, [\d,]+ units", last)


# In a notebook


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> Iterator[tuple[str, Path]]:
    """The address of a JupyterLab, without its path, and the folder of its notebooks."""
    folder, token = tmp_path_factory.mktemp("notebooks"), secrets.token_hex(16)
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ServerApp.port=0"]
    command += [f"--IdentityProvider.token={token}", f"--ServerApp.root_dir={folder}"]
    command += ["--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"]
    with (folder / "lab.log").open("w") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=folder)
    try:
        yield f"{_address(server, Path(environment['JUPYTER_RUNTIME_DIR']))}lab/tree/{{}}?token={token}", folder
    finally:
        server.terminate()
        server.wait(600)


def _address(server: subprocess.Popen[bytes], runtime: Path) -> str:
    for _ in range(12_000):
        for file in runtime.glob("jpserver-*.json"):
            return str(json.loads(file.read_text())["url"])
        assert server.poll() is None
        time.sleep(0.1)
    raise AssertionError("JupyterLab did not start")


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
@pytest.mark.skipif(find_spec("jupyterlab") is None, reason="no JupyterLab; install the extra lab")
def test_the_explorer_in_a_notebook(notebook: tuple[str, Path]) -> None:
    address, folder = notebook
    search = "found = sdc.find_release(table, min_width=6)"
    sources = [READ, f"{search}\nfound.explore(sdc.widths(table))", WIDE, SEARCH]
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    kernelspec = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernelspec), folder / "explore.ipynb")
    with (
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"]) as browser,
    ):
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        page.set_default_timeout(300_000)
        outside: list[str] = []
        page.on("request", lambda request: outside.append(request.url))
        page.goto(address.format("explore.ipynb"))
        page.get_by_text("Python 3 (ipykernel) | Idle").wait_for()
        page.get_by_role("menuitem", name="Run", exact=True).click()
        page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
        canvas = page.locator(".jp-OutputArea canvas#space[aria-busy=false]")
        canvas.wait_for()
        _explore(page)
        _has_one_line(page)
        assert not [
            url for url in outside if not re.match(r"(https?|wss?)://(localhost|127\.0\.0\.1)|data:|blob:", url)
        ]


def _explore(page: Page) -> None:
    """The pointer and the keys; these are the widget's, and move no cell of the notebook."""
    canvas, told = page.locator("canvas#space"), page.locator("#effect")
    assert page.locator(".swatch").nth(4).evaluate(PIXEL) == [0xE4, 0xE8, 0xEC]  # drawn once it had its place
    place = canvas.evaluate("canvas => canvas.view.places[0b111101]")
    canvas.hover(position={"x": place[0] + 5, "y": place[1] + 5})
    told.get_by_text("It is public, and with it").wait_for()
    assert told.locator("h2").inner_text() == "A*C*D*E*F"
    canvas.focus()
    active = page.locator(".jp-Cell.jp-mod-active").get_attribute("data-windowed-list-index")
    for key in ("PageUp", "ArrowLeft", "ArrowDown", "ArrowDown", "Home"):
        page.keyboard.press(key)
    assert told.locator("h2").inner_text() == "A*B*C*D"
    assert page.locator(".jp-Cell.jp-mod-active").get_attribute("data-windowed-list-index") == active
    page.keyboard.press("Enter")
    assert told.evaluate("panel => panel.getRootNode().activeElement === panel")
    assert page.locator(".query-space").evaluate("place => place.getRootNode() instanceof ShadowRoot")
    page.get_by_text("Proven: whoever knows A*B*C*D*F, E knows a cell at risk").wait_for()


PIXEL = "swatch => [...swatch.getContext('2d').getImageData(11, 11, 1, 1).data].slice(0, 3)"


def _has_one_line(page: Page) -> None:
    """Below the cell of a long verb there is in the end one line, of all that was done."""
    line = page.locator(".jp-OutputArea-output").filter(has_text="sdc.find_release: ").last
    line.filter(has_text=re.compile(r"\d+ s, \d+ questions, [\d,]+ units")).wait_for()
    assert re.fullmatch(r"sdc\.find_release: \d+ s, \d+ questions, [\d,]+ units", line.inner_text().strip())
