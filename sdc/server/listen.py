"""From a config to a server that listens: the service, who may use it, and the pages before it."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile

from sdc.build.build import Build
from sdc.config import ServerConfig, UserConfig
from sdc.server.access import KINDS, Access, utc_now
from sdc.server.app import create_app, serve
from sdc.server.prepare import folder_of, server_of
from sdc.server.serve import open_service
from sdc.server.service import Service

SECRET, SECRET_BYTES = "secret", 32
OPERATOR = UserConfig(name="operator", role="operator")


def listen(
    build: Build, host: str, port: int, history: str | None, ready: Callable[[str, dict[str, str]], None]
) -> None:
    """Serves until it is told to end; `ready` hears the URL and, of users who have none yet, a key of each.

    Errors as of `open_service`; ConfigError where the port is taken or the address is not this machine's own.
    """
    settings = server_of(build)
    with open_service(build, history) as service:
        access = access_to(service, settings)
        app = create_app(service, settings, access, secret=_secret(folder_of(build).path), now=utc_now)
        # keys when it listens: of one that was made before, a failure to listen would leave nobody with it
        serve(app, host, port, lambda url: ready(url, _new_keys(access, settings)))


def access_to(service: Service, settings: ServerConfig) -> Access:
    """Who may, by the history so far and from then on: a key that ends at one server ends at all on one history."""
    access = Access(settings, service.store)
    service.followers.append(lambda entry: access.apply(entry.kind, entry.body))
    for entry in service.history.entries(kinds=KINDS):
        access.apply(entry.kind, entry.body)
    return access


def _new_keys(access: Access, settings: ServerConfig) -> dict[str, str]:
    """Keys of the users who have none yet, by user; without users there is the public, and who looks after it."""
    missing = [user for user in settings.users or (OPERATOR,) if not access.has_key(user.name)]
    return {user.name: access.new_key(user.name, user.role, user.days, utc_now()) for user in missing}


def _secret(folder: Path) -> bytes:
    """What sessions are signed with: for this server alone, and the same after its next start."""
    path = folder / SECRET
    # whole or not at all: with an empty one, that of a server killed before it wrote, anybody could sign
    with NamedTemporaryFile(dir=folder) as file, suppress(FileExistsError):
        file.write(secrets.token_bytes(SECRET_BYTES))
        file.flush()
        os.fsync(file.fileno())
        os.link(file.name, path)
    return path.read_bytes()
