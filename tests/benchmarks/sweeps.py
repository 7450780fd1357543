"""The sweep as a job: from a shell, by `python -m` and as a deployment, on a local cluster and on a SLURM of one node.

    python tests/benchmarks/sweeps.py [forty] [large] [local] [slurm]

forty  40 variables, 20,000 records, widths of 100 and more; workers of 1 GiB
large  a table that a worker of 600 MiB cannot hold: 12 variables, 22,000,000 records, some 17 million cells in 64 parts

Each way has another number of workers, one, two and four. All must find the same bytes, and no worker may take more
than its memory. Some 30 minutes, half of it SLURM, which is left out where it is not installed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from side_by_side import ROOT, check, machine, say, show

from sdc.stages.build import open_build
from sdc.storage.run_folder import folder_digest

sys.path.append(str(ROOT))
from tests.prefect_home import PrefectServer, made_home
from tests.slurm import missing, running_slurm

SEED, RECORDS_AT_ONCE, SECONDS = 2026, 1 << 20, 1500
LARGE_SIZES = (12, 10, 8, 8, 6, 5, 4, 3, 3, 2, 2, 2)
HEADER = ["table, cluster, way", "workers", "status", "s", "worker MiB", "listed", "visited", "widths"]


class Asked(NamedTuple):
    """A table by its records, with what a config says of it and of the memory of workers."""

    records: int
    sizes: tuple[int, ...]
    skew: float
    parts: int
    floor: int
    memory: str


TABLES = {
    "forty": Asked(20_000, (2, 3, 4, 5) * 10, 1.0, 1, 100, "1GiB"),
    "large": Asked(22_000_000, LARGE_SIZES, 1.15, 64, 0, "600MiB"),
}


def main() -> None:
    words = sys.argv[1:]
    say(machine())
    tables = [name for name in TABLES if name in words] or [*TABLES]
    clusters = [name for name in ("local", "slurm") if name in words] or ["local", "slurm"]
    if missing():
        say(f"no SLURM: {missing()}")
        clusters = [name for name in clusters if name != "slurm"]
    rows: list[list[object]] = []
    with tempfile.TemporaryDirectory() as folder:
        for name in tables:
            records = Path(folder, f"{name}.parquet")
            write_records(records, TABLES[name])
            for cluster in clusters:
                rows += swept(Path(folder), name, records, cluster)
    show("sweeps", HEADER, rows)
    for name in tables:
        found = {row[-1] for row in rows if str(row[0]).startswith(name)}
        check(len(found) == 1, f"the widths of {name}: {found}")


def write_records(path: Path, asked: Asked) -> None:
    """Records whose categories are the rarer the higher their number: some cells have many, most have one."""
    rng, left = np.random.default_rng(SEED), asked.records
    schema = pa.schema([(f"v{n:02}", pa.uint8()) for n in range(len(asked.sizes))])
    with pq.ParquetWriter(path, schema) as writer:
        while left > 0:
            number = min(left, RECORDS_AT_ONCE)
            drawn = [np.floor(size * rng.random(number) ** asked.skew).astype(np.uint8) for size in asked.sizes]
            writer.write_table(pa.table(drawn, schema=schema))
            left -= number


def swept(folder: Path, name: str, records: Path, cluster: str) -> Iterator[list[object]]:
    """A row for each way, with one worker, two and four."""
    with slurm_or_none(folder / f"slurm-{name}", cluster) as conf:
        for (way, sweep), workers in zip(WAYS.items(), (1, 2, 4), strict=True):
            place = folder / f"{name}-{cluster}-{way}"
            write_config(place, records, TABLES[name], cluster, workers)
            begun = time.perf_counter()
            status = sweep(place, os.environ | {"PYTHONPATH": str(ROOT), **conf})
            taken = time.perf_counter() - begun
            found = found_in(place) if status == 0 else ["", "", "", ""]
            row = [f"{name}, {cluster}, {way}", workers, status, round(taken), *found]
            say(f"  {row}")
            yield row


@contextmanager
def slurm_or_none(folder: Path, cluster: str) -> Iterator[dict[str, str]]:
    if cluster == "local":
        yield {}
        return
    folder.mkdir()
    with running_slurm(folder) as slurm:
        yield {"SLURM_CONF": str(slurm.conf)}
        check(not slurm.jobs(), "jobs are left in the queue")


def write_config(place: Path, records: Path, asked: Asked, cluster: str, workers: int) -> None:
    place.mkdir()
    (place / "scratch").mkdir()
    content = {
        "name": "swept",
        "table": {"path": str(records), "partitions": asked.parts},
        "risk": {"min_width": 3},
        "widths": {"floor": asked.floor},
        "execution": {"cluster": "cluster.yaml"},
        "output": {"folder": "runs"},
    }
    local = {"kind": "local", "workers": workers, "memory_per_worker": asked.memory}
    slurm = {**local, "kind": "slurm", "walltime": "00:30:00", "scratch": "scratch", "interface": "lo"}
    (place / "build.yaml").write_text(yaml.safe_dump(content))
    (place / "cluster.yaml").write_text(yaml.safe_dump(local if cluster == "local" else slurm))


def found_in(place: Path) -> list[object]:
    """The memory of the largest worker, how many sub-tables were listed and visited, and the digest of all widths."""
    os.chdir(place)
    build = open_build(Path("build.yaml"))
    most = max(record.worker_mib or 0 for record in build.folder.records().values())
    widths = build.made.widths
    return [most, len(widths), widths.visited, folder_digest(build.folder.stage("widths"))[:8]]


# Ways


def from_a_shell(place: Path, environment: dict[str, str]) -> int:
    return run(place, environment | with_home(place), "sdc.commands.cli", "sweep", "build.yaml")


def as_a_module(place: Path, environment: dict[str, str]) -> int:
    return run(place, environment | with_home(place), "flows.width_sweep", "build.yaml")


def as_a_deployment(place: Path, environment: dict[str, str]) -> int:
    """Registered at a server, and run by a worker of its pool; 1 where the run did not complete."""
    deployments: dict[str, Any] = yaml.safe_load((ROOT / "cluster" / "prefect.yaml").read_text())
    deployments["deployments"] = [one for one in deployments["deployments"] if one["name"] == "weekly-widths"]
    deployments["deployments"][0]["parameters"] = {"config": "build.yaml"}
    (place / "prefect.yaml").write_text(yaml.safe_dump(deployments))
    server = PrefectServer(place)
    server.start()
    try:
        here = environment | server.environment
        asked = [
            ("flows.deployments", "prefect.yaml"),
            ("prefect", "deployment", "run", "width-sweep/weekly-widths"),
            ("prefect", "worker", "start", "--pool", "sdc", "--run-once"),
        ]
        for words in asked:
            run(place, here, *words)
    finally:
        server.end()
    return 0 if list(place.glob("runs/*/*/widths")) else 1


def with_home(place: Path) -> dict[str, str]:
    return {"PREFECT_HOME": str(made_home(place / "prefect"))}


def run(place: Path, environment: dict[str, str], *words: str) -> int:
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=place, env=environment, capture_output=True, text=True, timeout=SECONDS
    )
    if done.returncode:
        say(done.stderr[-2000:])
    return done.returncode


WAYS: dict[str, Callable[[Path, dict[str, str]], int]] = {
    "sdc sweep": from_a_shell,
    "python -m": as_a_module,
    "deployment": as_a_deployment,
}


if __name__ == "__main__":
    main()
