"""Sources of records: one file, a folder of parts or a glob, local or at any fsspec URL.

A part has a fingerprint from when the source was opened. After reading, `SourcePart.require_unchanged` refuses a
changed part: the digest that names a build must belong to the counted records. Credentials come from fsspec's
configuration or environment, never from here.
"""

from __future__ import annotations

import glob
import gzip
import hashlib
import importlib.metadata
import lzma
import os
import re
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO, Any, TypeVar

from sdc.config.table import KINDS, STATISTICAL, SUFFIXES, TEXTS, ExpectConfig
from sdc.data.structural_zeros import zeros_digest
from sdc.events import STEP, WARNING, emit
from sdc.model.errors import AbsentError, InputError, SdcError
from sdc.model.extras import require_packages
from sdc.paths import at_home
from sdc.run_format import PART, SCHEMA

SECONDS_TO_ANSWER, SECONDS_BETWEEN_STEPS = 30.0, 3.0

_BLOCK = 1 << 20
_UNREACHED = re.compile("Connection|Connect(or)?Error|Timeout")  # in names of libraries' errors
_WITHOUT_RANGE = re.compile("support range requests|Cannot seek streaming HTTP")  # in fsspec's message
Result = TypeVar("Result")


@dataclass(frozen=True)
class SourcePart:
    """A file of records: its path or URL, its size if known, and its fingerprint when it was opened."""

    url: str
    size: int | None
    fingerprint: str

    def __str__(self) -> str:
        return self.url

    @property
    def name(self) -> str:
        return _name(self.url)

    @property
    def suffix(self) -> str:
        """The suffix among SUFFIXES, empty if none."""
        return _suffix(self.name)

    @property
    def is_text(self) -> bool:
        """Whether it is a text file, possibly compressed."""
        return self.suffix.startswith(TEXTS)

    @property
    def whole(self) -> bool | None:
        """Naming of its whole numbers, see `namer`: programs with floats only write 1 for 1.0."""
        return True if self.suffix in STATISTICAL else None

    @contextmanager
    def opened(self) -> Iterator[str | IO[bytes]]:
        """What Arrow reads from: a local path, else a file opened by fsspec."""
        if not is_url(self.url):
            yield self.url
            return
        with readable(self.url):
            files, path = file_system(self.url)
            file = files.open(path, "rb")
        with file:
            yield file

    def require_unchanged(self, cause: InputError | None = None) -> None:
        """InputError if the part changed after the source was opened."""
        with readable(self.url):
            try:
                now = _fingerprint(self.url)
            except FileNotFoundError as error:
                if not _is_absent(error):
                    raise
                gone = f"{self.url} disappeared during the run; run again when all parts exist"
                raise InputError(gone) from cause
        if now != self.fingerprint:
            raise InputError(f"{self.url} was rewritten while it was read; run again when it is at rest") from cause

    def digest(self) -> str:
        sha = hashlib.sha256()
        with readable(self.url), self.opened() as source, _file(source) as file:
            while block := file.read(_BLOCK):
                sha.update(block)
        self.require_unchanged()
        return sha.hexdigest()


def counted(found: Iterable[Result], parts: int, does: str) -> Iterator[Result]:
    """The results by part, with a progress message every few seconds."""
    reply = time.monotonic()
    for number, one in enumerate(found):
        if (now := time.monotonic()) - reply > SECONDS_BETWEEN_STEPS:
            reply = now
            emit(STEP, f"{does}: {number:,} of {parts:,} parts")
        yield one


