"""Earlier proofs as feasible tables of the whole table: they agree with what is known, and show what they showed."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as hs

from sdc.feasible.witnesses import Witnesses, lifted
from sdc.model.fact import suppressed_fact
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.schema import Coarser, Schema, Variable
from sdc.model.structural_zeros import NO_ZEROS
from sdc.model.table import Table
from sdc.risk.criteria import Criteria
from sdc.risk.effort import Depth
from sdc.risk.evaluator import RiskEvaluator
from sdc.risk.support import Support
from tests.strategies import releases, schema_of

AXES = [2, 3, 2, 3, 2]


@hs.composite
def tables_with_levels(draw: hs.DrawFn) -> Table:
    """Five axes, one of them with a level."""
    schema, sizes = schema_of(AXES), AXES
    level = Variable("level", ("x", "y"), Coarser(schema.names[1], (0, 0, 1)))
    cells = np.argwhere(np.ones(sizes, bool)).astype(np.uint16)
    counts = np.array(draw(hs.lists(hs.integers(0, 4), min_size=len(cells), max_size=len(cells))), np.int64)
    return Table.of(Schema((*schema.variables, level)), cells, counts)


@given(hs.data())
@settings(max_examples=30, deadline=None)
def test_lifted_tables_are_feasible_and_show_what_the_components_showed(data: hs.DataObject) -> None:
    table = data.draw(tables_with_levels())
    closed = table.schema.levels.closed
    release = Release.of(map(closed, data.draw(releases(len(table.schema))).frontier))
    view = closed(data.draw(hs.integers(1, 31)))
    inside = table.marginal(view).schema
    places = data.draw(hs.sets(hs.integers(0, inside.cells - 1), min_size=1))
    fact = suppressed_fact(view, inside.keys.unpack(np.array(sorted(places))), table.total, "earlier")
    known = Knowledge.of(table, release, NO_ZEROS, [fact])
    evaluator = RiskEvaluator(table, known, Criteria.of(2, 3))
    evaluation = evaluator.evaluate(Release.of([]), Depth.FULL)
    found = lifted(evaluation.proof, table)
    assert found.feasible(table, known).all()
    again = RiskEvaluator(table, known, Criteria.of(2, 3), witnesses=Witnesses.of(table, known, found))
    np.testing.assert_array_equal(Support(known, again.pool).inner, Support(known, evaluation.pool).inner)
    np.testing.assert_array_equal(Support(known, again.pool).own_inner, Support(known, evaluation.pool).own_inner)
