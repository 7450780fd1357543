"""Prefect's settings for a build on one machine: the embedded server, nothing sent outside, quiet logs."""

from __future__ import annotations

import os
import subprocess
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


@contextmanager
def no_server_left_behind() -> Iterator[None]:
    """Ends the embedded server, a process of its own, also where this one is killed: a shell waits for that."""
    import psutil

    children = {child.pid: child.as_dict(["cmdline"])["cmdline"] for child in psutil.Process().children()}
    servers = [str(pid) for pid, words in children.items() if "uvicorn" in (words or ())]
    command, null = ["sh", "-c", 'cat; kill "$@"', "sh", *servers], subprocess.DEVNULL
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=null, stderr=null, start_new_session=True
    ) as waits_for_our_end:
        try:
            yield
        finally:
            waits_for_our_end.kill()
