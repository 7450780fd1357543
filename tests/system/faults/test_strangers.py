"""Other users of the machine: they run nothing, read nothing and learn nothing of a build that is at work.

A stranger is this test without the keys; where it runs as root, it is also a process of another user.
"""

import multiprocessing
import os
import shutil
import socket
import ssl
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from flows import prefect_process
from sdc.commands import cli
from sdc.config.build import ExecutionConfig
from sdc.execution.cluster import _scratch_below, open_executor
from sdc.execution.dask_executor import DaskExecutor
from sdc.model.errors import InputError
from sdc.refusal import FILES
from sdc.storage.parquet import open_memory_form, write_memory_form
from tests.helpers.builds import built, write_czech
from tests.helpers.listening import status_of
from tests.strategies import czech

NOBODY = 65534


@pytest.fixture(scope="module")
def others() -> set[tuple[str, int]]:
    """Where this process and its children listen before there are workers: they may hold servers of other tests."""
    return listening()


@pytest.fixture(scope="module")
def executor(others: set[tuple[str, int]]) -> Iterator[DaskExecutor]:
    """Two local workers as a build has them."""
    with open_executor(ExecutionConfig(cluster="local", workers=2)) as opened:
        assert isinstance(opened, DaskExecutor)
        yield opened


def listening() -> set[tuple[str, int]]:
    """Addresses at which this process and its children listen."""
    root = psutil.Process()
    found = set()
    for process in (root, *root.children(recursive=True)):
        for connection in process.net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN:
                found.add((connection.laddr.ip, connection.laddr.port))
    return found


# Workers


def test_workers_and_scheduler_are_on_this_machine_alone(executor: DaskExecutor, others: set[tuple[str, int]]) -> None:
    addresses = listening() - others
    assert len(addresses) >= 3
    assert {host for host, _ in addresses} <= {"127.0.0.1", "::1"}
    assert 8787 not in {port for _, port in addresses}  # what Dask takes where nothing is said, the same for everybody


def test_a_build_in_one_process_listens_to_nothing() -> None:
    before = listening()
    with open_executor(ExecutionConfig(cluster="in-process")):
        assert listening() == before


def test_whoever_has_no_key_runs_nothing(executor: DaskExecutor, others: set[tuple[str, int]], tmp_path: Path) -> None:
    """The scheduler, each worker and each nanny hang up on a client that shows no certificate of this run."""
    from distributed import Client

    address = executor.client.scheduler.address
    assert address.startswith("tls://")
    mark = tmp_path / "mark"
    with pytest.raises((OSError, TypeError, ssl.SSLError)):
        Client(address.replace("tls://", "tcp://"), timeout=5).submit(mark.touch).result(timeout=5)  # type: ignore[no-untyped-call]
    assert not mark.exists()
    for host, port in listening() - others:
        assert not speaks(host, port)


def speaks(host: str, port: int) -> bool:
    """Whether a service lets a client in that shows no certificate: it sends a byte through TLS, or without it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for wrap in (context.wrap_socket, lambda plain: plain):
        try:
            with socket.create_connection((host, port), timeout=2) as plain, wrap(plain) as connection:
                connection.sendall(b"\0" * 64)
                if connection.recv(1):
                    return not is_web_server(host, port)
        except OSError:
            continue
    return False


def is_web_server(host: str, port: int) -> bool:
    """Dask has one in each process; it answers whether it is well, and nothing else."""
    asked = {path: status_of(f"http://{host}:{port}{path}") for path in PAGES}
    assert set(asked.values()) == {404}, asked
    return status_of(f"http://{host}:{port}/health") == 200


PAGES = ["/", "/status", "/info/main/workers.html", "/json/counts.json", "/metrics", "/sysmon", "/api/v1"]


# Prefect


def assert_closed(url: str, home: Path) -> None:
    """A server says no more than that it is well, and nobody else sees its files."""
    assert status_of(f"{url}/health") == 200
    for place in ("artifacts/filter", "flow_runs/filter", "logs/filter"):
        assert status_of(f"{url}/{place}", b"{}") == 401
    assert status_of(f"{url}/admin/version") == 401
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    databases = list(home.glob("prefect.db*"))
    assert databases
    assert all(stat.S_IMODE(path.stat().st_mode) & 0o077 == 0 for path in databases)


def test_a_home_of_prefect_that_is_made_is_for_its_user_alone(tmp_path: Path) -> None:
    prefect_process.close_to_others(tmp_path / "new" / "home")
    assert stat.S_IMODE((tmp_path / "new" / "home").stat().st_mode) == 0o700


# Files


@pytest.fixture(scope="module", params=[0o000, 0o022, 0o077], ids=["umask 000", "umask 022", "umask 077"])
def umask(request: pytest.FixtureRequest) -> int:
    found: int = request.param
    return found


@pytest.fixture(scope="module")
def run(umask: int, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder that was made with this umask."""
    folder = tmp_path_factory.mktemp("built")
    before = os.umask(umask)
    try:
        return built(write_czech(folder)).folder.path
    finally:
        os.umask(before)


