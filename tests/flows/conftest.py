"""One Prefect server for the tests of the flows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flows.embedded import embedded_server, use_embedded_server
from tests.prefect_home import made_home

use_embedded_server()


@pytest.fixture(scope="session")
def prefect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """That of a build, with a database of its own, gone when the tests end."""
    from prefect.settings import PREFECT_API_URL, PREFECT_HOME, temporary_settings

    home = made_home(tmp_path_factory.mktemp("prefect"))
    with pytest.MonkeyPatch.context() as patch, temporary_settings({PREFECT_API_URL: None, PREFECT_HOME: home}):
        patch.setenv("PREFECT_HOME", str(home))
        patch.delenv("PREFECT_API_URL", raising=False)
        patch.delenv("PREFECT_API_DATABASE_CONNECTION_URL", raising=False)
        with embedded_server() as await_server:
            await_server()
            yield