@dataclass(frozen=True)
class Source:
    """The parts, sorted by name, and the given path or URL."""

    path: str
    parts: tuple[SourcePart, ...]

    @property
    def readers(self) -> dict[str, str]:
        """Versions of the optional libraries on which the content read depends."""
        of_kind = ("pyreadstat",) if self.parts[0].suffix in STATISTICAL else ()
        return {name: importlib.metadata.version(name) for name in of_kind}

    @contextmanager
    def named(self) -> Iterator[None]:
        """Put the path before the message of an InputError that names neither it nor a part."""
        try:
            yield
        except InputError as error:
            if any(name in str(error) for name in (self.path, *(part.url for part in self.parts))):
                raise
            raise type(error)(f"{self.path}: {error}", error.detail) from None

    def digest(self, structural_zeros: str | Path | None = None) -> str:
        """SHA-256 over the names and the bytes of the parts, and the structural zeros."""
        sha, known = hashlib.sha256(), dict[str, SourcePart]()
        for part in counted(self.parts, len(self.parts), "digesting the data"):
            if (one := known.setdefault(digest := part.digest(), part)) is not part:
                said = f"{part} and {one.name} have the same content, and their records count twice"
                emit(WARNING, f"warning: {said}; leave one out, by table.ignore, if it is a copy")
            # names without folders: the same parts elsewhere are the same data
            sha.update(f"{part.name}\0{digest}\n".encode())
        if structural_zeros is not None:
            sha.update(f"structural zeros\0{zeros_digest(structural_zeros)}\n".encode())
        return sha.hexdigest()


def open_source(path: str | Path, expect: ExpectConfig | None = None, ignore: Sequence[str] = ()) -> Source:
    """The file, or the parts of the folder or glob, without those that `ignore` names.

    Raises InputError if nothing is there, a file is no part, suffixes differ, reading is not allowed, or parts or the
    marker are not as expected; for a URL also if its protocol is unknown, it has a password, or its host does not
    answer within SECONDS_TO_ANSWER.
    """
    path = at_home(str(path))
    how = expect or ExpectConfig.model_construct(), ignore
    with readable(path):
        if not is_url(path):
            return _listed(path, *how)
        require_no_password(path)
        return _within(SECONDS_TO_ANSWER, lambda: _listed(path, *how), path)


def require_no_password(url: str) -> None:
    """InputError for a URL with a password, which manifests and logs would show; this message does not."""
    if secret := re.match(r"[^/]*://[^/]*:[^/]*@", url):
        raise InputError(
            f"the URL of {url[secret.end() :]} has a password in it; put the password into fsspec's own configuration"
        )


def require_records(records: int, path: str, expect: ExpectConfig | None) -> None:
    """InputError for an unexpected number of records."""
    if expect is None or expect.records is None:
        return
    least, most = expect.records
    if not least <= records <= most:
        raise InputError(
            f"{path} has {records} records, table.expect.records = [{least}, {most}]; give all parts and no others, or "
            "correct the setting"
        )


def is_url(path: str | Path) -> bool:
    """Whether fsspec is needed instead of local files."""
    return "://" in str(path)


@contextmanager
def readable(path: str | Path) -> Iterator[None]:
    """Turn errors of file systems and Arrow into InputErrors; AbsentError for a missing file. Keep the block short."""
    try:
        yield
    except SdcError:
        raise
    except Exception as error:
        # not chained: a traceback would show Arrow's quote of a row
        kind = AbsentError if _is_absent(error) else InputError
        raise kind(f"{path} {_refusal(error)}", str(error)) from None


def _refusal(error: Exception) -> str:
    cause = cause_of(error)
    name = type(cause).__name__
    if isinstance(cause, PermissionError) or _status(cause) in (401, 403):
        return "may not be read: permission denied; fix its permissions, or fsspec's own credentials for a URL"
    if "Credential" in name:
        return f"cannot be requested: there are no credentials ({name}); give them to fsspec, by its own configuration"
    if name == "NoSuchBucket":
        return "does not exist: there is no such bucket; check its name, and the endpoint in fsspec's configuration"
    if _is_absent(error):
        return "does not exist; give a Parquet or CSV file, or a folder of parts"
    if cause is not error or is_unreached(error):
        return f"cannot be reached: {name}; check the address and the network"
    if _WITHOUT_RANGE.search(str(cause)):
        return "cannot be read: its host gives no part of a file (HTTP Range), as Parquet needs; copy it, or give CSV"
    if isinstance(cause, MemoryError):
        return "cannot be read: there is not enough memory for it; give more, or write it again if it is corrupt"
    return f"cannot be read: {_fault(cause)}; check that it is whole, and UTF-8 if it is CSV or in table.csv.encoding"


