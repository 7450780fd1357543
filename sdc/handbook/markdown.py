"""Convert the handbook's Markdown to HTML with the standard library only: no installation is needed.

Blocks are separated by empty lines: headings, paragraphs, fences, tables and flat lists, and HTML tags. A test compares
it with a full parser on every page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

BLOCK = re.compile(r"^```(?P<info>.*)\n(?P<code>(?:.*\n)*?)```$|^.+(?:\n(?!```).+)*", re.MULTILINE)
ITEM = re.compile(r"^(?:- |\d+\. )", re.MULTILINE)
INLINE = re.compile(
    r"`(?P<code>[^`]+)`|\*\*(?P<strong>.+?)\*\*|\*(?P<em>[^*]+)\*|\[(?P<text>[^\]]+)\]\((?P<to>[^)]+)\)"
    r"|\\(?P<sign>[*|])|(?P<tag></?[a-z][^>]*>)",
    re.DOTALL,
)


@dataclass(frozen=True)
class Snippet:
    """A fenced part of a page.

    kind  console, pycon, sh, text, or the file type: yaml, csv
    name  of the file; none for a part of a config
    """

    kind: str
    name: str
    text: str


def snippets(text: str) -> Iterator[Snippet]:
    """The parts of a page that can be run or are read by something that runs."""
    for block in BLOCK.finditer(text):
        if block["code"] is not None:
            kind, _, name = block["info"].partition(" ")
            yield Snippet(kind, name, block["code"])


def headings(text: str) -> list[str]:
    """The title of a page, then those of its parts."""
    blocks = (block[0] for block in BLOCK.finditer(text) if block["code"] is None)
    return [block.lstrip("#").strip() for block in blocks if block.startswith("#")]


def anchor(page: str, heading: str) -> str:
    """The anchor of a part of a page."""
    return f"{page}-{re.sub(r'[^a-z]+', '-', heading.lower()).strip('-')}"


def html(text: str, page: str) -> str:
    """A page without its title; its parts have anchors, and wide blocks scroll by keyboard."""
    return "\n".join(_block(block, page) for block in BLOCK.finditer(text) if not block[0].startswith("# "))


def _block(block: re.Match[str], page: str) -> str:
    text = block[0]
    if block["code"] is not None:
        return _fence(*snippets(text))
    if text.startswith("#"):
        # one level lower, below the title of all pages
        signs, _, title = text.partition(" ")
        level = len(signs) + 1
        return f'<h{level} id="{anchor(page, title)}">{_inline(title)}</h{level}>'
    if text.startswith("|"):
        return _table(text.splitlines(), page)
    if ITEM.match(text):
        kind = "ul" if text.startswith("-") else "ol"
        items = "".join(f"<li>{_inline(item.strip())}</li>" for item in ITEM.split(text)[1:])
        return f"<{kind}>{items}</{kind}>"
    return f"<p>{_inline(text)}</p>"


def _fence(snippet: Snippet) -> str:
    label = f'<span class="file">{escape(snippet.name)}</span>' if snippet.name else ""
    return f'{label}<pre tabindex="0"><code class="{escape(snippet.kind)}">{escape(snippet.text)}</code></pre>'


def _table(lines: list[str], page: str) -> str:
    """A table; the rows of a glossary, which begin with a strong word, have anchors and are found by the search."""
    head, _, *rows = (_row(line) for line in lines)
    titles = "".join(f"<th>{cell}</th>" for cell in head)
    body = "".join(
        f"<tr{_row_anchor(row[0], page)}>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>\n" for row in rows
    )
    return (
        f'<div class="wide" tabindex="0"><table>\n<thead><tr>{titles}</tr></thead>\n<tbody>{body}</tbody></table></div>'
    )


def _row_anchor(cell: str, page: str) -> str:
    return f' id="{anchor(page, re.sub("<.*?>", "", cell))}"' if cell.startswith("<strong>") else ""


def _row(line: str) -> list[str]:
    return [_inline(cell.strip()) for cell in re.split(r"(?<!\\)\|", line.strip()[1:-1])]


def _inline(text: str) -> str:
    """Code, strong, emphasis, links, escaped characters and tags; the rest is text."""
    inline, end = "", 0
    for found in INLINE.finditer(text):
        inline += escape(text[end : found.start()]) + _marked(found)
        end = found.end()
    return inline + escape(text[end:])


def _marked(found: re.Match[str]) -> str:
    kind, inner = str(found.lastgroup), found[str(found.lastgroup)]
    if kind == "code":
        return f"<code>{escape(inner)}</code>"
    if kind == "to":
        return f'<a href="{escape(_target(inner))}">{_inline(found["text"])}</a>'
    if kind == "tag":
        return inner
    return escape(inner) if kind == "sign" else f"<{kind}>{_inline(inner)}</{kind}>"


def _target(to: str) -> str:
    return re.sub(r"^(\w+)\.md$", r"#\1", to)
