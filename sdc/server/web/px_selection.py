"""Selections of PxWebApi 2: what a query or a body asks for, and which categories its expressions stand for."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn

import numpy as np
import numpy.typing as npt
from starlette.requests import Request

from sdc.publish.formats.table import Dimension
from sdc.server.web.problems import Problem

Codes = npt.NDArray[np.int64]
Chosen = dict[str, tuple[str | None, Sequence[str]]]
"""The code list and the expressions of each variable of a selection."""

MOST_EXPRESSIONS = 20  # of a variable: each is compared with every category
NO_TABLE = "there is no table of this id"
_ERRORS = {
    "table": (404, "Non-existent table"),
    "page": (404, "Non-existent page"),
    "codelist": (404, "Non-existent codelist"),
    "its codelist": (400, "Non-existent codelist"),
    "variable": (400, "Non-existent variable"),
    "value": (400, "Non-existent value"),
    "missing": (400, "Missing selection for mandantory variable"),
    "expression": (400, "Illegal selection expression"),
    "cells": (403, "Too many cells selected"),
    "format": (400, "Unsupported output format"),
    "parameter": (400, "Bad Request"),
}
"""Status and title of each problem, spelled as in PxTools/PxWebApi."""


def fail(what: str, detail: str) -> NoReturn:
    """Raise the problem of this kind."""
    status, title = _ERRORS[what]
    raise Problem("bad-body", detail, {"type": "Parameter error", "title": title}, status=status)


def number_of(request: Request, name: str, default: int) -> int:
    """A positive number of the query, or the default."""
    text = request.query_params.get(name) or str(default)
    if not re.fullmatch("[0-9]{1,9}", text):
        fail("parameter", f"{name} is not a whole number")
    return int(text) or default


def queried(request: Request) -> Chosen:
    """Of `valuecodes[VARIABLE]=a,b` and `codelist[VARIABLE]=id`."""
    values, lists = dict[str, list[str]](), dict[str, str]()
    for key, text in request.query_params.multi_items():
        name, bracket, variable = key.partition("[")
        if name.lower() in ("valuecodes", "codelist"):
            if not bracket or not variable.endswith("]") or len(variable) < 2:
                fail("parameter", f"write {name.lower()}[VARIABLE], not {key[:80]!r}")
            if name.lower() == "codelist":
                lists[variable[:-1]] = text
            else:
                values.setdefault(variable[:-1], []).append(text)
    return {v: (lists.get(v), [one for text in values.get(v, ()) for one in _parts(text)]) for v in {**values, **lists}}


def _parts(text: str) -> list[str]:
    """Values between commas; one in brackets is as it is, and an expression has its commas between parentheses."""
    parts = re.findall(r"\[[^\]]*\](?=,|$)|[A-Za-z]+\([^)]*\)(?=,|$)|[^,]+", text)
    return [one[1:-1] if one.startswith("[") and one.endswith("]") else one for one in parts]


async def sent(request: Request) -> Chosen:
    """Of a body `{"selection": [{"variableCode": ..., "valueCodes": [...], "codelist": ...}]}`."""
    try:
        body = await request.body()
        content = json.loads(body) if body else {"selection": []}
        found: Chosen = {}
        for one in content["selection"]:
            variable, listed = one["variableCode"], one.get("codelist")
            values = one.get("valueCodes") or []
            texts = [variable, listed or "", *values]
            if not isinstance(values, list) or not all(isinstance(text, str) for text in texts):
                raise TypeError
            _require_once(variable, found)
            found[variable] = listed or None, values
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
        fail("parameter", 'send {"selection": [{"variableCode": "...", "valueCodes": ["..."]}]} as JSON')
    return found


def _require_once(variable: str, found: Chosen) -> None:
    if variable in found:
        fail("parameter", f"values of {variable[:80]!r} are selected twice; select them once")


def with_names(wanted: Chosen, dimensions: Sequence[Dimension], time: Dimension | None) -> Chosen:
    """By the codes of the variables, whose case is ignored; `time` is that of the period."""
    names = [one.name for one in dimensions]
    folded = {**{name.casefold(): name for name in reversed(names)}, **({"time": time.name} if time else {})}
    found: Chosen = {}
    for given, own in wanted.items():
        name = given if given in names else folded.get(given.casefold())
        if name is None:
            fail("variable", f"the table has no variable {given[:80]!r}")
        _require_once(name, found)
        found[name] = own
    return found


def places_of(dimension: Dimension, values: Sequence[str]) -> Codes:
    """The places of the chosen categories in their order, each once."""
    place = {category: number for number, category in enumerate(dimension.categories)}
    folded = {category.casefold(): number for category, number in reversed(place.items())}

    def place_of(code: str) -> int | None:
        """As it is written, else whatever its case."""
        return place.get(code, folded.get(code.casefold()))

    found = {value: place_of(value) for value in values}
    chosen, expressions = (
        {one for one in found.values() if one is not None},
        [v for v, one in found.items() if one is None],
    )
    if len(expressions) > MOST_EXPRESSIONS:
        wrong = next((one for one in expressions if not _is_expression(one)), None)
        fail("expression" if wrong is None else "value", f"{dimension.name!r}: at most {MOST_EXPRESSIONS} expressions")
    for value in expressions:
        chosen |= {*_matched(value, dimension, place_of)}
    if not chosen:
        fail("missing", f"no category of {dimension.name!r} is selected")
    return np.array(sorted(chosen), np.int64)


def _is_expression(text: str) -> bool:
    return bool("?" in text or "*" in text or _CALL.fullmatch(text))


_CALL = re.compile(r"(TOP|BOTTOM|FROM|TO|RANGE)\((.*)\)", re.IGNORECASE | re.DOTALL)


def _matched(text: str, dimension: Dimension, place_of: Callable[[str], int | None]) -> Iterator[int]:
    """The places of the categories that an expression stands for."""
    every = range(len(dimension.categories))
    if call := _CALL.fullmatch(text):
        kind, inner = call[1].upper(), call[2]
        if kind in ("TOP", "BOTTOM"):
            numbers = re.fullmatch("([1-9][0-9]{0,8})(?:,([0-9]{1,9}))?", inner)
            if numbers is None:
                fail("expression", f"{text[:80]!r} is not a number of categories")
            skipped = int(numbers[2] or 0)
            in_order = every if kind == "TOP" else every[::-1]
            yield from in_order[skipped : skipped + int(numbers[1])]
            return
        ends = _ends(inner, place_of) if kind == "RANGE" else [one for one in [place_of(inner)] if one is not None]
        if not ends:
            fail("expression", f"{text[:80]!r} names no category of {dimension.name!r}")
        low, high = {"FROM": (ends[0], every[-1]), "TO": (0, ends[0])}.get(kind, (min(ends), max(ends)))
        yield from every[low : high + 1]
        return
    if not _is_expression(text):
        fail("value", f"{dimension.name!r} has no category {text[:80]!r}")
    wild = (r"\?", ".") if "?" in text else (r"\*", ".*")
    if "?" not in text and ("*" in text.strip("*") or text.count("*") > 2):
        fail("expression", f"{text[:80]!r} has a star within; stars are first or last")
    form = re.compile(re.escape(text).replace(*wild), re.IGNORECASE | re.DOTALL)
    yield from (place for place in every if form.fullmatch(dimension.categories[place]))


def _ends(inner: str, place_of: Callable[[str], int | None]) -> list[int]:
    """The places of the two codes of a range, which may have commas of their own."""
    parts = inner.split(",")
    for k in range(1, len(parts)):
        low, high = place_of(",".join(parts[:k])), place_of(",".join(parts[k:]))
        if low is not None and high is not None:
            return [low, high]
    return []
