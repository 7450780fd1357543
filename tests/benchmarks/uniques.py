"""Sample uniques: real tables as populations, of which samples are drawn; bias and error of what is estimated of them.

    python tests/benchmarks/uniques.py [SAMPLES]

Of each table and sampling fraction so many samples (20), each person in it by chance alone: how many sample uniques are
population uniques, E(1/F) summed over them, and what share of the persons in their cells is in the sample; by the best
decomposable model, by independence, by the weight that is the same for all, and by data intrusion simulation. Then time
and memory of the whole tables. Some minutes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
from side_by_side import ROOT, data_file, machine, one_core, peak_mib, say, seconds

from sdc.ingest.reading import read_table
from sdc.model.release import NOTHING
from sdc.model.table import Table
from sdc.model.weights import UNIT, RecordWeights
from sdc.utility.uniques import Uniques, uniques_by_model, uniques_by_weights

sys.path.append(str(ROOT))
from tests.strategies import knows

POPULATIONS = {"cps8": (0.01, 0.05, 0.2), "cps13": (0.01, 0.05, 0.2), "cps14": (0.05,)}


def main() -> None:
    samples = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    with one_core() as pinned:
        say(f"{machine()}; {pinned}")
        for name, fractions in POPULATIONS.items():
            table = read_table(data_file(f"{name}.parquet"))
            for fraction in fractions:
                of_samples(name, table, fraction, samples)
        for name in POPULATIONS:
            table = read_table(data_file(f"{name}.parquet"))
            took = seconds(lambda table=table: uniques_by_model(table, knows(table, NOTHING), 0.01))
            ones = (table.counts == 1).sum()
            say(
                f"{name}: {ones:,} sample uniques of {table.schema.cells:,} cells in {took:.2f} s, "
                f"peak {peak_mib():.0f} MiB"
            )


def of_samples(name: str, table: Table, fraction: float, samples: int) -> None:
    rng, found, truth = np.random.default_rng(45), dict[str, list[list[float]]](), []
    for _ in range(samples):
        drawn = rng.binomial(table.counts, fraction)
        kept = drawn > 0
        sample, persons = Table(table.schema, table.codes[kept], drawn[kept]), table.counts[drawn == 1]
        truth.append([(persons == 1).sum(), (1 / persons).sum(), len(persons) / persons.sum()])
        for by, one in estimates(sample, fraction):
            figures = [one.alone.sum(), one.matched.sum(), one.right_matches]
            found.setdefault(by, []).append(figures)
        found.setdefault("intrusion", []).append([np.nan, np.nan, one.intrusion])
    true = np.array(truth)
    say(
        f"{name}, {fraction:.0%}: {true[:, 0].mean():.1f} population uniques, {true[:, 1].mean():.1f} right matches, "
        f"{true[:, 2].mean():.2%} of the persons"
    )
    for by, rows in found.items():
        off = np.array(rows) - true
        bias, error = off.mean(axis=0) / true.mean(axis=0), np.sqrt(np.square(off).mean(axis=0)) / true.mean(axis=0)
        told = (f"{b:+.1%} (error {e:.1%})" for b, e in zip(bias, error, strict=True) if not np.isnan(b))
        say(f"    {by:12}  {', '.join(told)}")


def estimates(sample: Table, fraction: float) -> Iterator[tuple[str, Uniques]]:
    alone = " ".join(f"[{name}]" for name in sample.schema.names)
    yield "best", uniques_by_model(sample, knows(sample, NOTHING), fraction)
    yield "independence", uniques_by_model(sample, knows(sample, NOTHING), fraction, alone)
    each = np.full(len(sample), round(UNIT / fraction))
    yield "weights", uniques_by_weights(sample, RecordWeights(each * sample.counts, each, each))


if __name__ == "__main__":
    main()
