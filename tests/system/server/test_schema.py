"""The OpenAPI document is kept: whatever is sent, by whomever, is answered as it says, and never by 5xx."""

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.config import SchemathesisConfig
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from sdc.model.table import Table
from sdc.risk.criteria import Criteria
from sdc.server.web.access import Role
from tests.helpers.http import URL, Server, server_of
from tests.helpers.small_service import SmallService
from tests.profiles import scaled

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
EXAMPLES = scaled(15, fewest=5)  # of each operation by each role
TABLES = [
    "A.json",
    "A*B.csv",
    "B*A.xml",
    "C.txt",
    "D.html",
    "E.jsonstat",
    "F.parquet",
    "(total)",
    "A*B*C*D*E*F",
    "A.xls",
]


@pytest.fixture(scope="module")
def server(czech: Table) -> Server:
    return server_of(SmallService(czech, Criteria.of(2, 6)))


def with_names(document: dict[str, Any]) -> dict[str, Any]:
    """The document with what is there to be asked for, which nobody would guess."""
    document["components"]["schemas"]["Wanted"]["properties"]["variables"]["items"]["enum"] = list("ABCDEF")
    document["components"]["schemas"]["NewKey"]["properties"]["user"]["enum"] = ["user", "operator", "auditor"]
    paths = document["paths"]
    for path, names in (("/api/tables/{name}", TABLES), ("/api/operator/effect", ["A", "A,B", "A,B,C,D,E,F"])):
        paths[path]["get"]["parameters"][0]["schema"]["enum"] = names
    for path in ("/api/jobs/{number}", "/api/operator/requests/{number}"):
        paths[path]["get"]["parameters"][0]["schema"] |= {"minimum": 1, "maximum": 3}
    return document


@pytest.mark.parametrize("role", [None, "user", "operator"])
@pytest.mark.parametrize("mode", ["positive", "negative"])
def test_every_address_is_answered_as_documented(role: Role | None, mode: str, server: Server) -> None:
    document = server.client().get("/api/openapi.json").json()
    config = SchemathesisConfig.from_dict({"generation": {"mode": mode}})
    schema = schemathesis.openapi.from_dict(with_names(document) if mode == "positive" else document, config=config)
    schema.app = server.app
    headers = {"authorization": f"Bearer {server.key(role)}"} if role else {}
    seen = set[int]()
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) == 21
    for operation in operations:

        @settings(
            max_examples=EXAMPLES,
            derandomize=True,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def is_answered(case: schemathesis.Case) -> None:
            seen.add(case.call_and_validate(base_url=URL, headers=headers, checks=CHECKS).status_code)

        is_answered()
    if mode == "positive":
        assert seen >= ({200, 201, 404, 406} if role == "operator" else {200, 403, 404, 406})
