"""The commands as a user meets them: JSON as fixed, published numbers, one message for whatever is refused.

Commands run in this process where that shows the same. `sdc run` needs Prefect and runs in one process of its
own, case after case, each with its own standard output and error.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
import yaml

from sdc import __version__, api
from sdc.bounds.method import method_names
from sdc.commands import cli, tables
from sdc.config.build import ExecutionConfig
from sdc.execution import cluster
from sdc.executor import IN_PROCESS, Executor
from sdc.model.errors import SdcError
from sdc.model.knowledge import Knowledge
from sdc.model.table import Table
from sdc.risk.criteria import Criteria
from sdc.risk.effort import Budget
from sdc.search.best import FoundRelease
from sdc.stages.build import open_build
from sdc.stages.plan import StagePlan
from sdc.stages.stages import STAGES, run_all
from sdc.stages.trial import UnitTrial
from sdc.storage.parquet import table_columns, write_csv
from sdc.storage.run_folder import Manifest, RunFolder, folder_digest
from tests.helpers.console import Console, Said
from tests.profiles import scaled
from tests.strategies import all_ways, inquiry_of, scattered
from tests.wide import wide_table

CONFIGS = Path(__file__).parents[3] / "configs"
CZECH_CSV, CZECH_YAML = CONFIGS / "czech_auto_workers.csv", CONFIGS / "czech_auto_workers.yaml"

PANELS = {
    "Build a release (statisticians)": ("run", "sweep", "plan", "config", "capabilities", "init", "release"),
    "Inspect tables, releases and runs (statisticians, auditors)": (
        *("status", "explore", "list", "fit", "compare", "assess", "why"),
        *("widths", "bounds", "enumerate", "posterior", "uniques"),
    ),
    "Protect one table (statisticians)": ("round", "suppress", "magnitude"),
    "Publish and verify (publishers, auditors)": ("verify", "check", "ledger", "attack"),
    "Serve tables on request (operators of a server, auditors)": ("serve", "audit", "migrate", "simulate", "replay"),
    "Maintain an installation (administrators)": ("clean", "doctor", "papers", "docs"),
}
COMMANDS = [command for panel in PANELS.values() for command in panel]
ARGUMENTS = {
    **dict.fromkeys(("run", "sweep", "plan", "serve", "simulate"), "CONFIG"),
    "replay": "HISTORY",
    "config": "CONFIG|KEY",
    "check": "FOLDER...",
    "attack": "RELEASE",
    "ledger": "FILE",
    "compare": "RUN",
    **dict.fromkeys(("docs", "papers"), "[OPTIONS]"),
    "capabilities": "[[A [B]]]...",
    "doctor": "[CONFIG]",
    **dict.fromkeys(("verify", "status", "explore"), "RUN_FOLDER"),
    **dict.fromkeys(("list", "clean"), "FOLDER"),
    **dict.fromkeys(("audit", "migrate"), "HISTORY"),
}
BESIDE = {"README.txt", "SHA256SUMS", "catalogue.json", "data_dictionary.csv", "datapackage.json", "index.html"}
BESIDE |= {"croissant.json", "ro-crate-metadata.json"}
CZECH = str(CZECH_CSV)
FRONTIER = ["A*B*C*D*E", "A*B*D*E*F", "A*C*D*E*F", "A*B*C*F", "B*C*D*F", "B*C*E*F"]
RELEASE = [word for name in FRONTIER for word in ("--release", name)]

# [KDSF] table 3 in the data's letters: the 35 most dangerous as printed, before them the full table
PRINTED_WIDTHS = (
    "ABCDF 3, BCDEF 5, ABCEF 6, ABCDE 9, BCDF 10, ABDEF 10, ACDEF 10, ABCF 12, BCEF 12, ABCE 20, ACEF 20, ACDF 21, "
    "ABCD 22, ABEF 23, BCDE 23, BCF 25, ABDF 25, BDEF 26, ADEF 30, CDEF 30, ABC 45, ACF 49, ABDE 52, BCD 54, ABF 55, "
    "BCE 56, CEF 57, AEF 58, BDF 58, ADF 59, BEF 61, CDF 61, DEF 64, ACDE 68, BC 119, DF 119"
)


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


def process(*words: object, cwd: Path | None = None) -> Answer:
    """Runs a command in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "sdc.commands.cli", *map(str, words)],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=300,
    )
    return Answer(done.returncode, done.stdout, done.stderr)


