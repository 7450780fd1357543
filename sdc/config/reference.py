"""The reference of the config, from its types: every key, what it may be, what it is by default, what it does."""

from __future__ import annotations

import difflib
import types
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from sdc.config.build import BuildConfig
from sdc.config.old_keys import OLD_KEYS, current_key
from sdc.model.errors import ConfigError
from sdc.version import VERSION

NAME = "NAME"
"""Stands in a key for whatever name the user chooses, such as that of a variable."""


@dataclass(frozen=True)
class ConfigKey:
    """A key of the config, with dots between sections.

    kind     what it may be, in a few words; `section` of one that only holds others
    default  as YAML has it; None where it has none and must be given
    """

    key: str
    kind: str
    default: str | None
    description: str

    @property
    def text(self) -> str:
        """For people."""
        default = "must be given" if self.default is None else f"default {self.default}"
        return f"{self.key}\n    {self.kind}; {default}\n    {self.description}"

    @property
    def facts(self) -> dict[str, str | bool | None]:
        return {
            "key": self.key,
            "type": self.kind,
            "required": self.default is None,
            "default": self.default,
            "description": self.description,
        }


def reference(model: type[BaseModel] = BuildConfig, above: str = "") -> Iterator[ConfigKey]:
    """Every key of a model, in the order in which it has them, each section before what is in it."""
    for name, field in model.model_fields.items():
        key = f"{above}{name}"
        sections = list(_sections(field.annotation, key))
        yield ConfigKey(key, _kind(field.annotation), _default(field), " ".join((field.description or "").split()))
        known = set[str]()
        for section, place in sections:
            for inner in reference(section, f"{place}."):
                # sections of which one is chosen, such as the rules of a server, have keys in common
                if inner.key not in known:
                    known.add(inner.key)
                    yield inner


def explained(wanted: str | None = None) -> list[ConfigKey]:
    """The keys at, and below, the one that is wanted; ConfigError with the nearest where there is none."""
    keys = list(reference())
    if wanted is None:
        return keys
    wanted = current_key(wanted)
    found = [key for key in keys if key.key == wanted or key.key.startswith(f"{wanted}.")]
    if not found:
        names = [key.key for key in keys]
        near = difflib.get_close_matches(wanted, names, n=3) or [n for n in names if n.endswith(f".{wanted}")][:3]
        meant = f"; did you mean {', '.join(near)}?" if near else "; sdc config --explain lists all"
        raise ConfigError(f"{wanted} is not a key of the config{meant}")
    return found


def schema() -> dict[str, Any]:
    """The JSON schema of a config, by which editors complete and check one."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **BuildConfig.model_json_schema()}


def table(anchor: str = "") -> str:
    """The reference as a table of a page; the anchor of each row is its key after this."""
    rows = "\n".join(
        f'<tr id="{anchor}{escape(k.key)}"><th scope="row"><code>{escape(k.key)}</code></th><td>{escape(k.kind)}</td>'
        f"<td>{'<b>must be given</b>' if k.default is None else f'<code>{escape(k.default)}</code>'}</td>"
        f"<td>{escape(k.description)}</td></tr>"
        for k in reference()
    )
    old = ", ".join(f"<code>{escape(key)}</code> ({escape(now.name)})" for key, now in OLD_KEYS.items())
    return f"""<p>Every key of a config, with dots between sections; <code>{NAME}</code> is a name that you choose, such
as that of a variable. A key that is not here is refused. Until the next version these are accepted, with a warning that
names the line to write, and the name of today: {old}.</p>
<div class="wide" tabindex="0"><table>
<thead><tr><th scope="col">Key</th><th scope="col">Type</th><th scope="col">Default</th>
<th scope="col">What it is</th></tr></thead><tbody>
{rows}
</tbody></table></div>
"""


def page() -> str:
    """The reference as one page that needs nothing else."""
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>The config of sdc</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body {{ font: 16px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem; }}
.wide {{ overflow-x: auto; }}
table {{ border-collapse: collapse; width: 100%; }}
th, td {{ border-bottom: 1px solid #bbb; padding: .35rem .6rem; text-align: left; vertical-align: top; }}
thead th {{ background: #fff; position: sticky; top: 0; }}
tr:target {{ background: #ffd; }}
tr {{ break-inside: avoid; }}
</style></head><body>
<h1>The config of sdc {escape(VERSION)}</h1>
{table()}</body></html>
"""


def _sections(annotation: Any, key: str) -> Iterator[tuple[type[BaseModel], str]]:
    """The models within a type, each with the key at which it stands."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation, key
        return
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is dict:
        yield from _sections(inner[1], f"{key}.{NAME}")
    elif origin is Annotated:
        yield from _sections(inner[0], key)
    elif origin is not Literal:
        for one in inner:
            if one is not Ellipsis:
                yield from _sections(one, key)


def _kind(annotation: Any) -> str:
    """A type in a few words."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "section"
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _kind(inner[0])
    if origin is Literal:
        return " or ".join(str(value) for value in inner)
    if origin in (Union, types.UnionType):
        kinds = dict.fromkeys(_kind(one) for one in inner if one is not types.NoneType)
        return " or ".join(kinds)
    if origin is tuple:
        pair = len(inner) == 2 and inner[1] is not Ellipsis
        return "[" + ", ".join(map(_kind, inner)) + "]" if pair else f"list of {_kind(inner[0])}"
    if origin is dict:
        return f"{NAME}: {_kind(inner[1])}"
    return {str: "text", int: "integer", float: "number", bool: "true or false"}.get(annotation, "null")


def _default(field: FieldInfo) -> str | None:
    """The default as YAML writes it in a line, `none` where it may be left out; None where it must be given."""
    import yaml

    if field.is_required():
        return None
    value = field.get_default(call_default_factory=True)
    if value is None:
        return "none"
    if isinstance(value, BaseModel):
        return "its own defaults"
    plain = list(value) if isinstance(value, tuple) else value
    return str(yaml.safe_dump(plain, default_flow_style=True, width=1000)).removesuffix("\n").removesuffix("\n...")
