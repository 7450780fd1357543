"""What is in a folder, for tests that compare two."""

import re
from pathlib import Path

import yaml

from tests.helpers.builds import built


def contents(folder: Path) -> dict[str, bytes]:
    """The bytes of every file below, by name."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def said(folder: Path) -> dict[str, bytes]:
    """The same, of pages without what lays them out, which is that of every page."""
    layout = re.compile(rb"<(style|script)>.*?</\1>|<meta [^>]*>", re.DOTALL)
    return {name: layout.sub(b"", b) if name.endswith(".html") else b for name, b in contents(folder).items()}


def released_here(config: Path) -> dict[str, bytes]:
    """What a build of the same in this process publishes, by the name of the file."""
    content = yaml.safe_load(config.read_text())
    content |= {"execution": {"cluster": "in-process"}, "output": {"folder": str(config.parent / "here")}}
    config.with_name("here.yaml").write_text(yaml.safe_dump(content))
    return contents(built(config.with_name("here.yaml")).folder.stage("release"))
