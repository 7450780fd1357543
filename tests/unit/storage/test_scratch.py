"""Scratch folders hold confidential counts: they go with their run, also where it is killed."""

import socket
from pathlib import Path

from sdc.storage.scratch import own_scratch


def test_a_scratch_folder_goes_with_its_run(tmp_path: Path) -> None:
    with own_scratch(tmp_path) as one, own_scratch(tmp_path) as other:
        (one / "counts.npy").touch()
        assert one != other
        assert one.stat().st_mode & 0o777 == 0o700
    assert not list(tmp_path.iterdir())


def test_what_was_left_all_the_same_goes_with_the_next_run(tmp_path: Path) -> None:
    """As where the whole machine was switched off; of another machine nobody knows here whether it is at work."""
    left, elsewhere = (tmp_path / f"sdc-{host}-0123456789ab" for host in (socket.gethostname(), "elsewhere"))
    for folder in (left, elsewhere):
        folder.mkdir()
        (tmp_path / f".{folder.name}.lock").touch()
    with own_scratch(tmp_path):
        assert not left.exists()
    assert {path.name for path in tmp_path.iterdir()} == {elsewhere.name, f".{elsewhere.name}.lock"}
