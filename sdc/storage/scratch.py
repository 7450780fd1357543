"""Scratch folders: each of one run, and gone with it even where the run is killed."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

PREFIX = "sdc-"


@contextmanager
def own_scratch(parent: Path) -> Iterator[Path]:
    """A folder below `parent` for this run alone, removed when the block ends; what killed runs left there goes first.

    A folder is there only while its lock is held, and the lock of a process that died is free.
    """
    # a killed run cannot clean up after itself, so the next one does
    for lock in parent.glob(f".{PREFIX}*.lock"):
        _remove_if_free(lock)
    folder = parent / f"{PREFIX}{uuid.uuid4().hex[:12]}"
    with FileLock(_lock_of(folder)):
        try:
            # made while its lock is held, or another run could take it for one that a dead run left
            folder.mkdir(mode=0o700)
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            _lock_of(folder).unlink(missing_ok=True)


def _lock_of(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.lock")


def _remove_if_free(lock: Path) -> None:
    try:
        with FileLock(lock, timeout=0):
            shutil.rmtree(lock.with_name(lock.name[1:].removesuffix(".lock")), ignore_errors=True)
            lock.unlink(missing_ok=True)
    except (Timeout, OSError):
        return  # at work, or not ours to remove
