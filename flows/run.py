"""A build from Python and from the command line: its flow, with a Prefect server for as long as it takes."""

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
    """The whole build of a config, as `sdc run` makes it: through a Prefect flow, with Dask workers.

    data     the source in the place of that of the config
    workers  so many here, in the place of those of the config
    watch    whether pages show it at work, on a port of their own or on `watch_port`
    settings  as a config has them, by keys such as "release.method", in the place of its own
    again    make a new build of a config that was published, in a new folder, judged beside all that its ledger has

    It sets what Prefect's environment variables leave open, as the command does, and says how far it is on standard
    error. A build that releases nothing but the total is no error: look at `sub_tables`. Errors as of the command.
    """
    from sdc.config.file import joined
    from sdc.config.values import in_folder

    named: dict[str, Any] = {} if workers is None else {"execution.workers": workers}
    named |= {} if data is None else {"table.path": in_folder(str(data), Path.cwd())}
    given = joined(settings or {}, named)
    made = through_flow("release_build", checked_path(config), given, watch, watch_port, again=again)
    from sdc.stages.finished import Built  # last: to import it takes seconds

    return Built(made)


def through_flow(
    name: str,
    config: Path,
    settings: Settings,
    watch: bool,
    watch_port: int | None,
    **more: Any,
) -> dict[str, Any]:
    """What the flow of this name, in the module of this name, gives."""
    if has_pages := watch or watch_port is not None:
        require_packages("--watch", "bokeh")
    # before all else: what is imported for a build takes seconds
    print(f"{config}: reads the config", file=sys.stderr, flush=True)
    with ExitStack() as stack:
        # first, as nothing else takes so long: it comes up while the config is checked, and ends with a refusal
        await_server = stack.enter_context(embedded_server())
        from sdc.execution.cluster import check_cluster
        from sdc.stages.build import open_build
        from sdc.stages.table import check_before

        build = open_build(config, settings=settings, **more)
        check_before(build)
        check_cluster(build.config.execution)
        print(f"{build.config.name}: config and columns are right", file=sys.stderr, flush=True)
        if has_pages:
            from flows.watch import watched_server

            await_server = stack.enter_context(watched_server(await_server, build.config.execution, watch_port or 0))
        flow = getattr(import_module(f"flows.{name}"), name)
        await_server()
        result: dict[str, Any] = flow(str(config), settings=dict(settings), **more)
    return result
