"""Excel sheets, read like a text file with the same content; only in the child process, see `reader`.

The first row with a value has the column names. Whole numbers have no point, dates are in ISO 8601. Content that a text
file would lose or invent is refused with sheet and row. openpyxl is not used: it skips rows that are out of order, does
not report merged cells when it reads in blocks, and takes formulas without a stored value for empty cells.
"""

from __future__ import annotations

import posixpath
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from functools import cached_property, lru_cache, reduce
from itertools import chain
from typing import IO, Any, NamedTuple
from xml.etree.ElementTree import Element, iterparse
from xml.parsers.expat import ParserCreate

import pyarrow as pa

from sdc.data.child import FoundLayout, RecordFile
from sdc.data.statistical import whole_name
from sdc.model.errors import InputError, nearest

_BATCH, _BLOCK = 1 << 16, 1 << 18
_ROWS, _COLUMNS, _DIGITS = 1 << 20, 1 << 14, 15  # of a sheet, and of a number
_DATES = frozenset((*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)))  # formats that all files have
_PARTS = frozenset((*range(16, 22), *range(45, 48)))  # those of them that show a time, or two parts of a date
_NO_LETTERS = re.compile(r'"[^"]*"|\\.|_.|\[[^\]]*\]')  # the parts of a format without a meaning


def layout(part: RecordFile, sheet: str | None) -> FoundLayout:
    """The columns, all of them text."""
    with _opened(part, sheet) as found:
        return tuple((name, pa.string()) for name in found.names), (), None


def batches(
    part: RecordFile, columns: Sequence[str], sheet: str | None, span: range | None
) -> Iterator[pa.RecordBatch]:
    """The records, each value by its name."""
    with _opened(part, sheet) as found:
        places, values = [found.names.index(column) for column in columns], list[list[str | None]]()
        for row in chain(found.records(), [None]):
            if row is None or len(values) == _BATCH:
                own = zip(*values, strict=True) if values else ([] for _ in columns)
                yield pa.record_batch([pa.array(column, pa.string()) for column in own], names=list(columns))
                values.clear()
            if row is not None:
                values.append([found.named(row, place) for place in places])


class _SheetCell(NamedTuple):
    """The kind of a value in the file, the index of its style, and the value as written."""

    kind: str
    style: int
    text: str


class _Row(NamedTuple):
    number: int
    cells: dict[int, _SheetCell]


@dataclass(frozen=True)
class _Sheet:
    """A sheet with the shared texts, the styles of dates and whether they show whole ones, and the first day."""

    part: RecordFile
    archive: zipfile.ZipFile
    name: str
    path: str
    strings: dict[int, str]
    dates: Mapping[int, bool]
    begin: datetime

    def error_at(self, row: int, what: str) -> InputError:
        return InputError(f"{self.part}, sheet {self.name!r}, row {row}: {what}")

    @cached_property
    def header(self) -> _Row | None:
        return next((row for row in self.rows() if row.cells), None)

    @cached_property
    def names(self) -> list[str]:
        if self.header is None:
            raise InputError(f"{self.part}, sheet {self.name!r} is empty; give one with a header and records")
        return [self.named(self.header, place) or "" for place in range(max(self.header.cells) + 1)]

    def records(self) -> Iterator[_Row]:
        """The rows after the header; InputError for invalid ones."""
        same = [name.strip().casefold() for name in self.names]
        first = last = self.header.number if self.header else 0
        for row in self.rows():
            if row.number <= first or not row.cells:
                continue
            if row.number > last + 1:
                raise self.error_at(last + 1, f"the row is empty, and row {row.number} below is not; delete it")
            if (most := max(row.cells)) >= len(same):
                raise self.error_at(row.number, f"it has a value in column {_letters(most)}, which has no name")
            if most == 0 and len(same) > 2 and row.cells[0].kind in ("s", "str", "inlineStr"):
                what = "it has text only in its first column, as notes below the data have; delete it, or write"
                raise self.error_at(row.number, f"{what} what csv.missing names for values that are missing")
            if all((self.named(row, place) or "").strip().casefold() == name for place, name in enumerate(same)):
                raise self.error_at(row.number, "the row repeats the names of the columns; delete it")
            yield row
            last = row.number

    def rows(self) -> Iterator[_Row]:
        """The rows of the file, with their cells by column from 0."""
        reader, parser = _Reader(self), ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler, parser.EndElementHandler = reader.start, reader.end
        parser.CharacterDataHandler = reader.text
        with self.archive.open(self.path) as file:
            while content := file.read(_BLOCK):
                parser.Parse(content)
                yield from reader.ready
                reader.ready.clear()
            parser.Parse(b"", True)

    def named(self, row: _Row, place: int) -> str | None:
        """The name of the value; None if there is none."""
        if (cell := row.cells.get(place)) is None:
            return None
        if cell.kind == "s":
            return self.strings[int(cell.text)]
        if cell.kind == "b":
            return str(cell.text == "1")
        if cell.kind == "d":
            day = datetime.fromisoformat(cell.text.removesuffix("Z"))
        elif cell.kind != "n":
            return cell.text
        elif cell.style not in self.dates:
            number = float(cell.text)
            if abs(number) >= 10**_DIGITS:  # further digits may have become 0
                what = f"a number of more than {_DIGITS} digits, of which Excel keeps {_DIGITS}; store it as text"
                raise self.error_at(row.number, f"column {_letters(place)} has {what}")
            return whole_name(number)
        else:
            days = float(cell.text)
            # Excel has a 29 February 1900, day 60
            days += days < 60 and self.begin.year == 1899
            day = self.begin + timedelta(milliseconds=round(days * 86_400_000))
        if cell.kind == "n" and not self.dates[cell.style]:
            raise self.error_at(
                row.number, f"column {_letters(place)} shows a time or a part of a date; write it as text"
            )
        if day.time() != time.min or day <= self.begin + timedelta(self.begin.year == 1899):
            raise self.error_at(
                row.number, f"column {_letters(place)} has a time of day, which has no categories; write it as text"
            )
        return day.date().isoformat()


