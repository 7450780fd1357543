"""What commands have been asked about: its table, who works on it, and numbers by name."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from sdc.model.errors import ConfigError, InputError, UntoldError

if TYPE_CHECKING:
    from sdc.executor import Executor
    from sdc.intruder.losses import Losses
    from sdc.public.incomplete import Incomplete
    from sdc.stages.subject import Subject

NOTHING_NAMED: Mapping[str, Sequence[str] | None] = MappingProxyType({})


def read_subject(
    path: str,
    variables: str | None,
    structural_zeros: Path | None,
    *asked: str,
    named: Mapping[str, Sequence[str] | None] = NOTHING_NAMED,
) -> Subject:
    """The table, config or run that a command names, said on standard error; errors as `Subject.open`.

    named  by option the sub-tables that the table must have
    """
    from sdc.stages.subject import Subject

    chosen = [name.strip() for name in variables.split(",")] if variables is not None else None
    subject = Subject.open(path, chosen, structural_zeros, asked=asked, named=named)
    table = subject.table
    print(f"{path}: {table.total} records, {len(table)} non-zero of {table.schema.cells} cells", file=sys.stderr)
    return subject


def read_subject_or_incomplete(
    path: str, variables: str | None, structural_zeros: Path | None, release: list[str] | None, *asked: str
) -> Subject | Incomplete:
    """The same, or a file of a table of which not all counts are told; errors as `read_incomplete` too.

    ConfigError where anything is said beside such a table: what is known of it is what it tells.
    """
    from sdc.public.incomplete import read_incomplete

    try:
        return read_subject(path, variables, structural_zeros, *asked, named={"--release": release})
    except UntoldError:
        if path.endswith((".yaml", ".yml")) or not Path(path).is_file():
            raise
    given = {"--variables": variables, "--structural-zeros": structural_zeros, "--release": release}
    if said := [option for option, value in given.items() if value is not None]:
        raise ConfigError(
            f"{path} has counts that are not told, and what it tells is all that is known of it; leave out "
            f"{', '.join(said)}, list the totals that are known, and 0 where nobody can be"
        )
    found = read_incomplete(path)
    print(f"{path}: {found.schema.cells} cells, whose counts are not all told", file=sys.stderr)
    return found


@contextmanager
def executor_of(path: str, workers: int | None) -> Iterator[Executor]:
    """Who works on what a command is about: the cluster of a config, unless so many workers here are asked for."""
    from sdc.config.build import ExecutionConfig
    from sdc.config.file import read_config
    from sdc.execution.cluster import open_executor
    from sdc.progress import Progress, Watched

    if workers is None and path.endswith((".yaml", ".yml")):
        execution = read_config(path).execution
    else:
        execution = ExecutionConfig(cluster="in-process" if workers in (None, 1) else "local", workers=workers or 1)
    with Progress() as progress, open_executor(execution) as executor:
        yield Watched(executor, progress)


def numbers_by_name(given: list[str], option: str, example: str) -> dict[str, float]:
    """`age=2` by name; ConfigError for what is not written so, or given twice."""
    found: dict[str, float] = {}
    for text in given:
        name, _, number = text.partition("=")
        if not name or name in found:
            raise ConfigError(f"{option} {text}: give a name and a number, such as {example}, and each name once")
        try:
            found[name] = float(number)
        except ValueError as error:
            raise ConfigError(f"{option} {text}: {number!r} is no number; give one such as {example}") from error
    return found


def losses_of(given: list[str] | None) -> Losses | None:
    """Of `none=0.1`, `wrong=1`, `right=1` and `harm=0.25`; None without any. InputError where they are no losses."""
    from sdc.intruder.losses import Losses
    from sdc.model.losses import AgencyLosses, IntruderLosses

    if not given:
        return None
    named = numbers_by_name(given, "--loss", "none=0.1")
    sides = {"none": (0, "none"), "wrong": (0, "wrong"), "right": (1, "right"), "harm": (1, "wrong")}
    if (other := next((name for name in named if name not in sides), None)) is not None or "none" not in named:
        what = "none is missing" if other is None else f"{other} is no loss"
        raise InputError(f"--loss: {what}; give none, and any of wrong, right and harm")
    own: tuple[dict[str, float], dict[str, float]] = {}, {}
    for name, value in named.items():
        side, key = sides[name]
        own[side][key] = value
    return Losses(IntruderLosses(**own[0]), AgencyLosses(**own[1]))
