"""Check a published folder with the signer's public key, without the table."""

import csv
import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from sdc import run_format as names
from sdc.verify.core.levels import CORRUPT, check
from sdc.verify.published.formats import Cells, check_formats, stem_of, totals_of
from sdc.verify.published.page import why_not_of
from sdc.verify.published.pxapi import is_of_api
from sdc.verify.published.signed import check_signature, check_statement, check_sums, digest_of
from sdc.verify.published.texts import check_texts, texts_by
from sdc.verify.words import many

Rows = list[tuple[str, ...]]


class UnverifiedError(Exception):
    """Something in a published folder is not as signed, or its files contradict each other."""


def verify_published(folder: Path, key: Ed25519PublicKey, whose: str) -> Iterator[tuple[str, str]]:
    """Yield each check and its result; UnverifiedError for the first failure.

    Only the given key counts, called `whose` in messages; a key in the folder is not believed.
    """
    try:
        yield from _signed(folder, key, whose)
        with _reading(names.METADATA):
            metadata = json.loads((folder / names.METADATA).read_text(encoding="utf-8"))
        yield from _checks_of_tables(folder, metadata)
        check_texts(folder.joinpath, metadata, texts_by(metadata))
        yield "texts", f"labels, titles and texts are the same in each file and in {names.METADATA}"
    except ValueError as error:
        raise UnverifiedError(f"{folder} is not verified: {error}") from error
    except CORRUPT as error:
        what = f"{names.METADATA} is not that of a release ({type(error).__name__}: {error})"
        raise UnverifiedError(f"{folder} is not verified: {what}; contact the signer") from error


@contextmanager
def _reading(name: str) -> Iterator[None]:
    """ValueError with the file's name for errors of its reader."""
    try:
        yield
    except CORRUPT as error:
        if type(error) is ValueError and name in str(error):
            raise
        raise ValueError(f"{name} cannot be read ({type(error).__name__}: {error}); get it again") from error


def _signed(folder: Path, key: Ed25519PublicKey, whose: str) -> Iterator[tuple[str, str]]:
    for name in (names.SUMS, *names.SIGNED):
        check((folder / name).is_file(), f"it has no {name}, so it is not signed; get it from the signer")
    with _reading(names.SIGNATURE):
        check_signature(folder, key, whose)
    yield "signature", f"{names.SUMS} is signed by the key"
    with _reading(names.SUMS):
        listed = check_sums(folder)
    yield "files", f"{len(listed)} are as {names.SUMS} lists them, and there is no other"
    if (folder / names.TIMESTAMP).exists():
        with _reading(names.TIMESTAMP):
            time = _stamped(folder)
        yield "timestamp", f"{names.SUMS} existed at {time}; check the signer with openssl ts -verify"
    with _reading(names.STATEMENT):
        version = check_statement(folder, key, listed)
    yield "statement", f"the key's owner states that sdc {version} checked these files and they passed"


def _stamped(folder: Path) -> str:
    """The UTC time in an RFC 3161 response for these checksums; its signer is not checked."""
    from rfc3161_client import decode_timestamp_response  # from an extra, and few folders have a timestamp

    found_tables = decode_timestamp_response((folder / names.TIMESTAMP).read_bytes()).tst_info
    imprint = found_tables.message_imprint.message
    hashes = {32: hashlib.sha256, 48: hashlib.sha384, 64: hashlib.sha512}
    own = hashes[len(imprint)]((folder / names.SUMS).read_bytes()).digest()
    check(imprint == own, f"{names.TIMESTAMP} is of other checksums; take it out, or get the one of these")
    return f"{found_tables.gen_time:%Y-%m-%d %H:%M:%S} UTC"


