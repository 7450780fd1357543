"""Tables and configs with one error each, and the message that each command gives."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

GOOD = "a,b,count\nx,y,1\nx,z,20\nw,y,11\nw,z,12\n"


@dataclass(frozen=True)
class Fault:
    """One line of "Bad input" of the issue, and the message it gets: the thing, its value, what to do."""

    name: str
    message: str
    table: str | bytes | None = GOOD
    file: str = "table.csv"
    variables: str | None = None
    sections: dict[str, dict[str, Any]] = field(default_factory=dict)
    text: str | None = None  # the config, as it stands
    zeros: str | None = None  # the file of structural zeros
    commands: tuple[str, ...] = ("widths", "plan", "run")
    status: int = 1

    def words(self, command: str, folder: Path) -> list[str]:
        table = str(folder / self.file)
        chosen = ["--variables", self.variables] if self.variables is not None else []
        if self.zeros is not None:
            chosen += ["--structural-zeros", str(folder / "zeros.yaml")]
        return {
            "run": ["run", str(folder / "build.yaml"), "--json"],
            "plan": ["plan", str(folder / "build.yaml"), "--json"],
            "widths": ["widths", table, *chosen, "--json"],
            "release": ["release", table, *chosen, "--method", "ordered", "--min-width", "2", "--json"],
            "bounds": ["bounds", table, "--release", self.name, "--json"],
            "assess": ["assess", table, "--release", self.name, "--min-width", "2", "--json"],
            "enumerate": ["enumerate", table, "--release", self.name, "--json"],
            "fit": ["fit", table, "--release", self.name, "--json"],
        }[command]

    def write(self, folder: Path) -> None:
        """The table, the config, and a file where no folder can be made."""
        folder.mkdir()
        (folder / "file").touch()
        if self.table is not None:
            table = self.table if isinstance(self.table, bytes) else self.table.encode()
            (folder / self.file).write_bytes(table)
        if self.text is not None:
            (folder / "build.yaml").write_text(self.text)
            return
        content: dict[str, Any] = {
            "name": "build",
            "table": {"path": self.file},
            "risk": {"min_width": 2},
            "execution": {"cluster": "in-process"},
            "output": {"folder": str(folder / "runs")},
        }
        chosen = {"table": {"variables": self.variables.split(",")}} if self.variables else {}
        if self.zeros is not None:
            (folder / "zeros.yaml").write_text(self.zeros)
            chosen = {"table": {"structural_zeros": "zeros.yaml"}}
        for section, values in [*chosen.items(), *self.sections.items()]:
            content[section] = {**content.get(section, {}), **values}
        text = yaml.safe_dump(content, sort_keys=False).replace("FOLDER", str(folder))
        (folder / "build.yaml").write_text(text)


def in_config(name: str, message: str, **more: Any) -> Fault:
    """A fault that only the commands with a config meet."""
    return Fault(name, message, commands=("plan", "run"), **more)


RELEASE_COMMANDS = ("bounds", "assess", "enumerate", "fit")


TOO_LARGE = 10**20


FAULTS = [
    # a file that is not there
    Fault("no file", r"table\.csv does not exist; give a Parquet or CSV file", table=None),
    # a missing column
    Fault("a missing column", r"table\.csv has no column 'zz'; it has a, b, count", variables="a,zz"),
    # a fractional or negative count
    Fault("a negative count", r"column 'count' has a value that is not a count: a whole", table=GOOD + "v,y,-3\n"),
    # a value out of range in the config
    in_config("too large a number", rf"small_count\b.*{TOO_LARGE}", sections={"risk": {"small_count": TOO_LARGE}}),
    # structural zeros that contradict the data
    Fault(
        "contradicting zeros",
        r"structural zeros contradict the data: a = x and b = y is given as impossible, but 1 such cells",
        zeros="- {a: x, b: y}",
        commands=("widths", "release", "plan", "run"),
    ),
    # no at-risk cell
    Fault("a*b", r"no at-risk cell: .*small count 2", table="a,b,count\nx,y,10\nw,z,20\n", commands=("bounds",)),
    # a release naming an unknown variable
    Fault("a*zz", r"'a\*zz' names the unknown variable 'zz'; the table has a, b", commands=RELEASE_COMMANDS),
    # what cannot be reached
    Fault(
        "too wide a width",
        r"minimum width 1000 is not reached even when only the grand total 44 is public; choose",
        sections={"risk": {"min_width": 1000}},
        commands=("run",),
        status=3,
    ),
    # a run folder that cannot be written, a second run of the same build at the same time
    Fault(
        "a run folder that cannot be written",
        r"run folder .*file/runs/build/\w+ cannot be written: .*set output\.folder",
        sections={"output": {"folder": "FOLDER/file/runs"}},
        commands=("run",),
    ),
    Fault(
        "a second run", r"another run of the same build is using .*; wait until it ends", commands=("run",), status=75
    ),
]
