"""The intruder's posterior beside published values, and beside a plain sum over every feasible table."""

import math
from fractions import Fraction
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as hs

import sdc
from sdc.intruder import hypergeometric
from sdc.intruder import posterior as intruder
from sdc.intruder.cell_laws import CellLaws
from sdc.intruder.enumerated import enumerated
from sdc.intruder.laws import law_of
from sdc.intruder.measures import Groups, above, groups, identified
from sdc.intruder.posterior import CHAINS, HYPERGEOMETRIC, posterior
from sdc.model import subtable as st
from sdc.model.errors import InputError, ReleaseError
from sdc.model.knowledge import Knowledge
from sdc.model.marginal import CellMarginals
from sdc.model.release import Release
from sdc.model.schema import Schema, Variable
from sdc.model.structural_zeros import StructuralZeros
from sdc.model.table import Table
from tests import reference
from tests.helpers.errors import exact_laws, log_weights
from tests.reference import Fact, TooManyTablesError
from tests.strategies import decomposable_releases as decomposables
from tests.strategies import dense, every_cell, frontier, knows, listed, schema_of, small_tables, tables_and_knowledge

DELAWARE = Schema(
    (
        Variable("gender", ("male", "female")),
        Variable("race", ("white", "black", "chinese")),
        Variable("income", ("low", "middle", "high")),
    )
)
"""[DFT] table 1, by gender, race and income."""
DELAWARE_COUNTS = [96, 72, 161, 10, 7, 6, 1, 1, 2, 186, 127, 51, 11, 7, 3, 0, 1, 0]
DELAWARE_RELEASE = ["race*income", "gender*income"]
SMALL_CELLS = [(0, 2, 0), (0, 2, 1), (1, 2, 1), (0, 2, 2)]
"""Those of [DFT] tables 2 to 5."""
LISTED = 10_000
"""Most tables that are listed: of more it takes seconds to find that they are too many."""


@pytest.fixture
def delaware() -> Table:
    return dense(DELAWARE, DELAWARE_COUNTS)


def place_of(cell: tuple[int, ...]) -> int:
    return int(np.ravel_multi_index(cell, DELAWARE.sizes))


def test_a_model_whose_generators_are_released_has_the_law_released(delaware: Table) -> None:
    one = sdc.posterior(delaware, DELAWARE_RELEASE, law="[race,income][gender,income]", alpha=3)
    other = sdc.posterior(delaware, DELAWARE_RELEASE, law="released")
    assert one.equals_released
    assert one.cells.probabilities == pytest.approx(other.cells.probabilities)
    assert one.log_evidence is not None
    assert other.log_evidence is None
    # independence is released too: the same law given the release, another probability of it
    third = sdc.posterior(delaware, DELAWARE_RELEASE, law="[race][gender][income]", alpha=3)
    assert third.equals_released
    assert third.log_evidence != pytest.approx(one.log_evidence)


# Beside a plain sum


def models(schema: Schema) -> list[str]:
    """Decomposable models of the first variables, the others independent."""
    names = schema.names
    return ["[" + ",".join(names) + "]", "".join(f"[{a},{b}]" for a, b in pairwise(names)), f"[{names[0]}]"]


@given(tables_and_knowledge(max_records=5), hs.sampled_from([0.5, 1.0, 2.5]), hs.integers(0, 5))
def test_every_law_beside_a_sum_over_all_tables(given_: tuple[Table, Knowledge], alpha: float, choice: int) -> None:
    table, known = given_
    name = ["released", "uniform", "saturated", *models(table.schema)][choice]
    law = law_of(name, table.schema, alpha)
    if known.zeros and law.model is not None and len(law.model.cliques) > 1:
        with pytest.raises(ReleaseError, match="structural zeros"):
            posterior(table, known, law, every_cell(table.schema))
        return
    try:
        expected, tables = exact_laws(table, known, law), listed(table, known)
    except TooManyTablesError:
        return
    found, logs = enumerated(table, known, law), np.array(log_weights(tables, law, table.schema.sizes))
    assert found.feasible_tables == len(tables)
    is_true = (tables == table.dense.reshape(-1)).all(axis=1)
    assert found.log_probability_of_truth == pytest.approx(float(logs[is_true][0] - np.logaddexp.reduce(logs)))
    assert_same(found.laws(expected.cells), expected)


def assert_same(found: CellLaws, expected: CellLaws) -> None:
    assert found.ranges.tolist() == expected.ranges.tolist()
    assert found.probabilities == pytest.approx(expected.probabilities, rel=1e-9)


