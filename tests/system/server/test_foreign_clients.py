"""Clients that offices use read a released table by its address."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl
import pytest

from sdc.model.table import Table
from sdc.risk.criteria import Criteria
from tests.helpers.http import running, server_of
from tests.helpers.small_service import SmallService


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
