"""A build from Python or the command line: its flow, and a Prefect server meanwhile."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from flows.embedded import embedded_server
from sdc.events import warnings_shown
from sdc.model.extras import require_packages
from sdc.paths import checked_path

if TYPE_CHECKING:
    from sdc.config.file import Settings
    from sdc.stages.build import Build
    from sdc.stages.finished import Built


def run(
    config: str | Path,
    data: str | None = None,
    *,
    workers: int | None = None,
    watch: bool = False,
    watch_port: int | None = None,
    again: bool = False,
    settings: Settings | None = None,
) -> Built:
    """Build a release from a config, with all its evidence.

    Parameters
    ----------
    config : str or path
        The YAML file.
    data : str, optional
        The source instead of that of the config.
    workers : int, optional
        The number of workers here, instead of those of the config.
    watch : bool, default False
        Whether pages show the build at work, on a port of their own or on `watch_port`.
    watch_port : int, optional
        That port.
    again : bool, default False
        Build a config that was published in a new folder, beside all that its ledger has.
    settings : dict, optional
        Settings on top of the config, by keys such as "release.method".

    Returns
    -------
    Built
        The run folder, the release, and what to publish; it can be given wherever a function takes `public`.

    Raises
    ------
    SdcError
        As `sdc run` refuses; a build that releases nothing but the total is no error.

    Notes
    -----
    It is a Prefect flow with Dask workers, and sets what Prefect's environment variables leave open.

    Examples
    --------
    >>> built = sdc.run("build.yaml")  # doctest: +SKIP
    """
    given: dict[str, Any] = {"data": data, "workers": workers, "again": again}
    made = through_flow("release_build", checked_path(config), settings or {}, watch, watch_port, given)
    from sdc.stages.finished import Built  # last: the import takes seconds

    return Built(made)


def through_flow(
    name: str,
    config: Path,
    settings: Settings,
    watch: bool = False,
    watch_port: int | None = None,
    given: Mapping[str, Any] = MappingProxyType({}),
    fits: Callable[[Build], object] = lambda build: None,
    **options: Any,
) -> dict[str, Any]:
    """Return the result of the flow of this name.

    given    on top of the config, as `open_build` takes it; options  of the flow alone
    fits     raises ConfigError for a build that the flow would refuse
    """
    if has_pages := watch or watch_port is not None:
        require_packages("--watch", "bokeh")
    # early: imports of a build take seconds
    _say(f"{config}: reads the config")
    with warnings_shown(_say), ExitStack() as stack:
        # first, because it is slowest: it starts while the config is checked
        await_server = stack.enter_context(embedded_server())
        from sdc.execution.cluster import check_cluster
        from sdc.stages.build import open_build
        from sdc.stages.table import check_before

        build = open_build(config, settings=settings, **given)
        fits(build)
        check_before(build)
        check_cluster(build.config.execution)
        _say(f"{build.config.name}: config and columns are valid")
        if has_pages:
            from flows.watch import watched_server

            await_server = stack.enter_context(watched_server(await_server, build.config.execution, watch_port or 0))
        flow = getattr(import_module(f"flows.{name}"), name)
        await_server()
        result: dict[str, Any] = flow(str(config), settings=dict(settings), **given, **options)
    return result


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
