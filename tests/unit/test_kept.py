"""Which tests a run takes, and how many random cases."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests import conftest, nightly, profiles
from tests.helpers import kept, processes


@pytest.mark.parametrize(
    ("profile", "counts"), [("ci", [10, 10, 3]), ("nightly", [100, 10, 3]), ("long", [8000, 400, 60])]
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


def test_a_part_of_the_night_fails_where_it_is_not_done_in_time() -> None:
    assert nightly.outcome(["true"], 1e12)[0] == "passed"
    assert nightly.outcome(["false"], 1e12)[0] == "failed"
    assert nightly.outcome(["sleep", "600"], 0)[0] == "not done in time"
    assert all("7" in command for command in nightly.parts(7).values())
