"""Why a sub-table is released or not: judged against every smaller release of small tables."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as hs

from sdc.api import assess, why
from sdc.model import subtable as st
from sdc.model.errors import SdcError
from sdc.model.knowledge import Knowledge
from sdc.model.labels import Labels, VariableLabels
from sdc.model.release import NOTHING, Release
from sdc.model.structural_zeros import NO_ZEROS, StructuralZeros
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.risk.effort import Budget
from sdc.risk.verdict import Verdict
from sdc.search.why import Reason
from tests.strategies import czech, knows, scattered, tables_and_knowledge

CZECH_FRONTIER = ["A*B*C*D*E", "A*B*D*E*F", "A*C*D*E*F", "A*B*C*F", "B*C*D*F", "B*C*E*F"]


def is_refuted(table: Table, sub_tables: list[SubTable], min_width: int, zeros: StructuralZeros = NO_ZEROS) -> bool:
    public = knows(table, Release.of(sub_tables), zeros)
    return assess(table, public, min_width=min_width).verdict is Verdict.UNSAFE


def assert_minimal(table: Table, reason: Reason, known: Knowledge, min_width: int) -> None:
    """Refuted with the conflicts, and not with any release that is less by one sub-table."""
    asked, conflicts = reason.sub_table, list(reason.conflicts)
    assert is_refuted(table, [*conflicts, asked], min_width, known.zeros)
    assert all(conflict in known.release for conflict in conflicts)
    for conflict in conflicts:
        rest = [other for other in conflicts if other != conflict]
        assert not is_refuted(table, [*rest, *st.children(conflict, table.schema), asked], min_width, known.zeros)


@given(tables_and_knowledge(), hs.data())
@settings(max_examples=60)
def test_the_conflicts_are_minimal(drawn: tuple[Table, Knowledge], data: hs.DataObject) -> None:
    table, known = drawn
    assume(len(table.at_risk(2)))
    asked = data.draw(hs.integers(1, st.full(len(table.schema))))
    min_width = data.draw(hs.integers(1, 3))
    found = why(table, known, st.label(asked, table.schema), min_width=min_width)
    together = is_refuted(table, [*known.release.frontier, asked], min_width, known.zeros)
    assert (found.together.verdict is Verdict.UNSAFE) == together
    assert found.released == (asked in known.release)
    if not together:
        assert found.conflicts == ()
        return
    assert_minimal(table, found, known, min_width)
    assert (found.conflicts == ()) == is_refuted(table, [asked], min_width, known.zeros)
    assert found.witness is not None


def test_the_sub_tables_that_a_published_release_leaves_out() -> None:
    table = czech()
    release = Release.of(st.parse(name, table.schema) for name in CZECH_FRONTIER)
    out = why(table, release, "A*B*C*D*F", min_width=6)
    assert (out.released, out.critical_width, out.alone.verdict) == (False, 3, Verdict.UNSAFE)
    assert out.text(table.schema) == "A*B*C*D*F breaks the criterion alone"
    held = why(table, release, "A*F", min_width=6)
    assert held.text(table.schema) == "A*F is released, within A*B*D*E*F"
    assert held.together.verdict is Verdict.SAFE


def test_a_customer_is_told_of_a_refusal_what_is_public_and_not_why() -> None:
    """The same words where it breaks the criterion alone or with others, is forbidden, undecided, or could go out."""
    table = czech()
    release = Release.of(st.parse(name, table.schema) for name in CZECH_FRONTIER)
    asked, told = "A*B*C*D*F", set()
    little = Budget(seconds=1e-9, seconds_per_cell=1e-9)
    for more in (
        {},
        {"forbid": ["A*F"]},
        {"min_width": 1},
        {"small_count": 400},
        {"budget": little},
        {"min_frequency": 500},
    ):
        found = why(table, release, asked, **{"min_width": 6, **more})  # type: ignore[arg-type]
        told.add((found.text(table.schema), found.customer(table.schema)))
    assert len({text for text, _ in told}) > 2
    (customer,) = {customer for _, customer in told}
    assert "is not public" in customer
    assert all(part in customer for part in ("A by B by C by D;", "A by B by C by F", "B by C by D by F."))


def test_a_customer_is_told_where_what_is_public_is() -> None:
    table = czech()
    release = Release.of(st.parse(name, table.schema) for name in CZECH_FRONTIER)
    labels = Labels({"A": VariableLabels("smokes"), "F": VariableLabels("anamnesis")})
    whole, within = (why(table, release, name, min_width=6) for name in ("A*B*C*F", "A*F"))
    assert "A by B by C by F is public" in whole.customer(table.schema)
    told = within.customer(table.schema, labels)
    assert all(words in told for words in ("smokes by anamnesis is public", "smokes by B by D by E by anamnesis"))
    assert "Only its total is public" in why(table, NOTHING, "A*F", min_width=6).customer(table.schema)


def test_what_is_impossible_counts_in_every_question() -> None:
    """Without it the width of each at-risk cell is 9 at least, with it that of the first is 6."""
    table = czech()
    release = Release.of(st.parse(name, table.schema) for name in CZECH_FRONTIER)
    zeros = StructuralZeros((tuple((v, (code,)) for v, code in enumerate((1, 0, 0, 1, 1, 1))),))
    assert why(table, release, "A*F", min_width=7).conflicts == ()
    told = why(table, knows(table, release, zeros), "A*F", min_width=7)
    assert told.together.verdict is Verdict.UNSAFE
    assert told.conflicts
    assert_minimal(table, told, knows(table, release, zeros), 7)


def test_what_could_be_released_says_so() -> None:
    table = scattered()
    names = table.schema.names
    found = why(table, [names[0]], names[1], min_width=1)
    assert found.together.verdict is Verdict.SAFE
    assert "and could be" in found.text(table.schema)


def test_a_sub_table_that_is_not_there() -> None:
    with pytest.raises(SdcError, match="'Q'"):
        why(czech(), ["A"], "A*Q", min_width=3)
