"""The run folder: every name in it, its manifest, and the rule that nothing half-written has a final name."""

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
DURABLE = (SEARCH, RELEASE)  # stages that a ledger's entry, or whoever has read a release, counts on
SECONDS_TO_LOCK = 0.5  # so that no run is refused because somebody looks whether the folder is held


@dataclass(frozen=True)
class StageRecord:
    """What the manifest says of a stage that is done.

    key         digest of all that the stage's outputs depend on: inputs, settings, versions of stage and libraries
    output      digest of the stage's folder
    status      "done" where it was computed for this run, "reused" where it was found
    driver_mib  largest memory of the process that ran the build meanwhile, None where it was not measured
    worker_mib  largest memory of a worker that ran a unit of it, None where none did
    by          versions of this software and of libraries that wrote it; of stages of earlier versions none
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
        # a folder of that name is looked at, and removed
        if not re.fullmatch(r"[a-z_]+", self.name):
            raise ValueError("the name is none of a stage")


@dataclass(frozen=True)
class Manifest:
    """What a build is of, and how far it has come.

    name         of the config; config, as it was given in full
    digests      of config and data, and of the code that made it
    ledger_head  up to where the ledger was read, None without one
    planned      names of the stages of the whole build
    stages       those that are done, in their order
    """

    name: str | None = None
    config: Mapping[str, Any] | None = None
    digests: Mapping[str, str] = field(default_factory=dict)
    ledger_head: str | None = None
    planned: tuple[str, ...] = ()
    stages: tuple[StageRecord, ...] = ()


@dataclass(frozen=True)
class RunFolder:
    """`<output>/<name>/<digest>/`: one build of one config and one data."""

    path: Path

    def stage(self, name: str) -> Path:
        """The folder of a stage; it exists only whole."""
        return self.path / name

    def parts(self, name: str) -> Path:
        """Where an unfinished stage, or a command about the run, has its `Checkpoint`; gone when it is done."""
        return self.path / f"{name}.parts"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Holds the folder, with a log of what happens meanwhile; errors as for `alone`."""
        with self.alone(), heard(EventLog(self.path / LOG)):
            self._remove_leftovers()
            yield

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Makes the folder and holds it; RunFolderError where that cannot be written, HeldError where another does."""
        lock = FileLock(self.path / LOCK, mode=0o600)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock.acquire(timeout=SECONDS_TO_LOCK)
        except Timeout as error:
            begun = [event for event in self.events() if event["event"] == "run started"]
            by = " (process {} on {} since {})".format(*map(begun[-1].get, ("pid", "host", "time"))) if begun else ""
            raise HeldError(
                f"another run of the same build is at work in {self.path}{by}; wait until it ends, then run again"
            ) from error
        except OSError as error:
            raise RunFolderError(
                f"run folder {self.path} cannot be written: {error.strerror}; start in a folder that you may write, or "
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
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # what FileLock locks; gone when the file is closed
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def events(self) -> list[dict[str, Any]]:
        """What the log tells, of all runs."""
        return read_events(self.path / LOG)

    def _remove_leftovers(self) -> None:
        with _on_disk(self.path, "what a dead run left"):
            # the folder is held, so that none of these is being written
            for left in self.path.glob(".*.unfinished"):
                shutil.rmtree(left)
            for left in self.path.glob(".*.tmp"):
                left.unlink()

    @contextmanager
    def writing(self, name: str, *, public: bool = False) -> Iterator[Path]:
        """A folder to write a stage in, renamed to its final name when the block ends without an error.

        It is for this user alone; what is public is so when it has its name. A ledger's entry rests on the search, and
        the release on that entry: both are on disk before they have their names, and with them when this ends.
        """
        unfinished = self.path / f".{name}.{uuid.uuid4().hex[:8]}.unfinished"
        try:
            with _on_disk(self.path, f"stage {name}"):
                unfinished.mkdir(mode=0o700)
                yield unfinished
                # the old one goes last of all: whoever is killed here leaves no stage, never half of one
                (open_as_usual if public else close_to_others)(unfinished)
                if name in DURABLE:
                    sync(*unfinished.rglob("*"), unfinished)
                self.discard(name)
                unfinished.rename(self.stage(name))
                if name in DURABLE:
                    sync(self.path)
                    with suppress(PermissionError):  # of a folder above that one may pass through and not list
                        sync(*self.path.parents[:3])
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)

    def discard(self, name: str) -> None:
        """Removes a stage's folder; it loses its final name first, so that nobody reads it half removed."""
        if self.stage(name).exists():
            dying = self.path / f".{name}.{uuid.uuid4().hex[:8]}.unfinished"
            with _on_disk(self.path, f"stage {name}"):
                self.stage(name).rename(dying)
                shutil.rmtree(dying)

    def manifest(self) -> Manifest:
        """The manifest, an empty one where there is none; RunFolderError where it is of another format or damaged."""
        path = self.path / MANIFEST
        if not path.exists():
            return Manifest()
        return typed(Manifest, read_format(path, MANIFEST_FORMAT, "nothing says what the build is of"), path)

    def write_manifest(self, manifest: Manifest) -> None:
        """Replaces the manifest at one stroke."""
        with _on_disk(self.path, "the manifest"):
            write_json(self.path / MANIFEST, {"format": MANIFEST_FORMAT, **plain(Manifest, manifest)})
            sync(self.path)

    def write_text(self, name: str, content: str) -> None:
        """Replaces a file beside the manifest at one stroke; it is for this user alone."""
        with _on_disk(self.path, name), replacing(self.path / name) as temporary:
            temporary.write_text(content, encoding="utf-8")

    def records(self) -> dict[str, StageRecord]:
        """What the manifest says of each stage."""
        return {record.name: record for record in self.manifest().stages}

    def begin(self, manifest: Manifest) -> None:
        """Writes the manifest, keeping the stages that are whole; those that are not lose their folder at once."""
        known = self.records()
        records = [known[name] for name in manifest.planned if name in known]
        whole = tuple(record for record in records if self._made_with(record.name, record.key))
        # before the manifest: a stage that is not recorded must not be there to be read. What may have been published
        # stays as it is, and a run that finds it says what is wrong
        for name in set(manifest.planned) - {record.name for record in whole} - {RELEASE}:
            self.discard(name)
        self.write_manifest(replace(manifest, stages=whole))

    def record(self, record: StageRecord) -> None:
        """Adds a stage to the manifest, or replaces it."""
        # read again each time: the manifest on disk is what a run that takes over will see
        records = {**self.records(), record.name: record}
        self.write_manifest(replace(self.manifest(), stages=tuple(records.values())))

    def whole(self, name: str) -> StageRecord | None:
        """The record of a stage that is there as it was made, by whatever version; None where it is not."""
        return self._made_with(name, None)

    def finds(self, name: str, key: str) -> str | None:
        """Digest of the outputs that `adopt` would take over; nothing is touched."""
        return next((record.output for _, record in self._whole(name, key)), None)

    def adopt(self, name: str, key: str, holds: Callable[[Path], bool] = lambda folder: True) -> str | None:
        """Finds a stage made with the same key, here or in a build of the same name, and makes it this run's.

        Returns the digest of its outputs, None where there is none that is whole: files that are
        missing or were changed do not count, nor does a stage that does not hold, whatever is recorded of it.
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
        """Whether another build's stage is this run's now: not where it was changed meanwhile, or does not hold."""
        with suppress(_GoneError), self.writing(record.name, public=record.name == RELEASE) as folder:
            _copy(other.stage(record.name), folder)
            # of the copy: the other run may have changed its stage while it was copied
            if folder_digest(folder) != record.output or not holds(folder):
                raise _GoneError
            self.record(replace(record, status="reused"))
            return True
        return False

    def _whole(self, name: str, key: str) -> Iterator[tuple[RunFolder, StageRecord]]:
        """The builds that have a stage whole and made with this key, this one first."""
        if (record := self._made_with(name, key)) is not None:
            yield self, record
        # in one order, so that a stage is taken over from the same build whichever run asks
        for other in sorted(os.listdir(self.path.parent)) if self.path.parent.is_dir() else ():
            is_run = other != self.path.name and not other.startswith(".")
            if is_run and key in _keys_in(f"{self.path.parent}/{other}/{MANIFEST}"):
                folder = RunFolder(self.path.parent / other)
                if (record := folder._made_with(name, key)) is not None:
                    yield folder, record

    def _made_with(self, name: str, key: str | None) -> StageRecord | None:
        """The record of a stage that is whole and was made with this key, or with any."""
        try:
            record = self.records().get(name)
            if record is None or key not in (None, record.key) or not self.stage(name).is_dir():
                return None
            # every byte read: a stage is taken over only as it was made
            return record if folder_digest(self.stage(name)) == record.output else None
        # whatever is wrong with it: it is not whole, and is made again
        except (RunFolderError, OSError):
            return None


@contextmanager
def _on_disk(folder: Path, what: str) -> Iterator[None]:
    try:
        yield
    # of the network, though Python has them as OSErrors too: no disk is to be mended
    except (ConnectionError, TimeoutError):
        raise
    except OSError as error:
        raise RunFolderError(
            f"{what} cannot be written in {folder}: {error}; free the disk or mend the permissions, then run again: "
            "stages that are done are kept"
        ) from error


class _GoneError(Exception):
    """Another build's stage is not, or no longer, what its manifest says."""


