"""The command that attacks what was published, as an intruder would."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdc.commands.options import Json, print_json, require_columns_file, write_columns_file
from sdc.commands.panels import PUBLISH
from sdc.paths import checked_path

if TYPE_CHECKING:
    from sdc.public.attack import Attack

attacks = typer.Typer()
MOST_SHOWN, MEAN = 20, "mean of seeds"


@attacks.command("attack", rich_help_panel=PUBLISH)
def attack_command(
    release: Annotated[
        Path, typer.Argument(parser=checked_path, metavar="RELEASE", help="A published folder or file of tables.")
    ],
    truth: Annotated[
        Path | None,
        typer.Option(
            "--truth", parser=checked_path, metavar="RUN", help="The run that published it: says what is guessed right."
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(help="Of the reconstruction, so many from 0 on; 0 for independence alone.")] = 3,
    relations: Annotated[
        Path | None,
        typer.Option(
            parser=checked_path, metavar="FILE", help="How tables relate: a list as `earlier` of a config is."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            parser=checked_path, metavar="FILE", help="Write the guessed table to this Parquet or CSV file as well."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Reconstruct a published table, as an intruder would.

    Uses only what is published. With --truth, shows which guesses are right.
    """
    from sdc.stages.answers import attack

    require_columns_file(out)
    found = attack(release, truth=truth, seeds=seeds, relations=relations)
    facts: dict[str, Any] = {"release": str(release), **found.facts}
    if found.right is not None:
        facts["truth"] = found.right.facts
    if out is not None:
        write_columns_file(out, found.columns(found.schema))
    if as_json:
        print_json(facts)
    else:
        _print(facts, found)


def _print(facts: dict[str, Any], found: Attack) -> None:
    of = f"{facts['published']} published, of which {facts['telling']} tell the others"
    print(f"tables        {of}; {facts['records']} records")
    print(f"guessed       {facts['cells']} cells by {'; '.join(facts['methods'])}")
    if "truth" in facts:
        _print_truth(facts["truth"])
    else:
        _print_guesses(found)


def _print_guesses(found: Attack) -> None:
    number, first = found.least(MOST_SHOWN)
    print(f"{number} cells are guessed to have records, these the fewest; --out FILE has all")
    print("{:>9} {:>13}  {}".format("guessed", "independence", "cell"))
    for row in first:
        print(f"{row['guessed']:9.2f} {row['independence']:13.2f}  {_named(row)}")


def _print_truth(told: dict[str, Any]) -> None:
    """How many guesses of each intruder are right, what was promised, and the at-risk cells, narrowest first."""
    cells, small = told["at_risk_cells"], told["small_count"]
    print(f"at risk       {cells} cells of 1 to {small} records; {told['certain_cells']} hold a record for certain")
    print("{:>13} {:>9} {:>13} {:>12}  {}".format("at risk right", "provable", "guessed small", "of all right", "by"))
    rows = {**told["right"], **({MEAN: told["mean"]} if told["mean"] else {})}
    for name, row in rows.items():
        numbers = (
            f"{row[key]:.1f}" if name == MEAN else row[key] for key in ("at_risk", "provable", "claimed", "cells")
        )
        print("{:>13} {:>9} {:>13} {:>12}  {}".format(*numbers, name))
    kept = "kept" if told["width_kept"] else "not shown to be kept"
    print(f"promised      each at-risk cell has a width of {told['min_width']} at least: {kept}")
    print("not promised  that no guess is right")
    print(
        "{:>9} {:>17} {:>9} {:>13} {:>11}  {}".format("count", "bounds", "guessed", "independence", "posterior", "cell")
    )
    for row in told["cells"][:MOST_SHOWN]:
        print("{:9} {!s:>17} {:>9} {:13.2f} {:>11}  {}".format(*_told(row), _named(row)))
    if cells > MOST_SHOWN:
        print(f"and {cells - MOST_SHOWN} more; --json has all")


def _named(row: dict[str, Any]) -> str:
    return " ".join(f"{name}={category}" for name, category in row["cell"].items())


def _told(row: dict[str, Any]) -> tuple[Any, ...]:
    *guessed, alone = row["guessed"].values()
    mean = f"{sum(guessed) / len(guessed):.2f}" if guessed else ""
    likely = f"{next(iter(row['posterior'].values())):.4f}" if row["posterior"] else ""
    return row["count"], row["outer"], mean, alone, likely