def tree(folder: Path) -> set[str]:
    """Every file and folder below."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


# Help and wrong usage


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


@pytest.mark.parametrize("columns", [80, 200])
def test_help_lists_each_command_in_one_panel(columns: int) -> None:
    """As plain text, in ASCII, within the terminal."""
    environment = os.environ | {"COLUMNS": str(columns), "PYTHONIOENCODING": "ascii", "FORCE_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "sdc.commands.cli", "--help"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "\x1b" not in done.stdout
    parts = re.split(r"^(\S.*):\n", done.stdout, flags=re.MULTILINE)
    listed = [tuple(re.findall(r"^  (\w+) ", text, re.MULTILINE)) for text in parts[4::2]]
    assert dict(zip(parts[3::2], listed, strict=True)) == PANELS
    assert sorted(COMMANDS) == sorted(typer.main.get_command(cli.app).commands)  # type: ignore[attr-defined]


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_explains_itself(command: str, sdc: Sdc) -> None:
    answer = sdc(command, "--help")
    assert answer.status == 0
    assert "--json" in answer.out
    assert re.search(rf"{re.escape(ARGUMENTS.get(command, 'TABLE'))}\s", answer.out)


def test_help_says_all_that_is_written_of_a_command(sdc: Sdc) -> None:
    root: Any = typer.main.get_command(cli.app)
    listed = " ".join(sdc("--help").out.split())
    for name, command in root.commands.items():
        first, _, _ = " ".join(command.help.split()).partition(". ")
        assert f" {name} {first.rstrip('.')}." in listed, "the list has no room for the first sentence"
        shown = "".join(sdc(name, "--help").out.split())
        for text in (command.help, *(one.help for one in command.params if one.help)):
            # lines are broken at spaces and hyphens
            assert "".join(text.split()) in shown


@pytest.mark.parametrize("path", ["a" * 3000, "a\0b", "a/" * 3000], ids=["long", "NUL", "deep"])
def test_every_path_is_looked_at_once(path: str, sdc: Sdc) -> None:
    for command in ("run", "plan", "verify", "status", "list", "clean", "audit", "simulate"):
        sdc(command, path).assert_refused(" is no path here: .*; name another$")
    sdc("widths", path).assert_refused("cannot be read: ")
    sdc("widths", CZECH, "--structural-zeros", path).assert_refused(" is no path here: ")
    sdc("widths", CZECH, "--out", f"{path}.csv").assert_refused(" is no path here: ")
    sdc("release", CZECH, "--method", "ordered", "--min-width", 3, "--out", path).assert_refused(" is no path here: ")


def test_rules_are_refused_before_anything_starts(sdc: Sdc, tmp_path: Path) -> None:
    config = CZECH_YAML
    sdc("simulate", config, "--rules", "two_step").assert_refused(
        "'two_step' is no rule; give names of myopic, .*config"
    )
    sdc("simulate", config, "--queries", tmp_path / "no").assert_refused(
        "is none of uniform, popular, greedy-user, and"
    )
    sdc("replay", "sqlite:///no", "--rules", "myopic").assert_refused("give --table with the server's config or its")
    assert sdc("simulate", config, "--streams", 0).status == 2
    assert sdc("replay", "sqlite:///no").status == 2


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["publish", CZECH],
        ["widths"],
        ["widths", CZECH, "--flor", "3"],
        ["widths", CZECH, "--floor", "three"],
        ["widths", CZECH, "--floor", "-1"],
        ["widths", CZECH, "--workers", "0"],
        ["widths", CZECH, "--small-count", "0"],
        ["assess", CZECH, "--release", "A*B", "--min-width", "0"],
        ["enumerate", CZECH, "--release", "A*B", "--limit", "0"],
    ],
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


def test_an_interrupt_is_one_line(sdc: Sdc, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*args: object, **settings: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sdc.stages.subject.read_table", interrupted)
    answer = sdc("widths", CZECH)
    assert answer.status == 130
    assert answer.err.strip() == "sdc: interrupted; nothing was published"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["bounds", CZECH], "is no run with a release; give --release"),
        (["assess", CZECH, "--release", "A*B"], "says nothing of the criterion; give --min-width"),
        (["release", CZECH, "--min-width", "6"], "names no method; give --method"),
    ],
)
def test_what_no_config_says_is_asked_for(words: list[str], message: str, sdc: Sdc) -> None:
    sdc(*words).assert_refused(message)


def test_a_config_says_what_its_table_needs(sdc: Sdc, opened: list[int]) -> None:
    """And who works: the first asks two workers."""
    by_options = sdc("assess", CZECH, *RELEASE, "--min-width", 6, "--json").document
    assert sdc("assess", CZECH_YAML, *RELEASE, "--min-width", 6, "--json").document == by_options
    assert opened == [2]
    alone = ["--min-width", 6, "--workers", 1]
    assert sdc("why", CZECH_YAML, "A*B*C*D*F", *alone, "--json").document["conflicts"] == []


# widths


def test_the_published_critical_widths(sdc: Sdc) -> None:
    answer = sdc("widths", CZECH, "--json")
    found = answer.document
    assert list(found) == ["variables", "records", "at_risk_cells", "widths"]
    assert (found["variables"], found["records"], found["at_risk_cells"]) == (list("ABCDEF"), 1841, 3)
    assert all(list(entry) == ["sub_table", "critical_width"] for entry in found["widths"])
    pairs = [("".join(entry["sub_table"]), entry["critical_width"]) for entry in found["widths"]]
    printed = [(name, int(width)) for name, width in (entry.split() for entry in PRINTED_WIDTHS.split(", "))]
    assert len(pairs) == len(dict(pairs)) == 64
    assert pairs[0] == ("ABCDEF", 0)
    assert sorted(pairs[1:37]) == sorted(printed)
    assert [width for _, width in pairs] == sorted(width for _, width in pairs)
    assert {name for name, _ in pairs[1:37]}.isdisjoint(["", *"ABCDEF"])
    assert {dict(pairs)[name] for name in ["", *"ABCDEF"]} == {max(dict(pairs).values())} == {260}
    assert "1841 records, 63 non-zero of 64 cells" in answer.err


def test_a_floor_lists_what_reaches_it(sdc: Sdc) -> None:
    whole = sdc("widths", CZECH, "--json").document["widths"]
    cut = sdc("widths", CZECH, "--json", "--floor", "10").document["widths"]
    assert cut == [entry for entry in whole if entry["critical_width"] >= 10]
    assert len(cut) == 59
    assert sdc("widths", CZECH, "--json", "--floor", "261").document["widths"] == []


def test_variables_choose_and_order_the_columns(sdc: Sdc) -> None:
    found = sdc("widths", CZECH, "--json", "--variables", "F, E,D,C", "--small-count", "60").document
    assert found["variables"] == ["F", "E", "D", "C"]
    assert found["records"] == 1841
    assert found["widths"][0] == {"sub_table": ["F", "E", "D", "C"], "critical_width": 0}
    assert len(found["widths"]) == 16


@pytest.mark.parametrize(("small_count", "at_risk"), [(1, 1), (2, 3), (3, 6), (4, 11)])
def test_the_small_count_says_which_cells_are_at_risk(small_count: int, at_risk: int, sdc: Sdc) -> None:
    counts = [int(line.rsplit(",", 1)[1]) for line in CZECH_CSV.read_text().splitlines()[1:]]
    assert sum(0 < count <= small_count for count in counts) == at_risk
    found = sdc("widths", CZECH, "--json", "--small-count", small_count).document
    assert found["at_risk_cells"] == at_risk


def test_widths_as_text(sdc: Sdc) -> None:
    lines = sdc("widths", CZECH).out.splitlines()
    assert lines[0].split() == ["critical_width", "sub_table"]
    assert lines[2].split() == ["3", "A*B*C*D*F"]
    assert ["260", "(total)"] in [line.split() for line in lines]
    assert len(lines) == 65


def test_of_a_wide_table_the_widest_are_listed_and_it_is_said(
    sdc: Sdc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sdc.stages.assemble.MOST_LISTED", 400)
    table = wide_table(24, 300, 3)
    records = np.repeat(table.codes, table.counts, axis=0).astype(str)
    pq.write_table(
        pa.table({name: records[:, v] for v, name in enumerate(table.schema.names)}), tmp_path / "wide.parquet"
    )
    told = sdc("widths", tmp_path / "wide.parquet", "--json").document
    assert 0 < len(told["widths"]) <= 400
    assert re.match(r"Only sub-tables of critical width at least [0-9]+.* more than 400 reach the 1 that", told["cut"])
    assert told["cut"] in sdc("widths", tmp_path / "wide.parquet").err
    assert "cut" not in sdc("widths", tmp_path / "wide.parquet", "--floor", "200", "--json").document


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_widths_are_written_to_a_file_as_well(suffix: str, sdc: Sdc, tmp_path: Path) -> None:
    out = tmp_path / f"widths{suffix}"
    found = sdc("widths", CZECH, "--json", "--out", out).document["widths"]
    if suffix == ".csv":
        header, *lines = out.read_text().splitlines()
        rows = [(name, int(width)) for name, width in (line.split(",") for line in lines)]
        assert header == "sub_table,critical_width"
    else:
        columns = pq.read_table(out).to_pydict()
        assert list(columns) == ["sub_table", "critical_width"]
        rows = list(zip(*columns.values(), strict=True))
    assert rows == [("*".join(entry["sub_table"]) or "(total)", entry["critical_width"]) for entry in found]
    assert tree(tmp_path) == {out.name}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("widths.txt", r"--out .*widths\.txt.*must end in \.parquet or \.csv"),
        ("widths", r"--out .*widths: .*must end in \.parquet or \.csv"),
        ("none/widths.csv", r"--out .*none/widths\.csv cannot be written: .*name another"),
        ("none/widths.parquet", r"--out .*none/widths\.parquet cannot be written: .*name another"),
        ("file/widths.csv", r"--out .*file/widths\.csv cannot be written: .*name another"),
        ("file/widths.parquet", r"--out .*file/widths\.parquet cannot be written: .*name another"),
        ("folder.csv", r"--out .*folder\.csv cannot be written: .*name another"),
    ],
)
def test_an_out_that_cannot_be_written(name: str, message: str, sdc: Sdc, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder.csv").mkdir()
    sdc("widths", CZECH, "--json", "--out", tmp_path / name).assert_refused(message)
    assert tree(tmp_path) == {"file", "folder.csv"}


def test_an_out_of_the_wrong_kind_is_refused_before_the_work(sdc: Sdc, tmp_path: Path) -> None:
    answer = sdc("widths", tmp_path / "none.csv", "--out", tmp_path / "widths.txt")
    answer.assert_refused(r"--out .*widths\.txt")


# bounds, assess, enumerate


def test_the_published_bounds(sdc: Sdc) -> None:
    found = sdc("bounds", CZECH, *RELEASE, "--json").document
    assert list(found) == ["release", "method", "cells"]
    assert found["release"] == [name.split("*") for name in FRONTIER]
    assert set(found["method"].split(" + ")) <= set(method_names())
    assert found["cells"][0] == {
        "cell": {"A": "no", "B": "yes", "C": "yes", "D": "<140", "E": "<3", "F": "pos"},
        "count": 1,
        "outer": [0, 10],
        "inner": [0, 10],
        "exact": True,
    }
    assert [(cell["count"], cell["outer"], cell["inner"], cell["exact"]) for cell in found["cells"]] == [
        (1, [0, 10], [0, 10], True),
        (2, [0, 9], [0, 9], True),
        (2, [0, 9], [0, 9], True),
    ]


def test_bounds_of_all_cells_have_the_zeros_too(sdc: Sdc) -> None:
    found = sdc("bounds", CZECH, "--release", "B*C", "--release", "A*D*E*F", "--cells", "all", "--json").document
    assert found["release"] == [list("ADEF"), list("BC")]
    assert len(found["cells"]) == 64
    assert sum(cell["count"] for cell in found["cells"]) == 1841
    assert [cell["count"] for cell in found["cells"]].count(0) == 1
    for cell in found["cells"]:
        (lower, upper), (inner_lower, inner_upper) = cell["outer"], cell["inner"]
        assert lower <= inner_lower <= cell["count"] <= inner_upper <= upper
        assert cell["exact"] == (cell["outer"] == cell["inner"])


@pytest.mark.parametrize("method", ["shuttle", "enumeration", "integer-program", "nested", "collapse"])
def test_a_method_is_chosen_by_name_and_says_so(method: str, sdc: Sdc) -> None:
    found = sdc("bounds", CZECH, *RELEASE, "--method", method, "--json").document
    assert found["method"] == method
    for cell, sharp in zip(found["cells"], ([0, 10], [0, 9], [0, 9]), strict=True):
        assert cell["outer"][0] <= sharp[0] <= cell["inner"][0]
        assert cell["inner"][1] <= sharp[1] <= cell["outer"][1]


def test_repeated_and_implied_sub_tables_change_nothing(sdc: Sdc) -> None:
    more = ["--release", "A*B", "--release", "E*D*C*B*A", "--release", "F"]
    assert sdc("bounds", CZECH, *RELEASE, *more, "--json").out == sdc("bounds", CZECH, *RELEASE, "--json").out


def test_bounds_as_text(sdc: Sdc) -> None:
    lines = sdc("bounds", CZECH, *RELEASE).out.splitlines()
    assert lines[0].startswith("method ")
    assert " ".join(lines[2].split()) == "1 [0, 10] [0, 10] A=no B=yes C=yes D=<140 E=<3 F=pos"
    assert len(lines) == 5


def test_bounds_of_sums_of_cells(sdc: Sdc) -> None:
    """Of what is released the count, of at-risk cells what the cells have; all over tables of fractions too."""
    words = ["bounds", CZECH, *RELEASE, "--cells", "A in (no, yes), B=no, D=<140"]
    found = sdc(*words, "--cells", "at-risk", "--json").document
    told, *cells = found["cells"]
    assert list(found) == ["release", "method", "cells"]
    assert told == {
        "cell": {"B": ["no"], "D": ["<140"]},
        "count": 616,
        "outer": [616] * 2,
        "inner": [616] * 2,
        "exact": True,
    }
    assert [cell["outer"] for cell in cells] == [[0, 10], [0, 9], [0, 9]]
    lines = sdc(*words, "--fractional").out.splitlines()
    assert lines[0] == "method fractional"
    assert " ".join(lines[2].split()) == "616 [616, 616] [616, 616] B=no D=<140"


UNTOLD = "a,b,count\nx,u,3\nx,v,\ny,u,2-5\ny,v,\nx,(total),4\n(total),(total),12\n"


def test_a_table_whose_counts_are_not_all_told(sdc: Sdc, tmp_path: Path) -> None:
    """By itself it tells what is known: its own counts, intervals and totals."""
    (tmp_path / "t.csv").write_text(UNTOLD)
    found = sdc("bounds", tmp_path / "t.csv", "--cells", "all", "--json").document
    assert list(found) == ["method", "cells"]
    assert [(row["count"], row["outer"], row["exact"]) for row in found["cells"]] == [
        *((3, [3, 3], True), (1, [1, 1], True), (None, [2, 5], True), (None, [3, 6], True))
    ]
    assert sdc("enumerate", tmp_path / "t.csv", "--json").document == {"feasible_tables": 4, "complete": True}
    lines = sdc("bounds", tmp_path / "t.csv", "--cells", "b=v").out.splitlines()
    assert " ".join(lines[2].split()) == "[4, 7] [4, 7] b=v"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["bounds", "t.csv", "--release", "a"], "what it tells is all that is known of it; leave out --release"),
        (["enumerate", "t.csv", "--variables", "a"], "what it tells is all that is known of it; leave out --variables"),
        (["bounds", "t.csv", "--method", "shuttle"], "are by one solver; leave out the method"),
        (["bounds", "t.csv", "--cells", "some"], "cells = 'some'; choose at-risk or all"),
        (["widths", "t.csv"], "has 2 missing values; give each cell its count, or ask sdc bounds, sdc enumerate"),
        (["bounds", "empty.csv"], "has 1 counts between two numbers that no count is between"),
        (["enumerate", "empty.csv"], "has 1 counts between two numbers that no count is between"),
        (["check", "empty.csv"], "has 1 counts between two numbers that no count is between"),
        (["bounds", "wrong.csv"], "contradicts itself: no counts agree with all that it tells"),
        (["widths", "rounded.csv"], "has rounded counts, 'count_rounded_to_5'; give each cell its count"),
    ],
)
def test_what_is_no_such_table_is_one_message(words: list[str], message: str, sdc: Sdc, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(UNTOLD)
    (tmp_path / "empty.csv").write_text(UNTOLD.replace("2-5", "5-2"))
    (tmp_path / "wrong.csv").write_text(UNTOLD.replace("x,(total),4", "x,(total),2"))
    (tmp_path / "rounded.csv").write_text("a,count_rounded_to_5\nx,5\ny,10\n")
    command, name, *more = words
    before = tree(tmp_path)
    sdc(command, tmp_path / name, *more, "--json").assert_refused(message)
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    ("more", "min_width", "releasable", "sharp"),
    [
        ([], 6, True, 9),
        ([], 9, True, 9),
        ([], 10, False, 9),
        (["A*B*C*E*F"], 5, True, 5),
        (["A*B*C*E*F"], 6, False, 5),
        (["A*B*C*E*F", "B*C*D*E*F"], 3, True, 3),
        (["A*B*C*E*F", "B*C*D*E*F"], 4, False, 3),
        (["A*B*C*E*F", "B*C*D*E*F", "A*B*C*D*F"], 1, True, 1),
        (["A*B*C*E*F", "B*C*D*E*F", "A*B*C*D*F"], 2, False, 1),
    ],
)
def test_the_published_assessments(more: list[str], min_width: int, releasable: bool, sharp: int, sdc: Sdc) -> None:
    words = [word for name in more for word in ("--release", name)]
    found = sdc("assess", CZECH, *RELEASE, *words, "--min-width", min_width, "--json").document
    assert list(found) == [
        "releasable", "min_width_required", "min_width", "at_risk_cells", "undecided_cells", "witnesses",
    ]  # fmt: skip
    assert (found["releasable"], found["min_width_required"]) == (releasable, min_width)
    low, high = found["min_width"]
    assert low <= sharp <= high
    assert found["at_risk_cells"] == 3
    assert found["undecided_cells"] == 0 or not releasable  # a refusal stops at the first proof
    assert bool(found["witnesses"]) == (not releasable)
    for witness in found["witnesses"]:
        assert list(witness) == ["cell", "count", "outer", "inner", "method"]
        assert list(witness["cell"]) == list("ABCDEF")
        assert witness["outer"][1] - witness["outer"][0] < min_width


def test_assess_as_text(sdc: Sdc) -> None:
    assert sdc("assess", CZECH, *RELEASE, "--min-width", "6").out.splitlines()[0] == "releasable"
    refused = sdc("assess", CZECH, *RELEASE, "--min-width", "10")
    assert refused.status == 3  # the answer no is an answer, which scripts must see
    assert refused.out.splitlines()[0] == "not releasable"
    assert refused.out.count("witness ") >= 1


def test_the_posterior_of_the_full_table_is_a_point(sdc: Sdc) -> None:
    found = sdc("posterior", CZECH, "--release", "A*B*C*D*E*F")
    assert "one table alone agrees with the release: it is known, and the posterior is a point" in found.out
    assert "log probability 0.0000; of each table, were they all alike, 0.0000" in found.out


def test_assess_with_a_limit_on_the_posterior(sdc: Sdc) -> None:
    """The bounds are wide enough: what is likely decides, and is said."""
    limit = ["--threshold", "0.1", "--max-above", "0.3"]
    found = sdc("assess", CZECH, *RELEASE, "--min-width", "6", *limit, "--law", "uniform", "--json").document
    likely = found["likely"]
    assert (found["releasable"], likely["is_kept"], likely["cells"]) == (False, False, 3)
    assert likely["limit"]["law"] == "uniform"
    said = sdc("assess", CZECH, *RELEASE, "--min-width", "6", "--max-probability", "0.9").out
    assert said.startswith("releasable\n")
    assert "\nlikely        under the law released " in said
    assert "likely" not in sdc("assess", CZECH, *RELEASE, "--min-width", "6", "--json").document


def test_assess_by_what_claims_cost(sdc: Sdc) -> None:
    """One true count of three is the most likely one, of a probability of 0.34: he claims it above 0.3."""
    asked = ["assess", CZECH, "--release", "A*B*C", "--release", "C*D*E*F", "--min-width", "3", "--loss", "none=0.7"]
    assert sdc(*asked, "--max-loss", "0.34").out.startswith("releasable\n")
    refused = sdc(*asked, "--max-loss", "0.33")
    assert refused.status == 3
    assert "an intruder's 1 right claims cost 0.3333 a cell (at most 0.33 allowed)" in refused.out
    alone = sdc(*asked[:-2], "--max-loss", "0.3")
    assert (alone.status, alone.err.splitlines()[-1]) == (1, "sdc: max_loss is of losses; give both, or none")


def test_a_release_within_a_limit_on_the_posterior(sdc: Sdc) -> None:
    options = ["--min-width", "6", "--steps", "500", "--chains", "1", "--max-probability", "0.02"]
    found = sdc("release", CZECH, "--method", "decomposable", *options)
    assert "likely        under the law released 0 of 3" in found.out
    refused = sdc("release", CZECH, "--method", "ordered", *options)
    assert refused.status == 1
    assert "is not monotone" in refused.err


def test_a_release_that_tells_nothing_by_what_it_leaves_out(sdc: Sdc) -> None:
    options = ["--method", "simulatable", "--min-width", "6", "--draws", "10", "--share", "0.1"]
    found = sdc("release", CZECH, *options)
    assert "reason        Decisions that tell nothing of the table cost " in found.out
    assert "search: A beside 0 sub-tables: accepted, 0 draws break the criterion" in found.err
    assert sdc("release", CZECH, *options, "--seed", "0").out == found.out
    assert sdc("release", CZECH, *options[:-1], "1.0").status == 1


def test_the_published_number_of_feasible_tables(sdc: Sdc) -> None:
    found = sdc("enumerate", CZECH, *RELEASE, "--json").document
    assert list(found.items()) == [("feasible_tables", 810), ("complete", True)]
    assert sdc("enumerate", CZECH, *RELEASE).out == "810 feasible tables\n"


@pytest.mark.parametrize(("limit", "tables", "complete"), [(5, 5, False), (1000, 810, True)])
def test_an_enumeration_may_stop_early(limit: int, tables: int, complete: bool, sdc: Sdc) -> None:
    found = sdc("enumerate", CZECH, *RELEASE, "--limit", limit, "--json").document
    assert found == {"feasible_tables": tables, "complete": complete}


# structural zeros: the one cell without records is known to be impossible

EMPTY_CELL = '- {A: yes, B: no, C: no, D: ">=140", E: ">=3", F: pos}'


def test_enumeration_without_a_limit_ends(sdc: Sdc, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one-way sub-tables of the Czech table have more tables than anybody waits for."""
    monkeypatch.setattr(tables, "UNASKED_STEPS", 1 << 16)
    found = sdc("enumerate", CZECH, "--release", "A*B", "--json")
    assert found.document["complete"] is False
    assert found.document["feasible_tables"] > 1
    assert found.err.endswith("the search was left after some seconds; give --limit to have it go on\n")
    assert sdc("enumerate", CZECH, "--release", "A*B").out.endswith(" feasible tables and maybe more\n")


