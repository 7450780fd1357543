"""Read the cells of published tables in formats beside CSV and Parquet, without the writers' code."""

import csv
import json
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import product
from math import prod
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from zipfile import BadZipFile, ZipFile

from sdc import run_format as names
from sdc.verify.core.levels import check

Cell = tuple[str, ...]  # by names, totals included
Cells = dict[Cell, int | None]  # None if suppressed
SHEET, SHEET_NAME, STRUCTURE = "xl/worksheets/sheet{}.xml", 31, ".sdmx.json"
_XLSX = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_STATEMENT = re.compile(r'([A-Z][A-Z0-9-]*)(?:\("([^"]*)"\))?=\s*((?:"[^"]*"[\s,]*)*)[^;"]*;')
_TEXTS = re.compile(r'"[^"]*"(?:\s*"[^"]*")*')
_ROW = re.compile(r'((?:"[^"]*",\s*)+)([0-9]+|"\.\.")\s')


def read_cells(path: Path, format: str) -> tuple[list[str], Cells] | None:
    """The variables and cells of a file, with or without zeros; None if it has none.

    Raises ValueError if a cell occurs twice, or if the file has another format.
    """
    readers = {"json-stat": _json_stat, "px": _px, "xml": _xml, "sdmx-csv": _sdmx}
    if format not in readers or path.name.endswith(STRUCTURE):
        return None
    try:
        variables, rows = readers[format](path)
        return variables, _once(rows)
    except (ElementTree.ParseError, csv.Error) as error:
        raise ValueError(f"it cannot be read as {format}: {error}") from error


def read_sheets(path: Path, wide: Mapping[str, int]) -> dict[str, tuple[list[str], Cells]]:
    """The variables and cells of workbook sheets, by name: so many columns of variables, then the counts."""
    found = {}
    for name, (head, *rows) in sheets_of(path, wide).items():
        at = wide[name]
        # empty cells at the end of a row are not stored
        filled = ([*row, *[""] * (at + 1 - len(row))] for row in rows)
        found[name] = head[:at], _once((tuple(row[:at]), _number(row[at])) for row in filled)
    return found


def sheets_of(path: Path, wanted: Collection[str]) -> dict[str, list[list[str]]]:
    """The texts of each row of these sheets of a workbook, by name."""
    try:
        with ZipFile(path) as file:
            sheets = enumerate(ElementTree.fromstring(file.read("xl/workbook.xml")).iter(f"{_XLSX}sheet"), start=1)
            named = ((sheet.attrib["name"], number) for number, sheet in sheets)
            return {name: _sheet(file.read(SHEET.format(number))) for name, number in named if name in wanted}
    except (ElementTree.ParseError, BadZipFile, EOFError, zlib.error) as error:
        raise ValueError(f"it cannot be read as a workbook: {error}") from error


def check_formats(
    file_of: Callable[[str], Path],
    files: Iterable[Mapping[str, Any]],
    expected_tables: Mapping[str, tuple[list[str], Cells]],
) -> None:
    """Each table has the given cells in every format beside CSV and Parquet; tables are named by stem."""

    def require_same(found: tuple[list[str], Cells], stem: str, path: Path) -> None:
        (variables, cells), (own, expected) = found, expected_tables[stem]
        same = all(cells.get(cell, 0) == expected.get(cell, 0) for cell in cells.keys() | expected.keys())
        check(variables == own and same, f"{path} has other cells than the table has as CSV or Parquet")

    for file in files:
        path = file_of(file["path"])
        if path.name == names.WORKBOOK:
            sheets = {stem[:SHEET_NAME]: stem for stem in expected_tables}
            found = read_sheets(path, {sheet: len(expected_tables[stem][0]) for sheet, stem in sheets.items()})
            check(found.keys() == sheets.keys(), f"{path} has other sheets")
            for sheet, own in found.items():
                require_same(own, sheets[sheet], path)
        elif names.SUB_TABLE in file and (cells := read_cells(path, str(file["format"]))) is not None:
            require_same(cells, stem_of(file["path"]), path)


def stem_of(path: str) -> str:
    """The file name up to the first dot."""
    return path.split(".", 1)[0]


def totals_of(cell: Iterable[str], totals: bool) -> Iterator[Cell]:
    """The cell, and each listed total that contains it."""
    return product(*((category, names.TOTAL) if totals else (category,) for category in cell))


def _once(rows: Iterable[tuple[Cell, int | None]]) -> Cells:
    found = Cells()
    for cell, count in rows:
        check(cell not in found, "a cell is there twice")
        found[cell] = count
    return found


def _number(text: str) -> int | None:
    return None if text == "" else int(text)


def _json_stat(path: Path) -> tuple[list[str], Iterator[tuple[Cell, int | None]]]:
    content = json.loads(path.read_text(encoding="utf-8"))
    categories = [content["dimension"][v]["category"]["index"] for v in content["id"]]
    values, status = content["value"], content.get("status", {})
    check({*status.values()} <= {names.CONFIDENTIAL}, "it has a status other than that of suppressed cells")
    listed = dict(enumerate(values)) if isinstance(values, list) else {int(key): n for key, n in values.items()}
    check(all((n is None) == (str(place) in status) for place, n in listed.items()), "a suppressed cell has a value")
    listed |= dict.fromkeys(map(int, status))
    sizes = [*map(len, categories)]
    check(all(0 <= place < prod(sizes) for place in listed), "it numbers a cell that it has not")
    return content["id"], ((_cell(place, categories, sizes), n) for place, n in listed.items())


