"""Criteria as verbs are asked by them: as one value, or one by one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sdc.config.given import require_names
from sdc.model.errors import InputError
from sdc.risk.criteria import Criteria, CriteriaKeywords


def criteria(*, min_width: int, small_count: int = 2, **others: Any) -> Criteria:
    """What a release must satisfy. Every verb that judges one takes it as a whole, or these by keywords.

    min_width             in records, that the bounds of every at-risk cell keep at least ([KDSF] eq. 6)
    small_count           cells of 1 up to this count are at risk
    posterior_limit       on what is likely of them, see `PosteriorLimit`
    min_frequency         n, and no public count is from 1 to n - 1
    attribute_disclosure  of no small group it is told what sensitive variables are, see `AttributeDisclosure`

    InputError for a width or a small count below 1, a minimum frequency below 2, and an unknown keyword.
    """
    return Criteria.of(small_count, min_width, **others)


def criteria_of(given: Criteria | None, asked: Mapping[str, Any]) -> Criteria:
    """Those given, or what the keywords come to; InputError for both, for neither, and for other keywords."""
    require_names(asked, tuple(CriteriaKeywords.__annotations__), "criteria")
    if given is not None and asked:
        raise InputError(f"criteria are given, and {', '.join(asked)} too; leave one out")
    if given is None and "min_width" not in asked:
        raise InputError("nothing says how wide bounds must stay; give min_width, or what sdc.criteria gives")
    return given or criteria(**asked)


def split(given: Criteria | None, settings: Mapping[str, Any]) -> tuple[Criteria, dict[str, Any]]:
    """The criteria, given or among the settings, and the other settings. Errors as `criteria_of`."""
    own = {name: value for name, value in settings.items() if name in CriteriaKeywords.__annotations__}
    return criteria_of(given, own), {name: value for name, value in settings.items() if name not in own}
