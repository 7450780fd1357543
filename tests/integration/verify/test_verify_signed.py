"""A signed release: its statements as tools that are not ours read them, and what is found of those tampered with."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_public_key,
)
from google.protobuf.json_format import Parse
from in_toto_attestation.v1 import statement_pb2
from in_toto_attestation.v1.statement import Statement
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey

from sdc.commands import cli
from sdc.executor import IN_PROCESS
from sdc.model.errors import ConfigError, InputError, RunFolderError
from sdc.publish.catalogue import write_sums
from sdc.publish.signature import SigningKey
from sdc.publish.statement import passed
from sdc.stages.build import open_build
from sdc.stages.published import verify_folder
from sdc.stages.stages import run_all
from sdc.storage.run_folder import write_json
from sdc.verify.run_folder import verify
from sdc.version import VERSION
from tests.helpers.folders import contents
from tests.integration.stages import test_in_part as in_part
from tests.integration.verify.forging import record

CZECH_CSV = Path(__file__).parents[3] / "configs" / "czech_auto_workers.csv"
FORMATS = ["csv", "parquet", "csvw", "json-stat", "px", "sdmx-csv", "xml", "xlsx"]
STATEMENT, CONFIDENTIAL = "release/statement.intoto.jsonl", "confidential.intoto.jsonl"
Tampering = Callable[[Path], None]


def new_key(path: Path) -> Path:
    """A private key, and beside it the public one, as an agency gives it to its readers."""
    private = Ed25519PrivateKey.generate()
    path.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    path.with_suffix(".pub").write_bytes(public)
    return path


def built(folder: Path, **sections: Any) -> Path:
    """The run folder of the Czech auto workers, signed by key.pem of the folder."""
    publication = {"title": "Workers", "period": "1981", "signing_key": "key.pem", **sections.pop("publication", {})}
    content = {
        "name": "signed",
        "table": {"path": str(CZECH_CSV)},
        "risk": {"min_width": 6},
        "publication": publication,
        "execution": {"cluster": "in-process"},
        "output": {"folder": str(folder / "runs")},
        **sections,
    }
    (folder / "build.yaml").write_text(yaml.safe_dump(content))
    build = open_build(folder / "build.yaml")
    run_all(build, IN_PROCESS)
    return build.folder.path


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("signed")
    new_key(folder / "key.pem")
    return folder


@pytest.fixture(scope="module")
def honest(place: Path) -> Path:
    """In all formats, with totals; not to be touched."""
    return built(place, publication={"formats": FORMATS, "totals": True})


@pytest.fixture
def run(honest: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(honest, tmp_path / "run"))


def statement_of(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(base64.b64decode(json.loads(path.read_text())["payload"]))
    return content


def sha(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


# As tools that are not ours read it


@pytest.mark.parametrize("name", [STATEMENT, CONFIDENTIAL])
def test_others_verify_the_envelope_and_read_the_statement(name: str, honest: Path, place: Path) -> None:
    content = json.loads((honest / name).read_text())
    public = load_pem_public_key((place / "key.pub").read_bytes())
    keyid = content["signatures"][0]["keyid"]
    verified = Envelope.from_dict(dict(content)).verify([SSlibKey.from_crypto(public, keyid=keyid)], 1)
    assert [*verified] == [keyid]
    other = SSlibKey.from_crypto(Ed25519PrivateKey.generate().public_key(), keyid=keyid)
    with pytest.raises(VerificationError):
        Envelope.from_dict(json.loads((honest / name).read_text())).verify([other], 1)
    own = statement_of(honest / name)
    # strictly: of what in-toto has no name for it would be refused
    read = Statement.copy_from_pb(Parse(json.dumps(own), statement_pb2.Statement()))
    read.validate()
    assert read.pb.predicate["result"] == "PASSED"


def test_openssl_verifies_what_an_envelope_signs(honest: Path, place: Path, tmp_path: Path) -> None:
    content = json.loads((honest / STATEMENT).read_text())
    payload, kind = base64.b64decode(content["payload"]), content["payloadType"]
    (tmp_path / "signed").write_bytes(f"DSSEv1 {len(kind)} {kind} {len(payload)} ".encode() + payload)
    (tmp_path / "signature").write_bytes(base64.b64decode(content["signatures"][0]["sig"]))
    command = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", place / "key.pub", "-rawin"]
    done = subprocess.run([*command, "-in", tmp_path / "signed", "-sigfile", tmp_path / "signature"], check=False)
    assert done.returncode == 0


def test_the_statement_is_of_every_file_and_tells_no_setting(honest: Path) -> None:
    statement = statement_of(honest / STATEMENT)
    files = {path.name for path in (honest / "release").iterdir()}
    signed = {"SHA256SUMS.sig", "SHA256SUMS.pub", "statement.intoto.jsonl"}
    assert {one["name"]: one["digest"]["sha256"] for one in statement["subject"]} == {
        name: sha(honest / "release" / name) for name in files - signed
    }
    assert statement["predicate"] == {
        "result": "PASSED",
        "configuration": [{"name": "sdc", "uri": f"pkg:generic/sdc@{VERSION}"}],
    }
    (sums,) = (one for one in statement["subject"] if "annotations" in one)
    assert (sums["name"], sums["annotations"]) == ("SHA256SUMS", {"title": "Workers", "period": "1981"})


def test_the_confidential_statement_is_of_all_evidence(honest: Path) -> None:
    statement = statement_of(honest / CONFIDENTIAL)
    stages = ("table", "widths", "search", "assessment", "confidential")
    files = [honest / "release" / "SHA256SUMS", *(path for stage in stages for path in (honest / stage).iterdir())]
    said = {one["name"]: one["digest"]["sha256"] for one in statement["subject"]}
    assert said == {str(path.relative_to(honest)): sha(path) for path in files}
    code, config, data = statement["predicate"]["configuration"]
    digests = json.loads((honest / "manifest.json").read_text())["digests"]
    found = {of: one["digest"]["sha256"] for of, one in (("code", code), ("config", config), ("data", data))}
    assert found == digests
    assert config["annotations"]["risk"]["min_width"] == 6
    assert "signing_key" not in config["annotations"]["publication"]
    verdict = next(one["annotations"] for one in statement["subject"] if one["name"] == "assessment/assessment.json")
    assert verdict == {
        "releasable": True,
        "min_width": [9, 9],
        "min_width_required": 6,
        "at_risk_cells": 3,
        "undecided_cells": 0,
    }
    assert (honest / CONFIDENTIAL).stat().st_mode & 0o077 == 0


def test_a_release_without_a_place_has_no_statement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> None:
        raise RunFolderError("the ledger is away")

    new_key(tmp_path / "key.pem")
    monkeypatch.setattr("sdc.stages.release._enter_ledger", away)
    with pytest.raises(RunFolderError, match="the ledger is away"):
        built(tmp_path)
    (run,) = (tmp_path / "runs" / "signed").iterdir()
    assert (run / "confidential" / "report.html").exists()
    assert not (run / "release").exists()
    assert not (run / CONFIDENTIAL).exists()


def test_the_same_build_has_the_same_statements(place: Path, tmp_path: Path) -> None:
    shutil.copy(place / "key.pem", tmp_path)
    first, again = built(place), built(tmp_path)
    assert contents(first / "release") == contents(again / "release")
    assert (first / CONFIDENTIAL).read_bytes() == (again / CONFIDENTIAL).read_bytes()
    # found by other settings the same release has the same statement, and a confidential one of its own
    other = built(tmp_path, risk={"min_width": 9})
    assert contents(other / "release") == contents(first / "release")
    assert (other / CONFIDENTIAL).read_bytes() != (first / CONFIDENTIAL).read_bytes()
    # no longer signed, it has none
    unsigned = built(tmp_path, publication={"signing_key": None})
    assert not (unsigned / CONFIDENTIAL).exists()
    assert not {path.name for path in (unsigned / "release").iterdir()} & {"SHA256SUMS.sig", "statement.intoto.jsonl"}
    assert verify(unsigned).verified


# Tampered with, with all that has its digest made anew


def signed_anew(run: Path, change: Callable[[dict[str, Any], dict[str, Any]], None] = lambda one, other: None) -> None:
    """What somebody else signs, of the files as they are, with what they say otherwise in the statements."""
    file = new_key(run.parent / "other.pem")
    key, statements = SigningKey.read(file), [statement_of(run / name) for name in (STATEMENT, CONFIDENTIAL)]
    sums = "".join(f"{sha(path)}  {path.name}\n" for path in sorted((run / "release").iterdir()) if is_listed(path))
    (run / "release" / "SHA256SUMS").write_text(sums)
    (run / "release" / "SHA256SUMS.sig").write_text(key.signature(sums.encode()))
    (run / "release" / "SHA256SUMS.pub").write_text(key.public)
    for folder, statement in zip((run / "release", run), statements, strict=True):
        for one in statement["subject"]:
            one["digest"]["sha256"] = sha(folder / one["name"])
    change(*statements)
    for name, one in zip((STATEMENT, CONFIDENTIAL), statements, strict=True):
        content = json.loads(passed(key, one["subject"], one["predicate"]["configuration"]))
        if one["predicate"]["result"] != "PASSED":
            content = resigned(file, one)
        (run / name).write_text(json.dumps(content, sort_keys=True, separators=(",", ":")) + "\n")


def is_listed(path: Path) -> bool:
    return not path.name.startswith("SHA256SUMS") and not path.name.startswith("statement")


def resigned(file: Path, statement: dict[str, Any]) -> dict[str, Any]:
    """An envelope of what our own writer does not write."""
    key, payload = SigningKey.read(file), json.dumps(statement).encode()
    kind = "application/vnd.in-toto+json"
    signature = key.signature(f"DSSEv1 {len(kind)} {kind} {len(payload)} ".encode() + payload).strip()
    by = [{"keyid": key.keyid, "sig": signature}]
    return {"payload": base64.b64encode(payload).decode(), "payloadType": kind, "signatures": by}


def removed(*names: str) -> Tampering:
    def tamper(run: Path) -> None:
        for name in names:
            (run / name).unlink()

    return tamper


def appended(name: str, more: str) -> Tampering:
    return lambda run: (run / name).write_text((run / name).read_text() + more)


def envelope_with(name: str, change: Callable[[dict[str, Any]], None]) -> Tampering:
    def tamper(run: Path) -> None:
        content = json.loads((run / name).read_text())
        change(content)
        (run / name).write_text(json.dumps(content, sort_keys=True, separators=(",", ":")) + "\n")

    return tamper


def with_payload(content: dict[str, Any]) -> None:
    text = base64.b64decode(content["payload"]).decode().replace('"PASSED"', '"FAILED"')
    content["payload"] = base64.b64encode(text.encode()).decode()


def with_config(run: Path) -> None:
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["config"]["publication"]["period"] = "1982"
    write_json(run / "manifest.json", manifest)


def saying(change: Callable[[dict[str, Any], dict[str, Any]], None]) -> Tampering:
    return lambda run: signed_anew(run, change)


def configured(statement: dict[str, Any], number: int) -> dict[str, Any]:
    found: dict[str, Any] = statement["predicate"]["configuration"][number]
    return found


def of_other_file(statement: dict[str, Any]) -> None:
    statement["subject"][-1]["digest"]["sha256"] = "0" * 64


BY_OTHERS = r"SHA256SUMS\.sig is not by the key in SHA256SUMS\.pub"
TAMPERED: dict[str, tuple[Tampering, str]] = {
    "another signature": (lambda run: write_other_signature(run), BY_OTHERS),
    "a signature and more": (appended("release/SHA256SUMS.sig", "x"), "is not one signature in base64"),
    "another key": (lambda run: write_other_key(run), BY_OTHERS),
    "no key": (removed("release/SHA256SUMS.pub"), r"SHA256SUMS\.pub is missing"),
    "no signature": (removed("release/SHA256SUMS.sig"), r"SHA256SUMS\.sig is missing"),
    "no statement": (removed(STATEMENT), r"is there and release/statement.* is not, or the other way"),
    "no confidential statement": (removed(CONFIDENTIAL), r"is there and release/statement.* is not, or the other way"),
    "no statements": (removed(STATEMENT, CONFIDENTIAL), "the config signs .* there are no statements of it; run"),
    "nothing signed": (
        removed(STATEMENT, CONFIDENTIAL, "release/SHA256SUMS.pub", "release/SHA256SUMS.sig"),
        r"the config signs what is published, and release/SHA256SUMS\.sig is not there; run the build again",
    ),
    "more around it": (envelope_with(STATEMENT, lambda one: one.update(more=1)), "has more around what is signed"),
    "another key's name": (
        envelope_with(CONFIDENTIAL, lambda one: one["signatures"][0].update(keyid="0")),
        "has more around what is signed",
    ),
    "a changed statement": (envelope_with(STATEMENT, with_payload), "is not signed by the key that signed SHA256SUMS"),
    "a changed confidential one": (envelope_with(CONFIDENTIAL, with_payload), "is not signed by the key that signed"),
    "a config of the manifest": (with_config, "is by another config, data or code"),
    # by a key that is theirs
    "of another folder": (saying(lambda one, other: of_other_file(one)), "is of another folder"),
    "a title": (
        saying(lambda one, other: one["subject"][0]["annotations"].update(title="x")),
        "another title or period",
    ),
    "a failure": (
        saying(lambda one, other: one["predicate"].update(result="FAILED")),
        "does not say that the last check",
    ),
    "another program": (saying(lambda one, other: configured(one, 0).update(uri="x")), "names no version of sdc"),
    "of other evidence": (saying(lambda one, other: of_other_file(other)), "is of another folder"),
    "another config": (
        saying(lambda one, other: configured(other, 1)["annotations"]["risk"].update(min_width=7)),
        "is by another config",
    ),
    "other data": (
        saying(lambda one, other: configured(other, 2)["digest"].update(sha256="0")),
        "is by another config",
    ),
    "another verdict": (
        saying(lambda one, other: other["subject"][1]["annotations"].update(releasable=False)),
        "has another verdict",
    ),
}


def write_other_signature(run: Path) -> None:
    key = SigningKey.read(new_key(run.parent / "other.pem"))
    (run / "release" / "SHA256SUMS.sig").write_text(key.signature((run / "release" / "SHA256SUMS").read_bytes()))


def write_other_key(run: Path) -> None:
    (run / "release" / "SHA256SUMS.pub").write_text(SigningKey.read(new_key(run.parent / "other.pem")).public)


@pytest.mark.parametrize("name", TAMPERED)
def test_a_run_whose_statements_were_tampered_with_is_not_verified(name: str, run: Path) -> None:
    tamper, message = TAMPERED[name]
    tamper(run)
    record(run)
    (failure,) = verify(run).failures
    assert re.search(message, failure), failure


def test_what_is_signed_anew_and_says_the_same_is_verified(run: Path) -> None:
    """Who can write the run folder can sign it as somebody: that it was the agency, its key from elsewhere tells."""
    signed_anew(run)
    record(run)
    assert verify(run).verified


# Published, without the table


def checks(folder: Path, key: Path) -> dict[str, str]:
    return dict(verify_folder(folder, key))


@pytest.fixture
def release(honest: Path, tmp_path: Path) -> Path:
    """What is published, away from its run folder."""
    return Path(shutil.copytree(honest / "release", tmp_path / "release"))


def test_readers_verify_what_was_published(release: Path, place: Path) -> None:
    assert checks(release, place / "key.pub") == {
        "signature": "SHA256SUMS is signed by the key",
        "files": "57 are as SHA256SUMS lists them, and there is no other",
        "statement": f"the key says that sdc {VERSION} checked these files, and that they passed",
        "page": "index.html lists the tables and files that datapackage.json lists",
        "formats": "6 tables have the same counts in csv, parquet, json-stat, px, sdmx-csv, xml, xlsx",
        "totals": "6 tables come to 1,841 records, as datapackage.json says",
        "tables": "6 agree in all that two of them count",
    }


AUTHORITY = """
[tsa]
default_tsa = own
[own]
serial = {folder}/serial
default_policy = 1.2.3.4.1
digests = sha256, sha384, sha512
signer_digest = sha256
"""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A time-stamping authority, whose certificate is its own."""
    folder = tmp_path_factory.mktemp("authority")
    (folder / "tsa.cnf").write_text(AUTHORITY.format(folder=folder))
    (folder / "serial").write_text("01\n")
    request = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "authority.pem"]
    more = ["-subj", "/CN=authority", "-days", "2", "-addext", "extendedKeyUsage = critical, timeStamping"]
    openssl(folder, *request, *more)
    return folder


