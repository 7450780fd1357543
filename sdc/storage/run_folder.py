"""The run folder: its names, its manifest, and atomic writing of stages."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from sdc.events import EventLog, heard, read_events
from sdc.model.documents import plain, typed
from sdc.model.errors import HeldError, RunFolderError
from sdc.run_format import MANIFEST, MANIFEST_FORMAT, RELEASE, SEARCH
from sdc.storage.whole_file import close_to_others, open_as_usual, replacing, sync

LOCK = ".lock"
LOG = "log.jsonl"
DURABLE = (SEARCH, RELEASE)  # stages that ledger entries and readers of a release rely on
SECONDS_TO_LOCK = 0.5  # so that a status check of the lock refuses no run


@dataclass(frozen=True)
class StageRecord:
    """The manifest's record of a finished stage.

    key         digest of inputs, settings, and versions of stage and libraries
    output      digest of the stage's folder
    status      "done" if computed in this run, otherwise "reused"
    driver_mib  peak memory of the build's process, None if not measured
    worker_mib  peak memory of a worker, None without workers
    by          versions of sdc and libraries that wrote it; empty for old versions
    """

    name: str
    key: str
    output: str
    status: str
    seconds: float
    driver_mib: int | None
    worker_mib: int | None
    by: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # a folder of that name is read and removed
        if not re.fullmatch(r"[a-z_]+", self.name):
            raise ValueError("the name is none of a stage")


@dataclass(frozen=True)
class Manifest:
    """Inputs and progress of a build.

    name         of the config; config  in full
    digests      of config, data and code
    ledger_head  the last ledger entry read, None without a ledger
    planned      names of the stages of the whole build
    stages       the finished ones, in order
    """

    name: str | None = None
    config: Mapping[str, Any] | None = None
    digests: Mapping[str, str] = field(default_factory=dict)
    ledger_head: str | None = None
    planned: tuple[str, ...] = ()
    stages: tuple[StageRecord, ...] = ()


@dataclass(frozen=True)
class RunFolder:
    """`<output>/<name>/<digest>/`: one build of one config and its data."""

    path: Path

    def stage(self, name: str) -> Path:
        """The folder of a stage; it exists only when complete."""
        return self.path / name

    def parts(self, name: str) -> Path:
        """The folder of an unfinished stage's or command's `Checkpoint`."""
        return self.path / f"{name}.parts"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder, with a log; errors as `alone`."""
        with self.alone(), heard(EventLog(self.path / LOG)):
            with _on_disk(self.path, "what a dead run left"):  # the folder is held, so none of it is in use
                for left in self.path.glob(".*.unfinished"):
                    shutil.rmtree(left)
                for left in self.path.glob(".*.tmp"):
                    left.unlink()
            yield

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Create and hold the folder; RunFolderError if it cannot be written, HeldError if another run holds it."""
        lock = FileLock(self.path / LOCK, mode=0o600)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock.acquire(timeout=SECONDS_TO_LOCK)
        except Timeout as error:
            begun = [event for event in self.events() if event["event"] == "run started"]
            by = " (process {} on {} since {})".format(*map(begun[-1].get, ("pid", "host", "time"))) if begun else ""
            raise HeldError(
                f"another run of the same build is using {self.path}{by}; wait until it ends, then run again"
            ) from error
        except OSError as error:
            raise RunFolderError(
                f"run folder {self.path} cannot be written: {error.strerror}; start in a writable folder, or "
                "set output.folder to one"
            ) from error
        try:
            yield
        finally:
            lock.release()

    def held(self) -> bool:
        """Whether a run holds the folder now."""
        try:
            with (self.path / LOCK).open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # the lock of FileLock; released when the file closes
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def events(self) -> list[dict[str, Any]]:
        return read_events(self.path / LOG)

    @contextmanager
    def writing(self, name: str, *, public: bool = False) -> Iterator[Path]:
        """Yield a folder for a stage, which is renamed into place if the block succeeds.

        Only this user can read it, until a public one is renamed. Ledger entries rely on the search, and releases on
        ledger entries: both are durable before and after the rename.
        """
        unfinished = self.path / f".{name}.{uuid.uuid4().hex[:8]}.unfinished"
        try:
            with _on_disk(self.path, f"stage {name}"):
                unfinished.mkdir(mode=0o700)
                yield unfinished
                # the old one goes last: a kill here leaves no half stage
                (open_as_usual if public else close_to_others)(unfinished)
                if name in DURABLE:
                    sync(*unfinished.rglob("*"), unfinished)
                self.discard(name)
                unfinished.rename(self.stage(name))
                if name in DURABLE:
                    sync(self.path)
                    with suppress(PermissionError):  # of parent folders that cannot be listed
                        sync(*self.path.parents[:3])
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)

    def discard(self, name: str) -> None:
        """Remove a stage's folder, after renaming it so that nobody reads half of it."""
        if self.stage(name).exists():
            dying = self.path / f".{name}.{uuid.uuid4().hex[:8]}.unfinished"
            with _on_disk(self.path, f"stage {name}"):
                self.stage(name).rename(dying)
                shutil.rmtree(dying)

    def manifest(self) -> Manifest:
        """Read the manifest, empty if there is none; RunFolderError if it is corrupt or of another format."""
        path = self.path / MANIFEST
        if not path.exists():
            return Manifest()
        return typed(Manifest, read_format(path, MANIFEST_FORMAT, "the inputs of the build are unknown"), path)

    def write_manifest(self, manifest: Manifest) -> None:
        """Replace the manifest atomically."""
        with _on_disk(self.path, "the manifest"):
            write_json(self.path / MANIFEST, {"format": MANIFEST_FORMAT, **plain(Manifest, manifest)})
            sync(self.path)

    def write_text(self, name: str, content: str) -> None:
        """Replace a file next to the manifest atomically; only this user can read it."""
        with _on_disk(self.path, name), replacing(self.path / name) as temporary:
            temporary.write_text(content, encoding="utf-8")

    def records(self) -> dict[str, StageRecord]:
        return {record.name: record for record in self.manifest().stages}

    def begin(self, manifest: Manifest) -> None:
        """Write the manifest with the complete stages; folders of other stages are removed."""
        known = self.records()
        records = [known[name] for name in manifest.planned if name in known]
        whole = tuple(record for record in records if self.whole(record.name, record.key))
        # before the manifest: an unrecorded stage must not be readable. A release that may be public stays; a run
        # that finds it reports the problem
        for name in set(manifest.planned) - {record.name for record in whole} - {RELEASE}:
            self.discard(name)
        self.write_manifest(replace(manifest, stages=whole))

    def record(self, record: StageRecord) -> None:
        """Add or replace a stage in the manifest."""
        # read again each time: another run may continue from the manifest on disk
        records = {**self.records(), record.name: record}
        self.write_manifest(replace(self.manifest(), stages=tuple(records.values())))

    def whole(self, name: str, key: str | None = None) -> StageRecord | None:
        """Return the record of a complete stage with this key, or of any version; None if there is none."""
        try:
            record = self.records().get(name)
            if record is None or key not in (None, record.key) or not self.stage(name).is_dir():
                return None
            # every byte is checked
            return record if folder_digest(self.stage(name)) == record.output else None
        # any error: the stage is made again
        except (RunFolderError, OSError):
            return None

    def finds(self, name: str, key: str) -> str | None:
        """Return the digest of the outputs that `adopt` would reuse; nothing is changed."""
        return next((record.output for _, record in self._whole(name, key)), None)

    def adopt(self, name: str, key: str, holds: Callable[[Path], bool] = lambda folder: True) -> str | None:
        """Reuse a stage with the same key, of this build or one of the same name; return the digest of its outputs.

        None if there is no complete and valid one: missing or changed files disqualify it.
        """
        for folder, record in self._whole(name, key):
            if folder == self:
                if holds(self.stage(name)):
                    return record.output
                self.discard(name)
            elif self._takes_over(folder, record, holds):
                return record.output
        return None

    def _takes_over(self, other: RunFolder, record: StageRecord, holds: Callable[[Path], bool]) -> bool:
        """Copy another build's stage, unless it was changed meanwhile or is not valid."""
        source = other.stage(record.name)
        with suppress(_GoneError), self.writing(record.name, public=record.name == RELEASE) as folder:
            try:
                shutil.copytree(source, folder, dirs_exist_ok=True, symlinks=True)
            except OSError as error:
                if source.exists():
                    raise
                raise _GoneError from error
            # check the copy: the other run may change its stage meanwhile
            if folder_digest(folder) != record.output or not holds(folder):
                raise _GoneError
            self.record(replace(record, status="reused"))
            return True
        return False

    def _whole(self, name: str, key: str) -> Iterator[tuple[RunFolder, StageRecord]]:
        """Yield builds that have a complete stage with this key, this one first."""
        if (record := self.whole(name, key)) is not None:
            yield self, record
        # in fixed order, for reproducible reuse
        for other in sorted(os.listdir(self.path.parent)) if self.path.parent.is_dir() else ():
            is_run = other != self.path.name and not other.startswith(".")
            if is_run and key in _keys_in(f"{self.path.parent}/{other}/{MANIFEST}"):
                folder = RunFolder(self.path.parent / other)
                if (record := folder.whole(name, key)) is not None:
                    yield folder, record


