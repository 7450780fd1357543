"""The run folders below a folder: what became of each, and which may go; and the logs of servers, which go by age."""

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
RUNS = Path("runs")  # where they are, unless a config says otherwise
WITHOUT_RELEASE = ("refused", "failed", "killed")  # what the end of a run says of it; no end is said of one killed
STATES = ("running", "finished", *WITHOUT_RELEASE, "unfinished", "damaged", "unreadable")


@dataclass(frozen=True)
class Run:
    """What is known of a run folder, from its manifest, its log, its lock and the folders that are there.

    state    running; finished, with its release; refused: the data or the config allow none; failed: a fault; killed:
             its process is gone, or was stopped; unfinished: it ended well before a release, as a sweep of widths does;
             damaged: a stage of the build is not there, or not whole, beside its release; unreadable: the manifest is
    planned  names of the stages of the whole build
    stages   records of those that are there
    """

    folder: RunFolder
    state: str
    planned: tuple[str, ...]
    stages: tuple[StageRecord, ...]
    events: tuple[Mapping[str, Any], ...]

    @property
    def name(self) -> str:
        """That of the config."""
        return self.folder.path.parent.name

    @property
    def started(self) -> str:
        """When the last run began, ISO in UTC; of a folder without a log when its manifest was written."""
        if (begun := self.last("run started")) is not None:
            return str(begun.get("time", ""))
        written = (self.folder.path / MANIFEST).stat().st_mtime
        return datetime.fromtimestamp(written, UTC).isoformat(timespec="milliseconds")

    @property
    def ended(self) -> str | None:
        """When the last run ended, ISO in UTC; None while it runs, and where it was killed."""
        last = self.last("run started", "run ended")
        told = None if last is None or last["event"] != "run ended" else last.get("time")
        return None if told is None else str(told)

    def last(self, *events: str) -> Mapping[str, Any] | None:
        """The last of these events of the log."""
        return next((event for event in reversed(self.events) if event["event"] in events), None)

    @property
    def facts(self) -> dict[str, Any]:
        """One row of a list of runs, as JSON values: times are ISO in UTC, the size is in bytes."""
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
        """Everything about a run, stage by stage, as JSON values: times as above, memory in MiB."""
        records = {record.name: record for record in self.stages}
        ended = self.last("run started", "run ended")
        return {
            **self.facts,
            "stages": [_stage_facts(name, records.get(name)) for name in self.planned],
            "checkpoints": [name for name in self.planned if self.folder.parts(name).exists()],
            "running": self._at_work() if self.state == "running" else None,
            "error": ended.get("text") if ended is not None else None,
            "warnings": self._warnings,
        }

    @property
    def _warnings(self) -> list[str]:
        """Of the last run in the folder."""
        started = max((n for n, event in enumerate(self.events) if event["event"] == "run started"), default=0)
        return [str(event.get("text")) for event in self.events[started:] if event["event"] == WARNING]

    def _at_work(self) -> dict[str, Any]:
        """Who holds the folder, the stage at work, and the last that it said."""
        begun, latest = self.last("run started") or {}, self.events[-1] if self.events else {}
        progress = {key: latest[key] for key in ("units", "of", "seconds") if latest.get("event") == "progress"}
        holder = {key: begun.get(key) for key in ("pid", "host", "workers")}
        stage = {"stage": latest.get("stage"), "said": latest.get("text"), "at": latest.get("time")}
        return {**holder, "since": begun.get("time"), **stage, "progress": progress or None}


def _stage_facts(name: str, record: StageRecord | None) -> dict[str, Any]:
    told = ("seconds", "driver_mib", "worker_mib")
    return (
        {"name": name, "status": "to do", **dict.fromkeys(told)}
        if record is None
        else picked(record, "name", "status", *told)
    )


def require_run(path: Path) -> None:
    """RunFolderError where the path is no run folder, with one that is below it, or below runs/ under this name."""
    if is_run(path):
        return
    places = (root.glob(f"{below}{MANIFEST}") for root in (path, RUNS / path) for below in ("[!.]*/", "[!.]*/[!.]*/"))
    such = next((f", such as {found.parent}" for place in places for found in sorted(place)), "")
    raise RunFolderError(f"{path} is no run folder: it has no {MANIFEST}; name one that sdc run has made{such}")


def is_run(path: Path) -> bool:
    """Whether it is a run folder."""
    return (path / MANIFEST).is_file()


def run_at(path: Path) -> Path:
    """The run folder that a path means: itself, or of a folder of runs of one name the one that finished last."""
    if is_run(path):
        return path
    finished = [run for run in map(read_run, _beside(path)) if run.state == "finished"]
    return max(finished, key=lambda run: run.started).folder.path if finished else path


def _beside(folder: Path) -> Iterator[Path]:
    """The run folders in a folder; hidden names are stages being written, and runs being removed."""
    return (manifest.parent for manifest in folder.glob(f"[!.]*/{MANIFEST}"))


def read_run(path: Path) -> Run:
    """The run in a folder; RunFolderError where it is none. One whose manifest cannot be read is "unreadable"."""
    require_run(path)
    folder = RunFolder(path)
    events = tuple(folder.events())
    try:
        manifest = folder.manifest()
    except RunFolderError:
        return Run(folder, "unreadable", (), (), events)
    # records are believed, not checked against digests: a list of runs must not read all their files
    there = tuple(record for record in manifest.stages if folder.stage(record.name).is_dir())
    planned = manifest.planned or tuple(record.name for record in manifest.stages)
    return Run(folder, _state(folder, planned, {record.name for record in there}, events), planned, there, events)


