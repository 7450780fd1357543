"""What is looked at of a machine: each thing that is wrong in one line with what to do, and nothing written."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from sdc.execution import doctor
from sdc.execution.doctor import LOOKS, examined
from tests.conftest import CZECH_CSV, CZECH_YAML, ROOT

VARIABLES = "HOME", "TMPDIR"
LEFT_OUT = "PREFECT", "NUMBA_CACHE_DIR", "XDG_", "PGPASSFILE", "FSSPEC_CONFIG_DIR"
NAMES = [*LOOKS, "config", "cluster", "storage"]
ADDRESS = {"kind": "address", "address": "tcp://127.0.0.1:1", "scratch": "scratch"}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of a new user, with a config in it."""
    for name in [name for name in os.environ if name.startswith(LEFT_OUT)]:
        monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir()
    for name in VARIABLES:
        monkeypatch.setenv(name, str(home))
    monkeypatch.chdir(home)
    write(home)
    return home


def write(home: Path, **sections: Any) -> Path:
    content = yaml.safe_load(CZECH_YAML.read_text()) | sections
    content["table"]["path"] = str(CZECH_CSV)
    (home / "build.yaml").write_text(yaml.safe_dump(content))
    return home / "build.yaml"


def test_all_is_well(home: Path) -> None:
    before = sorted(home.rglob("*"))
    found = list(examined(home / "build.yaml"))
    assert [one.name for one in found] == NAMES
    assert {one.name: one.message for one in found if not one.ok} == {}
    said = {one.name: one.message for one in found}
    assert said["home"] == f"refusal files go to {home}/.local/state/sdc"
    assert said["kernels"] == f"compiled code is cached in {home}/.cache/sdc/kernels"
    assert said["prefect"].endswith(f"with its database in {home}/.prefect")
    assert said["storage"].startswith(f"{home}/runs on ")
    assert sorted(home.rglob("*")) == before


def missing() -> Path:
    raise RuntimeError("Could not determine home directory.")


def open_passwords(home: Path, patch: pytest.MonkeyPatch) -> None:
    (home / "passwords").write_text("*:*:*:ann:secret")
    (home / "passwords").chmod(0o640)
    patch.setenv("PGPASSFILE", str(home / "passwords"))


def open_caches(home: Path, patch: pytest.MonkeyPatch) -> None:
    for variable, folder in (("NUMBA_CACHE_DIR", "caches/sdc-kernels"), ("PREFECT_HOME", "prefect")):
        (home / folder).mkdir(parents=True)
        (home / folder).chmod(0o777)
        patch.setenv(variable, str(home / folder.split("/")[0]))


def another_version(home: Path, patch: pytest.MonkeyPatch) -> None:
    (home / "constraints.txt").write_text("numpy==1.0.0\nno-such-package==1.0\n")
    patch.setattr(doctor, "CONSTRAINTS", home / "constraints.txt")


def no_scratch(home: Path, patch: pytest.MonkeyPatch) -> None:
    (home / "address.yaml").write_text(yaml.safe_dump(ADDRESS))
    write(home, execution={"cluster": "address.yaml"})


