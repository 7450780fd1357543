"""Atomic writing of files for this user alone, unless they are published."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path that replaces `path` if the block succeeds; otherwise it is removed.

    The file exists before the block, readable only by this user; writers keep its permissions. OSError if it cannot be
    created or renamed.
    """
    # next to the path: renames are atomic only within a file system
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.unlink(missing_ok=True)
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def sync(*paths: Path) -> None:
    """Flush files, and the names in folders, to disk."""
    for path in paths:
        number = os.open(path, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def close_to_others(folder: Path) -> None:
    """Restrict a folder and its content to this user, whatever the umask."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)


def open_as_usual(folder: Path) -> None:
    """Open a folder and its content as the umask allows, for publication."""
    mask = os.umask(0o077)
    os.umask(mask)
    for path in (folder, *folder.rglob("*")):
        path.chmod((0o777 if path.is_dir() else 0o666) & ~mask)
