"""What commands have been asked about: its table, and who works on it."""

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
    from sdc.stages.subject import Subject

NOTHING_NAMED: Mapping[str, Sequence[str] | None] = MappingProxyType({})


def read_subject(
    path: str, settings: Settings, *asked: str, named: Mapping[str, Sequence[str] | None] = NOTHING_NAMED
) -> Subject:
    """The table, config or run that a command names, said on standard error; errors as `Subject.open`.

    named  by option the sub-tables that the table must have
    """
    from sdc.stages.subject import Subject

    subject = Subject.open(path, settings, asked=asked, named=named)
    table = subject.table
    say(f"{path}: {table.total} records, {len(table)} non-zero of {table.schema.cells} cells")
    return subject


def read_subject_or_incomplete(
    path: str, settings: Settings, release: Sequence[str] | None, *asked: str
) -> Subject | Incomplete:
    """The same, or a file of a table of which not all counts are told; errors as `read_incomplete` too.

    ConfigError where anything is said beside such a table: what is known of it is what it tells.
    """
    from sdc.public.incomplete import read_incomplete

    try:
        return read_subject(path, settings, *asked, named={"--release": release})
    except IncompleteTableError:
        if path.endswith((".yaml", ".yml")) or not Path(path).is_file():
            raise
    said = [key for key in settings if key not in ("risk.small_count", "execution.workers")]
    if said := [*said, *["--release"] * bool(release)]:
        raise ConfigError(
            f"{path} has counts that are not told, and what it tells is all that is known of it; leave out "
            f"{', '.join(said)}, list the totals that are known, and 0 where nobody can be"
        )
    found = read_incomplete(path)
    say(f"{path}: {found.schema.cells} cells, whose counts are not all told")
    return found


@contextmanager
def executor_of(subject: Subject) -> Iterator[Executor]:
    """Who works on what a command is about."""
    from sdc.execution.cluster import open_executor
    from sdc.progress import Progress, Watched

    with Progress() as progress, open_executor(subject.execution) as executor:
        yield Watched(executor, progress)
