"""What the API says of itself: what its addresses answer with, its OpenAPI document, and that as a page."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from markupsafe import Markup

from sdc.report.svg import element
from sdc.server.web.answers import FORMATS
from sdc.server.web.bodies import HealthBody, ProblemBody, ReplyBody
from sdc.server.web.problems import PX_PREFIX

Responses = dict[int | str, dict[str, Any]]
KEY_NAME = "key"
BYTES, PLAIN = "application/octet-stream", "text/plain"
ALWAYS = (400, 401, 413, 429, 503)

PENDING: Responses = {202: {"model": ReplyBody, "description": "It is pending"}}
NOT_WELL: Responses = {503: {"model": HealthBody}}
PLAIN_TEXT: Responses = {200: {"content": {PLAIN: {"schema": {"type": "string"}}}}}
BINARY: Responses = {200: {"content": {BYTES: {"schema": {"type": "string", "format": "binary"}}}}}
TABLE: Responses = {
    200: {"content": {format.range: {"schema": {}} for format in FORMATS.values()}},
    304: {"description": HTTPStatus.NOT_MODIFIED.phrase},
}


def documented(*codes: int, also: Responses | None = None) -> Responses:
    """The answers of an address beside what it finds: what may go wrong, and others."""
    return {code: {"model": ProblemBody} for code in (*ALWAYS, *codes)} | (also or {})


def openapi_of(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document; what a body lacks is answered by 400, and each address takes a key."""
    found = get_openapi(title=app.title, version=app.version, routes=app.routes)
    for _, _, operation in _operations(found):
        operation["responses"].pop("422", None)
        operation["security"] = [{KEY_NAME: []}, {}]
    components = found["components"]
    for name in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(name, None)
    components["securitySchemes"] = {KEY_NAME: {"type": "http", "scheme": "bearer"}}
    return found


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method.upper(), operation


def documentation_page(document: dict[str, Any]) -> str:
    """The document for people."""
    title = document["info"]["title"]
    intro = (
        "Give a key as ",
        element("code", "Authorization: Bearer KEY"),
        "; errors are JSON with a code and a sentence. The same for programs: ",
        element("a", "OpenAPI", href="/api/openapi.json"),
        ". Public tables are also to be had by PxWebApi 2, at ",
        element("code", PX_PREFIX),
        ".",
    )
    sections = [_section(path, method, operation) for path, method, operation in _operations(document)]
    head = Markup(
        '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8"><title>{0}: API</title>'
        '<meta name="viewport" content="width=device-width"><link rel="stylesheet" href="/static/server.css"></head>\n'
    ).format(title)
    main = element("main", element("h1", f"{title}: API"), element("p", *intro), *sections)
    return head + element("body", main) + Markup("\n</html>\n")


def _section(path: str, method: str, operation: dict[str, Any]) -> Markup:
    parameters = [
        element("li", element("code", p["name"]), f" ({p['in']}) ", p.get("description", ""))
        for p in operation.get("parameters", ())
    ]
    answers = [
        element("li", element("code", status), " ", answer.get("description", ""), " ", _kinds(answer))
        for status, answer in operation["responses"].items()
    ]
    return element(
        "section",
        element("h2", element("code", f"{method} {path}")),
        element("p", operation["summary"], ": ", operation.get("description", "")),
        element("ul", *parameters) if parameters else "",
        element("ul", *answers),
    )


def _kinds(answer: dict[str, Any]) -> str:
    return ", ".join(answer.get("content", ()))
