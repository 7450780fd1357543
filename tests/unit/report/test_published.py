"""What the published tables show: small counts, zeros and group disclosures, against going through every cell."""

import pytest

from sdc.model.release import NOTHING
from sdc.model.structural_zeros import StructuralZeros
from sdc.report import publication as module
from sdc.report.publication import impossible, published
from tests.strategies import dense, knows, schema_of


def test_the_most_disclosing_comes_first() -> None:
    table = dense(schema_of([2, 2, 2]), [5, 0, 5, 0, 5, 1, 5, 5])
    known = knows(table, NOTHING)
    found = published(table, known, (0, 0b011, 0b110), 2)
    assert [(one.label, one.groups, one.small, one.zeros) for one in found] == [("B*C", 0, 1, 0), ("A*B", 0, 0, 0)]
    (both,) = published(table, known, (0b111,), 2)
    assert both.variables == "A 2, C 2"


def test_patterns_of_too_many_combinations_exclude_none(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = schema_of([3, 3])
    zeros = StructuralZeros((((0, (0,)), (1, (0, 1))),))
    assert impossible(zeros, schema) == 2
    monkeypatch.setattr(module, "MOST_COMBINATIONS", 8)
    assert impossible(zeros, schema) == 0
