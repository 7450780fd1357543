"""Listening: sockets, limits of connections and of time, and the command's server from its start to its end."""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
import socket
import stat
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import NamedTemporaryFile

import uvicorn
from starlette.types import ASGIApp

from sdc.config.server import ServerConfig
from sdc.events import PROBLEM, SERVER, EventLog, EventText, emit, heard
from sdc.model.errors import ConfigError, InputError
from sdc.paths import require_own
from sdc.server.service.prepare import folder_of, server_of
from sdc.server.service.service import open_service
from sdc.server.web.access import access_to, announce_expiry, new_keys, utc_now
from sdc.server.web.answers import remove_left_files
from sdc.server.web.app import create_app
from sdc.server.web.connections import ACCEPTED_AT_ONCE, Connections, connection_class, room_for
from sdc.server.web.gateway import LOCAL_HOSTS
from sdc.stages.build import Build
from sdc.storage.run_folder import LOG

LAST_SECONDS = 2  # for answers under way at the end; a command that ends takes no longer than twice that
IDLE_SECONDS = 20  # without a request on an open connection
WAITING = 1024  # connections that the system holds until they are accepted
MINUTES_A_DAY = 24 * 60


def serve(
    app: ASGIApp,
    host: str,
    port: int,
    ready: Callable[[str], None],
    *,
    path: str | None = None,
    connections: Connections | None = None,
    daily: Callable[[], None] = lambda: None,
) -> None:
    """Listen until a signal; `ready` gets the URL once it listens, `daily` is called every day.

    path  also a Unix socket

    Raises ConfigError if the port or socket is taken, or others could reach the host.
    """
    if host not in LOCAL_HOSTS:
        raise ConfigError(
            f"--host {host}: a server listens on this machine alone, at 127.0.0.1; put a proxy before it that others "
            "reach, and name its address in server.url"
        )
    shared, minutes = connections or room_for(ServerConfig().limits.connections), 0

    async def each_minute() -> None:
        nonlocal minutes
        minutes += 1
        shared.report()
        if minutes % MINUTES_A_DAY == 0:
            daily()

    # the signal that ended it comes again when it has ended
    with ExitStack() as held, suppress(KeyboardInterrupt):
        listening = [held.enter_context(_bound(host, port))]
        shown = f"[{host}]" if ":" in host else host
        url = f"http://{shown}:{listening[0].getsockname()[1]}"
        if path is not None:
            listening.append(held.enter_context(unix_socket(path)))
        HttpServer(app, shared, lambda: ready(url), each_minute).run(sockets=listening)


def _bound(host: str, port: int) -> socket.socket:
    # TCP by name: else answers in two pieces wait 40 ms for each other, see asyncio.base_events._set_nodelay
    found = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
        found.listen(WAITING)
    except OSError as error:
        found.close()
        raise ConfigError(
            f"--port {port}: it cannot be listened on ({error.strerror}); choose another, or 0"
        ) from error
    return found


@contextmanager
def unix_socket(path: str) -> Iterator[socket.socket]:
    """A socket that this user and its group can reach; one that a killed server left is replaced."""
    called = f"server.socket = {path}"
    with socket.socket(socket.AF_UNIX) as found:
        with suppress(OSError), socket.socket(socket.AF_UNIX) as other:
            if Path(path).is_socket() and other.connect_ex(path) == errno.ECONNREFUSED:
                Path(path).unlink()
        mask = os.umask(0o117)
        try:
            found.bind(path)
        except OSError as error:
            raise ConfigError(
                f"{called}: it cannot be listened on ({error.strerror or error}); remove the file, or name another in "
                "a folder that this user can write"
            ) from error
        finally:
            os.umask(mask)
        try:
            found.listen(WAITING)
            yield found
        finally:
            Path(path).unlink(missing_ok=True)


class HttpServer(uvicorn.Server):
    """What listens, with limits of connections and of time; `ready` is called once it does.

    So few connections are accepted at a time that those beyond the limit are ended before descriptors run out.
    """

    def __init__(
        self,
        app: ASGIApp,
        shared: Connections,
        ready: Callable[[], None] = lambda: None,
        each_minute: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=connection_class(shared),
                ws="none",
                log_level="critical",
                access_log=False,
                server_header=False,
                proxy_headers=False,  # the gateway looks at them
                timeout_keep_alive=IDLE_SECONDS,
                timeout_graceful_shutdown=LAST_SECONDS,
                h11_max_incomplete_event_size=65536,
                backlog=ACCEPTED_AT_ONCE,
                callback_notify=each_minute,
                timeout_notify=60,
            )
        )
        self._shared, self._ready = shared, ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().set_exception_handler(self._shared.failed)
        await super().startup(sockets)
        for one in sockets or ():
            one.listen(WAITING)
        self._ready()


SECRET, SECRET_BYTES = "secret", 32
PROXY_SECRET_BYTES = 32  # at least


def listen(build: Build, host: str, port: int, history: str | None, ready: Callable[[str, Path | None], None]) -> None:
    """Serve until a signal; `ready` gets the URL and, if users had no valid key, the file with the new ones.

    Requests and faults go to `log.jsonl` in the server's folder, faults to standard error too. Errors as of
    `open_service`; ConfigError where the port is taken or the address is not this machine's own.
    """
    settings, folder = server_of(build), folder_of(build).path
    remove_left_files()
    complain = EventText(lambda text: print(f"sdc: {text}", file=sys.stderr, flush=True), PROBLEM)
    with heard(EventLog(folder / LOG), SERVER), heard(complain, SERVER), open_service(build, history) as service:
        access = access_to(service.log, settings)
        connections, runs = room_for(settings.limits.connections), Path(build.config.output.folder)
        own, behind = _secret(folder), proxy_secret(settings)
        app = create_app(
            service, settings, access, secret=own, now=utc_now, runs=runs, proxy_secret=behind, connections=connections
        )

        def listening(url: str) -> None:
            emit("server started", url, SERVER, version=service.state.version)
            # keys when it listens: of one that was made before, a failure to listen would leave nobody with it
            ready(url, new_keys(access, access.without_key(utc_now()), folder))
            announce_expiry(access)

        daily = partial(announce_expiry, access)
        serve(app, host, port, listening, path=settings.socket, connections=connections, daily=daily)
        emit("server ended", logger=SERVER, version=service.state.version)


def _secret(folder: Path) -> bytes:
    """What sessions are signed with: for this server alone, and the same after its next start."""
    path = folder / SECRET
    # whole or not at all: with an empty one, that of a server killed before it wrote, anybody could sign
    with NamedTemporaryFile(dir=folder) as file, suppress(FileExistsError):
        file.write(secrets.token_bytes(SECRET_BYTES))
        file.flush()
        os.fsync(file.fileno())
        os.link(file.name, path)
    require_own(path, "remove it: users then log in again")
    return path.read_bytes()


def proxy_secret(settings: ServerConfig) -> bytes:
    """What the proxy sends; ConfigError where it is short, InputError where others may read or change it."""
    if (path := settings.proxy_secret) is None:
        return b""
    require_own(file := Path(path))
    if file.stat().st_mode & stat.S_IROTH:
        raise InputError(f"server.proxy_secret = {path}: every user may read it; run chmod o-r {path}")
    secret = file.read_bytes().strip()
    if len(secret) < PROXY_SECRET_BYTES:
        raise ConfigError(
            f"server.proxy_secret = {path} has {len(secret)} characters; make one of {PROXY_SECRET_BYTES} or more, as "
            "with openssl rand -hex 32"
        )
    return secret
