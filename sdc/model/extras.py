"""Optional packages, and the extra that installs each."""

from __future__ import annotations

from importlib.util import find_spec

from sdc.model.errors import MissingLibraryError

DISTRIBUTION = "sdc-tables"  # the name `sdc` belongs to another project on PyPI

EXTRAS = {
    "anywidget": "notebook",
    "bokeh": "watch",
    "dask_jobqueue": "cluster",
    "dask_kubernetes": "cluster",
    "fastapi": "server",
    "itsdangerous": "server",
    "mbi": "attack",
    "optax": "attack",
    "prometheus_client": "server",
    "psycopg": "postgresql",
    "pyreadstat": "stat",
    "python_multipart": "server",
    "rfc3161_client": "timestamps",
    "s3fs": "s3",
    "starlette": "server",
    "xlsxwriter": "formats",
}
"""The extra of each module that is imported only where it is used."""


def require_packages(what: str, *modules: str, instead: str = "") -> None:
    """Raise MissingLibraryError if a module is missing. Call it before any work.

    The message has what needs the packages, the command that installs them, and the alternative `instead`.
    """
    if missing := [module for module in modules if find_spec(module) is None]:
        names = " and ".join(module.replace("_", "-") for module in missing)
        packages = f"package{'s' * (len(missing) > 1)} {names}"
        command = f"pip install '{DISTRIBUTION}[{EXTRAS[missing[0]]}]'"
        raise MissingLibraryError(f"{what} needs the {packages}; run: {command}{instead and f', {instead}'}")
