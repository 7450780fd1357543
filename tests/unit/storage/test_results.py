"""What the stages find, written and read back unchanged: widths, the search, the assessment."""

import json
import re
from collections.abc import Callable
from dataclasses import fields
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from sdc.api import cell_bounds, find_release, risk_utility_curve
from sdc.intruder import posterior
from sdc.intruder.chains import Sampling
from sdc.intruder.measures import groups
from sdc.intruder.summary import Summary, laws_of, summaries
from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds
from sdc.model.errors import InputError, RunFolderError
from sdc.model.marginal import CellMarginals
from sdc.model.recode import Recode
from sdc.model.release import NOTHING, Release, release_facts
from sdc.model.schema import Coarser, Schema, Variable
from sdc.model.suppressed_table import NO_SUPPRESSED_TABLES
from sdc.model.table import Table
from sdc.risk.assessment import Assessment, assessment_facts
from sdc.risk.critical_width import critical_widths
from sdc.risk.min_width import MinWidth
from sdc.search.blockers import blockers
from sdc.search.curve import CurvePoint
from sdc.search.recodings import Recoding
from sdc.storage import results
from sdc.utility.measures import Weights, utility_of
from tests.helpers.deadlines import AfterLooks
from tests.strategies import evaluator_of, knows


@pytest.mark.parametrize("rows", [7, 1 << 20])
@pytest.mark.parametrize("floor", [0, 20, 1000])
def test_widths_come_back_in_their_order(
    floor: int, rows: int, czech: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one part or in several."""
    monkeypatch.setattr(results, "ROWS", rows)
    widths = critical_widths(czech, floor=floor)
    results.write_widths(widths, czech.schema, tmp_path)
    found = results.read_widths(tmp_path)
    assert np.array_equal(found.sub_tables, widths.sub_tables)
    assert np.array_equal(found.widths, widths.widths)
    assert (found.floor, found.visited) == (widths.floor, widths.visited)
    assert (found.sub_tables.dtype, found.widths.dtype) == (np.uint64, np.int64)


SEARCHES: dict[str, dict[str, Any]] = {
    "ordered": {"min_width": 10, "deadline": AfterLooks(most=5)},
    "simulatable": {"min_width": 6, "draws": 5},
    "decomposable": {"min_width": 6, "steps": 500},
    "best": {"min_width": 6, "steps": 500},
}


@pytest.mark.parametrize("method", SEARCHES)
def test_a_search_comes_back(method: str, czech: Table, tmp_path: Path) -> None:
    found = find_release(czech, method, **SEARCHES[method])
    results.write_search(found, czech.schema, tmp_path)
    told = results.read_search(tmp_path, czech.schema)
    for name in ("release", "steps", "graph", "trace", "reason", "simulated", "candidates", "ended_after"):
        assert getattr(told, name) == getattr(found, name), name
    assert (told.required, told.suppressed_tables, told.halvings) == (None, NO_SUPPRESSED_TABLES, None)
    assert bool(told.ended_after) == ("deadline" in SEARCHES[method])
    content = json.loads((tmp_path / "search.json").read_text())
    assert content["frontier"] == [st.names(element, czech.schema) for element in found.release.frontier]
    if found.trace:
        (tmp_path / "trace.parquet").unlink()
        with pytest.raises(InputError, match=r"trace\.parquet is missing; write it again"):
            results.read_search(tmp_path, czech.schema)


def test_what_was_required_comes_back_with_its_conflicts(czech: Table, tmp_path: Path) -> None:
    found = find_release(czech, "ordered", min_width=6, require=["A*B*C*D*F", "E*F"], on_conflict="drop")
    results.write_search(found, czech.schema, tmp_path)
    told = results.read_search(tmp_path, czech.schema).required
    assert told is not None
    assert found.required is not None
    refused = st.parse("A*B*C*D*F", czech.schema)
    assert (told.required, told.refused, told.is_best) == (found.required.sub_tables, (refused,), True)
    assert told.why(refused) == "A*B*C*D*F is not releasable (refused, proven)"
    assert told.why(st.parse("E*F", czech.schema)) == ""
    conflict = json.loads((tmp_path / "search.json").read_text())["required"]["conflicts"][0]
    assert (conflict["proven"], conflict["witness"]["count"] in (1, 2)) == (True, True)


def test_what_stopped_a_search_is_told_by_names(czech: Table, tmp_path: Path) -> None:
    found = find_release(czech, "ordered", min_width=10)
    results.write_search(found, czech.schema, tmp_path)
    told = json.loads((tmp_path / "search.json").read_text())["blockers"]
    stopped = blockers(found.steps)
    assert len(told) == len(stopped) > 0
    for (cell, sub_tables), blocker in zip(stopped, told, strict=True):
        codes = [v.categories.index(blocker["cell"][v.name]) for v in czech.schema.variables]
        assert tuple(codes) == cell
        assert [st.of(map(czech.schema.index, names)) for names in blocker["stopped"]] == list(sub_tables)


def test_the_utility_by_name(czech: Table) -> None:
    found = utility_of(czech, knows(czech, Release.of([0b000011, 0b100000])), Weights((Fraction(2),) * 6)).facts
    assert (found["sub_tables"], found["weighted"], found["reconstruction_method"]) == (4, 10, "closed form")
    pairs = knows(czech, Release.of([0b000011, 0b000110, 0b000101]))
    facts = utility_of(czech, pairs, Weights.equal(6), max_bytes=100).facts
    assert "MiB are allowed" in str(facts["not_reconstructed"])
    assert not {"mean_squared_error", "weighted"} & facts.keys()


def test_a_curve_comes_back(czech: Table, tmp_path: Path) -> None:
    points = risk_utility_curve(czech, NOTHING, min_widths=[6, 2000], methods=["ordered"])
    results.write_points(points, CurvePoint, tmp_path)
    assert results.read_points(CurvePoint, tmp_path) == points
    assert points[1].min_width is None


def test_remedies_come_back(czech: Table, tmp_path: Path) -> None:
    schema = Schema((Variable("v", ("a", "b", "c")), *czech.schema.variables))
    merge = Recoding.by_recode(Recode(schema, 0, (0, 2)), (2, 6), (6,), 0)
    without = Recoding.by_recode(Recode(schema, 0, (0, 1, 2)), (6,), (), 31)
    instead = Recoding.of_sub_table(6, 2, schema, {"require": ["A"]})
    results.write_recodings((merge, without, instead), (6, 2), schema, tmp_path)
    assert results.read_recodings(tmp_path, schema) == (merge, without, instead)
    with pytest.raises(InputError, match="unknown variable 'v'"):
        results.read_recodings(tmp_path, czech.schema)


def test_posteriors_come_back(czech: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a great many tables, which are sampled, and one that no engine gives."""
    monkeypatch.setattr(posterior, "MAX_TABLES", 1000)  # sooner too many to be listed
    pairs = Release.of(st.of(pair) for pair in combinations(range(6), 2))
    cells, known = czech.codes[czech.at_risk(2)], knows(czech, pairs)
    laws = laws_of(["released", "saturated"], [0.5], czech.schema)
    held = groups(CellMarginals(czech, cells), known, 0.9)
    told = (
        *summaries(czech, known, cells, laws, held, Sampling(20, 2, error=None)),
        Summary.none(laws[0], "too many cells"),
    )
    results.write_posteriors(told, held, czech.schema, tmp_path)
    again = results.read_groups(tmp_path)
    assert (again.share, again.records.tolist()) == (0.9, held.records.tolist())
    assert again.sub_tables.tolist() == held.sub_tables.tolist()
    found = results.read_posteriors(tmp_path)
    assert [one.reason for one in found] == [None, None, "too many cells"]
    for one, other in zip(found, told, strict=True):
        for field in fields(Summary):
            value, expected = getattr(one, field.name), getattr(other, field.name)
            assert np.array_equal(value, expected) if isinstance(value, np.ndarray) else value == expected
    (tmp_path / results.POSTERIOR).unlink()
    with pytest.raises(RunFolderError):
        results.read_posteriors(tmp_path)


def assert_equal(found: tuple[Assessment, CellBounds], written: tuple[Assessment, CellBounds]) -> None:
    assert found[0] == written[0]
    for name in ("cells", "counts", "outer", "inner"):
        assert np.array_equal(getattr(found[1], name), getattr(written[1], name)), name
    assert found[1].method == written[1].method


@pytest.mark.parametrize("min_width", [6, 10, 100])
@pytest.mark.parametrize("frontier", [[0b000111, 0b111000], [0b011111, 0b111110, 0b110111], [0b111111], [0]])
def test_an_assessment_comes_back(frontier: list[int], min_width: int, czech: Table, tmp_path: Path) -> None:
    _, bounds = evaluator_of(czech, min_width, small_count=2).examine(Release.of(frontier))
    written = MinWidth(min_width).assess(bounds), bounds
    results.write_assessment(*written, czech.schema, tmp_path)
    assert_equal(results.read_assessment(tmp_path, czech, 2), written)


def test_an_undecided_assessment_comes_back_with_its_witnesses(czech: Table, tmp_path: Path) -> None:
    rows = czech.at_risk(2)
    counts = czech.counts[rows]
    outer, inner = np.stack([counts * 0, counts + 40], axis=1), np.stack([counts, counts], axis=1)
    bounds = CellBounds(czech.codes[rows], counts, outer, inner, "nested + collapse")
    written = MinWidth(6).assess(bounds), bounds
    assert (written[0].releasable, len(written[0].witnesses)) == (None, 3)
    results.write_assessment(*written, czech.schema, tmp_path)
    assert_equal(results.read_assessment(tmp_path, czech, 2), written)


def test_variables_may_have_the_names_of_the_columns(tmp_path: Path) -> None:
    schema = Schema((Variable("exact", ("no", "yes")), Variable("outer_lower", ("1", "2", "3"))))
    table = Table.of(schema, np.array([[0, 0], [0, 2], [1, 1]]), np.array([1, 9, 2]))
    _, bounds = evaluator_of(table, 1, small_count=2).examine(Release.of([1, 2]))
    written = MinWidth(1).assess(bounds), bounds
    results.write_assessment(*written, schema, tmp_path)
    assert_equal(results.read_assessment(tmp_path, table, 2), written)
    assert {"variable:exact", "exact", "variable:outer_lower", "outer_lower"} <= bounds.columns(schema).keys()


READERS: dict[str, tuple[str, Callable[[Table, Path], object]]] = {
    "widths": ("widths.parquet", lambda table, folder: results.read_widths(folder)),
    "search": ("search.json", lambda table, folder: results.read_search(folder, table.schema)),
    "assessment": ("cells.parquet", lambda table, folder: results.read_assessment(folder, table, 2)),
    "remedies": (results.REMEDIES, lambda table, folder: results.read_recodings(folder, table.schema)),
}


@pytest.mark.parametrize("content", [None, b"PAR1{"])
@pytest.mark.parametrize("name", READERS)
def test_what_is_missing_or_damaged_is_named(name: str, content: bytes | None, czech: Table, tmp_path: Path) -> None:
    file, read = READERS[name]
    if content is not None:
        (tmp_path / file).write_bytes(content)
    with pytest.raises((InputError, RunFolderError), match=f"{re.escape(file)} (is missing|is corrupt|cannot be read)"):
        read(czech, tmp_path)


def test_an_assessment_without_its_verdict(czech: Table, tmp_path: Path) -> None:
    _, bounds = evaluator_of(czech, 6, small_count=2).examine(Release.of([1]))
    results.write_assessment(MinWidth(6).assess(bounds), bounds, czech.schema, tmp_path)
    (tmp_path / "assessment.json").write_text("[")
    with pytest.raises(RunFolderError, match=r"assessment\.json cannot be read: .*run again"):
        results.read_assessment(tmp_path, czech, 2)


def test_the_facts_of_an_assessment_name_the_categories(czech: Table) -> None:
    _, bounds = evaluator_of(czech, 6, small_count=1).examine(Release.of([0b111111]))
    facts = assessment_facts(MinWidth(6).assess(bounds), czech.schema)
    assert facts["releasable"] is False
    assert facts["min_width"] == (0, 0)
    witness = {**facts["witnesses"][0]}
    assert isinstance(witness.pop("method"), str)
    assert witness == {
        "cell": {"A": "no", "B": "yes", "C": "yes", "D": "<140", "E": "<3", "F": "pos"},
        "count": 1,
        "outer": (1, 1),
        "inner": (1, 1),
    }


def test_of_a_table_with_levels_sub_tables_come_back_closed(tmp_path: Path) -> None:
    """Named by the area alone, which tells the region; in a graph both are vertices."""
    table = Table.of(
        Schema(
            (
                Variable("region", ("east", "west"), Coarser("area", (0, 0, 1, 1))),
                Variable("area", ("e1", "e2", "w1", "w2")),
                Variable("sex", ("f", "m")),
            )
        ),
        np.indices((4, 2)).reshape(2, -1).T,
        np.array([40, 12, 9, 30, 21, 2, 14, 15]),
    )
    found = find_release(table, "best", min_width=9, steps=100)
    results.write_search(found, table.schema, tmp_path)
    again = results.read_search(tmp_path, table.schema)
    assert (again.release, again.steps, again.graph) == (found.release, found.steps, found.graph)
    assert found.release == found.release.closed(table.schema)
    facts = release_facts(Release.of([0b111]), table.schema)
    assert facts == {"frontier": [["area", "sex"]], "sub_tables": 5, "sub_tables_with_total": 6}
    bounds = cell_bounds(table, found.release)
    results.write_assessment(found.assessment, bounds, table.schema, tmp_path)
    assert results.read_assessment(tmp_path, table, 2)[0] == found.assessment
    assert pq.read_schema(tmp_path / "cells.parquet").names[:2] == ["area", "sex"]