def openssl(folder: Path, *words: object) -> None:
    subprocess.run(["openssl", *map(str, words)], cwd=folder, check=True, capture_output=True)


def stamp(release: Path, authority: Path, digest: str) -> None:
    """What an agency does: a request, the authority's response, beside the checksums."""
    openssl(authority, "ts", "-query", "-data", release / "SHA256SUMS", f"-{digest}", "-cert", "-out", "request.tsq")
    signer = ["-inkey", "key.pem", "-signer", "authority.pem", "-config", "tsa.cnf"]
    openssl(authority, "ts", "-reply", "-queryfile", "request.tsq", *signer, "-out", release / "SHA256SUMS.tsr")


@pytest.mark.parametrize("digest", ["sha256", "sha512"])
def test_a_timestamp_is_of_the_checksums(digest: str, release: Path, place: Path, authority: Path) -> None:
    stamp(release, authority, digest)
    file = release / "SHA256SUMS.tsr"
    openssl(release, "ts", "-verify", "-data", "SHA256SUMS", "-in", file.name, "-CAfile", authority / "authority.pem")
    found = checks(release, place / "key.pub")
    time = "[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8} UTC"
    assert re.fullmatch(f"SHA256SUMS was there at {time}, says whoever openssl ts -verify names", found["timestamp"])
    # of other checksums
    signed_by(release, SigningKey.read(place / "key.pem"), title="Others")
    with pytest.raises(InputError, match=r"SHA256SUMS\.tsr is of other checksums; take it out"):
        checks(release, place / "key.pub")
    file.write_bytes(b"none")
    with pytest.raises(InputError, match=r"SHA256SUMS\.tsr cannot be read \(\w+: .*\); get it again"):
        checks(release, place / "key.pub")


