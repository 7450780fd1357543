"""Databases of histories."""

from tests.helpers.databases import history_url, sqlite_url

__all__ = ["history_url", "sqlite_url"]
