"""Opens the service of a config: what was prepared, its history, and the workers that judge."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from sdc.feasible.proof import Proof
from sdc.model.state import State
from sdc.publish.publication import Texts
from sdc.record.chain import Chain
from sdc.server.desk.course import STARTED
from sdc.server.desk.prepare import keep_evidence, prepared, server_of
from sdc.server.desk.rules import KEPT, REVEALED, SUPPRESSED, reveals
from sdc.server.desk.service import Service
from sdc.server.desk.workers import Worker
from sdc.stages.build import Build
from sdc.stages.table import check_labels

FILE = "history.db"  # in a server's folder


@contextmanager
def open_service(build: Build, url: str | None = None) -> Iterator[Service]:
    """The service until the block ends; its history is at the URL, that of the config, or a file in its folder.

    RunFolderError where nothing is prepared; ChainError where the history is of another table or criterion, is in use
    by another server, or cannot be reached.
    """
    ready, server = prepared(build), server_of(build)
    check_labels(build.config, ready.table.schema)
    begins = {SUPPRESSED: REVEALED if build.config.release.reveal_suppressed else KEPT}
    history = Chain.open(url or server.history or str(ready.folder.path / FILE), ready.about, begins=begins)
    bench = replace(ready.bench, reveals=reveals(history.about))

    def keep(state: State, proof: Proof) -> None:
        keep_evidence(ready.folder, ready.table, ready.known, build.criteria, state, proof)

    service = Service(
        history,
        ready.table,
        ready.first,
        lambda is_patient: Worker(bench, ready.table, is_patient=is_patient),
        title=build.config.publication.title or build.config.name,
        texts=Texts(build.config.publication, build.config.labels.labels),
        rules=bench.rules,
        slot=server.slot,
        keep=keep,
    )
    try:
        service.log.store(STARTED, "", "", {"rules": [rule.model_dump(mode="json") for rule in server.rules]})
        yield service
    finally:
        service.close()
