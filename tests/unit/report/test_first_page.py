"""The first page: it has what the config says, leaves lines for what it does not say, and numbers what follows."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from sdc.config.publication import AuditConfig, LabelsConfig, PublicationConfig, VariableLabelsConfig
from sdc.model.release import NOTHING
from sdc.model.schema import Schema, Variable
from sdc.model.table import Table
from sdc.report.audit import AuditEvidence, render
from sdc.report.published import published
from sdc.risk.criteria import Criteria
from sdc.version import VERSION
from tests.helpers.audits import configured, searched
from tests.strategies import knows
from tests.unit.report.test_audit import Page

LABELS = LabelsConfig(variables={"A": VariableLabelsConfig(label="Smoking", categories={"no": "does not smoke"})})


def first(audit: AuditEvidence) -> str:
    text = render(audit)
    return text[text.index('<section id="first">') : text.index('<label class="all">')]


def test_it_has_what_the_config_says(czech: AuditEvidence) -> None:
    about = AuditConfig(purpose="tables for all", prepared_by="Jana Nová", date="1 May")
    publication = PublicationConfig(title="Car workers", population="men", period="1980", source="PHS", contact="desk")
    text = Page(first(configured(czech, report=about, publication=publication, labels=LABELS))).text
    for said in ("Release audit: Car workers", "Purpose tables for all", "Population men", "Period 1980", "Source PHS"):
        assert said in text
    assert "Date 1 May Prepared by Jana Nová Contact desk" in text
    assert f"Software sdc {VERSION}, code {'c3' * 8}" in text
    assert "Smoking A does not smoke; yes" in text
    assert "Prepared by Jana Nová Statistical disclosure control Data owner" in text


def test_what_is_not_said_is_a_line_to_fill_in(czech: AuditEvidence) -> None:
    # seven facts, and nine fields of three signatures
    assert first(czech).count('<span class="fill"></span>') == 7 + 9
    assert first(configured(czech, report=AuditConfig(date="1 May"))).count('<span class="fill"></span>') == 6 + 9


def test_it_says_what_the_published_tables_show(czech: AuditEvidence) -> None:
    tables = published(czech.table, czech.known, czech.found.release.frontier, 2)
    text = Page(first(czech)).text
    small = sum(int((czech.table.marginal(s).counts <= 2).sum()) for s in czech.found.release.frontier)
    assert f"{small} counts of 1 to 2 in" in text
    assert f"{sum(one.groups for one in tables)} groups in" in text
    assert ("Groups disclosed" in text) == any(one.groups for one in tables)


def test_long_lists_are_cut_and_whole_in_the_appendix(czech: AuditEvidence) -> None:
    many = Variable("A", ("no", "yes", *(f"other {k}" for k in range(30))))
    schema = Schema((many, *czech.table.schema.variables[1:]))
    table = Table(schema, czech.table.codes, czech.table.counts)
    audit = replace(czech, table=table, known=knows(table, NOTHING))
    text = Page(first(audit)).text
    assert "no; yes; other 0; other 1; other 2; other 3 … and 26 more, see" in text
    assert "other 29" not in text
    assert "other 29" in Page(render(audit)).text


def test_sections_are_numbered_as_they_come(decomposable: AuditEvidence) -> None:
    text = render(decomposable)
    listed = re.findall(r'<li[^>]*><a href="#([^"]+)"><b>(\w+)</b>', text)
    assert listed == re.findall(r'<h2 id="([^"]+)"><span class="number">(\w+)</span>', text)
    assert [number for _, number in listed][:2] == ["1", "2"]
    assert "A1" in dict(listed).values()


NAMES_ALONE = ('id="facts"', 'id="variables"', 'id="required-refused"')  # what the config says, categories, sub-tables


@pytest.mark.parametrize("name", ["czech", "undecided", "decomposable", "large"])
def test_from_each_number_it_is_a_click_to_what_explains_it(name: str, request: pytest.FixtureRequest) -> None:
    """Every sentence and table with a number has a link, and every link leads somewhere."""
    audit = request.getfixturevalue(name)
    link, targets, numbered = re.compile(r'<a [^>]*href="#([^"]*)".*?</a>', re.DOTALL), set[str](), 0
    for found in re.finditer(r"<(p|li|table)\b([^>]*)>(.*?)</\1>", first(audit), re.DOTALL):
        has_number = re.search(r"\d", re.sub("<[^>]*>", "", link.sub("", found[3])))
        targets |= {*link.findall(found[3])}
        numbered += has_number is not None
        assert not has_number or link.search(found[3]) or any(name in found[2] for name in NAMES_ALONE), found[0]
    assert numbered > 8
    assert {"released", "cells", "glossary", "all-frontier"} <= targets <= {*Page(render(audit)).ids}


def test_why_this_width_is_the_n_rule_that_it_implies(czech: AuditEvidence) -> None:
    """Up to the smaller of small count and width less 1, and only where the published tables have no such count."""
    assert "So no count from 1 to 2 is in a table" in Page(first(czech)).text
    assert "So no count of 1 is in a table" in Page(first(replace(czech, criteria=Criteria.of(2, 2)))).text
    none = [
        replace(czech, criteria=c) for c in (Criteria.of(2, 1), Criteria.of(40, 50), Criteria.of(2, 6, min_frequency=3))
    ]
    for audit in (*none, searched(czech, frontier=(0b111111,))):
        assert "So no count" not in first(audit)
