"""Builds of a file with survey weights: what goes out, what verify says, and what is refused."""

import csv
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

import sdc
from sdc.model.errors import ConfigError, InputError, ReleaseError, RunFolderError
from sdc.stages.build import open_build
from sdc.stages.finished import Built
from sdc.storage.certificate import read_weighted
from sdc.verify.run_folder import verify
from tests.helpers.builds import built, written

ROUND = 500
RECORDS = 600
NAMES = ["a", "c", "e"]


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> pa.Table:
    generator = np.random.default_rng(3)
    a = generator.integers(0, 4, RECORDS)
    c = (a + generator.integers(0, 3, RECORDS)) % 4
    e = (generator.random(RECORDS) ** 3 * 5).astype(int)
    weights = np.round(generator.lognormal(5, 0.7, RECORDS), 2)
    return pa.table({"a": a, "c": c, "e": e, "w": weights})


def build_of(folder: Path, records: pa.Table, **more: Any) -> Path:
    """The run folder of a build of the records; `more` are sections of the config."""
    folder.mkdir(exist_ok=True)
    pq.write_table(records, folder / "records.parquet")
    sections = {
        "table": {"path": "records.parquet", "weight": "w"},
        "risk": {"min_width": 4},
        "release": {"method": "ordered"},
        "weighted": {"round": ROUND},
        **more,
    }
    return built(written(folder, **sections)).folder.path


