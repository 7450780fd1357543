"""The founding papers: every item computed anew, what agrees, what differs and why; the page and the document of it."""

import json
import re
from collections.abc import Callable
from functools import partial
from html.parser import HTMLParser
from pathlib import Path

import pytest

from sdc import api
from tests.papers import sources
from tests.papers.item import Outcome, Standing
from tests.papers.papers import ITEMS, chosen, computed, facts, page
from tests.papers.sources import Sources
from tests.profiles import scaled

AGREES = {
    *("kdsf-czech", "kdsf-ordered", "kdsf-decomposable", "kdsf-equation-5", "kdsf-cps-space", "kdsf-cps-3"),
    *("kdsf-cps-4", "dks-theorem-1", "df-theorem", "dks-branches", "dks-table-1", "dks-table-1-program"),
    *("dks-shuttle", "dks-proposition-1"),
    *("dks-graphs", "dft-table-1", "dft-table-4", "cacm-query-space", "cacm-criterion", "cacm-one-step"),
    "dft-decision",
}
DIFFERS = {
    "kdsf-table-3": "letters of the printed table are those of the data in reverse",
    "kdsf-figure-6": "letters of the printed table are those of the data in reverse",
    "kdsf-equation-10": "what table 3 prints is the smallest",
    "kdsf-left-out": "letters of the printed table are those of the data in reverse",
    "kdsf-cps-3-frontier": "no frontier has both",
    "kdsf-cps-5": "the printed frontier has 223",
    "dks-equal": "it is the widths that are equal",
    "dft-table-2": "estimates from 500 draws",
    "dft-table-3": "estimates from 500 draws",
    "dft-table-5": "estimates from 500 draws",
    "dft-models": "another formula",
    "dft-models-over-draws": "estimates from 500 draws",
}
NEEDS = {
    "kdsf-cps-counts": "cps13.parquet",
    "kdsf-cps-annealed": "cps13.parquet",
    "kdsf-cps-recode": "never published",
    "dks-graphs-8": "2^28 graphs",
    "cacm-pictures": "never published",
}
OF_FILES = {key for key, what in NEEDS.items() if what in sources.FILES}


@pytest.fixture(scope="module")
def found() -> list[Outcome]:
    """All that needs no file, with pictures; in CI half of the draws, and one stream of requests instead of four."""
    draws, streams = min(1000, scaled(1000, fewest=500)), min(4, scaled(4, fewest=1))
    posterior, simulated = partial(api.posterior, draws=draws), sources.simulated
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(api, "posterior", posterior)
        patch.setattr(sources, "simulated", lambda *of, **more: simulated(*of, **{**more, "streams": streams}))
        return computed(chosen([]), Sources(), pictures=True)


def texts(name: str) -> str:
    return (Path(__file__).parents[2] / name).read_text(encoding="utf-8")


def of(outcomes: list[Outcome], standing: Standing) -> dict[str, str]:
    return {one.item.key: one.why for one in outcomes if one.standing is standing}


def test_every_item_stands_as_it_should(found: list[Outcome]) -> None:
    assert of(found, Standing.UNEXPLAINED) == {}
    assert of(found, Standing.AGREES) == dict.fromkeys(AGREES, "")
    for standing, expected in ((Standing.DIFFERS, DIFFERS), (Standing.NEEDS, NEEDS)):
        reasons = of(found, standing)
        assert reasons.keys() == expected.keys()
        assert [key for key, words in expected.items() if words not in reasons[key]] == []
    assert [one.item.key for one in found] == list(ITEMS)
    # with the file for two of them
    agree, differ, need = len(AGREES), len(DIFFERS) + len(OF_FILES), len(NEEDS) - len(OF_FILES)
    for page_of in ("README.md", "sdc/handbook/papers.md"):
        said = [*map(int, re.findall(r"\d+", re.findall(r"Among .*?never published", texts(page_of), re.DOTALL)[0]))]
        assert said[-3:] == [agree, differ, need], page_of


@pytest.mark.parametrize(
    "key", [pytest.param(key, marks=pytest.mark.slow if "annealed" in key else ()) for key in sorted(OF_FILES)]
)
def test_items_that_need_a_file(public_data: Callable[[str], Path], key: str) -> None:
    (one,) = computed(chosen([key]), Sources(public_data("cps13.parquet").parent))
    assert one.standing is Standing.DIFFERS
    assert "was not published" in one.why


# The page and the document


class Tags(HTMLParser):
    """Anchors and addresses."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids, self.links = list[str](), list[str]()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]
        assert tag != "script"


def test_the_page_has_every_item_and_needs_nothing_else(found: list[Outcome]) -> None:
    text = page(found)
    tags = Tags(text)
    assert len(tags.ids) == len({*tags.ids})
    assert {*ITEMS, "references"} <= {*tags.ids}
    assert {link.removeprefix("#") for link in tags.links} <= {*tags.ids}
    assert "CONFIDENTIAL" not in text
    assert text.count("<figure>") == sum(one.item.draw is not None and one.computed is not None for one in found)
    assert page(found) == text


def test_the_document_says_what_the_page_says(found: list[Outcome]) -> None:
    told = json.loads(json.dumps(facts(found)))
    assert [one["key"] for one in told["items"]] == list(ITEMS)
    assert (told["agrees"], told["differs"], told["needs"]) == (len(AGREES), len(DIFFERS), len(NEEDS))
    for one in told["items"]:
        assert one["agrees"] == {"agrees": True, "differs": False, "needs": None}[one["standing"]]
        assert (one["why"] is None) == (one["standing"] == "agrees")
        assert one["paper"] in told["references"]
