"""The first page: it has what the config says, leaves lines for what it does not say, and numbers what follows."""

import re
from dataclasses import replace

import pytest

from sdc.config.publication import AuditConfig, LabelsConfig, PublicationConfig, VariableLabelsConfig
from sdc.report.audit import AuditEvidence, render
from sdc.report.publication import published
from sdc.risk.criteria import Criteria
from sdc.version import VERSION
from tests.helpers.audits import configured, searched
from tests.unit.report.test_audit import Page

LABELS = LabelsConfig(variables={"A": VariableLabelsConfig(label="Smoking", categories={"no": "does not smoke"})})


def first(audit: AuditEvidence) -> str:
    text = render(audit)
    return text[text.index('<section id="decision">') : text.index("<nav ")]


def test_it_has_what_the_config_says(czech: AuditEvidence) -> None:
    about = AuditConfig(purpose="tables for all", prepared_by="Jana Nová", date="1 May")
    publication = PublicationConfig(title="Car workers", population="men", period="1980", source="PHS", contact="desk")
    audit = configured(czech, report=about, publication=publication, labels=LABELS)
    text = Page(first(audit)).text
    given = (
        "Purpose: tables for all",
        "Population: men",
        "Period: 1980",
        "Source: PHS",
        "Date: 1 May",
        "Contact: desk",
    )
    for said in ("Release audit: Car workers", f"Software: sdc {VERSION}, code {'c3' * 8}", *given):
        assert said in text
    assert "Prepared by Jana Nová Statistical disclosure control Data owner" in text
    assert "A Smoking 2 does not smoke; yes" in Page(render(audit)).text


def test_what_is_not_said_is_a_line_to_fill_in(czech: AuditEvidence) -> None:
    # seven fields, and nine of three signatures
    assert render(czech).count('<span class="fill"></span>') == 7 + 9
    assert render(configured(czech, report=AuditConfig(date="1 May"))).count('<span class="fill"></span>') == 6 + 9


def test_it_says_what_the_published_tables_show(czech: AuditEvidence) -> None:
    tables = published(czech.table, czech.known, czech.found.release.frontier, 2)
    text = Page(first(czech)).text
    small = sum(int((czech.table.marginal(s).counts <= 2).sum()) for s in czech.found.release.frontier)
    assert f"{small} counts of 1 to 2 in" in text
    assert f"{sum(one.groups for one in tables)} groups in" in text


def test_sections_are_numbered_as_they_come(decomposable: AuditEvidence) -> None:
    text = render(decomposable)
    listed = re.findall(r'<li><a href="#([^"]+)"><b>(\d)</b>', text)
    assert [number for _, number in listed] == ["1", "2", "3", "4", "5", "6"]
    assert listed[1:] == re.findall(r'<section id="([^"]+)">\s*<h2><span class="number">(\d)</span>', text)


@pytest.mark.parametrize("name", ["czech", "undecided", "decomposable", "large"])
def test_from_each_fact_it_is_a_click_to_the_section_that_explains_it(
    name: str, request: pytest.FixtureRequest
) -> None:
    page = Page(render(request.getfixturevalue(name)))
    text = first(request.getfixturevalue(name))
    targets = {*re.findall('href="#([^"]*)"', text)}
    assert all("href" in fact for fact in re.findall(r"<dd .*?</dd>", text, re.DOTALL))
    assert {"publication", "proof", "search", "record"} <= targets <= {*page.ids}


def test_why_this_width_is_the_n_rule_that_it_implies(czech: AuditEvidence) -> None:
    """Up to the smaller of small count and width less 1, and only where the published tables have no such count."""
    assert "So no count from 1 to 2 is in a table" in Page(first(czech)).text
    assert "So no count of 1 is in a table" in Page(first(replace(czech, criteria=Criteria.of(2, 2)))).text
    none = [
        replace(czech, criteria=c) for c in (Criteria.of(2, 1), Criteria.of(40, 50), Criteria.of(2, 6, min_frequency=3))
    ]
    for audit in (*none, searched(czech, frontier=(0b111111,))):
        assert "So no count" not in first(audit)
