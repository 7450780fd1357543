"""Commands in this process."""

from tests.helpers.commands import sdc

__all__ = ["sdc"]
