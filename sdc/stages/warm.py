"""Compiles kernels before they are needed, by running builds on small generated tables.

A machine compiles each kernel once, in about a minute for all. The results are discarded.
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
from sdc.compiled import cache_folder, no_cache, no_room, none_yet
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
"""Variables, categories and records: small tables, and larger ones that use other methods.

Skewed categories give the larger tables many small counts.
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


def made_up_tables(*, small: bool = False) -> Iterator[Table]:
    """Yield the generated tables, always the same."""
    for variables, categories, records in SMALL if small else SMALL + LARGER:
        generator, names = np.random.default_rng(0), tuple(map(str, range(categories)))
        schema = Schema(tuple(Variable(f"v{number}", names) for number in range(variables)))
        codes = np.minimum(generator.geometric(0.6, (records, variables)) - 1, categories - 1)
        yield Table.of(schema, codes)


def warm_build(method: str | None, limit: PosteriorLimit | None = None, *, small: bool = False) -> None:
    """Run what the widths, and a search by this method and limit, call; None: the widths alone.

    small  only tables that exact methods solve; otherwise larger ones too
    """
    criteria = Criteria.of(SMALL_COUNT, MIN_WIDTH, limit)
    release = ReleaseConfig.model_validate({"method": method or "best", **BUDGET})
    settings = SearchSettings(criteria, Policy.REFUSE, ALL_WIDTHS, release)
    for table in made_up_tables(small=small):
        widths = settings.widths(table)
        if method is not None:
            known = Knowledge.of(table, NOTHING, NO_ZEROS, NO_FACTS)
            with suppress(ReleaseError):  # the result does not matter
                release_search(table, known, settings, widths).run(release.method)


def warm_once(method: str, schema: Schema) -> None:
    """Run `warm_build` for a table of this size, once per process."""
    wanted = method, is_small(schema)
    with _turn:
        if wanted not in _warmed:
            warm_build(method, small=is_small(schema))
            _warmed.add(wanted)


def warm_first(method: str, limit: PosteriorLimit | None, schema: Schema, say: Callable[[str], None]) -> None:
    """Run `warm_build` for a table of this size if this machine has never done it, and say that it takes some time."""
    small = is_small(schema)
    every, own = _marker(method, limit), _marker(method, limit, small=small)
    if any(marker is not None and marker.exists() for marker in (every, own)):
        return
    say(none_yet() or "compiles kernels that this machine has not needed yet")
    warm_build(method, limit, small=small)
    if own is not None:
        own.touch()


# In a process parallel to a build


@contextmanager
def warming(
    method: str | None, limit: PosteriorLimit | None, say: Callable[[str], None]
) -> Iterator[Callable[[Schema], None]]:
    """Compile missing kernels in another process, until the block or the compilation ends.

    The block calls the yielded function with the table's schema: for a small table compilation then ends, because the
    build is much shorter. Finished kernels stay cached. A missing, full or empty cache is reported.
    """
    if reason := no_cache():
        say(reason)
    marker = _marker(method, limit)
    if marker is None or marker.exists():
        yield lambda schema: None
        return
    if note := no_room() or none_yet():
        say(note)
    arguments = json.dumps([sys.path, method, None if limit is None else asdict(limit)])
    null, command = subprocess.DEVNULL, [sys.executable, "-c", _WARM, arguments]
    # in its own session, because interrupts are for the build; the closed pipe ends it, however the build ends
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
    """Run `warm_build`, and mark it as done."""
    limit_ = None if limit is None else PosteriorLimit.read(limit)
    warm_build(method, limit_)
    if (marker := _marker(method, limit_)) is not None:
        marker.touch()


def _marker(method: str | None, limit: PosteriorLimit | None, *, small: bool = False) -> Path | None:
    """Return the marker file in the cache; None without a cache."""
    folder, arguments = cache_folder(), [method, None if limit is None else asdict(limit), *([small] if small else [])]
    return None if folder is None else folder / f"warm-{digest_of(arguments)[:16]}"
