"""Paths that somebody has written: looked at once, where they come in."""

from __future__ import annotations

import errno
import os
import reprlib
from pathlib import Path

from sdc.model.errors import ConfigError

NOT_THERE = {errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM}
"""What is no fault of the path itself; whoever needs what is there says so."""


def checked_path(text: str | os.PathLike[str], setting: str = "") -> Path:
    """The path; ConfigError where this system cannot have it: it has a NUL, is too long, or links lead in a circle.

    setting  where it is written, before the message
    """
    try:
        os.stat(text)
    except OSError as error:
        if error.errno not in NOT_THERE:
            raise ConfigError(f"{setting}{shown(text)} is no path here: {error.strerror}; name another") from error
    except ValueError as error:
        raise ConfigError(f"{setting}{shown(text)} is no path here: {error}; name another") from error
    return Path(text)


def shown(text: object) -> str:
    """As much of it as a message has room for, on one line."""
    limited = reprlib.Repr()
    limited.maxstring = limited.maxother = 100
    return limited.repr(os.fspath(text) if isinstance(text, os.PathLike) else text)
