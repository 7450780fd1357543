"""A refusal has two halves: the message, which anybody may read, and the data that it is about, in one file."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sdc.model.errors import SdcError

FILE = "refused.txt"


def file_detail(error: SdcError, folder: Path) -> None:
    """Puts what an error quotes of the data into `refused.txt`, for the eyes of this user, and names it in the message.

    Nothing is done where it quotes nothing, or where it is filed already.
    """
    if not error.detail:
        return
    path, detail, error.detail = folder / FILE, error.detail, ""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.unlink(missing_ok=True)  # an older one may be open to others, or a link
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(f"{detail}\n")
        where = f"what it is about is in {path}, which is confidential"
    except OSError as fault:
        where = f"what it is about cannot be written to {path}: {fault.strerror}"
    error.args = (f"{error}; {where}",)


@contextmanager
def as_command() -> Iterator[None]:
    """A process that is a command: what is raised ends it with status 1 and one message on standard error."""
    try:
        yield
    except Exception as error:
        refusal = error if isinstance(error, SdcError) else _unforeseen(error)
        file_detail(refusal, _state_folder())
        print(f"sdc: {refusal}", file=sys.stderr)
        sys.exit(1)


def _unforeseen(error: Exception) -> SdcError:
    """A fault of the program, or of its surroundings; where it came from, and what it quotes, is for this user."""
    if isinstance(error, MemoryError):
        what = "there is not enough memory; give more, or use fewer variables or workers"
    else:
        what = f"unforeseen {type(error).__name__}, a fault of sdc: report it"
    return SdcError(what, "".join(traceback.format_exception(error)))


def _state_folder() -> Path:
    """Where what belongs to no build is kept, as the XDG base directories have it."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "sdc"
