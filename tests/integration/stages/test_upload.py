"""A release that goes to where a URL leads: whole, with its digests last, and never over another one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from sdc.events import read_events
from sdc.executor import IN_PROCESS
from sdc.model.errors import ConfigError, RunFolderError, SdcError
from sdc.refusal import ERROR, TRY_AGAIN, status_of
from sdc.run_format import RELEASE, SUMS
from sdc.stages.build import Build, open_build
from sdc.stages.release import check_upload, upload
from sdc.stages.stages import run_all
from sdc.storage.run_folder import LOG
from tests.helpers.builds import write_czech
from tests.helpers.folders import contents

PLACE = "memory://published/cars"


def build_of(folder: Path, url: str | None, min_width: int = 6) -> Build:
    return open_build(write_czech(folder, risk={"min_width": min_width}, output={"upload": url}))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a build that is finished, whatever it is to be uploaded to."""
    folder = tmp_path_factory.mktemp("made")
    run_all(build_of(folder, None), IN_PROCESS)
    return folder


@pytest.fixture
def files() -> Iterator[Any]:
    """Files in memory, of nobody else."""
    files = fsspec.filesystem("memory")
    files.store.clear()
    files.pseudo_dirs[:] = [""]
    yield files
    files.store.clear()
    files.pseudo_dirs[:] = [""]


def there(files: Any, place: str) -> dict[str, bytes]:
    return {path.removeprefix(f"{place}/"): files.cat_file(path) for path in files.find(place)}


def test_the_same_bytes_with_the_digests_last(made: Path, files: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    build, put, order = build_of(made, PLACE), MemoryFileSystem.put_file, list[str]()

    def noted(self: Any, local: str, remote: str, **more: Any) -> Any:
        order.append(remote)
        return put(self, local, remote, **more)

    monkeypatch.setattr(MemoryFileSystem, "put_file", noted)
    said = list[str]()
    assert upload(build, said.append) == PLACE
    release = contents(build.folder.stage(RELEASE))
    assert there(files, "/published/cars") == release
    assert len(order) == len(release)
    assert order[-1] == f"/published/cars/{SUMS}"
    assert said == [f"upload: the release is at {PLACE}"]
    assert read_events(build.folder.path / LOG)[-1]["event"] == "uploaded"
    order.clear()
    assert upload(build, said.append) == PLACE, "again it exists already"
    assert order == []


def test_an_upload_that_was_interrupted_goes_on(made: Path, files: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its digests it is nobody's release, and the next try makes it one."""
    build, put, left = build_of(made, PLACE), MemoryFileSystem.put_file, [3]

    def ends(self: Any, local: str, remote: str, **more: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise ConnectionResetError("by peer")
        return put(self, local, remote, **more)

    monkeypatch.setattr(MemoryFileSystem, "put_file", ends)
    with pytest.raises(SdcError, match=r"cannot be reached: memory://\S+ \(ConnectionResetError\); the release") as no:
        upload(build, print)
    assert status_of(no.value) == TRY_AGAIN
    found = there(files, "/published/cars")
    assert (len(found), SUMS in found) == (3, False)
    monkeypatch.setattr(MemoryFileSystem, "put_file", put)
    upload(build, print)
    assert there(files, "/published/cars") == contents(build.folder.stage(RELEASE))


def test_another_release_is_not_replaced(made: Path, files: Any, tmp_path: Path) -> None:
    upload(build_of(made, PLACE), print)
    before = there(files, "/published/cars")
    other = build_of(tmp_path, PLACE, min_width=10)
    run_all(other, IN_PROCESS)
    with pytest.raises(
        SdcError, match=r"'memory://published/cars' has another release, which is never replaced; name another folder"
    ) as no:
        upload(other, print)
    assert status_of(no.value) == ERROR
    assert there(files, "/published/cars") == before


def test_files_of_others_are_not_taken_for_its_own(made: Path, files: Any) -> None:
    files.pipe_file("/published/cars/secret.csv", b"a,b,count\n")
    with pytest.raises(SdcError, match=r"has other files, such as 'secret\.csv'; name an empty folder"):
        upload(build_of(made, PLACE), print)
    assert list(there(files, "/published/cars")) == ["secret.csv"]


def test_a_place_that_changes_files(made: Path, files: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    read = MemoryFileSystem.cat_file
    monkeypatch.setattr(MemoryFileSystem, "cat_file", lambda self, path, **more: read(self, path, **more) + b" ")
    with pytest.raises(SdcError, match=r"changes 001_\S+; find out what changes files there"):
        upload(build_of(made, PLACE), print)
    assert SUMS not in there(files, "/published/cars")


def test_a_release_that_is_not_whole_stays_here(files: Any, tmp_path: Path) -> None:
    build = build_of(tmp_path, PLACE)
    with pytest.raises(RunFolderError, match=r"is not complete, so nothing is uploaded; run the build again"):
        upload(build, print)
    run_all(build, IN_PROCESS)
    (first, *_) = sorted(build.folder.stage(RELEASE).glob("*.csv"))
    first.write_text(first.read_text() + "\n")
    with pytest.raises(RunFolderError, match=r"is not complete, so nothing is uploaded;"):
        upload(build, print)
    assert files.find("/") == []


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("bucket/folder", r"output\.upload = 'bucket/folder': it is not a URL; write a protocol, as in s3"),
        ("no-such://bucket", r"output\.upload: no-such://bucket has a protocol that cannot be used: "),
        (
            "s3://ann:secret@bucket/x",
            r"output\.upload: the URL of bucket/x has a password in it; put the password into fsspec",
        ),
    ],
)
def test_a_place_that_cannot_be_one(url: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message) as refused:
        check_upload(build_of(tmp_path, url))
    assert "secret" not in str(refused.value)
