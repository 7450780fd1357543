"""The page of results in Markdown: the table, what each row timed, the limits, the machine, and the versions."""

import datetime
import os
import platform
import subprocess
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median

from sdc.version import VERSION
from tests.benchmarks.measure import ROOT, Limits, NotMeasured, Row

PACKAGES = (
    "numpy",
    "numba",
    "scipy",
    "pyarrow",
    "ortools",
    "dask",
    "polars",
    "duckdb",
    "highspy",
    "ipfn",
    "pandas",
    "pytauargus",
)
UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def page(rows: Sequence[Row | NotMeasured], limits: Limits, load: float, took: float) -> str:
    """All of it; `load` is the machine's before the run, `took` the seconds of the whole command."""
    missing = [row for row in rows if isinstance(row, NotMeasured)]
    lines = [
        "# Benchmarks",
        "",
        "Times are medians (least to most) of runs in turn; the ratio is the rival's time over ours, so above 1 ours "
        "is faster.",
        "",
        "| | job | ours | rival | theirs | ratio | share of limit |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        *(f"| {number} | {line(row)} |" for number, row in enumerate(rows, 1)),
        "",
        f"{count(len(missing), 'row')} not measured." if missing else "All rows were measured.",
        "",
        "## Notes",
        "",
        "The command fails where the answers of both differ. Ours and the rival have at most two threads or processes "
        "each. Kernels are compiled before the clock starts.",
        "",
        *(f"{number}. {note(row)}" for number, row in enumerate(rows, 1)),
        "",
        "## Limits",
        "",
        *limits_of(limits),
        "",
        "## Machine, date and versions",
        "",
        *machine(load, took),
    ]
    return "\n".join(lines) + "\n"


def line(row: Row | NotMeasured) -> str:
    if isinstance(row, NotMeasured):
        return " | ".join([row.job, "not measured", row.rival, "not measured", "", ""])
    if row.stopped:
        ours, ratio = f"more than {shown(row.ours[0])}", f"below {figure(row.ratios[0])}"
        return " | ".join([row.job, ours, row.rival, times(row.theirs), ratio, row.limit])
    unit = f" {row.unit}" if row.unit else ""
    ratio = f"{figure(median(row.ratios))} ({figure(min(row.ratios))} to {figure(max(row.ratios))})"
    return " | ".join([row.job, times(row.ours) + unit, row.rival, times(row.theirs) + unit, ratio, row.limit])


def note(row: Row | NotMeasured) -> str:
    said = f"not measured: {row.reason}" if isinstance(row, NotMeasured) else row.note
    return f"{said[:1].upper()}{said[1:]}."


def times(seconds: Sequence[float]) -> str:
    """Median, least and most in the unit of the median."""
    scale, unit = unit_of(median(seconds))
    return (
        f"{figure(median(seconds) / scale)} {unit} ({figure(min(seconds) / scale)} to {figure(max(seconds) / scale)})"
    )


def shown(seconds: float) -> str:
    scale, unit = unit_of(seconds)
    return f"{figure(seconds / scale)} {unit}"


def unit_of(seconds: float) -> tuple[float, str]:
    return next(((scale, unit) for scale, unit in UNITS if seconds >= scale), UNITS[-1])


def figure(value: float) -> str:
    """Three digits where they mean something: 1,140, 21.4, 0.0071."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}" if value >= 1 else f"{value:.2g}"


def count(number: int, what: str) -> str:
    return f"{number or 'No'} {what}{'' if number == 1 else 's'}"


def limits_of(limits: Limits) -> list[str]:
    one, two = (f"{rate / 1e9:.1f} GB/s" for rate in limits.copy)
    return [
        f"- **Memory bandwidth**: copying arrays of 256 MiB moves {one} with one process and {two} with two, reads and "
        "writes counted. The share of a row counts the bytes of its files, and for counting one byte a code.",
        f"- **Additions**: one process does {limits.additions / 1e9:.1f} billion a second of integers in the cache. "
        "The share of a row counts the least that its result needs. For critical widths that is one addition for each "
        "at-risk cell and sub-table; for IPF, a sum and a product for each cell and marginal.",
        f"- **Two processes** do {limits.scaling:.2f} times as many additions as one. The share of a row is its own "
        "ratio of two processes to one, divided by that.",
        "- Rates are per second of processor time, which other programs hardly slow. Two processes go by the clock.",
        "- **No share**: for searches and solvers no useful least amount of work is known.",
    ]


def machine(load: float, took: float) -> list[str]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    found = [f"{name} {installed}" for name in PACKAGES if (installed := version_of(name))]
    return [
        f"- {processor()}, {count(cores or 0, 'core')}, {memory:.0f} GiB of memory, {platform.system()}; "
        f"load before the run {load:.1f}.",
        *busy(load, cores or 1),
        f"- {today}, `python -m tests.benchmarks`, {took / 60:.1f} minutes.",
        f"- sdc {VERSION}{COMMIT}, Python {platform.python_version()}, {', '.join(found)}.",
    ]


def busy(load: float, cores: int) -> list[str]:
    """A warning where other programs took more than a tenth of the cores before the run."""
    if load <= cores / 10:
        return []
    return [
        "- **Other programs were running**: times, ratios and shares of limits are not reliable. Run the command again."
    ]


def version_of(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def processor() -> str:
    about = Path("/proc/cpuinfo")
    if about.exists():
        names = [
            text.split(":", 1)[1].strip() for text in about.read_text().splitlines() if text.startswith("model name")
        ]
        if names:
            return names[0]
    return platform.processor() or platform.machine()


def commit() -> str:
    """The commit that is measured, and whether files differ from it; empty where git cannot say."""
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    try:
        found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
    return f" (commit {found})"


COMMIT = commit()  # when the command starts
