"""Read the cells of published tables in formats beside CSV and Parquet, without the writers' code."""

import csv
import json
import re
import zlib
from collections import namedtuple
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import product
from math import prod
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from zipfile import BadZipFile, ZipFile

from sdc import run_format as names
from sdc.verify.core.levels import check
from sdc.verify.published.pxapi import is_of_api

Cell = tuple[str, ...]  # by names, totals included
Cells = dict[Cell, int | None]  # None if suppressed
SHEET, SHEET_NAME = "xl/worksheets/sheet{}.xml", 31
STRUCTURES = (names.SDMX_STRUCTURE, names.SDMX_JSON)
_MOST_BYTES = 1 << 30  # of an unpacked part of a workbook
_MOST_COLUMNS, _HEAD_ROWS = 1 << 14, 10  # of a sheet, and rows that may be the widest
_XLSX = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_PART = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
_STR, _COM = (f"{{http://www.sdmx.org/resources/sdmxml/schemas/v2_1/{of}}}" for of in ("structure", "common"))
# the id in the data; the dimensions; titles; facts and notes
SdmxStructure = namedtuple("SdmxStructure", "id dimensions titles about")
# codes: (code, category, label) of each
SdmxDimension = namedtuple("SdmxDimension", "id name label note unit codes")
_STATEMENT = re.compile(r'([A-Z][A-Z0-9-]*)(?:\("([^"]*)"\))?=\s*((?:"[^"]*"[\s,]*)*)[^;"]*;')
_FIXED = {
    "CHARSET": '"ANSI"',
    "AXIS-VERSION": '"2013"',
    "CODEPAGE": '"utf-8"',
    "DECIMALS": "0",
    "SHOWDECIMALS": "0",
    "UNITS": '"records"',
    "KEYS": "CODES",
    "DATASYMBOL2": f'"{names.WITHHELD_STATUS}"',
}
_OTHERS = "MATRIX SUBJECT-CODE SUBJECT-AREA TITLE CONTENTS STUB HEADING VALUES CODES VARIABLECODE"
_OTHERS += " ELIMINATION SOURCE CONTACT REFPERIOD NOTE"
_KEYWORDS = {*_FIXED, *_OTHERS.split()}
_SHEET_PARTS = {"dimension", "sheetViews", "sheetFormatPr", "sheetData", "pageMargins"}
_BOOK_PARTS = {"fileVersion", "workbookPr", "bookViews", "sheets", "calcPr"}
_OF_BOOK = r"\[Content_Types\]\.xml|_rels/\.rels|docProps/(app|core)\.xml"
_OF_BOOK += r"|xl/(_rels/workbook\.xml\.rels|(workbook|styles|theme/theme1|worksheets/sheet[0-9]+)\.xml)"
_PROPERTIES = {"creator", "lastModifiedBy", "created", "modified"}
_PLAIN_PROPERTY = re.compile("[0-9TZ:.-]*|false|Microsoft Excel|Worksheets")
_MEASURES = {"OBS_VALUE": "Number of records", "CONF_STATUS": "Confidentiality status"}
_CONFIDENTIAL = "Confidential statistical information: the count is withheld"
_MARKS = {f"{_CONFIDENTIAL}; published totals limit it", "Free (free for publication)"}
_MARKS |= {f"{_CONFIDENTIAL}, and may be any, 0 too"}  # version 0.1
_TEXTS = re.compile(r'"[^"]*"(?:\s*"[^"]*")*')
_ROW = re.compile(r'((?:"[^"]*",\s*)+)([0-9]+|"\.\.")\s')


def read_cells(path: Path, format: str) -> tuple[list[str], Cells] | None:
    """The variables and cells of a file, with or without zeros; None if it has none.

    Raises ValueError if a cell occurs twice, or if the file has another format.
    """
    readers = {"json-stat": _json_stat, "px": _px, "xml": _xml, "sdmx-csv": _sdmx}
    if format not in readers or path.name.endswith(STRUCTURES):
        return None
    try:
        variables, rows = readers[format](path)
        return variables, _once(rows)
    except (ElementTree.ParseError, csv.Error) as error:
        raise ValueError(f"it cannot be read as {format}: {error}") from error


def listed_in(rows: list[list[str]], at: int) -> tuple[list[str], Cells]:
    """The variables and cells of a sheet: so many columns of variables, then the counts."""
    head, *rest = rows
    # empty cells at the end of a row are not stored
    filled = ([*row, *[""] * (at + 1 - len(row))] for row in rest)
    return head[:at], _once((tuple(row[:at]), _number(row[at])) for row in filled)


