"""Prefect's settings for a build on one machine: the embedded server, nothing sent outside, quiet logs."""

from __future__ import annotations

import os

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
