"""What is counted of a server, and of the last builds beside it, in Prometheus' text format."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from sdc.server.desk.desk import DeskLike
from sdc.storage.runs import STATES, Run, last_runs
from sdc.version import VERSION

Answered = Mapping[tuple[str, int], int]
"""How many answers were of each route, by its template, and status."""

MEDIA_TYPE = CONTENT_TYPE_LATEST


def metrics_text(desk: DeskLike, answered: Answered, runs: Path) -> bytes:
    """All of it now; nothing tells what was asked for, nor a value or a number of the data.

    runs  the folder of run folders, of which the last of each name is told
    """
    return generate_latest(_Metrics(desk, answered, runs))


@dataclass(frozen=True)
class _Metrics(Collector):
    desk: DeskLike
    answered: Answered
    runs: Path

    def collect(self) -> Iterator[Metric]:
        health, tally, state = self.desk.health(), self.desk.tally(), self.desk.state
        versions = {"version": VERSION, "python": platform.python_version()}
        yield InfoMetricFamily("sdc", "Versions of what runs.", versions)
        rows = [((route, str(status)), number) for (route, status), number in sorted(self.answered.items())]
        yield _counter("sdc_http_requests", "Answers since the start, an error as 500.", ("route", "status"), rows)
        decisions = [((outcome,), number) for outcome, number in sorted(tally.decisions.items())]
        yield _counter("sdc_decisions", "Decisions in the history, those to wait too.", ("outcome",), decisions)
        outages = [((fault,), number) for fault, number in sorted(tally.outages.items())]
        yield _counter("sdc_outages", "How often since the start a fault has begun.", ("fault",), outages)
        yield GaugeMetricFamily("sdc_ready", "1 where requests can be decided.", int(health["status"] == "ok"))
        yield GaugeMetricFamily("sdc_version", "t, the releases after the first.", state.version)
        released = state.released.sub_tables(self.desk.schema)
        yield GaugeMetricFamily("sdc_released_sub_tables", "Sub-tables that are public.", released)
        yield GaugeMetricFamily("sdc_pending_requests", "Requests without a decision.", health["pending"])
        yield from _of_builds(last_runs(self.runs))


def _of_builds(runs: list[Run]) -> Iterator[Metric]:
    """Of the last build of each name."""
    states = [((run.name, state), int(run.state == state)) for run in runs for state in STATES]
    yield _gauge("sdc_build_state", "1 of the state of the last build.", ("name", "state"), states)
    seconds = [((run.name, record.name), record.seconds) for run in runs for record in run.stages]
    yield _gauge("sdc_build_stage_seconds", "What each stage took.", ("name", "stage"), seconds)
    ended = [((run.name,), datetime.fromisoformat(run.ended).timestamp()) for run in runs if run.ended]
    yield _gauge("sdc_build_end_timestamp_seconds", "When it ended, not while it runs.", ("name",), ended)


Rows = Iterable[tuple[tuple[str, ...], float]]


def _counter(name: str, says: str, labels: tuple[str, ...], rows: Rows) -> Metric:
    return _filled(CounterMetricFamily(name, says, labels=labels), rows)


def _gauge(name: str, says: str, labels: tuple[str, ...], rows: Rows) -> Metric:
    return _filled(GaugeMetricFamily(name, says, labels=labels), rows)


def _filled(family: CounterMetricFamily | GaugeMetricFamily, rows: Rows) -> Metric:
    for values, number in rows:
        family.add_metric(values, number)
    return family
