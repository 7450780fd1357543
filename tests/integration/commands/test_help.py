"""Help, usage and versions: each command explains itself, and wrong usage has status 2."""

import json
import os
import re
import subprocess
import sys
from typing import Any

import pytest
import typer

from sdc import __version__
from sdc.commands import cli
from tests.helpers.commands import CZECH, Sdc

ARGUMENTS = {
    **dict.fromkeys(("run", "sweep", "plan", "serve", "keys", "simulate"), "CONFIG"),
    "replay": "HISTORY",
    "config": "CONFIG|KEY",
    "check": "FOLDER...",
    "attack": "RELEASE",
    "synthesize": "RELEASE...",
    "ledger": "FILE",
    "compare": "RUN",
    "docs": "[OPTIONS]",
    "capabilities": "[[A [B]]]...",
    "doctor": "[CONFIG]",
    **dict.fromkeys(("verify", "status", "explore"), "RUN_FOLDER"),
    **dict.fromkeys(("list", "clean"), "FOLDER"),
    **dict.fromkeys(("audit", "migrate"), "HISTORY"),
}


def test_help_loads_nothing_heavy() -> None:
    heavy = {"numba", "ortools", "prefect", "distributed", "dask", "pyarrow", "scipy", "networkx"}
    code = (
        "import sys; sys.argv = ['sdc', '--help']\n"
        "from sdc.commands.cli import main\n"
        "try: main()\n"
        f"finally: print(sorted({heavy} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0
    assert done.stderr.strip() == "[]"


def commands() -> dict[str, Any]:
    return typer.main.get_command(cli.app).commands  # type: ignore[attr-defined,no-any-return]


@pytest.mark.parametrize("columns", [80, 200])
def test_help_lists_each_command_in_one_panel(columns: int) -> None:
    """As plain text, in ASCII, within the terminal."""
    environment = os.environ | {"COLUMNS": str(columns), "PYTHONIOENCODING": "ascii", "FORCE_COLOR": "1"}
    command = [sys.executable, "-m", "sdc.commands.cli", "--help"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "\x1b" not in done.stdout
    parts = re.split(r"^(\S.*):\n", done.stdout, flags=re.MULTILINE)
    panel_of = {
        name: panel
        for panel, text in zip(parts[3::2], parts[4::2], strict=True)
        for name in re.findall(r"^  (\w+) ", text, re.MULTILINE)
    }
    assert panel_of == {name: command.rich_help_panel for name, command in commands().items()}


def test_commands_that_check_say_what_and_for_whom() -> None:
    for name in ("verify", "check", "audit", "assess", "why", "doctor"):
        first, *_ = commands()[name].help.split("\n")
        assert re.match(r"(?:Verify|Check|Explain) .*\bfor (?:\w+ and )?(?:\w+ )?[a-z]+\.$", first), name


def test_help_says_all_that_is_written_of_a_command(sdc: Sdc) -> None:
    listed = " ".join(sdc("--help").out.split())
    for name, command in commands().items():
        first, _, _ = " ".join(command.help.split()).partition(". ")
        assert f" {name} {first.rstrip('.')}." in listed, "the list has no room for the first sentence"
        answer = sdc(name, "--help")
        shown = "".join(answer.out.split())
        for text in (command.help, *(one.help for one in command.params if one.help)):
            # lines are broken at spaces and hyphens
            assert "".join(text.split()) in shown
        assert "--json" in answer.out
        assert re.search(rf"{re.escape(ARGUMENTS.get(name, 'TABLE'))}\s", answer.out), name


@pytest.mark.parametrize(
    "words",
    [[], ["publish", CZECH], ["widths"], ["widths", CZECH, "--flor", "3"]],
    ids=lambda words: " ".join(words[:1] + words[2:]) or "nothing",
)
def test_wrong_usage_has_status_2(words: list[str], sdc: Sdc) -> None:
    answer = sdc(*words)
    assert answer.status == 2
    assert "Usage" in answer.out + answer.err
    if words:
        assert answer.out == ""


def test_the_version(sdc: Sdc) -> None:
    answer = sdc("--version")
    assert (answer.status, answer.out) == (0, f"sdc {__version__}\n")


def test_a_refusal_is_a_document_too(sdc: Sdc) -> None:
    answer = sdc("assess", CZECH, "--release", "A*Q", "--min-width", 3, "--json")
    answer.assert_refused("'Q'")
    assert json.loads(answer.out)["status"] == 1
    assert sdc("assess", CZECH, "--release", "A*Q", "--min-width", 3).out == ""
