"""Prefect deployments and alerts: scheduled runs from one file. `python -m flows.deployments cluster/prefect.yaml`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit
from uuid import UUID
from zoneinfo import available_timezones

import typer
import yaml
from prefect.blocks.webhook import Webhook
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import WorkPoolCreate, WorkPoolUpdate
from prefect.client.schemas.schedules import CronSchedule
from prefect.events.actions import CallWebhook
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
from prefect.exceptions import ObjectAlreadyExists
from prefect.settings import get_current_settings
from prefect.workers.process import ProcessWorker
from pydantic import AfterValidator, Field, StrictBool, ValidationError

from flows.absence import refusals_of_the_server, require_server
from sdc.config.file import load_yaml, validated
from sdc.config.values import Positive, Section, Text, Workers
from sdc.execution import LOOPBACK
from sdc.execution.cluster import cluster_of
from sdc.model.errors import ConfigError, SdcError
from sdc.paths import checked_path
from sdc.refusal import as_command
from sdc.stages.build import open_build
from sdc.stages.release import check_upload
from sdc.stages.table import check_before

FAILED, LATE = ("Failed", "Crashed", "TimedOut"), ("Late", "AwaitingConcurrencySlot")
"""State names: a run that has not started is late, or waits for another run of its deployment."""
AGAIN = timedelta(days=1)  # a waiting run re-enters its state every half minute
PAYLOAD = (
    '{"deployment": {{ deployment.name | tojson }}, "run": {{ flow_run.name | tojson }}, "id": "{{ flow_run.id }}", '
    '"event": "{{ event.event }}", "at": "{{ event.occurred.isoformat() }}"}'
)
"""The notification: no message of the run."""


def _of_this_machine(url: str) -> str:
    try:
        parts = urlsplit(url)
        is_here = parts.scheme == "http" and parts.hostname in LOOPBACK and bool(parts.port)
    except ValueError:
        is_here = False
    if not is_here:
        raise ValueError("not an address of this machine; a program here must listen and notify others itself")
    return url


class Alerts(Section):
    """Receiver of alerts about a file's deployments."""

    webhook: Annotated[
        Text,
        AfterValidator(_of_this_machine),
        Field(description="http://127.0.0.1, a port and a path, to which the server posts JSON"),
    ]


def register_alerts(client: SyncPrefectClient, alerts: Alerts | None, deployments: Iterable[UUID]) -> None:
    """Register the alerts of these deployments, or remove them; other alerts stay."""
    for deployment in deployments:
        name = f"alerts-of-{deployment}"
        earlier = client.read_automations_by_name(name)
        if alerts is not None:
            client.create_automation(_automation(name, _block(name, alerts.webhook), deployment))
        for one in earlier:
            client.delete_automation(one.id)


def _block(name: str, webhook: str) -> UUID:
    """Create or replace the server's webhook block."""
    content: dict[str, Any] = {"url": webhook, "headers": {"Content-Type": "application/json"}}
    saved: Any = Webhook(**content).save(name, overwrite=True)
    return UUID(str(saved))


def _automation(name: str, block: UUID, deployment: UUID) -> AutomationCore:
    """Alert once for each run and state, and once a day while it stays."""
    related = {"prefect.resource.role": "deployment", "prefect.resource.id": f"prefect.deployment.{deployment}"}
    trigger: dict[str, Any] = {
        "posture": Posture.Reactive,
        "expect": {f"prefect.flow-run.{state}" for state in FAILED + LATE},
        "match": {"prefect.resource.id": "prefect.flow-run.*"},
        "match_related": related,
        "for_each": {"prefect.resource.id", "prefect.state-name"},
        "threshold": 1,
        "within": AGAIN,
    }
    action = CallWebhook(block_document_id=block, payload=PAYLOAD)
    description = "Runs of one deployment that fail, crash or begin late."
    return AutomationCore(name=name, description=description, trigger=EventTrigger(**trigger), actions=[action])


