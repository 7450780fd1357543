"""The formats of released sub-tables. Each is written piece by piece from one table of counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from sdc.config.features import by_name
from sdc.publish.formats import xml
from sdc.publish.formats.csv import csv, csvw
from sdc.publish.formats.json_stat import json_stat
from sdc.publish.formats.parquet import parquet
from sdc.publish.formats.px import px
from sdc.publish.formats.pxapi import static_files
from sdc.publish.formats.sdmx import sdmx_csv, sdmx_structure
from sdc.publish.formats.table import CountTable, Pieces
from sdc.publish.formats.xlsx import xlsx
from sdc.run_format import SDMX_CSV, SDMX_STRUCTURE, WORKBOOK, XML_SCHEMA

__all__ = ["FORMATS", "CountTable", "Format", "Pieces"]

MEDIA_OF_WORKBOOKS = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
OfTable: TypeAlias = Callable[[CountTable], Pieces]
OfAll: TypeAlias = Callable[[Sequence[CountTable]], Pieces]
Tree: TypeAlias = Callable[[Sequence[CountTable]], Mapping[str, Callable[[], Pieces]]]


@dataclass(frozen=True)
class Format:
    """A format and its files. A writer refuses what it cannot carry before its first piece.

    name      in the config; label  for readers; media  the type of its files
    of_table  files of each table, by suffix
    of_all    files of all tables together, by name
    tree      files in folders of all tables, by path
    """

    name: str
    label: str
    media: str
    of_table: Mapping[str, OfTable] = field(default_factory=dict)
    of_all: Mapping[str, OfAll] = field(default_factory=dict)
    tree: Tree | None = None

    def files(self, tables: Sequence[CountTable]) -> dict[str, Callable[[], Pieces]]:
        """The files of all tables together, by path; ReleaseError for what they cannot carry."""
        found = {} if self.tree is None else dict(self.tree(tables))
        return found | {path: partial(write, tables) for path, write in self.of_all.items()}


FORMATS: Mapping[str, Format] = by_name(
    [
        Format("csv", "CSV", "text/csv", {".csv": csv}),
        Format("parquet", "Parquet", "application/vnd.apache.parquet", {".parquet": parquet}),
        Format("csvw", "CSV on the Web", "application/csvm+json", {".csv-metadata.json": csvw}),
        Format("json-stat", "JSON-stat", "application/json", {".json": json_stat}),
        Format("px", "PX", "text/plain", {".px": px}),
        Format(
            "sdmx-csv",
            "SDMX-CSV",
            "application/vnd.sdmx.data+csv",
            {SDMX_CSV: sdmx_csv, SDMX_STRUCTURE: sdmx_structure},
        ),
        Format("xml", "XML", "application/xml", {".xml": xml.xml}, {XML_SCHEMA: xml.schema}),
        Format("xlsx", "an Excel workbook", MEDIA_OF_WORKBOOKS, {}, {WORKBOOK: xlsx}),
        Format("pxapi", "PxWebApi 2", "application/json", tree=static_files),
    ]
)
"""All formats by their names in the config; another one is one more entry."""
