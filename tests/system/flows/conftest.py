"""One Prefect server for the tests of the flows."""

from collections.abc import Iterator

import pytest

from flows.embedded import use_embedded_server
from tests.helpers.prefect_home import DATABASE, made_home, served_home

use_embedded_server()


@pytest.fixture(scope="session")
def prefect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """That of a build, with a database of its own, which others could read before; gone when the tests end."""
    home = made_home(tmp_path_factory.mktemp("prefect"))
    (home / DATABASE).chmod(0o644)
    with served_home(home):
        yield
