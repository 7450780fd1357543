"""Checks whether this machine can run builds and servers; nothing is written, started or submitted."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib import metadata
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, build_opener

import psutil
from packaging.requirements import Requirement

from sdc.compiled import PACKAGE, cache_base, open_to_others
from sdc.config.build import BuildConfig
from sdc.config.file import read_config
from sdc.config.values import EMBEDDED_CLUSTERS
from sdc.execution import LOOPBACK
from sdc.execution.cluster import require_here
from sdc.model.errors import SdcError
from sdc.model.extras import DISTRIBUTION
from sdc.paths import require_own
from sdc.refusal import state_folder

CONSTRAINTS = PACKAGE.parent / "constraints.txt"  # in a clone; an installed package has its requirements
LEAST_FREE = 100 << 20  # bytes that a small build needs
MOST_NAMED = 5
ANSWER_SECONDS = 5.0
NO_POSIX = "exfat", "fuse.gcsfuse", "fuse.goofys", "fuse.mountpoint-s3", "fuse.rclone", "fuse.s3fs", "msdos", "vfat"
"""File systems without permissions or atomic renames."""


@dataclass(frozen=True)
class Diagnosis:
    """One check; `message` says what was found, or what is wrong and what to do."""

    name: str
    ok: bool
    message: str


def examined(config: Path | None) -> Iterator[Diagnosis]:
    """Check the machine, and what a config names."""
    for name, look in LOOKS.items():
        yield _looked(name, look)
    if config is not None:
        read = list[BuildConfig]()

        def look() -> str:
            read.append(read_config(config))
            return f"{config} is right"

        yield _looked("config", look)
        for one in read:
            yield _looked("cluster", partial(_of_cluster, one))
            yield _looked("storage", partial(_of_storage, Path(one.output.folder)))


def _looked(name: str, look: Callable[[], str]) -> Diagnosis:
    try:
        return Diagnosis(name, True, look())
    except SdcError as error:
        return Diagnosis(name, False, str(error))
    except OSError as error:
        return Diagnosis(name, False, f"cannot be checked: {error}; fix that first")


# The machine


def _of_packages() -> str:
    """Check packages against constraints.txt in a clone, or this package's requirements."""
    if CONSTRAINTS.is_file():
        lines, where = CONSTRAINTS.read_text(encoding="utf-8").splitlines(), CONSTRAINTS.name
    else:
        required_here = metadata.requires(DISTRIBUTION) if _version(DISTRIBUTION) else []
        lines, where = [line for line in required_here or [] if "extra ==" not in line], "what this package requires"
    required = [Requirement(line) for line in lines if line.strip() and not line.startswith("#")]
    there = [(one, version) for one in required if (version := _version(one.name)) is not None]
    other = [
        f"{one.name} {version} is not {one.specifier}"
        for one, version in there
        if not one.specifier.contains(version, prereleases=True)
    ]
    if other:
        more = f" and {len(other) - MOST_NAMED} more" if len(other) > MOST_NAMED else ""
        raise SdcError(
            f"{', '.join(other[:MOST_NAMED])}{more}; run python -m pip install -c constraints.txt . in the project"
        )
    return f"{len(there)} packages match {where}"


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _of_home() -> str:
    folder = state_folder()
    if folder is None:
        raise SdcError("this user has no home; set HOME, or XDG_STATE_HOME for the files of refusals")
    _require_room(folder, "set HOME or XDG_STATE_HOME to a writable folder")
    return f"refusal files go to {folder}"


def _of_kernels() -> str:
    try:
        folder = cache_base()
    except RuntimeError:
        raise SdcError("this user has no home for compiled code; set NUMBA_CACHE_DIR to a folder") from None
    _require_room(folder, "set NUMBA_CACHE_DIR to a writable folder, otherwise each process compiles for a minute")
    if reason := open_to_others():
        raise SdcError(f"compiled code is not cached: {reason}")
    return f"compiled code is cached in {folder}"


def _of_prefect() -> str:
    if url := os.environ.get("PREFECT_API_URL"):
        return _of_server(url)
    given = os.environ.get("PREFECT_HOME")
    try:
        home = Path(given) if given else Path.home() / ".prefect"
    except RuntimeError:
        raise SdcError("this user has no home for Prefect's database; set PREFECT_HOME to a folder") from None
    _require_room(home, "set PREFECT_HOME to a writable folder")
    for path in (home, *home.glob("prefect.db*")):
        require_own(path, "set PREFECT_HOME to a folder of your own")
    return f"each build starts its own server, with its database in {home}"


