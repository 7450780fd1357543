"""Databases of histories."""

from tests.helpers.databases import postgres_cluster, postgres_url, sqlite_url

__all__ = ["postgres_cluster", "postgres_url", "sqlite_url"]
