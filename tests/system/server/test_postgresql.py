"""A server whose history is in PostgreSQL: all that holds in SQLite, two servers on one history, and outages."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import make_url

from sdc.config.server import ServerConfig
from sdc.model.table import Table
from sdc.server.web.access import access_to
from sdc.server.web.problems import Problem
from tests.helpers.databases import Cluster, of_histories
from tests.helpers.streams import BruteForce, stream
from tests.helpers.waiting import at_once
from tests.integration.server import test_audit, test_views
from tests.integration.server.test_audit import history
from tests.integration.server.test_outages import Outage, test_while_the_history_is_away_nothing_is_told
from tests.integration.server.test_service import NOW, Open, opened, truth
from tests.profiles import scaled

__all__ = ["history", "opened", "test_while_the_history_is_away_nothing_is_told", "truth"]
globals().update(of_histories(test_audit) | of_histories(test_views))


@pytest.fixture
def history_url(postgres_url: str) -> str:
    return postgres_url


@pytest.fixture(scope="module")
def served(czech: Table, tmp_path_factory: pytest.TempPathFactory, night: list[int], postgres_cluster: Cluster) -> str:
    return test_views.serve(czech, tmp_path_factory.mktemp("served"), postgres_cluster.new_url(), sum(night))


@pytest.fixture(params=["stopped", "read-only"])
def outage(request: pytest.FixtureRequest, postgres_cluster: Cluster) -> tuple[str, Outage]:
    """The URL of a new history, and what takes it away for a while."""
    url = postgres_cluster.new_url()
    if request.param == "stopped":
        return url, lambda: stopped(postgres_cluster)
    return url, lambda: read_only(postgres_cluster, url)


@contextmanager
def stopped(cluster: Cluster) -> Iterator[None]:
    cluster.stop()
    try:
        yield
    finally:
        cluster.start()


@contextmanager
def read_only(cluster: Cluster, url: str) -> Iterator[None]:
    name = make_url(url).database
    set_for_all(cluster, name, f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    yield
    set_for_all(cluster, name, f"ALTER DATABASE {name} RESET default_transaction_read_only")


def set_for_all(cluster: Cluster, name: str | None, setting: str) -> None:
    """A setting that every connection has from now on: none may begin before it is made and go on after it."""
    cluster.execute("postgres", f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
    end = f"SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = '{name}'"
    cluster.execute("postgres", end)
    cluster.execute("postgres", setting)
    cluster.execute("postgres", end)
    cluster.execute("postgres", f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")


def test_two_servers_on_one_history(opened: Open, truth: BruteForce, postgres_url: str) -> None:
    """Whoever asks whichever: never a joint breach, and never a decision lost or made twice."""
    services, length = (opened(url=postgres_url), opened(url=postgres_url)), scaled(40, fewest=20)

    def ask(seed: int) -> None:
        for number, (subtable, who) in enumerate(stream(seed, 6, length)):
            services[(seed + number) % 2].ask(subtable, who).result(600)

    at_once(ask, range(6))
    for service in services:
        service.log.store("session", "ada", "", {})  # which reads what the other wrote
        assert len(service.requests()) == 6 * length
        assert not service.log.projection.pending
    assert services[0].state == services[1].state
    assert truth.is_safe(services[0].state.released)
    decided = [e.body["request"] for e in services[0].log.history.entries(kinds=["decision"])]
    assert len(decided) == len(set(decided)) == 6 * length


def test_keys_are_of_all_servers_on_one_history(opened: Open, postgres_url: str) -> None:
    services = opened(url=postgres_url), opened(url=postgres_url)
    one, other = (access_to(service.log, ServerConfig()) for service in services)
    key = one.new_key("operator", NOW, 1)
    services[1].log.store("session", "bob", "", {})  # which reads what the other wrote
    assert other.by_key(key, NOW) == one.by_key(key, NOW)
    assert other.revoke(key.split("_")[1], "bob")
    services[0].log.store("session", "bob", "", {})
    with pytest.raises(Problem, match="not valid here"):
        one.by_key(key, NOW)
