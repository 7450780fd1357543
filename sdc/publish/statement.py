"""Statements of in-toto: of which files it is said, by whoever has the key, that they passed what checked them.

The statement (https://in-toto.io/Statement/v1) is in an envelope as DSSE has it, which is signed by Ed25519. It has no
time of day: of the same files it has the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sdc.canonical import canonical
from sdc.publish.signature import SigningKey
from sdc.run_format import CHECKER, PASSED, PAYLOAD_TYPE, RESULT_TYPE, STATEMENT_TYPE
from sdc.version import VERSION

Descriptor = Mapping[str, Any]
"""What in-toto calls a resource descriptor: of a file its name, its digest and what is said of it."""


def descriptor(name: str, sha256: str, said: Mapping[str, Any] | None = None) -> Descriptor:
    """Of what has this digest."""
    return {"name": name, "digest": {"sha256": sha256}} | ({"annotations": said} if said else {})


def of_file(path: Path, name: str, said: Mapping[str, Any] | None = None) -> Descriptor:
    """Of a file, as it is now."""
    with path.open("rb") as content:
        return descriptor(name, hashlib.file_digest(content, "sha256").hexdigest(), said)


def checker(code: str | None = None) -> Descriptor:
    """Of this software by its version, and by the digest of its code where that may be told."""
    return {"name": "sdc", "uri": f"{CHECKER}{VERSION}"} | ({"digest": {"sha256": code}} if code else {})


def passed(key: SigningKey, subjects: Sequence[Descriptor], configuration: Sequence[Descriptor]) -> str:
    """One line, the signed envelope of a statement that the subjects passed what was configured so."""
    predicate = {"result": PASSED, "configuration": configuration}
    content = {"_type": STATEMENT_TYPE, "subject": subjects, "predicateType": RESULT_TYPE, "predicate": predicate}
    payload = canonical(content).encode()
    signed = f"DSSEv1 {len(PAYLOAD_TYPE)} {PAYLOAD_TYPE} {len(payload)} ".encode() + payload
    signature = {"keyid": key.keyid, "sig": key.signature(signed).strip()}
    envelope = {"payload": base64.b64encode(payload).decode(), "payloadType": PAYLOAD_TYPE, "signatures": [signature]}
    return canonical(envelope) + "\n"
