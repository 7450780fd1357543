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
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any
from urllib.request import urlopen

from sdc.execution import LOOPBACK
from sdc.model.errors import SdcError, TemporaryError

PATIENCE = 300.0  # a busy machine takes a minute and more to import Prefect
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
_OF_THE_SERVER = {
    # blocks are for a server that lasts, which registers them at its own start
    "PREFECT_SERVER_REGISTER_BLOCKS_ON_START": "false",
    "PREFECT_SERVER_MEMOIZE_BLOCK_AUTO_REGISTRATION": "false",
    "PREFECT_SERVER_UI_ENABLED": "false",
}
_SERVER = [str(Path(__file__).with_name("prefect_process.py"))]


def use_embedded_server() -> None:
    """Sets what the environment leaves open; call it before Prefect is imported."""
    for name, value in _SETTINGS.items():
        # what the environment says comes first: Prefect may be somebody's own server
        os.environ.setdefault(name, value)
    # no proxy is asked about this machine, nor gets the keys of servers on it
    spared = os.environ.get("no_proxy") or os.environ.get("NO_PROXY", "")
    if spared.strip() != "*":  # which means all, and only alone
        more = (host for host in LOOPBACK if host not in spared.split(","))
        os.environ["no_proxy"] = os.environ["NO_PROXY"] = ",".join(filter(None, (spared, *more)))


@dataclass
class _Server:
    """The process of a server that was started, and how it is spoken to."""

    process: subprocess.Popen[bytes]
    url: str
    token: str
    errors: IO[bytes]
    is_up: bool = False

    def await_answer(self) -> None:
        """SdcError where it ends, TemporaryError where it does not answer for long."""
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
        said = [line for line in lines if line.strip()]
        return f" ({said[-1].strip()})" if said else ""


@contextmanager
def embedded_server() -> Iterator[Callable[[], None]]:
    """Starts a server where Prefect's settings name none, and gives what waits until it answers, or refuses.

    Prefect would start one only when a flow does, and leave it behind where this process is killed. This one, a child
    that ends with this process, comes up while the config is checked and flows are imported. Until it is waited for
    nothing of Prefect is imported here; from then on, in the rest of the block, it is Prefect's server.
    """
    with ExitStack() as stack:
        started = None if _is_named() else stack.enter_context(_started())
        yield lambda: _use(started, stack)


def _is_named() -> bool:
    """What can be known without Prefect, which takes a second to import: a profile is read by the process as well."""
    if "prefect" in sys.modules:
        from prefect.settings import PREFECT_API_URL

        return bool(PREFECT_API_URL.value())
    return bool(os.environ.get("PREFECT_API_URL"))


@contextmanager
def _started() -> Iterator[_Server]:
    # every user of this machine can reach the port; the environment of a process is for its own user
    port, token, null = _free_port(), f"sdc:{secrets.token_urlsafe(32)}", subprocess.DEVNULL
    environment = {**os.environ, **_OF_THE_SERVER, "PREFECT_SERVER_API_AUTH_STRING": token}
    command = [sys.executable, "-P", *_SERVER, str(port)]
    with (
        TemporaryFile() as errors,
        # in a session of its own: an interrupt at the terminal goes to the whole group, and the build still has to
        # report to it. Its end is the end of the pipe, which the system closes however this process dies
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
                process.kill()  # it has nothing to store yet


def _use(started: _Server | None, stack: ExitStack) -> None:
    """Has Prefect use the server that was started, or the one that its settings name, until the stack ends."""
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
    """The block is left at once where the server ends, with a TemporaryError.

    Prefect would go on, and try everything that it has to say again and again for minutes.
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
        # another process may take it before the server does: then that ends at its start, which `_await` says
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
