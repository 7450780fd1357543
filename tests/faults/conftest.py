"""Databases of histories for servers that are killed."""

from tests.server.databases import postgres_cluster, postgres_url

__all__ = ["postgres_cluster", "postgres_url"]