def test_the_posterior_of_the_at_risk_cells(sdc: Sdc) -> None:
    """The counts from `from` on have probabilities, and are those within the bounds."""
    document = sdc("posterior", CZECH, *RELEASE, "--law", "uniform", "--threshold", "0.2", "--json").document
    cells = document.pop("cells")
    assert document == {
        "law": "uniform",
        "alpha": 1.0,
        "equals_released": False,
        "log_evidence": document["log_evidence"],
        "engine": "enumeration",
        "exact": True,
        "feasible_tables": 810,
        "log_probability_of_true_table": pytest.approx(-np.log(810)),
        "probability_if_uniform": pytest.approx(1 / 810),
        "log_probability_if_uniform": pytest.approx(-np.log(810)),
        "entropy": pytest.approx(np.log(810)),
        "bounds": {"sharp": True, "known": 0, "total_width": 28},
        "losses": None,
        "identified": {"threshold": 0.2, "fraction": 0.0},
        "above": {"threshold": 0.2, "fraction": 0.0},
        "attribute_disclosure": {"share": 1.0, "certain": 0, "impossible": 1, "above_threshold": 0},
        "models": [],
    }
    assert sorted(tuple(cell["outer"]) for cell in cells) == [(0, 9), (0, 9), (0, 10)]
    for cell in cells:
        assert (cell["from"], len(cell["probabilities"]) - 1) == tuple(cell["outer"])
        assert sum(cell["probabilities"]) == pytest.approx(1)
        assert cell["standard_error"] is None
        assert cell["group"]["records"] >= cell["outer"][1]
        all_of_it = cell["from"] + len(cell["probabilities"]) > cell["group"]["records"]
        assert cell["group"]["probability"] == pytest.approx(cell["probabilities"][-1] if all_of_it else 0.0)


def test_sample_uniques(sdc: Sdc, tmp_path: Path) -> None:
    """The text has the document's figures, and a file the cells."""
    words = "uniques", CZECH, "--fraction", "0.1"
    document = sdc(*words, "--json").document
    assert (document["sample_uniques"], document["fraction"], len(document["cells"])) == (1, 0.1, 1)
    (cell,) = document["cells"]
    assert cell["population_unique"] == document["population_uniques"] == pytest.approx(np.exp(1 - cell["population"]))
    assert document["model"] == sdc("fit", CZECH, "--search", "--json").document["search"]["models"][0]["model"]
    lines = sdc(*words, "--out", tmp_path / "uniques.csv").out.splitlines()
    assert lines[0] == f"estimator     Poisson log-linear model {document['model']}; fraction 0.1"
    assert lines[-1].split()[:3] == [
        f"{cell['population_unique']:.4f}",
        f"{cell['match']:.4f}",
        f"{cell['population']:.2f}",
    ]
    assert (tmp_path / "uniques.csv").read_text().startswith("A,B,C,D,E,F,population_unique,match,population\n")
    released = sdc(*words, "--model", "released", *RELEASE, "--json").document
    assert released["model"] == "released"
    assert released["intrusion"] == document["intrusion"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--fraction", "1.5"], "fraction = 1.5: give the share of the population that is in the sample, above 0 and"),
        (["--fraction", "nan"], "fraction = nan: give the share"),
        (["--fraction", "0"], "fraction = 0.0: give the share"),
        ([], "says nothing of the population; give --fraction, or a config with uniques.fraction or table.weight"),
        (["--fraction", "0.1", "--model", "[A,Z]"], "unknown variable 'Z'"),
        (["--fraction", "0.1", "--model", "all"], "model 'all' is none; choose best, released, or a model such as"),
        (["--fraction", "0.1", "--model", "released"], "is no run with a release; give --release"),
        (["--fraction", "0.1", "--release", "A*B"], "--release is for --model released; add that"),
    ],
)
def test_uniques_that_cannot_be(words: list[str], message: str, sdc: Sdc, tmp_path: Path) -> None:
    out = tmp_path / "uniques.csv"
    sdc("uniques", CZECH, *words, "--out", out).assert_refused(message)
    assert not out.exists()


def test_what_claims_cost_by_the_posterior(sdc: Sdc) -> None:
    """The release of [KDSF], under which he claims what is more probable than 0.1, beside the cells themselves."""
    asked = ["posterior", CZECH, *RELEASE, "--loss", "none=0.9", "--loss", "harm=0.5"]
    found = sdc(*asked, "--json").document
    highest = [
        max(range(len(p)), key=p.__getitem__) + one["from"] for one in found["cells"] if (p := one["probabilities"])
    ]
    right = sum(count == one["count"] for count, one in zip(highest, found["cells"], strict=True))
    assert all(max(one["probabilities"]) > 0.1 for one in found["cells"])
    assert found["losses"] == {
        "intruder": {"none": 0.9, "wrong": 1.0},
        "agency": {"right": 1.0, "wrong": 0.5},
        "claims": {"right": right, "wrong": 3 - right, "cells": 3},
        "disclosure_risk": pytest.approx((right + 0.5 * (3 - right)) / 3),
    }
    assert f"losses        an intruder's {right} right and {3 - right} wrong claims cost " in sdc(*asked).out
    for given, message in (
        (["harm=1"], "--loss: none is missing; give none, and any of wrong, right and harm"),
        (["none=1", "pain=1"], "--loss: pain is no loss"),
        (["none=-1"], "none = -1.0 of an intruder's losses; give a number above 0"),
    ):
        refused = sdc(*asked[:2], *RELEASE, *(word for loss in given for word in ("--loss", loss)))
        assert refused.status == 1
        assert message in refused.err


def test_the_posterior_of_an_average(sdc: Sdc) -> None:
    laws = ["--prior", "saturated=0.5", "--prior", "uniform=0.5"]
    models = sdc("posterior", CZECH, *RELEASE, "--law", "average", *laws, "--json").document["models"]
    assert [(m["law"], m["prior"]) for m in models] == [("saturated", 0.5), ("uniform", 0.5)]
    assert sum(m["posterior"] for m in models) == pytest.approx(1)
    assert [m["standard_error"] for m in models] == [None, None]
    assert "log_evidence_standard_error" not in models[0]


