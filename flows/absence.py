"""What is away: a Prefect server, which is waited for by name, and processes of runs that Prefect takes for running."""

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

from sdc.events import EXECUTION, EventText, heard, tell
from sdc.execution.connection import Waiting
from sdc.model.errors import ConfigError, SdcError, TemporaryError
from sdc.storage.run_folder import RunFolder

VARIABLE, SECONDS = "SDC_PREFECT_SECONDS", 600.0
SECONDS_BETWEEN_TRIES = 2.0
AT_WORK = "sdc-at-work"  # a tag of flow runs, beside one with host, process and run folder


# The server


def patience() -> float:
    """Seconds for which a server that has gone is waited for; ConfigError where the environment says something else."""
    given = os.environ.get(VARIABLE, str(SECONDS))
    try:
        seconds = float(given)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise ConfigError(f"{VARIABLE} = {given!r} is no number of seconds, such as {SECONDS:g}")
    return seconds


def await_server(client: SyncPrefectClient) -> None:
    """Waits while the server does not answer, and says so where it is twice; TemporaryError after `patience`.

    It is called before what is said to the server at each boundary of stages: Prefect's own retries, which say nothing,
    are for the moments between.
    """
    settings, why, waiting = get_current_settings(), _silence(client), None
    if why and settings.client.max_retries:
        # one that is busy for a moment, as with its database, is no matter for anybody
        time.sleep(SECONDS_BETWEEN_TRIES)
        why = _silence(client)
    while why:
        waiting = waiting or Waiting(patience())
        if not waiting.seconds_left or not settings.client.max_retries:
            settings.client.max_retries = 0  # what ends has more to say to the server, and waits no more
            raise TemporaryError(f"{_away(why)}; start it, then run again: stages that are done are reused")
        with _heard():
            waiting.tell(f"Prefect's server at {_url()} does not answer", why)
        time.sleep(min(SECONDS_BETWEEN_TRIES, waiting.seconds_left))
        why = _silence(client)
    if waiting is not None:
        _say(f"Prefect's server at {_url()} answers again")


def _silence(client: SyncPrefectClient) -> str:
    """Why the server does not answer; empty where it does."""
    with temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}):
        fault = client.api_healthcheck()
    return "" if fault is None else str(fault).splitlines()[0] if str(fault) else type(fault).__name__


def _away(why: str) -> str:
    return f"Prefect's server at {_url()} has not answered ({why})"


def _say(text: str) -> None:
    with _heard():
        tell("waiting", text, EXECUTION)


@contextmanager
def _heard() -> Iterator[None]:
    """Before a build begins and after it, nobody hears what happens to workers and servers."""
    with ExitStack() as stack:
        if not EXECUTION.handlers:
            stack.enter_context(heard(EventText(lambda text: print(text, file=sys.stderr, flush=True)), EXECUTION))
        yield


def _url() -> str:
    return str(get_current_settings().api.url)


def require_server() -> None:
    """TemporaryError, at once, where no server answers at the URL that Prefect's settings name, and as `patience`."""
    patience()
    with get_client(sync_client=True) as client:
        fault = _silence(client)
    if fault:
        raise TemporaryError(
            f"no Prefect server answers at PREFECT_API_URL = {_url()}: {fault}; start it, mend "
            "the URL, or leave it unset for a server of the build's own"
        )


@contextmanager
def refusals_of_the_server() -> Iterator[None]:
    """What the server answers that is no answer is its refusal, or its fault, and not one of the build."""
    try:
        yield
    except httpx.TransportError as error:
        why = str(error) or type(error).__name__
        raise TemporaryError(f"{_away(why)}; start it, then run again: stages that are done are reused") from error
    except PrefectHTTPStatusError as error:
        raise SdcError(
            f"Prefect's server at {_url()} answers with status {error.response.status_code}; see its log, and the key "
            "or password that Prefect's settings name, then run again: stages that are done are reused"
        ) from error


# Processes


@contextmanager
def at_work(folder: RunFolder) -> Iterator[None]:
    """Notes at Prefect that this process holds the run folder. Runs that say so of one that nobody holds have crashed.

    Prefect itself learns of the end of a process from its worker: where both are killed it says "running" for ever.
    """
    context = FlowRunContext.get()
    if context is None or context.flow_run is None:
        yield
        return
    own = context.flow_run
    with get_client(sync_client=True) as client:
        _end_dead_runs(client, own, folder)
        client.update_flow_run(own.id, tags=[*own.tags, AT_WORK, _holder(folder)])
        yield
        await_server(client)
        client.update_flow_run(own.id, tags=own.tags)


def _holder(folder: RunFolder) -> str:
    return f"{AT_WORK}:{socket.gethostname()}/{os.getpid()}{folder.path.absolute()}"


def _end_dead_runs(client: SyncPrefectClient, own: FlowRun, held: RunFolder) -> None:
    running = FlowRunFilter.model_validate({"tags": {"all_": [AT_WORK]}, "state": {"type": {"any_": ["RUNNING"]}}})
    for run in client.read_flow_runs(flow_run_filter=running):
        if run.id != own.id and (where := _dead(run, held)):
            gone: Any = Crashed(message=f"the process of this run is gone: {where} is not held by it")
            client.set_flow_run_state(run.id, gone, force=True)


def _dead(run: FlowRun, held: RunFolder) -> str:
    """The run folder of a run that no longer holds it; empty where it does, or where its folder is not seen here."""
    (tag,) = (tag for tag in run.tags if tag.startswith(f"{AT_WORK}:"))
    host, process, path = tag.removeprefix(f"{AT_WORK}:").split("/", 2)
    folder = RunFolder(Path("/", path))
    # by an event of the run the folder is known to be its own, and not another machine's of the same path
    begun = [(e.get("host"), str(e.get("pid"))) for e in folder.events() if e["event"] == "run started"]
    is_ours = folder.path == held.path.absolute()
    return str(folder.path) if (host, process) in begun and (is_ours or not folder.held()) else ""
