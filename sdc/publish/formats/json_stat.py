"""JSON-stat 2.0: a dataset, whose values are an object where most cells have no records and zeros are not wanted."""

from __future__ import annotations

import json
from collections.abc import Mapping

from sdc.model.errors import ReleaseError
from sdc.publish.formats.rows import Chunks, Pieces, TextRows, counts_of, joined, texts_of
from sdc.publish.formats.table import CountTable, Dimension
from sdc.run_format import COUNT

_GRAND_TOTAL = Dimension(COUNT, (COUNT,), COUNT, (COUNT,))


def json_stat(table: CountTable) -> Pieces:
    """The table as a dataset. ReleaseError where its cells are too many to be numbered.

    JSON-stat has no table without dimensions: the grand total has one of a single category.
    """
    dimensions = table.variables or (_GRAND_TOTAL,)
    content = {
        "version": "2.0",
        "class": "dataset",
        "label": table.title,
        "id": [dimension.name for dimension in dimensions],
        "size": [len(dimension.categories) for dimension in dimensions],
        "dimension": {dimension.name: _dimension(dimension) for dimension in dimensions},
        **_extension(table),
    }
    notes = list(table.about.notes)
    if table.is_dense:
        content |= {"note": notes} if notes else {}
        return TextRows(_unclosed(content) + ',"value":[', "]}\n", between=",").written(counts_of(table.with_zeros))
    if not table.space.fits:
        raise ReleaseError(
            f"{table.name}: JSON-stat numbers cells, and {table.space.cells} are too many; publish it without json-stat"
        )
    content["note"] = ["Cells that have no value have no records.", *notes]
    return TextRows(_unclosed(content) + ',"value":{', "}}\n", between=",").written(_numbered(table))


def _numbered(table: CountTable) -> Chunks:
    for codes, counts in table.chunks():
        yield codes[:, :0], joined('"', texts_of(table.space.pack(codes)), '":', texts_of(counts))


def _dimension(dimension: Dimension) -> dict[str, object]:
    called = dict(zip(dimension.categories, dimension.labels, strict=True))
    told: dict[str, object] = {
        "label": dimension.label,
        "category": {"index": dimension.categories, "label": called},
    }
    if dimension.note:
        told["note"] = [dimension.note]
    if dimension.unit:
        told["extension"] = {"unit": dimension.unit}
    return told


def _extension(table: CountTable) -> dict[str, object]:
    """The source, and what JSON-stat has no name for."""
    about = table.about
    rest = {what: text for what, text in about.told.items() if what not in ("source", "notes")}
    rest |= {} if table.is_exact else {"measure": table.measure}
    return ({"source": about.source} if about.source else {}) | ({"extension": rest} if rest else {})


def _unclosed(content: Mapping[str, object]) -> str:
    """A JSON object that goes on."""
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).removesuffix("}")
