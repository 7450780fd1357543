"""Templates of pages: the report, the papers, the server, a release."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined


def page_templates(package: str, folder: str = ".") -> Environment:
    """The templates in a folder of a package, which its process compiles once."""
    return Environment(
        loader=PackageLoader(package, folder),
        # names of variables and categories come from the data, and may hold anything
        autoescape=True,
        # a value that the template asks for and nobody gives is a fault, not an empty line in an audit
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
