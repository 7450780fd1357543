"""Read labels, titles and texts of published files and compare them with the config, without the writers' code."""

import csv
import hashlib
import json
import re
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import quote, unquote
from xml.etree import ElementTree

import pyarrow.parquet as pq

from sdc import run_format as names
from sdc.verify.core.levels import check
from sdc.verify.published.formats import check_book, px_statements, read_structure, sheets_of, stem_of, variables_of
from sdc.verify.published.pxapi import ApiTable, check_api

# title or titles; facts and notes; label, note, unit and category labels of each variable
Texts = namedtuple("Texts", "titles about variables")
_FACTS, _KIND = ("population", "period"), re.compile("(Population|Reference period|Source|Licence|Contact): ")
_NO_VALUE = re.compile("Cells that have no value( and no status)? have no records.")
_ROUNDED = "Counts are rounded to multiples of {}, such that cells add up to margins that are rounded too; they "
_NUMBER = re.compile(r"\d[\d,]*")
_OF_CSVW = {"@context", "url", "dialect", "tableSchema", "rdfs:comment"}
_OF_CSVW |= {f"dc:{key}" for key in ("title", "temporal", "source", "license", "publisher", "description")}
_OF_COLUMN = {"name", "titles", "datatype", "null", "dc:title", "dc:description", "qb:codeList", "schema:unitText"}
_OF_COLUMN |= {"required"}
_OF_XML = {"table": {"title", "records"}, "variable": {"name", "label", "note", "unit"}}
_OF_XML |= {"category": {"variable", "label"}}
_ANNOTATED = "}Concept", "}DataStructure"
_OF_METADATA = "profile format name title description records weighted zeros totals resources code_lists levels"
_OF_METADATA += " population period published sources licenses contributors notes"
_OF_RESOURCE = "name path format bytes size hash sub_table in_part schema"
_OF_FIELD = "name type constraints title description unit categories"
_OF_DATASET = {"version", "class", "label", "id", "size", "dimension", "source", "extension", "note", "value", "status"}
_OF_DIMENSION = {"label", "category", "note", "extension"}
_MARKS = {"label": {names.CONFIDENTIAL: names.WITHHELD_STATUS}}
_WORDS = {"@type", "@context", "conformsTo", "encodingFormat", "dcat:mediaType", "spdx:algorithm", "dataType", "about"}
_VOCABULARY = "CreativeWork Dataset File Organization sc:Dataset sc:Organization sc:Integer sc:Text SHA256 ./"
_VOCABULARY += (
    " cr:FileObject cr:Field cr:RecordSet dcat:Catalog dcat:Dataset dcat:Distribution foaf:Agent spdx:Checksum"
)
_VOCABULARY += (
    " text/csv text/plain application/csvm+json application/json application/vnd.apache.parquet application/x-parquet"
)
_VOCABULARY += " application/vnd.openxmlformats-officedocument.spreadsheetml.sheet application/vnd.sdmx.data+csv"
_VOCABULARY += " application/vnd.sdmx.structure+json application/vnd.sdmx.structure+xml;version=2.1 application/xml"
_VOCABULARY += " http://mlcommons.org/croissant/1.0 https://w3id.org/ro/crate/1.1 https://w3id.org/ro/crate/1.1/context"
_CONTEXTS = {
    "01ee18715e1092b5f53144334d44c15b0b4ca3b17fbebfcfdd005e152de93480",
    "47a15acd07ae86e057715da261b70093a1c1172f608b62a80514fb1212cff447",
}


def texts_in(config: Mapping[str, Any], categories: Mapping[str, Iterable[str]]) -> Texts:
    """The texts of a config for a table with these categories."""
    about, labels = config.get("publication") or {}, (config.get("labels") or {}).get("variables") or {}
    facts = [about.get(what) for what in (*_FACTS, "source", "licence", "contact")]
    variables = dict[str, Any]()
    for v, own in categories.items():
        label, note, unit, called = (labels.get(v, {}).get(key) for key in ("label", "note", "unit", "categories"))
        variables[v] = _texts_of(v, label, note, unit, ((c, (called or {}).get(c)) for c in own))
    return Texts([about.get("title") or config["name"]], [*filter(None, [*facts, *about.get("notes", ())])], variables)


