"""A build that is killed while its release grows goes on from its checkpoint."""

from pathlib import Path

import numpy as np

from sdc.checkpoint import Checkpoint
from sdc.events import OUTLOOK, QUESTIONS, EventText, heard
from sdc.executor import IN_PROCESS
from sdc.search.step import SearchStep
from sdc.stages.build import Build, open_build
from sdc.stages.search import QuestionLines
from sdc.stages.stages import SEARCH, TABLE, WIDTHS, run_all, run_stage
from tests.helpers.builds import written
from tests.strategies import scattered

FEW = {"seconds": 0.001, "seconds_per_cell": 0.3}
CHAINS = {"ordered": {}, "best": {"annealing": {"steps": 400, "chains": 2, "rounds": 2}}}


def opened(folder: Path, method: str) -> Build:
    table = scattered()
    codes = table.codes.repeat(table.counts, axis=0)
    lines = [",".join(map(str, row)) for row in [table.schema.names, *codes.tolist()]]
    (folder / "table.csv").write_text("\n".join(lines) + "\n")
    table, release = {"path": str(folder / "table.csv")}, {"method": method, **FEW, **CHAINS[method]}
    return open_build(written(folder, table=table, risk={"min_width": 3}, release=release))


def test_a_checkpoint_that_does_not_hold_is_passed_over_in_a_line(tmp_path: Path) -> None:
    build, said = opened(tmp_path, "ordered"), list[str]()
    for stage in (TABLE, WIDTHS):
        with build.folder.locked():
            run_stage(stage, build, IN_PROCESS, said.append)
    above = build.folder.parts("search")
    Checkpoint(above, SEARCH.key(build)).write("growth", {"begun_with": np.zeros(1, np.int64)})
    Checkpoint(above, "a" * 64).write("growth", {})
    run_all(open_build(tmp_path / "build.yaml"), IN_PROCESS, said.append)
    assert "search: a checkpoint of another table, other settings or another version is skipped" in said
    assert "search: the checkpoint (growth) does not match this search and is skipped" in said
    assert not build.made.found.resumed


def test_what_is_left_goes_to_nothing_with_the_work() -> None:
    """Questions at most, and seconds at most once it is known how long questions take; never of what is not known."""
    said, moment, looked = list[str](), [0.0], list[str]()
    lines = QuestionLines(said.append, lambda: moment[0])
    with heard(EventText(looked.append, OUTLOOK), QUESTIONS):
        lines(SearchStep("required", 0, (1,), True, (3, 3), 0))
        for asked in range(1, 31):
            moment[0] += 2.0 if asked <= 15 else 5.0
            lines(SearchStep("growth", asked, (asked,), asked % 2 == 0, (3, 3), 0, left=30 - asked))
    assert "at most 28 questions left, the last 2 added 1 sub-table" in said[1]
    assert looked[0].startswith("at most 29 questions left")
    assert "each takes" not in looked[0]
    assert "at most 48 s" in looked[5]
    assert "at most 5 questions left, the last 10 added 5 sub-tables, at most 25 s" in looked[24]
    assert looked[-1].startswith("at most 0 questions left")
    assert len(looked) == 30
