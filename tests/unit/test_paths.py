"""Nothing is loaded that another user could have written."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sdc.checkpoint import Checkpoint
from sdc.data.counting import _mapped
from sdc.execution.cluster import read_cluster
from sdc.model.errors import InputError
from sdc.paths import require_own
from sdc.publish.catalogue import SigningKey
from sdc.record.ledger import new_ledger, read_ledger

NOBODY = 65534


def test_what_others_may_write_is_not_ours(tmp_path: Path) -> None:
    file = tmp_path / "file"
    require_own(file)  # what is not there is said to be missing by whoever needs it
    file.write_text("")
    for mode in (0o600, 0o644, 0o755):
        file.chmod(mode)
        require_own(file)
    file.chmod(0o646)
    with pytest.raises(InputError, match=f"every user may write {file}; make it your own"):
        require_own(file)
    file.chmod(0o600)
    tmp_path.chmod(0o777)
    with pytest.raises(InputError, match=f"every user may write {tmp_path}"):
        require_own(file)  # another file may be put in its place
    tmp_path.chmod(0o1777)
    require_own(file)
    link = tmp_path / "open" / "link"
    link.parent.mkdir()
    link.symlink_to(file)
    require_own(link)
    link.parent.chmod(0o777)
    with pytest.raises(InputError, match=f"every user may write {link.parent}"):
        require_own(link)  # it may be led elsewhere


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_what_belongs_to_others_is_not_ours(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    os.chown(file, NOBODY, 0)
    with pytest.raises(InputError, match=rf"{file} belongs to \w+"):
        require_own(file)
    os.chown(file, 0, NOBODY)
    file.chmod(0o620)
    with pytest.raises(InputError, match=rf"the group \w+ may write {file}"):
        require_own(file)


def write(path: Path) -> Path:
    path.write_text("kind: local")
    return path


def ledger_with(open_file: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        new_ledger(folder / "ledger.db")
        return folder / open_file

    return make


PLACES: dict[str, tuple[Callable[[Path], Path], Callable[[Path], object]]] = {
    "cluster file": (lambda folder: write(folder / "cluster.yaml"), read_cluster),
    "signing key": (lambda folder: write(folder / "key.pem"), SigningKey.read),
    "spilled units": (lambda folder: write(folder / "cells.npy"), _mapped),
    "checkpoint": (lambda folder: write(folder / "a.npz"), lambda path: Checkpoint.open(path, "")),
    "ledger": (ledger_with("ledger.db"), read_ledger),
    "key of a ledger": (ledger_with("ledger.db.key"), lambda path: read_ledger(path.with_suffix(""))),
}
"""How each is made, and how it is read."""


@pytest.mark.parametrize("place", PLACES)
def test_nothing_is_read_that_others_may_write(place: str, tmp_path: Path) -> None:
    make, read = PLACES[place]
    path = make(tmp_path)
    path.chmod(0o666)
    with pytest.raises(InputError, match=f"every user may write {path}"):
        read(path)