@given(small_tables(max_records=6), hs.data())
def test_a_decomposable_release_beside_the_listing(table: Table, data: hs.DataObject) -> None:
    """Variables that no clique has, too."""
    release = data.draw(decomposables(len(table.schema)))
    kept = Release.of(release.frontier[: data.draw(hs.integers(1, len(release.frontier)))])
    known, law = knows(table, kept), law_of("released", table.schema)
    try:
        expected = exact_laws(table, known, law)
    except TooManyTablesError:
        return
    assert_same(hypergeometric.cell_laws(table, known, expected.cells), expected)
    log = enumerated(table, known, law, 20_000).log_probability_of_truth
    assert hypergeometric.log_probability(table, known) == pytest.approx(log)


# Probabilities of releases


def all_tables(schema: Schema, total: int) -> list[Table]:
    """Every table of so many records."""
    of_all = Fact(frozenset(reference.every_cell(schema.sizes)), total, total)
    return [dense(schema, counts) for counts in reference.feasible(schema.sizes, [of_all]).tolist()]


@pytest.mark.parametrize("name", ["uniform", "saturated", "[A][B]", "[A,B]", "[A]"])
@pytest.mark.parametrize("release", [frontier("A", "B"), frontier("A"), frontier("AB")])
def test_probabilities_of_all_releases_sum_to_one(name: str, release: Release) -> None:
    """Pr(R | A) over all R that tables of four records may give; Pr(F | A) over all F too."""
    schema = schema_of([2, 3])
    law, whole, seen = law_of(name, schema, 0.7), 0.0, {}
    for table in all_tables(schema, 4):
        whole += math.exp(law.log_probability(table))
        marginals = [table.marginal(s) for s in release.frontier]
        key = tuple((m.codes.tobytes(), m.counts.tobytes()) for m in marginals)
        evidence = posterior(table, knows(table, release), law, table.codes).log_evidence
        assert evidence is not None
        # every table that gives the release gives it the same probability
        assert seen.setdefault(key, evidence) == pytest.approx(evidence)
    assert whole == pytest.approx(1)
    assert math.fsum(map(math.exp, seen.values())) == pytest.approx(1)


def test_an_average_is_weighed_by_what_the_models_give_the_release(delaware: Table) -> None:
    priors = {"saturated": 0.25, "[race,income][gender,income]": 0.75}
    found = sdc.posterior(delaware, DELAWARE_RELEASE, law="average", priors=priors, alpha=0.5)
    each = [sdc.posterior(delaware, DELAWARE_RELEASE, law=name, alpha=0.5) for name in priors]
    joint = [prior * math.exp(one.log_evidence + 55) for prior, one in zip(priors.values(), each, strict=True)]
    assert [m.probability for m in found.models] == pytest.approx([part / sum(joint) for part in joint])
    mixed = sum(m.probability * m.posterior.cells.probabilities for m in found.models)
    assert found.cells.probabilities == pytest.approx(mixed)


def test_what_cannot_be_averaged_is_not_sampled_first(czech: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intruder, "MAX_TABLES", LISTED)
    monkeypatch.setattr(intruder, "by_chains", lambda *given: pytest.fail("chains are run for nothing"))
    with pytest.raises(InputError, match="saturated cannot be averaged: too many feasible tables vary together"):
        sdc.posterior(czech, ["A*B", "C*D", "E*F"], law="average", priors={"saturated": 1.0})
    # the one cell without a record
    impossible = ((0, (1,)), (1, (0,)), (2, (0,)), (3, (1,)), (4, (1,)), (5, (1,)))
    informed = sdc.knowledge(czech, CZECH_PREFIX, structural_zeros=StructuralZeros((impossible,)))
    with pytest.raises(InputError, match="saturated cannot be averaged: there are structural zeros"):
        sdc.posterior(czech, informed, law="average", priors={"saturated": 1.0})


# The Czech table

CZECH_PREFIX = ["A*B*C*D*E", "A*B*D*E*F", "A*C*D*E*F", "A*B*C*F", "B*C*D*F", "B*C*E*F"]
"""The longest releasable prefix, [KDSF] 5.2; 810 tables."""


def test_uniform_probabilities_are_shares_of_the_tables(czech: Table) -> None:
    found = sdc.posterior(czech, CZECH_PREFIX, law="uniform")
    for probability in found.cells.probabilities.tolist():
        share = Fraction(probability).limit_denominator(810)
        assert probability == pytest.approx(float(share), rel=1e-13)
        assert 810 % share.denominator == 0
    assert found.log_probability == pytest.approx(-math.log(810))


# Measures, and what there is no answer to


