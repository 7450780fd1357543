"""The audit page: right figures, plain verdict, nothing unescaped, nothing loaded, bounded size."""

import re
from base64 import b64encode
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from sdc.config.analysis import PosteriorConfig
from sdc.config.table import RecodeConfig
from sdc.intruder.chains import Sampling
from sdc.intruder.measures import groups
from sdc.intruder.summary import Summary, laws_of, summaries
from sdc.model import subtable as st
from sdc.model.cell_bounds import CellBounds
from sdc.model.marginal import CellMarginals
from sdc.model.recode import Recode
from sdc.model.release import NOTHING, Release
from sdc.model.schema import Schema, Variable
from sdc.model.structural_zeros import StructuralZeros
from sdc.model.table import Table
from sdc.report.audit import AuditEvidence, render
from sdc.report.proof import verdict
from sdc.risk.assessment import Assessment
from sdc.risk.criteria import Criteria
from sdc.risk.critical_width import CriticalWidths
from sdc.risk.verdict import Policy, Verdict
from sdc.search.recodings import Recoding
from sdc.search.step import SearchStep
from tests.helpers.audits import config_of, configured, record, searched
from tests.strategies import knows

Rendered = Callable[[AuditEvidence], str]
VOID = {"meta", "link", "br", "img", "input", "hr"}
HOSTILE = "<script>alert(\"x\")</script> & 'quoted' </title></style>"
EMPTY_CELL = StructuralZeros((tuple((v, (code,)) for v, code in enumerate((1, 0, 0, 1, 1, 1))),))
"""The one cell of the Czech table without records."""


