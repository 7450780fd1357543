"""Prefect's settings for a build on one machine: the embedded server, nothing sent outside, quiet logs."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

_SETTINGS = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    "PREFECT_SERVER_LOGGING_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_LEVEL": "CRITICAL",  # a refusal is one message, said by the command; faults are raised
    "PREFECT_CLI_PROMPT": "false",
    "PREFECT_CLOUD_ENABLE_ORCHESTRATION_TELEMETRY": "false",
}


def use_embedded_server() -> None:
    """Sets what the environment leaves open; call it before Prefect is imported."""
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)


_END_SERVERS = """
import sys
sys.stdin.read()  # until the build has ended, however that was
import psutil
for process in psutil.process_iter(["cmdline", "environ"]):
    if sys.argv[1] in (process.info["environ"] or ()) and "uvicorn" in (process.info["cmdline"] or ()):
        process.terminate()
"""


@contextmanager
def no_server_left_behind() -> Iterator[None]:
    """Ends the embedded server, a process of its own, also where this one is killed, at whatever moment.

    Open it before the server starts, which inherits the mark that it is found by.
    """
    mark, null = f"SDC_BUILD_{uuid.uuid4().hex}", subprocess.DEVNULL
    os.environ[mark] = "1"
    command = [sys.executable, "-c", _END_SERVERS, mark]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=null, stderr=null, start_new_session=True) as watcher:
        try:
            yield
        finally:
            del os.environ[mark]
            watcher.kill()
