"""`sdc audit` and `sdc migrate`: whose criterion a history is judged by, and what they print."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sdc.commands import cli
from sdc.model.release import NOTHING
from sdc.model.structural_zeros import NO_ZEROS, StructuralZeros
from sdc.model.table import Table
from sdc.record.chain import Chain
from sdc.record.database import ChainError
from sdc.storage.known import write_known
from sdc.storage.parquet import write_table
from tests.conftest import CZECH_CSV, CZECH_YAML
from tests.integration.server.test_audit import EMPTY_CELL, Writer, writer
from tests.strategies import knows

OPTIONS = ("--small-count", "2", "--min-width", "6")
__all__ = ["writer"]


def told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: object) -> tuple[int, str, str]:
    """Exit status and both streams."""
    monkeypatch.setattr("sys.argv", ["sdc", *map(str, words)])
    with pytest.raises(SystemExit) as exit_:
        cli.main()
    streams = capsys.readouterr()
    return int(exit_.value.code or 0), streams.out, streams.err


def keep(table: Table, folder: Path, zeros: StructuralZeros = NO_ZEROS) -> None:
    """As a server keeps its table and what is known of it."""
    write_table(table, folder)
    write_known(knows(table, NOTHING, zeros), folder)


def test_the_command_takes_a_folder_a_file_and_a_table(
    writer: Writer,
    czech: Table,
    sqlite_url: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = Path(sqlite_url).parent
    writer.release("A*B")
    expected = {"history": sqlite_url, "entries": 5, "decisions": 1, "releases": 1, "in_part": 0, "failures": []}
    of_config = {"small_count": 2, "min_width": 6, "of": str(CZECH_YAML)}
    for words, verified, criteria in [
        ((sqlite_url,), None, None),
        ((folder,), None, None),
        ((f"sqlite:///{sqlite_url}", "--table", CZECH_YAML), True, of_config),
    ]:
        status, out, _ = told(capsys, monkeypatch, "audit", *words, "--json")
        document = json.loads(out)
        assert len(document.pop("head")) == 64
        assert (status, document) == (0, {**expected, "criterion": criteria, "verified": verified})
    keep(czech, folder / "table")
    status, out, _ = told(capsys, monkeypatch, "audit", folder)
    assert (status, "not judged    whether every R(t) satisfies a criterion; give the server's config" in out) == (
        0,
        True,
    )
    for table in [], ["--table", folder / "table"], ["--table", CZECH_CSV]:
        status, out, _ = told(capsys, monkeypatch, "audit", folder, *table, *OPTIONS)
        assert status == 0
        assert "decisions     1, of which 1 released something\n" in out
        assert "criterion     small_count 2, min_width 6, of the options\n" in out
        assert "verified      every R(t) satisfies the criterion\n" in out
    fewer = czech.marginal(0b111110)
    for name, table, zeros in ("other", fewer, NO_ZEROS), ("informed", czech, EMPTY_CELL):
        keep(table, folder / name, zeros)
    for other, of in ("other", "the history is of the table"), ("informed", "the history is of other structural zeros"):
        status, _, err = told(capsys, monkeypatch, "audit", folder, "--table", folder / other, *OPTIONS)
        assert (status, of in err) == (1, True)


def test_the_command_names_what_fails(
    writer: Writer,
    czech: Table,
    sqlite_url: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    writer.release("A*B*C*D*E*F")
    keep(czech, Path(sqlite_url).parent / "table")
    status, out, err = told(capsys, monkeypatch, "audit", Path(sqlite_url).parent, "--json", *OPTIONS)
    assert status == 1
    assert json.loads(out)["verified"] is False
    assert f"sdc: {sqlite_url} is not verified: 1 failed: entry 4 releases A*B*C*D*E*F, and" in err
    status, _, err = told(capsys, monkeypatch, "audit", "mysql://ann:secret@here/x")
    assert (status, "secret" in err) == (1, False)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--table", CZECH_CSV],
            f"the table {CZECH_CSV} has no criterion, and what the history says of its own is not",
        ),
        (
            ["--table", CZECH_CSV, "--min-width", "6"],
            "give the server's config with --table, or --small-count and --min-",
        ),
        (
            ["--min-width", "6", "--small-count", "2"],
            "--small-count and --min-width: there is no table to judge by; give",
        ),
        (["--table", CZECH_YAML, "--min-width", "6"], "criterion; leave out --small-count, --min-width and --n-rule"),
        (["--table", CZECH_CSV, "--min-width", "1", "--small-count", "1"], "that of the options is {"),
    ],
)
def test_the_command_takes_no_criterion_from_the_history(
    words: list[str],
    message: str,
    writer: Writer,
    sqlite_url: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    status, out, err = told(capsys, monkeypatch, "audit", sqlite_url, *words)
    assert (status, out) == (1, "")
    assert message in err
    assert err.count("sdc: ") == err.count("\n") == 1


def test_the_command_brings_a_history_to_this_version(
    writer: Writer, sqlite_url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    status, _, err = told(capsys, monkeypatch, "migrate", sqlite_url)
    assert (status, "another server is using" in err) == (1, True)
    writer.history.close()
    for words, message in [
        ([], f"{sqlite_url} is at this version\n"),
        (["--json"], f'{{"history": "{sqlite_url}"}}\n'),
    ]:
        assert told(capsys, monkeypatch, "migrate", sqlite_url, *words)[:2] == (0, message)
    with pytest.raises(ChainError, match="there is no history"):
        Chain.migrate(f"{sqlite_url}.other")
