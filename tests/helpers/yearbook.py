"""A yearbook: people by small areas, of which some tables go out suppressed, rounded or with merged categories."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sdc.stages.build import Build
from sdc.storage.parquet import write_csv
from tests.helpers.builds import built, written

REQUIRED = ["area*sex", "age*sex*edu", "area*age", "area*edu"]
AREAS, PEOPLE = 16, 4000
NAMES = ("area", "age", "sex", "edu")
FORMATS = ["csv", "parquet", "csvw", "json-stat", "px", "sdmx-csv", "xml", "xlsx", "pxapi"]
ROUNDED = {"require": REQUIRED[:2], "protect": [{"of": "area*age", "by": "rounding", "base": 5}, {"of": "area*edu"}]}


def records() -> np.ndarray:
    """People by small areas, age, sex and education."""
    rng = np.random.default_rng(4)
    columns = [
        np.minimum(rng.geometric(0.17, PEOPLE) - 1, AREAS - 1),
        np.minimum(rng.poisson(1.5, PEOPLE), 5),
        rng.integers(0, 2, PEOPLE),
        np.minimum(rng.geometric(0.5, PEOPLE) - 1, 2),
    ]
    return np.stack(columns, axis=1)


def columns_of(people: np.ndarray) -> dict[str, list[str]]:
    return {v: [f"{v}{code:02}" for code in column] for v, column in zip(NAMES, people.T.tolist(), strict=True)}


def config(folder: Path, name: str = "yearbook", **sections: Any) -> Path:
    if not (folder / "people.csv").exists():
        write_csv(folder / "people.csv", columns_of(records()))
    release = {"require": REQUIRED, "protect": "suppression"}
    return written(
        folder, name, **{"table": {"path": "people.csv"}, "release": release, "sharp_seconds": 0.1, **sections}
    )


@pytest.fixture(scope="session")
def yearbook(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """A build one of whose tables goes out suppressed, not to be touched."""
    return built(config(tmp_path_factory.mktemp("yearbook")))


@pytest.fixture(scope="session")
def rounded_yearbook(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """A build one of whose tables goes out rounded, with totals, not to be touched."""
    folder = tmp_path_factory.mktemp("rounded")
    return built(config(folder, release=ROUNDED, publication={"formats": FORMATS, "totals": True}))
