"""`sdc serve` before it listens: what a server needs is prepared by a flow, once."""

from pathlib import Path

import yaml

from sdc.server.service.prepare import folder_of, is_prepared
from sdc.stages.build import open_build
from tests.conftest import CZECH_CSV, CZECH_YAML
from tests.helpers.console import Console


def test_a_server_is_prepared_by_its_command(console: Console, tmp_path: Path) -> None:
    content = yaml.safe_load(CZECH_YAML.read_text())
    content["table"]["path"] = str(CZECH_CSV)
    content |= {"execution": {"cluster": "in-process"}, "output": {"folder": str(tmp_path / "runs")}}
    (tmp_path / "server.yaml").write_text(yaml.safe_dump(content))
    build = open_build(tmp_path / "server.yaml")
    assert not is_prepared(build)
    first, again = (console("serve", "server.yaml", "--prepare", "--json", place=tmp_path) for _ in range(2))
    assert first.document == again.document == {"folder": str(folder_of(build).path)}
    assert is_prepared(build)
    assert "widths: done" in first.err
    assert again.err == ""
