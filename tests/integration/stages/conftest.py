"""Builds that are made once, and copies of them."""

from tests.helpers.builds import begun, config, czech_build, czech_folder, finished
from tests.helpers.yearbook import rounded_yearbook, yearbook

__all__ = ["begun", "config", "czech_build", "czech_folder", "finished", "rounded_yearbook", "yearbook"]
