"""Dominance rules against sums done by hand, and magnitude tables at the finest levels that pass."""

import math
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

from sdc.api import magnitude_table
from sdc.model.errors import InputError, NotReleasableError
from sdc.protect.dominance import Rules, judge
from sdc.protect.magnitude import ALL, MagnitudeTable, written
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
    found = judge(cells, np.array(values, object if max(values, default=0) >> 62 else np.int64), owners, 1, rules)
    return [bool(found.few[0]), bool(found.dominated[0]), bool(found.estimable[0])]


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
        assert [found.few[cell], found.dominated[cell], found.estimable[cell]] == [
            bool(held) and many < least,
            *fails[1:],
        ]


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ({}, "no rule is given"),
        ({"contributors": 0}, "contributors = 0"),
        ({"dominance": (0, 85)}, "dominance = "),
        ({"dominance": (2, 101)}, "dominance = "),
        ({"percent": 0}, "percent = 0; a percentage is a number above 0"),
        *(({"percent": odd}, "a percentage is") for odd in ("many", "1_0", "1/0", "-1", [1], math.nan, math.inf, True)),
        *(({"dominance": odd}, "dominance = ") for odd in (5, (2,), "1:70", (1.5, 70), (1, None), (True, 70))),
        *(({"contributors": odd}, "contributors = ") for odd in ("3", 2.5, True, -1)),
    ],
)
def test_rules_out_of_range_are_refused(given_: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Rules.of(**given_)


def test_values_below_zero_are_refused() -> None:
    with pytest.raises(InputError, match="1 value below 0"):
        failing([5, -1], ACRO)


def test_sums_beyond_64_bits_are_exact() -> None:
    """By shares of the largest that floats and 64 bits do not tell apart."""
    rest = [10**24] * 3
    for more, fails in ((0, False), (1, True)):
        assert failing([7 * 10**24 + more, *rest], Rules.of(dominance=(1, 70))) == [False, fails, False]


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
RULES: dict[str, Any] = {"contributors": 3, "dominance": (1, 70)}


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
    found = only(magnitude_table(firms, value="sales", by=["region"], **RULES, contributor="firm"))
    assert found.levels == ("region",)
    assert found.rows == [
        {"region": "n1", "total": "46.5"},
        {"region": "n2", "total": "30"},
        {"region": "s1", "total": "36"},
    ]


def test_a_cell_that_fails_is_aggregated(firms: Path) -> None:
    with pytest.raises(NotReleasableError, match="fail the rules at every level"):
        magnitude_table(firms, value="sales", by=["region"], **RULES, contributor="firm")
    firms.write_text(FIRMS.replace("900", "20"))
    found = only(
        magnitude_table(
            firms, value="sales", by=["region"], **RULES, contributor="firm", hierarchies={"region": ["country"]}
        )
    )
    assert found.levels == ("country",)
    assert found.rows == [{"country": "N", "total": "76.5"}, {"country": "S", "total": "56"}]
    assert only(magnitude_table(firms, value="sales", by=["region"], **RULES)).levels == ("(all)",)


def test_holdings_of_a_contributor_count_as_one(firms: Path) -> None:
    firms.write_text("region,firm,sales\n" + "a,x,1\n" * 5 + "a,y,4\n")
    with pytest.raises(NotReleasableError):
        magnitude_table(firms, value="sales", by=["region"], **RULES, contributor="firm")
    assert only(magnitude_table(firms, value="sales", by=["region"], **RULES)).totals == (9_000_000,)
    with pytest.raises(InputError, match="repeats a contributor in 4 records"):
        magnitude_table(firms, value="sales", by=["region"], **RULES, contributor="firm", unique=True)


def test_negative_values_are_split_by_sign(firms: Path) -> None:
    firms.write_text("region,sales\n" + "a,5\na,6\na,7\n" + "a,-1\na,-2\na,-1.5\n")
    with pytest.raises(InputError, match="3 values of 'sales' below 0; leave them out, or split"):
        magnitude_table(firms, value="sales", by=["region"], **RULES)
    plus, minus = magnitude_table(firms, value="sales", by=["region"], **RULES, negative="split")
    assert (plus.part, plus.rows) == ("positive", [{"region": "a", "total": "18"}])
    assert (minus.part, minus.rows) == ("negative", [{"region": "a", "total": "-4.5"}])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("region,sales\na,\n", "1 missing value of 'sales'"),
        ("region,sales\na,x\n", "1 value of 'sales', the first in record 1, are not numbers"),
        ("region,sales\na,NaN\n", "1 value of 'sales', the first in record 1, are not numbers"),
        ("region,sales\na,inf\n", "1 value of 'sales', the first in record 1, are not numbers"),
        ("region,sales\na,2\na,1_200\n", r"the first in record 2, are not numbers with the decimal sign '\.'"),
        ("region,sales\na,\u0661\n", "1 value of 'sales', the first in record 1, are not numbers"),
        ("region,sales\na,1e30\n", r"are above 10\^18"),
        ("region,sales\na,1000000000000000000.1\n", r"are above 10\^18"),
        ("region,sales\na,1e-19\n", "have more than 18 decimals; set decimals"),
        ("region,sales\n,1\n", "1 record without a value of 'region'"),
        ("region,value\na,1\n", "has no column 'sales'; did you mean value. it has region, value"),
        ("region,sales\n", "has no records"),
        ("region,sales\n( All ),1\n", "has the category \\( All \\), which stands for totals; rename it"),
        ("region,sales\na,1\nb,2.5\nTOTAL,3.5\n", "'TOTAL', by its name and its sum the total of all others"),
    ],
)
def test_a_column_that_is_none_is_refused(firms: Path, text: str, message: str) -> None:
    firms.write_text(text)
    with pytest.raises(InputError, match=message):
        magnitude_table(firms, value="sales", by=["region"], **RULES)


