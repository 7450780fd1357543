"""A round of a table server with the rule batch, as a Prefect flow: what waits is decided together, when it is due."""

from __future__ import annotations

import os
from typing import Any

import httpx
from prefect import flow

from flows.command import run_as_command
from sdc.model.errors import ConfigError, SdcError, TemporaryError

KEY = "SDC_SERVER_KEY"
SECONDS = 3600.0


@flow(name="request-round")
def request_round(url: str) -> dict[str, Any]:
    """Has the server at a URL hold a round, with the operator's key in SDC_SERVER_KEY; how many requests it decided."""
    if not (key := os.environ.get(KEY)):
        raise ConfigError(f"{KEY} is not set; give an operator's key of the server in it")
    try:
        answer = httpx.post(
            f"{url.rstrip('/')}/api/operator/round", headers={"Authorization": f"Bearer {key}"}, timeout=SECONDS
        )
        content = answer.json()
    except (httpx.HTTPError, ValueError) as error:
        raise TemporaryError(
            f"the server at {url} did not hold a round: {error}; see that it runs, then run again"
        ) from error
    if answer.status_code != httpx.codes.OK:
        kind = TemporaryError if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE else SdcError
        raise kind(f"the server at {url} did not hold a round: {content.get('message', answer.status_code)}")
    return dict(content)


if __name__ == "__main__":
    run_as_command(request_round)
