"""Certificates of random tables, with levels, structural zeros and facts of every kind: the judge lists all tables.

What is right is accepted, to the last record; of anything else nothing is certified that not every table agrees with.
"""

from dataclasses import replace
from unittest.mock import ANY

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as hs

from sdc.feasible.differences import Differences
from sdc.feasible.proof import ComponentProof, Proof
from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds
from sdc.model.graph import Decomposition
from sdc.model.release import NOTHING, Release
from sdc.model.schema import Schema
from sdc.model.structural_zeros import NO_ZEROS
from sdc.risk.assessment import OwnJudged
from sdc.storage.certificate import Certificate
from sdc.verify.run_folder import Verification, verify
from tests import levels
from tests.facts import FactCase, agreeing, fact_cases, own_widths, random_facts
from tests.integration.verify.forging import BEYOND, adding, forged, proven, rejected, shared
from tests.levels import Case, Rng, generators
from tests.reference import TooManyTablesError

Folders = pytest.TempPathFactory


def sharp_of(case: Case) -> CellBounds:
    """Of the at-risk cells, by all tables that agree."""
    rows = case.table.at_risk(2)
    sharp = case.sharp_at(case.table.codes[rows])
    return CellBounds(case.table.codes[rows], case.table.counts[rows], sharp, sharp, "enumeration")


def certificate_of(case: Case, proof: Proof, min_width: int = 1) -> Certificate:
    known = replace(case.known, release=NOTHING)
    return Certificate(case.table.digest, known, case.known.release, 2, min_width, proof)


@settings(max_examples=400)
@given(case=levels.cases(), min_width=hs.integers(1, 4))
def test_what_a_criterion_proves_is_accepted(case: Case, min_width: int, tmp_path_factory: Folders) -> None:
    """All of its claims, which no feasible table leaves, and not one more."""
    assume(len(case.table.at_risk(2)))
    bounds, certificate = proven(case.table, case.known.release, min_width, case.zeros)
    sharp = case.sharp_at(bounds.cells)
    assert (bounds.inner[:, 0] >= sharp[:, 0]).all()
    assert (bounds.inner[:, 1] <= sharp[:, 1]).all()
    run = forged(tmp_path_factory.mktemp("case") / "run", case.table, certificate, bounds)
    certified = int((bounds.inner_width >= min_width).sum())
    assert verify(run) == Verification(len(bounds), certified, certificate.proof.differences, (), ANY, ANY)
    rejected(run, adding("inner_upper", 1), "claims a wider inner interval; so 1 of")


@settings(max_examples=200)
@given(case=fact_cases(), min_width=hs.integers(1, 3))
def test_every_table_that_agrees_is_accepted(case: FactCase, min_width: int, tmp_path_factory: Folders) -> None:
    """As one component; and not one cell is wider."""
    assume(len(case.table.at_risk(2)))
    bounds, full = sharp_of(case), st.full(len(case.schema))
    part = ComponentProof(full, None, Differences.between(case.table, list(case.tables)))
    own = own_widths(case, 2, min_width)
    told = OwnJudged(len(own), sum(width < min_width for width in own)) if own else None
    certificate = certificate_of(case, Proof((part,), ()), min_width)
    found = verify(forged(tmp_path_factory.mktemp("case") / "run", case.table, certificate, bounds, in_part=told))
    assert found.failures == ()
    assert found.certified_cells == int((bounds.inner_width >= min_width).sum())


@settings(max_examples=1600)
@given(rng=generators())
def test_no_random_evidence_certifies_beyond_the_sharp_bounds(rng: Rng, tmp_path_factory: Folders) -> None:
    """Trees of components and of cliques that fit the release or do not, true differences and any others."""
    case = random_case(rng)
    assume(len(case.table.at_risk(2)))
    parts = random_parts(rng, case)
    covers, some = [random_tree(rng, case.schema, part) for part in parts], levels.closed_sets(case.schema)
    between = [s if rng.random() < 0.85 else s & int(rng.choice(some)) for s in shared(parts)]
    if rng.random() < 0.6:  # a release that the trees mostly fit
        public = [c if rng.random() < 0.5 else c & int(rng.choice(some)) for cover in covers for c in cover]
        case = releasing(case, [*public, *(s for s in between if rng.random() < 0.9)])
    proofs = tuple(random_part(rng, case, *pair) for pair in zip(parts, covers, strict=True))
    if len({part.differences.cells.shape[1] for part in proofs[:2]}) < len(proofs[:2]) and rng.random() < 0.3:
        one, other, *rest = proofs
        one, other = (replace(part, differences=of.differences) for part, of in ((one, other), (other, one)))
        proofs = (one, other, *rest)
    sharp, certificate = sharp_of(case), certificate_of(case, Proof(proofs, tuple(between)))
    found = verify(forged(tmp_path_factory.mktemp("random") / "run", case.table, certificate, sharp))
    assert found.certified_cells <= int((sharp.outer_width >= 1).sum())
    assert not [failure for failure in found.failures if BEYOND in failure]


