"""That a run of all tests runs all of them."""

from fnmatch import fnmatch
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


def test_no_folder_of_tests_is_passed_over(pytestconfig: pytest.Config) -> None:
    """By pytest's own default folders called `build` or `dist` are, without a word."""
    passed_over = pytestconfig.getini("norecursedirs")
    folders = {path.parent.relative_to(TESTS.parent) for path in TESTS.rglob("test_*.py")}
    assert Path("tests", "integration", "stages") in folders
    assert not [folder for folder in folders for part in folder.parts for p in passed_over if fnmatch(part, p)]
