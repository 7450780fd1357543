"""What a config expects of its table: parts, records, a marker; what lacks any of them is refused, unread."""

from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sdc.config.table import ExpectConfig, TableConfig
from sdc.data import reading
from sdc.data.reading import count_records
from sdc.data.source import open_source
from sdc.model.errors import InputError
from tests.unit.data.test_reading import write


def parts(folder: Path, suffix: str) -> Path:
    """Three parts of 4 records each, and the marker of a writer that has ended."""
    for part in range(3):
        write(folder / f"{part}{suffix}", {"a": ["x", "y", "x", "y"], "b": [part] * 4})
    (folder / "_SUCCESS").touch()
    return folder


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    return parts(tmp_path / "csv", ".csv")


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    return parts(tmp_path / "parquet", ".parquet")


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*arguments: Any) -> Any:
        raise AssertionError("records were read")

    monkeypatch.setattr(reading, "batches", read)


def expecting(path: Path | str, **expected: Any) -> int:
    """The records of a table that is to be as expected."""
    settings = TableConfig(path=str(path), expect=ExpectConfig(**expected))
    return count_records(open_source(path, settings.expect), settings).table.total


def refused(path: Path | str, match: str, **expected: Any) -> None:
    with pytest.raises(InputError, match=match) as caught:
        expecting(path, **expected)
    assert "\n" not in str(caught.value)


def urls(folder: Path) -> list[str]:
    """The same folder by path, by glob and by URLs."""
    files = fsspec.filesystem("memory")
    files.store.clear()
    files.put(f"{folder}/", "/there/", recursive=True)
    kind = next(folder.glob("0.*")).suffix
    return [str(folder), f"{folder}/*{kind}", f"file://{folder}", "memory://there", f"memory://there/*{kind}"]


def test_what_is_there_is_read(csv: Path, parquet: Path) -> None:
    for folder in (csv, parquet):
        for url in urls(folder):
            assert expecting(url, parts=3, records=(12, 12), marker="_SUCCESS") == 12
    assert expecting(csv / "0.csv", parts=1, marker="_SUCCESS") == 4


@pytest.mark.usefixtures("unread")
def test_a_part_that_is_missing_or_too_many(csv: Path) -> None:
    for url in urls(csv):
        refused(url, r"has 3 parts, table.expect.parts = 4; give all of them and no others, or correct", parts=4)
        refused(url, r"has 3 parts, table.expect.parts = 2", parts=2)
    refused(csv / "0.csv", r"0\.csv has 1 parts, table.expect.parts = 3", parts=3)


@pytest.mark.usefixtures("unread")
def test_a_marker_that_is_missing(csv: Path) -> None:
    for url in urls(csv):
        refused(url, r"lacks the file DONE beside its parts, table.expect.marker, so that it may not be", marker="DONE")
    (csv / "_SUCCESS").unlink()
    refused(csv, r"lacks the file _SUCCESS beside its parts", marker="_SUCCESS")
    refused(f"{csv.parent}/*/0.csv", r"marker = '_SUCCESS': .* names several folders, and a marker", marker="_SUCCESS")


def test_the_marker_is_looked_for_before_the_parts_are_listed(csv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, listed = fsspec.filesystem("file"), []
    monkeypatch.setattr(type(files), "ls", lambda *a, **b: listed.append(a))
    refused(csv, "lacks the file DONE", marker="DONE")
    assert listed == []


@pytest.mark.usefixtures("unread")
@pytest.mark.parametrize("records", [(13, 20), (0, 11)])
def test_parquet_tells_its_records_before_they_are_read(parquet: Path, records: tuple[int, int]) -> None:
    for url in urls(parquet):
        refused(url, rf"has 12 records, table.expect.records = \[{records[0]}, {records[1]}\]; give", records=records)


def test_records_of_text_files_and_of_counted_cells_are_counted(csv: Path, tmp_path: Path) -> None:
    refused(csv, r"has 12 records, table.expect.records = \[13, 13\]; give all parts and no others", records=(13, 13))
    counted = tmp_path / "counted.parquet"
    pq.write_table(pa.table({"a": ["x", "y"], "count": [5, 7]}), counted)
    assert expecting(counted, records=(12, 12)) == 12
    refused(counted, "has 12 records", records=(0, 2))


def test_records_that_are_set_aside_are_records(csv: Path) -> None:
    settings = TableConfig(
        path=str(csv), categories={"b": ("0", "1")}, invalid_records="exclude", expect=ExpectConfig(records=(12, 12))
    )
    found = count_records(open_source(csv), settings)
    assert (found.table.total, found.facts["set_aside"]) == (8, 4)