def changed(name: str, old: str, new: str) -> Tampering:
    def tamper(folder: Path) -> None:
        (path,) = folder.glob(name)
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))

    return tamper


def with_other_statement(folder: Path) -> None:
    """That of another folder, signed by the same key."""
    key = SigningKey.read(folder.parent / "key.pem")
    statement = statement_of(folder / "statement.intoto.jsonl")
    statement["subject"][1]["digest"]["sha256"] = "0" * 64
    text = passed(key, statement["subject"], statement["predicate"]["configuration"])
    (folder / "statement.intoto.jsonl").write_text(text)


def noise(name: str) -> Tampering:
    return lambda folder: (folder / name).write_bytes(b"\xff")


def unsigned(folder: Path) -> None:
    for name in ("SHA256SUMS.sig", "SHA256SUMS.pub", "statement.intoto.jsonl"):
        (folder / name).unlink()


NOT_AS_SIGNED: dict[str, tuple[Tampering, str]] = {
    "a file changed": (
        changed("001_A-B-C-D-E.csv", "1841", "1842"),
        r"D-E\.csv is not what SHA256SUMS lists",
    ),
    "a file removed": (lambda folder: (folder / "README.txt").unlink(), r"README\.txt is listed .* and is not there"),
    "a file added": (lambda folder: (folder / "more.csv").write_text("A\n"), r"more\.csv is not listed in SHA256SUMS"),
    "a folder instead": (
        lambda folder: into_folder(folder / "README.txt"),
        r"README\.txt is not what SHA256SUMS lists",
    ),
    "checksums changed": (changed("SHA256SUMS", "0", "1"), r"SHA256SUMS\.sig is not by --key"),
    "a signature of noise": (noise("SHA256SUMS.sig"), r"SHA256SUMS\.sig cannot be read"),
    "a statement of noise": (noise("statement.intoto.jsonl"), r"statement\.intoto\.jsonl cannot be read"),
    "unsigned": (unsigned, r"it has no SHA256SUMS\.sig, so that it is not signed"),
    "no statement": (lambda folder: (folder / "statement.intoto.jsonl").unlink(), "it has no statement"),
    "a statement of another folder": (with_other_statement, "is of another folder: 001_A-B-C-D-E"),
    "another public key in it": (lambda folder: write_other_key(folder.parent), r"SHA256SUMS\.pub is not --key"),
}


