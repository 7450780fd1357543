"""`sdc audit` and `sdc migrate`: whose criterion a history is judged by, and what they print."""

import json
from pathlib import Path

import pytest

from sdc.model.release import NOTHING
from sdc.model.structural_zeros import NO_ZEROS, StructuralZeros
from sdc.model.table import Table
from sdc.storage.known import write_known
from sdc.storage.parquet import write_table
from tests.conftest import CZECH_CSV, CZECH_YAML
from tests.helpers.commands import Sdc, sdc
from tests.integration.server.test_audit import EMPTY_CELL, Writer, writer
from tests.strategies import knows

OPTIONS = ("--small-count", "2", "--min-width", "6")
__all__ = ["sdc", "writer"]


def keep(table: Table, folder: Path, zeros: StructuralZeros = NO_ZEROS) -> None:
    """As a server keeps its table and what is known of it."""
    write_table(table, folder)
    write_known(knows(table, NOTHING, zeros), folder)


def test_the_command_takes_a_folder_a_file_and_a_table(writer: Writer, czech: Table, sqlite_url: str, sdc: Sdc) -> None:
    folder = Path(sqlite_url).parent
    writer.release("A*B")
    facts = {
        "history": sqlite_url,
        "entries": 5,
        "decisions": 1,
        "releases": 1,
        "suppressed_tables": 0,
        "in_part": 0,
        "failures": [],
    }
    unjudged = {**facts, "criterion": None, "verified": None}
    judged = {**facts, "criterion": {"small_count": 2, "min_width": 6, "of": str(CZECH_YAML)}, "verified": True}
    for words, expected in [
        ((sqlite_url,), unjudged),
        ((folder,), unjudged),
        ((f"sqlite:///{sqlite_url}", "--table", CZECH_YAML), judged),
    ]:
        answer = sdc("audit", *words, "--json")
        document = json.loads(answer.out)
        assert len(document.pop("head")) == 64
        assert (answer.status, document) == (0, expected)
    keep(czech, folder / "table")
    for table in [], ["--table", folder / "table"], ["--table", CZECH_CSV]:
        answer = sdc("audit", folder, *table, *OPTIONS)
        assert (answer.status, "every R(t) satisfies the criterion" in answer.out) == (0, True)
    keep(czech.marginal(0b111110), folder / "other")
    keep(czech, folder / "informed", EMPTY_CELL)
    for other, of in ("other", "the history is of the table"), ("informed", "the history is of other structural zeros"):
        answer = sdc("audit", folder, "--table", folder / other, *OPTIONS)
        assert (answer.status, of in answer.err) == (1, True)


def test_the_command_names_what_fails(writer: Writer, czech: Table, sqlite_url: str, sdc: Sdc) -> None:
    writer.release("A*B*C*D*E*F")
    keep(czech, Path(sqlite_url).parent / "table")
    answer = sdc("audit", Path(sqlite_url).parent, "--json", *OPTIONS)
    assert (answer.status, json.loads(answer.out)["verified"]) == (1, False)
    assert "is not verified: 1 failed: entry 4 releases A*B*C*D*E*F, and" in answer.err
    assert "secret" not in sdc("audit", "mysql://ann:secret@here/x").err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--table", CZECH_CSV], "has no criterion, and the history's own is not"),
        (["--table", CZECH_CSV, "--min-width", "6"], "give the server's config with --table, or --small-count and"),
        (["--min-width", "6", "--small-count", "2"], "--small-count and --min-width: there is no table;"),
        (["--table", CZECH_YAML, "--min-width", "6"], "has a criterion; omit risk.min_width"),
        (["--table", CZECH_CSV, "--min-width", "1", "--small-count", "1"], "that of the options is {"),
    ],
)
def test_the_command_takes_no_criterion_from_the_history(
    words: list[str], message: str, writer: Writer, sqlite_url: str, sdc: Sdc
) -> None:
    sdc("audit", sqlite_url, *words).assert_refused(message)


def test_the_command_brings_a_history_to_this_version(writer: Writer, sqlite_url: str, sdc: Sdc) -> None:
    sdc("migrate", sqlite_url).assert_refused("another server is using")
    writer.history.close()
    assert (done := sdc("migrate", sqlite_url)).status == 0
    assert done.out == f"{sqlite_url} is at this version\n"
    assert json.loads(sdc("migrate", sqlite_url, "--json").out) == {"history": sqlite_url}
