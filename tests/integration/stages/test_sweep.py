"""The sweep alone: what it needs and finds, in parts or whole the same, and what it refuses with nothing left."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from sdc.executor import IN_PROCESS, Executor, Unit
from sdc.memory import MIB
from sdc.model.errors import ConfigError, InputError, many
from sdc.model.schema import Schema, Variable
from sdc.model.table import Table
from sdc.risk.sweep_plan import sweep_bytes
from sdc.stages import needs
from sdc.stages.build import Build, open_build
from sdc.stages.needs import Needs
from sdc.stages.stages import ALONE, run_stage
from sdc.stages.table import sweep_facts, sweep_lines
from sdc.storage.parquet import PartedTable
from tests.helpers.builds import Config
from tests.helpers.folders import contents

BYTES = 20_000  # for the rows of a unit: not for all 63 cells


def swept(file: Path, executor: Executor = IN_PROCESS) -> tuple[Build, list[str]]:
    build, said = open_build(file), list[str]()
    with build.started([stage.name for stage in ALONE]):
        for stage in ALONE:
            run_stage(stage, build, executor, said.append)
    return build, said


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Needs, "sweep", lambda self, table: (BYTES, True))


def test_a_floor_that_was_chosen_is_said(config: Config) -> None:
    build, said = swept(config(widths={"most": 29}))
    facts = sweep_facts(build)
    assert facts["cut"] == (
        f"Only sub-tables of critical width at least {facts['floor']} were listed, {facts['sub_tables']} of them, "
        "because more than 29 reach the 6 that is asked for"
    )
    assert f"widths: {facts['cut']}" in said
    assert f"              {facts['cut']}" in sweep_lines(facts)
    assert facts["reaching"] is None
    assert facts["sub_tables"] <= 29
    every = sweep_facts(swept(config())[0])
    assert [one["critical_width"] for one in every["narrowest"]] == [0, 3, 5, 6, 9, 10, 10, 10, 12, 12]


def test_parts_give_the_bytes_of_the_whole(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a floor that is given, and with one that is chosen."""
    for widths in ({"floor": 0}, {"floor": 12}, {"most": 12}, {"most": 29}):
        whole = contents(swept(config(widths=widths))[0].folder.stage("widths"))
        for parts in (1, 3, 70):
            file = config(widths=widths, table={"partitions": parts}, output={"folder": f"{parts}"})
            with monkeypatch.context() as patch:
                patch.chdir(file.parent)
                patch.setattr(Needs, "sweep", lambda self, table: (BYTES, True))
                build, said = swept(file)
                assert contents(build.folder.stage("widths")) == whole
                assert f"widths: the table does not fit a worker, so it is read in {many(parts, 'part')}" in said


class Harmful:
    """Runs units here, and does harm before the third."""

    workers, scratch = 1, None

    def __init__(self, harm: Callable[[], Any]) -> None:
        self.harm = harm

    def run(
        self, function: Callable[[Any, Unit], Any], table: Any, units: Sequence[Unit], is_over: Any = None
    ) -> Iterator[Any]:
        assert isinstance(table, PartedTable)
        for number, unit in enumerate(units):
            if number == 2:
                self.harm()
            yield function(table, unit)


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda part: part.write_bytes(part.read_bytes()[:-1]), "was changed during the run; run again"),
        (lambda part: part.unlink(), "cannot be read: No such file or directory; if a worker reports this"),
    ],
)
def test_a_part_that_changes_under_the_sweep(
    harm: Callable[[Path], Any], message: str, in_parts: None, config: Config
) -> None:
    """It is named by whoever reads it, and no widths are left; the next sweep counts the table anew."""
    file = config(table={"partitions": 3})
    folder = open_build(file).folder
    part = folder.stage("table") / "part-00001.parquet"
    with pytest.raises(InputError, match=message) as refused:
        swept(file, Harmful(lambda: harm(part)))
    assert str(refused.value).startswith(str(part.absolute()))
    assert list(folder.records()) == ["table"]
    assert not folder.stage("widths").exists()
    swept(file)
    assert [*folder.records()] == ["table", "widths"]


