"""What a release has beside its tables: checksums, signature, catalogue, and what describes it for others."""

import base64
import hashlib
import json
import re
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

from sdc.config.publication import PublicationConfig
from sdc.model.errors import ConfigError, RunFolderError
from sdc.model.labels import Labels
from sdc.model.release import Release
from sdc.model.table import Table
from sdc.publish.publication import Texts, check_publication, write_publication
from tests.helpers.clearing import SUBJECT, cleared_of
from tests.helpers.folders import contents
from tests.integration.verify.signing import new_key

ALL_FORMATS = ("csv", "parquet", "csvw", "json-stat", "px", "sdmx-csv", "xml", "xlsx", "pxapi")
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
BESIDE = {"README.txt", "SHA256SUMS", "catalogue.json", "datapackage.json", "index.html", *BY_SCHEMA_ORG}
RELEASE = Release.of([0b000111, 0b011000, 0b100001])


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return new_key(tmp_path_factory.mktemp("keys") / "signing.pem")


def written(czech: Table, folder: Path, **about: Any) -> Texts:
    texts = Texts(PublicationConfig(**{**ABOUT, **about}), Labels())
    folder.mkdir()
    write_publication(cleared_of(czech, RELEASE), SUBJECT, "workers", folder, texts=texts)
    check_publication(cleared_of(czech, RELEASE), folder, "workers", texts)
    return texts


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
    beside = {"SHA256SUMS", "SHA256SUMS.sig", "SHA256SUMS.pub", "statement.intoto.jsonl"}
    beside |= BESIDE - {"README.txt", "datapackage.json"}
    for name in sorted(beside):
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content + b" ")
        with pytest.raises(RunFolderError, match=f"{name} is not as it was written"):
            check_publication(cleared_of(czech, RELEASE), folder, "workers", texts)
        (folder / name).write_bytes(content)
    unsigned = Texts(PublicationConfig(**ABOUT), Labels())
    with pytest.raises(RunFolderError, match=r"SHA256SUMS\.\w+ is not as it was written: no such file"):
        check_publication(cleared_of(czech, RELEASE), folder, "workers", unsigned)


def test_a_key_that_cannot_sign_is_refused(tmp_path: Path, czech: Table) -> None:
    private = ed25519.Ed25519PrivateKey.generate()
    other = rsa.generate_private_key(65537, 2048)
    bad = {
        "none": (None, "cannot be read"),
        "empty": (b"", "is not a private key"),
        "noise": (b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "is not a private key"),
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
    assert files == {*contents(tmp_path / "out")} - BESIDE
    sums = dict(reversed(line.split("  ")) for line in (tmp_path / "out" / "SHA256SUMS").read_text().splitlines())
    for one in dataset["dcat:distribution"]:
        if "spdx:checksum" in one:
            assert one["spdx:checksum"]["spdx:checksumValue"] == sums[one["dcat:downloadURL"]]
            assert one["dcat:byteSize"] == (tmp_path / "out" / one["dcat:downloadURL"]).stat().st_size
    assert (dataset["dcterms:license"], dataset["dcterms:issued"]) == (["CC-BY-4.0"], "1985-07-01")
    used = set(re.findall(r'"(?:@type": ")?([a-z]+):[A-Za-z]', json.dumps(catalogue)))
    assert used - {"http", "https"} <= set(catalogue["@context"])


def test_croissant_and_ro_crate_name_every_file(czech: Table, tmp_path: Path) -> None:
    """What readers of both make of them is tested in `tests/system/publish`."""
    written(czech, tmp_path / "out", formats=ALL_FORMATS)
    croissant, crate = (json.loads((tmp_path / "out" / name).read_text()) for name in BY_SCHEMA_ORG)
    files = {*contents(tmp_path / "out")}
    tables = {name for name in files if name.startswith(("0", "tables.", "pxapi/"))}
    hashes = {one["@id"]: one["sha256"] for one in croissant["distribution"]}
    assert hashes == {name: hashlib.sha256((tmp_path / "out" / name).read_bytes()).hexdigest() for name in tables}
    assert len(croissant["recordSet"]) == len(RELEASE.frontier)
    assert {one["@id"] for one in crate["@graph"] if one["@type"] == "File"} == files - BESIDE
    for document in (croissant, next(one for one in crate["@graph"] if one["@id"] == "./")):
        assert (document["name"], document["datePublished"]) == (ABOUT["title"], "1985-07-01")
