"""Similar names: spellings that a reader takes for one name, such as Alba, "Alba " and ALBA, or 1 and 1.0."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache, reduce
from typing import Literal, TypeAlias

from sdc.model.errors import InputError

Alike: TypeAlias = Literal["refuse", "keep", "merge"]

_DECIMAL = {
    sign: re.compile(rf"([-+]?)([0-9]{{0,99}}){re.escape(sign)}?([0-9]{{0,99}})(?:[eE]([-+]?[0-9]{{1,4}}))?")
    for sign in (".", ",")
}
_THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2}[.,]000")
_CODE = re.compile(r"[-+]?0[0-9]")  # no number starts so
_UNSEEN = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0").union(map(chr, range(0xFE00, 0xFE10)))


@lru_cache(1 << 16)
def alike_key(name: str, sign: str = ".") -> str:
    """A key that similar names share, and only those.

    Names are similar if they are equal after NFC normalisation, removal of zero-width marks, case folding and reduction
    of blanks (runs become one, ends are stripped), or if they are the same decimal number. 01 is a code, not a number.
    """
    if not name.isascii():
        name = _seen(unicodedata.normalize("NFC", name))
    number = None if _CODE.match(name.strip()) else decimal_of(name, sign)
    if number is not None:
        return "{}e{}".format(*number)
    return unicodedata.normalize("NFC", " ".join(name.split()).casefold())


def alikes(names: Iterable[str], first: Collection[str] = (), decimal: str = ".") -> dict[str, str]:
    """Map similar names to one of them: one of `first`, else the shortest, else the lowest by code point."""
    spelled: dict[str, str] = {}
    others: dict[str, str] = {}
    for name in sorted(names, key=lambda name: (name not in first, len(name), name)):
        chosen = spelled.setdefault(alike_key(name, decimal), name)
        if chosen != name:
            others[name] = chosen
    return others


def differences(pairs: Mapping[str, str]) -> str:
    """How similar names differ, without quoting them."""
    kinds: dict[str, Callable[[str], str]] = {
        "composed accents": lambda name: unicodedata.normalize("NFC", name),
        "marks without width": _seen,
        "blanks": lambda name: " ".join(name.split()),
        "capitals": str.casefold,
    }

    def differ(left_out: str) -> bool:
        undo = [same for kind, same in kinds.items() if kind != left_out]
        return any(
            len({reduce(lambda name, same: same(name), undo, name) for name in pair}) > 1 for pair in pairs.items()
        )

    return ", ".join(filter(differ, kinds)) if not differ("") else "how numbers are written"


def require_apart(pairs: Mapping[str, str], what: str, remedy: str) -> None:
    """InputError for similar names, see `alikes`. `what` has them, `remedy` is the advice; the detail lists all."""
    if pairs:
        raise InputError(
            f"{what}: {len(pairs)} {'values differ' if len(pairs) > 1 else 'value differs'} from others only in "
            f"{differences(pairs)}; {remedy}",
            "\n".join(f"{what} has {one!a} and {other!a}" for one, other in pairs.items()),
        )


def _seen(name: str) -> str:
    return "".join(c for c in name if unicodedata.category(c) != "Cf" and c not in _UNSEEN)


def may_be_thousands(count: str) -> bool:
    """Whether a count has three zeros after a point or comma: 1.000 is 1 in one country and 1000 in another."""
    return _THOUSANDS.fullmatch(count.strip()) is not None


def decimal_of(text: str, sign: str = ".") -> tuple[int, int] | None:
    """A decimal number as an integer without trailing zeros and its power of ten; None for other texts.

    sign  the decimal sign, a point or a comma; 1_200, 1,200.5, infinity and digits of other scripts are not numbers
    """
    match = _DECIMAL[sign].fullmatch(text.strip())
    if match is None or not (match[2] or match[3]):
        return None
    digits = match[2] + match[3]
    shorter = digits.rstrip("0")
    if not shorter:
        return 0, 0
    power = int(match[4] or 0) - len(match[3]) + len(digits) - len(shorter)
    return int(match[1] + shorter), power
