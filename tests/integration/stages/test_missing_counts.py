"""Builds from tables with missing counts: what goes out is known and safe, and `sdc verify` sees what was changed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sdc.executor import IN_PROCESS
from sdc.model.errors import ConfigError, InputError, NotReleasableError
from sdc.model.table import MissingCounts, Table
from sdc.stages.build import Build, open_build
from sdc.stages.stages import run_all
from sdc.storage.parquet import read_written_table, write_table
from sdc.verify.run_folder import verify, verify_release
from tests import reference
from tests.helpers.builds import written

LINES = """A,B,C,count
a0,b0,c0,
a0,b0,c1,
a0,b1,c0,5
a0,b1,c1,1
a1,b0,c0,7
a1,b0,c1,2-4
a1,b1,c0,
a1,b1,c1,9
a0,b0,(total),6
(total),(total),(total),40
a1,(total),(total),28
"""


def build_of(folder: Path, lines: str = LINES, **more: Any) -> Build:
    (folder / "part.csv").write_text(lines)
    table = {"path": str(folder / "part.csv"), "missing_counts": True, **more.pop("table", {})}
    base = {
        "risk": {"min_width": 3},
        "output": {"folder": str(folder / "runs")},
        "execution": {"cluster": "in-process"},
    }
    return open_build(written(folder, "part", **{"table": table, "assessment": "proven", **base, **more}))


def test_only_what_is_known_and_safe_goes_out(tmp_path: Path) -> None:
    """A has 12 and 28 records whatever the missing counts are; of B and C nobody knows how many."""
    build = build_of(tmp_path)
    run_all(build, IN_PROCESS)
    release, report = build.folder.stage("release"), build.folder.stage("confidential") / "report.html"
    assert [path.name for path in release.glob("0*.csv")] == ["001_A.csv"]
    assert (release / "001_A.csv").read_text() == "A,count\na0,12\na1,28\n"
    assert "counts are missing" in report.read_text().lower()
    found = verify(build.folder.path)
    assert (found.verified, found.at_risk_cells, found.certified_cells) == (True, 4, 4)
    # at risk in some table that agrees: listed by hand, all tables with these totals
    facts = [reference.Fact(frozenset([cell]), n, n) for cell, n in (((0, 1, 0), 5), ((0, 1, 1), 1), ((1, 0, 0), 7))]
    facts += [reference.Fact(frozenset([(1, 1, 1)]), 9, 9), reference.Fact(frozenset([(1, 0, 1)]), 2, 4)]
    facts.append(reference.Fact(frozenset([(0, 0, 0), (0, 0, 1)]), 6, 6))
    facts.append(reference.Fact(frozenset(cell for cell in reference.every_cell((2, 2, 2)) if cell[0]), 28, 28))
    tables = reference.feasible((2, 2, 2), facts)
    small = ((tables > 0) & (tables <= 2)).any(axis=0)
    table = build.made.table
    assert table.codes[table.at_risk(2)].tolist() == [list(c) for c in np.argwhere(small.reshape(2, 2, 2)).tolist()]


def test_an_unknown_sub_table_that_is_required_is_named(tmp_path: Path) -> None:
    build = build_of(tmp_path, release={"require": ["B"]})
    with pytest.raises(NotReleasableError, match="B has a count that is not known, because counts of the table are"):
        run_all(build, IN_PROCESS)


def cut_least(table: Table, missing: MissingCounts) -> Table:
    return Table(table.schema, table.codes, table.counts, MissingCounts(missing.least + 5, missing.unknown))


def with_zero_least(table: Table, missing: MissingCounts) -> Table:
    return Table(table.schema, table.codes, table.counts, MissingCounts(missing.least * 0, missing.unknown))


def with_more_unknown(table: Table, missing: MissingCounts) -> Table:
    return Table(table.schema, table.codes, table.counts, MissingCounts(missing.least, (0b001,)))


def with_nothing_missing(table: Table, missing: MissingCounts) -> Table:
    return Table(table.schema, table.codes, table.counts)


@pytest.mark.parametrize("change", [cut_least, with_zero_least, with_more_unknown, with_nothing_missing])
def test_a_changed_table_is_not_verified(change: Any, tmp_path: Path) -> None:
    build = build_of(tmp_path)
    run_all(build, IN_PROCESS)
    folder = build.folder.stage("table")
    table = read_written_table(folder)
    assert table.missing is not None
    write_table(change(table, table.missing), folder)
    assert not verify(build.folder.path).verified
    # the gate before a release believes no digest
    found = verify_release(build.folder.path, build.folder.stage("release"), 2, 3)
    assert not found.verified
    if change is with_more_unknown:
        assert any("A is released, and counts of it are missing" in one for one in found.failures)


def test_what_needs_every_count_is_refused(tmp_path: Path) -> None:
    for more, message in (
        (
            {"table": {"variables": ["A"]}},
            "the file is then read as it is, without variables",
        ),
        (
            {"server": {}},
            "a server's answers are replayed and audited from complete counts",
        ),
        ({"posterior": {}}, "it needs every count, or it is not proven that its answer is safe whatever they are"),
        ({"ledger": str(tmp_path / "ledger")}, "the file with missing counts must have all that is known"),
    ):
        with pytest.raises(ConfigError, match=message):
            build_of(tmp_path, **more)
    lines = "A,B,count\na,b,\na,c,2\n(total),(total),5\n"
    build = build_of(tmp_path, lines, table={"expect": {"records": [6, 7]}})
    with pytest.raises(InputError, match=r"part\.csv has 5 records, table\.expect\.records = "):
        run_all(build, IN_PROCESS)


def test_a_complete_file_is_an_ordinary_table(tmp_path: Path) -> None:
    lines = "A,B,count\na,b,10\na,c,7\nd,b,8\nd,c,9\n"
    build = build_of(tmp_path, lines)
    run_all(build, IN_PROCESS)
    assert build.made.table.missing is None
    assert verify(build.folder.path).verified
