"""What a release has beside its tables, as tools that are not ours read it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

import mlcroissant
import numpy as np
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
from rocrate.rocrate import ROCrate

from sdc.config.publication import PublicationConfig
from sdc.model.errors import ConfigError, RunFolderError
from sdc.model.labels import Labels
from sdc.model.release import Release
from sdc.model.schema import Schema, Variable
from sdc.model.table import Table
from sdc.publish.publication import Texts, check_publication, write_publication
from tests.helpers.clearing import SUBJECT, cleared_of
from tests.helpers.folders import contents

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
ALL_FORMATS = ("csv", "parquet", "csvw", "json-stat", "px", "sdmx-csv", "xml", "xlsx")
ABOUT: dict[str, Any] = {
    "title": "Workers <b>&amp;</b> risks",
    "population": "men employed in a car factory",
    "period": "1981",
    "published": "1985-07-01",
    "source": "a study",
    "licence": "CC-BY-4.0",
    "contact": "a desk",
    "notes": ("Counts are exact.",),
}
BY_SCHEMA_ORG = ("croissant.json", "ro-crate-metadata.json")
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
        *BY_SCHEMA_ORG,
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
    beside = {"README.txt", "SHA256SUMS", "catalogue.json", "datapackage.json", "index.html", *BY_SCHEMA_ORG}
    assert files == {path.name for path in (tmp_path / "out").iterdir()} - beside
    sums = dict(reversed(line.split("  ")) for line in (tmp_path / "out" / "SHA256SUMS").read_text().splitlines())
    for one in dataset["dcat:distribution"]:
        if "spdx:checksum" in one:
            assert one["spdx:checksum"]["spdx:checksumValue"] == sums[one["dcat:downloadURL"]]
            assert one["dcat:byteSize"] == (tmp_path / "out" / one["dcat:downloadURL"]).stat().st_size
    assert dataset["dcterms:license"] == ["CC-BY-4.0"]
    assert dataset["dcterms:temporal"] == "1981"
    assert dataset["dcterms:issued"] == "1985-07-01"
    kinds = {one["dcat:downloadURL"]: one["dcat:mediaType"] for one in dataset["dcat:distribution"]}
    assert kinds["002_D-E.sdmx.json"] == "application/vnd.sdmx.structure+json"
    assert kinds["002_D-E.sdmx.csv"] == "application/vnd.sdmx.data+csv"
    assert dataset["dcat:keyword"] == list("ABCDEF")
    used = set(re.findall(r'"(?:@type": ")?([a-z]+):[A-Za-z]', json.dumps(catalogue)))
    assert used - {"http", "https"} <= set(catalogue["@context"])


@pytest.mark.parametrize("formats", [("csv",), ("csv", "parquet"), ("parquet",), ALL_FORMATS])
def test_croissant_is_valid_and_reads_every_cell(formats: tuple[str, ...], czech: Table, tmp_path: Path) -> None:
    written(czech, tmp_path / "out", formats=formats)
    dataset = mlcroissant.Dataset(str(tmp_path / "out" / "croissant.json"))
    metadata = dataset.metadata
    assert not metadata.ctx.issues.errors
    assert (metadata.name, metadata.license) == (ABOUT["title"], ["CC-BY-4.0"])
    assert metadata.date_published == datetime(1985, 7, 1)
    assert [one.name for one in metadata.publisher] == ["a desk"]
    listed = {path.name for path in (tmp_path / "out").glob("0*")}
    listed |= {path.name for path in (tmp_path / "out").glob("tables.*")}
    assert {one.name for one in metadata.file_objects} == listed
    for one in metadata.file_objects:
        assert one.sha256 == hashlib.sha256((tmp_path / "out" / one.name).read_bytes()).hexdigest()
    cleared = cleared_of(czech, RELEASE)
    assert len(metadata.record_sets) == len(RELEASE.frontier)
    for element, record_set in zip(RELEASE.frontier, metadata.record_sets, strict=True):
        table = cleared.marginal(element)
        rows = [tuple(map(_plain, record.values())) for record in dataset.records(record_set.uuid)]
        names = [[v.categories[c] for v, c in zip(table.schema.variables, cell, strict=True)] for cell in table.codes]
        assert sorted(rows) == sorted((*cell, int(n)) for cell, n in zip(names, table.counts, strict=True))


def _plain(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value if isinstance(value, str) else int(value)


def test_a_ro_crate_is_read_and_has_every_file(czech: Table, tmp_path: Path) -> None:
    written(czech, tmp_path / "out", formats=ALL_FORMATS)
    crate = ROCrate(tmp_path / "out")
    assert (crate.name, crate.datePublished.isoformat()[:10], crate.license[0]["name"]) == (
        ABOUT["title"],
        "1985-07-01",
        "CC-BY-4.0",
    )
    assert crate.publisher[0]["name"] == "a desk"
    beside = {"README.txt", "SHA256SUMS", "catalogue.json", "datapackage.json", "index.html", *BY_SCHEMA_ORG}
    assert {one.id for one in crate.data_entities} == {path.name for path in (tmp_path / "out").iterdir()} - beside
    for one in crate.data_entities:
        path = tmp_path / "out" / one.id
        sha = hashlib.sha256(path.read_bytes()).hexdigest()
        assert (one.source, one.get("sha256", sha)) == (path, sha)
    # what it says has a meaning in the context that it names
    context = json.loads(files("rocrate").joinpath("data", "ro-crate.jsonld").read_text())["@context"]
    graph = json.loads((tmp_path / "out" / "ro-crate-metadata.json").read_text())["@graph"]
    assert {key for entity in graph for key in entity} - {"@id", "@type"} <= set(context)
    assert {entity["@type"] for entity in graph} <= set(context)


def test_names_of_any_letters_are_read_by_croissant_and_ro_crate(tmp_path: Path) -> None:
    schema = Schema((Variable("år / #1", ("=1+1", "ja")), Variable("b c%20", ("x", "y"))))
    table = Table.of(schema, np.array([[0, 0], [1, 1]]), np.array([3, 4]))
    texts, folder = Texts(PublicationConfig(formats=("csv",)), Labels()), tmp_path / "out"
    folder.mkdir()
    write_publication(cleared_of(table, Release.of([0b11])), SUBJECT, "letters", folder, texts=texts)
    dataset = mlcroissant.Dataset(str(folder / "croissant.json"))
    (record_set,) = dataset.metadata.record_sets
    assert [field.name for field in record_set.fields] == ["år / #1", "b c%20", "count"]
    rows = [[*map(_plain, record.values())] for record in dataset.records(record_set.uuid)]
    assert rows == [["'=1+1", "x", 3], ["ja", "y", 4]]
    assert ROCrate(folder).root_dataset["keywords"] == ["b c%20", "år / #1"]


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
    assert {path.name for path in folder.iterdir()} - set(links) <= {"index.html", "README.txt", *BY_SCHEMA_ORG}
    assert len(tab.pdf()) > 1000
