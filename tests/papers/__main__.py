"""What the founding papers print, recomputed by the product's own verbs: `python -m tests.papers`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from sdc.commands.options import Json, print_json
from sdc.model.errors import SdcError
from sdc.paths import checked_path
from sdc.refusal import as_command
from tests.papers.item import Outcome, Standing
from tests.papers.papers import WORDS, chosen, computed, facts, new_folder, numbers, write
from tests.papers.sources import Sources


def papers(
    out: Annotated[
        Path | None,
        typer.Option(
            parser=checked_path, metavar="FOLDER", help="Write papers.html and papers.json in this new folder."
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(parser=checked_path, metavar="FOLDER", help="With cps13.parquet; without it some items need it."),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="ITEM", help="Only this item, such as kdsf-table-3; once for each.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Recompute the tables and figures of the founding papers.

    Shows them beside the printed ones, with the reason for each difference. Status 1 if a difference has no known
    reason.
    """
    items, sources = chosen(only or []), Sources(data)
    if out is None:
        found = computed(items, sources, say=_say)
    else:
        with new_folder(out) as into:
            found = computed(items, sources, pictures=True, say=_say)
            write(found, into)
    if as_json:
        print_json(facts(found))
    else:
        for one in found:
            _print(one)
        told = ", ".join(f"{number} {WORDS[standing]}" for standing, number in numbers(found).items() if number)
        print(f"{len(found)} items: {told}")
        if out is not None:
            print(f"page  {out}/papers.html")
    if unexplained := [one.item.key for one in found if one.standing is Standing.UNEXPLAINED]:
        raise SdcError(
            f"{', '.join(unexplained)}: what is computed is neither what is printed nor what is known to differ; "
            "report it"
        )


def _say(one: Outcome) -> None:
    print(f"{one.item.key}: {one.standing.value}", file=sys.stderr)


def _print(one: Outcome) -> None:
    print(f"{one.standing.value:12}[{one.item.paper}] {one.item.where} ({one.item.key})")
    if one.why:
        print(f"            {one.why}")


if __name__ == "__main__":
    with as_command():
        typer.run(papers)
