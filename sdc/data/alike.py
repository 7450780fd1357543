"""Names that are alike: equal but for blanks, capitals, forms of accents and marks without width, or as numbers."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping
from decimal import Decimal
from functools import lru_cache, reduce

_INVISIBLE = re.compile("[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufe00-\ufe0f\ufeff]")
_NUMBER = re.compile(r"[+-]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]{1,3})?")


@lru_cache(1 << 16)
def key_of(name: str, decimal: str = ".") -> str:
    """The same for all names that are alike. Numbers are by their values; 01 is none."""
    plain = _bare(name).casefold()
    if name.isalpha() and name.isascii():
        return plain
    plain = _bare(plain)  # folding may undo the composition of accents
    number = plain.replace(",", ".") if decimal == "," else plain
    if not _NUMBER.fullmatch(number):
        return plain
    value = Decimal(number).normalize()
    return f"{value or abs(value):f}"


def alikes(names: Iterable[str], first: Collection[str] = (), decimal: str = ".") -> dict[str, str]:
    """Of names that are alike each but one, with that: one of the first, the shortest, the lowest by code point."""
    spelled: dict[str, str] = {}
    others: dict[str, str] = {}
    for name in sorted(names, key=lambda name: (name not in first, len(name), name)):
        chosen = spelled.setdefault(key_of(name, decimal), name)
        if chosen != name:
            others[name] = chosen
    return others


def differences(pairs: Mapping[str, str]) -> str:
    """In what names differ from those that they are alike, without quoting any."""
    kinds: dict[str, Callable[[str], str]] = {
        "composed accents": lambda name: unicodedata.normalize("NFC", name),
        "marks without width": lambda name: _INVISIBLE.sub("", name),
        "blanks": lambda name: " ".join(name.split()),
        "capitals": str.casefold,
    }

    def differ(left_out: str) -> bool:
        undo = [same for kind, same in kinds.items() if kind != left_out]
        return any(
            len({reduce(lambda name, same: same(name), undo, name) for name in pair}) > 1 for pair in pairs.items()
        )

    return ", ".join(filter(differ, kinds)) if not differ("") else "how numbers are written"


def _bare(name: str) -> str:
    return " ".join(_INVISIBLE.sub("", unicodedata.normalize("NFC", name)).split())
