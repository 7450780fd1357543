"""How many random cases a test takes: few by default, many in the nightly run. They are new in each run."""

from fractions import Fraction
from typing import Any

from hypothesis import HealthCheck, settings

SHARE = {"ci": Fraction(1, 40), "nightly": Fraction(1, 4), "long": Fraction(20)}
"""Of the examples that a test names, those that are taken under each profile."""

FEWEST = 10


def register_profiles() -> None:
    """`--hypothesis-profile nightly` or `long` takes another one; its cases are those of `--hypothesis-seed`."""
    for name in SHARE:
        # no database: what a run draws depends on its seed alone. Nor is it judged by a clock
        settings.register_profile(
            name, derandomize=False, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
        )
    settings.load_profile("ci")


def scaled(cases: int, *, fewest: int = FEWEST) -> int:
    """So many of these random cases; where a test names few, all of them."""
    return max(min(cases, fewest), round(cases * SHARE[settings.get_current_profile_name()]))


def scale_examples(tests: list[Any]) -> None:
    """Scales what each Hypothesis test names in its settings, once; others are left alone."""
    for test in {id(test): test for test in tests if hasattr(test, "hypothesis")}.values():
        named = test._hypothesis_internal_use_settings  # settings() may decorate a test but once
        test._hypothesis_internal_use_settings = settings(named, max_examples=scaled(named.max_examples))
