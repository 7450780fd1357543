"""Check the documents of PxWebApi in a published folder against the metadata, without the writers' code."""

import hashlib
import json
import re
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from sdc import run_format as names
from sdc.verify.core.levels import check

ApiTable = namedtuple("ApiTable", "title about variables")
"""The title, facts and variables that a table has in every format."""
CONFIG, LIST, BESIDE = f"{names.PX_API}/config", f"{names.PX_API}/tables/index.html", ("metadata", "index.html")
_CELLS, _UNITS = ("value", "status"), {"Annual", "Quarterly", "Monthly", "Weekly", "Other"}
_SAME, _LINK = {"type": "Table", "category": "public", "discontinued": False}, "data?outputFormat=json-stat2"
_OF_DIMENSION = {"label", "category", "note", "extension", "link"}
_OF_EXTENSION = {"show", "elimination", "eliminationValueCode", "codelists", "codeLists", "unit"}
_OF_CONFIG = "apiVersion appVersion languages defaultLanguage maxDataCells maxCallsPerTimeWindow timeWindow license"
_OF_CONFIG += " sourceReferences defaultDataFormat dataFormats features"
_LONGEST, _KEPT = 200, 182


def is_of_api(file: Mapping[str, Any]) -> bool:
    """Whether an entry of the metadata is a document of PxWebApi."""
    return str(file["path"]).startswith(f"{names.PX_API}/")


def check_api(
    file_of: Callable[[str], Path],
    metadata: Mapping[str, Any],
    tables: Mapping[tuple[str, ...], ApiTable],
    texts_of: Callable[[Path], Any],
    plain: Callable[[Iterable[str]], set[str]],
) -> None:
    """The documents are those of the tables, and say what these say in other formats; cells are checked with others."""
    paths = {one["path"] for one in metadata["resources"] if is_of_api(one)}
    if not paths:
        return
    folders = {own: f"{names.PX_API}/tables/{_id(own)}" for own in tables}
    expected = {f"{folder}/{name}" for folder in folders.values() for name in (names.PX_DATA, *BESIDE)}
    check(paths == {CONFIG, LIST, *expected}, f"{names.PX_API} has other documents than there are tables")

    def read(path: str) -> Any:
        return json.loads(file_of(path).read_text(encoding="utf-8"))

    facts = _facts(metadata)
    listed = read(LIST)
    check([one["id"] for one in listed["tables"]] == [_id(own) for own in tables], f"{LIST} has other tables")
    for (own, table), entry in zip(tables.items(), listed["tables"], strict=True):
        id_, folder = _id(own), folders[own]
        data, found = read(f"{folder}/{names.PX_DATA}"), texts_of(file_of(f"{folder}/{names.PX_DATA}"))
        labels = [label for label, *_ in table.variables.values()]
        variables = {
            v: (f"{label} ({v})" if labels.count(label) > 1 else label, *more)
            for v, (label, *more) in table.variables.items()
        }
        same = ({*found.titles}, plain(found.about), found.variables) == ({table.title}, table.about, variables)
        same = same and data.get("updated") == facts["updated"] and _is_of(data, id_, table.title, own)
        same = same and all(_is_plain(v, one, data["role"]) for v, one in data["dimension"].items())
        check(same and _are_roles(data, metadata), f"{folder}/{names.PX_DATA} has other labels, titles or texts")
        of_metadata = {**{key: one for key, one in data.items() if key not in _CELLS}, "value": []}
        check(read(f"{folder}/metadata") == of_metadata, f"{folder}/metadata is not that of its data")
        labels = [data["dimension"][v]["label"] for v in data["id"]]
        expected_entry = {"id": id_, "label": table.title, "variableNames": labels, **facts, **_SAME}
        same = {key: one for key, one in entry.items() if key not in ("links", "timeUnit")} == expected_entry
        links = [link["href"] for link in entry["links"]] == [id_, f"{id_}/metadata", f"{id_}/{_LINK}"]
        check(same and links and entry["timeUnit"] in _UNITS, f"{LIST} describes {id_} in another way")
        one = read(f"{folder}/index.html")
        check(one == {**entry, "language": "en"}, f"{folder}/index.html is not the entry of {LIST}")
    numbers = {key: one for key, one in listed["page"].items() if key != "links"}
    same = numbers == {"pageNumber": 1, "pageSize": len(tables), "totalElements": len(tables), "totalPages": 1}
    check(same and listed.keys() == {"language", "tables", "page", "links"}, f"{LIST} is not one page of all tables")
    _check_config(read(CONFIG), metadata)


