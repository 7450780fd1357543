"""Checkpoints: the proven results of long work, so that a killed run can continue.

They may contain cells and counts, so only this user can read them.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, TypeVar
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from sdc.model.documents import plain, typed
from sdc.model.errors import RunFolderError
from sdc.model.schema import Schema
from sdc.paths import require_own

Arrays: TypeAlias = Mapping[str, npt.NDArray[Any]]
T = TypeVar("T")
KEY = "key"
OF_PART = "part:"  # before the names of a part's arrays in its file


@dataclass(frozen=True)
class Checkpoint:
    """The finished parts of some work, one file each, written atomically. It is sent to workers.

    above  folder of all checkpoints of a stage or command; None if nothing is saved
    of     digest of everything that the parts depend on; parts with another digest are skipped
    found  parts of an earlier run by name; each is checked before it is used
    """

    above: Path | None = None
    of: str = ""
    found: Mapping[str, Arrays] = field(default_factory=dict, repr=False)

    @staticmethod
    def open(above: Path, of: str, say: Callable[[str], None] = lambda text: None) -> Checkpoint:
        """Open with the existing parts, and report skipped ones; InputError as `require_own`."""
        own, work = Checkpoint(above, of), above.stem
        require_own(own.folder, "remove it: the work in it is repeated")
        if any(path != own.folder for path in (*above.glob("*"), *above.parent.glob(f"{work}.checkpoint.json"))):
            say(f"{work}: a checkpoint of another table, other settings or another version is skipped")
        files = sorted(own.folder.glob("[!.]*.npz"))
        parts = [part for part in map(_read, files) if part is not None]
        if lost := len(files) - len(parts):
            say(f"{work}: {lost} of {len(files)} parts of the checkpoint are truncated and are skipped")
        return Checkpoint(above, of, dict(parts))

    def anew(self) -> Checkpoint:
        """Reopen with the parts that workers have written since."""
        return self if self.above is None else Checkpoint.open(self.above, self.of)

    @property
    def folder(self) -> Path:
        """The folder of this work; it exists until the work is done."""
        assert self.above is not None
        return self.above / self.of[:16]

    def write(self, name: str, arrays: Arrays) -> None:
        """Write or replace a part; RunFolderError if it cannot be written."""
        if self.above is None:
            return
        path = self.folder / f"{hashlib.sha256(name.encode()).hexdigest()[:32]}.npz"
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                named = {f"{OF_PART}{of}": array for of, array in arrays.items()}
                np.savez(file, **{KEY: np.array(name), **named})  # type: ignore[arg-type]  # a name is not an option
            os.replace(temporary, path)
        except OSError as error:
            with suppress(OSError):
                temporary.unlink()
            raise RunFolderError(
                f"{self.folder} cannot be written: {error.strerror}; free the disk or fix the permissions, then run "
                "again: finished parts are not repeated"
            ) from error

    def remove(self) -> None:
        """Remove the checkpoint when the work is done."""
        if self.above is None:
            return
        shutil.rmtree(self.folder, ignore_errors=True)
        with suppress(OSError):  # other checkpoints may be there
            for folder in (self.above, *self.above.parents[:2]):
                folder.rmdir()


NO_CHECKPOINT = Checkpoint()


def packed(kind: Any, value: Any, schema: Schema | None = None) -> npt.NDArray[np.uint8]:
    """Encode a document as an array of a part, with the names of a schema."""
    return np.frombuffer(json.dumps(plain(kind, value, schema)).encode(), np.uint8)


def unpacked(kind: type[T], arrays: Arrays | None, name: str, schema: Schema | None = None) -> T | None:
    """Decode the value of `packed`; None if it is missing or has another form."""
    with suppress(RunFolderError, LookupError, ValueError, TypeError):
        return None if arrays is None else typed(kind, json.loads(arrays[name].tobytes()), Path(name), schema)
    return None


def _read(path: Path) -> tuple[str, Arrays] | None:
    """Read one part; None if it is corrupt."""
    try:
        with np.load(path, allow_pickle=False) as content:
            arrays = {name.removeprefix(OF_PART): content[name] for name in content.files if name != KEY}
            return str(content[KEY]), arrays
    except (OSError, ValueError, LookupError, EOFError, BadZipFile):
        return None
