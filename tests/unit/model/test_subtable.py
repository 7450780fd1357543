"""Sub-tables as bit sets."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as some

from sdc.model import subtable as st
from sdc.model.errors import InputError, ReleaseError
from sdc.model.schema import Schema, Variable

SCHEMA = Schema(tuple(Variable(name, ("no", "yes")) for name in ("age", "sex", "race")))
sets = some.sets(some.integers(0, 62))


@given(sets, sets)
def test_bit_sets_are_sets(one: set[int], other: set[int]) -> None:
    a, b = st.of(one), st.of(other)
    assert set(st.members(a)) == one
    assert st.dimension(a) == len(one)
    assert st.is_within(a, b) == (one <= other)
    assert all(st.has(a, v) == (v in one) for v in range(63))


@example(list(range(3, 1 << 9)))
@example([st.full(9) & ~(1 << v | 1 << u) for v in range(9) for u in range(9)] * 2 + list(range(1 << 9, 1 << 9 | 99)))
@given(some.lists(some.integers(0, 127)))
def test_maximal_elements(subtables: list[int]) -> None:
    kept = st.maximal(subtables)
    assert all(any(st.is_within(t, k) for k in kept) for t in subtables)
    assert set(kept) <= set(subtables)
    assert not any(st.is_within(one, other) for one in kept for other in kept if one != other)
    assert st.maximal(reversed(subtables)) == kept


@given(some.sets(some.integers(0, 1023), max_size=100), some.integers(0, 1023))
def test_within_any(parents: set[int], child: int) -> None:
    assert st.within_any(tuple(parents))(child) == any(st.is_within(child, parent) for parent in parents)


@given(some.integers(0, 2**63 - 1))
def test_within_any_of_many_with_all_variables(child: int) -> None:
    """Above some number of parents it is asked with arrays of 64 bits."""
    parents = [st.full(63) & ~(1 << v) for v in range(63)] + [st.full(62)] * 9
    assert st.within_any(parents)(child) == (child != st.full(63))


def test_names_and_labels() -> None:
    assert st.parse("race*age", SCHEMA) == 0b101
    assert st.label(0b101, SCHEMA) == "age*race"
    assert st.label(0, SCHEMA) == "(total)"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("age*income", r"'age\*income' names the unknown variable 'income'.*age, sex, race"),
        ("age x*sex", r"unknown variable 'age x'; did you mean age. the table has age, sex, race"),
        ("sex*sex", "names 'sex' twice"),
        ("age,sex", r"joined by \*, so write age\*sex$"),
        ("age, sex", r"joined by \*, so write age\*sex$"),
        ("age:sex", r"joined by \*, so write age\*sex$"),
        ("sex race", r"joined by \*, so write sex\*race$"),
    ],
)
def test_what_names_no_sub_table_is_refused(text: str, message: str) -> None:
    with pytest.raises(ReleaseError, match=message):
        st.parse(text, SCHEMA)


def test_a_schema_refuses_what_it_cannot_hold() -> None:
    with pytest.raises(InputError, match="'age' occurs 2 times"):
        Schema((Variable("age", ("a",)), Variable("age", ("b",))))
    with pytest.raises(InputError, match="64 variables; a table has 1 to 63"):
        Schema(tuple(Variable(f"v{i}", ("a",)) for i in range(64)))
    with pytest.raises(InputError, match="'age' has no categories"):
        Variable("age", ())
    with pytest.raises(InputError, match="'age' names a category twice"):
        Variable("age", ("a", "a"))
    with pytest.raises(InputError, match="65537 categories; at most 65536"):
        Variable("age", tuple(map(str, range(65_537))))
