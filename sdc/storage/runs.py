"""The run folders below a folder: their states and which may be removed; and old logs of servers."""

from __future__ import annotations

import os
import re
import shutil
import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sdc.events import WARNING, read_events
from sdc.model.documents import picked
from sdc.model.errors import RunFolderError, SdcError
from sdc.record.ledger import read_ledger
from sdc.run_format import MANIFEST, RELEASE, SEARCH
from sdc.storage.run_folder import LOG, RunFolder, StageRecord

REMOVED = ".removed"
RUNS = Path("runs")  # the default of output.folder
WITHOUT_RELEASE = ("refused", "failed", "killed")  # logged at the end of a run; a killed one logs nothing
STATES = ("running", "finished", *WITHOUT_RELEASE, "unfinished", "damaged", "unreadable")


@dataclass(frozen=True)
class Run:
    """A run folder's state, from its manifest, log, lock and folders.

    state    running; finished (with a release); refused (data or config allow none); failed (an error); killed (no
             process any more, or stopped); unfinished (ended before a release, such as a sweep); damaged (a stage is
             missing or incomplete, besides the release); unreadable (the manifest is)
    planned  names of the stages of the whole build
    stages   records of the existing ones
    """

    folder: RunFolder
    state: str
    planned: tuple[str, ...]
    stages: tuple[StageRecord, ...]
    events: tuple[Mapping[str, Any], ...]

    @property
    def name(self) -> str:
        return self.folder.path.parent.name

    @property
    def started(self) -> str:
        """Start of the last run, ISO in UTC; without a log the time of the manifest."""
        if (begun := self.last("run started")) is not None:
            return str(begun.get("time", ""))
        written = (self.folder.path / MANIFEST).stat().st_mtime
        return datetime.fromtimestamp(written, UTC).isoformat(timespec="milliseconds")

    @property
    def ended(self) -> str | None:
        """End of the last run, ISO in UTC; None while it runs, or if it was killed."""
        last = self.last("run started", "run ended")
        ended = None if last is None or last["event"] != "run ended" else last.get("time")
        return None if ended is None else str(ended)

    def last(self, *events: str) -> Mapping[str, Any] | None:
        """The last of these events of the log."""
        return next((event for event in reversed(self.events) if event["event"] in events), None)

    @property
    def facts(self) -> dict[str, Any]:
        """A row of a list of runs as JSON values: times are ISO in UTC, size in bytes."""
        return {
            "run_folder": str(self.folder.path),
            "name": self.name,
            "digest": self.folder.path.name,
            "state": self.state,
            "stages_done": sum(record.name in self.planned for record in self.stages),
            "stages": len(self.planned),
            "started": self.started,
            "finished": self.ended,
            "size_bytes": _size(self.folder.path),
        }

    @property
    def status(self) -> dict[str, Any]:
        """All facts of a run as JSON values, by stage: times as above, memory in MiB."""
        records, measured = {record.name: record for record in self.stages}, ("seconds", "driver_mib", "worker_mib")
        to_do = {"status": "to do", **dict.fromkeys(measured)}
        stages = (picked(records[n], "status", *measured) if n in records else to_do for n in self.planned)
        ended = self.last("run started", "run ended")
        return {
            **self.facts,
            "stages": [{"name": name, **facts} for name, facts in zip(self.planned, stages, strict=True)],
            "checkpoints": [name for name in self.planned if self.folder.parts(name).exists()],
            "running": self._at_work() if self.state == "running" else None,
            "error": ended.get("text") if ended is not None else None,
            "warnings": self._warnings,
        }

    @property
    def _warnings(self) -> list[str]:
        """Warnings of the last run."""
        started = max((n for n, event in enumerate(self.events) if event["event"] == "run started"), default=0)
        return [str(event.get("text")) for event in self.events[started:] if event["event"] == WARNING]

    def _at_work(self) -> dict[str, Any]:
        """The process that holds the folder, its stage and its last message."""
        begun, latest = self.last("run started") or {}, self.events[-1] if self.events else {}
        progress = {key: latest[key] for key in ("units", "of", "seconds") if latest.get("event") == "progress"}
        holder = {key: begun.get(key) for key in ("pid", "host", "workers")}
        stage = {"stage": latest.get("stage"), "said": latest.get("text"), "at": latest.get("time")}
        return {**holder, "since": begun.get("time"), **stage, "progress": progress or None}


