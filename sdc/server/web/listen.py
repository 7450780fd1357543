"""From a config to a server that listens: the service, who may use it, and the pages before it."""

from __future__ import annotations

import os
import secrets
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile

from sdc.config.server import ServerConfig, UserConfig
from sdc.events import FAULTY, SERVER, EventLog, EventText, for_this_user, heard, tell
from sdc.model.errors import ConfigError, InputError
from sdc.paths import require_own
from sdc.server.desk.log import RequestLog
from sdc.server.desk.prepare import folder_of, server_of
from sdc.server.desk.serve import open_service
from sdc.server.web.access import KINDS, Access, utc_now
from sdc.server.web.app import create_app, serve
from sdc.stages.build import Build
from sdc.storage.run_folder import LOG

SECRET, SECRET_BYTES = "secret", 32
PROXY_SECRET_BYTES = 32  # at least
KEYS = "keys.txt"
OPERATOR = UserConfig(name="operator", role="operator")


def listen(build: Build, host: str, port: int, history: str | None, ready: Callable[[str, Path | None], None]) -> None:
    """Serves until it is told to end; `ready` hears the URL and, where users had no key yet, the file with those made.

    Requests and faults go to `log.jsonl` in the server's folder, faults to standard error too. Errors as of
    `open_service`; ConfigError where the port is taken or the address is not this machine's own.
    """
    settings, folder = server_of(build), folder_of(build).path
    complain = EventText(lambda text: print(f"sdc: {text}", file=sys.stderr, flush=True), FAULTY)
    with heard(EventLog(folder / LOG), SERVER), heard(complain, SERVER), open_service(build, history) as service:
        access = access_to(service.log, settings)
        runs = Path(build.config.output.folder)
        secret, behind = _secret(folder), proxy_secret(settings)
        app = create_app(service, settings, access, secret=secret, now=utc_now, runs=runs, proxy_secret=behind)

        def listening(url: str) -> None:
            tell("server started", url, SERVER, version=service.state.version)
            # keys when it listens: of one that was made before, a failure to listen would leave nobody with it
            ready(url, _new_keys(access, settings, folder))

        serve(app, host, port, listening)
        tell("server ended", logger=SERVER, version=service.state.version)


def access_to(log: RequestLog, settings: ServerConfig) -> Access:
    """Who may, by the history so far and from then on: a key that ends at one server ends at all on one history."""
    access = Access(settings, log.store)
    log.followers.append(lambda entry: access.apply(entry.kind, entry.body))
    for entry in log.history.entries(kinds=KINDS):
        access.apply(entry.kind, entry.body)
    return access


def _new_keys(access: Access, settings: ServerConfig, folder: Path) -> Path | None:
    """The file with a key of each user who had none, a line each; without users, of who looks after the server."""
    missing = [user for user in settings.users or (OPERATOR,) if not access.has_key(user.name)]
    if not missing:
        return None
    path = folder / KEYS
    # open before a key is made: of one that could not be written nobody would have it
    with open(path, "a", encoding="utf-8", opener=for_this_user) as file:
        os.fchmod(file.fileno(), 0o600)
        for user in missing:
            file.write(f"{user.name} {access.new_key(user.name, user.role, user.days, utc_now())}\n")
            file.flush()
    return path


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