def _check_columns(name: str, rows: list[list[str]], at: int) -> None:
    """A sheet has variables, counts, and a mark of each suppressed one, and nothing beside or below these."""
    head, *rest = rows
    status = head[at + 1 :]
    check(head[at] == names.COUNT or head[at].startswith(names.ROUNDED_COUNT), f"{name} has no counts")
    is_narrow = status in ([], [names.STATUS]) and all(len(row) <= len(head) for row in rest)
    check(is_narrow, f"{name} has other columns")
    marks = (row[at:] == ["", names.WITHHELD_STATUS] or len(row) == at + 1 for row in rest)
    check(not status or all(marks), f"{name} has other marks than of suppressed cells")


def _uncrossed(rows: list[list[str]], variables: list[str]) -> tuple[list[str], Cells]:
    """The cells of a cross table, whose columns are the categories of the last variable."""
    first = len(variables) - 1
    (head, *rest), listed = rows, []
    check(all(len(row) == len(head) for row in rest), "a row of a cross table has not all counts")
    for row in rest:
        counts = (None if text == names.WITHHELD_STATUS else int(text) for text in row[first:])
        listed += [((*row[:first], column), n) for column, n in zip(head[first:], counts, strict=True)]
    return [*head[:first], *variables[first:]], _once(listed)


def sheets_of(path: Path, wanted: Collection[str], other: Collection[str] = ()) -> dict[str, list[list[str]]]:
    """The texts of each row of these sheets of a workbook, by name; where others are named, there are no more."""
    try:
        with ZipFile(path) as file:
            _check_sizes(file)
            parts = ElementTree.fromstring(file.read("xl/_rels/workbook.xml.rels"))
            targets = {one.attrib["Id"]: f"xl/{one.attrib['Target']}" for one in parts}
            sheets = enumerate(ElementTree.fromstring(file.read("xl/workbook.xml")).iter(f"{_XLSX}sheet"), start=1)
            named = {sheet.attrib["name"]: (number, sheet.attrib) for number, sheet in sheets}
            for name, (number, about) in named.items():
                is_own = len(about) == 3 and targets.get(about.get(_PART, "")) == SHEET.format(number)
                check(is_own, f"its sheet {name} is hidden, or another than readers see")
            check(not other or named.keys() <= {*wanted, *other}, "it has more sheets than tables")
            chosen = {name: number for name, (number, _) in named.items() if name in wanted}
            return {name: _sheet(file.read(SHEET.format(number))) for name, number in chosen.items()}
    except (ElementTree.ParseError, BadZipFile, EOFError, zlib.error) as error:
        raise ValueError(f"it cannot be read as a workbook: {error}") from error


def _check_sizes(file: ZipFile) -> None:
    is_small = all(one.file_size <= _MOST_BYTES for one in file.infolist())
    check(is_small, "a part of it takes more than 1 GiB; no sheet that is published does")


def check_book(path: Path) -> None:
    """A workbook has no parts, properties or formats that show more than its sheets."""
    with ZipFile(path) as file:
        _check_sizes(file)
        core, app, styles, book = (
            ElementTree.fromstring(file.read(name))
            for name in ("docProps/core.xml", "docProps/app.xml", "xl/styles.xml", "xl/workbook.xml")
        )
        listed = file.namelist()
        is_plain = not any(b"<!" in file.read(name) for name in {*listed})
    sheets = {one.get("name") for one in book.iter(f"{_XLSX}sheet")}
    texts = (one.text or "" for one in (*core.iter(), *app.iter()))
    is_plain = is_plain and {one.tag.removeprefix(_XLSX) for one in book} <= _BOOK_PARTS
    is_plain = is_plain and len({*listed}) == len(listed) and all(re.fullmatch(_OF_BOOK, name) for name in listed)
    is_plain = is_plain and {one.tag.rpartition("}")[2] for one in core} <= _PROPERTIES
    is_plain = is_plain and all(text in sheets or _PLAIN_PROPERTY.fullmatch(text) for text in texts)
    is_plain = is_plain and {one.get("numFmtId", "0") for one in styles.iter()} == {"0"}
    is_plain = is_plain and all({*one.attrib} <= {"theme"} for one in styles.iter(f"{_XLSX}color"))
    check(is_plain, f"{path} has more than sheets")


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
            lists = {stem[:SHEET_NAME]: stem for stem in expected_tables}
            crossed = {names.cross_sheet(stem): stem for stem in expected_tables}
            found = sheets_of(path, {*lists, *crossed}, names.SHEETS)
            check(lists.keys() <= found.keys(), f"{path} has other sheets")
            for sheet, rows in found.items():
                stem = {**crossed, **lists}[sheet]
                own = expected_tables[stem][0]
                require_same(listed_in(rows, len(own)) if sheet in lists else _uncrossed(rows, own), stem, path)
            for sheet, stem in lists.items():
                _check_columns(sheet, found[sheet], len(expected_tables[stem][0]))
        elif is_of_api(file) and path.name == names.PX_DATA:
            stem = json.loads(path.read_text(encoding="utf-8"))["extension"]["px"]["matrix"]
            check(stem in expected_tables, f"{path} is of no table that is there as CSV or Parquet")
            variables, listed = _json_stat(path)
            require_same((variables, _once(listed)), stem, path)
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
    variables = variables_of(content)
    categories = [[*content["dimension"][v]["category"]["index"]] for v in variables]
    values, status = content["value"], content.get("status", {})
    check({*status.values()} <= {names.CONFIDENTIAL}, "it has a status other than that of suppressed cells")
    listed = dict(enumerate(values)) if isinstance(values, list) else {int(key): n for key, n in values.items()}
    check(all((n is None) == (str(place) in status) for place, n in listed.items()), "a suppressed cell has a value")
    listed |= dict.fromkeys(map(int, status))
    sizes = [*map(len, categories)]
    check(all(0 <= place < prod(sizes) for place in listed), "it numbers a cell that it has not")
    return variables, ((_cell(place, categories, sizes), n) for place, n in listed.items())


