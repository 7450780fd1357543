"""What a user can cause: one message with the thing, its value and what to do."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


class SdcError(Exception):
    """A clean refusal; the command line prints its message and exits with status 1."""


class InputError(SdcError):
    """A file, a column or a value that cannot be read as a table of counts."""


class ConfigError(SdcError):
    """A setting that is unknown, missing or out of range."""


class ReleaseError(SdcError):
    """A release that names what the table does not have, or that a method cannot treat."""


class RunFolderError(SdcError):
    """A run folder that cannot be written, is in use, or is not what its manifest says."""


@contextmanager
def as_command() -> Iterator[None]:
    """A process that is a command: a clean refusal ends it with status 1 and one message on standard error."""
    try:
        yield
    except SdcError as error:
        print(f"sdc: {error}", file=sys.stderr)
        sys.exit(1)
