"""The handbook: one HTML page in four parts, from the pages beside this file and from generated lists.

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
from sdc.handbook.markdown import headings, html
from sdc.version import VERSION

REFERENCE = "Reference"
PARTS = {
    "Tutorial": "tutorial year first_release",
    "How-to guides": (
        "microdata recodes hierarchies yearbook protect why composition ledger check weights single_tables "
        "magnitude notebook from_r server requests pxwebapi times clusters schedules operations backup night auditors"
    ),
    REFERENCE: "use python_names table criteria publishing run_folder execution capabilities words",
    "Explanation": (
        "guarantee width methods comparison utility likely losses decision uniques attack trust "
        "theory proofs bounds facts fits papers papers_shown"
    ),
}
"""The four parts, and the pages of each in order; the generated lists end the reference."""


@dataclass(frozen=True)
class Page:
    """A page: its anchor, title, and its body as HTML."""

    key: str
    title: str
    html: str

    @classmethod
    def of(cls, name: str, text: str) -> Page:
        key = name.removesuffix(".md")
        return cls(key, next(iter(headings(text))), html(text, key))


def pages() -> list[tuple[str, str]]:
    """The names and texts of the pages, in order, with the table of capabilities."""
    return [(f"{key}.md", _text(f"{key}.md")) for keys in PARTS.values() for key in keys.split()]


def _text(name: str) -> str:
    return (
        files(__name__).joinpath(name).read_text(encoding="utf-8").replace("<!-- capabilities -->", capabilities.page())
    )


def handbook(lists: Sequence[Page] = ()) -> str:
    """The whole page: the written pages by parts, with the generated lists at the end of the reference."""
    written = {name: Page.of(name, text) for name, text in pages()}
    contents, body = "", list[str]()
    for part, keys in PARTS.items():
        sections = [*(written[f"{key}.md"] for key in keys.split()), *(lists if part == REFERENCE else ())]
        links = "".join(f'<li><a href="#{one.key}">{escape(one.title)}</a></li>' for one in sections)
        contents += f"<p>{part}</p>\n<ul>{links}</ul>\n"
        label = f'<p class="part"><a href="#contents">Contents</a>: {part}</p>'
        body += [
            f'<section id="{one.key}">\n<h2>{escape(one.title)}</h2>\n{label}\n{one.html}</section>' for one in sections
        ]
    page, script = (files(__name__).joinpath(name).read_text(encoding="utf-8") for name in ("page.html", "search.js"))
    # a browser runs no other script
    digest = b64encode(sha256(script.encode()).digest()).decode()
    marks = {
        "VERSION": escape(VERSION),
        "CONTENTS": contents,
        "BODY": "\n".join(body),
        "DIGEST": digest,
        "SCRIPT": script,
    }
    for mark, part in marks.items():
        page = page.replace(f"<!--{mark}-->", part)
    return page
