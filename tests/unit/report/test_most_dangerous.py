"""The most dangerous sub-tables of each dimension, all ties kept, and whether they form a chain ([KDSF] 5.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

import sdc
from sdc.model import subtable as st
from sdc.model.schema import Coarser, Schema, Variable
from sdc.report import sections
from sdc.report.audit import AuditEvidence
from sdc.report.lattice import ByDimension, levels
from sdc.risk.critical_width import CriticalWidths


def flat(variables: int) -> Schema:
    return Schema(tuple(Variable(name, ("0", "1")) for name in "ABCDEF"[:variables]))


def with_a_level() -> Schema:
    region = Variable("region", ("east", "west"), Coarser("area", (0, 0, 1)))
    return Schema((region, Variable("area", ("e1", "e2", "w1")), *flat(3).variables))


def listing(widths: Mapping[int, int], floor: int = 0) -> CriticalWidths:
    kept = {t: width for t, width in widths.items() if width >= floor}
    return CriticalWidths(np.array([*kept], np.uint64), np.array([*kept.values()], np.int64), floor, len(widths))


def lowest(schema: Schema, drawn: Callable[[], int]) -> dict[int, int]:
    """Widths that never grow when a variable is added."""
    closed = sorted(st.subsets(st.full(len(schema)), schema), key=int.bit_count)
    widths: dict[int, int] = {}
    for t in closed:
        widths[t] = min([drawn(), *(widths[child] for child in st.children(t, schema))])
    return widths


def least_of(widths: Mapping[int, int], schema: Schema) -> list[list[int]]:
    """By the definition, from one below the full table's dimension down to 2."""
    found = []
    for d in range(len(schema.axes) - 1, 1, -1):
        level = {t: width for t, width in widths.items() if st.ways(t, schema) == d}
        found.append(sorted(t for t, width in level.items() if width == min(level.values())))
    return found


def nested(chain: Iterable[int]) -> bool:
    return all(low & ~high == 0 for high, low in pairwise(chain))


@given(some.data(), some.sampled_from([flat(4), flat(5), with_a_level()]), some.integers(1, 6))
def test_a_chain_is_found_exactly_where_a_choice_of_ties_is_one(
    data: some.DataObject, schema: Schema, most: int
) -> None:
    widths = lowest(schema, lambda: data.draw(some.integers(0, most)))
    found, expected = ByDimension.of(levels(listing(widths), schema), schema), least_of(widths, schema)
    assert [sorted(level.least.tolist()) for level in found.levels] == expected
    assert found.is_whole
    assert (len(found.chains) == 1) == any(map(nested, product(*expected)))
    assert all(map(nested, found.chains))
    assert [chosen in level.least for level, chosen, _ in found.named] == [True] * len(expected)
    for k, (above, below) in enumerate(pairwise(expected)):
        assert found.goes_on(k, schema) == any(map(nested, product(above, below)))


@given(some.data(), some.integers(1, 6))
def test_of_a_listing_with_a_floor_what_is_known_is_right(data: some.DataObject, floor: int) -> None:
    schema = flat(5)
    widths = lowest(schema, lambda: data.draw(some.integers(0, 6)))
    found, expected = ByDimension.of(levels(listing(widths, floor), schema), schema), least_of(widths, schema)
    known = [sorted(level.least.tolist()) for level in found.levels]
    assert known == expected[len(expected) - len(known) :]
    assert found.is_whole == (len(known) == len(expected))


def said(audit: AuditEvidence, widths: CriticalWidths) -> str:
    return sections.chain(audit, ByDimension.of(levels(widths, audit.table.schema), audit.table.schema))


def narrowed(schema: Schema, narrow: Mapping[str, int]) -> CriticalWidths:
    """90 less the dimension's tenfold, but for these."""
    widths = {t: 90 - 10 * t.bit_count() for t in range(1 << len(schema))}
    return listing(widths | {st.parse("*".join(letters), schema): width for letters, width in narrow.items()})


