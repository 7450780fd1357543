"""The real service over a history, for tests."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from sdc.config.server import ServerConfig
from sdc.executor import IN_PROCESS
from sdc.model.release import NOTHING, Release
from sdc.model.state import State
from sdc.model.subtable import SubTable
from sdc.model.table import Table
from sdc.record.chain import Chain
from sdc.risk.criteria import Criteria
from sdc.risk.effort import Effort
from sdc.server.service.audit import Standard
from sdc.server.service.history import levels_of
from sdc.server.service.judge import Judge, one_way, surveyed
from sdc.server.service.rules import KEPT, SUPPRESSED, rules_of
from sdc.server.service.service import Service
from sdc.server.service.workers import Bench, Worker
from sdc.stages.build import Build, open_build
from sdc.stages.stages import SWEEP, run_stage
from tests.helpers.builds import write_czech
from tests.helpers.waiting import wait_until
from tests.strategies import knows

CRITERIA = Criteria.of(2, 6)


@cache
def first_state(table: Table, criteria: Criteria, public: Release) -> State:
    """What is public first, and what cannot be released beside it; found once, as it follows from the table."""
    judge = Judge(table, knows(table, NOTHING), criteria)
    return surveyed(judge, State.first(table.schema, public))


def open_service(
    table: Table,
    folder: Path,
    url: str | None = None,
    rules: Sequence[dict[str, Any]] = (),
    slot: float = 0.0,
    worker: type[Worker] | None = None,
    standard: Standard | None = None,
    first: State | None = None,
) -> Service:
    """With the one-way sub-tables first, if no state is given; its history is a file in the folder unless a URL is."""
    chosen = rules_of(ServerConfig.model_validate({"rules": list(rules)}).rules)
    standard = standard or Standard(table, knows(table, NOTHING), CRITERIA, "a test")
    bench = Bench(folder, standard.known, standard.criteria, Effort(), chosen)
    zeros = {"structural_zeros": standard.known.zeros.labels(table.schema)} if standard.known.zeros else {}
    about = {
        "table": table.digest,
        "criterion": standard.criteria.facts,
        "variables": list(table.schema.names),
        **levels_of(table.schema),
        **zeros,
    }
    return Service(
        Chain.open(url or str(folder / "history.db"), about, begins={SUPPRESSED: KEPT}),
        table,
        first or first_state(table, standard.criteria, one_way(table.schema)),
        lambda _: (worker or Worker)(bench, table),
        title="Tables",
        rules=chosen,
        slot=slot,
    )


def czech_build(folder: Path, **sections: Any) -> Build:
    """A build of the Czech table in a folder, without workers of its own."""
    whole = {"output": {"folder": str(folder)}, **sections}
    return open_build(write_czech(folder, "czech.yaml", whole=whole))


def swept(build: Build) -> None:
    """Run the stages that a server is prepared from."""
    with build.started([stage.name for stage in SWEEP]):
        for stage in SWEEP:
            run_stage(stage, build, IN_PROCESS, lambda text: None)


@contextmanager
def services_of(table: Table, folder: Path) -> Iterator[Callable[..., Service]]:
    """What opens a service by such rules over the history in a folder; all are closed in the end."""
    with ExitStack() as opened:
        yield lambda *rules: opened.enter_context(closing(open_service(table, folder, rules=rules)))


def released(service: Service, subtable: SubTable, *, in_part: bool = False) -> None:
    """Ask for a sub-table until it is public: a busy machine decides after it has answered."""
    service.ask(subtable, "ada", in_part=in_part)
    wait_until(lambda: subtable in service.state.released or service.in_part(subtable) is not None)