def test_parquet_is_read_as_csv_is(firms: Path) -> None:
    table = pa.table({"region": ["a"] * 3, "sales": [0.1, 0.2, 0.3]})
    pq.write_table(table, firms.with_suffix(".parquet"))
    assert only(magnitude_table(firms.with_suffix(".parquet"), value="sales", by=["region"], **RULES)).totals == (
        600_000,
    )


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
        path = records_in(tmp_path / "t.csv", records)
        rules: dict[str, Any] = {"contributors": rule[0], "dominance": rule[1:3], "percent": rule[3]}
        also = [["size"], ["region", "size"]][: rng.integers(1, 3)]
        try:
            found = magnitude_table(path, value="sales", by=["region"], **rules, also=also, contributor="firm")
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
    path, rules = records_in(tmp_path / "t.csv", records), {"contributors": 3}
    assert only(magnitude_table(path, value="sales", by=["region"], **rules)).levels == ("region",)
    assert only(magnitude_table(path, value="sales", by=["size"], **rules)).levels == ("size",)
    regions, total = magnitude_table(path, value="sales", by=["region"], **rules, also=[["size"]])
    assert [row["total"] for row in regions.rows] == ["20", "20"]
    assert total.rows == [{"region": ALL, "size": ALL, "total": "40"}]


