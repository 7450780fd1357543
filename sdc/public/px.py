"""The content of one file of published counts, and PX files: keywords, quoted texts, and the numbers after DATA."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import TypeAlias

from sdc.model.alike import decimal_of
from sdc.run_format import WITHHELD_STATUS, WITHHELD_SYMBOL

Texts: TypeAlias = Mapping[str, Sequence[str]]
Count: TypeAlias = int | tuple[int, int] | None
"""A count: exact, between two numbers, or missing."""


@dataclass(frozen=True)
class Listed:
    """The content of a file: (cells,) categories of each variable, (cells,) counts, and all categories if known.

    A count is None if it is missing, and a pair if it is between two numbers. With a positive base, counts are rounded
    to multiples of it. `totals` has, by variable, the categories of totals if the file states them.
    """

    columns: Texts
    counts: Sequence[Count]
    categories: Texts
    base: int = 0
    totals: Texts = field(default_factory=dict)

    def marked(self, total: str) -> Listed:
        """The content with `total` in place of the file's own categories of totals."""
        columns, categories = dict(self.columns), dict(self.categories)
        for name, own in self.totals.items():
            columns[name] = [total if text in own else text for text in columns[name]]
            categories[name] = [text for text in categories[name] if text not in own]
        return replace(self, columns=columns, categories=categories)


_KEYWORD = re.compile(r'\s*([A-Z][A-Z0-9_-]*)(\[[^\]]*\])?(?:\(\s*"([^"]*)"(?:\s*,\s*"[^"]*")*\s*\))?\s*=')
_TEXT = re.compile(r'\s*"([^"]*)"')
_PLAIN = re.compile(r"[^;\"]*")
_CELL = re.compile(r'("[^"]*"|[^\s",;]+)[\s,;]*')


def read_px(path: Path) -> Listed:
    """Read a PX file; ValueError or KeyError if it is not a PX file of counts, or a cell is not a whole number.

    With KEYS the cells that it does not list have no records.
    """
    text = _decoded(path.read_bytes())
    head, mark, data = _divided(text)
    if not mark:
        raise ValueError("it has no DATA")
    keywords = dict(_statements(head))
    if contents := keywords.get(("CONTVARIABLE", "")):
        raise ValueError(f"it has several contents, by {', '.join(contents)}; name a table of counts")
    labels = [*keywords.get(("STUB", ""), []), *keywords.get(("HEADING", ""), [])]
    rounded = [text.rpartition(" rounded to ") for text in keywords.get(("CONTENTS", ""), ()) if " rounded to " in text]
    if any(not base.isdecimal() for _, _, base in rounded):
        raise ValueError("its counts are rounded, and not exact")
    base = int(rounded[0][2]) if rounded else 0
    if not labels:
        raise ValueError("it names no STUB and no HEADING")
    texts = [keywords[("VALUES", label)] for label in labels]
    codes = [keywords.get(("CODES", label), own) for label, own in zip(labels, texts, strict=True)]
    if any(len(own) != len(values) for own, values in zip(codes, texts, strict=True)):
        raise ValueError("a variable has not as many CODES as VALUES")
    categories = {
        keywords.get(("VARIABLECODE", label), [label])[0]: own for label, own in zip(labels, codes, strict=True)
    }
    totals = {
        name: [code for code, text in zip(own, keywords[("VALUES", label)], strict=True) if text in summed]
        for label, (name, own) in zip(labels, categories.items(), strict=False)
        if (summed := keywords.get(("ELIMINATION", label)))
    }
    if len(categories) < len(labels):
        raise ValueError("two variables have one name")
    keyed = [v for v, label in enumerate(labels) if ("KEYS", label) in keywords]
    named = [_by_key(keywords[("KEYS", labels[v])], codes[v], texts[v]) for v in keyed]
    columns, found = _listed(_cells_of(data), codes, dict(zip(keyed, named, strict=True)))
    counts = [_count(one, keywords) for one in found]
    return Listed(dict(zip(categories, columns, strict=True)), counts, categories, base, totals)


def _cells_of(data: str) -> list[str]:
    """Numbers and quoted texts, separated by blanks, commas or semicolons; nothing is skipped."""
    found, place = list[str](), 0
    while place < len(data):
        cell = _CELL.match(data, place)
        if cell is None:
            raise ValueError("DATA has a quotation mark that is not closed")
        found.append(cell[1])
        place = cell.end()
    return found


