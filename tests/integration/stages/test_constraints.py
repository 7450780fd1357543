"""A build that is told what to release: required and forbidden sub-tables, demand, and what it says of them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from sdc.config.file import read_config
from sdc.model import subtable as st
from sdc.model.errors import ConfigError
from sdc.search.reasons import NOTHING_ELSE
from sdc.storage.run_folder import folder_digest
from sdc.verify.run_folder import verify
from tests.helpers.builds import built, document_of, report_of, write_czech

Written = Callable[..., Path]


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """Writes the Czech config with settings of the release."""
    return lambda **release: write_czech(tmp_path, whole={"release": release})


def test_a_build_has_what_is_required_and_says_what_was_refused(written: Written, tmp_path: Path) -> None:
    (tmp_path / "requests.csv").write_text("sub_table,frequency\nA*B,3\nB*D*F,1\n")
    release = {
        "require": ["A*B*C*D*F", {"of": ["A", "E", "F"], "up_to": 2}],
        "forbid": [{"of": ["B", "D", "F"]}],
        "on_conflict": "drop",
        "demand": "requests.csv",
    }
    with pytest.raises(ConfigError, match=r"require has A\*B\*C\*D\*F, and forbid B\*D\*F"):
        built(written(**release))
    build = built(written(**{**release, "forbid": [{"of": ["B", "C", "E"]}]}))
    schema, public = build.made.table.schema, build.made.found.release
    assert st.parse("A*B*C*D*F", schema) not in public
    assert not any(st.is_within(st.parse("B*C*E", schema), element) for element in public.frontier)
    assert all(st.parse(pair, schema) in public for pair in ("A*E", "A*F", "E*F"))
    utility = document_of(build, "confidential", "utility.json")
    assert utility["requests_served"] == 1.0
    page = report_of(build)
    assert "3 of 4 required sub-tables are published" in page
    assert "A*B*C*D*F is not releasable" in page
    assert verify(build.folder.path, lambda line: None).verified
    # what the demand says is part of the build, and not where it lies
    assert read_config(tmp_path / "build.yaml").release.demand == {"A*B": 3.0, "B*D*F": 1.0}


def test_only_what_is_required_goes_out_each_in_a_file_of_its_own(written: Written) -> None:
    """In files and report nothing but it, with what is within."""
    build = built(written(require=["A*B*C", "A*B", "F"], required_only=True))
    folder = build.folder.stage("release")
    assert sorted(path.name for path in folder.glob("0*.csv")) == ["001_A-B-C.csv", "002_F.csv", "003_A-B.csv"]
    assert verify(build.folder.path, lambda line: None).verified
    page = report_of(build)
    assert "3 of 3 required sub-tables are published" in page
    assert NOTHING_ELSE in page
    more = built(written(require=["A*B*C", "A*B", "F"]))
    assert more.made.found.release != build.made.found.release
    assert len([*more.folder.stage("release").glob("*_A-B.csv")]) == 1


def test_a_build_that_is_ended_by_the_clock_says_so_and_is_proven(written: Written) -> None:
    build = built(written(method="best", minutes=1e-9, annealing={"steps": 2000}))
    assert build.made.found.ended_after["rounds"] == 0
    assert verify(build.folder.path, lambda line: None).verified
    page = report_of(build)
    assert "The chains were ended early after 0 rounds" in page or "The search was ended early after" in page
    assert "The search ended early; sub-tables that it had not evaluated by then are not released." in page


def test_a_config_of_an_earlier_version_says_how_far_a_search_went_which_has_no_effect(written: Written) -> None:
    said = list[str]()
    path = written(ended_after={"questions": 1})
    build = built(path, say=said.append)
    assert [line for line in said if "release.ended_after has no effect any more" in line]
    whole = built(written())
    assert build.made.found.ended_after == {}
    assert folder_digest(build.folder.stage("release")) == folder_digest(whole.folder.stage("release"))
    assert build.folder.path != whole.folder.path  # it is another config, as it was


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("table,frequency\nA,1\n", "has no columns sub_table and frequency"),
        ("sub_table,frequency\nA,none\n", "line 2: give a sub-table such as age\\*sex and a frequency above 0"),
        ("sub_table,frequency\nA,1\n,2\n", "line 3"),
        ("sub_table,frequency\nA,inf\n", "line 2"),
        ("", "has no columns"),
    ],
)
def test_a_file_of_requests_that_is_none(text: str, message: str, written: Written, tmp_path: Path) -> None:
    (tmp_path / "requests.csv").write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_config(written(demand="requests.csv"))
