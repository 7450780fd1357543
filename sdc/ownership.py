"""Whether another user of this machine could have written a file, by owners and modes."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path


def written_by_others(path: Path) -> str:
    """Return who else may have written or replaced the file at a path, or ""."""
    if not os.path.lexists(path):
        return ""
    real = path.resolve()
    # also the folder of a link: its writers may redirect the link
    for one in dict.fromkeys((real, real.parent, path.absolute().parent)):
        # a missing or unreadable file is not read either
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            if reason := _open_to(one, one.stat()):
                return reason
    return ""


def of_another(path: Path) -> str:
    """Return which other user owns a file, folder or link, or ""."""
    with suppress(FileNotFoundError):
        return _of_another(path, path.lstat())
    return ""


def _of_another(path: Path, status: os.stat_result) -> str:
    if status.st_uid in (os.geteuid(), 0, Path(__file__).stat().st_uid):
        return ""
    return f"{path} belongs to {_user(status.st_uid)}, who may change it"


def _open_to(path: Path, status: os.stat_result) -> str:
    if reason := _of_another(path, status):
        return reason
    if stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX:
        return ""  # users can change only their own files there
    if status.st_mode & stat.S_IWOTH:
        return f"every user may write {path}"
    # many systems give each user a group of one, by the same number or name
    if status.st_mode & stat.S_IWGRP and status.st_gid != status.st_uid and _group(status) != _user(status.st_uid):
        return f"the group {_group(status)} may write {path}"
    return ""


def _user(number: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


def _group(status: os.stat_result) -> str:
    import grp

    try:
        return grp.getgrgid(status.st_gid).gr_name
    except KeyError:
        return str(status.st_gid)
