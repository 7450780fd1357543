"""Errors of requests, in one form: a stable code, a plain sentence, and its numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Scope, Send

from sdc.server.service.outcome import PROBLEMS
from sdc.server.web.access import AccessError


@dataclass
class Problem(HTTPException):
    """An answer that is none: its code, a sentence, what else the answer has, and its status where it is another."""

    code: str
    message: str
    more: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    status: int = 0

    def __post_init__(self) -> None:
        self.status = self.status or PROBLEMS[self.code]
        # what reads bodies lets this one kind of exception through
        super().__init__(self.status, self.message, self.headers)

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


def denied(error: AccessError) -> Problem:
    """The answer to somebody who may not ask this."""
    headers = {"www-authenticate": "Bearer"} if error.status == 401 else {}
    return Problem(error.code, str(error), headers=headers)


Page = Callable[[Request, Problem], Response]
_pages: list[Page] = []


def show_pages_by(page: Page) -> None:
    """Set how pages show problems; without it all are JSON."""
    _pages[:] = [page]


def is_for_programs(path: str) -> bool:
    """Whether the answers there are JSON or text for everybody."""
    return path.startswith(("/api/", f"{PX_PREFIX}/")) or path in (*PROBES, METRICS)


def response_to(request: Request, problem: Problem) -> Response:
    """JSON, or for a person a page."""
    wants_page = not is_for_programs(request.url.path) and _pages
    if request.url.path.startswith(f"{PX_PREFIX}/"):
        found: Response = _detailed(problem)
    else:
        found = _pages[0](request, problem) if wants_page else JSONResponse(problem.body, problem.status)
    for name, value in problem.headers.items():
        found.headers[name] = value
    return found


def _detailed(problem: Problem) -> JSONResponse:
    """As RFC 9457 has it, which PxWebApi asks for."""
    content = {"type": "about:blank", "title": HTTPStatus(problem.status).phrase, **problem.more}
    content |= {"status": problem.status, "detail": problem.message}
    return JSONResponse(content, problem.status, media_type="application/problem+json")


async def answer_problem(scope: Scope, problem: Problem, send: Send) -> None:
    """Sends the answer to a request whose body nobody reads."""

    async def nothing() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    await response_to(Request(scope), problem)(scope, nothing, send)