def texts_by(metadata: Mapping[str, Any]) -> Texts:
    """The texts in the metadata of a release; ValueError if two entries of a variable differ."""
    listed = [one for key in ("sources", "licenses", "contributors") for one in metadata.get(key, ())]
    facts = [*map(metadata.get, _FACTS), *(one.get("path") or one.get("title") or one["name"] for one in listed)]
    variables = dict[str, Any]()
    files = metadata["resources"]
    fields = ((field, file["format"]) for file in files for field in file.get("schema", {}).get("fields", ()))
    for one, format in fields:
        if "constraints" in one:
            as_it_is = names.out_of_csv if format == "csv" else str
            called = {as_it_is(category["value"]): category["label"] for category in one.get("categories", ())}
            own = ((c, called.get(c)) for c in names.categories_of(one, format))
            texts = _texts_of(one["name"], one.get("title"), one.get("description"), one.get("unit"), own)
            check(variables.setdefault(one["name"], texts) == texts, f"it describes {one['name']} in two ways")
    return Texts([metadata["title"]], [*filter(None, [*facts, *metadata.get("notes", ())])], variables)


def _texts_of(name: str, label: Any, note: Any, unit: Any, called: Iterable[tuple[str, Any]]) -> tuple[Any, ...]:
    named = [(c, c if text is None else text) for c, text in called]
    return name if label is None else label, ", ".join(filter(None, (note, unit))), named


def check_texts(file_of: Callable[[str], Path], metadata: Mapping[str, Any], own: Texts) -> None:
    """Every file has the texts of its table, or of all tables, and no more; the dictionary may have levels too."""
    fields = [field for one in metadata["resources"] for field in one.get("schema", {}).get("fields", ())]
    for what, kinds in (([metadata], _OF_METADATA), (metadata["resources"], _OF_RESOURCE), (fields, _OF_FIELD)):
        unknown = {key for one in what for key in one}.difference(kinds.split())
        check(not unknown, f"{names.METADATA} has {min(unknown, default='')!r}, a key that no release has")
    are_plain = all(one.keys() <= {"name", "type"} for one in fields if "constraints" not in one)
    check(are_plain, f"{names.METADATA} describes counts otherwise")
    more = [(names.TOTAL, names.TOTAL)] if metadata.get(names.TOTALS) else []
    listed = {v: (label, note, [*called, *more]) for v, (label, note, called) in own.variables.items()}
    titles, notes, of_tables = dict[str, str](), _plain(own.about), dict[tuple[str, ...], ApiTable]()
    for file in (one for one in metadata["resources"] if names.SUB_TABLE in one):
        base, path = file.get(names.IN_PART, {}).get(names.ROUNDED_TO), file["path"]
        of_all, also = own.titles[0], {f"{_ROUNDED.format(base)}are not exact."} if base else set[str]()
        title = f"{of_all}: {', '.join(listed[v][0] for v in file[names.SUB_TABLE])}"
        titles[stem_of(path)] = title + (f" (counts rounded to multiples of {base})" if base else "")
        notes |= also
        variables = {v: listed[v] for v in file[names.SUB_TABLE]}
        of_tables[(*file[names.SUB_TABLE],)] = ApiTable(titles[stem_of(path)], _plain(own.about) | also, variables)
        if file["format"] == "parquet":
            schema = pq.read_schema(file_of(path))
            check(
                not schema.metadata and not any(one.metadata for one in schema), f"{path} has texts beside its columns"
            )
        if (reader := _READERS.get(file["format"])) is not None and not path.endswith(names.SDMX_CSV):
            found = reader(file_of(path))
            _check_shape(file_of(path), file, base)
            expected = {titles[stem_of(path)]}, _plain(own.about) | also, variables
            same = ({*found.titles}, _plain(found.about), found.variables) == expected
            check(same, f"{path} has other labels, titles or texts than the config")
    check_api(file_of, metadata, of_tables, _json_stat, _plain)
    with file_of(names.DICTIONARY).open(encoding="utf-8", newline="") as file:
        _check_dictionary([*csv.reader(file, strict=True)], own.variables, metadata, names.in_csv)
    if any(one["path"] == names.WORKBOOK for one in metadata["resources"]):
        sheets = sheets_of(file_of(names.WORKBOOK), names.SHEETS)
        check_book(file_of(names.WORKBOOK))
        rows = sheets["Contents"][1:]
        is_narrow = all(len(row) <= len(sheets["Contents"][0]) <= 5 for row in rows)
        check(is_narrow, f"{names.WORKBOOK} has other columns in its contents")
        same = [row[1] for row in rows if len(row) > 1] == [*titles.values()]
        same = same and _plain(row[0] for row in rows if len(row) == 1) == notes
        check(same, f"{names.WORKBOOK} has other titles or texts than the config")
        shown = {v: listed[v] for v in texts_by(metadata).variables}
        _check_dictionary(sheets["Data dictionary"], shown, metadata, str)
    lines = file_of(names.GUIDE).read_text(encoding="utf-8").splitlines()
    statements = {*lines, *(_KIND.sub("", line, count=1) for line in lines)}
    # what the description says of suppressed and rounded tables, and no other number
    of_parts = str(metadata.get("description", "")).partition(". ")[2]
    numbers = numbers_in(value for key, value in metadata.items() if key != "resources")
    of_lines = numbers_in(line.replace("PxWebApi 2", "").replace(names.PX_API, "") for line in lines[1:])
    same = "weighted" in metadata or (of_parts in " ".join(lines) and of_lines <= numbers)
    check(same, f"{names.GUIDE} says other things of the tables than {names.METADATA}")
    same = lines[0].startswith(f"{own.titles[0]}: {len(titles)} ") and {*own.about} <= statements
    check(same, f"{names.GUIDE} has another title or other texts than the config")
    for name in names.CATALOGUES:
        _check_catalogue(json.loads(file_of(name).read_text(encoding="utf-8")), metadata, name)


