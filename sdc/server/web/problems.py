"""Errors of requests, in one form: a stable code, a plain sentence, and its numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from sdc.model.errors import SdcError
from sdc.page_templates import page_templates
from sdc.server.service.outcome import PROBLEMS


@dataclass
class Problem(HTTPException, SdcError):  # noqa: N818 - the word of RFC 9457
    """An answer that is none: its code, a sentence, what else the answer has, and its status where it is another.

    It is an HTTPException because what reads bodies lets no other exception through.
    """

    code: str
    message: str
    more: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    status: int = 0

    def __post_init__(self) -> None:
        self.status = self.status_code = self.status or PROBLEMS[self.code]
        self.headers = {**({"www-authenticate": "Bearer"} if self.status == 401 else {}), **self.headers}
        SdcError.__init__(self, self.message)

    def __str__(self) -> str:
        return self.message

    @property
    def body(self) -> dict[str, Any]:
        return {"code": self.code, "message": self.message, **self.more}


PX_PREFIX = "/pxapi/v2"
LIVE, READY, METRICS = "/livez", "/readyz", "/metrics"
PROBES = (LIVE, READY, "/api/health")  # the last is where clients of the API ask whether it is ready


UNAVAILABLE = Problem(
    "unavailable",
    "the history of this server cannot be written or read now, and no answer is given that is not stored; ask again",
    headers={"retry-after": "5"},
)


_TEMPLATES = page_templates("sdc.server.web", "templates")
_TEMPLATES.filters["called"] = lambda name, labels: labels.variable(name)
_TEMPLATES.filters["number"] = "{:,}".format


def page_of(request: Request, name: str, status: int = 200, /, **values: Any) -> HTMLResponse:
    """A page from its template; the user may be unknown where something has failed."""
    user, csrf = getattr(request.state, "user", None), getattr(request.state, "csrf", "")
    common = {"title": request.app.title, "user": user, "csrf": csrf, "path": request.url.path}
    return HTMLResponse(_TEMPLATES.get_template(f"{name}.html.j2").render(common | values), status)


def is_for_programs(path: str) -> bool:
    """Whether the answers there are JSON or text for everybody."""
    return path.startswith(("/api/", f"{PX_PREFIX}/")) or path in (*PROBES, METRICS)


def response_to(request: Request, problem: Problem) -> Response:
    """JSON, or for a person a page."""
    path = request.url.path
    found: Response
    if path.startswith(f"{PX_PREFIX}/"):
        found = _detailed(problem)
    elif is_for_programs(path):
        found = JSONResponse(problem.body, problem.status)
    else:
        found = page_of(request, "error", problem.status, code=problem.code, message=problem.message)
    for name, value in problem.headers.items():
        found.headers[name] = value
    return found


def _detailed(problem: Problem) -> JSONResponse:
    """As RFC 9457 has it, which PxWebApi asks for."""
    content = {"type": "about:blank", "title": HTTPStatus(problem.status).phrase, **problem.more}
    content |= {"status": problem.status, "detail": problem.message}
    return JSONResponse(content, problem.status, media_type="application/problem+json")
