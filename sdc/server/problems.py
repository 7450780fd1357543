"""What goes wrong with a request, told in one way: a stable code, a plain sentence, and its numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Scope, Send


@dataclass
class Problem(Exception):  # noqa: N818, it is what HTTP calls one
    """An answer that is none: its HTTP status, its code, a sentence, and what else the answer has."""

    status: int
    code: str
    message: str
    more: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def body(self) -> dict[str, Any]:
        return {"code": self.code, "message": self.message, **self.more}


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
