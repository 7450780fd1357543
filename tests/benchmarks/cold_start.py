"""How soon a build's first stage and a server's first decision come, with and without what earlier ones left behind.

    python tests/benchmarks/cold_start.py [rounds] [another tree ...]

Medians, of three rounds where nothing else is said, of wall seconds and of processor seconds of all processes of the
build, of this tree and of others in turn. Kernels are cold where the folder that they are kept in is empty, a home is
fresh where Prefect has none yet. Of the server: how long until it listens, and from then to the decision of the first
request; with Czech auto workers (threads) and the NLTCS (processes, first without an answer at once). Some three
minutes a tree and round. Wall seconds are for a quiet machine: its load is printed.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import yaml
from side_by_side import DATA, ROOT, machine, say, show

CZECH = ROOT / "configs" / "czech_auto_workers.yaml"
FIRST_STAGE = "table: counts the records"
LIMIT = 600.0
SDC = ["-m", "sdc.commands.cli"]
HOMES, KERNELS = ("fresh home", "warm home", "running server"), ("cold", "warm")


class Tree:
    """One checkout, and what it has left behind: kernels, a home of Prefect, prepared servers."""

    def __init__(self, path: Path, folder: Path) -> None:
        self.path, self._folder = path, folder
        folder.mkdir()
        self.kernels, self.home = folder / "kernels", folder / "home"

    def environment(self, kernels: str, home: str, url: str) -> dict[str, str]:
        """Of a process: what it finds of an earlier one, in new folders where it is to find nothing."""
        named = self.kernels if kernels == "warm" else self.empty("cold-kernels")
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith("PREFECT")},
            "PYTHONPATH": str(self.path),
            "NUMBA_CACHE_DIR": str(named),
            "PREFECT_HOME": str(self.empty("fresh-home") if home == "fresh home" else self.home),
            "PREFECT_PROFILES_PATH": str(self._folder / "no-profiles.toml"),
            "PREFECT_API_URL": url,
            "XDG_STATE_HOME": str(self._folder / "state"),
        }

    def empty(self, name: str) -> Path:
        shutil.rmtree(self._folder / name, ignore_errors=True)
        (self._folder / name).mkdir()
        return self._folder / name

    def build(self, kernels: str, home: str, url: str) -> tuple[float, float, float, float]:
        """Wall and processor seconds to the first stage, and to the end, of a build in a folder of its own."""
        work, environment = self.empty("work"), self.environment(kernels, home, url)
        before, begun = _children_seconds(), time.perf_counter()
        command = [sys.executable, *SDC, "run", str(CZECH)]
        with subprocess.Popen(
            command, cwd=work, env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
        ) as process:
            assert process.stderr is not None
            said, first = list[str](), (0.0, 0.0)
            for line in process.stderr:
                said.append(line)
                if line.startswith(FIRST_STAGE):
                    first = time.perf_counter() - begun, _seconds_of(process.pid)
        if process.returncode:
            sys.exit(f"{self.path}: exit status {process.returncode}\n{''.join(said)}")
        return *first, time.perf_counter() - begun, _children_seconds() - before

    def decide(self, kernels: str, asked: list[str], settings: dict[str, Any]) -> tuple[float, float, float, str]:
        """Wall seconds until a prepared server listens and from there to the first decision, processor seconds."""
        config = self._folder / f"{settings['name']}.yaml"
        config.write_text(yaml.safe_dump(settings))
        environment = self.environment(kernels, "warm home", "")
        serve = [sys.executable, *SDC, "serve", str(config), "--port", "0", "--json"]
        prepared = {**environment, "NUMBA_CACHE_DIR": str(self.kernels)}
        _quietly([*serve, "--prepare"], self._folder, prepared)
        serve += ["--history", str(self.empty("history") / "history.db")]  # a new one: nothing was decided before
        begun = time.perf_counter()
        with subprocess.Popen(
            serve, cwd=self._folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            assert process.stdout is not None
            url = json.loads(process.stdout.readline())["url"]
            listens = time.perf_counter() - begun
            told = _decision(url, asked)
            decided, spent = time.perf_counter() - begun - listens, _seconds_of(process.pid)
            process.terminate()
        return listens, decided, spent, told


def _decision(url: str, names: list[str]) -> str:
    """Of the first request; where it is told as pending, so in the end."""
    answer = _json(f"{url}/api/requests", {"variables": names})
    at_once = answer["decision"]
    deadline = time.monotonic() + LIMIT
    while answer["decision"] == "pending" and time.monotonic() < deadline:
        time.sleep(0.05)
        answer = _json(url + answer["job"])
    return at_once if at_once == answer["decision"] else f"{at_once}, then {answer['decision']}"


def _json(url: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=LIMIT) as answer:
        return json.loads(answer.read())


def _seconds_of(pid: int) -> float:
    """Processor seconds of a process and of all that it has started, so far."""
    process = psutil.Process(pid)
    return sum(sum(one.cpu_times()[:4]) for one in (process, *process.children(recursive=True)))


def _children_seconds() -> float:
    return sum(os.times()[2:4])


def _quietly(command: list[str], folder: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=LIMIT)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit status {done.returncode}\n{done.stderr[-2000:]}")


@contextmanager
def prefect_server(folder: Path) -> Iterator[str]:
    """The URL of one on the loopback, until the block ends."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    environment = {**os.environ, "PREFECT_HOME": str(folder), "PREFECT_SERVER_LOGGING_LEVEL": "CRITICAL"}
    environment |= {"PREFECT_SERVER_ANALYTICS_ENABLED": "false", "DO_NOT_TRACK": "1"}
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--no-ui", "--port", port]
    null, url = subprocess.DEVNULL, f"http://127.0.0.1:{port}/api"
    with subprocess.Popen(command, env=environment, stdout=null, stderr=null) as server:
        try:
            deadline = time.monotonic() + LIMIT
            while not _answers(url):
                if server.poll() is not None or time.monotonic() > deadline:
                    sys.exit(f"Prefect's server at {url} does not come up")
                time.sleep(0.1)
            yield url
        finally:
            server.terminate()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=10) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def servers() -> Iterator[tuple[str, list[str], dict[str, Any]]]:
    """Names and configs of the servers that are asked, with what they are asked for."""
    czech: dict[str, Any] = yaml.safe_load(CZECH.read_text())
    czech["table"]["path"] = str(CZECH.parent / czech["table"]["path"])
    yield "Czech", ["A", "B"], {**czech, "name": "czech", "server": {}}
    if (path := DATA / "nltcs_cells.parquet").is_file():
        nltcs: dict[str, Any] = {"name": "nltcs", "table": {"path": str(path)}, "risk": {"min_width": 10}, "server": {}}
        yield "NLTCS", ["y01", "y02"], nltcs


