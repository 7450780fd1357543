"""PxWebApi 2 (PxTools/PxApiSpecs, version 2.0): its documents of tables of counts, for a server or as static files.

What is counted and the period are dimensions of one category: `ContentsCode` and `Tid`, as clients of PxWeb expect.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from types import MappingProxyType
from typing import Any, TypeAlias
from urllib.parse import unquote

from sdc.config.publication import PublicationConfig
from sdc.model.errors import ReleaseError
from sdc.publish.formats.json_stat import dimension_of, extension_of, values_in_order
from sdc.publish.formats.table import CountTable, Dimension, Pieces
from sdc.run_format import PX_API, PX_DATA, TOTAL

Document: TypeAlias = dict[str, Any]

API_VERSION, APPLICATION, LANGUAGE = "2.0.0", "sdc", "en"
JSON_STAT = "json-stat2"
MOST_CELLS = 5_000_000  # of a table in a file: clients list every cell
LONGEST_ID = 200  # characters of an id in a file's name
HOW = "publish without pxapi"
TIME_UNITS = {
    r"\d{4}": "Annual",
    r"\d{4}-?[QK][1-4]": "Quarterly",
    r"\d{4}-?M?(0[1-9]|1[0-2])": "Monthly",
    r"\d{4}-?W\d\d": "Weekly",
}


def table_id(names: Iterable[str]) -> str:
    """The id of the table of these variables, safe in addresses: letters, digits, `_`, and `~` before hex digits."""
    return "-".join(re.sub("[^A-Za-z0-9_]", _in_hex, name) for name in names)


def _in_hex(sign: re.Match[str]) -> str:
    return f"~{sign[0].encode().hex('~').upper()}"


def names_in(identifier: str) -> list[str] | None:
    """The variables of an id; None if it is none."""
    names = [unquote(part) for part in identifier.replace("~", "%").split("-")]
    return names if table_id(names) == identifier else None


def codelist_id(variable: str, level: str) -> str:
    """The id of the list of a level's categories, as an aggregation of a variable's."""
    return f"agg_{table_id([variable, level])}"


def contents_of(table: CountTable) -> Dimension:
    """What is counted, as a dimension of one category. No variable has its name or label."""
    own = (table.measure,)
    names, labels = [v.name for v in table.variables], [v.label for v in table.variables]
    return Dimension(_free("ContentsCode", names), own, _free("contents", labels), own)


def time_of(table: CountTable) -> Dimension | None:
    """The period of a table, as a dimension of one category; None if the publication has none."""
    if table.about.period is None:
        return None
    own, names, labels = (table.about.period,), [v.name for v in table.variables], [v.label for v in table.variables]
    return Dimension(_free("Tid", names), own, _free("time", labels), own)


def _free(name: str, taken: Sequence[str]) -> str:
    return next(one for number in range(len(taken) + 1) if (one := name + "_" * number) not in taken)


def dimensions_of(table: CountTable) -> tuple[Dimension, ...]:
    """The variables, the contents and the period. No two have one label: clients name columns by it."""
    labels = [v.label for v in table.variables]
    own = (v if labels.count(v.label) == 1 else replace(v, label=f"{v.label} ({v.name})") for v in table.variables)
    return (*own, contents_of(table), *filter(None, [time_of(table)]))


def _dimension(dimension: Dimension, **extension: Any) -> Document:
    content = dimension_of(dimension)
    index = {category: place for place, category in enumerate(dimension.categories)}
    labels = dict(zip(dimension.categories, dimension.labels, strict=True))
    more = {"show": "value", **content.get("extension", {}), **extension}
    return {**content, "category": {"index": index, "label": labels}, "extension": more}


def head(
    table: CountTable,
    own_id: str,
    *,
    eliminates: bool = False,
    codelists: Mapping[str, Sequence[Document]] = MappingProxyType({}),
) -> Document:
    """A dataset without its values.

    eliminates  whether a selection without a variable is a sum over it
    codelists   links to the code lists of each variable that has some
    """
    contents, time, dimensions = contents_of(table), time_of(table), dimensions_of(table)
    described = {one.name: _dimension(one, **_elimination(one, eliminates)) for one in dimensions}
    described[contents.name]["category"]["unit"] = {table.measure: {"base": "number", "decimals": 0}}
    described[contents.name]["extension"]["elimination"] = True
    if time is not None:
        described[time.name]["extension"]["elimination"] = True
    for variable, lists in codelists.items():
        # the second spelling is pxwebpy's
        described[variable]["extension"] |= {"codelists": lists, "codeLists": lists}
    of_table = extension_of(table)
    names = [one.name for one in dimensions]
    px = {"tableid": own_id, "decimals": 0, "language": LANGUAGE, "contents": table.title, "matrix": table.name}
    px |= {"stub": names[: len(table.variables)], "heading": names[len(table.variables) :]}
    updated = _updated(table.about)
    return {
        "version": "2.0",
        "class": "dataset",
        "label": table.title,
        **({"source": of_table["source"]} if "source" in of_table else {}),
        **({"updated": updated} if updated else {}),
        **({"note": list(table.about.notes)} if table.about.notes else {}),
        "role": {"metric": [contents.name], **({} if time is None else {"time": [time.name]})},
        "id": names,
        "size": [len(one.categories) for one in dimensions],
        "dimension": described,
        "extension": {"px": px, **of_table.get("extension", {})},
    }


def _elimination(dimension: Dimension, eliminates: bool) -> Document:
    if dimension.categories[-1] == TOTAL:
        return {"elimination": True, "eliminationValueCode": TOTAL}
    return {"elimination": eliminates}


def _updated(about: PublicationConfig) -> str | None:
    return f"{about.published}T00:00:00Z" if about.published else None


def dataset(content: Document, table: CountTable) -> Pieces:
    """The dataset with the value of every cell, null where it is suppressed, and then with a status."""
    return values_in_order(dumped(content).removesuffix("}"), table)


def metadata(content: Document) -> Document:
    """The dataset without values."""
    return {**content, "value": []}


def entry(own_id: str, title: str, variables: Sequence[str], about: PublicationConfig, base: str = "") -> Document:
    """What a list says of a table.

    variables  the labels of its dimensions
    base       the address of the list's tables, ending in a slash; by default they are beside the list
    """
    links = {"self": own_id, "metadata": f"{own_id}/metadata", "data": f"{own_id}/data?outputFormat={JSON_STAT}"}
    unit = (unit for form, unit in TIME_UNITS.items() if re.fullmatch(form, about.period or ""))
    return {
        "type": "Table",
        "id": own_id,
        "label": title,
        "description": f"Population: {about.population}" if about.population else "",
        "updated": _updated(about),
        "firstPeriod": about.period,
        "lastPeriod": about.period,
        "category": "public",
        "variableNames": list(variables),
        "discontinued": False,
        **({"source": about.source} if about.source else {}),
        "timeUnit": next(unit, "Other"),
        "links": [{"rel": rel, "hreflang": LANGUAGE, "href": base + link} for rel, link in links.items()],
    }


def listing(entries: Sequence[Document], number: int, size: int, total: int) -> Document:
    """A page of the list, numbered from 1, of `size` of a total of tables."""
    page = {"pageNumber": number, "pageSize": size, "totalElements": total, "totalPages": max(1, -(-total // size))}
    return {"language": LANGUAGE, "tables": list(entries), "page": {**page, "links": []}, "links": []}


def config(about: PublicationConfig, cells: int, calls: int, seconds: int, formats: Sequence[str]) -> Document:
    """The limits of the API: so many cells of one answer, so many calls in so many seconds; and the formats."""
    references = [{"language": LANGUAGE, "text": about.source}] if about.source else []
    return {
        "apiVersion": API_VERSION,
        "appVersion": APPLICATION,
        "languages": [{"id": LANGUAGE, "label": "English"}],
        "defaultLanguage": LANGUAGE,
        "maxDataCells": cells,
        "maxCallsPerTimeWindow": calls,
        "timeWindow": seconds,
        "license": about.licence or "",
        "sourceReferences": references,
        "defaultDataFormat": JSON_STAT,
        "dataFormats": list(formats),
        "features": [],
    }


def dumped(content: object) -> str:
    """JSON in ASCII that is no HTML: file hosts send a list as a page, whose encoding clients guess."""
    text = json.dumps(content, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def static_files(tables: Sequence[CountTable]) -> dict[str, Callable[[], Pieces]]:
    """The API as files by their paths: what a file host answers to a client's GET, whatever the query.

    Raises ReleaseError for a table of too many cells, and for ids that read the same where case is ignored.
    """
    found = dict[str, Callable[[], Pieces]]()
    entries, about = list[Document](), tables[0].about if tables else PublicationConfig()
    for table in tables:
        if table.space.cells > MOST_CELLS:
            raise ReleaseError(
                f"{table.name} has {table.space.cells} cells, and clients of PxWebApi list every one, at most "
                f"{MOST_CELLS}; {HOW}"
            )
        own_id = file_id([v.name for v in table.variables])
        if any(own_id.casefold() == one["id"].casefold() for one in entries):
            raise ReleaseError(f"{table.name}: two tables have ids that differ in upper and lower case alone; {HOW}")
        content = head(table, own_id)
        entries.append(entry(own_id, table.title, [one.label for one in dimensions_of(table)], table.about))
        below = f"{PX_API}/tables/{own_id}"
        found[f"{below}/metadata"] = partial(_json, metadata(content))
        found[f"{below}/{PX_DATA}"] = partial(dataset, content, table)
        # hosts answer with this file where the address is that of its folder
        found[f"{below}/index.html"] = partial(_json, {**entries[-1], "language": LANGUAGE})
    listed = listing(entries, 1, max(1, len(entries)), len(entries))
    return {
        f"{PX_API}/config": partial(_json, config(about, MOST_CELLS, 1000, 1, [JSON_STAT])),
        f"{PX_API}/tables/index.html": partial(_json, listed),
        **found,
    }


def file_id(names: Sequence[str]) -> str:
    """The id of a table as the name of a folder; a long one ends in a digest."""
    own_id = table_id(names)
    if len(own_id) <= LONGEST_ID:
        return own_id
    return f"{own_id[: LONGEST_ID - 18]}~~{sha256(own_id.encode()).hexdigest()[:16]}"


def _json(content: Document) -> Iterator[bytes]:
    yield f"{dumped(content)}\n".encode()
