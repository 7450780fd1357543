"""Dominance rules against sums done by hand, and magnitude tables at the finest levels that pass."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as hs
from numpy.linalg import pinv

from sdc.model.errors import InputError, NotReleasableError
from sdc.treat.dominance import Rules, judge
from sdc.treat.magnitude import ALL, MagnitudeTable, magnitude_table, written
from tests import reference
from tests.profiles import scaled

# ACRO's conventions (AI-SDC/ACRO, acro/default.yaml and its aggregation functions): fewer than safe_threshold 10 fail,
# more than safe_nk_k 0.90 of the safe_nk_n 2 largest, less than safe_pratio_p 0.10 of the largest left without the two
# largest; a total of 0 and a single contributor fail the last. Of a total of 0 ACRO asks no (n, k)-rule; it fails here,
# and ACRO counts records of 0 as contributors, which are none here
ACRO = Rules.of(10, (2, 90), 10)
TABLES = scaled(200, fewest=40)


def failing(values: list[int], rules: Rules) -> list[bool]:
    """Of one cell with these contributions: n-rule, (n, p)-rule, p%-rule."""
    cells, owners = np.zeros(len(values), np.int64), np.arange(len(values))
    found = judge(cells, np.array(values, np.int64), owners, 1, rules)
    return [bool(found.few[0]), bool(found.dominated[0]), bool(found.told[0])]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([10] * 10, [False, False, False]),
        ([10] * 9, [True, False, False]),
        ([10] * 9 + [0], [True, False, False]),  # who has nothing does not contribute
        ([0] * 9 + [1000], [True, True, True]),
        ([900, 900, *[25] * 8], [False, False, False]),  # 90 per cent exactly is not more
        ([901, 900, *[25] * 7, 24], [False, True, False]),
        ([900, 10, *[10] * 9], [False, True, False]),  # 90 of 900 are left: 10 per cent exactly
        ([900, 10, *[10] * 8, 9], [False, True, True]),
        ([0] * 10, [True, True, True]),
        ([7], [True, True, True]),
        ([], [False, False, False]),
    ],
)
def test_golden_cases(values: list[int], expected: list[bool]) -> None:
    assert failing(values, ACRO) == expected


@given(
    hs.lists(hs.tuples(hs.integers(0, 2), hs.integers(0, 60), hs.integers(0, 4)), max_size=25),
    hs.integers(1, 4),
    hs.integers(1, 3),
    hs.sampled_from([Fraction(50), Fraction(85), Fraction(25, 2), Fraction(100)]),
)
def test_every_rule_by_hand(records: list[tuple[int, int, int]], least: int, n: int, p: Fraction) -> None:
    cells, values, owners = (np.array([r[k] for r in records], np.int64) for k in range(3))
    found = judge(cells, values, owners, 3, Rules.of(least, (n, p), p))
    for cell in range(3):
        held: Counter[int] = Counter()
        for own, value, owner in records:
            if own == cell:
                held[owner] += value
        total, many = sum(held.values()), sum(share > 0 for share in held.values())
        assert (found.totals[cell], found.contributors[cell]) == (total, many)
        fails = reference.fails_magnitude_rules(held.values(), least, n, p, p) if held else [False] * 3
        assert [found.few[cell], found.dominated[cell], found.told[cell]] == [bool(held) and many < least, *fails[1:]]


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ({}, "no rule is given"),
        ({"contributors": 0}, "contributors = 0"),
        ({"dominance": (0, 85)}, "dominance = "),
        ({"dominance": (2, 101)}, "dominance = "),
        ({"percent": 0}, "percentage = 0"),
        ({"percent": "many"}, "'many' is no percentage"),
    ],
)
def test_rules_out_of_range_are_refused(given_: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Rules.of(**given_)


def test_values_below_zero_are_refused() -> None:
    with pytest.raises(InputError, match="1 values are below 0"):
        failing([5, -1], ACRO)
    with pytest.raises(InputError, match="more than 2\\^62"):
        failing([1 << 61, 1 << 61], ACRO)


FIRMS = "region,country,firm,sales\n" + "".join(
    f"{region},{country},f{region}{k},{value}\n"
    for country, region, values in [
        ("N", "n1", [10, 11, 12, 13.5]),
        ("N", "n2", [10, 10, 10]),
        ("S", "s1", [9, 9, 9, 9]),
        ("S", "s2", [900]),
    ]
    for k, value in enumerate(values)
)
RULES = Rules.of(3, (1, 70))


@pytest.fixture
def firms(tmp_path: Path) -> Path:
    path = tmp_path / "firms.csv"
    path.write_text(FIRMS)
    return path


def only(found: tuple[MagnitudeTable, ...]) -> MagnitudeTable:
    (one,) = found
    return one


def test_a_table_of_which_every_cell_passes(firms: Path) -> None:
    firms.write_text("".join(line for line in FIRMS.splitlines(keepends=True) if not line.startswith("s2")))
    found = only(magnitude_table(firms, "sales", ["region"], RULES, contributor="firm"))
    assert found.levels == ("region",)
    assert found.rows == [
        {"region": "n1", "total": "46.5"},
        {"region": "n2", "total": "30"},
        {"region": "s1", "total": "36"},
    ]


def test_a_cell_that_fails_is_aggregated(firms: Path) -> None:
    with pytest.raises(NotReleasableError, match="fail the rules at every level"):
        magnitude_table(firms, "sales", ["region"], RULES, contributor="firm")
    firms.write_text(FIRMS.replace("900", "20"))
    found = only(
        magnitude_table(firms, "sales", ["region"], RULES, contributor="firm", hierarchies={"region": ["country"]})
    )
    assert found.levels == ("country",)
    assert found.rows == [{"region": "N", "total": "76.5"}, {"region": "S", "total": "56"}]
    assert only(magnitude_table(firms, "sales", ["region"], RULES)).levels == ("(all)",)


def test_holdings_of_a_contributor_count_as_one(firms: Path) -> None:
    firms.write_text("region,firm,sales\n" + "a,x,1\n" * 5 + "a,y,4\n")
    with pytest.raises(NotReleasableError):
        magnitude_table(firms, "sales", ["region"], RULES, contributor="firm")
    assert only(magnitude_table(firms, "sales", ["region"], RULES)).totals == (9_000_000,)
    with pytest.raises(InputError, match="repeats a contributor in 4 records"):
        magnitude_table(firms, "sales", ["region"], RULES, contributor="firm", unique=True)


def test_negative_values_are_split_by_sign(firms: Path) -> None:
    firms.write_text("region,sales\n" + "a,5\na,6\na,7\n" + "a,-1\na,-2\na,-1.5\n")
    with pytest.raises(InputError, match="3 values of 'sales' are below 0; leave them out, or split"):
        magnitude_table(firms, "sales", ["region"], RULES)
    plus, minus = magnitude_table(firms, "sales", ["region"], RULES, negative="split")
    assert (plus.part, plus.rows) == ("positive", [{"region": "a", "total": "18"}])
    assert (minus.part, minus.rows) == ("negative", [{"region": "a", "total": "-4.5"}])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("region,sales\na,\n", "1 values of 'sales' are missing"),
        ("region,sales\na,x\n", "1 values of 'sales' are no numbers"),
        ("region,sales\na,NaN\n", "1 values of 'sales' are no numbers"),
        ("region,sales\na,inf\n", "1 values of 'sales' are no numbers"),
        ("region,sales\na,1e30\n", "1 values of 'sales' are no numbers"),
        ("region,sales\na,0.0000001\n", "more than 6 decimals"),
        ("region,sales\n,1\n", "1 records have no 'region'"),
        ("region,value\na,1\n", "has no column 'sales'; did you mean value. it has region, value"),
        ("region,sales\n", "has no records"),
        ("region,sales\n( All ),1\n", "has the category \\( All \\), which stands for totals; rename it"),
        ("region,sales\na,1\nb,2.5\nTOTAL,3.5\n", "'TOTAL', by its name and its sum the total of all others"),
    ],
)
def test_a_column_that_is_none_is_refused(firms: Path, text: str, message: str) -> None:
    firms.write_text(text)
    with pytest.raises(InputError, match=message):
        magnitude_table(firms, "sales", ["region"], RULES)


def test_parquet_is_read_as_csv_is(firms: Path) -> None:
    table = pa.table({"region": ["a"] * 3, "sales": [0.1, 0.2, 0.3]})
    pq.write_table(table, firms.with_suffix(".parquet"))
    assert only(magnitude_table(firms.with_suffix(".parquet"), "sales", ["region"], RULES)).totals == (600_000,)
    with pytest.raises(InputError, match=r"is no \.csv or \.parquet file"):
        magnitude_table("records.txt", "sales", ["region"], RULES)
    with pytest.raises(InputError, match="cannot be read"):
        magnitude_table(firms.with_name("none.csv"), "sales", ["region"], RULES)


@given(hs.decimals(-(10**9), 10**9, places=6))
def test_a_sum_is_written_as_it_is(number: Decimal) -> None:
    assert Decimal(written(int(number.scaleb(6)))) == number


Record = tuple[str, str, str, int]  # region, size, firm, sales


def drawn_records(rng: np.random.Generator) -> list[Record]:
    """Firms with one record or several, now and then of 0."""
    many, firms, most = int(rng.integers(8, 90)), int(rng.integers(8, 60)), int(rng.integers(1, 9))
    region, other, firm, value = (rng.integers(0, end, many).tolist() for end in (3, 3, firms, most + 1))
    # where the size mostly goes with the region differences are of few records
    is_other = rng.random(many) < rng.choice([0.1, 0.9])
    size = np.where(is_other, other, region).tolist()
    return [(f"r{region[k]}", f"s{size[k]}", f"f{firm[k]}", value[k]) for k in range(many)]


def records_in(path: Path, records: list[Record]) -> Path:
    path.write_text("region,size,firm,sales\n" + "".join(",".join(map(str, row)) + "\n" for row in records))
    return path


def fails(records: list[Record], rule: tuple[int, int, int, int]) -> bool:
    """Any of the three rules, of the sum of these records."""
    held: Counter[str] = Counter()
    for _, _, firm, value in records:
        held[firm] += value
    return any(reference.fails_magnitude_rules(held.values(), *rule))


def told_by(records: list[Record], tables: tuple[MagnitudeTable, ...]) -> list[list[Record]]:
    """The records of each sum that follows from the tables' as differences and sums of them."""
    atoms, cells = sorted({record[:2] for record in records}), [cell for table in tables for cell in table.cells]
    known = np.array([[cell[0] in (ALL, a) and cell[1] in (ALL, b) for a, b in atoms] for cell in cells], float)
    sums = np.array([*product((0.0, 1.0), repeat=len(atoms))])[1:]
    follows = np.abs(sums @ pinv(known) @ known - sums).max(axis=1) < 1e-6
    inside = ({atom for atom, taken in zip(atoms, one, strict=True) if taken} for one in sums[follows])
    return [[record for record in records if record[:2] in chosen] for chosen in inside]


