"""CSV, and CSV on the Web: the metadata beside a CSV file by which programs read it (W3C tabular metadata)."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import quote

from sdc.publish.formats.table import CountTable, Dimension, Pieces, TextRows, cells_of
from sdc.run_format import STATUS, WITHHELD_STATUS, in_csv

# state all defaults: CSV on the Web treats lines starting with # as comments
DIALECT = {
    "encoding": "utf-8",
    "delimiter": ",",
    "quoteChar": '"',
    "doubleQuote": True,
    "lineTerminators": ["\n"],
    "header": True,
    "trim": False,
    "skipBlankRows": False,
    "commentPrefix": None,
}


def csv(table: CountTable) -> Pieces:
    """A header, and one row for each cell. UTF-8; lines end in a line feed; an apostrophe stops spreadsheets from
    running a text.
    """
    words = [[f"{quoted(in_csv(category))}," for category in v.categories] for v in table.variables]
    head = "".join(f"{quoted(v.name)}," for v in table.variables)
    cells = cells_of(table, after="" if table.withheld is None else ",", withheld=f",{WITHHELD_STATUS}")
    return TextRows(f"{head}{','.join(table.columns)}\n", "", words, end="\n").written(cells)


def quoted(text: str) -> str:
    """A CSV field, quoted if needed."""
    return '"' + text.replace('"', '""') + '"' if re.search('[,"\r\n]', text) else text


def csvw(table: CountTable) -> Pieces:
    """The metadata of the table's CSV file: columns and categories as in the file."""
    is_whole = table.withheld is None
    count = {"name": table.measure, "titles": [table.measure], "required": is_whole, "datatype": "nonNegativeInteger"}
    status = [] if is_whole else [{"name": STATUS, "titles": [STATUS], "datatype": "string"}]
    content = {
        "@context": "http://www.w3.org/ns/csvw",
        "url": f"{table.name}.csv",
        "dc:title": table.title,
        **_about(table),
        "dialect": DIALECT,
        "tableSchema": {
            "columns": [*map(_column, table.variables), count, *status],
            "primaryKey": [_column_name(v.name) for v in table.variables],
        },
    }
    yield (json.dumps(content, ensure_ascii=False, indent=1) + "\n").encode()


def _about(table: CountTable) -> dict[str, Any]:
    about = table.about
    texts = {
        "dc:temporal": about.period,
        "dc:source": about.source,
        "dc:license": about.licence,
        "dc:publisher": about.contact,
        "dc:description": about.population and f"Population: {about.population}",
        "rdfs:comment": list(about.notes),
    }
    return {key: text for key, text in texts.items() if text}


def _column(variable: Dimension) -> dict[str, Any]:
    categories = zip(variable.categories, variable.labels, strict=True)
    concepts = [{"skos:notation": in_csv(category), "skos:prefLabel": label} for category, label in categories]
    texts = {"dc:title": variable.label, "dc:description": variable.note, "schema:unitText": variable.unit}
    return {
        "name": _column_name(variable.name),
        "titles": [variable.name],
        "datatype": "string",
        "null": [],  # the empty text is a category
        **{key: text for key, text in texts.items() if text},
        "qb:codeList": {"@type": "skos:ConceptScheme", "skos:hasTopConcept": concepts},
    }


def _column_name(name: str) -> str:
    """A column name for URI templates; the leading underscore is reserved by the standard."""
    encoded = re.sub("[-~]", lambda sign: f"%{ord(sign[0]):02X}", quote(name, safe=""))
    return encoded.replace("_", "%5F", 1) if encoded.startswith("_") else encoded
