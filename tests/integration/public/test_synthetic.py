"""Synthetic tables: every published count is met, the law is that of all tables that agree, nothing else is taken."""

import csv
from collections import Counter
from math import factorial, prod
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from sdc.model import subtable as st
from sdc.model.errors import ConfigError, InputError
from sdc.model.release import Release
from sdc.model.table import Counts, Table
from sdc.public.synthetic import BY_CHAIN, INDEPENDENT, synthesize, write_synthetic
from tests import reference
from tests.profiles import scaled
from tests.strategies import schema_of, small_tables

SMALL = np.array([[3, 1], [2, 4]])


def table_of(counts: Counts) -> Table:
    cells = np.argwhere(counts >= 0)
    return Table.of(schema_of([*counts.shape]), cells, counts.reshape(-1))


def write(table: Table, name: str, folder: Path) -> Path:
    """A marginal as a file of counts, cells without records included."""
    marginal = table.marginal(name)
    path = folder / f"{name.replace('*', '-')}.csv"
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow([*marginal.schema.names, "count"])
        for codes, count in zip(np.ndindex(*marginal.schema.sizes), marginal.dense.reshape(-1).tolist(), strict=True):
            own = zip(marginal.schema.variables, codes, strict=True)
            rows.writerow([*(variable.categories[code] for variable, code in own), count])
    return path


def cells(table: Table, name: str) -> Counter[tuple[str, ...]]:
    """Counts of a marginal by names, in the order of the names of the marginal."""
    found = Counter[tuple[str, ...]]()
    for codes, count in zip(table.codes.tolist(), table.counts.tolist(), strict=True):
        row = {v.name: v.categories[c] for v, c in zip(table.schema.variables, codes, strict=True)}
        found[tuple(row[variable] for variable in name.split("*"))] += count
    return found


@given(small_tables(8, min_size=2).filter(lambda table: table.total > 0), some.data())
@settings(max_examples=20, deadline=None)
def test_every_published_count_is_met(table: Table, data: some.DataObject) -> None:
    axes = len(table.schema)
    chosen = data.draw(some.lists(some.integers(1, (1 << axes) - 1), max_size=3))
    release = Release.of([*chosen, *(1 << axis for axis in range(axes))])
    names = [st.label(t, table.schema) for t in release.frontier]
    with TemporaryDirectory() as folder:
        paths = [write(table, name, Path(folder)) for name in names]
        drawn = synthesize(paths, draws=2, seed=data.draw(some.integers(0, 99)))
    for one in drawn:
        assert one.table.total == table.total
        for name in names:
            assert cells(one.table, name) == cells(table, name)


@pytest.mark.parametrize("names", [("A", "B"), ("A*B", "A*C", "B*C")])
def test_draws_follow_the_law_of_all_tables_that_agree(names: tuple[str, ...], tmp_path: Path) -> None:
    """Proportional to 1 / prod n!, by a list of all tables; 4 standard errors of the draws, of fixed seeds."""
    axes = len({variable for name in names for variable in name.split("*")})
    counts = np.arange(2**axes).reshape((2,) * axes) % 4 + 1
    table = table_of(counts)
    draws = 600 if axes == 2 else scaled(400, fewest=40)  # a chain for each
    drawn = synthesize([write(table, name, tmp_path) for name in names], draws=draws)
    assert {one.method for one in drawn} == {INDEPENDENT if axes == 2 else BY_CHAIN}
    found = Counter(tuple(one.table.dense.reshape(-1).tolist()) for one in drawn)
    release = [["ABC".index(name) for name in label.split("*")] for label in names]
    tables = reference.feasible(counts.shape, reference.released(counts, release))
    weights = {own: 1 / prod(map(factorial, own)) for own in (tuple(one.reshape(-1).tolist()) for one in tables)}
    assert set(found) <= set(weights)
    for own, weight in weights.items():
        share = weight / sum(weights.values())
        assert abs(found[own] / draws - share) < 4 * (share * (1 - share) / draws) ** 0.5 + 1e-9


def test_the_files_are_labelled_and_the_same_again(tmp_path: Path) -> None:
    paths = [write(table_of(SMALL), name, tmp_path) for name in ("A", "B")]
    first = write_synthetic(synthesize(paths, draws=2, seed=7), tmp_path / "one")
    write_synthetic(synthesize(paths, draws=2, seed=7), tmp_path / "two")
    for name in first:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    assert list(first) == ["synthetic_counts_7.csv", "synthetic_counts_8.csv"]
    assert "synthetic" in (tmp_path / "one" / "README.md").read_text()
    (name,) = write_synthetic(synthesize(paths), tmp_path / "three", records=True, parquet=True)
    records = pq.read_table(tmp_path / "three" / name)
    assert records.num_rows == SMALL.sum()
    assert records.schema.metadata[b"synthetic"] == b"true"
    with pytest.raises(ConfigError, match="has files already"):
        write_synthetic(synthesize(paths), tmp_path / "one")


def test_what_is_refused(tmp_path: Path) -> None:
    whole = write(table_of(SMALL), "A*B", tmp_path)
    text = whole.read_text()
    other, hidden = tmp_path / "other.csv", tmp_path / "hidden.csv"
    other.write_text(text.replace(",3\n", ",5\n", 1))
    with pytest.raises(InputError, match="contradict"):
        synthesize([whole, other])
    hidden.write_text(text.replace(",3\n", ",\n", 1))
    with pytest.raises(InputError, match="suppressed"):
        synthesize([hidden])
    with pytest.raises(InputError, match="draws = 0"):
        synthesize([whole], draws=0)
    with pytest.raises(InputError, match="seed = -1"):
        synthesize([whole], seed=-1)
