"""[CACM]: the table server. Its paper prints definitions and rules, and pictures of tables that were not published."""

from itertools import pairwise
from typing import Any

from markupsafe import Markup

from sdc import api
from sdc.model.release import Release
from sdc.report import simulation
from sdc.server.simulation.simulation import summary
from tests.papers.item import Item, Value
from tests.papers.sources import CZECH, RULES, SMALL_COUNT, WIDTH, Sources


def _criterion(sources: Sources) -> Value:
    """What is public at the end holds all that was so before, and the criterion is monotone."""
    return {
        rule: sum(
            api.assess(CZECH, Release.of(course.frontier), min_width=WIDTH, small_count=SMALL_COUNT).releasable
            is not True
            for course in sources.courses[rule]
        )
        for rule in RULES
    }


def _steps(sources: Sources) -> Value:
    largest = {
        rule: max(b - a for course in sources.courses[rule] for a, b in pairwise(course.released)) for rule in RULES
    }
    return {
        rule: "smaller" if most < largest["myopic"] else "as large"
        for rule, most in largest.items()
        if rule != "myopic"
    }


def _over_requests(sources: Sources, _: Value) -> Markup:
    batch = sources.ordered.sub_tables(CZECH.schema)
    sets: dict[str, Any] = {
        rule: summary(found, {who for one in found for who in one.who}, batch)["curve"]
        for rule, found in sources.courses.items()
    }
    return simulation.curve(sets, batch)


ITEMS = (
    Item(
        "cacm-query-space",
        "CACM",
        "introduction",
        "The query space of a table of K variables has 2 to the K sub-tables: those of the Czech table, K = 6.",
        2**6,
        lambda sources: len(sources.widths),
    ),
    Item(
        "cacm-criterion",
        "CACM",
        "introduction",
        "At all times what is released satisfies the criterion: of 4 streams of 128 requests under each rule those "
        "that end with a release that does not.",
        dict.fromkeys(RULES, 0),
        _criterion,
    ),
    Item(
        "cacm-one-step",
        "CACM",
        "introduction",
        "Rules of one step, from what is public or from its frontier: what one request makes public at most in these "
        "streams, beside the myopic rule.",
        dict.fromkeys(RULES[1:], "smaller"),
        _steps,
        draw=_over_requests,
    ),
    Item(
        "cacm-pictures",
        "CACM",
        "figures",
        "The pictures of the query space and of the prototypes.",
        "pictures",
        None,
        needs="the tables that they show, which were never published",
    ),
)
