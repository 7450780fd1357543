"""Re-designs along hierarchies against every choice of levels."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
import yaml
from hypothesis import given, settings
from hypothesis import strategies as hs

import sdc
from sdc.model import subtable as st
from sdc.model.release import Release
from sdc.model.schema import Coarser, Schema, Variable
from sdc.model.table import Table
from sdc.risk.criteria import Criteria
from sdc.search.redesign import candidates, redesign
from sdc.search.wishes import Wishes
from tests.strategies import unknowing

SCHEMA = Schema(
    (
        Variable("land", ("N", "S"), Coarser("place", (0, 0, 0, 1))),
        Variable("region", ("n", "m", "s"), Coarser("place", (0, 0, 1, 2))),
        Variable("place", ("n1", "n2", "m1", "s1")),
        Variable("sex", ("f", "m")),
        Variable("ill", ("no", "yes")),
    )
)


def nested(counts: list[int]) -> Table:
    """Places in regions in lands, by sex and illness."""
    cells = list(product(range(4), range(2), range(2)))
    return Table.of(SCHEMA, np.array(cells), np.array(counts, np.int64))


@settings(max_examples=25)
@given(hs.lists(hs.sampled_from([0, 1, 2, 5, 9, 20]), min_size=16, max_size=16), hs.integers(2, 6))
def test_the_least_is_lost(counts: list[int], width: int) -> None:
    table = nested([count + 1 if k % 4 == 0 else count for k, count in enumerate(counts)])
    if not len(table.at_risk(2)):
        return
    inquiry = unknowing(table, Criteria.of(2, width))
    asked = st.parse("place*sex*ill", SCHEMA)
    before = Release.of([st.parse("sex", SCHEMA)])
    found = redesign(inquiry, before, asked, Wishes())
    best = None
    for level, others in product([2, 1, 0, None], product([False, True], repeat=2)):
        kept = ([] if level is None else [level]) + [v for v, keep in zip((3, 4), others, strict=True) if keep]
        candidate = SCHEMA.levels.closed(st.of(kept))
        if candidate in (0, asked) or not inquiry.accepts(inquiry.anew().ask(before.add(candidate))):
            continue
        cells = prod(SCHEMA.sizes[v] for v in kept)
        best = cells if best is None else max(best, cells)
    assert (None if found is None else found.cells) == best
    if found is not None:
        assert found.lost == 16 - found.cells


def test_what_is_tried() -> None:
    tried = [st.label(t, SCHEMA) for t in candidates(st.parse("place*sex", SCHEMA), SCHEMA)]
    assert tried == ["region*sex", "land*sex", "place", "region", "land", "sex"]


def test_the_verb_says_what_to_paste() -> None:
    table = nested([9, 9, 9, 9, 1, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9])
    (found,) = sdc.redesign(table, ["sex", "ill"], "place*sex*ill", min_width=4, merging=False)
    assert yaml.safe_load(found.config) == {"release": {"require": ["*".join(found.names)]}}
    assert sdc.assess(table, ["sex", "ill", "*".join(found.names)], min_width=4).releasable
    assert sdc.redesign(table, ["sex"], "sex*ill", min_width=1000) == ()
