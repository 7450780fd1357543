"""What a refusal says aloud, and where the rest of it is."""

import errno
import json
import os
import pickle
import re
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sdc import refusal
from sdc.model.errors import (
    ConfigError,
    HeldError,
    InputError,
    NothingReleasableError,
    NotReleasableError,
    NoWorkersError,
    RunFolderError,
    SdcError,
    TemporaryError,
)
from sdc.refusal import FILES, as_command, file_detail, status_of


def test_a_detail_is_for_this_user_alone(tmp_path: Path) -> None:
    error = InputError("2 values are bad", "the values x and y")
    file_detail(error, tmp_path / "new")
    (path,) = (tmp_path / "new").glob(FILES)
    assert re.fullmatch(r"refused-\d{8}T\d{6}\.\d{6}Z\.txt", path.name)
    assert path.read_text() == "the values x and y\n"
    assert (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(path.parent.stat().st_mode)) == (0o600, 0o700)
    assert str(error) == f"2 values are bad; the details are in {path}, which is confidential"
    before = str(error)
    file_detail(error, tmp_path / "other")
    assert (str(error), (tmp_path / "other").exists()) == (before, False)


def test_each_refusal_has_its_file_and_the_newest_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusal, "MOST_FILES", 3)
    (tmp_path / "refused-20200101T000000.000000Z.txt").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").write_text("untouched")
    for number in range(5):
        file_detail(SdcError("bad", f"secret {number}"), tmp_path)
    kept = [path.read_text() for path in sorted(tmp_path.glob(FILES))]
    assert kept == ["secret 2\n", "secret 3\n", "secret 4\n"]
    assert (tmp_path / "elsewhere").read_text() == "untouched"


def test_a_file_or_a_link_that_is_there_is_not_written_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusal, "FILES", "refused.txt")
    (tmp_path / "elsewhere").write_text("untouched")
    (tmp_path / "refused.txt").symlink_to(tmp_path / "elsewhere")
    error = SdcError("bad", "secret")
    file_detail(error, tmp_path)
    assert (tmp_path / "elsewhere").read_text() == "untouched"
    assert "not written to" in str(error)


def after(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (SdcError("no"), 1),
        (ConfigError("no"), 1),
        (NothingReleasableError("no"), 3),
        (TemporaryError("away"), 75),
        (HeldError("at work"), 75),
        (after(ConfigError("cluster.yaml: no worker"), NoWorkersError("no worker")), 75),
        (after(RunFolderError("cannot be written"), OSError(errno.ENOSPC, "full")), 75),
        (after(RunFolderError("cannot be written"), PermissionError(errno.EACCES, "not allowed")), 1),
        (after(NotReleasableError("no"), TemporaryError("away")), 3),
        (OSError(errno.EDQUOT, "full"), 75),
        (ValueError("a fault"), 1),
    ],
)
def test_a_status_says_whether_to_mend_or_to_try_again(
    error: Exception, status: int, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with pytest.raises(SystemExit) as ended, as_command(as_json=True):
        raise error
    said = json.loads(capsys.readouterr().out)
    assert (ended.value.code, said["status"], status_of(error)) == (status, status, status)
    assert ("a bug in sdc:" in said["error"]) == isinstance(error, ValueError)


def test_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)

    def home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", home)
    with pytest.raises(SystemExit), as_command():
        raise InputError("1 value is bad", "the value x")
    nowhere = "the details are not written, because this user has no home; set XDG_STATE_HOME to a folder"
    assert capsys.readouterr().err == f"sdc: 1 value is bad; {nowhere}\n"


