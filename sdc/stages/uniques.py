"""Uniques: how probably whoever is alone in a cell of the sample is alone in it in the population."""

from __future__ import annotations

from pathlib import Path

from sdc.executor import Executor
from sdc.model.errors import InputError
from sdc.stages.build import Build
from sdc.stages.search import SEARCH
from sdc.stages.stage import Say, Stage, given, plain
from sdc.stages.table import TABLE
from sdc.storage.results import write_uniques
from sdc.utility.uniques import Uniques, uniques_by


def _make(build: Build, into: Path, executor: Executor, say: Say) -> None:
    """What cannot be estimated is no fault of the release: it is said why."""
    try:
        found: Uniques | str = _found(build)
    except InputError as error:
        found = str(error)
    write_uniques(found, build.made.table.schema, into)
    say(f"uniques: {found if isinstance(found, str) else f'by {found.estimator}'}")


def _found(build: Build) -> Uniques:
    asked, made = given(build.config.uniques, "uniques"), build.made
    weights = made.weights if asked.fraction is None else None
    return uniques_by(made.table, made.beside.plus(made.found.release), asked.fraction, asked.model, weights)


UNIQUES = Stage(
    "uniques",
    "says how probably sample uniques are population uniques",
    needs=(TABLE.name, SEARCH.name),
    sections=lambda build: plain(build.config.uniques),
    make=_make,
    asked=lambda config: config.uniques is not None,
)