def into_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("name", NOT_AS_SIGNED)
def test_what_is_not_as_it_was_signed_is_not_verified(name: str, release: Path, place: Path) -> None:
    for file in ("key.pem", "key.pub"):
        shutil.copy(place / file, release.parent)
    tamper, message = NOT_AS_SIGNED[name]
    tamper(release)
    with pytest.raises(InputError, match=f"{release} is not verified: .*{message}"):
        checks(release, release.parent / "key.pub")


def test_only_the_signers_key_will_do(release: Path, place: Path, tmp_path: Path) -> None:
    other = new_key(tmp_path / "other.pem")
    with pytest.raises(InputError, match=r"SHA256SUMS\.sig is not by --key .*other\.pub; get the signer's key"):
        checks(release, other.with_suffix(".pub"))
    # nor that in the folder, whoever signed it
    with pytest.raises(ConfigError, match="is in the folder that it is to vouch for"):
        checks(release, release / "SHA256SUMS.pub")
    (tmp_path / "rsa.pub").write_bytes(
        generate_private_key(65537, 2048).public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    )
    for name in ("other.pem", "rsa.pub", "release/README.txt"):
        shutil.copy(tmp_path / name, tmp_path / "no_key")
        with pytest.raises(ConfigError, match="no_key is no public key of Ed25519 in PEM"):
            checks(release, tmp_path / "no_key")
    with pytest.raises(ConfigError, match="none cannot be read"):
        checks(release, tmp_path / "none")
    with pytest.raises(ConfigError, match="is no folder"):
        checks(tmp_path / "none", place / "key.pub")