DEPLOY_SECONDS = 300


def _cron(value: str) -> str:
    try:
        return CronSchedule(cron=value).cron
    except ValidationError as error:
        raise ValueError("it is not a cron line") from error


def _timezone(value: str) -> str:
    if value not in available_timezones():
        raise ValueError("there is no such time zone")
    return value


class Schedule(Section):
    cron: Annotated[
        Text, AfterValidator(_cron), Field(description="minute, hour, day, month and weekday, as '0 2 * * *'")
    ]
    timezone: Annotated[Text, AfterValidator(_timezone), Field(description="of the cron line, such as Europe/Vienna")]
    active: Annotated[StrictBool, Field(description="true or false")] = True


class Parameters(Section):
    """Parameters of both flows."""

    config: Annotated[Text, Field(description="the config of the build, relative to the folder of the run")]
    data: Annotated[Text | None, Field(description="the table to read instead of the config's")] = None
    workers: Annotated[Workers | None, Field(description="worker processes instead of the config's")] = None


class Concurrency(Section):
    limit: Annotated[Positive, Field(description="the runs of this deployment at once, at least 1")]
    collision_strategy: Annotated[
        Literal["ENQUEUE", "CANCEL_NEW"], Field(description="what happens to one run more: ENQUEUE or CANCEL_NEW")
    ]


class PoolOfDeployment(Section):
    name: Annotated[Text, Field(description="one of work_pools")]
    work_queue_name: Annotated[Text | None, Field(description="a queue of the pool, default its own")] = None
    job_variables: dict[str, Any] = Field(
        default_factory=dict, description="what a job of the pool is given, such as env"
    )


class Deployment(Section):
    name: Annotated[Text, Field(pattern=r"^[^/%&<>]+$", description="a name without / % & < >")]
    entrypoint: Annotated[
        Literal["flows.release_build.release_build", "flows.width_sweep.width_sweep"],
        Field(description="flows.release_build.release_build or flows.width_sweep.width_sweep"),
    ]
    parameters: Annotated[Parameters, Field(description="a section with a config at least")]
    schedules: Annotated[tuple[Schedule, ...], Field(description="a list of sections with cron and timezone")]
    concurrency_limit: Annotated[Concurrency, Field(description="a section with limit and collision_strategy")]
    work_pool: Annotated[PoolOfDeployment, Field(description="a section with a name")]
    description: Annotated[Text | None, Field(description="a sentence")] = None
    tags: Annotated[tuple[Text, ...], Field(description="a list of words")] = ()

    @property
    def full_name(self) -> str:
        """Name at the server: flows are named by their functions, with dashes."""
        return f"{self.entrypoint.rpartition('.')[2].replace('_', '-')}/{self.name}"


class WorkPool(Section):
    """A pool of processes: its worker starts each run as a process."""

    name: Annotated[Text, Field(description="the name by which a worker is started")]
    concurrency_limit: Annotated[Positive, Field(description="the runs of all deployments at once, at least 1")]


class PrefectFile(Section):
    """The keys of a prefect.yaml; Prefect itself ignores `work_pools` and `alerts`."""

    name: Annotated[Text, Field(description="of the project")]
    work_pools: Annotated[tuple[WorkPool, ...], Field(description="a list of sections: name and concurrency_limit")]
    deployments: Annotated[list[Any], Field(min_length=1, description="a list of deployments, at least one")]
    alerts: Annotated[Alerts | None, Field(description="a section with a webhook, default: no alerts")] = None
    pull: Annotated[list[dict[str, Any]] | None, Field(description="how a run gets to its folder")] = None