def test_only_what_is_published_is_open_to_others(umask: int, run: Path) -> None:
    for path in run.rglob("*"):
        mode = stat.S_IMODE(path.stat().st_mode)
        if "release" in path.relative_to(run).parts:
            assert mode == (0o777 if path.is_dir() else 0o666) & ~umask, path
        else:
            assert mode == (0o700 if path.is_dir() else 0o600), path


@pytest.mark.parametrize(
    ("parent", "own"), [(0o1777, 0o700), (0o777, 0o700), (0o770, 0o770), (0o755, 0o750), (0o700,) * 2]
)
def test_a_scratch_folder_is_never_wider_than_is_meant(parent: int, own: int, tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    (tmp_path / "scratch").chmod(parent)
    with _scratch_below(tmp_path / "scratch") as scratch:
        assert stat.S_IMODE(scratch.stat().st_mode) == own


def test_a_memory_form_that_was_changed_is_not_opened(tmp_path: Path) -> None:
    table = czech()
    write_memory_form(table, tmp_path / "one")
    assert open_memory_form(tmp_path / "one", table.digest) == table
    content = bytearray((tmp_path / "one" / "counts.npy").read_bytes())
    content[-8] += 1
    write_memory_form(table, tmp_path / "other")
    (tmp_path / "other" / "counts.npy").write_bytes(content)
    with pytest.raises(InputError, match="is not the table"):
        open_memory_form(tmp_path / "other", table.digest)


@pytest.mark.parametrize("name", ["", "counts.npy", "codes.npy", "schema.json"])
def test_a_memory_form_that_others_may_change_is_not_opened(name: str, tmp_path: Path) -> None:
    write_memory_form(czech(), tmp_path / "form")
    path = tmp_path / "form" / name
    path.chmod(path.stat().st_mode | stat.S_IWOTH)
    with pytest.raises(InputError, match="every user may write"):
        open_memory_form(tmp_path / "form", czech().digest)


# Another user


def as_nobody(attack: Callable[..., None], *arguments: Any) -> int:
    """The exit status of the attack as another user: 0 where it did what it wanted."""
    if os.geteuid() != 0:
        pytest.skip("only root can be another user")

    def attempt() -> None:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        try:
            attack(*arguments)
        except OSError:
            os._exit(13)
        os._exit(0)

    child = multiprocessing.get_context("fork").Process(target=attempt)
    child.start()
    child.join(600)
    assert child.exitcode is not None
    return child.exitcode


def read(path: Path) -> None:
    path.read_bytes() if path.is_file() else os.listdir(path)


def test_another_user_reads_nothing_but_the_release(umask: int, run: Path, tmp_path: Path) -> None:
    # what is above the folder of a test is closed to others, which must not be why they see nothing
    run = Path(shutil.copytree(run, tmp_path / "run"))  # with the modes it has
    for folder in (run, *run.parents[:-2]):
        folder.chmod(folder.stat().st_mode | 0o055)
    assert (as_nobody(read, run / "release" / "datapackage.json") == 0) == (umask != 0o077)
    for name in ("table", "search", "assessment", "confidential", "manifest.json", "log.jsonl"):
        assert as_nobody(read, run / name) == 13, name
    assert as_nobody(read, run / "table" / "schema.json") == 13


def test_another_user_sees_no_scratch_and_no_token(executor: DaskExecutor) -> None:
    assert as_nobody(read, executor.scratch) == 13
    for process in psutil.Process().children(recursive=True):
        assert as_nobody(read, Path(f"/proc/{process.pid}/environ")) != 0


def test_another_user_s_memory_form_is_not_opened(tmp_path: Path) -> None:
    write_memory_form(czech(), tmp_path / "form")
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    for path in (tmp_path / "form").iterdir():
        os.chown(path, NOBODY, NOBODY)
    with pytest.raises(InputError, match="belongs to"):
        open_memory_form(tmp_path / "form", czech().digest)


def test_a_refusal_is_read_by_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Through the command, with the widest umask."""
    (tmp_path / "t.csv").write_text("a,count\nx,1\ny,-918273\n")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(sys, "argv", ["sdc", "widths", str(tmp_path / "t.csv")])
    before = os.umask(0)
    try:
        with pytest.raises(SystemExit, match="1"):
            cli.main()
    finally:
        os.umask(before)
    (path,) = (tmp_path / "state" / "sdc").glob(FILES)
    assert path.read_text() == f"{tmp_path / 't.csv'}: column 'count' has the value -918273\n"
    assert "918273" not in capsys.readouterr().err
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
