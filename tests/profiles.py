"""How many random cases a test takes: few and always the same in CI, many new ones in the nightly command, or more."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from hypothesis import settings

SHARE = {"ci": Fraction(1, 16), "nightly": Fraction(1), "long": Fraction(20)}
"""Of the examples that a test names, those that are taken under each profile."""

FEWEST = 15


def register_profiles() -> None:
    """`--hypothesis-profile nightly` or `long` takes another one; its cases are those of `--hypothesis-seed`."""
    settings.register_profile("ci", derandomize=True, deadline=None)
    for name in ("nightly", "long"):
        settings.register_profile(name, derandomize=False, deadline=None, print_blob=True)
    settings.load_profile("ci")


def scaled(cases: int, *, fewest: int = FEWEST) -> int:
    """So many of these random cases; where a test names few, all of them."""
    return max(min(cases, fewest), round(cases * SHARE[settings.get_current_profile_name()]))


def scale_examples(tests: list[Any]) -> None:
    """Scales what each Hypothesis test names in its settings, once; others are left alone."""
    for test in {id(test): test for test in tests if hasattr(test, "hypothesis")}.values():
        named = test._hypothesis_internal_use_settings  # settings() may decorate a test but once
        test._hypothesis_internal_use_settings = settings(named, max_examples=scaled(named.max_examples))
