"""Kernels before they are needed: what a build or a server will ask is asked of small tables that are made up for it.

A machine compiles each once, for a minute in all; what is found of these tables is thrown away.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from sdc.bounds.method import is_small
from sdc.canonical import digest_of
from sdc.compiled import kept_folder, no_room, none_yet, not_kept
from sdc.config.release import ReleaseConfig
from sdc.model.errors import ReleaseError
from sdc.model.fact import NO_FACTS
from sdc.model.knowledge import Knowledge
from sdc.model.release import NOTHING
from sdc.model.schema import Schema, Variable
from sdc.model.structural_zeros import NO_ZEROS
from sdc.model.table import Table
from sdc.risk.criteria import Criteria
from sdc.risk.posterior_limit import PosteriorLimit
from sdc.risk.verdict import Policy
from sdc.stages.assemble import ALL_WIDTHS, SearchSettings, release_search

SMALL, LARGER = ((5, 2, 60), (6, 2, 150)), ((6, 3, 120), (9, 2, 100))
"""Variables, categories and records: small tables, and larger ones for which bounds and evidence are found otherwise.

Their categories fall off, so that there are many small counts in larger ones.
"""
SMALL_COUNT, MIN_WIDTH = 2, 6
BUDGET = {
    "seconds": 1.0,
    "seconds_per_cell": 0.1,
    "questions": 4,
    "annealing": {"chains": 1, "steps": 200, "rounds": 1},
    "simulatable": {"draws": 2},
}


_turn, _warmed = threading.Lock(), set[tuple[str, bool]]()


def made_up_tables(*, small: bool = False) -> tuple[Table, ...]:
    """The same each time; small ones alone, or larger ones too."""
    return tuple(_made_up(*shape) for shape in (SMALL if small else SMALL + LARGER))


def _made_up(variables: int, categories: int, records: int) -> Table:
    generator, names = np.random.default_rng(0), [str(category) for category in range(categories)]
    schema = Schema(tuple(Variable(f"v{number}", tuple(names)) for number in range(variables)))
    codes = np.minimum(generator.geometric(0.6, (records, variables)) - 1, categories - 1)
    return Table.of(schema, codes)


def known_of(table: Table) -> Knowledge:
    """Nothing beside the table."""
    return Knowledge.of(table, NOTHING, NO_ZEROS, NO_FACTS)


def warm_build(method: str | None, limit: PosteriorLimit | None = None, *, small: bool = False) -> None:
    """Calls what widths call, and what a search by this method and limit does; None for widths alone.

    small  of tables for which exact methods answer alone; else of larger ones too
    """
    criteria = Criteria.of(SMALL_COUNT, MIN_WIDTH, limit)
    release = ReleaseConfig.model_validate({"method": method or "best", **BUDGET})
    settings = SearchSettings(criteria, Policy.REFUSE, ALL_WIDTHS, release)
    for table in made_up_tables(small=small):
        widths = settings.widths(table)
        if method is not None:
            with suppress(ReleaseError):  # its answer is nobody's, a refusal too
                release_search(table, known_of(table), settings, widths).run(release.method)


def warm_once(method: str, schema: Schema) -> None:
    """As `warm_build` for such a table, where this process has not done it yet."""
    asked = method, is_small(schema)
    with _turn:
        if asked not in _warmed:
            warm_build(method, small=is_small(schema))
            _warmed.add(asked)


# In a process beside a build


@contextmanager
def warming(
    method: str | None, limit: PosteriorLimit | None, say: Callable[[str], None]
) -> Iterator[Callable[[Schema], None]]:
    """Has a process compile meanwhile what this machine has not compiled yet; it ends with the block, or before.

    The block calls what it gets with the table's schema: for a small table it ends then, as all that it compiles takes
    far longer than such a build, of which each would begin it anew. What it has compiled by then is kept. Where nothing
    can be kept, or there may be no room for it, that is said, and each process compiles for itself. It is said too
    where nothing is kept yet.
    """
    if fault := not_kept():
        say(fault)
    marker = _marker(method, limit)
    if marker is None or marker.exists():
        yield lambda schema: None
        return
    if said := no_room() or none_yet():
        say(said)
    asked = json.dumps([sys.path, method, None if limit is None else asdict(limit)])
    null, command = subprocess.DEVNULL, [sys.executable, "-c", _WARM, asked]
    # in a session of its own, as an interrupt is for the build; its end is the end of the pipe, however the build ends
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=null, stderr=null, start_new_session=True) as process:
        try:
            yield lambda schema: process.kill() if is_small(schema) else None
        finally:
            process.kill()


_WARM = """
import json, os, sys, threading
os.nice(10)
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(1)), daemon=True).start()
sys.path[:], method, limit = json.loads(sys.argv[1])
from sdc.stages.warm import warm_and_mark
warm_and_mark(method, limit)
"""


def warm_and_mark(method: str | None, limit: dict[str, Any] | None) -> None:
    """As `warm_build`, and notes that it is done."""
    asked = None if limit is None else PosteriorLimit.read(limit)
    warm_build(method, asked)
    if (marker := _marker(method, asked)) is not None:
        marker.touch()


def _marker(method: str | None, limit: PosteriorLimit | None) -> Path | None:
    """Beside what is kept, so that it goes with it; None where nothing is kept there."""
    folder, asked = kept_folder(), [method, None if limit is None else asdict(limit)]
    return None if folder is None else folder / f"warm-{digest_of(asked)[:16]}"
