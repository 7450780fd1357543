"""The process of a build's own Prefect server: the tables that it makes in a new home, and its end."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from flows import prefect_process
from tests.helpers.prefect_home import migrated_database


def test_a_home_s_first_database_is_as_prefect_s_own_migrations_make_it(tmp_path: Path) -> None:
    migrated_database(tmp_path / "migrated.db")
    prefect_process.make_tables(tmp_path / "made.db")
    made, migrated = (described(tmp_path / f"{name}.db") for name in ("made", "migrated"))
    assert made == migrated
    assert {"flow_run", "task_run", "artifact", "alembic_version"} <= set(made["tables"])


def test_a_database_that_is_there_and_one_of_another_version_are_left_to_prefect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(sqlite3.connect(tmp_path / "kept.db")) as kept:
        kept.execute("create table one (number)")
    prefect_process.make_tables(tmp_path / "kept.db")
    assert list(described(tmp_path / "kept.db")["tables"]) == ["one"]
    prefect_process.make_tables(tmp_path / "no folder" / "made.db")
    monkeypatch.setattr(prefect_process, "version", lambda name: "3.8.9")
    prefect_process.make_tables(tmp_path / "other.db")
    assert [path.name for path in tmp_path.iterdir()] == ["kept.db"]


FOREIGN_KEY = '"table", "from", "to", on_update, on_delete, "match"'


def described(database: Path) -> dict[str, Any]:
    """Tables with their columns, keys and rows, and indexes, without the order that a migration leaves to chance."""
    with closing(sqlite3.connect(database)) as opened:

        def rows(statement: str) -> list[str]:
            return sorted(map(str, opened.execute(statement)))

        schema = opened.execute("select type, name, sql from sqlite_schema").fetchall()
        tables = {
            name: {
                "words": sorted(re.findall(r"[\w.]+|[^\w\s]", sql)),
                "columns": rows(f"select name, type, \"notnull\", dflt_value, pk from pragma_table_info('{name}')"),
                "foreign keys": rows(f"select {FOREIGN_KEY} from pragma_foreign_key_list('{name}')"),
                "rows": rows(f'select * from "{name}"'),
            }
            for kind, name, sql in schema
            if kind == "table"
        }
        indexes = {name: (sql or "").split() for kind, name, sql in schema if kind == "index" and sql}
        others = [row for row in schema if row[0] not in ("table", "index")]
    return {"tables": tables, "indexes": indexes, "others": others}
