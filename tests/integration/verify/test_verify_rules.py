"""What `sdc verify` says of the rules on published counts, beside the criteria, on tables with levels and zeros."""

from collections import Counter
from pathlib import Path

import numpy as np

from sdc.model.cell_bounds import CellBounds
from sdc.model.release import Release
from sdc.model.structural_zeros import NO_ZEROS
from sdc.risk.min_frequency import MinFrequency
from sdc.verify import core
from sdc.verify.core.attributes import check_attributes
from sdc.verify.core.n_rule import check_counts
from sdc.verify.core.proof import EvidenceFolder
from tests.integration.verify.forging import alone, certified, forged
from tests.levels import closed_sets, random_schema, random_table, random_zeros
from tests.profiles import scaled
from tests.strategies import knows
from tests.unit.risk.test_attribute_disclosure import random_rule

CASES = 200


def test_the_rules_are_kept_where_the_criteria_say_so(night: list[int], tmp_path: Path) -> None:
    rng, seen = np.random.default_rng([61, *night]), Counter[str]()
    for number in range(scaled(CASES, fewest=60)):
        table = random_table(rng, random_schema(rng, most_cells=24))
        zeros = random_zeros(rng, table) if number % 2 else NO_ZEROS
        sets = closed_sets(table.schema)
        release, rule = Release.of(rng.choice(sets, 2).tolist()), random_rule(rng, table.schema)
        if not len(table.at_risk(2)):
            continue
        cells = table.codes[table.at_risk(2)]
        counts = table.counts[table.at_risk(2)]
        ends = np.stack([counts, counts], axis=1)
        certificate = certified(table, release, alone(table, None), 1, zeros)
        folder = forged(tmp_path / str(number), table, certificate, CellBounds(cells, counts, ends, ends, "counts"))
        known, n = knows(table, release, zeros), int(rng.integers(2, 6))
        for name, kept in (
            ("attributes", rule.broken(table, known) is None),
            ("counts", MinFrequency(n).broken(table, known) is None),
        ):
            evidence = EvidenceFolder(folder, folder)
            evidence.read_table(2)
            claims = evidence.claims()
            if name == "attributes":
                found = check_attributes(evidence, claims, rule.facts, claims_safe=True)
            else:
                found = check_counts(evidence, claims, n, claims_safe=True)
            assert found == kept == (not evidence.failures), (number, name)
            seen[f"{name} kept" if kept else f"{name} broken"] += 1
    assert {"attributes kept", "attributes broken", "counts broken"} <= seen.keys()


def test_the_core_can_be_read_in_an_afternoon() -> None:
    """From certificate and table to a verdict; a contract in pyproject.toml keeps it apart from all else."""
    files = Path(core.__path__[0]).glob("*.py")
    assert sum(len(file.read_text().splitlines()) for file in files) <= 1000