def _state(folder: RunFolder, planned: Sequence[str], there: set[str], events: Sequence[Mapping[str, Any]]) -> str:
    # first: a folder at work may have the release of an earlier run in it, or an event that says it ended
    if folder.held():
        return "running"
    if folder.stage(RELEASE).is_dir():
        return "finished" if there.issuperset(planned) else "damaged"
    outcome = events[-1].get("outcome", "killed") if events else "killed"
    return "unfinished" if outcome == "finished" else outcome if outcome in WITHOUT_RELEASE else "killed"


def read_runs(root: Path) -> list[Run]:
    """All runs below a folder such as runs/, by name and then as they were started; RunFolderError where it is none."""
    if not root.is_dir():
        raise RunFolderError(f"{root} is no folder; name one with runs in it, as output.folder of a config does")
    # hidden names are stages being written, and runs being removed
    runs = [read_run(manifest.parent) for manifest in root.glob(f"[!.]*/[!.]*/{MANIFEST}")]
    return sorted(runs, key=lambda run: (run.name, run.started, run.folder.path.name))


def last_runs(root: Path) -> list[Run]:
    """Of each name the run that was at work last, by name; none where there is no such folder."""
    manifests = sorted(root.glob(f"[!.]*/[!.]*/{MANIFEST}"), key=_written)
    newest = {manifest.parent.parent: manifest.parent for manifest in manifests}
    found = list[Run]()
    for folder in sorted(newest.values()):
        # one that is removed just now is none
        with suppress(RunFolderError):
            found.append(read_run(folder))
    return found


def _written(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def last_finished(folder: RunFolder) -> RunFolder | None:
    """The finished run that was started last of those that lie beside this one, which have its name."""
    if not folder.path.parent.is_dir():
        return None
    # of thousands of runs one or two are read as a whole
    names = [name for name in os.listdir(folder.path.parent) if name != folder.path.name and not name.startswith(".")]
    begun = {name: started for name in names if (started := _last_begun(f"{folder.path.parent}/{name}"))}
    for name in sorted(begun, key=begun.__getitem__, reverse=True):
        with suppress(RunFolderError, OSError):
            if (run := read_run(folder.path.parent / name)).state == "finished":
                return run.folder
    return None


def _last_begun(run: str) -> str:
    """When the last run in a folder began, as `Run.started`, without the rest of its log; empty where there is none."""
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
    """Runs that may go: those without a release that a later release of the same name supersedes.

    keep        also those with a release, but for so many of the newest of each name
    unfinished  also those without a release that nothing supersedes, and damaged ones

    A run that is at work is never among them, nor one whose manifest cannot be read, nor one without a release that a
    ledger has an entry of: what the entry says is still to be published.
    """
    by_name: dict[str, list[Run]] = defaultdict(list)
    for run in sorted(runs, key=lambda run: run.started):
        by_name[run.name].append(run)
    return [run for same in by_name.values() for run in _superfluous(same, keep, unfinished)]


def _superfluous(runs: Sequence[Run], keep: int | None, unfinished: bool) -> Iterator[Run]:
    """Of the runs of one name, oldest first."""
    released = [i for i, run in enumerate(runs) if run.state == "finished"]
    kept = set(released if keep is None else released[max(0, len(released) - keep) :])
    # only what is older than a release is superseded by it: a later run without one may be the one that matters
    newest = released[-1] if released else -1
    for i, run in enumerate(runs):
        superseded = i < newest and run.state != "damaged"
        may_go = i not in kept if run.state == "finished" else unfinished or superseded
        if may_go and run.state not in ("running", "unreadable") and not _is_to_publish(run):
            yield run


def _is_to_publish(run: Run) -> bool:
    """Whether a ledger has an entry of a run without a release, or cannot be read."""
    ledger = (run.folder.manifest().config or {}).get("ledger")
    if ledger is None or run.folder.stage(RELEASE).exists() or not run.folder.stage(SEARCH).exists():
        return False
    try:
        # by its digest, for the folder may have been moved
        return any(Path(one.folder).parent.name == run.folder.path.name for one in read_ledger(Path(ledger)).entries)
    except SdcError:
        return True


def remove(run: Run) -> None:
    """Removes a run folder, which loses its name first, so that nobody reads it half removed.

    RunFolderError where it was run again since it was read, or cannot be removed.
    """
    path = run.folder.path
    dying = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}{REMOVED}")
    with run.folder.alone():
        # asked again while the folder is held: between the list and now somebody may have run it, and finished
        if run.folder.events() != list(run.events):
            raise RunFolderError(f"{path} has changed meanwhile: it was run again; look at it anew")
        try:
            path.rename(dying)
            shutil.rmtree(dying)
        except OSError as error:
            raise RunFolderError(f"{path} cannot be removed: {error}; mend the permissions") from error


def finish_removals(root: Path) -> None:
    """Removes what a removal that was interrupted has left."""
    for dying in root.glob(f"[!.]*/.*{REMOVED}"):
        shutil.rmtree(dying, ignore_errors=True)


def _size(folder: Path) -> int:
    """Bytes of all files below; a file that goes meanwhile does not count."""
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
