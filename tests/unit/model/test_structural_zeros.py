"""Structural zeros: which cells they exclude, what a marginal keeps of them, and what contradicts the data."""

from dataclasses import replace

import numpy as np
import pytest

from sdc.model.errors import InputError
from sdc.model.release import NOTHING
from sdc.model.schema import Schema, Variable
from sdc.model.structural_zeros import NO_ZEROS, Pattern, StructuralZeros
from sdc.model.table import Table
from tests.strategies import frontier, knows

SCHEMA = Schema(
    (
        Variable("age", ("under 15", "15 to 64", "65 and more")),
        Variable("employed", ("no", "yes", "partly")),
        Variable("sex", ("f", "m")),
    )
)
CHILDREN_AT_WORK: Pattern = ((0, (0,)), (1, (1, 2)))
TABLE = Table.of(SCHEMA, np.array([[0, 0, 0], [1, 1, 1], [2, 0, 1]]), np.array([5, 7, 2]))


def test_equal_sets_of_patterns_are_equal() -> None:
    other = ((2, (0,)),)
    first = StructuralZeros((CHILDREN_AT_WORK, other))
    shuffled = StructuralZeros((other, ((1, (2, 1, 2)), (np.int64(0), (np.int64(0),))), other))
    assert first == shuffled
    assert hash(first) == hash(shuffled)
    assert repr(first) == repr(shuffled)


def test_what_is_known_follows_the_zeros_and_the_table_does_not() -> None:
    ignorant, informed = (knows(TABLE, frontier("A"), StructuralZeros(p)) for p in ((), (CHILDREN_AT_WORK,)))
    assert informed != ignorant
    assert (informed.contains(ignorant), ignorant.contains(informed)) == (True, False)
    assert replace(informed, zeros=NO_ZEROS) == ignorant
    assert informed == knows(TABLE, frontier("A"), StructuralZeros((CHILDREN_AT_WORK, CHILDREN_AT_WORK)))


def test_data_in_an_impossible_cell_are_refused() -> None:
    with pytest.raises(
        InputError,
        match=r"structural zeros contradict the data: age = under 15 or 65 and more and employed = no is given as "
        r"impossible, but 2 such cells have records",
    ) as caught:
        knows(TABLE, NOTHING, StructuralZeros((CHILDREN_AT_WORK, ((1, (0,)), (0, (2, 0))))))
    assert caught.value.detail.startswith("the cell age = under 15, employed = no, sex = f has the count 5\nthe cell")


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ((), r"makes every cell impossible: it names no variable; name the categories"),
        (((2, (0, 1)),), r"makes every cell impossible: sex = f or m; name the categories"),
        (((3, (0,)),), r"names variable number 3; the table has 3, numbered from 0: age, employed, sex"),
        (((-1, (0,)),), r"names variable number -1"),
        (((2, (2,)),), r"names 'sex' 1 times, with the codes \[2\]; name it once, with codes from 0 to 1"),
        (((2, ()), (0, (1,))), r"names 'sex' 1 times, with the codes \[\]"),
        (((2, (0,)), (2, (1,))), r"names 'sex' 2 times, with the codes \[0\]; name it once"),
    ],
)
def test_a_pattern_that_does_not_fit_is_refused(pattern: Pattern, message: str) -> None:
    with pytest.raises(InputError, match=message):
        knows(TABLE, NOTHING, StructuralZeros((pattern,)))