def _facts(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """What the list says of each table."""
    period, day, population = map(metadata.get, ("period", "published", "population"))
    facts = {"firstPeriod": period, "lastPeriod": period, "updated": day and f"{day}T00:00:00Z"}
    facts["description"] = f"Population: {population}" if population else ""
    return facts | ({"source": metadata["sources"][0]["title"]} if metadata.get("sources") else {})


def _is_of(data: Mapping[str, Any], id_: str, title: str, own: Iterable[str]) -> bool:
    """Whether a dataset names its table and the order of its variables."""
    px = data["extension"]["px"]
    placed = [*px["stub"], *px["heading"]] == data["id"] and px["stub"] == [*own]
    return bool((px["tableid"], px["contents"]) == (id_, title) and placed)


def _is_plain(variable: str, dimension: Mapping[str, Any], roles: Mapping[str, Any]) -> bool:
    """Whether a dimension has labels and nothing that makes a client read another count."""
    category, extension = dimension["category"], dimension.get("extension", {})
    units = [*category.get("unit", {}).values()]
    is_plain = {*map(str, dimension)} <= _OF_DIMENSION and category.keys() <= {"index", "label", "unit"}
    is_counted = variable in roles.get("metric", ()) or not units
    return (
        is_plain
        and is_counted
        and all(one == {"base": "number", "decimals": 0} for one in units)
        and extension.keys() <= _OF_EXTENSION
        and extension.get("eliminationValueCode", names.TOTAL) == names.TOTAL
        and extension.get("show", "value") == "value"
        and not any(extension.get(key) for key in ("codelists", "codeLists"))
    )


def _are_roles(data: Mapping[str, Any], metadata: Mapping[str, Any]) -> bool:
    """Whether the dimension of time is the period, and that of contents a count."""
    period, roles = metadata.get("period"), data["role"]
    times, contents = ([_categories(data, v) for v in roles.get(role, ())] for role in ("time", "metric"))
    counted = re.compile(f"{names.COUNT}|{names.ROUNDED_COUNT}[0-9]+")
    is_count = [all(counted.fullmatch(text) for text in (*of, *of.values())) for of in contents]
    return times == ([{period: period}] if period else []) and is_count == [True]


def _check_config(config: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
    licence = next((one.get("path") or one.get("title") or one["name"] for one in metadata.get("licenses", ())), "")
    sources = [one["title"] for one in metadata.get("sources", ())]
    texts = config["license"], [one["text"] for one in config["sourceReferences"]]
    is_plain = config.keys() <= {*_OF_CONFIG.split()}
    check(is_plain and texts == (licence, sources), f"{CONFIG} has another licence or source than {names.METADATA}")


def _categories(content: Mapping[str, Any], variable: str) -> dict[str, str]:
    labels: dict[str, str] = content["dimension"][variable]["category"]["label"]
    return labels


def _id(variables: Iterable[str]) -> str:
    """Letters, digits and underscores; the bytes of others in hex after a tilde; a long one ends in a digest."""
    found = "-".join(
        re.sub("[^A-Za-z0-9_]", lambda sign: f"~{sign[0].encode().hex('~').upper()}", v) for v in variables
    )
    digest = hashlib.sha256(found.encode()).hexdigest()[:16]
    return found if len(found) <= _LONGEST else f"{found[:_KEPT]}~~{digest}"
