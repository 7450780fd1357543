"""Commands about publications: check, ledger, attack, compare and docs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from sdc.commands.options import (
    INSPECT,
    MAINTAIN,
    PUBLISH,
    CommandResult,
    command,
    file_option,
    named,
    require_columns_file,
    run_path,
    write_columns_file,
    write_page,
)
from sdc.model.errors import many
from sdc.paths import checked_path
from sdc.refusal import NOT_RELEASABLE

if TYPE_CHECKING:
    from sdc.public.attack import Attack
    from sdc.public.check import Composition
    from sdc.stages.finished import Comparison

MOST_SHOWN, MEAN = 20, "mean of seeds"
Relations = Annotated[
    Path | None, file_option("How the tables relate: a list like `earlier` in a config.", "--relations")
]


@command(PUBLISH)
def check(
    folders: Annotated[
        list[Path],
        Argument(parser=checked_path, metavar="FOLDER...", help="Published folders or files of tables of counts."),
    ],
    relations: Relations = None,
    cells: Annotated[
        str, Option(help="at-risk (cells that may be small) or all (cells that may have records)")
    ] = "at-risk",
    min_width: Annotated[
        int | None, Option(min=1, help="Status 3 unless all cells that may be small are shown to have bounds so wide.")
    ] = None,
    small_count: Annotated[int, Option(min=1, max=1 << 53, help="Cells with 1 to this count are at risk.")] = 2,
    min_frequency: Annotated[
        int | None,
        Option("--min-frequency", "--n-rule", min=2, help="Status 3 if a published count is from 1 to below this."),
    ] = None,
) -> CommandResult:
    """Check what several publications reveal together, for publishers and auditors.

    Prints whether they agree, and the bounds of each cell.
    """
    from sdc import api
    from sdc.executor import IN_PROCESS
    from sdc.progress import Progress, Watched

    rules: dict[str, Any] = {"min_width": min_width, "small_count": small_count, "min_frequency": min_frequency}
    with Progress(does="check") as progress:
        watched = Watched(IN_PROCESS, progress)
        found = api.check(*folders, relations=relations, cells=cells, executor=watched, **rules)
    counted = {"narrow_cells": found.narrow_cells, "undecided_cells": found.undecided_cells}
    facts = {**_facts(found), "min_width": min_width, **counted}
    if min_frequency is not None:
        few = [asdict(one) for one in found.few_counts]
        facts |= {"min_frequency": min_frequency, "n_rule": min_frequency, "few_counts": few}

    def show() -> None:
        _print(found)
        if min_width is not None and found.consistent:
            cells = f"{many(found.narrow_cells, 'cell')} that can have 1 to {small_count} records"
            print(f"bounds narrower than {min_width}: {cells}")
            if found.undecided_cells:
                print(f"{found.undecided_cells} more are not shown to reach it, nor shown to be narrower")
        for one in found.few_counts:
            print(f"{many(one.counts, 'count')} of {one.sub_table} in {one.source} below {min_frequency}")

    return CommandResult(facts, show, 0 if found.is_kept else NOT_RELEASABLE)


@command(PUBLISH)
def ledger(
    file: Annotated[Path, Argument(parser=checked_path, metavar="FILE", help="The ledger.")],
    new: Annotated[bool, Option("--new", help="Create it and its key file; store both safely.")] = False,
    old: Annotated[
        Path | None, file_option("Start with the entries of a ledger of version 0.1.", "--from", metavar="OLD")
    ] = None,
) -> CommandResult:
    """List the publications of a ledger and check its chain.

    Each entry is chained to the previous one. A broken chain is refused.
    """
    from sdc.record.ledger import ledger as read_or_make

    found = read_or_make(file, new=new, old=old)

    def show() -> None:
        print(found)
        for entry in found.entries:
            whole = [*map("*".join, entry.sub_tables)]
            parts = [f"{label} ({many(cells, 'cell')} suppressed)" for label, cells in entry.suppressed.items()]
            tables = ", ".join([*whole, *parts, *(f"{label} (rounded)" for label in entry.rounded)]) or "the total"
            print(f"{entry.number:4}  {entry.published}  {entry.name}  table {entry.table[:12]}  {tables}")
            for what, _ in entry.known["foreign"]:
                print(f"      judged together with {what}")
            for declaration in entry.known["declared"]:
                print(f"      as declared in its config: {declaration}")

    return CommandResult({"ledger": str(file), "entries": [entry.facts for entry in found.entries]}, show)


@command(PUBLISH, name="attack")
def attack_command(
    release: Annotated[
        Path, Argument(parser=checked_path, metavar="RELEASE", help="A published folder or file of tables.")
    ],
    truth: Annotated[
        Path | None, Option(parser=run_path, metavar="RUN", help="The run that published it, to count correct guesses.")
    ] = None,
    seeds: Annotated[int, Option(help="Number of starts of the reconstruction; 0: independence model only.")] = 3,
    relations: Relations = None,
    out: Annotated[
        Path | None, file_option("Write the guessed table to this Parquet or CSV file as well.", "--out")
    ] = None,
) -> CommandResult:
    """Reconstruct a published table, as an intruder would.

    Uses only what is published. With --truth, shows which guesses are right.
    """
    from sdc.stages.answers import attack

    require_columns_file(out)
    found = attack(release, truth=truth, seeds=seeds, relations=relations)
    facts: dict[str, Any] = {"release": str(release), **found.facts}
    if found.right is not None:
        facts["truth"] = found.right.facts
    write_columns_file(out, lambda: found.columns(found.schema))
    return CommandResult(facts, lambda: _print_attack(facts, found))


def _print_attack(facts: dict[str, Any], found: Attack) -> None:
    of = f"{facts['published']} published; {facts['telling']} of them imply the others"
    print(f"tables        {of}; {facts['records']} records")
    print(f"guessed       {facts['cells']} cells by {'; '.join(facts['methods'])}")
    if "truth" in facts:
        _print_truth(facts["truth"])
        return
    number, first = found.least(MOST_SHOWN)
    print(f"{many(number, 'cell')} guessed to have records; the smallest first, --out FILE has all")
    print("{:>9} {:>13}  {}".format("guessed", "independence", "cell"))
    for row in first:
        print(f"{row['guessed']:9.2f} {row['independence']:13.2f}  {named(row['cell'])}")


def _print_truth(truth: dict[str, Any]) -> None:
    cells, small = truth["at_risk_cells"], truth["small_count"]
    certain = f"{truth['certain_cells']} hold a record for certain"
    print(f"at risk       {many(cells, 'cell')} of 1 to {small} records; {certain}")
    print("{:>13} {:>9} {:>13} {:>12}  {}".format("at risk right", "provable", "guessed small", "of all right", "by"))
    rows = {**truth["right"], **({MEAN: truth["mean"]} if truth["mean"] else {})}
    for name, row in rows.items():
        numbers = (
            f"{row[key]:.1f}" if name == MEAN else row[key] for key in ("at_risk", "provable", "claimed", "cells")
        )
        print("{:>13} {:>9} {:>13} {:>12}  {}".format(*numbers, name))
    promise = "met" if truth["width_kept"] else "not proven"
    print(f"promised      each at-risk cell has a width of at least {truth['min_width']}: {promise}")
    print("not promised  that no guess is correct")
    print(
        "{:>9} {:>17} {:>9} {:>13} {:>11}  {}".format("count", "bounds", "guessed", "independence", "posterior", "cell")
    )
    for row in truth["cells"][:MOST_SHOWN]:
        print("{:9} {!s:>17} {:>9} {:13.2f} {:>11}  {}".format(*_guess_row(row), named(row["cell"])))
    if cells > MOST_SHOWN:
        print(f"and {cells - MOST_SHOWN} more; --json has all")


def _guess_row(row: dict[str, Any]) -> tuple[Any, ...]:
    *guessed, alone = row["guessed"].values()
    mean = f"{sum(guessed) / len(guessed):.2f}" if guessed else ""
    likely = f"{next(iter(row['posterior'].values())):.4f}" if row["posterior"] else ""
    return row["count"], row["outer"], mean, alone, likely


@command(PUBLISH)
def synthesize(
    releases: Annotated[
        list[Path], Argument(parser=checked_path, metavar="RELEASE...", help="Published folders or files of tables.")
    ],
    out: Annotated[Path, file_option("An empty folder for the synthetic tables.", "--out")],
    draws: Annotated[int, Option(help="How many tables are drawn.")] = 1,
    seed: Annotated[int, Option(help="Of the first table; the next ones have the next seeds.")] = 0,
    relations: Relations = None,
    records: Annotated[bool, Option("--records", help="Write a row a record instead of counts.")] = False,
    parquet: Annotated[bool, Option("--parquet", help="Write Parquet instead of CSV.")] = False,
) -> CommandResult:
    """Draw synthetic tables that agree with every published count.

    Uses only what is published: the confidential table is never read.
    """
    from sdc.public.relation import relations_given
    from sdc.public.synthetic import synthesize, write_synthetic

    drawn = synthesize(releases, draws=draws, seed=seed, relations=relations_given(relations))
    files = write_synthetic(drawn, out, records=records, parquet=parquet)
    facts = {"out": str(out), "tables": [{"file": name, **one.facts} for name, one in files.items()]}

    def show() -> None:
        for name, one in files.items():
            print(f"{name:24} {one.headline}")

    return CommandResult(facts, show)


@command(INSPECT)
def compare(
    before: Annotated[Path, Argument(parser=run_path, metavar="RUN", help="A run folder.")],
    after: Annotated[Path, Argument(parser=run_path, metavar="RUN", help="Another one.")],
) -> CommandResult:
    """Show what changed between two runs.

    Lists the changes of config and table, and the sub-tables that came or went, with reasons.
    """
    from sdc.stages.finished import compare as compare_runs

    found = compare_runs(before, after)
    facts = {"before": str(before), "after": str(after), **found.facts}
    return CommandResult(facts, lambda: _print_comparison(found))


def _print_comparison(found: Comparison) -> None:
    for what, changes in (("config", found.config), ("table", found.table)):
        for key, (one, other) in changes.items():
            print(f"{what:8}{key}: {one} -> {other}")
    print(f"sub-tables: {found.release[0]} -> {found.release[1]}")
    for label, cells in found.in_part.items():
        print(f"{label}: {' -> '.join(map(_change_text, cells))}")
    for sign, rows in (("+", found.came), ("-", found.went)):
        for names, why in rows:
            print(f"{sign} {'*'.join(names)}{': ' if why else ''}{why}")
    if not (found.config or found.table or found.in_part or found.came or found.went):
        print("nothing differs")


def _change_text(change: int | str | None) -> str:
    if change is None:
        return "not suppressed"
    return change if isinstance(change, str) else f"{change} suppressed cells"


@command(MAINTAIN)
def docs(
    context: typer.Context,
    out: Annotated[Path, file_option("The page; an existing file is replaced.", "--out")] = Path("handbook.html"),
) -> CommandResult:
    """Write the handbook as one HTML page.

    It describes every feature, command, Python function and config key.
    """
    from sdc.handbook import handbook
    from sdc.handbook.lists import lists

    page = handbook(lists(context.find_root().command))
    write_page(out, page, "--out")
    return CommandResult({"handbook": str(out), "bytes": len(page.encode())}, lambda: print(f"handbook  {out}"))


def _facts(found: Composition) -> dict[str, Any]:
    rows = zip(found.cells.tolist(), found.outer.tolist(), found.inner.tolist(), strict=True)
    return {
        "consistent": found.consistent,
        "reason": found.reason,
        "warnings": found.warnings,
        "method": found.method,
        "cells": [
            {"cell": found.schema.named(cell), "outer": outer, "inner": inner, "exact": outer == inner}
            for cell, outer, inner in rows
        ],
    }


def _print(found: Composition) -> None:
    if not found.consistent:
        print(f"they contradict each other: {found.reason}")
        return
    if not len(found.cells):
        print("they agree; no cell can have a small count")
        return
    print(f"they agree; {many(len(found.cells), 'cell')}, bounds by {found.method}, narrowest first")
    print(f"{'reached':>17} {'within':>17}  cell")
    first = _facts(found.narrowest_first())["cells"]
    for row in first[:MOST_SHOWN]:
        print(f"{row['inner']!s:>17} {row['outer']!s:>17}  {named(row['cell'])}")
    if len(first) > MOST_SHOWN:
        print(f"and {len(first) - MOST_SHOWN} more; --json has all")
