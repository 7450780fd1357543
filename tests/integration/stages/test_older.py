"""What commit 94e8d48 wrote is read, verified and built upon: ledgers, run folders, and releases of each kind.

In it `t` has suppressed cells, `round` rounded ones, `merge` merged categories, `whole` levels, totals and a signature,
and `lists` suppressed cells whose categories the config names. They were built in /agency, which is not there: the
fixture says where the files are now.
"""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

import sdc
from sdc.model.errors import InputError, NothingReleasableError
from sdc.public.published import read_published
from sdc.record.ledger import new_ledger, read_ledger
from sdc.stages.finished import compare
from sdc.stages.resolved import ResolvedInput
from sdc.stages.verified import verify_run
from sdc.storage.runs import read_runs, superfluous
from tests.helpers.builds import built, made, written

OLD = Path(__file__).with_name("written_by_94e8d48.tar.xz")
CORNER = [[0, 0], [0, 1], [1, 0], [1, 1]]
PUBLISHED = {
    "lists": [("A", [[1], [2], [3]])],
    "merge": [("B*A_merged", None)],
    "round": [("A*B", 5)],
    "t": [("A", None), ("B", None), ("A*B", CORNER)],
    "whole": [("A", None), ("R*B", None)],
}


@pytest.fixture
def older(tmp_path: Path) -> Path:
    shutil.unpack_archive(OLD, tmp_path)
    for manifest in tmp_path.glob("runs/*/*/manifest.json"):
        manifest.write_text(manifest.read_text().replace("/agency", str(tmp_path)))
    for config in tmp_path.glob("*.yaml"):
        config.write_text(config.read_text().replace("folder: runs", f"folder: {tmp_path}/runs"))
    return tmp_path


def with_copied_ledger(older: Path, name: str) -> Path:
    """A config that goes on with a copy of its ledger."""
    file = older / f"{name}.yaml"
    config = yaml.safe_load(file.read_text())
    new_ledger(older / "new", older / config["ledger"])
    file.write_text(yaml.safe_dump({**config, "ledger": "new"}))
    return file


def run_of(older: Path, name: str) -> Path:
    (manifest,) = older.glob(f"runs/{name}/*/manifest.json")
    return manifest.parent


@pytest.mark.parametrize("name", PUBLISHED)
def test_what_an_older_version_published_is_read_and_verified(older: Path, name: str) -> None:
    """Whatever it did not prove is said, with what to do: that labels name merged categories."""
    run = run_of(older, name)
    found = verify_run(run)
    labels = ["the labels of A: A is within no clique; run the build again"]
    assert [*found.failures] == (labels if name == "merge" else [])
    assert found.failures or found.bytes.startswith("written with sdc (unknown), here is 0.2.0: ")
    assert (found.known == "read again from all that the config names") is (name in ("lists", "round", "t"))
    told = {one.label: one.base or one.suppressed.tolist() or None for one in read_published(run / "release")}
    assert sorted(told.items()) == sorted(PUBLISHED[name])
    assert sdc.check(run / "release").consistent
    assert ResolvedInput.open(str(run)).released is not None


def test_runs_of_an_older_version_are_kept_compared_and_explained(older: Path) -> None:
    runs = read_runs(older / "runs")
    assert [run.state for run in runs] == ["finished"] * 5
    assert superfluous(runs, unfinished=True) == []
    assert compare(run_of(older, "round"), run_of(older, "t")).in_part == {"A*B": ("rounded to multiples of 5", 4)}
    subject = ResolvedInput.open(str(run_of(older, "t")))
    why = sdc.why(subject.table, subject.known, "A*B", criteria=subject.criteria())
    assert why.proof(subject.table.schema) == "refused, proven: a cell has a width of 0 at most given A*B"


def test_a_ledger_whose_hashes_anybody_can_make_is_listed_and_copied_before_a_build_goes_on(older: Path) -> None:
    with pytest.raises(InputError, match=r"version 0\.1: .* sdc ledger NEW --new --from .*led, and name the new one"):
        built(older / "t.yaml")
    before, copied = read_ledger(older / "led"), sdc.ledger(older / "new", new=True, old=older / "led")
    assert [replace(one, hash="") for one in copied.entries] == [replace(one, hash="") for one in before.entries]
    assert (copied.key, copied.sealed, before.sealed) == (before.key, True, False)
    assert copied.head != before.head
    for new, old, match in (
        (False, "led", r"add --new for .*other"),
        (True, "new", "already has this version's format; use it"),
        (True, "none", "there is no ledger"),
    ):
        with pytest.raises(InputError, match=match):
            sdc.ledger(older / "other", new=new, old=older / old)
    assert not [path for path in older.iterdir() if "other" in path.name]


