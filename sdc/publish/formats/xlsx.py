"""One Excel workbook: a description, a sheet for each table, and the categories of every variable."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, TypeAlias

from sdc.model.errors import ReleaseError
from sdc.model.extras import require_packages
from sdc.publish.formats.rows import Pieces
from sdc.publish.formats.table import NO_COUNT, CountTable
from sdc.publish.formats.xml import require_xml
from sdc.run_format import WITHHELD_STATUS

if TYPE_CHECKING:
    from xlsxwriter import Workbook
    from xlsxwriter.worksheet import Worksheet

Row: TypeAlias = Sequence[str | int | None]

MAX_ROWS, MAX_TEXT, MAX_NUMBER, MAX_SHEET_NAME = 1 << 20, 32767, 10**15, 31  # limits of an Excel sheet
MADE = datetime(1980, 1, 1)  # constant, so that equal tables give equal bytes

CONTENTS, DICTIONARY = "Contents", "Data dictionary"
OF_DICTIONARY = ("variable", "place", "category", "label", "variable_label", "unit", "note")

NOTE = "The number of an empty cell is withheld. Published totals limit it."

_ESCAPE = re.compile("_x[0-9a-fA-F]{4}_")


def xlsx(tables: Sequence[CountTable]) -> Pieces:
    """The workbook; ReleaseError if a table or text does not fit into a sheet. Texts are never formulas."""
    require_packages("xlsx", "xlsxwriter")
    for table in tables:
        _require(table)
    return _written(tables)


def _written(tables: Sequence[CountTable]) -> Pieces:
    # imported here: only some publications need it
    from xlsxwriter import Workbook

    with TemporaryFile() as file:
        book = Workbook(file, {"constant_memory": True, "use_zip64": True})
        book.set_properties({"created": MADE})
        _fill(book, CONTENTS, _contents(tables))
        for table in tables:
            sheet = _fill(book, table.name[:MAX_SHEET_NAME], _cells(table))
            if table.withheld is not None:
                sheet.write_comment(0, len(table.variables), NOTE, {"author": ""})
        _fill(book, DICTIONARY, _dictionary(tables))
        book.close()
        file.seek(0)
        yield from iter(partial(file.read, 1 << 20), b"")


def _fill(book: Workbook, name: str, rows: Iterable[Row]) -> Worksheet:
    sheet = book.add_worksheet(name)
    for number, row in enumerate(rows):
        for place, value in enumerate(row):
            if isinstance(value, int):
                sheet.write_number(number, place, value)
            elif value is not None:
                sheet.write_string(number, place, value)
    return sheet


def _contents(tables: Sequence[CountTable]) -> Iterator[Row]:
    yield ("sheet", "table", "cells", "records")
    yield from ((t.name[:MAX_SHEET_NAME], t.title, t.listed, t.records) for t in tables)
    for about in dict.fromkeys(table.about for table in tables):
        yield from ([text] for text in (*(f"{what}: {text}" for what, text in about.facts.items()), *about.notes))


def _cells(table: CountTable) -> Iterator[Row]:
    yield (*(v.name for v in table.variables), *table.columns)
    names, shown = [v.categories for v in table.variables], () if table.withheld is None else (None,)
    for codes, counts in table.chunks():
        for cell, count in zip(codes.tolist(), counts.tolist(), strict=True):
            texts = (None, WITHHELD_STATUS) if count == NO_COUNT else (count, *shown)
            yield (*(categories[code] for categories, code in zip(names, cell, strict=True)), *texts)


def _dictionary(tables: Sequence[CountTable]) -> Iterator[Row]:
    yield OF_DICTIONARY
    for variable in {v.name: v for table in tables for v in table.variables}.values():
        texts = (variable.label, variable.unit or "", variable.note or "")
        for place, category in enumerate(variable.categories):
            yield (variable.name, place + 1, category, variable.labels[place], *texts)


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
