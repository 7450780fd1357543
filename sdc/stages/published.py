"""A published folder verified by whoever has it: by the signer's public key, and by what its tables tell together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from sdc.model.errors import ConfigError, InputError
from sdc.model.extras import require_packages
from sdc.public.check import contradiction
from sdc.run_format import IN_PART, METADATA, SUB_TABLE, TIMESTAMP
from sdc.storage.run_folder import read_json
from sdc.verify.published.folder import UnverifiedError, verify_published
from sdc.verify.published.signed import key_of


def verify_folder(folder: Path, key: Path) -> Iterator[tuple[str, str]]:
    """What is checked and what was found, one after the other.

    ConfigError where there is no such folder or key, InputError where something does not hold.
    """
    if not folder.is_dir():
        raise ConfigError(f"--published {folder} is no folder; name one that was published")
    if key.resolve().is_relative_to(folder.resolve()):
        raise ConfigError(f"--key {key} is in the folder that it is to vouch for; get the signer's key from the signer")
    if (folder / TIMESTAMP).exists():
        require_packages(str(folder / TIMESTAMP), "rfc3161_client")
    try:
        yield from verify_published(folder, _public_key(key), f"--key {key}")
    except UnverifiedError as error:
        raise InputError(str(error)) from error
    yield from _tables(folder)


def _public_key(file: Path) -> Ed25519PublicKey:
    try:
        return key_of(file.read_bytes())
    except OSError as error:
        raise ConfigError(f"--key {file} cannot be read: {error.strerror}; name the signer's public key") from error
    except ValueError as error:
        raise ConfigError(f"--key {file} is no public key of Ed25519 in PEM; name the signer's public key") from error


def _tables(folder: Path) -> Iterator[tuple[str, str]]:
    """Whether tables of counts agree with each other in what both count."""
    metadata = read_json(folder / METADATA)
    tables = {tuple(one[SUB_TABLE]) for one in metadata["resources"] if one.get(SUB_TABLE)}
    if "weighted" in metadata or not tables:
        return
    if reason := contradiction(folder):
        raise InputError(f"{folder} is not verified: its tables contradict each other: {reason}; ask the signer")
    parts = {tuple(one[SUB_TABLE]) for one in metadata["resources"] if IN_PART in one}
    beside = f"; {len(parts)} in part are for sdc check" if parts else ""
    yield "tables", f"{len(tables - parts)} agree in all that two of them count{beside}"
