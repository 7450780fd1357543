"""Check the page of a release as readers see it: rows, links and numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html.parser import HTMLParser
from typing import Any
from urllib.parse import unquote

from sdc import run_format as names
from sdc.verify.published.texts import part_of

_NUMBER = re.compile(r"\d[\d,]*")
UNSEEN = ("script", "style")


class _Page(HTMLParser):
    """The visible text outside rows, and the text and links of each table row."""

    def __init__(self) -> None:
        super().__init__()
        self.text, self.links = list[str](), set[str]()
        self.rows = list[tuple[list[str], set[str]]]()
        self._inside = list[str]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in (*UNSEEN, "tr"):
            self._inside.append(tag)
        if tag == "tr":
            self.rows.append(([], set()))
        if href := dict(attrs).get("href"):
            (self.rows[-1][1] if "tr" in self._inside else self.links).add(unquote(href))

    def handle_endtag(self, tag: str) -> None:
        if self._inside and self._inside[-1] == tag:
            self._inside.pop()

    def handle_data(self, data: str) -> None:
        if not set(UNSEEN) & set(self._inside):
            (self.rows[-1][0] if "tr" in self._inside else self.text).append(data)


def why_not_of(page: str, metadata: Mapping[str, Any]) -> str:
    """Why a page has other tables, files, titles or texts than the metadata, or a number that these lack."""
    tables, found = dict[tuple[str, ...], list[Mapping[str, Any]]](), _Page()
    found.feed(page)
    for file in metadata["resources"]:
        tables.setdefault(tuple(file.get(names.SUB_TABLE, ["no table"])), []).append(file)
    others = {file["path"] for file in tables.pop(("no table",), []) if names.is_shown(file["path"])}
    links = {*others, names.METADATA, names.CATALOGUE, names.SUMS}
    if found.links != links or len(found.rows) != 1 + len(tables):
        return "lists other tables or files than its metadata"
    for (text, paths), (own, files) in zip(found.rows[1:], tables.items(), strict=True):
        fields = (field for file in files for field in file.get("schema", {}).get("fields", ()))
        called = {field["name"]: field.get("title") or field["name"] for field in fields}
        of_files = ([file.get(what) for what in ("path", "format", "bytes", "size", names.IN_PART)] for file in files)
        expected = [*own, *called.values(), len(own), *of_files]
        same = text[0] == (", ".join(called[v] for v in own) or "total") + part_of(files[0])
        if not same or paths != {file["path"] for file in files} or not _numbers(text) <= _numbers(expected):
            return f"and its metadata differ on {'*'.join(own) or 'the total'}"
    texts = {metadata["title"], metadata["description"], *metadata.get("notes", ())}
    if not texts | {metadata[key] for key in ("population", "period", "published") if key in metadata} <= {*found.text}:
        return "has other titles or texts than its metadata"
    expected = [*links, *(value for key, value in metadata.items() if key != "resources")]
    if not _numbers([*found.text, *found.rows[0][0]]) <= _numbers(expected):
        return "has numbers that its metadata do not have"
    return ""


def _numbers(some: list[Any]) -> set[str]:
    return {number.replace(",", "") for one in some for number in _NUMBER.findall(str(one))}