def signed_by(folder: Path, key: SigningKey, **told: str) -> None:
    """As its signer would sign what is there now."""
    metadata = json.loads((folder / "datapackage.json").read_text()) | told
    for one in metadata["resources"]:
        if "hash" in one:
            one["hash"] = f"sha256:{sha(folder / one['path'])}"
    write_json(folder / "datapackage.json", metadata)
    write_sums(folder, key, metadata)


def with_a_record_more(folder: Path) -> None:
    """In Parquet alone."""
    path = folder / "001_A-B-C-D-E.parquet"
    table = pq.read_table(path)
    first, *counts = table.column("count").to_pylist()
    place = table.column_names.index("count")
    pq.write_table(table.set_column(place, "count", pa.array([first + 1, *counts], table.schema.types[place])), path)


def with_other_px(folder: Path) -> None:
    """The last number."""
    path = folder / "001_A-B-C-D-E.px"
    path.write_text(re.sub(r"[0-9]+(\s*;\s*)$", r"1842\1", path.read_text()))


CONTRADICTING: dict[str, tuple[list[Tampering], str]] = {
    "other counts in PX": ([with_other_px], r"\.px has other cells than the table has as CSV or Parquet"),
    "other counts in Parquet": (
        [with_a_record_more],
        r"\.parquet has other cells than the table has in",
    ),
    "a total of cells": (
        [changed("001_A-B-C-D-E.csv", ",1841", ",1842")],
        r"\.csv has totals that are not the sums",
    ),
    "the number of records": (
        [changed("datapackage.json", '"records": 1841', '"records": 1842'), changed("index.html", "1,841", "1,842")],
        r"001_A-B-C-D-E\.csv comes to 1841 records, datapackage\.json says 1842",
    ),
    "a page": ([changed("index.html", "1,841", "1,842")], r"index\.html tells numbers that its metadata do not"),
}


