"""The pages over a small desk, served on loopback with stand-ins for what the application adds."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any

import uvicorn
from fastapi import FastAPI
from fastapi.responses import JSONResponse, Response
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from sdc.config.server import ServerConfig
from sdc.model import subtable as st
from sdc.server.desk.desk import DeskLike
from sdc.server.web.answers import FORMATS, Answer, pieces
from sdc.server.web.app import static_files
from sdc.server.web.pages import pages

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'"
)


@dataclass(frozen=True)
class User:
    name: str
    role: str
    is_public: bool = False


class Shell:
    """Says who asks, by a cookie, and forbids what the application's policy forbids."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            role = Request(scope).cookies.get("role", "user")
            scope.setdefault("state", {}).update(user=User(role, role, role == "user"), csrf="token")

        async def sent(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"content-security-policy", CSP.encode())]
            await send(message)

        await self.app(scope, receive, sent)


def site(desk: DeskLike, settings: ServerConfig) -> FastAPI:
    app = FastAPI(title=desk.title, docs_url=None)
    app.include_router(pages(desk, settings))
    app.mount("/static", static_files())
    app.add_middleware(Shell)
    schema = desk.schema

    def named(subtables: tuple[int, ...]) -> list[list[str]]:
        return [st.names(t, schema) for t in subtables]

    @app.get("/api/tables/{name}")
    def table(name: str) -> Response:
        label, _, suffix = name.rpartition(".")
        marginal = desk.marginal(st.parse(label, schema))
        if marginal is None:
            return JSONResponse({"code": "not-released"}, 404)
        return Response(b"".join(pieces(Answer(desk.title, marginal), FORMATS[suffix])))

    @app.get("/api/jobs/{number}")
    def job(number: int, request: Request) -> Response:
        reply = desk.reply_to(number, request.state.user.name)
        return JSONResponse({"decision": reply.decision} if reply else {}, 200 if reply else 404)

    @app.get("/api/operator/statuses")
    def statuses() -> Response:
        headers = {"X-Version": str(desk.state.version)}
        return Response(desk.statuses().tobytes(), media_type="application/octet-stream", headers=headers)

    @app.get("/api/operator/effect")
    def effect(variables: str) -> dict[str, Any]:
        found = desk.effect(st.parse(variables.replace(",", "*"), schema)).result()
        return {
            "sub_table": st.names(found.sub_table, schema),
            "status": found.status.name.lower(),
            "is_safe": found.is_safe,
            "released": named(found.released),
            "unreleasable": named(found.unreleasable),
            "newly": dict(zip(("released", "unreleasable"), found.newly, strict=True)),
            "frontiers": {
                "released": named(found.released_frontier),
                "unreleasable": named(found.unreleasable_frontier),
            },
            "looked_at": found.looked_at,
            "of": found.of,
            "version": desk.state.version,
        }

    return app


@contextlib.contextmanager
def serving(app: FastAPI) -> Iterator[str]:
    """The address of the site until the block ends."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(60)
            assert not thread.is_alive()