def random_case(rng: Rng) -> FactCase:
    """With facts or without, of a table with levels or without."""
    schema = levels.random_schema(rng, most_cells=12)
    if rng.random() < 0.3:
        schema = Schema(tuple(v for v in schema.variables if v.of is None))
    table, most = levels.random_table(rng, schema, 8), int(rng.integers(0, 4))
    public = levels.random_release(rng, schema)[: rng.integers(0, 5)]
    zeros = levels.random_zeros(rng, table) if rng.random() < 0.3 else NO_ZEROS
    try:
        return FactCase.of(table, public, zeros, random_facts(rng, table, most) if most else ())
    except TooManyTablesError:
        return FactCase.of(table, (st.full(len(schema)),), zeros, ())


def releasing(case: FactCase, public: list[int]) -> FactCase:
    """The case with another release, where its tables are not too many."""
    try:
        return FactCase.of(case.table, public, case.zeros, case.facts)
    except TooManyTablesError:
        return case


def random_parts(rng: Rng, case: FactCase) -> list[int]:
    """The components that are right, one component or any tree, and often one thing wrong with them."""
    schema, kind = case.schema, rng.random()
    full, some = st.full(len(schema)), levels.closed_sets(schema)
    if kind < 0.3:
        parts = list(case.known.structure.components.cliques)
    else:
        parts = [full] if kind < 0.4 else random_tree(rng, schema, full)
        if (left := full & ~st.union(parts)) and rng.random() < 0.9:
            parts.append(grown(rng, schema, parts, left))
    place, wrong = int(rng.integers(len(parts))), rng.random()
    if wrong < 0.1:
        parts[place] = schema.levels.closed(parts[place] ^ 1 << int(rng.integers(len(schema))))
    elif wrong < 0.2:
        parts.pop(place)
    elif wrong < 0.25:
        parts.append(int(rng.choice(some)))
    elif wrong < 0.35:
        parts = [parts[k] for k in rng.permutation(len(parts))]
    return [part for part in parts if part] or [full]


def random_tree(rng: Rng, schema: Schema, within: int) -> list[int]:
    """Closed sets, of which each has new variables beside some of an earlier one's: often a junction tree."""
    sets = [s for s in levels.closed_sets(schema) if s and st.is_within(s, within)]
    tree = [int(rng.choice(sets))]
    while rng.random() < 0.6:
        tree.append(grown(rng, schema, tree, int(rng.choice(sets)) & ~st.union(tree)) or tree[0])
    return tree


def grown(rng: Rng, schema: Schema, tree: list[int], new: int) -> int:
    """New variables with what some closed set has of one in the tree."""
    host = tree[rng.integers(len(tree))]
    return schema.levels.closed(new | host & int(rng.choice(levels.closed_sets(schema))))


def random_part(rng: Rng, case: FactCase, variables: int, cliques: list[int]) -> ComponentProof:
    """Tables that agree with some of what is known of a component, any changes, and a cover that is true or is not."""
    inside, known = case.table.marginal(variables), case.known.within(variables)
    known = replace(known, facts=tuple(fact for fact in known.facts if rng.random() < 0.8))
    if rng.random() < 0.2:
        known = replace(known, release=Release.of(t for t in known.release.frontier if rng.random() < 0.7))
    try:
        tables = list(agreeing(inside, known.release.frontier, known.zeros, known.facts))
    except TooManyTablesError:
        tables = []
    found, sizes = [Differences.between(inside, tables)], inside.schema.keys.sizes
    if rng.random() < 0.5:
        any_cells = rng.integers(0, sizes, (8, len(sizes))).astype(np.uint16)
        of, changes = np.sort(rng.integers(0, 3, 8)), rng.integers(-2, 3, 8)
        found.append(Differences.summed(3, of, any_cells, changes, inside.schema))
    found = found if rng.random() < 0.8 else found[-1:]
    kind, cover = rng.random(), known.structure.cover
    if kind > 0.5:
        full, own = 1 << len(inside.schema), tuple(st.within(clique, variables) for clique in cliques)
        if kind > 0.9:
            own = tuple(rng.integers(0, full, rng.integers(1, 5)).tolist())
        any_separators = tuple(rng.integers(0, full, len(own) - 1).tolist())
        cover = Decomposition(own, shared(own) if rng.random() < 0.9 else any_separators)
    return ComponentProof(variables, None if kind < 0.2 else cover, Differences.concatenated(found))
