"""Signed releases, verified by in-toto, securesystemslib and OpenSSL, and stamped by a time-stamping authority."""

import base64
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from sdc.model.errors import InputError
from sdc.publish.catalogue import SigningKey
from tests.integration.verify.signing import CONFIDENTIAL, STATEMENT, checks, new_key, signed, signed_by, statement_of

needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl on this machine")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("signed")
    new_key(folder / "key.pem")
    return folder


@pytest.fixture(scope="module")
def honest(place: Path) -> Path:
    return signed(place)


@pytest.mark.parametrize("name", [STATEMENT, CONFIDENTIAL])
def test_others_verify_the_envelope_and_read_the_statement(name: str, honest: Path, place: Path) -> None:
    dsse, signer = pytest.importorskip("securesystemslib.dsse"), pytest.importorskip("securesystemslib.signer")
    content = json.loads((honest / name).read_text())
    public = load_pem_public_key((place / "key.pub").read_bytes())
    keyid = content["signatures"][0]["keyid"]
    own = signer.SSlibKey.from_crypto(public, keyid=keyid)
    assert [*dsse.Envelope.from_dict(dict(content)).verify([own], 1)] == [keyid]
    other = signer.SSlibKey.from_crypto(Ed25519PrivateKey.generate().public_key(), keyid=keyid)
    with pytest.raises(pytest.importorskip("securesystemslib.exceptions").VerificationError):
        dsse.Envelope.from_dict(json.loads((honest / name).read_text())).verify([other], 1)
    intoto = pytest.importorskip("in_toto_attestation.v1.statement")
    from google.protobuf.json_format import Parse
    from in_toto_attestation.v1 import statement_pb2

    # strictly: of what in-toto has no name for it would be refused
    read = intoto.Statement.copy_from_pb(Parse(json.dumps(statement_of(honest / name)), statement_pb2.Statement()))
    read.validate()
    assert read.pb.predicate["result"] == "PASSED"


@needs_openssl
def test_openssl_verifies_what_an_envelope_signs(honest: Path, place: Path, tmp_path: Path) -> None:
    content = json.loads((honest / STATEMENT).read_text())
    payload, kind = base64.b64decode(content["payload"]), content["payloadType"]
    (tmp_path / "signed").write_bytes(f"DSSEv1 {len(kind)} {kind} {len(payload)} ".encode() + payload)
    (tmp_path / "signature").write_bytes(base64.b64decode(content["signatures"][0]["sig"]))
    command = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", place / "key.pub", "-rawin"]
    done = subprocess.run([*command, "-in", tmp_path / "signed", "-sigfile", tmp_path / "signature"], check=False)
    assert done.returncode == 0


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


@needs_openssl
@pytest.mark.parametrize("digest", ["sha256", "sha512"])
def test_a_timestamp_is_of_the_checksums(
    digest: str, honest: Path, place: Path, authority: Path, tmp_path: Path
) -> None:
    pytest.importorskip("rfc3161_client")
    release = Path(shutil.copytree(honest / "release", tmp_path / "release"))
    stamp(release, authority, digest)
    file = release / "SHA256SUMS.tsr"
    openssl(release, "ts", "-verify", "-data", "SHA256SUMS", "-in", file.name, "-CAfile", authority / "authority.pem")
    found = checks(release, place / "key.pub")
    time = "[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8} UTC"
    assert re.fullmatch(f"SHA256SUMS existed at {time}; check the signer with openssl ts -verify", found["timestamp"])
    # of other checksums
    signed_by(release, SigningKey.read(place / "key.pem"), title="Others")
    with pytest.raises(InputError, match=r"SHA256SUMS\.tsr is of other checksums; take it out"):
        checks(release, place / "key.pub")
    file.write_bytes(b"none")
    with pytest.raises(InputError, match=r"SHA256SUMS\.tsr cannot be read \(\w+: .*\); get it again"):
        checks(release, place / "key.pub")