def variables_of(content: Mapping[str, Any]) -> list[str]:
    """The dimensions of a dataset of JSON-stat that are variables, not contents or time."""
    roles = {v for own in content.get("role", {}).values() for v in own}
    for v, size in zip(content["id"], content["size"], strict=True):
        index = content["dimension"][v]["category"]["index"]
        in_order = not isinstance(index, dict) or [*index.values()] == [*range(len(index))]
        check(size == len(index) and in_order, f"the categories of {v} are not numbered in their order")
        check(v not in roles or size == 1, f"{v} has more than one category")
    return [v for v in content["id"] if v not in roles]


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
    found = {(one[1], one[2] or ""): one for one in _STATEMENT.finditer(head)}
    # readers differ in which of two statements they take
    is_whole = not _STATEMENT.sub("", head).strip() and len(found) == len(_STATEMENT.findall(head))
    check(is_whole and {keyword for keyword, _ in found} <= _KEYWORDS, "it has a statement twice, or an unknown one")
    ends = {key: one.end(1) if one[2] is None else one.end(2) + 2 for key, one in found.items()}
    values = {key: head[ends[key] + 1 : one.end() - 1].strip() for key, one in found.items()}
    check(all(values[key] == _FIXED.get(key[0], values[key]) for key in found), "it has other units or decimals")
    statements = {key: _texts(one[3]) for key, one in found.items()}
    for (keyword, label), value in values.items():
        last = statements["VALUES", label][-1:] if names.TOTAL in statements.get(("CODES", label), ()) else []
        is_sum = statements[keyword, label] == last and (last or value == "YES")
        check(keyword != "ELIMINATION" or bool(is_sum), f"it takes another category of {label} for the total")
    return statements, data


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
    stem = path.name.removesuffix(names.SDMX_CSV)
    own = next(found for end in STRUCTURES if (found := path.with_name(stem + end)).exists() or end == STRUCTURES[-1])
    structure = read_structure(own)
    of = [{code: category for code, category, _ in one.codes} for one in structure.dimensions]
    with path.open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file, strict=True)
    check(all(row[:3] == ["datastructure", structure.id, "I"] for row in rows), "a row is of another structure")
    at = 3 + len(of)
    status = header[at + 1 :]
    check(header[3:] == [*(one.id for one in structure.dimensions), "OBS_VALUE", *status], "it has other columns")
    check(status in ([], ["CONF_STATUS"]), "it has other columns")
    check(all((row[-1] == "C") == (row[at] == "") for row in rows) or not status, "a suppressed cell has a value")
    cells = ((tuple(codes[c] for codes, c in zip(of, row[3:], strict=False)), _number(row[at])) for row in rows)
    return [one.name for one in structure.dimensions], cells


def read_structure(path: Path) -> SdmxStructure:
    """An SDMX structure, as SDMX-ML or, where an older version of sdc wrote it, as SDMX-JSON."""
    if path.name.endswith(names.SDMX_JSON):
        return _sdmx_json(json.loads(path.read_text(encoding="utf-8"))["data"])
    root = ElementTree.fromstring(path.read_bytes())
    lists = {one.attrib["id"]: one for one in root.iter(f"{_STR}Codelist")}
    (scheme,), (structure,) = (
        root.iter(f"{_STR}ConceptScheme"),
        root.iter(f"{_STR}DataStructure"),
    )
    concepts = {one.attrib["id"]: one for one in scheme.iter(f"{_STR}Concept")}
    dimensions = []
    for one in structure.iter(f"{_STR}Dimension"):
        (about,) = one.iter(f"{_STR}ConceptIdentity")
        (enumeration,) = one.iter(f"{_STR}Enumeration")
        concept, listed = concepts[about[0].attrib["id"]], lists[enumeration[0].attrib["id"]]
        check(_text(concept) == _text(listed), f"{one.attrib['id']} has two names")
        codes = [
            (key, names.TOTAL if key == "_T" else _text(code, "Description", key), _text(code))
            for code in listed.iter(f"{_STR}Code")
            for key in [code.attrib["id"]]
        ]
        texts = dict(_annotations(concept))
        name = texts.get("NAME", one.attrib["id"])
        dimensions.append(
            SdmxDimension(one.attrib["id"], name, _text(concept), texts.get("NOTE"), texts.get("UNIT"), codes)
        )
    of = {one.id for one in dimensions}
    own = (f"CL_{scheme.attrib['id']}_{name}" for name in of)
    marks = [_text(code) for key in lists.keys() - {*own} for code in lists[key].iter(f"{_STR}Code")]
    _check_measures({key: _text(concept) for key, concept in concepts.items() if key not in of}, marks)
    key = "{agencyID}:{id}({version})".format(**structure.attrib)
    notes = [text for _, text in _annotations(structure)]
    return SdmxStructure(key, dimensions, [_text(scheme), _text(structure)], notes)


