"""GROUP BY of DuckDB and of Polars over a folder of Parquet files, each in a process of its own."""

import time

Counted = tuple[float, dict[tuple[str, ...], int]]
"""Seconds, and records by the categories of a cell."""


def by_duckdb(folder: str, threads: int, memory: int) -> Counted:
    import duckdb

    config = {"threads": threads, "memory_limit": f"{memory >> 20}MiB"}
    with duckdb.connect(config=config) as connection:
        found = connection.sql(f"SELECT * FROM '{folder}/*.parquet' LIMIT 0").columns
        names = ", ".join(f'"{name}"' for name in found)
        connection.sql(f"SELECT count(*) FROM '{folder}/*.parquet'").fetchall()  # what is loaded once
        begun = time.perf_counter()
        table = connection.sql(f"SELECT {names}, count(*) FROM '{folder}/*.parquet' GROUP BY {names}").to_arrow_table()
        took = time.perf_counter() - begun
    *columns, counts = (column.to_pylist() for column in table.columns)
    return took, dict(zip(zip(*columns, strict=True), counts, strict=True))


def by_polars(folder: str, threads: int, memory: int) -> Counted:
    import polars as pl

    if pl.thread_pool_size() != threads:
        raise RuntimeError(f"Polars has {pl.thread_pool_size()} threads")
    begun = time.perf_counter()
    files = pl.scan_parquet(f"{folder}/*.parquet")
    names = files.collect_schema().names()
    table = files.group_by(names).len().collect(engine="streaming")
    took = time.perf_counter() - begun
    *columns, counts = (column.to_list() for column in table)
    return took, dict(zip(zip(*columns, strict=True), counts, strict=True))
