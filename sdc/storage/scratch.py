"""Scratch folders: each of one process, and gone with it however it ends: they hold copies of the table."""

from __future__ import annotations

import glob
import shutil
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

PREFIX = "sdc-"
_WATCH = "import shutil, sys; sys.stdin.read(); shutil.rmtree(sys.argv[1], ignore_errors=True)"


@contextmanager
def own_scratch(parent: Path, mode: int = 0o700) -> Iterator[Path]:
    """A folder below `parent` for this run alone, removed when the block ends, or when this process does.

    A process that is killed cannot clean up after itself: a child that outlives it does. What is left all the same,
    where that was killed too, goes with the next run on this machine: a folder is there only while its lock is held,
    and the lock of a process that died is free. Not every disk that machines share tells one of the locks of another.
    """
    prefix = f"{PREFIX}{socket.gethostname()}-"
    for lock in parent.glob(f".{glob.escape(prefix)}*.lock"):
        _remove_if_free(lock)
    folder = parent / f"{prefix}{uuid.uuid4().hex[:12]}"
    with FileLock(_lock_of(folder)):
        try:
            # made while its lock is held, or another run could take it for one that a dead run left
            folder.mkdir(mode=0o700)
            folder.chmod(mode)  # whatever the umask
            with _removed_with_this_process(folder):
                yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            _lock_of(folder).unlink(missing_ok=True)


@contextmanager
def _removed_with_this_process(folder: Path) -> Iterator[None]:
    """Removes the folder when this process has ended."""
    command = [sys.executable, "-I", "-S", "-c", _WATCH, str(folder)]
    # in a session of its own: what is sent to the group of this process must not end it
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True):
        yield


def _lock_of(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.lock")


def _remove_if_free(lock: Path) -> None:
    try:
        with FileLock(lock, timeout=0):
            shutil.rmtree(lock.with_name(lock.name[1:].removesuffix(".lock")), ignore_errors=True)
            lock.unlink(missing_ok=True)
    except (Timeout, OSError):
        return  # at work, or not ours to remove