def main() -> None:
    rounds = int(sys.argv[1]) if sys.argv[1:] else 3
    with tempfile.TemporaryDirectory(prefix="sdc-cold-") as name:
        trees = [Tree(Path(path).resolve(), Path(name) / f"tree{k}") for k, path in enumerate([ROOT, *sys.argv[2:]])]
        for tree in trees:
            tree.build("warm", "warm home", "")  # leaves kernels and a home behind
        with prefect_server(Path(name) / "server") as url:
            show_builds(trees, rounds, url)
        show_servers(trees, rounds)


def show_builds(trees: list[Tree], rounds: int, url: str) -> None:
    cases = [(home, kernels) for home in HOMES for kernels in KERNELS]
    found: dict[tuple[int, int], list[tuple[float, ...]]] = {}
    for number in range(rounds):
        for at, (home, kernels) in enumerate(cases):
            for k, tree in enumerate(trees):  # in turn, so that a busy machine slows them alike
                named = url if home == "running server" else ""
                found.setdefault((at, k), []).append(tree.build(kernels, home, named))
                figures = ", ".join(f"{value:.1f}" for value in found[at, k][-1])
                say(f"round {number + 1} of {rounds}: {tree.path}, {home}, {kernels} kernels: {figures} ({machine()})")
    rows = [
        [f"{home}, {kernels} kernels", *(value for k in range(len(trees)) for value in _medians(found[at, k]))]
        for at, (home, kernels) in enumerate(cases)
    ]
    columns = ("first stage", "processor", "to the end", "processor")
    show(f"sdc run; {_in_turn(trees)}", ["", *columns * len(trees)], rows)


def show_servers(trees: list[Tree], rounds: int) -> None:
    rows = []
    for title, asked, settings in servers():
        for kernels in KERNELS:
            row: list[object] = [f"{title}, {kernels} kernels"]
            found = [[tree.decide(kernels, asked, settings) for tree in trees] for _ in range(rounds)]
            say(f"{title}, {kernels} kernels: {found} ({machine()})")
            for k in range(len(trees)):
                row += [*_medians([one[k][:3] for one in found]), "; ".join(sorted({one[k][3] for one in found}))]
            rows.append(row)
    columns = ("listens", "first decision", "processor", "decided")
    show(f"sdc serve; {_in_turn(trees)}", ["", *columns * len(trees)], rows)


def _in_turn(trees: list[Tree]) -> str:
    return "; then ".join(str(tree.path) for tree in trees)


def _medians(rows: list[tuple[float, ...]]) -> list[float]:
    return [float(statistics.median(column)) for column in zip(*rows, strict=True)]


if __name__ == "__main__":
    main()
