"""Reads PX files: keywords, texts between quotation marks, and the numbers after DATA."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sdc.run_format import WITHHELD_STATUS, WITHHELD_SYMBOL

_KEYWORD = re.compile(r'\s*([A-Z][A-Z0-9-]*)(\[[^\]]*\])?(?:\("((?:[^"])*)"\))?\s*=')
_TEXT = re.compile(r'\s*"([^"]*)"')
_PLAIN = re.compile(r"[^;\"]*")


@dataclass(frozen=True)
class PxTable:
    """What a PX file has: the codes of each variable by its name, and its numbers.

    counts  None where it says that one is withheld
    totals  of variables the codes of what their tables are summed by, as ELIMINATION says
    base    what counts are rounded to multiples of; 0 where they are exact
    cells   with KEYS the codes of each row; else None, and all cells are in C order, the last variable fastest
    """

    categories: Mapping[str, Sequence[str]]
    cells: Sequence[Sequence[str]] | None
    counts: Sequence[int | None]
    base: int = 0
    totals: Mapping[str, Sequence[str]] = field(default_factory=dict)


def read_px(content: bytes) -> PxTable:
    """ValueError or KeyError where it is no PX file of counts, or where a cell is not a whole number."""
    text = _decoded(content)
    head, mark, data = _divided(text)
    if not mark:
        raise ValueError("it has no DATA")
    said = dict(_statements(head))
    if contents := said.get(("CONTVARIABLE", "")):
        raise ValueError(f"it has several contents, by {', '.join(contents)}; name a table of counts")
    labels = [*said.get(("STUB", ""), []), *said.get(("HEADING", ""), [])]
    rounded = [text.rpartition(" rounded to ") for text in said.get(("CONTENTS", ""), ()) if " rounded to " in text]
    if any(not base.isdecimal() for _, _, base in rounded):
        raise ValueError("its counts are rounded, and not exact")
    base = int(rounded[0][2]) if rounded else 0
    if not labels:
        raise ValueError("it names no STUB and no HEADING")
    categories = {
        said.get(("VARIABLECODE", label), [label])[0]: said.get(("CODES", label), said[("VALUES", label)])
        for label in labels
    }
    totals = {
        name: [code for code, text in zip(own, said[("VALUES", label)], strict=True) if text in summed]
        for label, (name, own) in zip(labels, categories.items(), strict=False)
        if (summed := said.get(("ELIMINATION", label)))
    }
    if len(categories) < len(labels):
        raise ValueError("two variables have one name")
    if any(keyword == "KEYS" for keyword, _ in said):
        rows = re.findall(r'((?:"[^"]*"\s*,\s*)+)(\S+)', data)
        cells = [re.findall(r'"([^"]*)"', codes) for codes, _ in rows]
        if any(len(cell) != len(labels) for cell in cells):
            raise ValueError("a row has not a code for each variable")
        return PxTable(categories, cells, [_count(number, said) for _, number in rows], base, totals)
    return PxTable(categories, None, [_count(number, said) for number in data.split()], base, totals)


def _count(text: str, said: Mapping[tuple[str, str], Sequence[str]]) -> int | None:
    """A number; none for two dots where the file says that they stand for what is withheld."""
    is_withheld = text == WITHHELD_SYMBOL and said.get(("DATASYMBOL2", "")) == [WITHHELD_STATUS]
    return None if is_withheld else int(text)


def _decoded(content: bytes) -> str:
    named = re.search(rb'CODEPAGE="([^"]+)"', content[:4096])
    try:
        return content.decode(named[1].decode("ascii") if named else "utf-8-sig").removeprefix("\ufeff")
    except (LookupError, UnicodeDecodeError):
        return content.decode("latin-1")


def _divided(text: str) -> tuple[str, str, str]:
    """What is before DATA, whether it is there, and the numbers; a text may have the word too."""
    place = 0
    while (found := text.find("DATA=", place)) >= 0:
        if text.count('"', 0, found) % 2 == 0 and (found == 0 or text[found - 1] in "\n;\r "):
            return text[:found], "DATA=", text[found + 5 :].strip().removesuffix(";")
        place = found + 1
    return text, "", ""


def _statements(head: str) -> list[tuple[tuple[str, str], list[str]]]:
    """Each keyword with what it is of, and its texts; other languages than the first are passed over."""
    found, place = [], 0
    while head[place:].strip():
        keyword = _KEYWORD.match(head, place)
        if keyword is None:
            raise ValueError("a statement has no keyword")
        texts, place = _values(head, keyword.end())
        if keyword[2] is None:
            found.append(((keyword[1], keyword[3] or ""), texts))
    return found


def _values(head: str, place: int) -> tuple[list[str], int]:
    """The texts up to the semicolon; parts of one follow each other without a comma."""
    texts, is_part = list[str](), False
    while True:
        text = _TEXT.match(head, place)
        if text:
            place = text.end()
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