def test_an_average_that_is_sampled(sdc: Sdc) -> None:
    """The second model is not decomposable: its weight has a standard error, and so have all others."""
    laws = ["--prior", "uniform=0.999999", "--prior", "[A,B][B,C][A,C][D,E,F]=0.000001"]
    words = ["posterior", CZECH, *RELEASE, "--law", "average", *laws, "--draws", "20", "--chains", "2"]
    document = sdc(*words, "--json").document
    assert (document["engine"], document["exact"]) == ("enumeration and chains", False)
    assert document["log_probability_of_true_table"] is None
    assert document["log_evidence_standard_error"] > 0
    assert set(document["diagnostics"]) >= {"r_hat", "effective_sample_size", "connectivity"}
    uniform, other = document["models"]
    assert uniform["standard_error"] == pytest.approx(other["standard_error"])
    assert "log_evidence_standard_error" not in uniform
    assert other["log_evidence_standard_error"] > 0
    for cell in document["cells"]:
        assert len(cell["standard_error"]) == len(cell["probabilities"])
    lines = sdc(*words).out.splitlines()
    assert lines[1] == "engine        enumeration and chains, sampled; 810 feasible tables"
    assert lines[2].startswith("chains        2 of 20 draws; R-hat ")
    assert ", standard error " in lines[4]


def test_the_fit_of_a_release(sdc: Sdc, tmp_path: Path) -> None:
    out = tmp_path / "fitted.parquet"
    document = sdc("fit", CZECH, *RELEASE, "--json", "--out", out).document
    cells, terms = document.pop("cells"), document.pop("terms")
    assert document == {
        "frontier": [name.split("*") for name in FRONTIER],
        "method": "sparse IPF",
        "sweeps": document["sweeps"],
        "deviation": pytest.approx(0, abs=1e-8),
        "deviance": pytest.approx(7.1286904),
        "pearson": pytest.approx(5.7830253),
        "degrees_of_freedom": 4,
        "fitted_cells": 64,
        "parameters": 60,
        "estimable": 60,
        "facts_not_fitted": 0,
    }
    assert [len(term["sub_table"]) for term in terms] == sorted(len(term["sub_table"]) for term in terms)
    assert sum(term["estimable"] for term in terms) == 60
    assert all(np.sum(term["effects"], axis=0) == pytest.approx(0, abs=1e-9) for term in terms[1:])
    rows = pq.read_table(out).to_pylist()
    assert (len(rows), sum(row["fitted"] for row in rows)) == (64, pytest.approx(1841))
    listed = {tuple(row[name] for name in "ABCDEF"): (row["count"], row["fitted"]) for row in rows}
    assert [cell["count"] for cell in cells] == [1, 2, 2]
    assert all(listed[tuple(cell["cell"].values())] == (cell["count"], cell["fitted"]) for cell in cells)
    dense = sdc("fit", CZECH, *RELEASE, "--form", "dense", "--cells", "all", "--json").document
    assert dense["method"] == "dense IPF"
    assert [cell["fitted"] for cell in dense["cells"]] == pytest.approx([row["fitted"] for row in rows], abs=1e-8)


def test_the_best_model_is_searched_and_fitted(sdc: Sdc) -> None:
    """Of a config without a release any model; with one those that its readers can fit."""
    document = sdc("fit", CZECH_YAML, "--search", "--models", 2, "--json").document
    search = document["search"]
    assert (search["looked_at"], search["complete"], len(search["models"])) == (18154, True, 2)
    assert document["frontier"] == [["A", "C", "E"], ["A", "D", "E"], ["B", "C"], ["F"]]
    assert (document["degrees_of_freedom"], document["deviance"]) == (
        49,
        pytest.approx(search["models"][0]["deviance"]),
    )
    within = sdc("fit", CZECH, *OF_THREES, "--search", "--json").document
    assert all({*names} <= {*"ABC"} or {*names} <= {*"DEF"} for names in within["frontier"])
    priors = ["--prior", f"{search['models'][0]['model']}=1"]
    assert sdc("posterior", CZECH, *RELEASE, "--law", "average", *priors, "--json").status == 0


def test_a_fit_as_text(sdc: Sdc, tmp_path: Path) -> None:
    lines = sdc("fit", CZECH, *OF_THREES, "--search", "--models", 1).out.splitlines()
    assert lines[0] == "searched      64 decomposable models, all; lowest BIC first"
    assert lines[2].endswith(" [A,C] [B,C] [D,E] [F]")
    assert lines[3] == "model         A*C B*C D*E F"
    assert lines[4] == "method        closed form"
    assert (
        lines[6] == "freedom       54: 64 cells with a positive fit, less 10 of 10 parameters, which can be estimated"
    )
    assert [line.split()[0] for line in lines[9:]] == ["1", "2", "2"]
    (tmp_path / "zero.csv").write_text("a,b,c,count\n0,0,1,3\n0,1,0,4\n0,1,1,5\n1,0,0,6\n1,0,1,7\n1,1,0,2\n")
    pairs = ["--release", "a*b", "--release", "a*c", "--release", "b*c"]
    lines = sdc("fit", tmp_path / "zero.csv", *pairs).out.splitlines()
    assert lines[1].startswith("method        sparse IPF, ")
    assert lines[3] == "freedom       0: 6 cells with a positive fit, less 6 of 7 parameters, which can be estimated"
    assert lines[4:6] == [
        "terms         7; in full all can be estimated but these:",
        "              b*c: 0 of 1 parameters can be estimated",
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "is no run with a release; give --release"),
        (["--release", "A*B", "--search"], "C is not in the release, and a model has every variable; release it"),
        (["--release", "A*B", "--form", "round"], "form = 'round': choose sparse or dense"),
        (["--release", "A*B", "--cells", "some"], "cells = 'some'; choose at-risk or all"),
        (["--release", "A*B", "--release", "C*Q"], "'C.Q' names the unknown variable 'Q'"),
    ],
)
def test_a_fit_that_cannot_be(words: list[str], message: str, sdc: Sdc, tmp_path: Path) -> None:
    sdc("fit", CZECH, *words, "--out", tmp_path / "fitted.csv", "--json").assert_refused(message)
    sdc("fit", CZECH, "--release", "A*B", "--out", tmp_path / "fitted.txt").assert_refused("must end in .parquet or")
    assert tree(tmp_path) == set()


def test_a_fit_that_does_not_converge_is_one_message(sdc: Sdc, tmp_path: Path) -> None:
    answer = sdc("fit", CZECH, *RELEASE, "--sweeps", 2, "--out", tmp_path / "fitted.csv", "--json")
    answer.assert_refused("the fit has not converged: after 2 sweeps a marginal is .* records from its count")
    assert tree(tmp_path) == set()


def test_models_are_not_searched_beside_structural_zeros(informed: list[str], sdc: Sdc) -> None:
    words = ["fit", CZECH, *RELEASE, *informed]
    for asked in (words, ["fit", CZECH, *informed]):
        sdc(*asked, "--search").assert_refused("searched by their closed form, which none has beside structural zeros")
    assert sdc(*words, "--json").document["fitted_cells"] == 63


OF_THREES = ["--release", "A*B*C", "--release", "D*E*F"]
SAMPLED = ["posterior", CZECH, *OF_THREES, "--law", "saturated", "--draws", "20", "--chains", "2", "--error", "0.5"]


