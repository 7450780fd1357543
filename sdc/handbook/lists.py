"""Generated lists of the handbook: every command, every verb of Python, every key of a config."""

from __future__ import annotations

import inspect
import re
from html import escape
from typing import Any

import sdc
from sdc.config.reference import table
from sdc.handbook import Page


def lists(commands: Any) -> list[Page]:
    """The last sections of the handbook; `commands` is the command line's root."""
    return [
        Page("commands", "Every command", _commands(commands)),
        Page("python", "Every verb in Python", _verbs()),
        Page("config", "Every key of a config", table("key-")),
    ]


def _commands(root: Any) -> str:
    rows = []
    for name, command in root.commands.items():
        command.explained()
        arguments = [one for one in command.params if one.param_type_name == "argument"]
        options = [one for one in command.params if one.param_type_name == "option" and one.help]
        called = escape(" ".join([name, *(one.metavar or one.name.upper() for one in arguments)]))
        listed = "".join(_term(" ".join(one.opts), one.help) for one in options)
        text = escape(" ".join((command.help or "").split()))
        rows.append(f'<h3 id="sdc-{name}"><code>sdc {called}</code></h3><p>{text}</p><dl>{listed}</dl>')
    return "\n".join(rows)


def _term(code: str, text: str) -> str:
    return f"<dt><code>{escape(code)}</code></dt><dd>{escape(text)}</dd>"


def _verbs() -> str:
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
    # an object's text as a default differs between runs
    return re.sub(r"= <.*? at 0x[0-9a-f]+>", "= ...", f"{verb.__name__}{inspect.signature(verb)}")
