"""Words of messages; `sdc.model.errors` has its own, with which the verifier shares nothing."""


def many(number: int, noun: str) -> str:
    """`1 cell`, `2 cells`."""
    return f"{number:,} {noun}{'s' * (number != 1)}"
