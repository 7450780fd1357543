"""Attack: what a reconstruction from all that is public guesses of the at-risk cells."""

from __future__ import annotations

from pathlib import Path

from sdc.executor import Executor
from sdc.intruder.guesses import Guesses
from sdc.model.errors import InputError
from sdc.public.attack import guesses
from sdc.stages.attacked import attack_on_public
from sdc.stages.build import Build
from sdc.stages.search import SEARCH
from sdc.stages.stage import Say, Stage, given, plain
from sdc.stages.table import TABLE
from sdc.storage.results import write_guesses


def _make(build: Build, into: Path, executor: Executor, say: Say) -> None:
    """What cannot be guessed is no fault of the release: it is said why."""
    try:
        found: Guesses | str = _found(build)
    except InputError as error:
        found = str(error)
    write_guesses(found, into)
    say(f"attack: {found if isinstance(found, str) else f'by {found.methods[0]}'}")


def _found(build: Build) -> Guesses:
    asked, made = given(build.config.attack, "attack"), build.made
    public = made.beside.plus(made.found.release)
    return guesses(attack_on_public(made.table, public, asked.seeds), made.table, build.criteria.small_count)


ATTACK = Stage(
    "attack",
    "guesses at-risk cells from all that is public",
    needs=(TABLE.name, SEARCH.name),
    sections=lambda build: plain(build.config.attack),
    make=_make,
    asked=lambda config: config.attack is not None,
)
