"""What was published with totals of weights is not read as counts alone: the totals tell of the counts too."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from sdc.executor import IN_PROCESS
from sdc.model.errors import InputError
from sdc.stages.build import open_build
from sdc.stages.stages import run_all
from sdc.stages.table import check_before

REFUSAL = "publishes totals of weights, which cannot be judged together with counts"


def test_a_release_with_totals_is_refused_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("A,B\nx,u\nx,v\ny,u\n")
    (tmp_path / "before").mkdir()
    (tmp_path / "before" / "001_A.csv").write_text("A,count,weighted_total\nx,2,500\ny,1,1000\n")
    content = {
        "name": "second",
        "table": {"path": "t.csv"},
        "risk": {"min_width": 2},
        "earlier": [{"folder": "before"}],
    }
    content |= {"execution": {"cluster": "in-process"}, "output": {"folder": "runs"}}
    (tmp_path / "second.yaml").write_text(yaml.safe_dump(content))
    build = open_build(tmp_path / "second.yaml")
    with pytest.raises(InputError, match=f"{REFUSAL}; publish what is still to go out in one build with them"):
        check_before(build)
    with pytest.raises(InputError, match=REFUSAL):
        run_all(build, IN_PROCESS)
    assert not (tmp_path / "runs").exists()
