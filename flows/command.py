"""Flows as commands, such as `python -m flows.width_sweep CONFIG`."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import wraps
from typing import Any

import typer
from prefect import Flow

from flows.embedded import embedded_server
from sdc.refusal import as_command


def run_as_command(flow: Flow[..., Any], status: Callable[[Any], int] = lambda result: 0) -> None:
    """Run a flow once with this process's arguments; it ends like a command of `sdc`."""

    @wraps(flow.fn)
    def command(**given: Any) -> None:
        with embedded_server() as await_server:
            await_server()
            result = flow(**given)
        print(json.dumps(result))
        raise typer.Exit(status(result))

    with as_command():
        typer.run(command)