class Page(HTMLParser):
    """A page as a strict reader sees it: tags must nest, ids must be unique."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.ids: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id" and value]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"style", "script"} & set(self.open):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def hostile_audit(audit: AuditEvidence) -> AuditEvidence:
    """The same audit with every name written to break out of the page."""
    variables = [
        Variable(f"{HOSTILE}{v.name}", tuple(f"{c}{HOSTILE}" for c in v.categories))
        for v in audit.table.schema.variables
    ]
    table = Table(Schema(tuple(variables)), audit.table.codes.copy(), audit.table.counts.copy())
    hostile = {HOSTILE: RecodeConfig(groups={HOSTILE: (HOSTILE,)})}
    settings = audit.config.table.model_copy(update={"recodes": hostile})
    audit = searched(audit, reason=audit.found.reason and HOSTILE)
    return replace(
        configured(audit, name=HOSTILE, table=settings),
        table=table,
        known=knows(table, NOTHING, EMPTY_CELL),
        digests={HOSTILE: HOSTILE},
        utility=audit.utility and {**audit.utility, "reconstruction_method": HOSTILE},
        curve=tuple(replace(point, method=HOSTILE) for point in audit.curve if point.method == "ordered"),
        bounds=replace(audit.bounds, method=HOSTILE),
    )


def survey_of_63_variables() -> AuditEvidence:
    """2^63 sub-tables, of which the floor lists those of at most two variables."""
    variables, random = 63, np.random.default_rng(3)
    codes = np.unique(random.integers(0, 2, (3000, variables)), axis=0)
    schema = Schema(tuple(Variable(f"variable {v} of the survey", ("no", "yes")) for v in range(variables)))
    table = Table.of(schema, codes, np.ones(len(codes), np.int64))
    pairs = [1 << a | 1 << b for a in range(variables) for b in range(a)]
    sub_tables = np.array([0, *(1 << v for v in range(variables)), *pairs], np.uint64)
    widths = 900 - 300 * np.bitwise_count(sub_tables).astype(np.int64)
    bounds = np.stack([np.zeros(len(table), np.int64), np.full(len(table), 250)], 1)
    return AuditEvidence(
        config=config_of("survey_63", min_width=200),
        digests={},
        table=table,
        known=knows(table, NOTHING),
        criteria=Criteria.of(1, 200),
        policy=Policy.REFUSE,
        widths=CriticalWidths(sub_tables, widths, floor=200, visited=len(widths)),
        found=record(Release.of(pairs)),
        assessment=Assessment(Verdict.SAFE, 200, (250, 250), len(table), 0, ()),
        bounds=CellBounds(table.codes, table.counts, bounds, bounds.copy(), "collapse"),
    )


def digest_of_script(text: str) -> str:
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    return b64encode(sha256(script.encode()).digest()).decode()


@pytest.mark.parametrize("name", ["czech", "undecided", "large", "decomposable", "wide"])
def test_page_is_well_formed_and_loads_nothing(name: str, request: pytest.FixtureRequest, rendered: Rendered) -> None:
    text = rendered(request.getfixturevalue(name))
    page = Page(text)
    assert page.open == []
    assert len(set(page.ids)) == len(page.ids)
    loads = [value for _, attrs in page.tags for key, value in attrs.items() if key in ("src", "href")]
    assert all(value is not None and value.removeprefix("#") in page.ids for value in loads)
    assert not re.search(r"https?:|url\(|@import", text)
    assert [attrs for tag, attrs in page.tags if tag == "script"] == [{}]
    assert not [tag for tag, attrs in page.tags if any(key.startswith("on") for key in attrs)]
    policy = next(attrs["content"] for _, attrs in page.tags if attrs.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith(
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest_of_script(text)}';"
    )


PROVED = ("CONFIDENTIAL", "59 sub-tables", "60 of 64", "They are 6 tables", "exactly 9", "Undecided cells: 0.")


@pytest.mark.parametrize(
    ("name", "policy", "headline", "facts"),
    [
        ("czech", Policy.REFUSE, "Releasable", PROVED),
        ("czech", Policy.OUTER, "Releasable", ("0 of 3 cells at risk rest on no proof",)),
        ("undecided", Policy.REFUSE, "Not releasable", ("Undecided cells: 1.", "2 exact, 1 undecided", "1 question ")),
        ("undecided", Policy.OUTER, "Released without proof", ("1 of 3 cells at risk rest on no proof",)),
        ("unsafe", Policy.REFUSE, "Not releasable: an at-risk cell is too narrow", ()),
    ],
)
def test_the_verdict_is_what_was_proved(
    name: str, policy: Policy, headline: str, facts: tuple[str, ...], request: pytest.FixtureRequest
) -> None:
    """A policy that lets through what is undecided is warned of, whatever was proved."""
    audit = replace(request.getfixturevalue("czech" if name == "unsafe" else name), policy=policy)
    if name == "unsafe":
        assessment = Assessment(Verdict.UNSAFE, 6, (5, 5), 3, 0, ())
        audit = replace(audit, bounds=narrow_bounds(audit), assessment=assessment)
    page = Page(render(audit))
    assert verdict(audit).headline.startswith(headline)
    assert all(fact in page.text for fact in facts)
    warning = ("section", {"class": "warning", "id": "warning", "role": "alert"})
    assert (warning in page.tags) == (policy is Policy.OUTER)


def narrow_bounds(audit: AuditEvidence) -> CellBounds:
    outer = audit.bounds.outer.copy()
    outer[0] = [0, 5]
    return CellBounds(audit.bounds.cells, audit.bounds.counts, outer, outer.copy(), "shuttle")


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (lambda a: {"bounds": narrow_bounds(a)}, "Decided once more from the listed bounds: not releasable"),
        (lambda a: {"bounds": a.bounds.rows(np.array([0, 1]))}, "The bounds are of exactly the 3 cells at risk"),
        (lambda a: {"assessment": replace(a.assessment, min_width=(12, 20))}, "agrees with the assessment's"),
        (lambda a: {"assessment": replace(a.assessment, at_risk_cells=4)}, "as many at-risk cells: 4"),
        (lambda a: {"assessment": replace(a.assessment, min_width_required=5)}, "asked for the required min width: 5"),
        (
            lambda a: {"found": replace(a.found, frontier=(st.full(6),))},
            "critical width below the required 6",
        ),
    ],
)
def test_contradicting_evidence_is_no_release(
    czech: AuditEvidence, broken: Callable[[AuditEvidence], dict[str, Any]], said: str
) -> None:
    found = verdict(replace(czech, **broken(czech)))
    assert found.kind == "contradicted"
    assert found.headline.startswith("Do not publish")
    assert any(said in warning for warning in found.warnings)


def test_tables_of_the_czech_release(czech: AuditEvidence) -> None:
    """[KDSF] table 1 and table 3 with the data's letters; the most dangerous sub-tables of each dimension."""
    page = Page(render(czech))
    assert "5 6 3 50.0 % 6 1 0 0.0 %" in page.text
    assert "without the total 63 59 93.7 %" in page.text
    assert "of dimensions 2 to 5 form a chain: ABCDF > BCDF > BCF > BC." in page.text
    dangerous = page.text[page.text.index("The 35 most dangerous") :]
    assert "A*B*C*D*F 5 3 ✕ not released B*C*D*E*F 5 5 ✕ not released" in dangerous
    assert "B*C 2 119 ● released" in dangerous
    assert "10 sub-tables were tried" in page.text
    assert "6 were added, 4 refuted, and 0 left undecided" in page.text
    assert not {"utility", "curve", "independence", "agreement", "bisection"} & {*page.ids}