def _copy(source: Path, target: Path) -> None:
    try:
        shutil.copytree(source, target, dirs_exist_ok=True, symlinks=True)
    except OSError as error:
        if source.exists():
            raise
        raise _GoneError from error


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Sorted, indented JSON under a temporary name, renamed once it is on disk."""
    with replacing(path) as temporary:
        temporary.write_text(json_of(content), encoding="utf-8")
        sync(temporary)


def json_of(content: Mapping[str, Any]) -> str:
    """Sorted, indented JSON."""
    return json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def read_json(path: Path) -> Any:
    """The content of a JSON file; RunFolderError where it is missing or damaged."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise RunFolderError(f"{path} cannot be read: {error}; remove the run folder and run again") from error


def read_format(path: Path, version: int, lacks: str) -> dict[str, Any]:
    """The content of a JSON file but for its format, which is that of its name.

    RunFolderError where it is damaged, of another format, or lacks, and why it must not.
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
    return {name: told for name, told in content.items() if name != "format"}


def _keys_in(manifest: str) -> frozenset[str]:
    """The keys in the manifest of another run, which is read once: there may be thousands of runs."""
    try:
        return _keys_as_of(manifest, os.stat(manifest).st_mtime_ns)
    except OSError:
        return frozenset()


@lru_cache(maxsize=1 << 15)
def _keys_as_of(manifest: str, written: int) -> frozenset[str]:
    with open(manifest, encoding="ascii", errors="replace") as file:
        return frozenset(re.findall(r'"key": *"([^"]+)"', file.read()))


def folder_digest(folder: Path) -> str:
    """SHA-256 over the names in a folder, and the bytes of its files.

    A link, a folder or whatever else is no file counts as such: no stage makes one, and none is ever followed.
    """
    sha = hashlib.sha256(b"link" if folder.is_symlink() else b"")
    for path in sorted(folder.rglob("*")):
        sha.update(str(path.relative_to(folder)).encode() + b"\0")
        if path.is_symlink() or not path.is_file():
            sha.update(b"no file")
            continue
        with path.open("rb") as file:
            # each file by its own digest, of fixed length, so that no byte of one can pass for one of the next
            sha.update(hashlib.file_digest(file, "sha256").digest())
    return sha.hexdigest()


@lru_cache(maxsize=1)
def code_digest() -> str:
    """SHA-256 over this package's source files, for documents and workers; no build is known by it."""
    root = Path(__file__).parents[1]
    sha = hashlib.sha256()
    for path in sorted(p for p in root.rglob("*") if p.suffix in {".py", ".j2"}):
        sha.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return sha.hexdigest()
