"""The private words of earlier versions (issue 78) do not come back into packages that are free of them."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LEFT = {"server"}
"""Packages that still have some of them."""
PACKAGES = sorted(p.parent for p in (ROOT / "sdc").glob("*/__init__.py") if p.parent.name not in LEFT)
DONE = [ROOT / "flows", *PACKAGES, *sorted((ROOT / "sdc").glob("*.py"))]
WORDS = "told tells saying wish wishes wished whoever withholds withholding mend mended mending stint sofar retold"
NAMES = {
    "told_tables": "of sdc.public",
    "told": "module and method of sdc.public and sdc.model",
}
"""Names of packages that are not done yet."""

_WORD = re.compile(rf"(?<![A-Za-z])(?:{'|'.join(WORDS.split())})(?![A-Za-z])", re.IGNORECASE)


def found(source: str) -> list[tuple[int, str]]:
    """Return line and word of each private word in names, comments and texts."""
    hits = list[tuple[int, str]]()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME and token.string not in NAMES:
            hits += [(token.start[0], word) for word in _WORD.findall(token.string.replace("_", " "))]
        elif token.type in (tokenize.STRING, tokenize.COMMENT):
            text = re.sub(rf"\.(?:{'|'.join(NAMES)})\b", "", token.string)
            hits += [(token.start[0], word) for word in _WORD.findall(text)]
    return hits


@pytest.mark.parametrize("place", DONE, ids=lambda place: place.name)
def test_packages_are_free_of_private_words(place: Path) -> None:
    files = [place] if place.is_file() else sorted(place.rglob("*.py"))
    assert {str(file.relative_to(ROOT)): hits for file in files if (hits := found(file.read_text("utf-8")))} == {}


def test_names_comments_and_texts_are_read() -> None:
    source = 'told_of = 1  # whoever\n"""What it tells"""\nx = f"{y} withholds"\n'
    assert [word for _, word in found(source)] == ["told", "whoever", "tells", "withholds"]


def test_a_class_name_has_one_meaning() -> None:
    """The verifier has classes of its own, as it shares no code with what it checks."""
    places: dict[str, list[str]] = {}
    for file in sorted(path for part in ("sdc", "flows") for path in (ROOT / part).rglob("*.py")):
        if "verify" not in file.parts:
            for node in ast.walk(ast.parse(file.read_text("utf-8"))):
                if isinstance(node, ast.ClassDef):
                    places.setdefault(node.name, []).append(str(file.relative_to(ROOT)))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}
