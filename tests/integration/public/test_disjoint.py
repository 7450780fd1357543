"""What is called disjoint and is not: the same records published twice, judged by enumeration."""

from dataclasses import replace

import numpy as np

from sdc.api import find_release
from sdc.config.earlier import EarlierConfig
from sdc.model import subtable as st
from sdc.model.errors import InputError, ReleaseError
from sdc.model.release import Release
from sdc.model.schema import Schema, Variable
from sdc.model.structural_zeros import NO_ZEROS
from sdc.model.table import Table
from sdc.public.earlier import Publications, with_earlier
from sdc.public.relation import looks_the_same
from tests.integration.public.test_check import Told, marginal
from tests.integration.stages.test_forged_earlier import CASES, MOST_RECORDS, RISK, case, is_safe
from tests.strategies import dense, schema_of

DISJOINT = EarlierConfig(folder="before", disjoint=True)


def is_refused(table: Table, told: Told) -> bool:
    """Whether a build that calls a publication disjoint is refused; else nothing of it is known to that build."""
    try:
        _, known, _ = with_earlier(table, NO_ZEROS, Publications("t.csv", ((DISJOINT, (told[0],)),), None))
    except InputError as error:
        return "earlier declares that before is of other records than t.csv, and its" in str(error)
    return bool(known.release.variables)


def of_one_category(table: Table, v: int, code: int) -> Told:
    """What is published of the records of one category: all the other variables."""
    rows = table.codes[:, v] == code
    own = Table.of(table.schema, table.codes[rows], table.counts[rows])
    variable = table.schema.variables[v]
    published, relation = marginal(own, st.full(len(table.schema)) & ~(1 << v), "before")
    where = {variable.name: (variable.categories[code],)}
    return published, relation.model_copy(update={"where": where})


def test_the_same_records_are_no_others(night: list[int]) -> None:
    """Of all records, of those of a category, or of more than the table has; what is of others is not refused."""
    random = np.random.default_rng([39, 6, *night])
    unsafe, others = 0, 0
    for number in range(CASES):
        table, _ = case(random)
        full, v = st.full(len(table.schema)), int(random.integers(len(table.schema)))
        code = int(random.integers(table.schema.sizes[v]))
        if number % 4 == 0:
            told = marginal(table, int(random.integers(1, full + 1)), "before")
        elif number % 4 == 1:
            told = of_one_category(table, v, code)
        elif number % 4 == 2:
            # the whole came first, and the table is a part of it
            (some, _), told = of_one_category(table, v, code), marginal(table, full, "before")
            assert is_refused(some.table, told)
            continue
        else:
            # more records in every category than the table has in all
            told = marginal(Table.of(table.schema, table.codes, table.counts * (MOST_RECORDS + 1)), full, "before")
            assert not is_refused(table, told)
            others += 1
            continue
        assert is_refused(table, told), number
        try:
            release = find_release(table, "ordered", **RISK).release
        except ReleaseError:
            release = Release.of([])
        unsafe += not is_safe(table, release, told)
    assert unsafe > CASES // 10
    assert others > CASES // 10


def test_what_is_found_does_not_depend_on_which_is_called_the_table() -> None:
    table = dense(schema_of([2, 3]), [5, 1, 0, 2, 2, 9])
    women = of_one_category(table, 0, 1)[0].table
    assert looks_the_same(table, women)
    assert looks_the_same(women, table)
    assert looks_the_same(table, Table.of(Schema((Variable("Q", ("x",)),)), np.zeros((1, 1), int), np.array([19])))
    # as many records as a category has, and no variable in common, or another margin
    assert not looks_the_same(table, Table.of(Schema((Variable("Q", ("x",)),)), np.zeros((1, 1), int), np.array([13])))
    assert not looks_the_same(table, dense(schema_of([2, 3]), [0, 0, 0, 2, 3, 8]))
    assert not looks_the_same(table, replace(women, codes=women.codes[:0], counts=women.counts[:0]))
