"""Templates of pages: report, papers, server, release."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup


def page_templates(package: str, folder: str = ".") -> Environment:
    """Return the templates in a folder of a package; each process compiles them once."""
    found = Environment(
        loader=PackageLoader(package, folder),
        # names come from the data and may contain markup
        autoescape=True,
        # a missing value is an error, not an empty line in an audit
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # a long label breaks after a star, and nowhere else
    found.filters["breaking"] = lambda label: Markup("*<wbr>").join(label.split("*"))
    return found
