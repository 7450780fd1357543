"""`sdc release`: the published releases, what is written, and what is refused."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sdc import api
from sdc.config.build import ExecutionConfig
from sdc.executor import IN_PROCESS, Executor
from sdc.model.table import Table
from sdc.risk.effort import Budget
from sdc.search.best import FoundRelease
from tests.helpers.builds import BESIDE, BY_NAME, CZECH_YAML, PUBLISHED, write_counts, write_czech
from tests.helpers.commands import CZECH, RELEASE, Sdc, tree
from tests.strategies import all_ways, evaluator_of, scattered


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["bounds", CZECH], "is not a run with a release; give --release"),
        (["assess", CZECH, "--release", "A*B"], "has no criterion; give --min-width"),
        (["release", CZECH, "--min-width", "6"], "names no method; give --method"),
    ],
)
def test_what_no_config_says_is_asked_for(words: list[str], message: str, sdc: Sdc) -> None:
    sdc(*words).assert_refused(message)


def test_a_config_says_what_its_table_needs(sdc: Sdc) -> None:
    alone = ["--min-width", 6, "--workers", 1, "--json"]
    by_options = sdc("assess", CZECH, *RELEASE, *alone).document
    assert sdc("assess", CZECH_YAML, *RELEASE, *alone).document == by_options
    assert sdc("why", CZECH_YAML, "A*B*C*D*F", *alone).document["conflicts"] == []


def test_a_release_within_a_limit_on_the_posterior(sdc: Sdc) -> None:
    options = ["--min-width", "6", "--steps", "500", "--chains", "1", "--max-probability", "0.02"]
    found = sdc("release", CZECH, "--method", "decomposable", *options)
    assert "likely        under the law released 0 of 3" in found.out
    refused = sdc("release", CZECH, "--method", "ordered", *options)
    assert refused.status == 1
    assert "is not monotone" in refused.err


@pytest.mark.parametrize("min_width", [6, 9])
def test_the_published_release(min_width: int, sdc: Sdc) -> None:
    answer = sdc("release", CZECH, "--method", "ordered", "--min-width", min_width, "--json")
    found = answer.document
    proven = (7, 1) if min_width == 6 else (0, 0)
    assert found["method"] == "ordered"
    assert tuple(found["refused"].values()) == (*proven, 0, 0, 0)
    assert found["frontier"] == [name.split("*") for name in BY_NAME]
    assert (found["sub_tables"], found["sub_tables_with_total"]) == (59, 60)
    assert found["assessment"]["releasable"] is True
    assert found["assessment"]["min_width_required"] == min_width
    assert found["assessment"]["undecided_cells"] == 0
    assert "releasable" in answer.err  # progress


def test_only_the_grand_total_may_be_what_is_released(sdc: Sdc, tmp_path: Path) -> None:
    words = ["release", CZECH, "--method", "ordered", "--min-width", "1000"]
    found = sdc(*words, "--out", tmp_path / "public", "--json").document
    assert found["published"].startswith("not in a ledger")
    assert (found["frontier"], found["sub_tables"], found["sub_tables_with_total"]) == ([[]], 0, 1)
    assert tree(tmp_path / "public") == BESIDE
    total = sdc(*words)
    assert "(total)" in total.out
    assert total.status == 3


def test_a_release_is_published_where_a_folder_is_given(sdc: Sdc, tmp_path: Path) -> None:
    words = ["release", CZECH, "--method", "ordered", "--min-width", "6", "--out", tmp_path / "public"]
    answer = sdc(*words)
    assert answer.status == 0
    assert f"published     {tmp_path / 'public'}, not in a ledger" in answer.out
    assert tree(tmp_path) == {"public", *(f"public/{name}" for name in PUBLISHED)}
    before = {path: path.read_bytes() for path in (tmp_path / "public").iterdir()}
    sdc(*words).assert_refused(r"--out .*public exists already; name a folder that does not")
    assert {path: path.read_bytes() for path in (tmp_path / "public").iterdir()} == before


def test_a_publication_is_never_called_after_its_source(sdc: Sdc, tmp_path: Path) -> None:
    """Whose name may be that of a person, or a URL with a token in it."""
    source = tmp_path / "extract-of-miller.csv"
    shutil.copy(CZECH, source)
    words = ["release", source, "--method", "ordered", "--min-width", "6", "--out"]
    for out, more, title in (("one", [], "one"), ("two", ["--title", "Car workers 1981"], "Car workers 1981")):
        assert sdc(*words, tmp_path / out, *more).status == 0
        assert json.loads((tmp_path / out / "datapackage.json").read_text())["title"] == title
        assert not any(b"miller" in path.read_bytes() for path in (tmp_path / out).iterdir())


@pytest.mark.parametrize("out", ["none/public", "file/public"])
def test_a_release_that_cannot_be_published(out: str, sdc: Sdc, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    words = ["release", CZECH, "--method", "ordered", "--min-width", "6", "--json", "--out", tmp_path / out]
    sdc(*words).assert_refused(rf"{Path(out).parent}\b.*; ")
    assert tree(tmp_path) == {"file"}


def test_publishing_that_fails_leaves_nothing(sdc: Sdc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("sdc.stages.release.check_publication", full)
    words = ["release", CZECH, "--method", "ordered", "--min-width", "6", "--out", tmp_path / "public"]
    sdc(*words).assert_refused("public cannot be written.*No space left on device", status=75)
    assert tree(tmp_path) == set()


def test_a_release_that_is_not_proven_is_not_published(
    sdc: Sdc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search that hands out what it has not certified, as one did once its budget was spent."""
    write_counts(tmp_path / "table.csv", scattered(6))
    search = api.find_release

    def undecided(table: Table, *asked: Any, **settings: Any) -> FoundRelease:
        spent = evaluator_of(table, 3, budget=Budget(1e-4, 1e-4)).evaluate(all_ways(5, 2))
        return replace(search(table, *asked, **settings), evaluation=spent)

    monkeypatch.setattr(api, "find_release", undecided)
    words = ["release", tmp_path / "table.csv", "--method", "ordered", "--min-width", "3", "--out", tmp_path / "public"]
    message = r"the release found is not proven safe \(\d+ cells are undecided, .*required 3\); nothing is published"
    sdc(*words).assert_refused(message, 3)
    assert tree(tmp_path) == {"table.csv"}