class _Reader:
    """Collects rows from the parser's events."""

    def __init__(self, sheet: _Sheet) -> None:
        self.sheet, self.ready, self.row, self.place = sheet, list[_Row](), _Row(0, {}), -1
        self.cell: dict[str, str] = {}
        self.value: str | None = None
        self.has_formula = self.is_value = self.is_phonetic = False

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        tag = tag[tag.find(":") + 1 :]
        if tag == "c":
            self.cell, self.value, self.has_formula = attributes, None, False
        elif tag in ("v", "t"):
            self.is_value = not self.is_phonetic
        elif tag == "rPh":
            self.is_phonetic = True
        elif tag == "f":
            self.has_formula = True
        elif tag == "row":
            number = int(attributes.get("r", self.row.number + 1))
            if number > _ROWS:
                raise self.sheet.error_at(number, f"a sheet has {_ROWS:,} at most; the file is corrupt")
            if number <= self.row.number:
                raise self.sheet.error_at(number, "the row occurs twice, or out of order; save the file again")
            self.row, self.place = _Row(number, {}), -1
        elif tag == "mergeCell":
            what = f"has merged cells, {attributes.get('ref')}; split them, and give each cell its value"
            raise InputError(f"{self.sheet.part}, sheet {self.sheet.name!r} {what}")

    def text(self, text: str) -> None:
        if self.is_value:
            self.value = (self.value or "") + text

    def end(self, tag: str) -> None:
        tag = tag[tag.find(":") + 1 :]
        if tag in ("v", "t"):
            self.is_value = False
        elif tag == "rPh":
            self.is_phonetic = False
        elif tag == "c":
            self._take(self.cell.get("t", "n"), self.cell.get("r"), self.value)
        elif tag == "row":
            self.ready.append(self.row)

    def _take(self, kind: str, there: str | None, text: str | None) -> None:
        place = self.place + 1 if there is None else _place(there.rstrip("0123456789"))
        if not self.place < place < _COLUMNS:
            what = "out of order" if place <= self.place else "beyond the last column XFD"
            raise self.sheet.error_at(self.row.number, f"its cells are {what}; save the file again")
        self.place = place
        if self.has_formula and not text and kind != "str":
            what = f"the formula in column {_letters(place)} has no stored value; open the file in Excel and save it"
            raise self.sheet.error_at(self.row.number, f"{what} again, or put values for formulas")
        if text and (kind != "s" or self.sheet.strings[int(text)]):
            self.row.cells[place] = _SheetCell(kind, int(self.cell.get("s", 0)), text)


