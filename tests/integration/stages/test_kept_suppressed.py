"""What an earlier table suppressed stays suppressed: in builds, at the gate, and in a server's history."""

from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sdc.model.errors import NotReleasableError
from sdc.model.release import NOTHING, Release
from sdc.model.state import State
from sdc.model.suppressed_table import SuppressedTable
from sdc.record.chain import Chain
from sdc.risk.criteria import Criteria
from sdc.risk.kept_suppressed import KeptSuppressed
from sdc.risk.verdict import Verdict
from sdc.run_format import MANIFEST
from sdc.server.service.judge import Judge
from sdc.server.service.rules import KEPT, REVEALED, SUPPRESSED, reveals
from sdc.stages.resolved import ResolvedInput
from sdc.stages.verified import verify_run
from sdc.storage.parquet import write_csv
from tests.helpers.builds import built, report_of, written
from tests.strategies import dense, knows, schema_of

TABLE = dense(schema_of([2, 2, 2]), [1, 0, 5, 4, 6, 3, 5, 7])
RISK = {"min_width": 1, "small_count": 1}


def config(folder: Path, name: str, **release: Any) -> Path:
    """A build after the file of another, which suppresses the counts of A*B."""
    axes = (TABLE.codes.T, TABLE.schema.variables)
    columns = {v.name: [v.categories[code] for code in codes] for codes, v in zip(*axes, strict=True)}
    write_csv(folder / "t.csv", {**columns, "count": TABLE.counts.tolist()})
    cells = [f"{a},{b},\n" for a in TABLE.schema.variables[0].categories for b in TABLE.schema.variables[1].categories]
    (folder / "s.csv").write_text("A,B,count\n" + "".join(cells))
    sections = {"table": {"path": "t.csv"}, "risk": RISK, "earlier": [{"folder": "s.csv"}], "sharp_seconds": 0.1}
    return written(folder, name, **sections, release=release)


def test_no_search_publishes_what_contains_an_earlier_suppressed_table(tmp_path: Path) -> None:
    with pytest.raises(NotReleasableError, match=r"A\*B has cells that A\*B of s.csv suppressed; .*reveal_suppressed"):
        built(config(tmp_path, "required", require=["A*B"]))
    kept = built(config(tmp_path, "kept", method="best"))
    assert {*kept.made.found.release.frontier} == {0b110, 0b101}
    assert ResolvedInput.open(str(tmp_path / "kept.yaml")).criteria().get(KeptSuppressed) is not None
    shown = built(config(tmp_path, "shown", require=["A*B"], required_only=True, reveal_suppressed=True))
    assert shown.made.found.release.frontier == (0b011,)
    assert "release.reveal_suppressed: A*B is whole in this release" in report_of(shown)
    assert verify_run(shown.folder.path).verified
    manifest = shown.folder.path / MANIFEST
    manifest.write_text(manifest.read_text().replace('"reveal_suppressed": true', '"reveal_suppressed": false'))
    failures = verify_run(shown.folder.path).failures
    assert failures[0].startswith(
        "A*B is whole, and earlier publications suppressed cells of it; give release.reveal_s"
    )


def test_a_server_keeps_to_the_rule_with_which_its_history_began(tmp_path: Path) -> None:
    part = SuppressedTable.at(0b011, np.arange(4), TABLE.schema, TABLE.total)
    state = State.first(TABLE.schema, Release.of([])).answering(part)
    asked = TABLE, knows(TABLE, NOTHING), Criteria.of(1, 1)
    assert Judge(*asked).ask(state, 0b011, 1.0).verdict is Verdict.UNSAFE
    assert Judge(*asked, reveals=True).ask(state, 0b011, 1.0).verdict is Verdict.SAFE
    url = str(tmp_path / "history.db")
    for said, rule in (KEPT, False), (REVEALED, False):
        with closing(Chain.open(url, {"table": "t"}, begins={SUPPRESSED: said})) as history:
            assert reveals(history.about) is rule
    with closing(Chain.open(str(tmp_path / "old.db"), {"table": "t"})):
        pass
    with closing(Chain.open(str(tmp_path / "old.db"), {"table": "t"}, begins={SUPPRESSED: KEPT})) as history:
        assert reveals(history.about)
