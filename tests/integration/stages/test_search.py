"""A build that is killed while its release grows goes on after the last question that enlarged it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sdc.events import OUTLOOK, QUESTIONS, EventText, heard
from sdc.executor import IN_PROCESS
from sdc.search.step import SearchStep
from sdc.stages.build import Build, open_build
from sdc.stages.search import QuestionLines
from sdc.stages.stages import run_all
from sdc.storage.kept_growth import KeptGrowth
from sdc.storage.run_folder import folder_digest
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


@pytest.mark.parametrize("method", ["ordered", "best"])
def test_a_growth_that_is_killed_goes_on(method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("whole", "killed"):
        (tmp_path / name).mkdir()
    whole = opened(tmp_path / "whole", method)
    run_all(whole, IN_PROCESS)
    build, write, kept = opened(tmp_path / "killed", method), KeptGrowth.write, list[str]()

    def killed(own: KeptGrowth, so_far: Any) -> None:
        write(own, so_far)
        kept.append(own.name)
        if len(kept) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(KeptGrowth, "write", killed)
    with pytest.raises(KeyboardInterrupt):
        run_all(build, IN_PROCESS)
    assert len([*build.folder.parts("search").glob("*/*.npz")]) == len({*kept})
    again = open_build(tmp_path / "killed" / "build.yaml")
    asked = list[Any]()
    monkeypatch.setattr(KeptGrowth, "write", lambda own, so_far: asked.append(so_far))
    run_all(again, IN_PROCESS)
    for stage in ("search", "assessment", "release"):
        assert folder_digest(again.folder.stage(stage)) == folder_digest(whole.folder.stage(stage))
    assert not again.folder.parts("search").exists()
    assert all(len(so_far.steps) > 3 for so_far in asked[:1])


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
