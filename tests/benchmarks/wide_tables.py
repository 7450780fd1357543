"""Builds of wide tables by a default config: 40 variables and 60,000 records, and 63 variables.

    python tests/benchmarks/wide_tables.py [VARIABLESxRECORDS ...]

Each build is `sdc run` with a name, a table and min_width 3, and nothing else; then `sdc verify`. The records are of
latent classes, so that variables depend on each other, and most are alone in their cell. Printed are the floor that was
chosen, how many sub-tables were listed, what went out, and the time and the largest memory of this process and of a
worker. Some minutes each.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from side_by_side import ROOT, check, machine, say, seconds, show

from sdc.storage.results import read_widths
from sdc.storage.run_folder import RunFolder

sys.path.append(str(ROOT))
from tests.wide import wide_table

SIZES, SEED, MIN_WIDTH = ("40x60000", "63x20000", "63x60000"), 40, 3
HEADER = ["table", "floor", "listed", "sub-tables", "verified", "s", "widths s", "search s", "here MiB", "worker MiB"]


def main() -> None:
    say(machine())
    with tempfile.TemporaryDirectory(prefix="sdc-wide-") as folder:
        rows = [built(Path(folder), size) for size in sys.argv[1:] or SIZES]
    show("builds by a default config", HEADER, rows)
    check(all(row[4] == "yes" for row in rows), "what was published is not verified")


def built(folder: Path, size: str) -> list[object]:
    """One build, and what it was and took."""
    variables, records = map(int, size.split("x"))
    write_records(folder / f"{size}.parquet", variables, records)
    config = {"name": f"wide{size}", "table": {"path": f"{size}.parquet"}, "risk": {"min_width": MIN_WIDTH}}
    (folder / f"{size}.yaml").write_text(yaml.safe_dump({**config, "output": {"folder": str(folder / "runs")}}))
    out = folder / f"{size}.json"
    wall = seconds(lambda: out.write_text(sdc("run", str(folder / f"{size}.yaml"), "--json")))
    found = json.loads(out.read_text())
    run = RunFolder(Path(found["run_folder"]))
    widths, stages = read_widths(run.stage("widths")), run.records().values()
    say(f"{size}: {found.get('cut', 'all that reach the width were listed')}")
    took = {stage.name: stage.seconds for stage in stages}
    here, worker = (max(getattr(stage, name) or 0 for stage in stages) for name in ("driver_mib", "worker_mib"))
    verified = json.loads(sdc("verify", str(run.path), "--json"))["verified"]
    sizes = widths.floor, len(widths), found["release"]["sub_tables"], "yes" if verified else "no"
    return [size, *sizes, wall, took["widths"], took["search"], here, worker]


def write_records(path: Path, variables: int, records: int) -> None:
    table = wide_table(variables, records, SEED)
    codes = np.repeat(table.codes, table.counts, axis=0).astype(np.uint8)
    pq.write_table(pa.table({name: codes[:, v] for v, name in enumerate(table.schema.names)}), path)


def sdc(*arguments: str) -> str:
    """What a command prints; it says its progress on standard error."""
    command = [sys.executable, "-m", "sdc.commands.cli", *arguments]
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout


if __name__ == "__main__":
    main()
