"""The longest prefix of the list by critical width: as published, beside a scan of all prefixes; what is refused."""

from math import log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

import sdc
from sdc.model import subtable as st
from sdc.model.errors import ConfigError, NothingReleasableError
from sdc.model.release import Release
from sdc.model.table import Table
from sdc.risk.critical_width import critical_widths
from tests import reference
from tests.strategies import evaluator_of, schema_of

AT_SIX = [(31, True, 64), (46, True, 26), (54, True, 14), (58, True, 9), (60, True, 9), (61, False, 5)]
AT_NINE = [(30, True, 68), (45, True, 30), (53, True, 17), (57, True, 9), (59, True, 9), (60, True, 9)]
ASKED = {6: AT_SIX, 7: AT_NINE, 8: AT_NINE, 9: AT_NINE}
"""Of the Czech table by the width asked for: length of each prefix asked about, whether it is safe, its min width."""


@pytest.mark.parametrize("min_width", ASKED)
def test_the_published_czech_release(min_width: int, czech: Table) -> None:
    """[KDSF] 5.2: 60 sub-tables with the total at 6 to 9, all but ABCDEF, ABCDF, BCDEF and ABCEF (REFERENCE 2)."""
    found = sdc.find_release(czech, "bisection", min_width=min_width)
    out = {st.parse(text, czech.schema) for text in ("A*B*C*D*E*F", "A*B*C*D*F", "B*C*D*E*F", "A*B*C*E*F")}
    assert {t for t in range(64) if t not in found.release} == out
    assert found.sub_tables_with_total == 60
    assert found.assessment.min_width == (9, 9)
    assert [(step.length, step.answer, step.min_width[0]) for step in found.steps] == ASKED[min_width]
    assert {step.phase for step in found.steps} == {"bisection"}


@some.composite
def tables_of_few_cells(draw: some.DrawFn) -> Table:
    """Up to 12 cells, of which one to three have records, and one is at risk."""
    sizes = draw(some.sampled_from([(2, 2), (2, 3), (3, 3), (4, 3), (2, 2, 2), (2, 3, 2), (3, 2, 2)]))
    cell = some.tuples(*(some.integers(0, size - 1) for size in sizes))
    cells = draw(some.lists(cell, min_size=1, max_size=3, unique=True))
    counts = [draw(some.integers(1, 3 if number else 2)) for number in range(len(cells))]
    return Table.of(schema_of(list(sizes)), np.array(cells), np.array(counts))


@given(tables_of_few_cells(), some.integers(1, 4), some.booleans())
@settings(max_examples=40, deadline=None)
def test_it_is_the_longest_of_all_prefixes(table: Table, min_width: int, forbids: bool) -> None:
    """Of the list by critical width, by a listing of the tables of each prefix: min widths never grow."""
    min_width, axes = min(min_width, table.total), len(table.schema)
    critical = {
        t: reference.explicit_critical_width(table.codes, table.counts, sorted(t), 2)
        for t in reference.query_space(axes)
    }
    listed = reference.ordered({t: w for t, w in critical.items() if w >= min_width} or critical)
    listed = [t for t in listed if not (forbids and t >= {0, 1})]
    prefixes = [listed[:length] for length in range(len(listed) + 1)]
    widths = [reference.min_width(table.dense, reference.released(table.dense, some), 2) for some in prefixes]
    assert widths == sorted(widths, reverse=True)
    forbidden = ["*".join(table.schema.names[:2])] if forbids else []
    safe = {len(some): width >= min_width for some, width in zip(prefixes, widths, strict=True)}
    longest = reference.longest_prefix(listed, lambda some: safe[len(some)]) if safe[0] else []
    if not longest and listed:
        with pytest.raises(NothingReleasableError):
            sdc.find_release(table, "bisection", min_width=min_width, forbid=forbidden)
        return
    found = sdc.find_release(table, "bisection", min_width=min_width, forbid=forbidden)
    assert found.release == Release.of([st.GRAND_TOTAL, *map(st.of, longest)])
    assert len(found.steps) <= 1 + log2(len(listed) + 1)


def test_weights_count_in_the_utility_and_not_in_the_list(czech: Table) -> None:
    plain, valued = (
        sdc.find_release(czech, "bisection", min_width=10, weights=weights) for weights in ({}, {"A*B*C*D*F": 99})
    )
    assert plain.steps == valued.steps
    assert sdc.find_release(czech, "bisection", min_width=10, weights={"B": 2}).value > plain.value


def test_prefixes_go_out_beside_what_is_required(czech: Table) -> None:
    """A sub-table of the end of the list comes first; the prefix then ends earlier."""
    found = sdc.find_release(czech, "bisection", min_width=10, require=["A*B*C*F"])
    assert found.required is not None
    assert st.parse("A*B*C*F", czech.schema) in found.release
    steps = [step for step in found.steps if step.phase == "bisection"]
    longest = max(step.length for step in steps if step.answer)
    listed = critical_widths(czech).reaching(10)
    assert found.release == Release.of([*listed[:longest], st.parse("A*B*C*F", czech.schema)])
    evaluator = evaluator_of(czech, 10)
    assert evaluator.evaluate(found.release.add(listed[longest])).assessment.releasable is False


# What it refuses


def test_already_the_first_sub_table_is_too_much(czech: Table) -> None:
    with pytest.raises(NothingReleasableError, match=r"^no prefix of the list may go out: already its first sub-table"):
        sdc.find_release(czech, "bisection", min_width=1500)


@pytest.mark.parametrize(
    "given",
    [
        {"seed": 3},
        {"chains": 2},
        {"steps": 100},
        {"start": "[A,B]"},
        {"draws": 7},
        {"share": 0.1},
        {"first_dimension": 2},
        {"max_evaluations": 9},
    ],
)
def test_settings_that_mean_nothing_to_it(given: dict[str, int], czech: Table) -> None:
    with pytest.raises(
        ConfigError, match=rf"^release.method = bisection with {next(iter(given))}: the method does not use it"
    ):
        sdc.find_release(czech, "bisection", min_width=6, **given)
