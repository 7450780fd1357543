"""The founding papers: what agrees and what differs, their references, and what the command refuses.

Every item is computed anew in `tests/system/test_papers.py`.
"""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from sdc.model.errors import ConfigError, InputError, SdcError
from sdc.refusal import ERROR, status_of
from tests.papers import papers as product
from tests.papers.__main__ import papers
from tests.papers.item import Item, Standing, alike
from tests.papers.papers import ITEMS
from tests.papers.references import references
from tests.papers.sources import CZECH, DELAWARE, UNSETTLED
from tests.strategies import czech, dft_2x3x3, dks_2x2x2x2

ROOT = Path(__file__).parents[2]


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


def test_each_citation_is_listed() -> None:
    """Of docstrings, messages, pages and the README: a key in brackets, as all others are written otherwise."""
    texts = [
        path.read_text(encoding="utf-8")
        for path in [ROOT / "README.md", *(ROOT / "sdc").rglob("*")]
        if path.is_file() and path.suffix in (".py", ".md", ".j2", ".html")
    ]
    # whatever is in brackets before a section, an equation or the like is a citation, whoever it is
    cited = {
        key
        for text in texts
        for key in re.findall(r"\[([A-Z]{2,5})\] (?:eq|section|table|theorem|prop|figure|\(?[0-9])", text)
    }
    assert cited <= {*references()}
    assert {one.paper for one in ITEMS.values()} <= {*references()}
    for words in references().values():
        assert re.search(r'"[^"]+", .*(19|20)\d\d, \d+-\d+', words)


def command(*words: str) -> Result:
    app = typer.Typer()
    app.command()(papers)
    return CliRunner().invoke(app, words)


def test_the_command_writes_and_sums_up(tmp_path: Path) -> None:
    done = command(
        "--only", "kdsf-cps-5", "--only", "kdsf-cps-3", "--only", "kdsf-cps-counts", "--out", str(tmp_path / "out")
    )
    assert done.exit_code == 0
    assert "3 items: 1 agree, 1 differ for a known reason, 1 need what is not here" in done.stdout
    assert "needs cps13.parquet" in done.stdout
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["out", "papers.html", "papers.json"]
    assert json.loads((tmp_path / "out" / "papers.json").read_text()) == json.loads(
        command("--only", "kdsf-cps-5", "--only", "kdsf-cps-3", "--only", "kdsf-cps-counts", "--json").stdout
    )


def test_what_differs_for_no_known_reason_ends_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong: Item = replace(ITEMS["kdsf-cps-4"], printed=320)
    monkeypatch.setitem(product.ITEMS, wrong.key, wrong)
    done = command("--only", wrong.key, "--out", str(tmp_path / "out"))
    assert isinstance(done.exception, SdcError)
    assert status_of(done.exception) == ERROR
    assert "kdsf-cps-4: what is computed is neither what is printed nor what is known to differ" in str(done.exception)
    assert json.loads((tmp_path / "out" / "papers.json").read_text())["unexplained"] == 1


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        (["--only", "kdsf-table-4"], ConfigError, r"--only 'kdsf-table-4' is no item of the papers; name one of"),
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
    done = command(*(word.format(**places) for word in words))
    assert isinstance(done.exception, error)
    assert re.search(message, str(done.exception))
    assert sorted(tmp_path.rglob("*")) == before


def test_docstrings_name_the_authors_of_the_references() -> None:
    """`[KEY] Names` in the product, by the names that the handbook has of this key."""
    page = (ROOT / "sdc/handbook/papers.md").read_text()
    authors = {
        key: re.findall(r"[A-Z]\. ([A-Z][^\W\d_]+)(?=,| and|\s)", listed)
        for key, listed in re.findall(r"- \*\*\[(\w+)\]\*\* ([^\"]+)\"", page)
    }
    named = [
        (path.name, key, re.findall(r"[^\W\d_]{3,}", names))
        for path in (ROOT / "sdc").rglob("*.py")
        for key, names in re.findall(r"\[([A-Z]+)\] ((?:[A-Z][^\W\d_]+(?:, | and )?)+)(?=[:. (])", path.read_text())
        if key in authors
    ]
    assert len(named) > 8
    assert [(file, key, names) for file, key, names in named if [n for n in names if n != "and"] != authors[key]] == []
