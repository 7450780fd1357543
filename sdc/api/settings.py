"""What the functions of a search share: their criteria, their settings, and what works with what."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from sdc.config.analysis import WidthsConfig
from sdc.config.capabilities import asked_at
from sdc.config.features import BEFORE, ZEROS
from sdc.config.given import with_given
from sdc.config.release import ReleaseConfig
from sdc.executor import Executor
from sdc.model.errors import ConfigError, InputError
from sdc.model.knowledge import Knowledge
from sdc.model.table import Table
from sdc.risk.asked import split
from sdc.risk.criteria import Criteria, CriteriaKeywords
from sdc.risk.verdict import Policy
from sdc.stages.assemble import Listing, SearchSettings, edition_before

BY_DEFAULT, BY_WIDTH = ReleaseConfig(), WidthsConfig()


def asked(
    criteria: Criteria | None, min_width: int | None, small_count: int, settings: Mapping[str, Any]
) -> tuple[Criteria, dict[str, Any]]:
    """The criteria, as one value or by keywords, and the other settings.

    InputError without a width, and where one of them is given in both ways.
    """
    named = {name: value for name, value in (("min_width", min_width),) if value is not None}
    if criteria is None or small_count not in (2, criteria.small_count):
        named["small_count"] = small_count
    if criteria is None and min_width is None:
        raise InputError(
            "min_width is missing: give the least width, in records, that the bounds of each small count must keep, "
            "such as min_width=3; there is no default"
        )
    return split(criteria, {**settings, **named})


def search_settings(
    table: Table, criteria: Criteria, executor: Executor, given: Mapping[str, Any], release: ReleaseConfig = BY_DEFAULT
) -> SearchSettings:
    """What a search depends on, with the list of widths that the table wants."""
    policy = Policy.OUTER if given.get("accept_undecided") else Policy.REFUSE
    own = {name: value for name, value in given.items() if name != "accept_undecided" and value is not None}
    section = with_given(release, own, tuple(CriteriaKeywords.__annotations__))
    for warning in section.warnings:
        warnings.warn(warning, FutureWarning, stacklevel=4)
    if section.coarsens:
        raise ConfigError(
            "protect with by: recoding needs levels, which a build gives its table; use sdc run, or another way"
        )
    listing, before = Listing.of(BY_WIDTH, len(table.schema), criteria.floor), edition_before(section.previous_pattern)
    return SearchSettings(criteria, policy, listing, section, executor, like=before)


def of_search(known: Knowledge, settings: SearchSettings) -> Iterator[str]:
    """What is known, the criteria and the constraints, as capabilities."""
    yield from BEFORE[:1] if known.release.variables or known.published else ()
    yield from settings.criteria.settings
    yield from (ZEROS,) if known.zeros else ()
    release = dict(settings.release) | {"method": None}
    yield from asked_at(lambda key: release.get(key.removeprefix("release.")) if key.startswith("release.") else None)
