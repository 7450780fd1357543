"""Variables that a release says nothing about."""

from __future__ import annotations

from sdc.model import coverage
from tests.strategies import frontier, schema_of


def test_variables_of_one_category_are_not_essential() -> None:
    schema = schema_of([2, 1, 3])
    assert coverage.essential(frontier("AB", "BC"), schema) == frontier("A", "C")
    assert coverage.essential(frontier("AC"), schema) is not None


def test_floating() -> None:
    assert coverage.is_floating(frontier("A"), schema_of([2, 2]))
    assert not coverage.is_floating(frontier("A"), schema_of([2, 1]))
