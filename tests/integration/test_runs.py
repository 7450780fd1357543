"""Runs and what was published, from Python."""

from pathlib import Path

import pytest

import sdc
from sdc.model.errors import InputError, ReleaseError, RunFolderError, SdcError
from sdc.model.release import release_facts
from sdc.model.table import Table
from sdc.stages.finished import Built
from tests.helpers import builds
from tests.helpers.builds import BY_NAME, CZECH_CSV


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """A build, made without its flow: with that `sdc.run` makes one in the handbook and in the notebook."""
    build = builds.built(builds.write_czech(tmp_path_factory.mktemp("run")))
    facts = {
        "run_folder": str(build.folder.path),
        "release": release_facts(build.made.found.release, build.made.table.schema),
    }
    return Built(facts)


def test_a_build_goes_into_every_verb(built: Built, czech: Table) -> None:
    assert (built.sub_tables, built.frontier, built.table) == (59, BY_NAME, sdc.read_table(CZECH_CSV))
    assert sdc.assess(built.table, built, min_width=9).releasable is True
    assert sdc.enumerate_tables(built.table, built).feasible_tables == 810
    assert built.to_arrow().to_pydict() == {"sub_table": BY_NAME, "variables": [5, 5, 5, 4, 4, 4]}
    assert repr(built).startswith("Build of 59 sub-tables and the grand total; to publish: ")
    assert built.report.is_file()
    assert (built.to_publish / "index.html").is_file()
    with pytest.raises(ReleaseError, match="what is known is of 1841 records of A, B, C"):
        sdc.assess(czech.marginal("A*B"), built, min_width=6)


def test_a_run_is_verified_and_compared_from_python(built: Built) -> None:
    found = sdc.verify_run(str(built.folder))
    assert (found.verified, found.certified_cells, found.failures) == (True, 3, ())
    same = sdc.compare(built.folder, built.folder)
    assert repr(same) == "59 sub-tables, then 59; config: 0 different keys"
    assert same.to_arrow().to_pydict() == {"change": [], "sub_table": [], "why": []}
    with pytest.raises(RunFolderError, match="name one that sdc run has made"):
        sdc.verify_run(built.folder.parent.parent)
    assert sdc.verify_run(built.folder.parent).verified is True


def test_what_was_published_is_checked_from_python(built: Built, tmp_path: Path) -> None:
    found = sdc.check(built.to_publish, min_width=10, min_frequency=20)
    rows = found.to_arrow().to_pylist()
    assert found.narrow_cells == sum(row["outer_upper"] - row["outer_lower"] < 10 for row in rows) > 0
    assert (found.consistent, found.is_kept) == (True, False)
    assert sdc.check(built.to_publish, min_width=1).is_kept
    assert [*rows[0]] == [*"ABCDEF", "outer_lower", "outer_upper", "inner_lower", "inner_upper"]
    assert {(row["outer_lower"], row["outer_upper"]) for row in rows} >= {(0, 9), (0, 10)}
    one, two = tmp_path / "1.csv", tmp_path / "2.csv"
    one.write_text("a,b,count\nx,u,1\nx,v,4\n")
    two.write_text("b,count\nu,2\nv,3\n")
    assert repr(sdc.check(one, two)) == "They contradict each other, see `reason`"
    others = [{"folder": str(two), "disjoint": True}]
    assert sdc.check(one, two, relations=others, min_width=1).narrow_cells == 1
    for given, message in (
        ({"cells": "some"}, "cells = 'some'; choose at-risk or all"),
        ({"relations": [{"folder": "x", "other": 1}]}, "relations: .*other is an unknown key"),
    ):
        with pytest.raises(SdcError, match=message):
            sdc.check(one, two, **given)
    with pytest.raises(InputError, match="no folder is named"):
        sdc.check()


def test_a_ledger_from_python_has_no_key_in_its_text(tmp_path: Path) -> None:
    made = sdc.ledger(tmp_path / "ledger", new=True)
    assert (
        repr(made)
        == repr(sdc.ledger(str(tmp_path / "ledger")))
        == f"{tmp_path}/ledger: 0 publications, the chain holds"
    )
    assert made.to_arrow().column_names == [
        "number",
        "published",
        "name",
        "table",
        "folder",
        "sub_tables",
        "suppressed",
        "rounded",
    ]
