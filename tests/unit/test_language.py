"""The private words of earlier versions (issue 78) do not come back."""

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = sorted(p.parent for p in (ROOT / "sdc").glob("*/__init__.py"))
DONE = [ROOT / "flows", *PACKAGES, *sorted((ROOT / "sdc").glob("*.py"))]
WORDS = "told tells saying wish wishes wished whoever withholds withholding mend mended mending stint sofar retold"
NAMES = {
    "told_tables": "of sdc.public",
    "tells": "JSON key of the table server, for one release beside implies",
    "told": "module and method of sdc.public and sdc.model",
}
"""Names of packages that are not done yet, and old keys."""

_WORD = re.compile(rf"(?<![A-Za-z])(?:{'|'.join(WORDS.split())})(?![A-Za-z])", re.IGNORECASE)


def found(source: str) -> list[tuple[int, str]]:
    """Return line and word of each private word in names, comments and texts."""
    hits = list[tuple[int, str]]()
    if not _WORD.search(source):  # as in most files; to divide one into tokens takes long
        return hits
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


def test_pages_say_suppressed() -> None:
    files = [*(ROOT / "sdc").rglob("*.j2"), *(ROOT / "sdc").rglob("*.js")]
    texts = [(file.name, re.findall(r"\b(?:in part|withheld)\b", file.read_text("utf-8"))) for file in files]
    assert files
    assert [(name, words) for name, words in texts if words] == []


@pytest.fixture(scope="module")
def nodes() -> dict[str, list[ast.AST]]:
    """The classes, comparisons and constants of each file of the product."""
    kinds = ast.ClassDef, ast.Compare, ast.Constant
    files = sorted(path for part in ("sdc", "flows") for path in (ROOT / part).rglob("*.py"))
    walks = {str(file.relative_to(ROOT)): ast.walk(ast.parse(file.read_text("utf-8"))) for file in files}
    return {place: [node for node in walk if isinstance(node, kinds)] for place, walk in walks.items()}


def test_no_text_shows_a_placeholder(nodes: dict[str, list[ast.AST]]) -> None:
    """As where a text has lost the f before it."""
    lost = re.compile(r"\{[a-z_]+(\[['\"]|\(|:,)[^{}]*\}")
    for place, found in nodes.items():
        texts = [one.value for one in found if isinstance(one, ast.Constant) and isinstance(one.value, str)]
        assert [text for text in texts if lost.search(text)] == [], place


def test_names_comments_and_texts_are_read() -> None:
    source = 'told_of = 1  # whoever\n"""What it tells"""\nx = f"{y} withholds"\n'
    assert [word for _, word in found(source)] == ["told", "whoever", "tells", "withholds"]


def test_a_class_name_has_one_meaning(nodes: dict[str, list[ast.AST]]) -> None:
    """The verifier has classes of its own, as it shares no code with what it checks."""
    places: dict[str, list[str]] = {}
    for place, found in nodes.items():
        for node in found:
            if isinstance(node, ast.ClassDef) and not place.startswith("sdc/verify/"):
                places.setdefault(node.name, []).append(place)
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_a_width_is_compared_in_one_place(nodes: dict[str, list[ast.AST]]) -> None:
    """By `is_wide`; beside it by a compiled kernel, which cannot call that, and by the verifier, which is its own."""
    places = set[str]()
    for place, found in nodes.items():
        for node in found:
            if isinstance(node, ast.Compare) and not isinstance(node.ops[0], ast.Eq | ast.NotEq | ast.In | ast.Is):
                sides = [ast.unparse(side) for side in (node.left, *node.comparators)]
                asked = any(re.search(r"\b(?:min_width|required)$", side) for side in sides)
                if asked and any(re.search(r"\bhigh - |widths$", side) for side in sides):
                    places.add(place)
    verifier = {place for place in places if place.startswith("sdc/verify/")}
    assert verifier
    assert places - verifier == {"sdc/search/chain_kernel.py"}


# The handbook and the README: what STYLE asks of a page that is read once

QUOTED = {"words.md"}
"""The glossary lists earlier words."""
PAGES = {path.name: path.read_text("utf-8") for path in (ROOT / "README.md", *(ROOT / "sdc" / "handbook").glob("*.md"))}
LINES, LONGEST = 150, 25
OLD_WORDS = re.compile(
    r"(?<![\w-])(?:told|tells|said|wish(?:es)?|whoever|with(?:held|holds?|holding)|in part|hiding|grows?|growth|tryout|"
    r"coarsen\w*|n-rule|floor|faults?|mend(?:s|ed)?|damaged|soaks|stranger)(?![\w-])",
    re.IGNORECASE,
)
OPENING = re.compile(r"(?:What|Whoever|Where|Of|Beside|By)\b")


def prose(text: str) -> str:
    """A page without its fences, formulas, code and addresses of links."""
    text = re.sub(r"```.*?```", "\n\n", text, flags=re.DOTALL)
    return re.sub(
        r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "CODE", re.sub(r"<math.*?</math>", "x", text, flags=re.DOTALL))
    )


def sentences(text: str) -> list[str]:
    """Sentences of paragraphs, list items and cells; headings and references to works are none."""
    found = list[str]()
    for block in re.split(r"\n\s*\n", prose(text)):
        if not block.startswith("#"):
            parts = re.split(r"(?<!\\)\||^(?:- |\d+\. )", block, flags=re.MULTILINE)
            for part in parts:
                if not part.strip().startswith("**[") and not re.search(r"\b(?:19|20)\d\d, ", part):
                    words = re.sub(r"[*\[\]_]", "", " ".join(part.split()))
                    found += re.split(r"(?<=[.:?!]) (?=[A-Z(\"])", words)
    return found


@pytest.mark.parametrize("name", sorted(PAGES))
def test_a_page_is_short_and_plain(name: str) -> None:
    """No page above 150 lines, no riddle as an opening, no old word, no sentence above 25 words."""
    text = PAGES[name]
    assert text.count("\n") <= LINES
    assert [one for one in sentences(text) if OPENING.match(one) and not one.endswith("?")] == []
    assert [one for one in sentences(text) if len(one.split()) > LONGEST] == []
    if name not in QUOTED:
        assert OLD_WORDS.findall(prose(text)) == []


@pytest.mark.parametrize("name", sorted(PAGES))
def test_a_page_has_an_example_near_its_top(name: str) -> None:
    """A snippet, or a sentence with one."""
    assert re.search(r"^```|\b[Ff]or example\b", "\n".join(PAGES[name].splitlines()[:25]), re.MULTILINE)


def test_sentences_are_counted() -> None:
    text = "# Of titles\n\nWhat it is. A b\nc `d e`.\n\n- By x: Two.\n\n| Of y | z |\n\n```\nOf code.\n```\n"
    assert [one for one in sentences(text) if one] == ["What it is.", "A b c CODE.", "By x:", "Two.", "Of y", "z"]