def test_the_czech_chain(czech: AuditEvidence) -> None:
    """REFERENCE section 2, the data's own letters; the two-way DF ties with BC."""
    schema = czech.table.schema
    found = ByDimension.of(levels(czech.widths, schema), schema)
    assert [[st.label(t, schema).replace("*", "") for t in chain] for chain in found.chains] == [
        ["ABCDF", "BCDF", "BCF", "BC"]
    ]
    assert [(int(level.widths[0]), len(level.least)) for level in found.levels] == [(3, 1), (10, 1), (25, 1), (119, 2)]
    assert said(czech, czech.widths) == (
        "The most dangerous sub-tables of dimensions 2 to 5 form a chain: ABCDF > BCDF > BCF > BC."
    )


def test_ties_form_a_chain_that_the_first_of_them_does_not(czech: AuditEvidence) -> None:
    """From ABCDE the path of smallest width goes to ABCD, of smallest number, and on to ABC, which is no narrowest."""
    narrow = {"ABCDE": 5, "ABCD": 10, "ABCE": 10, "BCE": 20, "CE": 40}
    widths = narrowed(czech.table.schema, narrow)
    assert said(czech, widths) == (
        "The most dangerous sub-tables of dimensions 2 to 5 form a chain: ABCDE > ABCE > BCE > CE."
    )
    rows = sections.of_dimensions(czech, ByDimension.of(levels(widths, czech.table.schema), czech.table.schema))
    assert [(row.label.replace("*", ""), row.ties, row.chained) for row in rows] == [
        ("ABCDE", 1, "starts"),
        ("ABCE", 2, "drops D"),
        ("ABCD", 2, ""),
        ("BCE", 1, "drops A"),
        ("CE", 1, "drops B"),
    ]


@pytest.mark.parametrize(
    ("narrow", "words"),
    [
        ({"ABCDE": 5, "ABCD": 10, "DEF": 20, "DE": 40}, "None of dimension 4 contains one of dimension 3."),
        (
            {"ABCDE": 5, "ABCD": 10, "DEF": 20, "BC": 40},
            "None of dimension 4 contains one of dimension 3. None of dimension 3 contains one of dimension 2.",
        ),
        (
            {"ABCDE": 5, "ABCD": 10, "CDEF": 10, "DEF": 20, "DE": 40},
            "No chain from dimension 5 to 4 goes on to dimension 3.",
        ),
    ],
)
def test_where_no_chain_goes_on(czech: AuditEvidence, narrow: dict[str, int], words: str) -> None:
    """In the last case CDEF contains DEF, but is not within ABCDE."""
    assert said(czech, narrowed(czech.table.schema, narrow)).endswith(f"do not form a chain. {words}")


@pytest.mark.parametrize(
    ("floor", "words"),
    [
        (10, "dimensions 2 to 4 form a chain: BCDF > BCF > BC. From dimension 5 on"),
        (26, "From dimension 3 on"),
        (120, "From dimension 2 on"),
    ],
)
def test_nothing_is_claimed_of_widths_that_are_not_listed(czech: AuditEvidence, floor: int, words: str) -> None:
    reach = czech.widths.widths >= floor
    cut = replace(czech.widths, sub_tables=czech.widths.sub_tables[reach], widths=czech.widths.widths[reach])
    assert f"{words} the most dangerous sub-tables are not known" in said(czech, cut)


def test_cps_13(public_data: Callable[[str], Path]) -> None:
    """A path from the full table to the narrowest child came to widths of 4, 55 and 420 in dimensions 4, 3 and 2."""
    table = sdc.read_table(public_data("cps13.parquet"))
    found = ByDimension.of(levels(sdc.critical_widths(table, small_count=3), table.schema), table.schema)
    least = {level.dimension: (int(level.widths[0]), len(level.least)) for level in found.levels}
    assert [least[d] for d in (4, 3, 2)] == [(1, 137), (1, 4), (50, 1)]
    assert [*least] == list(range(12, 1, -1))
    assert [len(chain) for chain in found.chains] == [11]
    assert nested(found.chains[0])
