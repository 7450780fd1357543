"""The judge by enumeration against published tables."""

import numpy as np
import pytest

from tests.judge import Fact, TooManyTablesError, agreeing, exact, impossible, ranges

# [DFT] table 1: gender, race, income
SMALL = np.array([[[96, 72, 161], [10, 7, 6], [1, 1, 2]], [[186, 127, 51], [11, 7, 3], [0, 1, 0]]])


def test_bounds_of_the_published_table() -> None:
    """[DFT] table 1: an income at a time, for the release {race x income, income x gender} splits there."""
    found = {}
    for income, largest in enumerate(([107, 21, 1], [80, 14, 2], [169, 9, 2])):
        counts = SMALL[:, :, income]
        bounds = ranges(counts.shape, [*exact(counts, [1]), *exact(counts, [0])])
        assert [bounds[0, race][1] for race in range(3)] == largest
        found[income] = len(agreeing(counts.shape, [*exact(counts, [1]), *exact(counts, [0])]))
    assert found == {0: 44, 1: 45, 2: 30}  # T(R) is their product


def test_all_two_way_tables_of_the_published_table_leave_one() -> None:
    """[DKS]: 2x2x2x2 given all six two-way marginals."""
    counts = np.zeros((2, 2, 2, 2), np.int64)
    for cell in ((0, 0, 0, 0), (0, 0, 1, 1), (0, 1, 1, 0), (1, 0, 1, 0), (1, 1, 0, 1)):
        counts[cell] = 1
    facts = [fact for a in range(4) for b in range(a) for fact in exact(counts, [a, b])]
    assert agreeing(counts.shape, facts).tolist() == [counts.ravel().tolist()]


def test_zeros_and_intervals_narrow() -> None:
    counts = np.array([[1, 2], [3, 0]])
    margins = [*exact(counts, [0]), *exact(counts, [1])]
    assert ranges((2, 2), margins)[0, 0] == (1, 3)
    assert ranges((2, 2), [*margins, *impossible([(1, 1)])])[0, 0] == (1, 1)
    assert ranges((2, 2), [*margins, Fact(frozenset([(0, 0)]), 2, 9)])[0, 0] == (2, 3)


def test_too_many_and_none() -> None:
    counts = np.full((3, 3), 50)
    with pytest.raises(TooManyTablesError):
        agreeing(counts.shape, exact(counts, []), most=1000)
    with pytest.raises(ValueError, match="zero-size"):
        ranges((2,), [Fact(frozenset([(0,), (1,)]), 3, 3), Fact(frozenset([(0,)]), 0, 1), *impossible([(1,)])])
