"""SDMX-CSV 2.0, with its structure as SDMX-JSON 2.0.

SDMX restricts the characters of codes. Other names and categories are numbered, and the structure lists them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from sdc.model.errors import ReleaseError
from sdc.publish.formats.rows import Pieces, TextRows, cells_of
from sdc.publish.formats.table import CountTable, Dimension
from sdc.run_format import is_formula

AGENCY, VERSION = "SDC", "1.0.0"
MEASURE, ALL = "OBS_VALUE", "_T"  # the measure, and SDMX's code of a total in all lists
PREPARED = "1980-01-01T00:00:00Z"  # required by SDMX; constant, so that equal tables give equal bytes
SCHEMA = "https://json.sdmx.org/2.0.0/sdmx-json-structure-schema.json"

STATUS, STATUS_NAME = "CONF_STATUS", "Confidentiality status"
OF_STATUS = [
    {"id": "F", "name": "Free (free for publication)"},
    {"id": "C", "name": "Confidential statistical information: the count is withheld; published totals limit it"},
]  # the codes of CL_CONF_STATUS, a list of all domains

_RESERVED = re.compile("STRUCTURE|STRUCTURE_ID|ACTION|SERIES_KEY|OBS_KEY|TIME_PERIOD|OBS_VALUE|CONF_STATUS|V[0-9]+")
_NAME, _CODE = re.compile("[A-Za-z][A-Za-z0-9_-]*"), re.compile("[A-Za-z0-9_@$-]+")


def sdmx_csv(table: CountTable) -> Pieces:
    """A row for each cell: structure, action, codes, count, and for tables with suppressed cells the status."""
    _require(table)
    status, free, confidential = ([], "", "") if table.withheld is None else ([STATUS], ",F", ",C")
    head = ",".join(["STRUCTURE", "STRUCTURE_ID", "ACTION", *_ids(table.variables), MEASURE, *status])
    start = f"datastructure,{AGENCY}:{_structure_id(table)}({VERSION}),I,"
    words = [[f"{code}," for code in _codes(v, table.totals)] for v in table.variables]
    return TextRows(f"{head}\n", "", words, start, end="\n").written(cells_of(table, "", free, confidential))


def sdmx_structure(table: CountTable) -> Pieces:
    """The data structure, its concepts and code lists; annotations hold the names of numbered items."""
    _require(table)
    ids, scheme = _ids(table.variables), f"CS_{_structure_id(table)}"
    named = list(zip(ids, table.variables, strict=True))
    concepts = [{"id": name, "name": v.label, **_annotated({**_texts_of(v), "NAME": v.name})} for name, v in named]
    dimensions = [
        {
            "id": name,
            "position": place,
            "conceptIdentity": _urn("conceptscheme.Concept", scheme, name),
            "localRepresentation": {"enumeration": _urn("codelist.Codelist", f"CL_{scheme}_{name}")},
        }
        for place, name in enumerate(ids)
    ]
    measure = {
        "id": MEASURE,
        "conceptIdentity": _urn("conceptscheme.Concept", scheme, MEASURE),
        "localRepresentation": {"format": {"dataType": "Long"}},
    }
    components = {
        "dimensionList": {"id": "DimensionDescriptor", "dimensions": dimensions},
        "measureList": {"id": "MeasureDescriptor", "measures": [measure]},
    }
    concepts.append({"id": MEASURE, "name": "Number of records"})
    code_lists = [
        {**_maintained(f"CL_{scheme}_{name}", v.label), "codes": _code_list(v, table.totals)} for name, v in named
    ]
    if table.withheld is not None:
        components["attributeList"] = {"id": "AttributeDescriptor", "attributes": [_status(scheme)]}
        concepts.append({"id": STATUS, "name": STATUS_NAME})
        code_lists.append({**_maintained(f"CL_{scheme}_{STATUS}", STATUS_NAME), "codes": OF_STATUS})
    structure = {
        **_maintained(_structure_id(table), table.title),
        **_annotated({what.upper(): text for what, text in table.about.facts.items()}, table.about.notes),
        "dataStructureComponents": components,
    }
    data = {
        "conceptSchemes": [{**_maintained(scheme, table.title), "concepts": concepts}],
        "codelists": code_lists,
        "dataStructures": [structure],
    }
    meta = {"schema": SCHEMA, "id": _structure_id(table), "prepared": PREPARED, "sender": {"id": AGENCY}}
    yield (json.dumps({"meta": meta, "data": data}, ensure_ascii=False, indent=1) + "\n").encode()


def _status(scheme: str) -> dict[str, Any]:
    return {
        "id": STATUS,
        "conceptIdentity": _urn("conceptscheme.Concept", scheme, STATUS),
        "usage": "mandatory",
        "attributeRelationship": {"observation": {}},
        "measureRelationship": [MEASURE],
        "localRepresentation": {"enumeration": _urn("codelist.Codelist", f"CL_{scheme}_{STATUS}")},
    }


def _structure_id(table: CountTable) -> str:
    return f"T{table.name}"


def _ids(variables: Sequence[Dimension]) -> list[str]:
    """The names of variables that SDMX accepts, else `V1`, `V2`, ... by position."""
    takes = [_NAME.fullmatch(v.name) and not _RESERVED.fullmatch(v.name) for v in variables]
    return [v.name if taken else f"V{n}" for n, (v, taken) in enumerate(zip(variables, takes, strict=True), start=1)]


def _codes(variable: Dimension, totals: bool) -> list[str]:
    """The categories if SDMX accepts all, else `C1`, `C2`, ...; the total is `_T`."""
    own = variable.categories[:-1] if totals else variable.categories
    if not all(_CODE.fullmatch(category) and category != ALL and not is_formula(category) for category in own):
        own = tuple(f"C{place}" for place, _ in enumerate(own, start=1))
    return [*own, ALL] if totals else list(own)


def _code_list(variable: Dimension, totals: bool) -> list[dict[str, Any]]:
    named = zip(_codes(variable, totals), variable.categories, variable.labels, strict=True)
    return [
        {"id": code, "name": label, **_annotated({} if code in (category, ALL) else {"CATEGORY": category})}
        for code, category, label in named
    ]


def _texts_of(variable: Dimension) -> dict[str, str]:
    return {what: text for what, text in (("UNIT", variable.unit), ("NOTE", variable.note)) if text}


def _annotated(texts: dict[str, str], notes: Sequence[str] = ()) -> dict[str, Any]:
    annotations = [*texts.items(), *(("NOTE", note) for note in notes)]
    return {"annotations": [{"type": kind, "title": text} for kind, text in annotations]} if annotations else {}


def _maintained(name: str, label: str) -> dict[str, str]:
    return {"id": name, "agencyID": AGENCY, "version": VERSION, "name": label}


def _urn(kind: str, name: str, item: str = "") -> str:
    dotted = f".{item}" if item else ""
    return f"urn:sdmx:org.sdmx.infomodel.{kind}={AGENCY}:{name}({VERSION}){dotted}"


def _require(table: CountTable) -> None:
    if not table.variables:
        raise ReleaseError(f"{table.name}: SDMX has no table without variables; publish without sdmx-csv")