def _by_key(kind: Sequence[str], codes: Sequence[str], texts: Sequence[str]) -> dict[str, str]:
    keys = {"CODES": codes, "VALUES": texts}.get(kind[0])
    if keys is None or len(set(keys)) < len(keys):
        raise ValueError(f"KEYS={kind[0]} names no category; it is VALUES or CODES, each of them once")
    return {f'"{key}"': code for key, code in zip(keys, codes, strict=True)}


def _listed(
    found: Sequence[str], codes: Sequence[Sequence[str]], keyed: Mapping[int, Mapping[str, str]]
) -> tuple[list[list[str]], list[str]]:
    """(cells,) codes of each variable, and the values of the cells, in C order with the last variable fastest.

    A row has a key for each keyed variable, and all cells of the others; without any the whole table is one row.
    """
    size = math.prod(len(own) for v, own in enumerate(codes) if v not in keyed)
    if not keyed and len(found) != size:
        raise ValueError(f"it has {len(found)} numbers of {size} cells")
    each = max(1, len(keyed) + size)
    if len(found) % each:
        raise ValueError(f"its rows are not of {len(keyed)} keys and {size} numbers each")
    columns, numbers = [list[str]() for _ in codes], list[str]()
    for row in range(0, len(found), each):
        keys = dict(zip(keyed, found[row : row + len(keyed)], strict=True))
        if unknown := [key for v, key in keys.items() if key not in keyed[v]]:
            raise ValueError(f"a row has the key {unknown[0]}, which is of no category")
        cells = list(product(*([keyed[v][keys[v]]] if v in keyed else own for v, own in enumerate(codes))))
        for v, column in enumerate(columns):
            column += [cell[v] for cell in cells]
        numbers += found[row + len(keyed) : row + each]
    return columns, numbers


def _count(text: str, keywords: Mapping[tuple[str, str], Sequence[str]]) -> int | None:
    """A number; 0 for a dash; None for two dots if the file declares them as suppressed."""
    if text.strip('"') == "-":
        return 0
    if text.strip('"') == WITHHELD_SYMBOL.strip('"') and keywords.get(("DATASYMBOL2", "")) == [WITHHELD_STATUS]:
        return None
    return whole_of(text)


def whole_of(text: str) -> int:
    """A whole number in any notation: 12, 12.0 or 1.2e1; ValueError otherwise."""
    number = decimal_of(text)
    if number is None or number[1] < 0:
        raise ValueError(f"{text} is not a whole number")
    return int(number[0] * 10 ** number[1])


def _decoded(content: bytes) -> str:
    """Decode by CODEPAGE, else UTF-8, else the usual ANSI code page."""
    if named := re.search(rb'CODEPAGE="([^"]+)"', content[:4096]):
        return content.decode(named[1].decode("ascii")).removeprefix("\ufeff")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("cp1252")


def _divided(text: str) -> tuple[str, str, str]:
    """The texts before DATA, whether DATA is there, and the numbers; quoted texts may contain the word."""
    place = 0
    while (found := text.find("DATA=", place)) >= 0:
        if text.count('"', 0, found) % 2 == 0 and (found == 0 or text[found - 1] in "\n;\r "):
            return text[:found], "DATA=", text[found + 5 :].strip().removesuffix(";")
        place = found + 1
    return text, "", ""


def _statements(head: str) -> list[tuple[tuple[str, str], list[str]]]:
    """Each keyword with its subject, and its texts; languages other than the first are skipped."""
    found, place = [], 0
    while head[place:].strip():
        keyword = _KEYWORD.match(head, place)
        if keyword is None:
            raise ValueError("a statement has no keyword")
        texts, place = _values(head, keyword.end())
        if keyword[1] == "KEYS":  # its value is a word
            texts = texts or [head[keyword.end() : place - 1].strip()]
        if keyword[2] is None:
            found.append(((keyword[1], keyword[3] or ""), texts))
    return found


def _values(head: str, place: int) -> tuple[list[str], int]:
    """The texts up to the semicolon; consecutive texts without a comma are parts of one."""
    texts, is_part = list[str](), False
    while True:
        text = _TEXT.match(head, place)
        if text:
            place = text.end()
            if head[place : place + 1] == '"':
                raise ValueError("a text has a quotation mark within")
            texts = [*texts[:-1], texts[-1] + text[1]] if is_part else [*texts, text[1]]
            is_part = True
            continue
        plain = _PLAIN.match(head, place)
        assert plain is not None
        place, is_part = plain.end(), "," not in plain[0] and is_part
        if place >= len(head):
            raise ValueError("a statement has no end")
        if head[place] == ";":
            return texts, place + 1
