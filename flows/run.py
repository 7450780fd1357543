"""A build from Python or the command line: its flow, and a Prefect server meanwhile."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.embedded import embedded_server
from sdc.model.extras import require_packages
from sdc.paths import checked_path

if TYPE_CHECKING:
    from sdc.config.file import Settings
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
    """Run the whole build of a config, as `sdc run` does: a Prefect flow with Dask workers.

    data      table to read instead of the config's
    workers   number of local workers instead of the config's
    watch     serve pages that show the run, on a free port or on `watch_port`
    settings  by config key, such as "release.method", instead of the config's
    again     build a published config again, in a new folder, judged together with its whole ledger

    It sets Prefect's environment variables that are unset, like the command, and prints progress to standard error. A
    build that releases only the total is not an error: check `sub_tables`. Errors as of the command.
    """
    from sdc.config.file import joined
    from sdc.config.values import in_folder

    named: dict[str, Any] = {} if workers is None else {"execution.workers": workers}
    named |= {} if data is None else {"table.path": in_folder(str(data), Path.cwd())}
    given = joined(settings or {}, named)
    made = through_flow("release_build", checked_path(config), given, watch, watch_port, again=again)
    from sdc.stages.finished import Built  # last: the import takes seconds

    return Built(made)


def through_flow(
    name: str,
    config: Path,
    settings: Settings,
    watch: bool,
    watch_port: int | None,
    **more: Any,
) -> dict[str, Any]:
    """Return the result of the flow of this name."""
    if has_pages := watch or watch_port is not None:
        require_packages("--watch", "bokeh")
    # early: imports of a build take seconds
    print(f"{config}: reads the config", file=sys.stderr, flush=True)
    with ExitStack() as stack:
        # first, because it is slowest: it starts while the config is checked
        await_server = stack.enter_context(embedded_server())
        from sdc.execution.cluster import check_cluster
        from sdc.stages.build import open_build
        from sdc.stages.table import check_before

        build = open_build(config, settings=settings, **more)
        check_before(build)
        check_cluster(build.config.execution)
        print(f"{build.config.name}: config and columns are valid", file=sys.stderr, flush=True)
        if has_pages:
            from flows.watch import watched_server

            await_server = stack.enter_context(watched_server(await_server, build.config.execution, watch_port or 0))
        flow = getattr(import_module(f"flows.{name}"), name)
        await_server()
        result: dict[str, Any] = flow(str(config), settings=dict(settings), **more)
    return result
