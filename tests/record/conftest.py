"""What tests of chains share: databases."""

from tests.server.databases import history_url, postgres_cluster, postgres_url, sqlite_url

__all__ = ["history_url", "postgres_cluster", "postgres_url", "sqlite_url"]