def numbers_in(some: Iterable[Any]) -> set[str]:
    """All numbers in some texts, without commas."""
    return {number.replace(",", "") for one in some for number in _NUMBER.findall(str(one))}


def _check_shape(path: Path, file: Mapping[str, Any], base: int | None) -> None:
    """A file has no more than what is compared: no other columns, notes or keys, which readers might see."""
    if file["format"] == "px":
        statements, name = px_statements(path)[0], [stem_of(path.name)[:20]]
        contents = "Records" if base is None else f"Records, rounded to {base}"
        same = statements["CONTENTS", ""] == [contents] and statements["MATRIX", ""] == name
        check(same and statements["SUBJECT-CODE", ""] == name, f"{path} has other contents")
    elif path.suffix == ".xml":
        text = path.read_text(encoding="utf-8")
        root, is_sdmx = ElementTree.fromstring(text.encode()), path.name.endswith(names.SDMX_STRUCTURE)
        is_plain = text.count("<?") == 1 and "<!" not in text
        for one in root.iter():
            texts = [one.text if len(one) else "", one.tail]
            tags = [child.tag.rpartition("}")[2] for child in one]
            named = all(tags.count(tag) < 2 for tag in ("Name", "Description", "Annotations"))
            of_sdmx = named and ("Annotations" not in tags or one.tag.endswith(_ANNOTATED))
            is_own = of_sdmx if is_sdmx else {*one.keys()} <= _OF_XML.get(one.tag, set[str]())
            is_plain = is_plain and is_own and not "".join(filter(None, texts)).strip()
        check(is_plain, f"{path} has more than a table")
    elif file["format"] == "csvw":
        content = json.loads(path.read_text(encoding="utf-8"))
        columns, called = content["tableSchema"]["columns"], path.name.removesuffix("-metadata.json")
        same = content.keys() <= _OF_CSVW and all(one.keys() <= _OF_COLUMN for one in columns)
        same = (
            same and content["dialect"]["delimiter"] == "," and all(one.get("null", []) in ([], "") for one in columns)
        )
        measures = [one["titles"] for one in columns if "qb:codeList" not in one]
        own = [names.COUNT if base is None else f"{names.ROUNDED_COUNT}{base}"]
        own += [names.STATUS] if names.WITHHELD_STATUS in file.get(names.IN_PART, {}) else []
        same = same and content["url"] == called and measures == [[name] for name in own]
        check(same, f"{path} describes another table than {called}")
    elif file["format"] == "json-stat":
        content = json.loads(path.read_text(encoding="utf-8"))
        of_variables = content["dimension"].values()
        same = content.keys() <= _OF_DATASET and "px" not in content.get("extension", {})
        same = same and all(one.keys() <= _OF_DIMENSION for one in of_variables)
        same = same and all(one["category"].keys() == {"index", "label"} for one in of_variables)
        extension, measure = content.get("extension", {}), base and f"{names.ROUNDED_COUNT}{base}"
        same = same and extension.get("status", _MARKS) == _MARKS and extension.get("measure") == measure
        check(same, f"{path} has more than labels and counts")


