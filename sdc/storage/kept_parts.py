"""Parts of a long work, each in a file of its own as soon as it is done: who is killed goes on after them.

They are for this user alone, as cells and counts may be in them.
"""

from __future__ import annotations

import hashlib
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from sdc.model.errors import RunFolderError
from sdc.paths import require_own
from sdc.risk.sharp import SharpPart
from sdc.storage.whole_file import replacing

KEY = "key"
OF_PART = "part:"  # before the names of a part's arrays in its file


@dataclass(frozen=True)
class KeptParts:
    """A folder for the parts of one work; it is there while the work is not done.

    of   digest of all that the parts depend on, which names the folder: what is of anything else is never read
    """

    above: Path
    of: str

    @property
    def folder(self) -> Path:
        return self.above / self.of[:16]

    def read(self) -> dict[str, SharpPart]:
        """Those that are there and whole, by their keys; InputError as `require_own`."""
        require_own(self.folder, "remove it: what is in it is done again")
        found = (_read(path) for path in sorted(self.folder.glob("[!.]*.npz")))
        return {part.key: part for part in found if part is not None}

    def write(self, part: SharpPart) -> None:
        """Keeps it; RunFolderError where it cannot be written."""
        name = f"{hashlib.sha256(part.key.encode()).hexdigest()[:32]}.npz"
        named = {f"{OF_PART}{name}": array for name, array in part.arrays.items()}
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with replacing(self.folder / name) as temporary, temporary.open("wb") as file:
                np.savez(file, **{KEY: np.array(part.key), **named})  # type: ignore[arg-type]  # a name is no option
        except OSError as error:
            raise RunFolderError(
                f"{self.folder} cannot be written: {error.strerror}; free the disk or mend the permissions, then run "
                "again: parts that are done are kept"
            ) from error

    def remove(self) -> None:
        """The work is done: nobody needs them any more."""
        shutil.rmtree(self.folder, ignore_errors=True)
        with suppress(OSError):  # of others something may be there
            for folder in (self.above, *self.above.parents[:2]):
                folder.rmdir()


def _read(path: Path) -> SharpPart | None:
    """None where it is damaged: then it is done again."""
    try:
        with np.load(path, allow_pickle=False) as content:
            arrays = {name.removeprefix(OF_PART): content[name] for name in content.files if name != KEY}
            return SharpPart(str(content[KEY]), arrays)
    except (OSError, ValueError, LookupError, EOFError, BadZipFile):
        return None
