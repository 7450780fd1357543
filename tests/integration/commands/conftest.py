"""Commands in this process."""

from tests.helpers.commands import informed, sdc

__all__ = ["informed", "sdc"]
