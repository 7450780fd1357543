"""Scratch folders: they hold copies of the table, and are removed with their process, however it ends."""

from __future__ import annotations

import glob
import shutil
import socket
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

PREFIX = "sdc-"
_WATCH = """
import os, shutil, sys
folder, lock = sys.argv[1:]
sys.stdin.read()
shutil.rmtree(folder, ignore_errors=True)
if os.path.exists(lock) and not os.path.exists(folder):  # else the next run removes what is left
    os.remove(lock)
"""


@contextmanager
def own_scratch(parent: Path | None = None, mode: int = 0o700) -> Iterator[Path]:
    """Create a folder below `parent`, by default the temporary folder; it goes when the block or this process ends.

    A killed process cannot clean up, so a child that outlives it does. If both are killed, the next run on this machine
    removes the folder: its lock is then free. Shared disks may not share locks between machines.
    """
    parent = Path(tempfile.gettempdir()) if parent is None else parent
    prefix = f"{PREFIX}{socket.gethostname()}-"
    for lock in parent.glob(f".{glob.escape(prefix)}*.lock"):
        _remove_if_free(lock)
    folder = parent / f"{prefix}{uuid.uuid4().hex[:12]}"
    with FileLock(_lock_of(folder)):
        try:
            # created under its lock, so that other runs do not remove it
            folder.mkdir(mode=0o700)
            folder.chmod(mode)  # whatever the umask
            # in its own session: signals to this process group must not end it
            command = [sys.executable, "-I", "-S", "-c", _WATCH, str(folder), str(_lock_of(folder))]
            with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True):
                yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            _lock_of(folder).unlink(missing_ok=True)


class ScratchWhenUsed(ExitStack):
    """A scratch folder of this process in the temporary folder, created when its path is first used."""

    def __fspath__(self) -> str:
        if not hasattr(self, "_folder"):
            self._folder = self.enter_context(own_scratch())
        return str(self._folder)

    def __str__(self) -> str:
        return tempfile.gettempdir()


def _lock_of(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.lock")


def _remove_if_free(lock: Path) -> None:
    try:
        with FileLock(lock, timeout=0):
            shutil.rmtree(lock.with_name(lock.name[1:].removesuffix(".lock")), ignore_errors=True)
            lock.unlink(missing_ok=True)
    except (Timeout, OSError):
        return  # in use, or not ours