def require_run(path: Path) -> None:
    """Raise RunFolderError if the path is not a run folder, with a suggestion below it or below runs/."""
    if is_run(path):
        return
    places = (root.glob(f"{below}{MANIFEST}") for root in (path, RUNS / path) for below in ("[!.]*/", "[!.]*/[!.]*/"))
    such = next((f", such as {found.parent}" for place in places for found in sorted(place)), "")
    raise RunFolderError(f"{path} is not a run folder: it has no {MANIFEST}; name a folder of sdc run{such}")


def is_run(path: Path) -> bool:
    return (path / MANIFEST).is_file()


def run_at(path: Path) -> Path:
    """Return a run folder: the path itself, or the last finished run in a folder of one name."""
    found = None if is_run(path) else last_finished(path)
    return path if found is None else found.path


def read_run(path: Path) -> Run:
    """Read the run of a folder; RunFolderError for another folder. Without a readable manifest it is "unreadable"."""
    require_run(path)
    folder = RunFolder(path)
    events = tuple(folder.events())
    try:
        manifest = folder.manifest()
    except RunFolderError:
        return Run(folder, "unreadable", (), (), events)
    # records are not checked against digests: a list must not read all files
    there = tuple(record for record in manifest.stages if folder.stage(record.name).is_dir())
    planned = manifest.planned or tuple(record.name for record in manifest.stages)
    return Run(folder, _state(folder, planned, {record.name for record in there}, events), planned, there, events)


def _state(folder: RunFolder, planned: Sequence[str], there: set[str], events: Sequence[Mapping[str, Any]]) -> str:
    # first: a running folder may have an earlier run's release or end event
    if folder.held():
        return "running"
    if folder.stage(RELEASE).is_dir():
        return "finished" if there.issuperset(planned) else "damaged"
    outcome = events[-1].get("outcome", "killed") if events else "killed"
    return "unfinished" if outcome == "finished" else outcome if outcome in WITHOUT_RELEASE else "killed"


def read_runs(root: Path) -> list[Run]:
    """Read all runs below a folder such as runs/, by name and start; RunFolderError if it is not a folder."""
    if not root.is_dir():
        raise RunFolderError(f"{root} is not a folder; name one with runs, such as output.folder of a config")
    # hidden names are being written or removed
    runs = [read_run(manifest.parent) for manifest in root.glob(f"[!.]*/[!.]*/{MANIFEST}")]
    return sorted(runs, key=lambda run: (run.name, run.started, run.folder.path.name))


def last_runs(root: Path) -> list[Run]:
    """Return the latest run of each name; none if the folder does not exist."""
    manifests = sorted(root.glob(f"[!.]*/[!.]*/{MANIFEST}"), key=_written)
    newest = {manifest.parent.parent: manifest.parent for manifest in manifests}
    found = list[Run]()
    for folder in sorted(newest.values()):
        # it may be removed just now
        with suppress(RunFolderError):
            found.append(read_run(folder))
    return found


