"""Canonical JSON: equal values have the same text and the same digest."""

import json
from hashlib import sha256


def canonical(value: object) -> str:
    """Return JSON with sorted keys and no spaces; ValueError for a value that does not read back unchanged."""
    try:
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except (TypeError, RecursionError) as error:
        raise ValueError(f"this cannot be written as JSON: {error}") from error
    text.encode()  # halves of characters are no UTF-8
    return text


def digest_of(value: object) -> str:
    """SHA-256 over the canonical JSON of a value."""
    return sha256(canonical(value).encode()).hexdigest()