def _checks_of_tables(folder: Path, metadata: dict[str, Any]) -> Iterator[tuple[str, str]]:
    resources = metadata["resources"]
    for one in (one for one in resources if "hash" in one):
        same = names.SHA256 + digest_of(folder / one["path"]) == one["hash"]
        check(same, f"{one['path']} differs from its entry in {names.METADATA}; get the folder again")
    page = (folder / names.INDEX).read_text(encoding="utf-8")
    check(not (why := why_not_of(page, metadata)), f"{names.INDEX} {why}")
    yield "page", f"{names.INDEX} lists the tables and files that {names.METADATA} lists"
    tables = [one for one in resources if names.SUB_TABLE in one]
    found_tables = _tables(folder, tables, metadata)
    unread = sorted({stem_of(one["path"]) for one in tables} - found_tables.keys())
    check(not unread, f"{min(unread, default='')} is there as no CSV or Parquet file; get one from the signer")
    if "weighted" in metadata:
        yield (
            "formats",
            f"the same rows in CSV and Parquet: {many(len(found_tables), 'table')}; rounded totals are not added up",
        )
        return
    for one in resources:
        with _reading(one["path"]):
            check_formats(folder.joinpath, [one], found_tables)
    compared = [one["format"] for one in resources if one in tables or one["path"] == names.WORKBOOK or is_of_api(one)]
    formats = [format for format in dict.fromkeys(compared) if format != "csvw"]  # it describes the CSV file
    number, records = many(len(found_tables), "table"), many(metadata["records"], "record")
    yield "formats", f"the same counts of {number} in {', '.join(formats) or 'all formats'}"
    yield "totals", f"{records} in each of {number}, as {names.METADATA} states"


def _tables(folder: Path, tables: list[dict[str, Any]], metadata: dict[str, Any]) -> dict[str, tuple[list[str], Cells]]:
    """Variables and cells of each table by stem; no cells for totals of weights."""
    rows, found_tables = dict[str, tuple[list[str], Rows]](), dict[str, tuple[list[str], Cells]]()
    for one in (one for one in tables if names.is_read(one["path"])):
        with _reading(one["path"]):
            stem, found = stem_of(one["path"]), _rows(folder / one["path"], one)
            same = rows.setdefault(stem, found) == found
            check(same, f"{one['path']} has other cells than the table has in another format; contact the signer")
            found_tables[stem] = (found[0], {}) if "weighted" in metadata else _cells(one, *found)
            _check_totals(one, metadata, found_tables[stem][1])
    return found_tables


def _rows(path: Path, resource: dict[str, Any]) -> tuple[list[str], Rows]:
    """The columns and rows of a CSV or Parquet file as texts, without spreadsheet apostrophes."""
    fields = resource["schema"]["fields"]
    if path.suffix == ".csv":
        with path.open(encoding="utf-8", newline="") as file:
            header, *rows = csv.reader(file, strict=True)
        read = [names.out_of_csv if "constraints" in field else str for field in fields]
        texts = [tuple(of(x) for of, x in zip(read, row, strict=True)) for row in rows]
    else:
        table = pq.ParquetFile(path).read()
        header, columns = table.column_names, (column.to_pylist() for column in table.columns)
        texts = [tuple("" if x is None else str(x) for x in row) for row in zip(*columns, strict=True)]
    check(header == [field["name"] for field in fields], f"{path.name} has other columns than {names.METADATA} says")
    return header, texts


def _cells(resource: dict[str, Any], header: list[str], rows: Rows) -> tuple[list[str], Cells]:
    """The variables, and the count of each listed cell, None if suppressed."""
    at = sum("constraints" in field for field in resource["schema"]["fields"])
    cells = {row[:at]: int(row[at]) if row[at] else None for row in rows}
    check(len(cells) == len(rows), f"{resource['path']} lists a cell twice")
    return header[:at], cells


def _check_totals(resource: dict[str, Any], metadata: dict[str, Any], cells: Cells) -> None:
    """Totals are sums of cells, and all cells sum to the records, as far as suppressed cells allow."""
    if "weighted" in metadata:
        return
    added, unknown = Counter[tuple[str, ...]](), set[tuple[str, ...]]()
    own = {cell: count for cell, count in cells.items() if names.TOTAL not in cell}
    for cell, count in own.items():
        for total in totals_of(cell, metadata.get(names.TOTALS) is True):
            added[total] += count or 0
            unknown |= {total} if count is None else set()
    other = [cell for cell, count in cells.items() if cell not in unknown and added[cell] != count]
    lacks = [cell for cell, count in added.items() if count and cell not in cells]
    path = resource["path"]
    check(not other + lacks, f"{path} has totals that are not the sums of its cells; get it again")
    found_tables = resource.get(names.IN_PART, {})
    low, off = sum(count or 0 for count in own.values()), found_tables.get(names.ROUNDED_TO, 1)
    near = low <= metadata["records"] if names.WITHHELD_STATUS in found_tables else abs(low - metadata["records"]) < off
    states = f"{names.METADATA} states {metadata['records']}"
    check(near, f"{path} has {many(low, 'record')}, and {states}; get the folder again")
