"""The audit report: one self-contained page an agency can defend before a disclosure review board."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from hashlib import sha256
from importlib.resources import files

from markupsafe import Markup

from sdc.page_templates import page_templates
from sdc.report import first_page, proof, publication, record, risks, search
from sdc.report.blocks import Block, PageSection, number
from sdc.report.evidence import AuditEvidence
from sdc.report.published import published
from sdc.report.verdict import verdict

__all__ = ["AuditEvidence", "render"]

_TEMPLATES = page_templates("sdc.report")
_TEMPLATES.filters["number"] = number


def render(audit: AuditEvidence) -> str:
    """The page as HTML: no network, no script but the search in its tables, the same bytes for the same audit."""
    opinion = verdict(audit)
    tables = published(audit.table, audit.known, audit.published.frontier, audit.small_count)
    contents: list[tuple[str, str, Iterable[Block]]] = [
        ("decision", "Decision", ()),
        ("publication", f"Tables that were {opinion.done}", publication.blocks(audit, tables)),
        ("proof", "Proof: bounds of at-risk cells", proof.blocks(audit, opinion.checks)),
        ("search", "Search and refusals", search.blocks(audit)),
        ("risks", "Further risks", risks.blocks(audit)),
        ("record", "Record", record.blocks(audit)),
    ]
    sections = [PageSection(k, key, title, tuple(own)) for k, (key, title, own) in enumerate(contents, 1)]
    script = files("sdc.report").joinpath("search.js.j2").read_text(encoding="utf-8")
    return _TEMPLATES.get_template("audit.html.j2").render(
        audit=audit,
        verdict=opinion,
        facts=first_page.facts(audit, opinion.done, tables),
        given=[(name, value) for name, value in record.about(audit) if value != record.FILL],
        signatures=first_page.SIGNATURES,
        sections=sections,
        by_key={one.key: one for one in sections},
        script=Markup(script),
        # the page's policy names this one script, so that no other one runs
        script_digest=b64encode(sha256(script.encode()).digest()).decode(),
    )
