"""Optimal suppression of a two-way table by pytauargus (tau-ARGUS with HiGHS), in a process of its own."""

import contextlib
import csv
import tempfile
import time
from pathlib import Path


def suppress(counts: list[list[int]], small_count: int, width: int) -> tuple[float, list[list[bool]]]:
    """Seconds of the batch, with its files, and which cells it withholds; the margins stay public.

    By an a priori file each cell costs its records and one more, and each small count n may be 0, and `width` at least.
    """
    from pytauargus.arb import micro_arb
    from pytauargus.engine import run_batch
    from pytauargus.micro import micro_asc_rda

    cells = {(f"a{a:02}", f"b{b:02}"): n for a, row in enumerate(counts) for b, n in enumerate(row)}
    lines = [(*cell, "C", n + 1) for cell, n in cells.items()]
    for cell, n in cells.items():
        if 0 < n <= small_count:
            lines += [(*cell, "U"), (*cell, "PL", n, width - n)]
    margins = {("Total", "Total"), *((a, "Total") for a, _ in cells), *(("Total", b) for _, b in cells)}
    lines += [(*cell, "P") for cell in sorted(margins)]
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):  # solvers leave files
        records, metadata, batch, out, known = (
            str(Path(folder) / f"f.{e}") for e in ("asc", "rda", "arb", "tab", "hst")
        )
        Path(known).write_text("".join(",".join(map(str, line)) + "\n" for line in lines))
        columns = {"A": [a for a, _ in cells], "B": [b for _, b in cells], "n": list(cells.values())}
        micro_asc_rda(columns, asc_filename=records, rda_filename=metadata)
        micro_arb(
            arb_filename=batch,
            asc_filename=records,
            rda_filename=metadata,
            explanatory_vars=[["A", "B"]],
            response_var="n",
            safety_rules="",
            apriori=[known],
            suppress="OPT(1)",
            output_names=[out],
            output_type="5",
            output_options="SO+",
        )
        begun = time.perf_counter()
        run_batch(batch)
        took = time.perf_counter() - begun
        with Path(out).open(newline="") as file:
            status = {(row[0], row[1]): row[5] for row in csv.reader(file, delimiter=";")}
    if any(status[cell] != "P" for cell in margins):
        raise RuntimeError("pytauargus withholds margins")
    hidden = [[status[f"a{a:02}", f"b{b:02}"] in {"U", "M"} for b in range(len(row))] for a, row in enumerate(counts)]
    return took, hidden
