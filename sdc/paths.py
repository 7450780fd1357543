"""Checks of paths that users write, and of who may change the files there."""

from __future__ import annotations

import errno
import os
import reprlib
from pathlib import Path

from sdc.model.errors import ConfigError, InputError
from sdc.ownership import written_by_others

NOT_THERE = {errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM}
"""Errors about the file, not the path; the code that needs the file reports them."""


def checked_path(text: str | os.PathLike[str]) -> Path:
    """Return the path; ConfigError if it has a NUL, is too long, or its links form a circle."""
    text = at_home(text) if isinstance(text, str) else text
    try:
        os.stat(text)
    except OSError as error:
        if error.errno not in NOT_THERE:
            raise ConfigError(f"{shown(text)} is no path here: {error.strerror}; name another") from error
    except ValueError as error:
        raise ConfigError(f"{shown(text)} is no path here: {error}; name another") from error
    return Path(text)


def at_home(path: str) -> str:
    """Expand a leading ~; shells do not expand quoted paths or paths in a config."""
    return os.path.expanduser(path) if path.partition("/")[0] == "~" else path


def require_own(path: Path, instead: str = "move it to a folder of your own") -> None:
    """Raise InputError if another user could have written the file: code, keys or decisions depend on it.

    Trusted are this user, root and the owner of this package. The folder counts too, because its writers can replace
    the file. A missing file is accepted.

    instead  what to do other than fix the owner or permissions
    """
    if reason := written_by_others(path):
        raise InputError(f"{reason}; make it your own (chown, chmod go-w), or {instead}")


def shown(text: object) -> str:
    """Return a short form of the text for a message, on one line."""
    limited = reprlib.Repr()
    limited.maxstring = limited.maxother = 100
    return limited.repr(os.fspath(text) if isinstance(text, os.PathLike) else text)
