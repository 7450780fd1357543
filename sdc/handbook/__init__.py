"""The handbook: one HTML page from the pages beside this file, followed by generated lists.

It needs only the standard library, so that `python -m sdc.handbook` works before an installation.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from importlib.resources import files

from sdc.config import capabilities
from sdc.handbook.markdown import anchor, headings, html
from sdc.version import VERSION


@dataclass(frozen=True)
class Page:
    """A page: its anchor, title, anchors and titles of its parts, and its body as HTML."""

    key: str
    title: str
    html: str
    parts: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, name: str, text: str) -> Page:
        key = name.partition("_")[2].removesuffix(".md")
        title, *parts = headings(text)
        return cls(key, title, html(text, key), tuple((anchor(key, part), part) for part in parts))


def pages() -> list[tuple[str, str]]:
    """The names and texts of the pages, in order, with the table of capabilities."""
    sources = sorted((one for one in files(__name__).iterdir() if one.name.endswith(".md")), key=lambda one: one.name)
    listed = "<!-- capabilities -->", capabilities.page()
    return [(one.name, one.read_text(encoding="utf-8").replace(*listed)) for one in sources]


def handbook(lists: Sequence[Page] = ()) -> str:
    """The whole page: the written pages, then the generated lists."""
    sections = [*(Page.of(name, text) for name, text in pages()), *lists]
    contents = "".join(f'<li><a href="#{one.key}">{escape(one.title)}</a>{_parts(one)}</li>' for one in sections)
    body = "\n".join(
        f'<section id="{one.key}">\n<h2>{escape(one.title)}</h2>\n{one.html}</section>' for one in sections
    )
    page, script = (files(__name__).joinpath(name).read_text(encoding="utf-8") for name in ("page.html", "search.js"))
    # a browser runs no other script
    digest = b64encode(sha256(script.encode()).digest()).decode()
    marks = {"VERSION": escape(VERSION), "CONTENTS": contents, "BODY": body, "DIGEST": digest, "SCRIPT": script}
    for mark, part in marks.items():
        page = page.replace(f"<!--{mark}-->", part)
    return page


def _parts(section: Page) -> str:
    links = " · ".join(f'<a href="#{key}">{escape(title)}</a>' for key, title in section.parts)
    return f'<br><span class="parts">{links}</span>' if links else ""