def test_no_difference_of_groupings_fails_a_rule(tmp_path: Path, night: list[int]) -> None:
    """Every sum that follows from what is published, its records added up by hand."""
    rng, told = np.random.default_rng([7, *night]), []
    for _ in range(TABLES):
        records, rule = drawn_records(rng), (int(rng.integers(1, 4)), int(rng.integers(1, 3)), 90, 10)
        path, rules = records_in(tmp_path / "t.csv", records), Rules.of(rule[0], rule[1:3], rule[3])
        also = [["size"], ["region", "size"]][: rng.integers(1, 3)]
        try:
            found = magnitude_table(path, "sales", ["region"], rules, also=also, contributor="firm")
        except NotReleasableError:
            assert fails(records, rule)
            continue
        sums = told_by(records, found)
        assert not any(fails(one, rule) for one in sums)
        told.append(len(sums))
    assert len(told) > TABLES // 2
    assert sum(many > 3 for many in told) > TABLES // 10, sorted(told)  # not totals alone


def test_groupings_whose_difference_fails_a_rule_become_coarser(tmp_path: Path) -> None:
    """Each passes by itself, and s0 less r0 is what firm 4 has."""
    cells = ["r0 s0"] * 4 + ["r1 s0"] + ["r1 s1"] * 3
    records = [(*cell.split(), f"firm {k}", 5) for k, cell in enumerate(cells)]
    path, rules = records_in(tmp_path / "t.csv", records), Rules.of(3)
    assert only(magnitude_table(path, "sales", ["region"], rules)).levels == ("region",)
    assert only(magnitude_table(path, "sales", ["size"], rules)).levels == ("size",)
    regions, total = magnitude_table(path, "sales", ["region"], rules, also=[["size"]])
    assert [row["total"] for row in regions.rows] == ["20", "20"]
    assert total.rows == [{"region": ALL, "size": ALL, "total": "40"}]


@pytest.mark.parametrize(
    ("variables", "also", "hierarchies", "message"),
    [
        (["region", "region"], [], {}, r"region\*region is named twice, or names a variable twice"),
        (["region"], [["region"]], {}, "region is named twice"),
        (["sales"], [], {}, "'sales' is summed, and would be published by its own values"),
        (["region"], [], {"firm": ["region"]}, "a hierarchy is given of 'firm', which no grouping has"),
        (["colour"], [], {}, "has no column 'colour'"),
    ],
)
def test_groupings_that_make_no_table_are_refused(
    firms: Path, variables: list[str], also: list[list[str]], hierarchies: dict[str, list[str]], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        magnitude_table(firms, "sales", variables, RULES, also=also, hierarchies=hierarchies)