@pytest.fixture(scope="module")
def run(records: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_of(tmp_path_factory.mktemp("weighted"), records)


def test_totals_are_those_of_the_records(run: Path, records: pa.Table) -> None:
    """Counted and summed again by Arrow, which keeps weights as doubles."""
    metadata = json.loads((run / "release" / "datapackage.json").read_text())
    tables = [resource for resource in metadata["resources"] if resource["path"].startswith("0")]
    weighted = [t for t in tables if t["schema"]["fields"][-1]["name"] == "weighted_total"]
    assert len(weighted) >= 2
    for resource in weighted:
        path, names = run / "release" / resource["path"], resource["sub_table"]
        found = pa_csv.read_csv(path) if path.suffix == ".csv" else pq.read_table(path)
        own = (
            records.group_by(names).aggregate([("w", "sum"), ("w", "count")]).sort_by([(n, "ascending") for n in names])
        )
        assert found["count"].to_pylist() == own["w_count"].to_pylist()
        nearest = np.floor(np.round(own["w_sum"].to_numpy(), 2) / ROUND + 0.5) * ROUND
        assert found["weighted_total"].to_pylist() == nearest.astype(int).tolist()
    total = round(pc.sum(records["w"]).as_py() / ROUND) * ROUND
    assert metadata["weighted"] == {"round": ROUND, "total": total}
    guide = (run / "release" / "README.txt").read_text()
    assert f"rounded to a multiple of {ROUND}" in guide
    assert f"{RECORDS} of them stand for about {total:,}" in guide


def test_it_is_verified_and_told(run: Path) -> None:
    found = verify(run)
    assert found.verified
    assert found.certified_cells == found.at_risk_cells > 0
    report = (run / "confidential" / "report.html").read_text()
    assert f"rounded to multiples of {ROUND}" in report
    assert "the smallest and largest weight of each category" in report


def test_sample_uniques_by_their_weights(records: pa.Table, tmp_path: Path) -> None:
    """Of each record that is alone in its cell, found again by Arrow; beside a fraction the model is asked."""
    few = records.slice(0, 150)
    run = build_of(tmp_path / "run", few, uniques={})
    grouped = few.group_by(NAMES).aggregate([("w", "sum"), ("w", "count")]).to_pylist()
    expected = {tuple(str(row[name]) for name in NAMES): row["w_sum"] for row in grouped if row["w_count"] == 1}
    found = pq.read_table(run / "uniques" / "cells.parquet").to_pylist()
    assert {tuple(row[name] for name in NAMES): row["population"] for row in found} == pytest.approx(expected)
    assert [row["population_unique"] for row in found] == pytest.approx([1 / row["population"] for row in found])
    document = json.loads((run / "uniques" / "uniques.json").read_text())
    assert document["estimator"] == "weights, negative binomial"
    assert document["fraction"] == pytest.approx(150 / pc.sum(few["w"]).as_py())
    assert "(Benedetti and Franconi 1998)" in (run / "confidential" / "report.html").read_text()
    assert verify(run).verified
    by_model = build_of(tmp_path / "model", few, uniques={"fraction": 0.1})
    assert json.loads((by_model / "uniques" / "uniques.json").read_text())["model"].startswith("[")
    rows = in_python(few, few, "w", {}).to_arrow().to_pylist()
    assert {tuple(row[name] for name in NAMES): row["population"] for row in rows} == pytest.approx(expected)
    own = Built({"run_folder": str(run)})
    assert sdc.uniques(own.table, record_weights=own.weights).to_arrow().to_pylist() == rows
    assert in_python(few, few, "w", {"fraction": 0.1}).model == in_python(few, few, None, {"fraction": 0.1}).model


def in_python(few: pa.Table, of: pa.Table, column: str | None, given: dict[str, Any]) -> Any:
    weights = {} if column is None else {"record_weights": sdc.read_weights(of, column, variables=NAMES)}
    return sdc.uniques(sdc.read_table(few, variables=NAMES), **weights, **given)


@pytest.mark.parametrize(
    ("column", "given", "message"),
    [
        (None, {}, "the population is unknown; give the fraction of it that is in the sample, or the weights"),
        ("w", {"model": "best"}, "model = 'best' is given without a fraction, and weights have no model; give a fract"),
        ("below", {}, "alone in a cell with a weight below 1"),
        ("v", {}, "weight names 'v', which is not a column of the data frame"),
    ],
)
def test_what_python_says_of_no_population(
    records: pa.Table, column: str | None, given: dict[str, Any], message: str
) -> None:
    few = records.slice(0, 150).append_column("below", pa.array(np.linspace(0.5, 3, 150)))
    with pytest.raises(InputError, match=message):
        in_python(few, few, column, given)
    with pytest.raises(InputError, match="the weights do not fit the table"):
        in_python(few, records, "w", {})


def test_it_is_the_same_again(run: Path, records: pa.Table, tmp_path: Path) -> None:
    """Also of the records in another order: the same bytes."""
    order = np.random.default_rng(1).permutation(len(records))
    again = build_of(tmp_path / "again", records.take(order))
    for name in ("weighted.json", "pairs.parquet"):
        assert (again / "weighted" / name).read_bytes() == (run / "weighted" / name).read_bytes()
    assert (again / "table" / "weights.parquet").read_bytes() == (run / "table" / "weights.parquet").read_bytes()


def test_instead_of_counts(records: pa.Table, tmp_path: Path) -> None:
    run = build_of(tmp_path, records, weighted={"round": ROUND, "publish": "instead"})
    for path in (run / "release").glob("0*.csv"):
        assert "count" not in path.read_text().splitlines()[0].split(",")
    assert verify(run).verified


def test_exact_totals_are_withheld(records: pa.Table, tmp_path: Path) -> None:
    """Of weights with two decimals, a total rounded to 1 leaves too little room for some cell."""
    run = build_of(tmp_path, records, weighted={"round": 1, "programs": 50})
    found = json.loads((run / "weighted" / "weighted.json").read_text())
    assert found["withheld"]
    metadata = json.loads((run / "release" / "datapackage.json").read_text())
    shown = {tuple(r["sub_table"]) for r in metadata["resources"] if "weighted_total" in json.dumps(r)}
    assert shown == {tuple(names) for names in found["totals"] if names}
    assert verify(run).verified
    assert "The choice depends on the records" in (run / "confidential" / "report.html").read_text()


def changed(run: Path, folder: Path, change: dict[str, Any]) -> Path:
    """A copy of the run with columns of its pairs changed."""
    copy = folder / "copy"
    shutil.copytree(run, copy)
    path = copy / "weighted" / "pairs.parquet"
    table = pq.read_table(path)
    for name, new in change.items():
        column = table[name].to_numpy().copy()
        column[0] = new(column[0])
        table = table.set_column(table.column_names.index(name), name, pa.array(column))
    pq.write_table(table, path)
    return copy


@pytest.mark.parametrize(
    "change",
    [
        {"shift": lambda value: value + 10**12},
        {"shift": lambda value: value - 10**12},
        {"change": lambda value: value - 10**4},
        {"shift": lambda value: np.iinfo(np.int64).min},
    ],
)
def test_verify_refuses_a_forged_pair(run: Path, tmp_path: Path, change: dict[str, Any]) -> None:
    found = verify(changed(run, tmp_path, change))
    assert any("1 feasible pairs of counts and totals are none" in failure for failure in found.failures)


def test_verify_refuses_totals_that_were_not_judged(run: Path, tmp_path: Path) -> None:
    copy = changed(run, tmp_path, {})
    path = copy / "weighted" / "weighted.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "totals": content["totals"][:1]}))
    assert any("which were not judged" in failure for failure in verify(copy).failures)


def test_verify_counts_every_cell_that_has_no_pair(run: Path, tmp_path: Path) -> None:
    copy = changed(run, tmp_path, {})
    pairs, path = copy / "weighted" / "pairs.parquet", copy / "weighted" / "weighted.json"
    pq.write_table(pq.read_table(pairs).slice(0, 0), pairs)
    path.write_text(json.dumps({**json.loads(path.read_text()), "pairs": 0}))
    found = "\n".join(verify(copy).failures)
    assert re.search(r"beside the totals of weights (\d+) of \1 at-risk cells are not proven", found)


@pytest.mark.parametrize("base", [0, -1_000_000, 1, 1_500_000, 1e6])
def test_verify_refuses_totals_that_are_rounded_to_no_whole_number(run: Path, tmp_path: Path, base: float) -> None:
    copy = changed(run, tmp_path, {})
    path = copy / "weighted" / "weighted.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "round": base}))
    assert any(f"totals are rounded to {base}" in failure for failure in verify(copy).failures)


@pytest.mark.parametrize(("column", "number"), [("least", 0), ("least", 10**9), ("largest", 1)])
def test_verify_refuses_weights_that_no_records_have(run: Path, tmp_path: Path, column: str, number: int) -> None:
    path = changed(run, tmp_path, {}) / "table" / "weights.parquet"
    weights = pq.read_table(path)
    numbers = pa.array([number, *weights[column].to_pylist()[1:]])
    pq.write_table(weights.set_column(weights.column_names.index(column), column, numbers), path)
    assert any(
        "a cell has a total that its records cannot have" in failure for failure in verify(path.parents[1]).failures
    )


def test_what_is_damaged_is_no_evidence(run: Path, tmp_path: Path, records: pa.Table) -> None:
    build = open_build(run.parents[2] / "build.yaml")
    copy = changed(run, tmp_path, {})
    (copy / "weighted" / "weighted.json").write_text('{"format": 7}')
    with pytest.raises(RunFolderError, match="has format 7, this version reads 1"):
        read_weighted(copy / "weighted", build.made.table.schema)
    (copy / "weighted" / "weighted.json").unlink()
    with pytest.raises(RunFolderError, match="it has the proof of releasable totals"):
        read_weighted(copy / "weighted", build.made.table.schema)


@pytest.mark.parametrize(
    ("column", "match"),
    [
        (pa.array([1.5, None, 2.0]), "weight 'w' has missing values"),
        (pa.array([1.5, -2.0, 2.0]), "weight 'w' has values that are negative"),
        (pa.array([1.5, 0.0, 2.0]), "weight 'w' has values that are zero to six decimals"),
        (pa.array([1.5, np.inf, 2.0]), "weight 'w' has a value above 9,007,199,254"),
        (pa.array(["1.5", "secret", "2"]), "weight 'w' has values that are not numbers"),
        (pa.array([True, False, True]), "weight 'w' has the type bool; a weight is a number"),
        (pa.array([5e9, 5e9, 1.0]), "the weights sum to more than 9,007,199,254"),
    ],
)
def test_bad_weights_are_refused(column: pa.Array, match: str) -> None:
    with pytest.raises(InputError, match=match) as error:
        sdc.read_weights(pa.table({"a": ["x", "y", "z"], "w": column}), "w", variables=["a"])
    assert "secret" not in str(error.value)


def test_a_build_refuses_one_weight_of_all_records(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="weight 'w' is the same for every record"):
        build_of(tmp_path, pa.table({"a": ["x", "y", "z"], "b": ["0", "1", "1"], "w": [2.5, 2.5, 2.5]}))


@pytest.mark.parametrize(
    ("column", "table", "error", "match"),
    [
        ("b", {"weight": "v"}, InputError, "weight names 'v', which is not a column of"),
        ("b", {"weight": "w", "variables": ["a", "w"]}, InputError, "'w' cannot be a variable: it is the weight of a"),
        ("count", {"weight": "w"}, InputError, "its rows are cells, and weight = 'w' is that of a record"),
        ("b", {}, ConfigError, r"weighted is given, and table\.weight names no column"),
    ],
)
def test_a_weight_that_is_none(
    column: str, table: dict[str, Any], error: type[Exception], match: str, tmp_path: Path
) -> None:
    records = pa.table({"a": ["x", "y", "z"], column: [4, 5, 6], "w": [1.0, 2.0, 3.0]})
    with pytest.raises(error, match=match):
        build_of(tmp_path, records, table={"path": "records.parquet", **table})


def test_text_weights_with_a_decimal_comma(tmp_path: Path, run: Path, records: pa.Table) -> None:
    """The same table and weights as from Parquet."""
    weights = pc.replace_substring(pc.cast(records["w"], pa.string()), ".", ",")
    text = records.set_column(records.column_names.index("w"), "w", weights)
    options = pa_csv.WriteOptions(delimiter=";", quoting_style="none")
    pa_csv.write_csv(text, tmp_path / "records.csv", options)
    table = {"path": "records.csv", "weight": "w", "csv": {"delimiter": ";", "decimal": ","}}
    own = build_of(tmp_path, records, table=table)
    for name in ("table/weights.parquet", "weighted/weighted.json"):
        assert (own / name).read_bytes() == (run / name).read_bytes()


def test_children_have_their_totals_where_they_are_out(tmp_path: Path, records: pa.Table) -> None:
    run = build_of(tmp_path, records, publication={"formats": ["parquet"], "children": ["a*c"]})
    metadata = json.loads((run / "release" / "datapackage.json").read_text())
    (child,) = [r for r in metadata["resources"] if r.get("sub_table") == ["a", "c"]]
    own = records.group_by(["a", "c"]).aggregate([("w", "count")]).sort_by([("a", "ascending"), ("c", "ascending")])
    assert pq.read_table(run / "release" / child["path"])["count"].to_pylist() == own["w_count"].to_pylist()
    assert verify(run).verified


def test_no_count_goes_out_below_totals_instead_of_counts(records: pa.Table, tmp_path: Path) -> None:
    """Exact totals of a fine rounding are withheld, and what has none has no counts either."""
    totals = {"round": 1, "programs": 50, "publish": "instead"}
    with pytest.raises(ReleaseError, match=r"publication\.children has 'c\*e', which the release does not imply"):
        build_of(tmp_path, records, weighted=totals, publication={"children": ["c*e"]})


@pytest.mark.parametrize(
    ("rows", "base", "shown"),
    [
        ("a1,b0,10\na1,b0,1\na1,b0,10\na2,b0,1.5\n", 10, []),
        ("a0,b0,10\na0,b1,1\na0,b1,1\na1,b0,10\na1,b1,1\na2,b1,1\na2,b1,1.5\n", 50, []),
    ],
)
def test_no_variable_is_named_whose_totals_are_all_withheld(
    rows: str, base: int, shown: list[str], tmp_path: Path
) -> None:
    """Nothing of it is public instead of counts, and the build ends with what is."""
    (tmp_path / "t.csv").write_text(f"A,B,w\n{rows}")
    table = {"path": "t.csv", "weight": "w", "categories": {"A": ["a0", "a1", "a2"], "B": ["b0", "b1"]}}
    sections = {"risk": {"min_width": 1}, "weighted": {"publish": "instead", "round": base}}
    release = built(written(tmp_path, table=table, release={"method": "ordered"}, **sections)).folder.stage("release")
    with (release / "data_dictionary.csv").open(newline="") as file:
        assert [*dict.fromkeys(row["variable"] for row in csv.DictReader(file))] == shown
    assert [*release.glob("0*.csv")] == []
    assert verify(release.parent).verified
