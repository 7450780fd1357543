"""What is in a folder, for tests that compare two."""

from __future__ import annotations

import re
from pathlib import Path


def contents(folder: Path) -> dict[str, bytes]:
    """The bytes of every file below, by name."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def said(folder: Path) -> dict[str, bytes]:
    """The same, of pages without what lays them out, which is that of every page."""
    layout = re.compile(rb"<(style|script)>.*?</\1>|<meta [^>]*>", re.DOTALL)
    return {name: layout.sub(b"", b) if name.endswith(".html") else b for name, b in contents(folder).items()}
