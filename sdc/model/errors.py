"""What a user can cause: one message with the thing, its value and what to do."""

import difflib
from collections.abc import Iterable, Sequence

MOST_LISTED = 12  # names in a message


class SdcError(Exception):
    """A clean refusal; the command line prints its message and exits with the status of `sdc.refusal.status_of`.

    The message goes to screens, logs and other people's databases: it names columns, settings and numbers of records.
    What it quotes of the data, a value or a cell, is its `detail`; see `sdc.refusal`.
    """

    def __init__(self, message: str = "", detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail


class TemporaryError(SdcError):
    """What is needed is away or busy just now: nothing here is to be mended, and the same may do later."""


class CutShortError(TemporaryError):
    """A search that was to end, and that a fault of workers had left with work: it counts as none."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"the search was to end, and a fault cut it short: {why}. Nothing is published; run again, and it goes on "
            "from its checkpoint"
        )


class InputError(SdcError):
    """A file, a column or a value that cannot be read as a table of counts."""


class UntoldError(InputError):
    """A table of counted cells of which some are not told as they are: none, between two numbers, or rounded."""


class AbsentError(InputError):
    """A source, a publication or a ledger that is named, and that is not there or may not be read here."""


class ConfigError(SdcError):
    """A setting that is unknown, missing or out of range."""


class MissingLibraryError(ConfigError, ImportError):
    """A setting or call that needs a package that is not installed."""


class ReleaseError(SdcError):
    """A release that names what the table does not have, or that a method cannot treat."""


class NotReleasableError(ReleaseError):
    """A release that is not proven safe, or makes too much likely: an answer about the data, and no failure."""


class NothingReleasableError(NotReleasableError):
    """A table of which not even the least release that its search begins with may be public."""


class RunFolderError(SdcError):
    """A run folder that cannot be written, is in use, or is not what its manifest says."""


def meant(name: str, names: Iterable[str], most: int = 1) -> str:
    """For a message on a name that is none of these: `did you mean sex? `, the nearest, or nothing where none is near.

    Case does not count, so that SEX is near to sex.
    """
    known = {one.casefold(): one for one in names}
    near = [known[one] for one in difflib.get_close_matches(str(name).casefold(), known, n=most)]
    return f"did you mean {', '.join(near)}? " if near else ""


def nearest(name: str, names: Sequence[str], what: str = "it has") -> str:
    """The same, and then `it has age, sex`: the first of the names, and how many more there are."""
    more = len(names) - MOST_LISTED
    return f"{meant(name, names)}{what} {', '.join(names[:MOST_LISTED])}" + f" and {more} more" * (more > 0)


class HeldError(RunFolderError, TemporaryError):
    """A run folder in which another run is at work."""


class NoWorkersError(ConfigError, TemporaryError):
    """A cluster, or the queue of one, that has no worker for the build just now."""