def test_a_posterior_that_is_sampled(sdc: Sdc, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each probability with its standard error, and whether chains agree."""
    # to list more tables than are listed at most takes seconds
    monkeypatch.setattr("sdc.intruder.posterior.MAX_TABLES", 10_000)
    document = sdc(*SAMPLED, "--json").document
    assert (document["exact"], document["engine"], document["feasible_tables"]) == (False, "chains", None)
    assert set(document["diagnostics"]) >= {"r_hat", "effective_sample_size", "connectivity"}
    for cell in document["cells"]:
        assert len(cell["standard_error"]) == len(cell["probabilities"])
    lines = sdc(*SAMPLED).out.splitlines()
    assert lines[1] == "engine        chains, sampled"
    assert lines[2].startswith("chains        2 of 20 draws; R-hat up to ")
    assert lines[3] == f"errors        up to {document['diagnostics']['error']:.4f}, at most 0.5 as asked for"


def test_an_average_says_how_its_laws_are_weighed(sdc: Sdc) -> None:
    laws = ["--prior", "saturated=0.5", "--prior", "uniform=0.5"]
    lines = sdc("posterior", CZECH, *RELEASE, "--law", "average", *laws).out.splitlines()
    assert [line.split()[0] for line in lines[3:5]] == ["model", "model"]
    assert (
        lines[5].strip()
        == "each weighed by its prior and how probable it makes the release: see the theory in sdc docs"
    )


def test_the_posterior_as_text(sdc: Sdc) -> None:
    """What is all but known comes first, beside its bounds."""
    lines = sdc("posterior", CZECH, *RELEASE, "--law", "[A,B,C,D,E][A,B,D,E,F]").out.splitlines()
    assert lines[0] == "law           [A,B,C,D,E][A,B,D,E,F], which is released here: all that it says is public"
    assert lines[1] == "engine        enumeration, exact; 810 feasible tables"
    assert lines[3] == "identified    0.0000 of the cells: the true count is the most probable, above 0.9"
    assert lines[4] == "above         0.0000 of the cells have a true count of a probability above 0.9"
    assert lines[5] == "bounds        0 cells have one count left, total width 28"
    assert lines[6].startswith("entropy       ")
    assert lines[7] == "groups        0 cells hold all of a released one, above 0.9; 0 certainly do, 1 cannot"
    assert [line.split()[0] for line in lines[9:]] == ["2", "2", "1"]
    shown = [float(line.split()[1]) for line in lines[9:]]
    assert shown == sorted(shown, reverse=True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--law", "likely"], "law 'likely' is none; choose released, uniform, saturated, or"),
        (["--law", "saturated", "--alpha", "0"], "alpha = 0.0; give a number above 0"),
        (["--law", "saturated", "--draws", "0"], "draws = 0; give at least 20"),
        (["--threshold", "1"], "threshold = 1.0; give a probability of at least 0 and below 1"),
        (["--share", "0.5"], "share = 0.5; give a number above 0.5 and at most 1"),
        (
            ["--law", "average", "--prior", "uniform"],
            "--prior uniform: '' is no number; give one such as saturated=0.5",
        ),
        (["--law", "average", "--prior", "uniform=0.5"], "the priors of uniform sum to 0.5; they must sum to 1"),
        (["--cells", "some"], "cells = 'some'; choose at-risk or all"),
    ],
)
def test_a_posterior_that_cannot_be(words: list[str], message: str, sdc: Sdc) -> None:
    sdc("posterior", CZECH, *RELEASE, *words).assert_refused(message)


@pytest.fixture
def informed(tmp_path: Path) -> list[str]:
    (tmp_path / "zeros.yaml").write_text(EMPTY_CELL)
    return ["--structural-zeros", str(tmp_path / "zeros.yaml")]


def test_structural_zeros_narrow_the_bounds(informed: list[str], sdc: Sdc) -> None:
    """195 of the 810 feasible tables have it, and they leave the first at-risk cell [0, 6] instead of [0, 10]."""
    found = sdc("bounds", CZECH, *RELEASE, *informed, "--json").document
    assert [(cell["count"], cell["outer"], cell["exact"]) for cell in found["cells"]] == [
        (1, [0, 6], True), (2, [0, 9], True), (2, [0, 9], True),
    ]  # fmt: skip
    assert sdc("enumerate", CZECH, *RELEASE, *informed, "--json").document["feasible_tables"] == 195


@pytest.mark.parametrize(("min_width", "releasable"), [(6, True), (7, False), (9, False)])
def test_structural_zeros_decide(min_width: int, releasable: bool, informed: list[str], sdc: Sdc) -> None:
    found = sdc("assess", CZECH, *RELEASE, "--min-width", min_width, *informed, "--json").document
    assert (found["releasable"], found["min_width"]) == (releasable, [6, 6])
    released = sdc("release", CZECH, "--method", "ordered", "--min-width", min_width, *informed, "--json").document
    assert released["assessment"]["releasable"] is True
    assert (released["sub_tables_with_total"] == 60) == releasable


def test_critical_widths_do_not_know_structural_zeros(informed: list[str], sdc: Sdc) -> None:
    assert sdc("widths", CZECH, *informed, "--json").document == sdc("widths", CZECH, "--json").document


# release


@pytest.mark.parametrize("min_width", [6, 7, 8, 9])
def test_the_published_release(min_width: int, sdc: Sdc) -> None:
    answer = sdc("release", CZECH, "--method", "ordered", "--min-width", min_width, "--json")
    found = answer.document
    keys = ["method", "frontier", "sub_tables", "sub_tables_with_total", "refused", "utility", "assessment"]
    assert list(found) == keys
    proven = (7, 1) if min_width == 6 else (0, 0)
    assert found["method"] == "ordered"
    assert tuple(found["refused"].values()) == (*proven, 0, 0, 0)
    assert found["frontier"] == [name.split("*") for name in FRONTIER]
    assert (found["sub_tables"], found["sub_tables_with_total"]) == (59, 60)
    assert found["assessment"]["releasable"] is True
    assert found["assessment"]["min_width_required"] == min_width
    assert found["assessment"]["undecided_cells"] == 0
    assert "releasable" in answer.err  # progress


def test_only_the_grand_total_may_be_what_is_released(sdc: Sdc, tmp_path: Path) -> None:
    words = ["release", CZECH, "--method", "ordered", "--min-width", "1000"]
    found = sdc(*words, "--out", tmp_path / "public", "--json").document
    assert found["published"] == "in no ledger; judged beside nothing published before but what was named"
    assert (found["frontier"], found["sub_tables"], found["sub_tables_with_total"]) == ([[]], 0, 1)
    assert tree(tmp_path / "public") == BESIDE
    total = sdc(*words)
    assert "(total)" in total.out
    assert total.status == 3


def test_a_release_is_published_where_a_folder_is_given(sdc: Sdc, tmp_path: Path) -> None:
    words = ["release", CZECH, "--method", "ordered", "--min-width", "6", "--out", tmp_path / "public"]
    answer = sdc(*words)
    assert answer.status == 0
    said = "in no ledger; judged beside nothing published before but what was named"
    assert f"published     {tmp_path / 'public'}, {said}" in answer.out
    stems = [f"{number:03}_{name.replace('*', '-')}" for number, name in enumerate(FRONTIER, start=1)]
    expected = {f"{stem}.{suffix}" for stem in stems for suffix in ("csv", "parquet")}
    assert tree(tmp_path) == {
        "public",
        *(f"public/{name}" for name in (*expected, *BESIDE)),
    }
    before = {path: path.read_bytes() for path in (tmp_path / "public").iterdir()}
    sdc(*words).assert_refused(r"--out .*public exists already; name a folder that does not")
    assert {path: path.read_bytes() for path in (tmp_path / "public").iterdir()} == before


def test_a_publication_is_never_called_after_its_source(sdc: Sdc, tmp_path: Path) -> None:
    """Whose name may be that of a person, or a URL with a token in it."""
    source = tmp_path / "extract-of-miller.csv"
    shutil.copy(CZECH, source)
    words = ["release", source, "--method", "ordered", "--min-width", "6", "--out"]
    for out, more, title in (("one", [], "one"), ("two", ["--title", "Car workers 1981"], "Car workers 1981")):
        assert sdc(*words, tmp_path / out, *more).status == 0
        assert json.loads((tmp_path / out / "datapackage.json").read_text())["title"] == title
        assert not any(b"miller" in path.read_bytes() for path in (tmp_path / out).iterdir())


@pytest.mark.parametrize("out", ["none/public", "file/public"])
def test_a_release_that_cannot_be_published(out: str, sdc: Sdc, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    words = ["release", CZECH, "--method", "ordered", "--min-width", "6", "--json", "--out", tmp_path / out]
    sdc(*words).assert_refused(rf"{Path(out).parent}\b.*; ")
    assert tree(tmp_path) == {"file"}


def test_publishing_that_fails_leaves_nothing(sdc: Sdc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("sdc.stages.publish.check_publication", full)
    words = ["release", CZECH, "--method", "ordered", "--min-width", "6", "--out", tmp_path / "public"]
    sdc(*words).assert_refused("public cannot be written.*No space left on device", status=75)
    assert tree(tmp_path) == set()


def test_a_release_that_is_not_proven_is_not_published(
    sdc: Sdc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search that hands out what it has not certified, as one did once its budget was spent."""
    write_csv(tmp_path / "table.csv", table_columns(scattered(6)))
    search = api.find_release

    def undecided(table: Table, known: Knowledge, method: str, criteria: Criteria, **settings: Any) -> FoundRelease:
        spent = inquiry_of(table, 3, budget=Budget(1e-4, 1e-4)).ask(all_ways(5, 2))
        return replace(search(table, known, method, criteria, **settings), judgement=spent)

    monkeypatch.setattr(api, "find_release", undecided)
    words = ["release", tmp_path / "table.csv", "--method", "ordered", "--min-width", "3", "--out", tmp_path / "public"]
    message = r"the release found is not proven safe \(\d+ cells are undecided, .*required 3\); nothing is published"
    sdc(*words).assert_refused(message, 3)
    assert tree(tmp_path) == {"table.csv"}


ANNEALED = ["release", CZECH, "--method", "decomposable", "--steps", "2000", "--chains", "2"]


@pytest.mark.parametrize(("min_width", "with_total"), [(6, 48), (10, 48), (11, 32), (31, 28), (53, 24), (65, 22)])
def test_the_decomposable_release(min_width: int, with_total: int, sdc: Sdc) -> None:
    """REFERENCE section 2, which checked all 18,154 decomposable graphs on six variables."""
    answer = sdc(*ANNEALED, "--min-width", min_width, "--seed", "3", "--json")
    found = answer.document
    keys = ["method", "frontier", "sub_tables", "sub_tables_with_total", "graph", "utility", "assessment"]
    assert list(found) == keys
    assert (found["method"], found["sub_tables_with_total"]) == ("decomposable", with_total)
    assert found["graph"] == found["frontier"]
    assert found["assessment"]["releasable"] is True
    assert found["assessment"]["min_width"][0] >= min_width
    assert (found["utility"]["reconstruction_method"], found["utility"]["converged"]) == ("closed form", True)
    assert "annealing round" in answer.err


def test_the_best_release_and_its_reason(sdc: Sdc, tmp_path: Path) -> None:
    words = ["release", CZECH, "--method", "best", "--min-width", "6", "--steps", "2000"]
    found = sdc(*words, "--out", tmp_path / "public", "--json").document
    assert (found["method"], found["sub_tables_with_total"]) == ("best", 60)
    assert found["reason"] == "Both methods end at the same release, of utility 59."
    assert found["frontier"] == [name.split("*") for name in FRONTIER]
    assert len(found["graph"]) == 2
    assert (tmp_path / "public" / "datapackage.json").is_file()
    text = sdc(*words).out
    assert "reason        Both methods end at the same release" in text
    assert "utility       sub_tables 59, sub_tables_with_total 60, cells 568, degrees_of_freedom 59, mean" in text


def test_the_same_seed_finds_the_same(sdc: Sdc) -> None:
    words = [*ANNEALED, "--min-width", "40", "--seed", "5", "--json"]
    assert sdc(*words).document == sdc(*words).document


def test_weights_and_a_start_graph(sdc: Sdc) -> None:
    words = [*ANNEALED, "--min-width", "40", "--json", "--start", "[A,E] [B,D]"]
    found = sdc(*words, "--weight", "B*C*E=90", "--weight", "A=2").document
    assert any(set("BCE") <= set(names) for names in found["frontier"])
    assert found["utility"]["weighted"] > found["utility"]["sub_tables"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--start", "[A,B] [B,C] [C,D] [A,D]"], "not decomposable: the cycle A - B - C - D has no chord; add one, or"),
        (["--start", "[A,X]"], "unknown variable 'X'; the table has A, B"),
        (["--start", "A*B"], r"graph 'A\*B' cannot be read; write its cliques as \[a,b\] \[b,c\]"),
        (
            ["--start", "[A,B,C,D,F] [E]"],
            r"start graph is not releasable at the minimum width 6: an at-risk cell has the width 3, and "
            r"the clique A\*B\*C\*D\*F shows it best; choose a minimum width of at most 3, or drop edges of that cl",
        ),
        (
            ["--min-width", "261"],
            "261 is not reached even when only the one-way .* an at-risk cell has .*at most 260, or drop",
        ),
        (["--weight", "X=2"], "weight of 'X': there is no such variable; the table has A, B"),
        (["--weight", "A*X=2"], r"weight of 'A\*X': .*unknown variable 'X'"),
        (["--weight", "A=0"], r"release\.weights\.variables\.A = 0\.0: should be greater than 0 \(a number more"),
        (["--weight", "A=-1"], r"release\.weights\.variables\.A = -1\.0: should be greater than 0"),
        (["--weight", "A=nan"], r"release\.weights\.variables\.A = nan: should be "),
        (["--weight", "A=two"], "--weight A=two: 'two' is no number; give one such as age=2"),
        (["--weight", "A"], "--weight A: '' is no number"),
        (["--weight", "A=1", "--weight", "A=2"], "--weight A=2: give a name and a number.* each name once"),
    ],
)
def test_faulty_annealing_is_one_message(words: list[str], message: str, sdc: Sdc) -> None:
    status = 3 if "not releasable" in message or "not reached" in message else 1
    sdc(*ANNEALED, "--min-width", "6", *words).assert_refused(message, status)


@pytest.mark.parametrize("words", [["--chains", "0"], ["--steps", "0"], ["--seed", "-1"]])
def test_no_chains_and_no_steps_are_wrong_usage(words: list[str], sdc: Sdc) -> None:
    answer = sdc(*ANNEALED, "--min-width", "6", *words)
    assert answer.status == 2
    assert f"Invalid value for '{words[0]}'" in answer.err


def test_an_unknown_method_of_release(sdc: Sdc) -> None:
    answer = sdc("release", CZECH, "--method", "greedy", "--min-width", "6")
    answer.assert_refused(r"'greedy'.*'?ordered'?")


# The number of workers


@pytest.mark.parametrize(
    "words",
    [
        ["widths", CZECH, "--json"],
        ["bounds", CZECH, *RELEASE, "--json"],
        ["release", CZECH, "--method", "ordered", "--min-width", "6", "--json"],
        ["release", CZECH, "--method", "best", "--min-width", "11", "--chains", "3", "--steps", "500", "--json"],
    ],
    ids=lambda words: str(words[0]),
)
def test_two_workers_say_the_same_as_one(words: list[str], sdc: Sdc, opened: list[int]) -> None:
    assert sdc(*words, "--workers", "2").out == sdc(*words, "--workers", "1").out
    assert opened == [2]


