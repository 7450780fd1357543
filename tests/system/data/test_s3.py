"""S3: parts that vanish before a build and during it, and what is said where there is nothing to read."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
import yaml

from sdc.data import reading
from sdc.data.reading import read_table
from sdc.executor import IN_PROCESS
from sdc.model.errors import InputError
from sdc.stages.build import Build, open_build
from sdc.stages.stages import run_all
from sdc.stages.table import check_before

CZECH = Path(__file__).parents[3] / "configs" / "czech_auto_workers.csv"


@pytest.fixture
def files(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The Czech records in four parts and a marker below s3://survey/cars, and whoever may read them."""
    settings = {"endpoint_url": endpoint, "key": "key", "secret": "secret"}
    monkeypatch.setitem(fsspec.config.conf, "s3", settings)
    files = fsspec.filesystem("s3")
    files.mkdirs("survey", exist_ok=True)
    header, *lines = CZECH.read_text().splitlines()
    for part in range(4):
        files.pipe(f"survey/cars/{part}.csv", "\n".join([header, *lines[part::4], ""]).encode())
    files.pipe("survey/cars/_SUCCESS", b"")
    return files


def build_of(folder: Path, **table: Any) -> Build:
    settings = {
        "name": "cars",
        "table": {"path": "s3://survey/cars", **table},
        "risk": {"min_width": 6},
        "execution": {"cluster": "in-process"},
        "output": {"folder": str(folder / "runs")},
    }
    (folder / "build.yaml").write_text(yaml.safe_dump(settings))
    return open_build(folder / "build.yaml")


WHOLE = {"expect": {"parts": 4, "records": [1841, 1841], "marker": "_SUCCESS"}}


def test_a_build_from_s3_is_that_of_the_same_file(files: Any, tmp_path: Path) -> None:
    build = build_of(tmp_path, **WHOLE)
    run_all(build, IN_PROCESS)
    assert build.made.table == read_table(CZECH)
    assert (build.folder.path / "release").is_dir()


@pytest.mark.parametrize(
    ("gone", "match"),
    [
        ("1.csv", r"s3://survey/cars has 3 parts, table.expect.parts = 4; give all of them and no others"),
        ("_SUCCESS", r"s3://survey/cars lacks the file _SUCCESS beside its parts, table.expect.marker"),
    ],
)
def test_what_vanishes_before_a_build(files: Any, tmp_path: Path, gone: str, match: str) -> None:
    check_before(build_of(tmp_path, **WHOLE))
    # what fsspec has listed before is not believed: another client removes it
    fsspec.filesystem("s3", skip_instance_cache=True, use_listings_cache=False).rm_file(f"survey/cars/{gone}")
    with pytest.raises(InputError, match=match):
        run_all(build_of(tmp_path, **WHOLE), IN_PROCESS)
    assert not (tmp_path / "runs").exists()


def test_a_part_that_vanishes_during_a_build(files: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = reading.batches

    def vanishing(pieces: Any, *arguments: Any) -> Iterator[Any]:
        for part, batch in read(pieces, *arguments):
            if part.name == "1.csv":
                fsspec.filesystem("s3", skip_instance_cache=True).rm_file("survey/cars/3.csv")
            yield part, batch

    monkeypatch.setattr(reading, "batches", vanishing)
    build = build_of(tmp_path)
    with pytest.raises(InputError, match=r"s3://survey/cars/3\.csv disappeared during the run; run again when"):
        run_all(build, IN_PROCESS)
    assert not [path for path in build.folder.path.iterdir() if path.is_dir()]


def refused(path: str, match: str) -> None:
    with pytest.raises(InputError, match=match) as caught:
        read_table(path)
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("files")
def test_what_does_not_exist_is_named() -> None:
    for within in ("", "/cars/1.csv", "/cars/*.csv"):
        refused(f"s3://nowhere{within}", rf"^s3://nowhere{within.replace('*', '.')} does not exist")
    refused("s3://nowhere/cars", "does not exist: there is no such bucket; check its name, and the endpoint in fsspec")
    refused("s3://survey/none.csv", r"s3://survey/none\.csv does not exist; give a Parquet or CSV file")


@pytest.mark.parametrize("within", ["", "/1.csv", "/*.csv"])
def test_credentials_that_are_missing(
    endpoint: str, within: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(fsspec.config.conf, "s3", {"endpoint_url": endpoint, "skip_instance_cache": True})
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    nothing = str(tmp_path / "nothing")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", nothing)
    monkeypatch.setenv("AWS_CONFIG_FILE", nothing)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    refused(
        f"s3://survey/cars{within}",
        r"cannot be requested: there are no credentials \(NoCredentialsError\); give them to fsspec, by its own conf",
    )
