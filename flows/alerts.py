"""Alerts: Prefect's server notifies a local program of runs that fail, crash or start late.

It uses an automation of the server: hooks of a flow run in its own process, so they miss killed and unstarted runs.
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
    from prefect.blocks.webhook import Webhook

    content: dict[str, Any] = {"url": webhook, "headers": {"Content-Type": "application/json"}}
    saved: Any = Webhook(**content).save(name, overwrite=True)
    return UUID(str(saved))


def _automation(name: str, block: UUID, deployment: UUID) -> AutomationCore:
    """Alert once for each run and state, and once a day while it stays."""
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
    description = "Runs of one deployment that fail, crash or begin late."
    return AutomationCore(name=name, description=description, trigger=EventTrigger(**trigger), actions=[action])
