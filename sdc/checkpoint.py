"""Checkpoints: what a long work has proven so far, so that a run that was killed goes on from there.

They are for this user alone, as cells and counts may be in them.
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
    """The parts of a work that are done, each in a file that is written whole or not at all. It goes to workers.

    above  the folder for all checkpoints of a stage or a command; None where nothing is kept
    of     digest of all that the parts depend on: what is of anything else is passed over
    found  what an earlier run has kept, by the names of parts; nothing of it is believed before it is checked
    """

    above: Path | None = None
    of: str = ""
    found: Mapping[str, Arrays] = field(default_factory=dict, repr=False)

    @staticmethod
    def open(above: Path, of: str, say: Callable[[str], None] = lambda text: None) -> Checkpoint:
        """With what is there; says what is passed over. InputError as `require_own`."""
        own, work = Checkpoint(above, of), above.stem
        require_own(own.folder, "remove it: what is in it is done again")
        if any(path != own.folder for path in (*above.glob("*"), *above.parent.glob(f"{work}.checkpoint.json"))):
            say(f"{work}: a checkpoint of another table, other settings or another version is passed over")
        files = sorted(own.folder.glob("[!.]*.npz"))
        parts = [part for part in map(_read, files) if part is not None]
        if lost := len(files) - len(parts):
            say(f"{work}: {lost} of {len(files)} parts of the checkpoint are cut short and are passed over")
        return Checkpoint(above, of, dict(parts))

    def anew(self) -> Checkpoint:
        """With what workers have kept since it was opened."""
        return self if self.above is None else Checkpoint.open(self.above, self.of)

    @property
    def folder(self) -> Path:
        """It is there while the work is not done."""
        assert self.above is not None
        return self.above / self.of[:16]

    def write(self, name: str, arrays: Arrays) -> None:
        """Keeps a part in place of what was there by its name; RunFolderError where it cannot be written."""
        if self.above is None:
            return
        path = self.folder / f"{hashlib.sha256(name.encode()).hexdigest()[:32]}.npz"
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                named = {f"{OF_PART}{of}": array for of, array in arrays.items()}
                np.savez(file, **{KEY: np.array(name), **named})  # type: ignore[arg-type]  # a name is no option
            os.replace(temporary, path)
        except OSError as error:
            with suppress(OSError):
                temporary.unlink()
            raise RunFolderError(
                f"{self.folder} cannot be written: {error.strerror}; free the disk or mend the permissions, then run "
                "again: parts that are done are kept"
            ) from error

    def remove(self) -> None:
        """The work is done: nobody needs it any more."""
        if self.above is None:
            return
        shutil.rmtree(self.folder, ignore_errors=True)
        with suppress(OSError):  # of others something may be there
            for folder in (self.above, *self.above.parents[:2]):
                folder.rmdir()


NOT_KEPT = Checkpoint()


def packed(kind: Any, value: Any, schema: Schema | None = None) -> npt.NDArray[np.uint8]:
    """A document as a part has it, by the names of a schema."""
    return np.frombuffer(json.dumps(plain(kind, value, schema)).encode(), np.uint8)


def unpacked(kind: type[T], arrays: Arrays | None, name: str, schema: Schema | None = None) -> T | None:
    """What `packed` gave; None where it is not there, or is something else."""
    with suppress(RunFolderError, LookupError, ValueError, TypeError):
        return None if arrays is None else typed(kind, json.loads(arrays[name].tobytes()), Path(name), schema)
    return None


def _read(path: Path) -> tuple[str, Arrays] | None:
    """None where it is damaged."""
    try:
        with np.load(path, allow_pickle=False) as content:
            arrays = {name.removeprefix(OF_PART): content[name] for name in content.files if name != KEY}
            return str(content[KEY]), arrays
    except (OSError, ValueError, LookupError, EOFError, BadZipFile):
        return None