@pytest.mark.parametrize("name", CONTRADICTING)
def test_what_a_signer_signs_and_contradicts_itself_is_not_verified(name: str, release: Path, place: Path) -> None:
    tampering, message = CONTRADICTING[name]
    for tamper in tampering:
        tamper(release)
    signed_by(release, SigningKey.read(place / "key.pem"))
    with pytest.raises(InputError, match=message):
        checks(release, place / "key.pub")


@pytest.fixture
def plain(place: Path) -> Path:
    """As CSV alone, without totals."""
    return built(place, publication={"formats": ["csv"]}) / "release"


def moved(text: str) -> str:
    """With a record of the last cell in the first."""
    header, first, *between, last = text.splitlines()
    rows = [row.rpartition(",") for row in (first, last)]
    one, other = (f"{cell},{int(count) + by}" for (cell, _, count), by in zip(rows, (1, -1), strict=True))
    return "\n".join([header, one, *between, other]) + "\n"


def test_tables_that_count_otherwise_are_not_verified(plain: Path, place: Path, tmp_path: Path) -> None:
    """One record of one table has another category, so that the total is the same."""
    folder = Path(shutil.copytree(plain, tmp_path / "moved"))
    path = folder / "004_A-B-C-F.csv"
    path.write_text(moved(path.read_text()))
    signed_by(folder, SigningKey.read(place / "key.pem"))
    with pytest.raises(
        InputError, match=r"its tables contradict each other: .* have different counts of .*; ask the signer"
    ):
        checks(folder, place / "key.pub")
    assert "tables" in checks(plain, place / "key.pub")


