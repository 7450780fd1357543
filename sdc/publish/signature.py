"""Ed25519 signatures of checksums, and in-toto statements that files passed their checks.

A statement (https://in-toto.io/Statement/v1) is in a DSSE envelope. It has no time, so that the same files give the
same bytes.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_ssh_private_key,
)

from sdc.canonical import canonical
from sdc.model.errors import ConfigError
from sdc.paths import require_own
from sdc.run_format import CHECKER, PASSED, PAYLOAD_TYPE, RESULT_TYPE, STATEMENT_TYPE
from sdc.version import VERSION


@dataclass(frozen=True)
class SigningKey:
    """A private key; its repr hides it."""

    _key: Ed25519PrivateKey = field(repr=False)

    @staticmethod
    def read(path: Path) -> SigningKey:
        """Read a PEM or OpenSSH file without a password; ConfigError for any other, InputError as `require_own`."""
        setting = f"publication.signing_key = {str(path)!r}"
        require_own(path)
        try:
            content = path.read_bytes()
        except OSError as error:
            raise ConfigError(
                f"{setting} cannot be read: {error.strerror}; name a file with the private key"
            ) from error
        load = load_ssh_private_key if b"OPENSSH PRIVATE KEY" in content else load_pem_private_key
        try:
            key = load(content, None)
        except TypeError as error:
            raise ConfigError(f"{setting} is encrypted; name a key without a password") from error
        except (ValueError, UnsupportedAlgorithm) as error:
            raise ConfigError(
                f"{setting} is no private key; make one with openssl genpkey -algorithm ed25519"
            ) from error
        if not isinstance(key, Ed25519PrivateKey):
            raise ConfigError(f"{setting} is of another kind; make one with openssl genpkey -algorithm ed25519")
        return SigningKey(key)

    def signature(self, content: bytes) -> str:
        """The 64-byte signature in base64, with a line feed."""
        return base64.b64encode(self._key.sign(content)).decode() + "\n"

    @property
    def keyid(self) -> str:
        """The id of the public key in an envelope: SHA-256 of its DER."""
        key = self._key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return hashlib.sha256(key).hexdigest()

    @property
    def public(self) -> str:
        return self._key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


Descriptor = Mapping[str, Any]
"""An in-toto resource descriptor: name, digest and annotations of a file."""


def descriptor(name: str, sha256: str, annotations: Mapping[str, Any] | None = None) -> Descriptor:
    """The descriptor of content with this digest."""
    return {"name": name, "digest": {"sha256": sha256}} | ({"annotations": annotations} if annotations else {})


def of_file(path: Path, name: str, annotations: Mapping[str, Any] | None = None) -> Descriptor:
    """The descriptor of a file."""
    with path.open("rb") as content:
        return descriptor(name, hashlib.file_digest(content, "sha256").hexdigest(), annotations)


def checker(code: str | None = None) -> Descriptor:
    """This software: its version, and the digest of its code if available."""
    return {"name": "sdc", "uri": f"{CHECKER}{VERSION}"} | ({"digest": {"sha256": code}} if code else {})


def passed(key: SigningKey, subjects: Sequence[Descriptor], configuration: Sequence[Descriptor]) -> str:
    """One line: the signed envelope of a statement that the subjects passed the checks so configured."""
    predicate = {"result": PASSED, "configuration": configuration}
    content = {"_type": STATEMENT_TYPE, "subject": subjects, "predicateType": RESULT_TYPE, "predicate": predicate}
    payload = canonical(content).encode()
    signed = f"DSSEv1 {len(PAYLOAD_TYPE)} {PAYLOAD_TYPE} {len(payload)} ".encode() + payload
    signature = {"keyid": key.keyid, "sig": key.signature(signed).strip()}
    envelope = {"payload": base64.b64encode(payload).decode(), "payloadType": PAYLOAD_TYPE, "signatures": [signature]}
    return canonical(envelope) + "\n"
