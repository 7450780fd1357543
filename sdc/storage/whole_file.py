"""A file is there whole, or not at all; and it is for the eyes of this user, unless it is published."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path`, renamed to it when the block ends well and removed when it does not.

    What is at `path` is replaced. The file is there before the block begins, open to this user alone: whoever writes
    it keeps its permissions. OSError where it cannot be made or renamed.
    """
    # beside the path, not in /tmp: a rename is at one stroke within a file system only
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.unlink(missing_ok=True)
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def sync(*paths: Path) -> None:
    """What is in these files, and which names are in these folders, is on disk when this returns."""
    for path in paths:
        number = os.open(path, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def close_to_others(folder: Path) -> None:
    """The folder and all in it for this user alone, whatever the umask."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)


def open_as_usual(folder: Path) -> None:
    """The folder and all in it as open as the umask has it: for what is published."""
    mask = os.umask(0o077)
    os.umask(mask)
    for path in (folder, *folder.rglob("*")):
        path.chmod((0o777 if path.is_dir() else 0o666) & ~mask)