def _of_server(url: str) -> str:
    # no proxy for the loopback
    opener = build_opener(*([ProxyHandler({})] if urlsplit(url).hostname in LOOPBACK else []))
    try:
        with opener.open(f"{url.rstrip('/')}/health", timeout=ANSWER_SECONDS):
            pass
        with suppress(HTTPError), opener.open(f"{url.rstrip('/')}/admin/version", timeout=ANSWER_SECONDS):
            raise SdcError(
                f"the server at PREFECT_API_URL = {url} accepts work from anyone who reaches it, also for workers of "
                "this user; start it with PREFECT_SERVER_API_AUTH_STRING, and set PREFECT_API_AUTH_STRING to the same"
            )
        return f"the server at PREFECT_API_URL = {url} answers and requires a key"
    except (OSError, ValueError) as error:
        raise SdcError(
            f"no server answers at PREFECT_API_URL = {url} ({error}); start it, fix the URL, or "
            "leave it unset: each build then starts its own server"
        ) from error


def _of_loopback() -> str:
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            socket.create_connection(server.getsockname(), timeout=ANSWER_SECONDS).close()
    except OSError as error:
        raise SdcError(
            f"no port of 127.0.0.1 can be opened and reached ({error}); bring the loopback interface up, and let "
            "this user listen there"
        ) from error
    return "ports of 127.0.0.1 can be opened and reached"


def _of_temporary() -> str:
    folder = Path(os.environ.get("TMPDIR") or "/tmp")
    if not folder.is_dir():
        raise SdcError(f"the folder for temporary files, {folder}, does not exist; set TMPDIR to one that does")
    _require_room(folder, "set TMPDIR to a writable folder")
    return f"temporary files go to {folder}, with {_mebibytes(shutil.disk_usage(folder).free)} free"


def _of_clock() -> str:
    now, code = time.time(), max(path.stat().st_mtime for path in PACKAGE.glob("*.py"))
    if now + 86_400 < code:
        raise SdcError(
            f"the clock says {_moment(now)}, before this package was written, {_moment(code)}; set the clock"
        )
    return f"it is {_moment(now)} in UTC"


def _moment(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M}"


def _of_secret(variable: str, usual: str, what: str) -> str:
    """Check a file or folder of credentials, which a library reads itself; a missing one is fine if none is needed."""
    given = os.environ.get(variable)
    path = Path(given) if given else Path(os.path.expanduser("~"), usual)
    if not path.exists():
        if given:
            raise SdcError(f"{variable} = {given}: path not found; name another, or leave it unset")
        return f"{variable} is not set, and there is no {path}: {what} come from other sources"
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    for file in files:
        if file.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise SdcError(f"{file} is open to others; run chmod 600 {file}")
        if not os.access(file, os.R_OK):
            raise SdcError(f"{file} cannot be read by this user; fix its owner")
    return f"{what} come from {path}"


# The config


def _of_cluster(config: BuildConfig) -> str:
    require_here(config.execution)
    cluster = config.execution.cluster
    return f"{cluster}: workers of this machine" if cluster in EMBEDDED_CLUSTERS else f"{cluster} is valid"


def _of_storage(folder: Path) -> str:
    _require_room(folder, "set output.folder to a writable one, or fix its permissions")
    there = _nearest(folder)
    kind = _file_system(there)
    if kind in NO_POSIX:
        raise SdcError(f"{there} is on {kind}, which is not a POSIX file system; set output.folder elsewhere")
    free = shutil.disk_usage(there).free
    if free < LEAST_FREE:
        raise SdcError(f"{there} has {_mebibytes(free)} free; make room, or set output.folder to another disk")
    return f"{folder.absolute()} on {kind}, with {_mebibytes(free)} free; see sdc plan for the build's needs"


def _file_system(folder: Path) -> str:
    """Return the system's name of a folder's file system."""
    mounted = {Path(one.mountpoint): one.fstype for one in psutil.disk_partitions(all=True)}
    path = folder.resolve()
    return next((mounted[one] for one in (path, *path.parents) if one in mounted), "an unknown file system")


def _require_room(folder: Path, remedy: str) -> None:
    """Raise SdcError if a folder cannot be written or created."""
    there = _nearest(folder)
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise SdcError(f"{there} cannot be written; {remedy}")


def _nearest(folder: Path) -> Path:
    """Return the folder or its nearest existing parent."""
    path = folder.absolute()
    return next(one for one in (path, *path.parents) if os.path.lexists(one))


def _mebibytes(size: int) -> str:
    return f"{size >> 20} MiB"


LOOKS: dict[str, Callable[[], str]] = {
    "python": lambda: f"{platform.python_version()} at {sys.executable}",
    "packages": _of_packages,
    "home": _of_home,
    "kernels": _of_kernels,
    "prefect": _of_prefect,
    "loopback": _of_loopback,
    "temporary": _of_temporary,
    "clock": _of_clock,
    "pgpass": partial(_of_secret, "PGPASSFILE", ".pgpass", "PostgreSQL passwords"),
    "fsspec": partial(_of_secret, "FSSPEC_CONFIG_DIR", ".config/fsspec", "fsspec's settings"),
}
