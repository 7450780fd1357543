"""Paths that somebody has written: looked at once, where they come in. And whether others may change what is there."""

from __future__ import annotations

import errno
import os
import reprlib
from pathlib import Path

from sdc.model.errors import ConfigError, InputError
from sdc.ownership import written_by_others

NOT_THERE = {errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM}
"""What is no fault of the path itself; whoever needs what is there says so."""


def checked_path(text: str | os.PathLike[str], setting: str = "") -> Path:
    """The path; ConfigError where this system cannot have it: it has a NUL, is too long, or links lead in a circle.

    setting  where it is written, before the message
    """
    text = at_home(text) if isinstance(text, str) else text
    try:
        os.stat(text)
    except OSError as error:
        if error.errno not in NOT_THERE:
            raise ConfigError(f"{setting}{shown(text)} is no path here: {error.strerror}; name another") from error
    except ValueError as error:
        raise ConfigError(f"{setting}{shown(text)} is no path here: {error}; name another") from error
    return Path(text)


def at_home(path: str) -> str:
    """With the folder of the user for a ~ in front, as a shell has it; no shell sees what is quoted or in a config."""
    return os.path.expanduser(path) if path.partition("/")[0] == "~" else path


def require_own(path: Path, instead: str = "move it to a folder of your own") -> None:
    """InputError where another user could have written what is at a path: code, keys, or what is decided by.

    Trusted are this user, root, and whoever owns this package, whose code runs anyway. The folder that it is in counts
    too: who may write there may put another file in its place. What is not there is nobody's.

    instead  what to do, besides mending owner or permissions
    """
    if said := written_by_others(path):
        raise InputError(f"{said}; make it your own (chown, chmod go-w), or {instead}")


def shown(text: object) -> str:
    """As much of it as a message has room for, on one line."""
    limited = reprlib.Repr()
    limited.maxstring = limited.maxother = 100
    return limited.repr(os.fspath(text) if isinstance(text, os.PathLike) else text)
