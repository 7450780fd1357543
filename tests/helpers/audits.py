"""Audits to render: the Czech auto workers in full, and a large synthetic one of 13 variables."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from sdc.config.build import BuildConfig
from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds
from sdc.model.decomposable_graph import DecomposableGraph
from sdc.model.release import NOTHING, Release
from sdc.model.schema import Schema, Variable
from sdc.model.table import Table
from sdc.report.audit import AuditEvidence, render
from sdc.risk.assessment import Assessment, Witness
from sdc.risk.criteria import Criteria
from sdc.risk.critical_width import CriticalWidths
from sdc.risk.verdict import Policy, Verdict
from sdc.search.curve import CurvePoint
from sdc.search.decomposable import TraceRow
from sdc.search.step import SearchStep
from sdc.storage.results import SearchRecord
from tests.reference import explicit_critical_width
from tests.strategies import czech as czech_table
from tests.strategies import knows

FRONTIER = ("A*B*C*D*E", "A*B*D*E*F", "A*C*D*E*F", "A*B*C*F", "B*C*D*F", "B*C*E*F")
DIGESTS = {"config": "a1" * 32, "data": "b2" * 32, "code": "c3" * 32}


def czech_widths(table: Table, small_count: int = 2) -> CriticalWidths:
    sub_tables, of = np.arange(1 << len(table.schema), dtype=np.uint64), (table.codes, table.counts)
    widths = np.array([explicit_critical_width(*of, st.members(s), small_count) for s in sub_tables.tolist()])
    return CriticalWidths(sub_tables, widths, floor=0, visited=len(widths))


def czech_steps(schema: Schema) -> Iterator[SearchStep]:
    """All 64 sub-tables at once, then those of the release together, and the four left over at once and one by one."""
    yield SearchStep("everything", 64, (), False, (0, 5), 0)
    yield SearchStep("growth", 0, tuple(st.parse(text, schema) for text in FRONTIER), True, (9, 9), 0)
    left = [st.parse(text, schema) for text in ("A*B*C*E*F", "B*C*D*E*F", "A*B*C*D*F", "A*B*C*D*E*F")]
    for added in (left, *([t] for t in left)):
        yield SearchStep("growth", 59, tuple(added), False, (0, 5), 0)


def config_of(name: str, method: str = "ordered", min_width: int = 6) -> BuildConfig:
    """Of a build by the method."""
    risk, release = {"small_count": 2, "min_width": min_width}, {"method": method}
    sections = {"table": {"path": f"{name}.csv"}, "risk": risk, "release": release}
    return BuildConfig.model_validate({"name": name, **sections})


def configured(audit: AuditEvidence, **sections: Any) -> AuditEvidence:
    """The same audit with other sections in its config."""
    return replace(audit, config=audit.config.model_copy(update=sections))


def searched(audit: AuditEvidence, **found: Any) -> AuditEvidence:
    """The same audit where the search has found something else."""
    return replace(audit, found=replace(audit.found, **found))


def record(release: Release, steps: Iterable[SearchStep] = (), **found: Any) -> SearchRecord:
    """What is kept of a search that found a release by these steps."""
    return SearchRecord("ordered", release.frontier, tuple(steps), (), **found)


@pytest.fixture(scope="session")
def rendered() -> Callable[[AuditEvidence], str]:
    """The page of an audit of the session, which is rendered once."""
    pages: dict[int, tuple[AuditEvidence, str]] = {}

    def page_of(audit: AuditEvidence) -> str:
        if id(audit) not in pages:
            pages[id(audit)] = audit, render(audit)
        return pages[id(audit)][1]

    return page_of


@pytest.fixture(scope="session")
def czech() -> AuditEvidence:
    """[KDSF] section 5.2 with beta 6: 60 sub-tables with the total, narrowest at-risk cell exactly 9."""
    table = czech_table()
    at_risk = table.at_risk(2)
    counts = table.counts[at_risk]
    bounds = np.array([[0, 10] if count == 1 else [0, 9] for count in counts])
    return AuditEvidence(
        config=config_of("czech_auto_workers"),
        digests=DIGESTS,
        table=table,
        known=knows(table, NOTHING),
        criteria=Criteria.of(2, 6),
        policy=Policy.REFUSE,
        widths=czech_widths(table),
        found=record(Release.of(st.parse(text, table.schema) for text in FRONTIER), czech_steps(table.schema)),
        assessment=Assessment(Verdict.SAFE, 6, (9, 9), 3, 0, ()),
        bounds=CellBounds(table.codes[at_risk], counts, bounds, bounds.copy(), "integer program"),
    )


@pytest.fixture(scope="session")
def undecided(czech: AuditEvidence) -> AuditEvidence:
    """The Czech audit with nothing proved of one cell but its true count."""
    inner = czech.bounds.inner.copy()
    inner[0] = czech.bounds.counts[0]
    cell, count, outer = czech.bounds.cells[0], int(czech.bounds.counts[0]), czech.bounds.outer[0]
    witness = Witness(tuple(cell.tolist()), count, tuple(outer.tolist()), (count, count), "shuttle, blocks")
    audit = replace(
        czech,
        bounds=CellBounds(czech.bounds.cells, czech.bounds.counts, czech.bounds.outer, inner, "shuttle, blocks"),
        assessment=Assessment(Verdict.UNDECIDED, 6, (0, 9), 3, 1, (witness,)),
    )
    return searched(audit, steps=(*czech.found.steps, SearchStep("growth", 59, (st.full(6),), None, (0, 9), 1)))


@pytest.fixture(scope="session")
def large() -> AuditEvidence:
    """Made-up figures of the size of CPS-13: 8,192 widths, 29,501 at-risk cells."""
    variables, at_risk, random = 13, 29_501, np.random.default_rng(5)
    sizes = random.integers(2, 9, variables)
    names = ("age", "class of worker", "education", "marital status", "race", "sex", "full or part time", "tax filer")
    schema = Schema(
        tuple(
            Variable(names[v] if v < len(names) else f"v{v + 1}", tuple(f"category {c}" for c in range(size)))
            for v, size in enumerate(sizes)
        )
    )
    codes = np.unique(random.integers(0, sizes, (at_risk * 2, variables)), axis=0)[: at_risk + 9_000]
    counts = np.where(
        np.arange(len(codes)) < at_risk, random.integers(1, 3, len(codes)), 3 + random.poisson(20, len(codes))
    )
    table = Table.of(schema, codes, random.permutation(counts))
    cells, true = table.codes[table.at_risk(2)], table.counts[table.at_risk(2)]
    inner = true + 3 + (random.pareto(0.7, len(true)) * 6).astype(np.int64).clip(0, 200_000)
    outer = inner + random.integers(0, 2, len(true)) * (inner // 3)
    low = np.zeros(len(true), np.int64)
    kept = random.choice(list(combinations(range(variables), 6)), 171, replace=False)
    release = Release.of([*(st.of(row.tolist()) for row in kept), *(1 << v for v in range(variables))])
    return AuditEvidence(
        config=config_of("cps_13", min_width=3),
        digests=DIGESTS,
        table=table,
        known=knows(table, NOTHING),
        criteria=Criteria.of(2, 3),
        policy=Policy.REFUSE,
        widths=large_widths(release, sizes, random),
        found=record(release, large_steps(release)),
        assessment=Assessment(Verdict.SAFE, 3, (int(inner.min()), int(outer.min())), len(true), 0, ()),
        bounds=CellBounds(cells, true, np.stack([low, outer], 1), np.stack([low, inner], 1), "collapse, blocks"),
    )


def large_widths(release: Release, sizes: np.ndarray, random: np.random.Generator) -> CriticalWidths:
    """Falling in the number of cells of the marginal, at least 3 for what is released."""
    sub_tables = np.arange(1 << len(sizes), dtype=np.uint64)
    kept = sub_tables[:, None] >> np.arange(len(sizes), dtype=np.uint64) & np.uint64(1) == 1
    widths = (299_285 * np.exp(-1.1 * (kept * np.log(sizes)).sum(1)) * 1.5).astype(np.int64)
    widths += random.integers(0, 3, len(widths)) * (widths > 0)
    released = [s in release for s in sub_tables.tolist()]
    widths = np.where(released, np.maximum(widths, 3), widths)
    return CriticalWidths(sub_tables, widths, floor=0, visited=len(widths))


def large_steps(release: Release) -> Iterator[SearchStep]:
    yield SearchStep("everything", 8192, (), False, (0, 2), 4)
    yield SearchStep("growth", 900, release.frontier[60:72], True, (3, 7), 0)
    for k, element in enumerate(release.frontier[:60]):
        answer = (True, False, None)[k % 3]
        yield SearchStep("growth", 912 + k, (element,), answer, (3 if answer else 1, 7), int(answer is None))


@pytest.fixture(scope="session")
def decomposable(czech: AuditEvidence) -> AuditEvidence:
    """[KDSF] section 5.2, the best decomposable release: 48 sub-tables with the total."""
    schema = czech.table.schema
    graph = DecomposableGraph.parse("[A,B,D,E,F] [A,C,D,E,F]", schema)
    return replace(
        czech,
        config=config_of("czech_auto_workers", "best"),
        found=record(
            graph.release,
            graph=graph,
            trace=tuple(trace((47, 47, 47, 47), rounds=20)),
            reason="decomposable releases 47 sub-tables, ordered 45.",
        ),
        utility={
            "sub_tables": 47,
            "sub_tables_with_total": 48,
            "cells": 323,
            "degrees_of_freedom": 47,
            "weighted": 47.5,
            "mean_squared_error": 12.25,
            "reconstruction_method": "ipf",
            "sweeps": 34,
            "deviation": 0.0003,
            "converged": True,
        },
        curve=tuple(curve(range(1, 31), (2,), 59)),
    )


@pytest.fixture(scope="session")
def wide() -> AuditEvidence:
    """A star of 29 cliques and two variables alone, long names, more chains than panels, a wide range of widths."""
    variables, chains, random = 38, 20, np.random.default_rng(3)
    codes = np.unique(random.integers(0, 2, (500, variables)), axis=0)
    names = [(f"VARIABLE_NAME_NO_{v:03d}", f"short{v}", f"usual hours of work {v}")[v % 3] for v in range(variables)]
    table = Table.of(
        Schema(tuple(Variable(n, ("no", "yes")) for n in names)), codes, np.ones(len(codes), dtype=np.int64)
    )
    cliques = [(1 << 8) - 1, *(3 | 1 << v for v in range(8, variables - 2)), 1 << variables - 2, 1 << variables - 1]
    graph = DecomposableGraph.from_cliques(cliques, table.schema)
    sub_tables = np.array([0, *(1 << v for v in range(variables)), *cliques[:-2]], np.uint64)
    bounds = np.stack([np.zeros(len(table), np.int64), np.full(len(table), 250)], 1)
    return AuditEvidence(
        config=config_of("wide", "decomposable", min_width=200),
        digests=DIGESTS,
        table=table,
        known=knows(table, NOTHING),
        criteria=Criteria.of(1, 200),
        policy=Policy.REFUSE,
        widths=CriticalWidths(sub_tables, 900 - 60 * np.bitwise_count(sub_tables).astype(np.int64), 200, 70),
        found=record(graph.release, graph=graph, trace=(*trace([223.0] * 2 + [221.5] * (chains - 2), rounds=2_000),)),
        assessment=Assessment(Verdict.SAFE, 200, (250, 250), len(table), 0, ()),
        bounds=CellBounds(table.codes, table.counts, bounds, bounds.copy(), "decomposable"),
        utility={"cells": 700, "reconstruction_method": "ipf", "sweeps": 1000, "deviation": 31.2, "converged": False},
        curve=tuple(curve((1, 5, 20, 200, 2_000), (1, 2, 3), 351)),
    )


def trace(best: Sequence[float], rounds: int, steps: int = 200) -> Iterator[TraceRow]:
    """Chains that rise to their best values in half the rounds, later ones later; of 200 proposals a round ever fewer
    are accepted."""
    accepted = 0
    for round_ in range(rounds):
        accepted += steps * (rounds - round_) // (2 * rounds)
        for chain, value in enumerate(best):
            so_far = value * min(1.0, (round_ + 1) / (rounds // 2 + chain))
            now = so_far - (1.5 if round_ % 3 else 0)
            temperature = 30 * 0.02 ** (round_ / rounds)
            yield TraceRow(round_, chain, steps * (round_ + 1), temperature, now, so_far, accepted)


def curve(widths: Iterable[int], small_counts: Iterable[int], most: int) -> Iterator[CurvePoint]:
    """Of every method and width; decomposable in steps of ten widths, best the better of the two."""
    for count in small_counts:
        for width in widths:
            found = {"ordered": most * 30 // (29 + width), "decomposable": most * 24 // (30 + width // 10 * 10)}
            for method, n in {**found, "best": max(found.values())}.items():
                yield CurvePoint(
                    method, count, width, n // count, float(n // count), 7 * n, 3 * n, width if n else None
                )


def drawing(text: str, most: int = 250_000) -> ElementTree.Element:
    """The root of a figure whose marks and words are all inside it."""
    assert len(text) < most
    root = ElementTree.fromstring(text)
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    for mark in root.iter("rect"):
        left, top, wide, high = (float(mark.attrib[key]) for key in ("x", "y", "width", "height"))
        assert 0 <= left <= left + wide <= width + 0.1
        assert 0 <= top <= top + high <= height + 0.1
    for line in root.iter("polyline"):
        places = [tuple(map(float, pair.split(","))) for pair in line.attrib["points"].split()]
        assert all(0 <= x <= width and 0 <= y <= height for x, y in places)
    for words in root.iter("text"):
        assert 0 <= float(words.attrib["x"]) <= width
        assert 0 < float(words.attrib["y"]) < height + 0.1
    return root