def _cell(place: int, categories: list[list[str]], sizes: list[int]) -> Cell:
    codes = []
    for size in reversed(sizes):
        place, code = divmod(place, size)
        codes.append(code)
    return tuple(own[code] for own, code in zip(categories, reversed(codes), strict=True))


def _px(path: Path) -> tuple[list[str], Iterator[tuple[Cell, int | None]]]:
    statements, data = px_statements(path)
    labels = [*statements.get(("STUB", ""), []), *statements.get(("HEADING", ""), [])]
    variables, codes = [statements["VARIABLECODE", of][0] for of in labels], [statements["CODES", of] for of in labels]
    body = data.rstrip().removesuffix(";")
    if any(keyword == "KEYS" for keyword, _ in statements):
        check(_ROW.sub("", f"{body} ").strip() == "", "it has other lines than cells")
        return variables, ((tuple(_texts(key)), _of_px(n)) for key, n in _ROW.findall(f"{body} "))
    numbers = body.split()
    check(len(numbers) == prod(map(len, codes)), "it has not a number for each cell")
    return variables, ((cell, _of_px(n)) for cell, n in zip(product(*codes), numbers, strict=True))


def px_statements(path: Path) -> tuple[dict[tuple[str, str], list[str]], str]:
    """The texts of each statement, by keyword and subject; and the data."""
    head, data = path.read_text(encoding="utf-8").split("\nDATA=\n", 1)
    return {(keyword, of): _texts(texts) for keyword, of, texts in _STATEMENT.findall(f"{head}\n")}, data


def _texts(listed: str) -> list[str]:
    return ["".join(re.findall(r'"([^"]*)"', text)) for text in _TEXTS.findall(listed)]


def _of_px(text: str) -> int | None:
    return None if text == names.WITHHELD_SYMBOL else int(text)


def _xml(path: Path) -> tuple[list[str], Iterator[tuple[Cell, int | None]]]:
    root = ElementTree.fromstring(path.read_bytes())
    variables = [variable.attrib["name"] for variable in root.iter("variable")]

    def rows() -> Iterator[tuple[Cell, int | None]]:
        for *categories, count in root.iter("cell"):
            check([one.attrib["variable"] for one in categories] == variables, "a cell is of other variables")
            is_suppressed = count.tag == names.WITHHELD_STATUS
            yield tuple(one.text or "" for one in categories), None if is_suppressed else int(count.text or "")

    return variables, rows()


def _sdmx(path: Path) -> tuple[list[str], Iterator[tuple[Cell, int | None]]]:
    structure = path.with_name(path.name.removesuffix(names.SDMX_CSV) + STRUCTURE)
    data = json.loads(structure.read_text(encoding="utf-8"))["data"]
    lists = {own["id"]: {code["id"]: sdmx_category(code) for code in own["codes"]} for own in data["codelists"]}
    concepts = {one["id"]: _annotation(one, "NAME", one["id"]) for one in data["conceptSchemes"][0]["concepts"]}
    dimensions = data["dataStructures"][0]["dataStructureComponents"]["dimensionList"]["dimensions"]
    of = [lists[d["localRepresentation"]["enumeration"].split(":")[-1].split("(")[0]] for d in dimensions]
    structure = data["dataStructures"][0]
    start = ["datastructure", f"{structure['agencyID']}:{structure['id']}({structure['version']})", "I"]
    with path.open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file, strict=True)
    check(all(row[:3] == start for row in rows), "a row is of another structure")
    own, status = len(dimensions), header[3 + len(dimensions) + 1 :]
    check(header[3:] == [*(d["id"] for d in dimensions), "OBS_VALUE", *status], "it has other columns")
    check(status in ([], ["CONF_STATUS"]), "it has other columns")
    check(all((row[-1] == "C") == (row[3 + own] == "") for row in rows) or not status, "a suppressed cell has a value")
    cells = ((tuple(codes[c] for codes, c in zip(of, row[3:], strict=False)), _number(row[3 + own])) for row in rows)
    return [concepts[d["id"]] for d in dimensions], cells


def sdmx_category(code: dict[str, Any]) -> str:
    return names.TOTAL if code["id"] == "_T" else _annotation(code, "CATEGORY", code["id"])


def as_it_was(text: str) -> str:
    """A category without the apostrophe that stops spreadsheets from running it."""
    return text[1:] if text.startswith("'") and names.is_formula(text) else text


def _annotation(expected_tables: dict[str, Any], kind: str, default: str) -> str:
    return next((str(one["title"]) for one in expected_tables.get("annotations", ()) if one["type"] == kind), default)


def _sheet(content: bytes) -> list[list[str]]:
    rows = []
    for row in ElementTree.fromstring(content).iter(f"{_XLSX}row"):
        texts: dict[int, str] = {}
        for cell in row.iter(f"{_XLSX}c"):
            letters = re.sub(r"[0-9]", "", cell.attrib["r"])
            place = sum((ord(letter) - 64) * 26**k for k, letter in enumerate(reversed(letters))) - 1
            texts[place] = "".join(part.text or "" for part in cell.iter() if part.tag in (f"{_XLSX}v", f"{_XLSX}t"))
        rows.append([_unescaped(texts.get(place, "")) for place in range(max(texts, default=-1) + 1)])
    return rows


def _unescaped(text: str) -> str:
    return re.sub("_x([0-9a-fA-F]{4})_", lambda sign: chr(int(sign[1], 16)), text)