def test_a_detail_that_cannot_be_written_is_not_said_instead(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    error = SdcError("bad", "secret")
    file_detail(error, tmp_path / "file")
    assert "not written to" in str(error)
    assert "secret" not in repr(error) + error.detail


def test_a_detail_comes_back_from_a_worker() -> None:
    error = pickle.loads(pickle.dumps(InputError("bad", "secret")))
    assert (str(error), error.detail) == ("bad", "secret")


def test_a_command_keeps_it_for_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with pytest.raises(SystemExit) as ended, as_command():
        raise InputError("1 value is bad", "the value x")
    assert ended.value.code == 1
    said = capsys.readouterr().err
    (path,) = (tmp_path / "sdc").glob(FILES)
    assert said == f"sdc: 1 value is bad; the details are in {path}, which is confidential\n"
    assert path.read_text() == "the value x\n"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (RecursionError("a secret"), "unforeseen RecursionError, a bug in sdc: report it"),
        (MemoryError(), "there is not enough memory; give more, or use fewer variables or workers"),
    ],
)
def test_what_nobody_foresaw_is_one_message_too(
    error: Exception, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with pytest.raises(SystemExit) as ended, as_command():
        raise error
    assert ended.value.code == 1
    (path,) = (tmp_path / "sdc").glob(FILES)
    where = f"the details are in {path}, which is confidential"
    assert capsys.readouterr().err == f"sdc: {message}; {where}\n"
    found = path.read_text()
    assert found.startswith("Traceback")
    assert f"{type(error).__name__}" in found.strip().splitlines()[-1]


def test_a_limit_of_memory_is_named(tmp_path: Path) -> None:
    code = (
        "import resource; from sdc.refusal import as_command\n"
        "resource.setrlimit(resource.RLIMIT_AS, (1 << 31, 1 << 31))\n"
        "with as_command():\n  raise RuntimeError"
    )
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 1
    assert done.stderr.startswith("sdc: unforeseen RuntimeError: raise the limit of memory, 2048 MiB, or report it; ")


# Signals

SAYS = "import os, signal, sys, threading, time; from sdc import refusal; refusal.SECONDS_TO_END = 1.0\n"
WAITS = "    print('at work', flush=True); time.sleep(60)\n"
INTERRUPTED = "sdc: interrupted; nothing was published\n"


def signalled(work: str, number: signal.Signals) -> tuple[int, str, float]:
    """Status, standard error and seconds of a command that is sent a signal when it is at work."""
    code = f"{SAYS}with refusal.as_command():\n{work}"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code], stdout=pipe, stderr=pipe, text=True) as command:
        assert command.stdout is not None
        assert command.stderr is not None
        assert command.stdout.readline() == "at work\n"
        begun = time.monotonic()
        command.send_signal(number)
        said = command.stderr.read()
    return command.returncode, said, time.monotonic() - begun


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_one_message_and_blocks_are_left_in_order(number: signal.Signals, tmp_path: Path) -> None:
    work = f"  try:\n{WAITS}  finally:\n    open({str(tmp_path / 'left')!r}, 'w').close()\n"
    assert signalled(work, number)[:2] == (130, INTERRUPTED)
    assert (tmp_path / "left").exists()


@pytest.mark.parametrize(
    "work",
    [
        f"  try:\n{WAITS}  except KeyboardInterrupt:\n    time.sleep(60)\n",
        f"  signal.signal(signal.SIGTERM, lambda *_: None)\n  if True:\n{WAITS}",
        f"  threading.Thread(target=time.sleep, args=[60]).start()\n  if True:\n{WAITS}",
        f"  try:\n{WAITS}  except KeyboardInterrupt:\n    raise SystemError('a library met it')\n",
    ],
    ids=["swallowed", "another handler", "a thread that does not end", "made another error"],
)
def test_a_signal_ends_a_command_whatever_becomes_of_the_interrupt(work: str) -> None:
    status, said, seconds = signalled(work, signal.SIGTERM)
    assert (status, said) == (130, INTERRUPTED)
    assert seconds < 50  # what it would take by itself


def test_a_refusal_upon_a_signal_keeps_its_message() -> None:
    work = f"  threading.Thread(target=time.sleep, args=[60]).start()\n  try:\n{WAITS}"
    work += "  except KeyboardInterrupt:\n    raise refusal.SdcError('the server ended')\n"
    assert signalled(work, signal.SIGINT)[:2] == (1, "sdc: the server ended\n")


def test_signals_are_as_before_when_the_command_is_done() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    with as_command():
        assert signal.getsignal(signal.SIGTERM) is not before[1]
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before
