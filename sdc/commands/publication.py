"""The commands about what was published: what several publications tell together, and the ledger of all of them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdc.commands.options import Json, SmallCount, print_json, write_page
from sdc.commands.panels import INSPECT, MAINTAIN, PUBLISH
from sdc.paths import checked_path
from sdc.refusal import NOT_RELEASABLE

if TYPE_CHECKING:
    from sdc.public.check import Composition

publications = typer.Typer()
MOST_SHOWN = 20


@publications.command(rich_help_panel=PUBLISH)
def check(
    folders: Annotated[
        list[Path],
        typer.Argument(
            parser=checked_path, metavar="FOLDER...", help="Published folders or files of tables of counts."
        ),
    ],
    relations: Annotated[
        Path | None,
        typer.Option(parser=checked_path, metavar="FILE", help="How they relate: a list as `earlier` of a config is."),
    ] = None,
    cells: Annotated[
        str, typer.Option(help="at-risk: those that may be small; or all that may have records")
    ] = "at-risk",
    min_width: Annotated[
        int | None, typer.Option(min=1, help="Status 3 where a cell that may be small is bounded more narrowly.")
    ] = None,
    small_count: SmallCount = None,
    n_rule: Annotated[
        int | None, typer.Option(min=2, help="Status 3 where a published count is from 1 to n - 1.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Compute what several publications reveal together.

    Shows whether they agree, and the bounds of each cell.
    """
    from sdc import api

    small = small_count or 2
    found = api.check(*folders, relations=relations, cells=cells, min_width=min_width, small_count=small, n_rule=n_rule)
    if as_json:
        rule = {} if n_rule is None else {"n_rule": n_rule, "few_counts": [asdict(one) for one in found.few_counts]}
        print_json({**_facts(found), "min_width": min_width, "narrow_cells": found.narrow_cells, **rule})
    else:
        _print(found)
        if min_width is not None and found.consistent:
            print(
                f"{found.narrow_cells} cells that may have 1 to {small} records have bounds narrower than {min_width}"
            )
        for one in found.few_counts:
            print(f"{one.counts} counts of {one.sub_table} in {one.source} break the n-rule of {n_rule}")
    raise typer.Exit(0 if found.is_kept else NOT_RELEASABLE)


@publications.command(rich_help_panel=PUBLISH)
def ledger(
    file: Annotated[Path, typer.Argument(parser=checked_path, metavar="FILE", help="The ledger.")],
    new: Annotated[bool, typer.Option("--new", help="Make it, with its key beside it; keep both safe.")] = False,
    old: Annotated[
        Path | None,
        typer.Option("--from", parser=checked_path, metavar="OLD", help="Begin with those of one of version 0.1."),
    ] = None,
    as_json: Json = False,
) -> None:
    """List what was published, and check the chain of entries.

    Each entry is chained to the previous one. A broken chain is refused.
    """
    from sdc.record.ledger import ledger as read_or_make

    found = read_or_make(file, new=new, old=old)
    if as_json:
        print_json({"ledger": str(file), "entries": [entry.facts for entry in found.entries]})
        return
    print(found)
    for entry in found.entries:
        tables = ", ".join("*".join(names) for names in entry.sub_tables) or "the total"
        print(f"{entry.number:4}  {entry.published}  {entry.name}  table {entry.table[:12]}  {tables}")
        for what, _ in entry.known["foreign"]:
            print(f"      judged together with {what}")
        for said in entry.known["declared"]:
            print(f"      by the word of its config {said}")


@publications.command(rich_help_panel=INSPECT)
def compare(
    before: Annotated[Path, typer.Argument(parser=checked_path, metavar="RUN", help="A run folder.")],
    after: Annotated[Path, typer.Argument(parser=checked_path, metavar="RUN", help="Another one.")],
    as_json: Json = False,
) -> None:
    """Show what changed between two runs.

    Lists the changes of config and table, and the sub-tables that came or went, with reasons.
    """
    from sdc.stages.finished import compare as compare_runs

    found = compare_runs(before, after)
    if as_json:
        print_json({"before": str(before), "after": str(after), **found.facts})
        return
    for what, changes in (("config", found.config), ("table", found.table)):
        for key, (one, other) in changes.items():
            print(f"{what:8}{key}: {one} -> {other}")
    print(f"sub-tables: {found.release[0]} -> {found.release[1]}")
    for label, cells in found.in_part.items():
        print(f"{label}: {' -> '.join(map(_of_part, cells))}")
    for sign, rows in (("+", found.came), ("-", found.went)):
        for names, why in rows:
            print(f"{sign} {'*'.join(names)}{': ' if why else ''}{why}")
    if not (found.config or found.table or found.in_part or found.came or found.went):
        print("nothing differs")


def _of_part(told: int | str | None) -> str:
    if told is None:
        return "not in part"
    return told if isinstance(told, str) else f"{told} cells withheld"


@publications.command(rich_help_panel=MAINTAIN)
def docs(
    context: typer.Context,
    out: Annotated[
        Path, typer.Option(parser=checked_path, metavar="FILE", help="The page, a new file or an old one of it.")
    ] = Path("handbook.html"),
    as_json: Json = False,
) -> None:
    """Write the handbook as one HTML page.

    It has a page for each feature, every command, every Python function and every key of a config.
    """
    from sdc.handbook import handbook
    from sdc.handbook.lists import lists

    page = handbook(lists(context.find_root().command))
    write_page(out, page, "--out")
    if as_json:
        print_json({"handbook": str(out), "bytes": len(page.encode())})
        return
    print(f"handbook  {out}")


def _facts(found: Composition) -> dict[str, Any]:
    rows = zip(found.cells.tolist(), found.outer.tolist(), found.inner.tolist(), strict=True)
    return {
        "consistent": found.consistent,
        "reason": found.reason,
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
    print(f"they agree; {len(found.cells)} cells, bounds by {found.method or 'nothing'}, narrowest first")
    print(f"{'reached':>17} {'within':>17}  cell")
    first = _facts(found.narrowest_first())["cells"]
    for row in first[:MOST_SHOWN]:
        cell = " ".join(f"{name}={category}" for name, category in row["cell"].items())
        print(f"{row['inner']!s:>17} {row['outer']!s:>17}  {cell}")
    if len(first) > MOST_SHOWN:
        print(f"and {len(first) - MOST_SHOWN} more; --json has all")
