"""Check the page of a release as readers see it: rows, links and numbers."""

from __future__ import annotations

from collections.abc import Mapping
from html.parser import HTMLParser
from typing import Any
from urllib.parse import unquote

from sdc import run_format as names
from sdc.verify.published.texts import numbers_in, part_of

UNSEEN = ("script", "style")
TAGS = "script style html head meta title body main h1 h2 p dl dt dd label input span div table thead tbody tr th td a"
ATTRIBUTES = "lang charset name content http-equiv id class hidden type autocomplete role scope href download tabindex"
OF_PAGES = {*TAGS.split(), "ul", "li", "code"}, {*ATTRIBUTES.split(), "aria-controls", "aria-labelledby"}


class _Page(HTMLParser):
    """The visible text outside rows, and the text and links of each table row."""

    def __init__(self) -> None:
        super().__init__()
        self.text, self.links = list[str](), set[str]()
        self.rows = list[tuple[list[str], set[str]]]()
        self._inside, self.strange, self.unseen = list[str](), False, 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        own = dict(attrs)
        is_hidden = "hidden" in own and own.get("id") != "find"
        self.strange |= tag not in OF_PAGES[0] or not own.keys() <= OF_PAGES[1] or is_hidden
        if tag in (*UNSEEN, "tr"):
            self.unseen += tag in UNSEEN
            self._inside.append(tag)
        if tag == "tr":
            self.rows.append(([], set()))
        if href := own.get("href"):
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
    if found.strange or found.unseen > len(UNSEEN) or "content:" in page.partition("</style>")[0]:
        return "has more elements than pages have"
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
        if not same or paths != {file["path"] for file in files} or not numbers_in(text) <= numbers_in(expected):
            return f"and its metadata differ on {'*'.join(own) or 'the total'}"
    texts = {metadata["title"], metadata["description"], *metadata.get("notes", ())}
    if not texts | {metadata[key] for key in ("population", "period", "published") if key in metadata} <= {*found.text}:
        return "has other titles or texts than its metadata"
    expected = [*links, *(value for key, value in metadata.items() if key != "resources")]
    if not numbers_in([*found.text, *found.rows[0][0]]) <= numbers_in(expected):
        return "has numbers that its metadata do not have"
    return ""