def read_deployments(path: Path) -> tuple[PrefectFile, list[Deployment]]:
    """Read a file and its deployments.

    ConfigError names the deployment, its line, the key, the value and what is allowed; also for a missing or refused
    config.
    """
    file = validated(PrefectFile, load_yaml(path, "deployments", ConfigError), path)
    pools, found = {pool.name for pool in file.work_pools}, list[Deployment]()
    for content, line in zip(file.deployments, _lines(path), strict=True):
        name = content.get("name") if isinstance(content, dict) else None
        place = f", line {line}, deployment {name!r}"
        deployment = validated(Deployment, content, path, place)
        if deployment.name in {earlier.name for earlier in found}:
            raise ConfigError(f"{path}{place}: two deployments have this name; rename one")
        if deployment.work_pool.name not in pools:
            raise ConfigError(f"{path}{place}: work_pool.name = {deployment.work_pool.name!r} is not one of work_pools")
        _check_parameters(deployment.parameters, f"{path}{place}")
        found.append(deployment)
    return file, found


def _lines(path: Path) -> Iterator[int]:
    """Return the line of each deployment."""
    # parsed again as nodes: validated values have no lines
    root: Any = yaml.compose(path.read_text(encoding="utf-8"), yaml.SafeLoader)
    nodes = {key.value: node for key, node in root.value}
    yield from (node.start_mark.line + 1 for node in nodes["deployments"].value)


def _check_parameters(parameters: Parameters, place: str) -> None:
    """Check everything that a run reads before its work."""
    try:
        build = open_build(Path(parameters.config), parameters.data, parameters.workers)
        check_before(build)
        check_upload(build)
        cluster_of(build.config.execution)
    except SdcError as error:
        raise ConfigError(f"{place}: parameters.config = {parameters.config!r}: {error}") from error


def register(path: Path) -> list[Deployment]:
    """Register deployments, pools and alerts at the server of PREFECT_API_URL, after all checks.

    SdcError if there is no server, or it refuses.
    """
    file, deployments = read_deployments(path)
    _make_pools(file.work_pools)
    # by Prefect's own command in its own process
    command = [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all", "--prefect-file", str(path)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=DEPLOY_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise SdcError(
            f"{path}: Prefect has not accepted it within {DEPLOY_SECONDS} s; is its server running?"
        ) from error
    if done.returncode:
        raise SdcError(f"{path}: Prefect refuses it: {(done.stderr or done.stdout).strip()[-1000:]}")
    with refusals_of_the_server(), get_client(sync_client=True) as client:
        known = [client.read_deployment_by_name(one.full_name).id for one in deployments]
        register_alerts(client, file.alerts, known)
    return deployments


def _make_pools(pools: tuple[WorkPool, ...]) -> None:
    if get_current_settings().api.url is None:
        raise ConfigError(
            "PREFECT_API_URL is not set: an embedded server runs no schedules; start one with `prefect server start` "
            "and name it there"
        )
    new: dict[str, Any] = {"type": "process", "base_job_template": ProcessWorker.get_default_base_job_template()}
    require_server()
    with get_client(sync_client=True) as client:
        for pool in pools:
            try:
                client.create_work_pool(WorkPoolCreate(**pool.model_dump(), **new))
            except ObjectAlreadyExists:
                client.update_work_pool(pool.name, WorkPoolUpdate(concurrency_limit=pool.concurrency_limit))


def main(
    file: Annotated[
        Path, typer.Argument(parser=checked_path, metavar="FILE", help="Deployments, such as cluster/prefect.yaml.")
    ],
    check: Annotated[bool, typer.Option("--check", help="Only check the file; needs no server.")] = False,
) -> None:
    """Check deployments and register them at the Prefect server of PREFECT_API_URL."""
    deployments = read_deployments(file)[1] if check else register(file)
    for deployment in deployments:
        times = ", ".join(f"{schedule.cron} {schedule.timezone}" for schedule in deployment.schedules)
        print(f"{deployment.name}: {times}: {deployment.entrypoint.rpartition('.')[2]} {deployment.parameters.config}")


if __name__ == "__main__":
    with as_command():
        typer.run(main)