def test_a_config_says_who_works_unless_workers_are_asked_for(
    tmp_path: Path, sdc: Sdc, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = list[tuple[str, int]]()

    @contextmanager
    def note(execution: ExecutionConfig) -> Iterator[Executor]:
        opened.append((execution.cluster, execution.workers))
        yield IN_PROCESS

    monkeypatch.setattr("sdc.execution.cluster.open_executor", note)
    config = write_config(tmp_path, execution={"cluster": "local", "workers": 3})
    verbs: list[list[object]] = [["widths", config], ["bounds", config, *RELEASE], ["assess", config, *RELEASE]]
    for words in [*verbs, ["why", config, "A*B"], ["posterior", config, *RELEASE], ["release", config]]:
        sdc(*words)
        sdc(*words, "--workers", 1)
        sdc(*words, "--workers", 2)
        assert opened == [("local", 3), ("in-process", 1), ("local", 2)], words[0]
        opened.clear()
    sdc("widths", CZECH)
    assert opened == [("in-process", 1)]
    # a cluster that is not there is said, and not replaced by this process
    lost = write_config(tmp_path, execution={"cluster": "none.yaml"})
    sdc("widths", lost).assert_refused(r"cluster = 'none\.yaml'")


# plan


def write_config(folder: Path, settings: dict[str, Any] | None = None, **sections: dict[str, Any]) -> Path:
    """The Czech config in the folder, working in one process and writing there, with settings replaced."""
    content = yaml.safe_load(CZECH_YAML.read_text())
    content["table"]["path"] = CZECH
    content["execution"] = {"cluster": "in-process"}
    content["output"] = {"folder": str(folder / "runs")}
    for section, values in sections.items():
        content[section] = {**content.get(section, {}), **values}
    file = folder / "build.yaml"
    file.write_text(yaml.safe_dump({**content, **(settings or {})}, sort_keys=False))
    return file


def test_a_plan_touches_nothing(sdc: Sdc, tmp_path: Path) -> None:
    found = sdc("plan", write_config(tmp_path), "--json").document
    assert list(found) == [
        "run_folder", "records", "full_table_cells", "cells", "at_risk_cells", "sub_tables", "floor", "most_listed",
        "stages", "memory_needed_mib", "memory_allowed_mib", "here_needed_mib", "here_allowed_mib", "disk_needed_mib",
        "disk_free_mib", "seconds", "seconds_at_most",
    ]  # fmt: skip
    sizes = ("records", "full_table_cells", "cells", "at_risk_cells", "sub_tables", "floor")
    assert [found[size] for size in sizes] == [1841, 64, 63, 3, 64, 0]
    assert [stage["name"] for stage in found["stages"]] == [stage.name for stage in STAGES]
    assert all(list(stage) == list(StagePlan.__annotations__) for stage in found["stages"])
    assert {stage["status"] for stage in found["stages"]} == {"to do"}
    assert 0 < found["memory_needed_mib"] <= found["memory_allowed_mib"]
    assert 0 < found["disk_needed_mib"] < found["disk_free_mib"]
    assert tree(tmp_path) == {"build.yaml"}


def test_a_plan_as_text(sdc: Sdc, tmp_path: Path) -> None:
    lines = sdc("plan", write_config(tmp_path)).out.splitlines()
    sizes, lines = lines[:5], lines[5:]
    assert [line.split()[-1] for line in sizes] == ["1,841", "64", "63", "3", "64"]
    assert lines[0].split() == ["stage", "status", "units", "way", "a", "worker", "here", "disk", "seconds"]
    assert [line.split()[0] for line in lines[1:-4]] == [stage.name for stage in STAGES]
    assert re.fullmatch(r"memory +\d+ MiB needed per worker, \d+ MiB allowed", lines[-4])
    assert re.fullmatch(r"memory +\d+ MiB needed here, \d+ MiB allowed", lines[-3])
    assert re.fullmatch(r"disk +[\d.]+ MiB needed, \d+ MiB free", lines[-2])
    assert re.fullmatch(r"time +about \d+( to \d+)? s", lines[-1])


def test_a_quick_plan_tries_nothing(sdc: Sdc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a trial nor a worker; the same sizes and keys, memory that is needed, and no times."""
    config = write_config(tmp_path)
    tried = sdc("plan", config, "--json").document
    for name in ("sdc.stages.plan.trials", "sdc.execution.cluster.open_executor"):
        monkeypatch.setattr(name, lambda *given: pytest.fail("something was tried"))
    found = sdc("plan", config, "--quick", "--json").document
    assert list(found) == list(tried)
    assert {key: found[key] for key in list(found)[:7]} == {key: tried[key] for key in list(tried)[:7]}
    assert [stage["units"] for stage in found["stages"]] == [stage["units"] for stage in tried["stages"]]
    assert {found["seconds"], *(stage["seconds"] for stage in found["stages"])} == {None}
    assert all(0 < stage["memory_mib"] <= found["memory_needed_mib"] for stage in found["stages"])
    text = sdc("plan", config, "--quick").out
    assert "not tried; leave out --quick" in text
    assert tree(tmp_path) == {"build.yaml"}


def test_a_plan_counts_what_is_asked_for_instead_of_what_is_refused(
    sdc: Sdc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three sub-tables with merged categories at most, each as long as bounds of three at-risk cells of a second."""
    config, most = write_config(tmp_path, remedies={"variables": 1}), list[float]()
    monkeypatch.setattr("sdc.stages.plan.trials", lambda t, kinds, e: {k.name: UnitTrial(1.0, 1 << 20) for k in kinds})
    for merged in (0, 3):
        monkeypatch.setattr("sdc.stages.plan.MOST_MERGED", merged)
        stages = sdc("plan", config, "--json").document["stages"]
        most += (stage["seconds_at_most"] for stage in stages if stage["name"] == "remedies")
    assert most[1] - most[0] == 3 * 3


def test_a_plan_says_which_floor_to_set(sdc: Sdc, tmp_path: Path) -> None:
    columns = {f"v{k:02d}": [0, 1, 1, 0] for k in range(27)}
    pq.write_table(pa.table(columns), tmp_path / "records.parquet")
    table = {"path": str(tmp_path / "records.parquet")}
    config = write_config(tmp_path, {"table": table, "widths": {"floor": 0}}, risk={"min_width": 7})
    refusal = r"widths.floor = 0: 27 variables have 2\^27 sub-tables, at most 2\^26 are listed; set widths.floor to 7"
    sdc("plan", config, "--quick", "--json").assert_refused(refusal)
    listed = write_config(tmp_path, {"table": table}, risk={"min_width": 7})
    assert "only those of critical width 7 or more are listed" in sdc("plan", listed, "--quick").out
    assert "are listed, the widest 20,000 where they are more" in sdc("plan", listed, "--quick").out


@pytest.mark.parametrize(("cells", "way"), [(40, "slices"), (1000, "whole")])
def test_a_plan_says_when_a_table_is_searched_in_slices(sdc: Sdc, tmp_path: Path, cells: int, way: str) -> None:
    table = scattered()
    records = np.repeat(table.codes, table.counts, axis=0).T.tolist()
    path = tmp_path / "records.parquet"
    pq.write_table(
        pa.table({variable.name: column for variable, column in zip(table.schema.variables, records, strict=True)}),
        path,
    )
    config = write_config(tmp_path, {"table": {"path": str(path)}}, release={"cells_per_slice": cells})
    stages = sdc("plan", config, "--json").document["stages"]
    ways = {"widths": "whole", "search": way, "assessment": way}
    assert {stage["name"]: stage["way"] for stage in stages if stage["way"]} == ways


def test_a_plan_counts_the_budget_of_sharp_bounds(sdc: Sdc, tmp_path: Path) -> None:
    """As the most that they may take; they may be sharp at once."""
    most = {}
    for settings in ({}, {"assessment": "sharp", "sharp_seconds": 10_000.0}):
        stages = sdc("plan", write_config(tmp_path, settings), "--json").document["stages"]
        (planned,) = (stage for stage in stages if stage["name"] == "assessment")
        assert planned["units"] == 1
        most[len(settings)] = planned["seconds_at_most"]
    assert most[2] > most[0] + 10


def planned_posterior(sdc: Sdc, folder: Path, asked: dict[str, Any], **release: Any) -> dict[str, Any]:
    stages = sdc("plan", write_config(folder, posterior=asked, release=release), "--json").document["stages"]
    return next(stage for stage in stages if stage["name"] == "posterior")


def test_a_plan_counts_what_is_sampled_and_what_is_built_again(sdc: Sdc, tmp_path: Path) -> None:
    """The most that it may take, as which release is found is not known; exact laws take seconds and no worker."""
    exact = planned_posterior(sdc, tmp_path, {}, method="decomposable")
    assert (exact["units"], exact["seconds"], exact["seconds_at_most"]) == (0, 5.0, 5.0)
    sampled = planned_posterior(sdc, tmp_path, {"draws": 100_000, "chains": 2, "laws": ["released", "saturated"]})
    assert sampled["units"] == 2
    assert sampled["seconds_at_most"] > 60 > sampled["seconds"]
    again = planned_posterior(sdc, tmp_path, {"refusals": 10_000}, method="decomposable")
    assert again["seconds_at_most"] > 60 > again["seconds"]


def test_a_build_that_does_not_fit_in_memory(sdc: Sdc, tmp_path: Path) -> None:
    config = write_config(tmp_path, execution={"memory_per_worker": "256MiB"})
    refusal = r"does not fit: this process needs \d+ MiB, 256 MiB are allowed; use fewer workers beside it"
    sdc("plan", config, "--json").assert_refused(refusal)
    build = open_build(config)
    with pytest.raises(SdcError, match=refusal):
        run_all(build, IN_PROCESS)
    assert [path.name for path in build.folder.path.iterdir() if path.is_dir()] == ["table"]


def test_a_release_that_grows_on_a_worker_is_planned_for(tmp_path: Path) -> None:
    table, workers = scattered(1), {"cluster": "local", "workers": 1, "memory_per_worker": "512MiB"}
    open_build(write_config(tmp_path, execution=workers, release={"method": "ordered"})).needs.require(table)
    best = open_build(write_config(tmp_path, execution=workers, release={"method": "best"}))
    with pytest.raises(SdcError, match=r"a worker needs \d+ MiB, 409 MiB are allowed; raise its memory_per_worker"):
        best.needs.require(table)


def test_a_rerun_with_less_memory_is_refused_before_its_first_new_stage(tmp_path: Path) -> None:
    run_all(open_build(write_config(tmp_path)), IN_PROCESS)
    less = open_build(write_config(tmp_path, execution={"memory_per_worker": "256MiB"}, risk={"min_width": 7}))
    with pytest.raises(SdcError, match=r"does not fit: this process needs \d+ MiB, 256 MiB are allowed"):
        run_all(less, IN_PROCESS)
    assert {name: record.status for name, record in less.folder.records().items()} == {
        "table": "reused",
        "widths": "reused",
    }


def test_a_build_that_does_not_fit_on_the_disk(sdc: Sdc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = shutil.disk_usage(tmp_path)._replace(free=1 << 10)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: full)
    answer = sdc("plan", write_config(tmp_path), "--json")
    answer.assert_refused(
        r"does not fit: it needs [\d.]+ MiB of disk, 0 MiB are free in .*; make room, or set output.folder"
    )


# Bad input

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


def _many(categories: int) -> str:
    return "a,b\n" + "".join(f"c{i},{i % 2}\n" for i in range(categories))


def in_config(name: str, message: str, **more: Any) -> Fault:
    """A fault that only the commands with a config meet."""
    return Fault(name, message, commands=("plan", "run"), **more)


def annealed(name: str, message: str, **settings: Any) -> Fault:
    """A fault of the settings of annealing."""
    return in_config(name, message, sections={"release": {"method": "decomposable", "annealing": settings}})


RELEASE_COMMANDS = ("bounds", "assess", "enumerate", "fit")
TOO_LARGE = 10**20
HEAD = "name: build\ntable: {path: table.csv}\n"

FAULTS = [
    # an unreadable or empty file
    Fault("no file", r"table\.csv does not exist; give a Parquet or CSV file", table=None),
    Fault("an empty file", r"table\.csv is empty; give a file with a header and records", table=""),
    Fault("a header alone", r"table\.csv has no records: no rows; give", table="a,b,count\n"),
    Fault("all counts zero", r"table\.csv has no records: all counts are zero; give", table="a,b,count\nx,y,0\n"),
    Fault("not Parquet", r"table\.parquet cannot be read: .*check that it is whole", file="table.parquet"),
    Fault("half a Parquet file", r"table\.parquet cannot be read: .*check", table=b"PAR1abc", file="table.parquet"),
    Fault("not UTF-8", r"table\.csv cannot be read: .*UTF-8", table=b"a,b\n\xff\xfe,y\n"),
    Fault("ragged rows", r"table\.csv cannot be read: .*check that it is whole", table="a,b,count\nx,y,1\nx,2\n"),
    Fault("another kind of file", r"table\.txt is neither Parquet nor CSV; its name should end in", file="table.txt"),
    # a missing column
    Fault("a missing column", r"table\.csv has no column 'zz'; it has a, b, count", variables="a,zz"),
    Fault("the counts as a variable", r"'count' cannot be a variable.*rename the column", variables="a,count"),
    # a column with more categories than the setting allows
    Fault("too many categories", r"column 'a' has more than 256 categories; .*max_categories", table=_many(300)),
    in_config(
        "more than allowed",
        r"column 'a' has more than 2 categories; .*max_categories",
        table=_many(3),
        sections={"table": {"max_categories": 2}},
    ),
    # negative or fractional counts, counts that overflow
    Fault("a negative count", r"column 'count' has a value that is no count: a whole number", table=GOOD + "v,y,-3\n"),
    Fault("a fractional count", r"'count' has a value that is no count: a whole number", table=GOOD + "v,y,1.5\n"),
    Fault("a count in words", r"'count' has a value that is no count: a whole number", table=GOOD + "v,y,many\n"),
    Fault("a count too large", r"'count' has a value that is no count: .*2\^53", table=GOOD + f"v,y,{10**30}\n"),
    Fault("a sum too large", r"the counts sum to more than .*2\^53.*check", table=GOOD + f"v,y,{2**53}\n"),
    # duplicate column names, missing values
    Fault("a column twice", r"table\.csv has 2 columns called 'a'; rename or drop one", table="a,a,b\nx,y,z\n"),
    Fault("missing values", r"missing values: 2 in column 'b'; name a category", table=GOOD + "v,,1\nw,,1\n"),
    Fault("a missing count", r"'count' has 1 missing values; give each cell its count", table=GOOD + "v,y,\n"),
    in_config(
        "an unlisted category",
        r"column 'a' has values outside its categories \['x'\]; add them there",
        sections={"table": {"categories": {"a": ["x"]}}},
    ),
    # an unknown key or a value out of range in the config
    in_config("an empty config", r"build\.yaml is empty, not a mapping; it has the keys name, table", text=""),
    in_config("not YAML", r"build\.yaml is not valid YAML: line 1.*correct it", text="name: ["),
    in_config(
        "an unknown key",
        r"risk\.min_widht is an unknown key; did you mean min_width\?",
        sections={"risk": {"min_widht": 3}},
    ),
    in_config("an unknown section", r"riks is an unknown key; did you mean risk\?", sections={"riks": {}}),
    in_config("a missing key", r"risk is missing; add it", text=HEAD),
    in_config("a key twice", r"line 3 gives 'name' a second time", text=HEAD + "name: b\n"),
    in_config("out of range", r"risk\.min_width = 0: .*at least 1", sections={"risk": {"min_width": 0}}),
    in_config("a word for a number", r"min_width = 'six': ", sections={"risk": {"min_width": "six"}}),
    in_config("yes for a word", r"undecided = True: .*refuse", sections={"risk": {"undecided": True}}),
    in_config("too large a number", rf"small_count\b.*{TOO_LARGE}", sections={"risk": {"small_count": TOO_LARGE}}),
    in_config(
        "a name with a path", r"name = '\.\./up': ", text=HEAD.replace("build", "../up") + "risk: {min_width: 1}\n"
    ),
    in_config(
        "an unknown method",
        r"release\.method = 'greedy': should be 'ordered', 'bisection', 'decomposable', 'best' or 'simulatable'",
        sections={"release": {"method": "greedy"}},
    ),
    # annealing: no chains, no steps, negative temperatures, a faulty start, weights for unknown variables
    annealed("zero chains", r"annealing\.chains = 0: .*from 1 to 1024", chains=0),
    annealed("zero steps", r"annealing\.steps = 0: .*at least 1", steps=0),
    annealed("a negative temperature", r"annealing\.start_temperature = -1: .*more than 0", start_temperature=-1),
    annealed("an end below zero", r"annealing\.end_temperature = -0\.5: .*at most the start", end_temperature=-0.5),
    annealed("a start on other variables", r"annealing\.start = '\[a,zz\]': unknown variable 'zz'", start="[a,zz]"),
    annealed("a start that is no graph", r"annealing\.start = 'a-b': graph 'a-b' cannot be read; write", start="a-b"),
    in_config(
        "weights for unknown variables",
        r"release\.weights: weight of 'zz': there is no such variable; the table has a, b",
        sections={"release": {"weights": {"variables": {"zz": 2}}}},
    ),
    in_config(
        "weights for unknown sub-tables",
        r"release\.weights: weight of 'a\*zz': .*unknown variable 'zz'; the table has a, b",
        sections={"release": {"weights": {"sub_tables": {"a*zz": 2}}}},
    ),
    in_config(
        "weights given twice",
        r"release\.weights: weight of 'b\*a' = 2.0: a\*b has one; give one",
        sections={"release": {"weights": {"sub_tables": {"a*b": 2, "b*a": 2}}}},
    ),
    Fault(
        "a start that is not releasable",
        r"the start graph is not releasable at the minimum width 2: an at-risk cell has the width 0, "
        r"and the clique a\*b shows it best; drop edges of that clique; what it is about is in ",
        sections={"release": {"method": "decomposable", "annealing": {"start": "[a,b]"}}},
        commands=("run",),
        status=3,
    ),
    Fault(
        "too wide a width for one-way sub-tables",
        r"minimum width 40 is not reached even when only the one-way sub-tables are public: an at-risk cell "
        r"has the width 12; choose a minimum width of at most 12, or drop a variable",
        sections={"risk": {"min_width": 40}, "release": {"method": "decomposable"}},
        commands=("run",),
        status=3,
    ),
    in_config(
        "no such cluster", r"cluster = 'none\.yaml': there is no file", sections={"execution": {"cluster": "none.yaml"}}
    ),
    # structural zeros that contradict the data, or do not fit it
    Fault(
        "contradicting zeros",
        r"structural zeros contradict the data: a = x and b = y is given as impossible, but 1 such cells have records; "
        r"correct the pattern or the data",
        zeros="- {a: x, b: y}",
        commands=("widths", "release", "plan", "run"),
    ),
    Fault("zeros of no variable", r"pattern 1 names 'c', no variable of the table; it has a, b", zeros="- {c: x}"),
    Fault("zeros of no category", r"pattern 1: a has no category 'q'; correct it", zeros="- {a: q, b: y}"),
    Fault("zeros in no list", r"zeros\.yaml is a dict, not a list; give one such as", zeros="a: x"),
    Fault("an empty pattern", r"zeros\.yaml: pattern 1 is \{\}; give a mapping", zeros="- {}"),
    in_config(
        "no file of zeros",
        r"table\.structural_zeros = 'none\.yaml': there is no file",
        sections={"table": {"structural_zeros": "none.yaml"}},
    ),
    # no at-risk cell
    Fault("a*b", r"no at-risk cell: .*small count 2", table="a,b,count\nx,y,10\nw,z,20\n", commands=("bounds",)),
    # a release naming an unknown variable
    Fault("a*zz", r"'a\*zz' names the unknown variable 'zz'; the table has a, b", commands=RELEASE_COMMANDS),
    Fault("a*a", r"'a\*a' names 'a' twice; name each variable once", commands=RELEASE_COMMANDS),
    Fault("", r"'' names the unknown variable ''; the table has a, b", commands=RELEASE_COMMANDS),
    # what cannot be reached
    Fault(
        "too wide a width",
        r"minimum width 1000 is not reached even when only the grand total 44 is public; choose",
        sections={"risk": {"min_width": 1000}},
        commands=("run",),
        status=3,
    ),
    Fault(
        "a floor above the width",
        r"floor 9 .*minimum width is 2; set the floor to at most 2",
        sections={"widths": {"floor": 9}},
        commands=("run",),
    ),
    # a run folder that cannot be written, a second run of the same build at the same time
    Fault(
        "a run folder that cannot be written",
        r"run folder .*file/runs/build/\w+ cannot be written: .*set output\.folder",
        sections={"output": {"folder": "FOLDER/file/runs"}},
        commands=("run",),
    ),
    Fault(
        "a second run",
        r"another run of the same build is at work in .*; wait until it ends",
        commands=("run",),
        status=75,
    ),
]

CASES = [
    pytest.param(fault, command, id=f"{fault.name or 'no name'}-{command}")
    for fault in FAULTS
    for command in fault.commands
    if command != "run"
]
OF_BUILDS = [fault for fault in FAULTS if "run" in fault.commands]
IN_CI = scaled(len(OF_BUILDS), fewest=5)
RUN = [fault for n, fault in enumerate(OF_BUILDS) if "plan" not in fault.commands or n < IN_CI]


def assert_nothing_half_written(folder: Path) -> None:
    """No release, nothing unfinished; a stage that is there is whole and in the manifest."""
    left = tree(folder)
    assert not [name for name in left if "release" in Path(name).parts or name.endswith((".unfinished", ".tmp"))]
    for manifest in folder.rglob("manifest.json"):
        run = RunFolder(manifest.parent)
        stages = {path.name for path in run.path.iterdir() if path.is_dir()}
        assert {name: record.output for name, record in run.records().items()} == {
            name: folder_digest(run.stage(name)) for name in stages
        }


@pytest.mark.parametrize(("fault", "command"), CASES)
def test_bad_input_is_one_message(fault: Fault, command: str, sdc: Sdc, tmp_path: Path) -> None:
    fault.write(tmp_path / "in")
    before = tree(tmp_path)
    sdc(*fault.words(command, tmp_path / "in")).assert_refused(fault.message)
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["plan", "nix.yaml"], r"config nix\.yaml does not exist; give a YAML file"),
        (["run", "nix.yaml"], r"config nix\.yaml does not exist; give a YAML file"),
        (["bounds", CZECH, "--release", "A*B", "--method", "guess"], r"unknown method 'guess'; choose one of auto, "),
        (
            ["widths", CZECH, "--structural-zeros", "nix.yaml"],
            r"structural zeros nix\.yaml does not exist; give a YAML",
        ),
        (["bounds", CZECH, "--release", "A*B", "--cells", "some"], r"cells = 'some'; choose at-risk or all"),
        (["bounds", CZECH, *RELEASE, "--method", "decomposable"], r"decomposable"),
        *(
            (
                ["bounds", CZECH, "--release", "A*B", "--sharp", "--seconds", seconds],
                rf"--seconds {seconds}: .* above 0",
            )
            for seconds in ("0", "-1", "nan", "inf")
        ),
        (["bounds", CZECH, "--release", "A*B", "--seconds", "5"], r"--seconds 5 is for sharp bounds; add --sharp"),
        (
            ["bounds", CZECH, "--release", "A*B", "--sharp", "--method", "shuttle"],
            r"--sharp with --method shuttle: sharp bounds are by all methods; leave one out",
        ),
        (
            ["bounds", CZECH, "--release", "A*B", "--cells", "all", "--cells", "at-risk"],
            r"--cells is given 2 times: all, at-risk; give it once",
        ),
        (["bounds", CZECH, *RELEASE, "--cells", "A in ()"], r"a super-cell has no category of 'A'; name one at least"),
        (["bounds", CZECH, *RELEASE, "--cells", "A=maybe"], r"a super-cell names 'maybe', no category of 'A'"),
        (["bounds", CZECH, *RELEASE, "--cells", "A in (no"], r"'A in \(no' is not written such as 'age in"),
        (
            ["bounds", CZECH, *RELEASE, "--cells", "A=no", "--method", "moves"],
            r"the method moves is none of super-cells",
        ),
        (["bounds", CZECH, *RELEASE, "--cells", "A=no", "--sharp"], r"--sharp is of whole counts of single cells"),
        (["bounds", CZECH, *RELEASE, "--fractional", "--method", "shuttle"], r"--fractional with --method shuttle: "),
        (["widths", CZECH, "--variables", ""], r"variables\.0 = '': String should have at least 1 character"),
        (["widths", CZECH, "--variables", "A,A"], r"variable 'A' occurs 2 times; rename or drop one"),
    ],
    ids=lambda value: " ".join(map(str, value[:1] + value[2:])) if isinstance(value, list) else "",
)
def test_bad_options_are_one_message(words: list[object], message: str, sdc: Sdc) -> None:
    sdc(*words, "--json").assert_refused(message)


