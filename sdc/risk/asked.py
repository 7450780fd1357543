"""Criteria as verbs are asked by them: as one value, or one by one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sdc.config.given import require_names
from sdc.model.errors import InputError
from sdc.risk.criteria import Criteria, CriteriaKeywords


def criteria(*, min_width: int, small_count: int = 2, **others: Any) -> Criteria:
    """State what a release must satisfy.

    Every function that judges a release takes it as a whole, or these by keywords.

    Parameters
    ----------
    min_width : int
        Records. The least width of the bounds of each at-risk cell.
    small_count : int, default 2
        Cells of 1 up to this count are at risk.
    posterior_limit : PosteriorLimit, optional
        A limit on what is likely of them.
    min_frequency : int, optional
        The smallest count that may be public, but for 0.
    attribute_disclosure : AttributeDisclosure, optional
        What must not be published of small groups.

    Returns
    -------
    Criteria
        All of it as one value.

    Raises
    ------
    InputError
        For a width or a small count below 1, and a frequency below 2.

    Notes
    -----
    All criteria must hold at once.

    References
    ----------
    [KDSF] Dobra, Karr, Sanil, Fienberg: equation 6.

    Examples
    --------
    >>> rules = sdc.criteria(min_width=6, min_frequency=20)
    >>> sdc.find_release("czech_auto_workers.csv", criteria=rules).sub_tables
    53
    """
    return Criteria.of(small_count, min_width, **others)


def criteria_of(given: Criteria | None, asked: Mapping[str, Any]) -> Criteria:
    """Those given, or what the keywords come to; InputError for both, for neither, and for other keywords."""
    require_names(asked, tuple(CriteriaKeywords.__annotations__), "criteria")
    if given is not None and asked:
        raise InputError(f"criteria are given, and {', '.join(asked)} too; give only one of the two")
    if given is None and "min_width" not in asked:
        raise InputError("min_width is missing; give it, or the result of sdc.criteria as criteria")
    return given or criteria(**asked)


def split(given: Criteria | None, settings: Mapping[str, Any]) -> tuple[Criteria, dict[str, Any]]:
    """The criteria, given or among the settings, and the other settings. Errors as `criteria_of`."""
    own = {name: value for name, value in settings.items() if name in CriteriaKeywords.__annotations__}
    return criteria_of(given, own), {name: value for name, value in settings.items() if name not in own}
