"""A release that is whole, file by file, to where an fsspec URL leads: SHA256SUMS last, by which readers know it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sdc.data.source import cause_of, file_system, is_unreached, require_no_password
from sdc.events import tell
from sdc.model.errors import ConfigError, InputError, MissingLibraryError, RunFolderError, SdcError, TemporaryError
from sdc.run_format import RELEASE, SUMS
from sdc.stages.build import Build, Say
from sdc.storage.run_folder import folder_digest


def check_upload(build: Build) -> None:
    """ConfigError, before any work, for a URL with a password, or whose protocol needs what is not installed."""
    if (url := build.config.output.upload) is not None:
        try:
            require_no_password(url)
            file_system(url)
        except (InputError, MissingLibraryError) as error:
            raise ConfigError(f"output.upload: {error}") from error


def upload(build: Build, say: Say) -> str | None:
    """Where the release of a finished build is now, beside its run folder; None where the config names no place.

    What is there of the same release is left as it is. Each other file is read back before SHA256SUMS is written, and
    that of another release is never replaced: SdcError where there is one, or where the place cannot be written or
    does not keep what it was given; TemporaryError where it cannot be reached; RunFolderError where the release is not
    whole.
    """
    if (url := build.config.output.upload) is None:
        return None
    with build.folder.locked():
        release = _whole(build)
        with _written(url, release):
            _put(release, url.rstrip("/"))
        tell("uploaded", f"the release is at {url}")
    say(f"upload: the release is at {url}")
    return url


def _whole(build: Build) -> Path:
    """The release, as its stage made it and no other was begun since."""
    folder, records = build.folder, build.folder.records()
    release = folder.stage(RELEASE)
    planned = folder.manifest().planned
    is_whole = records.keys() >= {*planned} and release.is_dir() and folder_digest(release) == records[RELEASE].output
    if not is_whole:
        raise RunFolderError(f"{folder.path} is not whole, so that nothing is uploaded; run the build again")
    return release


def _put(release: Path, url: str) -> None:
    files, place = file_system(url)
    files.invalidate_cache()
    own = {path.relative_to(release).as_posix(): path for path in release.rglob("*") if path.is_file()}
    there = {str(found).removeprefix(f"{place}/") for found in files.find(place)} - {""}
    if SUMS in there:
        if files.cat_file(f"{place}/{SUMS}") == own[SUMS].read_bytes():
            return
        raise SdcError(f"output.upload = {url!r} has another release; name a folder of its own, none is ever replaced")
    if foreign := sorted(there - own.keys()):
        raise SdcError(f"output.upload = {url!r} has files of others, such as {foreign[0]!r}; name an empty folder")
    for name in [*sorted(own.keys() - {SUMS}), SUMS]:
        files.put_file(str(own[name]), f"{place}/{name}")
        if _digest(files.cat_file(f"{place}/{name}")) != _digest(own[name].read_bytes()):
            raise SdcError(f"output.upload = {url!r} does not keep {name} as it is; see what changes files there")


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


@contextmanager
def _written(url: str, release: Path) -> Iterator[None]:
    """What a file system raises, of whatever type, as one error that says where the release is meanwhile."""
    try:
        yield
    except SdcError:
        raise
    except Exception as error:
        cause: Any = cause_of(error)
        left = f"{url} ({type(cause).__name__}); the release is whole in {release}"
        if is_unreached(error):
            raise TemporaryError(f"output.upload cannot be reached: {left}, and the next run uploads it") from error
        raise SdcError(
            f"output.upload cannot be written: {left}; see that the bucket is there, and who may write it by fsspec's "
            "own configuration, then run again"
        ) from error
