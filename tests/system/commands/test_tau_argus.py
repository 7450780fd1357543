"""The primary cells of a batch of tau-ARGUS are those that pytauargus names, and the config of its counts builds."""

import contextlib
import csv
import re
from collections import Counter
from itertools import product
from pathlib import Path

import pytest

import sdc
from sdc.config.file import read_config
from sdc.data.tau_argus import converted
from tests.helpers.builds import built
from tests.helpers.tau_argus import BATCHES, batch

Status = dict[tuple[str, ...], tuple[str, float]]


def status_of(path: Path, folder: Path) -> list[tuple[list[str], Status]]:
    """The variables of each table of a batch, and of each cell, the totals among them, its status for pytauargus and
    the sum of its protection levels.

    pytauargus 0.6.0 has no tables of counts: there they are sums of 1.
    """
    from pytauargus.engine import run_batch

    text = re.sub(r"<(?:WRITETABLE|LOGBOOK|SOLVER|SUPPRESS)>.*\n", "", path.read_text())
    tables = re.findall(r"<SPECIFYTABLE>\s*([^|\n]*)", text)
    text += "".join(f'<WRITETABLE> ({n},5,SO+,"{folder / f"{n}.tab"}")\n' for n in range(1, len(tables) + 1))
    path.write_text(text.replace("C:\\data\\", "").replace("<freq>", "One"))
    with contextlib.chdir(folder):
        run_batch(str(path))
    found = []
    for n, by in enumerate(tables, start=1):
        names = re.findall(r'"([^"]+)"', by)
        rows = [line.split(";") for line in (folder / f"{n}.tab").read_text().splitlines() if line]
        status = {
            tuple(one.strip(' "') for one in row[: len(names)]): (row[-3].strip(), float(row[-2]) + float(row[-1]))
            for row in rows
        }
        found.append((names, status))
    return found


@pytest.mark.parametrize("name", BATCHES)
def test_the_primary_cells_are_those_of_pytauargus(name: str, tmp_path: Path) -> None:
    pytest.importorskip("pytauargus")
    path = batch(tmp_path, name)
    text, records, facts = converted(path, "records.csv")
    (tmp_path / "records.csv").write_text(records)
    (tmp_path / "config.yaml").write_text(text)
    risk, rows = read_config(tmp_path / "config.yaml").risk, list(csv.DictReader(records.splitlines()))
    commands = re.findall(r"`sdc magnitude ([^`]*)`", " ".join(facts["differences"]))
    sums = [dict(zip(words[1::2], words[2::2], strict=True)) for words in map(str.split, commands)]
    for names, status in status_of(path, tmp_path):
        finest = [{row[v] for row in rows} for v in names]
        inside = {cell for cell in status if all(c in own for c, own in zip(cell, finest, strict=True))}
        named = {cell for cell in inside if status[cell][0] == "U"}
        assert named
        if any(f"{'*'.join(names)} is a table of sums" in one for one in facts["differences"]) and sums:
            options = sums.pop()
            found = sdc.magnitude_table(
                tmp_path / "records.csv",
                value=options["--value"],
                by=options["--by"],
                contributors=int(options["--contributors"]) if "--contributors" in options else None,
                dominance=tuple(map(int, options["--dominance"].split(":"))) if "--dominance" in options else None,
                percent=options.get("--percent"),
            )
            cells = (tuple(one.cell.get(v, "(all)") for v in names) for one in found[0].failing)
            assert named == {cell for cell in cells if "(all)" not in cell}
        else:
            counts = Counter(tuple(row[v] for v in names) for row in rows)
            assert named == {cell for cell, n in counts.items() if n <= risk.small_count}
            assert risk.min_width >= max(status[cell][1] for cell in named)


def test_the_config_of_a_batch_builds(tmp_path: Path) -> None:
    text, records, _ = converted(batch(tmp_path, "frequencies"), "records.csv")
    (tmp_path / "records.csv").write_text(records)
    (tmp_path / "config.yaml").write_text(text)
    release = built(tmp_path / "config.yaml").folder.path / "release"
    counts = Counter((row["Region"], row["Size"]) for row in csv.DictReader(records.splitlines()))
    (published,) = release.glob("*_Region-Size.csv")
    cells = {(row["Region"], row["Size"]): row["count"] for row in csv.DictReader(published.read_text().splitlines())}
    small = {cell for cell in product(*map(set, zip(*counts, strict=True))) if 0 < counts[cell] <= 3}
    assert small
    assert all(cells[cell] == "" for cell in small)
    assert all(n in ("", str(counts[cell])) for cell, n in cells.items())
