"""Errors that a user can cause. The message names the thing, its value and what to do."""

import difflib
from collections.abc import Iterable, Sequence

MOST_LISTED = 12  # names in a message


class SdcError(Exception):
    """A clean refusal: the command line prints its message and exits with the status of `sdc.refusal.status_of`.

    Messages go to screens, logs and other people's databases: they name columns, settings and numbers of records.
    Quotes of the data, such as a value or a cell, are in `detail`; see `sdc.refusal`.
    """

    def __init__(self, message: str = "", detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail


class TemporaryError(SdcError):
    """Something is missing or busy now: nothing needs a fix here, and a later try may succeed."""


class CutShortError(TemporaryError):
    """A search that failed workers left incomplete; it does not count as a result."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"the search was stopping, and an error cut it short: {why}. Nothing is published; run again, and it goes "
            "on from its checkpoint"
        )


class InputError(SdcError):
    """A file, column or value that cannot be read as a table of counts."""


class IncompleteTableError(InputError):
    """A table of counted cells with missing, interval or rounded counts."""


class AbsentError(InputError):
    """A named source, publication or ledger that is missing or unreadable."""


class ConfigError(SdcError):
    """A setting that is unknown, missing or out of range."""


class MissingLibraryError(ConfigError, ImportError):
    """A setting or call needs a package that is not installed."""


class ReleaseError(SdcError):
    """A release with unknown variables, or one that a method cannot treat."""


class NotReleasableError(ReleaseError):
    """A release that is not proven safe, or violates the posterior limit: a result about the data, not a failure."""


class NothingReleasableError(NotReleasableError):
    """Not even the smallest release of the search may be public."""


class RunFolderError(SdcError):
    """A run folder that cannot be written, is in use, or differs from its manifest."""


def meant(name: str, names: Iterable[str], most: int = 1) -> str:
    """For messages on an unknown name: `did you mean sex? ` with the nearest name, or nothing. Case does not count."""
    known = {one.casefold(): one for one in names}
    near = [known[one] for one in difflib.get_close_matches(str(name).casefold(), known, n=most)]
    return f"did you mean {', '.join(near)}? " if near else ""


def many(number: int, noun: str) -> str:
    """`1 cell`, `2 cells`; `1 category`, `2 categories`; `1 key`, `2 keys`."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") and not noun.endswith("ey") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def nearest(name: str, names: Sequence[str], what: str = "it has") -> str:
    """As `meant`, followed by `it has age, sex`: the first names and the number of others."""
    more = len(names) - MOST_LISTED
    return f"{meant(name, names)}{what} {', '.join(names[:MOST_LISTED])}" + f" and {more} more" * (more > 0)


class HeldError(RunFolderError, TemporaryError):
    """A run folder in use by another run."""


class NoWorkersError(ConfigError, TemporaryError):
    """A cluster or queue without a worker for the build now."""