@pytest.mark.parametrize("name", ["czech", "undecided", "large", "decomposable", "wide"])
def test_there_are_six_sections_with_a_figure_at_most_and_twelve_facts(
    name: str, request: pytest.FixtureRequest, rendered: Rendered
) -> None:
    """A figure may have its key as a drawing of its own."""
    text = rendered(request.getfixturevalue(name))
    sections = re.split(r'<section id="', text)[1:]
    assert [one[: one.index('"')] for one in sections] == [
        "decision",
        "publication",
        "proof",
        "search",
        "risks",
        "record",
    ]
    assert max(one.count("<figure>") for one in sections) == 1
    assert 5 < sections[0].count("<dt>") <= 12


def test_names_are_escaped(czech: AuditEvidence, undecided: AuditEvidence, decomposable: AuditEvidence) -> None:
    for audit in (czech, undecided, decomposable):
        text = render(hostile_audit(audit))
        page = Page(text)
        assert page.open == []
        assert text.count("<script") == 1
        assert "alert(&#34;x&#34;)" in text
        assert {tag for tag, _ in page.tags} == {tag for tag, _ in Page(render(audit)).tags}


def test_sections_of_an_annealed_build(decomposable: AuditEvidence) -> None:
    page = Page(render(decomposable))
    for fact in (
        "decomposable releases 47 sub-tables, ordered 45.",
        "besides the total 47",
        "(IPF) in 34 sweeps",
        "off by 3.5 records",
        "0.0003 records. The iteration converged.",
        "[A,B,D,E,F] [A,C,D,E,F]",
        "the best utility 47, the last of them in round 13 of 20.",
        "B*C 119 not joined in the graph",
        "1 to 2 6 ordered 25 25 350 150 6",
    ):
        assert fact in page.text
    assert "course" not in page.ids


def test_the_cells_that_stopped_most(czech: AuditEvidence) -> None:
    """Each comes with how many occupied cells are near it, and with what it stopped."""
    schema = czech.table.schema
    cell = tuple(czech.table.codes[czech.table.at_risk(2)][0].tolist())
    stopped = [st.parse(text, schema) for text in ("A*B*C*E*F", "B*C*D*E*F")]
    steps = [SearchStep("extension", 60, (t,), False, (0, 5), 0, (cell,)) for t in stopped]
    page = Page(render(searched(czech, steps=tuple(steps))))
    distance = (czech.table.codes != np.array(cell)).sum(axis=1)
    labels = ", ".join(st.label(t, schema) for t in stopped)
    assert f" {(distance == 1).sum()} {(distance == 2).sum()} 2 {labels}" in page.text
    assert "blockers" in page.ids
    assert "blockers" not in Page(render(czech)).ids


