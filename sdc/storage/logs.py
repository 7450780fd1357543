"""Logs that no run folder takes with it, those of servers: set aside by age, and removed when all in them is older."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sdc.events import read_events
from sdc.model.errors import RunFolderError
from sdc.run_format import MANIFEST
from sdc.storage.run_folder import LOG

ASIDE = "log-*.jsonl"


@dataclass(frozen=True)
class OldLog:
    """A log that began, or one set aside that ended, before a moment; `aside` is the name it gets, None to be removed.

    A line that a server writes meanwhile is in a new log: each opens it by its name.
    """

    path: Path
    aside: Path | None

    @property
    def facts(self) -> dict[str, Any]:
        return {
            "path": str(self.path),
            "aside": None if self.aside is None else str(self.aside),
            "size_bytes": self.path.stat().st_size,
        }

    def clean(self) -> None:
        """RunFolderError where that may not be done."""
        try:
            if self.aside is None:
                self.path.unlink()
            else:
                self.path.rename(self.aside)
        except OSError as error:
            raise RunFolderError(f"{self.path} cannot be cleaned: {error.strerror}; mend the permissions") from error


def old_logs(root: Path, before: datetime) -> Iterator[OldLog]:
    """Those of the servers of a folder such as runs/."""
    for log in sorted(root.glob(f"[!.]*/[!.]*/{LOG}")):
        folder, began = log.parent, _first(log)
        if not (folder / MANIFEST).exists():
            for aside in sorted(folder.glob(ASIDE)):
                if _last_written(aside) < before:
                    yield OldLog(aside, None)
            if began is not None and began < before:
                yield OldLog(log, folder / ASIDE.replace("*", f"{_last_written(log):%Y%m%dT%H%M%S.%f}Z"))


def _first(log: Path) -> datetime | None:
    """The moment of the first event."""
    times = (datetime.fromisoformat(event["time"]) for event in read_events(log) if "time" in event)
    return next(times, None)


def _last_written(log: Path) -> datetime:
    return datetime.fromtimestamp(log.stat().st_mtime, UTC)
