"""What goes wrong with a request, told in one way: a stable code, a plain sentence, and its numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Scope, Send

from sdc.server.web.access import AccessError


@dataclass
class Problem(HTTPException):
    """An answer that is none: its HTTP status, its code, a sentence, and what else the answer has."""

    status: int
    code: str
    message: str
    more: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # what reads bodies lets this one kind of exception through
        super().__init__(self.status, self.message, self.headers)

    @property
    def body(self) -> dict[str, Any]:
        return {"code": self.code, "message": self.message, **self.more}


def denied(error: AccessError) -> Problem:
    """What somebody is told who may not."""
    headers = {"www-authenticate": "Bearer"} if error.status == 401 else {}
    return Problem(error.status, error.code, str(error), {}, headers)


Page = Callable[[Request, int, str, str], Response]
_pages: list[Page] = []


def tell_pages_by(page: Page) -> None:
    """How pages tell of problems; without it all are told as JSON."""
    _pages[:] = [page]


def response_to(request: Request, problem: Problem) -> Response:
    """JSON, or for a person a page."""
    wants_page = not request.url.path.startswith("/api/") and _pages
    if wants_page:
        found = _pages[0](request, problem.status, problem.code, problem.message)
    else:
        found = JSONResponse(problem.body, problem.status)
    for name, value in problem.headers.items():
        found.headers[name] = value
    return found


async def answer_problem(scope: Scope, problem: Problem, send: Send) -> None:
    """Sends the answer to a request whose body nobody reads."""

    async def nothing() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    await response_to(Request(scope), problem)(scope, nothing, send)
