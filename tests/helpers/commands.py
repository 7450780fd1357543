"""Commands as a user gives them, in this process or in one of their own, and what they leave behind."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from sdc.commands import cli
from sdc.config.build import ExecutionConfig
from sdc.execution import cluster
from sdc.executor import Executor
from tests.helpers.builds import BY_NAME, CZECH_CSV, EMPTY_CELL
from tests.helpers.console import Said

CZECH = str(CZECH_CSV)
RELEASE = [word for name in BY_NAME for word in ("--release", name)]


class Answer(Said):
    """What a command left behind, and whether it is a refusal."""

    def assert_refused(self, message: str, status: int = 1) -> None:
        """Exit status 1, one message, nothing on standard output but a document where asked for, and no traceback."""
        assert self.status == status, (self.status, self.out, self.err)
        if self.out:
            assert json.loads(self.out) == {"error": self.err.splitlines()[-1].removeprefix("sdc: "), "status": status}
        assert "Traceback" not in self.err
        assert "| ERROR" not in self.err
        messages = [line for line in self.err.splitlines() if line.startswith("sdc: ")]
        assert messages == self.err.splitlines()[-1:], self.err
        assert re.search(message, messages[0]), messages[0]


Sdc = Callable[..., Answer]


@pytest.fixture
def sdc(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Sdc:
    """Runs a command in this process."""

    def command(*words: object) -> Answer:
        monkeypatch.setattr(sys, "argv", ["sdc", *map(str, words)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        out, err = capsys.readouterr()
        code = exit_.value.code
        return Answer(code if isinstance(code, int) else 0, out, err)

    return command


@pytest.fixture
def informed(tmp_path: Path) -> list[str]:
    """Options that name the one empty cell of the Czech table as a structural zero."""
    (tmp_path / "zeros.yaml").write_text(EMPTY_CELL)
    return ["--set", f"table.structural_zeros={tmp_path / 'zeros.yaml'}"]


@pytest.fixture
def opened(two_workers: Executor, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many workers commands ask for, which get the two that there are; one is this process as ever."""
    asked, open_executor = list[int](), cluster.open_executor

    @contextmanager
    def shared(execution: ExecutionConfig) -> Iterator[Executor]:
        if execution.cluster == "in-process":
            with open_executor(execution) as executor:
                yield executor
        else:
            asked.append(execution.workers)
            yield two_workers

    monkeypatch.setattr(cluster, "open_executor", shared)
    return asked


def invoked(*words: Any) -> Result:
    """The same without a test: errors are in the result."""
    return CliRunner().invoke(cli.app, [*map(str, words)])


def process(*words: object, cwd: Path | None = None) -> Answer:
    """Runs a command in a process of its own."""
    command = [sys.executable, "-m", "sdc.commands.cli", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=900)
    return Answer(done.returncode, done.stdout, done.stderr)


def tree(folder: Path) -> set[str]:
    """Every file and folder below."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}
