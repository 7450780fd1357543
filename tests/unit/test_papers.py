"""The founding papers: every item computed anew, what agrees, what differs and why, and what the command refuses."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from sdc import api
from sdc.commands.cli import app
from sdc.model.errors import ConfigError, InputError, SdcError
from sdc.papers import papers as product
from sdc.papers import sources
from sdc.papers.item import Item, Outcome, Standing, alike, written
from sdc.papers.papers import ITEMS, chosen, computed, facts, page
from sdc.papers.references import references
from sdc.papers.sources import CZECH, DELAWARE, UNSETTLED, Sources
from sdc.refusal import MEND, status_of
from tests.profiles import scaled
from tests.strategies import czech, dft_2x3x3, dks_2x2x2x2

ROOT = Path(__file__).parents[2]
AGREES = {
    *("kdsf-czech", "kdsf-ordered", "kdsf-decomposable", "kdsf-equation-5", "kdsf-cps-space", "kdsf-cps-3"),
    *(
        "kdsf-cps-4",
        "dks-theorem-1",
        "df-theorem",
        "dks-branches",
        "dks-table-1",
        "dks-table-1-program",
        "dks-shuttle",
        "dks-proposition-1",
    ),
    *("dks-graphs", "dft-table-1", "dft-table-4", "cacm-query-space", "cacm-criterion", "cacm-one-step"),
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


@pytest.mark.parametrize(
    "key", [pytest.param(key, marks=pytest.mark.slow if "annealed" in key else ()) for key in sorted(OF_FILES)]
)
def test_items_that_need_a_file(public_data: Callable[[str], Path], key: str) -> None:
    (one,) = computed(chosen([key]), Sources(public_data("cps13.parquet").parent))
    assert one.standing is Standing.DIFFERS
    assert "was not published" in one.why


def test_the_tables_are_those_of_the_project() -> None:
    assert (CZECH, DELAWARE.counts.tolist()) == (czech(), dft_2x3x3().counts.tolist())
    assert UNSETTLED.counts.tolist() == dks_2x2x2x2().counts.tolist()
    assert UNSETTLED.codes.tolist() == dks_2x2x2x2().codes.tolist()


def test_a_reason_holds_for_nothing_but_what_is_known() -> None:
    item = ITEMS["kdsf-cps-5"]
    standings = {value: item.standing(value) for value in (239, 223, 231)}
    assert standings == {239: Standing.AGREES, 223: Standing.DIFFERS, 231: Standing.UNEXPLAINED}
    assert replace(item, checked=None).standing(223) is Standing.UNEXPLAINED
    assert alike({"a": [0.5, 1]}, {"a": [0.504, 1]}, 0.005)
    for one, other in (([1], [1, 2]), ({"a": 1}, {"b": 1}), ("1", 1), ([1], 1), ([0.5], [0.506])):
        assert not alike(one, other, 0.005)


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


def test_values_on_one_line() -> None:
    assert written({"a": [0, 2], "b": [0.25, 0.5]}) == "a [0, 2], b 0.25, 0.5"
    assert (written(2_592_000), written(None), written([1, 2, 3])) == ("2,592,000", "not computed", "1, 2, 3")


# References


def test_each_citation_is_listed() -> None:
    """Of docstrings, messages, pages and the README: a key in brackets, as all others are written otherwise."""
    texts = [
        path.read_text(encoding="utf-8")
        for path in [ROOT / "README.md", *(ROOT / "sdc").rglob("*")]
        if path.is_file() and path.suffix in (".py", ".md", ".j2", ".html")
    ]
    cited = {key for text in texts for key in re.findall(r"\[(KDSF|DKS|DFT|CACM|DF|EH)\]", text)}
    # whatever is in brackets before a section, an equation or the like is a citation, whoever it is
    cited |= {
        key
        for text in texts
        for key in re.findall(r"\[([A-Z]{2,5})\] (?:eq|section|table|theorem|prop|figure|\(?[0-9])", text)
    }
    assert cited <= {*references()}
    assert {one.paper for one in ITEMS.values()} <= {*references()}
    for words in references().values():
        assert re.search(r'"[^"]+", .*(19|20)\d\d, \d+-\d+', words)


# The command


def sdc(*words: str) -> Result:
    return CliRunner().invoke(app, ["papers", *words])


def test_the_command_writes_and_sums_up(tmp_path: Path) -> None:
    done = sdc(
        "--only", "kdsf-cps-5", "--only", "kdsf-cps-3", "--only", "kdsf-cps-counts", "--out", str(tmp_path / "out")
    )
    assert done.exit_code == 0
    assert "3 items: 1 agree, 1 differ for a known reason, 1 need what is not here" in done.stdout
    assert "needs cps13.parquet" in done.stdout
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["out", "papers.html", "papers.json"]
    assert json.loads((tmp_path / "out" / "papers.json").read_text()) == json.loads(
        sdc("--only", "kdsf-cps-5", "--only", "kdsf-cps-3", "--only", "kdsf-cps-counts", "--json").stdout
    )


def test_what_differs_for_no_known_reason_ends_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong: Item = replace(ITEMS["kdsf-cps-4"], printed=320)
    monkeypatch.setitem(product.ITEMS, wrong.key, wrong)
    done = sdc("--only", wrong.key, "--out", str(tmp_path / "out"))
    assert isinstance(done.exception, SdcError)
    assert status_of(done.exception) == MEND
    assert "kdsf-cps-4: what is computed is neither what is printed nor what is known to differ" in str(done.exception)
    assert json.loads((tmp_path / "out" / "papers.json").read_text())["unexplained"] == 1


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        (
            ["--only", "kdsf-table-4"],
            ConfigError,
            r"--only 'kdsf-table-4' is no item of the papers; name one of kdsf-table-3",
        ),
        (["--out", "{there}"], ConfigError, "exists already"),
        (["--out", "{there}/a/b"], ConfigError, "is not a folder; name one in a folder that exists"),
        (["--out", "{file}/b"], ConfigError, "is not a folder"),
        (["--out", "/proc/papers"], ConfigError, "--out /proc/papers cannot be written: .*; name another folder"),
        (["--data", "{there}"], InputError, "has no file cps13.parquet; name the folder that has it, or leave it out"),
        (["--data", "{changed}"], InputError, "is not the file that the figures are of, whose SHA-256 begins with"),
    ],
)
def test_bad_input(tmp_path: Path, words: list[str], error: type[Exception], message: str) -> None:
    places: dict[str, Any] = {name: tmp_path / name for name in ("there", "file", "changed")}
    places["there"].mkdir()
    places["changed"].mkdir()
    (places["changed"] / "cps13.parquet").write_bytes(b"another")
    places["file"].write_text("")
    before = sorted(tmp_path.rglob("*"))
    done = sdc(*(word.format(**places) for word in words))
    assert isinstance(done.exception, error)
    assert re.search(message, str(done.exception))
    assert sorted(tmp_path.rglob("*")) == before
