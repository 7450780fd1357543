"""The flow that has a server hold a round: over HTTP, with an operator's key."""

import pytest

from flows.request_round import KEY, request_round
from sdc.model.errors import ConfigError, SdcError
from sdc.model.table import Table
from sdc.risk.criteria import Criteria
from tests.helpers.http import running, server_of
from tests.helpers.small_service import SmallService


def test_a_round_is_held(czech: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    server = server_of(SmallService(czech, Criteria.of(2, 6)))
    with running(server.app) as url:
        monkeypatch.setenv(KEY, server.key("operator"))
        assert request_round.fn(url) == {"decided": 0}
        monkeypatch.setenv(KEY, server.key("auditor"))
        with pytest.raises(SdcError, match="did not hold a round: this is for operators"):
            request_round.fn(url)


def test_what_a_round_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY, raising=False)
    with pytest.raises(ConfigError, match=r"SDC_SERVER_KEY is not set; set it to an operator's key"):
        request_round.fn("http://127.0.0.1:1")
    monkeypatch.setenv(KEY, "sdc_x")
    with pytest.raises(SdcError, match=r"did not hold a round: .*; check that it runs, then run again"):
        request_round.fn("http://127.0.0.1:1")
