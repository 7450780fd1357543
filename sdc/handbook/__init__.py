"""The handbook: one page from the chapters beside this file, the types of the config, commands and docstrings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

from sdc.config_reference import table
from sdc.search.capabilities import page
from sdc.version import VERSION

ALL_ELSE = "Methods, features of a config and verbs, each with what it does not work with. All other pairs work."


@dataclass(frozen=True)
class Snippet:
    """A fenced part of a chapter.

    kind  console, pycon, sh, or what file it is: yaml, csv
    name  of the file
    """

    kind: str
    name: str
    text: str


def chapters() -> list[tuple[str, str]]:
    """The names and texts of the chapters, in order."""
    sources = (one for one in files(__name__).iterdir() if one.name.endswith(".md"))
    return [(one.name, one.read_text(encoding="utf-8")) for one in sorted(sources, key=lambda one: one.name)]


def snippets(text: str) -> Iterator[Snippet]:
    """Everything in a chapter that can be run, or that something run reads."""
    for token in _markdown().parse(text):
        if token.type == "fence":
            kind, _, name = token.info.partition(" ")
            yield Snippet(kind, name, token.content)


def handbook(commands: Any) -> str:
    """The whole page; `commands` is the command line's root."""
    parts = [_chapter(text) for _, text in chapters()]
    parts += [("commands", "Commands", _commands(commands)), ("python", "In Python", _verbs())]
    listed = _rendered(_markdown().parse(page()))
    parts.append(("capabilities", "What works with what", f"<p>{ALL_ELSE}</p>\n{listed}"))
    parts.append(("config", "Every key of a config", table("key-")))
    contents = "".join(f'<li><a href="#{key}">{escape(title)}</a></li>' for key, title, _ in parts)
    body = "\n".join(f'<section id="{key}">\n<h2>{escape(title)}</h2>\n{html}</section>' for key, title, html in parts)
    whole = files(__name__).joinpath("page.html").read_text(encoding="utf-8")
    for mark, html in (("VERSION", escape(VERSION)), ("CONTENTS", contents), ("BODY", body)):
        whole = whole.replace(f"<!--{mark}-->", html)
    return whole


def _markdown() -> MarkdownIt:
    return MarkdownIt("commonmark").enable("table")


def _chapter(text: str) -> tuple[str, str, str]:
    """Its anchor, its title and the rest as HTML; what is wide can be scrolled by keyboard."""
    tokens = _markdown().parse(text)
    title = tokens[1].content
    named = (token.info.partition(" ")[2] for token in tokens if token.type == "fence")
    html = _rendered(_renamed(tokens[3:]))
    html = re.sub(r"<pre><code class=\"language-(\w+)\">", lambda m: _opened(m[1], next(named)), html)
    return re.sub(r"[^a-z]+", "-", title.lower()).strip("-"), title, html


def _rendered(tokens: Sequence[Token]) -> str:
    markdown = _markdown()
    html = str(markdown.renderer.render(tokens, markdown.options, {}))
    return html.replace("<table>", '<div class="wide" tabindex="0"><table>').replace("</table>", "</table></div>")


def _renamed(tokens: Sequence[Token]) -> Sequence[Token]:
    """Headings one level lower, below that of the page."""
    for token in tokens:
        if token.type.startswith("heading"):
            token.tag = f"h{int(token.tag[1]) + 1}"
    return tokens


def _opened(kind: str, name: str) -> str:
    label = f'<span class="file">{escape(name)}</span>' if name else ""
    return f'{label}<pre tabindex="0"><code class="{escape(kind)}">'


def _commands(root: Any) -> str:
    rows = []
    for name, command in root.commands.items():
        arguments = [one for one in command.params if one.param_type_name == "argument"]
        options = [one for one in command.params if one.param_type_name == "option" and one.help]
        called = escape(" ".join([name, *(one.metavar or one.name.upper() for one in arguments)]))
        listed = "".join(_term(" ".join(one.opts), one.help) for one in options)
        said = escape(" ".join((command.help or "").split()))
        rows.append(f'<h3 id="sdc-{name}"><code>sdc {called}</code></h3><p>{said}</p><dl>{listed}</dl>')
    return "\n".join(rows)


def _term(code: str, text: str) -> str:
    return f"<dt><code>{escape(code)}</code></dt><dd>{escape(text)}</dd>"


def _verbs() -> str:
    import sdc

    rows = []
    for name in sdc.__all__:
        verb = getattr(sdc, name)
        rows.append(
            f'<h3 id="verb-{name}"><code>sdc.{name}</code></h3>'
            f'<pre tabindex="0"><code>{escape(_signature(verb))}</code></pre>'
            f'<pre class="said" tabindex="0">{escape(inspect.getdoc(verb) or "")}</pre>'
        )
    return "\n".join(rows)


def _signature(verb: Any) -> str:
    # a default that is an object has no text that is the same twice
    return re.sub(r"= <.*? at 0x[0-9a-f]+>", "= ...", f"{verb.__name__}{inspect.signature(verb)}")