@pytest.mark.parametrize("name", ["round", "merge"])
def test_a_rerun_is_a_new_build_beside_the_entry_of_the_older_version(older: Path, name: str) -> None:
    build = built(with_copied_ledger(older, name))
    assert [source[:23] for source in build.origin.sources] == ["entry 1 of the ledger, "]
    assert [bool(entry.public) for entry in read_ledger(older / "new").entries] == [False, True]
    assert verify_run(build.folder.path).verified
    assert len([*older.glob(f"runs/{name}/*/release")]) == 2


def test_a_build_upon_an_older_ledger_is_judged_beside_its_entry(older: Path) -> None:
    """Another pattern of the same config: neither taken for the first, nor for a build that reuses its stages."""
    rows = (f"a{i},b{j},{'' if {i, j} <= {0, 2} else 9}" for i in range(3) for j in range(3))
    (older / "like.csv").write_text("\n".join(["A,B,count", *rows, ""]))
    build, statuses = made(with_copied_ledger(older, "t"))
    assert {*statuses.values()} == {"done"}
    assert [bool(entry.public) for entry in read_ledger(older / "new").entries] == [False, True]
    (part,) = build.made.found.suppressed_tables.tables
    assert part.fact.intervals is not None
    assert {*map(tuple, CORNER)} < {*map(tuple, part.fact.intervals.cells.tolist())}
    assert verify_run(build.folder.path).verified


def test_that_an_older_publication_is_by_a_code_list_is_said_by_the_config(older: Path) -> None:
    """Its suppressed cells have 3 records: if each of the three categories had one, all would be known."""
    config = yaml.safe_load(with_copied_ledger(older, "lists").read_text())
    config |= {"name": "later", "release": {"require": ["B"], "required_only": True}}
    (older / "later.yaml").write_text(yaml.safe_dump(config))
    said = r"labels of A count too: .* name them in table.categories, and say .*\{entry: ..., code_lists: \[A\]\}\]"
    with pytest.raises(NothingReleasableError, match=said):
        built(older / "later.yaml")
    (older / "later.yaml").write_text(yaml.safe_dump({**config, "earlier": [{"entry": 1, "code_lists": ["A"]}]}))
    build = built(older / "later.yaml")
    assert verify_run(build.folder.path).verified
    (_, entry) = read_ledger(older / "new").entries
    assert entry.known["declared"] == ["entry 1: with categories of A from a code list"]


@pytest.mark.parametrize(
    ("name", "ledger", "declared"),
    [
        ("n", "led", {"categories": {"chapter": ["1", "2", "3"]}, "alike": "merge"}),
        ("d", "led2", {"recodes": {"lang": {"groups": {"1.5": ["1,5"], "2.5": ["2,5"]}}}}),
    ],
)
def test_an_entry_whose_categories_were_named_otherwise(name: str, ledger: str, declared: Any, tmp_path: Path) -> None:
    """1.0 was 1 then, and 1,5 beside a decimal comma 1.5: the table is known again by its digest once that is said."""
    shutil.unpack_archive(OLD.with_name("names_of_94e8d48.tar.xz"), tmp_path)
    new_ledger(tmp_path / "new", tmp_path / ledger)
    table = {"path": f"{name}.csv", "csv": {"delimiter": ";", **({"decimal": ","} if name == "d" else {})}}
    release, beside = {"require": ["sex"], "required_only": True}, {"ledger": "new", "risk": {"min_width": 2}}
    with pytest.raises(
        InputError, match=r"whose categories version 0\.1 named otherwise .* table\.categories, .* groups of"
    ):
        built(written(tmp_path, table=table, release=release, **beside))
    build = built(written(tmp_path, table={**table, **declared}, release=release, **beside))
    first, second = read_ledger(tmp_path / "new").entries
    assert first.table == second.table
    assert [source[:23] for source in build.origin.sources] == ["entry 1 of the ledger, "]