@contextmanager
def _on_disk(folder: Path, what: str) -> Iterator[None]:
    try:
        yield
    # network errors are OSErrors too, without a disk to fix
    except (ConnectionError, TimeoutError):
        raise
    except OSError as error:
        raise RunFolderError(
            f"{what} cannot be written in {folder}: {error}; free the disk or fix the permissions, then run again: "
            "finished stages are reused"
        ) from error


class _GoneError(Exception):
    """Another build's stage does not match its manifest (any more)."""


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write sorted, indented JSON atomically and durably."""
    with replacing(path) as temporary:
        temporary.write_text(json_of(content), encoding="utf-8")
        sync(temporary)


def json_of(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def read_json(path: Path) -> Any:
    """Read a JSON file; RunFolderError if it is missing or corrupt."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise RunFolderError(f"{path} cannot be read: {error}; remove the run folder and run again") from error


def read_format(path: Path, version: int, lacks: str) -> dict[str, Any]:
    """Read a JSON file and check its format; return the other keys.

    RunFolderError if it is missing (with its purpose, `lacks`), corrupt or of another format.
    """
    if not path.is_file():
        raise RunFolderError(f"{path} is missing: {lacks}; run the build again")
    content = read_json(path)
    found = content.get("format") if isinstance(content, dict) else None
    if found != version:
        raise RunFolderError(
            f"{path} has format {found!r}, this version reads {version}; remove the run folder and run again, or use "
            "the version that made it"
        )
    return {name: value for name, value in content.items() if name != "format"}


