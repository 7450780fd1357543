"""Prefect for a build on one machine: a server of its own, nothing sent outside, quiet logs."""

from __future__ import annotations

import _thread
import os
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from sdc.model.errors import SdcError

PATIENCE = 120.0
_SETTINGS = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": f"{PATIENCE:.0f}",
    "PREFECT_SERVER_LOGGING_LEVEL": "CRITICAL",  # else 150 lines of cancelled tasks when it is ended
    "PREFECT_LOGGING_INTERNAL_LEVEL": "CRITICAL",  # what a client says of a server that has gone
    "PREFECT_LOGGING_LEVEL": "CRITICAL",  # a refusal is one message, said by the command; faults are raised
    "PREFECT_CLI_PROMPT": "false",
    "PREFECT_CLOUD_ENABLE_ORCHESTRATION_TELEMETRY": "false",
}
_SERVER = ["prefect", "server", "start", "--host", "127.0.0.1", "--no-ui", "--no-scheduler", "--no-late-runs", "--port"]
_SERVE = """
import subprocess, sys, threading
server = subprocess.Popen(sys.argv[1:])
def end():
    sys.stdin.read()  # until the build has ended, however that was
    server.terminate()
    try:
        server.wait(5)
    except subprocess.TimeoutExpired:
        server.kill()
threading.Thread(target=end, daemon=True).start()
server.wait()
"""


def use_embedded_server() -> None:
    """Sets what the environment leaves open; call it before Prefect is imported."""
    for name, value in _SETTINGS.items():
        # what the environment says comes first: Prefect may be somebody's own server
        os.environ.setdefault(name, value)


@contextmanager
def embedded_server() -> Iterator[Callable[[], None]]:
    """Starts a server where Prefect's settings name none, and gives what waits until it answers, or refuses.

    Prefect would start one only when a flow does, import the server to do so, and leave it behind where this process
    is killed. This one, a child of a process that ends with this one, comes up while flows are imported.
    """
    from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, PREFECT_HOME, temporary_settings

    if PREFECT_API_URL.value():
        from flows.absence import refusals_of_the_server, require_server

        with refusals_of_the_server():
            yield require_server
        return
    port, null = _free_port(), subprocess.DEVNULL
    url = f"http://127.0.0.1:{port}/api"
    # every user of this machine can reach the port; the environment of a process is for its own user
    token = f"sdc:{secrets.token_urlsafe(32)}"
    environment = {**os.environ, "PREFECT_SERVER_API_AUTH_STRING": token}
    _close_to_others(PREFECT_HOME.value())
    command = [sys.executable, "-c", _SERVE, sys.executable, "-m", *_SERVER, str(port)]
    apart: dict[str, Any] = {"stdout": null, "stderr": null, "start_new_session": True, "umask": 0o077}
    with (
        # in a session of its own: an interrupt at the terminal goes to the whole group, and the build still has to
        # report to it. Its end is the end of the pipe, which the system closes however this process dies
        subprocess.Popen(command, stdin=subprocess.PIPE, env=environment, **apart) as server,
        temporary_settings({PREFECT_API_URL: url, PREFECT_API_AUTH_STRING: token}) as settings,
        _interrupted_where_it_ends(server, url, settings) as await_server,
    ):
        yield await_server


@contextmanager
def _interrupted_where_it_ends(
    server: subprocess.Popen[bytes], url: str, settings: Any
) -> Iterator[Callable[[], None]]:
    """The block is left at once where the server ends, with an SdcError; gives what waits until it answers.

    Prefect would go on, and try everything that it has to say again and again for minutes.
    """
    is_up, is_done, is_gone = threading.Event(), threading.Event(), threading.Event()

    def await_server() -> None:
        _await(server, url)
        is_up.set()

    def watch() -> None:
        server.wait()
        if is_up.is_set() and not is_done.is_set():
            is_gone.set()
            settings.client.max_retries = 0
            _thread.interrupt_main()

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield await_server
    except BaseException as error:
        if is_gone.is_set():
            raise _gone(url, "ended during the build") from error
        raise
    finally:
        is_done.set()


def _close_to_others(home: Path) -> None:
    """What Prefect keeps of runs is for this user alone: states, artifacts and logs tell of confidential tables."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    for database in home.glob("prefect.db*"):
        with suppress(OSError):  # another user's home, which that user must close
            database.chmod(0o600)


def _await(server: subprocess.Popen[bytes], url: str) -> None:
    """SdcError where the server ends, or does not answer for long."""
    deadline = time.monotonic() + PATIENCE
    while not _answers(url):
        if server.poll() is not None or time.monotonic() > deadline:
            what = "does not answer" if server.poll() is None else "ended at its start"
            raise _gone(url, what)
        time.sleep(0.05)


def _gone(url: str, what: str) -> SdcError:
    return SdcError(
        f"Prefect's server at {url} {what}; run again, or start one with `prefect server start` and name it in "
        "PREFECT_API_URL"
    )


def _answers(url: str) -> bool:
    try:
        with urlopen(f"{url}/health", timeout=10) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _free_port() -> int:
    with socket.socket() as free:
        # another process may take it before the server does: then that ends at its start, which `_await` says
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
