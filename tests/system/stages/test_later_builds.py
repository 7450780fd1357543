"""Yearbooks with suppressed tables on public data, each followed by later builds under one ledger: no dead ends."""

from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from sdc.model import subtable as st
from sdc.model.errors import NothingReleasableError, NotReleasableError
from sdc.record.ledger import new_ledger
from sdc.stages.build import Build
from sdc.storage.parquet import write_csv
from tests.helpers.builds import built, written
from tests.profiles import scaled

COLUMNS = ("marital_stat", "race", "sex", "region_of_previous_residence", "citizenship", "tax_filer_stat", "year")
LATER = 5
RELEASE: dict[str, Any] = {"protect": "suppression", "required_only": True, "on_conflict": "drop", "seconds": 20.0}


def refusal(publish: Callable[[str, list[str]], Build], name: str, sub_table: str) -> NotReleasableError | None:
    try:
        publish(name, [sub_table])
    except NotReleasableError as error:
        return error
    return None


@pytest.mark.slow
@pytest.mark.parametrize("number", range(scaled(30, fewest=2)))
def test_after_a_yearbook_more_can_be_published(
    number: int, night: list[int], tmp_path: Path, public_data: Callable[[str], Path]
) -> None:
    """A later build publishes what published tables imply, and refuses nothing without a cell."""
    rng = np.random.default_rng([75, number, *night])
    names = sorted(rng.choice(COLUMNS, 4, replace=False).tolist())
    records = pq.read_table(public_data("census_income_kdd.parquet"), columns=names)
    records = records.take(rng.choice(records.num_rows, 3_000, replace=False))
    write_csv(tmp_path / "people.csv", {name: [*map(str, records.column(name).to_pylist())] for name in names})
    new_ledger(tmp_path / "led")
    tables = ["*".join(some) for size in (2, 3) for some in combinations(names, size)]

    def publish(name: str, require: list[str]) -> Build:
        sections = {"table": {"path": "people.csv"}, "ledger": "led", "sharp_seconds": 0.1}
        return built(written(tmp_path, name, **sections, release={**RELEASE, "require": require}))

    first = publish("yearbook", rng.choice(tables, 3, replace=False).tolist())
    schema = first.made.table.schema
    implied = [st.label(element, schema) for element in first.made.found.release.frontier if element]
    parts = first.made.found.suppressed_tables.labels(schema)
    for later in range(LATER):
        again = rng.choice(implied or parts) if later % 2 and (implied or parts) else rng.choice(tables)
        if (refused := refusal(publish, f"later{later}", str(again))) is not None:
            assert not isinstance(refused, NothingReleasableError), f"{again}: {refused}"
            assert again not in implied, f"{again}: {refused}"