@contextmanager
def _opened(part: RecordFile, sheet: str | None) -> Iterator[_Sheet]:
    """The sheet of this name, or the only one with cells; InputError if it is missing or ambiguous."""
    with part.opened() as source, _archive(part, source) as archive:
        sheets = list(_sheets(part, archive))
        found = [one for one in sheets if (one.name == sheet if sheet is not None else one.header)]
        if sheet is not None and not found:
            raise InputError(f"{part} has no sheet {sheet!r}; {nearest(sheet, [one.name for one in sheets])}")
        if len(found) != 1:
            named = ", ".join(repr(one.name) for one in found)
            what = f"the sheets {named}; name one of them as table.csv.sheet" if found else "no cells; give a table"
            raise InputError(f"{part} has {what}")
        yield found[0]


def _archive(part: RecordFile, source: Any) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(source)
    except zipfile.BadZipFile:
        what = "is no .xlsx file, or is protected by a password; save it as one, without a password"
        raise InputError(f"{part} {what}, or copy it again if it was cut short") from None


def _sheets(part: RecordFile, archive: zipfile.ZipFile) -> Iterator[_Sheet]:
    (book,) = (path for kind, path in _targets(archive, "").values() if kind == "officeDocument")
    targets, begin = _targets(archive, book), datetime(1899, 12, 30)
    others = dict(targets.values())
    strings, dates = dict[int, str](), dict[int, bool]()
    if path := others.get("sharedStrings"):
        with archive.open(path) as file:
            strings = dict(enumerate(map(_text, _elements(file, "si"))))
    if path := others.get("styles"):
        with archive.open(path) as file:
            dates = _dates(file)
    with archive.open(book) as file:
        for element in _elements(file, "sheet", "workbookPr"):
            if element.get("date1904") in ("1", "true"):
                begin = datetime(1904, 1, 1)
            if _local(element) == "sheet":
                kind, path = next(targets[value] for key, value in element.items() if key.endswith("}id"))
                if kind == "worksheet":
                    yield _Sheet(part, archive, element.get("name", ""), path, strings, dates, begin)


def _targets(archive: zipfile.ZipFile, path: str) -> dict[str, tuple[str, str]]:
    """Targets in a relationships file of the archive: kind and path by id."""
    folder, name = posixpath.split(path)
    found = {}
    with archive.open(posixpath.join(folder, "_rels", f"{name}.rels")) as file:
        for element in _elements(file, "Relationship"):
            target = posixpath.normpath(posixpath.join("/", folder, element.get("Target", "")))[1:]
            found[element.get("Id", "")] = element.get("Type", "").rpartition("/")[2], target
    return found


def _dates(file: IO[bytes]) -> dict[int, bool]:
    """The styles of dates, and whether they show day, month and year."""
    formats, styles = {number: number not in _PARTS for number in _DATES}, list[int]()
    for element in _elements(file, "numFmt", "cellXfs"):
        if _local(element) == "numFmt":
            shown, number = element.get("formatCode", "").split(";")[0].lower(), int(element.get("numFmtId", 0))
            signs = {*_NO_LETTERS.sub("", shown), *("h" if re.search(r"\[[hms]+\]", shown) else "")}
            formats.pop(number, None)
            if signs & {*"dmyhs"}:
                formats[number] = signs >= {*"dm"} and not signs.isdisjoint("ye")
        else:
            styles = [int(style.get("numFmtId", 0)) for style in element]
    return {place: formats[number] for place, number in enumerate(styles) if number in formats}


def _elements(file: IO[bytes], *names: str) -> Iterator[Element]:
    """Elements of these names; each is discarded when the next one is read."""
    parents: list[Element] = []
    for event, element in iterparse(file, ("start", "end")):
        if event == "start":
            parents.append(element)
            continue
        parents.pop()
        if _local(element) in names:
            yield element
            if parents:
                parents[-1].clear()


def _local(element: Element) -> str:
    return element.tag.rpartition("}")[2]


def _text(element: Element) -> str:
    runs = chain([element], (child for child in element if _local(child) == "r"))
    return "".join(child.text or "" for run in runs for child in run if _local(child) == "t")


@lru_cache(1 << 14)
def _place(letters: str) -> int:
    return reduce(lambda place, letter: 26 * place + ord(letter) - 64, letters, 0) - 1


def _letters(place: int) -> str:
    return (_letters(place // 26 - 1) if place >= 26 else "") + chr(65 + place % 26)
