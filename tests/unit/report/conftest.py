"""Audits to render."""

from tests.helpers.audits import czech, decomposable, large, rendered, undecided, wide

__all__ = ["czech", "decomposable", "large", "rendered", "undecided", "wide"]