def test_what_is_told_of_the_laws(delaware: Table) -> None:
    """1 of (1, 3, 1) has .352, 1 of (1, 3, 2) .469 and most, 2 of (1, 3, 3) .574 and most."""
    laws = sdc.posterior(delaware, DELAWARE_RELEASE).cells
    rows = [i for i, cell in enumerate(map(tuple, laws.cells.tolist())) if cell in SMALL_CELLS]
    assert laws.at_truth[rows] == pytest.approx([0.352, 0.469, 0.574, 0.469], abs=6e-4)
    counts, probabilities = laws.most_likely
    assert counts[rows].tolist() == [0, 1, 2, 1]
    assert probabilities[rows] == pytest.approx([0.648, 0.469, 0.574, 0.469], abs=6e-4)
    found = laws.at_truth, probabilities
    assert [identified(*found, threshold) for threshold in (0, 0.46, 0.5)] == [3 / 4, 3 / 4, 1 / 4]
    assert [above(laws.at_truth, threshold) for threshold in (0, 0.3, 0.46, 0.5)] == [1, 1, 3 / 4, 1 / 4]


def test_a_cell_is_identified_by_the_mode_alone(delaware: Table) -> None:
    """[DFT] (5): saturated, .501 of (1, 3, 1), .250 of (1, 3, 2), (2, 3, 2), .372 of (1, 3, 3): 0 has .378."""
    laws = sdc.posterior(delaware, DELAWARE_RELEASE, law="saturated", alpha=0.5).cells
    assert sorted(laws.at_truth.round(3).tolist()) == [0.25, 0.25, 0.372, 0.501]
    assert identified(laws.at_truth, laws.most_likely[1], 0.3) == 1 / 4
    assert above(laws.at_truth, 0.3) == 2 / 4
    assert identified(laws.at_truth, laws.most_likely[1], 0) == 1 / 4


def test_a_true_count_that_is_as_likely_as_another_is_named() -> None:
    assert identified(np.array([0.5, 0.5 - 1e-12, 0.4]), np.array([0.5, 0.5, 0.6]), 0.3) == 2 / 3


def test_a_large_table_has_an_explicit_law() -> None:
    rng = np.random.default_rng(3)
    schema = schema_of([3] * 12)
    table = Table.of(schema, rng.integers(0, 3, (500, 12)), np.ones(500, np.int64))
    release = [f"v{v:02}*v{v + 1:02}" for v in range(11)]
    found = sdc.posterior(table, release)
    assert (found.engine, found.feasible_tables) == (HYPERGEOMETRIC, None)
    sums = np.add.reduceat(found.cells.probabilities, found.cells.start[:-1])
    assert sums == pytest.approx(np.ones(len(found.cells)))
    assert sdc.posterior(table, release, law="saturated", draws=20, chains=2, error=None).engine == CHAINS
    with pytest.raises(ReleaseError, match="basic moves that preserve the release have 114791256 entries"):
        sdc.posterior(table, [*release, "v00*v11"], law="saturated")


def test_of_53_variables_only_the_law_released_is_asked() -> None:
    """Of 51 variables nothing is known: their combinations are equally likely, and too many for an int64."""
    schema, rng = schema_of([3] * 53), np.random.default_rng(4)
    table = Table.of(schema, rng.integers(0, 3, (20, 53)), np.ones(20, np.int64))
    found = sdc.posterior(table, ["v00*v01"])
    arrangements = sum(math.lgamma(n + 1) for n in table.marginal(0b11).counts.tolist())
    assert (found.engine, found.exact) == (HYPERGEOMETRIC, True)
    assert found.log_probability == pytest.approx(arrangements - 20 * 51 * math.log(3))
    with pytest.raises(ReleaseError, match="choose fewer variables by --variables, or --law released, which needs no"):
        sdc.posterior(table, ["v00*v01"], law="uniform")


