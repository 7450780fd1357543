"""The order of categories that no setting gives."""

import pytest
from hypothesis import given
from hypothesis import strategies as hs

from sdc.data.vocabulary import canonical_order


@pytest.mark.parametrize(
    "names",
    [
        ["under 15", "15 to 64", "65 and over"],
        ["under 15 years", "15 to 64 years", "65 years and over"],
        ["<25", "25-34", "35-44", ">=55"],
        ["<40", "40", ">40"],
        ["9 or less", "10 through 19", "20+"],
        ["0", "1", "2", "10 or more", "not in universe", "unknown"],
        ["under 50K", "50K and over"],
        ["under $10,000", "$10,000 to $19,999", "$20,000 or more"],
        ["[0, 5)", "[5, 10)", "[10, 15)"],
        ["-5 to -1", "0 to 4"],
        ["0", "0 to 5", "0 or more"],
        ["2", "9", "10"],
        ["-inf", "-1", "1.10", "1.2", "2", "2.0", "1e+01"],
        ["10th grade", "9th grade", "no grade"],
        ["no", "partly", "yes"],
        ["1.5", "10", "2x"],
        [],
    ],
)
def test_the_order(names: list[str]) -> None:
    assert canonical_order(names) == names
    assert canonical_order(names[::-1]) == names


words = hs.sampled_from(["under", "to", "and over", "+", "-", "<", "[", ",", ")", "K", " ", "x", "$", "7", "12", "3.5"])


@given(names=hs.sets(hs.lists(words, max_size=5).map("".join), max_size=6))
def test_every_name_once_whatever_order_they_come_in(names: set[str]) -> None:
    order = canonical_order(sorted(names))
    assert sorted(order) == sorted(names)
    assert canonical_order(sorted(names, reverse=True)) == order