def _written(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def last_finished(runs: Path, but: str = "") -> RunFolder | None:
    """Return the finished run in a folder of one name that started last, except one; hidden ones are incomplete."""
    try:
        names = [name for name in os.listdir(runs) if name != but and not name.startswith(".")]
    except OSError:
        return None
    # only one or two of thousands of runs are read in full
    begun = {name: started for name in names if (started := _last_begun(f"{runs}/{name}"))}
    for name in sorted(begun, key=begun.__getitem__, reverse=True):
        with suppress(RunFolderError, OSError):
            if (run := read_run(runs / name)).state == "finished":
                return run.folder
    return None


def _last_begun(run: str) -> str:
    """Return the start of a folder's last run without reading the whole log, or ""."""
    text = b""
    try:
        written = os.stat(f"{run}/{MANIFEST}").st_mtime
        with suppress(OSError), open(f"{run}/{LOG}", "rb") as log:
            text = log.read()
    except OSError:
        return ""
    started = text.rfind(b'"event": "run started"')
    time = re.search(rb'"time": "([^"]*)"', text[text.rfind(b"\n", 0, max(started, 0)) + 1 : max(started, 0)])
    if time is not None:
        return time[1].decode(errors="replace")
    return datetime.fromtimestamp(written, UTC).isoformat(timespec="milliseconds")


def superfluous(runs: Sequence[Run], keep: int | None = None, unfinished: bool = False) -> list[Run]:
    """Return removable runs: those without a release that a later release of the name supersedes.

    keep        also runs with a release, except this many newest of each name
    unfinished  also runs without a release that nothing supersedes, and corrupt ones

    Never included are running and unreadable runs, and runs without a release that a ledger has an entry of: their
    release is still to be published.
    """
    by_name: dict[str, list[Run]] = defaultdict(list)
    for run in sorted(runs, key=lambda run: run.started):
        by_name[run.name].append(run)
    return [run for same in by_name.values() for run in _superfluous(same, keep, unfinished)]


def _superfluous(runs: Sequence[Run], keep: int | None, unfinished: bool) -> Iterator[Run]:
    """Select among the runs of one name, oldest first."""
    released = [i for i, run in enumerate(runs) if run.state == "finished"]
    retained = set(released if keep is None else released[max(0, len(released) - keep) :])
    # a release supersedes only older runs: a later run may be the one in progress
    newest = released[-1] if released else -1
    for i, run in enumerate(runs):
        superseded = i < newest and run.state != "damaged"
        may_go = i not in retained if run.state == "finished" else unfinished or superseded
        if may_go and run.state not in ("running", "unreadable") and not _is_to_publish(run):
            yield run


def _is_to_publish(run: Run) -> bool:
    """Whether a ledger has an entry of a run without a release, or cannot be read."""
    ledger = (run.folder.manifest().config or {}).get("ledger")
    if ledger is None or run.folder.stage(RELEASE).exists() or not run.folder.stage(SEARCH).exists():
        return False
    try:
        # by digest: the folder may have moved
        return any(Path(one.folder).parent.name == run.folder.path.name for one in read_ledger(Path(ledger)).entries)
    except SdcError:
        return True


def remove(run: Run) -> None:
    """Remove a run folder, after renaming it so that nobody reads half of it.

    RunFolderError if it was run again meanwhile, or cannot be removed.
    """
    path = run.folder.path
    dying = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}{REMOVED}")
    with run.folder.alone():
        # check again under the lock: it may have run since the list was made
        if run.folder.events() != list(run.events):
            raise RunFolderError(f"{path} was run again meanwhile; list the runs again")
        try:
            path.rename(dying)
            shutil.rmtree(dying)
        except OSError as error:
            raise RunFolderError(f"{path} cannot be removed: {error}; fix the permissions") from error


def finish_removals(root: Path) -> None:
    """Finish interrupted removals."""
    for dying in root.glob(f"[!.]*/.*{REMOVED}"):
        shutil.rmtree(dying, ignore_errors=True)


def _size(folder: Path) -> int:
    """Bytes of all files below; files that vanish meanwhile do not count."""
    sizes = 0
    for path in folder.rglob("*"):
        try:
            sizes += path.stat().st_size if path.is_file() else 0
        except OSError:
            continue
    return sizes


ASIDE = "log-*.jsonl"


@dataclass(frozen=True)
class OldLog:
    """A log that began before a moment, or an archived one that ended before it; `aside` is its archive name, or None.

    Servers open the log by name for each line, so new lines go to a new log.
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
        """Archive or remove it; RunFolderError if that is not allowed."""
        try:
            if self.aside is None:
                self.path.unlink()
            else:
                self.path.rename(self.aside)
        except OSError as error:
            raise RunFolderError(f"{self.path} cannot be cleaned: {error.strerror}; fix the permissions") from error


def old_logs(root: Path, before: datetime) -> Iterator[OldLog]:
    """Yield the old logs of the servers of a folder such as runs/."""
    for log in sorted(root.glob(f"[!.]*/[!.]*/{LOG}")):
        folder, began = log.parent, _first(log)
        if not (folder / MANIFEST).exists():
            for aside in sorted(folder.glob(ASIDE)):
                if _last_written(aside) < before:
                    yield OldLog(aside, None)
            if began is not None and began < before:
                yield OldLog(log, folder / ASIDE.replace("*", f"{_last_written(log):%Y%m%dT%H%M%S.%f}Z"))


def _first(log: Path) -> datetime | None:
    times = (datetime.fromisoformat(event["time"]) for event in read_events(log) if "time" in event)
    return next(times, None)


def _last_written(log: Path) -> datetime:
    return datetime.fromtimestamp(log.stat().st_mtime, UTC)