def _check_measures(found: Mapping[str, str], marks: Iterable[str]) -> None:
    check(found.items() <= _MEASURES.items() and {*marks} <= _MARKS, "its measure or its marks have other names")


def _annotations(item: ElementTree.Element) -> Iterator[tuple[str, str]]:
    for one in item.iterfind(f"{_COM}Annotations/{_COM}Annotation"):
        yield _text(one, "AnnotationType"), _text(one, "AnnotationTitle")


def _text(item: ElementTree.Element, tag: str = "Name", default: str = "") -> str:
    found = item.find(f"{_COM}{tag}")
    return default if found is None else found.text or ""


def _sdmx_json(data: dict[str, Any]) -> SdmxStructure:
    lists, (scheme,), (structure,) = data["codelists"], data["conceptSchemes"], data["dataStructures"]
    dimensions = []
    for one, listed in zip(structure["dataStructureComponents"]["dimensionList"]["dimensions"], lists, strict=False):
        (concept,) = (own for own in scheme["concepts"] if own["id"] == one["id"])
        check(concept["name"] == listed["name"], f"{one['id']} has two names")
        check(f":{listed['id']}(" in one["localRepresentation"]["enumeration"], f"{one['id']} has another list")
        codes = [
            (key, names.TOTAL if key == "_T" else _of_json(code).get("CATEGORY", key), code["name"])
            for code in listed["codes"]
            for key in [code["id"]]
        ]
        texts = _of_json(concept)
        name = texts.get("NAME", one["id"])
        dimensions.append(SdmxDimension(one["id"], name, concept["name"], texts.get("NOTE"), texts.get("UNIT"), codes))
    of = {one.id for one in dimensions}
    marks = [code["name"] for listed in lists[len(of) :] for code in listed["codes"]]
    _check_measures({one["id"]: one["name"] for one in scheme["concepts"] if one["id"] not in of}, marks)
    key = "{agencyID}:{id}({version})".format(**structure)
    notes = [one["title"] for one in structure.get("annotations", ())]
    return SdmxStructure(key, dimensions, [scheme["name"], structure["name"]], notes)


def _of_json(item: dict[str, Any]) -> dict[str, str]:
    return {one["type"]: one["title"] for one in item.get("annotations", ())}


def _sheet(content: bytes) -> list[list[str]]:
    rows, root = list[list[str]](), ElementTree.fromstring(content)
    check({one.tag.removeprefix(_XLSX) for one in root} <= _SHEET_PARTS, "a sheet has more than cells")
    for row in root.iter(f"{_XLSX}row"):
        texts: dict[int, str] = {}
        # the first rows name all columns: a forged address takes no memory
        most = _MOST_COLUMNS if len(rows) < _HEAD_ROWS else max(map(len, rows[:_HEAD_ROWS]))
        check(row.find(f".//{_XLSX}f") is None and not row.get("hidden"), "a sheet has formulas or hidden rows")
        for cell in row.iter(f"{_XLSX}c"):
            letters = re.sub(r"[0-9]", "", cell.attrib["r"])
            check(re.fullmatch("[A-Z]{1,3}", letters) is not None, "a sheet has a cell outside of all columns")
            place = sum((ord(letter) - 64) * 26**k for k, letter in enumerate(reversed(letters))) - 1
            check(place < most, "a sheet has a cell beside its columns")
            texts[place] = "".join(part.text or "" for part in cell.iter() if part.tag in (f"{_XLSX}v", f"{_XLSX}t"))
        rows.append([_unescaped(texts.get(place, "")) for place in range(max(texts, default=-1) + 1)])
    return rows


def _unescaped(text: str) -> str:
    return re.sub("_x([0-9a-fA-F]{4})_", lambda sign: chr(int(sign[1], 16)), text)