def _fault(cause: BaseException) -> str:
    match cause:
        case EOFError():
            return "it ends too soon"
        case gzip.BadGzipFile() | lzma.LZMAError() | zlib.error():
            return "it is damaged, or not packed as its name says"
        case OSError() if cause.strerror:
            return cause.strerror
    return "it is damaged, or not what its name says"


def cause_of(error: BaseException) -> BaseException:
    """The root cause: fsspec reports many failures as missing files, with the reason as cause."""
    return error.__cause__ if isinstance(error, FileNotFoundError) and error.__cause__ is not None else error


def is_unreached(error: BaseException) -> bool:
    """Whether the network or a server failed."""
    cause = cause_of(error)
    return isinstance(cause, ConnectionError | TimeoutError) or bool(_UNREACHED.search(type(cause).__name__))


def _status(error: BaseException) -> int | None:
    response = getattr(error, "response", None)
    reply = response.get("ResponseMetadata", {}) if isinstance(response, dict) else {}
    status: int | None = getattr(error, "status", reply.get("HTTPStatusCode"))
    return status


def _is_absent(error: BaseException) -> bool:
    cause = cause_of(error)
    return isinstance(cause, FileNotFoundError) or _status(cause) == 404


def _listed(path: str, expect: ExpectConfig, ignore: Sequence[str]) -> Source:
    files, inside = file_system(path)
    files.invalidate_cache()  # fsspec caches its listings
    is_glob = _is_glob(path) and not files.exists(inside)
    folder, _, name = inside.rpartition("/")
    if is_glob and _is_glob(folder) and files.exists(folder):  # a folder named such as data [2024]
        inside = f"{glob.escape(folder)}/{name}"
    ignore = [*ignore, expect.marker or ""]
    is_folder = not is_glob and files.info(inside)["type"] == "directory"
    if expect.marker is not None:
        # before listing the parts: the marker is written last
        _require_marker(path, files, inside if is_folder else os.path.dirname(inside), expect.marker)
    if is_glob:
        listed = sorted(files.glob(inside))
        if not listed:
            files.info(re.split("[*?[]", inside, maxsplit=1)[0].rpartition("/")[0])  # that may be why
        found = _source(path, files, listed, f"glob {path}", ignore)
    elif is_folder:
        listed = sorted(entry["name"] for entry in files.ls(inside, detail=True))
        found = _source(path, files, listed, f"folder {path}", ignore)
    elif _suffix(inside):
        found = Source(path, (_part(path, files, inside),))
    else:
        raise InputError(f"{path} is not a file of data; its name should end in {', '.join(KINDS)}")
    if found.parts[0].suffix in STATISTICAL:
        require_packages(path, "pyreadstat")
    if expect.parts not in (None, len(found.parts)):
        raise InputError(
            f"{path} has {len(found.parts)} parts, table.expect.parts = {expect.parts}; give all of them and no "
            "others, or correct the setting"
        )
    return found


def _require_marker(path: str, files: Any, folder: str, marker: str) -> None:
    """InputError if the file is not in the folder, which must be one."""
    if _is_glob(folder) and not files.exists(folder):
        raise InputError(
            f"table.expect.marker = {marker!r}: {path} names several folders, and a marker must be in one; give "
            "one folder, or drop it"
        )
    try:
        files.info(f"{folder}/{marker}")
    except FileNotFoundError as error:
        if not _is_absent(error):
            raise
        raise InputError(
            f"{path} lacks the file {marker} beside its parts, table.expect.marker, so that it may not be whole; run "
            "again when it is there"
        ) from None


