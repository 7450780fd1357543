"""One process that answers one command after another, with one Prefect server: a shell would start both each time."""

import json
import os
import select
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.helpers.kept import ROOT
from tests.helpers.prefect_home import made_home

SERVE = """
import json, os, sys, traceback
from pathlib import Path
from flows.embedded import embedded_server
from sdc.commands.cli import main
folder, answers = Path(sys.argv[1]), os.fdopen(os.dup(1), "w")
server = embedded_server()
server.__enter__()()
for line in sys.stdin:
    place, *words = json.loads(line)
    os.chdir(place)
    files = [os.open(folder / f"{end}.txt", os.O_RDWR | os.O_CREAT | os.O_TRUNC) for end in ("out", "err")]
    kept = os.dup(1), os.dup(2)
    os.dup2(files[0], 1), os.dup2(files[1], 2)
    sys.argv, status = ["sdc", *words], 0
    try:
        main()
    except SystemExit as exit_:
        status = exit_.code or 0
    except BaseException:
        status = 1
        traceback.print_exc()
    sys.stdout.flush(), sys.stderr.flush()
    os.dup2(kept[0], 1), os.dup2(kept[1], 2)
    said = [(folder / f"{end}.txt").read_text() for end in ("out", "err")]
    print(json.dumps([status, *said]), file=answers, flush=True)
    [os.close(file) for file in (*files, *kept)]
server.__exit__(None, None, None)
"""


@dataclass(frozen=True)
class Said:
    """What a command left behind."""

    status: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """Standard output as exactly one JSON document on one line."""
        assert self.status in (0, 3), self.err
        assert self.out.count("\n") == 1
        return json.loads(self.out)


class Console:
    """`sdc` with these words in a folder, each with its own standard output, error and status."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        home = {"PREFECT_HOME": str(made_home(folder / "prefect")), "PYTHONPATH": str(ROOT)}
        environment = {name: value for name, value in (os.environ | home).items() if name not in LEFT_OUT}
        self._process = subprocess.Popen(
            [sys.executable, "-c", SERVE, folder],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(self, *words: object, place: Path) -> Said:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps([str(place), *map(str, words)]), file=self._process.stdin, flush=True)
        ready, _, _ = select.select([self._process.stdout], [], [], SECONDS)
        assert ready, f"the console has not answered {words} within {SECONDS} s"
        line = self._process.stdout.readline()
        assert line, f"the console ended with status {self._process.wait(600)}"
        return Said(*json.loads(line))

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(timeout=300) == 0


SECONDS = 600.0
LEFT_OUT = ("PREFECT_API_URL", "PREFECT_PROFILES_PATH")
"""Of the environment: it has a server of its own."""
