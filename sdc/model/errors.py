"""What a user can cause: one message with the thing, its value and what to do."""


class SdcError(Exception):
    """A clean refusal; the command line prints its message and exits with its status.

    The message goes to screens, logs and other people's databases: it names columns, settings and numbers of records.
    What it quotes of the data, a value or a cell, is its `detail`; see `sdc.refusal`.
    """

    status = 1

    def __init__(self, message: str = "", detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail


class InputError(SdcError):
    """A file, a column or a value that cannot be read as a table of counts."""


class UntoldError(InputError):
    """A table of counted cells of which some are not told as they are: none, between two numbers, or rounded."""


class AbsentError(InputError):
    """A source, a publication or a ledger that is named, and that is not there or may not be read here."""


class MissingLibraryError(SdcError, ImportError):
    """A library that sdc does without, and that what was asked for needs."""


class ConfigError(SdcError):
    """A setting that is unknown, missing or out of range."""


class ReleaseError(SdcError):
    """A release that names what the table does not have, or that a method cannot treat."""


class NotReleasableError(ReleaseError):
    """A release that is not proven safe, or makes too much likely: an answer about the data, and no failure."""

    status = 3


class NothingReleasableError(NotReleasableError):
    """A table of which not even the least release that its search begins with may be public."""


class RunFolderError(SdcError):
    """A run folder that cannot be written, is in use, or is not what its manifest says."""
