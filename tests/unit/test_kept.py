"""What runs of the tests keep for each other, and how many random cases they take."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as hs

from tests import conftest, nightly, profiles
from tests.helpers import kept, processes


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "sdc-tests"


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(kept, "ROOT", tmp_path)
    (tmp_path / "kernel.py").write_text("first")
    return tmp_path / "kernel.py"


def test_each_state_has_a_folder_and_the_last_are_kept(cache: Path, source: Path) -> None:
    first = kept.kept_folder("kernels", [source], "numba 1")
    assert first == kept.kept_folder("kernels", [source], "numba 1")
    for state in range(kept.STATES_KEPT):
        os.utime(first, (0, 0))
        source.write_text(f"state {state}")
        last = kept.kept_folder("kernels", [source], "numba 1")
    assert not first.exists()
    assert len(list((cache / "kernels").iterdir())) == kept.STATES_KEPT
    assert last != kept.kept_folder("kernels", [source], "numba 2")


def test_a_cache_that_cannot_be_written_is_done_without(cache: Path, source: Path) -> None:
    cache.parent.write_text("no folder")
    folder = kept.kept_folder("kernels", [source])
    assert folder.is_dir()
    assert not folder.is_relative_to(cache.parent)
    folder.rmdir()


def test_examples_are_scaled_once_and_few_are_all_taken() -> None:
    @given(hs.integers())
    @settings(max_examples=200)
    def many(n: int) -> None: ...

    @given(hs.integers())
    @settings(max_examples=3)
    def few(n: int) -> None: ...

    profiles.scale_examples([many, few, many, print])
    counts = [test._hypothesis_internal_use_settings.max_examples for test in (many, few)]  # type: ignore[attr-defined]
    assert counts == [profiles.scaled(200), profiles.scaled(3)]


@pytest.mark.parametrize(
    ("profile", "counts"), [("ci", [25, 15, 3]), ("nightly", [100, 15, 3]), ("long", [8000, 400, 60])]
)
def test_the_cases_of_a_profile(profile: str, counts: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiles, "settings", SimpleNamespace(get_current_profile_name=lambda: profile))
    assert [profiles.scaled(cases) for cases in (400, 20, 3)] == counts


class Item:
    """A test as pytest's collection has it."""

    def __init__(self, nodeid: str, mark: str = "") -> None:
        self.nodeid, self._mark = nodeid, mark

    def get_closest_marker(self, name: str) -> bool:
        return name == self._mark


@pytest.mark.parametrize(
    ("is_slow_asked", "argument", "kept_tests"),
    [(False, "tests", ["c"]), (True, "tests", ["a", "b[x]", "c"]), (False, "tests/x.py", ["a", "b[x]", "c"])],
)
def test_slow_tests_run_when_asked_or_when_files_are_named(
    is_slow_asked: bool, argument: str, kept_tests: list[str]
) -> None:
    hook = SimpleNamespace(pytest_deselected=lambda items: None)
    arguments = [str(kept.ROOT / argument)]
    config: Any = SimpleNamespace(getoption=lambda name: is_slow_asked, args=arguments, hook=hook)
    items: Any = [Item("a", "slow"), Item("b[x]", "slow"), Item("c")]
    conftest.deselect_slow(items, config)
    assert [item.nodeid for item in items] == kept_tests


def test_groups_of_tests_are_there() -> None:
    paths = [path for paths in processes.TOGETHER.values() for path in paths]
    assert [path for path in paths if not (kept.ROOT / path).exists()] == []


def test_a_group_is_handed_out_as_one() -> None:
    config: Any = SimpleNamespace(getvalue=lambda name: ["popen"])
    scope = processes.Together(config)._split_scope
    assert scope("tests/system/stages/test_a.py::test") == "builds"
    assert scope("tests/integration/test_progress.py::test[1]") == "builds"
    assert scope("tests/unit/model/test_table.py::test[1]") == "tests/unit/model/test_table.py"


def test_groups_are_handed_out_before_files() -> None:
    config: Any = SimpleNamespace(getvalue=lambda name: ["popen"])
    scheduler, node = processes.Together(config), Mock()
    scheduler.workqueue.update({"tests/test_a.py": {"a": False}, "kills": {"b": False}, "flows": {"c": False}})
    scheduler.registered_collections[node] = ["a", "b", "c"]
    while scheduler.workqueue:
        scheduler._assign_work_unit(node)
    assert [call.args[0] for call in node.send_runtest_some.call_args_list] == [[2], [1], [0]]


def test_a_part_of_the_night_fails_where_it_is_not_done_in_time() -> None:
    assert nightly.outcome(["true"], 1e12)[0] == "passed"
    assert nightly.outcome(["false"], 1e12)[0] == "failed"
    assert nightly.outcome(["sleep", "600"], 0)[0] == "not done in time"
    assert all("7" in command for command in nightly.parts(7).values())