@pytest.mark.parametrize(
    ("variables", "also", "hierarchies", "message"),
    [
        (["region", "region"], [], {}, r"region\*region is listed twice, or lists a variable twice"),
        (["region"], [["region"]], {}, "region is listed twice"),
        (["sales"], [], {}, "'sales' is summed, and would be published by its own values"),
        (["region"], 3, {}, "also is a list of groupings"),
        (["region"], [], ["region"], "hierarchies gives a variable its coarser columns"),
        (["region"], [], {"region": 3}, "hierarchies gives a variable its coarser columns"),
        (["region"], [], {"firm": ["region"]}, "a hierarchy is given for 'firm', which no grouping has"),
        (["colour"], [], {}, "has no column 'colour'"),
        ([], [], {}, "a table has no grouping variable"),
        (["region"], [], {"region": ["region"]}, "hierarchy of 'region' names region; name each level once"),
        (["total"], [], {}, "a column of sums is called 'total'"),
    ],
)
def test_groupings_that_make_no_table_are_refused(
    firms: Path, variables: list[str], also: Any, hierarchies: Any, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        magnitude_table(firms, value="sales", by=variables, **RULES, also=also, hierarchies=hierarchies)


def test_one_contributor_in_two_spellings(tmp_path: Path) -> None:
    """Alba holds 900 of 1,000 in the north, by whatever letters."""
    rest = "north,Borg,60\nnorth,Cork,40\n" + "".join(f"south,{name},100\n" for name in ("Dell", "Esk", "Fern"))
    path, by = tmp_path / "firms.csv", {"contributor": "firm", "contributors": 2, "dominance": (1, 80)}
    for one, other in (
        ("Alba", "Alba "),
        ("Alba", "ALBA"),
        ("Alb\u00e4", "Alba\u0308"),
        ("7", "7.0"),
        ("A", "\u200bA"),
    ):
        path.write_text(f"region,firm,sales\nnorth,{one},500\nnorth,{other},400\n{rest}")
        with pytest.raises(InputError, match=r"column 'firm': 1 value differs from others") as refused:
            magnitude_table(path, value="sales", by=["region"], **by)
        assert all(ascii(name) in refused.value.detail for name in (one, other))
        assert only(magnitude_table(path, value="sales", by=["region"], **by, alike="keep")).levels == ("region",)
        (merged,) = magnitude_table(path, value="sales", by=["region"], **by, alike="merge")
        assert merged.levels == (ALL,)
        assert [str(cell) for cell in merged.failing] == [
            "region=north: fails dominance 1:80, the 1 largest hold 900 of 1000, 90 %"
        ]
    path.write_text(f"region,firm,sales\nnorth,7,500\nnorth,007,400\n{rest}")
    assert only(magnitude_table(path, value="sales", by=["region"], **by)).levels == ("region",)  # two codes
    path.write_text(f"region;firm;sales\nnorth;7;500\nnorth;7,0;400\n{rest.replace(',', ';')}")
    with pytest.raises(InputError, match="column 'firm': 1 value differs from others only in how numbers"):
        magnitude_table(path, value="sales", by=["region"], **by, csv={"delimiter": ";", "decimal": ","})
    path.write_text(f"region,firm,sales\nnorth, ,900\n{rest}")
    with pytest.raises(InputError, match=r"firms\.csv: column 'firm': 1 value differs from others only in blanks"):
        magnitude_table(path, value="sales", by=["region"], **by)
    with pytest.raises(InputError, match=r"firms\.csv: 1 record without a value of 'firm'"):
        magnitude_table(path, value="sales", by=["region"], **by, alike="merge")
    path.write_text(f"region,firm,sales\nnorth,NA,900\n{rest}")
    with pytest.raises(InputError, match="1 record without a value of 'firm'"):  # NA is nobody's name
        magnitude_table(path, value="sales", by=["region"], **by, csv={"missing": ["NA"]})
    with pytest.raises(InputError, match=r"csv\.missing names 'form', which is not a column"):
        magnitude_table(path, value="sales", by=["region"], **by, csv={"missing": {"form": ["NA"]}})
    path.write_text(f"region,firm,sales\nnorth,Alba,500\nNorth,Alba,400\n{rest}")
    with pytest.raises(InputError, match="column 'region': 1 value differs from others"):
        magnitude_table(path, value="sales", by=["region"], **by)


def test_a_refusal_names_each_cell_that_fails_and_by_how_much(firms: Path) -> None:
    firms.write_text("region,country,firm,sales\na,A,x,90\na,A,y,10\nb,A,z,0\n")
    with pytest.raises(NotReleasableError) as refused:
        magnitude_table(
            firms,
            value="sales",
            by=["region"],
            contributors=3,
            dominance=(1, 85),
            percent=15,
            hierarchies={"region": "country"},
        )
    assert str(refused.value) == "sums of 'sales' fail the rules at every level, the total too; nothing is published"
    assert refused.value.detail.splitlines()[:6] == [
        "region=a: fails contributors 3, 2 contribute",
        "region=a: fails dominance 1:85, the 1 largest hold 90 of 100, 90 %",
        "region=a: fails percent 15, without the 2 largest 0 are left, the largest holds 90, 0 %",
        "region=b: fails contributors 3, 0 contribute",
        "region=b: fails dominance 1:85, the 1 largest hold 0 of 0",
        "region=b: fails percent 15, without the 2 largest 0 are left, the largest holds 0",
    ]
    assert "country=A: fails contributors 3, 2 contribute" in refused.value.detail
    assert refused.value.detail.splitlines()[-1].startswith("the total: fails percent 15")


def test_levels_are_published_by_their_names(tmp_path: Path) -> None:
    """Where codes repeat across levels, as places 1 to 4 in counties 1 and 2; and two variables at one level."""
    path = tmp_path / "places.csv"
    rows = ["1,1,u,f0,90", *(f"2,1,u,f{k},100" for k in (1, 2, 3)), *(f"3,2,v,f{k},100" for k in (4, 5, 6, 7))]
    path.write_text("place,county,size,firm,v\n" + "\n".join([*rows, "4,2,v,f8,5"]))
    by = {"contributors": 3, "contributor": "firm", "hierarchies": {"place": ["county"]}}
    sums = [{"county": "1", "total": "390"}, {"county": "2", "total": "405"}]
    found = only(magnitude_table(path, value="v", by=["place"], **by))
    assert (found.rows, found.levels, found.variables) == (sums, ("county",), ("place",))
    assert found.to_arrow().column_names == ["county", "total"]
    assert repr(found) == "Sums by county of 2 cells; whose by firm"
    assert [
        row for one in magnitude_table(path, value="v", by=["place"], **by, also=["county"]) for row in one.rows
    ] == sums
    both, sizes = magnitude_table(path, value="v", by=["place", "county"], **by, also=[["size"]])
    assert both.rows == [{**row, "size": ALL} for row in sums]
    assert sizes.rows[0] == {"county": ALL, "size": "u", "total": "390"}
    path.write_text(path.read_text() + "\n4,1,v,f9,5")
    with pytest.raises(
        InputError, match="hierarchy of 'place' is not nested: 1 of the categories of 'place'"
    ) as refused:
        magnitude_table(path, value="v", by=["place"], **by)
    assert refused.value.detail == "place = 4"


def test_numbers_are_kept_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"

    def total(values: Any, **settings: Any) -> str:
        pq.write_table(pa.table({"region": ["a"] * len(values), "v": values}), path)
        found = only(magnitude_table(path, value="v", by=["region"], contributors=1, **settings))
        assert "each record has its own contributor" in repr(found)
        return str(found.rows[0]["total"])

    assert total([10**18, 10**18 - 1, 1]) == "2000000000000000000"
    assert total(pa.array([10**18 - 1] * 20, pa.uint64())) == "19999999999999999980"
    assert total([Decimal("0.00000001"), Decimal("999999999999.99999999")]) == "1000000000000"
    assert total([0.1 + 0.2, 1e-9]) == "0.3"
    assert total([0.0000005, 0.0000015]) == "0.000002"  # half to even
    assert total(pa.array([0.1, 1e6], pa.float32())) == "1000000.1"
    assert total(pa.array([0.5, 2], pa.float16())) == "2.5"
    assert total(["0.30000000000000004", "1e-18", "+.5", "2."]) == "2.800000000000000041"
    assert total(["0.15", "0.25", "1e-400"], decimals=1) == "0.4"
    assert total(["-2.5", "-1.5"], decimals=0, negative="split") == "-4"
    assert total(pa.array([1.5, 1.5, 2]).dictionary_encode()) == "5"
    for values, settings, message in (
        ([True], {}, "'v' has the type bool"),
        ([1], {"decimals": 19}, "decimals = 19; give a whole number from 0 to 18"),
        ([1], {"unique": True}, "unique = True, and no column identifies"),
        ([-1], {"negative": "splt"}, "negative = 'splt'; choose refuse or split"),
        ([1], {"alike": "all"}, "alike = 'all'; choose refuse or keep or merge"),
    ):
        with pytest.raises(InputError, match=message):
            total(values, **settings)