def _plain(about: Iterable[str]) -> set[str]:
    parts = (part for text in about for part in _KIND.sub("", text, count=1).split(" # "))
    return {_KIND.sub("", part, count=1) for part in parts if not _NO_VALUE.fullmatch(part)}


def _check_dictionary(
    rows: list[list[str]], own: Mapping[str, Any], metadata: Mapping[str, Any], written: Callable[[str], str]
) -> None:
    found = dict[str, Any]()
    is_narrow = tuple(rows[0]) == names.OF_DICTIONARY and all(len(row) <= len(rows[0]) for row in rows)
    check(is_narrow, "the data dictionary has other columns")
    for v, place, category, called, label, unit, note in ([*row, "", ""][:7] for row in rows[1:]):
        texts = found.setdefault(v, (label, ", ".join(filter(None, (note, unit))), []))
        check(int(place) == len(texts[2]) + 1 and texts[0] == label, f"the data dictionary lists {v} otherwise")
        texts[2].append((category, called))
    expected = {
        written(v): (written(label), note, [(written(c), written(text)) for c, text in called])
        for v, (label, note, called) in own.items()
    }
    levels = {one["variable"] for one in metadata.get(names.LEVELS, ())}
    same = {**found, **expected} == found and found.keys() - expected.keys() <= levels
    check(same, "the data dictionary has other labels than the config")


def _json_stat(path: Path) -> Texts:
    content, variables = json.loads(path.read_text(encoding="utf-8")), dict[str, Any]()
    for v in variables_of(content):
        one = content["dimension"][v]
        index, called = one["category"]["index"], one["category"]["label"]
        check(called.keys() == {*index}, f"{v} has other labels than categories")
        note, unit = "".join(one.get("note", ())), one.get("extension", {}).get("unit")
        variables[v] = _texts_of(v, one["label"], note, unit, ((c, called[c]) for c in index))
    more = {key: text for key, text in content.get("extension", {}).items() if key not in ("measure", "status", "px")}
    about = [content.get("source", ""), *more.values(), *content.get("note", ())]
    return Texts([content["label"]], filter(None, about), variables)


def _px(path: Path) -> Texts:
    statements, variables = px_statements(path)[0], dict[str, Any]()
    for label in (*statements.get(("STUB", ""), ()), *statements.get(("HEADING", ""), ())):
        called = zip(statements["CODES", label], statements["VALUES", label], strict=True)
        (name,) = statements["VARIABLECODE", label]
        variables[name] = _texts_of(name, label, "".join(statements.get(("NOTE", label), ())), "", called)
    about = (text for key in ("SOURCE", "CONTACT", "REFPERIOD", "NOTE") for text in statements.get((key, ""), ()))
    return Texts([*statements["TITLE", ""], *statements["SUBJECT-AREA", ""]], about, variables)


def _xml(path: Path) -> Texts:
    root = ElementTree.fromstring(path.read_bytes())
    about = [one.text or "" for one in root if one.tag not in ("variable", "cell")]
    variables = dict[str, Any]()
    for one in root.iter("variable"):
        called = ((category.text or "", category.get("label")) for category in one)
        name, *texts = map(one.get, ("name", "label", "note", "unit"))
        variables[name or ""] = _texts_of(name or "", texts[0], texts[1], texts[2], called)
    return Texts([root.attrib["title"]], about, variables)