def test_a_part_that_changes_before_the_sweep(in_parts: None, config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the table was read in this process, and before a worker is told what it must find."""
    file = config(table={"partitions": 3})
    build = open_build(file)
    with build.started([stage.name for stage in ALONE]):
        run_stage(ALONE[0], build, IN_PROCESS, print)
        assert len(build.made.table) == 63
        part = build.folder.stage("table") / "part-00001.parquet"
        pq.write_table(pq.read_table(part), part, compression="none")  # the same cells
        with pytest.raises(InputError, match="table was changed since it was written; run again"):
            run_stage(ALONE[1], build, IN_PROCESS, print)
    assert not build.folder.stage("widths").exists()


def test_a_table_without_cells_at_risk(config: Config, tmp_path: Path) -> None:
    people = tmp_path / "people.csv"
    people.write_text("a,b\n" + "x,y\n" * 3 + "x,z\n" * 3)
    file = config(table={"path": str(people), "variables": ["a", "b"], "categories": {}}, risk={"min_width": 2})
    with pytest.raises(InputError, match="no cell of the table has from 1 to 2 records, so none is at risk and"):
        swept(file)
    folder = open_build(file).folder
    assert not [path for path in folder.path.iterdir() if path.is_dir()]
    assert not folder.records()


# What it needs


def table_of(cells: int, variables: int) -> Table:
    """No table of so many cells, but one that says that it has."""
    codes = np.broadcast_to(np.zeros(1, np.uint16), (cells, variables))
    schema = Schema(tuple(Variable(f"v{v}", ("a", "b")) for v in range(variables)))
    return Table(schema, codes, np.broadcast_to(np.ones(1, np.int64), cells))


def test_what_does_not_fit_is_read_in_parts() -> None:
    table = table_of(1_000_000, 16)
    rows = sweep_bytes(len(table), table.schema)
    enough = needs.WORKER_BYTES + needs.SWEEPING_BYTES + 40 * len(table) + rows * 3 // 2 + MIB
    assert needs.sweep_memory(table, 0, enough, 1) == (pytest.approx(rows, abs=MIB), False)
    left, apart = needs.sweep_memory(table, 0, enough - 2 * MIB, 1)
    assert apart
    assert left < needs.sweep_memory(table, 0, enough - 2 * MIB, 10)[0]


def test_a_part_that_is_too_large_for_a_worker() -> None:
    """As large as the whole table in memory, at most; the refusal says how many parts would do."""
    table, allowed = table_of(8_000_000, 16), 480 * MIB
    with pytest.raises(ConfigError, match=r"that reads the table in parts needs 681 MiB, 480 MiB are allowed; set"):
        needs.sweep_memory(table, 0, allowed, 1)
    assert needs.sweep_memory(table, 0, allowed, 6)[1]
    with pytest.raises(ConfigError, match=r"parts needs \d+ MiB, 160 MiB are allowed; raise its memory_per_worker, or"):
        needs.sweep_memory(table, 0, needs.WORKER_BYTES, 1000)


def test_a_sweep_alone_asks_for_less_than_a_build(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one part; by default a table of that size has 32, and fits."""
    execution, table = {"workers": 2, "cluster": "local"}, table_of(8_000_000, 16)
    parted, build = (open_build(config(execution=execution, table=more)) for more in ({}, {"partitions": 1}))
    monkeypatch.setitem(vars(parted.needs), "worker_may", 480 * MIB)
    assert parted.needs.sweep(table)[1]
    monkeypatch.setitem(vars(build.needs), "worker_may", 480 * MIB)
    monkeypatch.setitem(vars(build.needs), "here_may", 4096 * MIB)
    with pytest.raises(ConfigError, match="the build does not fit: "):
        build.needs.require(table)
    with pytest.raises(ConfigError, match=r"set table\.partitions to \d or more"):
        build.needs.require_sweep(table)
    monkeypatch.setitem(vars(build.needs), "here_may", 1024 * MIB)
    with pytest.raises(ConfigError, match="the build does not fit: this process needs"):
        build.needs.require_sweep(table)
