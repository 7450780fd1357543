"""Make `configs/population/`, the generated population of the main example.

    python configs/population.py [--persons 300000] [--seed 20261128] [--folder configs/population]

No person in it is real. Each attribute is drawn given those before it, so that there are strong and weak associations,
age-specific zero cells and many small counts, as in a census. The same seed and the same NumPy give the same records.
"""

from __future__ import annotations

import argparse
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

PERSONS, SEED, PARTS = 300_000, 20261128, 4
DISTRICTS = {"East": 2, "North": 2, "South": 2}
AGES = ("0-14", "15-29", "30-44", "45-64", "65+")
SEXES = ("male", "female")
BIRTH = ("native", "foreign")
EDUCATION = ("primary", "secondary", "tertiary")
WORK = ("employed", "unemployed", "not in work force")
MARITAL = ("not married", "married")
HOUSEHOLD = ("alone", "with others")
TENURE = ("owner", "tenant")
Codes = npt.NDArray[np.int64]


def drawn(rng: np.random.Generator, weights: npt.NDArray[np.float64]) -> Codes:
    """One category a person, from (persons, categories) weights."""
    ends = np.cumsum(weights, axis=1)
    at = rng.random(len(ends)) * ends[:, -1]
    return (at[:, None] >= ends[:, :-1]).sum(axis=1)


def population(persons: int, seed: int) -> pa.Table:
    """The records, sorted, so that parts are alike from run to run and compress well."""
    rng = np.random.default_rng(seed)
    districts = [f"{region} {number}" for region, many in DISTRICTS.items() for number in range(1, many + 1)]
    region_of = np.array([region for region, many in DISTRICTS.items() for _ in range(many)])
    size = rng.dirichlet(np.full(len(districts), 6.0))
    district = rng.choice(len(districts), persons, p=size)
    urban = np.linspace(0.0, 1.0, len(districts))[district]  # how much of a town a district is

    def tilt(base: npt.NDArray[np.float64], by: npt.NDArray[np.float64], slope: list[float]) -> npt.NDArray[np.float64]:
        found: npt.NDArray[np.float64] = base * np.exp(by[:, None] * np.array(slope))
        return found

    age = drawn(rng, tilt(np.array([15.0, 18, 20, 27, 20]), urban, [0, 0.5, 0.3, 0, -0.3]))
    sex = drawn(rng, np.array([[51.0, 49], [51, 49], [50, 50], [49, 51], [43, 57]])[age])
    foreign = np.array([[92.0, 8], [82, 18], [76, 24], [86, 14], [94, 6]])[age]
    birth = drawn(rng, tilt(foreign, urban, [0, 0.9]))
    school = np.array([[1.0, 0, 0], [22, 56, 22], [10, 52, 38], [16, 58, 26], [38, 50, 12]])[age]
    school = school * np.where(birth[:, None] == 1, [1.6, 0.7, 1.1], 1.0)
    education = drawn(rng, tilt(school, urban, [0, 0, 0.5]))
    employed = np.array([[0.0, 0, 1], [60, 8, 32], [82, 6, 12], [68, 5, 27], [3, 0.05, 97]])[age]
    employed = employed * np.where(sex[:, None] == 1, [1, 1, 1.4], 1.0)
    work = drawn(rng, tilt(employed, education - 1.0, [0.4, -0.4, -0.4]))
    married = np.array([[1.0, 0], [87, 13], [48, 52], [38, 62], [47, 53]])[age]
    marital = drawn(rng, married * np.where(sex[:, None] == 1, [1.1, 1], 1.0))
    alone = np.array([[0.0, 1], [20, 80], [20, 80], [22, 78], [40, 60]])[age]
    household = drawn(rng, alone * np.where(marital[:, None] == 1, [0.02, 1], 1.0))
    owner = 0.2 * age + 0.4 * (marital == 1) - 1.2 * (birth == 1) - urban
    tenure = drawn(rng, np.exp(np.stack([owner, np.full(persons, 0.2)], axis=1)))

    named: dict[str, tuple[Codes, list[str]]] = {
        "district": (district, districts),
        "age": (age, list(AGES)),
        "sex": (sex, list(SEXES)),
        "birth": (birth, list(BIRTH)),
        "education": (education, list(EDUCATION)),
        "work": (work, list(WORK)),
        "marital": (marital, list(MARITAL)),
        "household": (household, list(HOUSEHOLD)),
        "tenure": (tenure, list(TENURE)),
    }
    order = np.lexsort([codes for codes, _ in reversed(named.values())])
    columns = {"region": pa.array(region_of[district][order]).dictionary_encode()}
    columns |= {
        name: pa.array(np.array(labels)[codes][order]).dictionary_encode() for name, (codes, labels) in named.items()
    }
    return pa.table(columns)


def write(table: pa.Table, folder: Path, parts: int = PARTS) -> None:
    """The parts of a delivery, by rows."""
    folder.mkdir(parents=True, exist_ok=True)
    ends = np.linspace(0, len(table), parts + 1).astype(int)
    for number, (begin, end) in enumerate(pairwise(ends.tolist())):
        pq.write_table(
            table.slice(begin, end - begin), folder / f"part-{number}.parquet", compression="zstd", compression_level=19
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--persons", type=int, default=PERSONS)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent / "population")
    chosen = parser.parse_args()
    write(population(chosen.persons, chosen.seed), chosen.folder)
