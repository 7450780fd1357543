"""A round of a table server with the rule batch, as a Prefect flow."""

from __future__ import annotations

import os
from typing import Any

import httpx
from prefect import flow

from flows.embedded import run_as_command
from sdc.model.errors import ConfigError, SdcError, TemporaryError

KEY = "SDC_SERVER_KEY"
SECONDS = 3600.0


@flow(name="request-round")
def request_round(url: str) -> dict[str, Any]:
    """Start a round at a server, with the operator's key in SDC_SERVER_KEY; return the number of decided requests."""
    if not (key := os.environ.get(KEY)):
        raise ConfigError(f"{KEY} is not set; set it to an operator's key of the server")
    try:
        answer = httpx.post(
            f"{url.rstrip('/')}/api/operator/round", headers={"Authorization": f"Bearer {key}"}, timeout=SECONDS
        )
        content = answer.json()
    except (httpx.HTTPError, ValueError) as error:
        raise TemporaryError(
            f"the server at {url} did not hold a round: {error}; check that it runs, then run again"
        ) from error
    if answer.status_code != httpx.codes.OK:
        kind = TemporaryError if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE else SdcError
        raise kind(f"the server at {url} did not hold a round: {content.get('message', answer.status_code)}")
    return dict(content)


if __name__ == "__main__":
    run_as_command(request_round)
