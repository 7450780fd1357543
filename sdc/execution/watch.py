"""Watching a run: pages on one port of the loopback, all below a path that is a secret of the run; elsewhere is 403."""

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
from sdc.execution.cluster import WATCH, deaf_to_signals
from sdc.execution.settings import AddressSettings, KubernetesSettings, cluster_of
from sdc.model.errors import ConfigError

LOOPBACK = "127.0.0.1"
FORBIDDEN = 403
SECONDS_TO_LOOK_AGAIN = 5
_BESIDE = ["distributed.http.statics"]  # the dashboard; other pages of Dask load from elsewhere


class WatchAddress:
    """What can be seen of a run, by whoever has its address.

    A loopback port is open to every user of the machine, and a cookie for one port goes to all of them: so the key is
    in the path. Dask's scheduler runs in this loop too, which lets its dashboard be served here and nowhere else.

    address  of all pages, with the key: http://127.0.0.1:port/key
    root     their path: /key
    """

    SAID = "as --watch has said"  # in logs, which have no keys

    def __init__(self, port: int, loop: Any) -> None:
        self.root, self.loop = f"/{secrets.token_urlsafe(24)}", loop
        self.address = f"http://{LOOPBACK}:{port}{self.root}"
        self._site = _Site(self.root)
        self._server = HTTPServer(self._site)

    def add(self, routes: list[tuple[str, type, dict[str, Any]]]) -> None:
        """Pages, by regular expressions of their paths below the root."""
        self._site.add_handlers(".*$", [(self.root + path, handler, given) for path, handler, given in routes])

    @contextmanager
    def listening(self, bound: socket.socket) -> Iterator[None]:
        """Answers until the block ends."""
        sync(self.loop, self._open, bound)
        try:
            yield
        finally:
            sync(self.loop, self._close)

    @contextmanager
    def dashboard_of(self, scheduler: Any) -> Iterator[None]:
        """The pages of a Dask scheduler of this loop, until the block ends."""
        pages = sync(self.loop, self._show, scheduler)
        try:
            yield
        finally:
            sync(self.loop, self._hide, pages)

    async def _open(self, bound: socket.socket) -> None:
        bound.setblocking(False)
        self._server.add_socket(bound)

    async def _close(self) -> None:
        self._server.stop()
        await self._server.close_all_connections()

    async def _show(self, scheduler: Any) -> RoutingApplication:
        pages = RoutingApplication(get_handlers(scheduler, _BESIDE, prefix=self.root))  # type: ignore[no-untyped-call]
        connect(pages, self._server, scheduler, prefix=self.root)  # type: ignore[no-untyped-call]
        self._site.add_application(pages)
        return pages

    async def _hide(self, pages: RoutingApplication) -> None:
        self._site.applications.remove(pages)
        for application in pages.applications:
            application.stop()


class _Site(RoutingApplication):
    """Looks at a path only where it begins with the key."""

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
    """What is said before there is a dashboard, and of pages that there are not."""

    def write_error(self, status_code: int, **named: Any) -> None:
        self.set_header("Refresh", str(SECONDS_TO_LOOK_AGAIN))
        self.finish("No page here now. Dask's dashboard comes when there are units for workers, and goes with them.")


@contextmanager
def watched(port: int = 0) -> Iterator[WatchAddress]:
    """Pages that clusters opened within the block add theirs to, on a port of the loopback, 0 for any that is free.

    ConfigError where the port is taken.
    """
    with closing(_bound(port)) as bound, _loop() as loop:
        watch = WatchAddress(bound.getsockname()[1], loop)
        token = WATCH.set(watch)
        try:
            with watch.listening(bound):
                yield watch
        finally:
            WATCH.reset(token)


def require_own_scheduler(execution: ExecutionConfig) -> bool:
    """Whether there is one, in the process of the run; ConfigError where it is elsewhere and serves no pages here."""
    settings = cluster_of(execution)
    if isinstance(settings, AddressSettings | KubernetesSettings):
        where = f"runs at {settings.address}" if isinstance(settings, AddressSettings) else "is a pod"
        raise ConfigError(
            f"--watch: the scheduler of {execution.cluster} {where}, and only one in the process of a run shows its "
            "pages behind a key; leave out --watch, and see what whoever runs that scheduler shows of it"
        )
    return settings is not None


def _bound(port: int) -> socket.socket:
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # else a port waits a minute after a run has ended
    try:
        found.bind((LOOPBACK, port))
        found.listen()
    except OSError as error:
        found.close()
        raise ConfigError(
            f"--watch-port {port}: {error.strerror} on {LOOPBACK}; name another port, or --watch alone for a free one"
        ) from error
    return found


@contextmanager
def _loop() -> Iterator[Any]:
    """An event loop in a thread of its own."""
    runner = LoopRunner()
    with deaf_to_signals():
        runner.start()  # type: ignore[no-untyped-call]
    try:
        yield runner.loop
    finally:
        runner.stop()  # type: ignore[no-untyped-call]