def _keys_in(manifest: str) -> frozenset[str]:
    """Return the keys in another run's manifest, cached: there may be thousands of runs."""
    try:
        return _keys_as_of(manifest, os.stat(manifest).st_mtime_ns)
    except OSError:
        return frozenset()


@lru_cache(maxsize=1 << 15)
def _keys_as_of(manifest: str, written: int) -> frozenset[str]:
    with open(manifest, encoding="ascii", errors="replace") as file:
        return frozenset(re.findall(r'"key": *"([^"]+)"', file.read()))


def folder_digest(folder: Path) -> str:
    """Return the SHA-256 of a folder: its names and the bytes of its files.

    Links, folders and other non-files count as such: no stage creates them, and links are never followed.
    """
    sha = hashlib.sha256(b"link" if folder.is_symlink() else b"")
    for path in sorted(folder.rglob("*")):
        sha.update(str(path.relative_to(folder)).encode() + b"\0")
        if path.is_symlink() or not path.is_file():
            sha.update(b"no file")
            continue
        with path.open("rb") as file:
            # per-file digests of fixed length, so that bytes cannot move between files
            sha.update(hashlib.file_digest(file, "sha256").digest())
    return sha.hexdigest()


@lru_cache(maxsize=1)
def code_digest() -> str:
    """Return the SHA-256 of this package's source, for documents and workers; it does not identify builds."""
    root = Path(__file__).parents[1]
    sha = hashlib.sha256()
    for path in sorted(p for p in root.rglob("*") if p.suffix in {".py", ".j2"}):
        sha.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return sha.hexdigest()
