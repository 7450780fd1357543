"""Alerts: Prefect's server tells a program of its machine of deployments' runs that fail, crash or begin late.

It does so by an automation, which is there when a run is not: hooks of a flow are called in the process of its run, and
so hear of no run that was killed, and of none that has not begun.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit
from uuid import UUID

from pydantic import AfterValidator, Field

from sdc.config.values import Section, Text
from sdc.execution import LOOPBACK

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.events.schemas.automations import AutomationCore

FAILED, LATE = ("Failed", "Crashed", "TimedOut"), ("Late", "AwaitingConcurrencySlot")
"""States by their names: what is due and has not begun is late, or waits for another run of its deployment."""
AGAIN = timedelta(days=1)  # what waits for another run comes into its state anew every half minute
PAYLOAD = (
    '{"deployment": {{ deployment.name | tojson }}, "run": {{ flow_run.name | tojson }}, "id": "{{ flow_run.id }}", '
    '"event": "{{ event.event }}", "at": "{{ event.occurred.isoformat() }}"}'
)
"""What is told: no message of a run, though those too name nothing but files, columns, settings and numbers."""


def _of_this_machine(url: str) -> str:
    try:
        parts = urlsplit(url)
        is_here = parts.scheme == "http" and parts.hostname in LOOPBACK and bool(parts.port)
    except ValueError:
        is_here = False
    if not is_here:
        raise ValueError("it is none of this machine; have a program here listen, and tell others itself")
    return url


class Alerts(Section):
    """Who hears of the runs of a file's deployments."""

    webhook: Annotated[
        Text,
        AfterValidator(_of_this_machine),
        Field(description="http://127.0.0.1, a port and a path, to which the server posts JSON"),
    ]


def register_alerts(client: SyncPrefectClient, alerts: Alerts | None, deployments: Iterable[UUID]) -> None:
    """Has the server tell of these deployments, or no longer where there are no alerts; of others nothing changes."""
    for deployment in deployments:
        name = f"alerts-of-{deployment}"
        earlier = client.read_automations_by_name(name)
        if alerts is not None:
            client.create_automation(_automation(name, _block(name, alerts.webhook), deployment))
        for one in earlier:
            client.delete_automation(one.id)


def _block(name: str, webhook: str) -> UUID:
    """What the server knows of the webhook, made or replaced."""
    from prefect.blocks.webhook import Webhook

    content: dict[str, Any] = {"url": webhook, "headers": {"Content-Type": "application/json"}}
    saved: Any = Webhook(**content).save(name, overwrite=True)
    return UUID(str(saved))


def _automation(name: str, block: UUID, deployment: UUID) -> AutomationCore:
    """Once for each run and state, and once a day where it stays there."""
    from prefect.events.actions import CallWebhook
    from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture

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
    says = "Runs of one deployment that fail, crash or begin late."
    return AutomationCore(name=name, description=says, trigger=EventTrigger(**trigger), actions=[action])
