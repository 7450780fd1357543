"""Which names are alike: by hand, and numbers against decimal arithmetic."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as hs

from sdc.model.alike import alike_key, alikes, require_apart
from sdc.model.errors import InputError


@pytest.mark.parametrize(
    "spellings",
    [
        ["Alba", "Alba ", "\tALBA", "alba\u00a0", "Al\u200bba", "\ufeffAlba"],
        ["Zoë", "Zoe\u0308", "ZOË", "zoë\ufe0e"],
        ["Straße", "STRASSE", "strasse"],
        ["New York", "New  York", "New\u00a0York", "NEW\u2009YORK "],
        ["\u0130stanbul", "I\u0307stanbul", "i\u0307stanbul"],
        ["1", "1.0", "1e0", " 1.", "+1", "10E-1", "0.1e1"],
        ["0", "-0", "0.00", ".0", "0e9"],
        ["1200", "1.2e3", "12E+2"],
    ],
)
def test_spellings_of_one_name(spellings: list[str]) -> None:
    assert len({alike_key(name) for name in spellings}) == 1
    first, *others = sorted(spellings, key=_by_length)
    assert alikes(reversed(spellings)) == alikes(spellings) == dict.fromkeys(others, first)


def _by_length(name: str) -> tuple[int, str]:
    return len(name), name


def test_other_names() -> None:
    words = "1 01 -1 10 1_0 1,0 1.1 1.01 1a 1e e1 . ½ a a. b e é I l nan 1e1234567890"
    names = [*words.split(" "), "", "\u0661"]
    assert alikes(names) == {}
    assert len({alike_key(name) for name in names}) == len(names)


@given(hs.decimals(-(10**20), 10**20, places=4), hs.decimals(-9, 9, places=2), hs.integers(-5, 5))
def test_numbers_are_alike_where_they_are_equal(one: Decimal, other: Decimal, power: int) -> None:
    for text in (f"{one}e0", f"{one:+f}", f"{one.scaleb(-power)}e{power}".replace("E", "e").replace("ee", "e")):
        if text.count("e") == 1:
            assert alike_key(text) == alike_key(str(one))
    assert (alike_key(str(one)) == alike_key(str(other))) == (one == other)


@given(hs.text(max_size=8))
def test_a_key_is_its_own_key(name: str) -> None:
    assert alike_key(alike_key(name)) == alike_key(name)


def test_names_that_are_alike_are_refused_with_both_spellings() -> None:
    pairs = alikes(["b", "a ", "A", "Ae\u0301", "A\u00e9"])
    with pytest.raises(InputError, match=r"^column 'x': 2 values differ .* in .*; rename them$") as caught:
        require_apart(pairs, "column 'x'", "rename them")
    assert caught.value.detail == "column 'x' has 'a ' and 'A'\ncolumn 'x' has 'Ae\\u0301' and 'A\\xe9'"
    require_apart(alikes(["a", "b"]), "column 'x'", "rename them")


def test_a_decimal_comma_is_of_numbers_too() -> None:
    assert alikes(["7", "7,0", "7.0"], decimal=",") == {"7,0": "7"}
