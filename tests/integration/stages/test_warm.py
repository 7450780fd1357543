"""Kernels before they are needed: what is compiled for made-up tables is all that a build of other tables calls."""

import re
import subprocess
from pathlib import Path

import pytest

from sdc import compiled
from sdc.model.schema import Schema, Variable
from sdc.stages import warm

SMALL, LARGE = (Schema(tuple(Variable(name, ("0", "1")) for name in names)) for names in ("ABC", "ABCDEFGHI"))


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(warm, "cache_folder", lambda: tmp_path)
    return tmp_path


def test_what_was_compiled_once_is_noted_beside_it(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[object]()
    monkeypatch.setattr(warm, "warm_build", lambda *what: asked.append(what))
    warm.warm_and_mark("best", None)
    assert asked == [("best", None)]
    assert len(list(kept.iterdir())) == 1
    monkeypatch.delattr(subprocess, "Popen")
    said = list[str]()
    with warm.warming("best", None, said.append):
        pass
    assert said == []


def test_a_first_build_says_that_it_compiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (compiled, warm):
        monkeypatch.setattr(module, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(warm, "_WARM", "")
    said = list[str]()
    for _ in range(2):
        with warm.warming("best", None, said.append):
            (tmp_path / "bounds").mkdir(exist_ok=True)
            (tmp_path / "bounds" / "shuttle.tighten-20.py312.1.nbc").touch()
    (line,) = said
    assert line.startswith("the first build on this machine compiles for a minute")


def test_a_small_table_is_warmed_for_by_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[tuple[str, bool]]()
    monkeypatch.setattr(warm, "_warmed", set())
    monkeypatch.setattr(warm, "warm_build", lambda method, *, small: asked.append((method, small)))
    for schema in (SMALL, LARGE, SMALL):
        warm.warm_once("ordered", schema)
    assert asked == [("ordered", True), ("ordered", False)]


def test_where_there_is_no_room_for_what_is_compiled_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not where all is kept already."""
    monkeypatch.setattr(compiled, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(warm, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(warm, "_WARM", "")
    monkeypatch.setattr(compiled, "ROOM", 1 << 60)
    said = list[str]()
    with warm.warming("best", None, said.append):
        pass
    (line,) = said
    assert re.search(rf"may not fit.*{tmp_path} has [\d,.]+ MiB free.*set NUMBA_CACHE_DIR", line)
    marker = warm._marker("best", None)
    assert marker is not None
    marker.touch()
    with warm.warming("best", None, said.append):
        pass
    assert len(said) == 1
    monkeypatch.setattr(compiled, "ROOM", 1)
    assert compiled.no_room() == ""
