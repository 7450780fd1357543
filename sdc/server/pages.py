"""What people see of the server."""

from __future__ import annotations

from fastapi import APIRouter
from markupsafe import escape
from starlette.requests import Request
from starlette.responses import HTMLResponse

from sdc.config import ServerConfig
from sdc.server.desk import DeskLike


def error_page(request: Request, status: int, code: str, message: str) -> HTMLResponse:
    """A page that says what went wrong."""
    return HTMLResponse(f"<!doctype html><html lang=en><title>{escape(code)}</title><p>{escape(message)}", status)


def pages(desk: DeskLike, settings: ServerConfig) -> APIRouter:
    """The pages of a desk."""
    return APIRouter()