def test_what_has_no_exact_law_is_sampled(czech: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all pairs there are too many tables to list; the same seed gives the same draws."""
    monkeypatch.setattr(intruder, "MAX_TABLES", LISTED)
    pairs = [f"{a}*{b}" for a, b in combinations("ABCDEF", 2)]
    one, other, third = (sdc.posterior(czech, pairs, draws=20, chains=2, seed=seed, error=None) for seed in (4, 4, 5))
    assert (one.engine, one.exact, one.log_probability, one.feasible_tables) == (CHAINS, False, None, None)
    assert one.diagnostics is not None
    assert (one.diagnostics.draws, one.diagnostics.chains, one.diagnostics.connectivity) == (20, 2, "not proven")
    assert one.cells.probabilities.tolist() == other.cells.probabilities.tolist()
    assert one.cells.probabilities.tolist() != third.cells.probabilities.tolist()
    assert sdc.posterior(czech, CZECH_PREFIX, law="[A,B][B,C][A,C]").equals_released


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"law": "likely"}, "law 'likely' is unknown; choose released, uniform, saturated, or a model"),
        ({"law": "[A,B][B,Z]"}, "Z"),
        ({"law": "[A][]"}, "unknown variable ''"),
        ({"law": "saturated", "draws": 0}, "draws = 0; give at least 20"),
        ({"law": "saturated", "chains": 0}, "chains = 0; give at least 1"),
        ({"law": "average", "priors": {"saturated": 1.0}, "draws": 0}, "draws = 0; give at least 20"),
        ({"law": "saturated", "alpha": 0.0}, "alpha = 0.0; give a number above 0"),
        ({"law": "saturated", "alpha": math.nan}, "alpha = nan"),
        ({"law": "average"}, "the law average averages several laws"),
        ({"law": "average", "priors": {"saturated": 0.5, "uniform": 0.4}}, "sum to 0.9; they must sum to 1"),
        ({"law": "average", "priors": {"saturated": 1.5, "uniform": -0.5}}, "the prior of uniform is -0.5"),
        ({"law": "average", "priors": {"released": 1.0}}, "the law released cannot be averaged: it has no prior"),
        (
            {"law": "uniform", "priors": {"released": 1.0}},
            "priors are of the laws of an average, and the law is uniform",
        ),
    ],
)
def test_faults_are_named(czech: Table, settings: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message.replace("[", r"\[")):
        sdc.posterior(czech, CZECH_PREFIX, **settings)  # type: ignore[arg-type]


@given(tables_and_knowledge(max_records=6), hs.sampled_from([0.6, 0.7, 0.9, 1.0]))
def test_attribute_disclosure_beside_a_loop_over_tables(given_: tuple[Table, Knowledge], share: float) -> None:
    """Of each cell the largest probability of all released groups that contain it, and the bounds of every table."""
    table, known = given_
    law, cells = law_of("uniform", table.schema), every_cell(table.schema)
    try:
        tables = [counts.reshape(table.schema.sizes) for counts in listed(table, known, 2_000)]
    except TooManyTablesError:
        return
    laws, held = enumerated(table, known, law).laws(cells), groups(CellMarginals(table, cells), known, share)
    full = st.full(len(table.schema))
    told, probabilities = known.release, held.probabilities(laws)
    varying = st.varying(table.schema)
    sub_tables = [s for s in range(full + 1) if s in told and not st.is_within(varying, s)]
    for row, cell in enumerate(map(tuple, cells.tolist())):
        each = {s: Fraction(0) for s in sub_tables}
        for s in sub_tables:
            records = group_of(table, s, cell)
            if records:
                enough = [int(counts[cell]) >= Fraction(str(share)) * records for counts in tables]
                each[s] = Fraction(sum(enough), len(tables))
        largest = max(each.values(), default=Fraction(1))
        assert probabilities[row] == pytest.approx(float(largest))
        if each:
            assert each[int(held.sub_tables[row])] == largest
            assert held.records[row] == group_of(table, int(held.sub_tables[row]), cell)
        assert held.are_certain(laws.ranges)[row] == (largest == 1)
        assert held.are_impossible(laws.ranges)[row] == (largest == 0)


def group_of(table: Table, sub_table: int, cell: tuple[int, ...]) -> int:
    """The records that agree with the cell in the sub-table's variables."""
    members = st.members(sub_table)
    return int(reference.marginal(table.dense, members)[tuple(cell[v] for v in members)])


def test_a_share_is_not_left_to_rounding() -> None:
    """0.7 of 10 are 7, and 0.6 of 5 are 3."""
    for share, records, needed in ((0.7, 10, 7), (0.6, 5, 3), (0.7, 11, 8), (1.0, 3, 3), (0.9, 0, 1)):
        assert Groups(share, np.zeros(1, np.uint64), np.array([records])).needed.tolist() == [needed]


@pytest.mark.parametrize("share", [0.5, 1.1, 0, math.nan])
def test_a_share_is_more_than_half(czech: Table, share: float) -> None:
    with pytest.raises(InputError, match=f"share = {share}; give a number above 0.5 and at most 1"):
        sdc.posterior(czech, CZECH_PREFIX, share=share)


@pytest.mark.parametrize("threshold", [1, -0.5, math.nan])
def test_a_threshold_is_a_probability(czech: Table, threshold: float) -> None:
    with pytest.raises(InputError, match="give a probability of at least 0 and below 1"):
        above(sdc.posterior(czech, CZECH_PREFIX).cells.at_truth, threshold)
