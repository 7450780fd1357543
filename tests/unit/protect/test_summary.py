"""What suppressed cells hide and protect, against every table that agrees with what is public."""

from itertools import islice

import numpy as np
import pytest

from sdc.model import subtable as st
from sdc.model.knowledge import Knowledge
from sdc.model.release import NOTHING, Release
from sdc.model.structural_zeros import NO_ZEROS
from sdc.model.suppressed_table import SuppressedTables
from sdc.model.table import Table
from sdc.protect import summary
from sdc.protect.request import ProtectionRequest
from sdc.protect.summary import SuppressedCell, Suppression, suppressions
from sdc.protect.suppression import Protection, suppress_jointly
from sdc.risk.criteria import Criteria
from sdc.risk.evaluator import RiskEvaluator
from tests.profiles import scaled
from tests.reference import TooManyTablesError, every_cell
from tests.strategies import schema_of
from tests.suppressed import Case, cases
from tests.unit.protect.test_suppression import published

CASES = scaled(100, fewest=20)


def of(found: Protection, *constraints: ProtectionRequest) -> tuple[Suppression, ...]:
    return suppressions(found.evaluator.evaluate(NOTHING), SuppressedTables(NOTHING, found.tables), constraints)


def narrow(case: Case, found: Protection, number: int, place: int) -> list[dict[str, str]]:
    """Which cells are too narrow once this one cell of a suppressed table is published too."""
    hidden = [flags.copy() for flags in found.flags]
    hidden[number][place] = False
    tables, schema = case.agreeing(hidden), case.table.schema
    cells = np.array(every_cell(case.sizes))[case.at_risk & (np.ptp(tables, axis=0) < case.min_width)]
    named = [schema.named(cell) for cell in cells.tolist()]
    for view, own in zip(case.views, found.primary, strict=True):
        inside, ranges = schema.restrict(st.members(view)), np.ptp(case.of(view, tables), axis=0)
        places = inside.keys.pack(own.cells[~own.refuted]).astype(int)
        named += [inside.named(cell) for cell in inside.keys.unpack(places[ranges[places] < case.min_width]).tolist()]
    return named


def test_what_is_too_narrow_without_a_suppressed_cell_is_among_the_cells_it_protects(
    monkeypatch: pytest.MonkeyPatch, night: list[int]
) -> None:
    monkeypatch.setattr(summary, "NAMED", 1000)
    judged = needed = 0
    for case in islice(cases(np.random.default_rng([8, *night])), CASES):
        if (found := published(case)) is None:
            continue
        told = iter(of(found))
        for number, (view, hidden) in enumerate(zip(case.views, found.flags, strict=True)):
            if not hidden.any():
                continue
            one, counts = next(told), case.of(view, case.table.dense)[0]
            assert (one.cells, one.suppressed) == (len(hidden), hidden.sum())
            assert one.share == pytest.approx(counts[hidden].sum() / case.table.total)
            assert [cell.count for cell in one.largest] == sorted(counts[hidden], reverse=True)[:3]
            inside = case.table.schema.restrict(st.members(view))
            for cell in one.largest:
                place = int(np.ravel_multi_index(inside.cell(cell.cell), inside.keys.sizes))
                assert (counts[place], cell.others) == (cell.count, 0)
                try:
                    lost = narrow(case, found, number, place)
                except TooManyTablesError:
                    continue
                assert [one for one in lost if one not in cell.protects] == []
                judged, needed = judged + 1, needed + bool(lost)
    assert needed > judged / 4 > CASES / 16


def test_by_default_few_records_are_suppressed_and_by_cells_few_cells() -> None:
    """One small count, and of the rectangles that protect it one with few records."""
    counts = np.array([[1, 900, 20, 800], [700, 950, 850, 990], [15, 870, 12, 910], [600, 890, 940, 970]])
    table = Table.of(schema_of([4, 4]), np.argwhere(counts), counts.reshape(-1))
    evaluator = RiskEvaluator(table, Knowledge.of(table, Release.of([1, 2]), NO_ZEROS, ()), Criteria.of(2, 3))
    default, records, cells = (
        suppress_jointly(evaluator, [3], costs=costs) for costs in ({}, {3: "records"}, {3: "cells"})
    )
    assert np.argwhere(default.flags[0].reshape(4, 4)).tolist() == [[0, 0], [0, 2], [2, 0], [2, 2]]
    assert (default.flags[0] == records.flags[0]).all()
    (least,), (few,) = of(default), of(cells, ProtectionRequest(3, cost="cells"))
    assert (least.cost, least.suppressed, least.share) == ("records", 4, 48 / counts.sum())
    assert (few.cost, few.suppressed) == ("cells", 4)
    assert least.largest[0].text == "A = 0, B = 2: 20 records, protects A = 0, B = 0"


def test_a_warning_names_the_cheaper_choice_above_a_tenth_of_the_records() -> None:
    much = {cost: Suppression("a*b", 8, 4, 0.31, cost).warning for cost in ("records", "cells", "weights")}
    assert all(
        text.startswith("31.0% of the records are in suppressed cells of a*b, more than 10%") for text in much.values()
    )
    assert "by: recoding" in much["records"]
    assert "cost: records in place of cost: cells" in much["cells"]
    assert "cost: records in place of cost: weights" in much["weights"]
    assert Suppression("a*b", 8, 4, 0.1, "cells").warning == ""


def test_a_cell_says_what_it_protects() -> None:
    cell, other = {"a": "x", "b": "y"}, {"a": "x", "b": "z"}
    assert SuppressedCell(cell, 1, (cell,), 0).text == "a = x, b = y: 1 record, protects itself"
    text = SuppressedCell(cell, 4422, (other,), 2).text
    assert text == "a = x, b = y: 4,422 records, protects a = x, b = z; and 2 more cells"
