"""The most dangerous sub-tables of each dimension, all ties kept, and whether they form a chain ([KDSF] 5.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise, product

import numpy as np
from hypothesis import given
from hypothesis import strategies as some

from sdc.model import subtable as st
from sdc.model.schema import Coarser, Schema, Variable
from sdc.report import search
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


@given(some.data(), some.integers(1, 6))
def test_of_a_listing_with_a_floor_what_is_known_is_right(data: some.DataObject, floor: int) -> None:
    schema = flat(5)
    widths = lowest(schema, lambda: data.draw(some.integers(0, 6)))
    found, expected = ByDimension.of(levels(listing(widths, floor), schema), schema), least_of(widths, schema)
    known = [sorted(level.least.tolist()) for level in found.levels]
    assert known == expected[len(expected) - len(known) :]
    assert found.is_whole == (len(known) == len(expected))


def said(audit: AuditEvidence, widths: CriticalWidths) -> str:
    return search.chain(audit, ByDimension.of(levels(widths, audit.table.schema), audit.table.schema))


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
