"""What a run of the tests keeps for the next: folders of the user's cache, named by a digest of what they depend on."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]
STATES_KEPT = 5


def digest(sources: Iterable[Path], *versions: str) -> str:
    """Of the names and the bytes of files."""
    found = hashlib.sha256(repr(versions).encode())
    for path in sources:
        found.update(f"{path.relative_to(ROOT)} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return found.hexdigest()


def cache_folder(what: str, sources: Iterable[Path], *versions: str) -> Path:
    """The folder of this state of the sources; a temporary one where the cache cannot be written.

    Of older states the last few are kept.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "sdc-tests" / what / digest(sources, *versions)[:16]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)
        older = sorted(folder.parent.iterdir(), key=lambda path: path.stat().st_mtime)[:-STATES_KEPT]
    except OSError:
        return Path(tempfile.mkdtemp(prefix="sdc-tests-"))
    for old in older:
        shutil.rmtree(old, ignore_errors=True)
    return folder