def _csvw(path: Path) -> Texts:
    content, variables = json.loads(path.read_text(encoding="utf-8")), dict[str, Any]()
    for one in (one for one in content["tableSchema"]["columns"] if "qb:codeList" in one):
        (name,), concepts = one["titles"], one["qb:codeList"]["skos:hasTopConcept"]
        called = ((names.out_of_csv(c["skos:notation"]), c["skos:prefLabel"]) for c in concepts)
        variables[name] = _texts_of(
            name, one["dc:title"], one.get("dc:description"), one.get("schema:unitText"), called
        )
    keys = ("dc:temporal", "dc:source", "dc:license", "dc:publisher", "dc:description")
    about = [*filter(None, map(content.get, keys)), *content.get("rdfs:comment", ())]
    return Texts([content["dc:title"]], about, variables)


def _sdmx(path: Path) -> Texts:
    structure, variables = read_structure(path), dict[str, Any]()
    for one in structure.dimensions:
        called = ((category, label) for _, category, label in one.codes)
        variables[one.name] = _texts_of(one.name, one.label, one.note, one.unit, called)
    return Texts(structure.titles, structure.about, variables)


def _check_catalogue(content: Any, metadata: Mapping[str, Any], name: str) -> None:
    """A catalogue contains nothing but the metadata, and of each file only that file's."""
    files = {one["path"]: {*_known(one)} for one in metadata["resources"]}
    of_all = {key: texts for key, texts in metadata.items() if key != "resources"}
    known = {*_beyond(of_all), "./", name, *(f"#publisher-{k}" for k in range(1, 9))}.union(*files.values())
    known |= {f"#{quote(one['name'])}" for one in metadata.get("licenses", ()) if "name" in one}
    strange = next(_beyond(content, known, files), None)
    check(strange is None, f"{name} has {strange!r}, and {names.METADATA} does not")


def _known(file: Mapping[str, Any]) -> Iterator[Any]:
    own, path = ", ".join(file.get(names.SUB_TABLE, ())), quote(file["path"])
    yield from (*_beyond(file), path, stem_of(path), f"by {own}", f"{file.get('bytes', file.get('size'))} B")
    yield file.get("hash", "").removeprefix(names.SHA256)
    yield from (f"{stem_of(path)}/{quote(one['name'], safe='')}" for one in file.get("schema", {}).get("fields", ()))
    yield f"by {own}{part_of(file)}"


def part_of(file: Mapping[str, Any]) -> str:
    """The suffix of a rounded or suppressed table's name."""
    if (texts := file.get(names.IN_PART)) is None:
        return ""
    if names.ROUNDED_TO in texts:
        return f" (rounded to multiples of {texts[names.ROUNDED_TO]:,})"
    return f" (in part: {texts[names.WITHHELD_STATUS]:,} of {texts['cells']:,} cells withheld)"


def _beyond(texts: Any, known: Iterable[Any] = (), files: Mapping[str, Iterable[Any]] = MappingProxyType({})) -> Any:
    """All values beyond the known ones, for a file beyond those known for it."""
    if isinstance(texts, dict):
        link = unquote(str(texts.get("dcat:downloadURL") or texts.get("contentUrl") or ""))
        known = files.get(link, ()) if link else known
        yield from (more for key in texts.keys() - _WORDS for more in _beyond(texts[key], known, files))
        own = [texts[key] for key in texts.keys() & _WORDS]
        maps = (one for one in own if isinstance(one, dict))
        contexts = [one for one in maps if hashlib.sha256(json.dumps(one).encode()).hexdigest() in _CONTEXTS]
        yield from (more for one in own if one not in contexts for more in _beyond(one, _VOCABULARY.split()))
    elif isinstance(texts, list):
        yield from (more for one in texts for more in _beyond(one, known, files))
    elif texts not in known:
        yield texts


_READERS = {"json-stat": _json_stat, "px": _px, "xml": _xml, "csvw": _csvw, "sdmx-csv": _sdmx}
