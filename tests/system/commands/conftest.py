"""Commands in this process, and with workers that are there."""

from tests.helpers.commands import opened, sdc

__all__ = ["opened", "sdc"]
