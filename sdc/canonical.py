"""JSON in one way: equal values have the same text, and so the same digest."""

import json
from hashlib import sha256


def canonical(value: object) -> str:
    """With sorted keys and no spaces; ValueError for what does not read back as it is."""
    try:
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except (TypeError, RecursionError) as error:
        raise ValueError(f"this cannot be kept as JSON: {error}") from error
    text.encode()  # halves of characters are no UTF-8
    return text


def digest_of(value: object) -> str:
    """SHA-256 over the canonical JSON of a value."""
    return sha256(canonical(value).encode()).hexdigest()
