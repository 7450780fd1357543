"""One Prefect server for the tests of the flows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flows.embedded import use_embedded_server

use_embedded_server()


@pytest.fixture(scope="session")
def prefect_server() -> Iterator[None]:
    """A server with a database of its own, gone when the tests end."""
    from prefect.testing.utilities import prefect_test_harness

    with prefect_test_harness(server_startup_timeout=120):
        yield
