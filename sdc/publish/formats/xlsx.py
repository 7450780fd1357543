"""One Excel workbook: a description, a list and a cross table of each table, and the categories of every variable."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any, TypeAlias

from sdc.model.errors import ReleaseError
from sdc.model.extras import require_packages
from sdc.model.table import Codes, Counts
from sdc.publish.formats.table import NO_COUNT, CountTable, Dimension, Pieces, dictionary_rows
from sdc.publish.formats.xml import require_xml
from sdc.run_format import SHEETS, WITHHELD_STATUS, cross_sheet
from sdc.storage.scratch import own_scratch

if TYPE_CHECKING:
    from xlsxwriter import Workbook

Row: TypeAlias = Sequence[str | int | Decimal | None]

# limits of an Excel sheet
MAX_ROWS, MAX_COLUMNS, MAX_TEXT, MAX_NUMBER, MAX_SHEET_NAME = 1 << 20, 1 << 14, 32767, 10**15, 31
MADE = datetime(1980, 1, 1)  # constant, so that equal tables give equal bytes

CONTENTS, DICTIONARY = SHEETS

_ESCAPE = re.compile("_x[0-9a-fA-F]{4}_")


def xlsx(tables: Sequence[CountTable]) -> Pieces:
    """The workbook; ReleaseError if a table or text does not fit into a sheet. Texts are never formulas."""
    require_packages("xlsx", "xlsxwriter")
    for table in tables:
        _require(table)
    return _written(tables)


def _written(tables: Sequence[CountTable]) -> Pieces:
    with TemporaryFile() as file:
        with workbook(file, constant_memory=True, use_zip64=True) as book:
            book.set_properties({"created": MADE})
            fill(book, CONTENTS, _contents(tables))
            for table in tables:
                fill(book, table.name[:MAX_SHEET_NAME], _cells(table))
                if crossed := _cross_name(table):
                    fill(book, crossed, _crossed(table))
            variables = {v.name: v for table in tables for v in table.variables}
            fill(book, DICTIONARY, dictionary_rows(variables.values()))
        file.seek(0)
        yield from iter(partial(file.read, 1 << 20), b"")


@contextmanager
def workbook(into: Path | IO[bytes], **options: bool) -> Iterator[Workbook]:
    """Yield a workbook; its sheets, in temporary files meanwhile, go with this process, however it ends."""
    # imported here: only some publications need it
    from xlsxwriter import Workbook

    where = str(into) if isinstance(into, Path) else into
    with own_scratch() as scratch, Workbook(where, {"tmpdir": str(scratch), **options}) as book:
        yield book


def fill(book: Workbook, name: str | None, rows: Iterable[Row]) -> None:
    """Write rows to a new sheet: texts as texts, whatever they look like, and numbers."""
    sheet = book.add_worksheet(name)
    for number, row in enumerate(rows):
        for place, value in enumerate(row):
            if isinstance(value, str):
                sheet.write_string(number, place, value)
            elif value is not None:
                sheet.write_number(number, place, value)


def _contents(tables: Sequence[CountTable]) -> Iterator[Row]:
    yield ("sheet", "table", "cells", "records", "cross table")
    yield from ((t.name[:MAX_SHEET_NAME], t.title, t.listed, t.records, _cross_name(t)) for t in tables)
    for about in dict.fromkeys(table.about for table in tables):
        yield from ([text] for text in (*(f"{what}: {text}" for what, text in about.facts.items()), *about.notes))


def _cells(table: CountTable) -> Iterator[Row]:
    yield (*(v.name for v in table.variables), *table.columns)
    shown = () if table.withheld is None else (None,)
    for cell, count in _named(table.variables, table.chunks()):
        yield (*cell, None, WITHHELD_STATUS) if count == NO_COUNT else (*cell, count, *shown)


def _cross_name(table: CountTable) -> str:
    """The name of its cross table; empty for a single variable, or more columns than a sheet has."""
    *rows, last = table.variables or [None]
    fits = last is not None and len(rows) + len(last.categories) <= MAX_COLUMNS
    return cross_sheet(table.name) if rows and fits else ""


def _crossed(table: CountTable) -> Iterator[Row]:
    """A row for each combination of the first variables that has a listed cell, a column for each last category."""
    *first, last = table.variables
    yield (*(v.name for v in first), *last.categories)
    for cell, counts in _named(first, table.crossed()):
        yield (*cell, *(WITHHELD_STATUS if count == NO_COUNT else count for count in counts))


def _named(variables: Sequence[Dimension], chunks: Iterable[tuple[Codes, Counts]]) -> Iterator[tuple[list[str], Any]]:
    """The categories of each cell, and its count or counts."""
    for codes, counts in chunks:
        for cell, count in zip(codes.tolist(), counts.tolist(), strict=True):
            yield [v.categories[code] for v, code in zip(variables, cell, strict=True)], count


def _require(table: CountTable) -> None:
    require_xml(table, "xlsx")
    if table.listed >= MAX_ROWS:
        raise ReleaseError(
            f"{table.name} has {table.listed} cells, and a sheet of Excel {MAX_ROWS} rows; publish without xlsx"
        )
    if table.records >= MAX_NUMBER:
        raise ReleaseError(f"{table.name} counts 10^15 records or more, and Excel 15 digits; publish without xlsx")
    if wrong := next((whose for whose, text in table.texts if _ESCAPE.search(text)), None):
        raise ReleaseError(
            f"{wrong} has a text that Excel reads as an escape, such as _x000D_; reword it, or publish without xlsx"
        )
    if wrong := next((whose for whose, text in table.texts if len(text.encode("utf-16-le")) > 2 * MAX_TEXT), None):
        raise ReleaseError(f"{wrong} has a text of more than {MAX_TEXT} characters, which no cell of Excel holds")