API = "http://127.0.0.1:9/api"
FAULTS: dict[str, tuple[Callable[[Path, pytest.MonkeyPatch], Any], dict[str, str]]] = {
    "no home": (
        lambda home, patch: patch.setattr(Path, "home", missing),
        {"home": "set HOME", "kernels": "set NUMBA_CACHE_DIR", "prefect": "set PREFECT_HOME"},
    ),
    "nobody answers": (
        lambda home, patch: patch.setenv("PREFECT_API_URL", API),
        {"prefect": f"no server answers at PREFECT_API_URL = {API}"},
    ),
    "open passwords": (open_passwords, {"pgpass": "@/passwords is open to others; run chmod 600 @/passwords"}),
    "no settings": (
        lambda home, patch: patch.setenv("FSSPEC_CONFIG_DIR", str(home / "none")),
        {"fsspec": "FSSPEC_CONFIG_DIR = @/none: path not found; name another,"},
    ),
    "open caches": (
        open_caches,
        {"kernels": "every user may write @/caches/sdc-kernels", "prefect": "every user may write @/prefect"},
    ),
    "another version": (another_version, {"packages": "numpy "}),
    "a file for a folder": (
        lambda home, patch: (home / "runs").touch(),
        {"storage": "@/runs cannot be written; set output.folder to a writable one,"},
    ),
    "an old clock": (
        lambda home, patch: patch.setattr(time, "time", lambda: 86_400.0),
        {"clock": "the clock says 1970-01-02 00:00, before this package was written"},
    ),
    "no temporary": (lambda home, patch: patch.setenv("TMPDIR", str(home / "none")), {"temporary": "set TMPDIR"}),
    "no scratch": (no_scratch, {"cluster": "@/address.yaml: scratch = '@/scratch': the folder does not exist"}),
    "a full disk": (lambda home, patch: patch.setattr(doctor, "LEAST_FREE", 1 << 60), {"storage": "@ has "}),
    "no file system": (
        lambda home, patch: patch.setattr(doctor, "NO_POSIX", (doctor._file_system(home),)),
        {"storage": "@ is on "},
    ),
    "a wrong config": (
        lambda home, patch: write(home, risk={"min_width": "six"}),
        {"config": "@/build.yaml: risk.min_width = 'six'"},
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_is_wrong_has_a_line(name: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fault, expected = FAULTS[name]
    fault(home, monkeypatch)
    found = {one.name: one.message for one in examined(home / "build.yaml") if not one.ok}
    assert found.keys() == expected.keys()
    for look, said in expected.items():
        assert said.replace("@", str(home)) in found[look]
        assert "\n" not in found[look]


def test_an_open_prefect_server_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any user of this machine could have a worker run what they like. One with a key: test_release_build."""

    class Open(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()

    with ThreadingHTTPServer(("127.0.0.1", 0), Open) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # which is not asked about this machine
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.setenv("PREFECT_API_URL", f"http://127.0.0.1:{server.server_port}/api")
        (found,) = (one for one in examined(None) if one.name == "prefect")
        server.shutdown()
    assert not found.ok
    assert "accepts work from anyone who reaches it," in found.message


def test_credentials_are_found_where_they_are(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "fsspec").mkdir()
    for path, variable in ((home / "pgpass", "PGPASSFILE"), (home / "fsspec" / "s3.json", "FSSPEC_CONFIG_DIR")):
        path.touch(mode=0o600)
        monkeypatch.setenv(variable, str(path if variable == "PGPASSFILE" else path.parent))
    said = {one.name: one.message for one in examined(None)}
    assert said["pgpass"] == f"PostgreSQL passwords come from {home}/pgpass"
    assert said["fsspec"] == f"fsspec's settings come from {home}/fsspec"


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    """A folder that nobody can write, whoever runs this: mounted so, or the system's own."""
    folder = tmp_path / "read-only"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "ro", "none", folder]
    if subprocess.run(mount, capture_output=True, timeout=300).returncode:
        yield Path("/sys/kernel")
        return
    yield folder
    subprocess.run(["umount", folder], check=True, timeout=300)


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_a_machine_that_cannot_be_written(words: list[str], read_only: Path, home: Path) -> None:
    config = write(home, output={"folder": f"{read_only}/runs"})
    environment = os.environ | dict.fromkeys(VARIABLES, str(read_only)) | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "sdc.commands.cli", "doctor", str(config), *words]
    done = subprocess.run(command, cwd=read_only, env=environment, capture_output=True, text=True, timeout=900)
    assert (done.returncode, done.stderr) == (1, "")
    if words:
        document = json.loads(done.stdout)
        assert document["ok"] is False
        found = {one["name"]: (one["ok"], one["said"]) for one in document["checks"]}
    else:
        rows = [line.split(maxsplit=2) for line in done.stdout.splitlines()]
        found = {name: (state == "ok", said) for state, name, said in rows}
    assert list(found) == NAMES
    mended = {name: said for name, (ok, said) in found.items() if not ok}
    assert mended.keys() == {"home", "kernels", "prefect", "temporary", "storage"}
    for said in mended.values():
        assert said.startswith(f"{read_only} cannot be written; set ")
