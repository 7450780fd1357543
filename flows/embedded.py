"""Prefect for a build on one machine: its own server, no telemetry, quiet logs."""

from __future__ import annotations

import _thread
import json
import os
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any
from urllib.request import urlopen

from sdc.execution import LOOPBACK
from sdc.model.errors import SdcError, TemporaryError
from sdc.refusal import as_command

if TYPE_CHECKING:
    from prefect import Flow

PATIENCE = 300.0  # a busy machine takes a minute and more to import Prefect
_SETTINGS = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": f"{PATIENCE:.0f}",
    "PREFECT_SERVER_LOGGING_LEVEL": "CRITICAL",  # otherwise 150 lines of cancelled tasks at its end
    "PREFECT_LOGGING_INTERNAL_LEVEL": "CRITICAL",  # messages of clients about a lost server
    "PREFECT_LOGGING_LEVEL": "CRITICAL",  # the command prints refusals; errors are raised
    "PREFECT_LOGGING_ROOT_LEVEL": "ERROR",  # loggers of its services: events left when its server is gone
    "PREFECT_CLI_PROMPT": "false",
    "PREFECT_CLOUD_ENABLE_ORCHESTRATION_TELEMETRY": "false",
}
_OF_THE_SERVER = {
    # blocks are for permanent servers
    "PREFECT_SERVER_REGISTER_BLOCKS_ON_START": "false",
    "PREFECT_SERVER_MEMOIZE_BLOCK_AUTO_REGISTRATION": "false",
    "PREFECT_SERVER_UI_ENABLED": "false",
}
_SERVER = [str(Path(__file__).with_name("prefect_process.py"))]


def use_embedded_server() -> None:
    """Set what the environment leaves open; call it before Prefect is imported."""
    for name, value in _SETTINGS.items():
        # the environment comes first: it may name another server
        os.environ.setdefault(name, value)
    # no proxy for the loopback, so that it does not see keys
    spared = os.environ.get("no_proxy") or os.environ.get("NO_PROXY", "")
    if spared.strip() != "*":  # which means all
        more = (host for host in LOOPBACK if host not in spared.split(","))
        os.environ["no_proxy"] = os.environ["NO_PROXY"] = ",".join(filter(None, (spared, *more)))


@dataclass
class _Server:
    """The process of a started server, with its address and key."""

    process: subprocess.Popen[bytes]
    url: str
    token: str
    errors: IO[bytes]
    is_up: bool = False

    def await_answer(self) -> None:
        """Wait for an answer; SdcError if the server ends, TemporaryError after a long wait."""
        deadline = time.monotonic() + PATIENCE
        while not _answers(self.url):
            if self.process.poll() is not None:
                raise SdcError(_gone(self.url, f"ended at its start{self._last_words()}"))
            if time.monotonic() > deadline:
                raise TemporaryError(_gone(self.url, "does not answer"))
            time.sleep(0.05)
        self.is_up = True

    def _last_words(self) -> str:
        self.errors.seek(0)
        lines = self.errors.read().decode(errors="replace").split("\n")
        lines_with_text = [line for line in lines if line.strip()]
        return f" ({lines_with_text[-1].strip()})" if lines_with_text else ""


@contextmanager
def embedded_server() -> Iterator[Callable[[], None]]:
    """Start a server if Prefect's settings name none; yield a function that waits until it answers.

    Prefect would start one only within a flow, and leave it running if this process is killed. This one is a child that
    ends with this process, and starts while the config is checked and flows are imported. Prefect is imported only when
    it is waited for; from then on it is Prefect's server.
    """
    with ExitStack() as stack:
        started = None if _is_named() else stack.enter_context(_started())
        yield lambda: _use(started, stack)


def _is_named() -> bool:
    """Return whether settings name a server, without importing Prefect, which takes a second."""
    if "prefect" in sys.modules:
        from prefect.settings import PREFECT_API_URL

        return bool(PREFECT_API_URL.value())
    return bool(os.environ.get("PREFECT_API_URL"))


@contextmanager
def _started() -> Iterator[_Server]:
    # all users can reach the port, but not the environment of this user's process
    port, token, null = _free_port(), f"sdc:{secrets.token_urlsafe(32)}", subprocess.DEVNULL
    environment = {**os.environ, **_OF_THE_SERVER, "PREFECT_SERVER_API_AUTH_STRING": token}
    command = [sys.executable, "-P", *_SERVER, str(port)]
    with (
        TemporaryFile() as errors,
        # in its own session: an interrupt at the terminal goes to the whole group, and the build still reports
        # to it. The closed pipe ends it, however this process dies
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=null,
            stderr=errors,
            env=environment,
            start_new_session=True,
            umask=0o077,
        ) as process,
    ):
        server = _Server(process, f"http://127.0.0.1:{port}/api", token, errors)
        try:
            yield server
        finally:
            if not server.is_up:
                process.kill()  # nothing is stored yet


def _use(started: _Server | None, stack: ExitStack) -> None:
    """Make Prefect use the started or configured server until the stack ends."""
    from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings

    if started is None or PREFECT_API_URL.value():
        from flows.absence import refusals_of_the_server, require_server

        stack.enter_context(refusals_of_the_server())
        require_server()
        return
    own = {PREFECT_API_URL: started.url, PREFECT_API_AUTH_STRING: started.token}
    settings = stack.enter_context(temporary_settings(own))
    started.await_answer()
    stack.enter_context(_interrupted_where_it_ends(started, settings))


@contextmanager
def _interrupted_where_it_ends(server: _Server, settings: Any) -> Iterator[None]:
    """Leave the block at once with a TemporaryError if the server ends.

    Prefect would retry everything for minutes.
    """
    is_done, is_gone = threading.Event(), threading.Event()

    def watch() -> None:
        server.process.wait()
        if not is_done.is_set():
            is_gone.set()
            settings.client.max_retries = 0
            _thread.interrupt_main()

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    except BaseException as error:
        if is_gone.is_set():
            raise TemporaryError(_gone(server.url, "ended during the build")) from error
        raise
    finally:
        is_done.set()


def _gone(url: str, what: str) -> str:
    return (
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
        # another process may take the port first; the server then ends at its start, which `_await` reports
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def run_as_command(flow: Flow[..., Any], status: Callable[[Any], int] = lambda result: 0) -> None:
    """Run a flow once with this process's arguments, as by `python -m flows.width_sweep CONFIG`.

    It ends like a command of `sdc`.
    """
    import typer

    @wraps(flow.fn)
    def command(**given: Any) -> None:
        with embedded_server() as await_server:
            await_server()
            result = flow(**given)
        print(json.dumps(result))
        raise typer.Exit(status(result))

    with as_command():
        typer.run(command)