DECOMPOSABLE = ["release", CZECH, "--method", "decomposable", "--steps", "2000", "--chains", "2"]


@pytest.mark.parametrize(("min_width", "with_total"), [(10, 48), (31, 28)])
def test_the_decomposable_release(min_width: int, with_total: int, sdc: Sdc) -> None:
    """REFERENCE section 2, which checked all 18,154 decomposable graphs on six variables."""
    answer = sdc(*DECOMPOSABLE, "--min-width", min_width, "--seed", "3", "--json")
    found = answer.document
    assert (found["method"], found["sub_tables_with_total"]) == ("decomposable", with_total)
    assert found["graph"] == found["frontier"]
    assert found["assessment"]["releasable"] is True
    assert found["assessment"]["min_width"][0] >= min_width
    assert (found["utility"]["reconstruction_method"], found["utility"]["converged"]) == ("closed form", True)
    assert "annealing round" in answer.err


def test_weights_and_a_start_graph(sdc: Sdc) -> None:
    words = [*DECOMPOSABLE, "--min-width", "40", "--json", "--start", "[A,E] [B,D]"]
    found = sdc(*words, "--weight", "B*C*E=90", "--weight", "A=2").document
    assert sdc(*words, "--weight", "B*C*E=90", "--weight", "A=2").document == found  # of the same seed
    assert any(set("BCE") <= set(names) for names in found["frontier"])
    assert found["utility"]["weighted"] > found["utility"]["sub_tables"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--start", "[A,B,C,D,F] [E]"], r"start graph is not releasable at the minimum width 6: .* the clique"),
        (["--min-width", "261"], "261 is not reached even when only the one-way .* an at-risk cell has .*at most"),
        (["--weight", "A=0"], r"release\.weights\.variables\.A = 0: should be greater than 0 \(a number more"),
    ],
)
def test_faulty_annealing_is_one_message(words: list[str], message: str, sdc: Sdc) -> None:
    status = 3 if "not releasable" in message or "not reached" in message else 1
    sdc(*DECOMPOSABLE, "--min-width", "6", *words).assert_refused(message, status)


def test_a_config_says_who_works_unless_workers_are_asked_for(
    tmp_path: Path, sdc: Sdc, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = list[tuple[str, int]]()

    @contextmanager
    def note(execution: ExecutionConfig) -> Iterator[Executor]:
        opened.append((execution.cluster, execution.workers))
        yield IN_PROCESS

    monkeypatch.setattr("sdc.execution.cluster.open_executor", note)
    config = write_czech(tmp_path, execution={"cluster": "local", "workers": 3})
    verbs: list[list[object]] = [["widths", config], ["bounds", config, *RELEASE], ["assess", config, *RELEASE]]
    for words in [*verbs, ["why", config, "A*B"], ["posterior", config, *RELEASE], ["release", config]]:
        sdc(*words)
        sdc(*words, "--workers", 1)
        sdc(*words, "--workers", 2)
        assert opened == [("local", 3), ("in-process", 1), ("local", 2)], words[0]
        opened.clear()
    sdc("widths", CZECH)
    assert opened == [("in-process", 1)]
    # a cluster that is not there is said, and not replaced by this process
    lost = write_czech(tmp_path, execution={"cluster": "none.yaml"})
    sdc("widths", lost).assert_refused(r"cluster = 'none\.yaml'")
