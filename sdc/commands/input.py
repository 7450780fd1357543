"""The input of a command: table, config or run, and its executor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from sdc.commands.options import Settings, say
from sdc.model.errors import ConfigError, IncompleteTableError

if TYPE_CHECKING:
    from sdc.executor import Executor
    from sdc.public.incomplete import Incomplete
    from sdc.stages.resolved import ResolvedInput

NOTHING_NAMED: Mapping[str, Sequence[str] | None] = MappingProxyType({})


def read_input(
    path: str, settings: Settings, *features: str, named: Mapping[str, Sequence[str] | None] = NOTHING_NAMED
) -> ResolvedInput:
    """Read the table, config or run of a command, and report its size; errors as `ResolvedInput.open`.

    named  sub-tables by option; the table must have their variables
    """
    from sdc.stages.resolved import ResolvedInput

    source = ResolvedInput.open(path, settings, features=features, named=named)
    table = source.table
    say(f"{path}: {table.total} records, {len(table)} non-zero of {table.schema.cells} cells")
    return source


def read_input_or_incomplete(
    path: str, settings: Settings, release: Sequence[str] | None, *features: str
) -> ResolvedInput | Incomplete:
    """As `read_input`, or read a file with suppressed counts; errors also as `read_incomplete`.

    ConfigError for other settings with such a file: it contains all that is known of the table.
    """
    from sdc.public.incomplete import read_incomplete

    try:
        return read_input(path, settings, *features, named={"--release": release})
    except IncompleteTableError:
        if path.endswith((".yaml", ".yml")) or not Path(path).is_file():
            raise
    unused = [key for key in settings if key not in ("risk.small_count", "execution.workers")]
    if unused := [*unused, *["--release"] * bool(release)]:
        raise ConfigError(
            f"{path} has suppressed counts, so only the file itself is used; omit "
            f"{', '.join(unused)}. List known totals in the file, and 0 for impossible cells"
        )
    found = read_incomplete(path)
    say(f"{path}: {found.schema.cells} cells, some of them suppressed")
    return found


@contextmanager
def executor_of(source: ResolvedInput) -> Iterator[Executor]:
    """Open the executor of a command, with progress."""
    from sdc.execution.cluster import open_executor
    from sdc.progress import Progress, Watched

    with Progress() as progress, open_executor(source.execution) as executor:
        yield Watched(executor, progress)
