"""What a release has beside its tables, as tools that are not ours read it."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_public_key,
)
from playwright.sync_api import ConsoleMessage, Page, sync_playwright

from sdc.config.publication import PublicationConfig
from sdc.model.errors import ConfigError, RunFolderError
from sdc.model.labels import Labels
from sdc.model.release import Release
from sdc.model.table import Table
from sdc.publish.publication import Texts, check_publication, write_publication
from tests.folders import contents
from tests.publish.clearing import SUBJECT, cleared_of

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
ALL_FORMATS = ("csv", "parquet", "csvw", "json-stat", "px", "sdmx-csv", "xml", "xlsx")
ABOUT: dict[str, Any] = {
    "title": "Workers <b>&amp;</b> risks",
    "population": "men employed in a car factory",
    "period": "1981",
    "source": "a study",
    "licence": "CC-BY-4.0",
    "contact": "a desk",
    "notes": ("Counts are exact.",),
}
RELEASE = Release.of([0b000111, 0b011000, 0b100001])


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("keys") / "signing.pem"
    private = ed25519.Ed25519PrivateKey.generate()
    path.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return path


def written(czech: Table, folder: Path, **about: Any) -> Texts:
    texts = Texts(PublicationConfig(**{**ABOUT, **about}), Labels())
    folder.mkdir()
    write_publication(cleared_of(czech, RELEASE), SUBJECT, "workers", folder, texts=texts)
    check_publication(cleared_of(czech, RELEASE), folder, "workers", texts)
    return texts


def test_sha256sum_checks_every_file(czech: Table, tmp_path: Path) -> None:
    written(czech, tmp_path / "out", formats=ALL_FORMATS)
    done = subprocess.run(["sha256sum", "-c", "SHA256SUMS"], cwd=tmp_path / "out", capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    listed = {line.split(": ")[0] for line in done.stdout.splitlines()}
    assert listed == {path.name for path in (tmp_path / "out").iterdir()} - {"SHA256SUMS"}


def test_a_signature_is_of_the_checksums(czech: Table, tmp_path: Path, key: Path) -> None:
    texts = written(czech, tmp_path / "out", signing_key=str(key))
    folder = tmp_path / "out"
    public = load_pem_public_key((folder / "SHA256SUMS.pub").read_bytes())
    assert isinstance(public, ed25519.Ed25519PublicKey)
    signature = base64.b64decode((folder / "SHA256SUMS.sig").read_text())
    public.verify(signature, (folder / "SHA256SUMS").read_bytes())
    with pytest.raises(InvalidSignature):
        public.verify(signature, (folder / "SHA256SUMS").read_bytes() + b" ")
    written(czech, tmp_path / "again", signing_key=str(key))
    assert contents(folder) == contents(tmp_path / "again")
    assert not any(str(key).encode() in content for content in contents(folder).values())
    assert b"signing" not in b"".join(contents(folder).values())
    beside = {
        "SHA256SUMS",
        "SHA256SUMS.sig",
        "SHA256SUMS.pub",
        "statement.intoto.jsonl",
        "catalogue.json",
        "index.html",
    }
    for name in sorted(beside):
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content + b" ")
        with pytest.raises(RunFolderError, match="is not what it was to say"):
            check_publication(cleared_of(czech, RELEASE), folder, "workers", texts)
        (folder / name).write_bytes(content)
    unsigned = Texts(PublicationConfig(**ABOUT), Labels())
    with pytest.raises(RunFolderError, match=r"is no table that|is not what it was to say"):
        check_publication(cleared_of(czech, RELEASE), folder, "workers", unsigned)


def test_a_key_that_cannot_sign_is_refused(tmp_path: Path, czech: Table) -> None:
    private = ed25519.Ed25519PrivateKey.generate()
    other = rsa.generate_private_key(65537, 2048)
    bad = {
        "none": (None, "cannot be read"),
        "empty": (b"", "is no private key"),
        "noise": (b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "is no private key"),
        "rsa": (other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), "is of another kind"),
        "locked": (
            private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"word")),
            "is encrypted",
        ),
    }
    for name, (content, message) in bad.items():
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(ConfigError, match=message):
            written(czech, tmp_path / f"{name}.out", signing_key=str(path))
        assert not list((tmp_path / f"{name}.out").iterdir())
    ssh = tmp_path / "ssh"
    ssh.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    written(czech, tmp_path / "ssh.out", signing_key=str(ssh))


def test_the_catalogue_names_every_file(czech: Table, tmp_path: Path) -> None:
    written(czech, tmp_path / "out", formats=ALL_FORMATS)
    catalogue = json.loads((tmp_path / "out" / "catalogue.json").read_text())
    (dataset,) = catalogue["dcat:dataset"]
    files = {one["dcat:downloadURL"] for one in dataset["dcat:distribution"]}
    beside = {"README.txt", "SHA256SUMS", "catalogue.json", "datapackage.json", "index.html"}
    assert files == {path.name for path in (tmp_path / "out").iterdir()} - beside
    sums = dict(reversed(line.split("  ")) for line in (tmp_path / "out" / "SHA256SUMS").read_text().splitlines())
    for one in dataset["dcat:distribution"]:
        if "spdx:checksum" in one:
            assert one["spdx:checksum"]["spdx:checksumValue"] == sums[one["dcat:downloadURL"]]
            assert one["dcat:byteSize"] == (tmp_path / "out" / one["dcat:downloadURL"]).stat().st_size
    assert dataset["dcterms:license"] == ["CC-BY-4.0"]
    assert dataset["dcterms:temporal"] == "1981"
    assert dataset["dcat:keyword"] == list("ABCDEF")
    used = set(re.findall(r'"(?:@type": ")?([a-z]+):[A-Za-z]', json.dumps(catalogue)))
    assert used - {"http", "https"} <= set(catalogue["@context"])


@pytest.fixture(scope="module")
def page(czech: Table, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Page, list[str]]]:
    folder = tmp_path_factory.mktemp("site") / "out"
    written(czech, folder, formats=ALL_FORMATS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        tab, said = browser.new_page(viewport={"width": 320, "height": 640}), list[str]()

        def note(message: ConsoleMessage) -> None:
            said.append(message.text)

        tab.on("console", note)
        tab.on("pageerror", lambda error: said.append(str(error)))
        tab.goto((folder / "index.html").as_uri())
        yield tab, said
        browser.close()


needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no chromium or google-chrome on this machine")


@needs_browser
def test_the_page_is_browsed_by_keyboard_at_320_pixels(page: tuple[Page, list[str]]) -> None:
    tab, said = page
    assert tab.title() == "Workers <b>&amp;</b> risks"
    assert tab.evaluate("document.documentElement.scrollWidth") <= 320
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.type") == "search"
    tab.keyboard.type("D, e")
    assert tab.locator("tbody tr:visible th").all_text_contents() == ["D, E"]
    assert tab.locator("[role=status]").text_content() == "1 of 3"
    tab.locator("input").fill("")
    for _ in range(2):
        tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.textContent") == "Table by"
    tab.keyboard.press("Tab")
    for order in (["2", "2", "3"], ["3", "2", "2"]):
        tab.keyboard.press("Enter")
        assert tab.locator("tbody tr td:nth-child(2)").all_text_contents() == order
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.tagName") == "A"
    assert said == []


@needs_browser
def test_each_link_of_the_page_is_a_file(page: tuple[Page, list[str]]) -> None:
    tab, _ = page
    links = tab.evaluate("[...document.querySelectorAll('a')].map(a => decodeURIComponent(a.getAttribute('href')))")
    folder = Path(tab.url.removeprefix("file://")).parent
    assert all((folder / link).is_file() for link in links)
    assert {path.name for path in folder.iterdir()} - set(links) <= {"index.html", "README.txt"}
    assert len(tab.pdf()) > 1000
