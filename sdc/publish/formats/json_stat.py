"""JSON-stat 2.0: a dataset, whose values are an object if the table is sparse and zeros are not wanted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import chain
from typing import Any

from sdc.model.errors import ReleaseError
from sdc.publish.formats.table import (
    NO_COUNT,
    Chunks,
    CountTable,
    Dimension,
    Pieces,
    TextRows,
    counts_of,
    joined,
    texts_of,
)
from sdc.run_format import CONFIDENTIAL, COUNT, WITHHELD_STATUS

_GRAND_TOTAL = Dimension(COUNT, (COUNT,), COUNT, (COUNT,))


def json_stat(table: CountTable) -> Pieces:
    """The table as a dataset; ReleaseError if its cells are too many to be numbered.

    JSON-stat has no table without dimensions: the grand total gets one with a single category.
    """
    dimensions = table.variables or (_GRAND_TOTAL,)
    content = {
        "version": "2.0",
        "class": "dataset",
        "label": table.title,
        "id": [dimension.name for dimension in dimensions],
        "size": [len(dimension.categories) for dimension in dimensions],
        "dimension": {dimension.name: dimension_of(dimension) for dimension in dimensions},
        **extension_of(table),
    }
    notes = list(table.about.notes)
    if table.is_dense:
        content |= {"note": notes} if notes else {}
        return values_in_order(_unclosed(content), table)
    if not table.space.fits:
        raise ReleaseError(
            f"{table.name}: JSON-stat numbers cells, and {table.space.cells} are too many; publish it without json-stat"
        )
    no_value = "no value" if table.withheld is None else "no value and no status"
    content["note"] = [f"Cells that have {no_value} have no records.", *notes]
    values = TextRows(_unclosed(content) + ',"value":{', "}", between=",")
    return chain(values.written(_numbered(table, withheld=False)), _status(table))


def values_in_order(head: str, table: CountTable) -> Pieces:
    """A dataset with the value of each cell, after the text of an object without its closing brace."""
    values = TextRows(head + ',"value":[', "]", between=",")
    return chain(values.written(counts_of(table.with_zeros, "null")), _status(table))


def _status(table: CountTable) -> Pieces:
    if table.withheld is None:
        return iter([b"}\n"])
    return TextRows(',"status":{', "}}\n", between=",").written(_numbered(table, withheld=True))


def _numbered(table: CountTable, *, withheld: bool) -> Chunks:
    """The cells that are withheld with their status, or the others with their counts."""
    for codes, counts in table.chunks():
        rows = (counts == NO_COUNT) == withheld
        if rows.any():
            values = f'"{CONFIDENTIAL}"' if withheld else texts_of(counts[rows])
            yield codes[rows, :0], joined('"', texts_of(table.space.pack(codes[rows])), '":', values)


def dimension_of(dimension: Dimension) -> dict[str, Any]:
    """A dimension with its texts."""
    called = dict(zip(dimension.categories, dimension.labels, strict=True))
    texts: dict[str, Any] = {
        "label": dimension.label,
        "category": {"index": dimension.categories, "label": called},
    }
    if dimension.note:
        texts["note"] = [dimension.note]
    if dimension.unit:
        texts["extension"] = {"unit": dimension.unit}
    return texts


def extension_of(table: CountTable) -> dict[str, Any]:
    """The source, and what JSON-stat has no words for."""
    about = table.about
    rest: dict[str, object] = {w: text for w, text in about.given.items() if w not in ("source", "notes")}
    rest |= {} if table.is_exact else {"measure": table.measure}
    rest |= {} if table.withheld is None else {"status": {"label": {CONFIDENTIAL: WITHHELD_STATUS}}}
    return ({"source": about.source} if about.source else {}) | ({"extension": rest} if rest else {})


def _unclosed(content: Mapping[str, object]) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).removesuffix("}")
