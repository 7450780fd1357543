"""pxwebpy, as it is on PyPI, reads a running server and a release folder behind `python -m http.server`."""

import csv
import json
from collections.abc import Iterator
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sdc.config.publication import PublicationConfig
from sdc.model import subtable as st
from sdc.model.labels import Labels, VariableLabels
from sdc.model.schema import Coarser, Schema, Variable
from sdc.model.table import Table
from sdc.publish.publication import Texts
from sdc.risk.criteria import Criteria
from tests.helpers.http import hosted, running, server_of
from tests.helpers.services import open_service, released
from tests.helpers.small_service import SmallService
from tests.integration.verify.signing import built

pxweb = pytest.importorskip("pxweb")

CODES = ("01", "1", "001", "NA", "-", "=1+1", "a,b", "*", "é", "<b>", 'say "no"', " ")
MANY = tuple(f"{number:03}" for number in range(300))
SCHEMA = Schema(
    (
        Variable("region", ("north", "south"), Coarser("area", tuple(number // 150 for number in range(300)))),
        Variable("a b/ä-c", CODES),
        Variable("area", MANY),
    )
)
LABELS = Labels({"a b/ä-c": VariableLabels("Code"), "area": VariableLabels("Area"), "region": VariableLabels("Region")})
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def table() -> Table:
    rng = np.random.default_rng(1)
    codes = np.stack([rng.integers(0, len(CODES), 5000), rng.integers(0, 300, 5000)], axis=1)
    return Table.of(SCHEMA, codes.repeat(5, axis=0))


@pytest.fixture(scope="module")
def api(table: Table) -> Iterator[Any]:
    service = SmallService(table, Criteria.of(1, 1))
    service.texts = Texts(PublicationConfig(title="Areas", period="2024-03"), LABELS)
    released(service, st.named(["area", "a b/ä-c"], SCHEMA))
    with running(server_of(service).app) as url:
        yield pxweb.PxApi(f"{url}/pxapi/v2")


def counts(rows: Rows, *labels: str) -> dict[tuple[str, ...], int | None]:
    found = {tuple(row[label] for label in labels): row["value"] for row in rows}
    assert len(found) == len(rows)
    return found


def expected(table: Table) -> dict[tuple[str, ...], int]:
    every = dict.fromkeys(product(CODES, MANY), 0)
    cells = zip(table.codes.tolist(), table.counts.tolist(), strict=True)
    return every | {(CODES[code], MANY[area]): count for (code, area), count in cells}


WHOLE = "a~20b~2F~C3~A4~2Dc-area"


def test_a_server_is_listed_and_searched(api: Any) -> None:
    found = api.all_tables()
    assert WHOLE in [one["id"] for one in found]
    assert api.number_of_tables == len(found)
    assert {one["id"] for one in api.search("AREA code")["tables"]} >= {WHOLE}
    assert api.search("nothing of that")["tables"] == []
    assert api.get_config()["maxDataCells"] == 100_000


def test_every_cell_of_a_server_is_read(api: Any, table: Table) -> None:
    """By one selection, and by many of few cells, into which pxwebpy splits what is too large."""
    assert counts(api.get_table_data(WHOLE, show="code"), "Code", "Area") == expected(table)
    assert counts(api.get_table_data_all(WHOLE, show="code"), "Code", "Area") == expected(table)
    api._client.configuration["maxDataCells"] = 500
    try:
        assert counts(api.get_table_data_all(WHOLE, show="code"), "Code", "Area") == expected(table)
    finally:
        api._client.configuration["maxDataCells"] = 100_000


def test_selections_are_read(api: Any, table: Table) -> None:
    found = api.get_table_data(WHOLE, {"a b/ä-c": ["01", "a,b", "*"], "area": ["00*"]}, show="code")
    assert counts(found, "Code", "Area") == {c: n for c, n in expected(table).items() if c[1].startswith("00")}
    found = api.get_table_data(WHOLE, {"a b/ä-c": ["01", "a,b", "é"], "area": ["TOP(2)", "299"]}, show="code")
    wanted = {c: n for c, n in expected(table).items() if c[0] in ("01", "a,b", "é") and c[1] in ("000", "001", "299")}
    assert counts(found, "Code", "Area") == wanted
    assert {row["time"] for row in found} == {"2024-03"}


def test_levels_are_read_by_their_code_list(api: Any, table: Table) -> None:
    (listed,) = api.get_table_variables(WHOLE)["area"]["codelists"]
    assert (listed["id"], [one["code"] for one in api.get_code_list(listed["id"])["values"]]) == (
        "agg_area-region",
        ["north", "south"],
    )
    found = api.get_table_data(WHOLE, {"a b/ä-c": ["01"], "area": ["*"]}, code_list={"area": listed["id"]}, show="code")
    sums = dict.fromkeys((("01", "north"), ("01", "south")), 0)
    for (code, area), count in expected(table).items():
        if code == "01":
            sums[code, "north" if int(area) < 150 else "south"] += count
    assert counts(found, "Code", "Area") == sums


def test_problems_are_reported_with_their_titles(api: Any) -> None:
    with pytest.raises(Exception, match=r"Error 400: Bad Request\nType: Parameter error\nTitle: Non-existent value"):
        api.get_table_data(WHOLE, {"a b/ä-c": ["01"], "area": ["300"]})
    with pytest.raises(Exception, match="Title: Non-existent table"):
        api.get_table_metadata("no-such")


def test_suppressed_cells_of_a_server_are_read(czech: Table, tmp_path: Path) -> None:
    with closing(open_service(czech, tmp_path)) as service:
        released(service, 0b111111, in_part=True)
        with running(server_of(service).app) as url:
            api = pxweb.PxApi(f"{url}/pxapi/v2")
            found = api.get_table_data("A-B-C-D-E-F", {v: ["*"] for v in "ABCDEF"})
            answer = service.in_part(0b111111)
            assert answer is not None
            assert sum(row["value"] is None for row in found) == len(answer.suppressed) > 0
            assert sum(row["value"] or 0 for row in found) == answer.marginal.total


def listed(folder: Path, names: list[str]) -> dict[tuple[str, ...], int | None]:
    """The cells of the table of these variables as its CSV file has them."""
    resources = json.loads((folder / "datapackage.json").read_text())["resources"]
    (path,) = (one["path"] for one in resources if one.get("sub_table") == names and one["format"] == "csv")
    with (folder / path).open(encoding="utf-8", newline="") as file:
        _, *rows = csv.reader(file)
    cells = ((tuple(text.removeprefix("'") for text in row[:2]), row[2]) for row in rows)
    return {cell: int(count) if count else None for cell, count in cells}


def test_a_release_is_an_api_behind_a_file_host(tmp_path: Path) -> None:
    """Every table, suppressed ones too, as its CSV file has it."""
    rng, number = np.random.default_rng(4), 4000
    codes = {
        "area": rng.integers(0, 300, number),
        "a b/ä": rng.geometric(0.4, number) % 6,
        "sex": rng.integers(0, 2, number),
    }
    names = {"area": MANY, "a b/ä": CODES[:6], "sex": ("f", "m")}
    rows = zip(*([names[v][code] for code in own.tolist()] for v, own in codes.items()), strict=True)
    (tmp_path / "people.csv").write_text("\n".join([",".join(codes), *map(",".join, rows)]) + "\n")
    run = built(
        tmp_path,
        table={"path": "people.csv", "max_categories": 300},
        risk={"min_width": 2, "small_count": 1},
        release={"require": ["a b/ä*sex", "area*sex"], "protect": "suppression", "required_only": True},
        publication={"formats": ["csv", "pxapi"], "title": "People", "period": "2024", "licence": "CC-BY-4.0"},
        labels={"variables": {"sex": {"label": "Sex", "categories": {"f": "women", "m": "men"}}}},
    )
    with hosted(run / "release") as url:
        api = pxweb.PxApi(f"{url}/pxapi/v2")
        found = {one["id"]: one for one in api.all_tables()}
        assert {"a~20b~2F~C3~A4-sex", "area-sex"} == {*found}
        assert len(api.search("anything")["tables"]) == 2
        for own, one in found.items():
            labels = one["variableNames"][:-2]
            variables = api.get_table_variables(own)
            assert [variables[v]["label"] for v in variables] == [*labels, "contents", "time"]
            read = counts(api.get_table_data(own, show="code"), *labels)
            assert {cell: n for cell, n in read.items() if n != 0} == listed(run / "release", [*variables][:-2])
        women = {row["Sex"] for row in api.get_table_data("area-sex")}
        assert women == {"women", "men"}
