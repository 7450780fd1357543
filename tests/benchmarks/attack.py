"""Red team: what `sdc attack` guesses right of releases of real tables, beside independence, widths and the posterior.

    python tests/benchmarks/attack.py [--seeds N] [czech cps8 census]

Of each table its release is built and reconstructed from the published folder alone, from so many seeds (3) of the
mixture, which needs `python -m pip install -c constraints.txt '.[attack]'`. A row an intruder: at-risk cells
that are guessed right, those of them where the bounds prove a record, cells that are guessed to be small, and all cells
that are guessed right. Then the widths of the at-risk cells, and of the Czech table the mean probability of their true
counts by the law `uniform`.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from real_tables import command, configs_of_all
from side_by_side import ROOT, data_file, machine, say, timed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", choices=[*configs()])
    parser.add_argument("--seeds", type=int, default=3)
    chosen = parser.parse_args()
    say(machine())
    for name in chosen.tables or configs():
        with tempfile.TemporaryDirectory() as folder:
            attacked(name, configs()[name], Path(folder), chosen.seeds)


def configs() -> dict[str, dict[str, Any]]:
    czech = yaml.safe_load((ROOT / "configs" / "czech_auto_workers.yaml").read_text())
    czech["table"]["path"] = str(ROOT / "configs" / "czech_auto_workers.csv")
    small = {"small_count": 2, "min_width": 3}
    cps8 = {"name": "cps8", "table": {"path": str(data_file("cps8.parquet"))}, "risk": small}
    return {"czech": {**czech, "posterior": {"laws": ["uniform"]}}, "cps8": cps8, "census": configs_of_all()["census"]}


def attacked(name: str, config: dict[str, Any], folder: Path, seeds: int) -> None:
    (folder / "build.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    built, fault = command(ROOT, folder, "run", "build.yaml", "--workers", "2")
    if fault:
        say(f"{name}: {fault}")
        return
    run = folder / built["run_folder"]
    words = "attack", str(run / "release"), "--truth", str(run), "--seeds", str(seeds)
    (told, fault), took, processor = timed(lambda: command(ROOT, folder, *words))
    if fault:
        say(f"{name}: {fault}")
        return
    truth = told["truth"]
    widths = np.array([high - low for low, high in (one["outer"] for one in truth["cells"])])
    say(
        f"{name}: {told['records']:,} records, {told['cells']:,} cells, {truth['at_risk_cells']:,} at risk, "
        f"{truth['certain_cells']:,} with a record for certain; {built['release']['sub_tables']:,} sub-tables, "
        f"{told['telling']} fitted in {took:.0f} s, {processor:.0f} s of processor time"
    )
    for by, row in {**truth["right"], "mean": truth["mean"] or {}}.items():
        if row:
            say("    {at_risk:10,.6g} {provable:10,.6g} {claimed:10,.6g} {cells:10,.6g}  ".format(**row) + by)
    say(
        f"    widths {widths.min()} to {widths.max()}, median {np.median(widths):g}; {truth['min_width']} promised: "
        f"{'kept' if truth['width_kept'] else 'not shown to be kept'}"
    )
    if likely := [probability for one in truth["cells"] for probability in one["posterior"].values()]:
        say(f"    true counts have a mean probability of {np.mean(likely):.4f} by the law uniform")


if __name__ == "__main__":
    main()
