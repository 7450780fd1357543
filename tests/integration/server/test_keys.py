"""`sdc keys`: who has which key, beside a running server, and how an operator without a key gets in again."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from sdc.config.file import read_config
from sdc.events import SERVER, EventText, heard
from sdc.model.table import Table
from sdc.server.service.service import Service
from sdc.server.web.access import Access, access_to, announce_expiry
from sdc.server.web.problems import Problem
from tests.conftest import CZECH_CSV, CZECH_YAML
from tests.helpers.commands import Sdc, sdc
from tests.helpers.services import open_service

__all__ = ["sdc"]

USERS = [{"name": "root", "role": "operator"}, {"name": "ada", "days": 20}]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return written(tmp_path, USERS)


def written(folder: Path, users: list[dict[str, Any]]) -> Path:
    """Write the config of a server of these users."""
    content = yaml.safe_load(CZECH_YAML.read_text())
    content["table"]["path"] = str(CZECH_CSV)
    content |= {"name": "served", "output": {"folder": str(folder / "runs")}, "server": {"users": users}}
    (folder / "served.yaml").write_text(yaml.safe_dump(content))
    return folder / "served.yaml"


@pytest.fixture
def service(config: Path, czech: Table, tmp_path: Path) -> Iterator[Service]:
    """A server whose history is where the config has it."""
    folder = tmp_path / "runs" / "served" / "server"
    folder.mkdir(parents=True)
    service = open_service(czech, folder)
    yield service
    service.close()


def access_of(service: Service, config: Path) -> Access:
    server = read_config(config).server
    assert server is not None
    return access_to(service.log, server)


def test_keys_are_listed_made_and_revoked_beside_a_running_server(config: Path, service: Service, sdc: Sdc) -> None:
    access, now = access_of(service, config), datetime.now(UTC)
    listed = json.loads(sdc("keys", config, "--json").out)
    assert listed == {"keys": [], "without_key": ["root", "ada"], "file": None}
    made = json.loads(sdc("keys", config, "--make", "root", "--json").out)
    assert made["without_key"] == ["ada"]
    (key,) = (line.split()[1] for line in Path(made["file"]).read_text().splitlines())
    assert Path(made["file"]).stat().st_mode & 0o777 == 0o600
    service.log.refresh()
    assert access.by_key(key, now).role == "operator"
    (one,) = made["keys"]
    assert (one["user"], one["role"], one["state"]) == ("root", "operator", "valid")
    answer = sdc("keys", config, "--revoke", one["number"])
    assert answer.out.splitlines() == [f"{'no valid key':38}  operator  root", f"{'no valid key':38}  user      ada"]
    service.log.refresh()
    with pytest.raises(Problem, match="not valid here"):
        access.by_key(key, now)


def test_users_that_the_config_no_longer_has_are_shown_and_announced(
    config: Path, service: Service, sdc: Sdc, tmp_path: Path
) -> None:
    sdc("keys", config, "--make", "root")
    sdc("keys", config, "--make", "ada")
    written(tmp_path, USERS[1:])
    listed = json.loads(sdc("keys", config, "--json").out)["keys"]
    assert [(key["user"], key["role"], key["state"]) for key in listed] == [
        ("root", None, "unknown user"),
        ("ada", "user", "valid"),
    ]
    said = list[str]()
    with heard(EventText(said.append), SERVER):
        announce_expiry(access_of(service, config))
    end = datetime.now(UTC) + timedelta(days=20)
    assert said == [
        f"the last key of ada expires on {end:%Y-%m-%d}; make another: sdc keys CONFIG --make ada",
        "keys of root are not valid: server.users does not have them",
    ]
    checks = {one["name"]: one for one in json.loads(sdc("doctor", config, "--json").out)["checks"]}
    assert (checks["keys"]["ok"], checks["keys"]["said"]) == (True, said[0])


def test_keys_of_nobody(config: Path, service: Service, sdc: Sdc) -> None:
    sdc("keys", config, "--make", "eve").assert_refused("server.users has no 'eve', only root, ada; add the user there")
    sdc("keys", config, "--revoke", "0" * 12).assert_refused(f"the history has no such key; sdc keys {config} lists")


def test_a_server_that_never_started_has_no_keys(config: Path, sdc: Sdc) -> None:
    sdc("keys", config).assert_refused("history.db")
    assert "keys" not in [one["name"] for one in json.loads(sdc("doctor", config, "--json").out)["checks"]]
