"""A release that goes to S3."""

from pathlib import Path

import fsspec
import pytest

from sdc.model.errors import SdcError
from sdc.refusal import ERROR, TRY_AGAIN, status_of
from sdc.run_format import RELEASE
from sdc.stages.release import upload
from tests.helpers.folders import contents
from tests.integration.stages.test_upload import build_of, made, there

__all__ = ["made"]


def test_s3(made: Path, endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a bucket that is not there one sentence, and it is not made."""
    monkeypatch.setitem(fsspec.config.conf, "s3", {"endpoint_url": endpoint, "key": "key", "secret": "secret"})
    files = fsspec.filesystem("s3")
    with pytest.raises(SdcError, match=r"output\.upload cannot be written: s3://nowhere/cars \(\w+\); the") as no:
        upload(build_of(made, "s3://nowhere/cars"), print)
    assert status_of(no.value) == ERROR
    files.mkdirs("agency", exist_ok=True)
    build = build_of(made, "s3://agency/2026/cars/")
    upload(build, print)
    assert there(files, "agency/2026/cars") == contents(build.folder.stage(RELEASE))
    assert not files.exists("nowhere")


def test_an_s3_that_is_away(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"endpoint_url": "http://127.0.0.1:9", "key": "key", "secret": "secret", "skip_instance_cache": True}
    monkeypatch.setitem(fsspec.config.conf, "s3", settings)
    with pytest.raises(SdcError, match=r"output\.upload cannot be reached: s3://agency/x \(\w+\); the release") as no:
        upload(build_of(made, "s3://agency/x"), print)
    assert status_of(no.value) == TRY_AGAIN