def test_what_is_in_part_is_verified_as_far_as_it_tells(place: Path, tmp_path: Path) -> None:
    publication = {"formats": FORMATS, "totals": True, "signing_key": str(place / "key.pem")}
    build = in_part.built(in_part.config(tmp_path, publication=publication))
    found = checks(build.folder.path / "release", place / "key.pub")
    assert re.fullmatch(
        r"[1-9][0-9]* agree in all that two of them count; 1 in part are for sdc check", found["tables"]
    )
    assert found["formats"].endswith("in csv, parquet, json-stat, px, sdmx-csv, xml, xlsx")


def test_totals_of_weights_are_compared_and_not_added_up(place: Path, tmp_path: Path) -> None:
    shutil.copy(place / "key.pem", tmp_path)
    generator = np.random.default_rng(3)
    columns = {name: generator.integers(0, size, 4000) for name, size in (("a", 4), ("b", 3), ("c", 4))}
    weights = np.round(generator.lognormal(5, 0.7, 4000), 2)
    pq.write_table(pa.table({**columns, "w": weights}), tmp_path / "records.parquet")
    table = {"path": str(tmp_path / "records.parquet"), "variables": ["a", "b", "c"], "weight": "w"}
    run = built(tmp_path, table=table, risk={"min_width": 4}, weighted={"round": 500})
    found = checks(run / "release", place / "key.pub")
    assert re.fullmatch(
        r"[1-9][0-9]* tables have the same rows in CSV and Parquet; rounded totals are not added up", found["formats"]
    )
    assert not {"totals", "tables"} & found.keys()


def test_by_command(
    release: Path, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(*words: object) -> tuple[Any, str, str]:
        monkeypatch.setattr("sys.argv", ["sdc", "verify", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return ended.value.code or 0, *capsys.readouterr()

    asked, found = ("--published", release, "--key", place / "key.pub"), checks(release, place / "key.pub")
    status, out, _ = said(*asked)
    assert (status, out) == (0, "".join(f"{what:14}{text}\n" for what, text in found.items()))
    status, out, _ = said(*asked, "--json")
    assert (status, json.loads(out)) == (0, {"published": str(release), "verified": True, "checks": found})
    for words in ((release, "--published"), (release, "--key", place / "key.pub")):
        status, out, err = said(*words)
        assert (status, out) == (1, "")
        assert "--published and --key go together" in err
    (release / "README.txt").unlink()
    message = f"{release} is not verified: README.txt is listed in SHA256SUMS and is not there; get it again"
    assert said(*asked) == (1, "", f"sdc: {message}\n")
    status, out, _ = said(*asked, "--json")
    assert (status, json.loads(out)) == (1, {"error": message, "status": 1})
