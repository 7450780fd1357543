"""Checkpoints on disk: what is whole comes back, and what is skipped is said in a line."""

from pathlib import Path

import numpy as np
import pytest

from sdc.checkpoint import Arrays, Checkpoint
from sdc.model.errors import RunFolderError

PART: Arrays = {"outer": np.arange(6).reshape(3, 2), "cells": np.arange(3, dtype=np.uint16)}


def test_what_is_kept_comes_back_and_is_for_this_user_alone(tmp_path: Path) -> None:
    written, said = Checkpoint(tmp_path / "run" / "bounds.parts", "a" * 64), list[str]()
    for name in ("one", "two/three"):
        written.write(name, PART)
    assert written.above is not None
    read = Checkpoint.open(written.above, "a" * 64, said.append)
    assert {*read.found} == {"one", "two/three"}
    for name, array in PART.items():
        assert read.found["one"][name].dtype == array.dtype
        assert np.array_equal(read.found["one"][name], array)
    assert {path.stat().st_mode & 0o077 for path in written.above.rglob("*")} == {0}
    assert said == []


def test_what_is_of_another_table_or_version_is_passed_over(tmp_path: Path) -> None:
    Checkpoint(tmp_path / "search.parts", "a" * 64).write("growth", PART)
    said = list[str]()
    assert Checkpoint.open(tmp_path / "search.parts", "b" * 64, said.append).found == {}
    assert said == ["search: a checkpoint of another table, other settings or another version is skipped"]


def test_what_is_cut_short_is_passed_over(tmp_path: Path) -> None:
    written = Checkpoint(tmp_path / "search.parts", "a" * 64)
    written.write("growth", PART)
    (file,) = written.folder.iterdir()
    whole = file.read_bytes()
    damages = [
        b"",
        b"x",
        whole[: len(whole) // 2],
        whole[:60] + b"\0" * 40 + whole[100:],
        whole.replace(b"key", b"kex"),
    ]
    for damage in damages:
        file.write_bytes(damage)
        said = list[str]()
        assert Checkpoint.open(tmp_path / "search.parts", "a" * 64, said.append).found == {}
        assert said == ["search: 1 of 1 parts of the checkpoint are truncated and are skipped"]


def test_what_cannot_be_kept_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFolderError, match=r"cannot be written: .*; free the disk or fix the permissions"):
        Checkpoint(tmp_path / "file", "a" * 64).write("growth", PART)
