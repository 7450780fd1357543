"""Ed25519 signatures: who has the public key can tell that checksums are those that were published."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_ssh_private_key,
)

from sdc.model.errors import ConfigError
from sdc.paths import require_own


@dataclass(frozen=True)
class SigningKey:
    """A private key, which nothing prints."""

    _key: Ed25519PrivateKey = field(repr=False)

    @staticmethod
    def read(path: Path) -> SigningKey:
        """From a PEM or OpenSSH file without a password; ConfigError for any other, InputError as `require_own`."""
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
        """The 64 bytes of the signature, in base64, and a line feed."""
        return base64.b64encode(self._key.sign(content)).decode() + "\n"

    @property
    def keyid(self) -> str:
        """By which an envelope names the public key: SHA-256 of its DER."""
        key = self._key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return hashlib.sha256(key).hexdigest()

    @property
    def public(self) -> str:
        """The public key as PEM."""
        return self._key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
