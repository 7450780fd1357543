"""Waits for an absent Prefect server, and marks runs of dead processes as crashed."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import FlowRunFilter
from prefect.client.schemas.objects import FlowRun
from prefect.context import FlowRunContext
from prefect.exceptions import PrefectHTTPStatusError
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, get_current_settings, temporary_settings
from prefect.states import Crashed

from sdc.events import EXECUTION, EventText, emit, heard
from sdc.execution.connection import Waiting
from sdc.model.errors import ConfigError, SdcError, TemporaryError
from sdc.storage.run_folder import RunFolder

VARIABLE, SECONDS = "SDC_PREFECT_SECONDS", 600.0
SECONDS_BETWEEN_TRIES = 2.0
AT_WORK = "sdc-at-work"  # a tag of flow runs; another has host, process and run folder


# The server


def patience() -> float:
    """Return the seconds to wait for an absent server; ConfigError for an invalid environment variable."""
    given = os.environ.get(VARIABLE, str(SECONDS))
    try:
        seconds = float(given)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise ConfigError(f"{VARIABLE} = {given!r} is not a number of seconds, such as {SECONDS:g}")
    return seconds


def await_server(client: SyncPrefectClient) -> None:
    """Wait while the server does not answer, and log it; TemporaryError after `patience`.

    Called before each stage boundary: Prefect's own retries, which are silent, cover the moments between.
    """
    settings, why, waiting = get_current_settings(), _silence(client), None
    if why and settings.client.max_retries:
        # a short pause, as for its database, is normal
        time.sleep(SECONDS_BETWEEN_TRIES)
        why = _silence(client)
    while why:
        waiting = waiting or Waiting(patience())
        if not waiting.seconds_left or not settings.client.max_retries:
            settings.client.max_retries = 0  # the end of the run must not wait again
            raise TemporaryError(f"{_away(why)}; start it, then run again: finished stages are reused")
        with _with_log():
            waiting.emit(f"Prefect's server at {_url()} does not answer", why)
        time.sleep(min(SECONDS_BETWEEN_TRIES, waiting.seconds_left))
        why = _silence(client)
    if waiting is not None:
        with _with_log():
            emit("waiting", f"Prefect's server at {_url()} answers again", EXECUTION)


def _silence(client: SyncPrefectClient) -> str:
    """Return why the server does not answer, or ""."""
    with temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}):
        error = client.api_healthcheck()
    return "" if error is None else str(error).splitlines()[0] if str(error) else type(error).__name__


def _away(why: str) -> str:
    return f"Prefect's server at {_url()} has not answered ({why})"


@contextmanager
def _with_log() -> Iterator[None]:
    """Log events of workers and servers also before and after a build."""
    with ExitStack() as stack:
        if not EXECUTION.handlers:
            stack.enter_context(heard(EventText(lambda text: print(text, file=sys.stderr, flush=True)), EXECUTION))
        yield


def _url() -> str:
    return str(get_current_settings().api.url)


def require_server() -> None:
    """Raise TemporaryError at once if no server answers at Prefect's URL, and as `patience`."""
    patience()
    with get_client(sync_client=True) as client:
        error = _silence(client)
    if error:
        raise TemporaryError(
            f"no Prefect server answers at PREFECT_API_URL = {_url()}: {error}; start it, fix "
            "the URL, or leave it unset: the build then starts its own server"
        )


@contextmanager
def refusals_of_the_server() -> Iterator[None]:
    """Turn errors of the server into refusals of the server, not of the build."""
    try:
        yield
    except httpx.TransportError as error:
        why = str(error) or type(error).__name__
        raise TemporaryError(f"{_away(why)}; start it, then run again: finished stages are reused") from error
    except PrefectHTTPStatusError as error:
        raise SdcError(
            f"Prefect's server at {_url()} answers with status {error.response.status_code}; check its log, and the "
            "key or password that Prefect's settings name, then run again: finished stages are reused"
        ) from error


# Processes


@contextmanager
def at_work(folder: RunFolder) -> Iterator[None]:
    """Note in Prefect that this process holds the run folder, and mark runs of dead processes as crashed.

    Prefect learns of a dead process only from its worker: if both are killed, the run stays "running" for ever.
    """
    context = FlowRunContext.get()
    if context is None or context.flow_run is None:
        yield
        return
    own = context.flow_run
    with get_client(sync_client=True) as client:
        _end_dead_runs(client, own, folder)
        holder = f"{AT_WORK}:{socket.gethostname()}/{os.getpid()}{folder.path.absolute()}"
        client.update_flow_run(own.id, tags=[*own.tags, AT_WORK, holder])
        yield
        await_server(client)
        client.update_flow_run(own.id, tags=own.tags)


def _end_dead_runs(client: SyncPrefectClient, own: FlowRun, held: RunFolder) -> None:
    running = FlowRunFilter.model_validate({"tags": {"all_": [AT_WORK]}, "state": {"type": {"any_": ["RUNNING"]}}})
    for run in client.read_flow_runs(flow_run_filter=running):
        if run.id != own.id and (where := _dead(run, held)):
            gone: Any = Crashed(message=f"the process of this run is gone: {where} is not held by it")
            client.set_flow_run_state(run.id, gone, force=True)


def _dead(run: FlowRun, held: RunFolder) -> str:
    """Return the run folder of a dead run, or "" if it is held or not visible here."""
    (tag,) = (tag for tag in run.tags if tag.startswith(f"{AT_WORK}:"))
    host, process, path = tag.removeprefix(f"{AT_WORK}:").split("/", 2)
    folder = RunFolder(Path("/", path))
    # an event of the run proves that the folder is its own, not another machine's with the same path
    begun = [(e.get("host"), str(e.get("pid"))) for e in folder.events() if e["event"] == "run started"]
    is_ours = folder.path == held.path.absolute()
    return str(folder.path) if (host, process) in begun and (is_ours or not folder.held()) else ""