def test_recodes_that_were_tried_are_named(czech: AuditEvidence) -> None:
    schema = Schema((Variable("v", ("a", "b<", "c")), *czech.table.schema.variables[1:]))
    table = Table.of(schema, czech.table.codes, czech.table.counts)
    audit = replace(czech, table=table, known=knows(table, NOTHING))
    merge = Recoding.by_recode(Recode(schema, 0, (0, 1)), (6, 12), (6,), 0)
    without = Recoding.by_recode(Recode(schema, 0, (0, 1, 2)), (6, 12), (), 31)
    page = Page(render(replace(audit, recodings=(merge, without))))
    label = st.label(6, schema)
    config = "table: {recodes: {v: {groups: {a or b<: [a, b<], c: [c]}}}}"
    names = ", ".join(schema.names[1:])
    assert f"v merge “a” and “b<” 2 1 0 {label} {config} v leave it out 2 0 31" in page.text
    assert f"table: {{variables: [{names}]}}" in page.text
    assert "remedies" in page.ids
    assert "remedies" not in Page(render(replace(audit, recodings=()))).ids


def test_what_is_likely_stands_beside_the_bounds(czech: AuditEvidence) -> None:
    """The most probable first; what no engine gives is said with the reason."""
    cells, known = czech.bounds.cells, knows(czech.table, czech.found.release)
    laws = laws_of(["released", "saturated"], [0.5], czech.table.schema)
    held = groups(CellMarginals(czech.table, cells), known)
    told = summaries(czech.table, known, cells, laws, held, Sampling())
    shown_laws = (*told, Summary.none(laws[0], "too many <cells>"))
    audit = configured(czech, posterior=PosteriorConfig(threshold=0.5))
    page = Page(render(replace(audit, posteriors=shown_laws, groups=held)))
    impossible = held.are_impossible(czech.bounds.outer).sum()
    assert f"0 at-risk cells certainly do, and {impossible} cannot" in page.text
    assert {"likely", "laws", "likely-cells"} <= set(page.ids)
    assert "released enumeration, exact" in page.text
    assert "too many <cells>" in page.text
    order, start = np.argsort(-told[0].at_truth), page.text.index("Cells whose true count")
    shown = [page.text.index(f"{told[0].at_truth[row]:.4f}", start) for row in order]
    assert shown == sorted(shown)
    assert "laws" not in Page(render(czech)).ids


def test_long_searches_stay_small(large: AuditEvidence, wide: AuditEvidence, rendered: Rendered) -> None:
    """2,000 questions, of which every other added a sub-table, and 40,000 rows of the trace."""
    added = [int(s) for s in large.widths.sub_tables.tolist() if 1 < st.dimension(int(s)) < 6][:2_000]
    steps = tuple(SearchStep("extension", k, (s,), k % 2 > 0, (3, 7), 0) for k, s in enumerate(added))
    assert len(render(searched(large, steps=steps)).encode()) < 3_000_000
    assert len(wide.found.trace) == 40_000
    assert len(rendered(wide).encode()) < 3_000_000


def test_63_variables_with_a_floor() -> None:
    text = render(survey_of_63_variables())
    page = Page(text)
    assert len(text.encode()) < 3_000_000
    assert "Width threshold 200: only the 2,017 sub-tables whose critical width reaches it are listed." in page.text
    assert "From dimension 3 on the most dangerous sub-tables are not known" in page.text
    assert "2 1,953 1,953 100.0 % 3 39,711 0 0.0 % 4 to 63 9.22 \N{MULTIPLICATION SIGN} 10¹⁸ 0 0.0 %" in page.text
    assert "2,016 sub-tables without the grand total, 2,017 of 9,223,372,036,854,775,808 with it;" in page.text
    assert "Releasable" in page.text


def test_table_without_at_risk_cells(czech: AuditEvidence) -> None:
    none = czech.bounds.rows(np.arange(0))
    table = Table.of(czech.table.schema, czech.table.codes, czech.table.counts + 2)
    safe = replace(czech, table=table, known=knows(table, NOTHING), bounds=none)
    safe = replace(safe, assessment=Assessment(Verdict.SAFE, 6, (0, 0), 0, 0, ()))
    assert "no at-risk cell (no count from 1 to 2)" in Page(render(safe)).text


def test_structural_zeros_are_listed(czech: AuditEvidence) -> None:
    assert 'id="structural-zeros"' not in render(czech)
    page = Page(render(replace(czech, known=knows(czech.table, NOTHING, EMPTY_CELL))))
    assert "structural-zeros" in page.ids
    assert "everybody knows to be impossible, 1 in all" in page.text
    assert "A = yes and B = no and C = no and D = >=140 and E = >=3 and F = pos" in page.text
