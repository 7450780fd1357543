"""Reads PX files: keywords, texts between quotation marks, and the numbers after DATA."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from sdc.model.alike import decimal_of
from sdc.run_format import WITHHELD_STATUS, WITHHELD_SYMBOL

_KEYWORD = re.compile(r'\s*([A-Z][A-Z0-9_-]*)(\[[^\]]*\])?(?:\(\s*"([^"]*)"(?:\s*,\s*"[^"]*")*\s*\))?\s*=')
_TEXT = re.compile(r'\s*"([^"]*)"')
_PLAIN = re.compile(r"[^;\"]*")
_CELL = re.compile(r'("[^"]*"|[^\s",;]+)[\s,;]*')


@dataclass(frozen=True)
class PxTable:
    """What a PX file has: the codes of each variable by its name, and its numbers.

    counts  None where it says that one is withheld
    totals  of variables the codes of what their tables are summed by, as ELIMINATION says
    base    what counts are rounded to multiples of; 0 where they are exact
    cells   with KEYS the codes of each cell that is listed, all others having no records; else None, and all cells are
            in C order, the last variable fastest
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
    texts = [said[("VALUES", label)] for label in labels]
    codes = [said.get(("CODES", label), own) for label, own in zip(labels, texts, strict=True)]
    if any(len(own) != len(values) for own, values in zip(codes, texts, strict=True)):
        raise ValueError("a variable has not as many CODES as VALUES")
    categories = {said.get(("VARIABLECODE", label), [label])[0]: own for label, own in zip(labels, codes, strict=True)}
    totals = {
        name: [code for code, text in zip(own, said[("VALUES", label)], strict=True) if text in summed]
        for label, (name, own) in zip(labels, categories.items(), strict=False)
        if (summed := said.get(("ELIMINATION", label)))
    }
    if len(categories) < len(labels):
        raise ValueError("two variables have one name")
    keyed = [v for v, label in enumerate(labels) if ("KEYS", label) in said]
    found, cells = _cells_of(data), None
    if keyed:
        named = [_by_key(said[("KEYS", labels[v])], codes[v], texts[v]) for v in keyed]
        cells, found = _listed(found, codes, dict(zip(keyed, named, strict=True)))
    return PxTable(categories, cells, [_count(one, said) for one in found], base, totals)


def _cells_of(data: str) -> list[str]:
    """Numbers, and texts in quotation marks, with blanks, commas or semicolons between; nothing is passed over."""
    found, place = list[str](), 0
    while place < len(data):
        cell = _CELL.match(data, place)
        if cell is None:
            raise ValueError("DATA has a quotation mark that is not closed")
        found.append(cell[1])
        place = cell.end()
    return found


def _by_key(kind: Sequence[str], codes: Sequence[str], texts: Sequence[str]) -> dict[str, str]:
    """The code of each key in quotation marks."""
    keys = {"CODES": codes, "VALUES": texts}.get(kind[0])
    if keys is None or len(set(keys)) < len(keys):
        raise ValueError(f"KEYS={kind[0]} names no category; it is VALUES or CODES, each of them once")
    return {f'"{key}"': code for key, code in zip(keys, codes, strict=True)}


def _listed(
    found: Sequence[str], codes: Sequence[Sequence[str]], keyed: Mapping[int, Mapping[str, str]]
) -> tuple[list[list[str]], list[str]]:
    """The codes of each cell, and what it has: a row is a key of each keyed variable, and all cells of the others."""
    size = math.prod(len(own) for v, own in enumerate(codes) if v not in keyed)
    if len(found) % (len(keyed) + size):
        raise ValueError(f"its rows are not of {len(keyed)} keys and {size} numbers each")
    cells, numbers = list[list[str]](), list[str]()
    for row in range(0, len(found), len(keyed) + size):
        keys = dict(zip(keyed, found[row : row + len(keyed)], strict=True))
        if unknown := [key for v, key in keys.items() if key not in keyed[v]]:
            raise ValueError(f"a row has the key {unknown[0]}, which is of no category")
        own = [[keyed[v][keys[v]]] if v in keyed else of for v, of in enumerate(codes)]
        cells += map(list, product(*own))
        numbers += found[row + len(keyed) : row + len(keyed) + size]
    return cells, numbers


def _count(text: str, said: Mapping[tuple[str, str], Sequence[str]]) -> int | None:
    """A number, 0 for a dash; none for two dots where the file says that they stand for what is withheld."""
    if text.strip('"') == "-":
        return 0
    if text.strip('"') == WITHHELD_SYMBOL.strip('"') and said.get(("DATASYMBOL2", "")) == [WITHHELD_STATUS]:
        return None
    return whole_of(text)


def whole_of(text: str) -> int:
    """A whole number, however it is written: 12, 12.0 or 1.2e1; ValueError for what is none."""
    number = decimal_of(text)
    if number is None or number[1] < 0:
        raise ValueError(f"{text} is no whole number")
    return int(number[0] * 10 ** number[1])


def _decoded(content: bytes) -> str:
    """As CODEPAGE says; else as UTF-8, or as what ANSI is in most files."""
    if named := re.search(rb'CODEPAGE="([^"]+)"', content[:4096]):
        return content.decode(named[1].decode("ascii")).removeprefix("\ufeff")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("cp1252")


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
        if keyword[1] == "KEYS":  # whose value is a word
            texts = texts or [head[keyword.end() : place - 1].strip()]
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
