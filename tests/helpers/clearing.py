"""Releases cleared for tests of what comes after the gate, whatever they disclose."""

from sdc.model.release import Release
from sdc.model.table import Table
from sdc.publish import gate
from sdc.publish.gate import Cleared, GateSubject
from sdc.risk.criteria import Criteria
from sdc.risk.verdict import Policy

SUBJECT = GateSubject("of a test", Criteria.of(2, 6), Policy.REFUSE)


def cleared_of(table: Table, release: Release, subject: GateSubject = SUBJECT) -> Cleared:
    """What the gate would make of it, without asking."""
    return gate._cleared(subject, table, release, 0)
