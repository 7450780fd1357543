"""Pages to watch a run: on one loopback port, below a secret path; other paths return 403."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from distributed.dashboard.scheduler import connect
from distributed.http.routing import RoutingApplication
from distributed.http.utils import get_handlers
from distributed.utils import LoopRunner, sync
from tornado.httpserver import HTTPServer
from tornado.web import ErrorHandler

from sdc.config.build import ExecutionConfig
from sdc.execution.cluster import KINDS, WATCH, cluster_of, deaf_to_signals
from sdc.model.errors import ConfigError

LOOPBACK = "127.0.0.1"
FORBIDDEN = 403
SECONDS_TO_LOOK_AGAIN = 5
_MODULES = ["distributed.http.statics"]  # the dashboard; Dask's other pages load external files


class WatchAddress:
    """The pages of a run, for anyone who has the address.

    A loopback port is open to all users of the machine, and cookies are shared between ports, so the key is in the
    path. Dask's scheduler runs in this loop, which allows serving its dashboard only here.

    address  of all pages, with the key: http://127.0.0.1:port/key
    root     their path: /key
    """

    PLACE = "as printed by --watch"  # logs have no keys

    def __init__(self, port: int, loop: Any) -> None:
        self.root, self.loop = f"/{secrets.token_urlsafe(24)}", loop
        self.address = f"http://{LOOPBACK}:{port}{self.root}"
        self._site = _Site(self.root)
        self._server = HTTPServer(self._site)

    def add(self, routes: list[tuple[str, type, dict[str, Any]]]) -> None:
        """Add pages, by regular expressions of their paths below the root."""
        self._site.add_handlers(".*$", [(self.root + path, handler, given) for path, handler, given in routes])

    @contextmanager
    def dashboard_of(self, scheduler: Any) -> Iterator[None]:
        """Serve the pages of a Dask scheduler of this loop, until the block ends."""
        pages = sync(self.loop, self._show, scheduler)
        try:
            yield
        finally:
            sync(self.loop, self._hide, pages)

    async def open(self, bound: socket.socket) -> None:
        bound.setblocking(False)
        self._server.add_socket(bound)

    async def close(self) -> None:
        self._server.stop()
        await self._server.close_all_connections()

    async def _show(self, scheduler: Any) -> RoutingApplication:
        pages = RoutingApplication(get_handlers(scheduler, _MODULES, prefix=self.root))  # type: ignore[no-untyped-call]
        connect(pages, self._server, scheduler, prefix=self.root)  # type: ignore[no-untyped-call]
        self._site.add_application(pages)
        return pages

    async def _hide(self, pages: RoutingApplication) -> None:
        self._site.applications.remove(pages)
        for application in pages.applications:
            application.stop()


class _Site(RoutingApplication):
    """Serves only paths that begin with the key."""

    def __init__(self, root: str) -> None:
        super().__init__(  # type: ignore[no-untyped-call]
            default_handler_class=_NotYet, default_handler_args={"status_code": 404}
        )
        self._root = root.encode()

    def find_handler(self, request: Any, **named: Any) -> Any:
        root, _, rest = request.path[1:].partition("/")
        if rest and secrets.compare_digest(f"/{root}".encode(), self._root):
            return super().find_handler(request, **named)
        return self.get_handler_delegate(request, ErrorHandler, {"status_code": FORBIDDEN})


class _NotYet(ErrorHandler):
    """The answer before there is a dashboard, and for unknown pages."""

    def write_error(self, status_code: int, **named: Any) -> None:
        self.set_header("Refresh", str(SECONDS_TO_LOOK_AGAIN))
        self.finish("No page now. Dask's dashboard is shown while workers run units.")


@contextmanager
def watched(port: int = 0) -> Iterator[WatchAddress]:
    """Collect pages of clusters within the block, on a loopback port; 0 takes a free one.

    ConfigError if the port is taken.
    """
    runner = LoopRunner()  # of an event loop in its own thread
    with closing(_bound(port)) as bound:
        with deaf_to_signals():
            runner.start()  # type: ignore[no-untyped-call]
        watch = WatchAddress(bound.getsockname()[1], runner.loop)
        token = WATCH.set(watch)
        try:
            sync(runner.loop, watch.open, bound)
            yield watch
        finally:
            sync(runner.loop, watch.close)
            WATCH.reset(token)
            runner.stop()  # type: ignore[no-untyped-call]


def require_own_scheduler(execution: ExecutionConfig) -> bool:
    """Return whether the run's process has the scheduler; ConfigError if it runs elsewhere, without pages here."""
    settings = cluster_of(execution)
    if settings is not None and (elsewhere := KINDS[settings.kind].elsewhere) is not None:
        raise ConfigError(
            f"--watch: the scheduler of {execution.cluster} {elsewhere(settings)}, and only a scheduler in "
            "the run's process shows its pages behind a key; omit --watch, and use that scheduler's own dashboard"
        )
    return settings is not None


def _bound(port: int) -> socket.socket:
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # otherwise a port stays blocked for a minute
    try:
        found.bind((LOOPBACK, port))
        found.listen()
    except OSError as error:
        found.close()
        raise ConfigError(
            f"--watch-port {port}: {error.strerror} on {LOOPBACK}; name another port, or --watch alone for a free one"
        ) from error
    return found
