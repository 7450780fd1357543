"""A disk that is full before each stage: a real one where this process may mount it, else a limit on files' sizes."""

import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sdc.executor import IN_PROCESS
from sdc.model.errors import RunFolderError
from sdc.refusal import ERROR, TRY_AGAIN, status_of
from sdc.stages.build import open_build
from sdc.stages.stages import STAGES, run_all
from sdc.storage.run_folder import RunFolder, folder_digest
from tests.helpers.builds import write_czech

NAMES = [stage.name for stage in STAGES]


class SmallDisk:
    """4 MB in memory, filled to the last byte and freed at will."""

    status = TRY_AGAIN

    def __init__(self, folder: Path) -> None:
        self.folder, self._filler = folder, folder / "filler"

    def fill(self) -> None:
        with self._filler.open("ab", buffering=0) as file:
            for size in (1 << 16, 1):
                try:
                    while file.write(b"0" * size):
                        pass
                except OSError:
                    continue

    def free(self) -> None:
        self._filler.unlink(missing_ok=True)


class LimitedFiles:
    """Files of this process that cannot grow: what is left where nothing may be mounted."""

    status = ERROR

    def __init__(self, folder: Path) -> None:
        self.folder, self._before = folder, resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1, self._before[1]))

    def free(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, self._before)


Disk = SmallDisk | LimitedFiles


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "none", folder], capture_output=True, timeout=300
    )
    disk = LimitedFiles(folder) if mounted.returncode else SmallDisk(folder)
    try:
        yield disk
    finally:
        disk.free()
        if not mounted.returncode:
            subprocess.run(["umount", folder], check=True, timeout=300)


def test_a_disk_that_is_full(disk: Disk, tmp_path: Path) -> None:
    """Every stage meets it once: what is done stays, nothing is published, and in the end all is as it should be."""
    expected = run_folder(config(tmp_path, tmp_path / "undisturbed"))
    file = config(tmp_path, disk.folder / "runs")
    for number, name in enumerate(NAMES):

        def fill_before(line: str, name: str = name) -> None:
            if line.startswith(f"{name}: "):
                disk.fill()

        with pytest.raises(RunFolderError, match=r"cannot be written in .*disk/runs.*free the disk") as refused:
            run_all(open_build(file), IN_PROCESS, fill_before)
        assert status_of(refused.value) == disk.status
        disk.free()
        folder = open_build(file).folder
        assert list(folder.records()) == NAMES[:number]
        assert not list(folder.path.glob("release*"))
        assert not [path for path in folder.path.iterdir() if path.name.endswith((".unfinished", ".tmp"))]
    found = run_folder(file)
    for name in NAMES:
        assert folder_digest(found.stage(name)) == folder_digest(expected.stage(name))


def test_a_disk_that_is_full_before_anything_is_done(disk: Disk, tmp_path: Path) -> None:
    disk.fill()
    with pytest.raises(RunFolderError, match="cannot be written") as refused:
        run_folder(config(tmp_path, disk.folder / "runs"))
    assert status_of(refused.value) == disk.status


def config(folder: Path, output: Path) -> Path:
    return write_czech(folder, execution={"cluster": "local"}, output={"folder": str(output)})


def run_folder(file: Path) -> RunFolder:
    build = open_build(file)
    run_all(build, IN_PROCESS)
    return build.folder
