"""Commands in any locale, and paths as people write them in a quoted argument or in a config."""

import io
import sys
from pathlib import Path

import pytest

from sdc.commands import cli
from tests.helpers.commands import Sdc

TABLE = "größe,sex,wert\nü,f,1\nü,m,2\nä,m,3\nä,f,9\n"
CONFIG = "name: x\ntable: {path: ~/t.csv}\nrisk: {min_width: 1}\noutput: {folder: ~/runs}\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "t.csv").write_text(TABLE, encoding="utf-8")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "x.yaml").write_text(CONFIG, encoding="utf-8")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        ("init", "t.csv"),
        ("widths", "t.csv"),
        ("bounds", "t.csv", "--release", "größe"),
        ("suppress", "t.csv", "größe*sex", "--min-width", "1"),
        ("round", "t.csv", "größe*sex", "--base", "3"),
        ("magnitude", "t.csv", "--by", "größe", "--value", "wert", "--dominance", "1:99"),
        ("config", "other/x.yaml"),
        ("widths", "t.csv", "--variables", "größte"),
    ],
)
def test_a_terminal_without_an_alphabet(words: tuple[str, ...], home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = {name: io.TextIOWrapper(io.BytesIO(), encoding="ascii") for name in ("stdout", "stderr")}
    for name, stream in written.items():
        monkeypatch.setattr(sys, name, stream)
    monkeypatch.setattr(sys, "argv", ["sdc", *words])
    with pytest.raises(SystemExit):
        cli.main()
    text = ""
    for stream in written.values():
        stream.flush()
        text += stream.buffer.getvalue().decode("ascii")  # type: ignore[attr-defined]
    assert "a bug in sdc:" not in text
    assert r"gr\xf6\xdfe" in text or words[0] == "config"


def test_the_folder_of_the_user(home: Path, sdc: Sdc) -> None:
    for words in (("widths", "~/t.csv"), ("plan", "~/other/x.yaml", "--quick", "--json")):
        assert sdc(*words).status == 0
    assert str(home / "runs") in sdc("config", "~/other/x.yaml").out


def test_a_folder_called_as_patterns_are(home: Path, sdc: Sdc) -> None:
    (home / "data [2024]").mkdir()
    (home / "t.csv").rename(home / "data [2024]" / "a.csv")
    assert "4 records" in sdc("widths", "data [2024]/*.csv").err
    assert "4 records" in sdc("widths", "data [2024]").err