def _source(path: str, files: Any, listed: list[str], what: str, ignore: Sequence[str]) -> Source:
    listed = [entry for entry in listed if not _is_ignored(_name(entry), ignore)]
    if any(_name(entry) == PART.format(0) for entry in listed):  # a table of sdc, whose parts follow its schema
        listed = [entry for entry in listed if _name(entry) != SCHEMA]
    folders = [_name(entry) for entry in listed if files.isdir(entry)]
    if folders:
        raise InputError(f"{what} has the sub-folder {folders[0]!r}; put all parts into one folder")
    names = [_name(entry) for entry in reversed(listed)]
    first_of = {"" if name.startswith("_") else _suffix(name): name for name in names}
    if len(first_of) != 1 or "" in first_of:
        odd = first_of.pop("", None)
        found = f"{odd!r}, which is not a part" if odd else f"parts of several kinds ({', '.join(first_of.values())})"
        found = found if listed else "no parts"
        raise InputError(
            f"{what} has {found}; give parts of one kind, {', '.join(KINDS)}, packed or not, and name what is none "
            "under table.ignore"
        )
    named = ((str(files.unstrip_protocol(part)) if is_url(path) else part, part) for part in listed)
    parts = tuple(_part(url, files, part) for url, part in named)
    first = {part.fingerprint: part for part in reversed(parts)}
    if twice := next((part for part in parts if first[part.fingerprint] is not part), None):
        raise InputError(
            f"{twice} and {first[twice.fingerprint].name} are one file under two names, whose records would count "
            "twice; name one of them under table.ignore"
        )
    return Source(path, parts)


def _is_ignored(name: str, ignore: Sequence[str]) -> bool:
    is_marker = name.startswith("_") and not _suffix(name)
    return name.startswith(".") or is_marker or any(fnmatchcase(name, pattern) for pattern in ignore)


def _part(url: str, files: Any, inside: str) -> SourcePart:
    with readable(url):
        return SourcePart(url, files.info(inside)["size"], _fingerprint(url))


def _is_glob(path: str) -> bool:
    return any(sign in path for sign in ("*[" if is_url(path) else "*?["))  # after ? in a URL follows its query


def _name(path: str) -> str:
    return path.rstrip("/").rsplit("/", 1)[-1]


def _suffix(name: str) -> str:
    return next((suffix for suffix in SUFFIXES if name.lower().endswith(suffix)), "")


def file_system(path: str) -> tuple[Any, str]:
    """The fsspec file system of a path or URL, and the path within it; InputError for an unknown protocol."""
    import fsspec

    if not is_url(path):
        return fsspec.filesystem("file"), os.path.abspath(path)
    if path.startswith(("s3://", "s3a://")):
        require_packages(path, "s3fs")
    try:
        files, inside = fsspec.core.url_to_fs(path)
    except (ValueError, ImportError) as error:
        raise InputError(f"{path} has a protocol that cannot be used: {error}") from error
    return files, inside


def _file(source: str | IO[bytes]) -> IO[bytes]:
    return open(source, "rb") if isinstance(source, str) else source


def _fingerprint(url: str) -> str:
    """Size, modification time and inode of a local file; elsewhere all details that the file system gives."""
    # the inode too: a file replaced by a rename may have the same size and time
    if not is_url(url):
        status = os.stat(url)
        return f"{status.st_size} {status.st_mtime_ns} {status.st_ino}"
    # fsspec caches file details
    files, path = file_system(url)
    files.invalidate_cache()
    return repr(sorted((key, str(value)) for key, value in files.info(path).items()))


def _within(seconds: float, work: Callable[[], Result], path: str | Path) -> Result:
    """The result of `work`; InputError if it takes longer. Its thread ends with the process."""
    answer = Future[Result]()

    def run() -> None:
        try:
            answer.set_result(work())
        except BaseException as error:
            answer.set_exception(error)

    # fsspec's calls cannot be interrupted: the daemon thread is abandoned
    threading.Thread(target=run, daemon=True).start()
    if not wait([answer], seconds).done:
        raise InputError(f"{path}: no answer within {seconds:g} s; check the address and the network, then run again")
    return answer.result()