@pytest.mark.parametrize("option", ["--small-count", "--floor"])
def test_a_number_too_large_to_count_with_is_refused(option: str, sdc: Sdc) -> None:
    assert_too_large(sdc("widths", CZECH, option, TOO_LARGE, "--json"), option, TOO_LARGE)


def test_more_workers_than_a_machine_can_have_are_refused(sdc: Sdc) -> None:
    assert_too_large(sdc("widths", CZECH, "--workers", 2000, "--json"), "--workers", 2000)


def assert_too_large(answer: Answer, option: str, value: int) -> None:
    """Refused as a value, which is told, or as wrong usage of the option."""
    assert answer.status in (1, 2)
    assert answer.out == ""
    assert "Traceback" not in answer.err
    assert (str(value) if answer.status == 1 else option) in answer.err


def test_a_folder_of_parts_that_do_not_agree(sdc: Sdc, tmp_path: Path) -> None:
    sdc("widths", tmp_path, "--json").assert_refused(r"has no parts; give parts of one kind")
    (tmp_path / "1.csv").write_text(GOOD)
    (tmp_path / "2.csv").write_text("a,c,count\nx,y,1\n")
    sdc("widths", tmp_path, "--json").assert_refused(r"2\.csv has the columns a, c, count but 1\.csv has a, b, count")
    pq.write_table(pa.table({"a": ["x"], "b": ["y"]}), tmp_path / "3.parquet")
    sdc("widths", tmp_path, "--json").assert_refused(r"parts of several kinds \(\.csv, \.parquet\)")


