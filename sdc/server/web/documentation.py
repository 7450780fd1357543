"""What the API says of itself: what its addresses answer with, and its OpenAPI document."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from sdc.server.web.bodies import HealthBody, ProblemBody, ReplyBody
from sdc.server.web.formats import FORMATS

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
    for methods in found["paths"].values():
        for operation in methods.values():
            operation["responses"].pop("422", None)
            operation["security"] = [{KEY_NAME: []}, {}]
    components = found["components"]
    for name in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(name, None)
    components["securitySchemes"] = {KEY_NAME: {"type": "http", "scheme": "bearer"}}
    return found
