"""Clients that offices use read a released table by its address."""

import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
from fsspec.implementations.http import HTTPFileSystem

from sdc.model.table import Table
from sdc.risk.criteria import Criteria
from tests.helpers.http import hosted, running, server_of
from tests.helpers.small_service import SmallService
from tests.integration.verify.signing import built


@pytest.fixture
def url(czech: Table) -> Iterator[str]:
    service = SmallService(czech, Criteria.of(2, 6))
    assert service.ask(0b11, "ada").result().decision == "released"
    with running(server_of(service).app) as url:
        yield url


def test_polars_reads_parquet_and_csv(url: str, czech: Table) -> None:
    for name in ("A,B.parquet", "A*B.parquet"):
        found = pl.scan_parquet(f"{url}/api/tables/{name}", glob=False).collect()
        assert (found.columns, found["count"].sum()) == (["A", "B", "count"], czech.total)
    assert pl.read_csv(f"{url}/api/tables/A,B.csv")["count"].sum() == czech.total


class Addresses(HTTPFileSystem):  # type: ignore[misc]
    """DuckDB asks when a file was changed; its own extension for addresses is not on PyPI for each version."""

    def modified(self, path: str) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)


def counted(path: str) -> int:
    """The sum of the counts that DuckDB reads at an address."""
    with duckdb.connect() as connection:
        connection.register_filesystem(Addresses())
        (row,) = connection.sql(f"SELECT sum(count) FROM '{path}'").fetchall()
    return int(row[0])


def test_duckdb_reads_parquet_and_csv(url: str, czech: Table) -> None:
    assert [counted(f"{url}/api/tables/A,B.{suffix}") for suffix in ("parquet", "csv")] == [czech.total] * 2


def test_a_release_behind_a_file_host_is_read_by_its_addresses(czech: Table, tmp_path: Path) -> None:
    """By sdmx1 with its structure, and by DuckDB. Polars asks for byte ranges, which this host does not answer."""
    import sdmx

    run = built(tmp_path, publication={"formats": ["csv", "sdmx-csv"]})
    with hosted(run / "release") as host:
        address = f"{host}/001_A-B-C-D-E"
        structure: Any = sdmx.read_url(f"{address}.sdmx.xml")
        (definition,) = structure.structure.values()
        own, _ = urllib.request.urlretrieve(f"{address}.sdmx.csv", tmp_path / "counts.csv")
        message: Any = sdmx.read_sdmx(own, structure=definition)
        assert sdmx.to_pandas(message.data[0]).sum() == czech.total
        assert counted(f"{address}.csv") == czech.total