# In processes of their own


def test_a_process_answers_with_one_document() -> None:
    answer = process("widths", CZECH, "--json", "--floor", "100")
    assert answer.document["widths"][0]["critical_width"] == 119
    assert answer.err != ""


def test_a_process_refuses_with_one_line(tmp_path: Path) -> None:
    (tmp_path / "table.csv").touch()
    answer = process("release", "table.csv", "--method", "ordered", "--min-width", "2", "--out", "new", cwd=tmp_path)
    answer.assert_refused(r"^sdc: table\.csv is empty; give")
    assert answer.err.count("\n") == 1
    assert tree(tmp_path) == {"table.csv"}
    assert process("widths").status == 2


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, console: Console) -> tuple[Path, dict[str, Answer]]:
    """Every `sdc run` of this file; in CI not all of what `sdc plan` refuses as well."""
    folder = tmp_path_factory.mktemp("runs")
    cases = {}
    with ExitStack() as held:
        for fault in RUN:
            fault.write(folder / fault.name)
            cases[fault.name] = fault.words("run", folder / fault.name)
            if fault.name == "a second run":
                held.enter_context(open_build(folder / fault.name / "build.yaml").folder.locked())
        (folder / "good").mkdir()
        config = str(write_config(folder / "good"))
        cases |= {"good": ["run", config, "--json"], "again": ["run", config, "--json"], "text": ["run", config]}
        answers = {name: console(*words, place=folder) for name, words in cases.items()}
    return folder, {name: Answer(said.status, said.out, said.err) for name, said in answers.items()}


@pytest.mark.parametrize("fault", RUN, ids=lambda fault: fault.name or "no name")
def test_bad_input_of_a_build_is_one_message(fault: Fault, runs: tuple[Path, dict[str, Answer]]) -> None:
    folder, answers = runs
    assert_nothing_half_written(folder / fault.name)
    answers[fault.name].assert_refused(fault.message, fault.status)


def test_a_run_answers_with_one_document(runs: tuple[Path, dict[str, Answer]]) -> None:
    folder, answers = runs
    found = answers["good"].document
    assert list(found) == ["run_folder", "release", "stages"]
    assert Path(found["run_folder"]).parent == folder / "good" / "runs" / "czech_auto_workers"
    assert list(found["release"]) == ["frontier", "sub_tables", "sub_tables_with_total"]
    assert found["release"]["frontier"] == [name.split("*") for name in FRONTIER]
    assert (found["release"]["sub_tables"], found["release"]["sub_tables_with_total"]) == (59, 60)
    assert [list(stage) for stage in found["stages"]] == [
        ["name", "status", "seconds", "driver_mib", "worker_mib"]
    ] * len(STAGES)
    assert [(s["name"], s["status"]) for s in found["stages"]] == [(stage.name, "done") for stage in STAGES]
    assert (Path(found["run_folder"]) / "release" / "datapackage.json").is_file()
    for stage in STAGES:  # progress
        assert re.search(rf"^{stage.name}: done in", answers["good"].err, re.MULTILINE)


def test_a_second_run_reuses_every_stage(runs: tuple[Path, dict[str, Answer]]) -> None:
    _, answers = runs
    first, again = answers["good"].document, answers["again"].document
    assert [(s["name"], s["status"]) for s in again["stages"]] == [(stage.name, "reused") for stage in STAGES]
    assert again["run_folder"] == first["run_folder"]
    assert again["release"] == first["release"]


def test_a_run_as_text_says_what_to_publish(runs: tuple[Path, dict[str, Answer]]) -> None:
    _, answers = runs
    folder = answers["good"].document["run_folder"]
    text = answers["text"].out
    assert answers["text"].status == 0
    assert [name for name in FRONTIER if name in text] == FRONTIER
    assert f"{folder}/release\n" in text
    assert f"{folder}/confidential/report.html\n" in text


def test_a_plan_after_a_run_reuses_every_stage(runs: tuple[Path, dict[str, Answer]], sdc: Sdc) -> None:
    folder, _ = runs
    stages = sdc("plan", folder / "good" / "build.yaml", "--json").document["stages"]
    assert [(s["name"], s["status"]) for s in stages] == [(stage.name, "to reuse") for stage in STAGES]


# Run folders


def test_a_run_ends_with_where_time_and_memory_went(runs: tuple[Path, dict[str, Answer]]) -> None:
    _, answers = runs
    lines = answers["good"].err.splitlines()
    assert lines[0].endswith(".yaml: reads the config")
    assert lines[1] == "czech_auto_workers: config and columns are right"
    table = lines[lines.index(next(line for line in lines if line.startswith("stage  "))) :]
    assert [line.split()[:2] for line in table[1:]] == [*([stage.name, "done"] for stage in STAGES), ["in", "all"]]
    assert all(re.search(r" \d+%  +\d+ MiB", line) for line in table[1:-1])


def test_the_status_of_a_run(runs: tuple[Path, dict[str, Answer]], sdc: Sdc) -> None:
    _, answers = runs
    folder = answers["good"].document["run_folder"]
    status = sdc("status", folder, "--json").document
    assert (status["state"], status["stages_done"], status["running"], status["error"]) == ("finished", 6, None, None)
    assert [(stage["name"], stage["status"]) for stage in status["stages"]] == [(s.name, "reused") for s in STAGES]
    text = sdc("status", folder).out
    assert text.startswith(f"czech_auto_workers {Path(folder).name}: finished, started 20")
    assert re.search(r"^release +reused +\d+\.\d +\d+ MiB", text, re.MULTILINE)


def test_a_list_of_runs(runs: tuple[Path, dict[str, Answer]], sdc: Sdc) -> None:
    folder, answers = runs
    found = sdc("list", folder / "good" / "runs", "--json").document
    assert [(run["run_folder"], run["state"]) for run in found["runs"]] == [
        (answers["good"].document["run_folder"], "finished")
    ]
    text = sdc("list", folder / "good" / "runs").out.splitlines()
    assert text[1].split()[:6] == ["czech_auto_workers", found["runs"][0]["digest"], "finished", "6", "of", "6"]


def test_cleaning_says_first_what_would_go(sdc: Sdc, tmp_path: Path) -> None:
    for digest in "ab":
        folder = RunFolder(tmp_path / "runs" / "build" / digest)
        with folder.locked():
            folder.begin(Manifest("build", planned=("table",)))
    before = tree(tmp_path)
    assert sdc("clean", tmp_path / "runs", "--json").document["runs"] == []
    found = sdc("clean", tmp_path / "runs", "--unfinished", "--json").document
    assert (found["removed"], [run["digest"] for run in found["runs"]]) == (False, ["a", "b"])
    answer = sdc("clean", tmp_path / "runs", "--unfinished")
    assert answer.out.startswith("2 runs, 0.0 MB; --yes removes them")
    assert answer.err.splitlines()[0] == f"would remove {tmp_path}/runs/build/a: killed"
    assert tree(tmp_path) == before
    assert sdc("clean", tmp_path / "runs", "--unfinished", "--yes", "--json").document["removed"] is True
    assert tree(tmp_path) == {"runs", "runs/build"}


@pytest.mark.parametrize("words", [["status", "none"], ["list", "none"], ["clean", "none"]])
def test_run_folders_that_are_not_there(words: list[str], sdc: Sdc) -> None:
    sdc(*words).assert_refused(r"^sdc: none is no (run )?folder")
